"""The index screen with real keys over a real index: files, chunks, doctor, what happened."""

from __future__ import annotations

import asyncio
import itertools
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import apsw
import lab_world as world
import pytest
from lab_world import LARGE, SMALL, first_index, lab, make, press, settled, until
from textual import _time
from textual.pilot import Pilot

from openclaw_mem_engine.api import FileRow, IndexDamaged
from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.commands import choose
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.state.events import EVENTS_FILE, EventLog
from openclaw_mem_engine.stores.findings import Check, DoctorReport, Finding, Outcome
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index import presenter
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.render import summary
from openclaw_mem_tui.features.index.render.doctor import item_detail, item_rows
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.providers.screen import ProvidersScreen
from openclaw_mem_tui.features.timeline.screen import TimelineScreen
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.render.status import soundness
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen, HelpText
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Pane
from support import postgres
from support.damage import alter, indexed, looked, zero
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
            settings.index_name in facts and "of 480" in facts and "1 file · 1 chunk · 1 of 1 vector" in facts
        )
        assert screen.files.drawn and "MEMORY.md" in screen.files.text
        report = screen.presenter.state.report
        assert report is not None and {"server", "rows"} <= {check.name for check in report.checks}


async def test_facts_files_checks_and_events_of_a_fresh_index(tmp_path: Path) -> None:
    first = first_index(tmp_path, watch=False)
    async with opened(Workbench(first, initial_query="heron")) as (pilot, screen):
        facts = shown(screen, "#facts")
        assert "87 files · 102 chunks · 102 of 102 vectors" in facts and "fresh" in facts
        assert "chunk limit 400 tokens, overlap 80" in facts and "= matches the configuration" in facts
        assert screen.files.drawn and len(screen.files.drawn) == 87
        assert "MEMORY.md" in screen.files.text and "● up to date" in screen.files.text
        assert "doctor · [$warning]2 warnings" in str(screen.doctor.border_title)
        assert "✓ 19 checks passed" in screen.doctor.text
        long = Finding("x", "warning", "A finding that has a very long name of a file in it. And more.")
        cut = [text_of(row).rstrip() for row in item_rows(long, 23, False)]
        assert cut == ["  ! A finding that has", "    a very long name …"], "it is cut after a whole word"
        for cells, most in ((46, 2), (78, 1)):
            rows = [item_rows(item, cells, False) for item in screen.presenter.state.findings]
            assert max(map(len, rows)) == most and text_of(rows[0][-1]).endswith("4\xa0timeline")
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
        assert screen.doctor.has_focus and screen.detail.text.startswith("! warning 1 compaction ran")
        assert "finding · flush-missed" in str(screen.detail.border_title), "the name of the check"
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


async def test_changed_files_come_first_and_y_syncs_them(tmp_path: Path) -> None:
    first = first_index(tmp_path, watch=False)
    async with opened(Workbench(first, initial_query="heron")) as (pilot, screen):
        make.disturb(tmp_path)
        await press(pilot, "1", "3")
        rows = screen.files.text.splitlines()
        assert "MEMORY.md" in rows[0] and "modified +48 B" in rows[0]
        assert "modified −" in rows[1] and "− deleted" in rows[2] and "excluded" in rows[3]
        assert "stale since" in shown(screen, "#facts") and "3 files to sync (r)" in shown(screen, "#facts")
        assert "1 file excluded" in shown(screen, "#facts")
        assert "searches find the old text until the next sync" in " ".join(screen.detail.text.split())
        await press(pilot, "r")
        assert shown(screen, "#facts").splitlines()[-1].split() == "state partial · 1 file excluded".split()
        assert "to sync" not in shown(screen, "#facts")
        assert all("● up to date" in row for row in screen.files.text.splitlines()[1:])
        assert "excluded" in screen.files.text.splitlines()[0]
        assert "2 files modified, 1 deleted in" in shown(screen, "#status")
        assert screen.events.text.count("sync") == 2


