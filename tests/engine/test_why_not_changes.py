"""Changes of knobs that bring a passage in: none is missed, each is the smallest; every value is tried."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobValue
from openclaw_mem_engine.ranking.pipeline import READS, STAGES, ranked
from openclaw_mem_engine.ranking.pool import CandidateList, Pool
from openclaw_mem_engine.ranking.profiles import PROFILES, profile
from openclaw_mem_engine.ranking.stages import line_scores, scores
from openclaw_mem_engine.ranking.state import RankingState, Wanted
from openclaw_mem_engine.retrieval.candidate_lists import ListBuilder
from openclaw_mem_engine.stores.query import LexicalQuery
from openclaw_mem_engine.why_not import RETURNED, Change
from openclaw_mem_engine.why_not.changes import Search
from openclaw_mem_engine.why_not.others import others
from openclaw_mem_engine.why_not.steps import hundredths
from openclaw_mem_engine.why_not.text_changes import text_changes
from openclaw_mem_engine.why_not.walk import Fate, ListFact, fate_of
from support.knob_values import few_values, values_of
from support.memories import backend_of, open_memory, write_notes
from support.pools import bm25_list, candidate, knob_settings, pool_of_lists, pools, vector_list


class OnePool:
    """The same pool for all knobs."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def pool(self, knobs: Knobs) -> Pool:
        return self._pool

    def complete(self, knobs: Knobs) -> Pool:
        return self._pool

    def same(self, knobs: Knobs) -> Knobs:
        return knobs


def searched(lists: tuple[CandidateList, ...]) -> tuple[Search, RankingState]:
    pool = pool_of_lists(*lists)
    state = ranked(pool, profile("documented"))
    return Search(state, "b", None, "min_score", OnePool(pool), lambda: None), state


def test_no_higher_minimum_score_and_no_space_that_is_not_there_is_proposed() -> None:
    lists = (vector_list([("a", 0.55), ("b", 0.1)]), bm25_list([("b", 3.0)]))
    changes = searched(lists)[0].changes()
    low = next(change.set["min_score"] for change in changes if "min_score" in change.set)
    assert float(low) < 0.35 and not any("vector_space" in change.set for change in changes)
    second = replace(vector_list([("b", 0.9)]), id="vector:second", space_number=1)
    changes = searched((*lists, second))[0].singles()
    assert {"vector_space": "second"} in [dict(change.set) for change in changes]


def test_a_mode_comes_after_a_change_that_leaves_every_list_in_use() -> None:
    lists = (vector_list([("a", 0.9), ("b", 0.8)]), bm25_list([("c", 3.0), ("a", 2.0)]))
    pool = pool_of_lists(*lists)
    same, other = "the red pump hums in the cellar", "Thursday: cheese, a ferry and new strings"
    texts = {"a": same, "b": same, "c": other}
    pool = replace(pool, candidates={i: pool.candidates[i]._replace(text=texts[i]) for i in texts})
    knobs = profile("documented").set({"mmr": True, "mmr_lambda": 0.3, "min_score": 0, "max_results": 2})
    search = Search(ranked(pool, knobs), {"b"}, None, "mmr", OnePool(pool), lambda: None)
    changes = {name: change for change in search.changes() for name in change.set}
    assert changes["mmr"].lost == changes["mode"].lost and changes["mmr"].rank == changes["mode"].rank
    assert [*changes].index("mmr") < [*changes].index("mode")


def test_a_change_of_the_step_that_drops_it_comes_before_one_with_a_better_rank() -> None:
    lists = (vector_list([("a", 0.6), ("b", 0.45), ("c", 0.25)]), bm25_list([("c", 3.0)]))
    changes = [(change.set, change.rank, change.lost) for change in searched(lists)[0].changes()]
    assert changes[0] == ({"min_score": 0.31}, 3, ())
    assert ({"vector_weight": 0.8, "bm25_weight": 0.2}, 2, ()) in changes


def test_a_minimum_is_lowered_to_the_score_in_hundredths() -> None:
    lists = (vector_list([("a", 0.6), ("b", 0.343 / 0.7), ("c", 0.31 / 0.7)]),)
    changes = searched(lists)[0].changes()
    found = next(change for change in changes if "min_score" in change.set)
    assert (found.set, found.gained) == ({"min_score": 0.34}, ())
    off_grid = [*hundredths(0.355, 0.305)], [*hundredths(0.01, 0.0)]
    assert off_grid == ([0.35, 0.34, 0.33, 0.32, 0.31], [])


