"""The QMD backend in this process: whole documents of collections, found by full text, vectors and expansion.

Its index has the schema of the program QMD, which can open it; the pipeline is that of a profile
(``qmd-documented``, ``qmd-2.8``), and any other profile can rank its pools too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken, RunningCalls
from openclaw_mem_engine.model import Note, Progress
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.qmd.queries import QueryDocument
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, CandidateList, Pool, Signal
from openclaw_mem_engine.retrieval import BackendContext, Capabilities, IndexStatus, PassageQuestion
from openclaw_mem_engine.retrieval.freshness import note_by_products, note_staleness
from openclaw_mem_engine.retrieval.qmd_lists import ListBuilder, line_signals
from openclaw_mem_engine.retrieval.qmd_sync import NO_COLLECTION, KeepingUp
from openclaw_mem_engine.retrieval.reranking import StoredScores
from openclaw_mem_engine.retrieval.scoped import checked_query
from openclaw_mem_engine.sidecar.paths import collections_of, shown_path
from openclaw_mem_engine.stores.qmd.schema import ADVICE, REPAIRED
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.sync.lock import SyncBusy
from openclaw_mem_engine.workspace.rules import note_date

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.providers.base import Embedder
    from openclaw_mem_engine.qmd.collections import Collection
    from openclaw_mem_engine.retrieval.expansion import Expander
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.stores.qmd.searching import Document
    from openclaw_mem_engine.why_not import WhyNot


def open_backend(context: BackendContext) -> QmdBackend:
    """Open the index of the settings (made empty when there is none). Raises IndexUnavailable."""
    settings = context.settings
    backend = QmdBackend(context, open_store(context), *collections_of(settings))
    with suppress(SyncBusy):  # who updates the index takes them in
        backend.take_in_collections()
    return backend


def open_store(context: BackendContext) -> QmdStore:
    """The index of the settings. Raises IndexUnavailable."""
    settings = context.settings
    extension = settings.vector_extension and "no-sqlite-vec" not in context.faults
    advice = ADVICE if settings.openclaw.switched else REPAIRED  # the doctor looks at the configured one
    return QmdStore.open(settings.index_path, extension=extension, advice=advice)


class FoundDocuments(NamedTuple):
    """The candidate lists of one query, of 200 rows at most, with their documents; the builder that made them
    holds all rows that were asked for. ``collected``: there is a collection to search."""

    query: QueryDocument
    builder: ListBuilder
    lists: tuple[CandidateList, ...]
    candidates: Mapping[str, Candidate]
    collected: bool

    @property
    def answered(self) -> Embedder | None:
        """The embedder whose vectors were searched."""
        vectors = any(found.kind == "vector" for found in self.lists)
        return self.builder.answered if vectors else None

    def signals(
        self, knobs: Knobs, known: dict[tuple[str, int | None], Signal]
    ) -> dict[str, dict[str, Signal]]:
        """The scores of the lines of each document inside the pool, by list and document. Those that are
        ``known``, by document and where its best chunk begins, are not made again."""
        if not self.lists:
            return {}
        positions, first = self.builder.positions, dict[str, tuple[str, int | None]]()
        for found in self.lists:
            first.update((i, (i, positions.get(i))) for i, _ in found.rows[: knobs.candidates])
        texts = {i: self.candidates[i].text for i, key in first.items() if key not in known}
        made = line_signals(texts, positions, self.query.primary, self.query.intent)
        known.update((first[i], signal) for i, signal in made.items())
        return {self.lists[0].id: {i: known[key] for i, key in first.items()}}


class QmdBackend(KeepingUp):
    """Searches documents (contract: ``retrieval.Backend``). Thread-safe. A candidate is a whole document."""

    name = "qmd"
    capabilities = Capabilities(
        operands=True, providers=True, sync=True, files=True, why_not=True, doctor=True
    )
    instead = "Its documents are shown by `openclaw-mem qmd ls`, `get` and `status`."

    def __init__(
        self,
        context: BackendContext,
        store: QmdStore,
        configured: tuple[Collection, ...],
        odd: tuple[Note, ...] = (),
    ) -> None:
        super().__init__(context, store, configured, odd)
        #: The collections that are searched; None: those that are by default.
        self.only: tuple[str, ...] | None = None
        self.scores = StoredScores(store)
        self._searching = RunningCalls()

    @property
    def notes(self) -> tuple[Note, ...]:
        unkept = self.journal.log.note
        return (*self._odd, *self._context.notes(), *((unkept,) if unkept else ()))

    # -- searching --------------------------------------------------------------------------------------

    def retrieve(
        self,
        query: str,
        knobs: Knobs,
        cancel: CancelToken | None = None,
        *,
        compare: bool = False,  # noqa: ARG002 - there is one vector space
    ) -> Pool:
        with self._searching.until(cancel) as stop, self.journal.searching():
            return self.pool_of(self.search(query, knobs, stop), knobs)

    def why_not(self, question: PassageQuestion, cancel: CancelToken | None = None) -> WhyNot:
        from openclaw_mem_engine.retrieval.qmd_passages import DocumentLookup

        with self._searching.until(cancel) as stop:
            return DocumentLookup(self, question, stop).why_not()

    @property
    def expander(self) -> Expander | None:
        return self._context.expander

    def search(
        self, text: str, knobs: Knobs, cancel: CancelToken, *, most: int = OVERFETCH
    ) -> FoundDocuments:
        """The candidate lists of a query, of ``most`` rows each, and the documents of their first rows."""
        text = checked_query(text)
        builder = ListBuilder(
            self.store, self.embedder, knobs, cancel, self.only, self._context.embedders.fallback, most=most
        )
        found = self._built(builder, QueryDocument.parse(text), {})
        answered = found.answered
        self.journal.answered(builder.fallback, answered.id if answered is not None else None)
        return found

    def again(self, before: FoundDocuments, knobs: Knobs, cancel: CancelToken) -> FoundDocuments:
        """The lists of other knobs, of 200 rows, with what an earlier search found where it is the same."""
        old = before.builder
        builder = ListBuilder(self.store, self.embedder, knobs, cancel, self.only, old.instead)
        builder.searched, builder.variants = old.searched, old.variants
        return self._built(builder, before.query, before.candidates)

    def _built(
        self, builder: ListBuilder, query: QueryDocument, known: Mapping[str, Candidate]
    ) -> FoundDocuments:
        builder.build(query, self.expander)
        ids = dict.fromkeys(row.chunk_id for found in builder.lists for row in found.rows[:OVERFETCH])
        collections = {one.name: one for one in self.store.collections()}
        documents = self.store.documents(id_ for id_ in ids if id_ not in known)
        made = {i: self.candidate_of(one, collections[one.collection]) for i, one in documents.items()}
        candidates = {i: found for i in ids if (found := known.get(i) or made.get(i)) is not None}
        lists = tuple(
            # A document may vanish between two reads when another process updates.
            replace(found, rows=tuple(row for row in found.rows[:OVERFETCH] if row.chunk_id in candidates))
            for found in builder.lists
        )
        return FoundDocuments(query, builder, lists, candidates, bool(collections))

    def pool_of(
        self,
        found: FoundDocuments,
        knobs: Knobs,
        known: dict[tuple[str, int | None], Signal] | None = None,
    ) -> Pool:
        """The pool of these lists, with the scores of lines that the knobs need (see ``signals``)."""
        builder = found.builder
        start = time.perf_counter()
        signals = found.signals(knobs, {} if known is None else known)
        builder.timings["lines"] = (time.perf_counter() - start) * 1000
        none = [] if found.collected else [NO_COLLECTION]
        freshness, notes = self.known, [*self.notes, *none, *builder.notes]
        note_staleness(freshness, notes)
        note_by_products(found.candidates.values(), notes)
        served = space_of(found.answered)
        return Pool(
            found.query.primary,
            found.lists,
            found.candidates,
            self._context.clock(),
            signals,
            *served[:2],
            self.name,
            builder.fallback,
            freshness,
            tuple(notes),
            builder.timings,
            intent=found.query.intent,
        )

    def candidate_of(self, document: Document, collection: Collection) -> Candidate:
        path = shown_path(collection, document.path, self.settings.workspace)
        dated = note_date(path, collection.source)
        date: float | None = dated.epoch_seconds
        if dated.kind == "mtime":
            date = datetime.fromisoformat(document.modified_at).timestamp()
        text = document.text.removesuffix("\n")  # so that it has as many lines as the file
        last = text.count("\n") + 1
        return Candidate(document.id, path, 1, last, text, collection.source, date, dated.kind)

    # -- state ------------------------------------------------------------------------------------------

    def paths(self) -> tuple[str, ...]:
        return tuple(
            sorted(
                shown_path(one, entry.path, self.settings.workspace)
                for one in self.store.collections()
                for entry in self.store.ls(one.name)
            )
        )

    def status(self) -> IndexStatus:
        from openclaw_mem_engine.stores.base import SpaceSize

        found, embedder = self.store.status(), self.embedder
        waiting = self.store.pending(VectorSpace.of(embedder)) if embedder else 0
        vectors = found.texts - waiting if embedder else 0
        space = space_of(embedder)
        dims = self.store.vector_dims(VectorSpace.of(embedder)) or 0 if embedder else 0
        return IndexStatus(
            files=found.documents,
            chunks=found.texts,
            provider=embedder.id if embedder else "none",
            model=embedder.model if embedder else "",
            languages=embedder.languages if embedder else "any",
            vectors=vectors,
            index_path=str(self.store.path),
            index_bytes=found.bytes,
            vector_search="in-process",
            spaces=(SpaceSize(space, vectors, dims),) if vectors else (),
        )

    def files(self) -> Overview:
        from openclaw_mem_engine.inspection.documents import overview

        return overview(self.settings, self.store, self.embedder, self.freshness(), self.status().spaces)

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> DoctorReport:
        from openclaw_mem_engine.doctor import examine

        return examine(self.settings, self._context.embedders, deep=deep, progress=progress, cancel=cancel)

    def repair(
        self, report: DoctorReport, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> tuple[list[str], DoctorReport | None]:
        from openclaw_mem_engine.doctor import repair

        return repair(self.settings, self._context.embedders, self.journal, report, progress, cancel)

    def interrupt(self) -> None:
        self._searching.stop()
        self.store.interrupt()

    def close(self) -> None:
        self.store.close()
