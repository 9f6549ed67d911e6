"""The table of keys, the key bar, and where each key goes."""

from __future__ import annotations

import re
from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, lab, press, settled
from textual.pilot import Pilot

from openclaw_mem_tui import bindings
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.user_keys import take_keys
from openclaw_mem_tui.widgets.dialogs import HelpText
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.help import HelpRow
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.wrapped import WrappedTable

DRILL = "restore drill"


@pytest.fixture(autouse=True)
def _declared_keys() -> object:
    yield
    take_keys({})


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
        assert top.text.index("5 curate │ why not") and keys.endswith("esc back   ? help")
        at = app.screen.query_one(KeyBar).text.index("esc back")
        await pilot.click(app.screen.query_one(KeyBar), offset=(at + 5, 0))
        await settled(pilot)
        assert app.screen is lab(app)


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_the_panel_names_the_keys_that_work_on_its_knobs(tmp_path: Path, size: tuple[int, int]) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        screen, panel, bar = lab(app), lab(app).knob_panel, lab(app).query_one(KeyBar)
        box = screen.query_one("#knob-box")
        await press(pilot, "p")
        assert "esc close" in bar.text and not any(word in bar.text for word in ("undo", "redo", "reset all"))
        assert "A apply" not in bar.text, "the demo has its own settings"
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
        "/": {"focus_query", "find", "new_query"},
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
            ("c", " c works only on 3 index: run checks "),
            ("P", " P works only on 3 index: remove deleted notes from the index "),
            ("right_square_bracket", " ] does nothing here; ? lists the keys "),  # no lessons
            ("h", " h works only in the knob panel (p on 1 lab): a small step down "),
            ("H", " H works only in the knob panel (p on 1 lab): a large step down "),
            ("right", " → works only in the knob panel (p on 1 lab): a small step up "),
        ):
            await press(pilot, key)
            assert said in line.text, key
        await press(pilot, "p", "h")
        assert "does nothing" not in line.text and lab(app).search.view.changed_knobs(), "now it does"
        await press(pilot, "4", "b")
        status = app.screen.query_one("#status", Pane)
        assert "b works only on 1 lab: pin this run as the baseline" in status.text
        await press(pilot, "ctrl+r")
        assert "ctrl+r works only on 1 lab: search the query history" in status.text
        await press(pilot, "f5")
        assert "ctrl+r" in status.text, "no key of ours"
        await press(pilot, "space")
        assert "space does nothing here; on 1 lab: swap the shown run and its baseline" in status.text
        await press(pilot, "slash", *"bcX")
        assert "does nothing" not in app.screen.query_one("#status", Pane).text, "letters, no keys"


async def test_a_key_leads_from_the_results_to_what_is_not_returned(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        trace = screen.search.view.trace
        assert trace is not None and trace.unreturned
        await press(pilot, "w")
        assert (
            "in the chunks, } goes to those that are not"
            in app.screen.query_one("#changes", WrappedTable).text
        )
        await press(pilot, "escape", "right_curly_bracket")
        assert screen.hits.selected is trace.unreturned[0]
        await press(pilot, "j", "left_curly_bracket")
        assert screen.hits.selected is trace.unreturned[0], "as { in vi: the begin of this group first"
        await press(pilot, "left_curly_bracket")
        assert screen.hits.cursor == 0
        await press(pilot, "left_curly_bracket")
        assert "no group of chunks is above this one" in screen.status_line.text
        await press(pilot, "d", "right_curly_bracket")
        assert "; d shows what is not returned" in screen.status_line.text


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
        for offered, said in (("v d t", "there is no answer yet"), ("m y Y", "no chunk is selected")):
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


def test_a_sign_is_named_as_it_is_typed_and_no_list_is_cut_to_its_first_word() -> None:
    def said(key: str) -> str:
        return bindings.unused(key, {"index"}, lambda _: None)

    assert said("minus").startswith("- does nothing here; ")
    assert said("x") == "x does nothing here; on 1 lab: export"
