"""One sync at a time, over threads and processes: who waits, who joins, and what a dead owner leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import Cancelled, IndexLocked, IndexUnavailable, WorkspaceError
from openclaw_mem_engine.index.aside import aside_path
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync.flight import SingleFlight
from openclaw_mem_engine.sync.indexer import SyncReport
from openclaw_mem_engine.sync.lock import SyncBusy, SyncLock
from openclaw_mem_engine.sync.owner import Owner, parse_owner, read_owner
from support.memories import open_memory, write_notes

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")

ENGINE = Path(__file__).parents[2] / "engine"
WAYS = pytest.mark.parametrize("flock", [True, False], ids=["flock", "exclusive file"])

HOLD = """
    import sys
    from pathlib import Path
    from openclaw_mem_engine.sync.lock import SyncLock
    lock = SyncLock(Path(sys.argv[1]), sys.argv[2], flock=sys.argv[3] == "True")
    print(lock.acquire(), flush=True)
    sys.stdin.readline()
    lock.release()
    print("released", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "main.sqlite"


@contextmanager
def other_process(
    index: Path, what: str = "indexing", *, flock: bool = True
) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLD), str(index), what, str(flock)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ENGINE)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "True\n"
        yield process
    finally:
        process.kill()
        process.communicate()


# -- the lock -------------------------------------------------------------------------------------------


@WAYS
def test_only_one_has_it_and_it_comes_back(index: Path, flock: bool) -> None:
    first, second = SyncLock(index, flock=flock), SyncLock(index, flock=flock)
    assert first.acquire()
    assert not second.acquire()
    assert first.held
    assert not second.held
    first.release()
    first.release()
    with second.holding():
        assert not first.acquire()
    assert first.acquire()
    first.release()
    assert first.owner() is None


@WAYS
def test_another_process_is_named_with_its_age(index: Path, flock: bool) -> None:
    with other_process(index, "rebuilding", flock=flock) as process:
        lock = SyncLock(index, flock=flock, clock=lambda: time.time() + 100)
        owner = lock.owner()
        assert owner is not None
        assert (owner.pid, owner.what) == (process.pid, "rebuilding")
        told = rf"main\.sqlite up to date \(process {process.pid}, rebuilding since 2 min\)"
        with pytest.raises(SyncBusy, match=told) as raised, lock.holding():
            pass
        assert isinstance(raised.value, IndexLocked)
        assert raised.value.owner == owner
        back = SyncLock(index, flock=flock, clock=lambda: time.time() - 5000)
        assert "since 0 s" in str(back.busy()), "the clock went back"


@WAYS
def test_waiting_is_told_ends_with_the_owner_and_can_be_stopped(index: Path, flock: bool) -> None:
    with other_process(index, flock=flock) as process:
        lock, stop, seen = SyncLock(index, flock=flock), threading.Event(), list[Owner | None]()
        start = time.monotonic()
        assert not lock.acquire(wait_s=0.2)
        assert 0.15 < time.monotonic() - start < 2

        def told(owner: Owner | None, waited: float) -> None:
            seen.append(owner)
            stop.set()

        with pytest.raises(Cancelled):
            lock.acquire(30, stop, told)
        assert seen[0] is not None
        assert seen[0].pid == process.pid
        assert process.stdin is not None
        threading.Timer(0.2, lambda: (process.stdin.write("\n"), process.stdin.flush())).start()  # type: ignore[union-attr]
        assert lock.acquire(20)
        lock.release()


@WAYS
def test_the_lock_of_a_killed_process_is_free_at_once(index: Path, flock: bool) -> None:
    with other_process(index, flock=flock) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        lock = SyncLock(index, flock=flock)
        assert lock.owner() is None
        assert lock.acquire()
        lock.release()


