"""Lines of the funnel and the strip, and of screens that have nothing to show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import lab_world as world
import pytest
from test_tui_lab import running
from test_tui_lines import EVERYTHING, row_texts, texts

from openclaw_mem_engine.model import Expected, Freshness, Note
from openclaw_mem_engine.ranking.knobs import KNOBS, Knobs
from openclaw_mem_engine.ranking.profiles import PROFILES, profile
from openclaw_mem_tui.features.search import start_page, state
from openclaw_mem_tui.features.search.render import above, funnel, groups, hits, knobs, outcome
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.render import spans, status
from openclaw_mem_tui.render.status import Activity, Header
from openclaw_mem_tui.render.terms import Marker


def test_a_score_that_is_replaced_has_one_row_and_no_scale_of_its_own() -> None:
    settings = Knobs().set({"fusion": "position", "bonus_first": 0.05, "min_score": 0})
    view = world.view(settings)
    assert view.trace is not None
    first, second = view.trace.returned[:2]
    drawn = [spans.text_of(line) for line in waterfall(view, first, 46)]
    at = next(n for n, text in enumerate(drawn) if text.startswith("1/rank"))
    assert drawn[at].rstrip() == "1/rank = 1 ÷ 1 = 1.0000"
    assert drawn[at - 3].startswith("fused") and "████" in drawn[at - 3]
    assert drawn[at - 2].split()[:4] == ["bonus", "best", "rank", "1"]
    assert drawn[at - 1].split()[0] == "sum" and drawn[at - 1].split()[-1] == ".0825"
    assert drawn[at + 1].split() == ["score", "1.0000"]
    assert "1/rank = 1 ÷ 2 = .5000" in texts(waterfall(view, second, 46))
    low = texts(waterfall(view, first, 46, marker=Marker.of(view.pool))).splitlines()
    assert [row.split()[0] for row in low[1:7]] == ["vector", "BM25", "fused", "bonus", "sum", "1/rank"]


def test_why_a_list_added_nothing_is_whole() -> None:
    view = world.view(Knobs().set({"min_score": 0}), query="router vlan gateway of the attic", bm25=())
    assert view.trace is not None
    drawn = " ".join(texts(waterfall(view, view.trace.returned[0], 46)).split())
    assert "…" not in drawn and view.trace.returned[0].operands[1].note in drawn


def test_what_the_baseline_has_more_is_said_behind_the_count() -> None:
    view = state.tuned(world.view(), Knobs().set({"max_results": 1}))
    assert (
        texts(above.above(view, 120))
        .split(maxsplit=1)[1]
        .startswith("1 result; 1 result of the baseline is missing; 1 ")
    )


def test_knobs_without_effect_are_no_difference() -> None:
    on = Knobs().set({"mmr": True, "mmr_lambda": 0.5})
    assert knobs.changed_words(Knobs(), on) == "MMR on, MMR lambda .50"
    assert knobs.changed_words(on, Knobs()) == "MMR off"


def test_funnel_counts_each_stage() -> None:
    drawn = spans.text_of(funnel.funnel(world.view(EVERYTHING, Knobs()), 170))
    assert drawn.split(" → ")[:2] == [" vector 3 + BM25 2", "pool 3"]
    differs = " baseline: decay off, MMR off, min score .35 "
    for width in (100, 120, 170):  # other parts are left out before the difference
        assert spans.text_of(funnel.funnel(world.view(EVERYTHING, Knobs()), width)).endswith(differs)
    assert spans.text_of(funnel.funnel(world.view(EVERYTHING, Knobs()), 80)).endswith(" baseline: default ")
    kept = state.tuned(state.pinned(world.view()), Knobs().set({"min_score": 0.1}))
    assert spans.text_of(funnel.funnel(kept, 120)).endswith(" baseline: pinned, min score .35 ")
    assert " → min score .30 drops 1 → 2 returned " in drawn
    picks = world.view(Knobs().set({"mmr": True, "mmr_lambda": 0.0, "min_score": 0.0, "max_results": 2}))
    assert "MMR changed 1 of the first 2 ranks" in spans.text_of(funnel.funnel(picks, 170))
    low = spans.text_of(funnel.funnel(picks, 66))
    assert low.startswith(" 2 lists → pool 3 → MMR changed 1 of 2 ranks → max 2"), (
        "the lists are counted first"
    )
    packed = world.view(profile("workbench"))
    assert packed.trace is not None
    assert (
        groups.dropped_by("max_results", packed.trace) == "not considered for packing: only the first 40 are"
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
    for width in range(48, 140):  # whatever is left out
        assert " max 1 drops 2 → 1 returned " in spans.text_of(funnel.funnel(late, width))
    against = world.view(Knobs().set({"min_score": 0.4}), Knobs())
    assert spans.text_of(funnel.funnel(against, 90)).endswith(" baseline: min score .35 "), "not its name"


def test_keys_in_a_sentence_are_drawn_as_keys() -> None:
    drawn = spans.keyed("While it is built, `esc` stops it.")
    assert [span.text for span in drawn if span.role == "key"] == ["esc"]
    assert spans.text_of(drawn) == "While it is built, esc stops it."


def test_strip_marks_what_differs() -> None:
    line = funnel.strip(EVERYTHING, Knobs(), 120)
    strong = [span.text for span in line if "strong" in span.role]
    assert strong == ["decay 30 d", "MMR on", "min score .30"]
    for cells in (80, 100, 120):
        line = funnel.strip(Knobs().set({"decay": True, "snippet_chars": 60}), Knobs(), cells)
        strong = [span.text for span in line if "strong" in span.role]
        assert strong == ["decay 30 d", "snippet chars 60"], "every change that is counted"
        assert "2 changes" in spans.text_of(line)
        assert "…" not in spans.text_of(line), "what is left out is whole, and as configured"
    ours = profile("workbench")
    names = ours.changed_names(Knobs())
    for cells in (118, 160, 240, 600):
        many = spans.text_of(funnel.strip(ours, Knobs(), cells))
        lists = ", ! lists them" * (cells < 600)
        assert many.endswith(f" changes{lists} · U reset all "), "more than a line holds"
        assert f" {len(names)} changes" in many and "…" not in many
    assert " │ BM25 score max │ vector score minmax │ " in many and " │ snippet packed " in many, (
        "where it does"
    )
    listed = " ".join(texts(above.in_full(world.view(ours, Knobs()), 80)).split())
    assert all(knobs.knob_value(name, ours) in listed for name in names), "what the key lists"
    moved = Knobs().set({"vector_weight": 0.5})
    assert " 1 change · " in spans.text_of(funnel.strip(moved, Knobs(), 120)), "the weights move together"
    assert knobs.changed_words(Knobs(), moved) == "vector weight .50"


def test_a_score_below_the_minimum_is_drawn_as_such() -> None:
    cut = Knobs().set({"min_score": 0.9, "mode": "vector"})
    view = world.view(cut, vector=((0, 0.8999),), bm25=(), texts=("pump",))
    assert view.trace is not None
    drawn = row_texts(view, 80)[1].split()
    assert drawn[0] == "1" and drawn[-1] == ".8999"
    assert "score .8999" in " ".join(texts(waterfall(view, view.trace.rows[0], 60)).split())


def test_the_mode_is_named_as_in_sentences() -> None:
    for mode, name in (("bm25", "BM25 only"), ("vector", "vectors only")):
        assert f" │ {name} │ " in spans.text_of(funnel.strip(Knobs().set({"mode": mode}), Knobs(), 120))


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
    own = profile("qmd-documented").set({"snippet_chars": 700})
    for backend, changed in (("qmd", False), ("builtin", True)):
        said = (
            texts([funnel.strip(own, own, 120, backend=backend)]),
            texts(knobs.hint("profile", 100, own, 0, backend)),
        )
        assert [" with snippet chars 700" in text for text in said] == [changed, changed]


def test_the_top_names_the_workspace_whole_or_not_at_all() -> None:
    header = Header("main", "/home/someone/.openclaw/heron", "builtin", "static-minilm-256-int8")
    assert " heron · agent main" in spans.text_of(status.top(header, 120))
    assert "  heron · agent main" in spans.text_of(status.top(header, 160)), "never the whole path"
    longer = replace(header, workspace="/home/someone/quillfern")
    assert " 5 curate            quillfern · agent main" in spans.text_of(status.top(longer, 120)), (
        "before our name"
    )
    for cells in range(60, 160):
        top = spans.text_of(status.top(longer, cells))
        assert " quillfern " in top or "fern" not in top
    assert spans.text_of(status.top(longer, 80)).endswith("  quillfern · builtin "), "not the model alone"
    assert spans.text_of(status.top(replace(longer, demo=True), 82)).endswith(
        "  demo · static-minilm-256-int8 "
    )


def test_an_expected_passage_that_is_not_returned_says_so_beside_others() -> None:
    few = Knobs().set({"max_results": 1})
    expected = dict.fromkeys((Expected("memory/note-0.md", 10), Expected("memory/note-1.md", 10)), "")
    view = replace(world.view(few, few), expected=expected)
    drawn = texts(above.above(view, 160))
    assert "✗ memory/note-0.md:10 rank 2, not returned  ✓ memory/note-1.md:10 rank 1" in drawn
    more = replace(world.view(Knobs(), few), expected=expected)
    assert " memory/note-0.md:10 rank 2 (new)" in texts(above.above(more, 160)), "not “new rank”"


def test_nothing_passes_is_explained() -> None:
    view = world.view(Knobs().set({"min_score": 0.95, "keyword_rescue": "off"}), Knobs())
    assert "Nothing reaches min score .95: the best is .667, at memory/note-" in texts(above.above(view, 120))
    assert "p opens the knobs: min score, keyword rescue" in texts([funnel.next_keys(view)])


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


async def test_the_help_of_every_knob_fits_below_the_panel(tmp_path: Path) -> None:
    async with running(tmp_path, world.LARGE, initial_query="router") as (pilot, screen):
        await world.press(pilot, "p")
        cells, height = screen.hint.content_size.width, screen.hint.styles.max_height
        assert height is not None
        most = int(height.value) - screen.hint.styles.padding.top
    for name in PROFILES:
        for knob in KNOBS:
            said = texts(knobs.hint(knob, cells, profile(name))).splitlines()
            assert len(said) <= most, (name, knob, said)