def test_what_the_agent_can_be_configured_with_is_named_first_and_is_looked_for_in_pairs() -> None:
    def changes(*free: str) -> list[Change]:
        def only_here(settings: Mapping[str, KnobValue]) -> bool:
            return not settings.keys() <= {*free}

        pool = pool_of_lists(vector_list([("a", 0.7), ("b", 0.5), ("c", 0.4)]), bm25_list([("c", 9.0)]))
        knobs = profile("documented").set({"max_results": 1, "min_score": 0.5, "keyword_rescue": "off"})
        stop, state = (lambda: None), ranked(pool, knobs)
        search = Search(state, {"c"}, None, "min_score", OnePool(pool), stop, only_here=only_here)
        restores = {"keyword_rescue": "when-empty"}  # the profile's own comes before all others
        return [change for change in search.changes() if change.set != restores]

    (last,) = [change.set for change in changes(*KNOBS) if not change.how][-1]
    assert [change.only_here for change in changes(last)][:2] == [False, True]
    assert changes(last)[0].set.keys() == {last}
    paired = changes("min_score", "max_results")
    assert paired[0].set.keys() == {"min_score", "max_results"} and not paired[0].only_here
    assert paired[1:] and all(
        change.only_here and len(change.set.keys() - {"bm25_weight"}) == 1 for change in paired[1:]
    )


def test_a_change_that_removes_a_result_comes_after_one_that_does_not() -> None:
    lists = (vector_list([("a", 0.55), ("b", 0.1)]), bm25_list([("b", 3.0)]))
    changes = searched(lists)[0].changes()
    lost = [bool(change.lost) for change in changes]
    assert set(lost) == {False, True} and lost == sorted(lost)
    first = next(change for change in changes if change.lost)
    assert first.lost == ("memory/a.md:1",) and any(change.how for change in changes if not change.lost), (
        "the top one"
    )


def test_a_change_that_works_by_keyword_rescue_says_so_and_comes_last() -> None:
    changes = searched((vector_list([("a", 0.55), ("b", 0.1)]), bm25_list([("b", 3.0)])))[0].changes()
    how = {name: change.how for change in changes for name in change.set}
    assert how["min_score"] == "" == how["fusion"]
    assert "vector_weight" not in how, "with it no score reaches the minimum: left out beside the others"
    assert (
        how["keyword_rescue"] == "keyword rescue returns it, although its score 0.220 is below min score 0.35"
    )
    order = [(bool(change.lost), bool(change.how)) for change in changes]
    assert order == sorted(order), "of those that remove the same"
    (rescued,) = [change for change in changes if {*change.set} == {"keyword_rescue"}]
    assert rescued.to_dict()["how"] == rescued.how


def test_a_change_that_takes_back_what_was_changed_of_the_profile_comes_first() -> None:
    pool = pool_of_lists(vector_list([("a", 0.2), ("b", 0.1)]), bm25_list([("a", 3.0)]))
    state = ranked(pool, profile("documented").set({"keyword_rescue": "off"}))
    search = Search(state, {"a"}, None, "min_score", OnePool(pool), lambda: None)
    first, second, *_ = search.changes()
    assert (first.set, second.set) == ({"keyword_rescue": "when-empty"}, {"min_score": 0.29})
    assert first.how, "though a higher score of another chunk would undo it"


def test_of_changes_alike_the_one_that_adds_the_fewest_results_comes_first() -> None:
    search, _ = searched((vector_list([("a", 0.55), ("b", 0.1)]), bm25_list([("b", 3.0)])))
    first = search.changes()[0]
    assert search._cost(first) < search._cost(replace(first, gained=("memory/a.md:1",)))
    assert search._cost(first) < search._cost(replace(first, cuts=1))


def test_no_pair_switches_on_what_only_lowers_other_results() -> None:
    """With decay the chunk without a date would be first: all others are lowered."""
    rows = [(f"c{n:02d}", 0.9 - 0.01 * n) for n in range(30)]
    dated = {name: candidate(name, days_old=400) for name, _ in rows}
    pool = pool_of_lists(vector_list([*rows, ("last", 0.3)]), candidates=dated)
    knobs = profile("documented").set({"max_results": 1, "min_score": 0.5, "candidate_multiplier": 20})
    knobs = knobs.set({"pool_results": 2})
    search = Search(ranked(pool, knobs), {"last"}, None, "min_score", OnePool(pool), lambda: None)
    helps = knobs.set({"min_score": 0.2, "decay": True})
    assert fate_of(ranked(pool, helps), {"last"}, None).rank == 1, "by itself it is no wrong change"
    assert not search.changes()


