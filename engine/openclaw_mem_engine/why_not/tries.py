"""Tries: whether other knobs bring a passage in. What was tried is remembered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from operator import attrgetter

from openclaw_mem_engine.ranking.kinds import KINDS
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobValue, Rescue
from openclaw_mem_engine.ranking.pipeline import ranked
from openclaw_mem_engine.ranking.pool import CandidateList, ListRow, Pool
from openclaw_mem_engine.ranking.state import RankingState, Wanted
from openclaw_mem_engine.why_not.steps import Pools, is_scored
from openclaw_mem_engine.why_not.walk import Fate, fate_of, lines_text

#: Knobs that candidate lists are made with, for which a backend is searched again; each has its own of them.
MADE_WITH = frozenset({"lexical_form", "lexical_index", "common_words", "name_weight"})
#: Knobs that make the size of the pool.
SIZES = ("max_results", "candidate_multiplier", "pool_results", "list_rows")
#: The values of all knobs but rescue and those that only make the size of the pool.
_OTHERS = attrgetter("max_results", *KNOBS.keys() - {*SIZES, "keyword_rescue"})


class Tries:
    """Tries other settings than ``knobs`` for one passage: see ``Search``."""

    def __init__(
        self,
        knobs: Knobs,
        wanted: Collection[str],
        line: int | None,
        pools: Pools,
        stop: Callable[[], None],
        made_with: Collection[str],
        is_known: Callable[[Knobs], bool],
    ) -> None:
        self._knobs = knobs
        self._wanted, self._first = frozenset(wanted), next(iter(wanted))
        self._line = line
        self._pools = pools
        self._stop = stop
        self._made_with = frozenset(made_with)
        self._is_known = is_known
        self._tried: dict[tuple[tuple[str, KnobValue], ...], bool] = {}
        self._answers: dict[tuple[object, Rescue, int], bool] = {}
        self._ranks: dict[int, list[tuple[CandidateList, int]]] = {}
        # Settings that would ask the reranker for scores that are not known: what they do cannot be said.
        self._unknown: set[tuple[tuple[str, KnobValue], ...]] = set()

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

    def first_by_words(self) -> Fate | None:
        """What the answer makes of the passage if BM25 ranks it first and all else is as it is: the most that
        BM25 can do for it. None where that is not known: where the score of BM25 is not made of its rank
        alone, several queries are asked, a reranker decides, or no list has the passage."""
        pool, knobs = self._pools.complete(self._knobs), self._knobs
        lists = [lst for lst in pool.lists if KINDS[lst.kind].by_words]
        by_rank = knobs.fusion != "weighted" or knobs.bm25_score in ("rank", "one")
        unknown = len(lists) != 1 or not by_rank or knobs.rerank or self._first not in pool.candidates
        if unknown or not knobs.takes(lists[0].kind):
            return None
        others = [row for row in lists[0].rows if row.chunk_id != self._first]
        first = ListRow(self._first, others[0].raw if others else 1.0)
        led = replace(lists[0], rows=(first, *others))
        changed = replace(pool, lists=tuple(led if lst is lists[0] else lst for lst in pool.lists), memo={})
        state = ranked(changed, knobs, explained=False)
        return fate_of(state, self._wanted, self._line)

    def _chunk_of(self, fate: Fate, state: RankingState) -> str:
        """The lines of the chunk that shows what is wanted, where that is not the first one."""
        found = state.pool.candidates.get(fate.chunk_id)
        return lines_text(found) if found is not None and fate.chunk_id != self._first else ""

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
                self._answers[sized] = self._holds(knobs) and self._is_met(self._fate(knobs))
            if self._answers[sized] and not is_scored(self._pools.complete(knobs), knobs):
                self._unknown.add(key)
            else:
                self._tried[key] = self._answers[sized]
        return self._tried.get(key, False)

    def _is_met(self, fate: Fate) -> bool:
        """The line is shown whole; of a chunk, any part of it."""
        return fate.shown if self._line is not None else fate.rank is not None

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
