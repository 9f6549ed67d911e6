"""Counterfactuals: which changes of knobs, and of the notes, bring a passage into the answer.

Every change that is named was tried: the passage is in the answer of ``rank()`` with it, and with the next
smaller one it is not.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from math import ceil
from operator import attrgetter

from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobValue, Rescue
from openclaw_mem_engine.ranking.pipeline import READS, ranked
from openclaw_mem_engine.ranking.pool import CandidateList, Pool
from openclaw_mem_engine.ranking.profiles import PROFILES
from openclaw_mem_engine.ranking.state import RankingState, Wanted
from openclaw_mem_engine.why_not import Change
from openclaw_mem_engine.why_not.means import means
from openclaw_mem_engine.why_not.steps import Grid, Pools, first_that, is_scored, returned, ways
from openclaw_mem_engine.why_not.walk import Fate, fate_of

#: Knobs that candidate lists are made with, for which a backend is searched again; each has its own of them.
MADE_WITH = frozenset({"lexical_form", "lexical_index", "common_words", "name_weight"})
#: Pairs that are named when no single knob helps.
_PAIRS = 2
#: Each is the complement of the other, and one of the two is tried.
_MIRRORED = "text_weight"
_SPACE = "vector_space"
_LINE_SHARES = ("line_text", "line_vector")
#: A number alone with at most so many values in a direction is tried value by value.
_FEW = 20
#: The steps of the walk that another stage of the ranking decides.
_STAGE_OF = dict.fromkeys(("lists", "scope", "pool"), "candidates")
_STAGE_OF |= {"min_score": "rescue", "mmr": "max_results"}
#: A knob is not tried with values that alone let more rows of each list into the pool than this, and than
#: now: the signals of their lines cost the most, and more than twenty results are seldom wanted.
MOST_ROWS = 80
_SIZES = ("max_results", "candidate_multiplier", "pool_results", "list_rows")
#: The values of all knobs but rescue and those that only make the size of the pool.
_OTHERS = attrgetter("max_results", *KNOBS.keys() - {*_SIZES, "keyword_rescue"})
#: Knobs that bring in more instead of better: named last.
_MORE = (*_SIZES, "candidate_limit", "rerank_top")
#: Knobs that move a chunk most, for pairs.
_LEVERS = ("min_score", "max_results", "mode", "fusion", "keyword_rescue", "vector_weight", "decay", "mmr")
#: Knobs that choose what is shown of a chunk.
_SHOWING = ("snippet", "snippet_chars", "snippet_budget")


class Search:
    """Looks for changes that bring in one passage, which the step ``stage`` of the walk keeps out: the chunks
    ``wanted``, of which each holds the ``line``, or without a line one. ``stop`` is called before each try,
    and may raise; ``made_with`` are knobs that the lists are made with; what settings would find that are not
    ``is_known`` cannot be said."""

    def __init__(
        self,
        state: RankingState,
        wanted: Collection[str],
        line: int | None,
        stage: str,
        pools: Pools,
        stop: Callable[[], None],
        made_with: Collection[str] = MADE_WITH,
        is_known: Callable[[Knobs], bool] = lambda _: True,
    ) -> None:
        self._knobs = state.knobs
        self._wanted = frozenset(wanted)
        self._line = line
        self._stage = _STAGE_OF.get(stage, stage)
        self._all_returned = self._wanted <= state.shown.keys()
        self._spaces = {lst.space_number for lst in state.pool.lists}
        kinds = [(lst.kind, lst.space_number) for lst in state.pool.lists]
        # Where one list by words scores the lines, the best line of a result is the same in any order.
        scoring = [lst for lst in state.pool.lists if state.pool.signals.get(lst.id)]
        self._best_line_stays = (
            self._stage == "snippet"
            and self._all_returned
            and state.knobs.snippet != "packed"
            and len(scoring) == 1
            and KINDS[scoring[0].kind].by_words
        )
        self._lone_lists = len(kinds) == len(set(kinds))
        self._pools = pools
        self._stop = stop
        self._made_with = frozenset(made_with)
        self._is_known = is_known
        self._tried: dict[tuple[tuple[str, KnobValue], ...], bool] = {}
        self._answers: dict[tuple[object, Rescue, int], bool] = {}
        self._ranks: dict[int, list[tuple[CandidateList, int]]] = {}
        # Settings that would ask the reranker for scores that are not known: what they do cannot be said.
        self._unknown: set[tuple[tuple[str, KnobValue], ...]] = set()
        self._before = returned(state)
        self._rescued = any(item.rescued and item.chunk_id in self._wanted for item in state.ranked)

    def singles(self) -> list[Change]:
        """For every knob alone the smallest change that helps. What costs the fewest other results is
        first, then the best rank, then the smallest part of a knob's range (a switch or another choice is the
        whole range); those that only ask for more are last, behind them those where the passage is not
        returned by its own score."""
        values = ((name, self._nearest(name, {})) for name in self._names())
        found = [self._change({name: value}) for name, value in values if value is not None]
        return sorted(found, key=self._cost)

    def pairs(self) -> list[Change]:
        """Pairs of knobs that help together, for when none does alone; the first found."""
        found: list[Change] = []
        more = (name for name in ("candidate_limit", "list_rows") if getattr(self._knobs, name))
        names = [name for name in (*_LEVERS, *more) if not self._knobs.missing_need(name)]
        if self._best_line_stays:
            names = [name for name in self._names() if name in names]
        levers = [(name, value) for name in names for value in self._far(name)]
        firsts = list(self._entrances()) if self._stage == "candidates" else levers
        cuts = dict.fromkeys([*firsts, *levers]) if self._stage != "snippet" else {}
        shown = [(n, far) for n in _SHOWING if not self._knobs.missing_need(n) for far in self._far(n)]
        # What brings the chunk in may show another part of it.
        pairs = chain(product(filter(self._brings, cuts), shown), product(firsts, levers))
        for (name, value), (other, far) in pairs:
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

    def helps_undated(self) -> bool:
        """Whether the passage would be in the answer in a note without a date."""
        return self._fate(self._knobs, undated=True).shown

    # -- trying -----------------------------------------------------------------------------------------

    @property
    def tried(self) -> tuple[str, str]:
        alone, paired = ({n for s in self._tried if (len(s) > 1) == two for n, _ in s} for two in (0, 1))
        knobs = ", ".join(n + (self._limit(n) if n in _SIZES else "") for n in KNOBS if n in alone)
        pairs = f"; pairs of {', '.join(n for n in KNOBS if n in paired)}" if paired else ""
        how = f"{len(self._tried):,} settings tried, alone{' and in some pairs' if paired else ''}"
        return how, f"values of {knobs}{pairs}"

    def _names(self) -> Iterator[str]:
        """The knobs that can have an effect: those that the stages up to the one that keeps the passage out
        read, where no other setting makes them idle. The head of a chunk that is returned is the same
        whatever ranks it."""
        stages = [*PROFILES[self._knobs.profile].stages]
        until = stages.index(self._stage) + 1
        first = 0
        if self._stage == "snippet" and self._knobs.snippet == "head" and self._line and self._all_returned:
            first = until - 1
        read = frozenset[str]().union(*(READS[name] for name in stages[first:until]))
        if self._best_line_stays:
            read = READS["snippet"] | {"mode"}
        if not first:
            read = read - MADE_WITH | self._made_with
        return (n for n in KNOBS if n in read and n != _MIRRORED and not self._is_idle(n))

    def _is_idle(self, name: str) -> bool:
        """Whether other settings keep a knob from having an effect. The shares of lines also decide which
        lines have scores, among which a snippet chooses the best; an original weight cancels out where it is
        that of the only list of each kind."""
        knobs = self._knobs
        if name == "original_weight" and knobs.fusion == "weighted" and self._lone_lists:
            return True
        if name in _LINE_SHARES and self._stage == "snippet" and knobs.snippet != "packed":
            return False
        return bool(knobs.missing_need(name))

    def _brings(self, setting: tuple[str, KnobValue]) -> bool:
        """Whether one setting brings the chunk in, whatever is shown of it."""
        self._stop()
        knobs = self._knobs.set({**dict([setting]), "snippet": "head"})
        return self._is_known(knobs) and self._holds(knobs) and self._fate(knobs).rank is not None

    def _fate(self, knobs: Knobs, *, undated: bool = False) -> Fate:
        """What the answer of these knobs makes of the passage."""
        pool = self._pools.pool(knobs)
        complete: Callable[[], Pool] | None = partial(self._pools.complete, knobs)
        if undated:
            known = (pool := self._pools.complete(knobs)).candidates
            dateless = {i: known[i]._replace(date=None) for i in self._wanted if i in known}
            pool, complete = replace(pool, candidates={**known, **dateless}, memo={}), None
        wanted = Wanted(self._wanted, self._line)
        state = ranked(pool, knobs, explained=False, wanted=wanted, complete=complete)
        return fate_of(state, self._wanted, self._line)

    def _helps(self, settings: Mapping[str, KnobValue]) -> bool:
        key = tuple(sorted(settings.items()))
        if key not in self._tried and key not in self._unknown:
            self._stop()
            knobs = self._knobs.set(settings)
            if not self._is_known(knobs):
                self._unknown.add(key)
                return False
            if not self._made_with.isdisjoint(settings):
                knobs = self._pools.same(knobs)
            # The size of the pool is one number, whichever knobs make it.
            positive = knobs.min_score <= 0 and knobs.vector_score == "minmax" and not knobs.rerank
            # No score is below 0 then, and there is nothing to rescue.
            rescue = "off" if positive else knobs.keyword_rescue
            sized = _OTHERS(knobs), rescue, knobs.candidates
            if sized not in self._answers:
                self._answers[sized] = self._holds(knobs) and self._fate(knobs).shown
            if self._answers[sized] and not is_scored(self._pools.complete(knobs), knobs):
                self._unknown.add(key)
            else:
                self._tried[key] = self._answers[sized]
        return self._tried.get(key, False)

    def _holds(self, knobs: Knobs) -> bool:
        """Whether the pool of these knobs has the passage: a list that they fuse has it in its first rows."""
        pool = self._pools.pool(knobs)
        if id(pool) not in self._ranks:
            self._ranks[id(pool)] = [
                (lst, rank)
                for lst in pool.lists
                for rank, row in enumerate(lst.rows, 1)
                if row.chunk_id in self._wanted
            ]
        return any(
            rank <= knobs.candidates
            and knobs.takes(lst.kind)
            and lst.space_number in (None, knobs.space_number)
            for lst, rank in self._ranks[id(pool)]
        )

    def _entrances(self) -> Iterator[tuple[str, KnobValue]]:
        """Changes that bring the passage into the pool: as many results as there can be, another mode, and
        the smallest larger pool."""
        names = ("max_results", "mode", *sorted({"expansion", "strong_signal"} & self._made_with))
        far = [(name, value) for name in names for value in self._far(name)]
        yield from (lever for lever in far if self._holds(self._knobs.set(dict([lever]))))
        # Those that have no effect on the size of the pool are left out; the others are of the same effect.
        for name in ("list_rows",) if self._knobs.list_rows else ("candidate_multiplier", "pool_results"):
            steps = self._steps(name, 1)
            at = bisect_left(steps, True, key=partial(self._holds_with, name))
            if at < len(steps):
                yield name, steps[at]
                return

    def _holds_with(self, name: str, value: KnobValue) -> bool:
        return self._holds(self._knobs.set({name: value}))

    def _cost(self, change: Change) -> tuple[bool, bool, int, int, float]:
        sizes = []
        for name, value in change.set.items():
            spec = KNOBS[name]
            number = spec.kind in ("int", "float")
            sizes.append(abs(float(value) - self._start(name)) / (spec.high - spec.low) if number else 1.0)
        more = any(name in _MORE for name in change.set)
        return bool(change.how), more, len(change.lost), change.rank, sum(sizes)

    def _nearest(self, name: str, others: Mapping[str, KnobValue]) -> KnobValue | None:
        """The value of a knob nearest to the present one that helps beside ``others``. Of the nearest in each
        direction, and of choices, a single knob takes one with which the passage has the score."""
        spec, now = KNOBS[name], getattr(self._knobs, name)
        if spec.kind == "switch":
            return (not now) if self._helps({**others, name: not now}) else None
        if spec.kind == "choice":
            helping = (value for value in self._choices(name) if self._helps({**others, name: value}))
            return next(helping, None) if others else self._by_score(name, list(enumerate(helping)))
        found = list[tuple[int, KnobValue]]()
        for direction in ways(name):
            steps = self._steps(name, direction)
            tries = partial(self._helps_at, steps, name, others)
            if len(steps) <= _FEW and not others:
                at = next(filter(tries, range(len(steps))), None)
            else:
                at = first_that(len(steps), tries)
            if at is not None:
                found.append((at, steps[at]))
        if others:
            return min(found)[1] if found else None
        return self._by_score(name, found)

    def _by_score(self, name: str, found: Sequence[tuple[int, KnobValue]]) -> KnobValue | None:
        """Of values of a knob, each with its distance, the nearest that does not work by other means."""
        if len(found) < 2:
            return found[0][1] if found else None
        return min(found, key=lambda each: (bool(self._change({name: each[1]}).how), each[0]))[1]

    def _helps_at(
        self, steps: Sequence[KnobValue], name: str, others: Mapping[str, KnobValue], at: int
    ) -> bool:
        return self._helps({**others, name: steps[at]})

    def _steps(self, name: str, direction: int) -> Sequence[KnobValue]:
        """The values of a number from the present one to the end of its range, without the present one."""
        spec, start = KNOBS[name], self._start(name)
        end = spec.low if direction < 0 else spec.high
        steps = Grid(spec, start, direction, ceil(abs(end - start) / spec.step - 1e-9))
        if direction > 0 and name in _SIZES:
            most = max(MOST_ROWS, self._knobs.candidates)
            count = bisect_right(steps, most, key=lambda value: self._knobs.set({name: value}).candidates)
            steps = Grid(spec, start, direction, count)
        return steps

    def _limit(self, name: str) -> str:
        """Up to which value a number was tried, where that is not its whole range."""
        last = float(next(reversed(self._steps(name, 1)), self._start(name)))
        return f" up to {last:g}" if last < KNOBS[name].high else ""

    def _start(self, name: str) -> float:
        """The present value; of a budget that follows from others, what it is."""
        return float(self._knobs.budget if name == "snippet_budget" else getattr(self._knobs, name))

    def _far(self, name: str) -> list[KnobValue]:
        spec, now = KNOBS[name], getattr(self._knobs, name)
        if spec.kind == "switch":
            return [not now]
        if spec.kind == "choice":
            return [*self._choices(name)]
        return [steps[-1] for way in ways(name) if (steps := self._steps(name, way))]

    def _choices(self, name: str) -> Iterator[str]:
        """The other choices of a knob; of vector spaces those that the index holds."""
        for value in KNOBS[name].choices:
            knobs = self._knobs.set({name: value})
            if knobs != self._knobs and (name != _SPACE or knobs.space_number in self._spaces):
                yield value

    def _change(self, settings: Mapping[str, KnobValue]) -> Change:
        knobs = self._knobs.set(settings)
        complete = partial(self._pools.complete, knobs)
        after = ranked(self._pools.pool(knobs), knobs, complete=complete)
        now = returned(after)
        lost = (text for i, text in self._before.items() if i not in now and i not in self._wanted)
        known = {*self._wanted, *self._before}
        gained = (text for chunk_id, text in now.items() if chunk_id not in known)
        rank_now = fate_of(after, self._wanted, self._line).rank or 0
        # What is kept by keyword rescue already has no score to lose.
        how = "" if self._rescued else means(after.trace(), self._wanted, rank_now)
        return Change(dict(settings), rank_now, tuple(lost), tuple(gained), how)
