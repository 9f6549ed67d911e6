"""Threads that want the same sync: who joins whom, what is shared, and what is everybody's own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import Note, Progress
from openclaw_mem_engine.sync import exclusive
from openclaw_mem_engine.sync.flight import SingleFlight, Wishes
from openclaw_mem_engine.sync.lock import SyncBusy, SyncLock
from openclaw_mem_engine.sync.owner import Owner
from openclaw_mem_engine.sync.report import SyncReport
from support.locks import in_thread, let_go, other_process
from support.memories import open_memory, write_notes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="pipes and signals of POSIX")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "main.sqlite"


class Work:
    """A sync that goes on until it is let go. The first run may raise an error, or report a note."""

    def __init__(self) -> None:
        self.runs = 0
        self.started, self.go = threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.note: Note | None = None

    def __call__(self, tell: Progress, stop: CancelToken) -> SyncReport:
        self.runs += 1
        report = SyncReport(files=self.runs)
        tell(1, 2, "memory/a.md")
        self.started.set()
        assert self.go.wait(20)
        if self.runs == 1 and self.error is not None:
            raise self.error
        if self.runs == 1 and self.note is not None:
            report.notes.append(self.note)
        return report


def joined(index: Path, work: Work, first: Wishes, second: Wishes, *, current: bool = True) -> list[object]:
    """What comes of a second call while the first one runs, the first one's outcome before it."""
    flight = SingleFlight(index)
    one_thread, one = in_thread(lambda: flight.run(work, lambda: True, wishes=first))
    assert work.started.wait(10)
    two_thread, two = in_thread(lambda: flight.run(work, lambda: current, wishes=second))
    time.sleep(0.2)
    assert work.runs == 1, "never two at once"
    work.go.set()
    one_thread.join(10)
    two_thread.join(10)
    return [*one, *two]


def files_of(outcome: list[object]) -> list[int]:
    return [report.files for report in outcome if isinstance(report, SyncReport)]


def test_a_second_thread_gets_the_report_of_the_first(index: Path) -> None:
    flight, work, seen = SingleFlight(index), Work(), list[str]()
    first, one = in_thread(lambda: flight.run(work, lambda: True))
    assert work.started.wait(10)
    second, two = in_thread(lambda: flight.run(work, lambda: True, lambda _d, _t, label: seen.append(label)))
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
        (Wishes(force=True), Wishes()),
        (Wishes(verify=True), Wishes()),
        (Wishes(tails=True), Wishes()),
        (Wishes(files_s=2), Wishes(files_s=1)),
        (Wishes(), Wishes(budget_s=1)),
        (Wishes(budget_s=5), Wishes(budget_s=5)),
        (Wishes(budget_s=5), Wishes(budget_s=1)),
        (Wishes(wait_s=0), Wishes(wait_s=1800)),
        (Wishes(wait_s=1800), Wishes(wait_s=0)),
    ],
)
def test_a_sync_that_does_all_that_is_asked_for_is_joined(index: Path, first: Wishes, second: Wishes) -> None:
    assert files_of(joined(index, Work(), first, second)) == [1, 1]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Wishes(), Wishes(force=True)),
        (Wishes(), Wishes(tails=True)),
        (Wishes(files_s=1), Wishes(files_s=2)),
        (Wishes(files_s=1), Wishes()),
        (Wishes(), Wishes(verify=True)),
        (Wishes(verify=True), Wishes(verify=True)),
        (Wishes(verify=True), Wishes(force=True)),
        (Wishes(budget_s=5), Wishes()),
        (Wishes(budget_s=1), Wishes(budget_s=5)),
    ],
)
def test_a_sync_that_does_less_is_not_joined(index: Path, first: Wishes, second: Wishes) -> None:
    assert files_of(joined(index, Work(), first, second)) == [1, 2]


def test_a_report_from_before_a_change_is_not_shared(index: Path) -> None:
    assert files_of(joined(index, Work(), Wishes(), Wishes(), current=False)) == [1, 2]


def test_a_report_that_ran_out_of_time_is_not_shared(index: Path) -> None:
    work, wishes = Work(), Wishes(budget_s=5)
    work.note = Note("embedding-later", "Embedding takes longer than 5 s.", "warning")
    assert files_of(joined(index, work, wishes, wishes)) == [1, 2]


def test_an_error_is_that_of_whoever_asked_first(index: Path) -> None:
    work = Work()
    work.error = WorkspaceError("gone")
    outcome = joined(index, work, Wishes(), Wishes())
    assert outcome[0] is work.error
    assert files_of(outcome) == [2], "it may be there again by now"
    assert SyncLock(index).acquire(), "the lock came back"


def test_stopping_one_does_not_stop_the_others(index: Path) -> None:
    flight, work, stop = SingleFlight(index), Work(), threading.Event()
    first, one = in_thread(lambda: flight.run(work, lambda: True))
    assert work.started.wait(10)
    second, two = in_thread(lambda: flight.run(work, lambda: True, cancel=stop))
    third, three = in_thread(lambda: flight.run(work, lambda: True))
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
        hasty_thread, hasty = in_thread(lambda: memory.sync(wait_s=0.3))
        time.sleep(0.1)
        patient_thread, patient = in_thread(lambda: memory.sync(wait_s=30))
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
        patient_thread, patient = in_thread(lambda: memory.sync(wait_s=30))
        time.sleep(0.1)
        start = time.monotonic()
        with pytest.raises(SyncBusy, match=f"process {process.pid}, indexing"):
            memory.sync(wait_s=0.3)
        assert 0.25 < time.monotonic() - start < 5
        assert not patient
        let_go(process)
        patient_thread.join(20)
    assert isinstance(patient[0], SyncReport)


@pytest.mark.alone
def test_the_time_that_was_waited_together_counts(memory: Memory) -> None:
    with other_process(memory.settings.index_path):
        first, _ = in_thread(lambda: memory.sync(wait_s=1.5))
        time.sleep(0.1)
        start = time.monotonic()
        with pytest.raises(SyncBusy):
            memory.sync(wait_s=2.0)
        assert 1.9 < time.monotonic() - start < 3.2
        first.join(10)


# -- a lock that is lost --------------------------------------------------------------------------------


def test_whoever_lost_the_lock_writes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("openclaw_mem_engine.sync.flight.SyncLock", partial(SyncLock, flock=False))
    monkeypatch.setattr(exclusive, "BEAT_S", 0.001)
    workspace = write_notes(tmp_path / "ws", {f"memory/n{n:03}.md": f"note {n}\n" for n in range(600)})
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        held = memory.settings.index_path.with_name("main.sqlite.lock-held")
        thief = Owner(4, "another-machine", time.time(), "rebuilding", "x-1").to_json()
        after_theft: list[int] = []

        def steal(done: int, _total: int, _label: str) -> None:
            if done and held.read_bytes() != thief:
                draft = held.with_name("draft")
                draft.write_bytes(thief)
                draft.replace(held)
                after_theft.append(memory.status().chunks)

        with pytest.raises(SyncBusy, match=r"lost to another process .*another-machine.*run it again"):
            memory.sync(steal)
        assert after_theft == [memory.status().chunks]
        assert 0 < after_theft[0] < 600
        assert held.read_bytes() == thief
        held.unlink()
        assert memory.sync().files == 600
