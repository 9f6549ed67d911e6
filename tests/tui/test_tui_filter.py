"""Filters: every list of the workbench shows the rows with the words that are typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, lab, press, settled

from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.search.state import KNOB_NAMES
from openclaw_mem_tui.features.timeline.screen import TimelineScreen
from openclaw_mem_tui.list_screen import ListScreen
from openclaw_mem_tui.widgets.dialogs import Choices, HelpText
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.filter_line import FilterLine

DRILL = "restore drill"


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


async def test_a_list_without_a_match_says_so_and_opens_nothing(tmp_path: Path) -> None:
    app = world.workbench(tmp_path)
    names = {"2": ("provider",), "3": ("file", "finding", "event"), "4": ("event", "session", "file")}
    names["5"] = ("proposal", "note")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "escape")
        for key, of_lists in names.items():
            await press(pilot, key)
            screen: Any = app.screen
            assert isinstance(screen, ListScreen)
            for table, name in zip(screen.lists, of_lists, strict=False):
                screen.go_to(table)
                await press(pilot, "f", *"nothing-like-it", "enter")
                assert screen.at is table and table.counted[0] == 0 < table.counted[1]
                assert f"No {name} matches the filter." in screen.detail.text
                if key != "2":  # whose key is about the last query
                    await press(pilot, "enter")
                    assert "no row is selected" in screen.status_line.text
                    assert [*app.screen_stack][-1] is screen, "no box, and no other screen"
                await press(pilot, "escape")
                assert "filter" not in screen.detail.text and table.counted[0] == table.counted[1]


async def test_knobs_are_filtered_and_found_in_the_palette(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query=DRILL)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen, panel = lab(app), lab(app).knob_panel
        every, hits = len(KNOB_NAMES), len(lab(app).hits.rows)
        await press(pilot, "p", "f", *"half", "enter")
        assert panel.has_focus and panel.text.count("half-life in days") == 1
        assert panel.counted == (1, every) and len(screen.hits.rows) == hits, "the list that has the focus"
        assert f"filter half · 1 of {every}" in frame(screen.query_one("#knob-box"))
        assert "esc clear" in screen.query_one(KeyBar).text
        assert "half-life in days" in screen.hint.text
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
