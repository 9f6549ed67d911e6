"""The rules of fusion, cut and rescue one by one, and what users of such engines have reported as bugs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, OPENCLAW_2026_2, WORKBENCH
from openclaw_mem_engine.ranking.trace import Row, Trace
from support.pools import NOW, Signals, candidate, pool_of

FILLER = [(f"v{n}", 0.30 - n / 100) for n in range(10)]


def row(trace: Trace, chunk_id: str) -> Row:
    found = trace.row(chunk_id)
    assert found is not None
    return found


def returned(trace: Trace) -> list[str]:
    return [row.chunk_id for row in trace.returned]


def codes(trace: Trace) -> list[str]:
    return [note.code for note in trace.notes]


# -- reported elsewhere ---------------------------------------------------------------------------------


def test_an_exact_id_that_only_keywords_find_is_not_lost() -> None:
    """openclaw#25183: 0.3 of a perfect bm25 stays below the minimum of 0.35."""
    pool = pool_of(FILLER, [("id", 9.5)])
    assert returned(rank(pool, DOCUMENTED)) == ["id"]
    saved = row(rank(pool, DOCUMENTED), "id").outcome
    assert (saved.kind, saved.rank, saved.rescued) == ("returned", 1, True)
    lost = rank(pool, OPENCLAW_2026_2)
    assert returned(lost) == []
    assert row(lost, "id").outcome.reason == (
        "its score 0.300 is below min score 0.35 by 0.050; with BM25 only, a match scores at most 0.3"
    )


def test_an_exact_id_may_still_be_lost_behind_a_good_vector_hit_unless_slots_are_filled() -> None:
    pool = pool_of([("near", 0.9), *FILLER], [("id", 9.5)])
    assert returned(rank(pool, DOCUMENTED)) == ["near"]
    assert returned(rank(pool, DOCUMENTED.set({"keyword_rescue": "fill"}))) == ["near", "id"]
    assert set(returned(rank(pool, WORKBENCH))) >= {"near", "id"}


@pytest.mark.parametrize(("rescue", "below"), [("when-empty", ""), ("fill", " below min score")])
def test_what_keyword_rescue_does_not_take_says_why(rescue: str, below: str) -> None:
    pool = pool_of(FILLER, [("id", 9.5), ("next", 9.0)])
    trace = rank(pool, DOCUMENTED.set({"max_results": 1, "keyword_rescue": rescue}))
    first, other, late = (row(trace, chunk_id).outcome for chunk_id in ("id", "v0", "next"))
    assert first.rescued
    assert other.reason == (
        "its score 0.210 is below min score 0.35 by 0.140; "
        "it is not a keyword match; keyword rescue keeps only those"
    )
    assert late.reason == (
        "its score 0.100 is below min score 0.35 by 0.250; "
        f"keyword rescue kept the first keyword match{below}, and it is number 2 of 2; "
        "with BM25 only, a match scores at most 0.15"
    )
    causes = other.cause, late.cause
    assert causes == ("without a keyword match", "beyond the first keyword match")
    assert trace.dropped[0].chunk_id == "v0", "nearest to being returned first, whatever the cause"
    off = rank(pool, DOCUMENTED.set({"keyword_rescue": "off"}))
    assert row(off, "v0").outcome.cause == "" and "rescue" not in (row(off, "v0").outcome.reason or "")


def test_one_list_alone_is_not_fused() -> None:
    for pool, label in (
        (pool_of([("a", 0.8)], [("b", 2.0)]), "fused"),
        (pool_of([("a", 0.8)], []), "scored"),
        (pool_of(None, [("b", 2.0)]), "scored"),
    ):
        stage = rank(pool, DOCUMENTED).stage("fusion")
        assert stage is not None and stage.label == label


def test_bm25_hits_keep_their_differences() -> None:
    """openclaw#20994: clamped ranks gave every keyword hit the same score."""
    pool = pool_of(None, [("a", 7.0), ("b", 3.5), ("c", 0.0)])
    by_rank = {r.chunk_id: r.final for r in rank(pool, DOCUMENTED).returned}
    assert by_rank == {"a": 1 / 2, "b": 1 / 3, "c": 1 / 4}
    by_share = {r.chunk_id: r.final for r in rank(pool, DOCUMENTED.set({"bm25_score": "max"})).returned}
    assert by_share == {"a": 1.0, "b": 0.5, "c": 0.0}