def test_a_change_whose_result_is_weak_says_so_and_comes_last() -> None:
    vectors = replace(vector_list([("a", 0.55), ("b", 0.1)]), floor=0.32)
    search, _ = searched((vectors, bm25_list([("a", 3.0)], matched=1)))
    first = search.changes()[0]
    assert first.set == {"min_score": 0.06} and first.weak and first.to_dict()["weak"]
    assert first.effect == "a weak result, other results stay"
    sound = replace(first, weak=False, lost=("memory/a.md:1",), set={"min_score": 0.0, "decay": True})
    assert search._cost(sound) < search._cost(first), "though it removes a result"
    assert search._cost(first) < search._cost(replace(sound, weak=True, lost=())), "fewer knobs"
    strong, _ = searched((vectors, bm25_list([("a", 3.0), ("b", 2.0)])))
    assert not any(change.weak or "weak" in change.to_dict() for change in strong.changes())


def test_a_smaller_pool_comes_after_plain_changes_and_another_score_is_said() -> None:
    """With values from the lowest to the highest of the pool its size changes every score."""
    rows = [(f"c{n:02d}", 0.9 - 0.01 * n) for n in range(60)]
    pool = pool_of_lists(vector_list(rows), bm25_list([("c09", 3.0)]))
    knobs = profile("workbench").set({"min_score": 0.3, "snippet": "head", "list_rows": 12})
    state = ranked(pool, knobs)
    search = Search(state, {"c03"}, None, "min_score", OnePool(pool), lambda: None)
    changes = search.changes()
    sizes = [knobs.set(dict(change.set)).candidates for change in changes if not change.how]
    assert min(sizes) >= 12 or sizes == sorted(sizes, key=lambda size: size < 12)
    (larger,) = [change for change in changes if {*change.set} == {"list_rows"}]
    after = ranked(pool, knobs.set(dict(larger.set))).trace().row("c03")
    assert after is not None and larger.score == f"score {after.final:.3f} (the pool is larger)"
    assert larger.effect.startswith(f"{larger.score}, ")
    lowered = next(change for change in changes if {*change.set} == {"min_score"})
    assert lowered.score == "", "it changes no score"
    by_rank = next(change for change in changes if change.set == {"fusion": "rrf"})
    assert by_rank.score.endswith(" (min score is not applied)"), "which is below the minimum, and returned"
    all_of_it = pool_of_lists(vector_list(rows[:8]), bm25_list([("c03", 3.0)]))
    few = Search(ranked(all_of_it, knobs), {"c03"}, None, "min_score", OnePool(all_of_it), lambda: None)
    more = few._score_then(ranked(all_of_it, knobs.set({"list_rows": 40, "fusion": "rrf"})))
    assert more.startswith("score ") and "pool" not in more, "the lists have no more rows"
    limited = Change({"candidate_limit": 5}, 1)
    assert search._cost(limited) > search._cost(replace(larger, only_here=True))


def test_a_change_that_works_by_a_tie_says_so_unless_the_next_has_another_score() -> None:
    def how(last: float) -> str:
        pool = pool_of_lists(vector_list([("a", 0.9), ("b", 0.5), ("c", last), ("d", 0.4)]))
        state = ranked(pool, profile("documented").set({"max_results": 1}))
        changes = Search(state, {"b"}, None, "max_results", OnePool(pool), lambda: None).singles()
        return next(change.how for change in changes if change.set == {"max_results": 2})

    assert how(0.5) == "a tie-break returns it: 1 candidate with the same score is not returned"
    assert how(0.49) == ""


def test_what_mmr_never_compared_ties_with_nothing() -> None:
    """A candidate beyond the candidate limit has no MMR value."""
    pool = pool_of_lists(vector_list([(f"c{at}", 0.9 - at / 100) for at in range(12)]))
    state = ranked(pool, profile("documented").set({"candidate_limit": 5, "max_results": 20, "mmr": True}))
    changes = Search(state, {"c5"}, None, "limit", OnePool(pool), lambda: None).singles()
    assert next(change.how for change in changes if "candidate_limit" in change.set) == ""


