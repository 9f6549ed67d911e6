"""The working state of one candidate while the stages run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from openclaw_mem_engine.ranking.trace import Diversity, Operand


@dataclass(slots=True)
class Ranked:
    """A pool member on its way through the stages; becomes a ``Row`` of the trace at the end."""

    chunk_id: str
    score: float
    operands: tuple[Operand, ...]
    scores: dict[str, float]
    ranks: dict[str, int]
    diversity: Diversity | None = None


def count_moves(before: Sequence[str], after: Sequence[Ranked]) -> int:
    """How many candidates stand at another place than before."""
    return sum(1 for old, item in zip(before, after, strict=True) if old != item.chunk_id)
