"""One sync at a time, over all processes: who has the lock, who waits, and what a dead owner leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import Cancelled, IndexLocked, IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite.files import aside_path
from openclaw_mem_engine.sync.lock import Owner, SyncBusy, SyncLock, read_owner
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from support.locks import in_thread, let_go, other_process
from support.memories import open_memory, write_notes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "main.sqlite"


# -- the lock -------------------------------------------------------------------------------------------


def test_only_one_has_it_and_it_comes_back(index: Path) -> None:
    first, second = SyncLock(index), SyncLock(index)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    first.release()
    with second.holding():
        assert not first.acquire()
    assert first.acquire()
    first.release()
    assert first.owner() is None


def test_another_process_is_named_with_its_age(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with other_process(index, "rebuilding") as process:
        lock, now = SyncLock(index), time.time()
        monkeypatch.setattr(time, "time", lambda: now + 100)
        owner = lock.owner()
        assert owner is not None
        assert (owner.pid, owner.what) == (process.pid, "rebuilding")
        message = rf"main\.sqlite \(process {process.pid}, rebuilding for 2 min\)"
        with pytest.raises(SyncBusy, match=message) as raised, lock.holding():
            pass
        assert isinstance(raised.value, IndexLocked)
        assert raised.value.owner == owner
        monkeypatch.setattr(time, "time", lambda: now - 5000)
        assert "for 0 s" in str(lock.busy()), "the clock went back"


def test_waiting_is_told_ends_with_the_owner_and_can_be_stopped(index: Path) -> None:
    with other_process(index) as process:
        lock, stop, seen = SyncLock(index), threading.Event(), list[Owner | None]()
        start = time.monotonic()
        assert not lock.acquire(wait_s=0.2)
        assert time.monotonic() - start > 0.15

        def waiting(owner: Owner | None) -> None:
            seen.append(owner)
            stop.set()

        with pytest.raises(Cancelled):
            lock.acquire(30, stop, waiting)
        assert seen[0] is not None
        assert seen[0].pid == process.pid
        threading.Timer(0.2, let_go, [process]).start()
        assert lock.acquire(20)
        lock.release()


def test_the_lock_of_a_killed_process_is_free_at_once(index: Path) -> None:
    with other_process(index) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        lock = SyncLock(index)
        assert lock.owner() is None
        assert lock.acquire()
        dead = lock.found_dead
        assert dead is not None and (dead.pid, dead.what) == (process.pid, "indexing")
        lock.release()
        for after in (lock, SyncLock(index)):
            with after.holding():
                assert after.found_dead is None, "it is found once"


def test_a_process_that_gave_its_lock_back_is_no_dead_one(index: Path) -> None:
    with other_process(index) as process:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        lock = SyncLock(index)
        assert lock.acquire(20)
        assert lock.found_dead is None
        lock.release()


def test_nothing_unprintable_is_read_of_an_owner(tmp_path: Path) -> None:
    record, good = tmp_path / "record", Owner(1, "host", 0.0, "indexing")
    for owner in (Owner(1, "h\x1b[2J", 0.0, "indexing"), Owner(1, "host", 0.0, "indexing\n"), good):
        record.write_bytes(owner.to_json())
        assert read_owner(record) == (good if owner is good else None)


def test_a_program_that_was_started_does_not_keep_the_lock(index: Path) -> None:
    lock = SyncLock(index)
    assert lock.acquire()
    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        lock.release()
        assert lock.acquire()
        lock.release()
        child.kill()


def test_a_fork_neither_keeps_nor_breaks_the_lock(index: Path) -> None:
    lock = SyncLock(index)
    assert lock.acquire()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lock.release()  # the copy's: the parent's must stay
            os.write(writing, b"x")
            time.sleep(30)
        finally:
            os._exit(0)  # an error must not go on with the tests in a second process
    try:
        os.read(reading, 1)
        assert not SyncLock(index).acquire(), "the parent holds it"
        lock.release()
        assert lock.acquire(), "the child holds nothing"
        lock.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_lock_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    lock = SyncLock(tmp_path / "missing" / "main.sqlite")
    with pytest.raises(IndexUnavailable, match=r"main\.sqlite\.lock.* cannot be taken .*OPENCLAW_MEM_HOME"):
        lock.acquire()
    (tmp_path / "target").write_text("notes")
    (tmp_path / "main.sqlite.lock").symlink_to(tmp_path / "target")
    with pytest.raises(IndexUnavailable):
        SyncLock(tmp_path / "main.sqlite").acquire()
    assert (tmp_path / "target").read_text() == "notes", "nothing is written through a link"


# -- a memory -------------------------------------------------------------------------------------------


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    with open_memory(workspace, tmp_path / "home", provider="none") as opened:
        opened.sync()
        yield opened


def test_a_sync_waits_for_another_process_and_says_so(memory: Memory) -> None:
    seen: list[str] = []
    write_notes(memory.settings.workspace, {"memory/new.md": "zeppelin\n"})
    with other_process(memory.settings.index_path) as process:
        with pytest.raises(SyncBusy, match=f"process {process.pid}, indexing for"):
            memory.sync(SyncRequest(wait_s=0))
        assert [hit.path for hit in memory.search("router").hits] == ["MEMORY.md"]
        thread, outcome = in_thread(lambda: memory.sync(progress=lambda _d, _t, label: seen.append(label)))
        while not seen:
            time.sleep(0.01)
        assert seen[0].startswith(f"waiting for process {process.pid}, indexing for ")
        let_go(process)
        thread.join(20)
    report = outcome[0]
    assert isinstance(report, SyncReport)
    assert report.changed == ("memory/new.md",)


def test_leftovers_are_swept_at_open_unless_somebody_is_at_work(memory: Memory) -> None:
    index = memory.settings.index_path
    left = aside_path(index)  # of a number that is in use: only the lock tells that nobody is at work
    for end in ("", "-wal", "-shm"):
        left.with_name(left.name + end).write_text("half a rebuild")
    notes = index.with_name(f"{index.name}.tmp-notes.md")
    notes.write_text("not ours")
    with other_process(index):
        Memory.open(memory.settings).close()
        assert left.exists()
    Memory.open(memory.settings).close()
    assert list(index.parent.glob("*.tmp-*")) == [notes]
