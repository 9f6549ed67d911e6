"""Following the files: when a sync is made, what is reported and tried again; and how deep a sync goes."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexUnavailable, UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync import changes, follow, watch
from openclaw_mem_engine.sync.follow import Follower, FollowEvent
from openclaw_mem_engine.sync.report import SyncReport
from openclaw_mem_engine.sync.watch import OpenEvents, Watch, system_events
from openclaw_mem_engine.workspace.walk import Listing
from support.commands import until
from support.memories import open_memory, settings_for, write_notes

#: From ``Memory.sync`` to the function that lists the files, both included.
MOST_FRAMES = 7


def no_events(_folders: Collection[str], stop: CancelToken) -> Iterator[bool]:
    """What a network disk tells."""
    while not stop.is_set():
        time.sleep(0.01)
        yield False


def refused(_folders: Collection[str], _stop: CancelToken) -> Iterator[bool]:
    raise OSError('OS file watch limit reached. about ["/some/folder"]')
    yield False


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are compared without a pause."""
    monkeypatch.setattr(follow, "LEAST_PAUSE_S", 0.05)
    monkeypatch.setattr(follow, "MOST_PAUSE_S", 0.05)


@pytest.fixture
def rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are compared after events only."""
    monkeypatch.setattr(follow, "LEAST_PAUSE_S", 600.0)


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


def following(
    memory: Memory, seen: Seen, events: OpenEvents = no_events, syncs: list[str] | None = None
) -> Follower:
    def sync(reason: str, _progress: object) -> SyncReport:
        if syncs is not None:
            syncs.append(reason)
        return memory.sync(cancel=seen.stop)

    watched = Watch(memory.settings, seen.stop, events)
    return Follower(memory.settings, seen, seen.stop, sync, memory.freshness, lambda _: None, watched)


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


@pytest.mark.usefixtures("often")
def test_what_has_no_event_is_found_by_comparing(memory: Memory, workspace: Path) -> None:
    def react(event: FollowEvent) -> bool:
        if event.reason == "start":
            threading.Timer(0.5, lambda: write_notes(workspace, {"memory/new.md": "zeppelin\n"})).start()
        return event.reason == "changes"

    seen, syncs = Seen(react), list[str]()
    following(memory, seen, syncs=syncs).run()
    assert seen.names == ["watching", "sync", "sync", "stopped"]
    assert syncs == ["start", "changes"]


@pytest.mark.usefixtures("often")
def test_a_refusal_is_noted_once(memory: Memory, workspace: Path) -> None:
    def react(event: FollowEvent) -> bool:
        if event.note is not None:
            write_notes(workspace, {"memory/new/a.md": "zeppelin\n"})
        if event.report is not None and event.report.changed == ("memory/new/a.md",):
            write_notes(workspace, {"memory/new/b.md": "zeppelin\n"})
        return event.report is not None and event.report.changed == ("memory/new/b.md",)

    seen = Seen(react)
    following(memory, seen, refused).run()
    assert seen.names == ["watching", "sync", "note", "sync", "sync", "stopped"]
    note = seen.events[2].note
    assert note is not None and (note.code, note.level) == ("watch-polling", "warning")
    assert "changes: OS file watch limit reached. All files" in note.text


@pytest.mark.usefixtures("rarely")
def test_new_folders_are_watched(memory: Memory, workspace: Path) -> None:
    steps = ["memory/new/a.md", "memory/new/b.md", "memory/new/deep/c.md", "memory/new/deep/d.md"]

    def react(event: FollowEvent) -> bool:
        if event.report is not None and steps:
            threading.Timer(0.5, lambda path: write_notes(workspace, {path: "x\n"}), [steps.pop(0)]).start()
            return False
        return event.report is not None

    seen = Seen(react)
    following(memory, seen, system_events).run()
    assert [event.report.changed for event in seen.events[2:-1] if event.report] == [
        ("memory/new/a.md",),
        ("memory/new/b.md",),
        ("memory/new/deep/c.md",),
        ("memory/new/deep/d.md",),
    ]


@pytest.mark.parametrize("kind", ["link", "folder"])
@pytest.mark.usefixtures("often")
def test_a_workspace_that_another_one_replaced(tmp_path: Path, kind: str) -> None:
    one = write_notes(tmp_path / "v1", {"memory/a.md": "one\n"})
    two = write_notes(tmp_path / "v2", {"memory/b.md": "two\n"})
    place = tmp_path / "place"
    place.symlink_to(one) if kind == "link" else one.rename(place)
    steps = ["replace", "edit"]

    def react(event: FollowEvent) -> bool:
        if event.report is None or not steps:
            return not steps
        if steps.pop(0) == "replace":
            place.rename(tmp_path / "old")
            place.symlink_to(two) if kind == "link" else two.rename(place)
        else:
            write_notes(place, {"memory/b.md": "more\n"})
        return False

    seen = Seen(react)
    with open_memory(place, tmp_path / "home", provider="none") as opened:
        following(opened, seen, system_events).run()
    reports = [event.report for event in seen.events if event.report is not None]
    assert [report.changed for report in reports] == [("memory/a.md",), ("memory/b.md",), ("memory/b.md",)]
    assert reports[1].removed == ("memory/a.md",)


@pytest.mark.usefixtures("rarely")
def test_an_event_without_a_change_makes_no_sync(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of an editor, and what lies beside the memory."""
    compared, syncs = threading.Event(), list[str]()

    def looked(settings: Settings) -> Listing:
        compared.set()
        return changes.listed(settings)

    monkeypatch.setattr(watch, "listed", looked)
    seen = Seen(lambda event: event.reason == "changes")
    thread = threading.Thread(target=following(memory, seen, system_events, syncs).run)
    thread.start()
    until(lambda: len(seen.events) == 2)
    for path in (".MEMORY.md.swp", "4913", "code.py"):
        compared.clear()
        (workspace / path).write_text("x")
        assert compared.wait(15)
    (workspace / "MEMORY.md").write_bytes(b"\0")  # which is excluded, and no text
    thread.join(15)
    assert syncs == ["start", "changes"]


