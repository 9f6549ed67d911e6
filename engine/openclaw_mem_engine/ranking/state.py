"""What the stages of a ranking work on: candidates in order, drops with reasons, and the trace so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from functools import lru_cache
from operator import attrgetter, itemgetter
from time import perf_counter

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.kinds import RankedList, evidence
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.lines import NoteLine, note_lines
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.ranking.trace import (
    NOT_SHOWN,
    Diversity,
    Drop,
    Operand,
    Others,
    Outcome,
    Result,
    Row,
    Shown,
    Stage,
    StageKind,
    Trace,
)
from openclaw_mem_engine.sanitize import apart

#: Chunks whose lines are remembered, 10 kB each.
_CHUNKS_KEPT = 400


@dataclass(slots=True)
class Ranked:
    """A candidate with a score. ``rank`` (from 1) is that among all that were scored, as the last stage that
    changed scores or order left it. ``operands`` are those of stages behind the fusion."""

    chunk_id: str
    score: float
    operands: tuple[Operand, ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    rank: int = 0
    rescued: bool = False
    diversity: Diversity | None = None


class Wanted(NamedTuple):
    """The only chunks of a ranking that are asked for: of one file, each with its copy of a ``line``; without
    a line, one chunk and its best line."""

    chunk_ids: frozenset[str]
    line: int | None = None


#: What lowered a candidate, where a stage knows that it did.
WhyLowered = Callable[[Ranked], Drop | None]


class _Dropped(NamedTuple):
    """What a stage dropped for one cause. ``order`` sorts all that it dropped; ``lowered`` are asked in turn
    what lowered a candidate before."""

    items: Sequence[Ranked]
    by: Drop
    why: Callable[[Ranked], str]
    order: Callable[[Ranked], float]
    lowered: Sequence[WhyLowered]


_BY_RANK: Callable[[Ranked], float] = attrgetter("rank")

#: Ids of candidates that no stage scored, best first, and what makes the row of one.
Outside = tuple[Sequence[str], Callable[[str], Row]]


@lru_cache(_CHUNKS_KEPT)
def _lines_of(candidate: Candidate) -> Sequence[NoteLine]:
    """The pool of the next letter of a query holds mostly the same chunks."""
    return note_lines(candidate)


class RankingState:
    """A stage reads and changes ``ranked`` (best first) with :meth:`reorder`, :meth:`drop` and
    :meth:`restore`, and records itself with :meth:`record`.

    Stages tell later cuts what they know: ``why_low`` and ``why_late`` hold functions that explain a low
    score or a late rank (None: not the cause); the latest stage is asked first. ``why_displaced``
    are stage and reason (of an item beside those ``kept``) of drops that the score alone would not
    have caused. ``fused`` makes the operands of the fusion for a chunk, ``outside`` gives the candidates that
    no stage scored: operands, reasons and rows of what is dropped are made when they are read. ``no_cut``
    says why a score cut has no meaning for these scores, None when it has one. Unless ``explained`` only
    scores, order and results are wanted: stages keep nothing for a trace, and there is none. With ``wanted``
    only what the agent receives of that.
    """

    def __init__(
        self, pool: Pool, knobs: Knobs, *, explained: bool = True, wanted: Wanted | None = None
    ) -> None:
        self.pool = pool
        self.knobs = knobs
        self.explained = explained
        self.wanted = wanted
        self.notes: list[Note] = list(pool.notes)
        self.lists: list[RankedList] = []
        self.shown_lists: list[RankedList] = []
        self.ranked: list[Ranked] = []
        #: Chunks that hold words of the query, candidates below the score cut, and why: for keyword rescue.
        self.by_words: frozenset[str] = frozenset()
        self.low: list[Ranked] = []
        self.why_below: Callable[[Ranked], str] = lambda _: ""
        self.no_cut: str | None = None
        self.why_low: list[WhyLowered] = []
        self.why_late: list[WhyLowered] = []
        self.why_displaced: tuple[str, Callable[..., str]] | None = None
        self.fused: Callable[[str], tuple[Operand, ...]] = lambda _: ()
        self.outside: Callable[[RankingState], Outside] = lambda _: ((), dict[str, Row]().__getitem__)
        #: What the agent receives, and what of each returned chunk; the snippet stage makes both.
        self.results: list[Result] = []
        self.shown: dict[str, Shown] = {}
        self._scored: dict[str, Ranked] = {}
        # For each stage that ran.
        self._drops: list[list[_Dropped]] = []
        self._stages: list[Stage] = []
        self._start = 0.0
        self._entered = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were searched, for finding them in a long line."""
        return tuple(dict.fromkeys(word for lst in self.lists for word in lst.source.words))

    def lines_of(self, chunk_id: str) -> Sequence[NoteLine]:
        """The lines of a chunk, made once for a pool."""
        made: dict[str, Sequence[NoteLine]] = self.pool.memo.setdefault("lines", {})
        if chunk_id not in made:
            made[chunk_id] = _lines_of(self.pool.candidates[chunk_id])
        return made[chunk_id]

    def run(self, stage: Callable[[RankingState], None]) -> None:
        """Run one stage; its record carries the time since here."""
        self._drops.append([])
        self._start, self._entered = perf_counter(), len(self.ranked)
        stage(self)

    def add(self, items: Iterable[Ranked]) -> None:
        """Candidates that now have a score, in any order; :meth:`reorder` follows."""
        self.ranked.extend(items)
        if self.explained:
            self._scored.update((item.chunk_id, item) for item in self.ranked)

    def reorder(self, stage: str, order: Sequence[Ranked]) -> int:
        """The candidates in a new order, remembered as the ranks of this stage. Returns how many moved."""
        moved = 0
        if self.explained:
            moved = sum(1 for old, new in zip(self.ranked, order, strict=True) if old is not new)
        self.ranked = list(order)
        for rank, item in enumerate(self.ranked, 1):
            item.rank = rank
            if self.explained:
                item.ranks[stage] = rank
        return moved

    def explain_moves(self, stage: str, before: Mapping[str, tuple[float, int]], when: str) -> None:
        """Tell later cuts what this stage did. ``before`` are score and rank by chunk id as it began, which
        reasons name where they were good enough; ``when`` names that time."""
        knobs = self.knobs

        def why_low(item: Ranked) -> Drop | None:
            score, _ = before[item.chunk_id]
            return Drop(stage, f"score {score:.3f} {when}") if score >= knobs.min_score else None

        def why_late(item: Ranked) -> Drop | None:
            _, rank = before[item.chunk_id]
            return Drop(stage, f"rank {rank} {when}") if rank <= knobs.depth else None

        self.why_low.append(why_low)
        self.why_late.append(why_late)

    def drop(
        self,
        items: Sequence[Ranked],
        stage: str,
        why: Callable[[Ranked], str],
        order: Callable[[Ranked], float] = _BY_RANK,
        cause: str = "",
        lowered: Sequence[WhyLowered] = (),
    ) -> None:
        """Candidates are not returned: the reason is shown, and after it the first of ``lowered`` that is the
        cause, of the latest stage first; ``order`` sorts what one stage dropped. The stage takes them out of
        ``ranked`` itself. Nothing may change what ``why`` reads. A later drop of the same candidate replaces
        this one."""
        if self.explained:
            self._drops[-1].append(_Dropped(items, Drop(stage, cause), why, order, lowered[::-1]))

    def restore(self, item: Ranked) -> None:
        """A dropped candidate is returned after all, behind those that passed."""
        item.rescued = True
        self.ranked.append(item)

    def record(
        self,
        name: str,
        formula: str,
        constants: dict[str, float | str | bool],
        *,
        kind: StageKind,
        label: str,
        heading: str,
        entered: int | None = None,
        left: int | None = None,
        changed: int = 0,
        note: str = "",
        limit: float | None = None,
        milliseconds: float | None = None,
    ) -> None:
        """Add a stage to the trace. What entered is what was ranked when it began, what left what is ranked
        now, and its time that since it began, if not given."""
        entered = self._entered if entered is None else entered
        left = len(self.ranked) if left is None else left
        spent = (perf_counter() - self._start) * 1000 if milliseconds is None else milliseconds
        self._stages.append(
            Stage(name, formula, constants, entered, left, changed, spent, note, kind, label, heading, limit)
        )

    def trace(self) -> Trace:
        """The explanation of everything that happened: a row for every candidate of the pool."""
        weak = self._weak([item.chunk_id for item in self.ranked])
        returned = tuple(
            self.row(item.chunk_id, Outcome("returned", at, rescued=item.rescued), item.chunk_id in weak)
            for at, item in enumerate(self.ranked, 1)
        )
        parts = (tuple(self._stages), returned, self._others, tuple(self.notes), tuple(self.lists))
        return Trace(self.pool.query, self.knobs, *parts, tuple(self.shown_lists), tuple(self.results))

    def _others(self) -> Others:
        returned = {item.chunk_id for item in self.ranked}
        dropped: dict[str, tuple[Ranked, _Dropped]] = {}
        outside, row_outside = self.outside(self)
        for drops in reversed(self._drops):  # what a later stage dropped was nearer to being returned
            found = [(drop.order(item), item, drop) for drop in drops for item in drop.items]
            for _, item, drop in sorted(found, key=itemgetter(0)):
                if item.chunk_id not in returned:  # else one that was restored
                    dropped.setdefault(item.chunk_id, (item, drop))

        def row(chunk_id: str) -> Row:
            if chunk_id not in dropped:
                return row_outside(chunk_id)
            item, drop = dropped[chunk_id]
            why = drop.why(item)
            lowered = next(filter(None, (find(item) for find in drop.lowered)), None)
            why = f"{why}; {lowered.cause}" if lowered else why
            outcome = Outcome("dropped", None, drop.by.stage, why, cause=drop.by.cause, lowered=lowered)
            return self.row(chunk_id, outcome)

        highest: dict[str, float] = {}
        for item in self._scored.values():
            for name, score in item.scores.items():
                highest[name] = max(score, highest.get(name, score))
        return Others({chunk_id: drop.by for chunk_id, (_, drop) in dropped.items()}, outside, row, highest)

    def row(self, chunk_id: str, outcome: Outcome, weak: bool = False) -> Row:
        """The row of a candidate in the trace."""
        scores: dict[str, float] = {}
        ranks: dict[str, int] = {}
        for lst in (*self.lists, *self.shown_lists):
            if chunk_id in lst.ranks:
                scores[lst.key], ranks[lst.key] = lst.raw[chunk_id], lst.ranks[chunk_id]
        item = self._scored.get(chunk_id)
        if item is not None:
            scores |= {**item.scores, "final": item.score}
            ranks |= {**item.ranks, "final": item.rank}
        at, shown = self.pool.candidates[chunk_id], self.shown.get(chunk_id, NOT_SHOWN)
        end = at.end_line - at.text.count("\n", len(at.text.rstrip()))
        lines = {line for first, last in shown.lines for line in range(first, min(last, end) + 1)}
        whole = lines.difference(shown.cut)
        blank = at.end_line - end  # at the end: with the line before them
        return Row(
            chunk_id,
            at.path,
            at.start_line,
            at.end_line,
            at.source,
            scores,
            ranks,
            (*self.fused(chunk_id), *item.operands) if item is not None else (),
            outcome,
            item.diversity if item is not None else None,
            shown,
            weak,
            (len(whole) + blank * (end in whole), at.end_line - at.start_line + 1),
        )

    def _weak(self, returned: Sequence[str]) -> set[str]:
        """Those of the returned candidates that nothing connects with the query; a note when all are."""
        fitting = [lst for lst in self.pool.lists if lst.space_number in (None, self.knobs.space_number)]
        found = evidence(fitting, self.pool, returned)
        weak = {chunk_id for chunk_id, (relevant, _) in found.items() if not relevant}
        floor = next((lst.floor for lst in fitting if lst.floor is not None), None)
        if weak and len(weak) == len(returned) and floor is not None:
            best = max((score for _, score in found.values() if score is not None), default=0.0)
            of = " of a chunk or line" if self.knobs.scores_all_lines else ""
            text = f"no keyword match, best cosine{of} {apart(best, floor)}"
            text += f", below {floor:g}."
            self.notes.append(Note("weak", f"All results are weak: {text}", "warning"))
        return weak
