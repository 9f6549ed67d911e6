"""The pure ranking: pool and knobs in, complete trace out. No I/O, no clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.profiles import PROFILES
from openclaw_mem_engine.ranking.stages import cuts, decay, mmr, rank_fusion, rerank, scores, snippets
from openclaw_mem_engine.ranking.state import RankingState, Wanted
from openclaw_mem_engine.ranking.trace import Trace

#: Changes scores or order, or drops candidates with a reason, and records itself (unless switched off).
StageFunction = Callable[[RankingState], None]

#: What a profile can name (see ``ranking.knobs.Profile``).
STAGES: Mapping[str, StageFunction] = {
    "candidates": scores.take_candidates,
    "fusion": scores.fuse,
    "bonus": rank_fusion.add_bonus,
    "limit": rank_fusion.limit_candidates,
    "position": rank_fusion.score_positions,
    "rerank": rerank.rerank,
    "decay": decay.decay_scores,
    "mmr": mmr.diversify,
    "min_score": cuts.cut_by_score,
    "keyword_rescue": cuts.rescue_keyword_hits,
    "max_results": cuts.cut_by_count,
    "snippet": snippets.cut_snippets,
}


#: The knobs that each stage reads, among them those of the lists and signals that it reads. What a stage
#: drops only these and those of earlier stages can bring back; what the score cut drops, ``rescue`` too.
_POOL_SIZE = frozenset({"max_results", "candidate_multiplier", "pool_results", "list_rows"})
_LISTS = frozenset({"mode", "vector_space", "lexical_form", "lexical_index", "name_weight", "same_script"})
_LISTS |= {"common_words"}
_DEPTH = frozenset({"max_results", "snippet"})
READS: Mapping[str, frozenset[str]] = {
    "candidates": _LISTS | _POOL_SIZE,
    "fusion": frozenset({"fusion", "vector_weight", "bm25_weight", "rrf_k", "bm25_score", "vector_score"})
    | {"line_bm25", "line_vector", "fill_missing", "original_weight"},
    "bonus": frozenset({"fusion", "bonus_first", "bonus_next"}),
    "limit": frozenset({"candidate_limit"}),
    "position": frozenset({"fusion"}),
    "rerank": frozenset({"rerank", "rerank_top", "blend"}),
    "decay": frozenset({"decay", "half_life_days"}),
    "mmr": frozenset({"mmr", "mmr_lambda", "mmr_tokens", "min_score"}) | _DEPTH,
    "min_score": frozenset({"min_score", "keyword_rescue"}),
    "keyword_rescue": frozenset({"keyword_rescue", "max_results"}),
    "max_results": _DEPTH,
    "snippet": frozenset({"snippet", "snippet_chars", "snippet_budget", "max_results"}),
}


def rank(pool: Pool, knobs: Knobs, stages: Iterable[StageFunction] | None = None) -> Trace:
    """Rank a pool with these stages, by default those of the knobs' profile.

    Every candidate of the pool appears in the trace, returned or with the stage and reason that dropped it.
    Cost: about a millisecond for the default pool. Thread-safe; does not block.
    """
    return ranked(pool, knobs, stages).trace()


def to_rerank(pool: Pool, knobs: Knobs) -> tuple[str, ...]:
    """The chunks whose rerank scores these knobs need, best first; none without ``rerank``."""
    if not knobs.rerank:
        return ()
    names = PROFILES[knobs.profile].stages
    before = [STAGES[name] for name in names[: names.index("rerank")]]
    state = ranked(pool, knobs, before, explained=False)
    return tuple(item.chunk_id for item in state.ranked[: knobs.rerank_top])


def ranked(
    pool: Pool,
    knobs: Knobs,
    stages: Iterable[StageFunction] | None = None,
    *,
    explained: bool = True,
    wanted: Wanted | None = None,
    complete: Callable[[], Pool] | None = None,
) -> RankingState:
    """The same without the trace, to try many knobs: unless ``explained`` nothing is made that only a trace
    needs, and with ``wanted`` nothing that only other chunks need. ``complete`` gives the pool with
    its signals, before the first stage that reads one."""
    state = RankingState(pool, knobs, explained=explained, wanted=wanted)
    for name in PROFILES[knobs.profile].stages if stages is None else ():
        if name == "snippet" and wanted and all(i.chunk_id not in wanted.chunk_ids for i in state.ranked):
            break
        if complete is not None and _reads_signals(name, state):
            state.pool, complete = complete(), None
        state.run(STAGES[name])
    for stage in stages or ():
        state.run(stage)
    return state


def _reads_signals(stage: str, state: RankingState) -> bool:
    """Whether a stage needs more than the rows of the lists."""
    knobs, wanted = state.knobs, state.wanted
    if stage == "snippet" and knobs.snippet != "packed":
        # Which chunks are returned is decided, and the start of one is the same whichever line is its best.
        return wanted is not None and (wanted.line is None or knobs.snippet != "head")
    lines = knobs.line_bm25 > 0 or knobs.line_vector > 0
    return stage == "snippet" or (
        stage == "fusion" and knobs.fusion == "weighted" and (knobs.fill_missing or lines)
    )
