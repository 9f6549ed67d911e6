"""The watcher hints at what changed; only notes count."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw_mem_engine.sync.watch import Watcher
from support.memories import settings_for, write_notes

#: Far more than it takes; a lost event fails the test instead of hanging it.
_PATIENCE_S = 10.0


def changed_paths(workspace: Path, home: Path, act: Callable[[], object]) -> frozenset[str]:
    """The first group of paths that the watcher reports after ``act``."""
    stop, end = threading.Event(), time.monotonic() + _PATIENCE_S
    groups = Watcher(settings_for(workspace, home)).groups(stop, lambda _: None)
    assert next(groups) == frozenset(), "from now on every change is noticed"
    act()
    for paths in groups:
        if paths or time.monotonic() > end:
            stop.set()
            return paths
    return frozenset()


def test_an_edit_is_reported(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    note = workspace / "memory" / "a.md"
    paths = changed_paths(workspace, tmp_path / "home", lambda: _append(note, "two\n"))
    assert str(note) in paths


def test_an_editor_that_replaces_the_file_is_reported(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "one\n"})

    def replace() -> None:
        beside = workspace / ".MEMORY.md.swp"
        beside.write_text("two\n")
        os.replace(beside, workspace / "MEMORY.md")  # noqa: PTH105 - what editors call

    paths = changed_paths(workspace, tmp_path / "home", replace)
    assert str(workspace / "MEMORY.md") in paths


def test_a_note_in_a_new_folder_is_reported(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    paths = changed_paths(
        workspace, tmp_path / "home", lambda: write_notes(workspace, {"memory/new/deep/b.md": "x"})
    )
    assert any("new" in path for path in paths)


def test_what_is_no_memory_is_not_reported(tmp_path: Path) -> None:
    workspace = write_notes(
        tmp_path / "ws", {"memory/a.md": "one\n", "memory/.git/c.md": "x", "src/x.md": "x"}
    )
    note = workspace / "memory" / "a.md"

    def act() -> None:
        write_notes(workspace, {"memory/.git/c.md": "y", "src/x.md": "y", "memory/data.txt": "y"})
        _append(note, "two\n")

    assert changed_paths(workspace, tmp_path / "home", act) == {str(note)}


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_a_memory_folder_that_comes_later_is_watched(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "one\n"})
    stop, end, seen = threading.Event(), time.monotonic() + _PATIENCE_S, list[frozenset[str]]()
    for paths in Watcher(settings_for(workspace, tmp_path / "home")).groups(stop, lambda _: None):
        if not seen:
            write_notes(workspace, {"memory/first.md": "x\n"})
            seen.append(paths)
        elif paths:
            seen.append(paths)
            if any(path.startswith(str(workspace / "memory" / "sub")) for path in paths):
                break
            write_notes(workspace, {"memory/sub/later.md": "x\n"})
        assert time.monotonic() < end
    assert any(str(workspace / "memory") in paths for paths in seen)


def test_what_lies_beside_memory_costs_no_watches(tmp_path: Path) -> None:
    """A workspace may hold repositories: their folders must not use up the system's watches."""
    workspace = write_notes(tmp_path / "ws", {f"code/node_modules/p{n}/readme.md": "x" for n in range(50)})
    groups = Watcher(settings_for(workspace, tmp_path / "home")).groups(threading.Event(), lambda _: None)
    next(groups)
    assert 0 < _watched_below(tmp_path) < 10
    del groups  # which closes the watch; a thread of the system's library ends it
    end = time.monotonic() + _PATIENCE_S
    while _watched_below(tmp_path):
        assert time.monotonic() < end
        time.sleep(0.01)


def _watched_below(folder: Path) -> int:
    """How many of these folders this process watches; watches of other tests may still be closing."""
    infos = Path("/proc/self/fdinfo")
    if not infos.is_dir():
        pytest.skip("needs Linux's /proc to count watches")
    numbers = {f"ino:{path.stat().st_ino:x}" for path in [folder, *folder.rglob("*")]}
    count = 0
    for info in infos.iterdir():
        with contextlib.suppress(OSError):
            for line in info.read_text().splitlines():
                count += line.startswith("inotify") and not numbers.isdisjoint(line.split())
    return count
