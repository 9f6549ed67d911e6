"""Screens draw the lists and stages of any trace: a pool of three lists, and a stage that no profile has."""

from __future__ import annotations

from dataclasses import replace

import lab_world as world
import pytest

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import STAGES, rank
from openclaw_mem_engine.ranking.pool import CandidateList, ListRow, Pool
from openclaw_mem_engine.ranking.profiles import PROFILES, profile
from openclaw_mem_engine.ranking.state import RankingState
from openclaw_mem_engine.ranking.trace import Operand, recompute
from openclaw_mem_tui.features.search import state
from openclaw_mem_tui.features.search.render import funnel, hits, legend
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.render import spans
from openclaw_mem_tui.render.terms import Marker

SETTINGS = [{}, {"fusion": "rrf"}, {"bm25_score": "max", "decay": True, "mmr": True}]


def three_lists() -> Pool:
    """A second BM25 list of an expanded query, half as heavy, that alone holds the third chunk's words."""
    rows = (ListRow("c2", 3.0), ListRow("c0", 1.0))
    expanded = CandidateList(
        "bm25:expanded", "lexical", '"switch"', rows, 0.5, words=("switch",), label="exp"
    )
    made = world.pool()
    return replace(made, lists=(*made.lists, expanded))


def rerank(pipeline: RankingState) -> None:
    """A score stage of some later profile: what the pool knows of a chunk multiplies its score."""
    for item in pipeline.ranked:
        value = pipeline.pool.rerank_scores.get(item.chunk_id, 1.0)
        item.operands = (*item.operands, Operand("rerank", "blend", "mul", value, 1.0, {}))
        item.score *= value
        item.scores["rerank"] = item.score
    moved = pipeline.reorder("rerank", sorted(pipeline.ranked, key=lambda item: -item.score))
    pipeline.record(
        "rerank",
        "score × rerank score",
        {},
        changed=moved,
        kind="score",
        label="blend",
        heading="factor of the reranker",
    )


def view_of(pool: Pool, knobs: Knobs) -> state.View:
    return state.answered(state.asked(state.View(knobs, knobs), pool.query), pool)


def text_of(lines: list[spans.Line]) -> str:
    return "\n".join(spans.text_of(line) for line in lines)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_pool_of_three_lists_is_ranked_and_explained(settings: dict[str, object]) -> None:
    view = view_of(three_lists(), Knobs().set(settings | {"min_score": 0}))
    trace = view.trace
    assert trace is not None
    assert [lst.label for lst in trace.lists] == ["vector", "BM25", "exp"]
    assert [stage.name for stage in trace.of_kind("list")] == ["vector", "bm25", "bm25:expanded"]
    for row in trace.rows:
        assert [o.label for o in row.operands][:3] == ["vector", "text", "text:expanded"]
        assert row.final == pytest.approx(recompute(row.operands), abs=1e-9)
    c2 = trace.row("c2")
    assert c2 is not None and c2.ranks["bm25:expanded"] == 1 and "bm25" not in c2.ranks


def test_lists_of_a_kind_divide_its_weight_and_rrf_takes_the_weight_of_each() -> None:
    pool = three_lists()
    weighted, rrf = (view_of(pool, Knobs().set({"fusion": fusion})).trace for fusion in ("weighted", "rrf"))
    assert weighted is not None and rrf is not None
    assert [o.weight for o in weighted.rows[0].operands] == pytest.approx([0.7, 0.2, 0.1])
    row = rrf.row("c0")
    assert row is not None and row.final == pytest.approx(1 / 62 + 1 / 61 + 0.5 / 62)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("width", [40, 60, 120])