def test_the_text_score_survives_when_the_vector_hit_is_another_chunk_of_the_file() -> None:
    """openclaw#92337."""
    known = {
        "top": Candidate("top", "memory/x.md", 1, 20, "the pump", "memory"),
        "end": Candidate("end", "memory/x.md", 18, 40, "E_VALVE_TIMEOUT", "memory"),
    }
    trace = rank(pool_of([("top", 0.8)], [("end", 4.0)], known), DOCUMENTED.set({"min_score": 0}))
    assert row(trace, "top").final == pytest.approx(0.7 * 0.8)
    assert row(trace, "end").final == pytest.approx(0.3 * 0.5)
    assert row(trace, "end").scores["text"] == 0.5
    assert (row(trace, "top").location, row(trace, "end").location) == (
        "memory/x.md:1-20",
        "memory/x.md:18-40",
    )


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_asking_for_one_gives_the_best_of_five_under_workbench(data: st.DataObject) -> None:
    """openclaw#134604: a smaller limit shrank the candidate pool and with it the quality of the best hit."""
    ids = [f"c{n}" for n in range(60)]
    lists = []
    for top in (1.0, 9.0):
        members = data.draw(st.permutations(ids))[: data.draw(st.integers(1, 60))]
        raw = sorted(data.draw(st.lists(st.floats(0, top), min_size=60, max_size=60)), reverse=True)
        lists.append(list(zip(members, raw, strict=False)))
    signals = {i: Signals(line_bm25=1.0, line_cosine=0.5) for i in ids}
    pool = pool_of(lists[0], lists[1], signals=signals)
    many, one = (rank(pool, WORKBENCH.set({"max_results": n})) for n in (5, 1))
    assert returned(one) == returned(many)[:1]


def test_asking_for_one_gives_the_best_of_five_under_the_documented_formulas() -> None:
    """The same for "candidates = results × 4": the pool is never smaller than that of six results. The
    original's own profile keeps its fault."""
    vector = [(f"v{n}", 0.60 - n / 1000) for n in range(6)]
    pool = pool_of([*vector, ("both", 0.59)], [("both", 5.0)])
    for most in (1, 5):
        assert returned(rank(pool, DOCUMENTED.set({"max_results": most})))[0] == "both"
    assert returned(rank(pool, DOCUMENTED.set({"max_results": 1, "pool_results": 1}))) == ["v0"]


# -- one list -------------------------------------------------------------------------------------------


def test_bm25_only_is_not_cut_and_says_so() -> None:
    pool = pool_of(None, [("a", 3.0), ("b", 2.0), ("c", 1.0)])
    trace = rank(pool, DOCUMENTED.set({"min_score": 0.9}))
    assert returned(trace) == ["a", "b", "c"]
    assert codes(trace) == ["single-list", "cut-not-applied"]
    cut = trace.stage("min_score")
    assert cut is not None
    assert (cut.formula, cut.entered, cut.left) == ("does not apply", 3, 3)
    assert cut.note
    assert trace.stage("keyword_rescue") is None
    assert codes(rank(pool_of(None, []), DOCUMENTED)) == [], "nothing to say of scores that there are not"


def test_vectors_only_count_in_full_and_are_cut() -> None:
    trace = rank(pool_of([("a", 0.8), ("b", 0.3)], None), DOCUMENTED)
    assert [(r.chunk_id, r.final) for r in trace.returned] == [("a", 0.8)]
    assert row(trace, "b").outcome.reason == "its score 0.300 is below min score 0.35 by 0.050"
    near = rank(pool_of([("a", 0.8), ("b", 0.34996)], None), DOCUMENTED)
    assert row(near, "b").outcome.reason == "its score 0.34996 is below min score 0.35 by 0.00004"
    assert codes(trace) == ["single-list"]


def test_a_chosen_mode_has_no_note_but_a_missing_list_has() -> None:
    both = pool_of([("a", 0.8)], [("b", 2.0)])
    only_words = rank(both, DOCUMENTED.set({"mode": "bm25"}))
    assert (returned(only_words), codes(only_words)) == (["b"], ["cut-not-applied"])
    assert row(only_words, "a").outcome.stage == "mode"
    assert (
        row(only_words, "a").outcome.reason
        == "BM25 no match: the text lacks q; BM25 mode does not use vectors"
    )
    trace = rank(pool_of(None, [("b", 2.0)]), DOCUMENTED.set({"mode": "vector"}))
    assert (returned(trace), codes(trace)) == ([], ["list-missing"])