def test_of_two_directions_the_one_with_the_score_is_named_though_it_is_farther() -> None:
    pool = pool_of_lists(vector_list([("a", 0.6), ("b", 0.5)]), bm25_list([("b", 3.0)]))
    days = {"a": 6, "b": 60}
    aged = {i: pool.candidates[i]._replace(date=pool.now - 86_400 * days[i]) for i in days}
    pool = replace(pool, candidates={**pool.candidates, **aged})
    state = ranked(pool, profile("documented").set({"decay": True}))
    shorter = ranked(pool, state.knobs.set({"half_life_days": 20}))
    assert [item.chunk_id for item in shorter.ranked] == ["b"], "by keyword rescue"
    changes = Search(state, {"b"}, None, "min_score", OnePool(pool), lambda: None).singles()
    found = next(change for change in changes if "half_life_days" in change.set)
    assert (found.set, found.how) == ({"half_life_days": 120.0}, "")
    assert found.effect.startswith("at the note's age today, "), "tomorrow it is another number"


@pytest.mark.parametrize(
    ("rank", "says"),
    [
        (3, "If the chunk also held “x” or “y”, it could rank higher in BM25."),
        (1, None),
        (None, "If the chunk held “x” or “y”, BM25 would find it."),
    ],
)
def test_what_words_that_are_not_there_would_do(rank: int | None, says: str | None) -> None:
    search, state = searched((vector_list([("a", 0.55), ("b", 0.1)]),))
    facts = [ListFact("bm25", "BM25", True, rank, 9, None, True, (), ("x", "not", "y"))]
    texts = [change.text for change in text_changes(search, None, state.trace(), "pool", facts)]
    assert texts == ([says] if says else [])


@pytest.mark.parametrize(
    ("knobs", "says"),
    [
        ({"min_score": 0.35}, " Even with BM25 rank 1, all else equal, it would not be returned."),
        ({"min_score": 0.2}, " With BM25 rank 1, all else equal, it would be result 2."),
        ({"min_score": 0.35, "bm25_score": "ratio"}, ""),
    ],
)
def test_the_most_that_bm25_can_do_is_what_its_first_rank_does(knobs: dict[str, Any], says: str) -> None:
    pool = pool_of_lists(vector_list([("a", 0.55), ("b", 0.1)]), bm25_list([("a", 3.0)]))
    state = ranked(pool, profile("documented").set(knobs))
    search = Search(state, "b", None, "min_score", OnePool(pool), lambda: None)
    facts = [ListFact("bm25", "BM25", True, None, 9, None, True, (), ("x",))]
    (change,) = text_changes(search, None, state.trace(), "min_score", facts)
    assert change.text == f"If the chunk held “x”, BM25 would find it.{says}"


def test_a_pair_of_what_brings_the_chunk_in_and_what_shows_the_line_is_found() -> None:
    lists = (vector_list([("a", 0.9), ("b", 0.1)]),)
    pool = pool_of_lists(*lists)
    long = pool.candidates["b"]._replace(text="grey\n" * 400 + "last", end_line=401)
    pool = replace(pool, candidates={**pool.candidates, "b": long})
    state = ranked(pool, profile("documented"))
    search = Search(state, {"b"}, 300, "min_score", OnePool(pool), lambda: None)
    pairs = [{*change.set} for change in search.changes()]
    assert {"min_score", "snippet_chars"} in pairs
    how, of_what = search.tried
    assert how.endswith(" changes of one or two knobs (max results up to 20)") and "; pairs of " in of_what


# -- by trying everything -----------------------------------------------------------------------------------


def dropped(pool: Pool, knobs: Knobs, data: st.DataObject) -> tuple[RankingState, str, int | None, str]:
    """A ranking, a passage that it does not show (chunk and line), and the stage that keeps it out."""
    state = ranked(pool, knobs)
    rows = state.trace().rows
    assume(rows)
    row = data.draw(st.sampled_from(rows))
    lines = pool.candidates[row.chunk_id].text.count("\n") + 1
    line = data.draw(st.none() | st.integers(1, lines))
    fate = fate_of(state, {row.chunk_id}, line)
    assume(not fate.shown and (line is not None or fate.rank is None))
    return state, row.chunk_id, line, row.outcome.stage or "snippet"


