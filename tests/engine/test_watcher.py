"""The watcher itself: what it notices, what it costs, and what it does when the system does not watch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, Queue

import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.sync import watch_targets
from openclaw_mem_engine.sync.watch import Watcher, system_watch
from openclaw_mem_engine.sync.watch_targets import WatchTargets, network_target
from support.commands import until
from support.memories import settings_for, write_notes

#: Far more than it takes; a lost event fails the test instead of hanging it.
_PATIENCE_S = 15.0
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc and inotify")


class Heard:
    """What a running watcher has told."""

    def __init__(self) -> None:
        self.groups: Queue[frozenset[str]] = Queue()
        self.notes: Queue[Note] = Queue()

    def group(self, patience_s: float = _PATIENCE_S) -> frozenset[str]:
        return self.groups.get(timeout=patience_s)

    def until(self, path: Path, patience_s: float = _PATIENCE_S) -> None:
        """Wait for a group that tells of a path, or of a folder above it."""
        end = time.monotonic() + patience_s
        while not any(
            path.is_relative_to(reported) for reported in self.group(max(0.01, end - time.monotonic()))
        ):
            pass

    def nothing(self, seconds: float = 1.0) -> bool:
        try:
            return not self.groups.get(timeout=seconds)
        except Empty:
            return True


def settings_with(workspace: Path, home: Path, quiet_ms: int = 200, **changes: object) -> Settings:
    found = settings_for(workspace, home)
    sync = replace(found.sync, debounce_ms=quiet_ms)
    return replace(found, sync=sync, **changes)  # type: ignore[arg-type]


@contextmanager
def watching(watcher: Watcher) -> Iterator[Heard]:
    """A watcher that runs in a thread of its own and is ready."""
    heard, stop, ready = Heard(), threading.Event(), threading.Event()

    def run() -> None:
        for paths in watcher.groups(stop, heard.notes.put):
            if paths:
                heard.groups.put(paths)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(_PATIENCE_S)
        yield heard
    finally:
        stop.set()
        thread.join(_PATIENCE_S)
        assert not thread.is_alive(), "it does not stop"


@pytest.fixture(params=[False, True], ids=["folder by folder", "whole trees"])
def watcher_of(request: pytest.FixtureRequest) -> Callable[[Settings], Watcher]:
    """Both ways of watching, whatever this system does by itself."""
    return lambda settings: Watcher(settings, whole_trees=request.param)


def test_an_editor_that_replaces_the_file(tmp_path: Path, watcher_of: Callable[[Settings], Watcher]) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "one\n", "memory/a.md": "one\n"})
    with watching(watcher_of(settings_with(workspace, tmp_path / "home"))) as heard:
        for number, note in enumerate((workspace / "MEMORY.md", workspace / "memory" / "a.md") * 2):
            beside = note.with_name(f".{note.name}.swp")
            beside.write_text(f"{number}\n")
            beside.replace(note)
            heard.until(note)


def test_a_folder_renamed_and_edited_under_its_new_name(
    tmp_path: Path, watcher_of: Callable[[Settings], Watcher]
) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/old/deep/a.md": "one\n"})
    old, new = workspace / "memory" / "old", workspace / "memory" / "new"
    with watching(watcher_of(settings_with(workspace, tmp_path / "home"))) as heard:
        old.rename(new)
        assert {str(old), str(new)} <= heard.group()
        (new / "deep" / "a.md").write_text("two\n")
        heard.until(new / "deep" / "a.md")


def test_a_folder_that_comes_with_files_and_gets_more(
    tmp_path: Path, watcher_of: Callable[[Settings], Watcher]
) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    aside = write_notes(tmp_path / "aside", {"x/y/z.md": "one\n", "x/b.md": "two\n"})
    with watching(watcher_of(settings_with(workspace, tmp_path / "home"))) as heard:
        (aside / "x").rename(workspace / "memory" / "x")
        heard.until(workspace / "memory" / "x")
        late = workspace / "memory" / "x" / "y" / "late.md"
        late.write_text("three\n")
        heard.until(late)
        shutil.rmtree(workspace / "memory" / "x")
        heard.until(workspace / "memory" / "x")


def test_a_folder_that_another_one_replaced(tmp_path: Path) -> None:
    """The names are the same afterwards; what was watched is not."""
    workspace = write_notes(tmp_path / "ws", {"memory/d/a.md": "one\n", "aside/a.md": "two\n"})
    folder = workspace / "memory" / "d"
    with watching(Watcher(settings_with(workspace, tmp_path / "home"))) as heard:
        shutil.rmtree(folder)
        (workspace / "aside").rename(folder)
        heard.until(folder)
        (folder / "a.md").write_text("three\n")
        heard.until(folder / "a.md")


def test_nothing_is_lost_while_folders_are_made_and_filled_fast(tmp_path: Path) -> None:
    """Every file written is told by itself or by a folder above it that was told after it was there."""
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    watcher = Watcher(settings_with(workspace, tmp_path / "home", quiet_ms=100))
    with watching(watcher) as heard:
        for number in range(300):
            write_notes(workspace, {f"memory/d{number % 60}/e{number}/n.md": "x\n"})
        last = workspace / "memory" / "d59" / "e299" / "n.md"
        heard.until(last)
        while not heard.nothing(0.3):
            pass
        last.write_text("again\n")
        heard.until(last)


def test_a_mass_change_is_few_groups(tmp_path: Path) -> None:
    notes = {f"memory/d{n % 40}/n{n}.md": "one\n" for n in range(2_000)}
    workspace = write_notes(tmp_path / "ws", notes)
    with watching(Watcher(settings_with(workspace, tmp_path / "home", quiet_ms=300))) as heard:
        for number, path in enumerate(notes):
            note = workspace / path
            if number % 3:
                note.write_text(f"{number}\n")
            else:
                note.unlink()
        left, groups = {str(workspace / path) for path in notes}, 0
        while left:
            left -= heard.group()
            groups += 1
        assert groups < 20, "one, unless this process had to wait for a processor"


def test_changes_that_never_stop_are_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.sync.watch.LONGEST_S", 1.0)
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    note = workspace / "memory" / "a.md"
    with watching(Watcher(settings_with(workspace, tmp_path / "home", quiet_ms=400))) as heard:
        end = time.monotonic() + _PATIENCE_S
        while heard.groups.empty():
            assert time.monotonic() < end
            note.write_text(f"{time.monotonic()}\n")
            time.sleep(0.05)


def test_the_quiet_time_is_the_configured_one(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    with watching(Watcher(settings_with(workspace, tmp_path / "home", quiet_ms=1_800))) as heard:
        began = time.monotonic()
        (workspace / "memory" / "a.md").write_text("two\n")
        heard.group()
        assert time.monotonic() - began > 1.7, "more than what is the default"


@linux
def test_ignored_folders_and_links_cost_no_watches(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n", "memory/sub/b.md": "x"})
    write_notes(workspace, {f"memory/node_modules/p{n}/readme.md": "x" for n in range(50)})
    write_notes(workspace, {f"memory/.git/o{n}/readme.md": "x" for n in range(50)})
    write_notes(workspace, {f"memory/.venv/o{n}/readme.md": "x" for n in range(50)})
    far = write_notes(tmp_path / "far", {f"d{n}/c.md": "x" for n in range(50)})
    (workspace / "memory" / "link").symlink_to(far)
    with watching(Watcher(settings_with(workspace, tmp_path / "home"))) as heard:
        # The workspace, the folder above it, memory and its one folder.
        assert _watched_below(tmp_path) == 4
        write_notes(workspace, {"memory/node_modules/p1/readme.md": "y", "memory/.git/new/a.md": "y"})
        write_notes(far, {"d1/c.md": "y"})
        assert heard.nothing(0.8)


@linux
def test_what_lies_beside_memory_costs_no_watches(tmp_path: Path) -> None:
    """A workspace may hold repositories: their folders must not use up the system's watches."""
    workspace = write_notes(tmp_path / "ws", {f"code/node_modules/p{n}/readme.md": "x" for n in range(50)})
    with watching(Watcher(settings_with(workspace, tmp_path / "home"))):
        assert 0 < _watched_below(tmp_path) < 10
    until(lambda: not _watched_below(tmp_path))  # a thread of the system's library ends it


