"""The start page: suggested queries, and what may be missed."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from lab_world import LARGE, frame, press, settled
from test_tui_remember import running, settings_in

from openclaw_mem_engine.config.knobs import configured_knobs
from openclaw_mem_engine.errors import Cancelled, IndexDamaged
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Freshness
from openclaw_mem_engine.stores.findings import DoctorReport, Finding
from openclaw_mem_engine.sync.events import Journal
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from openclaw_mem_tui.features.search import start_page
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render.spans import text_of
from openclaw_mem_tui.render.status import Activity
from openclaw_mem_tui.widgets.dialogs import Choices
from openclaw_mem_tui.widgets.edges import KeyBar
from support.memories import settings_for, write_notes


@pytest.mark.parametrize("size", [LARGE, (80, 24), (60, 20)])
async def test_a_heading_of_the_start_page_is_asked_with_enter(tmp_path: Path, size: tuple[int, int]) -> None:
    async with running(tmp_path, size) as (pilot, screen):
        assert "▌ Router moved" in screen.hits.text
        await press(pilot, "escape", "j", "j")
        in_sight = [screen.hits.render_line(y).text.rstrip() for y in range(screen.hits.size.height)]
        assert any(text.startswith("▌ Home network  ") for text in in_sight)
        assert sum("▌" in text for text in in_sight) == 1
        drawn = " ".join(screen.hits.text.split())
        if size[1] < 24:
            assert drawn.endswith("? lists all keys, in the query line f1."), "the rows have the room"
        else:
            assert "leaves it, f1 is the help. With results: w " in drawn
        assert screen.hits.max_scroll_y == 0, "nothing is cut"
        assert all(sum(len(span.text) for span in line) < size[0] for line in screen.hits.drawn)
        keys = screen.query_one(KeyBar).text
        assert "/ search   p knobs   enter ask" in keys and "? help" in keys
        assert not any(word in keys for word in ("why not", "edit", "dropped", "note"))
        await press(pilot, "f", *"memory/ nas", "enter")
        assert "▌ Backup of the NAS" in screen.hits.text and "Router moved" not in screen.hits.text
        assert "filter memory/ nas · 1 of 3 · " in frame(screen.hits)
        await press(pilot, "escape", "n", "n")
        assert "Router moved" in screen.hits.text and screen.hits.asks == "Backup of the NAS"
        await press(pilot, "f", *"back", "enter", "enter")
        assert screen.search.view.query == "Backup of the NAS" == screen.query_line.value
        assert screen.hits.selected is not None and screen.query_one("#side").display
        assert "w why not" in screen.query_one(KeyBar).text and frame(screen.hits).split()[0] == "chunks"
        await press(pilot, "0")
        assert "▌ Continue: Backup of the NAS" in screen.hits.text and "  Router moved" in screen.hits.text
        assert "enter continue" in screen.query_one(KeyBar).text
        height = screen.hits.size.height
        await pilot.resize_terminal(size[0], size[1] + 12)
        await settled(pilot)
        assert "Outside the query line:" in screen.hits.text and screen.hits.size.height > height
        await press(pilot, "up")
        assert screen.query_line.value == "Backup of the NAS", "the query that was cleared"


async def test_markdown_that_is_no_memory_is_counted_where_it_may_be_missed(tmp_path: Path) -> None:
    note = settings_in(tmp_path).workspace / "plans" / "roof.md"
    note.parent.mkdir()
    note.write_text("Slates for the roof.\n")
    said = "Outside the memory, not searched by your agent: 1 Markdown file here."
    async with running(tmp_path, (80, 24)) as (pilot, screen):
        assert said in " ".join(screen.hits.text.split())
        await press(pilot, *"router", "enter", "W")
        rows = pilot.app.screen.query_one(Choices)
        assert said in " ".join(rows.text.split())
        await press(pilot, *"qqqq")
        drawn = "\n".join(rows.render_line(y).text for y in range(rows.size.height))
        assert "path:line names a line of any file of the workspace" in " ".join(drawn.split()), "not cut"


def test_a_note_without_a_heading_suggests_its_first_line(tmp_path: Path) -> None:
    notes = {
        "MEMORY.md": "# Memory\n\n---\n- The key is sk-abcdefghijklmnopqrstuvwxyz0123456789\n",
        "memory/2026-03-03.md": f"# 2026-03-03\n- {'long ' * 20}\n- Bought a ladder.\n- And a lamp.\n",
        "memory/2026-03-02.md": "# 2026-03-02\n- The router moved.\n## Cellar\n",
    }
    workspace = write_notes(tmp_path / "ws", notes)
    settings = settings_for(workspace, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none")
    with Memory.open(settings) as memory:
        memory.sync()
        found = start_page.read(memory, 0.0).suggestions
    assert found == (
        ("Bought a ladder", "memory/2026-03-03.md"),
        ("The router moved", "memory/2026-03-02.md"),
        ("Cellar", "memory/2026-03-02.md"),
    ), "none that is long, no credential; a heading of one word after a line"


def test_what_the_doctor_found_in_an_index_ends_with_its_rebuild(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with Memory.open(settings) as memory, closing(Journal(settings)) as journal:
        memory.sync()
        ends: tuple[Callable[[], object], ...] = (
            lambda: memory.sync(SyncRequest(force=True)),
            lambda: journal.set_aside("main.sqlite.damaged", IndexDamaged("The index is damaged.")),
        )
        for end in ends:
            journal.examined(DoctorReport((Finding("damaged", "error", "It is damaged."),), ()), 0.1)
            journal._sync_failed(Cancelled("Stopped."), 0.1, SyncReport(), rebuild=True)
            assert start_page.read(memory, 0.0).errors == 1, "a rebuild that was stopped changes nothing"
            end()
            assert start_page.read(memory, 0.0)[1:] == ("", 0, False)


async def test_what_the_checks_of_this_session_find_is_on_the_start_page(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as (pilot, screen):
        with closing(Journal(settings_in(tmp_path))) as journal:
            journal.examined(DoctorReport((Finding("damaged", "error", "It is damaged."),), ()), 0.1)
        for note in settings_in(tmp_path).workspace.rglob("*.md"):
            note.unlink()
        await press(pilot, "escape", "3", "c", "1")
        said = " ".join(screen.hits.text.split())
        assert re.search(r"doctor, [\d:]+: 0 errors, 1 warning\. 3 shows it", said), "not only in the log"
        settings_in(tmp_path)  # writes them again
        await press(pilot, "3", "R", "enter", "1")
        assert not re.search(r"doctor, \d", screen.hits.text)


def test_suggestions_are_of_daily_and_other_notes_and_differ_in_more_than_numbers(tmp_path: Path) -> None:
    daily = {f"memory/2026-03-0{n}.md": f"# Log 2026-03-0{n}\n- Batch {n} of panes.\n" for n in range(1, 8)}
    notes = {**daily, "MEMORY.md": "# Memory\n## People\n## House\n", "memory/2026-03-09.md": "# Boiler\n"}
    template = "# Stand-up\n- Mood: good\n"
    notes |= {f"memory/2026-04-0{n}.md": f"{template}- {text}\n" for n, text in ((1, ""), (2, "New mast."))}
    settings = settings_for(
        write_notes(tmp_path / "ws", notes), tmp_path / "home", OPENCLAW_MEM_PROVIDER="none"
    )
    with Memory.open(settings) as memory:
        memory.sync()
        found = start_page.read(memory, 0.0).suggestions
    assert [query for query, _ in found] == [
        "New mast",
        "Boiler",
        "People",
        "House",
        "Mood: good",
        "Batch 7 of panes",
    ], "lines of templates are last"


@pytest.mark.parametrize(
    "heading", ["Log 2026-09-18", "Daily notes: Friday, 18 September 2026", "Notes of May", "-" * 60]
)
def test_a_heading_of_a_date_suggests_the_first_line_instead(heading: str) -> None:
    assert not start_page._is_query(heading)
    for said in ("Log in to the NAS", "Backup of 2026-09-18", "Maypole", "Decision on the daily build"):
        assert start_page._is_query(said)


def test_knobs_that_the_agent_does_not_have_are_named(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "# Memory\n- The router moved.\n"})
    own = tmp_path / "home/config/config.toml"
    own.parent.mkdir(parents=True)
    activity = Activity(phase="ready", freshness=Freshness("fresh", 1, 0.0), files=1, chunks=1)

    def page(toml: str) -> str:
        own.write_text(toml)
        settings = settings_for(workspace, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none")
        knobs = configured_knobs(settings)
        made = start_page.what(View(knobs, knobs, settings=settings), activity, "ws")
        return "\n".join(map(text_of, made))

    assert "you see what it gets" in page("") and "alone" not in page("")
    assert "Set for openclaw-mem alone: min score .17. The agent's own" in page("[query]\nmin_score = 0.17\n")
