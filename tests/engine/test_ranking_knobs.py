"""Knobs: what is accepted, what is refused and how that is said, and what follows from a change."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs, KnobSpec, parse_settings, spec
from openclaw_mem_engine.ranking.profiles import PROFILES, WORKBENCH, changed, profile


def test_every_knob_but_the_profile_is_in_the_table() -> None:
    assert {f.name for f in fields(Knobs)} == {*KNOBS, "profile"}
    assert all(KNOBS[name].name == name and KNOBS[name].help for name in KNOBS)


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_are_within_their_own_ranges(name: str) -> None:
    knobs = profile(name.upper() + " ")
    assert knobs.profile == name
    for knob, value in knobs.to_dict().items():
        if knob != "profile":
            assert KNOBS[knob].parse(value) == value


def test_texts_are_parsed() -> None:
    knobs = Knobs().set(
        parse_settings(["decay=on", "half-life-days = 7.5", "max_results=12", "fusion=RRF", "mmr=True"])
    )
    assert (knobs.decay, knobs.half_life_days, knobs.max_results) == (True, 7.5, 12)
    assert (knobs.fusion, knobs.mmr) == ("rrf", True)
    assert isinstance(knobs.max_results, int)
    assert not knobs.set({"decay": "no"}).decay


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("decay", "perhaps"),
        ("fusion", "borda"),
        ("min_score", "1.01"),
        ("min_score", -0.01),
        ("min_score", "nan"),
        ("min_score", True),
        ("min_score", None),
        ("rrf_k", "0"),
        ("rrf_k", 2.5),
        ("rrf_k", 10**400),
        ("max_results", "1e999"),
        ("max_results", "1" * 400),
        ("max_results", 201),
        ("half_life_days", 0),
        ("candidate_multiplier", "many"),
    ],
)
def test_a_refusal_names_knob_value_and_range(name: str, value: object) -> None:
    with pytest.raises(UsageError) as refused:
        Knobs().set({name: value})
    message = str(refused.value)
    assert name in message
    assert repr(value) in message
    assert KNOBS[name].allowed in message


def test_a_zero_that_is_no_number_has_a_name() -> None:
    named = {name: spec.zero for name, spec in KNOBS.items() if spec.zero}
    assert named == {"candidate_limit": "none", "list_rows": "auto", "snippet_budget": "auto"}
    assert {KNOBS[name].parse(zero) for name, zero in named.items()} == {0}


def test_an_unknown_knob_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"no knob 'min_skore'.*Did you mean min_score"):
        Knobs().set({"min-skore": 1})
    with pytest.raises(UsageError, match=r"no knob 'text_weight'.*Did you mean bm25_weight\?"):
        Knobs().set({"text_weight": 0.5})  # its name in an earlier version, and nearest to vector_weight
    with pytest.raises(UsageError, match=r"Did you mean profile"):
        spec("profil")
    with pytest.raises(UsageError, match=r"no profile 'workbnech'.*workbench"):
        profile("workbnech")
    for text in ("decay", "=on", "  =1"):
        with pytest.raises(UsageError, match="is not NAME=VALUE"):
            parse_settings([text])


def test_one_weight_alone_makes_the_other_its_complement() -> None:
    assert Knobs().set({"vector_weight": 0.6}).bm25_weight == 0.4
    assert Knobs().set({"bm25_weight": "0.1"}).vector_weight == 0.9
    both = Knobs().set({"vector_weight": 0.5, "bm25_weight": 0.25})
    assert both.weights == pytest.approx((2 / 3, 1 / 3))
    assert Knobs(vector_weight=0, bm25_weight=0).weights == (0.7, 0.3)
    moved = Knobs().set({"vector_weight": 0.6, "decay": True})
    assert moved.changed_names(Knobs()) == ("vector_weight", "decay"), "one change moves the pair"
    assert both.changed_names(Knobs()) == ("vector_weight", "bm25_weight")


def test_a_profile_is_applied_before_the_knobs_beside_it() -> None:
    knobs = changed(Knobs(max_results=3, decay=True), {"min_score": 0.1, "profile": "workbench"})
    assert knobs == WORKBENCH.set({"min_score": 0.1})
    assert knobs.changes_from(WORKBENCH) == {"min_score": 0.1}


def test_setting_leaves_the_given_mapping_and_knobs_alone() -> None:
    settings, knobs = {"profile": "workbench", "mmr-lambda": "0.5"}, Knobs()
    made = changed(knobs, settings)
    assert settings == {"profile": "workbench", "mmr-lambda": "0.5"}
    assert knobs == Knobs()
    assert made.mmr_lambda == 0.5


@pytest.mark.parametrize(
    ("knobs", "wanted"),
    [
        (Knobs(), 24),
        (Knobs(max_results=1, candidate_multiplier=1), 6),
        (Knobs(max_results=1, candidate_multiplier=1, pool_results=1), 1),
        (Knobs(max_results=200, candidate_multiplier=20), 200),
        (Knobs(max_results=1, pool_results=10), 40),
    ],
)
def test_candidates(knobs: Knobs, wanted: int) -> None:
    assert knobs.candidates == wanted


def test_only_what_changes_the_legs_or_signals_needs_a_new_retrieval() -> None:
    base = Knobs()
    for name, item in KNOBS.items():
        value = base.to_dict()[name]
        moved = item.nudge(value, 1)
        if moved == value:
            moved = item.nudge(value, -1)
        other = base.set({name: moved, "vector_weight": 0.7, "bm25_weight": 0.3} | {name: moved})
        assert other.retrieval_key == base.retrieval_key or not item.free, name
    for name, value in (
        ("line_bm25", 0.5),
        ("fill_missing", True),
        ("snippet", "packed"),
        ("snippet_chars", 99),
    ):
        assert base.set({name: value}).retrieval_key != base.retrieval_key, name
    # What is reranked depends on the fusion, not on what follows.
    reranked = base.set({"rerank": "on"})
    assert reranked.retrieval_key != base.retrieval_key
    for name, value in (("vector_weight", 0.5), ("rerank_top", 9), ("candidate_limit", 20)):
        assert reranked.set({name: value}).retrieval_key != reranked.retrieval_key, name
    for name, value in (("decay", True), ("blend", "rerank"), ("min_score", 0.1), ("mmr", True)):
        assert reranked.set({name: value}).retrieval_key == reranked.retrieval_key, name
    # With signals computed for the pool, a deeper pool needs more of them.
    assert WORKBENCH.set({"max_results": 50}).retrieval_key != WORKBENCH.retrieval_key
    assert WORKBENCH.set({"max_results": 5}).retrieval_key == WORKBENCH.retrieval_key


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(KNOBS.values())), st.data())
def test_a_nudge_stays_in_range_and_can_be_undone(item: KnobSpec, data: st.DataObject) -> None:
    value: Any = data.draw(
        st.booleans()
        if item.kind == "switch"
        else st.sampled_from(item.choices)
        if item.kind == "choice"
        else st.integers(int(item.low), int(item.high))
        if item.kind == "int"
        else st.floats(item.low, item.high).map(lambda x: round(x, 6))
    )
    direction, large = data.draw(st.sampled_from([1, -1])), data.draw(st.booleans())
    moved: Any = item.nudge(value, direction, large)
    assert item.parse(moved) == moved
    assert type(moved) is type(value)
    if item.kind in ("int", "float"):
        step = item.leap if large else item.step
        assert float(moved) == pytest.approx(
            min(item.high, max(item.low, value + direction * step)), abs=1e-6
        )
        assert (float(moved) - value) * direction >= -1e-9
    else:
        assert moved != value
        assert item.nudge(moved, -direction) == value


def test_a_typing_error_names_only_near_knobs() -> None:
    with pytest.raises(UsageError, match=r"Did you mean min_score\? `openclaw"):
        spec("min_scor")
