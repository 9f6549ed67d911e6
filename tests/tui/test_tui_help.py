"""The help: what it lists, its filter, and that it runs what it lists."""

from __future__ import annotations

from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, lab, press, settled

from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.wrapped import WrappedTable

DRILL = "restore drill"


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
        signs = {row.sign: row.text for row in rows._all}
        assert signs["q"].endswith(", then quit") and signs["ctrl+q"] == "quit at once"
        assert str(app.screen._box.border_title).startswith("help · rows 1–")  # type: ignore[attr-defined]
        assert "j, k, ↓, ↑" in rows.text and legend.region.x >= rows.region.right
        await press(pilot, "f", *"index", "enter")
        assert {row.group for row in rows._items} >= {"Index"} and rows.counted[0] > 8, "a group by its name"
        await press(pilot, "escape")
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        groups = list(dict.fromkeys(row.group for row in rows._all))
        assert groups[0] == "Index" and groups[-1] == "Lists" and not legend.display
        assert groups.index("Legend") == len(groups) - 2


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_the_head_of_every_help_has_whole_sentences(tmp_path: Path, size: tuple[int, int]) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        for keys in ((), ("p",), ("escape", "w"), ("escape", "2"), ("3",), ("4",), ("5",), ("6",)):
            await press(pilot, *keys, "question_mark")
            about = app.screen.query_one("#help-about", Pane)
            assert about.text.rstrip().endswith(".") and about.size.height == len(about.drawn), keys
            await press(pilot, "escape")
