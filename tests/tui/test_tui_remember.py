"""Tuned knobs are applied and hold after a restart; a session continues where the last one was left."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from lab_world import LARGE, SMALL, frame, held, lab, press, settled, until
from textual.events import Paste
from textual.pilot import Pilot

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.own_file import propose_settings, write_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.config.sources import UserFolders
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.state.workbench import WorkbenchState
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.features.index.screen import IndexScreen
from openclaw_mem_tui.features.search import remembered
from openclaw_mem_tui.features.search.screen import SearchScreen
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.dialogs import Choices, ConfirmScreen
from openclaw_mem_tui.widgets.edges import KeyBar
from openclaw_mem_tui.widgets.line_view import Pane

NOTES = {
    "MEMORY.md": "# Home network\n\nThe router uses VLAN 10.\n",
    "memory/2026-03-01.md": "# 2026-03-01\n\n## Backup of the NAS\nThe restore took four minutes.\n",
    "memory/2026-03-02.md": "# 2026-03-02\n\n## Router moved\nThe router moved to the cellar.\n",
}


def settings_in(root: Path) -> Settings:
    """Settings of a small workspace, read anew."""
    folder = root / "workspace"
    for path, text in NOTES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if not (folder / path).exists():
            (folder / path).write_text(text, "utf-8")
    return load_settings(
        workspace=folder,
        provider="none",
        environ={},
        home=root / "home",
        cwd=root,
        folders=UserFolders(root / "data", root / "config"),
    )


@asynccontextmanager
async def running(
    root: Path, size: tuple[int, int] = LARGE, **options: Any
) -> AsyncIterator[tuple[Pilot[int], SearchScreen]]:
    settings = settings_in(root)
    app = Workbench(
        lambda faults: Memory.open(settings, resident=True, faults=faults),
        reload=lambda: settings_in(root),
        memo=WorkbenchState(settings.data_dir, settings.agent, settings.workspace),
        **options,
    )
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield pilot, lab(app)
        assert [worker.error for worker in app.workers if worker.error] == []


def asked(pilot: Pilot[int]) -> str:
    """What the dialog shows."""
    assert isinstance(pilot.app.screen, ConfirmScreen)
    return pilot.app.screen.query_one(".said", Pane).text


async def test_tuned_knobs_are_shown_written_hold_after_a_restart_and_are_taken_back(tmp_path: Path) -> None:
    ours = tmp_path / "config" / "config.toml"
    ours.parent.mkdir()
    ours.write_text("# mine\n[query]\nmin_score = 0.5 # strict\n", "utf-8")
    async with running(tmp_path, initial_query="router") as (pilot, screen):
        await press(pilot, "A")
        assert str(ours) in screen.search.activity.said and "no knob differs" in screen.search.activity.said
        knobs = screen.search.view.knobs.set({"min_score": 0.1, "decay": True})
        screen.tune(knobs)
        await press(pilot, "x", "c")
        assert (
            "minScore" in pilot.app.clipboard
            and "sent to the terminal's clipboard" in screen.search.activity.said
        )
        await press(pilot, "A")
        dialog = pilot.app.screen
        assert isinstance(dialog, ConfirmScreen)
        assert "+ min_score = 0.1 # strict" in asked(pilot) and str(ours) in asked(pilot)
        assert "x c copies the knobs" in asked(pilot) and "no effect" not in asked(pilot)
        await press(pilot, "escape")
        assert "0.5" in ours.read_text()
        await press(pilot, "A", "enter")
        assert screen.search.activity.said.startswith(f"wrote {ours.name}; A undoes it")
        pilot.app.copy_to_clipboard("")
        await press(pilot, "x", "c")
        assert "minScore: 0.1" in pilot.app.clipboard, (
            "what the agent needs; its configuration has none of it"
        )
        assert ours.stat().st_mode & 0o777 == 0o600 and "# mine" in ours.read_text()
        assert screen.search.view.defaults == knobs and not screen.search.view.changed_knobs()
        await press(pilot, "p")
        assert "A undo write" in screen.query_one(KeyBar).text
        await press(pilot, "right")
        assert "A apply" in screen.query_one(KeyBar).text
        await press(pilot, "z")
        assert "keeps" not in screen.search.activity.said, "the knobs that were written are back"
        await press(pilot, "escape", "z")
        kept = f"; {ours.name} keeps decay on, min score .10: A undoes that write"
        assert screen.search.activity.said == f"undo: back to decay off, min score .50; Z redoes it{kept}"
        await press(pilot, "Z")
        assert "keeps" not in screen.search.activity.said
        await press(pilot, "z", "A")
        assert "The agent is not affected" in asked(pilot) and "x c copies" not in asked(pilot)
        assert "- decay = true" in asked(pilot), "back to the knobs before: that is the undo, no other write"
        assert "are those before that change." in asked(pilot) and "session" not in asked(pilot)
        await press(pilot, "enter")
        assert ours.read_text() == "# mine\n[query]\nmin_score = 0.5 # strict\n"
        assert screen.search.activity.said == f"{ours.name} is as before the change; A writes it again"
        assert not screen.search.view.changed_knobs() and screen.search.view.knobs.min_score == 0.5
        await press(pilot, "p")
        assert " A " not in screen.query_one(KeyBar).text, "nothing of this session is left to write"
        await press(pilot, "escape", "A")
        assert "+ decay = true" in asked(pilot)
        assert "as configured" in asked(pilot) and "session" not in asked(pilot)
        assert any("redo the last change" in frame(widget) for widget in pilot.app.screen.query("*"))
        await press(pilot, "escape", "Z", "A")
        assert "+ decay = true" in asked(pilot)
        await press(pilot, "enter")
        screen.tune(knobs.set({"mmr": True}))
        screen.tune(knobs.set({"mmr": True, "max_results": 3}))
        await press(pilot, "z")
        assert screen.search.activity.said.endswith(f"; {ours.name} keeps MMR off: A writes these knobs")
        await press(pilot, "z", "z")
        ours.write_text(ours.read_text() + "# since\n", "utf-8")
        await press(pilot, "A")
        assert "+ decay = false" in asked(pilot), "modified since: what is left is to write the values"
        await press(pilot, "escape", "Z")
        ours.write_text(ours.read_text().removesuffix("# since\n"), "utf-8")
    async with running(tmp_path, initial_query="router") as (pilot, screen):
        assert screen.search.view.knobs == knobs
        await press(pilot, "s", "space", "A")
        assert "- decay = true" in asked(pilot)
        assert "nothing to write. This session did not make that change." in asked(pilot)
        await press(pilot, "enter")
        assert ours.read_text() == "# mine\n[query]\nmin_score = 0.5 # strict\n"
        assert screen.search.view.defaults.min_score == 0.5 and screen.search.view.knobs == knobs
        assert screen.search.activity.said.endswith("as before the change; 2 knobs differ from it")


async def test_a_change_of_other_settings_is_not_taken_back(tmp_path: Path) -> None:
    """The key writes knobs: it must not offer to remove what was set elsewhere."""
    settings = settings_in(tmp_path)
    write_settings(settings, propose_settings(settings, {"theme": "claw-light", "query.min_score": 0.4}))
    async with running(tmp_path, initial_query="router") as (pilot, screen):
        await press(pilot, "A")
        assert "no knob differs" in screen.search.activity.said


async def test_a_knob_without_effect_is_named_before_it_is_written(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query="router") as (pilot, screen):
        screen.tune(screen.search.view.knobs.set({"half_life_days": 10}))
        await press(pilot, "A")
        assert "half-life in days has no effect now: it needs decay on." in asked(pilot).replace("\n", " ")


async def test_a_configuration_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query="router") as (pilot, screen):
        screen.tune(screen.search.view.knobs.set({"decay": True}))
        (tmp_path / "config").mkdir(exist_ok=True)
        (tmp_path / "config" / "config.toml").write_text("[query\n", "utf-8")
        await press(pilot, "A")
        assert "is not valid TOML" in screen.search.activity.trouble
        screen.search.service.reload = None
        await press(pilot, "A")
        assert "its own settings" in screen.search.activity.said


async def test_a_session_continues_and_is_started_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memo = WorkbenchState(tmp_path / "data", "main", tmp_path / "workspace")
    async with running(tmp_path) as (pilot, screen):
        assert "Continue" not in screen.hits.text and pilot.app.focused is screen.query_line
        memo.write({"queries": ["of another window"]}, {})
        assert [query for query, _ in screen.search.start_page.suggestions] == [
            "Router moved",
            "Backup of the NAS",
            "Home network",
        ]
        assert "memory/2026-03-02.md" in screen.hits.text
        assert "enter ask" in screen.query_one(KeyBar).text and "hits" not in screen.query_one(KeyBar).text
        await press(pilot, "enter")
        assert screen.search.view.query == "Router moved" and screen.hits.has_focus, "the marked row"
        await press(pilot, "/", "backspace")
        assert "▌ Router moved" in screen.hits.text
        assert not screen.query_one("#side").display, "no box without a row"
        await press(pilot, "/")
        assert screen.query_line.value == "", "the key that the page names goes to the line, also from there"
        await press(pilot, "ctrl+r", *"nas")
        assert "no earlier query matches" in pilot.app.screen.query_one(Choices).text, "no heading is one"
        await press(pilot, "escape")
        screen.query_line.value = "Backup of the NAS"
        await press(pilot, "enter")
        assert screen.search.view.query == "Backup of the NAS" and screen.search.view.answers
        await press(pilot, "/", *"router", "enter")
        assert screen.search.view.query == "router", "a new query, not more of the last one"
        await press(pilot, ":", *"pin this", "enter", "i", *" cellar", "enter")
        screen.tune(screen.search.view.knobs.set({"decay": True, "vector_weight": 0.6}))
        pilot.app.theme = "claw-light"
        await press(pilot, "v", "j")
        assert screen.hits.mode == "ranks" and screen.hits.selected is not None
        row = screen.hits.selected
        await press(pilot, "3")
    assert memo.path.stat().st_mode & 0o777 == 0o600
    kept = json.loads(memo.path.read_text())
    assert kept["queries"] == ["of another window", "Router moved", "Backup of the NAS", "router cellar"]
    assert kept["theme"] == "claw-light" and kept["query"] == "router cellar"

    assert kept["baseline"]["query"] == "router" and kept["screen"] == "index"
    async with running(tmp_path) as (pilot, screen):
        view = screen.search.view
        assert not (view.query or view.changed_knobs() or view.pin), "fresh, unless it is continued"
        assert pilot.app.theme == "claw-light" and pilot.app.focused is screen.query_line
        offered = "▌ Continue on 3 index  "
        assert "From what you left and your notes  enter asks one" in screen.hits.text
        assert offered in screen.hits.text and "enter continue" in screen.query_one(KeyBar).text
        assert "query “router cellar” · 2 changed knobs · pinned baseline “router”" in screen.hits.text
        await pilot.resize_terminal(*SMALL)
        await settled(pilot)
        assert "2 changed knobs · pinned baseline" in screen.hits.text, "not cut"
        await press(pilot, "f1")
        about = pilot.app.screen.query_one("#help-about", Pane)
        assert "“Continue” restores what the last session left" in about.text
        assert about.size.height == len(about.drawn), "no sentence is cut"
        await press(pilot, "escape", *"nas", "enter", "/", "backspace")
        assert offered in screen.hits.text, "it is still there"
        synced = held(monkeypatch, screen.search.service, "sync")
        screen.resync(Job())
        await until(pilot, lambda: screen.search.activity.phase == "syncing")
        assert offered in screen.hits.text, "also while a sync runs"
        synced.set()
        await settled(pilot)
    kept_again = json.loads(memo.path.read_text())
    assert {**kept_again, "queries": kept["queries"]} == kept, "a session about nothing leaves it"

    async with running(tmp_path) as (pilot, screen):
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, IndexScreen), "the screen that was left"
        assert (
            "continued: the query · 2 changed knobs · pinned baseline (0 starts over)"
            in pilot.app.screen.query_one("#status", Pane).text
        )
        await press(pilot, "1")
        assert pilot.app.focused is screen.hits, "where keys are keys"
        await press(pilot, "/", "/")
        assert screen.query_line.value == "router cellar", (
            "the key of the line, not the text that replaces it"
        )
        await press(pilot, "escape", ":")
        assert "recent     Pin this run as the baseline" in pilot.app.screen.query_one(Choices).text
        await press(pilot, "escape")
        view = screen.search.view
        assert view.query == "router cellar" == screen.query_line.value and view.answers
        chosen = screen.hits.selected
        assert screen.hits.mode == "ranks" and chosen is not None and screen.hits.cursor == 1
        assert (chosen.path, chosen.start_line) == (row.path, row.start_line)
        assert set(view.changed_knobs()) == {"decay", "vector_weight", "bm25_weight"}
        assert view.baseline is not None and view.baseline_name == "pinned knobs"
        assert view.pin is not None and view.pin.query == "router" and view.pin.knobs == view.defaults
        assert view.pin.trace.query == "router" and view.pin.trace.returned
        assert screen.search.history.queries[-1] == "router cellar"
        await press(pilot, "z")
        assert "nothing to undo here; U resets the knobs" in screen.search.activity.said
        await press(pilot, "0")
        view = screen.search.view
        assert not view.query and not view.changed_knobs() and view.pin is None
        assert "started over" in screen.status_line.text

    memo.path.write_text('{"version": 1, "queries": [7, "kept"], "knobs": {"decay": "perhaps"}, "query": 3')
    async with running(tmp_path) as (pilot, screen):
        assert (
            "damaged" in screen.search.activity.said
            and str(memo.path.with_suffix(".damaged")) in screen.search.activity.said
        )
        assert not screen.search.history.queries
    newer = '{"version": 2, "queries": {"of another": "form"}}'
    memo.path.write_text(newer)
    async with running(tmp_path, initial_query="nas") as (pilot, screen):
        assert "written by a newer version of openclaw-mem" in screen.search.activity.said
    assert memo.path.read_text() == newer, "it is kept for that version"
    memo.path.write_text(
        '{"version": 1, "queries": [7, "kept"], "knobs": {"decay": "perhaps"}, "screen": "x"}'
    )
    async with running(tmp_path, initial_query="nas", theme="claw-dark") as (pilot, screen):
        assert screen.search.history.queries == ["kept"] and not screen.search.view.changed_knobs()
        assert pilot.app.theme == "claw-dark" and screen.search.view.query == "nas"
        shutil.rmtree(memo.path.parent)
        memo.path.parent.write_text("in the way", "utf-8")
        app = pilot.app
    assert isinstance(app, Workbench) and f"This session is not remembered: {memo.path}" in app.unsaved


async def test_a_remembered_knob_that_there_is_no_more_leaves_the_others(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, screen):
        view = screen.search.view
        knobs = remembered.changed(view, {"decay": True, "text_weight": 0.6, "vector_weight": 0.4})
        assert {name: getattr(knobs, name) for name in knobs.changes_from(view.defaults)} == {
            "decay": True,
            "bm25_weight": 0.6,
            "vector_weight": 0.4,
        }
        assert remembered.changed(view, {"decay": "perhaps", "mmr": True}) == view.defaults
        assert remembered.changed(view, {"profile": "none of them", "mmr": True}) == view.defaults


def test_two_sessions_of_one_workspace_keep_the_queries_and_themes_of_both(tmp_path: Path) -> None:
    empty = {"queries": ["old", "older"], "theme": "", "usual_theme": "dark", "query": ""}
    one, other = (WorkbenchState(tmp_path / "data", "main", tmp_path) for _ in range(2))
    one.write(empty, {})
    chosen = {**empty, "queries": ["old", "older", "vpn"], "theme": "red", "usual_theme": "light"}
    one.write(chosen, empty)
    other.write({**empty, "queries": ["older", "nas", "old"], "query": "old"}, empty)
    kept, trouble = other.read()
    assert not trouble and kept["queries"] == ["older", "vpn", "nas", "old"], "asked again: the last"
    assert (kept["theme"], kept["usual_theme"], kept["query"]) == ("red", "light", "old")
    other.write({**empty, "theme": "blue"}, empty)
    assert other.read()[0]["usual_theme"] == "dark", "a theme is replaced with what was configured"
    one.write({**chosen, "queries": [f"q{n}" for n in range(200)]}, chosen)
    kept = one.read()[0]
    assert len(kept["queries"]) == 200 and kept["queries"][-1] == "q199" and kept["theme"] == "blue"
    long = {**kept, "queries": [f"{n} {'🎉' * 2_000}" for n in range(200)]}
    one.write(long, kept)
    shown, trouble = one.read()
    assert not trouble and shown["queries"] == long["queries"][-len(shown["queries"]) :], "the latest ones"
    assert shown["queries"] and shown["theme"] == "blue"
    with pytest.raises(OSError, match="File too large"):
        one.write({**long, "query": "🎉" * 100_000}, long)
    assert one.read() == (shown, "") and len(list(one.path.parent.glob(f"{one.path.stem}*"))) == 1
    newer = '{"version": 2}'
    one.path.write_text(newer)
    with pytest.raises(OSError, match="newer version"):
        other.write(empty, {})
    assert one.path.read_text() == newer


def test_processes_that_save_at_once_lose_no_query(tmp_path: Path) -> None:
    writes = """if True:
        import sys
        from pathlib import Path
        from openclaw_mem_engine.state.workbench import WorkbenchState
        name, folder = sys.argv[1], Path(sys.argv[2])
        memo, asked = WorkbenchState(folder, "main", folder), []
        print(flush=True), input()
        for number in range(20):
            before, asked = asked, [*asked, f"{name}{number}"]
            memo.write({"queries": asked}, {"queries": before})
    """
    line: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    running = [subprocess.Popen([sys.executable, "-c", writes, name, str(tmp_path)], **line) for name in "ab"]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()  # both have loaded what they need
    for process in running:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    assert [process.wait(60) for process in running] == [0, 0]
    queries = WorkbenchState(tmp_path, "main", tmp_path).read()[0]["queries"]
    assert sorted(queries) == sorted(f"{name}{number}" for name in "ab" for number in range(20))
    assert [query for query in queries if query[0] == "a"] == [f"a{number}" for number in range(20)]


async def test_lines_that_are_pasted_into_the_query_are_one_line(tmp_path: Path) -> None:
    async with running(tmp_path) as (pilot, screen):
        screen.query_line.focus()
        screen.query_line.post_message(Paste("the cellar\r\nrouter\n"))
        await until(pilot, lambda: bool(screen.search.view.query))
        assert screen.query_line.value == "the cellar router"


async def test_a_repair_at_the_start_is_said_and_the_session_can_be_continued(tmp_path: Path) -> None:
    async with running(tmp_path) as (pilot, screen):
        await press(pilot, *"router", "enter")
    index = settings_in(tmp_path).index_path
    index.write_bytes(b"nothing of the kind" * 500)
    async with running(tmp_path, SMALL) as (pilot, screen):
        await until(pilot, lambda: screen.search.activity.phase == "failed")
        await press(pilot, "escape", "F")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmScreen))
        await press(pilot, "enter")
        await until(pilot, lambda: screen.search.activity.phase == "ready")
        await settled(pilot)
        status = pilot.app.screen.query_one("#status", Pane).text
        assert status.startswith(" ● repaired: ") and "is kept" in screen.search.activity.said
        await press(pilot, "1", "/", "enter")
        assert "continued: the query" in screen.search.activity.said and screen.search.view.answers


async def test_what_starting_over_takes_away_comes_back_and_can_be_continued(tmp_path: Path) -> None:
    memo = WorkbenchState(tmp_path / "data", "main", tmp_path / "workspace")
    async with running(tmp_path) as (pilot, screen):
        await press(pilot, *"router", "enter", ".")
        expected = dict(screen.search.view.expected)
        assert list(expected.values()) == ["router"]
        screen.tune(screen.search.view.knobs.set({"min_score": 0.1}))
        await press(pilot, "b", "t", "0")
        said = screen.search.activity.said
        assert said.startswith("started over (esc then z undoes it): no query; ")
        assert "From what you left" in screen.hits.text and "▌ Continue: router  " in screen.hits.text
        assert "1 changed knob · pinned baseline" in screen.hits.text
        await press(pilot, "escape", "z")
        view = screen.search.view
        assert screen.search.activity.said == "undo: back to “router”, min score .10; Z redoes it"
        assert view.query == "router" == screen.query_line.value and view.answers
        assert [*view.changed_knobs()] == ["min_score"] and view.pin is not None
        assert screen.preview.citations == "on" and "✓ " in screen.answer.text
        await press(pilot, "Z")
        assert screen.search.activity.said == "redo: started over; z undoes it"
        assert not screen.search.view.query and not screen.search.view.changed_knobs()
        assert screen.query_line.value == "" and "▌ Continue: router  " in screen.hits.text
        await press(pilot, "0")
        assert "undoes it" not in screen.search.activity.said, "nothing was there"
        await press(pilot, "escape", "z")
        assert screen.search.view.query == "router" and screen.search.view.answers
    kept = json.loads(memo.path.read_text())
    assert kept["query"] == "router" and kept["knobs"] == {"min_score": 0.1}