async def test_a_change_that_the_watcher_sees_reaches_the_screen(tmp_path: Path) -> None:
    async with opened(world.workbench(tmp_path, own_notes=True, initial_query="heron")) as (pilot, screen):
        (notes(tmp_path) / "memory" / "seen.md").write_text("A heron came by itself.\n")

        def is_indexed() -> bool:
            rows = screen.files.text.splitlines()
            return any("memory/seen.md" in row and "● up to date" in row for row in rows)

        await until(pilot, is_indexed)
        assert "88 files" in shown(screen, "#facts")


async def test_failed_searches_and_other_processes_reach_the_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presenter, "EVENTS_EVERY_S", 0.02)
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        before = len(screen.presenter.state.events)
        settings = screen.search.service.settings
        # As another process does.
        log = EventLog(settings.data_dir / EVENTS_FILE)
        log.add("search-failed", "A search failed.", agent=settings.agent, workspace=str(settings.workspace))
        log.close()
        await until(pilot, lambda: len(screen.presenter.state.events) > before)
        assert "A search failed." in screen.events.text


# -- the doctor ---------------------------------------------------------------------------------------------


async def test_damage_is_found_shown_and_mended_after_a_look(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        with apsw.Connection(str(index)) as connection:
            connection.execute("DELETE FROM chunks_fts_stemmed WHERE rowid < 10")
        await press(pilot, "c")
        assert "error" in str(screen.doctor.border_title)
        await press(pilot, "tab")
        drawn = " ".join(screen.detail.text.split())
        assert (
            "✗ error" in drawn
            and "repair F repairs this locally" in drawn
            and "table chunks_fts_stemmed" in drawn
            and "openclaw-mem doctor --fix" in drawn
        )
        await press(pilot, "F")
        assert isinstance(pilot.app.screen, ConfirmScreen)
        assert "Notes are not changed" in pilot.app.screen.query_one("Pane").text  # type: ignore[attr-defined]
        await press(pilot, "escape")
        assert "error" in str(screen.doctor.border_title), "nothing is mended without a yes"
        await press(pilot, "tab", "tab", "enter")
        chunks = pilot.app.screen
        assert isinstance(chunks, ChunksScreen) and "✗ no" in chunks.pieces.text
        assert "keyword 0 of 7 · vector 7 of 7" in chunks.query_one("#status").text
        await press(pilot, "escape", "F", "enter")
        assert "doctor · [$warning]2 warnings" in str(screen.doctor.border_title)
        assert "repaired:" in shown(screen, "#status")
        assert "doctor" in screen.events.text.splitlines()[0]
        await press(pilot, "F")
        assert "nothing to repair" in shown(screen, "#status")


async def test_a_repair_that_drops_vectors_is_followed_by_a_sync_that_makes_them(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        with apsw.Connection(str(index)) as connection:
            connection.execute("UPDATE embedding_cache SET embedding = zeroblob(4) WHERE id < 5")
        await press(pilot, "c", "F", "enter")
        assert "4 vectors made; repaired:" in shown(screen, "#status")
        assert "fresh" in shown(screen, "#facts") and "vector (r)" not in shown(screen, "#facts")
        with apsw.Connection(str(index)) as connection:
            connection.execute("DELETE FROM embedding_cache WHERE id < 7")
        await press(pilot, "c")
        await until(pilot, lambda: "partial" in shown(screen, "#facts"))
        facts = shown(screen, "#facts")
        assert "chunks without vector (r)" in facts and "fresh" not in facts
        await press(pilot, "r")
        await until(pilot, lambda: "fresh" in shown(screen, "#facts"))
        assert "vectors made" in shown(screen, "#status")


@pytest.mark.parametrize("pressed", ["r", "F"])
async def test_an_index_that_is_removed_meanwhile_is_empty_until_a_sync(tmp_path: Path, pressed: str) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        await press(pilot, "c")
        for part in index.parent.glob("main.sqlite*"):
            part.unlink()
        await until(pilot, lambda: "empty" in shown(screen, "#facts"))
        assert "fresh" not in shown(screen, "#facts") and "nothing" in shown(screen, "#facts")
        fresh = screen.search.activity.freshness
        assert fresh is not None and fresh.state == "empty", "the other screens say so too"
        await press(pilot, "c")
        assert "no index yet" in " ".join(screen.doctor.text.split())
        assert "no index" in (title := str(screen.doctor.border_title)) and "healthy" not in title
        assert "not indexed" in screen.files.text and "up to date" not in screen.files.text
        await press(pilot, pressed)
        await until(pilot, lambda: "fresh" in shown(screen, "#facts") and index.exists())
        await until(pilot, lambda: "no index yet" not in screen.doctor.text)


async def test_files_are_not_known_while_a_folder_is_at_the_path_of_the_index(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        index = next((tmp_path / "data").glob("indexes/*/main.sqlite"))
        assert "● up to date" in screen.files.text
        aside = index.rename(index.with_name("aside"))
        index.mkdir()
        await until(pilot, lambda: "? not known" in screen.files.text)
        screen.presenter.update(at=0.0)
        await press(pilot, "r")
        assert screen.presenter.state.at, "the events are of today also where the index cannot be read"
        failed = [row for row in screen.events.text.splitlines() if "sync failed" in row]
        assert failed and all("✗" in row and "●" not in row for row in failed)
        with pytest.raises(IndexUnavailable, match="is a folder"):
            await screen.search.service.read(lambda memory: memory.anatomy("MEMORY.md"))
        await press(pilot, "c")
        assert "up to date" not in screen.files.text and "matches disk" not in screen.detail.text
        keys = screen.query_one(KeyBar).text
        assert "R rebuild" not in keys and "V verify" not in keys and "r sync" in keys, "those need an index"
        facts = shown(screen, "#facts")
        assert "what can be read is not known" in facts and "vectors" not in facts and "fresh" not in facts
        await press(pilot, "exclamation_mark")
        assert "! shows why" in facts and "is a folder" in pilot.app.screen.query_one(HelpText).text
        await press(pilot, "escape")
        assert "✗ The path of the index is a folder" in screen.doctor.text
        screen.presenter.update(overview=None, files=())  # as where the screen is opened only now
        await press(pilot, "c")
        assert "is a folder, not an index: move it away" in " ".join(shown(screen, "#facts").split())
        assert "? not known" in str(screen.query_one("#files").border_title)
        for key, said in (("R", "the index cannot be read; r tries again"), ("enter", "no file is selected")):
            await press(pilot, key)
            assert said in shown(screen, "#status")
        index.rmdir()
        aside.rename(index)
        await press(pilot, "r")
        await until(pilot, lambda: "● up to date" in screen.files.text)


async def test_esc_stops_what_runs_and_then_leaves(tmp_path: Path) -> None:
    class Slow(make.SteadyMemory):  # type: ignore[misc, name-defined]
        held = False

        def sync(
            self,
            request: SyncRequest = DEFAULT_REQUEST,
            progress: Progress | None = None,
            cancel: CancelToken | None = None,
        ) -> SyncReport:
            end = time.monotonic() + make.HANGS_S
            while type(self).held and time.monotonic() < end:
                if progress is not None:
                    progress(3, 12, "memory/x.md")
                if cancel is not None and cancel.is_set():
                    break
                time.sleep(0.005)
            report: SyncReport = super().sync(request, progress, cancel)
            return report

    async with opened(unwatched(tmp_path, Slow)) as (pilot, screen):
        Slow.held = True
        (notes(tmp_path) / "MEMORY.md").write_text("Other.\n")
        await pilot.press("r")
        await until(pilot, lambda: "sync 3 of 12" in shown(screen, "#status"))
        status = shown(screen, "#status")
        assert "sync 3 of 12" in status and "esc stops" in status
        await pilot.press("c")
        await pilot.pause(0.05)
        assert "esc stops" in shown(screen, "#status"), "the doctor waits for no sync, and does not join in"
        await press(pilot, "escape")
        assert "Indexing was stopped; the index holds" in shown(screen, "#status")
        Slow.held = False
        assert pilot.app.screen is screen
        await press(pilot, "escape")
        assert pilot.app.screen is lab(pilot.app)  # type: ignore[arg-type]


# -- rebuilding and verifying -------------------------------------------------------------------------------


# -- chunks -------------------------------------------------------------------------------------------------


async def test_chunks_are_drawn_screens_lead_to_each_other_and_a_rebuild_is_shown_before(
    tmp_path: Path,
) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        await press(pilot, "enter")
        chunks = pilot.app.screen
        assert isinstance(chunks, ChunksScreen)
        assert chunks.anatomy is not None and len(chunks.pieces.drawn) == 7
        assert "the index holds this text" in chunks.query_one("#cut").text  # type: ignore[attr-defined]
        text = chunks.text.text
        hidden = [row for row in text.splitlines() if row[3:].lstrip("0123456789 ").startswith("┊ ")]
        assert hidden and len(chunks.anatomy.hidden) == chunks.anatomy.unshown.hidden_lines
        cut = " ".join(chunks.query_one("#cut").text.split())  # type: ignore[attr-defined]
        assert "┊ 39 % of this file can never appear in a search result: snippets end " in cut
        assert cut.endswith("snippets end after 700 characters"), "as the doctor says"
        assert text.startswith("┏━ chunk 1 · lines 1–25") and "\n └ end of chunk 2" in text
        await press(pilot, "j")
        text = chunks.text.text
        assert "┏━ chunk 2 · lines 20–41 · overlaps 1 by 89, 3 by 93 tokens" in text
        assert "\n┃└ end of chunk 1" in text, "the bar of the selected one goes on"
        shared = [row for row in text.splitlines() if row.startswith("┃│") and row[2:].split()[0].isdigit()]
        assert len(shared) == 6 + chunks.anatomy.pieces[2].shared
        status = chunks.query_one("#status", Pane)
        assert "chunk 2 of 7 · 391 tokens" in status.text
        await press(pilot, "y")
        assert pilot.app.clipboard == f"{chunks.path}:20" and f"copied {chunks.path}:20" in status.text
        await press(pilot, "p")
        assert "p does nothing here; on 1 lab: open the knob panel" in status.text
        await press(pilot, "J")
        assert "chunk 2 of 7 · 391 tokens" in status.text
        facts = " ".join(chunks.facts.text.split())
        assert "391 tokens in 22 lines (limit 400) repeats 89 tokens of chunk 1; chunk 3 repeats 93" in facts
        assert "93 of these (overlap 80, in whole lines)" in facts
        assert "begins within MEMORY › Projects sections 3 begin in it: Network (" in facts
        assert "not shown 7 of 19 non-blank lines, in whole or part found by BM25 and vectors" in facts
        await press(pilot, "G")
        facts = " ".join(chunks.facts.text.split())
        assert "151 tokens in 37 lines (limit 400) 204 is the empty text after the last line end" in facts
        await press(pilot, "G", "escape")
        assert isinstance(pilot.app.screen, IndexScreen)

        await press(pilot, "2")
        assert isinstance(pilot.app.screen, ProvidersScreen) and len(pilot.app.screen_stack) == 2
        await press(pilot, "3", "enter")
        assert isinstance(pilot.app.screen, ChunksScreen) and len(pilot.app.screen_stack) == 3
        await press(pilot, "1")
        assert isinstance(pilot.app, Workbench)
        assert pilot.app.screen is lab(pilot.app) and len(pilot.app.screen_stack) == 1
        await press(pilot, "3")
        assert pilot.app.screen is screen
        await pilot.press("question_mark")
        await pilot.pause()
        assert isinstance(pilot.app.screen, HelpScreen)
        drawn = pilot.app.screen.query_one("#help-rows").text
        legend = pilot.app.screen.query_one("#help-legend").text
        assert "rebuild the index" in drawn and "index matches disk" in legend and "knob" not in drawn
        await pilot.press("escape")
        await pilot.pause()
        titles = [choice.title for choice in pilot.app.commands(screen)]
        assert (
            "Sync now" in titles
            and "Filter the list by words; esc clears it" in titles
            and "Down the list" not in titles
        )

        before = screen.presenter.state.overview
        assert before is not None
        await press(pilot, "R")
        assert isinstance(pilot.app.screen, ConfirmScreen)
        plan = pilot.app.screen.query_one("Pane").text
        assert "87 files are read again, and a new index is built from 102 chunks" in plan
        assert "0 texts to embed, 102 from the cache" in plan and "; no text leaves this machine" in plan
        await press(pilot, "escape")
        assert "rebuild" not in screen.events.text
        await press(pilot, "R", "enter")
        assert "rebuilt with 87 files" in shown(screen, "#status")
        assert "rebuild" in screen.events.text.splitlines()[0]
        after = screen.presenter.state.overview
        assert after is not None and after.freshness.generation > before.freshness.generation
        assert after.counts == before.counts
        await press(pilot, "1")
        assert lab(pilot.app).search.view.answers


async def test_notes_of_an_emptied_workspace_are_kept_until_they_are_forgotten_on_purpose(
    tmp_path: Path,
) -> None:
    choose({"workspace": "/n"})
    try:
        async with opened(unwatched(tmp_path)) as (pilot, screen):
            keys = screen.query_one("#keys")
            assert "drop gone" not in keys.text  # type: ignore[attr-defined]
            (notes(tmp_path)).rename(tmp_path / "away")
            notes(tmp_path).mkdir()
            await press(pilot, "1", "r")
            said = lab(pilot.app).notes.text  # type: ignore[arg-type]
            assert "P on screen 3: The index is stale: the workspace holds no notes any more" in said
            await press(pilot, "3")
            facts = " ".join(shown(screen, "#facts").split())
            assert "kept (P drops it): the workspace holds no notes any more" in facts
            assert "drop gone" in keys.text  # type: ignore[attr-defined]
            await press(pilot, "P")
            assert isinstance(pilot.app.screen, ConfirmScreen)
            assert "87 files with 102 chunks are removed" in pilot.app.screen.query_one("Pane").text  # type: ignore[attr-defined]
            await press(pilot, "escape")
            assert "87 files · 102 chunks" in shown(screen, "#facts")
            await press(pilot, "P", "enter")
            assert "0 files · 0 chunks" in shown(screen, "#facts")
            assert "87 deleted" in shown(screen, "#status")
            await press(pilot, "P")
            assert pilot.app.screen is screen and "nothing to drop: a sync" in shown(screen, "#status")
    finally:
        choose({})


async def test_chunks_of_a_file_that_changes_are_read_again(tmp_path: Path) -> None:
    async with opened(world.workbench(tmp_path, own_notes=True, initial_query="heron")) as (pilot, _):
        await press(pilot, "enter", "G")
        screen = pilot.app.screen
        assert isinstance(screen, ChunksScreen) and screen.anatomy is not None
        (notes(tmp_path) / "MEMORY.md").write_text("One short line.\n")
        await until(
            pilot, lambda: len(screen.anatomy.pieces) == 1 and screen.search.activity.phase == "ready"
        )
        await settled(pilot)
        assert len(screen.pieces.drawn) == 1 and "One short line." in screen.text.text
        assert "the index holds this text" in screen.query_one("#cut").text  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_hostile_names_and_text_are_inert(tmp_path: Path, size: tuple[int, int]) -> None:
    app = unwatched(tmp_path)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        evil = notes(tmp_path) / "memory" / "evil [bold]x [red [$foo \x1b[31m\u202e\n.md"
        evil.write_text("# [red]markup[/red] \x1b[2J \u202e\x07 " + "long " * 2_000 + "\n\x9b31m\n")
        await press(pilot, "3", "r", "slash", *"evil", "enter")
        screen = index_screen(app)
        seen = screen.files.text + screen.detail.text + screen.events.text
        svg = app.export_screenshot(simplify=True)
        await press(pilot, "enter")
        assert isinstance(app.screen, ChunksScreen)
        seen += app.screen.text.text + app.screen.pieces.text
        svg += app.export_screenshot(simplify=True)
        assert "[bold]x [red [$foo" in seen and "[red]markup[/red]" in seen
        titles = [row for row in make.text_of(app.export_screenshot(simplify=True)) if "chunks of" in row]
        assert any("[$foo" in row for row in titles), "a frame's title is read as markup by Textual"
        for bad in ("\x1b", "\u202e", "\x07", "\x9b"):
            assert bad not in seen and bad not in svg


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
        await choose("never-shown")
        named = at[findings["never-shown"]]
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
    checks = Check("left-overs", "info", "0 files", 1), Check("index", "info", "can be opened")
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


def damaged_at_once(index: Path) -> None:
    index.write_bytes(b"nothing of the kind" * 500)


def damaged_pages(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data[:8192] + b"\xa5" * (len(data) - 8192))


async def test_damage_that_no_query_met_is_known_from_the_start(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    zero("chunks", settings)
    app = Workbench(lambda faults: Memory.open(settings, resident=True, faults=faults))
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: lab(app).search.activity.damage is not None)
        await settled(pilot)
        screen = lab(app)
        assert "The index is damaged" in screen.hits.text and "F on screen 3 repairs" in screen.hits.text
        screen.search.ask("zzyzx")
        await screen.search.search(0.0)
        await settled(pilot)
        bottom = screen.query_one("#status").text  # type: ignore[attr-defined]
        assert "damaged · F on screen 3 repairs" in bottom and "fresh" not in bottom
        assert "The index is damaged: notes that match may be missing." in screen.hits.text
        assert "no passage" not in screen.hits.text
        await press(pilot, "escape", "r")  # which has nothing to sync
        assert screen.search.activity.said == "the index is damaged: F on screen 3 repairs it"


async def test_damaged_vectors_are_said_once_and_repaired_with_the_key_that_is_named(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    alter(settings, "UPDATE embedding_cache SET embedding = zeroblob(length(embedding)) WHERE id = 1")
    app = Workbench(
        lambda faults: Memory.open(settings, resident=True, faults=faults), initial_query="lives near"
    )
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: lab(app).search.activity.damage is not None)
        await settled(pilot)
        screen = lab(app)
        assert " ".join(screen.notes.text.split()).count("cannot all be read") == 1
        assert "F on screen 3" in screen.notes.text and "R" not in screen.notes.text.partition(":")[0]
        await press(pilot, "j")
        assert screen.hits.cursor == 1
        await press(pilot, "3", "c", "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await press(pilot, "enter")
        await until(pilot, lambda: lab(app).search.activity.damage is None)
        await press(pilot, "1")
        assert (screen.hits.cursor, screen.hits.scroll_offset.y) == (0, 0), "the first hits are new"
        assert "fresh" in screen.query_one("#status").text  # type: ignore[attr-defined]


@pytest.mark.parametrize("damage", [damaged_at_once, damaged_pages])
async def test_a_damaged_index_is_rebuilt_from_here(damage: Callable[[Path], None], tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    damage(settings.index_path)
    app = Workbench(lambda faults: Memory.open(settings, resident=True, faults=faults))
    async with app.run_test(size=LARGE) as pilot:
        await until(pilot, lambda: lab(app).search.activity.trouble != "")
        await pilot.press("escape", "3")
        await until(pilot, lambda: isinstance(app.screen, IndexScreen))
        if damage is damaged_at_once:
            nothing = " ".join(index_screen(app).doctor.text.split())
            assert nothing == "The index cannot be opened: there is nothing to check."
            said = " ".join(shown(index_screen(app), "#facts").split())
            assert "F repairs it" in said and "openclaw-mem" not in said.partition("File:")[0]
        bottom = index_screen(app).query_one(KeyBar).text
        assert "F repair" in bottom and "sync" not in bottom and "rebuild" not in bottom
        await press(pilot, "c", "R")
        assert "reading the index" not in shown(index_screen(app), "#status")
        assert "is damaged" in shown(index_screen(app), "#facts")
        await pilot.press("F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("enter")
        await until(pilot, lambda: settings.index_path.with_name("main.sqlite.damaged").exists())
        await until(pilot, lambda: lab(app).search.activity.phase == "ready")
        await settled(pilot)
        assert "cannot be opened" not in index_screen(app).doctor.text
    assert looked(settings, deep=True).errors == 0


async def test_the_key_of_repairs_rebuilds_an_index_that_the_checks_found_damaged(tmp_path: Path) -> None:
    app = unwatched(tmp_path)
    async with opened(app) as (pilot, screen):
        await press(pilot, "c")
        app.search.say("")
        await press(pilot, "exclamation_mark")
        drawn = app.screen.query_one(HelpText).text
        assert "MEMORY.md" in drawn and "no messages" not in drawn and drawn.splitlines()[-1].strip()
        await press(pilot, "escape", "1", "exclamation_mark")
        drawn = app.screen.query_one(HelpText).text
        assert drawn.startswith(" answer ") and "MEMORY.md" not in drawn, "those of this screen"
        await press(pilot, "escape", "3")
        app.search.say("the index is up to date")
        await settled(pilot)
        assert "up to date" in shown(screen, "#status")
        app.search.sync.update(damage=IndexDamaged("The index is damaged."))
        await press(pilot, "r")
        assert app.search.activity.damage is None, "another process may have repaired it"
        assert "the index is up to date" in shown(screen, "#status")
        damaged_pages(index := app.search.service.settings.index_path)
        await press(pilot, "c")
        assert "up to date" not in shown(screen, "#status"), "that was before"
        bottom = screen.query_one(KeyBar).text
        assert "F repair" in bottom and not {"sync", "rebuild", "verify"} & set(bottom.split())
        for refused in ("R", "P", "V", "r"):
            app.search.say("")
            screen.presenter.say("")
            await press(pilot, refused)
            assert "the index is damaged: F repairs it" in shown(screen, "#status"), refused
        report = screen.presenter.state.report
        assert report is not None and "damaged" in {finding.code for finding in report.findings}
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        assert app.screen._box.border_title == "repair the index"  # type: ignore[attr-defined]
        plan = " ".join(app.screen.query_one("Pane").text.split())  # type: ignore[attr-defined]
        assert "The damaged file is kept beside it; you can delete it then." in plan
        await press(pilot, "enter")
        await until(pilot, lambda: index.with_name("main.sqlite.damaged").exists())
        await until(pilot, lambda: app.search.activity.damage is None)
        await settled(pilot)
        assert "main.sqlite.damaged is kept, you can delete it" in shown(screen, "#status")


async def test_an_index_that_cannot_be_opened_says_so_here_too(tmp_path: Path) -> None:
    app = Workbench(world.failing(IndexUnavailable("The index is locked by a test.")))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "3", "c", "F", "R", "enter", "r")
        screen = index_screen(app)
        assert "locked by a test" in shown(screen, "#facts")
        assert "chunks" not in str(screen.query_one("#files").border_subtitle), "there is no file"
        assert "check" not in str(screen.doctor.border_subtitle).replace("not checked", "")
        assert "r tries again" in shown(screen, "#status")


async def test_the_log_and_the_checks_are_read_where_the_index_cannot_be_opened(tmp_path: Path) -> None:
    note = {"MEMORY.md": "- the gateway is gull\n"}
    settings = settings_for(
        write_notes(tmp_path / "ws", note), tmp_path / "home", OPENCLAW_MEM_PROVIDER="none"
    )
    with Memory.open(settings) as memory:
        memory.sync()
    aside = settings.index_path.rename(tmp_path / "aside")
    settings.index_path.mkdir()
    app = Workbench(lambda _: Memory.open(settings), initial_query="gull", reload=lambda: settings)
    async with opened(app) as (pilot, screen):
        await until(pilot, lambda: "is a folder, not an index" in " ".join(screen.doctor.text.split()))
        assert "checks passed" in screen.doctor.text and "sync" in screen.events.text
        await press(pilot, "tab")
        keys = screen.query_one(KeyBar).text
        assert "c check" in keys and "R rebuild" not in keys and "V verify" not in keys and "F" not in keys
        await press(pilot, "C", "4")
        timeline = pilot.app.screen
        assert isinstance(timeline, TimelineScreen)
        await until(pilot, lambda: "1 file new or modified" in timeline.events.text)
        settings.index_path.rmdir()
        aside.rename(settings.index_path)
        await press(pilot, "3", "r")
        await until(pilot, lambda: "healthy" in str(screen.doctor.border_title))


def test_failed_checks_differ_by_severity_in_more_than_colour() -> None:
    for severity, mark in (("error", "✗"), ("warning", "!")):
        found = Outcome()
        found.add("code", severity, "Something.")  # type: ignore[arg-type]
        check = found.check("files")
        assert not check.ok and text_of(item_rows(check, 60, False)[0]).startswith(f"  {mark} files")
        assert f"{mark} {severity}" in text_of(item_detail(check, 60)[0])
    assert not Outcome().check("files", ok=False).ok, "it could not be done"
    assert Outcome().check("files").to_dict() == {"name": "files", "ok": True, "detail": ""}


async def test_damage_while_it_runs_is_said_everywhere_until_a_rebuild(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        await press(pilot, "c")
        assert "✓" in screen.doctor.text and "healthy" not in str(screen.doctor.border_title)
        clean = screen.presenter.state.report
        assert clean is not None and not clean.errors and "● up to date" in screen.files.text
        # Every page behind the first two, as a failing disk leaves them. Then a commit, after which SQLite
        # uses none of the pages that it keeps in memory.
        index = screen.search.service.settings.index_path
        with index.open("r+b") as file:
            file.seek(32_768)
            file.write(b"\xa5" * (index.stat().st_size - 32_768))
        with closing(apsw.Connection(str(index))) as other:
            other.pragma("user_version", 1)
        await press(pilot, "1")
        lab(pilot.app).search.ask("badger orchard")  # type: ignore[arg-type]
        await lab(pilot.app).search.search(0.0)  # type: ignore[arg-type]
        activity = lab(pilot.app).search.activity  # type: ignore[arg-type]
        assert lab(pilot.app).search.view.error and activity.damage is not None  # type: ignore[arg-type]
        await settled(pilot)
        bottom = lab(pilot.app).query_one("#status").text  # type: ignore[arg-type, attr-defined]
        assert (
            "✗ no answer" in bottom and "damaged · F on screen 3 repairs" in bottom and "fresh" not in bottom
        )
        lab(pilot.app).search.trouble(lab(pilot.app).search.view.error)  # type: ignore[arg-type]
        drawn = soundness(lab(pilot.app).search.view, lab(pilot.app).search.activity, 120)  # type: ignore[arg-type]
        assert sum("The index is damaged." in text_of(row) for row in drawn) == 1, "the same message once"
        await press(pilot, "3")
        facts = shown(screen, "#facts")
        assert "✗ damaged · F repairs" in facts and "fresh" not in facts
        assert "recorded · what can be read is not known" in facts and "vectors" not in facts
        assert "up to date" not in screen.files.text and "? not known" in screen.files.text
        detail = " ".join(screen.detail.text.split())
        assert "matches disk" not in detail and "the index is damaged" in detail
        if screen.presenter.state.report is clean:
            assert "before the damage" in str(screen.doctor.border_title)
        await press(pilot, "c")
        assert "error" in str(screen.doctor.border_title)
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        plan = " ".join(pilot.app.screen.query_one("Pane").text.split())  # type: ignore[attr-defined]
        assert "made on this machine, free of charge" in plan and "unknown" not in plan
        await press(pilot, "enter")
        await until(pilot, lambda: lab(pilot.app).search.activity.damage is None)  # type: ignore[arg-type]
        await settled(pilot)
        assert "● up to date" in screen.files.text and "damaged" not in shown(screen, "#facts")


def test_a_fact_is_one_row_of_the_doctor() -> None:
    found, passed, failed = Outcome(), Outcome(), Outcome()
    found.add("never-shown", "warning", "28 % of your notes' text can never appear in a search result.")
    checks = (found.check("snippets"), passed.check("facts"), failed.check("chunks", ok=False))
    report = DoctorReport(tuple(found.findings), checks)
    assert [check.ok for check in checks] == [False, True, False]
    state = presenter.IndexState(report=report)
    assert state.findings == (*found.findings, checks[2], (checks[1],))
