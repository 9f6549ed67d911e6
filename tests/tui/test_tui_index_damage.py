"""Damage of the index on its screen: found at the start, while it runs and by a check, and repaired."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
from lab_world import SMALL, frame, lab, press, settled, until
from test_tui_index import index_screen, opened, shown, unwatched

from openclaw_mem_engine.api import FileRow
from openclaw_mem_engine.errors import IndexDamaged
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.findings import DoctorReport, Finding, Outcome
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index import presenter
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.render.spans import Failed, text_of
from openclaw_mem_tui.render.status import soundness
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.line_view import Pane
from support.damage import alter, indexed, zero


def damaged_pages(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data[:8192] + b"\xa5" * (len(data) - 8192))


async def test_damage_that_no_query_met_is_known_from_the_start(tmp_path: Path) -> None:
    settings = indexed(tmp_path, provider="none")
    zero("unshown", settings)  # which no search reads
    app = Workbench(lambda faults: Memory.open(settings, resident=True, faults=faults))
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: lab(app).search.activity.damage is not None)
        await settled(pilot)
        screen = lab(app)
        assert "The index is damaged" in screen.hits.text and "  F repairs" in screen.hits.text
        screen.search.ask("zzyzx")
        await screen.search.search(0.0)
        await settled(pilot)
        bottom = screen.query_one("#status").text  # type: ignore[attr-defined]
        assert "damaged · F repairs" in bottom and "fresh" not in bottom
        assert "The index is damaged: notes that match may be missing." in screen.hits.text
        assert "no passage" not in screen.hits.text
        await press(pilot, "r")  # which has nothing to sync
        assert "the index is damaged: F repairs it" in screen.status_line.text
        await press(pilot, "i")
        assert "damaged · esc then F repairs" in screen.status_line.text
        assert "esc then F repairs" in screen.hits.text
        await press(pilot, "escape", "5", "F")
        assert isinstance(app.screen, ConfirmScreen), "from every screen"
        await press(pilot, "escape")
        assert app.screen is index_screen(app)


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
        assert " ".join(screen.notes.text.split()).count("The index is damaged") == 1
        assert screen.notes.text.startswith(" ✗ The index is damaged. F repairs it.")
        await press(pilot, "3", "c", "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await press(pilot, "enter")
        await until(pilot, lambda: lab(app).search.activity.damage is None)
        await press(pilot, "1")
        assert (screen.hits.cursor, screen.hits.scroll_offset.y) == (0, 0), "the first hits are new"
        assert "fresh" in screen.query_one("#status").text  # type: ignore[attr-defined]


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
        assert "✗ no answer" in bottom and "damaged · F repairs" in bottom and "fresh" not in bottom
        lab(pilot.app).search.trouble(lab(pilot.app).search.view.error)  # type: ignore[arg-type]
        drawn = soundness(lab(pilot.app).search.view, lab(pilot.app).search.activity, 120)  # type: ignore[arg-type]
        assert sum("The index is damaged." in text_of(row) for row in drawn) == 1, "the same message once"
        await press(pilot, "3")
        facts = shown(screen, "#facts")
        assert "✗ damaged (F repairs)" in facts and "fresh" not in facts
        assert "recorded · what can be read is not known" in facts and "vectors" not in facts
        assert "up to date" not in screen.files.text and "? not known" in screen.files.text
        detail = " ".join(screen.detail.text.split())
        assert "matches disk" not in detail and "not known: the index is damaged" in detail
        assert "has errors" not in detail and "cannot be read" not in detail, "one of the three"
        if screen.presenter.state.report is clean:
            assert "before the damage" in str(screen.doctor.border_title)
        await press(pilot, "c", "5")
        said = pilot.app.screen.query_one("#facts", Pane).text
        assert "are not known: the index is damaged; F repairs it." in " ".join(said.split())
        await press(pilot, "3")
        assert "error" in str(screen.doctor.border_title)
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        plan = " ".join(pilot.app.screen.query_one("Pane").text.split())  # type: ignore[attr-defined]
        assert "embedded on this machine, free of charge" in plan and "unknown" not in plan
        await press(pilot, "enter")
        await until(pilot, lambda: lab(pilot.app).search.activity.damage is None)  # type: ignore[arg-type]
        await settled(pilot)
        assert "● up to date" in screen.files.text and "damaged" not in shown(screen, "#facts")


async def test_no_file_is_up_to_date_in_an_index_with_errors(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        await press(pilot, "c")
        assert "● up to date" in screen.files.text and "recorded" not in shown(screen, "#facts")
        with closing(apsw.Connection(str(screen.search.service.settings.index_path))) as index:
            index.execute("DELETE FROM chunks WHERE path = 'MEMORY.md'")
        await press(pilot, "c")
        assert "error" in str(screen.doctor.border_title)
        assert "up to date" not in screen.files.text and "? not known" in screen.files.text
        assert "recorded · what can be read is not known" in shown(screen, "#facts")
        await press(pilot, "enter")
        assert "chunk" in frame(pilot.app.screen.query_one("#piece"))


def test_no_file_is_up_to_date_in_an_index_that_a_check_could_not_use() -> None:
    row = FileRow("MEMORY.md", "memory", "up-to-date", 1, 5, 5, 0.0)
    for code, doubtful in (("unavailable", {"MEMORY.md"}), ("disk-full", set[str]())):
        found = Outcome()
        found.add(code, "error", "The index could not be used: disk I/O error. File: /x")
        report = DoctorReport(tuple(found.findings), (found.check("index"),))
        assert presenter.IndexState(report=report, files=(row,)).doubtful(False) == doubtful, code


async def test_no_chunk_is_shown_as_found_over_a_damaged_index(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        await press(pilot, "enter")
        chunks = pilot.app.screen
        assert isinstance(chunks, ChunksScreen)
        cut = chunks.query_one("#cut", Pane)
        assert "● the index holds this text" in cut.text and "✓" in chunks.pieces.text
        screen.search.sync.take_damage(IndexDamaged("SQLite: database disk image is malformed."))
        await settled(pilot)
        assert cut.text.split()[:2] == ["✗", "SQLite:"] and "? not known" in frame(chunks.pieces)
        assert "✓" not in chunks.pieces.text and "found by" not in chunks.facts.text
        assert "# MEMORY" in chunks.text.text
        await press(pilot, "escape")
        assert "enter text" in screen.query_one(KeyBar).text


async def test_permissions_that_change_while_the_screen_is_open_are_checked_without_a_key(
    tmp_path: Path,
) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        await press(pilot, "c")
        assert "accessible to other users" not in screen.doctor.text
        screen.search.service.settings.index_path.chmod(0o644)
        await until(pilot, lambda: "accessible" in " ".join(screen.doctor.text.split()))


async def test_the_repair_of_permissions_names_the_files_and_ends_old_messages(tmp_path: Path) -> None:
    async with opened(unwatched(tmp_path)) as (pilot, screen):
        await press(pilot, "c")
        search, folder = screen.search, f"{tmp_path / 'data'} (d---------)"
        text = "Permission denied: data cannot be used."
        closed = Finding("no-access", "error", text, (folder,), "openclaw-mem doctor --fix", True)
        screen.presenter.update(report=DoctorReport((closed,), ()))
        search.say(Failed("the sync failed"))
        search.trouble("Unexpected PermissionError: data")
        await press(pilot, "F")
        assert isinstance(pilot.app.screen, ConfirmScreen)
        drawn = " ".join(pilot.app.screen.query_one(Pane).text.split())
        assert text in drawn and "The repair gives this user access to:" in drawn
        assert "(d---------)" in drawn
        await press(pilot, "enter")
        await until(pilot, lambda: "repaired: " in shown(screen, "#status"))
        await settled(pilot)
        assert (search.activity.said, search.activity.trouble) == ("", "")
