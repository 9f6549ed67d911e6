"""What the panes say, as lines of data."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import lab_world as world
import pytest

from openclaw_mem_engine.api import Expected, fate
from openclaw_mem_engine.model import ExcludedFile, Fallback, Freshness, Note
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_tui.features.providers import answer
from openclaw_mem_tui.features.search import state
from openclaw_mem_tui.features.search.lessons import lesson_lines
from openclaw_mem_tui.features.search.render import above, funnel, groups, hits, knobs, legend
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.features.search.state import COLUMNS
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
    assert ("score" in rows[0]) == (mode != "ranks") and "#" in rows[0]
    assert "note-1" in rows[1]


@pytest.mark.parametrize("width", [58, 70])
def test_parts_of_one_line_are_told_apart_by_how_they_begin(width: int) -> None:
    parts = ("alpha and so on", "beta and so on", "one line\nand another")
    view = world.view(texts=parts, paths=["memory/long.md"] * 3)
    rows = row_texts(view, width)[1:]
    assert sum("memory/long.md:10 alpha" in row for row in rows) == 1
    assert sum("memory/long.md:10 beta" in row for row in rows) == 1
    assert sum("memory/long.md:10-11  " in row for row in rows) == 1, "which no other chunk has"


def truncated(knobs: Knobs, **options: Any) -> state.View:
    """A view of results that are not sent whole."""
    few = {"snippet_chars": 40}
    return world.view(knobs.set(few), Knobs().set(few), texts=("the router\n" * 9,) * 3, **options)


def test_a_row_without_a_second_line_has_its_best_one_behind_a_short_location() -> None:
    texts_of = ("first of all\nthe router and its vlan, which is ten since May\nlast",) * 2
    paths = ("memory/2026-09-15.md", "memory/folder/with-a-name-that-needs-its-room.md")
    view = world.view(texts=texts_of, paths=paths, bm25=((0, 7.0), (1, 4.0)), vector=((1, 0.2), (0, 0.1)))
    assert view.trace is not None
    short, long = sorted((*view.trace.returned, *view.trace.unreturned), key=lambda row: row.chunk_id)
    plan, marker = hits.layout(view, "scores", 70), Marker.of(view.pool)
    drawn = hits.hit(view, short, plan, marker, False)
    said = spans.text_of(drawn)
    assert not plan.text and spans.width(drawn) == 69
    assert "memory/2026-09-15.md:10-12  the router" in said and "…" in said
    assert {span.role for span in drawn if span.text in ("the ", "router")} == {"dim", "dim match"}
    with_second = spans.text_of(hits.hit(view, short, plan, marker, False, whole=False))
    assert "router" not in with_second, "it is below"
    assert "router" not in spans.text_of(hits.hit(view, long, plan, marker, False)), "no room"
    for cells in range(30, 90):
        plan = hits.layout(view, "scores", cells)
        room = plan.path - len("memory/2026-09-15.md:10-12  ")
        shown = "router" in spans.text_of(hits.hit(view, short, plan, marker, False))
        assert shown == (room >= 14 or bool(plan.text)), cells


def test_columns_join_with_the_stages_that_ran() -> None:
    assert "decay" not in row_texts(world.view(), 100)[0]
    titles = row_texts(world.view(EVERYTHING, Knobs()), 100)[0]
    assert titles.split()[-7:] == ["vector", "BM25", "fused", "decay", "MMR", "↓", "score"]
    titles = row_texts(truncated(EVERYTHING), 100)[0]
    assert titles.split()[-3:] == ["↓", "sent", "score"], "where a result is not sent whole"
    view = truncated(EVERYTHING)
    assert view.trace is not None
    for cells in (100, 70):
        plan = hits.layout(view, "scores", cells)
        assert "sent" in [column.title for column in plan.numbers]
        assert legend.pairs(plan.numbers) == ["sent: whole lines sent / lines"]


def test_a_list_beside_panes_at_120_has_the_columns_of_one_alone_at_80() -> None:
    view = truncated(Knobs().set({"decay": True}), paths=("memory/runbooks/firmware-releas.md",) * 3)
    for mode in COLUMNS:
        beside, alone = (hits.layout(view, mode, cells).numbers for cells in (70, 79))
        last = ["score"] * (mode != "ranks")
        assert beside == alone and [column.title for column in alone][2:] == ["decay", "sent", *last]


def test_columns_are_shed_in_order() -> None:
    view = truncated(EVERYTHING)
    shed: list[str] = []
    for width in range(110, 20, -1):
        title = row_texts(view, width)[0]
        for word in ("sent", "decay", "MMR", "BM25", "move"):
            if word not in title and word not in shed:
                shed.append(word)
    assert shed == ["sent", "decay", "MMR", "BM25", "move"]


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
        "── not returned: 1 below rank 1 · d hide ──"
    )
    assert "not returned: 1 below min score .00 ─" in spans.text_of(groups.rule(low, False, 70))
    filtered = low._replace(rows=[], of=1)
    assert "not returned: 0 of 1 below min score .00 ─" in spans.text_of(groups.rule(filtered, False, 70))
    assert "not returned: 1 ─" in spans.text_of(groups.rule(low, False, 30))
    _, exact = groups.groups(world.view(Knobs().set({"min_score": 0.375})), True)
    assert exact.reasons[0] == ["1 below min score .375"], "whole, whatever its digits"
    rescued = world.view(bm25=((2, 7.0),), vector=((0, 0.3), (1, 0.2)))
    assert [row.split()[0] for row in row_texts(rescued, 80)[1:]] == ["1", "2", "3"]
    assert rescued.trace is not None
    scores = [row.final for row in rescued.trace.rows]
    assert scores != sorted(scores, key=float, reverse=True), "the rescued one is first, not the best score"  # type: ignore[arg-type]
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
    assert ranks[0].split()[-2:] == ["vector", "BM25"], "the last rank is in the first column"
    assert ranks[1].split()[-2:] == ["1", "2"]
    parts = row_texts(world.view(), 70, "contributions")
    assert parts[1].split()[-3:] == ["+.567", "+.100", ".667"]


def test_a_rescued_hit_is_marked() -> None:
    view = world.view(bm25=((0, 7.0),), vector=((1, 0.2), (2, 0.1)))
    assert " 1 * " in row_texts(view, 80)[1]
    assert view.trace is not None

    def title(cells: int) -> str:
        marks = legend.marks(view.trace)  # type: ignore[arg-type]
        return spans.text_of(hits.header(hits.layout(view, "scores", cells), marks))

    assert " chunk  * rescued " in title(80) and " chunk   " in title(40)
    plain = world.view().trace
    assert plain is not None and legend.marks(plain) == []


def test_deltas_tell_new_and_out() -> None:
    view = state.tuned(world.view(), Knobs().set({"mode": "bm25", "max_results": 1}))
    rows = row_texts(view, 80)
    assert "▲1" in rows[1] and any("out" in row for row in rows[2:])


def test_what_left_the_answer_is_first_among_the_dropped() -> None:
    texts_of = ("a", "b", "c")
    view = world.view(texts=texts_of, vector=((0, 0.9), (1, 0.8), (2, 0.7)), bm25=(), ages=(0, 0, 900))
    view = state.tuned(view, Knobs().set({"decay": True}))
    titles = [(group.title, [row.chunk_id for row in group.rows]) for group in groups.groups(view, True)]
    assert titles == [("", ["c0", "c1"]), ("only in the baseline", ["c2"])]
    assert [(group.title, group.hidden) for group in groups.groups(view, False)][1:] == [("not returned", 1)]


def test_long_paths_give_way_from_the_left_and_keep_the_range() -> None:
    view = world.view(paths=("memory/" + "deep/" * 30 + "note.md",) * 3)
    assert "note.md:10" in row_texts(view, 60)[1]


def test_a_path_is_whole_where_there_is_room_or_says_that_it_is_not() -> None:
    view = world.view(
        texts=("a\nb",) * 3, paths=("MEMORY.md", "memory/short.md", "memory/in/a/folder/long.md")
    )
    for width, longest in (
        (52, " …/in/a/folder/long.md:10-11 "),
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
    assert ranks["c1"].split()[-1] == "2" and ranks["c2"].split()[-2:] == ["3", "·"]
    assert "rank 2 of 2 keyword matches, past the first 1" in texts(waterfall(view, view.trace.rows[0], 60))
    titles = [(group.title, len(group.rows)) for group in groups.groups(view, True)]
    assert titles[-1] == ("outside the pool", 1)


# -- knobs ------------------------------------------------------------------------------------------------


def test_changed_knobs_are_bold_and_show_their_default() -> None:
    panel = [knobs.panel_row(EVERYTHING, Knobs(), name, 45, False) for name in state.KNOB_NAMES]
    row = panel[state.KNOB_NAMES.index("min_score")]
    assert ".30" in spans.text_of(row) and spans.text_of(row).rstrip().endswith(" was .35")
    assert any("strong" in span.role for span in row)
    for line in panel:
        assert spans.width(line) == 45


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
    first = status.soundness(view, Activity(phase="ready"), 35)[0]
    assert spans.text_of(first).rstrip() == " ! Two notes changed … ! show all", "no word is cut"


def test_a_fallback_is_said() -> None:
    made = replace(world.pool(), fallback=Fallback("openai", "401"))
    view = state.answered(state.asked(state.View(Knobs(), Knobs()), "router vlan"), made)
    drawn = texts(status.soundness(view, Activity(), 100))
    assert " ! 401 · BM25 only instead of openai · press\xa02\xa0for\xa0providers" in drawn


def test_status_gives_way_to_what_was_just_said() -> None:
    fresh = Freshness("fresh", 41, world.NOW)
    activity = Activity(
        phase="ready", said="wrote /home/someone/exports/" + "x" * 40 + ".json", freshness=fresh
    )
    line = status.status(world.view(), activity, 60)
    assert spans.width(line) == 60
    assert spans.text_of(line).rstrip() == " ● wrote /home/someone/exports/xxxxxxxxxxxxxxxx… ! show all"
    said = "F5 works only on 3 index: sync the index with the notes on disk"
    drawn = texts([status.status(world.view(), replace(activity, said=said), 55)])
    assert drawn.rstrip() == " ● F5 works only on 3 index: sync the … ! show all", "the subject first"
    assert f" i {said}" in texts(status.messages(world.view(), replace(activity, said=said), 99))


def test_the_status_leaves_out_the_steps_of_the_timings_first() -> None:
    view = world.view()
    assert view.pool is not None
    view = replace(view, pool=replace(view.pool, timings={"embed": 0.2, "lines": 0.3}))
    activity = Activity(phase="ready", freshness=Freshness("fresh", 1, 0.0), files=9, chunks=20)
    steps = [span.text.strip() for span in status.took(view) if span.role == "dim"]
    assert len(steps) > 1 and steps[-1] == "rank"
    for cells in range(40, 140):
        drawn = texts([status.status(view, activity, cells)])
        shown = [name for name in steps if f" {name} " in drawn]
        assert shown == (steps if shown else []) and "answered in " in drawn, "all, or their sum alone"
        assert drawn.count(" ms") == 1, "one unit"
        assert ("9 files" in drawn or not shown) and drawn.rpartition("fresh")[0].endswith(("  ", "· "))


def test_a_step_of_a_knob_says_how_long_the_ranking_took_and_not_the_search_before_it() -> None:
    view = world.view()
    assert view.pool is not None
    view = state.answered(view, replace(view.pool, timings={"vector": 254.0}))
    activity = Activity(phase="ready")
    assert "answered in" in texts([status.status(view, activity, 120)])
    tuned = state.tuned(view, view.knobs.set({"min_score": 0.0}))
    assert tuned.trace is not None and tuned.pool is not None and tuned.pool is view.pool
    drawn = texts([status.status(tuned, activity, 120)])
    assert f"ranked again in {fmt.milliseconds(tuned.trace.milliseconds)}" in drawn and "vector" not in drawn
    last = " ".join(texts(answer.last_query(tuned, 40, 60)).split())
    assert " to rank again" in last and "took 254" not in last
    found = state.answered(tuned, replace(tuned.pool, timings={"vector": 9.0}))
    assert "answered in" in texts([status.status(found, activity, 120)]), "a new search"


def test_the_sentence_leaves_out_whole_clauses_to_take_one_line() -> None:
    clauses = ["1 result", "#1: vector .403", "36 are below min score .35"]
    assert [texts(above._sentence(clauses, "", cells, 2)).strip() for cells in (80, 45)] == [
        "; ".join(clauses),
        "1 result; #1: vector .403 … ! show all",
    ]
    assert len(above._sentence(clauses, "", 30, 2)) == 2
    assert texts(above._sentence(clauses, "", 28, 1)).strip() == "1 result … ! show all"
    cut = [*clauses[:1], "5 truncated to 700 characters, 1 loses its best line"]
    said = "1 result; 5 truncated to 700 characters … ! show all"
    assert texts(above._sentence(cut, "", 55, 1)).strip() == said, "at a comma too"
    long = [
        "1 result",
        f"the result is truncated{' a lot' * 9}",
        "33 are below min score .35",
        "#1: vector .4",
    ]
    said = "1 result; 33 are below min score .35 … ! show all"
    assert texts(above._sentence(long, "", 60, 1)).strip() == said, "one that does not fit hides no other"
    assert "36 are below" in texts(above._sentence(clauses, "", 50, above._ALL)), "in full"


def test_an_expected_passage_that_does_not_fit_names_the_key_that_shows_all_of_it() -> None:
    passage = Expected("memory/note-2.md", 10)
    view = replace(world.view(), expected={passage: ""})
    assert view.trace is not None
    why = fmt.numbers(fate(view.trace, *passage).text)
    assert why in texts(above.above(view, 120)) and "! show all" not in texts(above.above(view, 120))
    assert texts(above.above(view, 60)).splitlines()[-1].rstrip().endswith("… ! show all")
    assert why in " ".join(texts(above.in_full(view, 60)).split())


def test_the_sign_is_the_state_whatever_was_said_last() -> None:
    said, sound = Activity(phase="ready", said="wrote x.json"), world.view()
    assert status.status(sound, said, 100)[0].role == "good"
    degraded = world.view(notes=(Note("embedding-failed", "BM25 only: 401", "warning"),))
    for now in said, replace(said, said=""):
        assert status.status(degraded, now, 100)[0].role == "warn"
    assert status.status(sound, replace(said, trouble="the index is damaged"), 100)[0].role == "warn"
    assert status.status(sound, replace(said, freshness=Freshness("stale", 1, 0.0)), 100)[0].role == "warn"
    broken = state.failed(sound, "the search failed")
    signs = [status.status(broken, now, 100)[0] for now in (said, replace(said, said=""))]
    assert [(sign.text.strip(), sign.role) for sign in signs] == [("!", "warn"), ("✗", "bad")]
    found = status.status(sound, replace(said, errors=1), 100)
    assert texts([found]).startswith(" ! wrote x.json"), "errors of the doctor are at the right"
    failed = status.status(sound, replace(said, said=spans.Failed(said.said)), 100)
    assert (failed[0].text.strip(), failed[0].role) == ("✗", "bad"), "a sync that failed"


@pytest.mark.parametrize("width", range(60, 160, 4))
def test_the_top_ends_with_what_is_known(width: int) -> None:
    for place in (Header("second", "/ws/notes"), Header("second", "/ws/notes", "builtin"), Header("second")):
        assert not spans.text_of(status.top(place, width)).rstrip().endswith("·")


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
            assert whole != texts(drawn).endswith("… ! show all")
            assert len(drawn) <= 3 or cells < 78, "two lines of text"
            cut += not whole
    assert cut


def test_what_keyword_rescue_would_add_is_said_where_little_is_returned() -> None:
    vector, bm25 = ((0, 0.9), (1, 0.8), (2, 0.1)), ((0, 7.0), (1, 6.0), (2, 5.0))
    for least, results in ((0.5, 2), (0.7, 1)):
        view = world.view(Knobs().set({"min_score": least}), vector=vector, bm25=bm25)
        assert view.trace is not None and len(view.trace.results) == results
        said = f"keyword rescue = fill would return {3 - results} more"
        assert (said in texts(above.numbers(view, 140))) == (results == 1)
        assert said in texts(above.in_full(view, 140))


def test_the_lines_above_the_hits_are_beside_labels_where_there_is_room() -> None:
    view = world.view(EVERYTHING, Knobs())
    drawn = [*above.above(view, 120), *above.numbers(view, 120), funnel.strip(EVERYTHING, Knobs(), 120)]
    starts = [spans.text_of(made)[:10] for made in drawn]
    assert [start.split() for start in starts if start.strip()] == [["answer"], ["stages"], ["profile"]]
    assert {spans.text_of(made)[10:11].isspace() for made in drawn} == {False}, "one column"
    narrow = texts([*above.above(view, 80), *above.numbers(view, 80)])
    assert "answer" not in narrow and "stages" not in narrow
    assert {spans.width(made) <= 80 for made in above.numbers(view, 80)} == {True}


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
    assert "…is-far-too-long.md:12      its detail" in spans.text_of(row), "the line of a path stays"
    _, (rows, _) = choice_rows(picked, "", 30, 1)
    assert "".join(map(spans.text_of, rows)).split()[-2:] == ["its", "detail"], "of a few rows nothing is cut"
    group = groups.Group("returned only by another backend", [])
    texts_of = [spans.text_of(groups.rule(group, True, cells)).rstrip() for cells in (46, 80)]
    assert "d hide" not in texts_of[0] and "…" not in texts_of[0] and "d hide ──" in texts_of[1]
    assert spans.Span("d", "key") in groups.rule(group, True, 80)


def test_the_lab_says_partial_as_the_command_line_does() -> None:
    fresh = Freshness("partial", 1, world.NOW, excluded=(ExcludedFile("memory/a.md", "is not text"),))
    said = spans.text_of(status.status(world.view(), Activity("ready", freshness=fresh), 120))
    assert said.endswith(" partial, 1 file excluded ")


def test_a_failure_that_the_last_sync_has_met_is_said_once() -> None:
    cause = "ollama embeddings failed: no answer. Start Ollama."
    trouble = f"The index was not rebuilt: {cause} It keeps its vectors of static as they are."
    notes = (
        Note("other-vectors", f"{cause} The index holds vectors of static.", "warning"),
        Note("other", "Something else is wrong.", "warning"),
    )
    view, activity = world.view(notes=notes), Activity(trouble=trouble)
    first, second = texts(status.soundness(view, activity, 60)).splitlines()
    assert first.startswith(" ! The index was not rebuilt: ollama") and first.rstrip().endswith(
        "… ! show all"
    )
    assert second.startswith(" ! Something else is wrong.")
    assert trouble in texts(status.messages(view, activity, 999))


def test_a_text_without_room_ends_with_a_whole_sentence_or_clause() -> None:
    damaged = spans.line(
        " ! The index is damaged. F repairs it. No note is touched. File: /long/path/index.sqlite"
    )
    said = " ! The index is damaged. F repairs it."
    assert spans.text_of(spans.cut(damaged, 74)) == f"{said} No note is touched. … ! show all"
    assert spans.text_of(spans.cut(damaged, 69)) == f"{said} … ! show all", "less room"
    late = spans.line(" ! Done. What follows is most of the text, and stays as far as there is room for it")
    assert spans.text_of(spans.cut(late, 60)).startswith(" ! Done. What follows is most of the text")
    hint = spans.line(" w says why a chunk is not returned, and what would return it.")
    for cells, shown in ((80, "return it."), (62, "return it."), (61, "not returned"), (35, "not returned")):
        assert spans.text_of(spans.clauses(hint, cells)).endswith(shown)
    assert spans.clauses(hint, 34) == ()
