"""Threads that want the same sync: who joins whom, what is shared, and what is everybody's own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Note, Progress
from openclaw_mem_engine.sync import changes, coordinator, update
from openclaw_mem_engine.sync.coordinator import SyncCoordinator
from openclaw_mem_engine.sync.lock import Owner, SyncBusy, SyncLock
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from openclaw_mem_engine.workspace.walk import Listing
from support.locks import in_thread, let_go, other_process
from support.memories import open_memory, write_notes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and signals of POSIX")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "main.sqlite"


class Work:
    """A sync that goes on until it is let go, in the path of ``update``. The first run may raise an error, or
    report a note."""

    def __init__(self) -> None:
        self.runs = 0
        self.started, self.go = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.note: Note | None = None

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
        if self.runs == 1 and self.note is not None:
            report.notes.append(self.note)


class Idle:
    """The store and the event log of a coordinator whose update does not use them."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def follow(self) -> None:
        """The same index as before."""

    def is_present(self) -> bool:
        return self.path.exists()

    def exclusive(self) -> AbstractContextManager[None]:
        return nullcontext()

    def killed(self, *_: object) -> None:
        """Nothing was killed."""

    def syncing(self, *_: object) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    made = Work()
    monkeypatch.setattr(update, "update", made)
    return made


def coordinator_of(index: Path, *, current: bool = True) -> SyncCoordinator:
    idle: Any = Idle(index)
    made = SyncCoordinator(idle, idle, idle, idle)
    made._is_current = lambda request: current  # type: ignore[method-assign]
    return made


def joined(
    index: Path, work: Work, first: SyncRequest, second: SyncRequest, *, current: bool = True
) -> list[object]:
    """What comes of a second call while the first one runs, the first one's outcome before it."""
    flight = coordinator_of(index, current=current)
    one_thread, one = in_thread(lambda: flight.sync(first))
    assert work.started.wait(10)
    two_thread, two = in_thread(lambda: flight.sync(second))
    time.sleep(0.2)
    assert work.runs == 1, "never two at once"
    work.go.set()
    one_thread.join(10)
    two_thread.join(10)
    return [*one, *two]


def files_of(outcome: list[object]) -> list[int]:
    return [report.files for report in outcome if isinstance(report, SyncReport)]


def test_a_second_thread_gets_the_report_of_the_first(index: Path, work: Work) -> None:
    flight, seen = coordinator_of(index), list[str]()
    first, one = in_thread(lambda: flight.sync(SyncRequest()))
    assert work.started.wait(10)
    second, two = in_thread(lambda: flight.sync(SyncRequest(), lambda _d, _t, label: seen.append(label)))
    while not seen:
        time.sleep(0.01)
    work.go.set()
    first.join(10)
    second.join(10)
    assert work.runs == 1
    assert one[0] is two[0]
    assert seen == ["memory/a.md"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SyncRequest(force=True), SyncRequest()),
        (SyncRequest(verify=True), SyncRequest()),
        (SyncRequest(tails=True), SyncRequest()),
        (SyncRequest(files_s=2), SyncRequest(files_s=1)),
        (SyncRequest(), SyncRequest(budget_s=1)),
        (SyncRequest(budget_s=5), SyncRequest(budget_s=5)),
        (SyncRequest(budget_s=5), SyncRequest(budget_s=1)),
        (SyncRequest(wait_s=0), SyncRequest(wait_s=1800)),
        (SyncRequest(wait_s=1800), SyncRequest(wait_s=0)),
    ],
)
def test_a_sync_that_does_all_that_is_asked_for_is_joined(
    index: Path, work: Work, first: SyncRequest, second: SyncRequest
) -> None:
    assert files_of(joined(index, work, first, second)) == [1, 1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (SyncRequest(), SyncRequest(force=True)),
        (SyncRequest(), SyncRequest(tails=True)),
        (SyncRequest(files_s=1), SyncRequest(files_s=2)),
        (SyncRequest(files_s=1), SyncRequest()),
        (SyncRequest(), SyncRequest(verify=True)),
        (SyncRequest(verify=True), SyncRequest(verify=True)),
        (SyncRequest(verify=True), SyncRequest(force=True)),
        (SyncRequest(budget_s=5), SyncRequest()),
        (SyncRequest(budget_s=1), SyncRequest(budget_s=5)),
    ],
)
def test_a_sync_that_does_less_is_not_joined(
    index: Path, work: Work, first: SyncRequest, second: SyncRequest
) -> None:
    assert files_of(joined(index, work, first, second)) == [1, 2]


def test_a_report_from_before_a_change_is_not_shared(index: Path, work: Work) -> None:
    assert files_of(joined(index, work, SyncRequest(), SyncRequest(), current=False)) == [1, 2]


def test_a_report_that_ran_out_of_time_is_not_shared(index: Path, work: Work) -> None:
    request = SyncRequest(budget_s=5)
    work.note = Note("embedding-later", "Embedding takes longer than 5 s.", "warning")
    assert files_of(joined(index, work, request, request)) == [1, 2]


def test_an_error_is_that_of_the_first_caller(index: Path, work: Work) -> None:
    work.error = WorkspaceError("gone")
    outcome = joined(index, work, SyncRequest(), SyncRequest())
    assert outcome[0] is work.error
    assert files_of(outcome) == [2], "it may be there again by now"
    assert SyncLock(index).acquire(), "the lock came back"


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
    assert files_of(three) == [2], "who did not stop does the work itself"
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
        assert 0.25 < time.monotonic() - start < 5
        assert not patient
        let_go(process)
        patient_thread.join(20)
    assert isinstance(patient[0], SyncReport)


@pytest.mark.alone
def test_the_time_that_was_waited_together_counts(memory: Memory) -> None:
    with other_process(memory.settings.index_path):
        first, _ = in_thread(lambda: memory.sync(SyncRequest(wait_s=1.5)))
        time.sleep(0.1)
        start = time.monotonic()
        with pytest.raises(SyncBusy):
            memory.sync(SyncRequest(wait_s=2.0))
        assert 1.9 < time.monotonic() - start < 3.2
        first.join(10)


# -- a lock that is lost --------------------------------------------------------------------------------


@pytest.mark.parametrize("soft", [False, True], ids=["native", "lock file"])
def test_an_owner_that_lost_the_lock_writes_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, soft: bool
) -> None:
    monkeypatch.setattr(coordinator, "SyncLock", partial(SyncLock, soft=soft))
    workspace = write_notes(tmp_path / "ws", {f"memory/n{n:03}.md": f"note {n}\n" for n in range(600)})
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        record = memory.settings.index_path.with_name("main.sqlite.lock-owner")
        thief = Owner(4, "another-machine", time.time(), "rebuilding").to_json()
        after_theft: list[int] = []

        def steal(done: int, _total: int, _label: str) -> None:
            if done and record.read_bytes() != thief:
                draft = record.with_name("draft")
                draft.write_bytes(thief)
                draft.replace(record)
                after_theft.append(memory.status().chunks)

        with pytest.raises(SyncBusy, match=r"lost to another process .*another-machine.*run it again"):
            memory.sync(progress=steal)
        assert after_theft == [memory.status().chunks]
        assert 0 < after_theft[0] < 600
        assert record.read_bytes() == thief, "the record of another owner stays"
        record.unlink()
        assert memory.sync().files == 600


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
