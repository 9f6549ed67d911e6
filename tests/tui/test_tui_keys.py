"""Filters, the table of keys, the help, clicks, and steps of the knobs."""

from __future__ import annotations

import re
from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, lab, press, settled
from textual.events import Key
from textual.pilot import Pilot

from openclaw_mem_engine.api import Knobs
from openclaw_mem_tui import bindings
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.search.history import Steps, Tried
from openclaw_mem_tui.features.search.state import KNOB_NAMES, View
from openclaw_mem_tui.features.timeline.screen import TimelineScreen
from openclaw_mem_tui.user_keys import take_keys
from openclaw_mem_tui.widgets.dialogs import Choices, HelpText
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.help import HelpRow, HelpScreen
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.wrapped import WrappedTable

DRILL = "restore drill"


@pytest.fixture(autouse=True)
def _declared_keys() -> object:
    yield
    take_keys({})


async def test_hits_are_filtered_by_path_and_text_and_the_ranking_stays(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        hits = lab(app).hits
        ranked, trace = list(hits.rows), lab(app).search.view.trace
        await press(pilot, "G", "n")
        assert hits.cursor == 0, "without a filter it is the next row, and after the last the first"
        await press(pilot, "n", "N", "n")
        assert hits.cursor == 1
        chosen = hits.selected
        assert chosen is not None
        await press(pilot, "f", *Path(chosen.path).stem)
        line = app.screen.query_one(FilterLine)
        assert line.has_focus and line.region.height == 1
        assert "show all rows" in app.screen.query_one(KeyBar).text
        shown = list(hits.rows)
        assert 0 < len(shown) < len(ranked) and shown == [row for row in ranked if row in shown]
        assert hits.selected is chosen, "it stays where it can"
        assert f"{len(hits.rows)} of {len(ranked)} rows, ranks unchanged" in frame(hits)
        assert lab(app).search.view.trace is trace, "nothing is searched or ranked"
        await press(pilot, "enter")
        assert hits.has_focus and not line.region.height
        await press(pilot, "escape")
        assert list(hits.rows) == ranked and hits.selected is chosen and "filter" not in frame(hits)
        await press(pilot, "g", "g", "n")
        assert Path(chosen.path).stem in (hits.selected or ranked[0]).path, (
            "n goes to a match of the last filter"
        )
        at = hits.cursor
        await press(pilot, "n", "N")
        assert hits.cursor == at

        said = lab(app).status_line
        await press(pilot, "f", *"zzz", "enter", "n")
        assert not hits.rows and f"0 of {len(ranked)} rows" in frame(hits)
        assert "no row has zzz" in said.text
        await press(pilot, "exclamation_mark")
        assert "no row has zzz" in app.screen.query_one(HelpText).text, "shown in full, it stays"
        await press(pilot, "escape")
        assert "no row has zzz" in said.text
        await press(pilot, "f", *"drill")
        assert hits.rows and "no row has" not in said.text, "it lasts until the next action"
        await press(pilot, "enter", "n", "escape", "y")
        assert "sent to the terminal's clipboard" in said.text
        await pilot.click(hits, offset=(20, hits.fixed + hits.gutter.top + 9))
        await settled(pilot)
        assert hits.cursor and "clipboard" not in said.text, "a click moves the cursor too"
        assert list(hits.rows) == ranked

        by_text = next(row for row in ranked if "drill" not in row.path)
        await press(pilot, "f", *"drill", "enter")
        assert by_text.chunk_id in {row.chunk_id for row in hits.rows}, "by the text of a chunk too"
        assert " of " in hits.text.partition("not returned")[2].splitlines()[0], "the rule counts both"
        await press(pilot, "slash")
        assert lab(app).query_line.has_focus, "filtered or not, / edits the query"


@pytest.mark.parametrize("size", [SMALL, (60, 20), (200, 50)])
async def test_every_list_is_filtered_in_the_same_way(tmp_path: Path, size: tuple[int, int]) -> None:
    app = world.workbench(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "3")
        screen = app.screen
        assert isinstance(screen, IndexScreen)
        every = screen.files.counted[1]
        await press(pilot, "slash", *"RUNBOOKS", "enter")
        assert 0 < screen.files.counted[0] < every and screen.files.has_focus
        assert screen.files.selected is not None and "runbooks" in screen.files.selected.path
        assert f"filter runbooks · {screen.files.counted[0]} of {every}" in frame(screen.query_one("#files"))
        opened, syncs = screen.files.selected, len(screen.presenter.state.events)
        await pilot.press("f", *"run")
        await settled(pilot)
        assert screen.files.wanted == "run", "letters, no keys"
        assert len(screen.presenter.state.events) == syncs
        await press(pilot, "enter", "enter")
        assert isinstance(app.screen, ChunksScreen) and opened and app.screen.path == opened.path
        pieces, anatomy = app.screen.pieces, app.screen.anatomy
        assert anatomy is not None
        word = next(word for line in anatomy.lines for word in line.text.split() if word.isalpha())
        await press(pilot, "f", *word, "enter")
        assert 0 < pieces.counted[0] <= pieces.counted[1] and pieces.selected is not None
        await press(pilot, "escape", "escape")
        await press(pilot, "tab")
        if app.screen is screen:
            await press(pilot, "f", *"without", "enter")
            assert screen.doctor.counted[0] == 1 and "checks without findings" in screen.doctor.text
        await press(pilot, "escape", "tab", "f", *"nothing-like-it", "enter")
        assert screen.events.counted[0] == 0 < screen.events.counted[1]
        await press(pilot, "escape")
        assert screen.events.counted[0] == screen.events.counted[1] and app.screen is screen
        await press(pilot, "tab", "escape", "escape")
        assert app.screen is lab(app), "first the filter, then the screen"

        await press(pilot, "4")
        timeline = app.screen
        assert isinstance(timeline, TimelineScreen)
        await press(pilot, "f", *"missed", "enter")
        assert all(moment.is_missed for moment in [timeline.events.selected] if moment is not None)
        assert 0 < timeline.events.counted[0] < timeline.events.counted[1]


async def test_few_rows_go_to_the_list_and_many_columns_to_the_text(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=world.make.demo_guide())
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        hits = lab(app).hits
        lesson = lab(app).lesson
        assert hits.size.height >= 5 and lesson.region.height == 1
        assert "Decay hides an old note" in lesson.text and "1/15 · now: decay on" in lesson.text
        await press(pilot, "exclamation_mark")
        drawn = " ".join(app.screen.query_one(HelpText).text.split())
        assert world.make.demo_guide()[0].lesson in drawn
        await press(pilot, "escape")
        await pilot.resize_terminal(200, 50)
        await settled(pilot)
        assert "best line" in hits.text.splitlines()[0] and lesson.region.height > 1
        assert "! text" not in lesson.text and "] next lesson" in lab(app).query_one(KeyBar).text
        await press(pilot, "left_square_bracket")
        assert "lesson 15 of 15 · " in lesson.text and "]" not in lesson.text
        assert "] first lesson" in lab(app).query_one(KeyBar).text, "each key once"
        await press(pilot, "right_square_bracket")
        assert "lesson 1 of 15 · " in lesson.text and "] next lesson" in lab(app).query_one(KeyBar).text
        await press(pilot, "question_mark", "f")
        assert app.screen.query_one(FilterLine).region.height == 1
        await pilot.resize_terminal(60, 20)
        await settled(pilot)
        rows = app.screen.query_one("#help-rows")
        assert app.screen.query_one(FilterLine).region.height == 1 and rows.region.bottom < 20
        await press(pilot, "enter", "G")
        assert rows.max_scroll_y == rows.scroll_offset.y > 0


async def test_the_help_is_filtered_and_runs_what_it_lists(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "question_mark", "f", *"pin run", "enter")
        assert isinstance(app.screen, HelpScreen)
        assert "1 of " in str(app.screen._box.border_subtitle)
        await press(pilot, "enter")
        assert app.screen is lab(app) and lab(app).search.view.pin is not None
        await press(pilot, "question_mark", "slash", *"last row", "enter", "enter")
        assert lab(app).hits.cursor == len(lab(app).hits.rows) - 1, "of the list, not of the help"
        await press(pilot, "question_mark", "f", *"f", "enter")
        first = app.screen.query_one("#help-rows", WrappedTable).selected
        assert first is not None and first.action == "filter", "the row of this key"
        await press(pilot, "escape", "f", *"x", "escape", "escape")
        assert app.screen is lab(app)


async def test_the_help_has_the_own_keys_first_and_what_to_read_beside_or_before_the_motions(
    tmp_path: Path,
) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "3", "question_mark")
        rows, legend = app.screen.query_one("#help-rows", WrappedTable), app.screen.query_one("#help-legend")
        groups = list(dict.fromkeys(row.group for row in rows._all))
        assert groups[0] == "Index" and groups[-1] == "Lists" and "Legend" not in groups
        assert sum("Index" in line for line in rows.text.splitlines() if "enter" in line) == 1
        assert "j, k, ↓, ↑" in rows.text and legend.region.x >= rows.region.right
        await press(pilot, "f", *"index", "enter")
        assert {row.group for row in rows._items} >= {"Index"} and rows.counted[0] > 8, "a group by its name"
        await press(pilot, "escape")
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        groups = list(dict.fromkeys(row.group for row in rows._all))
        assert groups[0] == "Index" and groups[-1] == "Lists" and not legend.display
        assert groups.index("Legend") == len(groups) - 2


