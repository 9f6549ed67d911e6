"""Every shown number recomputes, every candidate is accounted for: properties over any pool and any knobs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from openclaw_mem_engine.ranking import state
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank, ranked
from openclaw_mem_engine.ranking.pool import CandidateList, Pool, Signal
from openclaw_mem_engine.ranking.profiles import DOCUMENTED
from openclaw_mem_engine.ranking.trace import Operand, Row, Trace, recompute
from support import textbook
from support.pools import bm25_list, knob_settings, pool_of_lists, pools, vector_list

EXAMPLES = settings(max_examples=80, deadline=None)


def list_of(pool: Pool, operand: Operand) -> CandidateList:
    found = pool.first("vector" if operand.label == "vector" else "lexical")
    assert found is not None
    return found


def ranked_rows(trace: Trace) -> list[Row]:
    return [row for row in trace.rows if row.final is not None]


@EXAMPLES
@given(pools(), knob_settings())
def test_without_the_explanation_scores_order_and_results_are_the_same(pool: Pool, knobs: Knobs) -> None:
    trace, plain = rank(pool, knobs), ranked(pool, knobs, explained=False)
    assert [(i.chunk_id, i.score, i.rank) for i in plain.ranked] == [
        (row.chunk_id, row.final, row.ranks["final"]) for row in trace.returned
    ]
    assert (tuple(plain.results), tuple(plain.notes)) == (trace.results, trace.notes[: len(plain.notes)])
    assert all(not item.operands for item in plain.ranked) or knobs.decay


@EXAMPLES
@given(pools(), knob_settings())
def test_the_operands_of_every_ranked_row_make_its_score(pool: Pool, knobs: Knobs) -> None:
    for row in ranked_rows(rank(pool, knobs)):
        assert row.final is not None
        assert recompute(row.operands) == pytest.approx(row.final, abs=1e-9)
        total = sum(o.value * o.weight for o in row.operands if o.op == "add")
        product = math.prod(o.value for o in row.operands if o.op == "mul")
        assert total * product == pytest.approx(row.final, abs=1e-9)
        assert [o.stage for o in row.operands] == sorted((o.stage for o in row.operands), reverse=True)


@EXAMPLES
@given(pools(), knob_settings())
def test_the_value_of_every_operand_follows_from_its_inputs(pool: Pool, knobs: Knobs) -> None:
    trace = rank(pool, knobs)
    members = textbook.members_of(pool, knobs)
    assert {row.chunk_id for row in ranked_rows(trace)} == set(members)
    for row in ranked_rows(trace):
        for operand in row.operands:
            check_operand(pool, knobs, row, operand)


def check_operand(pool: Pool, knobs: Knobs, row: Row, operand: Operand) -> None:
    given = operand.inputs
    if operand.stage == "decay":
        date = pool.candidates[row.chunk_id].date
        expected = textbook.decayed(1.0, date, pool.now, knobs.half_life_days)
        assert operand.value == pytest.approx(expected, abs=1e-12)
        assert given.keys() == (set() if date is None else {"age_days", "half_life_days"})
        assert operand.note == ("evergreen" if date is None else "")
    elif not given:
        assert operand.value == 0.0
        assert operand.note, "an absence says why"
    elif knobs.fusion == "rrf":
        rows = list_of(pool, operand).rows
        assert rows[int(given["rank"]) - 1].chunk_id == row.chunk_id
        assert given["rank"] <= knobs.candidates
        assert operand.value == 1 / (given["k"] + given["rank"])
        assert operand.weight == 1.0
    else:
        check_weighted(pool, row, operand, knobs, given)


def check_weighted(pool: Pool, row: Row, operand: Operand, knobs: Knobs, given: Mapping[str, float]) -> None:
    found = list_of(pool, operand)
    signal = pool.signals.get(found.id, {}).get(row.chunk_id, Signal())
    raw = {r.chunk_id: r.raw for r in found.rows}.get(row.chunk_id)
    known = signal.raw if raw is None else raw
    if operand.label == "vector":
        assert given["cosine"] == known
        mixed = (1 - given["line_share"]) * given["cosine"] + given["line_share"] * given["line"]
        if knobs.vector_score == "minmax":
            spread = given["max"] - given["min"]
            mixed = (mixed - given["min"]) / spread if spread else 0.0
        assert operand.value == pytest.approx(mixed, abs=1e-12)
        return
    assert given["bm25"] == known
    if knobs.bm25_score == "max":
        mixed = given["bm25"] + given["line_share"] * given["line"]
        assert operand.value == pytest.approx(mixed / given["max"] if given["max"] else 0.0, abs=1e-12)
        assert given["line"] == (signal.line or 0.0)
    else:
        expected = 1.0 if knobs.bm25_score == "one" else 1 / (1 + given["rank"])
        assert operand.value == expected


@EXAMPLES
@given(pools(), knob_settings())
def test_scores_are_those_of_the_textbook(pool: Pool, knobs: Knobs) -> None:
    trace = rank(pool, knobs)
    expected = textbook.fused(pool, knobs)
    assert {r.chunk_id: r.scores["fusion"] for r in ranked_rows(trace)} == pytest.approx(expected, abs=1e-9)
    if knobs.decay:
        expected = {
            i: textbook.decayed(s, pool.candidates[i].date, pool.now, knobs.half_life_days)
            for i, s in expected.items()
        }
    assert {r.chunk_id: r.final for r in ranked_rows(trace)} == pytest.approx(expected, abs=1e-9)


@EXAMPLES
@given(pools(), knob_settings())
def test_the_order_after_mmr_is_that_of_the_quadratic_loop(pool: Pool, knobs: Knobs) -> None:
    """Where selection ends early, only what is returned has a promised order."""
    trace = rank(pool, knobs)
    before = "decay" if knobs.decay else "fusion"
    rows = sorted(ranked_rows(trace), key=lambda row: row.ranks[before])
    scores = [row.scores[before] for row in rows]
    assert scores == sorted(scores, reverse=True)
    order = list(range(len(rows)))
    if knobs.mmr:
        sets = [textbook.words(pool.candidates[r.chunk_id].text[:700], knobs.mmr_tokens) for r in rows]
        order = textbook.mmr(scores, sets, knobs.mmr_lambda)
    wanted = [rows[i].chunk_id for i in order]
    no_cut = knobs.fusion == "rrf" or [s.name for s in trace.stages if s.name in ("bm25", "vector")] == [
        "bm25"
    ]
    passing = [
        i
        for i in wanted
        if no_cut or dict(zip((r.chunk_id for r in rows), scores, strict=True))[i] >= knobs.min_score
    ]
    unpacked = {row.chunk_id for row in trace.dropped if row.outcome.stage == "snippet"}
    found = [row.chunk_id for row in trace.returned if not row.outcome.rescued]
    assert found == [i for i in passing[: knobs.depth] if i not in unpacked]
    assert knobs.snippet == "packed" or not unpacked


@EXAMPLES
@given(pools(), knob_settings())
def test_nothing_disappears(pool: Pool, knobs: Knobs) -> None:
    trace = rank(pool, knobs)
    assert sorted(row.chunk_id for row in trace.rows) == sorted(pool.candidates)
    assert [row.outcome.rank for row in trace.returned] == list(range(1, len(trace.returned) + 1))
    assert trace.rows == (*trace.returned, *trace.dropped)
    for row in trace.dropped:
        assert row.outcome.rank is None
        assert row.outcome.reason
        stage = row.outcome.stage
        if row.final is None:
            assert stage in ("pool", "mode")
            assert not row.operands
        else:
            assert stage in ("min_score", "mmr", "max_results", "snippet")
            assert trace.stage(stage) is not None
        if stage == "min_score":
            assert row.final is not None
            assert row.final < knobs.min_score
    for row in trace.returned:
        assert row.final is not None
        cut = trace.stage("min_score")
        assert cut is not None
        assert row.outcome.rescued == (not cut.note and row.final < knobs.min_score)


@EXAMPLES
@given(pools(), knob_settings())
def test_the_funnel_adds_up(pool: Pool, knobs: Knobs) -> None:
    trace = rank(pool, knobs)
    names = [stage.name for stage in trace.stages]
    order = [
        "vector",
        "bm25",
        "fusion",
        "decay",
        "mmr",
        "min_score",
        "keyword_rescue",
        "max_results",
        "snippet",
    ]
    assert names == [name for name in order if name in names], "each stage once, in the documented order"
    assert {"fusion", "min_score", "max_results", "snippet"} <= set(names)
    assert ("decay" in names, "mmr" in names) == (knobs.decay, knobs.mmr)
    by_name = {stage.name: stage for stage in trace.stages}
    lists = [by_name[name] for name in ("vector", "bm25") if name in by_name]
    assert by_name["fusion"].entered == sum(stage.left for stage in lists)
    for stage in lists:
        found = pool.first("vector" if stage.name == "vector" else "lexical")
        assert found is not None
        assert (stage.entered, stage.left) == (len(found.rows), min(len(found.rows), knobs.candidates))
    chain = [by_name[name] for name in order[2:] if name in by_name]
    for earlier, later in pairwise(chain):
        assert later.entered == earlier.left
    assert chain[0].left == len(ranked_rows(trace))
    assert chain[-1].left == len(trace.returned) <= knobs.depth
    assert len(trace.results) <= knobs.max_results
    if "keyword_rescue" in by_name:
        saved = sum(row.outcome.rescued for row in trace.returned)
        assert (
            by_name["keyword_rescue"].left - by_name["keyword_rescue"].entered
            == by_name["keyword_rescue"].changed
        )
        # A packed answer may drop a passage whose lines are all weak.
        assert by_name["keyword_rescue"].changed == saved or (
            knobs.snippet == "packed" and saved < by_name["keyword_rescue"].changed
        )


@EXAMPLES
@given(pools(), knob_settings())
def test_ranks_are_permutations(pool: Pool, knobs: Knobs) -> None:
    rows = ranked_rows(rank(pool, knobs))
    wanted = list(range(1, len(rows) + 1))
    for stage in ("fusion", "final", *(["decay"] if knobs.decay else []), *(["mmr"] if knobs.mmr else [])):
        assert sorted(row.ranks[stage] for row in rows) == wanted
    if not knobs.mmr:
        assert all(row.ranks["final"] == row.ranks["decay" if knobs.decay else "fusion"] for row in rows)


@EXAMPLES
@given(pools(), knob_settings())
def test_ranking_is_pure(pool: Pool, knobs: Knobs) -> None:
    before = repr((pool.lists, pool.candidates, pool.signals, pool.notes))
    first, again = (explained(rank(pool, knobs)) for _ in range(2))
    assert first == again
    assert repr((pool.lists, pool.candidates, pool.signals, pool.notes)) == before
    json.dumps(first, allow_nan=False)


def explained(trace: Trace) -> dict[str, object]:
    data = trace.to_dict()
    for stage in data["stages"]:  # type: ignore[attr-defined]
        del stage["ms"]
    return data


@EXAMPLES
@given(pools(), knob_settings(), knob_settings())
def test_a_pool_serves_any_number_of_rankings(pool: Pool, knobs: Knobs, other: Knobs) -> None:
    """What ranking remembers in the pool must not leak from one knob setting into the next."""
    alone = explained(rank(pool, knobs))
    explained(rank(pool, other))
    assert explained(rank(pool, knobs)) == alone


def test_rows_of_what_is_dropped_are_made_when_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of a trace: a search for its results alone reads none, a screen those in sight."""
    ids = [f"c{n:03}" for n in range(200)]
    pool = pool_of_lists(vector_list([(i, 0.9 - n / 400) for n, i in enumerate(ids)]), bm25_list([]))
    made: list[str] = []

    def counted(chunk_id: str, *rest: Any) -> Row:
        made.append(chunk_id)
        return Row(chunk_id, *rest)

    monkeypatch.setattr(state, "Row", counted)
    trace = rank(pool, DOCUMENTED)
    assert made == [row.chunk_id for row in trace.returned] == ids[: DOCUMENTED.max_results]
    assert len(trace.dropped) == len(ids) - len(trace.returned)
    assert made == [row.chunk_id for row in trace.returned]
    assert (trace.rows[150].chunk_id, trace.dropped[0].chunk_id) == ("c150", "c006")
    assert trace.row("c150") is trace.rows[150] and trace.row("c006") is trace.unreturned[0]
    assert made[DOCUMENTED.max_results :] == ["c150", "c006"]
    assert [row.chunk_id for row in trace.rows] == ids == [row.chunk_id for row in trace.rows]
    assert sorted(made) == ids
