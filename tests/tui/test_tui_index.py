"""The index screen with real keys over a real index: files, findings, what happened."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import lab_world as world
import pytest
from lab_world import LARGE, SMALL, first_index, frame, make, press, settled, until
from textual import _time
from textual.pilot import Pilot

from openclaw_mem_engine.api import FileRow
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.state.events import EVENTS_FILE, EventKind, EventLog
from openclaw_mem_engine.stores.findings import Check, DoctorReport, Finding, Outcome
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index import presenter
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.render import summary
from openclaw_mem_tui.features.index.render.doctor import item_detail, item_rows
from openclaw_mem_tui.features.index.render.files import file_row
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.timeline.screen import TimelineScreen
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen, HelpText
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.line_view import Brief
from support import postgres
from support.memories import settings_for, write_notes


def index_screen(app: Workbench) -> IndexScreen:
    return next(screen for screen in app.screen_stack if isinstance(screen, IndexScreen))


def unwatched(root: Path, kind: type[Memory] = make.SteadyMemory) -> Workbench:
    """The workbench over the demo; changed files are not noticed by themselves."""
    return Workbench(make.demo_memory(root, kind, watch=False, own_notes=True), initial_query="heron")


@asynccontextmanager
async def opened(
    app: Workbench, size: tuple[int, int] = LARGE
) -> AsyncIterator[tuple[Pilot[int], IndexScreen]]:
    """The application with its index screen in front."""
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "3")
        yield pilot, index_screen(app)
        assert [worker.error for worker in app.workers if worker.error] == []


def shown(screen: IndexScreen, name: str) -> str:
    return screen.query_one(name).text  # type: ignore[attr-defined, no-any-return]


def notes(root: Path) -> Path:
    return root / "demo" / "workspace"


# -- what is there ------------------------------------------------------------------------------------------


async def test_an_index_on_a_server_is_named_by_server_and_shard(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "# Network\n\nThe router answers.\n"})
    variables = postgres.variables(f"heron-{uuid.uuid4().hex[:4]}")
    settings = settings_for(workspace, tmp_path / "home", OPENCLAW_MEM_PROVIDER="static", **variables)
    settings = replace(settings, sync=replace(settings.sync, watch=False))
    settings.index_path.parent.mkdir(parents=True)
    settings.index_path.write_bytes(b"x" * 5_000_000)  # left of the time before the server
    app = Workbench(lambda _: Memory.open(settings, resident=True), initial_query="router")
    async with opened(app, (200, 36)) as (_, screen):
        facts = shown(screen, "#facts")
        assert "5.0 MB" not in facts
        assert (
            settings.index_name in facts and "of 480" in facts and "1 file · 1 chunk, 1 with vectors" in facts
        )
        assert screen.files.drawn and "MEMORY.md" in screen.files.text
        report = screen.presenter.state.report
        assert report is not None and {"server", "rows"} <= {check.name for check in report.checks}


async def test_facts_files_checks_and_events_of_a_fresh_index(tmp_path: Path) -> None:
    first = first_index(tmp_path, watch=False)
    async with opened(Workbench(first, initial_query="heron")) as (pilot, screen):
        facts = shown(screen, "#facts")
        assert "87 files · 102 chunks, 102 with vectors · 102 cached" in facts and "fresh" in facts
        assert "chunk limit 400 tokens, overlap 80" in facts and "= matches the configuration" in facts
        assert screen.files.drawn and len(screen.files.drawn) == 87
        assert "MEMORY.md" in screen.files.text and "● up to date" in screen.files.text
        titles = screen.files.painted(-1).text.split()
        assert titles == ["file", "chunks", "size", "state", "modified"], "as in one column"
        dated = replace(screen.presenter.state.files[0], path="memory/2026-07-04-signage-order.md")
        row = text_of(file_row(screen.presenter.state, frozenset(), dated, 79, False))
        assert "2026-07-04-signage-order.md" in row, "a name with a date has room beside the columns"
        assert "doctor · [$warning]3 warnings" in str(screen.doctor.border_title)
        assert "✓ 19 checks without findings" in screen.doctor.text
        long = Finding("x", "warning", "A finding that has a very long name of a file in it. And more.")
        cut = [text_of(row).rstrip() for row in item_rows(long, 23, False)]
        assert cut == ["  ! A finding that has", "    a very long name …"], "it is cut after a whole word"
        for cells, most in ((46, 2), (78, 1)):
            rows = [item_rows(item, cells, False) for item in screen.presenter.state.findings]
            assert max(map(len, rows)) == most and text_of(rows[0][-1]).endswith("5\xa0curate")
            assert "…" not in text_of(part for row in rows for part in row[-1]), "findings fit"
        assert "sync" in screen.events.text and "87 files new" in screen.events.text
        assert len(screen.events.text.splitlines()) == 2, "the second line of an event has the whole width"
        state, wrong = screen.presenter.state, Finding("full-text-lost", "error", "2 chunks are not found.")
        state = replace(state, report=DoctorReport((wrong,), ()))
        for short, cells in ((True, 78), (False, 118)):
            said = text_of(summary.facts(state, screen.search.activity, cells, short)[0 if short else -1])
            assert "✗ 1 error" in said and "fresh" not in said, "the state is the worst that holds"
        assert "7; enter shows them" in screen.detail.text
        await press(pilot, "j")
        assert "memory/2025-08-01.md" in screen.detail.text
        marked = [y for y in range(6) if screen.files.render_line(y).text.startswith("▌")]
        assert marked == [2], "the mark moves with the cursor"
        await press(pilot, "tab")
        assert screen.doctor.has_focus and screen.detail.text.startswith("! warning MEMORY.md has 203")
        assert str(screen.detail.border_title) == "finding"
        await press(pilot, "G")
        assert "✓ integrity: " in screen.detail.text and "✓ cache: " in screen.detail.text
        await press(pilot, "tab")
        assert screen.events.has_focus and "texts embedded" in screen.detail.text
        await press(pilot, "tab")
        assert screen.files.has_focus
        await press(pilot, "shift+tab")
        assert screen.events.has_focus


async def test_looking_writes_nothing_and_the_deep_doctor_and_verify_read_every_note(tmp_path: Path) -> None:
    import os

    async with opened(unwatched(tmp_path)) as (pilot, screen):
        files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
        before = {path: path.stat().st_mtime_ns for path in files}
        await press(pilot, "c", "C", "enter", "down", "escape", "v", "tab", "tab", "escape", "3")
        after = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*") if path.is_file()}
        assert before == after

        await press(pilot, "C")
        assert "deep" in str(screen.doctor.border_title) and " notes" in screen.doctor.text

        note = notes(tmp_path) / "memory" / "2025-08-01.md"
        status, text = note.stat(), note.read_text()
        await press(pilot, "V")
        assert "87 files read: index matches disk" in shown(screen, "#status")
        note.write_text(text.swapcase())
        os.utime(note, ns=(status.st_atime_ns, status.st_mtime_ns))
        await press(pilot, "V")
        status_line = shown(screen, "#status")
        assert "Modified with unchanged times" in status_line and "2025-08-01.md" in status_line
        with closing(apsw.Connection(str(screen.search.service.settings.index_path))) as index:
            index.execute("DELETE FROM chunks WHERE path = 'MEMORY.md'")
        await press(pilot, "V")
        said = "Their chunks were missing from the index; indexed again: MEMORY.md."
        assert said in shown(screen, "#status") and "Modified" not in shown(screen, "#status")


async def test_changed_files_come_first_and_y_syncs_them(tmp_path: Path) -> None:
    first = first_index(tmp_path, watch=False)
    async with opened(Workbench(first, initial_query="heron")) as (pilot, screen):
        make.disturb(tmp_path)
        await press(pilot, "1", "3")
        rows = screen.files.text.splitlines()
        assert "MEMORY.md" in rows[0] and "modified +48 B" in rows[0]
        assert "modified −" in rows[1] and "− deleted" in rows[2] and "excluded" in rows[3]
        facts = shown(screen, "#facts")
        assert re.search(r"stale since [-\d]+ \d\d:\d\d: 3 files to sync \(r syncs\)", facts)
        state = screen.query_one("#facts", Brief).drawn[-1]
        assert {role for span in state for role in span.role.split()} & {"bad", "warn", "good"} == {"bad"}
        assert "1 file excluded" in shown(screen, "#facts")
        await pilot.resize_terminal(60, 20)
        await settled(pilot)
        assert (
            "✗ 1 error (F repairs) · stale (r syncs 3)" in (few := shown(screen, "#facts")) and "…" not in few
        )
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        assert "searches find the old text until the next sync" in " ".join(screen.detail.text.split())
        await press(pilot, "r")
        assert shown(screen, "#facts").splitlines()[-1].split() == "state partial · 1 file excluded".split()
        assert "to sync" not in shown(screen, "#facts")
        assert all("● up to date" in row for row in screen.files.text.splitlines()[1:])
        assert "excluded" in screen.files.text.splitlines()[0]
        assert "2 files indexed, 1 deleted in" in shown(screen, "#status")
        assert screen.events.text.count("sync") == 2


async def test_a_change_that_the_watcher_sees_reaches_the_screen(tmp_path: Path) -> None:
    async with opened(world.workbench(tmp_path, own_notes=True, initial_query="heron")) as (pilot, screen):
        await press(pilot, "j", "j", "j")
        chosen = screen.files.selected
        assert chosen is not None
        (notes(tmp_path) / "memory" / "0-seen.md").write_text("A heron came by itself.\n")
        with (notes(tmp_path) / chosen.path).open("a") as note:
            note.write("It was seen here.\n")

        def is_indexed() -> bool:
            rows = screen.files.text.splitlines()
            return any("memory/0-seen.md" in row and "● up to date" in row for row in rows)

        await until(pilot, is_indexed)
        row = screen.files.selected
        assert row is not None and row.path == chosen.path and screen.files.cursor == 4, "it follows its file"
        assert "88 files" in shown(screen, "#facts")


def add_event(screen: IndexScreen, kind: EventKind, text: str, **more: Any) -> None:
    """An event of this memory, as another process logs it."""
    settings = screen.search.service.settings
    with closing(EventLog(settings.data_dir / EVENTS_FILE)) as log:
        log.add(kind, text, agent=settings.agent, workspace=str(settings.workspace), **more)


async def test_failed_searches_and_other_processes_reach_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presenter, "EVENTS_EVERY_S", 0.02)
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        before = len(screen.presenter.state.events)
        add_event(screen, "search-failed", "A search failed.")
        await until(pilot, lambda: len(screen.presenter.state.events) > before)
        assert "A search failed." in screen.events.text


async def test_a_row_of_an_event_says_how_it_ended_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presenter, "EVENTS_EVERY_S", 0.02)
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        add, before = partial(add_event, screen), len(screen.presenter.state.events)
        why = "The index is damaged. `openclaw-mem doctor --fix` repairs it."
        add("sync", "1 file new or modified.", counts={"changed": 1, "cacheHits": 2, "withoutText": 3})
        add("sync", "The sync failed.", counts={"failed": 1}, reason=why)
        add("search-failed", "A search failed.", reason=why)
        for errors, warnings in (2, 1), (0, 1), (0, 0):
            text = f"{errors} errors, {warnings} warnings."
            add("doctor", text, counts={"errors": errors, "warnings": warnings, "infos": 1}, reason="a-code")
        await until(pilot, lambda: len(screen.presenter.state.events) == before + 6)
        await settled(pilot)
        rows = " ".join(screen.events.text.split())
        assert "! doctor 0 errors, 1 warnings." in rows and "✗ doctor 2 errors" in rows
        assert "i doctor 0 errors, 0 warnings." in rows, "only what it found is bad"
        assert "A search failed. The index is damaged." in rows
        assert "The sync failed. The index is damaged." in rows and "repairs it" not in rows
        await press(pilot, "tab", "tab", "f", *"file new or", "enter")
        assert "from the cache 2" in screen.detail.text and "without text 3" in screen.detail.text
        await press(pilot, "escape", "4", "f", *"sync failed", "enter")
        timeline = pilot.app.screen
        assert isinstance(timeline, TimelineScreen) and "damaged" in timeline.events.text


async def test_starts_and_stops_of_the_watcher_take_one_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presenter, "EVENTS_EVERY_S", 0.02)
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        before = len(screen.presenter.state.events)

        async def add(*events: str) -> None:
            for text in events:
                kind: EventKind = "watch" if text.startswith("Watching") else "search-failed"
                add_event(screen, kind, text)
            many = len(screen.presenter.state.events) + len(events)
            await until(pilot, lambda: len(screen.presenter.state.events) == many)
            await settled(pilot)

        started, stopped = "Watching for changes.", "Watching stopped."
        await add(*(started, stopped) * 3, "A search failed.", started)
        rows = screen.events.text.splitlines()
        assert "watch  Watching for changes." in rows[0], "alone"
        assert "A search failed." in rows[1] and "watch ×6  Watching stopped." in rows[2]
        assert "watch" not in "".join(rows[3:])
        assert f"events · {screen.events.counted[1]} " in f"{frame(screen.events)} ", (
            "rows, as a filter counts"
        )
        assert screen.events.counted[1] < before + 8
        await press(pilot, "tab", "tab", "j", "j")
        drawn = screen.detail.text
        assert drawn.count("Watching for changes.") == drawn.count("Watching stopped.") == 3
        await press(pilot, "f", *"watching changes", "enter")
        rows = screen.events.text.splitlines()
        assert len(rows) == 2 and "watch ×6  Watching stopped." in rows[1], "each text of a row is searched"
        await press(pilot, "escape")
        assert screen.events.cursor == 2
        await press(pilot, "k", "k")
        await add(stopped)
        assert "watch ×2  Watching stopped." in screen.events.text
        assert screen.events.cursor == 0 and "Watching stopped." in screen.detail.text


# -- getting about ------------------------------------------------------------------------------------------


async def test_files_are_ordered_found_and_drawn_when_they_are_in_sight(tmp_path: Path) -> None:
    """Rows are drawn when they are in sight: never all of them, also when the cursor jumps."""
    from openclaw_mem_tui.render.spans import Line, Span

    async with opened(unwatched(tmp_path)) as (pilot, screen):
        await press(pilot, "j", "j")
        chosen = screen.files.selected
        assert chosen is not None
        orders = []
        for _ in range(5):
            await press(pilot, "v")
            assert screen.files.selected is not None and screen.files.selected.path == chosen.path
            orders.append(screen.presenter.state.order)
        assert orders == ["path", "size", "chunks", "newest", "state"]
        await press(pilot, "v", "v", "g")
        sizes = [row.size or 0 for row in screen.presenter.state.files]
        assert sizes == sorted(sizes, reverse=True)
        await press(pilot, "slash", *"2026-02-1", "enter")
        assert screen.files.selected is not None and "2026-02-1" in screen.files.selected.path
        await press(pilot, "escape")

        drawn: list[str] = []
        rows = [replace(screen.presenter.state.files[0], path=str(number)) for number in range(100_000)]

        def row(file: FileRow, cells: int, chosen: bool) -> Line:
            drawn.append(file.path)
            return (Span(f"{file.path} {cells} {chosen}"),)

        table = screen.files
        table.show_rows(rows, row)
        await settled(pilot)
        assert 0 < len(drawn) < 200
        await press(pilot, "G")
        assert table.cursor == 99_999 and len(drawn) < 500
        assert table.render_line(table.size.height - 1).text.startswith("99999")


async def test_enter_on_a_finding_leads_to_what_it_is_about(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path), SMALL) as (pilot, screen):
        await press(pilot, "tab")
        at = screen.presenter.state.findings
        findings = {item.code: number for number, item in enumerate(at) if isinstance(item, Finding)}

        async def choose(code: str) -> None:
            screen.go_to(screen.doctor)
            screen.doctor.action_go(findings[code] - screen.doctor.cursor)
            await press(pilot, "enter")

        assert "enter open" in screen.query_one(KeyBar).text
        await choose("flush-missed")
        assert isinstance(pilot.app.screen, TimelineScreen), "its command is one of another screen"
        await press(pilot, "3")
        screen.go_to(screen.doctor)
        screen.doctor.action_go(findings["unshown"] - screen.doctor.cursor)
        await settled(pilot)
        rows = screen.doctor.content_size.height
        assert rows == len(screen.doctor.text.splitlines()), "no blank row above what is cut"
        assert screen.detail.size.height > rows
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ChunksScreen), "what it is about"
        assert pilot.app.screen.path == screen.files.selected.path  # type: ignore[union-attr]
        await press(pilot, "escape")
        named = at[findings["unshown"]]
        assert isinstance(named, Finding)
        assert screen.at is screen.files and screen.files.selected is not None
        assert named.evidence[0].startswith(screen.files.selected.path), "the first file that it names"
        assert "enter chunks" in screen.query_one(KeyBar).text
        broken = Finding("full-text-missing", "error", "x", fixable=True)
        screen.presenter.update(report=DoctorReport((broken,), (Check("index", "info", "can be opened"),)))
        screen.go_to(screen.doctor)
        screen.doctor.action_go(-9)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ConfirmScreen), "its repair is shown, and not done yet"
        await press(pilot, "escape")
        await press(pilot, "G", "enter")
        assert "index: can be opened" in pilot.app.screen.query_one(HelpText).text, "of other rows all text"


def test_a_check_with_a_finding_is_not_among_those_that_passed() -> None:
    checks = Check("leftovers", "info", "0 files", 1), Check("index", "info", "can be opened")
    finding = Finding("damaged-aside", "info", "A renamed damaged index is in the folder.")
    state = presenter.IndexState(report=DoctorReport((finding,), checks))
    assert state.findings == (finding, checks[1:])


async def test_one_column_shows_the_list_with_the_focus(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path), SMALL) as (pilot, screen):
        assert screen.files.region and not screen.doctor.region and screen.detail.region
        await press(pilot, "tab")
        assert screen.doctor.region and not screen.files.region and screen.detail.region
        await press(pilot, "tab")
        assert screen.events.region and not screen.doctor.region
        await press(pilot, "tab")
        for size in (LARGE, (60, 16), (40, 10), (200, 50), SMALL):
            await pilot.resize_terminal(*size)
            await settled(pilot)
            assert screen.files.region.height > 1


async def test_a_new_size_is_taken_on_a_machine_that_stops_the_process_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size waits for a timer, whose delay is over before it is waited for."""
    steps = itertools.count(step=0.05)

    def interrupted() -> float:
        task = asyncio.current_task()
        return now + next(steps) if task and task.get_name().startswith("set_timer#") else time.monotonic()

    async with opened(unwatched(tmp_path), SMALL) as (pilot, screen):
        now = time.monotonic()
        monkeypatch.setattr(_time, "get_time", interrupted)
        await pilot.resize_terminal(*LARGE)
        await settled(pilot)
        assert screen.size == LARGE