def test_three_lists_are_drawn(settings: dict[str, object], width: int) -> None:
    view = view_of(three_lists(), Knobs().set(settings))
    assert view.trace is not None
    plan = hits.layout(view, "scores", width)
    marker = Marker.of(view.pool)
    rows = [hits.header(plan), *(hits.hit(view, row, plan, marker, False) for row in view.trace.rows)]
    panes = [waterfall(view, row, width) for row in view.trace.rows]
    for line in (*rows, *(line for pane in panes for line in pane), funnel.funnel(view, width)):
        assert spans.width(line) <= width
    if width == 120:
        titles = spans.text_of(rows[0]).split()
        assert [word for word in titles if word in ("vector", "BM25", "exp")] == ["vector", "BM25", "exp"]
        assert "vector 3 + BM25 2 + exp 2 → pool 3" in spans.text_of(funnel.funnel(view, width))
        for pane in panes:
            labels = [line[0].text.strip() for line in pane if line]
            assert labels[1:4] == ["vector", "BM25", "exp"]
    assert [label for label, _ in legend.legend(view.trace)][:4] == ["vector", "BM25", "exp", "fused"]
    assert marker.matches and marker.matches.stems == ("switch",), "the words of all lists"


def test_a_stage_that_no_profile_has_is_drawn_too() -> None:
    pool = replace(three_lists(), rerank_scores={"c0": 0.2, "c1": 0.2})
    knobs = Knobs().set({"min_score": 0})
    names = PROFILES["documented"].stages
    stages = [STAGES[name] for name in names]
    trace = rank(pool, knobs, [*stages[:2], rerank, *stages[2:]])
    plain = view_of(pool, knobs)
    view = replace(plain, trace=trace)
    assert [row.chunk_id for row in trace.returned] == ["c2", "c0", "c1"]
    row = trace.returned[1]
    assert row.final == pytest.approx(recompute(row.operands), abs=1e-9)
    plan = hits.layout(view, "scores", 120)
    assert "blend" in spans.text_of(hits.header(plan))
    assert "×.200" in spans.text_of(hits.hit(view, row, plan, Marker.of(pool), False))
    assert "blend changed 3 ranks" in spans.text_of(funnel.funnel(view, 140))
    assert "blend ×.200" in " ".join(text_of(waterfall(view, row, 120)).split())
    assert ("blend", "factor of the reranker") in legend.legend(trace)


def test_rank_fusion_and_reranking_are_drawn_from_the_trace() -> None:
    pool = replace(three_lists(), rerank_scores={"c2": 0.9}, rerank_missing="the model sleeps")
    view = view_of(pool, profile("qmd-2.8"))
    trace = view.trace
    assert trace is not None
    plan = hits.layout(view, "scores", 160)
    titles = spans.text_of(hits.header(plan)).split()
    assert titles[-6:] == ["BM25", "exp", "fused", "bonus", "rerank", "score"]
    marker = Marker.of(pool)
    scored, other = trace.row("c2"), trace.row("c1")
    assert scored is not None and other is not None
    cells = spans.text_of(hits.hit(view, scored, plan, marker, False)).split()
    assert cells[-2] == ".900" and cells[-1] == f"{scored.final:.4f}".removeprefix("0")
    assert spans.text_of(hits.hit(view, other, plan, marker, False)).split()[-2] == "·"
    changes = hits.layout(view, "contributions", 160)
    assert "+.0500" in spans.text_of(hits.hit(view, scored, changes, marker, False))
    pane = " ".join(text_of(waterfall(view, scored, 100)).split())
    assert "bonus best rank 1" in pane and "blend rank " in pane and "rerank .900 ×.25" in pane
    assert "not reranked: the model sleeps" in text_of(waterfall(view, other, 100))
    assert "bonus changed no rank → 1/rank" in " ".join(spans.text_of(funnel.funnel(view, 160)).split())
    assert ("rerank", "score of the reranker, blended with the fused one") in legend.legend(trace)
    strip = spans.text_of(funnel.strip(view.knobs, view.defaults, 160))
    assert "RRF k 60, 1/rank │ rerank 40" in strip and "20 per list" in strip
