"""RRF, bonus, candidate limit and blend against the recordings of QMD 2.8.3, and against the formulas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.cli.tables import answer_lines
from openclaw_mem_engine.explain import arithmetic
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank, ranked, to_rerank
from openclaw_mem_engine.ranking.pool import Candidate, CandidateList, Kind, ListRow, Pool, Role
from openclaw_mem_engine.ranking.profiles import PROFILES, profile
from openclaw_mem_engine.ranking.stages.rerank import share_of
from openclaw_mem_engine.ranking.trace import Operand, Row, Trace, recompute
from openclaw_mem_engine.retrieval.reranking import passage_of
from support.goldens import qmd_golden
from support.pools import candidate, knob_settings, pool_of_lists, pools

SHIPPED = profile("qmd-2.8")
EXAMPLES = settings(max_examples=60, deadline=None)


def a_list(
    id: str, kind: Kind, rows: list[tuple[str, float]], role: Role = "original", weight: float = 1.0
) -> CandidateList:
    space = None if kind == "lexical" else 0
    found = tuple(ListRow(*row) for row in rows)
    return CandidateList(id, kind, id, found, weight, matched=len(rows), space_number=space, role=role)


# -- recordings ---------------------------------------------------------------------------------------------


@pytest.mark.goldens
def test_fusion_with_bonus_is_that_of_the_recordings() -> None:
    for case in qmd_golden("rrf")["cases"]:
        if case["name"] == "duplicate_in_one_list":
            continue  # the rows of our lists are distinct (tests/differences.md)
        weights = [*case["weights"], *[1.0] * len(case["lists"])]
        lists = [
            a_list(f"bm25:{at}", "lexical", [tuple(row) for row in rows], weight=weights[at])
            for at, rows in enumerate(case["lists"])
        ]
        knobs = SHIPPED.set(
            {"rrf_k": case["k"], "original_weight": 1, "rerank": "off", "candidate_limit": 0}
        ).set({"fusion": "rrf", "max_results": 200, "list_rows": 200})
        trace = rank(pool_of_lists(*lists), knobs)
        found = [(row.chunk_id, row.final) for row in sorted(trace.rows, key=lambda r: r.ranks["bonus"])]
        assert [name for name, _ in found] == [name for name, _ in case["fused"]], case["name"]
        assert [score for _, score in found] == pytest.approx(
            [score for _, score in case["fused"]], abs=1e-12
        )
        for chunk_id, expected in case["trace"].items():
            row = trace.row(chunk_id)
            assert row is not None
            check_contributions(row, expected)


def check_contributions(row: Row, expected: Mapping[str, Any]) -> None:
    """The operands of RRF and bonus are the recorded contributions."""
    made = [operand.product for operand in row.operands if operand.stage == "fusion" and operand.inputs]
    assert made == pytest.approx([c["rrfContribution"] for c in expected["contributions"]], abs=1e-12)
    bonus = sum(operand.value for operand in row.operands if operand.stage == "bonus")
    assert bonus == expected["topRankBonus"]
    assert row.scores["fusion"] == pytest.approx(expected["baseScore"], abs=1e-12)
    assert row.scores["bonus"] == pytest.approx(expected["totalScore"], abs=1e-12)


def recorded_searches() -> Iterator[dict[str, Any]]:
    for case in qmd_golden("pipeline")["cases"]:
        if case["kind"] in ("hybridQuery", "structuredSearch") and case.get("results") is not None:
            yield case


def lists_of(case: Mapping[str, Any]) -> list[CandidateList]:
    """The lists of a recorded search in QMD's order: words first, then vectors; of typed lines the first
    list that is not empty has weight 2."""
    script = case["script"]
    asked: list[tuple[Role, str, str]]
    if case["kind"] == "structuredSearch":
        asked = [(line["type"], line["type"], line["query"]) for line in case["searches"]]
    else:
        expanded = script.get("expand", []) if case["observed"].get("expand_calls", 0) else []
        asked = [("original", "lex", case["query"]), ("original", "vec", case["query"])]
        asked += [(line["type"], line["type"], line["query"]) for line in expanded]
    made: list[CandidateList] = []
    times = len(case["options"].get("collections", [None]))
    kinds: tuple[tuple[str, str, Kind], ...] = (("fts", "bm25", "lexical"), ("vec", "vector", "vector"))
    for source, name, kind in kinds:
        for role, line, query in asked:
            found = script.get(source, {}).get(query, []) if (line == "lex") == (source == "fts") else []
            rows: list[tuple[str, float]] = [(chunk_id, score) for chunk_id, score in found]
            # One list for each collection that is searched.
            for _ in range(times if rows else 0):
                weight = 2.0 if case["kind"] == "structuredSearch" and not made else 1.0
                made.append(a_list(f"{name}:{len(made)}", kind, rows, role, weight))
    return made


@pytest.mark.goldens
def test_the_pipeline_is_that_of_the_recordings() -> None:
    seen = 0
    for case in recorded_searches():
        options, script = case["options"], case["script"]
        lists = lists_of(case)
        changes: dict[str, Any] = {"max_results": options.get("limit", 10)}
        if options.get("skipRerank"):
            changes["rerank"] = "off"
        if "candidateLimit" in options:
            changes["candidate_limit"] = options["candidateLimit"]
        knobs = SHIPPED.set(changes)
        pool = pool_of_lists(*lists)
        wanted = to_rerank(pool, knobs)
        sent = [doc[0].removeprefix("qmd://c/").removesuffix(".md") for doc in asked_for(case)]
        assert list(wanted) == sent, case["name"]
        # A text without a recorded score got 0.5 from the script.
        scores = {chunk_id: script["rerank"].get(chunk_id, 0.5) for chunk_id in wanted}
        trace = rank(replace(pool, rerank_scores=scores), knobs)
        results = [(f"qmd://c/{row.chunk_id}.md", row.final) for row in trace.returned]
        assert [name for name, _ in results] == [r["file"] for r in case["results"]], case["name"]
        expected = [r["score"] for r in case["results"]]
        assert [score for _, score in results] == pytest.approx(expected, abs=1e-9), case["name"]
        for row, result in zip(trace.returned, case["results"], strict=True):
            if explained := result.get("explain"):
                check_contributions(row, explained["rrf"])
                assert row.ranks["position"] == explained["rrf"]["rank"]
                assert row.scores["position"] == pytest.approx(explained["rrf"]["positionScore"])
                assert recompute(row.operands) == pytest.approx(explained["blendedScore"], abs=1e-9)
        seen += 1
    assert seen >= 10


def asked_for(case: Mapping[str, Any]) -> list[list[Any]]:
    """The documents that the recorded program sent to its reranker, with their texts."""
    found: list[list[Any]] = case["observed"].get("rerank", {}).get("docs", [])
    return found


@pytest.mark.goldens
def test_the_part_of_a_document_that_is_reranked_is_that_of_the_recordings() -> None:
    body = qmd_golden("pipeline")["LONG_BODY"]
    long = [case for case in recorded_searches() if case["script"].get("body")]
    assert long
    for case in long:
        ((_, sent),) = asked_for(case)
        text = passage_of(body, case["query"], case["options"].get("intent", ""))
        assert (len(text), text.startswith(sent["head"])) == (sent["len"], True)
        assert body.index(text) == case["results"][0]["best_chunk_pos"]


# -- formulas -----------------------------------------------------------------------------------------------


def test_the_check_values_of_the_document() -> None:
    """Second by vectors and third by words: 1/62 + 1/63 = .0320; first in one list: 1/61 = .0164."""
    knobs = Knobs(fusion="rrf", snippet="head")
    lists = [a_list("bm25", "lexical", [("a", 3), ("b", 2), ("c", 1)])]
    lists.append(a_list("vector", "vector", [("d", 0.9), ("c", 0.8)]))
    found = {row.chunk_id: row.final for row in rank(pool_of_lists(*lists), knobs).rows}
    assert found["c"] == pytest.approx(1 / 62 + 1 / 63)
    assert found["a"] == found["d"] == pytest.approx(1 / 61)
    assert [share_of(n) for n in (1, 3, 4, 10, 11, 99)] == [0.75, 0.75, 0.6, 0.6, 0.4, 0.4]


def test_the_two_profiles_differ_as_documented() -> None:
    documented = profile("qmd-documented")
    candidates = {"candidate_limit": 40, "rerank_top": 40}
    queries = {"expansion": "typed", "strong_signal": True, "lexical_index": "plain"}
    assert SHIPPED.changes_from(documented) == candidates | queries
    assert documented.candidates == 20 and documented.missing_need("min_score") == ""
    assert documented.missing_need("candidate_multiplier") == "needs list rows 0"


def test_a_document_beyond_the_limit_says_so() -> None:
    rows = [(f"d{n:02d}", 50.0 - n) for n in range(12)]
    trace = rank(pool_of_lists(a_list("bm25", "lexical", rows)), SHIPPED.set({"candidate_limit": 10}))
    row = trace.row("d11")
    assert row is not None and row.outcome.stage == "limit"
    assert row.outcome.reason == "its fused rank is 12, and only the first 10 continue"
    stage = trace.stage("limit")
    assert stage is not None and (stage.entered, stage.left) == (12, 10)


def test_what_was_not_reranked_says_why_and_keeps_its_fused_score() -> None:
    pool = pool_of_lists(a_list("bm25", "lexical", [("a", 4.0), ("b", 3.0), ("c", 2.0)]))
    knobs = Knobs().set({"rerank": "on", "rerank_top": 2, "min_score": 0})
    trace = rank(replace(pool, rerank_scores={"b": 0.9, "c": 1.0}, rerank_missing="the model sleeps"), knobs)
    a, b, c = (trace.row(name) for name in "abc")
    assert a is not None and b is not None and c is not None
    assert b.final == pytest.approx(0.75 * b.scores["fusion"] + 0.25 * 0.9)
    assert (a.final, c.final) == (a.scores["fusion"], c.scores["fusion"])
    assert a.operands[-1].note == "not reranked: the model sleeps"
    assert c.operands[-1].note == "not reranked: beyond the first 2"
    assert "(not reranked: beyond the first 2)" in arithmetic(c, trace)
    assert "× blend 0.750 + rerank 0.900 × 0.25 = " in arithmetic(b, trace)
    stage = trace.stage("rerank")
    assert stage is not None and stage.note == "1 not reranked: the model sleeps"


def test_the_command_line_shows_the_stages_and_what_was_not_reranked() -> None:
    pool = pool_of_lists(a_list("bm25", "lexical", [("a", 4.0), ("b", 3.0)]))
    pool = replace(pool, rerank_scores={"a": 0.2}, rerank_missing="the model sleeps")
    text = "\n".join(answer_lines(Answer(pool, rank(pool, SHIPPED)), 200, explain=True))
    for part in (
        "first 40 fused candidates",
        "+ 0.05 if first in a list, + 0.02 if second or third",
        "0.40 after; 1 not reranked: the model sleeps",
        "1  0.8000  memory/a.md:1-5  [high score]",
        "→ score 0.0328 + bonus 0.0500 = 0.0828  → 1 / 1 (fused rank) = 1.0000",
        "= 1.0000 × blend 0.750 + rerank 0.2000 × 0.25 = 0.8000",
        "→ 1 / 2 (fused rank) = 0.5000 (not reranked)",
    ):
        assert part in text, part
    assert "counts in full" not in text, "ranks count, not the scores of a list"


def test_the_rerank_score_alone_can_say_that_nothing_is_relevant() -> None:
    pool = pool_of_lists(a_list("bm25", "lexical", [("a", 4.0), ("b", 3.0)]))
    pool = replace(pool, rerank_scores={"a": 0.05, "b": 0.6})
    assert rank(pool, SHIPPED).returned[0].final == pytest.approx(0.75 + 0.25 * 0.05)
    trace = rank(pool, SHIPPED.set({"blend": "rerank", "min_score": 0.5}))
    assert [(row.chunk_id, row.final) for row in trace.returned] == [("b", 0.6)]
    dropped = trace.row("a")
    assert dropped is not None and dropped.outcome.reason is not None
    assert dropped.outcome.reason.endswith("; score 1.000 before reranking")


def test_scores_of_qmd_have_bands_and_others_have_none() -> None:
    pool = pool_of_lists(a_list("bm25", "lexical", [(f"d{n}", 9.0 - n) for n in range(6)]))
    for name in PROFILES:
        knobs = profile(name).set({"rerank": "off"})
        bands = [hit.band for hit in Answer(pool, rank(pool, knobs)).hits]
        if profile(name).fusion == "position":
            assert bands == ["high", "moderate", "partial", "partial", "partial", "low"]
        else:
            assert set(bands) == {""}


def test_a_window_is_one_line_before_and_two_after_the_line_with_most_words() -> None:
    text = "\n".join(["# one", "two", "the pump", "the Pump valve", "five", "six", "seven"])
    pool = pool_of_lists(
        a_list("bm25", "lexical", [("a", 2.0)]), candidates={"a": window_candidate("a", text)}
    )
    pool = replace(pool, query="pump VALVE")
    knobs = SHIPPED.set({"rerank": "off"})
    (result,) = rank(pool, knobs).results
    assert result.snippet == "the pump\nthe Pump valve\nfive\nsix" and result.shown == ((3, 6),)
    trace = rank(pool, knobs.set({"snippet_chars": 40}))
    assert trace.results[0].snippet == "the pump\nthe Pump valve\nfive\nsix"
    long = replace(pool, memo={}, candidates={"a": window_candidate("a", f"x\n{'y' * 60}\npump valve\nz")})
    (row,) = rank(long, knobs.set({"snippet_chars": 40})).rows
    assert row.shown.best_line_cut and row.shown.best_line == 3 and row.shown.cut == (2,)
    assert rank(long, knobs.set({"snippet_chars": 40})).results[0].snippet == "y" * 37 + "..."


def window_candidate(chunk_id: str, text: str) -> Candidate:
    return candidate(chunk_id, text)._replace(end_line=text.count("\n") + 1)


def test_bm25_as_a_ratio() -> None:
    """QMD's own score of ``search``."""
    pool = pool_of_lists(a_list("bm25", "lexical", [("a", 6.0), ("b", 1.0)]))
    knobs = SHIPPED.set({"mode": "bm25", "fusion": "weighted", "bm25_score": "ratio", "rerank": "off"})
    rows = rank(pool, knobs).returned
    assert [row.final for row in rows] == pytest.approx([6 / 7, 0.5])
    assert "[6 / (1 + 6)]" in arithmetic(rows[0], rank(pool, knobs))


