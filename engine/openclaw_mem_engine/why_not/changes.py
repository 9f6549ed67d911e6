"""Counterfactuals: which changes of knobs, and of the notes, bring a passage into the answer.

Every change that is named was tried: the passage is in the answer of ``rank()`` with it, and with the next
smaller one it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, product

from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobValue
from openclaw_mem_engine.ranking.pipeline import READS, ranked
from openclaw_mem_engine.ranking.profiles import PROFILES
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.sanitize import counted, figure
from openclaw_mem_engine.why_not import Change
from openclaw_mem_engine.why_not.means import means
from openclaw_mem_engine.why_not.others import others
from openclaw_mem_engine.why_not.steps import Pools, first_that, hundredths, room, steps_of, ways
from openclaw_mem_engine.why_not.tries import MADE_WITH, SIZES, Tries
from openclaw_mem_engine.why_not.walk import fate_of

#: Pairs that are named when no single knob helps.
_PAIRS = 2
#: Each is the complement of the other, and one of the two is tried.
_MIRRORED = "bm25_weight"
_SPACE = "vector_space"
_LINE_SHARES = ("line_bm25", "line_vector")
#: A number alone with at most so many values in a direction is tried value by value.
_FEW = 20
#: The steps of the walk that another stage of the ranking decides.
_STAGE_OF = dict.fromkeys(("retrieval", "mode", "pool"), "candidates")
_STAGE_OF |= {"min_score": "keyword_rescue", "mmr": "max_results"}
#: A knob is not tried with values that alone let more rows of each list into the pool than this, and than
#: now: the signals of their lines cost the most, and more than twenty results are seldom wanted.
MOST_ROWS = 80
#: Knobs that bring in more instead of better: named last.
_MORE = (*SIZES, "candidate_limit", "rerank_top")
#: Knobs that move a chunk most, for pairs.
_LEVERS = ("min_score", "max_results", "mode", "fusion", "keyword_rescue", "vector_weight", "decay", "mmr")
#: Knobs that choose what is shown of a chunk.
_SHOWING = ("snippet", "snippet_chars", "snippet_budget")


class Search(Tries):
    """Looks for changes that bring in one passage, which the step ``stage`` of the walk keeps out: the chunks
    ``wanted``, of which each holds the ``line`` and the steps are about the first, or without a line one, of
    which any part is enough. ``stop`` is called before each try, and may raise; ``made_with`` are knobs that
    the lists are made with; what settings would find that are not ``is_known`` cannot be said; ``only_here``
    says of which settings the agent has no key."""

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
        only_here: Callable[[Mapping[str, KnobValue]], bool] = lambda _: False,
    ) -> None:
        super().__init__(state.knobs, wanted, line, pools, stop, made_with, is_known)
        self._stage, self._own = _STAGE_OF.get(stage, stage), READS.get(stage, frozenset())
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
        self._only_here = only_here
        self._brought: dict[tuple[str, KnobValue], bool] = {}
        self._before = state
        # The best line as the first change shows it: all changes are judged by the same.
        self.best_line = line
        self._score = self._score_in(state)
        self._rescued = any(item.rescued and item.chunk_id in self._wanted for item in state.ranked)

    def changes(self) -> list[Change]:
        """For every knob alone the smallest change that helps; where the agent can be configured with none
        of these, also pairs with which it can; where nothing helps, any pairs. Those where another score
        than its own returns the passage, and those with a smaller pool, are left out where there are
        others. First are those with which it is no weak result, of these those that remove no other result:
        one that is returned may be right. Of each part first are those that only take back what was changed
        of the profile, then those that are not fragile, as those that hold for one age of the note, then
        those that the agent can be configured with, then those of the fewest knobs, then those that leave
        every list in use, then those that do not only ask for more, then what removes the fewest other
        results, then those of the step that keeps it out, those that add and cut the fewest, the best rank,
        and the smallest part of a knob's range (a switch or another choice is the whole range)."""
        found = self.singles()
        if all(change.only_here for change in found):
            found += self._pairs(configurable=True)
        found = found or self._pairs(configurable=False)
        sound = [one for one in found if "keyword_rescue" in one.set or not any(self._tricks(one))]
        return sorted(sound or found, key=self._cost)

    def singles(self) -> list[Change]:
        """The smallest change of each knob alone, in their order."""
        values = ((name, self._nearest(name, {})) for name in self._names())
        return [self._change({name: value}) for name, value in values if value is not None]

    def _pairs(self, *, configurable: bool) -> list[Change]:
        """Pairs of knobs that help together; the first found."""
        found: list[Change] = []
        more = (name for name in ("candidate_limit", "list_rows") if getattr(self._knobs, name))
        names = [name for name in (*_LEVERS, *more) if not self._knobs.missing_need(name)]
        if self._best_line_stays:
            names = [name for name in self._names() if name in names]
        # Decay and MMR lower passages: switched on, they could help only by making others worse.
        levers = [(name, value) for name in names for value in self._far(name) if value is not True]
        firsts = list(self._entrances()) if self._stage == "candidates" else levers
        cuts = dict.fromkeys([*firsts, *levers]) if self._stage != "snippet" else {}
        shown = [(n, far) for n in _SHOWING if not self._knobs.missing_need(n) for far in self._far(n)]
        # What brings the chunk in may show another part of it.
        pairs = chain(product(filter(self._brings, cuts), shown), product(firsts, levers))
        for (name, value), (other, far) in pairs:
            if len(found) == _PAIRS:
                break
            known = any({name, other} <= {*change.set} or {*change.set} <= {name, other} for change in found)
            pair, before = {name: value, other: far}, dict[str, KnobValue]()
            unfit = known or name == other or (configurable and self._only_here(pair))
            if unfit or not self._helps(pair):
                continue
            # Each as small as it can be with the other, until neither can be smaller.
            while pair != before:
                before = dict(pair)
                for one, rest in ((other, name), (name, other)):
                    nearest = self._nearest(one, {rest: pair[rest]})
                    pair[one] = pair[one] if nearest is None else nearest
            # One of them alone may help, where another value of it is the better single change.
            alone = ({n: v} for n, v in pair.items() if self._helps({n: v}))
            found.append(self._change(next(alone, pair)))
        return found

    def helps_undated(self) -> bool:
        """Whether the passage would be in the answer in a note without a date."""
        return self._is_met(self._fate(self._knobs, undated=True))

    # -- trying -----------------------------------------------------------------------------------------

    @property
    def tried(self) -> tuple[str, str]:
        """How many changes were tried, within which limits, and values of which knobs."""
        alone, paired = ({n for s in self._tried if (len(s) > 1) == two for n, _ in s} for two in (0, 1))
        knobs = ", ".join(n + (self._limit(n) if n in SIZES else "") for n in KNOBS if n in alone)
        pairs = f"; pairs of {', '.join(n for n in KNOBS if n in paired)}" if paired else ""
        limits = ["max results" + self._limit("max_results")] * ("max_results" in alone)
        if self._stage == "candidates":
            limits.append(f"up to {max(MOST_ROWS, self._knobs.candidates)} rows of each list")
        most = f" ({', '.join(limits)})" if limits else ""
        of = "one or two knobs" if paired else "one knob"
        return f"{counted(len(self._tried), 'change')} of {of}{most}", f"values of {knobs}{pairs}"

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
        if setting not in self._brought:
            self._stop()
            knobs = self._knobs.set({**dict([setting]), "snippet": "head"})
            known = self._is_known(knobs) and self._holds(knobs)
            self._brought[setting] = known and self._fate(knobs).rank is not None
        return self._brought[setting]

    def _entrances(self) -> Iterator[tuple[str, KnobValue]]:
        """Changes that bring the passage into the pool: as many results as there can be, another mode, and
        the smallest larger pool."""
        names = ("max_results", "mode", *sorted({"expansion", "strong_signal"} & self._made_with))
        far = [(name, value) for name in names for value in self._far(name)]
        yield from (lever for lever in far if self._holds(self._knobs.set(dict([lever]))))
        # Those that have no effect on the size of the pool are left out; the others are of the same effect.
        for name in ("list_rows",) if self._knobs.list_rows else ("candidate_multiplier", "pool_results"):
            steps = self._steps(name, 1)
            wide = (value for value in steps if self._holds(self._knobs.set({name: value})))
            if (value := next(wide, None)) is not None:
                yield name, value
                return

    def _cost(self, change: Change) -> tuple[float, ...]:
        sizes = []
        for name, value in change.set.items():
            if name == _MIRRORED:
                continue
            spec = KNOBS[name]
            number = spec.kind in ("int", "float")
            sizes.append(abs(float(value) - self._start(name)) / (spec.high - spec.low) if number else 1.0)
        more = any(name in _MORE for name in change.set)
        fragile = *self._tricks(change), "half_life_days" in change.set
        usual = PROFILES[self._knobs.profile].knobs
        new = any(getattr(usual, name) != value for name, value in change.set.items())
        lost, other = len(change.lost), self._own.isdisjoint(change.set)
        added = len(change.gained) + change.cuts
        first = change.weak, lost > 0, new, *fragile, change.only_here, len(sizes), "mode" in change.set
        return *first, more, lost, other, added, change.rank, sum(sizes)

    def _tricks(self, change: Change) -> tuple[bool, bool]:
        """Whether another score than its own returns the passage, and whether the pool gets smaller: fewer
        candidates are scaled and ranked otherwise, which is true, but no reason to set it so."""
        rooms = zip(room(self._knobs.set(change.set)), room(self._knobs), strict=True)
        return bool(change.how), any(after < before for after, before in rooms)

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
                found.append((at, self._finest(name, steps, at, others)))
        if others:
            return min(found)[1] if found else None
        return self._by_score(name, found)

    def _by_score(self, name: str, found: Sequence[tuple[int, KnobValue]]) -> KnobValue | None:
        """Of values of a knob, each with its distance, the nearest that does not work by other means."""
        if len(found) < 2:
            return found[0][1] if found else None
        return min(found, key=lambda each: (bool(self._change({name: each[1]}).how), each[0]))[1]

    def _finest(
        self, name: str, steps: Sequence[KnobValue], at: int, others: Mapping[str, KnobValue]
    ) -> KnobValue:
        """The value of a step, or of a minimum, which scores are compared with, the first hundredth before it
        that helps."""
        if name != "min_score":
            return steps[at]
        before = hundredths(steps[at - 1] if at else self._start(name), steps[at])
        return next((value for value in before if self._helps({**others, name: value})), steps[at])

    def _helps_at(
        self, steps: Sequence[KnobValue], name: str, others: Mapping[str, KnobValue], at: int
    ) -> bool:
        return self._helps({**others, name: steps[at]})

    def _steps(self, name: str, direction: int) -> Sequence[KnobValue]:
        """The values of a number from the present one to the end of its range, without the present one."""
        steps = steps_of(KNOBS[name], self._start(name), direction)
        if direction > 0 and name in SIZES:
            most = max(MOST_ROWS, self._knobs.candidates)
            steps = [value for value in steps if self._knobs.set({name: value}).candidates <= most]
        return steps

    def _limit(self, name: str) -> str:
        """Up to which value a number was tried, where that is not its whole range."""
        last = float([self._start(name), *self._steps(name, 1)][-1])
        return f" up to {last:g}" if last < KNOBS[name].high else ""

    def _start(self, name: str) -> float:
        """The present value; of a budget that follows from others, what it is."""
        return float(self._knobs.budget if name == "snippet_budget" else getattr(self._knobs, name))

    def _far(self, name: str) -> list[KnobValue]:
        spec, now = KNOBS[name], getattr(self._knobs, name)
        if spec.kind == "switch":
            return [not now]
        if spec.kind == "choice":
            return self._choices(name)
        return [steps[-1] for way in ways(name) if (steps := self._steps(name, way))]

    def _choices(self, name: str) -> list[KnobValue]:
        """The other choices of a knob, those that the agent can be configured with first; of vector spaces
        those that the index holds."""
        found = list[KnobValue]()
        for value in KNOBS[name].choices:
            knobs = self._knobs.set({name: value})
            if knobs != self._knobs and (name != _SPACE or knobs.space_number in self._spaces):
                found.append(value)
        return sorted(found, key=lambda value: self._only_here({name: value}))

    def _change(self, settings: Mapping[str, KnobValue]) -> Change:
        knobs = self._knobs.set(settings)
        after = ranked(self._pools.complete(knobs), knobs)  # with the signals of its best lines
        fate = fate_of(after, self._wanted, self._line)
        rank_now, trace = fate.rank or 0, after.trace()
        self.best_line = self.best_line or fate.best_line
        # What is kept by keyword rescue already has no score to lose.
        how = "" if self._rescued else means(trace, self._wanted, rank_now)
        only_here = self._only_here(settings)
        # One weight alone means another share in openclaw.json than here.
        both = {_MIRRORED: knobs.bm25_weight} if "vector_weight" in settings else {}
        score = self._score_then(after)
        cut = None if fate_of(after, self._wanted, self.best_line).shown else self.best_line
        rest = others(self._before, after, self._wanted)._asdict() | {"chunk": self._chunk_of(fate, after)}
        held = trace.results[rank_now - 1].chunk_ids if rank_now else ()
        rest["weak"] = any(held) and all(row.weak for row in trace.returned if row.chunk_id in held)
        of = {**settings, **both}
        return Change(of, rank_now, how=how, only_here=only_here, score=score, best_line_cut=cut, **rest)

    def _score_in(self, state: RankingState) -> str:
        """The best score of what is wanted; empty where nothing scored it."""
        rows = (state.trace().row(chunk_id) for chunk_id in self._wanted)
        scores = [row.final for row in rows if row is not None and row.final is not None]
        return figure(max(scores), state.knobs.digits) if scores else ""

    def _score_then(self, after: RankingState) -> str:
        """The score of the passage with other knobs, where it had another one, and why numbers differ."""
        if not (self._score and (now := self._score_in(after))):
            return ""
        before, size = (sum(s.left for s in of.trace().of_kind("fusion")) for of in (self._before, after))
        because = [f"the pool is {'larger' if size > before else 'smaller'}"] if size != before else []
        because += ["min score is not applied"] * (after.no_cut is not None and after.knobs.min_score > 0)
        why = ", ".join(because)
        return why if now == self._score else f"score {now}" + f" ({why})" * bool(why)
