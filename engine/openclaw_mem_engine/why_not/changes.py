"""Counterfactuals: which changes of knobs, and of the notes, bring a passage into the answer.

Every change that is named was tried: the passage is in the answer of ``rank()`` with it, and with the next
smaller one it is not.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import ceil

from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobSpec, KnobValue
from openclaw_mem_engine.ranking.pipeline import ranked
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Trace
from openclaw_mem_engine.why_not import Change, TextChange
from openclaw_mem_engine.why_not.walk import Fate, ListFact, fate_of

#: Pairs that are named when no single knob helps.
_PAIRS = 2
#: The text weight is the complement of the vector weight, which is tried.
_MIRRORED = "text_weight"
_SPACE = "vector_space"
#: Values before the first that helps, which are tried to see that none of them does.
_CHECKED = 5
#: Knobs that decide which chunks enter the pool: no other brings in what is outside.
_POOL = ("max_results", "candidate_multiplier", "pool_results", "mode")
_LISTS = (_SPACE, "lexical_form", "lexical_index", "name_weight")
#: Knobs of the snippet alone: they bring in nothing that is dropped before it.
_SIZES = ("snippet_chars", "snippet_budget")
#: Knobs that bring in more instead of better: named last.
_MORE = ("max_results", "candidate_multiplier", "pool_results")
#: Knobs that move a chunk most, for pairs.
_LEVERS = ("min_score", "max_results", "mode", "fusion", "keyword_rescue", "vector_weight", "decay", "mmr")


class Search:
    """Looks for changes that bring in one passage, which the step ``stage`` of the walk keeps out. ``holds``
    says whether the pool of knobs has the passage, ``pool_of`` gives that pool, the same one for the same
    ``retrieval_key``. ``stop`` is called before each try, and may raise."""

    def __init__(
        self,
        state: RankingState,
        chunk_id: str,
        line: int | None,
        stage: str,
        holds: Callable[[Knobs], bool],
        pool_of: Callable[[Knobs], Pool],
        stop: Callable[[], None],
    ) -> None:
        self._knobs = state.knobs
        self._chunk_id = chunk_id
        self._line = line
        self._stage = stage
        self._outside = stage in ("retrievers", "scope", "pool")
        self._holds = holds
        self._pool_of = pool_of
        self._stop = stop
        self._tried: dict[tuple[tuple[str, KnobValue], ...], bool] = {}
        self._before = _returned(state)

    def singles(self) -> list[Change]:
        """For every knob alone the smallest change that helps: the smallest part of a knob's range first (a
        switch or another choice is the whole range), those that only ask for more last."""
        found = [change for name in self._names() if (change := self._smallest(name))]
        return sorted(found, key=self._cost)

    def pairs(self) -> list[Change]:
        """Pairs of knobs that help together, for when none does alone; the first found."""
        found: list[Change] = []
        names = [name for name in _LEVERS if not self._knobs.missing_need(name)]
        levers = [(name, value) for name in names for value in self._far(name)]
        firsts = list(self._entrances()) if self._outside else levers
        for (name, value), (other, far) in product(firsts, levers):
            if len(found) == _PAIRS:
                break
            known = any(change.set.keys() == {name, other} for change in found)
            if known or name == other or not self._helps({name: value, other: far}):
                continue
            # Each as small as it can be with the other, until neither can be smaller.
            pair, before = {name: value, other: far}, dict[str, KnobValue]()
            while pair != before:
                before = dict(pair)
                for one, rest in ((other, name), (name, other)):
                    nearest = self._nearest(one, {rest: pair[rest]})
                    pair[one] = pair[one] if nearest is None else nearest
            found.append(self._change(pair))
        return sorted(found, key=self._cost)

    def helps_with(self, pool: Pool) -> bool:
        """Whether the passage would be in the answer of another pool."""
        return self._fate(pool, self._knobs).shown

    # -- trying -----------------------------------------------------------------------------------------

    @property
    def tried(self) -> str:
        """How many settings were tried, and of which knobs."""
        names = {name for settings in self._tried for name, _ in settings}
        pairs = " and in pairs" if any(len(settings) > 1 for settings in self._tried) else ""
        knobs = ", ".join(name for name in KNOBS if name in names)
        return f"{len(self._tried):,} settings tried (values of {knobs}, alone{pairs})"

    def _names(self) -> Iterator[str]:
        """The knobs that can have an effect."""
        if self._outside:
            names: Sequence[str] = (*_POOL, *_LISTS)
        elif self._stage == "snippet" and self._knobs.snippet != "packed":
            names = ("snippet", *_SIZES)
        else:
            names = [name for name in KNOBS if self._stage == "snippet" or name not in _SIZES]
        return (name for name in names if name != _MIRRORED and not self._knobs.missing_need(name))

    def _fate(self, pool: Pool, knobs: Knobs) -> Fate:
        state = ranked(pool, knobs, explained=False, wanted=self._chunk_id)
        return fate_of(state, self._chunk_id, self._line)

    def _helps(self, settings: Mapping[str, KnobValue]) -> bool:
        key = tuple(sorted(settings.items()))
        if key not in self._tried:
            self._stop()
            knobs = self._knobs.set(settings)
            self._tried[key] = self._holds(knobs) and self._fate(self._pool_of(knobs), knobs).shown
        return self._tried[key]

    def _entrances(self) -> Iterator[tuple[str, KnobValue]]:
        """Changes that bring the passage into the pool: as many results as there can be, another mode, and
        the smallest larger pool."""
        far = [(name, value) for name in ("max_results", "mode") for value in self._far(name)]
        yield from (lever for lever in far if self._holds(self._knobs.set(dict([lever]))))
        for name in ("candidate_multiplier", "pool_results"):  # of the same effect
            steps = self._steps(name, 1)
            at = bisect_left(range(len(steps)), True, key=partial(self._holds_at, steps, name))
            if at < len(steps):
                yield name, steps[at]
                return

    def _holds_at(self, values: Sequence[KnobValue], name: str, at: int) -> bool:
        return self._holds(self._knobs.set({name: values[at]}))

    def _cost(self, change: Change) -> tuple[bool, float]:
        sizes = []
        for name, value in change.set.items():
            spec = KNOBS[name]
            number = spec.kind in ("int", "float")
            sizes.append(abs(float(value) - self._start(name)) / (spec.high - spec.low) if number else 1.0)
        return any(name in _MORE for name in change.set), sum(sizes)

    def _smallest(self, name: str) -> Change | None:
        value = self._nearest(name, {})
        return None if value is None else self._change({name: value})

    def _nearest(self, name: str, others: Mapping[str, KnobValue]) -> KnobValue | None:
        """The value of a knob nearest to the present one that helps beside ``others``."""
        spec, now = KNOBS[name], getattr(self._knobs, name)
        if spec.kind == "switch":
            return (not now) if self._helps({**others, name: not now}) else None
        if spec.kind == "choice":
            helping = (value for value in self._choices(name) if self._helps({**others, name: value}))
            return next(helping, None)
        found = []
        for direction in _ways(name):
            steps = self._steps(name, direction)
            tries = partial(self._helps_at, steps, name, others)
            at = _first(len(steps), tries)
            if at is not None:
                found.append((at, steps[at]))
        return min(found)[1] if found else None

    def _helps_at(
        self, steps: Sequence[KnobValue], name: str, others: Mapping[str, KnobValue], at: int
    ) -> bool:
        return self._helps({**others, name: steps[at]})

    def _steps(self, name: str, direction: int) -> Sequence[KnobValue]:
        """The values of a number from the present one to the end of its range, without the present one."""
        spec, start = KNOBS[name], self._start(name)
        end = spec.low if direction < 0 else spec.high
        return _Grid(spec, start, direction, ceil(abs(end - start) / spec.step - 1e-9))

    def _start(self, name: str) -> float:
        """The present value; of a budget that follows from others, what it is."""
        return float(self._knobs.budget if name == "snippet_budget" else getattr(self._knobs, name))

    def _far(self, name: str) -> list[KnobValue]:
        """The largest changes of a knob."""
        spec, now = KNOBS[name], getattr(self._knobs, name)
        if spec.kind == "switch":
            return [not now]
        if spec.kind == "choice":
            return [*self._choices(name)]
        return [steps[-1] for way in _ways(name) if (steps := self._steps(name, way))]

    def _choices(self, name: str) -> Iterator[str]:
        """The other choices of a knob; of vector spaces those that the index holds."""
        for value in KNOBS[name].choices:
            knobs = self._knobs.set({name: value})
            numbers = (lst.space_number for lst in self._pool_of(knobs).lists) if name == _SPACE else ()
            if knobs != self._knobs and (name != _SPACE or knobs.space_number in numbers):
                yield value

    def _change(self, settings: Mapping[str, KnobValue]) -> Change:
        knobs = self._knobs.set(settings)
        now = _returned(after := ranked(self._pool_of(knobs), knobs, explained=False))
        lost = (text for chunk_id, text in self._before.items() if chunk_id not in now)
        known = {self._chunk_id, *self._before}
        gained = (text for chunk_id, text in now.items() if chunk_id not in known)
        rank_now = fate_of(after, self._chunk_id, self._line).rank or 0
        return Change(dict(settings), rank_now, tuple(lost), tuple(gained))


def _returned(state: RankingState) -> dict[str, str]:
    """Where the returned passages are (``path:line``), by chunk id."""
    chunks = (state.pool.candidates[item.chunk_id] for item in state.ranked)
    return {chunk.chunk_id: f"{chunk.path}:{chunk.start_line}" for chunk in chunks}


def _ways(name: str) -> Sequence[int]:
    """The directions in which a number is tried: a higher minimum score is no way to get a passage."""
    return (-1,) if name == "min_score" else (-1, 1)


class _Grid(Sequence[KnobValue]):
    """The values of a number knob, step by step in one direction."""

    def __init__(self, spec: KnobSpec, start: float, direction: int, count: int) -> None:
        self._spec, self._start, self._direction, self._count = spec, start, direction, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: int) -> KnobValue:  # type: ignore[override]
        at = at + self._count if at < 0 else at
        spec = self._spec
        value = min(spec.high, max(spec.low, self._start + self._direction * (at + 1) * spec.step))
        return int(value) if spec.kind == "int" else round(value, 6)


def _first(count: int, helps: Callable[[int], bool]) -> int | None:
    """The first of ``count`` steps that helps: steps 1, 4, 16 … away and the last, then bisection. What helps
    need not go on helping: some of the steps before are tried too."""
    probes: list[int] = sorted({0, 3, 15, 63, 255, count - 1} & {*range(count)})
    best = next((at for at in probes if helps(at)), None)
    while best is not None:
        low, high = max((at for at in probes if at < best), default=-1), best
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if helps(middle) else (middle, high)
        stride = max(1, -(-high // _CHECKED))
        earlier = next((at for at in range(0, high, stride) if helps(at)), None)
        if earlier is None:
            return high
        best = earlier
    return None


def text_changes(
    search: Search, pool: Pool, trace: Trace, stage: str, lists: Sequence[ListFact], chunk_id: str
) -> Iterator[TextChange]:
    """Changes of the note that would help, as far as they can be tried; and the words that it lacks."""
    chunk = pool.candidates.get(chunk_id)
    if chunk is not None and chunk.date is not None and trace.knobs.decay:
        undated = replace(chunk, date=None, date_kind="evergreen")
        pool_then = replace(pool, candidates={**pool.candidates, chunk_id: undated}, memo={})
        if search.helps_with(pool_then):
            text = "Move it to MEMORY.md or to a note without a date in its name: decay alone keeps it out."
            yield TextChange("undated", text)
    missing = tuple(dict.fromkeys(word for fact in lists for word in fact.missing))
    if missing and stage != "snippet":
        text = f"The passage does not contain {' or '.join(f'“{word}”' for word in missing)}"
        ranks = [fact.rank for fact in lists if fact.lexical and fact.rank is not None]
        if not ranks:
            yield TextChange("word", f"{text}: a keyword search cannot match that.")
        elif max(ranks) > 1:
            them = "them" if len(missing) > 1 else "that word"
            text += f"; with {them} it would rank higher among the keyword matches."
            yield TextChange("word", text)
    if stage == "snippet" and trace.knobs.snippet != "packed":
        text = (
            f"A snippet is {trace.knobs.snippet_chars:,} characters of a chunk: put what is cut off into a "
            "note of its own, or make chunks smaller (chunking.tokens)."
        )
        yield TextChange("split", text)
