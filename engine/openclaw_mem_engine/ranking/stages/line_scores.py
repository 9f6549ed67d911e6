"""The scores of the lines of chunks."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_engine.ranking.lines import ScoredLines, scored_lines
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.state import RankingState


class LineScores:
    """The score of every line of the chunks that are left, 0–1: 0.6 × BM25 / the best + 0.4 × the cosine
    spread from 0 to 1, over the lines of these chunks. A line without a signal has 0. Those of a chunk are
    made when they are asked for, once for a pool and the same limits. None is above ``most``."""

    def __init__(self, state: RankingState) -> None:
        self._state, ids = state, [item.chunk_id for item in state.ranked]
        self._scales: list[tuple[str, float, float, float]] = []  # list, its share, lowest and highest value
        for lst in state.lists:
            source, limits = lst.source.id, _limits(state.pool, lst.source.id, ids)
            low = 0.0 if lst.kind.by_words else min((low for low, _ in limits), default=0.0)
            high = max((high for _, high in limits), default=0.0)
            if high > low:
                self._scales.append((source, lst.kind.line_share, low, high))
        self.most = sum(share for _, share, *_ in self._scales)
        self._made: dict[str, ScoredLines] = state.pool.memo.setdefault(("line scores", *self._scales), {})

    def __getitem__(self, chunk_id: str) -> ScoredLines:
        if chunk_id not in self._made:
            self._made[chunk_id] = _scored(self._state, chunk_id, self._scales)
        return self._made[chunk_id]


def _limits(pool: Pool, list_id: str, ids: Sequence[str]) -> list[tuple[float, float]]:
    """The lowest and highest score of the lines of each chunk that has one."""
    signals = pool.signals.get(list_id, {})
    known: dict[str, tuple[float, float] | None] = pool.memo.setdefault(("line limits", list_id), {})
    for i in ids:
        if i not in known:
            values = [
                value for value in (signals[i].lines if i in signals else ()) or () if value is not None
            ]
            known[i] = (min(values), max(values)) if values else None
    return [limits for i in ids if (limits := known[i]) is not None]


def _scored(
    state: RankingState, chunk_id: str, scales: Sequence[tuple[str, float, float, float]]
) -> ScoredLines:
    lines = state.lines_of(chunk_id)
    scores = [0.0] * len(lines)
    for source, share, low, high in scales:
        signal = state.pool.signals[source].get(chunk_id)
        for at, value in enumerate((signal.lines if signal else ()) or ()):
            if value is not None:
                scores[at] += share * (value - low) / (high - low)
    return scored_lines(lines, scores)
