"""The timeline screen with real keys over the demo and over sessions of its own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, lab, plain, press, settled
from textual.pilot import Pilot

from openclaw_mem_engine.api import Memory
from openclaw_mem_engine.timeline.model import Moment
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.timeline.chart import _scale
from openclaw_mem_tui.features.timeline.render import _in_row, facts, mark_of
from openclaw_mem_tui.features.timeline.screen import TimelineScreen
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.widgets.dialogs import HelpText
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Pane
from support.flushes import Talk, save_index
from support.memories import settings_for


@asynccontextmanager
async def opened(
    app: Workbench, size: tuple[int, int] = LARGE
) -> AsyncIterator[tuple[Pilot[int], TimelineScreen]]:
    """The application with its timeline in front."""
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "4")
        screen = app.screen
        assert isinstance(screen, TimelineScreen)
        yield pilot, screen
        assert [worker.error for worker in app.workers if worker.error] == []


def shown(screen: TimelineScreen, name: str) -> str:
    """What a pane says, however its lines are cut."""
    return " ".join(screen.query_one(name).text.split())  # type: ignore[attr-defined]


def shown_lines(screen: TimelineScreen, name: str) -> list[str]:
    return screen.query_one(name, Pane).text.splitlines()


def demo(root: Path) -> Workbench:
    return world.workbench(root, initial_query="heron")


def of_talks(root: Path, talks: Sequence[Talk]) -> Workbench:
    """A workbench over these sessions and one note."""
    workspace = root / "ws"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text("# Facts\n\nThe router is in the cellar.\n")
    settings = settings_for(workspace, root / "home")
    folder = settings.openclaw.sessions_dir
    for talk in talks:
        talk.save(folder)
    save_index(folder, **{f"agent__main__s{n}": {"sessionId": talk.id} for n, talk in enumerate(talks)})
    return Workbench(lambda faults: Memory.open(settings, faults=faults))


# -- the demo -----------------------------------------------------------------------------------------------


async def test_the_frame_of_a_list_says_which_of_its_rows_are_in_sight(tmp_path: Path) -> None:
    async with opened(demo(tmp_path), SMALL) as (pilot, screen):
        events, hint = screen.events, "v events: all"
        at, of = events.size.height - 1, len(events.drawn)
        assert plain(events.border_title).strip() == f"events · {of} · rows 1–{at} of {of} · {hint}"
        await press(pilot, "G")
        assert f" · rows {of - at + 1}–{of} of {of} · {hint}" in plain(events.border_title)
        events.scroll_to(y=3, animate=False)  # as with the wheel: the cursor stays
        await settled(pilot)
        assert f" · rows 4–{3 + at} of {of} · {hint}" in plain(events.border_title)
        await pilot.resize_terminal(50, 24)
        await settled(pilot)
        assert plain(events.border_subtitle) == f"{hint} · S session: all", "no room for it"
        assert events.max_scroll_y > 0
        await pilot.resize_terminal(80, 60)
        await settled(pilot)
        assert events.max_scroll_y == 0 and "rows" not in plain(events.border_subtitle)


async def test_the_demo_from_the_missed_flush_to_the_file(tmp_path: Path) -> None:
    async with opened(demo(tmp_path)) as (pilot, screen):
        assert "sessions · 6" in str(screen.sessions.border_title)
        counts = "✗ 1 missed flush (compacted without one) · ! 1 skipped flush (did not run)"
        assert shown(screen, "#facts").strip() == counts
        narrow, slim = (text_of(facts(screen.presenter.state, (), cells)[0]) for cells in (80, 60))
        assert narrow.strip() == counts, "both are explained, in one column too"
        assert slim.strip() == "✗ 1 missed flush · ! 1 skipped flush"
        texts = screen.events.text
        for part in (
            "● flush      main            …/2026-03-30.md, +3 lines",
            "▼ compaction main            177,310 → 24,180 tokens",
            "○ no reply   …network        nothing stored",
            "! skipped    …morning-status at 178,340 tokens",
            "▲ write      …morning-status …/2026-03-30.md, +9 lines",
            "● flush      main            …2026-03-25.md, +29 lines",
            "◇ search     main            Japanese ticket font size",
            "▼ compaction …network        179,004 → size unknown",
            "✗ missed",
        ):
            assert part in texts
        assert "◆ snapshot" in texts and "◇ search     main            Japanese ticket font size" in texts
        await press(pilot, "v", "p")
        assert len(screen.events.drawn) == 2 and "! skipped" in screen.events.text
        assert "events: problems" in str(screen.events.border_subtitle)
        await press(pilot, "v", "m")
        assert len(screen.events.drawn) == 1 and "✗ missed" in screen.events.text, "none that was skipped"
        assert screen.days.max_scroll_y == 0, "few events leave their lines to the files by day"
        detail = shown(screen, "#moment")
        assert "one turn went from 148,212 to 192,406 tokens: compaction came before" in detail
        assert "effect anything said since the last flush" in detail and "compacted without" not in detail
        assert "flush threshold 176k · " in str(screen.query_one("#chart").border_subtitle)
        assert re.search(r"earlier wrote MEMORY\.md at [-\d]+ [\d:]+ ", detail)
        frame = "v events: missed · S session: {}"
        assert plain(screen.events.border_subtitle) == frame.format("all")
        await press(pilot, "S")  # its session alone
        assert plain(screen.events.border_subtitle) == frame.format("signal:group:network")
        assert screen.presenter.state.chosen is not None and "✗ 1" in screen.sessions.text
        await press(pilot, "v", "w", "G")
        await press(pilot, "e")  # no editor in a test: said, not raised
        detail = shown(screen, "#moment")
        assert "written by the agent's write tool" in detail
        assert "+ ## Order of work" in detail
        await press(pilot, "S")
        assert screen.presenter.state.chosen is None
        chosen = screen.events.selected
        await press(pilot, "v", "a")
        assert screen.presenter.state.group == "all" and screen.events.selected == chosen is not None
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ChunksScreen)
        await press(pilot, "escape")
        assert pilot.app.screen is screen


async def test_a_search_of_the_agent_is_run_again_in_the_lab(tmp_path: Path) -> None:
    async with opened(demo(tmp_path)) as (pilot, screen):
        await press(pilot, "slash", *"spool", "enter")
        assert "0d4be1f7" not in shown(screen, "#moment")
        assert "1 memory/runbooks/spool-error-codes" in shown(screen, "#moment")
        await press(pilot, "enter")
        assert pilot.app.screen is lab(pilot.app)  # type: ignore[arg-type]
        assert lab(pilot.app).search.view.query == "ERR_SPOOL_0x4F"  # type: ignore[arg-type]


async def test_lists_zoom_and_help(tmp_path: Path) -> None:
    async with opened(demo(tmp_path)) as (pilot, screen):
        await press(pilot, "tab", "j")
        assert screen.sessions.has_focus and "agent:main:main" in shown(screen, "#moment")
        assert shown(screen, "#chart").count("█") > 10 and "03-25 07:40" in shown(screen, "#chart")
        await press(pilot, "enter")
        assert screen.events.has_focus and len(screen.events.drawn) == 5
        await press(pilot, "plus")
        assert shown(screen, "#chart").count("00:00") == 2
        assert plain(screen.query_one("#chart").border_subtitle).endswith("+ zoom: day")
        await press(pilot, "plus", "shift+tab")
        assert screen.presenter.state.zoom == "hour" and screen.days.has_focus
        assert "2026-03-30 memory/2026-03-30.md" in screen.days.text
        assert "tool calls in transcripts" in shown(screen, "#moment")
        await press(pilot, "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        await press(pilot, "escape", "escape")
        assert pilot.app.screen is lab(pilot.app)  # type: ignore[arg-type]


async def test_an_event_without_a_file_opens_in_full_where_its_details_are_hidden(tmp_path: Path) -> None:
    async with opened(demo(tmp_path), (60, 14)) as (pilot, screen):
        moment = screen.events.selected
        assert moment is not None and moment.kind == "compaction" and not moment.writes
        assert not screen.detail.region.height and "enter open" in screen.query_one(KeyBar).text
        await press(pilot, "enter")
        drawn = pilot.app.screen.query_one(HelpText).text
        assert "177,310 → 24,180" in drawn and "session   main" in drawn
        saved = r"earlier wrote memory/2026-03-30\.md, \+3 lines at 2026-03-30 [\d:]+ "
        assert re.search(saved, " ".join(drawn.split()))
        assert "summary   All three kiosks on 3.3." in drawn, "what the session goes on with"
        await press(pilot, "escape", "j", "exclamation_mark")
        assert "wrote memory/" in pilot.app.screen.query_one(HelpText).text, "! does for every row"


async def test_every_size_shows_the_list_with_the_focus(tmp_path: Path) -> None:
    async with opened(demo(tmp_path), SMALL) as (pilot, screen):
        for size in (SMALL, (60, 20), (60, 16), (40, 12), (200, 50)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            for table in (screen.events, screen.sessions, screen.days):
                assert table.has_focus and table.size.height >= 2, (size, table.id)
                assert table.size.width <= size[0]
                assert size[0] < 200 or "…" not in table.text, "a wide screen shows the whole text"
                await press(pilot, "j", "tab")
            assert screen.events.has_focus
            events = screen.events.text
            assert size != SMALL or "cron:morning-status   at 178,340 tokens" in events
            assert size != (60, 20) or "▼ compaction 177,310 → 24,180 tokens" in events, (
                "no room for sessions"
            )


async def test_a_mark_is_under_each_fall_of_the_curve(tmp_path: Path) -> None:
    async with opened(demo(tmp_path)) as (pilot, screen):
        for _ in range(2):
            marks = next(row for row in shown_lines(screen, "#chart") if "▼" in row)
            assert (marks.count("●▼"), marks.count("●"), marks.count("▼")) == (2, 2, 2)
            drawn = shown_lines(screen, "#chart")
            bars = drawn[drawn.index(marks) - 1]
            assert {bars[at] for at, mark in enumerate(marks) if mark == "●"} == {"█"}, "below its peak"
            words = "◇ search ● flush ▼ compaction"
            assert shown_lines(screen, "#chart")[-1].strip() == words, "what the marks mean"
            await press(pilot, "j")  # to the flush, a moment before its compaction
        titles = "session first – last tokens peak missed"
        rows = [" ".join(row.split()) for row in screen.sessions.text.split("\n")]
        assert screen.sessions.painted(-1).text.split() == titles.split() and rows[0] == "all sessions"
        assert shown(screen, "#status").strip() == "● event 3 of 19"
        assert "above the flush threshold" in str(screen.sessions.border_subtitle)
        assert rows[1].startswith("main 03-25 – 03-31 ") and rows[2].startswith("cron:morning-status 03-30 ")
        assert not set("▇█") & set(screen.sessions.text), "the bars of neighbouring rows do not touch"
        assert rows[5].startswith("signal:direct:ines 2025-12-10 – 12-11 "), (
            "the year, where it is another one"
        )
        head, events = screen.events.painted(-1).text, screen.events.text.splitlines()
        flush = next(row for row in events if "● flush" in row)
        for title, of_row in (("event", "●"), ("session", "main"), ("what", "…/2026")):
            assert head.index(title) == flush.index(of_row), "titles are above their columns"
        assert any(row.split()[:2] == ["2025-12-10", "▼"] for row in events)
        await press(pilot, "G")
        assert screen.events.scroll_offset.y and screen.events.render_line(0).text == head, "and stay there"


def test_a_row_is_not_cut_within_parentheses() -> None:
    summary = "2 files new or modified (MEMORY.md, memory/2026-03-03.md), 2 deleted."
    moment = Moment(0.0, "sync", summary)
    assert _in_row(moment, 40) == "2 files new or modified" and _in_row(moment, 99) == summary[:-1]


# -- other sessions -----------------------------------------------------------------------------------------


async def test_without_sessions_a_sentence_says_so(tmp_path: Path) -> None:
    async with opened(of_talks(tmp_path, [])) as (pilot, screen):
        assert "missed flushes: not known" in shown(screen, "#facts")
        assert screen.days.head is not None
        assert text_of(screen.days.head(60)).strip() == "No write is recorded (sessions, git, openclaw-mem)."
        state, long = screen.presenter.state, f"there are no transcripts: {'a/folder/' * 12} does not exist"
        assert state.whole is not None
        noted = replace(state, whole=replace(state.whole, notes=(long,)))
        said = [text_of(row) for row in facts(noted, (), 60)[1:]]
        assert len(said) == 2 and said[1].endswith("…") and max(map(len, said)) <= 60
        await press(pilot, "v", "m")
        assert "No event here is one of: missed." in shown(screen, "#moment")
        assert "No session is selected." in shown(screen, "#chart"), "there is no event either"
        await press(pilot, "enter", "e", "S", "plus", "tab", "enter", "r")
        assert screen.presenter.state.trouble == ""
        await press(pilot, "S")
        assert "this row has no session" in shown(screen, "#status")
        await press(pilot, "v", "v", "enter")
        assert screen.presenter.state.group == "problems", "v moves down in what it opens"


async def test_it_opens_on_the_last_event_with_a_curve(tmp_path: Path) -> None:
    talks = [Talk().answer("a", 177_000).compaction()]
    async with opened(of_talks(tmp_path, talks), (60, 20)) as (pilot, screen):
        state = screen.presenter.state
        assert [moment.kind for moment in state.moments] == ["sync", "compaction"]
        assert screen.events.cursor == 1
        for size, rows in (((60, 20), 4), (SMALL, 5)):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert (screen.events.head is not None) is (size == SMALL), "titles where there is room"
            chart = screen.query_one("#chart")
            assert chart.display and len(shown_lines(screen, "#chart")) >= rows
            assert "█" in shown(screen, "#chart") and screen.query_one("#moment").size.height >= 3
        await press(pilot, "k", "r")  # a second reading leaves the cursor where it is
        assert screen.events.cursor == 0


async def test_hostile_text_and_unknown_counts(tmp_path: Path) -> None:
    talk = (
        Talk().answer("x" * 4000).call("write", path="memory/a.md", content="[bold]\x1b[31m\u202e日本\n- b\n")
    )
    talk.call("memory_search", json.dumps({"results": [{"path": "[red]\x1b.md"}]}), query="[i]q\x1b[2J")
    async with opened(of_talks(tmp_path, [talk])) as (pilot, screen):
        assert "~" in screen.sessions.text
        await press(pilot, "slash", *"search", "enter")
        assert "[i]q^[[2J" in screen.events.text and "[red]^[.md" in shown(screen, "#moment")
        await press(pilot, "slash", *"write", "enter")
        detail = shown(screen, "#moment")
        assert "+ [bold]^[[31m<U+202E>日本" in detail and "\x1b" not in detail
        await press(pilot, "tab", "j")
        assert "estimated from the length of the transcript" in shown(screen, "#moment")


async def test_what_is_appended_is_shown_after_r(tmp_path: Path) -> None:
    talk = Talk().answer("a", 177_000)
    async with opened(of_talks(tmp_path, [talk])) as (pilot, screen):
        assert "0 missed flushes" in shown(screen, "#facts")
        folder = screen.search.service.settings.openclaw.sessions_dir
        talk.compaction().save(folder)
        await press(pilot, "r")
        assert "✗ missed" in screen.events.text and "1 missed flush" in shown(screen, "#facts")


async def test_bars_past_the_flush_threshold_end_above_it_and_others_do_not(tmp_path: Path) -> None:
    talk = Talk().answer("a", 175_900).answer("b", 176_100).answer("c", 192_000).compaction()
    async with opened(of_talks(tmp_path, [talk]), (120, 36)) as (_pilot, screen):
        lines = [row for row in shown_lines(screen, "#chart") if "176k" in row]
        bars = {char for char in "".join(lines) if char in "▁▂▃▄▅▆▇█"}
        assert bars == {"▄", "▅", "▇"}, "up to the line, past it, and the peak, each at its own height"
        assert "tokens · session " in str(screen.query_one("#chart").border_title)


async def test_the_highest_of_two_peaks_that_round_alike_is_higher(tmp_path: Path) -> None:
    talk = Talk().answer("a", 177_300).answer("b", 20_000).answer("c", 180_200).compaction()
    async with opened(of_talks(tmp_path, [talk]), (120, 36)) as (_pilot, screen):
        (line,) = (row for row in shown_lines(screen, "#chart") if "176k" in row)
        assert line.index("▅") < line.index("▆"), "each at its own height"


async def test_the_bar_of_a_missed_flush_is_red_from_its_foot(
    tmp_path: Path,
) -> None:
    async with opened(demo(tmp_path)) as (pilot, screen):
        await press(pilot, "v", "m")
        peaks, *rows = screen.query_one("#chart", Pane).drawn[:4]
        assert next(row for row in rows if "176k" in text_of(row)) is rows[0], "the peak fits the chart"
        column = text_of(rows[0]).index("▆")
        assert text_of(peaks).split() == ["177k", "192k", "179k"]
        assert text_of(peaks)[column - 2 : column + 2] == "192k", "above its bar"
        missed = ["".join(span.text for span in row if span.role == "bad") for row in rows]
        assert [len(one) for one in missed] == [1] * 3, "one column, from its foot to its top"
        assert "█" not in "".join(span.text for row in rows[:2] for span in row if span.role == "dim")
        marks, *legend = shown_lines(screen, "#chart")[-4:]
        assert marks.strip().endswith("○▼") and "○ no reply" in legend[-1], "in order, and each with its word"


@pytest.mark.parametrize("peak", [0, 90_000, 176_000, 192_406, 200_000, 1_500_000, 9_000_000])
@pytest.mark.parametrize("rows", [2, 3, 5])
def test_the_scale_of_the_chart_holds_the_peak(rows: int, peak: int) -> None:
    top, row = _scale(176_000, peak, rows)
    assert top >= peak and 0 <= row < rows
    assert _scale(0, peak, rows) == (max(peak, 1), -1)


def test_a_sync_that_failed_has_not_the_mark_of_one_that_worked() -> None:
    assert mark_of(Moment(0.0, "sync", "")) == ("·", "sync", "dim")
    assert mark_of(Moment(0.0, "sync", "", "failed")) == ("✗", "sync", "bad")


async def test_a_small_screen_keeps_the_numbers_of_the_peaks(tmp_path: Path) -> None:
    talks = [Talk().answer("a", 192_406).compaction()]
    async with opened(of_talks(tmp_path, talks), SMALL) as (_, screen):
        assert "192k" in text_of(screen.query_one("#chart", Pane).drawn[0])
