"""Temporal decay: what the age of a note does to its score."""

from __future__ import annotations

import math

from openclaw_mem_engine.ranking.pool import Candidate
from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Operand

DAY_SECONDS = 86_400.0


def age_days(now: float, date: float) -> float:
    """Age in days, fractional, never negative. Both arguments are epoch seconds."""
    return max(0.0, (now - date) / DAY_SECONDS)


def decay_multiplier(age: float, half_life_days: float) -> float:
    """``exp(-ln 2 / half-life × age)``: 1 today, 0.5 after one half-life (documented formula)."""
    return math.exp(-math.log(2.0) / half_life_days * age)


def decay_scores(state: RankingState) -> None:
    """Multiply every score by the factor of its note's age; evergreen notes keep theirs."""
    knobs, pool = state.knobs, state.pool
    if not knobs.decay:
        return
    before = {item.chunk_id: item.score for item in state.ranked}
    for item in state.ranked:
        operand = _operand(pool.candidates[item.chunk_id], pool.now, knobs.half_life_days)
        item.operands = (*item.operands, operand)
        item.score *= operand.value
        item.scores["decay"] = item.score
    earlier = {item.chunk_id: item.rank for item in state.ranked}
    moved = state.reorder("decay", sorted(state.ranked, key=lambda item: -item.score))

    def why_low(item: Ranked) -> str:
        score = before[item.chunk_id]
        return f"decay took it down from {score:.3f}" if score >= knobs.min_score else ""

    def why_late(item: Ranked) -> str:
        rank = earlier[item.chunk_id]
        return f"before decay it was rank {rank}" if rank <= knobs.max_results else ""

    state.why_low.append(why_low)
    state.why_late.append(why_late)
    state.record(
        "decay",
        "score × exp(−ln 2 / half-life × age)",
        {"half_life_days": knobs.half_life_days},
        len(state.ranked),
        len(state.ranked),
        changed=moved,
        kind="score",
        label="decay",
        heading="factor by the note's age",
    )


def _operand(candidate: Candidate, now: float, half_life_days: float) -> Operand:
    if candidate.date is None:
        return Operand("decay", "decay", "mul", 1.0, 1.0, {}, "evergreen")
    age = age_days(now, candidate.date)
    note = "age from the file's mtime" if candidate.date_kind == "mtime" else ""
    inputs = {"age_days": age, "half_life_days": half_life_days}
    return Operand("decay", "decay", "mul", decay_multiplier(age, half_life_days), 1.0, inputs, note)
