"""Steps of the knobs and faults: by keys and clicks, undone and redone."""

from __future__ import annotations

from pathlib import Path

import lab_world as world
from lab_world import LARGE, lab, press, settled

from openclaw_mem_engine.api import Knobs
from openclaw_mem_tui.features.search.history import Steps, Tried
from openclaw_mem_tui.features.search.state import View

DRILL = "restore drill"


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
