"""Threads that want to sync at the same time: they take turns."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.sync import changes, coordinator, update
from openclaw_mem_engine.sync.coordinator import SyncCoordinator
from openclaw_mem_engine.sync.lock import SyncBusy, SyncLock
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from openclaw_mem_engine.workspace.walk import Listing
from support.commands import until
from support.locks import in_thread, let_go, other_process
from support.memories import open_memory, write_notes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and signals of POSIX")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "main.sqlite"


class Work:
    """A sync that goes on until it is let go, in the path of ``update``. The first run may raise an error, or
    not."""

    def __init__(self) -> None:
        self.runs = 0
        self.started, self.go = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def __call__(self, *given: Any) -> None:
        report: SyncReport = given[-1]
        self.runs += 1
        report.files = self.runs
        progress: Progress = given[4]
        progress(1, 2, "memory/a.md")
        self.started.set()
        assert self.go.wait(20)
        if self.runs == 1 and self.error is not None:
            raise self.error


class Idle:
    """The store and the event log of a coordinator whose update does not use them."""

    was_empty = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def follow(self) -> None:
        """The same index as before."""

    def is_present(self) -> bool:
        return self.path.exists()

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def syncing(self, *_: object) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    made = Work()
    monkeypatch.setattr(update, "update", made)
    return made


def coordinator_of(index: Path) -> SyncCoordinator:
    idle: Any = Idle(index)
    return SyncCoordinator(idle, idle, idle, idle)


def test_a_second_thread_sees_the_progress_of_the_first_and_has_its_turn_after_it(
    index: Path, work: Work
) -> None:
    turns, seen = coordinator_of(index), list[str]()
    work.error = WorkspaceError("gone")
    first, one = in_thread(lambda: turns.sync(SyncRequest()))
    assert work.started.wait(10)
    second, two = in_thread(lambda: turns.sync(SyncRequest(), lambda _d, _t, label: seen.append(label)))
    while not seen:
        time.sleep(0.01)
    assert work.runs == 1, "never two at once"
    work.go.set()
    first.join(10)
    second.join(10)
    assert one == [work.error], "an error is that of its caller"
    assert seen[0] == "memory/a.md" and isinstance(two[0], SyncReport) and two[0].files == 2
    assert SyncLock(index).acquire(), "the lock came back"


def test_what_one_thread_has_done_another_finds_done(memory: Memory) -> None:
    threads = [in_thread(memory.sync) for _ in range(3)]
    for thread, _ in threads:
        thread.join(20)
    reports = [found[0] for _, found in threads]
    assert sorted(report.changed for report in reports if isinstance(report, SyncReport)) == [
        (),
        (),
        ("memory/new.md",),
    ]


def test_stopping_one_does_not_stop_the_others(index: Path, work: Work) -> None:
    flight, stop = coordinator_of(index), threading.Event()
    first, one = in_thread(lambda: flight.sync(SyncRequest()))
    assert work.started.wait(10)
    second, two = in_thread(lambda: flight.sync(SyncRequest(), cancel=stop))
    third, three = in_thread(lambda: flight.sync(SyncRequest()))
    stop.set()
    second.join(10)
    assert isinstance(two[0], Cancelled)
    work.error = Cancelled("the first was stopped")
    work.go.set()
    first.join(10)
    third.join(10)
    assert one == [work.error]
    assert isinstance(three[0], SyncReport), "who did not stop does the work itself"
    assert work.runs == 2


# -- how long one waits for another process is everybody's own ------------------------------------------


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    with open_memory(workspace, tmp_path / "home", provider="none") as opened:
        opened.sync()
        write_notes(workspace, {"memory/new.md": "zeppelin\n"})
        yield opened


def test_the_patient_goes_on_waiting_when_the_impatient_gives_up(memory: Memory) -> None:
    with other_process(memory.settings.index_path) as process:
        hasty_thread, hasty = in_thread(lambda: memory.sync(SyncRequest(wait_s=0.3)))
        time.sleep(0.1)
        patient_thread, patient = in_thread(lambda: memory.sync(SyncRequest(wait_s=30)))
        hasty_thread.join(10)
        assert isinstance(hasty[0], SyncBusy)
        time.sleep(0.3)
        assert not patient
        let_go(process)
        patient_thread.join(20)
    assert isinstance(patient[0], SyncReport)
    assert patient[0].changed == ("memory/new.md",)


def test_the_impatient_gives_up_while_the_patient_waits(memory: Memory) -> None:
    with other_process(memory.settings.index_path) as process:
        patient_thread, patient = in_thread(lambda: memory.sync(SyncRequest(wait_s=30)))
        time.sleep(0.1)
        start = time.monotonic()
        with pytest.raises(SyncBusy, match=f"process {process.pid}, indexing"):
            memory.sync(SyncRequest(wait_s=0.3))
        assert 0.25 < time.monotonic() - start < 20
        assert not patient
        let_go(process)
        patient_thread.join(20)
    assert isinstance(patient[0], SyncReport)


def test_the_time_that_was_waited_together_counts(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[float] = []
    real = SyncLock.holding

    def holding(lock: SyncLock, wait_s: float = 0.0, *how: Any) -> AbstractContextManager[SyncLock]:
        asked.append(wait_s)
        return real(lock, wait_s, *how)

    monkeypatch.setattr(SyncLock, "holding", holding)
    stop, waits = threading.Event(), threading.Event()
    with other_process(memory.settings.index_path) as process:
        first, _ = in_thread(lambda: memory.sync(SyncRequest(wait_s=60), cancel=stop))
        until(lambda: asked)
        second, done = in_thread(lambda: memory.sync(SyncRequest(wait_s=60), progress=lambda *_: waits.set()))
        assert waits.wait(20), "it is shown for whom the first waits"
        time.sleep(0.5)
        stop.set()
        first.join(20)
        until(lambda: len(asked) == 2)
        assert asked[0] == 60 and asked[1] < 59.8
        let_go(process)
        second.join(20)
    assert isinstance(done[0], SyncReport)


def test_a_sync_with_work_lists_the_files_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists: list[float] = []
    real = changes.listed

    def listed(settings: Settings) -> Listing:
        lists.append(time.monotonic())
        return real(settings)

    monkeypatch.setattr(changes, "listed", listed)
    monkeypatch.setattr(coordinator, "listed", listed)
    with open_memory(tmp_path / "workspace", tmp_path / "home") as memory:
        write_notes(memory.settings.workspace, {"memory/a.md": "A heron.\n"})
        memory.sync()
        write_notes(memory.settings.workspace, {"memory/b.md": "A gull.\n"})
        lists.clear()
        assert memory.sync().changed == ("memory/b.md",)
        assert len(lists) == 1
