"""The curate screen and the dialog that remembers, with real keys over the demo and over own notes."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import lab_world as world
import pytest
from lab_world import LARGE, SMALL, frame, lab, press, settled, until
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input

from openclaw_mem_engine.api import Budget, Memory
from openclaw_mem_engine.curation.dry_run import Effect
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.curate import render
from openclaw_mem_tui.features.curate.remember import RememberScreen
from openclaw_mem_tui.features.curate.screen import CurateScreen
from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen
from openclaw_mem_tui.render.spans import Failed, line, text_of
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen, HelpText, confirm
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.help import HelpScreen
from openclaw_mem_tui.widgets.line_view import Lines, Pane
from support.memories import settings_for, write_notes

MEMORY = "# Facts\n\n- the spare key hangs behind the blue door\n- IDE: Windsurf\n"
TWICE = MEMORY + "- The spare key hangs behind the blue door.\n"


@asynccontextmanager
async def opened(
    app: Workbench, size: tuple[int, int] = LARGE
) -> AsyncIterator[tuple[Pilot[int], CurateScreen]]:
    """The application with its curate screen in front."""
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "5")
        screen = app.screen
        assert isinstance(screen, CurateScreen)
        yield pilot, screen
        assert [worker.error for worker in app.workers if worker.error] == []


def shown(screen: Screen[Any], name: str | type[Lines]) -> str:
    """What a pane says, however its lines are cut."""
    return " ".join(screen.query_one(name).text.split())  # type: ignore[attr-defined]


def demo(root: Path, *, own_notes: bool = False) -> Workbench:
    return world.workbench(root, own_notes=own_notes, initial_query="heron")


def of_notes(root: Path, notes: Mapping[str, str]) -> Workbench:
    settings = settings_for(
        write_notes(root / "ws", dict(notes)), root / "home", OPENCLAW_MEM_PROVIDER="none"
    )
    return Workbench(lambda faults: Memory.open(settings, faults=faults), clock=lambda: 1_774_008_000.0)


async def measured(pilot: Pilot[int], screen: CurateScreen) -> Effect:
    """The effect of the selected candidate, when it is there."""
    candidate = screen.candidates.selected
    assert candidate is not None
    await world.until(pilot, lambda: candidate.edits in screen.presenter.state.effects)
    await settled(pilot)
    found = screen.presenter.state.effects[candidate.edits]
    assert isinstance(found, Effect)
    return found


@pytest.mark.parametrize("size", [LARGE, SMALL])
async def test_a_question_longer_than_its_dialog_is_scrolled(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": MEMORY}), size) as (pilot, screen):
        rows = [line(f"row {number}") for number in range(89)]
        confirm(screen, "write this", lambda cells: rows, "write", lambda: None)
        await settled(pilot)
        text = pilot.app.screen.query_one(".said", Pane)
        assert f"rows 1–{text.size.height} of 89 · " in str(text.border_subtitle)
        assert "scroll" in str(text.border_subtitle) and "write" in str(text.border_subtitle)
        seen = []
        for key in ("J", "pagedown", "K", "pageup"):
            await press(pilot, key)
            seen.append(text.scroll_offset.y)
        assert seen == [3, 13, 10, 0]
        await press(pilot, *["pagedown"] * 9)
        assert text.scroll_offset.y == 89 - text.size.height, "the last row is in sight"


# -- the demo -----------------------------------------------------------------------------------------------


async def test_the_demo_from_the_evidence_to_the_written_note_and_back(tmp_path: Path) -> None:
    async with opened(demo(tmp_path, own_notes=True)) as (pilot, screen):
        facts = shown(screen, "#facts")
        assert "203 lines (200 advised) ━" in facts and " 2 agent searches, last " in facts
        assert "39% of MEMORY.md can never appear in a search result; enter on MEMORY.md shows it" in facts
        gauges = re.findall(r"([0-9,]+) (?:lines|of)[^━]+ (━+)(─*)┃(━*)", facts)
        assert [(len(used + free), over, said) for said, used, free, over in gauges] == [
            (24, "━", "203"),
            (24, "", "7,868"),
        ], "both on a scale up to their limit, with what is over past its mark"
        assert text_of(render.facts(screen.presenter.state, (), 30)[0]).rstrip().endswith("…"), "it is cut"
        narrow = text_of(render.facts(screen.presenter.state, (), 80)[1])
        assert narrow.endswith("last 2026-03-25"), "a part that has no room goes as a whole"
        titles = screen.files.painted(-1).text.rstrip()
        assert titles.split() == ["file", "size", "modified", "searches"]
        assert [len(row) for row in screen.files.text.splitlines()] == [len(titles)] * 87, "below its title"
        assert [row.kind for row in screen.presenter.state.found] == ["outdated", "duplicate", "over-budget"]
        detail = shown(screen, "#proposal")
        assert "Kiosk software: 3.2 on all three." in detail
        assert "+ - Kiosk software: 3.3 on all three (since 2026-03-31)." in detail
        effect = await measured(pilot, screen)
        assert effect.judged > 20 and "no result changes (24 queries tested)" in shown(screen, "#proposal")
        edits = screen.candidates.selected.edits  # type: ignore[union-attr]
        screen.presenter.update(effects={edits: "the host did not answer"})
        assert "the host did not answer E measures again" in shown(screen, "#proposal")
        await press(pilot, "E")
        assert (await measured(pilot, screen)).judged == effect.judged, "also what failed"
        asks = screen.presenter.state, screen.candidates.selected, 60
        screen.presenter.state = replace(asks[0], effects={}, hosts=("api.openai.com",))
        said = " ".join(map(text_of, render.candidate_detail(screen.presenter.state, *asks[1:])))
        asked = "not measured; E measures it and sends text to api.openai.com"
        assert asked in " ".join(said.split())
        screen.presenter.state = asks[0]
        note = tmp_path / "demo/workspace/MEMORY.md"
        before = note.read_bytes()
        await press(pilot, "j", "a", "escape")
        assert note.read_bytes() == before  # asked, and not written
        await press(pilot, "a")
        assert isinstance(pilot.app.screen, ConfirmScreen)
        await press(pilot, "enter")
        assert note.read_text("utf-8").count("Boardhaus") == 1
        assert screen.search.view.baseline_name == "before the edit"
        assert "proposals · 2" in str(screen.candidates.border_title)
        assert "202 lines (200 advised)" in shown(screen, "#facts")
        assert shown(screen, "#status").strip()
        await press(pilot, "j", "a", "enter")  # two notes at once
        assert (note.parent / "memory/songs-for-the-workshop-radio.md").exists()
        assert "115 lines (200 advised)" in shown(screen, "#facts")
        await press(pilot, "z", "enter", "z", "enter")
        assert note.read_bytes() == before
        assert not (note.parent / "memory/songs-for-the-workshop-radio.md").exists()
        await press(pilot, "z")
        assert "nothing to undo: no change by openclaw-mem" in shown(screen, "#status")


async def test_files_with_the_budget_drawn_and_the_chunks_of_one(tmp_path: Path) -> None:
    async with opened(demo(tmp_path)) as (pilot, screen):
        await press(pilot, "tab")
        assert screen.files.has_focus and "MEMORY.md" in screen.files.text.splitlines()[0]
        detail = shown(screen, "#proposal")
        assert "evergreen" in detail and "── 200 lines: the rest is over the budget ──" in detail
        await press(pilot, "j")
        assert "a daily log of 2025-11-17" in shown(screen, "#proposal")
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ChunksScreen)
        await press(pilot, "escape", "question_mark")
        assert isinstance(pilot.app.screen, HelpScreen)
        await press(pilot, "escape", "shift+tab", "question_mark")
        said = shown(pilot.app.screen, Pane)
        assert (
            said.count("This screen proposes changes of MEMORY.md") == 1
            and "Nothing is written without confirmation" in said
        )
        await press(pilot, "escape", "escape")
        assert pilot.app.screen is lab(pilot.app)


@pytest.mark.parametrize("size", [SMALL, (60, 20), (60, 16), (40, 12), (200, 50)])
async def test_every_size_shows_the_list_with_the_focus(tmp_path: Path, size: tuple[int, int]) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE}), size) as (pilot, screen):
        for table in screen.lists:
            assert table.has_focus and table.size.height >= 2, (size, table.id)
            for y in range(table.size.height):
                assert table.render_line(y).cell_length <= size[0]
            await press(pilot, "tab")


async def test_a_key_costs_little(tmp_path: Path) -> None:
    logs = {
        f"memory/2026-03-{day:02}.md": f"- entry {day} of a log of some words\n" * 20 for day in range(1, 20)
    }
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE, **logs})) as (pilot, screen):
        await measured(pilot, screen)
        await press(pilot, "tab")
        costs = []
        for key in "jjjjjkkkkk":
            before = time.process_time()
            await press(pilot, key)
            costs.append(time.process_time() - before)
        assert sorted(costs)[5] < 0.05


async def test_a_key_in_an_empty_list_moves_nothing(tmp_path: Path) -> None:
    twice = TWICE + "- buy the blue paint\n- Buy the blue paint.\n"
    async with opened(of_notes(tmp_path, {"MEMORY.md": twice})) as (pilot, screen):
        state, table = screen.presenter.state, screen.candidates
        assert len(state.found) == 2
        screen.presenter.update(found=())
        await press(pilot, "shift+tab") if table is not screen.at else None
        table.action_go(1)
        screen.presenter.update(found=state.found)
        await settled(pilot)
        assert table.selected is state.found[0], "the rows that come begin with the first"


# -- other notes --------------------------------------------------------------------------------------------


async def test_a_key_that_a_note_has_not_names_the_screen_below_it(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE})) as (pilot, screen):
        await press(pilot, "enter", "z")
        chunks = pilot.app.screen
        assert isinstance(chunks, ChunksScreen)
        assert "z does nothing here; on 5 curate: undo the last step" in chunks.status_line.text
        await press(pilot, "s")
        assert "s works only on 1 lab: mode" in chunks.status_line.text
        await press(pilot, "escape")
        assert pilot.app.screen is screen


async def test_rejected_candidates_are_under_their_filter(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE})) as (pilot, screen):
        assert len(screen.presenter.state.found) == 1
        await press(pilot, "X")
        assert "No proposals. v shows the rejected ones." in screen.candidates.text
        assert screen.files.has_focus, "an empty list has no use for keys"
        await press(pilot, "tab")
        keys = shown(screen, KeyBar)
        assert "z undo" in keys and "enter open" not in keys and "f filter" not in keys
        await press(pilot, "e", "E", "enter")  # no row: said, nothing raised
        for key in "aX":
            await press(pilot, key)
            assert "no proposal is selected" in shown(screen, "#status")
        screen.presenter.update(material=None)
        await press(pilot, "X")
        assert "the notes are still being read" in shown(screen, "#status")
        await press(pilot, "v", "x")
        assert "kinds: rejected" in str(screen.candidates.border_subtitle)
        assert "repeats line 3" in screen.candidates.text
        keys = shown(screen, KeyBar)
        assert "a propose again" in keys and "X" not in keys and "e edit" not in keys
        await press(pilot, "X")
        assert "X does nothing here" in shown(screen, "#status") and screen.presenter.state.found
        await press(pilot, "a", "v", "s")
        assert "of the kind secret" in screen.candidates.text
        await press(pilot, "v", "a")
        assert len(screen.presenter.state.found) == 1
        assert "a accept" in (keys := shown(screen, KeyBar)) and "X reject" in keys


async def test_what_cannot_be_measured_is_not_said_to_be(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE})) as (pilot, screen):
        await press(pilot, "E")
        assert "not measured, because no searches are recorded" in shown(screen, "#status")


async def test_z_takes_back_the_last_step_whichever_it_was(tmp_path: Path) -> None:
    twice = TWICE + "- buy the blue paint\n- Buy the blue paint.\n"
    async with opened(of_notes(tmp_path, {"MEMORY.md": twice})) as (pilot, screen):
        note, both = tmp_path / "ws/MEMORY.md", [one.id for one in screen.presenter.state.found]
        assert len(both) == 2
        await press(pilot, "X", "a", "enter")
        assert not screen.presenter.state.found and note.read_text() != twice
        await press(pilot, "z")
        assert isinstance(pilot.app.screen, ConfirmScreen), "the write is the later one"
        await press(pilot, "enter")
        assert note.read_text() == twice and len(screen.presenter.state.found) == 1
        await press(pilot, "z")
        assert pilot.app.screen is screen and "undone: proposed again" in shown(screen, "#status")
        assert [one.id for one in screen.presenter.state.found] == both
        await press(pilot, "j", "X", "z")
        back = [*screen.presenter.state.found][1]
        assert screen.candidates.selected is back, "what came back"
        await press(pilot, "a", "enter", "X", "z", "z")
        assert isinstance(pilot.app.screen, ConfirmScreen), "first the rejection, then the write"
        await press(pilot, "enter", "X", "v", "x", "a")
        assert not screen.presenter.state.found
        await press(pilot, "z")
        assert "undone: rejected again" in shown(screen, "#status") and len(screen.presenter.state.found) == 1
        await press(pilot, "z", "z")
        assert "nothing to undo: no change by openclaw-mem" in shown(screen, "#status")


async def test_a_proposal_stays_selected_when_another_comes_back(tmp_path: Path) -> None:
    twice = TWICE + "- buy the blue paint\n- Buy the blue paint.\n"
    async with opened(of_notes(tmp_path, {"MEMORY.md": twice})) as (pilot, screen):
        first, second = (one.id for one in screen.presenter.state.found)
        await press(pilot, "a", "enter")
        assert [one.id for one in screen.presenter.state.found] == [second], "the nearest one is selected"
        await press(pilot, "D", "enter")
        assert [one.id for one in screen.presenter.state.found] == [first, second]
        selected = screen.candidates.selected
        assert selected is not None and selected.id == second and screen.candidates.cursor == 1


async def test_an_undo_writes_what_was_shown_whatever_was_edited_since(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE})) as (pilot, screen):
        note, editor = tmp_path / "ws/MEMORY.md", NoteEditor(settings_for(tmp_path / "ws", tmp_path / "home"))
        await press(pilot, "a", "enter")
        written = note.read_text()
        await press(pilot, "z")
        editor.append("memory/2026-02-14.md", "- of another window", "test")
        await press(pilot, "enter")
        assert note.read_text() == TWICE and (tmp_path / "ws/memory/2026-02-14.md").exists()
        assert "undone: 1 line added to MEMORY.md" in shown(screen, "#status")
        await press(pilot, "z")
        editor.append("memory/2026-02-14.md", "- more", "test")
        await press(pilot, "enter")
        assert "was modified meanwhile: nothing was written" in shown(screen, "#status")
        assert note.read_text() == TWICE != written


async def test_a_note_that_changed_meanwhile_is_refused(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE})) as (pilot, screen):
        note = tmp_path / "ws/MEMORY.md"
        await press(pilot, "a")
        note.write_text(TWICE + "- more\n")
        await press(pilot, "enter")
        assert "was modified meanwhile" in shown(screen, "#status")
        assert note.read_text() == TWICE + "- more\n"


async def test_the_proposal_is_edited_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def edited(_app: object, _settings: object, path: str, _line: int) -> str:
        file = Path(path)
        assert file.parent.stat().st_mode & 0o777 == 0o700
        file.write_text(file.read_text() + "- by hand\n")
        return "back from ed"

    name = "openclaw_mem_tui.features.curate.screen.edit"
    monkeypatch.setattr(name, lambda *_: Failed("no editor"))
    async with opened(of_notes(tmp_path, {"MEMORY.md": TWICE})) as (pilot, screen):
        await press(pilot, "e")
        assert shown(screen, "#status").strip() == "✗ no editor"
        monkeypatch.setattr(name, edited)
        await press(pilot, "e")
        assert "+ - by hand" in shown(screen, "#proposal") and "a writes it" in shown(screen, "#status")
        await press(pilot, "a", "enter")
        assert (tmp_path / "ws/MEMORY.md").read_text() == MEMORY + "- by hand\n"


async def test_hostile_text_credentials_and_a_cut_memory(tmp_path: Path) -> None:
    memory = f"- [bold]\x1b[31mtoken: sk-abcdef1234567890abcdef\u202e\n{'- x日本 [i]y' * 20}\n" * 100
    async with opened(of_notes(tmp_path, {"MEMORY.md": memory})) as (pilot, screen):
        assert "cut after line" in shown(screen, "#facts")
        detail = shown(screen, "#proposal")
        assert "[bold]^[[31m" in detail and "1234567890" not in detail + screen.candidates.text
        await press(pilot, "tab")
        detail = shown(screen, "#proposal")
        assert "the agent gets only the last part" in detail and "1234567890" not in detail


async def test_without_proposals_only_what_is_true_and_acts_is_shown(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": MEMORY})) as (pilot, screen):
        said = "No proposals: nothing outdated, repeated or too long was found in MEMORY.md."
        assert screen.candidates.text.strip() == said and screen.files.has_focus
        assert "no agent search with results is recorded" in shown(screen, "#facts")
        assert "enter open" in shown(screen, KeyBar)
        await press(pilot, "tab")
        keys = shown(screen, KeyBar)
        assert "z undo" not in keys and "enter open" not in keys and "r reload" in keys
        assert "f filter" not in keys, "there is nothing to filter"


async def test_without_a_memory_file_or_notes(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"memory/a.md": "one\n"})) as (pilot, screen):
        assert "There is no MEMORY.md yet" in shown(screen, "#facts")
        assert screen.candidates.text.strip() == "No proposals."
        await press(pilot, "enter", "escape", "r")
        assert screen.presenter.state.trouble == ""


@pytest.mark.parametrize(
    ("lines", "characters", "roles"),
    [(200, 20_000, ["good", "good"]), (201, 9, ["warn", "good"]), (9, 20_001, ["good", "warn"])],
)
def test_only_what_exceeds_its_limit_is_marked(lines: int, characters: int, roles: list[str]) -> None:
    parts = render.budget_after(Budget("MEMORY.md", lines, characters, 20_000, None))
    assert "".join(text for text, _ in parts).startswith(f"then has {lines} lines (200 advised), ")
    assert [role for _, role in parts if role != "dim"] == roles


# -- remember -----------------------------------------------------------------------------------------------


async def test_remember_routes_shows_and_writes(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": MEMORY})) as (pilot, screen):
        await press(pilot, "M")
        dialog = pilot.app.screen
        assert isinstance(dialog, RememberScreen)
        await press(pilot, "enter", *"NAS is heron")
        text = dialog.query_one("#remembered").text.replace("fits\nit", "fits it")  # type: ignore[attr-defined]
        assert (
            "To be saved as a fact in MEMORY.md" in text
            and "(the text does not look like a decision, event or preference; no section fits it)" in text
        )
        assert (
            f"MEMORY.md then has {MEMORY.count(chr(10)) + 1} lines (200 advised), " in text
            and "+ - NAS is heron" in text
        )
        assert (tmp_path / "ws/MEMORY.md").read_text() == MEMORY
        await press(pilot, "tab")
        text = " ".join(dialog.query_one("#remembered").text.split())  # type: ignore[attr-defined]
        assert "chosen by hand" in text and "then has" not in text, "it is that of MEMORY.md"
        assert "memory/2026-03-20.md" in text
        await press(pilot, "tab", "enter")
        assert pilot.app.screen is screen and "NAS is heron" in (tmp_path / "ws/MEMORY.md").read_text()
        assert "remembered in MEMORY.md:" in shown(screen, "#status")
        assert "D undoes it" in shown(screen, "#status")
        await press(pilot, "M", *"nas is heron", "enter")
        assert "contains that already" in pilot.app.screen.query_one("#remembered").text  # type: ignore[attr-defined]
        await press(pilot, "escape", "z", "enter")
        assert (tmp_path / "ws/MEMORY.md").read_text() == MEMORY
        await press(pilot, "M", *"key sk-abcdefgh1234567890")
        text = " ".join(pilot.app.screen.query_one("#remembered").text.split())  # type: ignore[attr-defined]
        assert "The text looks like a credential: every search may show it." in text


async def test_remember_from_the_lab_and_the_refusal_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = of_notes(tmp_path, {"MEMORY.md": MEMORY})
    async with app.run_test(size=(60, 20)) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "M", *"tea is green")
        (tmp_path / "ws/MEMORY.md").write_text("# other\n")
        await press(pilot, "enter")
        assert "was modified meanwhile" in pilot.app.screen.query_one("#remembered").text  # type: ignore[attr-defined]
        await press(pilot, *"!", "enter")
        assert pilot.app.screen is lab(app) and "tea is green!" in (tmp_path / "ws/MEMORY.md").read_text()
    assert [one.reason for one in NoteEditor(settings_for(tmp_path / "ws", tmp_path / "home")).history()] == [
        "remember"
    ]


async def test_what_is_typed_stays_until_it_is_written_and_a_key_undoes_it_from_the_lab(
    tmp_path: Path,
) -> None:
    app, note = of_notes(tmp_path, {"MEMORY.md": MEMORY}), tmp_path / "ws/MEMORY.md"
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "M", *"tea is green", "escape", "M")
        assert app.screen.query_one(Input).value == "tea is green"
        assert "+ - tea is green" in app.screen.query_one("#remembered", Pane).text
        await press(pilot, "enter")
        number = note.read_text().splitlines().index("- tea is green") + 1
        await press(pilot, "r")
        said = f"remembered in MEMORY.md:{number}; indexed; D undoes it"
        assert said in lab(app).status_line.text, "the sync after it does not hide the undo"
        await press(pilot, "M")
        assert not app.screen.query_one(Input).value, "it was written"
        await press(pilot, "escape", "z")
        assert "D undoes a change of notes" in lab(app).status_line.text
        note.write_text(f"{note.read_text()}- of the agent\n")
        await press(pilot, "D")
        assert "- tea is green" in app.screen.query_one(".said", Pane).text
        await press(pilot, "enter")
        assert note.read_text() == f"{MEMORY}- of the agent\n"
        assert lab(app).search.sync.done.then == ""
        assert app.screen is lab(app), "over the screen on which the key was pressed"
        await press(pilot, "D")
        assert lab(app).status_line.text.startswith(" ● nothing to undo: no change by openclaw-mem"), (
            "and nothing has failed"
        )


async def test_an_undo_that_is_refused_is_said_in_full_before_the_selected_proposal(tmp_path: Path) -> None:
    async with opened(of_notes(tmp_path, {"MEMORY.md": MEMORY})) as (pilot, _screen):
        await press(pilot, "M", *"tea is green", "enter")
        note = tmp_path / "ws/MEMORY.md"
        note.write_text(note.read_text().replace("tea is green", "tea is black"))
        await press(pilot, "D", "exclamation_mark")
        text = " ".join(pilot.app.screen.query_one(HelpText).text.split())
        assert text.startswith(
            "! MEMORY.md was modified since change 1: what that changed is not as it left it, or"
        )
        assert "tea is black" in note.read_text()


async def test_a_long_change_of_remember_is_scrolled_like_that_of_a_proposal(tmp_path: Path) -> None:
    app = world.workbench(tmp_path, own_notes=True)
    async with app.run_test(size=SMALL) as pilot:
        await settled(pilot)
        await press(pilot, "escape", "M")
        app.screen.query_one(Input).value = "We decided that the key hangs behind the blue door. " * 20
        text = app.screen.query_one("#remembered", Pane)
        await until(pilot, lambda: "@@" in text.text)
        await settled(pilot)
        box = text.parent
        assert isinstance(box, Widget)
        assert text.max_scroll_y > 0, "the text is longer than the room for it"
        assert f" of {len(text.drawn)} · ↑ ↓ scroll" in frame(box)
        assert text.region.bottom < box.region.bottom, "all of the pane is in its frame"
        await press(pilot, *["down"] * 9)
        assert text.scroll_offset.y == text.max_scroll_y > 0
        assert f"–{len(text.drawn)} of {len(text.drawn)} · ↑ ↓ scroll" in frame(box), "which rows are shown"
        await press(pilot, "pageup")
        assert text.scroll_offset.y < text.max_scroll_y
