"""The chunks of a file."""

from __future__ import annotations

from pathlib import Path

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, lab, make, press, settled, until
from test_tui_index import index_screen, notes, opened, shown, unwatched

from openclaw_mem_engine.commands import choose
from openclaw_mem_engine.memory import Memory
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.providers.screen import ProvidersScreen
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen
from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Pane
from support.memories import settings_for, write_notes


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
        assert "┊ 39% of this file can never appear in a search result: snippets end " in cut
        assert cut.endswith("snippets end after 700 characters"), "as the doctor says"
        assert text.startswith("┏━ chunk 1 · lines 1–25") and "\n └ end of chunk 2" in text
        await press(pilot, "j")
        text = chunks.text.text
        assert "┏━ chunk 2 · lines 20–41 · shares 89 tokens with 1, 93 with 3" in text
        assert "\n┃└ end of chunk 1" in text, "the bar of the selected one goes on"
        shared = [row for row in text.splitlines() if row.startswith("┃│") and row[2:].split()[0].isdigit()]
        assert len(shared) == 6 + chunks.anatomy.pieces[2].shared
        status = chunks.query_one("#status", Pane)
        assert "chunk 2 of 7 · 391 tokens" in status.text
        await press(pilot, "y")
        assert pilot.app.clipboard == f"{chunks.path}:20" and f"clipboard: {chunks.path}:20" in status.text
        await press(pilot, "p")
        assert "p works only on 1 lab: open the knob panel" in status.text
        await press(pilot, "J")
        assert "chunk 2 of 7 · 391 tokens" in status.text
        facts = " ".join(chunks.facts.text.split())
        assert "391 tokens in 22 lines (limit 400) repeats 89 tokens of chunk 1; chunk 3 repeats 93" in facts
        assert "93 of these (overlap 80, in whole lines)" in facts
        assert "begins within MEMORY › Projects sections 3 begin in it: Network (" in facts
        assert "not sent 7 of 19 non-blank lines are never sent in full found by BM25 and vectors" in facts
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
        assert "87 files will be read again, and a new index will be built from 102 chunks" in plan
        assert world.plain(pilot.app.screen._box.border_subtitle).endswith("enter rebuild · esc cancel")
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
            assert "remove deleted" not in keys.text  # type: ignore[attr-defined]
            (notes(tmp_path)).rename(tmp_path / "away")
            notes(tmp_path).mkdir()
            await press(pilot, "1", "r")
            said = lab(pilot.app).notes.text  # type: ignore[arg-type]
            assert "P on screen 3: The index is stale: the workspace has no notes" in said
            await press(pilot, "3")
            facts = " ".join(shown(screen, "#facts").split())
            assert "kept (P removes it): the workspace has no notes" in facts
            assert "remove deleted" in keys.text  # type: ignore[attr-defined]
            assert "− deleted" in screen.files.text and "up to date" not in screen.files.text
            detail = " ".join(screen.detail.text.split())
            assert "− deleted: searches still find it" in detail and "next sync" not in detail
            kept = "the index is kept: the workspace has no notes"
            await press(pilot, "r")
            assert kept in shown(screen, "#status") and "to sync" not in shown(screen, "#facts")
            status = lab(pilot.app).status_line.draw(120)  # type: ignore[arg-type]
            assert status[0][0].role == "warn" and "stale" in text_of(status[0])
            await press(pilot, "P")
            assert isinstance(pilot.app.screen, ConfirmScreen)
            assert "87 files with 102 chunks are removed" in pilot.app.screen.query_one("Pane").text  # type: ignore[attr-defined]
            await press(pilot, "escape")
            assert "87 files · 102 chunks" in shown(screen, "#facts")
            await press(pilot, "P", "enter")
            assert "0 files · 0 chunks" in shown(screen, "#facts")
            assert "87 deleted" in shown(screen, "#status")
            await press(pilot, "P")
            assert pilot.app.screen is screen and "nothing to remove: a sync" in shown(screen, "#status")
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


async def test_a_text_that_the_model_cannot_read_is_said_on_both_screens(tmp_path: Path) -> None:
    texts = {"MEMORY.md": f"{'x' * 300}\n", "memory/2026-03-01.md": "The router moved.\n"}
    settings = settings_for(write_notes(tmp_path / "ws", texts), tmp_path / "home")
    app = Workbench(lambda faults: Memory.open(settings, faults=faults))
    async with app.run_test(size=LARGE) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "2")
        drawn = " ".join(app.screen.query_one("#link", Pane).text.split())
        assert "1 of 2 chunks; r on screen 1 embeds the rest, but for text that the model cannot" in drawn
        await press(pilot, "3", "enter")
        facts = " ".join(app.screen.facts.text.split())  # type: ignore[attr-defined]
        assert "not by vectors (no embedding was made yet, or the model has none for its text)" in facts