def test_a_number_given_to_another_process_does_not_keep_a_dead_lock(index: Path) -> None:
    held = index.with_name("main.sqlite.lock-held")
    here = Owner.this_process("indexing", time.time())
    if not here.born:
        pytest.skip("this system does not tell when a process was started")
    held.write_bytes(Owner(os.getpid(), here.host, here.since, "indexing", "another-1").to_json())
    lock = SyncLock(index, flock=False)
    assert lock.acquire()
    assert read_owner(held) is not None
    lock.release()
    assert not held.exists()


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid": 1}', b"[" * 5000, b"elsewhere"])
def test_what_nobody_here_can_judge_is_free_after_a_silence(index: Path, content: bytes) -> None:
    held = index.with_name("main.sqlite.lock-held")
    if content == b"elsewhere":
        content = Owner(4, "another-machine", time.time(), "indexing", "x-1").to_json()
    held.write_bytes(content)
    lock = SyncLock(index, flock=False)
    assert not lock.acquire()
    os.utime(held, (time.time() - 3600, time.time() - 3600))
    assert lock.acquire()
    lock.release()
    assert list(index.parent.iterdir()) == []


def test_nothing_unprintable_is_told_of_an_owner() -> None:
    assert parse_owner(Owner(1, "h\x1b[2J", 0.0, "indexing").to_json()) is None
    assert parse_owner(Owner(1, "host", 0.0, "indexing\n").to_json()) is None
    assert parse_owner(Owner(1, "host", 0.0, "indexing").to_json()) == Owner(1, "host", 0.0, "indexing")


@WAYS
def test_a_program_that_was_started_does_not_keep_the_lock(index: Path, flock: bool) -> None:
    lock = SyncLock(index, flock=flock)
    assert lock.acquire()
    with subprocess.Popen(["sleep", "30"], close_fds=False) as child:
        lock.release()
        assert lock.acquire()
        lock.release()
        child.kill()


@WAYS
def test_a_fork_neither_keeps_nor_breaks_the_lock(index: Path, flock: bool) -> None:
    lock = SyncLock(index, flock=flock)
    assert lock.acquire()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        lock.release()  # the copy's: the parent's must stay
        os.write(writing, b"x")
        time.sleep(30)
        os._exit(0)
    try:
        os.read(reading, 1)
        assert not SyncLock(index, flock=flock).acquire(), "the parent holds it"
        lock.release()
        assert lock.acquire(), "the child holds nothing"
        lock.release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def test_a_removed_lock_file_does_not_give_the_lock_to_two(index: Path) -> None:
    first, second, third = (SyncLock(index) for _ in range(3))
    assert first.acquire()
    first.path.unlink()
    assert second.acquire(), "whoever removes it by hand takes the risk, once"
    assert not third.acquire()
    first.release()
    assert not third.acquire()
    second.release()


def test_a_lock_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    lock = SyncLock(tmp_path / "missing" / "main.sqlite")
    with pytest.raises(IndexUnavailable, match=r"main\.sqlite\.lock.* cannot be taken .*OPENCLAW_MEM_HOME"):
        lock.acquire()
    (tmp_path / "target").write_text("notes")
    (tmp_path / "main.sqlite.lock").symlink_to(tmp_path / "target")
    with pytest.raises(IndexUnavailable):
        SyncLock(tmp_path / "main.sqlite").acquire()
    assert (tmp_path / "target").read_text() == "notes", "nothing is written through a link"


# -- single flight --------------------------------------------------------------------------------------


class Work:
    """A sync that goes on until it is let go."""

    def __init__(self) -> None:
        self.runs = 0
        self.started, self.go = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def __call__(self, tell: object) -> SyncReport:
        self.runs += 1
        tell(1, 2, "memory/a.md")  # type: ignore[operator]
        self.started.set()
        assert self.go.wait(20)
        if self.error is not None:
            raise self.error
        return SyncReport(files=self.runs)


def in_thread(call: object) -> tuple[threading.Thread, list[object]]:
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(call())  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - looked at by the test
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


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


@pytest.mark.parametrize("why", ["changed since", "force"])
def test_a_report_that_would_not_be_true_is_not_shared(index: Path, why: str) -> None:
    flight, work = SingleFlight(index), Work()
    first, one = in_thread(lambda: flight.run(work, lambda: True))
    assert work.started.wait(10)
    second, two = in_thread(lambda: flight.run(work, lambda: why != "changed since", force=why == "force"))
    time.sleep(0.2)
    assert work.runs == 1, "never two at once"
    work.go.set()
    first.join(10)
    second.join(10)
    assert [report.files for report in (*one, *two) if isinstance(report, SyncReport)] == [1, 2]


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
    work.error = None
    third.join(10)
    assert isinstance(one[0], Cancelled)
    assert isinstance(three[0], (SyncReport, Cancelled))
    assert work.runs == 2, "who did not stop does the work itself"


def test_an_error_is_shared_too(index: Path) -> None:
    flight, work = SingleFlight(index), Work()
    work.error = WorkspaceError("gone")
    first, one = in_thread(lambda: flight.run(work, lambda: True))
    assert work.started.wait(10)
    second, two = in_thread(lambda: flight.run(work, lambda: True))
    time.sleep(0.15)
    work.go.set()
    first.join(10)
    second.join(10)
    assert work.runs == 1
    assert one == two
    assert isinstance(one[0], WorkspaceError)
    assert SyncLock(index).acquire(), "the lock came back"


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
        with pytest.raises(SyncBusy, match=f"process {process.pid}, indexing since"):
            memory.sync(wait_s=0)
        assert [hit.path for hit in memory.search("router").hits] == ["MEMORY.md"]
        thread, outcome = in_thread(lambda: memory.sync(lambda _d, _t, label: seen.append(label)))
        while not seen:
            time.sleep(0.01)
        assert seen[0].startswith(f"waiting for process {process.pid}, indexing since ")
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
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
