"""What QMD does with fused ranks: a bonus for the first ranks, a limit, and 1 / rank as the score.

Formulas: documented pipeline of QMD, steps 3 and 5, and release 2.8.3 as recorded (``tests/differences.md``).
"""

from __future__ import annotations

from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Operand

#: The last rank that ``bonus_next`` is added for.
_NEXT = 3


def add_bonus(state: RankingState) -> None:
    """Add the bonus of the best rank in any list to the RRF score, once for a candidate. Ties keep the order
    in which the lists hold them."""
    knobs = state.knobs
    if knobs.fusion == "weighted" or not (knobs.bonus_first or knobs.bonus_next):
        return
    best: dict[str, int] = {}  # in the order of the lists
    for lst in state.lists:
        for rank, row in enumerate(lst.source.rows[: lst.cut], 1):
            best[row.chunk_id] = min(rank, best.get(row.chunk_id, rank))
    seen = {chunk_id: at for at, chunk_id in enumerate(best)}
    for item in state.ranked:
        rank = best[item.chunk_id]
        bonus = knobs.bonus_first if rank == 1 else knobs.bonus_next if rank <= _NEXT else 0.0
        item.score += bonus
        item.scores["bonus"] = item.score
        if state.explained:
            note = "" if bonus else f"no bonus: its best rank in a list is {rank}"
            made = Operand("bonus", "bonus", "add", bonus, 1.0, {"best_rank": rank} if bonus else {}, note)
            item.operands = (*item.operands, made)
    ordered = sorted(state.ranked, key=lambda item: (-item.score, seen[item.chunk_id]))
    moved = state.reorder("bonus", ordered)
    state.record(
        "bonus",
        f"+ {knobs.bonus_first:g} if first in a list, + {knobs.bonus_next:g} if second or third",
        {"bonus_first": knobs.bonus_first, "bonus_next": knobs.bonus_next},
        changed=moved,
        kind="score",
        label="bonus",
        heading="added for a first, second or third rank in a list",
    )


def limit_candidates(state: RankingState) -> None:
    """Drop what is fused too late to go on (``candidate_limit``)."""
    most, before = state.knobs.candidate_limit, state.ranked
    if not most:
        return
    state.ranked = before[:most]

    def why(item: Ranked) -> str:
        return f"its fused rank is {item.rank}, and only the first {most} continue"

    state.drop(before[most:], "limit", why)
    state.record(
        "limit",
        f"first {most} fused candidates",
        {"candidate_limit": most},
        kind="count",
        label="limit",
        heading="out: fused rank beyond candidate limit",
        limit=most,
    )


def score_positions(state: RankingState) -> None:
    """Replace the fused score by 1 / rank (``fusion=position``): QMD's score of 0 to 1."""
    if state.knobs.fusion != "position":
        return
    for item in state.ranked:
        item.score = 1.0 / item.rank
        item.scores["position"] = item.score
        if state.explained:
            made = Operand("position", "position", "set", item.score, 1.0, {"position": item.rank})
            item.operands = (*item.operands, made)
    state.reorder("position", state.ranked)
    state.record(
        "position",
        "1 / fused rank",
        {},
        kind="score",
        label="1/rank",
        heading="1 / fused rank, in place of the fused score",
    )