@settings(max_examples=80)
@given(pools(), knob_settings(), st.data())
def test_no_knob_that_helps_is_missed(pool: Pool, knobs: Knobs, data: st.DataObject) -> None:
    state, chunk_id, line, stage = dropped(pool, knobs, data)

    def helps(name: str, value: KnobValue) -> bool:
        after = ranked(pool, knobs.set({name: value}), explained=False)
        fate = fate_of(after, {chunk_id}, line)
        return fate.shown if line is not None else fate.rank is not None

    found: dict[str, KnobValue] = {}
    for change in Search(state, {chunk_id}, line, stage, OnePool(pool), lambda: None).singles():
        found |= change.set
    for name in KNOBS:
        if name in ("bm25_weight", "vector_space"):  # the complement of the other weight; there is one space
            continue
        ways = values_of(knobs, name)
        helping = [[at for at, value in enumerate(way) if helps(name, value)] for way in ways]
        # Of several choices one may be better than the first, because it works by the passage's own score.
        last = None if KNOBS[name].kind == "choice" else 1
        nearest = [(at, way[at]) for ats, way in zip(helping, ways, strict=True) for at in ats[:last]]
        if nearest:
            assert name in found, (name, nearest)
            if min(map(len, ways)) > 1 or KNOBS[name].kind in ("switch", "choice"):
                assert found[name] in [value for _, value in nearest], (name, nearest)


@settings(max_examples=300)
@given(pools(), knob_settings(), st.data())
def test_what_is_wanted_alone_gets_the_same_answer(pool: Pool, knobs: Knobs, data: st.DataObject) -> None:
    assume(pool.candidates)
    chunk_id = data.draw(st.sampled_from([*pool.candidates]))
    lines = pool.candidates[chunk_id].text.count("\n") + 1
    line = data.draw(st.none() | st.integers(1, lines))
    whole = fate_of(ranked(pool, knobs), {chunk_id}, line)
    bare, wanted = replace(pool, signals={}, memo={}), Wanted(frozenset({chunk_id}), line)
    alone = ranked(bare, knobs, explained=False, wanted=wanted, complete=lambda: pool)
    fate = fate_of(alone, {chunk_id}, line)
    assert fate.shown == whole.shown
    assert line is not None or (fate.rank is None) == (whole.rank is None)


class Reading:
    """Knobs that remember which of them were read."""

    def __init__(self, knobs: Knobs) -> None:
        self.knobs = knobs
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        member = getattr(Knobs, name)
        if isinstance(member, property):
            return cast("Any", member.fget)(self)
        if callable(member):
            return partial(member, self)
        self.read.add(name)
        return getattr(self.knobs, name)


@settings(max_examples=100)
@given(pools(), knob_settings())
def test_a_stage_reads_no_knob_that_the_table_does_not_give_it(pool: Pool, knobs: Knobs) -> None:
    reading = Reading(knobs)
    state, allowed = RankingState(pool, cast("Knobs", reading), explained=False), set[str]()
    for name in PROFILES[knobs.profile].stages:
        allowed |= READS[name]
        # The minimum is read early to explain what it drops, and is of no effect before.
        reading.read -= {"min_score"} if name == "fusion" else set()
        state.run(STAGES[name])
        assert reading.read <= allowed, name


# -- a line in two chunks -----------------------------------------------------------------------------------


@pytest.fixture
def overlapping(tmp_path: Path) -> Any:
    lines = [
        f"{'pump ' * (4 if n < 12 else 1)}entry {n} of the log of the house on the hill" for n in range(60)
    ]
    notes = {"MEMORY.md": "\n".join(lines) + "\n"}
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        yield memory


def test_a_line_counts_in_whichever_chunk_shows_it(overlapping: Memory) -> None:
    first, second, *_ = backend_of(overlapping).store.chunks_of("MEMORY.md")
    line = second.start_line
    assert first.end_line >= line
    knobs = profile("documented").set({"min_score": 0, "snippet_chars": 240})
    found = overlapping.why_not("pump", "MEMORY.md", line, knobs)
    assert (found.stage, found.passage.chunk_id) == (RETURNED, second.chunk_id)
    one = overlapping.why_not("pump", "MEMORY.md", line, knobs.set({"max_results": 1, "mode": "bm25"}))
    assert (one.stage, one.returned, one.passage.chunk_id) == ("snippet", True, first.chunk_id)
    assert "max_results" in [name for change in one.changes for name in change.set]
    about = f"; the next steps are about lines {second.start_line}–{second.end_line}"
    assert next(step.text for step in found.steps if step.name == "chunk").endswith(about)