def test_no_list_at_all() -> None:
    trace = rank(pool_of(None, None), DOCUMENTED)
    assert trace.rows == ()
    names = [stage.name for stage in trace.stages]
    assert names == ["fusion", "min_score", "keyword_rescue", "max_results", "snippet"]


# -- fusion ---------------------------------------------------------------------------------------------


def test_rrf_sums_reciprocal_ranks_and_ignores_the_cut() -> None:
    pool = pool_of([("a", 0.9), ("b", 0.1)], [("b", 5.0), ("c", 1.0)])
    trace = rank(pool, DOCUMENTED.set({"fusion": "rrf", "rrf_k": 60, "min_score": 0.9}))
    assert returned(trace) == ["b", "a", "c"]
    assert [r.final for r in trace.returned] == pytest.approx([1 / 62 + 1 / 61, 1 / 61, 1 / 62])
    assert codes(trace) == ["cut-not-applied"]


def test_an_absence_differs_from_a_rank_beyond_the_cut() -> None:
    pool = pool_of([("a", 0.9), ("b", 0.8), ("c", 0.7)], [("c", 2.0)])
    trace = rank(
        pool, DOCUMENTED.set({"max_results": 2, "candidate_multiplier": 1, "pool_results": 1, "min_score": 0})
    )
    vector = row(trace, "c").operands[0]
    assert (vector.value, vector.note) == (0.0, "rank 3 of 3 vectors, past the first 2")
    assert row(trace, "a").operands[1].note == "no match: the text lacks q"
    outside = rank(pool, DOCUMENTED.set({"max_results": 1, "candidate_multiplier": 1, "pool_results": 1}))
    assert row(outside, "b").outcome.stage == "pool"
    assert (
        row(outside, "b").outcome.reason == "vector ranks it 2; only the first 1 of each list enter the pool"
    )


def test_equal_scores_keep_vector_order_then_keyword_order() -> None:
    pool = pool_of([("z", 0.5), ("a", 0.5)], [("m", 1.0)])
    knobs = DOCUMENTED.set({"vector_weight": 0.5, "bm25_weight": 0.5, "min_score": 0})
    assert returned(rank(pool, knobs)) == ["z", "a", "m"]


def test_a_line_share_without_a_line_vector_changes_nothing() -> None:
    pool = pool_of([("a", 0.5), ("b", 0.4)], None, signals={"b": Signals(line_cosine=0.8)})
    trace = rank(pool, DOCUMENTED.set({"line_vector": 0.5, "min_score": 0}))
    assert {r.chunk_id: r.final for r in trace.rows} == {"a": 0.5, "b": pytest.approx(0.6)}


def test_fill_missing_scores_a_hit_of_one_list_on_the_other() -> None:
    pool = pool_of([("a", 0.5)], [("b", 4.0)], signals={"b": Signals(cosine=0.4), "a": Signals(bm25=1.0)})
    base = DOCUMENTED.set({"bm25_score": "max", "min_score": 0})
    plain = {r.chunk_id: r.final for r in rank(pool, base).rows}
    assert plain == {"a": pytest.approx(0.35), "b": pytest.approx(0.3)}
    filled = {r.chunk_id: r.final for r in rank(pool, base.set({"fill_missing": "on"})).rows}
    assert filled == {"a": pytest.approx(0.35 + 0.3 / 4), "b": pytest.approx(0.3 + 0.28)}


def test_fill_missing_takes_the_list_s_own_row_from_beyond_the_limit() -> None:
    pool = pool_of([("a", 0.9), ("b", 0.5)], [("b", 4.0), ("a", 1.0)])
    only_first = {"max_results": 1, "candidate_multiplier": 1, "pool_results": 1}
    base = DOCUMENTED.set({"bm25_score": "max", "min_score": 0, **only_first})
    assert [r.final for r in rank(pool, base).rows] == pytest.approx([0.63, 0.3])
    filled = rank(pool, base.set({"fill_missing": "on"}))
    assert [r.final for r in filled.rows] == pytest.approx([0.63 + 0.3 / 4, 0.3 + 0.35])


# -- decay, cut, rescue ---------------------------------------------------------------------------------


