"""Writing notes: exact bytes, one lock, an undo for everything, and nothing lost to a kill."""

from __future__ import annotations

import difflib
import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import NoteChanged, PathRefused, UsageError, WorkspaceError
from openclaw_mem_engine.notes.edit import NoteEdit, appended
from openclaw_mem_engine.notes.editor import KEEP_EDITS, NoteEditor
from openclaw_mem_engine.state.events import EVENTS_FILE, EventLog
from support.kills import killed_at
from support.memories import empty_workspace

DAY = "memory/2026-02-14.md"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return empty_workspace(tmp_path)


def _note(settings: Settings, path: str) -> Path:
    return settings.workspace / path


def test_text_is_exact_to_the_byte(settings: Settings) -> None:
    data = "\ufeff# Köln\r\nline\r\n".encode() + b"\xff bad\n"
    _note(settings, DAY).write_bytes(data)
    editor = NoteEditor(settings)
    text = editor.read(DAY)
    assert text is not None
    editor.write(editor.propose(DAY, f"{text}more\r\n", "test"))
    assert _note(settings, DAY).read_bytes() == data + b"more\r\n"
    editor.undo()
    assert _note(settings, DAY).read_bytes() == data


def test_mode_is_kept_and_ours_are_private(settings: Settings) -> None:
    _note(settings, DAY).write_text("a\n")
    _note(settings, DAY).chmod(0o640)
    NoteEditor(settings).append(DAY, "b", "test")
    assert _note(settings, DAY).stat().st_mode & 0o777 == 0o640
    for file in (settings.data_dir / "edits").rglob("*"):
        assert file.stat().st_mode & 0o077 == 0, file


