"""The explanation of one ranking: what every stage did to every candidate.

``Trace.to_dict()`` is the one explain format; command line, workbench, export and tests read the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from openclaw_mem_engine.model import Note, Source
from openclaw_mem_engine.ranking.knobs import Knobs

TRACE_VERSION = 1


class Operand(NamedTuple):
    """One term of a score. ``add`` contributes ``value × weight``; ``mul`` multiplies what stands so far by
    ``value`` (weight 1). ``inputs`` hold the numbers that ``value`` was computed from."""

    stage: str
    label: str
    op: Literal["add", "mul"]
    value: float
    weight: float
    inputs: Mapping[str, float]
    note: str = ""

    @property
    def product(self) -> float:
        return self.value * self.weight


class Outcome(NamedTuple):
    """Returned at a rank, or dropped at a stage for a reason. ``rescued``: kept though below the cut."""

    kind: Literal["returned", "dropped"]
    rank: int | None = None
    stage: str | None = None
    reason: str | None = None
    rescued: bool = False


class Diversity(NamedTuple):
    """What MMR saw: ``value = λ·relevance − (1 − λ)·similarity``, the largest similarity to a hit chosen
    before, and which hit that was (a location; None for the first pick). ``picked`` is False for what was
    left over when enough hits had been chosen."""

    picked: bool
    relevance: float
    similarity: float
    rival: str | None
    value: float


class Row(NamedTuple):
    """One candidate. ``scores`` and ``ranks`` are keyed by stage: ``bm25`` and ``vector`` hold the leg's raw
    score and place, ``text`` the text score, ``fusion``/``decay``/``final`` the score after that stage,
    ``mmr`` the selection value, ``vector:<space>`` the cosine in a space that is shown but not fused. Ranks
    are from 1. Stages that did not see the candidate are absent."""

    chunk_id: str
    path: str
    start_line: int
    end_line: int
    source: Source
    scores: Mapping[str, float]
    ranks: Mapping[str, int]
    operands: tuple[Operand, ...]
    outcome: Outcome
    diversity: Diversity | None = None

    @property
    def returned(self) -> bool:
        return self.outcome.kind == "returned"

    @property
    def final(self) -> float | None:
        return self.scores.get("final")

    @property
    def location(self) -> str:
        return f"{self.path}:{self.start_line}-{self.end_line}"


class Stage(NamedTuple):
    """One step as it ran. ``entered``/``left`` count candidates; ``changed`` counts those whose rank the
    stage moved (for MMR among the chosen hits, for rescue those it kept); ``milliseconds`` is wall time."""

    name: str
    formula: str
    constants: Mapping[str, float | str | bool]
    entered: int
    left: int
    changed: int
    milliseconds: float
    note: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """Rows are in order: returned ones by rank, then dropped ones, nearest to being returned first."""

    query: str
    knobs: Knobs
    stages: tuple[Stage, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...]

    @property
    def returned(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row.returned)

    @property
    def dropped(self) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if not row.returned)

    def row(self, chunk_id: str) -> Row | None:
        return next((row for row in self.rows if row.chunk_id == chunk_id), None)

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    @property
    def milliseconds(self) -> float:
        """Time spent ranking (the legs' own time is in the pool)."""
        return sum(stage.milliseconds for stage in self.stages if stage.name not in ("bm25", "vector"))

    def to_dict(self) -> dict[str, object]:
        """Versioned plain data, ready for JSON."""
        return {
            "version": TRACE_VERSION,
            "query": self.query,
            "knobs": self.knobs.to_dict(),
            "stages": [
                {
                    "name": s.name,
                    "formula": s.formula,
                    "constants": dict(s.constants),
                    "in": s.entered,
                    "out": s.left,
                    "changed": s.changed,
                    "ms": round(s.milliseconds, 3),
                    **({"note": s.note} if s.note else {}),
                }
                for s in self.stages
            ],
            "rows": [_row_dict(row) for row in self.rows],
            "notes": [note.to_dict() for note in self.notes],
        }


def _row_dict(row: Row) -> dict[str, object]:
    outcome = row.outcome
    told: dict[str, object] = {"kind": outcome.kind}
    if outcome.rank is not None:
        told["rank"] = outcome.rank
    if outcome.stage is not None:
        told["stage"] = outcome.stage
    if outcome.reason is not None:
        told["reason"] = outcome.reason
    if outcome.rescued:
        told["rescued"] = True
    return {
        "chunkId": row.chunk_id,
        "path": row.path,
        "startLine": row.start_line,
        "endLine": row.end_line,
        "source": row.source,
        "scores": dict(row.scores),
        "ranks": dict(row.ranks),
        "operands": [
            {
                "stage": o.stage,
                "label": o.label,
                "op": o.op,
                "value": o.value,
                "weight": o.weight,
                "inputs": dict(o.inputs),
                **({"note": o.note} if o.note else {}),
            }
            for o in row.operands
        ],
        **({"mmr": row.diversity._asdict()} if row.diversity else {}),
        "outcome": told,
    }


def recompute(operands: Iterable[Operand]) -> float:
    """The score that the operands make, in order: sums of products, then factors.

    The identity ``recompute(row.operands) == row.final`` (to 1e-9) holds for every ranked row.
    """
    total = 0.0
    for operand in operands:
        if operand.op == "add":
            total += operand.value * operand.weight
        else:
            total *= operand.value
    return total
