"""What the panes say, as lines of data."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import lab_world as world
import pytest

from openclaw_mem_engine.answer import stem
from openclaw_mem_engine.errors import IndexDamaged
from openclaw_mem_engine.model import Excerpt, Expected, Fallback, Freshness, Note, SkippedFile
from openclaw_mem_engine.providers.faults import FAULTS
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Signal
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.ranking.trace import recompute
from openclaw_mem_tui.features.providers.render import fault_rows
from openclaw_mem_tui.features.search import start_page, state
from openclaw_mem_tui.features.search.export import in_cells
from openclaw_mem_tui.features.search.lessons import lesson_lines
from openclaw_mem_tui.features.search.preview import agent_text
from openclaw_mem_tui.features.search.render import above, funnel, groups, hits, knobs, outcome, preview
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.features.search.state import COLUMNS, Citations, View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render import spans, status
from openclaw_mem_tui.render.choices import Choice, choice_rows
from openclaw_mem_tui.render.status import Activity, Header
from openclaw_mem_tui.render.terms import Marker

EVERYTHING = Knobs().set({"decay": True, "mmr": True, "min_score": 0.3})


def texts(lines: list[spans.Line]) -> str:
    return "\n".join(spans.text_of(line) for line in lines)


def row_texts(view: state.View, width: int, mode: state.Columns = "scores") -> list[str]:
    assert view.trace is not None
    plan = hits.layout(view, mode, width)
    marker = Marker.of(view.pool)
    lines = [hits.header(plan), *(hits.hit(view, row, plan, marker, False) for row in view.trace.rows)]
    for line in lines:
        assert spans.width(line) <= width
    return [spans.text_of(line) for line in lines]


# -- hit list ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [40, 48, 58, 70, 78, 120, 200])
@pytest.mark.parametrize("mode", state.COLUMNS)
@pytest.mark.parametrize("settings", [EVERYTHING, Knobs(), Knobs().set({"fusion": "rrf"})])
def test_rows_fit_and_keep_rank_path_and_final(width: int, mode: state.Columns, settings: Knobs) -> None:
    view = world.view(settings, Knobs())
    rows = row_texts(view, width, mode)
    assert ("final" in rows[0]) == (mode != "ranks") and "#" in rows[0]
    assert "note-1" in rows[1]


def test_columns_join_with_the_stages_that_ran() -> None:
    assert "decay" not in row_texts(world.view(), 100)[0]
    titles = row_texts(world.view(EVERYTHING, Knobs()), 100)[0]
    assert titles.split()[-7:] == ["vector", "BM25", "fused", "decay", "mmr", "sent", "final"]
    ranks = row_texts(world.view(EVERYTHING, Knobs()), 100, "ranks")[0]
    assert "mmr" not in ranks, "the final rank is that of MMR"


def test_a_list_beside_panes_at_120_has_the_columns_of_one_alone_at_80() -> None:
    view = world.view(
        Knobs().set({"decay": True}), Knobs(), paths=("memory/runbooks/firmware-releas.md",) * 3
    )
    for mode in COLUMNS:
        beside, alone = (hits.layout(view, mode, cells).numbers for cells in (70, 79))
        last = ["final"] * (mode != "ranks")
        assert beside == alone and [column.title for column in alone][2:] == ["decay", "sent", *last]


def test_columns_are_shed_in_order() -> None:
    view = world.view(EVERYTHING, Knobs())
    shed: list[str] = []
    for width in range(110, 20, -1):
        title = row_texts(view, width)[0]
        for word in ("sent", "decay", "mmr", "BM25", "move"):
            if word not in title and word not in shed:
                shed.append(word)
    assert shed == ["sent", "decay", "mmr", "BM25", "move"]


def test_dropped_rows_have_their_rank_and_the_rule_above_them_what_dropped_them() -> None:
    rows = row_texts(world.view(), 200)
    assert rows[-1].split()[0] == "3" and "nothing to do with it" in rows[-1]
    long = "memory/a-name-that-is-long.md"
    narrow = row_texts(world.view(EVERYTHING, Knobs(), paths=(long,) * 3), 70)
    assert all("a-name-that-is-long.md:10" in row for row in narrow[1:] if ".md" in row)
    mixed = Knobs().set({"max_results": 1, "min_score": 0})
    below = world.view(mixed, mixed, vector=((1, 0.8), (0, 0.7), (2, -0.2)))
    for width in (40, 60, 80, 120):
        drawn = row_texts(below, width)
        assert [row.split()[0] for row in drawn[1:]] == ["1", "2", "3"]
        assert all("<" not in row and ">" not in row for row in drawn)
    _, past, low = groups.groups(below, True)
    assert spans.text_of(groups.rule(past, True, 70)).startswith(
        "── not returned: 1 after the first 1 · d hide ──"
    )
    assert "not returned: 1 below min score .00 ─" in spans.text_of(groups.rule(low, False, 70))
    filtered = low._replace(rows=[], of=1)
    assert "not returned: 0 of 1 below min score .00 ─" in spans.text_of(groups.rule(filtered, False, 70))
    assert "not returned: 1 ─" in spans.text_of(groups.rule(low, False, 30))
    _, exact = groups.groups(world.view(Knobs().set({"min_score": 0.375})), True)
    assert exact.reasons[0] == "1 below min score .375", "whole, whatever its digits"
    rescued = world.view(bm25=((0, 7.0),), vector=((1, 0.2), (2, 0.1)))
    assert [row.split()[0] for row in row_texts(rescued, 80)[1:]] == [
        "1",
        "memory/note-1.md:10",
        "memory/note-2.md:10",
    ]
    few = Knobs().set({"max_results": 1, "min_score": 0.9})
    view = world.view(few, few, vector=((0, 0.3), (1, 0.2), (2, 0.1)), bm25=((0, 3.0), (1, 2.0)))
    _, left = groups.groups(view, True)
    one = "1 below min score .90"
    whole = f"not returned: {one} beyond the first keyword match · {one} without a keyword match ·"
    assert whole in spans.text_of(groups.rule(left, True, 140))
    assert "not returned: 2 below min score .90 ·" in spans.text_of(groups.rule(left, True, 60))


def test_a_column_without_any_value_gives_its_room_to_cropped_locations() -> None:
    paths = ["memory/projects/the-router-of-the-old-workshop.md"] * 3
    view = world.view(bm25=(), paths=paths)
    assert "BM25" in row_texts(view, 120)[0], "there is room: it says that no word was found"
    rows = row_texts(view, 60)
    assert "bm25" not in rows[0] and "vector" in rows[0]
    some = row_texts(world.view(bm25=((2, 1.0),), paths=paths), 60)
    assert "BM25" in some[0]


def test_ranks_and_contributions() -> None:
    ranks = row_texts(world.view(), 70, "ranks")
    assert ranks[0].split()[-3:] == ["vector", "BM25", "sent"], "the last rank is in the first column"
    assert ranks[1].split()[-3:] == ["1", "2", "1/1"]
    parts = row_texts(world.view(), 70, "contributions")
    assert parts[1].split()[-4:] == ["+.567", "+.100", "1/1", ".667"]


def test_a_rescued_hit_is_marked() -> None:
    view = world.view(bm25=((0, 7.0),), vector=((1, 0.2), (2, 0.1)))
    assert " 1 * " in row_texts(view, 80)[1]


def test_deltas_tell_new_and_out() -> None:
    view = state.tuned(world.view(), Knobs().set({"mode": "bm25", "max_results": 1}))
    rows = row_texts(view, 80)
    assert "▲1" in rows[1] and any("out" in row for row in rows[2:])


def test_what_left_the_answer_is_first_among_the_dropped() -> None:
    texts_of = ("a", "b", "c")
    view = world.view(texts=texts_of, vector=((0, 0.9), (1, 0.8), (2, 0.7)), bm25=(), ages=(0, 0, 900))
    view = state.tuned(view, Knobs().set({"decay": True}))
    titles = [(group.title, [row.chunk_id for row in group.rows]) for group in groups.groups(view, True)]
    assert titles == [("", ["c0", "c1"]), ("returned only by the baseline", ["c2"])]
    assert [(group.title, group.hidden) for group in groups.groups(view, False)][1:] == [("not returned", 1)]


def test_long_paths_give_way_from_the_left_and_keep_the_range() -> None:
    view = world.view(paths=("memory/" + "deep/" * 30 + "note.md",) * 3)
    assert "note.md:10" in row_texts(view, 60)[1]


def test_a_path_is_whole_where_there_is_room_or_says_that_it_is_not() -> None:
    view = world.view(
        texts=("a\nb",) * 3, paths=("MEMORY.md", "memory/short.md", "memory/in/a/folder/long.md")
    )
    for width, longest in (
        (58, " …/in/a/folder/long.md:10-11 "),
        (110, " memory/in/a/folder/long.md:10-11 "),
    ):
        rows = "\n".join(row_texts(view, width))
        assert all(f" {each}:10-11 " in rows for each in ("MEMORY.md", "memory/short.md")) and longest in rows


def test_a_list_that_added_nothing_has_no_score_but_a_rank() -> None:
    few = Knobs().set({"candidate_multiplier": 1, "max_results": 1, "pool_results": 1})
    view = world.view(few, Knobs(), vector=((1, 0.81), (0, 0.72), (2, 0.2)), bm25=((0, 7.0), (1, 4.0)))
    assert view.trace is not None
    rows = dict(zip((r.chunk_id for r in view.trace.rows), row_texts(view, 70)[1:], strict=True))
    assert rows["c0"].split()[-3] == "·" and ".720" not in rows["c0"]
    assert rows["c2"].split()[-3:] == ["·", "·", "·"], "no rank among scores"
    ranks = dict(zip((r.chunk_id for r in view.trace.rows), row_texts(view, 70, "ranks")[1:], strict=True))
    assert ranks["c1"].split()[-2] == "2" and ranks["c2"].split()[-2:] == ["3", "·"]
    assert "rank 2 of 2 keyword matches, past the first 1" in texts(waterfall(view, view.trace.rows[0], 60))
    titles = [(group.title, len(group.rows)) for group in groups.groups(view, True)]
    assert titles[-1] == ("outside the pool", 1)


# -- waterfall --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [30, 45, 77, 120])
@pytest.mark.parametrize("settings", [EVERYTHING, Knobs(), Knobs().set({"fusion": "rrf"})])
def test_waterfall_fits_for_every_row(width: int, settings: Knobs) -> None:
    view = world.view(settings, Knobs())
    assert view.trace is not None
    for row in view.trace.rows:
        for line in waterfall(view, row, width):
            assert spans.width(line) <= width


def test_waterfall_states_operands_and_final() -> None:
    view = world.view(EVERYTHING, Knobs())
    assert view.trace is not None
    row = next(r for r in view.trace.rows if r.chunk_id == "c0")
    drawn = texts(waterfall(view, row, 60))
    assert "×.70" in drawn and "1/(1+1) ×.30" in drawn and "12.0 d ×.758" in drawn
    assert f"{recompute(row.operands):.3f}"[1:] in drawn
    assert row.diversity is not None
    mmr = re.search(r"mmr +\.70 × rel ([.\d]+) − \.30 × sim ([.\d]+) = ([.\d]+) picked", drawn)
    assert mmr is not None and drawn.splitlines()[-1] == "in the baseline: #2 at .654"
    relevance, similarity, value = map(float, mmr.groups())
    assert 0.7 * relevance - 0.3 * similarity == pytest.approx(value, abs=0.002)
    assert value == pytest.approx(row.diversity.value, abs=0.0005)
    scaled = re.search(r"rel ([.\d]+) = \(([.\d]+) − ([.\d]+)\) / \(([.\d]+) − ([.\d]+)\)", drawn)
    assert scaled is not None
    rel, score, low, high, again = map(float, scaled.groups())
    assert low == again and round((score - low) / (high - low), 3) == rel == relevance


def test_waterfall_says_how_a_scaled_value_is_computed() -> None:
    view = world.view(Knobs().set({"vector_score": "minmax"}), Knobs())
    assert view.trace is not None
    for row in view.trace.returned:
        (operand,) = (step for step in row.operands if "min" in step.inputs)
        found = re.search(r"(\S+) = \((\S+) − (\S+)\) / \((\S+) − (\S+)\)", texts(waterfall(view, row, 60)))
        assert found is not None
        value, raw, low, high, again = map(float, found.groups())
        assert low == again and value == pytest.approx((raw - low) / (high - low), abs=0.001)
        assert raw == pytest.approx(operand.inputs["cosine"], abs=0.0001)


def test_waterfall_says_which_cosines_a_value_mixes() -> None:
    knobs = Knobs().set({"line_vector": 0.05, "mode": "vector"})
    view = world.view(knobs, Knobs())
    assert view.trace is not None
    row = view.trace.returned[0]
    assert "+ line" not in texts(waterfall(view, row, 60)), "it has no line vector"
    (mixed,) = [step for step in row.operands if "cosine" in step.inputs]
    inputs = {**mixed.inputs, "line": 0.709, "line_share": 0.05}
    operands = tuple(step._replace(inputs=inputs) if step is mixed else step for step in row.operands)
    drawn = texts(waterfall(view, row._replace(operands=operands), 60))
    assert f"= .95 × {inputs['cosine']:.4f} + .05 × .7090".replace("× 0.", "× .") in drawn


def test_waterfall_of_a_dropped_row_says_why() -> None:
    view = world.view()
    assert view.trace is not None
    drawn = texts(waterfall(view, view.trace.dropped[-1], 60))
    assert "not returned" in drawn and drawn.count("below min score") == 1 and "out   " not in drawn
    row = view.trace.dropped[-1]
    first = drawn.splitlines()[0]
    assert f"final {fmt.score(row.final)}  not returned" in first, "the conclusion is in the first line"
    assert row.path in first and "final" not in texts(waterfall(view, row, 40)).splitlines()[0]


def test_a_score_that_misses_the_minimum_by_little_is_short_by_more_than_nothing() -> None:
    view = world.view()
    assert view.trace is not None
    row = view.trace.returned[0]
    assert row.final is not None
    near = world.view(Knobs().set({"min_score": row.final + 0.0000412}))
    assert near.trace is not None
    same = next(each for each in near.trace.rows if each.chunk_id == row.chunk_id)
    last = next(text for text in texts(waterfall(near, same, 60)).splitlines() if "below min score" in text)
    assert last.endswith(" −.00004") and last.split()[:4] == [
        "below",
        "min",
        "score",
        fmt.setting(near.trace.knobs.min_score),
    ]


def test_the_minimum_is_marked_at_one_position_of_every_bar_and_of_its_own_line() -> None:
    view = world.view()
    assert view.trace is not None
    for row in (view.trace.returned[0], view.trace.dropped[-1]):
        lines = waterfall(view, row, 60)
        bars = [drawn for drawn in lines if any(span.text == "│" for span in drawn)]
        labels = [drawn[0].text.strip() for drawn in bars]
        assert {"vector", "final"} < {*labels} and " min score " in labels[-1]
        (at,) = {spans.text_of(drawn).index("│") for drawn in bars}
        final = bars[labels.index("final")]
        mark = next(span for span in final if span.text == "│")
        filled = (row.final or 0.0) > view.trace.knobs.min_score + 0.05
        assert mark.role == ("sum reversed" if filled else "faint"), "also where the bar is longer"
        assert sum(spans.text_of(drawn).count("│") for drawn in lines) == len(bars) and at > 20


def test_an_empty_answer_names_the_keys_that_explain_and_change_it() -> None:
    drawn = texts(funnel.nothing(world.view(Knobs().set({"min_score": 0.99, "keyword_rescue": "off"}))))
    assert [text.split()[0] for text in drawn.splitlines()] == ["p", "w"]


def test_an_index_with_errors_is_not_shown_as_sound() -> None:
    activity = Activity(phase="ready", freshness=Freshness("fresh", 1, 0.0), files=9)
    sound = status.status(world.view(), activity, 120)
    assert ("fresh", "good") in [(span.text, span.role) for span in sound]
    damaged = status.status(world.view(), replace(activity, errors=2), 120)
    assert texts([damaged]).endswith("3 doctor: 2 errors "), "fresh is said only where nothing is wrong"
    assert texts([damaged]).startswith(" ✗ index has errors "), "not a ✗ before how long it took"
    broken = replace(activity, damage=IndexDamaged("database disk image is malformed"))
    for shown in (world.view(), View(Knobs(), Knobs())):
        assert texts([status.status(shown, broken, 120)]).startswith(" ✗ index damaged ")
    noted = world.view(notes=(Note("index-damaged", "database disk image is malformed", "warning"),))
    said = texts(status.soundness(noted, broken, 80)).strip()
    assert said == "! Index damaged: this answer may lack some chunks. F on screen 3 repairs it"
    assert "is malformed" in texts(status.messages(noted, broken, 80))
    assert damaged[0] == (" ✗ ", "bad", "") and not any(span.role == "good" for span in damaged)
    stale = replace(activity, errors=2, freshness=Freshness("stale", 1, 0.0, changed_count=3))
    assert texts([status.status(world.view(), stale, 120)]).endswith("2 errors · stale, 3 files modified ")


def test_waterfall_keeps_the_order_of_the_lists_and_names_the_neighbour() -> None:
    view = world.view()
    assert view.trace is not None
    drawn = [waterfall(view, row, 60) for row in view.trace.returned]
    for lines in drawn:
        labels = [line[0].text.strip() for line in lines if line]
        assert labels.index("vector") < labels.index("BM25")
    assert " ahead of #2: " in texts(drawn[0]) and " behind #1: " in texts(drawn[1])


def test_waterfall_of_rrf_shows_the_formula_and_no_cut() -> None:
    view = world.view(Knobs().set({"fusion": "rrf"}), Knobs())
    assert view.trace is not None
    drawn = texts(waterfall(view, view.trace.rows[0], 60))
    assert "1/(60+1)" in drawn and "min score" not in drawn and "adds" not in drawn
    assert "min score not applied to ranks" in spans.text_of(funnel.funnel(view, 120))
    assert "weight ÷ (k + rank)" in texts(waterfall(view, view.trace.rows[0], 60, titled=True))
    assert "min score" not in spans.text_of(funnel.strip(view.knobs, view.knobs, 120, view.trace))
    high = view.knobs.set({"min_score": 0.6})
    cut = world.view(high, Knobs()).trace
    assert "min score .60 (not applied)" in spans.text_of(funnel.strip(high, view.knobs, 160, cut))


def test_scores_of_ranks_are_compared_before_they_are_ranks() -> None:
    view = world.view(Knobs().set({"profile": "qmd-2.8", "rerank": False}), Knobs())
    assert view.trace is not None
    first, second = view.trace.returned[:2]
    gap = first.scores["bonus"] - second.scores["bonus"]
    drawn = texts(waterfall(view, first, 90))
    assert f"{gap:.4f}"[1:] + " ahead of #2 in fused + bonus: " in drawn and "1/rank +" not in drawn


def test_a_column_has_the_number_that_the_waterfall_weights() -> None:
    view = world.view(Knobs().set({"vector_score": "minmax"}), Knobs())
    assert view.trace is not None
    plan = hits.layout(view, "scores", 110)
    row = view.trace.returned[1]
    value = next(operand.value for operand in row.operands if operand.label == "vector")
    drawn = texts([hits.hit(view, row, plan, Marker.of(view.pool), False)])
    assert f" {value:.3f}"[1:].lstrip("0") in drawn and value != row.scores["vector"]


def test_in_full_has_every_stage() -> None:
    view = world.view()
    assert "candidates → " not in texts(above.numbers(view, 40))
    assert " → 3 candidates → " in texts(above.in_full(view, 40)).replace("\n ", " ")


def test_the_columns_of_a_roomy_waterfall_have_titles() -> None:
    view = world.view()
    assert view.trace is not None
    row = view.trace.returned[0]
    plain, titled = (waterfall(view, row, 46, titled=titled) for titled in (False, True))
    titles = spans.text_of(titled[1])
    assert [titled[0], *titled[2:]] == plain and titles.split()[-1] == "adds"
    for line in plain[1:3]:
        text = spans.text_of(line)
        begins = min(at for at in (text.find("#"), text.find("1/(")) if at >= 0)
        assert begins == titles.index("rank, score × weight") and len(text.rstrip()) == len(titles)


# -- funnel, strip, empty states --------------------------------------------------------------------------


def test_a_score_that_is_replaced_has_one_row_and_no_scale_of_its_own() -> None:
    settings = Knobs().set({"fusion": "position", "bonus_first": 0.05, "min_score": 0})
    view = world.view(settings)
    assert view.trace is not None
    first, second = view.trace.returned[:2]
    drawn = [spans.text_of(line) for line in waterfall(view, first, 46)]
    at = next(n for n, text in enumerate(drawn) if text.startswith("1/rank"))
    assert drawn[at].rstrip() == "1/rank rank 1 by .0825: 1 ÷ 1 = 1.0000"
    assert drawn[at - 2].startswith("fused") and "█████" in drawn[at - 2]
    assert drawn[at + 1].split() == ["final", "1.0000"]
    assert ": 1 ÷ 2 = .5000" in texts(waterfall(view, second, 46))
    low = texts(waterfall(view, first, 46, marker=Marker.of(view.pool))).splitlines()
    assert [row.split()[0] for row in low[1:6]] == ["vector", "BM25", "fused", "bonus", "1/rank"]


def test_why_a_list_added_nothing_is_whole() -> None:
    view = world.view(Knobs().set({"min_score": 0}), query="router vlan gateway of the attic", bm25=())
    assert view.trace is not None
    drawn = " ".join(texts(waterfall(view, view.trace.returned[0], 46)).split())
    assert "…" not in drawn and view.trace.returned[0].operands[1].note in drawn


def test_the_sentence_begins_with_what_the_baseline_has_more() -> None:
    view = state.tuned(world.view(), Knobs().set({"max_results": 1}))
    assert texts(above.above(view, 120)).split(maxsplit=1)[1].startswith("1 baseline result is missing; 1 ")


def test_knobs_without_effect_are_no_difference() -> None:
    on = Knobs().set({"mmr": True, "mmr_lambda": 0.5})
    assert knobs.changed_words(Knobs(), on) == "mmr on, mmr lambda .50"
    assert knobs.changed_words(on, Knobs()) == "mmr off"


def test_funnel_counts_each_stage() -> None:
    drawn = spans.text_of(funnel.funnel(world.view(EVERYTHING, Knobs()), 170))
    assert drawn.split(" → ")[:2] == [" vector 3 + BM25 2", "3 candidates"]
    differs = " baseline decay off, mmr off, min score .35 "
    for width in (100, 120, 170):  # other parts are left out before the difference
        assert spans.text_of(funnel.funnel(world.view(EVERYTHING, Knobs()), width)).endswith(differs)
    assert spans.text_of(funnel.funnel(world.view(EVERYTHING, Knobs()), 80)).endswith(" baseline default ")
    kept = state.tuned(state.pinned(world.view()), Knobs().set({"min_score": 0.1}))
    assert spans.text_of(funnel.funnel(kept, 120)).endswith(" baseline pinned: min score .35 ")
    assert " → min score .30 drops 1 → 2 returned " in drawn
    picks = world.view(Knobs().set({"mmr": True, "mmr_lambda": 0.0, "min_score": 0.0, "max_results": 2}))
    assert "mmr changed 1 of the first 2 ranks" in spans.text_of(funnel.funnel(picks, 140))
    low = spans.text_of(funnel.funnel(picks, 66))
    assert "mmr changed 1 of the first 2 ranks → max 2" in low and "vector" not in low, "the lists go first"
    packed = world.view(profile("workbench"))
    assert packed.trace is not None
    (count,) = packed.trace.of_kind("count")
    assert groups.counted(count) == "40 for packing" and groups.dropped_by("max_results", packed.trace) == (
        "after the first 40 for packing"
    )
    row = packed.trace.returned[-1]
    late = row._replace(ranks={**row.ranks, "final": 9})
    plan = hits.layout(packed, "scores", 90)
    drawn = spans.text_of(hits.hit(packed, late, plan, Marker.of(packed.pool), False))
    assert drawn.split()[0] == "9" and " #9 at " in f" {outcome.on_frame(packed.trace, late)}"


def test_funnel_is_compact_where_it_must_be() -> None:
    line = funnel.funnel(world.view(EVERYTHING, Knobs()), 60)
    assert spans.width(line) == 60 and "→ 2 returned" in spans.text_of(line)
    late = world.view(Knobs().set({"max_results": 1, "min_score": 0, "decay": True}), Knobs())
    for width in range(46, 140):  # whatever is left out
        assert " max 1 drops 2 → 1 returned " in spans.text_of(funnel.funnel(late, width))
    against = world.view(Knobs().set({"min_score": 0.4}), Knobs())
    assert spans.text_of(funnel.funnel(against, 90)).endswith(" baseline min score .35 "), "not its name"


def test_strip_marks_what_differs() -> None:
    line = funnel.strip(EVERYTHING, Knobs(), 120)
    strong = [span.text for span in line if "strong" in span.role]
    assert strong == ["decay 30 d", "mmr on", "min score .30"]
    hidden = spans.text_of(funnel.strip(Knobs().set({"decay": True, "snippet_chars": 60}), Knobs(), 120))
    assert "2 changes, 1 not shown" in hidden and "BM25 .30" in hidden
    moved = Knobs().set({"vector_weight": 0.5})
    assert " 1 change · " in spans.text_of(funnel.strip(moved, Knobs(), 120)), "the weights move together"
    assert knobs.changed_words(Knobs(), moved) == "vector weight .50"


def test_a_score_below_the_minimum_is_drawn_as_such() -> None:
    cut = Knobs().set({"min_score": 0.9, "mode": "vector"})
    view = world.view(cut, vector=((0, 0.8999),), bm25=(), texts=("pump",))
    assert view.trace is not None
    drawn = row_texts(view, 80)[1].split()
    assert drawn[0] == "1" and drawn[-1] == ".8999"
    assert "final .8999" in " ".join(texts(waterfall(view, view.trace.rows[0], 60)).split())


def test_no_weights_where_one_list_answers() -> None:
    trace = world.view().trace
    assert trace is not None
    assert "vector .70" in spans.text_of(funnel.strip(Knobs(), Knobs(), 120, trace))
    alone = replace(trace, lists=trace.lists[:1])
    assert "vector .70" not in spans.text_of(funnel.strip(Knobs(), Knobs(), 120, alone))
    taught = spans.text_of(funnel.strip(Knobs().set({"decay": True}), Knobs(), 120, taught=True))
    assert "1 lesson change · U reset all" in taught


def test_the_strip_counts_what_is_configured_and_the_panel_names_it() -> None:
    configured = Knobs().set({"snippet_chars": 1000})
    drawn = spans.text_of(funnel.strip(configured, configured, 120))
    assert "profile  documented with snippet chars 1000 │" in drawn and "resets" not in drawn
    turned = spans.text_of(funnel.strip(Knobs(), Knobs().set({"max_results": 5}), 120))
    assert "profile  documented │" in turned and "1 change · U reset" in turned
    chips = configured.set({"min_score": 0.25})
    both = spans.text_of(funnel.strip(chips, chips, 120))
    assert "documented with snippet chars 1000 │" in both and both.count("min score .25") == 1
    low = spans.text_of(funnel.strip(configured, configured, 50))
    assert "profile  documented, 1 change │" in low, "where there is no room for its name"
    assert "profile  documented │" in spans.text_of(funnel.strip(configured, Knobs(), 120))
    assert "documented with snippet chars 1000" in texts(knobs.hint("profile", 100, configured))


def test_the_top_names_the_workspace_whole_or_not_at_all() -> None:
    header = Header("main", "/home/someone/.openclaw/heron", "builtin", "static-minilm-256-int8")
    assert " heron  agent main" in spans.text_of(status.top(header, 120))
    assert "/home/someone/.openclaw/heron  agent main" in spans.text_of(status.top(header, 160))
    longer = replace(header, workspace="/home/someone/quillfern")
    assert " 5 curate             quillfern  agent main" in spans.text_of(status.top(longer, 120)), (
        "before our name"
    )
    for cells in range(60, 160):
        top = spans.text_of(status.top(longer, cells))
        assert " quillfern " in top or "/quillfern " in top or "fern" not in top
    assert spans.text_of(status.top(longer, 80)).endswith("  quillfern "), "not the model alone"
    assert spans.text_of(status.top(replace(longer, demo=True), 82)).endswith(
        "  demo · static-minilm-256-int8 "
    )


def test_an_expected_passage_that_is_not_returned_says_so_beside_others() -> None:
    few = Knobs().set({"max_results": 1})
    expected = dict.fromkeys((Expected("memory/note-0.md", 10), Expected("memory/note-1.md", 10)), "")
    drawn = texts(above.above(replace(world.view(few, few), expected=expected), 160))
    assert "✗ memory/note-0.md:10 rank 2, not returned  ✓ memory/note-1.md:10 rank 1" in drawn


def test_nothing_passes_is_explained() -> None:
    view = world.view(Knobs().set({"min_score": 0.95, "keyword_rescue": "off"}), Knobs())
    assert "Nothing reaches min score .95: the best is .667 at memory/note-" in texts(above.above(view, 120))
    assert "lower min score, set keyword rescue" in texts(funnel.nothing(view))


def test_a_workspace_without_notes_is_no_matter_of_words() -> None:
    found = world.view(bm25=(), vector=(), texts=())
    assert found.trace is not None
    noted = replace(found.trace, notes=(Note("no-notes", "There is no note in x."),))
    assert texts(funnel.nothing(replace(found, trace=noted))) == "There is no note to search."


def test_nothing_found_is_explained() -> None:
    view = world.view(bm25=(), vector=(), texts=())
    assert "No chunk has a vector, and no chunk contains any of the words." in texts(funnel.nothing(view))


FRESH = Freshness("fresh", 1, 1.0)


@pytest.mark.parametrize(
    ("activity", "expected"),
    [
        (Activity(), "Opening the index"),
        (Activity(phase="syncing"), "Reading the notes"),
        (Activity(phase="ready"), "Reading the index"),
        (Activity(phase="ready", freshness=Freshness("empty", 0, None)), "no note to search"),
        (
            Activity(phase="ready", files=3, chunks=9, freshness=Freshness("fresh", 1, 1.0)),
            "3 files, 9 chunks",
        ),
        (Activity(phase="failed"), "index cannot be opened"),
    ],
)
def test_landing_always_says_something(activity: Activity, expected: str) -> None:
    empty = state.View(Knobs(), Knobs())
    drawn = texts(start_page.what(empty, activity, "/notes"))
    assert expected in drawn
    assert ("what it gets, and why" in drawn) == bool(activity.files), "what the lab is for"
    no_note = activity.freshness is not None and not activity.files
    assert ("yet in /notes" in drawn and "openclaw-mem demo" in drawn) == no_note


# -- preview ----------------------------------------------------------------------------------------------


def long_view(snippet: str = "head", **options: Any) -> state.View:
    """One chunk of 30 lines, 10 to 39, whose last one answers; a snippet has room for some ten."""
    text = "\n".join([*(f"line {n} says little of it" for n in range(10, 39)), "the router and the vlan"])
    knobs = Knobs().set({"snippet": snippet, "snippet_chars": 250})
    signals = {"bm25": {"c0": Signal(7.0, (*([0.1] * 29), 6.0))}}
    return world.view(knobs, texts=(text,), bm25=((0, 7.0),), vector=((0, 0.9),), signals=signals, **options)


def snippet_of(view: state.View, citations: Citations = "off") -> list[spans.Line]:
    assert view.trace is not None
    row, result = view.trace.rows[0], view.result("c0")
    text = agent_text(result, citations) if result is not None else ""
    return preview.snippet(view, row, text, Marker.of(view.pool), 60)


def test_snippet_has_real_line_numbers_marks_and_its_footer() -> None:
    made = snippet_of(world.view(texts=("\n\nfirst router line\nsecond",), vector=((0, 0.9),), bm25=()), "on")
    assert texts(made).splitlines()[0].split() == ["12", "first", "router", "line"]
    assert [span.text for line in made for span in line if "match" in span.role] == ["router"]
    assert "Source: memory/note-0.md#L10-L13" in texts(made) and "not sent" not in texts(made)
    note, source = re.findall(r"(\d+) characters sent, plus (\d+) for the source line", texts(made))[0]
    assert int(source) == len("\n\nSource: memory/note-0.md#L10-L13"), "the limit counts the note alone"
    assert int(note) == len("first router line\nsecond")


def test_the_snippet_pane_draws_what_the_agent_gets_then_the_cut_then_the_rest() -> None:
    view = long_view()
    made = snippet_of(view)
    result, drawn = view.result("c0"), texts(made).splitlines()
    assert result is not None and view.candidate("c0") is not None
    at = next(n for n, text in enumerate(drawn) if text.startswith("── shortened by "))
    assert [text[6:].rstrip() for text in drawn[: at - 1]] == result.snippet.split("\n")
    assert drawn[at - 1].startswith("250 characters sent")
    below = made[at + 1 :]
    assert all({span.role for span in line[3:]} <= {"dim", "dim match"} for line in below)
    numbers = [int(spans.text_of(line)[:3]) for line in below]
    assert numbers == list(range(numbers[0], 40)) and numbers[0] == len(result.snippet.split("\n")) + 9
    assert "…" in drawn[at + 1], "of a line that is cut only the rest is below"
    assert preview.evidence(made) == len(made) - 1 and drawn[-1][4] == "▸"
    assert {text[4] for text in drawn[at + 1 : -1]} == {"┊"}


def test_a_hit_shows_the_line_that_its_snippet_marks() -> None:
    text = "router router gateway\n" + "\n".join(f"line {n} says little of it" for n in range(11, 40))
    signals = {"bm25": {"c0": Signal(7.0, (*([0.1] * 29), 6.0))}}
    view = world.view(
        Knobs().set({"snippet_chars": 250}),
        texts=(text,),
        bm25=((0, 7.0),),
        vector=((0, 0.9),),
        signals=signals,
    )
    assert view.trace is not None and view.trace.rows[0].shown.best_line == 39
    row, marker = view.trace.rows[0], Marker.of(view.pool)
    best = spans.text_of(hits.best_line(view.candidate("c0"), row, marker, 60))
    assert best == "line 39 says little of it" and best in texts(snippet_of(view)).split("▸")[1]
    assert best in texts(waterfall(view, row, 60, marker=marker)).splitlines()[0]
    unscored = row._replace(shown=row.shown._replace(best_line=None))
    assert "router" in spans.text_of(hits.best_line(view.candidate("c0"), unscored, marker, 60))


def test_the_best_of_several_lines_has_the_word_that_the_query_names_first() -> None:
    marker = Marker.of(world.pool(query="backup signing key", kinds=("vector",)))
    for text, best in (
        ("# 2026-03-31\n\nNothing about it.\nNor here.", 3),
        ("# Backup of the signing key\nThe key.", 2),
        ("A key, for signing.\nA key, for the backup.\nA backup, of the key.", 2),
        ("A backup.\nThe signing key.", 2),
        ("# Backup", 1),
    ):
        assert marker.best(world.candidate(0, text)._replace(chunk_id=text, start_line=1)).number == best, (
            text
        )


def test_an_excerpt_begins_with_a_word() -> None:
    marker = Marker.of(world.pool(query="vlan"))
    text = spans.text_of(marker.excerpt("magpie heron gannet dunlin 10.40.110.8 the vlan of it", 30))
    assert text.startswith("…") and text[1:].split()[0] in {"dunlin", "10.40.110.8", "the"}


def test_a_truncated_row_is_marked_and_counted() -> None:
    view = long_view()
    assert view.trace is not None
    shown = view.trace.rows[0].shown.lines[0]
    row = row_texts(view, 80)[1].split()
    assert row[:3] == ["1", "†", "memory/note-0.md:10-39"] and row[-2] == f"{shown[1] - 9}/30"
    full = spans.text_of(funnel.funnel(view, 140)).rstrip()
    assert full.endswith("→ 1 returned"), "the sentence above says the rest"
    said = "1 result; the result is shortened to 250 characters and loses its best line (line 39)"
    assert texts(above.above(view, 140)).endswith(said)
    whole = long_view("best-line")
    assert row_texts(whole, 80)[1].split()[0] == "1"
    assert "1 result; the result is shortened to at most 250 characters; the first" in texts(
        above.above(whole, 140)
    )


def test_packed_lines_have_gaps_and_count_results_beside_chunks() -> None:
    texts_of = ("router one\nnothing\nnothing at all\nvlan two", "vlan three", "the vlan of it")
    lines = {"c0": (5.0, 0.1, 0.1, 4.0), "c1": (4.0,), "c2": (3.0,)}
    view = world.view(
        Knobs().set({"snippet": "packed", "snippet_budget": 50, "min_score": 0.0}),
        texts=texts_of,
        paths=("memory/a.md", "memory/b.md", "memory/b.md"),
        bm25=((0, 7.0), (1, 6.0), (2, 5.0)),
        vector=((0, 0.9), (1, 0.8), (2, 0.7)),
        signals={"bm25": {key: Signal(7.0, scores) for key, scores in lines.items()}},
        starts=(10, 20, 30),
    )
    assert view.trace is not None
    assert "→ 2 results made of 3 chunks" in spans.text_of(funnel.funnel(view, 120))
    drawn = texts(snippet_of(view)).splitlines()
    assert [text[:5].split() for text in drawn[:3]] == [["10", "▸"], [], ["13"]] and drawn[1].strip() == "…"
    assert any(text.startswith("── shortened by ") for text in drawn) and " 11 ┊ nothing" in "\n".join(drawn)
    second = preview.snippet(view, view.trace.rows[2], "", Marker.of(view.pool), 60)
    assert [spans.text_of(line)[4] for line in second[:3]] == [" ", " ", "▸"], "the lines of its own chunk"


def test_lines_that_another_result_shows_are_not_said_to_be_lost() -> None:
    text = "\n".join([*(f"line {n} says little of it" for n in range(10, 39)), "the router and the vlan"])
    view = world.view(
        Knobs().set({"snippet_chars": 250}),
        texts=(text, "the router and the vlan"),
        paths=("memory/a.md",) * 2,
        starts=(10, 39),
        bm25=((0, 7.0), (1, 6.0)),
        vector=((0, 0.9), (1, 0.8)),
        signals={"bm25": {"c0": Signal(7.0, (*([0.1] * 29), 6.0)), "c1": Signal(6.0, (6.0,))}},
    )
    drawn = texts(snippet_of(view)).splitlines()
    assert drawn[-2].startswith(" 38 ┊") and drawn[-1].startswith(" 39 ▸")
    assert "1 shortened to 250 characters, the first loses its best line (line 39)" in texts(
        above.above(view, 140)
    )


def test_a_chunk_that_is_not_returned_is_drawn_as_such() -> None:
    made = texts(snippet_of(world.view(Knobs().set({"min_score": 1.0, "keyword_rescue": "off"}))))
    assert "not sent" not in made and made.split()[:2] == ["10", "┊"], "the frame says that nothing is sent"


def test_excerpt_tells_chunk_from_context() -> None:
    view = world.view(texts=("a\nthe router",), vector=((0, 0.9),))
    assert view.trace is not None
    row, marker = view.trace.returned[0], Marker.of(view.pool)
    got = Excerpt("memory/note-0.md", "before\na\nthe router\nafter", 9, 12, 40, True)
    made = preview.excerpt(got, world.candidate(0, "a\nthe router"), row, marker, 60)
    assert [spans.text_of(line)[4] for line in made[:4]] == [" ", "▎", "▸", " "]
    assert preview.evidence(made) == 2, "it opens at the best line"
    assert "lines 9–12 of 40" in texts(made)


def test_the_best_line_is_found_else_the_first_match() -> None:
    made = snippet_of(world.view(texts=("one\ntwo\nthe router",), vector=((0, 0.9),), bm25=()))
    assert preview.evidence(made) == 2 and preview.evidence(made[:2]) == 0


def test_a_file_that_is_gone_is_said() -> None:
    got = Excerpt("memory/x.md", "", 1, 0, 0, False)
    trace = world.view().trace
    assert trace is not None
    candidate, row = world.candidate(0, "a"), trace.returned[0]
    assert "is deleted" in texts(preview.excerpt(got, candidate, row, Marker.of(None), 60))


@pytest.mark.parametrize(
    ("query", "text", "marked"),
    [
        ("routers", "the Router routes", ["Router"]),
        ("café", "CAFE and Café", ["CAFE", "Café"]),
        ("納期は", "箱の納期は四週間", ["納期は"]),
        ("INV-0412", "invoice INV-0412 paid", ["INV", "0412"]),
    ],
)
def test_terms_are_marked_across_forms_and_scripts(query: str, text: str, marked: list[str]) -> None:
    pool = world.pool(query=query, kinds=("vector",))
    line = Marker.of(pool).mark(text)
    assert [span.text for span in line if "match" in span.role] == marked


@pytest.mark.parametrize("before", ["長い話の前に", "a longer story of a van "])
def test_the_match_of_a_long_line_is_in_sight_whatever_its_script(before: str) -> None:
    marker = Marker.of(world.pool(query="納期", kinds=("vector",)))
    for repeats in range(12):
        drawn = spans.fit(marker.excerpt(before * repeats + "納期は四週間", 40), 40)
        assert spans.width(drawn) == 40
        assert any(span.text == "納期" and "match" in span.role for span in drawn), repeats


def test_bars_and_frames_are_shapes_in_a_picture() -> None:
    text = '<text class="terminal-r4" x="24.4" y="68.8" textLength="48.8">{}</text>'
    bar = in_cells(text.format("██▄&#160;"))
    assert '<rect class="terminal-r4" x="24.4" y="50.3" width="24.4" height="24.65"' in bar
    assert 'x="48.8" y="62.5" width="12.2" height="12.45"' in bar and bar.count("<rect") == 2
    assert bar.endswith('fill-opacity="0" x="24.4" y="68.8" textLength="48.8">██▄&#160;</text>')
    mixed = in_cells(text.format("17││"))
    assert mixed.count("<rect") == 2 and "opacity" not in mixed, "a shape for each of two frames"
    assert in_cells(text.format("text")) == text.format("text")


def test_wide_characters_take_two_cells_in_a_picture() -> None:
    head = '<text class="terminal-r4" x="{}" y="68.8" textLength="{}" clip-path="url(#l)">'
    drawn = in_cells(
        head.format("24.4", "97.6") + "- 納期は 5 &amp;</text>" + head.format("0", "61") + "heron</text>"
    )
    assert drawn == (
        head.format("24.4", "24.4")
        + "- </text>"
        + head.format("48.8", "73.2")
        + "納期は</text>"
        + head.format("122", "48.8")
        + " 5 &amp;</text>"
        + head.format("0", "61")
        + "heron</text>"
    )


def test_stems_meet() -> None:
    assert stem("numbers") == stem("number") and stem("restored") == stem("restore")


# -- knobs ------------------------------------------------------------------------------------------------


def test_changed_knobs_are_bold_and_show_their_default() -> None:
    panel = [knobs.panel_row(EVERYTHING, Knobs(), name, 45, False) for name in state.KNOB_NAMES]
    row = panel[state.KNOB_NAMES.index("min_score")]
    assert ".30" in spans.text_of(row) and spans.text_of(row).rstrip().endswith("──●─── was .35")
    assert any("strong" in span.role for span in row)
    assert all("●" in spans.text_of(panel[state.KNOB_NAMES.index(n)]) for n in ("min_score", "mmr_lambda"))
    assert "─" not in spans.text_of(panel[state.KNOB_NAMES.index("rrf_k")]), "a range too wide to show a step"
    for line in panel:
        assert spans.width(line) == 45


def test_a_scale_has_the_configured_value_too() -> None:
    low = Knobs().set({"min_score": 0.2})
    row = spans.text_of(knobs.panel_row(low, Knobs(), "min_score", 80, True))
    assert row.rstrip().endswith(" ──●─○─────── was .35")


def test_a_knob_without_effect_says_what_it_needs() -> None:
    assert "needs decay on" in texts(knobs.hint("half_life_days", 60, Knobs()))
    assert not knobs.idle("half_life_days", EVERYTHING) and not knobs.idle("mmr_lambda", EVERYTHING)
    rrf = Knobs().set({"fusion": "rrf"})
    assert knobs.idle("vector_weight", rrf) and not knobs.idle("rrf_k", rrf) and knobs.idle("rrf_k", Knobs())
    row = knobs.panel_row(Knobs(), Knobs(), "half_life_days", 45, False)
    assert "faint" in row[1].role and "30 d" not in spans.text_of(row)


def test_a_rescue_that_differs_has_its_chip() -> None:
    changed = Knobs().set({"keyword_rescue": "off"})
    assert "rescue off" in spans.text_of(funnel.strip(changed, Knobs(), 140))
    assert "rescue" not in spans.text_of(funnel.strip(Knobs(), Knobs(), 140))


def test_every_knob_has_a_hint() -> None:
    for name in state.KNOB_NAMES:
        assert texts(knobs.hint(name, 44, Knobs())).strip()
        whole, cut = (texts(knobs.hint(name, 44, Knobs(), most)) for most in (0, 2))
        assert cut == whole or cut.rstrip().endswith("…")


# -- edges ------------------------------------------------------------------------------------------------


def test_degraded_service_is_said() -> None:
    note = Note("stale", "Two notes changed since the last sync.", "warning")
    view = world.view(notes=(note, Note("x", "BM25 only.", "info")))
    drawn = texts(status.soundness(view, Activity(phase="ready"), 100))
    assert "! Two notes changed" in drawn and "i BM25 only." in drawn
    first = status.soundness(view, Activity(phase="ready"), 30)[0]
    assert spans.text_of(first).rstrip() == " ! Two notes changed … ! all", "no word is cut"


def test_a_fallback_is_said() -> None:
    made = replace(world.pool(), fallback=Fallback("openai", "401"))
    view = state.answered(state.asked(state.View(Knobs(), Knobs()), "router vlan"), made)
    drawn = texts(status.soundness(view, Activity(), 100))
    assert "fallback: BM25 only (instead of openai)" in drawn and "401" in drawn


def test_status_gives_way_to_what_was_just_said() -> None:
    fresh = Freshness("fresh", 41, world.NOW)
    activity = Activity(
        phase="ready", said="wrote /home/someone/exports/" + "x" * 40 + ".json", freshness=fresh
    )
    line = status.status(world.view(), activity, 60)
    assert spans.width(line) == 60
    assert spans.text_of(line).rstrip() == " ● wrote /home/someone/exports/xxxxxxxxxxxxxxxxxxxxx… ! all"
    said = "F5 does nothing here; on 3 index: sync the index with the notes on disk"
    drawn = texts([status.status(world.view(), replace(activity, said=said), 50)])
    assert drawn.rstrip() == " ● F5 does nothing here; on 3 index: sync … ! all", "the subject first"
    assert f" i {said}" in texts(status.messages(world.view(), replace(activity, said=said), 99))


def test_the_status_leaves_out_the_steps_of_the_timings_first() -> None:
    view = world.view()
    activity = Activity(phase="ready", freshness=Freshness("fresh", 1, 0.0), files=9, chunks=20)
    steps = [name for name, _ in status.timings(view)]
    for cells in range(40, 140):
        drawn = texts([status.status(view, activity, cells)])
        shown = [name for name in steps if f" {name} " in drawn]
        assert shown == (steps if shown else []) and "answered in " in drawn, "all, or their sum alone"
        assert drawn.count(" ms") == 1, "one unit"
        assert ("9 files" in drawn or not shown) and drawn.rpartition("fresh")[0].endswith(("  ", "· "))


def test_the_sentence_leaves_out_whole_clauses_to_take_one_line() -> None:
    clauses = ["1 result", "the first: cosine .403", "36 more are below min score .35"]
    assert [texts(above._sentence(clauses, "", cells, 2)).strip() for cells in (80, 50)] == [
        "; ".join(clauses),
        "1 result; the first: cosine .403 … ! all",
    ]
    assert len(above._sentence(clauses, "", 40, 2)) == 2
    assert texts(above._sentence(clauses, "", 40, 1)).strip() == "1 result … ! all"
    cut = [*clauses[:1], "5 shortened to 700 characters, 1 loses its best line"]
    said = "1 result; 5 shortened to 700 characters … ! all"
    assert texts(above._sentence(cut, "", 55, 1)).strip() == said, "at a comma too"
    assert "min score" in texts(above._sentence(clauses, "", 50, above._ALL)), "in full"


def test_the_sign_is_the_state_whatever_was_said_last() -> None:
    said, sound = Activity(phase="ready", said="wrote x.json"), world.view()
    assert status.status(sound, said, 100)[0].role == "good"
    degraded = state.answered(sound, replace(world.pool(), fallback=Fallback("openai", "401")))
    assert status.status(degraded, said, 100)[0].role == "warn"
    assert status.status(sound, replace(said, trouble="the index is damaged"), 100)[0].role == "warn"
    failed = status.status(state.failed(sound, "the search failed"), said, 100)
    assert (failed[0].text.strip(), failed[0].role) == ("✗", "bad")
    found = status.status(sound, replace(said, errors=1), 100)
    assert texts([found]).startswith(" · wrote x.json"), "errors of the doctor are at the right"
    failed = status.status(sound, replace(said, failed=said.said), 100)
    assert (failed[0].text.strip(), failed[0].role) == ("✗", "bad"), "a sync that failed"


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_edges_fit(width: int) -> None:
    place = Header("main", "/home/someone/" + "deep/" * 20, "builtin", "static-minilm", True)
    fresh = Freshness("stale", 41, world.NOW, ("a.md",), 1)
    for phase in ("opening", "syncing", "ready", "failed"):
        activity = Activity(phase=phase, label="memory/x.md", done=3, total=9, freshness=fresh, files=9)
        assert spans.width(status.top(place, width)) == width
        assert spans.width(status.status(world.view(), activity, width, 3)) == width


def test_no_label_of_the_waterfall_is_cut_beside_empty_cells(tmp_path: Path) -> None:
    with world.demo_memory(tmp_path)(frozenset()) as memory:
        for name in ("documented", "workbench", "qmd-documented"):
            used = profile(name).set({"decay": True, "mmr": True})
            pool = memory.retrieve("restore drill", used)
            view = state.answered(state.asked(state.View(used, used), pool.query), pool)
            assert view.trace is not None
            for cells in (34, 46, 78):
                drawn = texts([line for row in view.trace.rows for line in waterfall(view, row, cells)])
                assert not re.search(r"…  +", drawn), (name, cells)


def test_a_lesson_that_does_not_fit_ends_with_an_ellipsis() -> None:
    guide, empty = world.make.demo_guide(), state.View(Knobs(), Knobs())
    cut = 0
    for number, lesson in enumerate(guide):
        for cells in (50, 60, 78, 118):
            drawn = lesson_lines(guide, number, empty, cells)
            assert len(drawn) <= 4 and all(spans.width(line) <= cells for line in drawn)
            assert not re.search(r"\b0\.\d", texts(drawn[1:])), "numbers as on all screens"
            whole = " ".join(texts(drawn[1:]).split()) == fmt.numbers(" ".join(lesson.lesson.split()))
            assert whole != texts(drawn).endswith("… ! all")
            assert len(drawn) <= 3 or cells < 78, "two lines of text"
            cut += not whole
    assert cut


def test_the_lines_above_the_hits_are_beside_labels_where_there_is_room() -> None:
    view = world.view(EVERYTHING, Knobs())
    drawn = [*above.above(view, 120), *above.numbers(view, 120), funnel.strip(EVERYTHING, Knobs(), 120)]
    starts = [spans.text_of(made)[:10] for made in drawn]
    assert [start.split() for start in starts if start.strip()] == [["answer"], ["stages"], ["profile"]]
    assert {spans.text_of(made)[10:11].isspace() for made in drawn} == {False}, "one column"
    narrow = texts([*above.above(view, 80), *above.numbers(view, 80)])
    assert "answer" not in narrow and "stages" not in narrow
    assert {spans.width(made) <= 80 for made in above.numbers(view, 80)} == {True}


def test_every_fault_has_one_line_at_120_columns() -> None:
    pane = 120 * 58 // 100 - 2
    assert {name: len(fault_rows(frozenset(), name, pane, False)) for name in FAULTS} == dict.fromkeys(
        FAULTS, 1
    )


def test_the_detail_of_the_selected_choice_stays_in_its_column() -> None:
    rows = [Choice("a", "short title", "a long detail " * 4), Choice("b", "a title that is longer", "other")]
    first, second = choice_rows(rows, "", 60, 0)[1]
    at = spans.text_of(second[0]).index("other")
    assert len(first) > 1 and spans.text_of(first[0])[at:].startswith("a long detail")
    assert {len(text) - len(text.lstrip()) for text in map(spans.text_of, first[1:])} == {at}


def test_texts_that_give_way_stay_apart_from_what_is_beside_them() -> None:
    start, end = spans.line("embed 0.2 rank 0.5 ms"), spans.line("fresh")
    assert spans.text_of(spans.spread(start, end, 20)) == "embed 0.2 ran… fresh"
    assert spans.text_of(spans.spread(start, end, 27)) == "embed 0.2 rank 0.5 ms fresh"
    picked = [Choice("a", "memory/that-is-far-too-long.md:12", "its detail"), Choice("b", "B", "x")]
    _, ((row,), *_) = choice_rows(picked * 5, "", 40, 1)
    assert "…too-long.md:12     its detail" in spans.text_of(row), "the line of a path stays"
    _, (rows, _) = choice_rows(picked, "", 30, 1)
    assert "".join(map(spans.text_of, rows)).split()[-2:] == ["its", "detail"], "of a few rows nothing is cut"
    group = groups.Group("returned only by another backend", [])
    texts_of = [spans.text_of(groups.rule(group, True, cells)).rstrip() for cells in (46, 80)]
    assert "d hide" not in texts_of[0] and "…" not in texts_of[0] and "d hide ──" in texts_of[1]
    assert spans.Span("d", "key") in groups.rule(group, True, 80)


def test_the_lab_says_partial_as_the_command_line_does() -> None:
    fresh = Freshness("partial", 1, world.NOW, skipped=(SkippedFile("memory/a.md", "is not text"),))
    said = spans.text_of(status.status(world.view(), Activity("ready", freshness=fresh), 120))
    assert said.endswith(" partial, 1 file excluded ")