def test_decay_explains_itself() -> None:
    known: dict[str, Candidate] = {
        "old": candidate("old", days_old=60),
        "always": candidate("always"),
        "tomorrow": candidate("tomorrow", days_old=-1),
        "plain": Candidate("plain", "docs/x.md", 1, 2, "x", "memory", NOW - 30 * 86_400, "mtime"),
    }
    pool = pool_of([("old", 0.8), ("always", 0.6), ("tomorrow", 0.5), ("plain", 0.4)], None, known)
    trace = rank(pool, DOCUMENTED.set({"decay": "on", "half_life_days": 30}))
    assert {r.chunk_id: r.final for r in trace.rows} == {
        "always": 0.6, "tomorrow": 0.5, "old": pytest.approx(0.2), "plain": pytest.approx(0.2)
    }  # fmt: skip
    assert row(trace, "old").outcome.reason == (
        "its score 0.200 is below min score 0.35 by 0.150; score 0.800 before decay"
    )
    notes = {i: row(trace, i).operands[-1].note for i in known}
    assert notes == {"old": "", "always": "evergreen", "tomorrow": "", "plain": "age from the file's mtime"}
    assert row(trace, "old").ranks["fusion"] == 1
    assert row(trace, "old").ranks["decay"] == 3
    stage = trace.stage("decay")
    assert stage is not None
    assert stage.changed == 3


@pytest.fixture
def mixed() -> Pool:
    """Two above the cut, vector hits and keyword hits below it."""
    return pool_of([("a", 0.9), ("b", 0.7), ("low", 0.4)], [("k1", 3.0), ("k2", 2.0), ("k3", 1.0)])


@pytest.mark.parametrize(
    ("rescue", "min_score", "most", "wanted"),
    [
        ("off", 0.35, 4, ["a", "b"]),
        ("when-empty", 0.35, 4, ["a", "b"]),
        ("fill", 0.35, 4, ["a", "b", "k1", "k2"]),
        ("fill", 0.35, 2, ["a", "b"]),
        ("off", 0.95, 4, []),
        ("when-empty", 0.95, 2, ["k1", "k2"]),
        ("fill", 0.95, 4, ["k1", "k2", "k3"]),
    ],
)
def test_rescue_keeps_keyword_hits_and_only_those(
    mixed: Pool, rescue: str, min_score: float, most: int, wanted: list[str]
) -> None:
    knobs = DOCUMENTED.set({"keyword_rescue": rescue, "min_score": min_score, "max_results": most})
    trace = rank(mixed, knobs)
    assert returned(trace) == wanted
    assert {r.chunk_id for r in trace.returned if r.outcome.rescued} == {i for i in wanted if i[0] == "k"}
    assert row(trace, "low").outcome.stage == "min_score"


def test_a_score_on_the_minimum_passes() -> None:
    trace = rank(pool_of([("a", 0.35), ("b", 0.3499999)], None), DOCUMENTED)
    assert returned(trace) == ["a"]


def test_past_the_last_rank() -> None:
    pool = pool_of([(f"v{n}", 0.9 - n / 100) for n in range(8)], None)
    trace = rank(pool, DOCUMENTED.set({"max_results": 2, "candidate_multiplier": 3, "pool_results": 2}))
    assert [r.chunk_id for r in trace.rows] == [f"v{n}" for n in range(8)], "nearest to returned first"
    reasons = {r.chunk_id: (r.outcome.stage, r.outcome.reason) for r in trace.dropped}
    assert reasons["v2"] == ("max_results", "its rank is 3, and only the first 2 are returned")
    assert reasons["v7"] == ("pool", "vector ranks it 8; only the first 6 of each list enter the pool")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20))
def test_more_results_keep_those_of_fewer_when_the_pool_is_the_same(few: int, more: int) -> None:
    few, more = sorted((few, more))
    pool = pool_of([(f"v{n}", 0.9 - n / 100) for n in range(30)], [("v5", 4.0), ("v9", 2.0), ("k", 1.0)])
    knobs = Knobs(pool_results=200, min_score=0.0, mmr=True)
    assert returned(rank(pool, knobs.set({"max_results": more})))[:few] == returned(
        rank(pool, knobs.set({"max_results": few}))
    )


def test_decay_is_named_when_it_cost_a_rank_among_the_results() -> None:
    known = {"old": candidate("old", days_old=60), "a": candidate("a"), "b": candidate("b")}
    pool = pool_of([("old", 0.9), ("a", 0.8), ("b", 0.7)], None, known)
    trace = rank(pool, DOCUMENTED.set({"decay": "on", "min_score": 0, "max_results": 2}))
    assert (
        row(trace, "old").outcome.reason
        == "its rank is 3, and only the first 2 are returned; rank 1 before decay"
    )