# -- any pool, any knobs ------------------------------------------------------------------------------------


@st.composite
def rerank_settings(draw: st.DrawFn) -> Knobs:
    """Any knobs, with every stage of QMD on in some."""
    return draw(knob_settings()).set(
        {
            "fusion": draw(st.sampled_from(["weighted", "rrf", "position", "position"])),
            "list_rows": draw(st.sampled_from([0, 2, 20])),
            "original_weight": draw(st.sampled_from([1, 2])),
            "bonus_first": draw(st.sampled_from([0, 0.05])),
            "bonus_next": draw(st.sampled_from([0, 0.02])),
            "candidate_limit": draw(st.sampled_from([0, 1, 4])),
            "rerank": draw(st.sampled_from(["on", "on", "off"])),
            "rerank_top": draw(st.sampled_from([1, 3, 30])),
            "blend": draw(st.sampled_from(["bands", "rerank"])),
            "snippet": draw(st.sampled_from(["head", "window"])),
        }
    )


@st.composite
def scored_pools(draw: st.DrawFn) -> Pool:
    """Any pool, with lists of an expanded query and rerank scores for some of its candidates."""
    pool = draw(pools())
    lists = [*pool.lists]
    for lst in pool.lists:
        role: Role = "lex" if lst.kind == "lexical" else "vec"
        rows = tuple(row for row in lst.rows if draw(st.booleans()))
        if draw(st.booleans()):
            lists.append(replace(lst, id=f"{lst.id}:more", rows=rows, matched=len(rows), role=role))
    ids = dict.fromkeys(row.chunk_id for lst in lists for row in lst.rows)
    grid = st.integers(0, 8).map(lambda n: n / 8)
    scores = {i: draw(grid) for i in pool.candidates if i in ids and draw(st.booleans())}
    return replace(pool, lists=tuple(lists), rerank_scores=scores)