def test_what_is_no_memory_is_not_reported(tmp_path: Path) -> None:
    workspace = write_notes(
        tmp_path / "ws", {"memory/a.md": "one\n", "memory/.git/c.md": "x", "src/x.md": "x"}
    )
    with watching(Watcher(settings_with(workspace, tmp_path / "home"))) as heard:
        write_notes(workspace, {"memory/.git/c.md": "y", "src/x.md": "y", "memory/data.txt": "y"})
        write_notes(workspace, {"memory/a.md": "two\n"})
        assert heard.group() == {str(workspace / "memory" / "a.md")}


def test_a_memory_folder_that_comes_later_is_watched(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "one\n"})
    with watching(Watcher(settings_with(workspace, tmp_path / "home"))) as heard:
        for path in ("memory/first.md", "memory/sub/later.md"):
            write_notes(workspace, {path: "x\n"})
            heard.until(workspace / path)


def test_extra_paths_and_transcripts(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    write_notes(tmp_path / "extra", {"deep/x.md": "one\n"})
    write_notes(tmp_path / "single", {"note.md": "one\n", "other.md": "one\n"})
    talks = tmp_path / "state" / "agents" / "main" / "sessions"
    settings = settings_with(workspace, tmp_path / "home")
    settings = replace(
        settings,
        sources=("memory", "sessions"),
        extra_paths=(str(tmp_path / "extra"), str(tmp_path / "single" / "note.md"), str(tmp_path / "later")),
        openclaw=replace(settings.openclaw, sessions_dir=talks),
    )
    with watching(Watcher(settings)) as heard:
        (tmp_path / "extra" / "deep" / "x.md").write_text("two\n")
        assert heard.group() == {str(tmp_path / "extra" / "deep" / "x.md")}
        (tmp_path / "single" / "other.md").write_text("two\n")
        assert heard.nothing(0.6)
        fresh = tmp_path / "single" / ".note.tmp"
        fresh.write_text("two\n")
        fresh.replace(tmp_path / "single" / "note.md")
        assert heard.group() == {str(tmp_path / "single" / "note.md")}
        write_notes(tmp_path / "later", {"y.md": "one\n"})
        heard.until(tmp_path / "later" / "y.md")
        talks.mkdir(parents=True)  # the agent has its first conversation
        (talks / "s1.jsonl").write_text("{}\n")
        heard.until(talks / "s1.jsonl")
        (talks / "sessions.json").write_text("{}\n")
        with (talks / "s1.jsonl").open("a") as file:
            file.write("{}\n")
        heard.until(talks / "s1.jsonl")


def test_a_workspace_that_goes_and_comes_back(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    with watching(Watcher(settings_with(workspace, tmp_path / "home"))) as heard:
        workspace.rename(tmp_path / "elsewhere")
        heard.until(workspace)
        write_notes(workspace, {"memory/b.md": "two\n"})
        heard.until(workspace / "memory" / "b.md")
        (workspace / "memory" / "b.md").write_text("three\n")
        heard.until(workspace / "memory" / "b.md")


def test_a_workspace_behind_a_link_that_is_pointed_elsewhere(
    tmp_path: Path, watcher_of: Callable[[Settings], Watcher]
) -> None:
    one = write_notes(tmp_path / "v1", {"memory/a.md": "one\n"})
    two = write_notes(tmp_path / "v2", {"memory/b.md": "two\n"})
    link = tmp_path / "links" / "ws"
    link.parent.mkdir()
    link.symlink_to(one)
    with watching(watcher_of(settings_with(link, tmp_path / "home"))) as heard:
        (one / "memory" / "a.md").write_text("more\n")
        heard.until(one / "memory" / "a.md")
        fresh = link.with_name("ws.new")
        fresh.symlink_to(two)
        fresh.replace(link)
        assert link in map(Path, heard.group())
        (two / "memory" / "b.md").write_text("three\n")
        heard.until(two / "memory" / "b.md")
        link.unlink()
        heard.until(link)
        link.symlink_to(one)
        heard.until(link)
        (one / "memory" / "a.md").write_text("again\n")
        heard.until(one / "memory" / "a.md")


def test_links_on_the_way_are_watched(tmp_path: Path) -> None:
    """Those before the workspace, an extra path and the transcripts, and those that links lead through."""
    for number in "12":
        write_notes(tmp_path / f"v{number}", {"ws/memory/a.md": "one\n", "extra/b.md": "two\n"})
        (tmp_path / f"v{number}" / "talks").mkdir()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "current").symlink_to("../v1")
    (tmp_path / "way").symlink_to(tmp_path / "links" / "current")
    (tmp_path / "circle").symlink_to("circle")
    settings = settings_with(tmp_path / "way" / "ws", tmp_path / "home")
    settings = replace(
        settings,
        sources=("memory", "sessions"),
        extra_paths=(str(tmp_path / "way" / "extra"), str(tmp_path / "circle" / "x")),
        openclaw=replace(settings.openclaw, sessions_dir=tmp_path / "way" / "talks"),
    )
    with watching(Watcher(settings)) as heard:
        fresh = tmp_path / "links" / "new"
        fresh.symlink_to(tmp_path / "v2")
        fresh.replace(tmp_path / "links" / "current")
        heard.until(tmp_path / "links" / "current")
        for path in ("ws/memory/a.md", "extra/b.md", "talks/s.jsonl"):
            (tmp_path / "v2" / path).write_text("{}\n")
            heard.until(tmp_path / "v2" / path)


# -- when the system does not watch -------------------------------------------------------------------------


def refusing(_folders: Sequence[str], _recursive: bool, _stop: CancelToken) -> Iterator[set[str]]:
    raise OSError('OS file watch limit reached. about ["/some/folder"]')
    yield set()


def test_a_refusal_is_noted_once(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    watcher = Watcher(settings_with(workspace, tmp_path / "home"), refusing)
    with watching(watcher) as heard:
        note = heard.notes.get(timeout=_PATIENCE_S)
        assert (note.code, note.level) == ("watch-polling", "warning")
        assert "OS file watch limit reached. It is" in note.text
        assert heard.group() == {str(workspace)}, "what happened in between has no event"
        assert watcher.is_blind
        assert heard.nothing(0.3) and heard.notes.empty()


def test_watching_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclaw_mem_engine.sync.watch.RETRY_S", 0.5)
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    refusals = [OSError("no more"), RuntimeError("still no more")]

    def sometimes(folders: Sequence[str], recursive: bool, stop: CancelToken) -> Iterator[set[str]]:
        if refusals:
            raise refusals.pop(0)
        yield from system_watch(folders, recursive, stop)

    watcher = Watcher(settings_with(workspace, tmp_path / "home"), sometimes)
    with watching(watcher) as heard:
        assert heard.notes.get(timeout=_PATIENCE_S).code == "watch-polling"
        assert heard.notes.get(timeout=_PATIENCE_S).code == "watching"
        assert heard.group() == heard.group() == {str(workspace)}, "what happened in between is for a scan"
        assert not watcher.is_blind
        (workspace / "memory" / "a.md").write_text("two\n")
        heard.until(workspace / "memory" / "a.md", 1.5)


def test_a_watch_that_ends(tmp_path: Path) -> None:
    """The system may stop to watch in the middle of it."""
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})

    def ending(folders: Sequence[str], recursive: bool, stop: CancelToken) -> Iterator[set[str]]:
        for number, seen in enumerate(system_watch(folders, recursive, stop)):
            if number > 5:
                raise RuntimeError("the queue is gone")
            yield seen

    watcher = Watcher(settings_with(workspace, tmp_path / "home"), ending)
    with watching(watcher) as heard:
        assert "the queue is gone" in heard.notes.get(timeout=_PATIENCE_S).text
        assert heard.group() == {str(workspace)}, "what came in between is for a scan"
        assert watcher.is_blind


