"""The score of a reranker blended into the fused one, for every backend.

Bands of rank as documented for QMD (step 5 of its pipeline): 0.75 of the fused score for ranks 1 to 3, 0.60
to rank 10, 0.40 after. The scores themselves are made by retrieval (``retrieval.reranking``).
"""

from __future__ import annotations

from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Operand

#: Last rank of a band, and the share of the fused score in it.
BANDS = ((3, 0.75), (10, 0.60))
_AFTER = 0.40


def share_of(rank: int) -> float:
    """The share of the fused score at a fused rank (from 1); the rest is the reranker's."""
    return next((share for last, share in BANDS if rank <= last), _AFTER)


def rerank(state: RankingState) -> None:
    """Blend the scores that the reranker gave. What has none keeps its fused score and says why. Equal scores
    are ordered by the rerank score, then as they were fused."""
    knobs, known = state.knobs, state.pool.rerank_scores
    if not knobs.rerank:
        return
    bands = knobs.blend == "bands"
    before = {item.chunk_id: (item.score, item.rank) for item in state.ranked}
    scored = 0
    for at, item in enumerate(state.ranked):
        score = known.get(item.chunk_id) if at < knobs.rerank_top else None
        if score is not None:
            share = share_of(item.rank) if bands else 0.0
            item.score = share * item.score + (1.0 - share) * score
            scored += 1
            if state.explained:
                kept = Operand("rerank", "blend", "mul", share, 1.0, {"rank": item.rank})
                added = Operand("rerank", "rerank", "add", score, 1.0 - share, {"rerank": score})
                item.operands = (*item.operands, kept, added)
        elif state.explained:
            why = _why_not_scored(state, at)
            item.operands = (*item.operands, Operand("rerank", "rerank", "mul", 1.0, 1.0, {}, why))
        item.scores["rerank"] = item.score

    def order(item: Ranked) -> tuple[float, float]:
        return -item.score, -known.get(item.chunk_id, -1.0)

    moved = state.reorder("rerank", sorted(state.ranked, key=order))

    state.explain_moves("rerank", before, "before reranking")
    fused = "1/rank" if knobs.fusion == "position" else "fused"
    formula = f"w × {fused} + (1 − w) × rerank score; w = 0.75 to rank 3, 0.60 to 10, 0.40 after"
    missing = min(len(before), knobs.rerank_top) - scored
    state.record(
        "rerank",
        formula if bands else "the rerank score",
        {"rerank_top": knobs.rerank_top, "blend": knobs.blend, "reranked": scored},
        changed=moved,
        note=f"{missing} not reranked: {_reason(state)}" if missing else "",
        kind="score",
        label="rerank",
        heading="score of the reranker, blended with the fused one",
    )


def _why_not_scored(state: RankingState, at: int) -> str:
    """Why the candidate at an index of the fused order was not reranked."""
    beyond = at >= state.knobs.rerank_top
    return f"not reranked: {f'beyond the first {state.knobs.rerank_top}' if beyond else _reason(state)}"


def _reason(state: RankingState) -> str:
    return state.pool.rerank_missing or "no rerank score was requested with these settings"
