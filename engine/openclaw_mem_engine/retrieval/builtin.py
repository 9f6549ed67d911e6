"""The builtin backend: the workspace's own SQLite index, searched into a pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken, RunningCalls
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexChanged, IndexDamaged, IndexUnavailable
from openclaw_mem_engine.model import Fallback, Freshness, Note, Progress
from openclaw_mem_engine.providers.base import space_of, stop_if_cancelled
from openclaw_mem_engine.providers.circuit_breaker import Embedders
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.retrieval import (
    EVERYTHING,
    PRUNE_WAIT_S,
    BackendContext,
    FoundLists,
    IndexStatus,
    PassageQuestion,
)
from openclaw_mem_engine.retrieval.candidate_lists import ListBuilder, candidates_of
from openclaw_mem_engine.retrieval.freshness import (
    FreshnessTracker,
    note_by_products,
    note_misfit,
    note_no_notes,
    note_staleness,
    notes_of,
)
from openclaw_mem_engine.retrieval.keywords import keyword_query, words_provided
from openclaw_mem_engine.retrieval.query_vectors import QueryVectors
from openclaw_mem_engine.retrieval.scoped import checked_query
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.stores import open_store
from openclaw_mem_engine.stores.base import CacheSize, IndexStore
from openclaw_mem_engine.stores.damage import version_of
from openclaw_mem_engine.stores.sqlite.files import damaged
from openclaw_mem_engine.sync.coordinator import SyncCoordinator
from openclaw_mem_engine.sync.events import Journal
from openclaw_mem_engine.sync.fingerprint import fingerprint_of, lacking, needs_rebuild
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.inspection.file_chunks import Anatomy
    from openclaw_mem_engine.ranking.unshown import Unshown
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.sync.plan import Plan
    from openclaw_mem_engine.why_not import WhyNot


def open_backend(context: BackendContext) -> BuiltinBackend:
    """Open the index of the settings (made empty when there is none). Raises IndexUnavailable."""
    settings, faults = context.settings, context.faults
    store = open_store(
        settings.store.kind,
        settings.index_path,
        resident=context.resident and "no-sqlite-vec" not in faults,
        extension=settings.vector_extension and "no-sqlite-vec" not in faults,
        full_text="no-fts5" not in faults,
        location=settings.store.location,
    )
    return BuiltinBackend(settings, store, context.embedders, context.clock, context.notes, context.journal)


class BuiltinBackend:
    """Retrieves from an :class:`IndexStore` (contract: ``retrieval.Backend``). Thread-safe. ``clock``
    gives epoch seconds; ``notes`` gives what else makes every answer less than it could be. The caller closes
    embedders and journal."""

    name = "builtin"
    fallback: Fallback | None = None
    scores = None
    capabilities = EVERYTHING

    def __init__(
        self,
        settings: Settings,
        store: IndexStore,
        embedders: Embedders,
        clock: Callable[[], float],
        notes: Callable[[], tuple[Note, ...]] = tuple,
        journal: Journal | None = None,
    ) -> None:
        self.settings = settings
        self.store = store
        self.embedders = embedders
        self._more_notes = notes
        self._clock = clock
        self.tracker = FreshnessTracker(settings, store, embedders)
        self._vectors = QueryVectors(store, embedders)
        #: The last search, and what its lists depend on.
        self.last: tuple[tuple[object, ...], FoundLists] | None = None
        self._searching = RunningCalls()
        self.journal = journal or Journal(settings, clock, kept=False)
        self._keywords = partial(keyword_query, store, embedders)
        self._words_provided = partial(words_provided, store, embedders.primary)
        self._coordinator = SyncCoordinator(
            settings, store, embedders, self.journal, clock, self.tracker.syncing
        )
        self._coordinator.sweep()

    @property
    def notes(self) -> tuple[Note, ...]:
        unkept, made = self.journal.log.note, notes_of(self.store, self.embedders.primary)
        return (*self._more_notes(), *made, *((unkept,) if unkept else ()))

    # -- keeping up -------------------------------------------------------------------------------------

    def sync(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        try:
            report = self._coordinator.sync(request, progress, cancel)
        except BaseException:
            self.tracker.forget()  # what it leaves only a scan can find out
            raise
        if report.waiting:
            self.tracker.look()  # it was not all done
        if request.budget_s is None:  # else the answer of the search says it
            primary = self.embedders.primary
            note_misfit(primary, self.store.vector_dims(space_of(primary)), report)
        return report

    def prune_cache(
        self, most: int, cancel: CancelToken | None = None, *, wait_s: float = PRUNE_WAIT_S
    ) -> int:
        # Not beside a sync, whose new vectors belong to no passage yet.
        with SyncLock(self.store.path, "pruning the cache").holding(wait_s, cancel):
            self.tracker.follow()
            return self.store.prune_cache(most)

    def plan(self, request: SyncRequest = DEFAULT_REQUEST, cancel: CancelToken | None = None) -> Plan:
        from openclaw_mem_engine.sync.plan import plan

        if self.store.is_present():
            return plan(self.settings, self.store, self.embedders, request, cancel)
        from tempfile import TemporaryDirectory

        # It was removed: what the sync then does is planned with an empty one, which is not kept.
        with TemporaryDirectory() as it, closing(open_store("sqlite", Path(it) / "main.sqlite")) as store:
            return plan(self.settings, store, self.embedders, request, cancel)

    def would_rebuild(self) -> bool:
        present = self.store.fingerprint()
        wanted = fingerprint_of(self.settings, self.embedders.primary)
        return present is not None and needs_rebuild(present, wanted)

    # -- state of the index -----------------------------------------------------------------------------

    def freshness(self) -> Freshness:
        return self.tracker.look()[0]

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(path for path, state in self.store.files().items() if not state.refusal))

    def status(self) -> IndexStatus:
        store, embedder = self.store, self.embedders.primary
        counts, spaces, own = store.counts(), store.spaces(), space_of(embedder)
        covered = sum(size.vectors for size in spaces if size.space == own)
        return IndexStatus(
            counts.files,
            counts.chunks,
            embedder.id if embedder else "none",
            embedder.model if embedder else "",
            embedder.languages if embedder else "any",
            covered,
            counts.cached,
            store.location,
            store.bytes_on_disk(),
            store.caps.full_text,
            store.caps.vector_search,
            tuple(spaces),
        )

    def files(self) -> Overview:
        from openclaw_mem_engine.inspection import overview

        freshness, changes, excluded = self.tracker.look()
        return overview(self.settings, self.store, self.embedders.primary, freshness, changes, excluded)

    def chunks(self, path: str) -> Anatomy:
        from openclaw_mem_engine.inspection.file_chunks import anatomy

        self.tracker.follow()
        return anatomy(self.settings, self.store, self.embedders.primary, path)

    def unshown(self, knobs: Knobs) -> dict[str, Unshown]:
        return self.store.unshown(knobs)

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> DoctorReport:
        from openclaw_mem_engine.doctor import examine

        with suppress(IndexUnavailable):  # that is a finding
            self.store.follow(make=False)  # the log may have been removed
        return examine(self.settings, self.embedders, deep=deep, progress=progress, cancel=cancel)

    def repair(
        self, report: DoctorReport, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> tuple[list[str], DoctorReport | None]:
        from openclaw_mem_engine.doctor import repair

        return repair(self.settings, self.embedders, self.journal, report, progress, cancel)

    def cache_sizes(self) -> list[CacheSize]:
        return self.store.cache_sizes()

    # -- searching --------------------------------------------------------------------------------------

    def retrieve(
        self, query: str, knobs: Knobs, cancel: CancelToken | None = None, *, compare: bool = False
    ) -> Pool:
        with self._searching.until(cancel) as stop, self.journal.searching():
            opened = self.store.opened
            try:
                with self.search(query, knobs, stop, compare=compare) as found:
                    return self.pool_of(found, knobs, stop)
            except IndexUnavailable as error:
                if not isinstance(error, IndexChanged) and self.store.follow(make=False) == opened:
                    raise
            with self.search(query, knobs, stop, compare=compare) as found:
                return self.pool_of(found, knobs, stop)

    def why_not(self, question: PassageQuestion, cancel: CancelToken | None = None) -> WhyNot:
        from openclaw_mem_engine.retrieval.passages import PassageLookup
        from openclaw_mem_engine.why_not.steps import no_collections

        with self._searching.until(cancel) as stop, no_collections():
            return PassageLookup(self, question, stop).why_not()

    @contextmanager
    def search(
        self, query: str, knobs: Knobs, cancel: CancelToken, *, compare: bool = False
    ) -> Iterator[FoundLists]:
        """The candidate lists of a query and their chunks; what the body reads of the index is the same state
        of it. Raises IndexChanged when another process has changed what was read for this search before."""
        query = checked_query(query)
        self.tracker.follow()
        notes: list[Note] = [*self.notes]
        if knobs.expansion != "off":
            notes.append(Note("not-expanded", "expansion has no effect with the builtin backend."))
        primary = self.embedders.primary
        builder = ListBuilder(self.store, self._vectors, primary, notes, {})
        spaces = builder.embed(query, cancel, counted=knobs.space_number, compare=compare)
        stop_if_cancelled(cancel, SEARCH_STOPPED)
        provided = self._words_provided(knobs, notes, cancel, vectors=bool(spaces))
        with self.store.snapshot():  # not while an embedder is waited for, or rows are made
            if provided and lacking(self.store, knobs, primary) - {"lines"}:
                raise IndexChanged("Another process has rebuilt the index meanwhile. Try again.")
            key = self.key(query, knobs)
            builder.version = version_of(self.store)
            # One after the other: each takes milliseconds, and only the embedding of the query may wait for a
            # network, which both would have to wait for anyway.
            for asked in spaces:
                builder.add_vectors(query, asked)
                stop_if_cancelled(cancel, SEARCH_STOPPED)
            if provided:
                lexical = self._keywords(query, knobs, notes, vectors=bool(spaces))
                if lexical is not None:
                    builder.add_words(lexical)
            stop_if_cancelled(cancel, SEARCH_STOPPED)
            self.journal.answered(
                builder.fallback, primary.id if primary is not None and builder.primary_answered else None
            )
            ids = list(dict.fromkeys(row.chunk_id for found in builder.lists for row in found.rows))
            read = self.store.fetch(ids)
            if len(read) < len(ids):
                raise self.damaged(f"{counted(len(ids) - len(read), 'chunk')} cannot be found")
            chunks = {chunk_id: read[chunk_id] for chunk_id in ids}
            kept = tuple(
                builder.with_ranks(found.among(chunks), chunks, explained=compare) for found in builder.lists
            )
            # What is named is what answered: keywords alone when the primary failed and no other has vectors.
            searched = any(found.space_number == 0 for found in builder.lists)
            first = (asked.space for asked in spaces if searched and asked.number == 0)
            active = next(first, space_of(None if builder.fallback else primary))
            found = FoundLists(query, builder, kept, chunks, candidates_of(chunks), notes, active)
            if not builder.fallback and all(embedder.lines for embedder in self.embedders.also):
                self.last = key, found
            yield found

    def key(self, query: str, knobs: Knobs) -> tuple[object, ...]:
        """What the lists of a query depend on."""
        lists = *knobs.words_key, knobs.space_number, knobs.expansion
        return query, *lists, version_of(self.store)

    def with_words(self, before: FoundLists, knobs: Knobs, cancel: CancelToken) -> FoundLists:
        """The lists of an earlier search with the keyword query of other knobs, for ranking without a trace:
        ranks beyond the rows are not looked up. For the same query ``before`` itself."""
        spaces = before.builder.searched.spaces
        provided = self._words_provided(knobs, [], cancel, vectors=bool(spaces))
        stop_if_cancelled(cancel, SEARCH_STOPPED)
        with self.store.snapshot():
            lexical = self._keywords(before.query, knobs, [], vectors=bool(spaces)) if provided else None
            builder = before.builder.with_words(lexical, {})
            if builder is before.builder:
                return before
            ids = dict.fromkeys(row.chunk_id for found in builder.lists for row in found.rows)
            new = self.store.fetch([chunk_id for chunk_id in ids if chunk_id not in before.chunks])
        chunks = {**before.chunks, **new}
        lists = tuple(found.among(chunks) for found in builder.lists)
        return before._replace(builder=builder, lists=lists, chunks=chunks, candidates=candidates_of(chunks))

    def pool_of(self, found: FoundLists, knobs: Knobs, cancel: CancelToken) -> Pool:
        """The pool of these lists, with the signals that the knobs need."""
        signals = found.builder.signals(found.lists, found.candidates, knobs)
        stop_if_cancelled(cancel, SEARCH_STOPPED)
        freshness, notes = self.tracker.known, [*found.notes]
        note_staleness(freshness, notes)
        if not found.chunks and not self.store.counts().files:
            note_no_notes(self.settings, freshness, notes)
        note_by_products(found.chunks.values(), notes)
        return Pool(
            found.query,
            found.lists,
            found.candidates,
            self._clock(),
            signals,
            *found.active[:2],
            self.name,
            found.builder.fallback,
            freshness,
            tuple(notes),
            found.builder.timings,
        )

    def damaged(self, cause: str, repair: str = IndexDamaged.repair) -> IndexDamaged:
        """The error for damage of this index."""
        return damaged(cause, self.store.location, repair)

    def interrupt(self) -> None:
        self._searching.stop()
        self.store.interrupt()

    def close(self) -> None:
        self.store.close()
