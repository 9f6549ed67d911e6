"""Temporal decay: a factor by the age of a note."""

from __future__ import annotations

import math

from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Operand

DAY_SECONDS = 86_400.0


def age_days(now: float, date: float) -> float:
    """Age in days, never negative, of two times in epoch seconds."""
    return max(0.0, (now - date) / DAY_SECONDS)


def decay_multiplier(age: float, half_life_days: float) -> float:
    """``exp(-ln 2 / half-life × age)``: 1 today, 0.5 after one half-life (documented formula)."""
    return math.exp(-math.log(2.0) / half_life_days * age)


def decay_scores(state: RankingState) -> None:
    """Multiply every score by the factor of its note's age; evergreen notes keep theirs."""
    knobs = state.knobs
    if not knobs.decay:
        return
    before = {item.chunk_id: (item.score, item.rank) for item in state.ranked}
    for item in state.ranked:
        operand = _age_factor(state.pool, item.chunk_id, knobs.half_life_days)
        item.score *= operand.value
        if state.explained:
            item.operands = (*item.operands, operand)
            item.scores["decay"] = item.score
    moved = state.reorder("decay", sorted(state.ranked, key=lambda item: -item.score))

    state.explain_moves("decay", before, "before decay")
    state.record(
        "decay",
        "score × exp(−ln 2 / half-life × age)",
        {"half_life_days": knobs.half_life_days},
        changed=moved,
        kind="score",
        label="decay",
        heading="factor by the note's age",
    )


def _age_factor(pool: Pool, chunk_id: str, half_life_days: float) -> Operand:
    candidate = pool.candidates[chunk_id]
    if candidate.date is None:
        return Operand("decay", "decay", "mul", 1.0, 1.0, {}, "evergreen")
    age = age_days(pool.now, candidate.date)
    note = "age from the file's mtime" if candidate.date_kind == "mtime" else ""
    inputs = {"age_days": age, "half_life_days": half_life_days}
    return Operand("decay", "decay", "mul", decay_multiplier(age, half_life_days), 1.0, inputs, note)


def age_of(factor: Operand) -> str:
    """The age in days that a factor of decay was computed from: with one decimal, and as many more as the
    factor with three decimals needs to be computed from it."""
    age, half_life = factor.inputs["age_days"], factor.inputs["half_life_days"]
    shown = f"{factor.value:.3f}"
    texts = [f"{age:.{many}f}" for many in range(1, 7)]
    return next((x for x in texts if f"{decay_multiplier(float(x), half_life):.3f}" == shown), texts[-1])
