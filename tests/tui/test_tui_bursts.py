"""Keys that reach the workbench in one burst, as a slow connection or a macro sends them."""

from __future__ import annotations

from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, lab, press, settled
from textual._xterm_parser import XTermParser
from textual.events import Key
from textual.widgets import Input

from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.widgets.filter_line import FilterLine

DRILL = "restore drill"


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
        assert isinstance(app.screen, ChunksScreen) and index.files.wanted == ""
        assert app.screen.pieces.wanted == "nas" and isinstance(app.focused, FilterLine), "still typed in"
        assert index.files.cursor == 1, "the row below, whose chunks are opened"


async def test_a_key_that_does_nothing_goes_to_nothing_that_a_later_key_opens(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        for keys, opened in (("hp", "p"), ("l?", "?")):
            for key in keys:
                app.post_message(Key("question_mark" if key == "?" else key, key))
            await settled(pilot)
            assert not lab(app).search.view.changed_knobs(), keys
            assert lab(app).knobs_open if opened == "p" else app.screen is not lab(app)
            await press(pilot, opened if opened == "p" else "escape")
            assert app.screen is lab(app)


@pytest.mark.parametrize("opens", ["slash", "f", "W", "M"])
async def test_text_and_editing_keys_in_one_burst_are_done_in_their_order(tmp_path: Path, opens: str) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, opens)
        for key in ("a", "b", "backspace", "c", "left", "d", "home", "x", "end", "y"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await settled(pilot)
        assert isinstance(app.focused, Input) and app.focused.value == "xadcy"
        await press(pilot, "escape")


def test_a_key_right_behind_escape_is_not_taken_for_another() -> None:
    for bytes_read, key in (
        ("\r", "enter"),
        ("\t", "tab"),
        ("\x04", "ctrl+d"),
        ("\x12", "ctrl+r"),
        (":", "colon"),
        ("?", "question_mark"),
        ("/", "slash"),
    ):
        read = [event.key for event in XTermParser().feed(f"\x1b{bytes_read}") if isinstance(event, Key)]
        assert read == ["escape", key]
    assert [event.key for event in XTermParser().feed("\x1b[A") if isinstance(event, Key)] == ["up"]


async def test_a_key_that_a_closed_line_had_holds_no_other_for_long(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        app._goes_away(Key("left", None))  # it never comes back
        app.post_message(Key("3", "3"))
        while not isinstance(app.screen, IndexScreen):
            await pilot.pause()


async def test_keys_behind_the_one_that_opens_the_knobs_are_theirs(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        for key in "pjl":
            app.post_message(Key(key, key))
        await settled(pilot)
        assert len(lab(app).search.view.changed_knobs()) == 1 and lab(app).hits.cursor == 0


async def test_steps_of_a_knob_and_their_undo_in_one_burst_are_done_in_their_order(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "p")
        before = lab(app).search.view.knobs
        for keys, steps in (("lllzz", 1), ("z", 0), ("lllzzz", 0), ("lz", 0)):
            for key in keys:
                app.post_message(Key(key, key))
            await settled(pilot)
            assert bool(lab(app).search.view.changed_knobs()) is (steps > 0), keys
        assert lab(app).search.view.knobs == before


@pytest.mark.parametrize("opens", ["2", "3", "S", "ctrl+r", "w", "W", "T", "question_mark"])
async def test_enter_that_is_pressed_three_times_closes_one_screen_and_opens_one(
    tmp_path: Path, opens: str
) -> None:
    screens, results = list[list[str]](), list[object]()
    for times in (1, 3):
        app = world.workbench(tmp_path / str(times), initial_query=DRILL)
        async with app.run_test(size=LARGE) as pilot:
            await settled(pilot)
            await press(pilot, opens)
            if opens == "2":
                await press(pilot, "tab")
            for _ in range(times):
                app.post_message(Key("enter", None))
            await settled(pilot)
            screens.append([type(screen).__name__ for screen in app.screen_stack])
            results.append(lab(app).search.view.knobs)
    assert screens[0] == screens[1] and results[0] == results[1]


@pytest.mark.parametrize("start", ["results", "start page"])
async def test_a_move_behind_enter_is_made_on_the_answer(tmp_path: Path, start: str) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL if start == "results" else "")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        if start == "results":
            await press(pilot, "j", "j", "j", "slash")
        for key in ("n", "a", "s", "enter", "j", "j", "k"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await settled(pilot)
        hits = lab(app).hits
        assert lab(app).search.view.answers and lab(app).query_line.value == "nas" and hits.cursor == 1
        await press(pilot, "slash", *"heron", "enter")
        assert hits.cursor == 0, "a move is made once"
        await press(pilot, "0", "escape", "j")
        asked = hits.asks
        for key in ("enter", "n", "N", "G"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await settled(pilot)
        assert lab(app).search.view.query == asked and hits.cursor == len(hits.rows) - 1 > 0
        assert "no row" not in lab(app).status_line.text
        await press(pilot, "slash")
        for key in ("n", "a", "s", "enter", "right_curly_bracket"):
            app.post_message(Key(key, key if len(key) == 1 else None))
        await settled(pilot)
        selected = hits.selected
        assert selected is not None and not selected.returned and hits.rows[hits.cursor - 1].returned


async def test_a_letter_that_is_reported_late_does_not_undo_what_enter_asked(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"nas", "enter")
        line = lab(app).query_line
        for typed in ("n", "na"):
            line.post_message(Input.Changed(line, typed))
        await press(pilot, "w")
        assert app.screen.query_one("#walk") and lab(app).search.view.query == "nas"


async def test_arrow_down_in_the_query_line_goes_to_the_newer_query_first(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "slash", *"heron", "enter", "slash", *"nas", "enter", "slash", "up")
        assert lab(app).query_line.value == "heron"
        await press(pilot, "down")
        line = lab(app).query_line
        assert line.value == "nas" and line.has_focus
        await press(pilot, "down")
        assert lab(app).hits.has_focus
        await press(pilot, "p", "slash", *"decay", "enter")
        assert line.value == "nas" and lab(app).knob_panel.wanted == "decay", "its own list"