@EXAMPLES
@given(scored_pools(), rerank_settings())
def test_every_shown_number_recomputes(pool: Pool, knobs: Knobs) -> None:
    trace = rank(pool, knobs)
    wanted = to_rerank(pool, knobs)
    for row in trace.rows:
        assert row.returned or row.outcome.reason
        if row.final is None:
            continue
        assert recompute(row.operands) == pytest.approx(row.final, abs=1e-9)
        for stage in (s for s in trace.stages if s.kind in ("fusion", "score") and s.name in row.scores):
            upto = operands_until(trace, row, stage.name)
            assert recompute(upto) == pytest.approx(row.scores[stage.name], abs=1e-9)
        check_rerank(pool, knobs, row, row.chunk_id in wanted)
    assert sum(stage.changed for stage in trace.stages if stage.name == "position") == 0


def operands_until(trace: Trace, row: Row, name: str) -> list[Operand]:
    order = [stage.name for stage in trace.stages]
    return [o for o in row.operands if order.index(o.stage) <= order.index(name)]


def check_rerank(pool: Pool, knobs: Knobs, row: Row, wanted: bool) -> None:
    made = [o for o in row.operands if o.stage == "rerank"]
    if not knobs.rerank or row.outcome.stage == "limit":
        assert made == []
        return
    before = row.scores.get("position", row.scores.get("bonus", row.scores["fusion"]))
    if wanted and row.chunk_id in pool.rerank_scores:
        fused_rank = int(made[0].inputs["rank"])
        share = share_of(fused_rank) if knobs.blend == "bands" else 0.0
        score = pool.rerank_scores[row.chunk_id]
        assert row.scores["rerank"] == pytest.approx(share * before + (1 - share) * score, abs=1e-9)
    else:
        assert made[0].note.startswith("not reranked: ")
        assert row.scores["rerank"] == before


@EXAMPLES
@given(scored_pools(), rerank_settings())
def test_the_same_without_the_explanation(pool: Pool, knobs: Knobs) -> None:
    trace, state = rank(pool, knobs), ranked(pool, knobs, explained=False)
    found = [(item.chunk_id, item.score) for item in state.ranked]
    assert found == [(row.chunk_id, row.final) for row in trace.returned]


@EXAMPLES
@given(scored_pools(), rerank_settings())
def test_the_first_of_the_fused_are_asked_for(pool: Pool, knobs: Knobs) -> None:
    wanted = to_rerank(pool, knobs)
    alone = rank(replace(pool, rerank_scores={}), knobs.set({"rerank": "off", "decay": "off", "mmr": "off"}))
    scored = [row for row in alone.rows if row.final is not None and row.outcome.stage != "limit"]
    order = sorted(scored, key=lambda row: row.ranks["final"])
    assert list(wanted) == [row.chunk_id for row in order[: knobs.rerank_top]] * knobs.rerank
