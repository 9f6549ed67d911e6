"""Lines of the waterfall: the numbers of one row."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import lab_world as world
import pytest
from test_tui_lines import EVERYTHING, texts

from openclaw_mem_engine.errors import IndexDamaged
from openclaw_mem_engine.model import Freshness, Note
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.ranking.trace import recompute
from openclaw_mem_tui.features.search.render import above, funnel, hits
from openclaw_mem_tui.features.search.render.axis import Axis, titles
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render import spans, status
from openclaw_mem_tui.render.status import Activity
from openclaw_mem_tui.render.terms import Marker


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
    assert "×.70" in drawn and "rank 1 · .500 ×.30" in drawn and "12.0 d ×.758" in drawn
    assert f"{recompute(row.operands):.3f}"[1:] in drawn
    assert row.diversity is not None
    mmr = re.search(r"MMR +\.70 × rel ([.\d]+) − \.30 × sim ([.\d]+) = ([.\d]+) picked", drawn)
    assert mmr is not None and drawn.splitlines()[-1] == "in the baseline: #2 at .654"
    relevance, similarity, value = map(float, mmr.groups())
    assert 0.7 * relevance - 0.3 * similarity == pytest.approx(value, abs=0.002)
    assert value == pytest.approx(row.diversity.value, abs=0.0005)
    scaled = re.search(
        r"rel ([.\d]+) = \(([.\d]+) − lowest ([.\d]+)\) / \(highest ([.\d]+) − ([.\d]+)\)",
        " ".join(drawn.split()),
    )
    assert scaled is not None
    rel, score, low, high, again = map(float, scaled.groups())
    assert low == again and round((score - low) / (high - low), 3) == rel == relevance
    narrow = [spans.text_of(line) for line in waterfall(view, row, 45)]
    at = next(at for at, line in enumerate(narrow) if " rel " in line and " = (" in line)
    assert (
        narrow[at].endswith(")")
        and narrow[at + 1].lstrip().startswith("/ (highest ")
        and narrow[at + 1].endswith(")")
    )
    assert narrow[at].index("=") == narrow[at + 1].index("/"), "cut before an operator, which is below the ="


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
    assert f"score {fmt.score(row.final)}  not returned" in first, "the conclusion is in the first line"
    assert row.path in first and "score" not in texts(waterfall(view, row, 40)).splitlines()[0]


def test_a_score_that_misses_the_minimum_by_little_is_short_by_more_than_nothing() -> None:
    view = world.view()
    assert view.trace is not None
    row = view.trace.returned[0]
    assert row.final is not None
    near = world.view(Knobs().set({"min_score": row.final + 0.0000412}))
    assert near.trace is not None
    same = next(each for each in near.trace.rows if each.chunk_id == row.chunk_id)
    last = next(text for text in texts(waterfall(near, same, 60)).splitlines() if "below min score" in text)
    assert last == f"below min score {fmt.setting(near.trace.knobs.min_score)} by .00004"


def test_the_minimum_is_marked_at_one_position_of_every_bar() -> None:
    view = world.view()
    assert view.trace is not None
    for row in (view.trace.returned[0], view.trace.dropped[-1]):
        lines = waterfall(view, row, 60)
        bars = [drawn for drawn in lines if any(span.text == "│" for span in drawn)]
        labels = [drawn[0].text.strip() for drawn in bars]
        assert labels == ["vector", "BM25", "score"] or labels == ["vector", "score"]
        (at,) = {spans.text_of(drawn).index("│") for drawn in bars}
        final = bars[labels.index("score")]
        mark = next(span for span in final if span.text == "│")
        filled = (row.final or 0.0) > view.trace.knobs.min_score + 0.05
        assert mark.role == ("sum reversed" if filled else "faint"), "also where the bar is longer"
        assert sum(spans.text_of(drawn).count("│") for drawn in lines) == len(bars) and at > 20


def test_an_empty_answer_names_the_keys_that_explain_and_change_it() -> None:
    view = world.view(Knobs().set({"min_score": 0.99, "keyword_rescue": "off"}))
    keys = [span.text for span in funnel.next_keys(view) if span.role == "key"]
    assert keys == ["p", "w"] and funnel.nothing(view) == [], "above the table, whose lines are rows"
    assert " next     p opens the knobs" in texts(above.numbers(view, 120)).splitlines()[-1]
    assert not above.numbers(view, 120, 0)[1:] and not funnel.next_keys(world.view())


def test_what_a_rescue_would_add_is_not_said_beside_a_baseline_that_has_one() -> None:
    off = Knobs().set({"min_score": 0.99, "keyword_rescue": "off"})
    same = world.view(off, off)
    assert " next     keyword rescue = fill" in texts(above.numbers(same, 120))
    taught = replace(same, against=off.set({"keyword_rescue": "when-empty"}))
    assert "keyword rescue = fill" not in texts(above.numbers(taught, 120)), "one remedy"


def test_an_index_with_errors_is_not_shown_as_sound() -> None:
    activity = Activity(phase="ready", freshness=Freshness("fresh", 1, 0.0), files=9)
    sound = status.status(world.view(), activity, 120)
    assert ("fresh", "good") in [(span.text, span.role) for span in sound]
    damaged = status.status(world.view(), replace(activity, errors=2), 120)
    assert texts([damaged]).endswith("screen 3: 2 errors "), "fresh is said only where nothing is wrong"
    assert texts([damaged]).startswith(" ✗ index has errors "), "not a ✗ before how long it took"
    broken = replace(activity, damage=IndexDamaged("database disk image is malformed"))
    for shown in (world.view(), View(Knobs(), Knobs())):
        assert texts([status.status(shown, broken, 120)]).startswith(" ✗ index damaged ")
    noted = world.view(notes=(Note("index-damaged", "database disk image is malformed", "warning"),))
    said = texts(status.soundness(noted, broken, 80)).strip()
    assert said == "! Index damaged: this answer may lack some chunks. F repairs it"
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


def test_the_parts_of_a_margin_add_up_and_equal_texts_are_named() -> None:
    texts_of = ("router vlan", "router vlan", "the gateway")
    view = world.view(texts=texts_of, vector=((0, 0.8134), (1, 0.8129), (2, 0.6)), bm25=((0, 7.0), (1, 7.0)))
    assert view.trace is not None
    for row in view.trace.returned:
        drawn = " ".join(texts(waterfall(view, row, 100)).split())
        found = re.search(r"(\.\d+) (ahead of|behind) #\d: ([^;]*?)(?= same text| in the|$)", drawn)
        assert found is not None
        parts = [float(part.replace("−", "-")) for part in re.findall(r"[−+]\.\d+", found[3])]
        assert sum(parts) == pytest.approx(float(found[1]) * (1 if found[2] == "ahead of" else -1))
        same = {"c0": "same text as #2", "c1": "same text as #1"}.get(row.chunk_id)
        assert same in drawn if same else "same text" not in drawn


def test_waterfall_of_rrf_shows_the_formula_and_no_cut() -> None:
    view = world.view(Knobs().set({"fusion": "rrf"}), Knobs())
    assert view.trace is not None
    drawn = texts(waterfall(view, view.trace.rows[0], 60))
    assert "1/(60+1)" in drawn and "min score" not in drawn and "adds" not in drawn
    assert "min score not applied (RRF)" in spans.text_of(funnel.funnel(view, 120))
    assert "weight ÷ (k + rank)" in texts(waterfall(view, view.trace.rows[0], 60, titled=True))
    assert "min score" not in spans.text_of(funnel.strip(view.knobs, view.knobs, 120, view.trace))
    high = view.knobs.set({"min_score": 0.6})
    cut = world.view(high, Knobs()).trace
    assert "min score .60 not applied" in spans.text_of(funnel.strip(high, view.knobs, 160, cut))


def test_scores_of_ranks_are_compared_before_they_are_ranks() -> None:
    view = world.view(profile("qmd-2.8").set({"rerank": False}), Knobs())
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
    assert "pool 3 → " in texts(above.numbers(view, 40)) and "vector 3" not in texts(above.numbers(view, 40))
    assert "vector 3 + BM25 2 → pool 3 → " in texts(above.in_full(view, 40)).replace("\n ", " ")


def test_in_full_names_the_words_of_the_query_that_are_not_searched() -> None:
    view = world.view()
    assert view.trace is not None
    (words,) = (lst for lst in view.trace.lists if lst.kind.by_words)
    for query, skipped in (("where is the router", "where, is, the"), ("router", "")):
        held = words._replace(source=replace(words.source, words=("router",)))
        lists = tuple(held if lst is words else lst for lst in view.trace.lists)
        asked = replace(view, trace=replace(view.trace, query=query, lists=lists))
        said = f"not searched by BM25: {skipped}"
        assert (said in " ".join(texts(above.in_full(asked, 60)).split())) == bool(skipped)


def test_the_columns_of_a_roomy_waterfall_have_titles() -> None:
    view = world.view()
    assert view.trace is not None
    row = view.trace.returned[0]
    plain, titled = (waterfall(view, row, 46, titled=titled) for titled in (False, True))
    titles = spans.text_of(titled[1])
    assert titles.split()[-1] == "adds" and len(titled) == len(plain) + 1
    for number, line in enumerate(titled[2:4], 1):
        text = spans.text_of(line)
        rank = re.search(r"(\d+) \.\d+ ×", text)
        assert rank is not None and rank.end(1) == titles.index("rank ") + len("rank")
        assert f"rank {rank[1]} · " in spans.text_of(plain[number]), "in words where it has no title"
        assert len(text.rstrip()) == len(titles)
    mark = spans.text_of(titled[4]).index("│")
    assert titles[mark - 1 : mark + 2] == ".35", "the mark of the minimum is named"


@pytest.mark.parametrize("width", [45, 52, 77, 120])
def test_bars_join_where_one_ends_and_the_next_begins(width: int) -> None:
    view = world.view(EVERYTHING, Knobs())
    assert view.trace is not None
    axis = Axis(view, width)

    def halves(bar: spans.Line) -> tuple[int, int]:
        """The first half cell of a bar, and the one after its last."""
        cells = "".join({"█": "11", "▌": "10", "▐": "01", "│": ""}.get(c, "00") for c in spans.text_of(bar))
        return cells.index("1"), cells.rindex("1") + 1

    axis.tick = None
    steps = [axis.top * part / 9 for part in range(10)]
    drawn = [halves(axis.bar(low, high, "vector")) for low, high in pairwise(steps)]
    assert all(before[1] == after[0] for before, after in pairwise(drawn)) and drawn[0][0] == 0


def test_a_title_keeps_its_weight_beside_the_label_of_the_minimum_where_there_is_room() -> None:
    view = world.view(Knobs().set({"min_score": 0.2}))
    assert view.trace is not None
    axis, text = Axis(view, 14), "list   rank score × weight"
    assert axis.tick is not None
    for bars, kept in (
        (30, text),
        (len(text) + 1 - axis.tick, "list   rank score ×weight"),
        (16, "rank score"),
    ):
        drawn = spans.text_of(titles(text, bars, axis, view.trace, 44))
        assert kept in drawn and drawn.index(".20") in (bars + axis.tick - 1, bars + axis.tick), bars


def test_a_score_far_below_the_min_score_does_not_fill_the_bar() -> None:
    view = world.view(texts=("a b", "c d"), vector=((0, 0.1), (1, 0.05)), bm25=())
    assert view.trace is not None and not view.trace.returned
    axis = Axis(view, 20)
    assert axis.tick is not None and not axis.parted
    drawn = spans.text_of(axis.bar(0, view.trace.unreturned[0].final or 0.0, "sum"))
    assert drawn.count("█") < 8 and "│" in drawn
