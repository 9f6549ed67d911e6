"""The builtin backend: the workspace's own SQLite index, searched into a pool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from openclaw_mem_engine.cancellation import CancelToken, LinkedToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, UsageError
from openclaw_mem_engine.model import Excerpt, Freshness, Note, Progress, SkippedFile
from openclaw_mem_engine.providers.base import Embedders, space_of
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.retrieval.candidate_lists import Legs
from openclaw_mem_engine.retrieval.freshness import FreshnessTracker, note_staleness
from openclaw_mem_engine.retrieval.query_vectors import QueryVectors
from openclaw_mem_engine.stores.base import IndexStore, StoredChunk
from openclaw_mem_engine.stores.sqlite.lexical_query import LexicalQuery, build_keyword_query, build_query
from openclaw_mem_engine.sync.changes import Changes
from openclaw_mem_engine.sync.coordinator import SyncCoordinator
from openclaw_mem_engine.sync.events import Journal
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest
from openclaw_mem_engine.workspace.dates import note_date
from openclaw_mem_engine.workspace.reading import get_excerpt

#: How long pruning the cache waits for a sync, seconds.
PRUNE_WAIT_S = 10.0


class BuiltinBackend:
    """Retrieves from an :class:`IndexStore`. Thread-safe. ``clock`` gives epoch seconds; ``notes`` tells what
    else makes every answer less than it could be."""

    name = "builtin"

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
        self._freshness = FreshnessTracker(settings, store, embedders)
        self._vectors = QueryVectors(store, embedders)
        self._searching: dict[int, LinkedToken] = {}
        self.journal = journal or Journal.of(settings, clock, kept=False)
        self._coordinator = SyncCoordinator(
            settings, store, embedders, self.journal, clock, self._freshness.syncing
        )
        self._coordinator.sweep()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be, at this moment."""
        unkept = self.journal.note
        return (*self._more_notes(), *self.store.notes, *((unkept,) if unkept else ()))

    # -- keeping up -------------------------------------------------------------------------------------

    def sync(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        """Bring the index up to date (see ``SyncCoordinator.sync``). Blocks until it is done: minutes for a
        first index, and ``request.wait_s`` while another process syncs."""
        try:
            report = self._coordinator.sync(request, progress, cancel)
        except BaseException:
            self._freshness.forget()  # what it leaves only a scan can find out
            raise
        if report.waiting:
            self.look()  # it was not all done
        return report

    def prune_cache(
        self, most: int, cancel: CancelToken | None = None, *, wait_s: float = PRUNE_WAIT_S
    ) -> int:
        """Forget the oldest cached embeddings beyond ``most``, never one that a passage needs; how many. Not
        beside a sync, whose new vectors belong to no passage yet: it is waited for, ``wait_s`` seconds at
        most. Raises SyncBusy when that was not enough, Cancelled, IndexUnavailable."""
        lock = SyncLock(self.store.path, "pruning the cache", killed=self.journal.killed)
        with lock.holding(wait_s, cancel):
            self._freshness.follow()
            return self.store.prune_cache(most)

    def freshness(self) -> Freshness:
        """Compare the index with the files on disk now: one stat a file. Raises WorkspaceError."""
        return self.look()[0]

    def look(self) -> tuple[Freshness, Changes, list[SkippedFile]]:
        """The same, with every file that differs, and every one that was excluded."""
        return self._freshness.look()

    # -- searching --------------------------------------------------------------------------------------

    def retrieve(
        self, query: str, knobs: Knobs, cancel: CancelToken | None = None, *, compare: bool = False
    ) -> Pool:
        """Both legs, over-fetched, with every signal that these knobs need; with ``compare`` also the legs of
        vector spaces that are not counted and cost time. A leg that the index is too damaged for is left out
        with a note. Raises UsageError for a blank query, IndexUnavailable when damage leaves no leg or the
        passages themselves cannot be read, Cancelled."""
        thread, stop = threading.get_ident(), LinkedToken(cancel)
        self._searching[thread] = stop
        try:
            with self.journal.searching():
                return self._retrieve(query, knobs, stop, compare)
        finally:
            del self._searching[thread]

    def _retrieve(self, query: str, knobs: Knobs, cancel: CancelToken, compare: bool) -> Pool:
        query = query.strip()
        if not query:
            raise UsageError("A query is required.")
        self._freshness.follow()
        notes: list[Note] = [*self.notes]
        timings: dict[str, float] = {}
        primary = self.embedders.primary
        legs = Legs(self.store, self._vectors, primary, notes, timings)
        spaces = legs.ask(query, cancel, counted=knobs.space_number, compare=compare)
        _stop_if_asked(cancel)
        # One after the other: each takes milliseconds, and only the embedding of the query may wait for a
        # network, which both would have to wait for anyway.
        lexical = self._lexical_query(query, knobs, notes, vectors=bool(spaces))
        for asked in spaces:
            legs.search_vectors(query, asked)
            _stop_if_asked(cancel)
        if lexical is not None:
            legs.search_words(lexical)
        _stop_if_asked(cancel)
        legs.check()
        self.journal.answered(
            legs.fallback, primary.id if primary is not None and legs.primary_answered else None
        )
        ids = list(dict.fromkeys(row.chunk_id for leg in legs.found for row in leg.rows))
        chunks = self.store.fetch(ids)
        candidates = {chunk_id: _candidate(chunks[chunk_id]) for chunk_id in ids if chunk_id in chunks}
        # A chunk may vanish between two reads when another process syncs: it is then in no leg either.
        kept = tuple(
            replace(leg, rows=tuple(row for row in leg.rows if row.chunk_id in candidates))
            for leg in legs.found
        )
        signals = legs.signals(kept, candidates, knobs)
        _stop_if_asked(cancel)
        freshness = self._freshness.known
        note_staleness(freshness, notes)
        return Pool(
            query,
            kept,
            candidates,
            self._clock(),
            signals,
            *space_of(self.embedders.primary)[:2],
            self.name,
            legs.fallback,
            freshness,
            tuple(notes),
            timings,
        )

    def _lexical_query(
        self, query: str, knobs: Knobs, notes: list[Note], *, vectors: bool
    ) -> LexicalQuery | None:
        if not self.store.caps.full_text:
            told = "Full-text search is not available: " + (
                "vectors alone." if vectors else "nobody can look."
            )
            notes.append(Note("no-full-text", told, "warning"))
            return None
        if knobs.lexical_form == "and" and self.embedders.primary is None:
            # What this profile's original does without embeddings.
            return build_keyword_query(query)
        built = build_query(query, knobs.lexical_form, knobs.lexical_index)
        if built is None:
            notes.append(Note("no-words", "The query holds no word to look for: no keyword search."))
        return built

    def get(self, path: str, start: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of a memory file (see ``workspace.reading.get_excerpt``). Raises PathRefused."""
        return get_excerpt(
            self.settings.workspace,
            path,
            start,
            lines,
            self.settings.extra_paths,
            self.settings.max_file_bytes,
        )

    def interrupt(self) -> None:
        """Stop the retrievals that other threads are waiting for; they raise Cancelled. A sync goes on."""
        running = dict(self._searching)
        for stop in running.values():
            stop.set()
        self.store.interrupt(running)

    def close(self) -> None:
        """Close index, embedders and event log."""
        self.store.close()
        self.embedders.close()
        self.journal.close()


def _candidate(chunk: StoredChunk) -> Candidate:
    dated = note_date(chunk.path, chunk.source)
    date: float | None = dated.epoch_seconds
    if dated.kind == "mtime" and chunk.mtime_ns:
        date = chunk.mtime_ns / 1e9
    return Candidate(
        chunk.chunk_id,
        chunk.path,
        chunk.start_line,
        chunk.end_line,
        chunk.text,
        chunk.source,
        date,
        dated.kind,
    )


def _stop_if_asked(cancel: CancelToken | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Cancelled("The search was stopped.")
