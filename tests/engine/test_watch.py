"""The watcher hints at what changed; only notes count."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw_mem_engine.sync.watch import watch_notes
from support.memories import settings_for, write_notes

#: Far more than it takes; a lost event fails the test instead of hanging it.
_PATIENCE_S = 10.0


async def changed_paths(workspace: Path, home: Path, act: Callable[[], object]) -> frozenset[str]:
    """The first group of paths that the watcher reports after ``act``."""
    stop = asyncio.Event()

    async def first_group() -> frozenset[str]:
        async for paths in watch_notes(settings_for(workspace, home), stop):
            if paths:
                return paths
        return frozenset()

    waiting = asyncio.create_task(first_group())
    await asyncio.sleep(0.5)  # the watcher needs a moment to look at the tree
    act()
    try:
        return await asyncio.wait_for(waiting, _PATIENCE_S)
    finally:
        stop.set()


async def test_an_edit_is_reported(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    note = workspace / "memory" / "a.md"
    paths = await changed_paths(workspace, tmp_path / "home", lambda: _append(note, "two\n"))
    assert str(note) in paths


async def test_an_editor_that_replaces_the_file_is_reported(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "one\n"})

    def replace() -> None:
        beside = workspace / ".MEMORY.md.swp"
        beside.write_text("two\n")
        os.replace(beside, workspace / "MEMORY.md")  # noqa: PTH105 - what editors call

    paths = await changed_paths(workspace, tmp_path / "home", replace)
    assert str(workspace / "MEMORY.md") in paths


async def test_a_note_in_a_new_folder_is_reported(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    paths = await changed_paths(
        workspace, tmp_path / "home", lambda: write_notes(workspace, {"memory/new/deep/b.md": "x"})
    )
    assert any("new" in path for path in paths)


async def test_what_is_no_memory_is_not_reported(tmp_path: Path) -> None:
    workspace = write_notes(
        tmp_path / "ws", {"memory/a.md": "one\n", "memory/.git/c.md": "x", "src/x.md": "x"}
    )
    note = workspace / "memory" / "a.md"

    def act() -> None:
        write_notes(workspace, {"memory/.git/c.md": "y", "src/x.md": "y", "memory/data.txt": "y"})
        _append(note, "two\n")

    assert await changed_paths(workspace, tmp_path / "home", act) == {str(note)}


async def test_a_missing_workspace_gives_nothing(tmp_path: Path) -> None:
    groups = [g async for g in watch_notes(settings_for(tmp_path / "no", tmp_path / "home"), asyncio.Event())]
    assert groups == []


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


async def test_a_memory_folder_that_comes_later_is_watched(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "one\n"})
    stop = asyncio.Event()
    seen: list[frozenset[str]] = []

    async def collect() -> None:
        async for paths in watch_notes(settings_for(workspace, tmp_path / "home"), stop):
            seen.append(paths)
            # The folder itself may be all that is reported: its note came before it was watched.
            if any("/memory/sub" in path for path in paths):
                return

    waiting = asyncio.create_task(collect())
    await asyncio.sleep(0.5)
    write_notes(workspace, {"memory/first.md": "x\n"})
    await asyncio.sleep(1.5)
    write_notes(workspace, {"memory/sub/later.md": "x\n"})
    try:
        await asyncio.wait_for(waiting, _PATIENCE_S)
    finally:
        stop.set()
    assert any(str(workspace / "memory") in paths for paths in seen)


async def test_what_lies_beside_memory_costs_no_watches(tmp_path: Path) -> None:
    """A workspace may hold repositories: their folders must not use up the system's watches."""
    workspace = write_notes(tmp_path / "ws", {f"code/node_modules/p{n}/readme.md": "x" for n in range(50)})
    before = _inotify_watches()
    stop = asyncio.Event()

    async def run() -> None:
        async for _ in watch_notes(settings_for(workspace, tmp_path / "home"), stop):
            pass

    running = asyncio.create_task(run())
    await asyncio.sleep(0.5)
    try:
        assert _inotify_watches() - before < 10
    finally:
        stop.set()
        await asyncio.wait_for(running, _PATIENCE_S)


def _inotify_watches() -> int:
    """How many folders this process watches."""
    infos = Path("/proc/self/fdinfo")
    if not infos.is_dir():
        pytest.skip("needs Linux's /proc to count watches")
    count = 0
    for info in infos.iterdir():
        with contextlib.suppress(OSError):
            count += sum(line.startswith("inotify") for line in info.read_text().splitlines())
    return count
