"""The pure ranking: pool and knobs in, complete trace out. No I/O, no clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from openclaw_mem_engine.ranking.knobs import PROFILES, Knobs
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.stages import cuts, mmr, scores, snippets
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Trace

#: Changes scores or order, or drops candidates with a reason, and records itself (unless switched off).
StageFunction = Callable[[RankingState], None]

#: What a profile can name (see ``ranking.knobs.Profile``).
STAGES: Mapping[str, StageFunction] = {
    "candidates": scores.take_candidates,
    "fusion": scores.fuse,
    "decay": scores.decay_scores,
    "mmr": mmr.diversify,
    "min_score": cuts.cut_by_score,
    "rescue": cuts.rescue_keyword_hits,
    "max_results": cuts.cut_by_count,
    "snippet": snippets.cut_snippets,
}


def rank(pool: Pool, knobs: Knobs, stages: Iterable[StageFunction] | None = None) -> Trace:
    """Rank a pool with these stages, by default those of the knobs' profile.

    Every candidate of the pool appears in the trace, returned or with the stage and reason that dropped it.
    Cost: about a millisecond for the default pool. Thread-safe; does not block.
    """
    return ranked(pool, knobs, stages).trace()


def ranked(
    pool: Pool,
    knobs: Knobs,
    stages: Iterable[StageFunction] | None = None,
    *,
    explained: bool = True,
    wanted: str | None = None,
) -> RankingState:
    """The same without the trace, to try many knobs: unless ``explained`` nothing is made that only a trace
    needs. No snippet is made when the chunk ``wanted`` is dropped before."""
    state = RankingState(pool, knobs, explained=explained)
    for stage in stages or [STAGES[name] for name in PROFILES[knobs.profile].stages]:
        if wanted and stage is snippets.cut_snippets and all(i.chunk_id != wanted for i in state.ranked):
            break
        state.run(stage)
    return state