@pytest.mark.usefixtures("rarely")
def test_what_an_event_excludes_is_told(memory: Memory, workspace: Path) -> None:
    def react(event: FollowEvent) -> bool:
        if event.reason == "start":
            threading.Timer(0.5, lambda: (workspace / "memory.md").symlink_to("MEMORY.md")).start()
        return event.reason == "changes"

    seen = Seen(react)
    following(memory, seen, system_events).run()
    assert [file.path for file in seen.events[2].newly_excluded] == ["memory.md"]


@pytest.mark.usefixtures("often")
def test_what_a_start_without_a_sync_left_waits_for_an_event(memory: Memory, workspace: Path) -> None:
    seen, syncs = Seen(lambda event: event.reason == "changes"), list[str]()

    def events(_folders: Collection[str], stop: CancelToken) -> Iterator[bool]:
        for step in range(10_000):
            time.sleep(0.01)
            if step == 50:
                assert not syncs, "ten comparisons by the clock"
                write_notes(workspace, {"MEMORY.md": "edited again\n"})
            yield step == 50

    following(memory, seen, events, syncs).run(at_start=False)
    assert syncs == ["changes"]


@pytest.mark.usefixtures("often")
def test_the_clock_waits_for_the_end_of_what_happens(memory: Memory, workspace: Path) -> None:
    """Else no quiet time would be kept."""
    settings = replace(memory.settings, sync=replace(memory.settings.sync, debounce_ms=1_500))
    seen, syncs = Seen(lambda event: event.reason == "changes"), list[str]()

    def events(_folders: Collection[str], stop: CancelToken) -> Iterator[bool]:
        for step in range(10_000):
            time.sleep(0.01)
            if step == 20:
                write_notes(workspace, {"memory/new.md": "zeppelin\n"})
            if step == 100:
                assert len(syncs) == 1
            yield step == 20

    watched = Watch(settings, seen.stop, events)

    def sync(reason: str, _progress: object) -> SyncReport:
        syncs.append(reason)
        return memory.sync()

    Follower(settings, seen, seen.stop, sync, memory.freshness, lambda _: None, watched).run()
    assert syncs == ["start", "changes"]


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
