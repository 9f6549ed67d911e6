"""The builtin backend: the workspace's own SQLite index, searched into a pool."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, ProviderError, UsageError
from openclaw_mem_engine.index.protocol import IndexStore, StoredChunk
from openclaw_mem_engine.index.words import LexicalQuery, build_keyword_query, build_query
from openclaw_mem_engine.model import CancelToken, Excerpt, Fallback, Freshness, Note, Progress, SkippedFile
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import OVERFETCH, Candidate, Leg, LegRow, Pool, Signals
from openclaw_mem_engine.sync.indexer import SyncReport, fingerprint_of, needs_rebuild, other_dims, scan, sync
from openclaw_mem_engine.workspace.dates import note_date
from openclaw_mem_engine.workspace.reading import get_excerpt

if TYPE_CHECKING:
    from openclaw_mem_engine.index.protocol import Vector
    from openclaw_mem_engine.providers.base import Embedder

#: How many changed paths an answer names; the count is always exact.
_NAMED_CHANGES = 50
#: Line vectors kept between queries of a long-lived process.
_LINE_MEMORY = 20_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one retrieval looks for; None where that leg does not run."""

    lexical: LexicalQuery | None
    vector: Vector | None


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
    """Retrieves from an :class:`IndexStore`. Thread-safe; ``clock`` gives epoch seconds."""

    name = "builtin"

    def __init__(
        self,
        settings: Settings,
        store: IndexStore,
        embedder: Embedder | None,
        clock: Callable[[], float],
        notes: tuple[Note, ...] = (),
    ) -> None:
        self.settings = settings
        self.store = store
        self.embedder = embedder
        self._notes = notes
        #: Why the last search was answered by something else than configured; None when it was not.
        self.fallback: Fallback | None = None
        self._clock = clock
        self._freshness: Freshness | None = None
        self._line_cosines: dict[tuple[str, str], Vector | None] = {}
        self._guard = threading.Lock()
        self._searching: dict[int, _Stop] = {}

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be, at this moment."""
        return (*self._notes, *self.store.notes)

    # -- keeping up -------------------------------------------------------------------------------------

    def sync(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, force: bool = False
    ) -> SyncReport:
        """Bring the index up to date (see ``sync.indexer.sync``)."""
        self._freshness = None  # a sync that is stopped or fails leaves something that only a look can tell
        report = sync(self.settings, self.store, self.embedder, progress, cancel, force=force)
        self._freshness = Freshness(
            _completeness(report.skipped),
            self.store.generation(),
            self.store.synced_at(),
            skipped=tuple(report.skipped),
        )
        return report

    def freshness(self) -> Freshness:
        """Compare the index with the files on disk now: one stat a file. Raises WorkspaceError."""
        synced_at = self.store.synced_at()
        changes, skipped = scan(self.settings, self.store)
        paths = changes.paths
        present = self.store.fingerprint()
        state: Literal["fresh", "stale", "partial", "empty"]
        if synced_at is None and self.store.counts().files == 0:
            state = "empty"
        elif paths or present is None or needs_rebuild(present, fingerprint_of(self.settings, self.embedder)):
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
        )
        return self._freshness

    # -- searching --------------------------------------------------------------------------------------

    def retrieve(self, query: str, knobs: Knobs, cancel: CancelToken | None = None) -> Pool:
        """Both legs, over-fetched, with every signal that these knobs need. Raises UsageError for a blank
        query, IndexUnavailable, Cancelled."""
        thread, stop = threading.get_ident(), _Stop(cancel)
        self._searching[thread] = stop
        try:
            return self._retrieve(query, knobs, stop)
        finally:
            del self._searching[thread]

    def _retrieve(self, query: str, knobs: Knobs, cancel: CancelToken) -> Pool:
        query = query.strip()
        if not query:
            raise UsageError("A query is required.")
        notes: list[Note] = [*self.notes]
        timings: dict[str, float] = {}
        vector, fallback = self._embed(query, notes, timings)
        self.fallback = fallback
        _stop_if_asked(cancel)
        # One after the other: each takes milliseconds, and only the embedding of the query may wait for a
        # network, which both would have to wait for anyway.
        lexical = self._lexical_query(query, knobs, notes)
        legs = []
        if vector is not None:
            legs.append(self._vector_leg(query, vector, timings))
        _stop_if_asked(cancel)
        if lexical is not None:
            legs.append(self._lexical_leg(lexical, timings))
        _stop_if_asked(cancel)
        asked = _Asked(lexical, vector)
        ids = list(dict.fromkeys(row.chunk_id for leg in legs for row in leg.rows))
        chunks = self.store.fetch(ids)
        candidates = {chunk_id: _candidate(chunks[chunk_id]) for chunk_id in ids if chunk_id in chunks}
        # A chunk may vanish between two reads when another process syncs: it is then in no leg either.
        kept = tuple(
            replace(leg, rows=tuple(row for row in leg.rows if row.chunk_id in candidates)) for leg in legs
        )
        signals = self._signals(asked, kept, candidates, knobs, timings)
        _stop_if_asked(cancel)
        freshness = self._known_freshness()
        _note_staleness(freshness, notes)
        return Pool(
            query,
            kept,
            candidates,
            self._clock(),
            signals,
            self.embedder.id if self.embedder else "none",
            self.embedder.model if self.embedder else "",
            self.name,
            fallback,
            freshness,
            tuple(notes),
            timings,
        )

    def _embed(
        self, query: str, notes: list[Note], timings: dict[str, float]
    ) -> tuple[Vector | None, Fallback | None]:
        """The query's vector, or None with the reason in notes; a failure is also a fallback."""
        if self.embedder is None:
            notes.append(Note("keywords-only", "No embeddings by choice (provider none): keywords alone."))
            return None, None
        present, wanted = self.store.fingerprint(), fingerprint_of(self.settings, self.embedder)
        if present is not None and (present.provider, present.model, present.provider_key) != (
            wanted.provider,
            wanted.model,
            wanted.provider_key,
        ):
            reason = f"the index holds vectors of {present.provider} {present.model}".rstrip()
            mine = f"{wanted.provider} {wanted.model}".rstrip()
            told = f"Keywords alone: {reason}, not of {mine}. Run `openclaw-mem index`."
            notes.append(Note("other-vectors", told, "warning"))
            return None, Fallback(self.embedder.id, reason)
        start = time.perf_counter()
        try:
            vector = self.embedder.embed_query(query)
        except ProviderError as error:
            notes.append(Note("embedding-failed", f"Keywords alone: {error}", "warning"))
            return None, Fallback(self.embedder.id, str(error))
        timings["embed"] = (time.perf_counter() - start) * 1000
        if vector is None:
            name = f"{self.embedder.id} ({self.embedder.languages})"
            told = f"This query has no embedding with {name}: keywords alone."
            notes.append(Note("no-embedding", told, "warning"))
            return None, None
        held = self.store.vector_dims()
        if held is not None and held != vector.size:
            reason = other_dims(self.embedder, vector.size, held)
            notes.append(Note("other-vectors", f"Keywords alone: {reason}", "warning"))
            return None, Fallback(self.embedder.id, reason)
        return vector, None

    def _lexical_query(self, query: str, knobs: Knobs, notes: list[Note]) -> LexicalQuery | None:
        if not self.store.caps.full_text:
            notes.append(Note("no-full-text", "Full-text search is not available: vectors alone.", "warning"))
            return None
        if knobs.lexical_form == "and" and self.embedder is None:
            # What this profile's original does without embeddings.
            return build_keyword_query(query)
        built = build_query(query, knobs.lexical_form, knobs.lexical_index)
        if built is None:
            notes.append(Note("no-words", "The query holds no word to look for: no keyword search."))
        return built

    def _vector_leg(self, query: str, vector: Vector, timings: dict[str, float]) -> Leg:
        start = time.perf_counter()
        rows = self.store.vector(vector, OVERFETCH)
        timings["vector"] = (time.perf_counter() - start) * 1000
        return Leg("vector", "vector", query, tuple(LegRow(*row) for row in rows), timings["vector"])

    def _lexical_leg(self, lexical: LexicalQuery, timings: dict[str, float]) -> Leg:
        start = time.perf_counter()
        rows = tuple(LegRow(*row) for row in self.store.lexical(lexical, OVERFETCH))
        timings["bm25"] = (time.perf_counter() - start) * 1000
        return Leg("bm25", "lexical", lexical.expression(), rows, timings["bm25"], lexical.words)

    def _signals(
        self,
        asked: _Asked,
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
        members = list(dict.fromkeys(row.chunk_id for leg in legs for row in leg.rows[: knobs.candidates]))
        by_kind = {leg.kind: {row.chunk_id: row.raw for row in leg.rows} for leg in legs}
        bm25, cosine = dict(by_kind.get("lexical", {})), dict(by_kind.get("vector", {}))
        if knobs.fill_missing and asked.lexical is not None:
            bm25.update(self.store.lexical_scores(asked.lexical, [i for i in members if i not in bm25]))
        if knobs.fill_missing and asked.vector is not None:
            cosine.update(self.store.cosines(asked.vector, [i for i in members if i not in cosine]))
        line_bm25: dict[str, float] = {}
        line_cosine: dict[str, float] = {}
        if knobs.line_text > 0 and asked.lexical is not None:
            line_bm25 = self.store.line_scores(asked.lexical, {i: candidates[i].text for i in members})
        if knobs.line_vector > 0 and asked.vector is not None:
            line_cosine = self._best_line_cosines(asked.vector, [candidates[i] for i in members])
        timings["lines"] = (time.perf_counter() - start) * 1000
        return {i: Signals(bm25.get(i), cosine.get(i), line_bm25.get(i), line_cosine.get(i)) for i in members}

    def _best_line_cosines(self, vector: Vector, members: Sequence[Candidate]) -> dict[str, float]:
        """Cosine of the nearest line of each candidate; only for embedders that are quick enough to embed
        lines while a query waits."""
        if self.embedder is None or not self.embedder.cheap_lines:
            return {}
        import numpy as np

        from openclaw_mem_engine.index.resident import products

        lines = {c.chunk_id: [line for line in c.text.split("\n") if line.strip()] for c in members}
        with self._guard:
            model = self.embedder.key
            unknown = list(
                dict.fromkeys(
                    x for found in lines.values() for x in found if (model, x) not in self._line_cosines
                )
            )
            if len(self._line_cosines) + len(unknown) > _LINE_MEMORY:
                self._line_cosines.clear()
                unknown = list(dict.fromkeys(x for found in lines.values() for x in found))
            for line, made in zip(unknown, self.embedder.embed_documents(unknown), strict=True):
                self._line_cosines[model, line] = made
            vectors = {
                chunk_id: [v for x in found if (v := self._line_cosines[model, x]) is not None]
                for chunk_id, found in lines.items()
            }
        filled = [(chunk_id, found) for chunk_id, found in vectors.items() if found]
        if not filled:
            return {}
        scores = products(np.stack([v for _, found in filled for v in found]), vector)
        starts = np.cumsum([0, *(len(found) for _, found in filled[:-1])])
        best = np.maximum.reduceat(scores, starts)
        return {chunk_id: float(score) for (chunk_id, _), score in zip(filled, best, strict=True)}

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
        """Close index and embedder."""
        self.store.close()
        if self.embedder is not None:
            self.embedder.close()


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
