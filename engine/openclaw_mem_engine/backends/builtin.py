"""The builtin backend: the workspace's own SQLite index, searched into a pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from openclaw_mem_engine.backends.query_vectors import AskedSpace, QueryVectors
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, UsageError
from openclaw_mem_engine.index.protocol import IndexStore, StoredChunk
from openclaw_mem_engine.index.words import LexicalQuery, build_keyword_query, build_query
from openclaw_mem_engine.model import CancelToken, Excerpt, Freshness, Note, Progress, SkippedFile
from openclaw_mem_engine.providers.base import Embedders, space_of
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, Leg, LegRow, Pool, Signals
from openclaw_mem_engine.sync.flight import WAIT_S, SingleFlight, sweep_unowned
from openclaw_mem_engine.sync.indexer import SyncReport, fingerprint_of, needs_rebuild, scan, sync
from openclaw_mem_engine.sync.journal import Journal
from openclaw_mem_engine.sync.staleness import stale_since
from openclaw_mem_engine.workspace.dates import note_date
from openclaw_mem_engine.workspace.reading import get_excerpt

#: How many changed paths an answer names; the count is always exact.
_NAMED_CHANGES = 50


class _Stop:
    """Set by the caller's own token, or by ``interrupt()``."""

    def __init__(self, cancel: CancelToken | None) -> None:
        self._cancel = cancel
        self._interrupted = threading.Event()

    def set(self) -> None:
        self._interrupted.set()

    def is_set(self) -> bool:
        return self._interrupted.is_set() or (self._cancel is not None and self._cancel.is_set())


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
        self._freshness: Freshness | None = None
        self._vectors = QueryVectors(store, embedders)
        self._searching: dict[int, _Stop] = {}
        self._journal = journal or Journal.of(settings, clock, kept=False)
        self._flight = SingleFlight(store.path)
        sweep_unowned(store.path)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be, at this moment."""
        unkept = self._journal.note
        return (*self._more_notes(), *self.store.notes, *((unkept,) if unkept else ()))

    # -- keeping up -------------------------------------------------------------------------------------

    def sync(
        self,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        *,
        force: bool = False,
        verify: bool = False,
        wait_s: float = WAIT_S,
        budget_s: float | None = None,
    ) -> SyncReport:
        """Bring the index up to date (see ``sync.indexer.sync`` and ``sync.flight``). One at a time: a second
        thread joins the sync that runs, another process is waited for, ``wait_s`` seconds at most. Raises
        SyncBusy when it is not done by then."""
        self._freshness = None  # a sync that is stopped or fails leaves something that only a look can tell
        report = self._flight.run(
            # Inside: whoever joins this sync, or gives up waiting for it, has done nothing to write down.
            lambda tell: self._journal.syncing(
                lambda: sync(
                    self.settings,
                    self.store,
                    self.embedders,
                    tell,
                    cancel,
                    force=force,
                    verify=verify,
                    budget_s=budget_s,
                ),
                lambda: self._would_rebuild(force),
            ),
            # A sync that believed the times is not the one that was asked for.
            lambda: not verify and not scan(self.settings, self.store)[0].paths,
            progress,
            cancel,
            force=force,
            wait_s=wait_s,
        )
        self._freshness = Freshness(
            _completeness(report.skipped),
            self.store.generation(),
            self.store.synced_at(),
            skipped=tuple(report.skipped),
        )
        return report

    def _would_rebuild(self, force: bool) -> bool:
        present = self.store.fingerprint()
        wanted = fingerprint_of(self.settings, self.embedders.primary)
        return present is not None and (force or needs_rebuild(present, wanted))

    def freshness(self) -> Freshness:
        """Compare the index with the files on disk now: one stat a file. Raises WorkspaceError."""
        synced_at = self.store.synced_at()
        changes, skipped = scan(self.settings, self.store)
        paths = changes.paths
        present = self.store.fingerprint()
        state: Literal["fresh", "stale", "partial", "empty"]
        if synced_at is None and self.store.counts().files == 0:
            state = "empty"
        elif (
            paths
            or present is None
            or needs_rebuild(present, fingerprint_of(self.settings, self.embedders.primary))
        ):
            state = "stale"
        else:
            state = _completeness(skipped)
        self._freshness = Freshness(
            state,
            self.store.generation(),
            synced_at,
            paths[:_NAMED_CHANGES],
            len(paths),
            tuple(skipped),
            stale_since(self.settings, changes, synced_at, time.time()) if paths else None,
        )
        return self._freshness

    # -- searching --------------------------------------------------------------------------------------

    def retrieve(
        self, query: str, knobs: Knobs, cancel: CancelToken | None = None, *, compare: bool = False
    ) -> Pool:
        """Both legs, over-fetched, with every signal that these knobs need; with ``compare`` also the legs of
        vector spaces that are not counted and cost time. Raises UsageError for a blank query,
        IndexUnavailable, Cancelled."""
        thread, stop = threading.get_ident(), _Stop(cancel)
        self._searching[thread] = stop
        try:
            with self._journal.searching():
                return self._retrieve(query, knobs, stop, compare)
        finally:
            del self._searching[thread]

    def _retrieve(self, query: str, knobs: Knobs, cancel: CancelToken, compare: bool) -> Pool:
        query = query.strip()
        if not query:
            raise UsageError("A query is required.")
        notes: list[Note] = [*self.notes]
        timings: dict[str, float] = {}
        searched = self._vectors.of(
            query, notes, timings, cancel, counted=knobs.space_number, compare=compare
        )
        primary = self.embedders.primary
        own = primary is not None and any(space.embedder is primary for space in searched.spaces)
        self._journal.answered(searched.fallback, primary.id if primary is not None and own else None)
        _stop_if_asked(cancel)
        # One after the other: each takes milliseconds, and only the embedding of the query may wait for a
        # network, which both would have to wait for anyway.
        lexical = self._lexical_query(query, knobs, notes, vectors=bool(searched.spaces))
        legs = []
        for asked in searched.spaces:
            legs.append(self._vector_leg(query, asked, timings))
            _stop_if_asked(cancel)
        if lexical is not None:
            legs.append(self._lexical_leg(lexical, timings))
        _stop_if_asked(cancel)
        fused = next((space for space in searched.spaces if space.number == knobs.space_number), None)
        ids = list(dict.fromkeys(row.chunk_id for leg in legs for row in leg.rows))
        chunks = self.store.fetch(ids)
        candidates = {chunk_id: _candidate(chunks[chunk_id]) for chunk_id in ids if chunk_id in chunks}
        # A chunk may vanish between two reads when another process syncs: it is then in no leg either.
        kept = tuple(
            replace(leg, rows=tuple(row for row in leg.rows if row.chunk_id in candidates)) for leg in legs
        )
        signals = self._signals(lexical, fused, kept, candidates, knobs, timings)
        _stop_if_asked(cancel)
        freshness = self._known_freshness()
        _note_staleness(freshness, notes)
        return Pool(
            query,
            kept,
            candidates,
            self._clock(),
            signals,
            *space_of(self.embedders.primary)[:2],
            self.name,
            searched.fallback,
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

    def _vector_leg(self, query: str, asked: AskedSpace, timings: dict[str, float]) -> Leg:
        start = time.perf_counter()
        rows = self.store.vector(asked.vector, OVERFETCH, space=asked.space)
        spent = (time.perf_counter() - start) * 1000
        timings["vector"] = timings.get("vector", 0.0) + spent
        name = f"vector:{asked.shown}" if asked.number else "vector"
        found = tuple(LegRow(*row) for row in rows)
        return Leg(name, "vector", query, found, spent, number=asked.number, space=asked.shown)

    def _lexical_leg(self, lexical: LexicalQuery, timings: dict[str, float]) -> Leg:
        start = time.perf_counter()
        rows = tuple(LegRow(*row) for row in self.store.lexical(lexical, OVERFETCH))
        timings["bm25"] = (time.perf_counter() - start) * 1000
        return Leg("bm25", "lexical", lexical.expression(), rows, timings["bm25"], lexical.words)

    def _signals(
        self,
        lexical: LexicalQuery | None,
        fused: AskedSpace | None,
        legs: Sequence[Leg],
        candidates: dict[str, Candidate],
        knobs: Knobs,
        timings: dict[str, float],
    ) -> dict[str, Signals]:
        """True scores on both sides, and those of the best line, for the rows that these knobs let into the
        pool. Empty for profiles that need neither."""
        lines = knobs.line_text > 0 or knobs.line_vector > 0
        if not lines and not knobs.fill_missing:
            return {}
        start = time.perf_counter()
        legs = [leg for leg in legs if leg.kind == "lexical" or leg.number == knobs.space_number]
        members = list(dict.fromkeys(row.chunk_id for leg in legs for row in leg.rows[: knobs.candidates]))
        by_kind = {leg.kind: {row.chunk_id: row.raw for row in leg.rows} for leg in legs}
        bm25, cosine = dict(by_kind.get("lexical", {})), dict(by_kind.get("vector", {}))
        if knobs.fill_missing and lexical is not None:
            bm25.update(self.store.lexical_scores(lexical, [i for i in members if i not in bm25]))
        if knobs.fill_missing and fused is not None:
            unknown = [i for i in members if i not in cosine]
            cosine.update(self.store.cosines(fused.vector, unknown, fused.space))
        line_bm25: dict[str, float] = {}
        line_cosine: dict[str, float] = {}
        if knobs.line_text > 0 and lexical is not None:
            line_bm25 = self.store.line_scores(lexical, {i: candidates[i].text for i in members})
        if knobs.line_vector > 0 and fused is not None:
            texts = {i: candidates[i].text for i in members}
            line_cosine = self._vectors.best_line_cosines(fused, texts)
        timings["lines"] = (time.perf_counter() - start) * 1000
        return {i: Signals(bm25.get(i), cosine.get(i), line_bm25.get(i), line_cosine.get(i)) for i in members}

    def _known_freshness(self) -> Freshness | None:
        """What the last look or sync found. An index that nobody has looked at, and that holds nothing, is
        known to be empty: "nothing found" would be a lie there."""
        if self._freshness is None and self.store.synced_at() is None and not self.store.counts().files:
            return Freshness("empty", self.store.generation(), None)
        return self._freshness

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
        self._journal.close()


def _completeness(skipped: Sequence[SkippedFile]) -> Literal["fresh", "partial"]:
    """Partial when something that should be searched cannot be; what is no memory by rule does not count."""
    return "fresh" if all(file.by_rule for file in skipped) else "partial"


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


def _note_staleness(known: Freshness | None, notes: list[Note]) -> None:
    if known is None:
        return
    if known.state == "empty":
        notes.append(Note("empty-index", "Nothing is indexed yet: run `openclaw-mem index`.", "warning"))
    elif known.state == "stale":
        some = ", ".join(known.changed[:3]) or "the settings"
        more = f" and {known.changed_count - 3} more" if known.changed_count > 3 else ""
        told = f"The index is older than {some}{more}: run `openclaw-mem index`."
        notes.append(Note("stale", told, "warning"))