def test_a_full_disk_of_the_edits_is_named_and_not_the_note(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The notes may be on another disk."""

    def full(path: Path, *_rest: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # as a write does, without a name

    monkeypatch.setattr("openclaw_mem_engine.notes.editor.write_file", full)
    with pytest.raises(WorkspaceError) as refused:
        NoteEditor(settings).append(DAY, "a", "test")
    assert str(refused.value).startswith(f"The disk that holds {settings.data_dir / 'edits'}")
    assert str(refused.value).endswith(" is full. What was stored before is kept. Free some space.")
    assert not _note(settings, DAY).exists()


def test_the_event_log_is_closed_after_each_event(settings: Settings) -> None:
    editor = NoteEditor(settings)
    editor.append(DAY, "a", "test")
    log = settings.data_dir / EVENTS_FILE
    assert log.exists()
    assert not log.with_name(f"{log.name}-wal").exists(), "SQLite removes it with the last connection"
    editor.undo()
    assert len(EventLog(log).read()) == 2


def test_append_keeps_line_endings_and_makes_the_note(settings: Settings) -> None:
    editor = NoteEditor(settings)
    assert editor.append(DAY, "first", "test").added == 1
    _note(settings, DAY).write_bytes(b"one\r\ntwo")
    editor.append(DAY, "three\nfour\n", "test")
    assert _note(settings, DAY).read_bytes() == b"one\r\ntwo\r\nthree\r\nfour\r\n"


def test_a_note_that_changed_is_left_as_it_is(settings: Settings) -> None:
    editor = NoteEditor(settings)
    _note(settings, DAY).write_text("a\n")
    edit = editor.propose(DAY, "b\n", "test")
    _note(settings, DAY).write_text("changed elsewhere\n")
    with pytest.raises(NoteChanged):
        editor.write(edit)
    assert _note(settings, DAY).read_text() == "changed elsewhere\n"
    assert editor.history() == []


@pytest.mark.parametrize("lost", ["before", "edit.json"])
def test_a_lost_text_is_said_and_the_note_stays(settings: Settings, lost: str) -> None:
    _note(settings, DAY).write_text("a\n")
    editor = NoteEditor(settings)
    editor.append(DAY, "b", "test")
    (kept,) = (settings.data_dir / "edits").rglob(lost)
    kept.unlink()
    with pytest.raises(UsageError, match=r"damaged or lost|no change left to undo"):
        editor.undo()
    with pytest.raises(UsageError, match="damaged or lost"):
        editor.before(1)
    assert _note(settings, DAY).read_text() == "a\nb\n"


@pytest.mark.parametrize("ending", ["-le", "-be"])
def test_a_note_in_utf_16_is_refused(settings: Settings, ending: str) -> None:
    _note(settings, DAY).write_bytes("\ufeff# Köln\n".encode(f"utf-16{ending}"))
    with pytest.raises(PathRefused, match=r"it looks like UTF-16\); save it as UTF-8"):
        NoteEditor(settings).append(DAY, "b", "test")


@pytest.mark.parametrize("path", ["../x.md", "/etc/x.md", "notes.md", "memory/x.txt", "memory/.git/x.md"])
def test_only_memory_is_written(settings: Settings, path: str) -> None:
    with pytest.raises(PathRefused):
        NoteEditor(settings).append(path, "x", "test")


def test_links_are_refused(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (settings.workspace / "memory" / "away").symlink_to(tmp_path / "out")
    _note(settings, "memory/link.md").symlink_to(tmp_path / "out" / "x.md")
    original = _note(settings, "memory/two.md")
    original.write_text("a\n")
    _note(settings, "memory/names.md").hardlink_to(original)
    for path in ("memory/away/x.md", "memory/link.md", "memory/two.md"):
        with pytest.raises(PathRefused):
            NoteEditor(settings).append(path, "x", "test")
    assert list((tmp_path / "out").iterdir()) == [] and original.read_text() == "a\n"


def test_a_read_only_folder_is_said_and_nothing_is_left(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    _note(settings, DAY).write_text("a\n")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(WorkspaceError, match="Permission denied"):
        NoteEditor(settings).append(DAY, "b", "test")
    assert [entry.name for entry in _note(settings, DAY).parent.iterdir()] == ["2026-02-14.md"]
    assert NoteEditor(settings).history() == []


def test_two_at_once_lose_nothing(settings: Settings) -> None:
    def write(name: str) -> None:
        for number in range(10):
            NoteEditor(settings).append(DAY, f"{name}{number}", "test")

    threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = _note(settings, DAY).read_text().split()
    assert sorted(lines) == sorted(f"{name}{number}" for name in "ab" for number in range(10))


def test_edits_are_events_and_old_ones_go(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclaw_mem_engine.notes.editor.KEEP_EDITS", 3)
    assert KEEP_EDITS > 3
    editor = NoteEditor(settings, clock=lambda: 1000.0)
    for number in range(5):
        editor.append(DAY, f"line {number}", "test")
    assert [edit.id for edit in editor.history()] == [5, 4, 3]
    log = EventLog(settings.data_dir / EVENTS_FILE)
    assert [event.text for event in log.read(2, ["edit"])] == [f"test: {DAY} +1 line"] * 2


def test_diff_names_a_missing_end_of_line() -> None:
    edit = NoteEdit("memory/x.md", "a\nb", "a\nc\n", "test")
    lines = ["--- a/memory/x.md", "+++ b/memory/x.md", "@@ -1,2 +1,2 @@", " a", "-b"]
    assert edit.diff().splitlines() == [*lines, "\\ No newline at end of file", "+c"]
    assert (edit.added, edit.removed) == (1, 1)
    assert NoteEdit("x", None, "a\n", "t").diff().startswith("--- /dev/null\n+++ b/x\n")
    assert appended(None, "\nx\n\n") == "x\n"


def test_the_changes_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Mock(wraps=difflib.unified_diff)
    monkeypatch.setattr(difflib, "unified_diff", compute)
    edit = NoteEdit("x", "a\nb\n", "a\nc\nd\n", "t")
    assert (edit.added, edit.removed, edit.summary()) == (2, 1, "x +2 -1 line") and "+d" in edit.diff()
    assert compute.call_count == 1
    assert edit.in_words() == "2 lines added, 1 line removed from x"
    assert NoteEdit("x", "a\n", "a\nb\n", "t").in_words() == "1 line added to x"
    assert NoteEdit("x", "a\nb\n", "a\n", "t").in_words() == "1 line removed from x"
    assert NoteEdit("x", "a\n", None, "t").in_words() == "x removed"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("before", ["old text\n", None])
def test_a_kill_at_every_step_leaves_the_old_or_the_new_text(tmp_path: Path, before: str | None) -> None:
    """Every step of every edit is killed once; the next edit works, and the history is true."""
    after = appended(before, "new line")
    seen: set[str | None] = set()
    for step in range(1, 200):
        root = tmp_path / str(step)
        (root / "ws" / "memory").mkdir(parents=True)
        note = root / "ws" / DAY
        if before is not None:
            note.write_text(before)
        settings = load_settings(
            workspace=root / "ws", environ={"OPENCLAW_MEM_HOME": str(root / "data")}, home=root, cwd=root
        )

        def work(begin: Callable[[], None], settings: Settings = settings) -> None:
            editor = NoteEditor(settings)
            begin()
            editor.append(DAY, "new line", "test")

        status = killed_at(step, work)
        text = note.read_text() if note.exists() else None
        assert text in (before, after)
        seen.add(text)
        if text is not None:
            note.write_text(f"{text}of another program\n")
        editor = NoteEditor(settings)
        editor.append("MEMORY.md", "next", "test")
        made = [edit.path for edit in editor.history()]
        assert made == (["MEMORY.md", DAY] if text == after else ["MEMORY.md"])
        if text == after:
            assert editor.before(1) == before and note.read_text() == f"{after}of another program\n"
        assert [entry.name for entry in note.parent.iterdir()] == ([] if text is None else [note.name])
        if not status:
            break
        assert status == signal.SIGKILL
    else:
        pytest.fail("an edit has fewer steps than this")
    assert seen == {before, after} and step > 5


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_in_the_place_of_a_state_file_is_no_record(settings: Settings) -> None:
    """To open one would wait for a writer: the process that is asked here ends."""
    editor = NoteEditor(settings)
    editor.append(DAY, "a", "test")
    editor.append(DAY, "b", "test")
    (last, _) = sorted((settings.data_dir / "edits").glob("*/*/edit.json"), reverse=True)
    last.unlink()
    os.mkfifo(last)
    code = "import sys; from pathlib import Path; from openclaw_mem_engine.state.disk import read_file\n"
    code += "try: read_file(Path(sys.argv[1]))\nexcept OSError as error: print(error.strerror)"
    asked = [sys.executable, "-c", code, str(last)]
    assert (
        subprocess.run(asked, capture_output=True, timeout=30, check=True).stdout == b"not a regular file\n"
    )
    assert [edit.id for edit in editor.history(9)] == [1], "as any record that cannot be read"
