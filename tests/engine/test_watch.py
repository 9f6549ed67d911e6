"""The watch: which folders it covers, when a group of events ends, and what a system without watches does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.sync import watch as watching
from openclaw_mem_engine.sync.changes import listed
from openclaw_mem_engine.sync.watch import Watch, system_events
from support.commands import until
from support.memories import settings_for, write_notes

#: Far more than it takes; a lost event fails the test instead of hanging it.
PATIENCE_S = 15.0
NEVER = threading.Event()


def settings_with(workspace: Path, home: Path, quiet_ms: int = 100, **changes: Any) -> Settings:
    found = settings_for(workspace, home)
    return replace(found, sync=replace(found.sync, debounce_ms=quiet_ms), **changes)


def watched_folders(settings: Settings) -> frozenset[str]:
    listing = None
    with suppress(WorkspaceError):
        listing = listed(settings)
    return watching.watched_folders(settings, listing)


def renewed(watch: Watch) -> bool:
    watch.look()
    return watch.renew()


def ends(watch: Watch, patience_s: float = PATIENCE_S) -> bool:
    """Whether a group of events ends within that time."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if watch.ended():
            return True
    return False


# -- the folders --------------------------------------------------------------------------------------------


def test_the_folders_of_a_listing_and_those_above_the_configured_paths(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n", "memory/sub/b.md": "x"})
    for ignored in ("memory/node_modules/p", "memory/.git/o", "code/deep"):
        write_notes(workspace, {f"{ignored}/readme.md": "x"})
    far = write_notes(tmp_path / "far", {"d/c.md": "x"})
    (workspace / "memory" / "link").symlink_to(far)
    write_notes(tmp_path / "extra", {"deep/x.md": "one\n"})
    write_notes(tmp_path / "single", {"note.md": "one\n"})
    talks = tmp_path / "state" / "agents" / "main" / "sessions"
    talks.parent.mkdir(parents=True)
    settings = settings_with(workspace, tmp_path / "home")
    assert watched_folders(settings) == set(
        map(str, (tmp_path, workspace, workspace / "memory", workspace / "memory" / "sub"))
    )
    settings = replace(
        settings,
        sources=("memory", "sessions"),
        extra_paths=(
            str(tmp_path / "extra"),
            str(tmp_path / "single" / "note.md"),
            str(tmp_path / "no" / "x"),
        ),
        openclaw=replace(settings.openclaw, sessions_dir=talks),
    )
    more = {tmp_path / "extra", tmp_path / "extra" / "deep", tmp_path / "single", talks.parent}
    assert watched_folders(settings) == watched_folders(
        replace(settings, sources=("memory",), extra_paths=())
    ) | set(map(str, more))
    talks.mkdir()
    assert str(talks) in watched_folders(settings)
    shutil.rmtree(workspace)
    assert str(tmp_path) in watched_folders(settings)


def test_the_folders_of_a_workspace_behind_a_link(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "v1", {"memory/a.md": "one\n"})
    link = tmp_path / "links" / "ws"
    link.parent.mkdir()
    link.symlink_to(workspace)
    folders = watched_folders(settings_with(link, tmp_path / "home"))
    assert folders == {str(link.parent), str(workspace), str(workspace / "memory")}


def test_our_own_files_have_no_events(tmp_path: Path) -> None:
    """Each sync writes them: their events would start the next one."""
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    settings = settings_with(workspace, tmp_path / "home")
    beside = replace(settings, data_dir=tmp_path, index_path=workspace / "memory" / "main.sqlite")
    assert watched_folders(settings) - watched_folders(beside) == {str(tmp_path), str(workspace / "memory")}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc and inotify")
def test_one_watch_a_folder(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a/b/c.md": "one\n", "code/x/y.md": "x"})
    watch = Watch(settings_with(workspace, tmp_path / "home"), NEVER)
    with closing(watch):
        assert renewed(watch) and not renewed(watch)
        assert _watched_below(tmp_path) == 5
        (workspace / "memory" / "new").mkdir()
        assert renewed(watch)
        until(lambda: _watched_below(tmp_path) == 6)  # a thread of the system's library ends the first
    until(lambda: not _watched_below(tmp_path))


# -- groups of events ---------------------------------------------------------------------------------------


def test_an_editor_that_replaces_the_file(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "one\n", "memory/a.md": "one\n"})
    with closing(Watch(settings_with(workspace, tmp_path / "home"), NEVER)) as watch:
        renewed(watch)
        for number, note in enumerate((workspace / "MEMORY.md", workspace / "memory" / "a.md") * 2):
            beside = note.with_name(f".{note.name}.swp")
            beside.write_text(f"{number}\n")
            beside.replace(note)
            assert ends(watch)
        assert not ends(watch, 0.5)


def test_what_comes_and_goes_by_name(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/old/a.md": "one\n"})
    with closing(Watch(settings_with(workspace, tmp_path / "home"), NEVER)) as watch:
        renewed(watch)
        for change in (
            lambda: (workspace / "memory" / "old").rename(workspace / "memory" / "new"),
            lambda: shutil.rmtree(workspace / "memory" / "new"),
            lambda: workspace.rename(tmp_path / "elsewhere"),
            lambda: write_notes(workspace, {"memory/b.md": "two\n"}),
        ):
            change()
            assert ends(watch)
            renewed(watch)


def test_a_mass_change_is_few_groups(tmp_path: Path) -> None:
    notes = {f"memory/d{n % 40}/n{n}.md": "one\n" for n in range(2_000)}
    workspace = write_notes(tmp_path / "ws", notes)
    with closing(Watch(settings_with(workspace, tmp_path / "home", quiet_ms=300), NEVER)) as watch:
        renewed(watch)
        changing = threading.Thread(
            target=lambda: [(workspace / path).write_text(f"{n}\n") for n, path in enumerate(notes)]
        )
        changing.start()
        groups = 0
        while changing.is_alive() or ends(watch, 1.0):
            groups += watch.ended()
        assert groups < 20, "one, unless this process had to wait for a processor"


def test_changes_that_never_stop_are_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.sync.watch.LONGEST_S", 1.0)
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    note = workspace / "memory" / "a.md"
    with closing(Watch(settings_with(workspace, tmp_path / "home", quiet_ms=400), NEVER)) as watch:
        renewed(watch)
        end = time.monotonic() + PATIENCE_S
        while not watch.ended():
            assert time.monotonic() < end
            note.write_text(f"{time.monotonic()}\n")


def test_the_quiet_time_is_the_configured_one(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    with closing(Watch(settings_with(workspace, tmp_path / "home", quiet_ms=1_800), NEVER)) as watch:
        renewed(watch)
        began = time.monotonic()
        (workspace / "memory" / "a.md").write_text("two\n")
        assert ends(watch)
        assert time.monotonic() - began > 1.7, "more than what is the default"


# -- when the system does not watch -------------------------------------------------------------------------


def test_a_watch_that_ends(tmp_path: Path) -> None:
    """The system may stop to watch in the middle of it."""
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})

    def ending(folders: Collection[str], stop: CancelToken) -> Iterator[bool]:
        for number, happened in enumerate(system_events(folders, stop)):
            if number > 5:
                raise RuntimeError('the queue is gone. about ["/some/folder"]')
            yield happened

    watch = Watch(settings_with(workspace, tmp_path / "home"), NEVER, ending)
    assert renewed(watch) and watch.failure == ""
    assert ends(watch), "what came in between is for a comparison"
    assert watch.failure == "the queue is gone"
    assert not renewed(watch) and not ends(watch, 0.3)
    (workspace / "memory" / "new").mkdir()
    assert renewed(watch) and watch.failure == ""


_LIMITED = """
import sys, threading
from pathlib import Path
from support.memories import open_memory
Path("/proc/sys/user/max_inotify_" + sys.argv[3]).write_text(sys.argv[4])
stop = threading.Event()
workspace = Path(sys.argv[1])
def show(event):
    print(event.event, event.note and event.note.text, event.report and event.report.changed, flush=True)
    if event.note:
        (workspace / "memory" / "new.md").write_text("zeppelin")
    if event.reason == "changes":
        stop.set()
limit = threading.Timer(40, stop.set)
limit.daemon = True  # the process ends when the change was found
limit.start()
with open_memory(workspace, Path(sys.argv[2]), provider="none") as memory:
    memory.follow(show, stop)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc and inotify")
@pytest.mark.parametrize(("kind", "limit"), [("watches", 3), ("instances", 0)])
def test_a_system_without_watches_left(tmp_path: Path, kind: str, limit: int) -> None:
    """The real limit, in a user namespace of its own."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(
            ["unshare", "-Ur", "test", "-w", "/proc/sys/user/max_inotify_watches"], check=False
        ).returncode
    ):
        pytest.skip("no user namespace may be made here")
    workspace = write_notes(tmp_path / "ws", {f"memory/d{n}/a.md": "one\n" for n in range(10)})
    arguments = [str(workspace), str(tmp_path / "home"), kind, str(limit)]
    done = subprocess.run(
        ["unshare", "-Ur", sys.executable, "-c", _LIMITED, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["watching", "sync", "note", "sync", "stopped"], done.stderr
    assert "The system does not report changes: " in lines[2]
    assert "memory/new.md" in lines[3]


def _watched_below(folder: Path) -> int:
    """How many of these folders this process watches; watches of other tests may still be closing."""
    numbers = {f"ino:{path.stat().st_ino:x}" for path in [folder, *folder.rglob("*")]}
    count = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):
            for line in info.read_text().splitlines():
                count += line.startswith("inotify") and not numbers.isdisjoint(line.split())
    return count
