"""The explanation of one ranking: what every stage did to every candidate. ``Trace.to_dict()`` is the one
explain format; command line, workbench, export and tests read the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Literal

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import InOrder, Later, Note, OnDemand, Source
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.kinds import RankedList
from openclaw_mem_engine.ranking.knobs import Knobs

_OUTCOME_KEYS = ("kind", "rank", "stage", "reason", "rescued")
_OPERAND_KEYS = ("stage", "label", "op", "value", "weight", "inputs")
_DIVERSITY_KEYS = ("picked", "relevance", "similarity", "nearest", "value")

#: What a stage does: ``list`` is a candidate list and its cut, ``fusion`` makes scores out of lists,
#: ``score`` changes scores, ``order`` the order only, ``cut`` drops by score, ``rescue`` takes back what was
#: dropped, ``count`` drops by rank, ``snippet`` decides which lines of what is left are shown.
StageKind = Literal["list", "fusion", "score", "order", "cut", "rescue", "count", "snippet"]
#: First and last line, 1-based.
Lines = tuple[int, int]


def touches(shown: Iterable[Lines], line: int | None) -> bool:
    """Whether the ``line`` or a part of it is in one of the ranges that are shown."""
    return line is not None and any(first <= line <= last for first, last in shown)


class Operand(NamedTuple):
    """One term of a score: ``add`` contributes ``value × weight``, ``mul`` multiplies the sum so far by
    ``value``, ``set`` replaces it by ``value``. ``label`` is that of a list (``RankedList.term``) or of a
    stage; ``inputs`` are what ``value`` was computed from, none where a list does not hold the candidate
    (``note`` says ``why``)."""

    stage: str
    label: str
    op: Literal["add", "mul", "set"]
    value: float
    weight: float
    inputs: Mapping[str, float]
    why: str | Later = ""

    @property
    def note(self) -> str:
        return str(self.why)

    @property
    def product(self) -> float:
        return self.value * self.weight

    def applied(self, total: float) -> float:
        """The score after this operand, of that before it."""
        if self.op == "add":
            return total + self.value * self.weight
        return total * self.value if self.op == "mul" else self.value


class Drop(NamedTuple):
    """The stage that dropped or lowered a candidate, empty where none did, and the cause in a few words."""

    stage: str
    cause: str = ""


class Outcome(NamedTuple):
    """Returned at a rank, or dropped at a stage for a reason, which ends with what ``lowered`` it so far.
    ``rescued``: kept though below the cut; ``cause`` is that of ``drop``."""

    kind: Literal["returned", "dropped"]
    rank: int | None = None
    stage: str | None = None
    reason: str | None = None
    rescued: bool = False
    cause: str = ""
    lowered: Drop | None = None

    @property
    def drop(self) -> Drop:
        return Drop(self.stage or "", self.cause)


class Diversity(NamedTuple):
    """The numbers of MMR: ``value = λ·relevance − (1 − λ)·similarity``, where ``similarity`` is the largest
    one to a hit chosen before and ``nearest`` the location of that hit (None: there was none). ``picked`` is
    False for what remained when enough hits had been chosen; its numbers are those with which it lost to the
    last one."""

    picked: bool
    relevance: float
    similarity: float
    nearest: str | None
    value: float


class Result(NamedTuple):
    """What the agent receives as one result: ``snippet`` shows the lines ``shown`` of a file, in their order,
    out of the chunks ``chunk_ids`` (best first). ``start_line`` and ``end_line`` span the chunk, or for
    packed lines what is shown; ``score`` is that of the best chunk."""

    chunk_ids: tuple[str, ...]
    path: str
    start_line: int
    end_line: int
    source: Source
    score: float
    snippet: str
    shown: tuple[Lines, ...]


class Shown(NamedTuple):
    """What the agent receives of a returned chunk: the lines ``shown``, and the line that answers the query
    best (None: no line of it has a score). ``best_line_cut``: that line is not shown whole; of a packed one
    not all words of the query that it holds. ``cut`` are the lines that are shown in part."""

    lines: tuple[Lines, ...] = ()
    best_line: int | None = None
    best_line_cut: bool = False
    cut: tuple[int, ...] = ()

    def holds(self, line: int) -> bool:
        """Whether the agent receives the whole ``line``."""
        return line not in self.cut and touches(self.lines, line)


NOT_SHOWN = Shown()


class Row(NamedTuple):
    """One candidate. ``scores`` and ``ranks`` (from 1) are keyed by list and stage: a list's key has its raw
    score and rank, its term the value that entered the fusion (where that is another number), a stage the
    score after it (an ``order`` stage its selection value), ``final`` the last; absent if there is none.
    ``weak``: returned, though no keyword match and its cosine is below the floor. ``sent``: how many of its
    lines the agent receives whole, and how many there are; blank ones at its end count as received with the
    last that is not."""

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
    shown: Shown = NOT_SHOWN
    weak: bool = False
    sent: tuple[int, int] = (0, 0)

    @property
    def returned(self) -> bool:
        return self.outcome.kind == "returned"

    @property
    def final(self) -> float | None:
        return self.scores.get("final")

    @property
    def truncated(self) -> bool:
        """Whether the agent receives a part of a returned chunk only."""
        return self.returned and self.sent[0] < self.sent[1]

    @property
    def location(self) -> str:
        return f"{self.path}:{self.start_line}-{self.end_line}"


#: Most of the dropped candidates' are never made.
Rows = InOrder[Row]


class Others(NamedTuple):
    """Ids of the candidates that were ranked and dropped, nearest to being returned first, each with what
    dropped it; ids of those outside of the pool, best first; what makes a row; the highest score by stage."""

    unreturned: Mapping[str, Drop]
    outside: Sequence[str]
    make: Callable[[str], Row]
    highest: Mapping[str, float]


class Stage(NamedTuple):
    """One step as it ran. ``entered``/``left`` count candidates; ``changed`` counts those whose rank the
    stage moved (for MMR among the chosen hits, for rescue those it kept); ``milliseconds`` is wall time.
    ``limit`` is what a cut compares with; ``label`` is the name on screens (6 letters fit), ``heading`` its
    meaning."""

    name: str
    formula: str
    constants: Mapping[str, float | str | bool]
    entered: int
    left: int
    changed: int
    milliseconds: float
    note: str = ""
    kind: StageKind = "score"
    label: str = ""
    heading: str = ""
    limit: float | None = None


@dataclass(frozen=True)
class Trace:
    """``returned`` are the rows that were returned, by rank. ``others`` gives the dropped ones, most of
    a trace and not always read. ``lists`` are those that were fused, in the order of their stages;
    ``shown_lists`` are those of other vector spaces, without effect on the order. ``results`` are what the
    agent receives, best first."""

    query: str
    knobs: Knobs
    stages: tuple[Stage, ...]
    returned: tuple[Row, ...]
    others: Callable[[], Others] = field(compare=False, repr=False)
    notes: tuple[Note, ...]
    lists: tuple[RankedList, ...] = ()
    shown_lists: tuple[RankedList, ...] = ()
    results: tuple[Result, ...] = ()

    @cached_property
    def _others(self) -> Others:
        return self.others()

    @cached_property
    def rows(self) -> Rows:
        """Every candidate: those returned, then those dropped."""
        known, others = {row.chunk_id: row for row in self.returned}, self._others
        ids = (*known, *others.unreturned, *others.outside)
        return Rows(ids, OnDemand(ids, lambda i: known[i] if i in known else others.make(i)))

    @cached_property
    def dropped(self) -> Rows:
        """All dropped candidates, nearest to being returned first."""
        return self.rows[len(self.returned) :]

    @cached_property
    def unreturned(self) -> Rows:
        """Those of them that were ranked."""
        return self.dropped[: len(self._others.unreturned)]

    @property
    def dropped_by(self) -> Mapping[str, Drop]:
        """By the chunk id of each of them, what dropped it."""
        return self._others.unreturned

    @property
    def highest(self) -> Mapping[str, float]:
        """The highest score of any candidate by the name of the stage that gave it. Makes no row."""
        return self._others.highest

    @cached_property
    def outside(self) -> Rows:
        """Those of them that are outside of the pool."""
        return self.dropped[len(self._others.unreturned) :]

    @property
    def best_line_cut(self) -> tuple[Row, ...]:
        """Returned rows whose best line the agent does not see."""
        return tuple(row for row in self.returned if row.shown.best_line_cut)

    def row(self, chunk_id: str) -> Row | None:
        return self.rows.of.get(chunk_id)

    def stage(self, name: str) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def of_kind(self, kind: StageKind) -> tuple[Stage, ...]:
        """The stages of a kind, in the order in which they ran."""
        return tuple(stage for stage in self.stages if stage.kind == kind)

    @property
    def cut(self) -> Stage | None:
        """The score cut, when it ran and applies."""
        return next((stage for stage in self.of_kind("cut") if not stage.note), None)

    @property
    def milliseconds(self) -> float:
        """Time spent ranking (the time of the lists is in the pool)."""
        return sum(stage.milliseconds for stage in self.stages if stage.kind != "list")

    def to_dict(self) -> dict[str, object]:
        """Versioned plain data, ready for JSON."""
        return {
            "version": 2,
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
    outcome = zip(_OUTCOME_KEYS, row.outcome, strict=False)
    return {
        "chunkId": row.chunk_id,
        "path": row.path,
        "startLine": row.start_line,
        "endLine": row.end_line,
        "source": row.source,
        "scores": dict(row.scores),
        "ranks": dict(row.ranks),
        "operands": [
            dict(zip(_OPERAND_KEYS, o, strict=False)) | ({"note": note} if (note := o.note) else {})
            for o in row.operands
        ],
        **({"mmr": dict(zip(_DIVERSITY_KEYS, row.diversity, strict=True))} if row.diversity else {}),
        "outcome": {key: value for key, value in outcome if value not in (None, False)},
        **({"weak": True} if row.weak else {}),
        **({"shown": row.shown.lines, "bestLineCut": row.shown.best_line_cut} if row.returned else {}),
        **({"bestLine": row.shown.best_line} if row.shown.best_line is not None else {}),
    }


def recompute(operands: Iterable[Operand]) -> float:
    """The score that the operands make, in order: products are added, factors and new values applied.

    The identity ``recompute(row.operands) == row.final`` (to 1e-9) holds for every ranked row.
    """
    total = 0.0
    for operand in operands:
        total = operand.applied(total)
    return total
