"""A damaged index on the index screen: what is said, and the rebuild."""

from __future__ import annotations

import asyncio
from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, held, press, settled, until
from test_tui_index import index_screen, opened, shown, unwatched
from test_tui_index_damage import damaged_pages
from test_tui_remember import running

from openclaw_mem_engine.api import IndexDamaged
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index.render import summary
from openclaw_mem_tui.features.timeline.screen import TimelineScreen
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen, HelpText
from openclaw_mem_tui.widgets.edges import KeyBar
from support.memories import settings_for, write_notes


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
        app.search.say("no note changed")
        await settled(pilot)
        assert "no note changed" in shown(screen, "#status")
        app.search.sync.update(damage=IndexDamaged("The index is damaged."))
        await press(pilot, "r")
        assert app.search.activity.damage is None, "another process may have repaired it"
        assert "no note changed" in shown(screen, "#status"), "it has read none"
        damaged_pages(index := app.search.service.settings.index_path)
        await press(pilot, "c")
        assert "no note changed" not in shown(screen, "#status"), "that was before"
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
        assert "is kept beside it; you can delete it. At most 2 such files are kept." in plan
        await press(pilot, "enter")
        await until(pilot, lambda: index.with_name("main.sqlite.damaged").exists())
        await until(pilot, lambda: app.search.activity.damage is None)
        await settled(pilot)
        assert "main.sqlite.damaged is kept" in shown(screen, "#status")


async def test_an_index_that_cannot_be_opened_says_so_here_too(tmp_path: Path) -> None:
    app = Workbench(world.failing(IndexUnavailable("The index is locked by a test.")))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "3", "c", "F", "R", "enter", "r")
        screen = index_screen(app)
        assert "locked by a test" in shown(screen, "#facts")
        assert "chunks" not in str(screen.query_one("#files").border_subtitle), "there is no file"
        assert "check" not in str(screen.doctor.border_subtitle).replace("not checked", "")
        assert "r tries again" in shown(screen, "#status") and "r try again" in screen.query_one(KeyBar).text


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
        assert "checks without findings" in screen.doctor.text and "sync" in screen.events.text
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


async def test_what_is_said_while_a_sync_runs_is_shown_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as (pilot, screen):
        synced, controller = held(monkeypatch, screen.search.service, "sync"), screen.search.sync
        controller.say("before")
        sync = asyncio.create_task(controller.sync(Job(), quietly=True))
        await until(pilot, lambda: controller.state.phase == "syncing")
        controller.say("continued: the query")
        synced.set()
        await sync
        assert controller.state.said == "continued: the query"
        await controller.sync(Job(), quietly=True)
        assert controller.state.said == "continued: the query", "a sync without news leaves what was said"


def test_a_repair_without_readable_embeddings_says_that_all_texts_are_embedded() -> None:
    def said(readable: tuple[int, int], hosts: tuple[str, ...] = ()) -> str:
        return " ".join(" ".join(map(text_of, summary.repair_plan((), readable, hosts, 100))).split())

    none = "None of its embeddings can be read. All texts are embedded on this machine, free of charge."
    assert said((0, 31)).endswith(none)
    assert said((3, 31), ("api.x.com",)).endswith(" are kept. Texts without one are sent to api.x.com.")
