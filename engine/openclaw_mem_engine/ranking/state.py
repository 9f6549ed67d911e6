"""What the stages of a ranking work on: candidates in order, drops with reasons, and the trace so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from time import perf_counter

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.kinds import RankedList, evidence
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.lines import NoteLine, note_lines
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.trace import (
    NOT_SHOWN,
    Diversity,
    Operand,
    Outcome,
    Result,
    Row,
    Shown,
    Stage,
    StageKind,
    Trace,
)


@dataclass(slots=True)
class Ranked:
    """A candidate with a score. ``rank`` (from 1) is that among all that were scored, as the last stage that
    changed scores or order left it."""

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


class RankingState:
    """A stage reads and changes ``ranked`` (best first) with :meth:`reorder`, :meth:`drop` and
    :meth:`restore`, and records itself with :meth:`record`.

    Stages tell later cuts what they know: ``why_low`` and ``why_late`` hold functions that explain a low
    score or a late rank (an empty text: not the cause); the latest stage is asked first. ``why_displaced``
    gives stage, label and reason of a drop that the score alone would not have caused. ``no_cut`` says why a
    score cut has no meaning for these scores, None when it has one. Unless ``explained`` only scores, order
    and results are wanted: stages make no operands and no reasons, and there is no trace. With ``wanted``
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
        #: Chunks that hold words of the query, and candidates below the score cut: for keyword rescue.
        self.by_words: frozenset[str] = frozenset()
        self.low: list[Ranked] = []
        self.no_cut: str | None = None
        self.why_low: list[Callable[[Ranked], str]] = []
        self.why_late: list[Callable[[Ranked], str]] = []
        self.why_displaced: Callable[[Ranked], tuple[str, str, str]] | None = None
        #: What the agent receives, and what of each returned chunk; the snippet stage makes both.
        self.results: list[Result] = []
        self.shown: dict[str, Shown] = {}
        self._scored: dict[str, Ranked] = {}
        # For each stage that ran, by chunk id: what orders its drops, and the outcome.
        self._drops: list[dict[str, tuple[float, Outcome]]] = []
        self._stages: list[Stage] = []
        self._start = 0.0
        self._entered = 0

    @property
    def words(self) -> tuple[str, ...]:
        """The words that were searched, for finding them in a long line."""
        return tuple(dict.fromkeys(word for lst in self.lists for word in lst.source.words))

    def lines_of(self, chunk_id: str) -> list[NoteLine]:
        """The lines of a chunk, made once for a pool."""
        made: dict[str, list[NoteLine]] = self.pool.memo.setdefault("lines", {})
        if chunk_id not in made:
            made[chunk_id] = note_lines(self.pool.candidates[chunk_id])
        return made[chunk_id]

    def run(self, stage: Callable[[RankingState], None]) -> None:
        """Run one stage; its record carries the time since here."""
        self._drops.append({})
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

    def explain_moves(self, before: Mapping[str, tuple[float, int]], when: str) -> None:
        """Tell later cuts what this stage did. ``before`` are score and rank by chunk id as it began, which
        reasons name where they were good enough; ``when`` names that time."""
        knobs = self.knobs

        def why_low(item: Ranked) -> str:
            score, _ = before[item.chunk_id]
            return f"score {score:.3f} {when}" if score >= knobs.min_score else ""

        def why_late(item: Ranked) -> str:
            _, rank = before[item.chunk_id]
            return f"rank {rank} {when}" if rank <= knobs.depth else ""

        self.why_low.append(why_low)
        self.why_late.append(why_late)

    def drop(self, chunk_id: str, stage: str, label: str, reason: str, order: float) -> None:
        """A candidate is not returned: ``reason`` is shown, ``order`` sorts what one stage dropped. The
        stage takes it out of ``ranked`` itself."""
        self._drops[-1][chunk_id] = order, Outcome("dropped", None, stage, reason, False, label)

    def restore(self, item: Ranked) -> None:
        """A dropped candidate is returned after all, behind those that passed."""
        for drops in self._drops:
            drops.pop(item.chunk_id, None)
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
        outcomes = {
            item.chunk_id: Outcome("returned", at, rescued=item.rescued)
            for at, item in enumerate(self.ranked, 1)
        }
        for drops in reversed(self._drops):  # what a later stage dropped was nearer to being returned
            dropped = sorted(drops.items(), key=lambda drop: drop[1][0])
            outcomes.update((chunk_id, outcome) for chunk_id, (_, outcome) in dropped)
        weak = self._weak([item.chunk_id for item in self.ranked])
        lists = [(lst.key, lst.ranks, lst.raw) for lst in (*self.lists, *self.shown_lists)]
        rows = []
        for chunk_id, outcome in outcomes.items():
            scores: dict[str, float] = {}
            ranks: dict[str, int] = {}
            for key, by_id, raw in lists:
                if chunk_id in by_id:
                    scores[key], ranks[key] = raw[chunk_id], by_id[chunk_id]
            item = self._scored.get(chunk_id)
            if item is not None:
                scores |= {**item.scores, "final": item.score}
                ranks |= {**item.ranks, "final": item.rank}
            at = self.pool.candidates[chunk_id]
            rows.append(
                Row(
                    chunk_id,
                    at.path,
                    at.start_line,
                    at.end_line,
                    at.source,
                    scores,
                    ranks,
                    item.operands if item is not None else (),
                    outcome,
                    item.diversity if item is not None else None,
                    self.shown.get(chunk_id, NOT_SHOWN),
                    chunk_id in weak,
                )
            )
        parts = (tuple(self._stages), tuple(rows), tuple(self.notes), tuple(self.lists))
        return Trace(self.pool.query, self.knobs, *parts, tuple(self.shown_lists), tuple(self.results))

    def _weak(self, returned: Sequence[str]) -> set[str]:
        """Those of the returned candidates that nothing connects with the query; a note when all are."""
        fitting = [lst for lst in self.pool.lists if lst.space_number in (None, self.knobs.space_number)]
        found = evidence(fitting, self.pool, returned)
        weak = {chunk_id for chunk_id, (relevant, _) in found.items() if not relevant}
        floor = next((lst.floor for lst in fitting if lst.floor is not None), None)
        if weak and len(weak) == len(returned) and floor is not None:
            best = max((score for _, score in found.values() if score is not None), default=0.0)
            of = " of a chunk or line" if self.knobs.scores_all_lines else ""
            text = f"no keyword matches a result, and the best cosine{of} is {best:z.2f}, below {floor:g}."
            self.notes.append(Note("weak", f"All results are weak: {text}", "warning"))
        return weak