def test_changes_for_a_chunk_show_the_line_that_was_cut_off(tmp_path: Path) -> None:
    lines = ["a red pump is in the house on the hill", *["entry of the log"] * 20, "vpn vpn vpn"]
    notes = {"MEMORY.md": "\n".join(lines)}
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        knobs = profile("documented").set({"min_score": 0, "snippet_chars": 100})
        found = memory.why_not("vpn on a hill", "MEMORY.md", None, knobs)
        assert (found.stage, found.steps[-1].facts["bestLine"]) == ("snippet", len(lines))
        assert found.changes
        for change in found.changes:
            (hit,) = memory.search("vpn on a hill", knobs.set(change.set)).hits
            assert lines[-1] in hit.snippet, "not another line that is then the best"


def test_a_chunk_is_returned_by_a_change_though_its_best_line_is_still_cut(tmp_path: Path) -> None:
    lines = ["a red pump is in the house on the hill", *["entry of the log"] * 20, "vpn vpn vpn"]
    notes = {"MEMORY.md": "\n".join(lines), "memory/a.md": "vpn on a hill", "memory/b.md": "ferry"}
    with open_memory(write_notes(tmp_path / "workspace", notes), tmp_path / "home") as memory:
        memory.sync()
        knobs = profile("documented").set({"snippet_chars": 100, "keyword_rescue": "off"})
        found = memory.why_not("vpn on a hill", "MEMORY.md", None, knobs.set({"min_score": 1.0}))
        assert found.stage == "min_score"
        alone = next(change for change in found.changes if {*change.set} == {"min_score"})
        assert alone.best_line_cut == alone.to_dict()["bestLineCut"] == len(lines)
        assert f"its best line ({len(lines)}) is still cut" in alone.effect
        shows = [change for change in found.changes if change.best_line_cut is None]
        assert shows and found.changes.index(alone) < found.changes.index(shows[0])
        assert all(len(change.set.keys() - {"bm25_weight"}) == 2 for change in shows)


def test_results_are_compared_as_they_are_returned(overlapping: Memory) -> None:
    knobs = profile("workbench").set({"snippet_chars": 60})
    pool = overlapping.retrieve("pump", knobs)
    packed, head = (ranked(pool, knobs.set({"snippet": form})) for form in ("packed", "head"))
    assert len(packed.results) == 1 < len(head.results)
    before = {i for i, shown in packed.shown.items() if not shown.best_line_cut}
    newly = [i for i in before if head.shown[i].best_line_cut]
    found = others(packed, head, ())
    assert found.results == (1, len(head.results)) and found.cuts == len(newly) > 0
    many = "result" if found.cuts == 1 else "results"
    effect = Change({"snippet": "head"}, 1, **found._asdict()).effect
    assert effect.startswith(f"1 result becomes {len(head.results)}")
    assert effect.endswith(f"cuts the best line of {found.cuts} other {many}")
    assert others(head, packed, ()).results == (len(head.results), 1)


def test_of_chunks_that_hold_a_line_one_can_be_named(overlapping: Memory) -> None:
    first, second, *_ = backend_of(overlapping).store.chunks_of("MEMORY.md")
    knobs = profile("documented").set({"min_score": 0, "snippet_chars": 240})
    asked = "pump", "MEMORY.md", second.start_line
    other = overlapping.why_not(*asked, knobs, chunk_id=first.chunk_id)
    assert (other.stage, other.passage.chunk_id, other.changes) == (RETURNED, second.chunk_id, ())
    results = overlapping.search("pump", knobs).trace.results
    assert other.rank is not None and second.chunk_id in results[other.rank - 1].chunk_ids, "it has the line"
    none = knobs.set({"min_score": 1.0, "keyword_rescue": "off"})
    out = overlapping.why_not(*asked, none, chunk_id=first.chunk_id)
    assert (out.stage, out.passage.chunk_id) == ("min_score", first.chunk_id)
    change = next(change for change in out.changes if {*change.set} == {"min_score"})
    results = overlapping.search("pump", none.set(change.set)).trace.results
    assert second.chunk_id in results[change.rank - 1].chunk_ids, "the first chunk would not show the line"
    assert change.effect.startswith(f"in the chunk of lines {second.start_line}–{second.end_line}, ")
    start = second.start_line
    whole = overlapping.why_not("pump", "MEMORY.md", start, knobs, end_line=second.end_line)
    assert whole.text.startswith(f"{whole.passage.location} is returned"), "the chunk, not its first line"
    part = overlapping.why_not("pump", "MEMORY.md", start, knobs, end_line=start + 1)
    assert part.text.startswith(f"line {start} of MEMORY.md is returned")


