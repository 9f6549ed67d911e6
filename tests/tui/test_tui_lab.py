"""The search lab with real keys over the real engine and the demo's notes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, lab, press, settled, until
from textual import events
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from openclaw_mem_engine.ranking.profiles import SELECTABLE
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.search.hit_list import HitList
from openclaw_mem_tui.features.search.screen import SearchScreen
from openclaw_mem_tui.features.search.state import KNOB_NAMES, turned
from openclaw_mem_tui.widgets.dialogs import Choices, HelpText, Palette, PickScreen
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Lines, Pane

DRILL = "how long did the last restore drill take"


@asynccontextmanager
async def running(
    root: Path, size: tuple[int, int] = LARGE, **options: Any
) -> AsyncIterator[tuple[Pilot[int], SearchScreen]]:
    app: Workbench = world.workbench(root, **options)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot, lab(app)
        assert [worker.error for worker in app.workers if worker.error] == []


async def test_typing_searches_and_the_history_is_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as (pilot, screen):
        assert screen.query_line.has_focus
        assert "chunks to search." in screen.hits.text
        assert "In the query line: type to search, esc leaves it, f1 is the help." in screen.hits.text
        assert screen.query_one(KeyBar).text.endswith("f1 help")
        await press(pilot, "f1")
        assert pilot.app.screen is not screen
        await press(pilot, "escape")
        await press(pilot, *"restore", "space", *"drill", "enter")
        assert screen.hits.has_focus
        assert screen.search.view.query == "restore drill"
        assert "restore-drill.md" in screen.hits.text.splitlines()[1]
        assert " → pool " in screen.funnel.text and screen.query_line.border_subtitle is None
        facts, more = screen.answer.text, screen.funnel.text
        assert screen.answer.region.y < screen.funnel.region.y and "OpenClaw" not in facts
        below = sum(row.outcome.stage == "min_score" for row in screen.hits.rows)
        assert below and f"; {below} are below min score .35" in facts and "min_score" not in facts + more
        assert screen.search.history.queries == ["restore drill"]

        await press(pilot, "slash", "ctrl+u", *"heron", "enter", "slash", "ctrl+u", *"alarm", "enter")
        await press(pilot, "less_than_sign")
        assert screen.search.view.query == "heron" and screen.query_line.value == "heron"
        assert screen.status_line.text.startswith(" ● query 2 of 3"), "and not what was asked last"
        await press(pilot, "greater_than_sign")
        assert screen.search.view.query == "alarm" and "query 3 of 3" in screen.status_line.text
        await pilot.press("Q")
        await pilot.pause()
        assert isinstance(pilot.app.screen, PickScreen)
        await pilot.press(*"ero", "enter")
        await settled(pilot)
        assert screen.search.view.query == "heron"

        await press(pilot, "slash", "ctrl+u")
        await press(pilot, *"qpbdvxs?")
        assert screen.query_line.value == "qpbdvxs?"
        await press(pilot, "escape", "slash", *"heron", "escape")
        assert screen.search.view.query == "heron", "a new query replaces the last one"
        assert screen.hits.has_focus
        await press(pilot, "ctrl+f")
        assert screen.hits.cursor > 1
        await press(pilot, "ctrl+b")
        assert screen.hits.cursor == 0

        await press(pilot, "escape")
        # What is typed in one burst after it must not be taken for keys of the hit list.
        assert screen.focused is not screen.query_line
        await pilot.app.on_event(events.Key("slash", "/"))
        assert screen.focused is screen.query_line
        await press(pilot, "slash")
        assert screen.query_line.value == "heron", "its key, where what is typed replaces the text"
        await press(pilot, *"a/")
        assert screen.query_line.value == "a/"


async def test_every_size_shows_the_hits(tmp_path: Path) -> None:
    sizes = [(30, 8), SMALL, LARGE, (60, 16), (50, 12), (200, 50), (40, 10), (200, 60), (30, 8)]
    async with running(tmp_path, sizes[0], initial_query=DRILL) as (pilot, screen):
        for size in sizes:
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert screen.hits.region.width == pytest.approx(size[0] * 0.6, abs=1) or size[0] < 100
            assert ("drill.md" if size[0] > 30 else ".md:1-17") in screen.hits.text
            assert screen.waterfall.display == (screen.waterfall.region.height > 0) or size[0] < 100
            if size[0] < 60 or size[1] < 16:
                assert not screen.waterfall.region


async def test_hits_are_selected_and_shown_in_columns_under_help_and_palette(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, screen):
        first = screen.waterfall.text
        assert "restore-drill.md" in first and "#1 at" in first
        lines = screen.preview.size.height
        await press(pilot, "j")
        assert "#2 at" in screen.waterfall.text
        assert "2025-09-05" in screen.preview.text and "Source: memory/2025-09-05.md#L" in screen.preview.text
        await press(pilot, "j")
        assert "not returned" in screen.waterfall.text
        await press(pilot, "G")
        assert screen.hits.cursor == len(screen.hits.rows) - 1
        await press(pilot, "home")
        assert screen.waterfall.text == first
        assert screen.waterfall.size.height == 8 and screen.preview.size.height == lines == 15
        await press(pilot, "p", "p")
        assert screen.preview.size.height == lines, "as before the knobs"

        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HelpScreen)
        help_screen = pilot.app.screen
        drawn = "\n".join(lines.text for lines in help_screen.query(Lines))
        assert "pin this run as the baseline" in drawn and "the returned chunks, best first" in drawn
        await pilot.press("escape")
        await pilot.pause()
        assert pilot.app.screen is screen

        titles = [choice.title for choice in pilot.app.commands(screen)]  # type: ignore[attr-defined]
        assert "Open the knob panel, go to it, or close it" in titles and "Theme" in titles
        assert not any("lesson" in title for title in titles)
        await press(pilot, "ctrl+p")
        palette = pilot.app.screen
        box = palette.query_one(".box")
        before = box.region
        await press(pilot, *"theme")
        assert box.region.y == before.y and box.region.height < before.height, "it stays while one types"
        assert isinstance(palette, Palette) and palette._choices[0].title == "Theme"
        await press(pilot, "escape", "colon", *"knob panel", "enter")
        assert pilot.app.screen is screen and screen.knobs_open
        await press(pilot, "ctrl+p")
        first, *others = pilot.app.screen.query_one("Choices").text.splitlines()  # type: ignore[attr-defined]
        assert first.split() == "▌ recent Open the knob panel, go to it, or close it p".split(), (
            "recent first"
        )
        assert any(row.split()[0] == "Chunks" and row.rstrip().endswith(" v") for row in others), "sections"
        await press(pilot, "escape", "p")
        assert pilot.app.screen is screen

        assert "not returned" in screen.hits.text
        await press(pilot, "G")
        trace = screen.search.view.trace
        assert trace is not None
        hidden, many = screen.hits.selected, len(screen.hits.rows) - len(trace.returned)
        await press(pilot, "d")
        assert screen.hits.selected is not hidden and screen.hits.text.count("──") >= 2
        assert f"── {many} not returned · d shows them ──" in screen.hits.text.splitlines()[-1]
        await press(pilot, "d")
        assert screen.hits.selected is hidden, "as before"
        await press(pilot, "d", "home")
        await press(pilot, "v", "v")
        assert "+." in screen.hits.text

        await press(pilot, "colon", *"theme", "enter")
        themes = pilot.app.screen
        assert isinstance(themes, PickScreen) and "▌ claw-dark" in themes.query_one(Choices).text
        await press(pilot, "j", "enter")
        assert pilot.app.screen is screen and pilot.app.theme == "claw-light"
        pilot.app.theme = "claw-dark"

        # A theme that differs in the colour of one role is drawn as soon as it is chosen.
        pilot.app.register_theme(replace(pilot.app.current_theme, name="other", secondary="#12fe56"))
        pilot.app.theme = "other"
        await settled(pilot)
        assert "#12fe56" in pilot.app.export_screenshot()


async def test_knobs_rank_in_the_same_frame_retrieve_and_reset(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, screen):
        await press(pilot, "s", "b", "s")
        assert screen.search.view.knobs.mode == "vector"
        assert "baseline: pinned" in screen.funnel.text
        await press(pilot, "B")
        assert "baseline: mode hybrid" in screen.funnel.text
        await press(pilot, "U")
        assert screen.search.view.knobs == screen.search.view.defaults

        before = len(screen.search.view.trace.returned)  # type: ignore[union-attr]
        await pilot.press("p", "left", "left", "left", "left")
        await pilot.pause()
        assert not screen.search.view.pending
        assert screen.search.view.knobs.min_score == pytest.approx(0.15)
        assert len(screen.search.view.trace.returned) > before  # type: ignore[union-attr]
        assert "was .35" in screen.knob_panel.text
        assert "new" in screen.hits.text and "baseline: min score .35" in screen.funnel.text
        await press(pilot, "u")
        assert screen.search.view.knobs == screen.search.view.defaults
        await press(pilot, "shift+left", "U")
        assert screen.search.view.knobs == screen.search.view.defaults
        await pilot.resize_terminal(*SMALL)
        await press(pilot, "home")
        for name in KNOB_NAMES:
            panel, drawn = screen.knob_panel, screen.hint.drawn
            assert panel.name_at_cursor == name and screen.hint.size.height == len(drawn) <= 2, "no blank row"
            assert panel.scroll_offset.y <= panel.cursor < panel.scroll_offset.y + panel.size.height, name
            await press(pilot, "down")
        await pilot.resize_terminal(*LARGE)
        await press(pilot, *["up"] * (len(KNOB_NAMES) - 1 - KNOB_NAMES.index("min_score")), "escape")
        assert screen.hits.has_focus and not screen.knobs_open

        steps = KNOB_NAMES.index("lexical_form") - KNOB_NAMES.index("min_score")
        await press(pilot, "p", *["down"] * steps)
        assert screen.knob_panel.name_at_cursor == "lexical_form"
        await press(pilot, "right")
        view = screen.search.view
        assert not view.pending and view.trace is not None and view.trace.knobs.lexical_form == "and"
        assert view.baseline is not None and view.baseline.trace.knobs.lexical_form == "or"

        await press(pilot, "U", "home")
        seen = set()
        for _ in SELECTABLE:
            await press(pilot, "right")
            seen.add(screen.search.view.trace.knobs.profile)  # type: ignore[union-attr]
            assert screen.search.view.answers
        assert seen == {*SELECTABLE}


async def test_a_hit_is_read_copied_exported_and_the_mouse_is_enough(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, screen):
        await press(pilot, "enter")
        assert screen.preview.kind == "get" and "lines 1–" in screen.preview.text
        assert "enter snippet" in screen.query_one(KeyBar).text
        await press(pilot, "enter")
        assert screen.preview.kind == "snippet"
        await press(pilot, "m")
        assert screen.preview.kind == "markdown" and "Runbook: restore drill" in screen.preview.text
        await press(pilot, "escape", "t", "t")
        assert screen.preview.citations == "off" and "Source:" not in screen.preview.text
        await press(pilot, "y")
        assert pilot.app.clipboard == "memory/runbooks/restore-drill.md:12"
        await press(pilot, "t", "t", "Y")
        assert pilot.app.clipboard.endswith("Source: memory/runbooks/restore-drill.md#L1-L17")

        await press(pilot, "s")
        for letter in "Jmsc":
            await pilot.press("x")
            await pilot.pause()
            await pilot.press(letter)
            await settled(pilot)
            assert "wrote" in screen.search.activity.said
        files = {path.suffix: path for path in (tmp_path / "data" / "exports").iterdir()}
        assert set(files) == {".json", ".md", ".svg", ".json5"}
        assert json.loads(files[".json"].read_text())["query"] == DRILL
        loaded = re.findall(r"url\(([^)#][^)]*)\)|href=|@import|@font-face", files[".svg"].read_text())
        assert loaded == [], "no outside reference"
        assert str(files[".json5"]) in screen.search.activity.said

        await pilot.click("#hits", offset=(10, 4))
        await settled(pilot)
        assert screen.hits.cursor == 1
        await pilot.click("#keys", offset=(14, 0))
        await settled(pilot)
        assert screen.knobs_open

        await press(pilot, "q")
        await pilot.press("q")
        await pilot.pause()
        assert pilot.app.return_value == 0


async def test_of_two_lists_the_one_that_keys_act_on_has_the_pointer(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, screen):
        panel = screen.knob_panel

        def pointed() -> list[bool]:
            lists = (screen.hits, panel)
            return [any("▌" in one.painted(at).text for at in range(len(one.drawn))) for one in lists]

        assert pointed() == [True, False]
        await press(pilot, "p")
        assert panel.has_focus and pointed() == [False, True]
        away = screen.hits.line_at(screen.hits._spans[0][0])[1]
        assert away.bgcolor != screen.hits.base_style.bgcolor, "its row is seen all the same"
        await press(pilot, "tab")
        assert not panel.has_focus and not pointed()[1]


async def test_one_column_leaves_its_rows_to_the_list(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, initial_query=DRILL) as (pilot, screen):
        prompt, keys = screen.query_one("#prompt", Pane), screen.query_one(KeyBar)
        assert prompt.display and prompt.text == " /" and screen.query_line.border_title == "query"
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        assert not prompt.display and "d hide" in screen.hits.text
        await press(pilot, "d")
        assert "d shows them" in screen.hits.text and " hide" not in keys.text, "a key is named once"
        await press(pilot, "d")
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        box = screen.waterfall
        assert box.size.height == len(box.drawn) == 6
        rows = screen.hits.size.height
        await press(pilot, "j", "j")
        assert screen.hits.size.height == rows, "the list keeps its size while the cursor moves"
        await press(pilot, "tab")
        assert screen.preview.size.height == 6
        await press(pilot, "tab")
        await pilot.resize_terminal(60, 20)
        await settled(pilot)
        assert box.size.height == 4
        await press(pilot, "d")
        screen.tune(screen.search.view.knobs.set({"min_score": 0.05}))
        await settled(pilot)
        (said,) = screen.answer.text.splitlines()
        assert said.endswith(" … ! show all"), (
            "one line, as there is room for, and the key that shows all of it"
        )
        await press(pilot, "exclamation_mark")
        assert "min score .05" in " ".join(pilot.app.screen.query_one(HelpText).text.split())


async def test_keys_are_no_hints_while_a_filter_is_typed(tmp_path: Path) -> None:
    async with running(tmp_path, LARGE, initial_query=DRILL) as (pilot, screen):
        await press(pilot, "escape")
        screen.tune(screen.search.view.knobs.set({"min_score": 1.0, "keyword_rescue": "off"}))
        await settled(pilot)
        assert " · w says why a chunk is not returned" in screen.funnel.text
        assert "says why" not in screen.hits.text, "the table has rows alone"
        await press(pilot, "f")
        assert " · esc then w says why" in screen.funnel.text, "letters go to the filter"
        await press(pilot, "escape")
        assert " · w says why a chunk is not returned" in screen.funnel.text


async def test_narrow_screens_rotate_the_lower_pane(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, initial_query=DRILL) as (pilot, screen):
        assert screen.waterfall.region and not screen.preview.region
        await press(pilot, "tab")
        assert screen.preview.region and not screen.waterfall.region
        await press(pilot, "p")
        assert screen.knob_panel.region and not screen.preview.region
        assert "min score" in _visible(screen)
        row, knobs = screen.knob_panel, screen.search.view.knobs
        assert "◂" in row.painted(row.cursor).text and "▸" in row.painted(row.cursor).text
        while screen.search.view.knobs.min_score:
            await press(pilot, "shift+left")
        assert "◂" not in row.painted(row.cursor).text and "▸" in row.painted(row.cursor).text
        await press(pilot, "left")
        assert "min score .00 is the smallest value" in screen.status_line.text
        screen.tune(knobs)
        last = KNOB_NAMES[-1]
        screen.tune(turned(screen.search.view, last, 1, False))
        assert list(screen.search.view.changed_knobs()) == [last]
        await press(pilot, "p", "p")
        assert screen.knob_panel.name_at_cursor == last, "the first that differs from the baseline"
        assert last.replace("_", " ") in _visible(screen)


def _visible(screen: SearchScreen) -> str:
    panel = screen.knob_panel
    return "\n".join(panel.render_line(y).text for y in range(panel.size.height))


async def test_the_edited_note_is_searched_again(tmp_path: Path) -> None:
    async with running(tmp_path, own_notes=True, initial_query="zebra crossing") as (pilot, screen):
        note = tmp_path / "demo" / "workspace" / "memory" / "projects" / "lantern.md"
        note.write_text(note.read_text() + "\n- a zebra crossing was painted\n")
        await until(pilot, lambda: "lantern.md indexed" in screen.search.activity.said)
        await settled(pilot)
        assert "lantern.md indexed" in screen.status_line.text
        assert "lantern.md" in screen.hits.text.splitlines()[1]


async def test_no_key_asks_for_a_new_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layout costs more than everything else that a key does: this guards the budgets without a clock."""
    async with running(tmp_path, initial_query=DRILL) as (pilot, screen):
        asked: list[str] = []
        refresh = Widget.refresh

        def counting(self: Widget, *regions: Region, layout: bool = False, **rest: bool) -> Widget:
            if layout:
                asked.append(f"{self!r}")
            return refresh(self, *regions, layout=layout, **rest)

        await press(pilot, "down", "up", "p", "left", "right", "escape", "i", "a")
        monkeypatch.setattr(Widget, "refresh", counting)
        await press(pilot, "b", "escape", "j", "k", "v", "v", "v", "t", "t", "t")
        assert asked == []
        screen.knob_panel.show_knobs(screen.search.view.knobs, screen.search.view.defaults)
        screen.tune(screen.search.view.knobs.set({"vector_weight": 0.75}))
        await settled(pilot)
        assert asked == []