async def _shows_the_end_of_the_help(pilot: Pilot[int]) -> WrappedTable[HelpRow]:
    """Open the help, go to its last row, close it."""
    await press(pilot, "question_mark")  # and it is painted, with the scroll bar
    await press(pilot, "G")
    screen, rows = pilot.app.screen, pilot.app.screen.query_one("#help-rows", WrappedTable)
    seen = rows.scroll_offset.y + rows.size.height
    assert seen >= len(rows.drawn) and screen.query_one(".box").content_region.contains_region(rows.region)
    assert rows.selected is not None and rows.selected.group == "Lists"
    await press(pilot, "escape")
    return rows


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_the_tabs_show_the_screens_and_the_key_bar_ends_alike_on_all(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        for name in (*bindings.TABS[1:], "search"):
            tab = bindings.action(f"show_{name}")
            top = app.screen.query_one("#top", Pane)
            at = top.text.index(f" {tab.key} {tab.footer} ") + 1
            await pilot.click(top, offset=(at, 0))
            await settled(pilot)
            lit = [span for line in app.screen.query_one("#top", Pane).drawn for span in line]
            shown = [span.text.strip() for span in lit if span.action and "strong" in span.role]
            assert name == app.screen.WHERE and shown == [f"{tab.key} {tab.footer}"]  # type: ignore[attr-defined]
            keys = app.screen.query_one(KeyBar).text.rstrip()
            assert keys.endswith("? help   q quit") and not any(f" {n} " in f" {keys} " for n in "12345")
            assert ("esc back" in keys) == (name != "search")
            await _shows_the_end_of_the_help(pilot)
        await press(pilot, "p")
        rows = await _shows_the_end_of_the_help(pilot)
        assert [row.action for row in rows._all[:2]] == ["less", "much_less"], "of what has the focus"
        assert rows._all[2].action == "reset_knob" and rows._all[0].group == "Knobs"
        await press(pilot, "p", "w")
        top = app.screen.query_one("#top", Pane)
        keys = app.screen.query_one(KeyBar).text.rstrip()
        assert top.text.index("5 curate │ why not") and keys.endswith("esc back   ? help   ctrl+q quit")
        at = app.screen.query_one(KeyBar).text.index("esc back")
        await pilot.click(app.screen.query_one(KeyBar), offset=(at + 5, 0))
        await settled(pilot)
        assert app.screen is lab(app)


async def test_keys_and_chips_are_clicked_and_steps_of_knobs_go_back(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)

        def view() -> View:
            return screen.search.view

        at = screen.strip.text.index("min ")
        await pilot.click(screen.strip, offset=(at + 1, 0))
        await settled(pilot)
        assert screen.knobs_open and screen.knob_panel.name_at_cursor == "min_score"
        before = view().knobs
        await press(pilot, "right", "escape")
        after = view().knobs
        assert after.min_score > before.min_score
        await press(pilot, "z")
        assert (
            view().knobs == before and "undo: back to min score .35; Z redoes it" in screen.status_line.text
        )
        await press(pilot, "z")
        assert "nothing more to undo; Z redoes the last step" in screen.status_line.text
        await press(pilot, "Z")
        assert view().knobs == after
        at = screen.strip.text.index("U reset")
        await pilot.click(screen.strip, offset=(at, 0))
        await settled(pilot)
        assert view().knobs == before, "a key in a text is pressed by a click"
        await press(pilot, "U")
        assert "no knob differs" in screen.status_line.text
        await press(pilot, "z")
        assert view().knobs == after

        await press(pilot, "p")
        panel, low = screen.knob_panel, view().knobs.min_score
        screen.hits.focus()
        await settled(pilot)
        for sign, moved in (("▸", True), ("◂", False)):
            row = panel.painted(panel.cursor).text
            await pilot.click(panel, offset=(row.index(sign), panel.cursor - panel.scroll_offset.y))
            await settled(pilot)
            assert (view().knobs.min_score > low) == moved and panel.has_focus, sign
        await press(pilot, "escape")

        mode, frame_of = screen.hits.mode, screen.hits.region
        await pilot.click(offset=(frame_of.right - 6, frame_of.bottom - 1))
        await settled(pilot)
        assert screen.hits.mode != mode, "the hint on the frame"


async def test_what_a_key_does_is_clicked_as_the_key_is(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        hits = screen.hits
        for word in ("d hide", "hide", "d shows them", "shows them"):
            hidden = not hits.dropped
            rule = next(at for at, text in enumerate(hits.text.split("\n")) if word in text)
            column = hits.text.split("\n")[rule].index(word) + hits.gutter.left
            await pilot.click(hits, offset=(column, rule + hits.gutter.top - hits.scroll_offset.y))
            await settled(pilot)
            assert hits.dropped is hidden, word
            await press(pilot, *(["d"] if word.startswith("d ") else []))
        before = screen.search.view.knobs
        await press(pilot, "s")
        at = screen.strip.text.index("reset all")
        await pilot.click(screen.strip, offset=(at + 7, 0))
        await settled(pilot)
        assert screen.search.view.knobs == before
        said = screen.status_line.text
        await pilot.click(screen.strip, offset=(screen.strip.text.index("│") + 1, 0))
        await settled(pilot)
        assert screen.status_line.text == said, "a separator does nothing"


async def test_an_export_of_no_changed_knob_writes_nothing(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "x", "c")
        assert "every knob has the default of its profile" in lab(app).status_line.text
        assert not list(tmp_path.rglob("exports/*")) and not app.clipboard
        await press(pilot, "s", "x", "c")
        (written,) = tmp_path.rglob("exports/*")
        assert "mode" in app.clipboard and written.read_text() == app.clipboard


async def test_knobs_are_filtered_and_found_in_the_palette(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen, panel = lab(app), lab(app).knob_panel
        every, hits = len(KNOB_NAMES), len(lab(app).hits.rows)
        await press(pilot, "p", "f", *"half", "enter")
        assert panel.has_focus and panel.text.count("half life days") == 1
        assert panel.counted == (1, every) and len(screen.hits.rows) == hits, "the list that has the focus"
        assert f"filter half · 1 of {every}" in frame(screen.query_one("#knob-box"))
        assert "esc clear" in screen.query_one(KeyBar).text
        assert "half life days" in screen.hint.text
        await press(pilot, "right")
        assert "half_life_days" in screen.search.view.changed_knobs(), "the one that is left"
        await press(pilot, "f", *"zzz", "enter", "right", "u")
        assert panel.name_at_cursor == "" == screen.hint.text and screen.knobs_open
        await press(pilot, "escape")
        assert panel.counted == (every, every) and screen.knobs_open, "first the filter, then the panel"
        await press(pilot, "f", *"mmr_lambda", "enter", "escape", "home", "n")
        assert panel.name_at_cursor == "mmr_lambda", "the name as settings have it"
        await press(pilot, "f", *"mmr", "enter", "escape")
        assert panel.name_at_cursor == "mmr" and "esc close" in screen.query_one(KeyBar).text
        await press(pilot, "n", "n", "N")
        assert panel.name_at_cursor == "mmr_lambda", "n goes to the next of them"
        await press(pilot, "f", *"fusion", "enter", "escape")
        assert panel.name_at_cursor == "fusion", "not a knob before it, of which the help has the word"
        await press(pilot, "f", *"decay", "enter", "p")
        assert not screen.knobs_open and screen.hits.has_focus
        await press(pilot, "f", *"drill", "enter")
        assert len(screen.hits.rows) < hits and panel.counted == (every, every)
        await press(pilot, "escape", "colon", *"rebuild")
        assert "no action of this name on this screen" in app.screen.query_one(Choices).text
        await press(pilot, "escape", "colon", *"min_score", "enter")
        assert screen.knobs_open and panel.has_focus and panel.name_at_cursor == "min_score"
        titles = [choice.title for choice in app.commands(screen)]
        assert sum(title.startswith("Knob ") for title in titles) == every


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_the_panel_names_the_keys_that_work_on_its_knobs(tmp_path: Path, size: tuple[int, int]) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        screen, panel, bar = lab(app), lab(app).knob_panel, lab(app).query_one(KeyBar)
        box = screen.query_one("#knob-box")
        await press(pilot, "p")
        assert "esc close" in bar.text and not any(word in bar.text for word in ("undo", "redo", "reset all"))
        assert "A keep" not in bar.text, "the demo has its own settings"
        await press(pilot, "right")
        assert "z undo" in bar.text
        await press(pilot, "right", "z")
        if size == LARGE:
            assert "U reset all   z undo   Z redo │ f filter" in bar.text and "esc close" in bar.text
        assert "p close" in frame(box)
        screen.hits.focus()
        await settled(pilot)
        assert "p go here" in frame(box)
        await press(pilot, "p")
        assert screen.knobs_open and panel.has_focus, "p goes to the panel that is open"
        await press(pilot, "p")
        assert not screen.knobs_open and screen.hits.has_focus


async def test_tab_goes_to_a_waterfall_with_more_rows_than_fit(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        assert screen.waterfall.max_scroll_y == 0
        await press(pilot, "tab")
        assert screen.preview.has_focus, "there is nothing to scroll in the waterfall"
        await press(pilot, "tab")
        await pilot.resize_terminal(120, 20)
        await settled(pilot)
        assert screen.waterfall.max_scroll_y > 0 and "tab to it" in frame(screen.waterfall)
        await press(pilot, "tab")
        assert screen.waterfall.has_focus and "J K scroll" in frame(screen.waterfall)
        await press(pilot, "G", "K", "J", "J")
        assert screen.waterfall.scroll_y == screen.waterfall.max_scroll_y
        await press(pilot, "tab")
        assert screen.preview.has_focus and "J K" not in frame(screen.waterfall)


async def test_tab_moves_among_the_panes_that_take_keys_and_not_to_the_query(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        await press(pilot, "p", "tab")
        assert screen.knobs_open and screen.hits.has_focus
        await press(pilot, "tab")
        assert screen.knob_panel.has_focus
        await press(pilot, "shift+tab", "shift+tab", "escape", "shift+tab", "g")
        assert screen.preview.max_scroll_y > 0
        cursor, top = screen.hits.cursor, screen.preview.scroll_offset.y
        assert screen.preview.has_focus and top == 0
        await press(pilot, "j", "j", "k")
        assert screen.preview.scroll_offset.y == 1 and screen.hits.cursor == cursor
        await press(pilot, "G")
        assert screen.preview.scroll_offset.y == screen.preview.max_scroll_y
        await press(pilot, "ctrl+u")
        assert 0 < screen.preview.scroll_offset.y < screen.preview.max_scroll_y
        await press(pilot, "n")
        assert screen.hits.cursor == cursor + 1, "keys of the screen are the same"
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        assert screen.hits.has_focus, "a pane that is not shown has no keys"
        await press(pilot, "slash", "tab")
        assert screen.hits.has_focus
        await press(pilot, "tab", "j")
        assert screen.preview.is_on_screen and screen.hits.has_focus and screen.hits.cursor == cursor + 2
        assert screen.search.view.query == DRILL
        await pilot.resize_terminal(*LARGE)
        await press(pilot, "0", "escape", "shift+tab")
        assert (
            screen.hits.has_focus and "keys move in the chunks alone; p opens" in screen.search.activity.said
        )


def test_a_key_means_the_same_on_every_screen() -> None:
    """What shares a key is one thing to do; copying shares none with what changes the index."""
    shared = {
        "/": {"focus_query", "find"},
        "S": {"session", "this_session"},
        "e": {"edit", "edit_proposal"},
        "esc": {"cancel", "leave"},
        "tab": {"next_list", "next_pane"},
        "shift+tab": {"previous_list", "previous_pane"},
        "v": {"columns", "order", "kinds", "which"},
        "w": {"why_not", "close_why_not"},
        "W": {"why_not_any", "pick_passage"},
        "space": {"swap", "toggle_fault"},
        "enter": {"apply_change", "get", "compare", "chunks", "close_chunks", "open_moment", "open_note"},
        "x": {"export", "export_change"},
        "q": {"quit", "leave_view"},
        "z": {"undo_knob", "undo_note"},
        "U": {"reset_all", "clear_faults"},
        "r": {"probe", "sync_now", "read_timeline", "read_notes", "sync"},
    }
    found: dict[str, set[str]] = {}
    for action in bindings.ACTIONS:
        for sign in action.shown.split():
            found.setdefault(sign, set()).add(action.id)
    del found["←"], found["→"], found["shift+←"], found["shift+→"]  # both signs of one row
    assert {sign: ids for sign, ids in found.items() if len(ids) > 1} == shared
    assert found["y"] == {"copy_location"} and found["Y"] == {"copy_snippet"} and found["R"] == {"rebuild"}


async def test_a_key_without_a_meaning_here_says_what_it_does_elsewhere(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        line = lab(app).status_line
        for key, said in (
            ("c", " c does nothing here; on 3 index: run checks "),
            ("P", " P does nothing here; on 3 index: remove deleted notes from the index "),
            ("right_square_bracket", " ] does nothing here; ? lists the keys "),  # no lessons
            ("h", " h does nothing here; in the knob panel (p on 1 lab): change the selected knob by "),
            ("right", " right does nothing here; in the knob panel (p on 1 lab): a small step up "),
        ):
            await press(pilot, key)
            assert said in line.text, key
        await press(pilot, "p", "h")
        assert "does nothing" not in line.text and lab(app).search.view.changed_knobs(), "now it does"
        await press(pilot, "4", "b")
        status = app.screen.query_one("#status", Pane)
        assert "b does nothing here; on 1 lab: pin this run as the baseline" in status.text
        await press(pilot, "ctrl+r")
        assert "ctrl+r does nothing here; on 1 lab: search the query history" in status.text
        await press(pilot, "f5")
        assert "ctrl+r" in status.text, "no key of ours"
        await press(pilot, "space")
        assert "space does nothing here; on 1 lab: swap the shown run and its baseline" in status.text
        await press(pilot, "slash", *"bcX")
        assert "does nothing" not in app.screen.query_one("#status", Pane).text, "letters, no keys"


async def test_q_leaves_a_view_and_quits_on_the_main_screens(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "w", "q")
        assert app.is_running and app.screen is lab(app)
        await press(pilot, "3", "enter")
        assert isinstance(app.screen, ChunksScreen)
        await press(pilot, "question_mark")
        (page,) = app.screen.query(".box").results()
        assert page.region == app.screen_stack[-2].region, "a page: no edge of the screen below is left"
        await press(pilot, "q", "q")
        assert isinstance(app.screen, IndexScreen) and app.return_code is None
        await press(pilot, "slash", *"md", "enter")
        bar = app.screen.query_one(KeyBar)
        assert "esc clear" in bar.text and "q quit" not in bar.text and bar.text.count("clear") == 1
        await press(pilot, "q")
        assert not app.screen.files.wanted and "q quit" in app.screen.query_one(KeyBar).text
        await press(pilot, "escape")
        screen = lab(app)
        bar, opened = screen.query_one(KeyBar), len(screen.hits.rows)
        assert "q quit" in bar.text
        await press(pilot, "enter")
        assert screen.preview.kind == "get" and "q close" in bar.text
        await press(pilot, "q")
        assert screen.preview.kind == "snippet" and "q quit" in bar.text
        await press(pilot, "f", *"drill", "enter")
        assert len(screen.hits.rows) < opened and "q clear" in bar.text
        await press(pilot, "p", "q")
        assert not screen.knobs_open and "q clear" in bar.text, "the filter is still open"
        await press(pilot, "q")
        assert len(screen.hits.rows) == opened and "q quit" in bar.text
        await press(pilot, "q")
        assert app.return_code == 0


def test_steps_are_undone_and_redone_in_order() -> None:
    knobs = (Knobs().set({"max_results": number}) for number in (1, 2, 3))
    one, two, three = (Tried(each, frozenset()) for each in knobs)
    steps = Steps(limit=2)
    assert steps.undo(one) is None
    steps.made(one)
    steps.made(two)
    assert steps.undo(three) == two and steps.undo(two) == one and steps.undo(one) is None
    assert steps.redo(one) == two
    steps.made(two)
    assert steps.redo(three) is None, "a step of one's own ends it"
    steps.made(three)
    steps.made(one)
    assert len(steps.done) == 2


def test_of_steps_before_other_knobs_those_of_faults_stay() -> None:
    one, two, other = (Knobs().set({"max_results": number}) for number in (1, 2, 3))
    fault = frozenset({"no-fts5"})
    steps = Steps()
    for before in (Tried(one, frozenset()), Tried(two, frozenset()), Tried(two, fault)):
        steps.made(before)
    now = Tried(other, fault)
    steps.forget_knobs(now)
    assert steps.undo(now) == Tried(other, frozenset()) and steps.undo(Tried(other, frozenset())) is None
    assert steps.redo(now) is None and not steps.undone, "one that changes nothing is skipped"


async def test_what_is_returned_shows_its_best_line_below_it_where_there_is_room(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        hits = lab(app).hits
        lines = hits.text.splitlines()
        assert "restore-drill.md" in lines[1] and "restore" in lines[2].lower() and ".md" not in lines[2]
        await press(pilot, "j", "j")
        assert hits.selected is hits.rows[2], "a step is a row, of one line or two"
        rows = len(hits.rows)
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        assert len(hits.rows) == rows and hits.selected is hits.rows[2]
        one_line_each = hits.text.splitlines()[1:]
        assert all(".md" in line or (line[:3], line[3].isalpha()) == ("   ", True) for line in one_line_each)


async def test_ctrl_c_ends_nothing_and_says_what_quits(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        await press(pilot, "ctrl+c")
        assert "ctrl+q quits; ctrl+c copies selected text" in lab(app).status_line.text
        await press(pilot, "3", "ctrl+c")
        assert "ctrl+q quits" in app.screen.query_one("#status", Pane).text
        await press(pilot, "ctrl+z")
        assert "not suspended: no shell" in app.screen.query_one("#status", Pane).text
        assert app.is_running and not list(app._notifications)


async def test_a_key_that_has_nothing_to_act_on_or_changes_nothing_says_so(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, demo=world.make.demo_guide())
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        await press(pilot, "0")
        assert lab(app).query_line.has_focus, "the next query is typed at once"
        await press(pilot, "escape")
        for offered, said in (("v d t", "there is no answer yet"), ("m y Y enter", "no hit is selected")):
            for key in offered.split():
                await press(pilot, "J", key)
                assert said in lab(app).status_line.text, key
        for keys, words in (
            (("3", "c"), r"checked: \d warnings?"),
            (("C",), r"deep check: \d warnings?"),
            (("4", "r"), r"read again: \d+ events"),
            (("5", "r"), r"read again: \d+ notes, \d proposals? shown"),
            (("E",), "measured again"),
        ):
            await press(pilot, *keys)
            assert re.search(words, app.screen.query_one("#status", Pane).text), keys


async def test_keys_in_one_burst_go_to_the_screen_that_each_leads_to(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "3")
        index = app.screen
        assert isinstance(index, IndexScreen)
        for key in ("1", "/", *"nas"):
            app.post_message(Key(key if key != "/" else "slash", key))
        await settled(pilot)
        assert lab(app).query_line.value == "nas" and app.screen is lab(app)
        assert index.files.wanted == ""
        await press(pilot, "3")
        assert lab(app).query_line.value == "nas3", "a digit is text in the query line"
        await press(pilot, "escape", "3")
        for key in ("j", "enter", "/", *"nas"):
            app.post_message(Key(key if key != "/" else "slash", key if key != "enter" else None))
        await settled(pilot)
        assert isinstance(app.screen, ChunksScreen) and app.screen.current_list is not None
        assert app.screen.current_list.wanted == "nas" and index.files.wanted == ""
        assert index.files.cursor == 1, "the row below, whose chunks are opened"
