"""MMR and decay: recorded values of the original, and the textbook loop over random candidates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import Candidate
from openclaw_mem_engine.ranking.profiles import OPENCLAW_2026_2
from openclaw_mem_engine.ranking.stages.decay import age_days, decay_multiplier
from openclaw_mem_engine.ranking.stages.mmr import ascii_tokens, bitsets, mmr_order, unicode_tokens
from openclaw_mem_engine.ranking.trace import Trace
from openclaw_mem_engine.workspace.rules import note_date
from support import textbook
from support.goldens import golden
from support.pools import pool_of

UNITS = golden("hybrid_units")


def similarity(a: frozenset[str], b: frozenset[str]) -> float:
    """What MMR computes for two texts of these tokens."""
    return mmr_order([1.0, 0.0], bitsets([a, b]), 0.5)[1].similarity


@pytest.mark.goldens
@pytest.mark.parametrize("case", UNITS["jaccard"], ids=lambda case: f"{case['a']!r}-{case['b']!r}")
def test_recorded_similarities(case: dict[str, Any]) -> None:
    a, b = ascii_tokens(case["a"]), ascii_tokens(case["b"])
    assert sorted(a) == sorted(case["tokensA"])
    assert similarity(a, b) == pytest.approx(case["jaccard"], abs=1e-15)


@pytest.mark.goldens
@pytest.mark.parametrize("case", UNITS["mmr"]["cases"], ids=lambda case: str(case["lambda"]))
def test_recorded_selections(case: dict[str, Any]) -> None:
    items = UNITS["mmr"]["items"]
    sets = bitsets(ascii_tokens(item["content"]) for item in items)
    order = mmr_order([item["score"] for item in items], sets, case["lambda"])
    assert [items[s.position]["id"] for s in order] == case["order"]


@pytest.mark.goldens
@pytest.mark.parametrize("case", UNITS["decay"]["multipliers"], ids=str)
def test_recorded_multipliers(case: dict[str, Any]) -> None:
    if case["halfLifeDays"] < 1:
        return  # clamped by the configuration there, refused by the knob here
    age = age_days(case["ageInDays"] * 86_400, 0)
    assert decay_multiplier(age, case["halfLifeDays"]) == pytest.approx(case["multiplier"], abs=1e-15)


@pytest.mark.goldens
@pytest.mark.parametrize("place", range(len(UNITS["merge"]["cases"])))
def test_recorded_merges(place: int) -> None:
    """The same vector and keyword hits, merged, decayed and diversified, give the recorded order."""
    merge = UNITS["merge"]
    case = merge["cases"][place]
    trace = merged(merge, case)
    assert [row.path for row in trace.returned] == [hit["path"] for hit in case["out"]]
    assert [row.final for row in trace.returned] == pytest.approx(
        [hit["score"] for hit in case["out"]], abs=1e-12
    )


def merged(merge: dict[str, Any], case: dict[str, Any]) -> Trace:
    """The recorded case through ``rank()``. Text scores there are given values: a lone line's bm25 over the
    largest (1.0) is the same number."""
    texts = {hit["id"]: hit["snippet"] for hit in merge["vector"]}
    texts |= {hit["id"]: hit["snippet"] for hit in merge["keyword"] if hit["snippet"]}
    known = {}
    for hit in [*merge["vector"], *merge["keyword"]]:
        dated = note_date(hit["path"])
        known[hit["id"]] = Candidate(
            hit["id"], hit["path"], hit["startLine"], hit["endLine"], texts[hit["id"]], hit["source"],
            dated.epoch_seconds, dated.kind,
        )  # fmt: skip
    pool = pool_of(
        [(hit["id"], hit["vectorScore"]) for hit in merge["vector"]],
        [(hit["id"], hit["textScore"]) for hit in merge["keyword"]],
        known,
    )
    assert pool.now == case["nowMs"] / 1000
    mmr, decay = case.get("mmr", {}), case.get("temporalDecay", {})
    settings = {
        "bm25_score": "max",
        "min_score": 0,
        "max_results": 10,
        "vector_weight": case["vectorWeight"],
        "bm25_weight": case["textWeight"],
        "mmr": mmr.get("enabled", False),
        "mmr_lambda": mmr.get("lambda", 0.7),
        "decay": decay.get("enabled", False),
        "half_life_days": decay.get("halfLifeDays", 30),
    }
    return rank(pool, OPENCLAW_2026_2.set(settings))


# Few distinct values and few words, so that exact ties and equal sets are the rule.
_ITEMS = st.lists(
    st.tuples(st.integers(0, 8).map(lambda n: n / 8), st.frozensets(st.sampled_from("abcdef"), max_size=4)),
    max_size=24,
)
_LAMBDA = st.sampled_from([0.0, 0.3, 0.5, 0.7, 1.0]) | st.floats(0, 1)


@settings(max_examples=200, deadline=None)
@given(_ITEMS, _LAMBDA)
def test_the_heap_picks_what_the_quadratic_loop_picks(
    items: list[tuple[float, frozenset[str]]], lam: float
) -> None:
    scores = [score for score, _ in items]
    order = mmr_order(scores, bitsets(tokens for _, tokens in items), lam)
    assert [s.position for s in order] == textbook.mmr(scores, [set(t) for _, t in items], lam)
    assert all(s.picked for s in order)


@settings(max_examples=150, deadline=None)
@given(_ITEMS, _LAMBDA)
def test_what_selection_tells_of_itself_is_true(
    items: list[tuple[float, frozenset[str]]], lam: float
) -> None:
    scores = [score for score, _ in items]
    order = mmr_order(scores, bitsets(tokens for _, tokens in items), lam)
    for place, chosen in enumerate(order):
        before = [s.position for s in order[:place]]
        assert chosen.value == pytest.approx(
            lam * chosen.relevance - (1 - lam) * chosen.similarity, abs=1e-12
        )
        if lam == 1.0 or not before:
            continue  # similarity is not looked at
        alike = {j: textbook.jaccard(set(items[chosen.position][1]), set(items[j][1])) for j in before}
        assert chosen.similarity == pytest.approx(max(alike.values()), abs=1e-12)
        assert alike[chosen.nearest] == pytest.approx(chosen.similarity, abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(_ITEMS, _LAMBDA, st.integers(1, 10))
def test_stopping_early_keeps_the_head_of_the_order(
    items: list[tuple[float, frozenset[str]]], lam: float, wanted: int
) -> None:
    scores, sets = [score for score, _ in items], bitsets(tokens for _, tokens in items)
    picks: list[int] = []

    def enough(index: int) -> bool:
        picks.append(index)
        return len(picks) >= wanted

    whole = [s.position for s in mmr_order(scores, sets, lam)]
    early = mmr_order(scores, sets, lam, enough)
    assert [s.position for s in early][:wanted] == whole[:wanted] == picks
    assert [s.picked for s in early] == [True] * len(picks) + [False] * (len(items) - len(picks))
    assert sorted(s.position for s in early) == list(range(len(items)))
    left = [s.value for s in early if not s.picked]
    assert left == sorted(left, reverse=True)


def test_lambda_one_is_the_order_of_scores_and_zero_ignores_them_after_the_first() -> None:
    scores, sets = [0.9, 0.8, 0.1], bitsets([frozenset("ab"), frozenset("ab"), frozenset("xy")])
    assert [s.position for s in mmr_order(scores, sets, 1.0)] == [0, 1, 2]
    assert [s.position for s in mmr_order(scores, sets, 0.0)] == [0, 2, 1]


def test_japanese_notes_differ_for_the_unicode_words_and_not_for_the_ascii_ones() -> None:
    a, b = "温室の温度", "会議の記録"
    assert similarity(ascii_tokens(a), ascii_tokens(b)) == 1.0
    assert 0 < similarity(unicode_tokens(a), unicode_tokens(b)) < 0.2
    assert unicode_tokens("京都の Router_2") == {"京", "都", "の", "京都", "都の", "router_2"}


def test_the_future_does_not_raise_a_score() -> None:
    assert age_days(0, 86_400) == 0
    assert decay_multiplier(0, 30) == 1
    assert decay_multiplier(30, 30) == pytest.approx(0.5)


def test_a_displaced_hit_names_its_rival() -> None:
    same = "router vlan dns switch firewall box"
    known = {
        "a": Candidate("a", "memory/a.md", 1, 3, same, "memory"),
        "b": Candidate("b", "memory/b.md", 4, 9, same, "memory"),
        "c": Candidate("c", "memory/c.md", 1, 1, "sourdough rye", "memory"),
    }
    pool = pool_of([("a", 0.9), ("b", 0.88), ("c", 0.7)], [], known)
    knobs = Knobs(vector_weight=1.0, bm25_weight=0.0, min_score=0.0, max_results=2, mmr=True, mmr_lambda=0.5)
    trace = rank(pool, knobs)
    assert [row.chunk_id for row in trace.returned] == ["a", "c"]
    dropped = trace.row("b")
    assert dropped is not None
    assert dropped.outcome.stage == "mmr"
    assert (
        dropped.outcome.reason
        == "its MMR value −0.050 is below 0.000, that of #2; its similarity to #1 is 1.000; "
        "by score alone it would be kept"
    )
    assert dropped.diversity is not None
    assert (dropped.diversity.nearest, dropped.diversity.picked) == ("memory/a.md:1-3", False)
    with_room = rank(pool, knobs.set({"max_results": 3}))
    assert [row.chunk_id for row in with_room.returned] == ["a", "c", "b"]
    assert [row.final for row in with_room.returned] == [0.9, 0.7, 0.88], "scores stay the plain ones"
