"""The last decisions: score cut, keyword rescue, result count."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import NamedTuple

from openclaw_mem_engine.model import Note
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.state import Ranked
from openclaw_mem_engine.ranking.trace import Stage


class Verdict(NamedTuple):
    """Who is returned (in order), who was saved by rescue, and how many the score cut let through."""

    returned: tuple[str, ...]
    rescued: frozenset[str]
    passed: frozenset[str]
    cut_applies: bool


def apply(
    ranked: Sequence[Ranked], knobs: Knobs, no_cut: str | None, stages: list[Stage], notes: list[Note]
) -> Verdict:
    """Score cut, rescue and count over candidates in their final order. ``no_cut`` says why the cut has no
    meaning for these scores, or is None."""
    start = perf_counter()
    if no_cut is None:
        passing = [item for item in ranked if item.score >= knobs.min_score]
    else:
        passing = list(ranked)
        if knobs.min_score > 0:
            notes.append(Note("cut-not-applied", no_cut + "."))
    elapsed = (perf_counter() - start) * 1000
    stages.append(
        Stage(
            "min_score",
            f"score ≥ {knobs.min_score:g}" if no_cut is None else "not applied",
            {"min_score": knobs.min_score},
            len(ranked),
            len(passing),
            0,
            elapsed,
            no_cut or "",
        )
    )
    passed = frozenset(item.chunk_id for item in passing)
    rescued = _rescue(ranked, passing, knobs, stages) if no_cut is None else []
    final = [*passing, *rescued]
    returned = tuple(item.chunk_id for item in final[: knobs.max_results])
    stages.append(
        Stage(
            "max_results",
            f"first {knobs.max_results}",
            {"max_results": knobs.max_results},
            len(final),
            len(returned),
            0,
            0.0,
        )
    )
    return Verdict(returned, frozenset(item.chunk_id for item in rescued), passed, no_cut is None)


def _rescue(
    ranked: Sequence[Ranked], passing: Sequence[Ranked], knobs: Knobs, stages: list[Stage]
) -> list[Ranked]:
    """Keyword hits below the cut that are kept: all of them when nothing passed, or to fill free slots."""
    if knobs.keyword_rescue == "off":
        return []
    free = knobs.max_results - len(passing)
    wanted = (knobs.keyword_rescue == "fill" and free > 0) or not passing
    kept = {item.chunk_id for item in passing}
    saved = [i for i in ranked if wanted and i.chunk_id not in kept and _found_by_keyword(i)][: max(0, free)]
    formula = (
        "keyword hits kept when nothing passes"
        if knobs.keyword_rescue == "when-empty"
        else "free slots filled"
    )
    stages.append(
        Stage(
            "rescue",
            formula,
            {"keyword_rescue": knobs.keyword_rescue},
            len(passing),
            len(passing) + len(saved),
            len(saved),
            0.0,
        )
    )
    return saved


def _found_by_keyword(item: Ranked) -> bool:
    """Whether the text leg knows the candidate (an operand without inputs stands for an absence)."""
    return any(operand.label == "text" and operand.inputs for operand in item.operands)
