"""The builtin backend: the workspace's own SQLite index, searched into a pool."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from openclaw_mem_engine.cancellation import CancelToken, LinkedToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, IndexChanged, UsageError
from openclaw_mem_engine.model import Excerpt, Freshness, Note, Progress, SkippedFile
from openclaw_mem_engine.providers.base import Embedders, space_of
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.retrieval.candidate_lists import ListBuilder
from openclaw_mem_engine.retrieval.freshness import Standing, note_staleness
from openclaw_mem_engine.retrieval.query_vectors import QueryVectors
from openclaw_mem_engine.stores.base import IndexStore, StoredChunk
from openclaw_mem_engine.stores.query import LexicalQuery, build_keyword_query, build_query
from openclaw_mem_engine.stores.sqlite.files import make_folder
from openclaw_mem_engine.sync.flight import WAIT_S, SingleFlight, Wishes, sweep_unowned
from openclaw_mem_engine.sync.indexer import fingerprint_of, needs_rebuild, sync
from openclaw_mem_engine.sync.journal import Journal
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.report import SyncReport
from openclaw_mem_engine.sync.scan import Changes
from openclaw_mem_engine.sync.sources import scan
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
        self._standing = Standing(settings, store, embedders)
        self._vectors = QueryVectors(store, embedders)
        self._searching: dict[int, LinkedToken] = {}
        self.journal = journal or Journal.of(settings, clock, kept=False)
        self._flight = SingleFlight(store.path, killed=self.journal.killed)
        sweep_unowned(store.path, self.journal.killed)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be, at this moment."""
        unkept = self.journal.note
        return (*self._more_notes(), *self.store.notes, *((unkept,) if unkept else ()))

    # -- keeping up -------------------------------------------------------------------------------------

    def sync(
        self,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        *,
        force: bool = False,
        verify: bool = False,
        tails: bool = False,
        wait_s: float = WAIT_S,
        budget_s: float | None = None,
        files_s: float | None = None,
    ) -> SyncReport:
        """Bring the index up to date (see ``sync.indexer.sync`` and ``sync.flight``). One at a time: a second
        thread joins a sync that does all that it asks for, another process is waited for, ``wait_s`` seconds
        at most. An index that was set aside or removed meanwhile is made anew. Raises SyncBusy when it is
        not done by then, IndexChanged when the index was taken away while it was at work."""
        done = SyncReport()
        make_folder(self.store.path)  # that of the lock, too: all of it may have been removed

        def work(tell: Progress, stop: CancelToken) -> SyncReport:
            opened = self.store.follow()
            sync(
                self.settings,
                self.store,
                self.embedders,
                tell,
                stop,
                force=force,
                verify=verify,
                tails=tails,
                budget_s=budget_s,
                files_s=files_s,
                clock=self._clock,
                report=done,
            )
            if self.store.follow() != opened:
                raise IndexChanged(
                    f"The index {self.store.path} was set aside or removed while it was brought up to date: "
                    "run it again."
                )
            return done

        def alone(tell: Progress, stop: CancelToken) -> SyncReport:
            # Here: whoever joins this sync, or gives up waiting for it, has done nothing to write down.
            self._standing.began()
            report = None
            try:
                report = self.journal.syncing(
                    lambda: work(tell, stop), lambda: self._would_rebuild(force), done
                )
                return report
            finally:
                self._standing.ended(report)

        try:
            report = self._flight.run(
                alone,
                lambda: not scan(self.settings, self.store, tails=tails)[0].paths,
                progress,
                cancel,
                Wishes(force, verify, tails, budget_s, files_s, wait_s),
            )
        except BaseException:
            self._standing.forget()  # it leaves something that only a look can tell
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
            self._standing.follow()
            return self.store.prune_cache(most)

    def _would_rebuild(self, force: bool) -> bool:
        present = self.store.fingerprint()
        wanted = fingerprint_of(self.settings, self.embedders.primary)
        return present is not None and (force or needs_rebuild(present, wanted))

    def freshness(self) -> Freshness:
        """Compare the index with the files on disk now: one stat a file. Raises WorkspaceError."""
        return self.look()[0]

    def look(self) -> tuple[Freshness, Changes, list[SkippedFile]]:
        """The same, with every file that differs, and every one that was left out."""
        return self._standing.look()

    # -- searching --------------------------------------------------------------------------------------

    def retrieve(
        self, query: str, knobs: Knobs, cancel: CancelToken | None = None, *, compare: bool = False
    ) -> Pool:
        """All candidate lists, over-fetched, with every signal that these knobs need; with ``compare`` also
        the lists of vector spaces that are not counted and cost time. A list that cannot be read from a
        damaged index is missing, with a note. Raises UsageError for a blank query, IndexUnavailable when
        damage leaves no list or the passages themselves cannot be read, Cancelled."""
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
        self._standing.follow()
        notes: list[Note] = [*self.notes]
        timings: dict[str, float] = {}
        primary = self.embedders.primary
        builder = ListBuilder(self.store, self._vectors, primary, notes, timings)
        spaces = builder.embed(query, cancel, counted=knobs.space_number, compare=compare)
        _stop_if_asked(cancel)
        # One after the other: each takes milliseconds, and only the embedding of the query may wait for a
        # network, which both would have to wait for anyway.
        lexical = self._lexical_query(query, knobs, notes, vectors=bool(spaces))
        for asked in spaces:
            builder.add_vectors(query, asked)
            _stop_if_asked(cancel)
        if lexical is not None:
            builder.add_words(lexical)
        _stop_if_asked(cancel)
        builder.check()
        self.journal.answered(
            builder.fallback, primary.id if primary is not None and builder.primary_answered else None
        )
        ids = list(dict.fromkeys(row.chunk_id for found in builder.lists for row in found.rows))
        chunks = self.store.fetch(ids)
        candidates = {chunk_id: _candidate(chunks[chunk_id]) for chunk_id in ids if chunk_id in chunks}
        # A chunk may vanish between two reads when another process syncs: it is then in no list either.
        kept = tuple(
            replace(found, rows=tuple(row for row in found.rows if row.chunk_id in candidates))
            for found in builder.lists
        )
        signals = builder.signals(kept, candidates, knobs)
        _stop_if_asked(cancel)
        freshness = self._standing.known
        note_staleness(freshness, notes)
        return Pool(
            query,
            kept,
            candidates,
            self._clock(),
            signals,
            *space_of(self.embedders.primary)[:2],
            self.name,
            builder.fallback,
            freshness,
            tuple(notes),
            timings,
        )

    def _lexical_query(
        self, query: str, knobs: Knobs, notes: list[Note], *, vectors: bool
    ) -> LexicalQuery | None:
        if not self.store.caps.full_text:
            remains = "vectors only." if vectors else "nothing can be searched."
            notes.append(Note("no-full-text", f"Full-text search is not available: {remains}", "warning"))
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
        for stop in list(self._searching.values()):
            stop.set()
        self.store.interrupt()

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