def test_a_refusal_that_comes_and_goes_is_told_in_words(tmp_path: Path) -> None:
    """With few file handles left, one opening succeeds and the next does not, and folders seem to come."""
    workspace = write_notes(tmp_path / "ws", {"memory/a.md": "one\n"})
    calls = 0

    def every_other(folders: Sequence[str], recursive: bool, stop: CancelToken) -> Iterator[set[str]]:
        nonlocal calls
        calls += 1
        (workspace / "memory" / f"d{calls}").mkdir()
        if calls % 2 == 0:
            raise RuntimeError("Too many open files (os error 24) about [some]")
        yield from system_watch(folders, recursive, stop)

    with watching(Watcher(settings_with(workspace, tmp_path / "home"), every_other)) as heard:
        assert (
            "not by events: Too many open files (os error 24)." in heard.notes.get(timeout=_PATIENCE_S).text
        )


def test_too_many_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_targets, "MOST_FOLDERS", 20)
    workspace = write_notes(tmp_path / "ws", {f"memory/d{n}/a.md": "one\n" for n in range(30)})
    settings = settings_with(workspace, tmp_path / "home")
    with watching(Watcher(settings, whole_trees=False)) as heard:
        assert "more than 20 folders" in heard.notes.get(timeout=_PATIENCE_S).text