async def test_a_move_of_the_selection_paints_the_lines_of_two_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, initial_query=DRILL) as (pilot, screen):
        await press(pilot, "escape")
        painted: list[int] = []
        render = HitList.render_line

        def counting(hits: HitList, y: int) -> Strip:
            painted.append(y)
            return render(hits, y)

        monkeypatch.setattr(HitList, "render_line", counting)
        await press(pilot, "down")
        first, second = screen.hits._spans[:2]
        assert screen.hits.cursor == 1
        assert sorted(painted) == [line + screen.hits.fixed for line in (*range(*first), *range(*second))]


async def test_the_frame_of_a_pane_says_which_rows_are_in_sight(tmp_path: Path) -> None:
    async with running(tmp_path, LARGE, initial_query=DRILL) as (pilot, screen):
        await press(pilot, "escape")
        pane = screen.preview
        many, height, first = len(pane.drawn), pane.size.height, pane.scroll_offset.y + 1
        assert first > 3 and f" rows {first}–{first + height - 1} of {many} · J K · t citations" in frame(
            pane
        )
        await press(pilot, "K")
        assert f" rows {first - 3}–{first + height - 4} of {many} · J K · t citations" in frame(pane)
        await press(pilot, "enter")
        shown = pane.scroll_offset.y
        assert f" rows {shown + 1}–{shown + height} of {len(pane.drawn)} · J K · enter snippet" in frame(pane)


