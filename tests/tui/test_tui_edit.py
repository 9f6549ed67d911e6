"""A note in the editor: what opens, and what the answer before the edit becomes."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from lab_world import held, press, settled, until
from test_tui_remember import running

from openclaw_mem_tui.app import Workbench


@pytest.fixture
def suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal of a test cannot be left to an editor."""
    monkeypatch.setattr(Workbench, "suspend", lambda _app: nullcontext())


@pytest.mark.usefixtures("suspended")
async def test_the_run_before_an_edit_is_the_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "true")
    async with running(tmp_path, initial_query="cellar") as (pilot, screen):
        await press(pilot, "e")
        unknown = "true closed; opened without a line number (unknown editor)"
        assert screen.search.activity.said == unknown and screen.search.view.pin is None
        before = screen.search.view.trace
        editor = tmp_path / "vim"
        editor.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/asked"\n', "utf-8")
        editor.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(editor))
        await press(pilot, "e", "y")
        assert screen.hits.selected is not None and screen.hits.selected.start_line == 1
        assert (tmp_path / "asked").read_text().startswith("+4 "), "the line that matches, not the first one"
        assert pilot.app.clipboard == "memory/2026-03-02.md:4"
        monkeypatch.setenv("VISUAL", "sed -i s/cellar/attic/")
        await press(pilot, "e")
        await until(pilot, lambda: screen.search.view.trace is not before and screen.search.view.answers)
        view = screen.search.view
        assert view.baseline is not None and view.baseline.name == "before the edit"
        assert view.trace is not None and not view.trace.returned
        assert len(view.baseline.trace.returned) == 1
        assert "baseline: before the edit" in screen.funnel.text
        # What the sync found joins it.
        await until(pilot, lambda: "indexed" in screen.search.activity.said)
        assert screen.search.activity.said == (
            "memory/2026-03-02.md indexed; the run before the edit is the baseline"
        )
        await press(pilot, "U")
        assert screen.search.view.baseline_name == "default", "that is the other way to end it"
        await press(pilot, "b")
        monkeypatch.setenv("VISUAL", "sed -i s/attic/loft/")
        screen.search.say("")
        await press(pilot, "W", *"2026-03-02.md:4", "enter", "e")
        await until(pilot, lambda: "indexed" in screen.search.activity.said)
        assert "the baseline instead of the pinned run" in screen.search.activity.said
        await press(pilot, "escape")
    async with running(tmp_path) as (pilot, screen):
        assert "baseline" not in screen.hits.text, "the run before an edit cannot be run again"
        await press(pilot, "enter")
        assert screen.search.view.answers and screen.search.view.baseline_name == "default"
        await press(pilot, "/", *"postgres")
        assert screen.search.view.query == "postgres" == screen.query_line.value, "instead of the last query"


async def test_the_run_before_a_fact_was_written_or_taken_back_is_the_baseline(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query="cellar") as (pilot, screen):
        search = screen.search
        for keys, found in ((("M", *"the cellar is dry", "enter"), 2), (("D", "enter"), 1)):
            before = search.view.trace
            await press(pilot, *keys)
            await until(pilot, lambda before=before: search.view.trace is not before and search.view.answers)
            await until(pilot, lambda: "indexed" in search.activity.said)
            assert search.view.baseline is not None and search.view.baseline.trace is before
            assert search.activity.said.endswith("the run before the edit is the baseline")
            assert search.view.trace is not None and len(search.view.trace.returned) == found
        await press(pilot, "B", "M", "escape")
        assert search.view.baseline_name == "default", "nothing was written"


@pytest.mark.usefixtures("suspended")
async def test_a_cleared_baseline_comes_back_with_its_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "sed -i s/cellar/attic/")
    async with running(tmp_path, initial_query="cellar") as (pilot, screen):
        before = screen.search.view.trace
        await press(pilot, "full_stop", "e")
        await until(pilot, lambda: screen.search.view.trace is not before and screen.search.view.answers)
        await settled(pilot)
        assert screen.search.view.baseline_name == "before the edit" and "(out)" in screen.answer.text
        await press(pilot, "B")
        assert screen.search.view.baseline_name == "default"
        assert screen.search.activity.said == "the configured defaults are the baseline; z undoes it"
        assert "expected" in screen.answer.text and "(out)" not in screen.answer.text, "nor a move against it"
        await press(pilot, "z")
        assert screen.search.activity.said == "undo: baseline: before the edit; Z redoes it"
        baseline = screen.search.view.baseline
        assert baseline is not None and baseline.trace is before and "(out)" in screen.answer.text
        await press(pilot, "Z")
        assert screen.search.activity.said == "redo: baseline: default; z undoes it"
        assert screen.search.view.pin is None and "(out)" not in screen.answer.text
        await press(pilot, "B")
        assert screen.search.activity.said == "the configured defaults are the baseline", "no step"
        await press(pilot, "z")
        assert screen.search.view.baseline_name == "before the edit"
        await press(pilot, "U", "z")
        assert screen.search.view.baseline_name == "before the edit", "the key that resets all clears it too"