def test_a_network_file_system_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = write_notes(tmp_path / "my ws", {"memory/a.md": "one\n"})
    escaped = str(workspace).replace(" ", "\\040")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        f"28 27 0:50 / {escaped} rw,relatime shared:1 - nfs4 server:/notes rw\n"
    )
    settings = settings_with(workspace, tmp_path / "home")
    monkeypatch.setattr(watch_targets, "MOUNTS", tmp_path / "no such file")
    assert network_target(WatchTargets(settings)) is None
    monkeypatch.setattr(watch_targets, "MOUNTS", mounts)
    assert network_target(WatchTargets(settings)) == (str(workspace), "nfs4")
    with watching(Watcher(settings)) as heard:
        assert "network file system (nfs4)" in heard.notes.get(timeout=_PATIENCE_S).text


_LIMITED = """
import sys, threading
from pathlib import Path
from support.memories import settings_for
from openclaw_mem_engine.sync.watch import Watcher
Path("/proc/sys/user/max_inotify_" + sys.argv[3]).write_text(sys.argv[4])
stop = threading.Event()
def noted(note):
    print(note.text, flush=True)
    stop.set()
limit = threading.Timer(40, stop.set)
limit.daemon = True  # the process ends when the note has come
limit.start()
for paths in Watcher(settings_for(Path(sys.argv[1]), Path(sys.argv[2]))).groups(stop, noted):
    if paths and not stop.is_set():
        print(paths)
"""


@linux
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
    assert done.stdout.startswith("Changes are found by polling all files every few seconds"), done.stderr


def _watched_below(folder: Path) -> int:
    """How many of these folders this process watches; watches of other tests may still be closing."""
    numbers = {f"ino:{path.stat().st_ino:x}" for path in [folder, *folder.rglob("*")]}
    count = 0
    for info in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):
            for line in info.read_text().splitlines():
                count += line.startswith("inotify") and not numbers.isdisjoint(line.split())
    return count
