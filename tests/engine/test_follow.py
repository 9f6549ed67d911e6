"""Following the files: when a sync is made, what is reported and tried again; and how deep a sync goes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.errors import IndexUnavailable, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.sync import changes, follow
from openclaw_mem_engine.sync.follow import Follower, FollowEvent
from openclaw_mem_engine.sync.report import SyncReport
from support.memories import open_memory, settings_for, write_notes

#: From ``Memory.sync`` to the function that lists the files, both included.
MOST_FRAMES = 7


class Blind:
    """A watcher that the system refuses to serve."""

    is_blind = True

    def groups(self, stop: threading.Event, noted: Callable[[Note], None]) -> Iterator[frozenset[str]]:
        noted(Note("watch-polling", "Changes are found by polling.", "warning"))
        while not stop.is_set():
            yield frozenset()
            time.sleep(0.01)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})


@pytest.fixture
def memory(workspace: Path, tmp_path: Path) -> Iterator[Memory]:
    with open_memory(workspace, tmp_path / "home", provider="none") as opened:
        yield opened


class Seen:
    """The events of a follower; ``react`` is called with each, and returns True to stop it."""

    def __init__(self, react: Callable[[FollowEvent], bool]) -> None:
        self.events: list[FollowEvent] = []
        self.stop = threading.Event()
        self._react = react

    def __call__(self, event: FollowEvent) -> None:
        self.events.append(event)
        if event.event != "stopped" and self._react(event):
            self.stop.set()

    @property
    def names(self) -> list[str]:
        return [event.event for event in self.events]


def blind_follower(memory: Memory, seen: Seen, **changes: Any) -> Follower:
    def sync(_trigger: object, progress: object) -> SyncReport:
        return memory.sync(cancel=seen.stop)

    given = {"sync": sync, "freshness": memory.freshness, **changes}
    watcher: Any = Blind()
    return Follower(
        memory.settings, seen, seen.stop, given["sync"], given["freshness"], lambda _: None, watcher
    )


def test_a_start_a_change_and_the_end(memory: Memory, workspace: Path) -> None:
    def react(event: FollowEvent) -> bool:
        if event.reason == "start":
            write_notes(workspace, {"memory/new.md": "zeppelin\n"})
        return event.reason == "changes"

    seen = Seen(react)
    memory.follow(seen, seen.stop)
    assert seen.names == ["watching", "sync", "sync", "stopped"]
    report = seen.events[2].report
    assert report is not None and report.changed == ("memory/new.md",)


def test_where_nothing_is_noticed_files_are_compared(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "LEAST_PAUSE_S", 0.05)
    monkeypatch.setattr(follow, "MOST_PAUSE_S", 0.05)
    syncs = 0

    def sync(_trigger: object, _progress: object) -> SyncReport:
        nonlocal syncs
        syncs += 1
        return memory.sync()

    def react(event: FollowEvent) -> bool:
        if event.reason == "start":
            threading.Timer(0.5, lambda: write_notes(workspace, {"memory/new.md": "zeppelin\n"})).start()
        return event.reason == "changes"

    seen = Seen(react)
    blind_follower(memory, seen, sync=sync).run()
    assert seen.names == ["note", "watching", "sync", "sync", "stopped"]
    assert syncs == 2, "nothing is synced as long as nothing differs"


@pytest.mark.parametrize("error", [IndexUnavailable("the disk is full"), RuntimeError("a defect")])
def test_a_failure_is_reported_once_and_tried_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(follow, "RETRY_S", 0.05)
    failures = [error] * 3

    def sync(_trigger: object, _progress: object) -> SyncReport:
        if failures:
            raise failures.pop()
        return memory.sync()

    seen = Seen(lambda event: event.event == "sync")
    memory.follow(seen, seen.stop, sync=sync)
    assert seen.names == ["watching", "failed", "sync", "stopped"]
    assert str(error) in seen.events[1].text and seen.events[1].retry_s == 0.05
    assert seen.events[2].reason == "retry"


def test_what_the_callback_raises_ends_it(memory: Memory) -> None:
    def react(event: FollowEvent) -> bool:
        raise BrokenPipeError

    seen = Seen(react)
    with pytest.raises(BrokenPipeError):
        memory.follow(seen, seen.stop)


def test_the_end_of_a_conversation_is_noticed_without_an_event(tmp_path: Path, workspace: Path) -> None:
    found = settings_for(workspace, tmp_path / "home")
    found = replace(
        found, sources=("memory", "sessions"), sync=replace(found.sync, session_quiet_s=2, debounce_ms=50)
    )
    transcript = found.openclaw.sessions_dir / "one.jsonl"
    transcript.parent.mkdir(parents=True)
    line = '{"type":"message","message":{"role":"user","content":"%s"}}\n'
    transcript.write_text(line % "Where does it moor?")
    with Memory.open(found) as memory:
        written = 0.0

        def react(event: FollowEvent) -> bool:
            nonlocal written
            if event.reason == "start":
                with transcript.open("a") as file:
                    file.write(line % "At the mast.")
                written = time.time()
            return event.reason == "changes"

        seen = Seen(react)
        memory.follow(seen, seen.stop)
        assert time.time() - written >= 2
        assert seen.events[2].report is not None
        assert seen.events[2].report.changed == ("sessions/one.jsonl",)


def test_a_memory_with_faults_is_not_followed(tmp_path: Path, workspace: Path) -> None:
    settings = settings_for(workspace, tmp_path / "home")
    with Memory.open(settings, faults=frozenset({"no-fts5"})) as memory, pytest.raises(UsageError):
        memory.follow(lambda _: None, threading.Event())


def test_a_sync_lists_files_within_seven_frames(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    real, names = vars(changes)["list_memory"], list[str]()

    def listing(*given: Any) -> Any:
        frame = sys._getframe(1)
        while frame is not None and frame.f_code is not Memory.sync.__code__:
            names.append(frame.f_code.co_name)
            assert frame.f_back is not None
            frame = frame.f_back
        return real(*given)

    monkeypatch.setattr(changes, "list_memory", listing)
    memory.sync()
    # Besides ``Memory.sync`` itself and ``list_memory``, for which ``listing`` stands here.
    assert 0 < len(names) + 2 <= MOST_FRAMES, names