async def test_the_frame_of_a_note_says_what_the_mark_of_a_line_in_sight_means(tmp_path: Path) -> None:
    async with running(tmp_path, LARGE, initial_query="why do the door signs keep a shadow") as (
        pilot,
        screen,
    ):
        pane = screen.preview
        await press(pilot, "enter")
        assert "note, lines 1–31 · ┊ not sent" in frame(pane)
        await press(pilot, *"KKKKKKKKKKKKKKK")
        assert pane.scroll_offset.y == 0 and "┊" in pane.text
        assert "note, lines 1–31 " in frame(pane) and "┊" not in frame(pane), "none is in sight"


async def test_each_best_line_is_shown_once_where_only_what_is_returned_has_two_lines(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, initial_query="how long did the last restore drill take")
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        rows = lab(app).hits.text.splitlines()
        returned = next(at for at, row in enumerate(rows) if "memory/2025-09-05.md:1-13" in row)
        assert "number one" in rows[returned + 1] and "drill" not in rows[returned]
        others = {("03-05.md:1-29", "The res"), ("12-05.md:1-17", "Restore"), ("MEMORY.md:20-41", "- Rest")}
        begins = {row.index(text) for row in rows for name, text in others if f"{name} " in row}
        assert len(begins) == 1, "that of each one that is not returned, below one another"


async def test_a_small_screen_says_in_full_why_nothing_is_returned(tmp_path: Path) -> None:
    async with running(tmp_path, SMALL, initial_query="zebra stripes of jupiter") as (pilot, screen):
        assert screen.search.view.trace is not None and not screen.search.view.trace.returned
        said = " ".join(screen.answer.text.split())
        assert said.startswith("Nothing relevant found") and said.endswith("(weak)"), said
        assert screen.answer.size.height == len(screen.answer.drawn) > 1
        await press(pilot, "slash", *"router")
        assert screen.answer.size.height == 1, "rows matter more"