@given(pools(), st.lists(knob_settings(), min_size=2, max_size=6))
def test_what_is_remembered_between_tries_changes_no_result(pool: Pool, tried: list[Knobs]) -> None:
    for knobs in (*tried, *tried):
        fresh = ranked(replace(pool, memo={}), knobs, explained=True)
        state = ranked(pool, knobs, explained=False)
        assert [(i.chunk_id, i.score, i.rank, i.rescued) for i in state.ranked] == [
            (i.chunk_id, i.score, i.rank, i.rescued) for i in fresh.ranked
        ]
        assert state.results == fresh.results


def test_a_try_is_freed_without_the_garbage_collector() -> None:
    pool = pool_of_lists(vector_list([("a", 0.9), ("b", 0.1)]), bm25_list([("b", 3.0)]))
    gc.disable()
    try:
        for name in PROFILES:
            state = weakref.ref(ranked(pool, profile(name), explained=False))
            assert state() is None, name
            state = weakref.ref(ranked(pool, profile(name)))
            assert state() is None, name
    finally:
        gc.enable()


def test_no_garbage_is_collected_between_tries(overlapping: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    was_on: list[bool] = []
    tried = Search._fate

    def seen(self: Search, knobs: Knobs, *, undated: bool = False) -> Fate:
        was_on.append(gc.isenabled())
        return tried(self, knobs, undated=undated)

    monkeypatch.setattr(Search, "_fate", seen)
    knobs = profile("documented").set({"max_results": 1, "snippet_chars": 240})
    overlapping.why_not("pump", "MEMORY.md", 59, knobs)
    assert was_on and not any(was_on) and gc.isenabled()


def test_keyword_rescue_is_not_tried_where_no_score_is_below_the_minimum() -> None:
    pool, knobs = pool_of_lists(vector_list([("a", 0.9), ("b", 0.1)])), profile("workbench")
    state = ranked(pool, knobs.set({"max_results": 1, "snippet": "head"}))
    search = Search(state, "b", None, "max_results", OnePool(pool), lambda: None)
    search.singles()
    assert {rescue for _, rescue, _ in search._answers} == {"off"}


def test_settings_that_fusion_does_not_read_share_its_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    summed: list[Knobs] = []
    sums = scores._fused

    def counted(state: RankingState, weights: Any) -> Any:
        summed.append(state.knobs)
        return sums(state, weights)

    monkeypatch.setattr(scores, "_fused", counted)
    pool, knobs = pool_of_lists(vector_list([("a", 0.9)]), bm25_list([("b", 3.0)])), profile("workbench")
    reads = READS["candidates"] | READS["fusion"]
    for name in KNOBS.keys() - reads:
        for value in few_values(knobs, name)[:3]:
            ranked(pool, knobs.set({name: value}), explained=False)
    assert len(summed) == 1
    ranked(pool, replace(knobs, vector_weight=0.9), explained=False)
    assert len(summed) == 2


def test_lines_of_chunks_that_cannot_be_shown_are_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    scored: list[str] = []
    made = line_scores._scored

    def counted(state: RankingState, chunk_id: str, scales: Any) -> Any:
        scored.append(chunk_id)
        return made(state, chunk_id, scales)

    monkeypatch.setattr(line_scores, "_scored", counted)
    pool = pool_of_lists(bm25_list([(f"c{at}", 30.0 - at) for at in range(30)]))
    knobs = profile("workbench").set({"max_results": 2})
    ranked(pool, knobs, explained=False, wanted=Wanted(frozenset({"c1"}), 1))
    assert {"c0", "c1"} >= set(scored) != set()


def test_the_same_words_are_not_searched_again(overlapping: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[LexicalQuery] = []
    search = ListBuilder.add_words

    def counted(self: ListBuilder, lexical: LexicalQuery, *, explained: bool = True) -> None:
        asked.append(lexical)
        search(self, lexical, explained=explained)

    monkeypatch.setattr(ListBuilder, "add_words", counted)
    knobs = profile("workbench").set({"max_results": 1, "snippet_chars": 40})
    found = overlapping.why_not("pump", "MEMORY.md", 59, knobs)
    assert found.stage != RETURNED and 1 < len(asked) == len(set(asked))