async def test_the_terminal_comes_back_after_an_editor_that_does_not_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "nosuchedit")
    async with running(tmp_path, initial_query="cellar") as (pilot, screen):
        driver, seen = type(pilot.app._driver), list[str]()
        monkeypatch.setattr(driver, "can_suspend", True)
        for name in ("suspend_application_mode", "resume_application_mode"):
            monkeypatch.setattr(driver, name, lambda _driver, name=name: seen.append(name.partition("_")[0]))
        await press(pilot, "e")
        assert seen == ["suspend", "resume"]
        said = "editor “nosuchedit” was not found: set $EDITOR or the setting editor"
        assert screen.search.activity.said == said
        await until(pilot, lambda: f" ✗ {said}" in screen.status_line.text)


async def test_the_key_of_the_editor_says_when_there_is_no_hit(tmp_path: Path) -> None:
    async with running(tmp_path) as (pilot, screen):
        screen.hits.focus()
        await press(pilot, "e")
        assert screen.search.activity.said == "nothing to edit: no chunk is selected"


@pytest.mark.usefixtures("suspended")
async def test_the_key_of_the_editor_before_the_first_results_opens_the_first_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "true")
    async with running(tmp_path) as (pilot, screen):
        found = held(monkeypatch, screen.search.service, "retrieve")
        screen.query_line.value = "cellar"
        await pilot.press("escape", "e", "e")
        assert screen.search.activity.said == "the first chunk will be opened in your editor"
        assert screen.hits.selected is None
        found.set()
        await until(pilot, lambda: screen.search.activity.said.startswith("true closed"))
        assert screen.hits.selected is not None and screen.search.view.answers
        # Another query replaces the one that was waited for.
        found.clear()
        await press(pilot, "0")
        screen.query_line.value = "router"
        await pilot.press("escape", "e")
        screen.query_line.value = "printer"
        found.set()
        await settled(pilot)
        assert screen.search.view.query == "printer" and screen.search.activity.said != "true closed"


def _others_write(root: Path, text: str, at: int = 2) -> None:
    note = root / "workspace" / "memory" / f"2026-03-0{at}.md"
    note.write_text(f"{note.read_text('utf-8')}\n{text}\n", "utf-8")


async def test_a_baseline_of_an_earlier_index_says_so_until_it_is_searched_again(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query="cellar") as (pilot, screen):
        search = screen.search
        await until(pilot, lambda: search.sync.follows)
        await press(pilot, "b", "p", "G", "right", "escape")
        assert "baseline: pinned, snippet budget auto " in f"{screen.funnel.text} "
        before = search.view.trace
        _others_write(tmp_path, "The cellar is dry.")
        await until(pilot, lambda: search.view.trace is not before and search.view.answers)
        await settled(pilot)
        end = "baseline: pinned, before the index changed"
        assert screen.funnel.text.rstrip().endswith(end), "a pin is never replaced"
        await press(pilot, "space")
        assert "of the index as it is now" in search.activity.said
        assert "before the index changed" not in screen.funnel.text
        await press(pilot, "space")
        assert "now" not in search.activity.said and "changed" not in screen.funnel.text


async def test_the_run_before_edits_of_others_is_the_baseline_where_they_change_the_answer(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, initial_query="cellar") as (pilot, screen):
        search = screen.search
        await until(pilot, lambda: search.sync.follows)
        first = search.view.trace
        for at, (text, name) in enumerate((("Peas grow.", "default"), ("A cellar.", "before others' edits"))):
            before = search.view.trace
            _others_write(tmp_path, text, 1)
            await until(pilot, lambda before=before: search.view.trace is not before and search.view.answers)
            await settled(pilot)
            assert search.view.baseline_name == name, at
            first = first if at else search.view.trace
        assert screen.funnel.text.rstrip().endswith("baseline: before others' edits")
        before = search.view.trace
        _others_write(tmp_path, "The cellar, the cellar and the cellar.")
        await until(pilot, lambda: search.view.trace is not before and search.view.answers)
        await settled(pilot)
        assert search.view.baseline is not None and search.view.baseline.trace is first, "the first of them"
        await press(pilot, "p", "G", "right", "escape")
        assert "before others' edits" not in screen.funnel.text, (
            "the knobs are compared with those configured"
        )
        await press(pilot, "u", "U")
        await press(pilot, "slash", *"router", "enter")
        assert search.view.pin is None, "nor is it of another query"


async def test_an_edit_of_others_that_changes_a_returned_chunk_alone_is_compared_too(tmp_path: Path) -> None:
    async with running(tmp_path, initial_query="cellar") as (pilot, screen):
        search = screen.search
        await until(pilot, lambda: search.sync.follows)
        before = search.view.trace
        assert before is not None
        first = before.returned[0].path
        note = tmp_path / "workspace" / first
        note.write_text(note.read_text("utf-8").replace("cellar", "cellar, cellar", 1), "utf-8")
        await until(pilot, lambda: search.view.trace is not before and search.view.answers)
        await settled(pilot)
        after = search.view.trace
        assert after is not None and after.returned[0].path == first
        assert search.view.baseline_name == "before others' edits"