def test_failed_checks_differ_by_severity_in_more_than_colour() -> None:
    for severity, mark in (("error", "✗"), ("warning", "!")):
        found = Outcome()
        found.add("code", severity, "Something.")  # type: ignore[arg-type]
        check = found.check("files")
        assert not check.ok and text_of(item_rows(check, 60, False)[0]).startswith(f"  {mark} files")
        assert f"{mark} {severity}" in text_of(item_detail(check, 60)[0])
    assert not Outcome().check("files", ok=False).ok, "it could not be done"
    assert Outcome().check("files").to_dict() == {"name": "files", "ok": True, "detail": ""}


def test_a_fact_is_one_row_of_the_doctor() -> None:
    found, passed, failed = Outcome(), Outcome(), Outcome()
    found.add("unshown", "warning", "28% of your notes' text can never appear in a search result.")
    checks = (found.check("snippets"), passed.check("facts"), failed.check("chunks", ok=False))
    report = DoctorReport(tuple(found.findings), checks)
    assert [check.ok for check in checks] == [False, True, False]
    state = presenter.IndexState(report=report)
    assert state.findings == (*found.findings, checks[2], (checks[1],))


async def test_a_page_of_a_list_is_what_is_in_sight(tmp_path: Path) -> None:
    async with opened(world.workbench(tmp_path, initial_query="heron")) as (pilot, screen):
        height = screen.files.size.height - 1  # below the titles
        await press(pilot, "pagedown")
        assert screen.files.cursor == height > 10
        await press(pilot, "ctrl+u")
        assert screen.files.cursor == height - height // 2
        await press(pilot, "ctrl+b")
        assert screen.files.cursor == 0
