"""The QMD backend in this process: whole documents of collections, found by full text, vectors and expansion.

Its index has the schema of the program QMD, which can open it; the pipeline is that of a profile
(``qmd-documented``, ``qmd-2.8``), and any other profile can rank its pools too.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken, RunningCalls
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Excerpt, Note, Progress
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.qmd.queries import QueryDocument
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.retrieval import BackendContext, Capabilities, IndexStatus
from openclaw_mem_engine.retrieval.freshness import note_by_products, note_staleness
from openclaw_mem_engine.retrieval.qmd_lists import ListBuilder, line_signals
from openclaw_mem_engine.retrieval.qmd_sync import NO_COLLECTION, KeepingUp
from openclaw_mem_engine.retrieval.reranking import StoredScores
from openclaw_mem_engine.sidecar.paths import collections_of, excerpt, shown_path
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.sync.lock import SyncBusy
from openclaw_mem_engine.workspace.rules import note_date

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.qmd.collections import Collection
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.stores.qmd.searching import Document


def open_backend(context: BackendContext) -> QmdBackend:
    """Open the index of the settings (made empty when there is none). Raises IndexUnavailable."""
    settings = context.settings
    backend = QmdBackend(context, open_store(context), *collections_of(settings))
    with suppress(SyncBusy):  # who updates the index takes them in
        backend.take_in_collections()
    return backend


def open_store(context: BackendContext) -> QmdStore:
    """The index of the settings. Raises IndexUnavailable."""
    extension = context.settings.vector_extension and "no-sqlite-vec" not in context.faults
    return QmdStore.open(context.settings.index_path, extension=extension)


class QmdBackend(KeepingUp):
    """Searches documents (contract: ``retrieval.Backend``). Thread-safe. A candidate is a whole document."""

    name = "qmd"
    capabilities = Capabilities(operands=True, providers=True, sync=True, files=True, doctor=True)
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
            return self._pool(query.strip(), knobs, stop)

    def _pool(self, text: str, knobs: Knobs, cancel: CancelToken) -> Pool:
        if not text:
            raise UsageError("A query is required.")
        query = QueryDocument.parse(text)
        builder = ListBuilder(
            self.store, self.embedder, knobs, cancel, self.only, self._context.embedders.fallback
        )
        builder.build(query, self._context.expander)
        answered = builder.answered if any(found.kind == "vector" for found in builder.lists) else None
        self.journal.answered(builder.fallback, answered.id if answered is not None else None)
        ids = dict.fromkeys(row.chunk_id for found in builder.lists for row in found.rows)
        collections = {one.name: one for one in self.store.collections()}
        documents = self.store.documents(ids)
        candidates = {i: self._candidate(one, collections[one.collection]) for i, one in documents.items()}
        start = time.perf_counter()
        first = dict.fromkeys(r.chunk_id for found in builder.lists for r in found.rows[: knobs.candidates])
        texts = {id_: candidates[id_].text for id_ in first if id_ in candidates}
        signals = line_signals(texts, builder.positions, query.primary, query.intent)
        builder.timings["lines"] = (time.perf_counter() - start) * 1000
        freshness, notes = (
            self.known,
            [*self.notes, *([] if collections else [NO_COLLECTION]), *builder.notes],
        )
        note_staleness(freshness, notes)
        note_by_products(candidates.values(), notes)
        served = space_of(answered)
        return Pool(
            query.primary,
            # A document may vanish between two reads when another process updates.
            tuple(
                replace(found, rows=tuple(row for row in found.rows if row.chunk_id in candidates))
                for found in builder.lists
            ),
            candidates,
            self._context.clock(),
            {builder.lists[0].id: signals} if builder.lists else {},
            *served[:2],
            self.name,
            builder.fallback,
            freshness,
            tuple(notes),
            builder.timings,
            intent=query.intent,
        )

    def _candidate(self, document: Document, collection: Collection) -> Candidate:
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

    def get(self, path: str, start: int | None = None, lines: int | None = None) -> Excerpt:
        return excerpt(self.settings, path, start, lines)

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
