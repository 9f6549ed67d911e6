"""The workbench beside an index that is damaged when it starts: all that needs no index works, the rest says
what it waits for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import pytest
from lab_world import LARGE, SMALL, lab, press, settled, until
from test_tui_index import index_screen, shown

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite.repair import readable_embeddings
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.curate.screen import CurateScreen
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.providers.screen import ProvidersScreen
from openclaw_mem_tui.features.search.remembered import NOTHING
from openclaw_mem_tui.features.search.start_page import suggested
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen
from openclaw_mem_tui.widgets.edges import KeyBar, Top
from openclaw_mem_tui.widgets.line_view import Pane
from support.damage import alter, indexed, looked

WAITS = "the index is damaged: F repairs it"


def damaged_header(index: Path) -> None:
    index.write_bytes(b"\xa5" * 200 + index.read_bytes()[200:])


def damaged_middle(index: Path) -> None:
    """It can be opened; no search can read it."""
    data = index.read_bytes()
    index.write_bytes(data[:65_536] + b"\xa5" * (len(data) - 65_536))


def cut(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data[: len(data) // 2])


def workbench(settings: Settings, damage: Callable[[Path], None], query: str = "") -> Workbench:
    """The workbench on an index that is damaged before it starts; nothing watches the notes, which would sync
    again and again."""
    damage(settings.index_path)
    settings = replace(settings, sync=replace(settings.sync, watch=False))
    return Workbench(
        lambda faults: Memory.open(settings, resident=True, faults=faults),
        initial_query=query,
        reload=lambda: settings,
    )


def footer(app: Workbench) -> str:
    return app.screen.query_one(KeyBar).text


def status_of(app: Workbench) -> str:
    return app.screen.query_one("#status", Pane).text


@pytest.mark.parametrize("damage", [damaged_header, cut])
async def test_the_lab_offers_only_what_works(damage: Callable[[Path], None], tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    app = workbench(settings, damage)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        screen = lab(app)
        assert "The index cannot be opened." in screen.hits.text
        assert " F repairs it." in screen.hits.text and "esc then" not in screen.hits.text
        assert "tries again" not in screen.hits.text
        assert settings.workspace.name in app.screen.query_one(Top).text
        assert not {"search", "knobs", "history", "mode", "why"} & set(footer(app).split())
        assert "F repair" in footer(app) and "? help" in footer(app) and "q quit" in footer(app)
        for pressed in ("w", "W", "slash", "i", "p", "s", "less_than_sign", "full_stop", "r"):
            screen.search.say("")
            await press(pilot, pressed)
            assert WAITS in status_of(app), pressed
            assert app.screen is screen and not screen.knobs_open and not screen.query_line.has_focus
        assert screen.search.view.knobs == screen.search.view.defaults, "no knob is changed unseen"
        await press(pilot, "H")
        assert "H works only in the knob panel" in status_of(app)
        assert screen.hits.text.count("The index is damaged.") == 1 and "damaged" not in screen.notes.text
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await press(pilot, "escape", "escape")
        assert app.screen is screen
        await press(pilot, "q")
    assert app.return_code == 0


@pytest.mark.parametrize("damage", [damaged_header, damaged_middle])
async def test_the_key_that_is_named_works_at_once_and_a_query_that_is_typed_goes_on(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    settings = indexed(tmp_path)
    app = workbench(settings, damage)
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: app.search.activity.damage is not None)
        await settled(pilot)
        assert "F repairs" in lab(app).hits.text and "esc then" not in lab(app).hits.text
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
    app = workbench(settings, damage)
    async with app.run_test(size=SMALL) as pilot:
        lab(app).query_line.value = "F"  # typed before the index is opened
        lab(app).set_focus(lab(app).query_line)  # on a loaded machine it may have been opened before
        await until(pilot, lambda: app.search.activity.damage is not None)
        await settled(pilot)
        await press(pilot, "o", "x")
        drawn = " ".join(pane.text for pane in app.screen.query(Pane))
        assert lab(app).query_line.value == "Fox" and "esc then F repairs" in drawn
        await press(pilot, "escape", "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))


async def test_a_damaged_index_is_offered_no_query_and_what_continues_has_no_sign_of_failure(
    tmp_path: Path,
) -> None:
    settings = indexed(tmp_path)
    app = workbench(settings, lambda _: None)
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        assert "From your notes" in lab(app).hits.text
    app = workbench(settings, damaged_middle)
    app.search.remembered = replace(NOTHING, query="badger orchard")
    async with app.run_test(size=LARGE) as pilot:
        await until(pilot, lambda: app.search.activity.damage is not None)
        await settled(pilot)
        screen = lab(app)
        assert app.search.start_page.suggestions and "your notes" not in screen.hits.text
        assert "From what you left" in screen.hits.text and len(suggested(app.search)) == 1
        await press(pilot, "escape", "enter")
        await until(pilot, lambda: bool(screen.search.view.error))
        await settled(pilot)
        assert status_of(app).startswith(" ! continued: the query"), "the search failed, not this"


@pytest.mark.parametrize("damage", [damaged_header, damaged_middle])
async def test_providers_are_shown_and_a_fault_says_what_it_waits_for(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    app = workbench(indexed(tmp_path), damage)
    async with app.run_test(size=LARGE) as pilot:
        await until(pilot, lambda: app.search.activity.damage is not None)
        await press(pilot, "escape", "2")
        screen = app.screen
        assert isinstance(screen, ProvidersScreen)
        await until(pilot, lambda: "static" in screen.chain.text)
        await settled(pilot)
        assert "● active" in screen.chain.text and "BM25" in screen.chain.text
        assert "not known: the index is damaged" in screen.link_pane.text
        assert "0 of 0" not in screen.link_pane.text
        assert "embedding cache  not known: the index is damaged" in screen.query_one("#cache", Pane).text
        await press(pilot, "tab", "space")
        assert WAITS in status_of(app) and not app.search.view.faults
        assert "on/off" not in footer(app)
        await press(pilot, "tab", "r")
        await until(pilot, lambda: "static answered in" in status_of(app))


@pytest.mark.parametrize("damage", [damaged_header, damaged_middle])
async def test_notes_are_listed_shown_written_and_restored(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    settings = indexed(tmp_path)
    memory = settings.workspace / "MEMORY.md"
    before = memory.read_text()
    app = workbench(settings, damage)
    async with app.run_test(size=LARGE) as pilot:
        await until(pilot, lambda: app.search.activity.damage is not None)
        await press(pilot, "escape", "5")
        screen = app.screen
        assert isinstance(screen, CurateScreen)
        await until(pilot, lambda: "memory/network.md" in screen.files.text)
        await settled(pilot)
        said = " ".join(screen.query_one("#facts", Pane).text.split())
        assert said.count("the index is damaged; F repairs it.") == 1
        screen.go_to(screen.files)
        await settled(pilot)
        assert "The gateway runs on the ARM board." in screen.detail.text
        await press(pilot, "enter")
        chunks = app.screen
        assert isinstance(chunks, ChunksScreen)
        assert "The gateway runs on the ARM board." in chunks.text.text
        assert chunks.query_one("#cut", Pane).text.count("The index is damaged") <= 1
        await press(pilot, "escape", "M", *"prefers tea", "enter")
        await until(pilot, lambda: app.screen is screen)
        assert "remembered in" in status_of(app) and WAITS not in status_of(app)
        await press(pilot, "z")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await press(pilot, "enter")
        await until(pilot, lambda: app.screen is screen and "undone:" in status_of(app))
        assert memory.read_text() == before


@pytest.mark.parametrize("damage", [damaged_header, damaged_middle, cut])
async def test_a_repair_keeps_what_can_be_read_and_goes_on(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    settings = indexed(tmp_path)
    app = workbench(settings, damage, "badger orchard")
    async with app.run_test(size=LARGE) as pilot:
        await until(pilot, lambda: app.search.activity.damage is not None)
        await press(pilot, "escape", "3")
        await until(pilot, lambda: isinstance(app.screen, IndexScreen))
        await until(pilot, lambda: "error" in str(index_screen(app).doctor.border_title))
        await settled(pilot)
        assert "F repair" in footer(app) and not {"sync", "rebuild"} & set(footer(app).split())
        await press(pilot, "R")
        said = " ".join(shown(index_screen(app), "#facts").split())
        assert "is damaged" in said and "openclaw-mem" not in said.partition("File:")[0]
        drawn = " ".join(pane.text for pane in app.screen.query(Pane))
        assert "up to date" not in drawn and "fresh" not in drawn
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        plan = " ".join(app.screen.query_one(Pane).text.split())
        counted = readable_embeddings(settings.index_path)
        assert counted is not None
        count, held = counted
        many = f"All {count}" if count == held else f"{count} of {held}" if held else str(count)
        said = (
            f"{many} embeddings can be read and are kept" if count else "None of its embeddings can be read"
        )
        assert said in plan and "free of charge" in plan
        await press(pilot, "enter")
        await until(pilot, lambda: settings.index_path.with_name("main.sqlite.damaged").exists())
        await until(pilot, lambda: app.search.activity.phase == "ready" and not app.search.activity.damage)
        await until(pilot, lambda: "main.sqlite.damaged is kept" in status_of(app))
        assert app.screen is index_screen(app), "the same screen"
        with Memory.open(settings) as memory:
            made = memory.status().chunks - count
        assert f"{count} embeddings reused, {made} made" in status_of(app)
        await press(pilot, "1")
        await until(pilot, lambda: "badger" in lab(app).hits.text)
        assert app.search.view.query == "badger orchard" and not app.search.activity.trouble
        assert "kept" not in status_of(app), "said once"
        await press(pilot, "w")
        assert app.screen is not lab(app), "its keys work again"
        await press(pilot, "escape", "2")
        screen = app.screen
        assert isinstance(screen, ProvidersScreen)
        await until(pilot, lambda: "not known" not in screen.link_pane.text)
    assert looked(settings, deep=True).errors == 0


async def test_an_index_that_lost_chunks_before_the_start_is_opened_after_its_repair(tmp_path: Path) -> None:
    def lost(index: Path) -> None:
        with closing(apsw.Connection(str(index))) as connection:
            connection.execute("DELETE FROM chunks WHERE seq % 3 = 0")

    app = workbench(indexed(tmp_path), lost, "badger orchard")
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: app.search.activity.phase == "failed")
        await press(pilot, "escape", "3")
        screen = index_screen(app)
        await until(pilot, lambda: screen.presenter.state.report is not None)
        await settled(pilot)
        assert "memory/network.md" in screen.files.text and "? not known" in screen.files.text
        assert "has recorded" not in screen.detail.text, "it cannot be read"
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        plan = " ".join(app.screen.query_one(Pane).text.split())
        assert "A new one will be built" in plan
        assert "but their text is missing: no search can return it" in plan
        await press(pilot, "enter")
        await until(pilot, lambda: app.search.activity.phase == "ready" and "repaired:" in status_of(app))
        assert app.search.activity.damage is None and "● up to date" in screen.files.text
        assert "main.sqlite.damaged is kept" in status_of(app), "whole, in 80 columns"
        newest = screen.presenter.state.events[0]
        assert newest.kind == "rebuild" and "new or modified" not in newest.text
        await press(pilot, "1")
        await until(pilot, lambda: "badger" in lab(app).hits.text)


async def test_an_index_that_another_process_repaired_is_opened_again(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    whole = shutil.copy(settings.index_path, tmp_path / "whole")
    app = workbench(settings, damaged_header, "badger orchard")
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: app.search.activity.phase == "failed")
        await press(pilot, "escape", "3")
        Path(whole).replace(settings.index_path)
        await press(pilot, "r")
        await until(pilot, lambda: app.search.activity.phase == "ready")
        await press(pilot, "1")
        await until(pilot, lambda: "badger" in lab(app).hits.text)
        assert "damaged" not in status_of(app)


async def test_an_index_that_is_removed_is_built_with_the_key_of_the_lab(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    app = workbench(settings, lambda _: None, "heron")
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: "heron" in lab(app).hits.text)
        await settled(pilot)
        await press(pilot, "escape")
        app.search.say("continued: the query")
        settings.index_path.unlink()
        await press(pilot, "slash", *"badger")
        await until(pilot, lambda: "was removed: press esc then r." in lab(app).notes.text)
        await press(pilot, "escape")
        assert "was removed: press r." in lab(app).notes.text
        assert "! the index is empty or was removed: r builds it" in status_of(app)
        assert "F repair" in footer(app)
        await press(pilot, "r")
        await until(pilot, lambda: settings.index_path.exists() and not lab(app).notes.text)


async def test_no_line_about_a_failed_search_is_said_twice(tmp_path: Path) -> None:
    app = workbench(indexed(tmp_path), damaged_middle, "badger orchard")
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: app.search.view.error != "")
        await press(pilot, "escape", "w")
        drawn = " ".join(" ".join(pane.text for pane in app.screen.query(Pane)).split())
        assert drawn.count("The index is damaged.") == 1 and "openclaw-mem doctor" not in drawn
        assert WAITS in status_of(app)


async def test_a_fault_that_meets_the_damage_is_not_switched_on(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    app = workbench(settings, lambda _: None, "badger orchard")
    async with app.run_test(size=LARGE) as pilot:
        await until(pilot, lambda: "badger" in lab(app).hits.text)
        await settled(pilot)
        damaged_header(settings.index_path)
        await press(pilot, "2", "tab", "space")
        await until(pilot, lambda: app.search.activity.damage is not None)
        await settled(pilot)
        assert not app.search.view.faults and not app.search.service.faults
        await press(pilot, "space")
        assert WAITS in status_of(app) and not app.search.view.faults
        await press(pilot, "F")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await press(pilot, "enter")
        await until(pilot, lambda: app.search.activity.damage is None)
        await settled(pilot)
        await press(pilot, "2", "space")
        await until(pilot, lambda: app.search.view.pool_faults and not app.search.view.pending)
        assert not app.search.view.error, "it works after the repair"


async def test_what_another_program_writes_into_the_index_is_checked(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    app = Workbench(lambda faults: Memory.open(settings, resident=True, faults=faults))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "3")
        screen = index_screen(app)
        await until(pilot, lambda: screen.presenter.state.report is not None)
        assert screen.presenter.state.report is not None and not screen.presenter.state.report.errors
        alter(settings, "DELETE FROM chunks WHERE seq = 1")  # in the log: this process has the index open
        await until(pilot, lambda: "1 error" in shown(screen, "#facts"))
        assert "F repairs" in shown(screen, "#facts") and "up to date" not in screen.files.text
