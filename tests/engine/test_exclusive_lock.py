"""The lock without ``flock``: every interleaving of two who found a dead one, and owners that are killed,
sleep, or cannot be asked for."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openclaw_mem_engine.sync import exclusive, owner
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.owner import Owner, read_owner

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")

LINKS = pytest.mark.parametrize("links", [True, False], ids=["hard links", "no hard links"])
#: More than any taking needs: a count that reaches it would be a loop.
MOST_STEPS = 60


@pytest.fixture
def index(tmp_path: Path) -> Path:
    return tmp_path / "main.sqlite"


@pytest.fixture
def held(index: Path) -> Path:
    return index.with_name("main.sqlite.lock-held")


def is_held(lock: SyncLock) -> bool:
    return lock._way is not None


def lock_of(index: Path) -> SyncLock:
    return SyncLock(index, flock=False)


def dead_owner() -> bytes:
    """What a killed process of this machine leaves. No process has a number that large."""
    here = Owner.this_process("indexing", time.time())
    return Owner(2**31 - 2, here.host, here.since, "indexing", "boot-1", os.urandom(8).hex()).to_json()


@contextmanager
def stepping(step: Callable[[int], None], *, links: bool = True) -> Iterator[None]:
    """Before each thing that is done to a file, ``step`` is called with its number; not for what ``step``
    itself does. Without ``links`` the file system knows no hard links."""
    count = 0
    inside = False

    def stepped(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            nonlocal count, inside
            if not inside:
                inside, count = True, count + 1
                try:
                    step(count)
                finally:
                    inside = False
            return real(*args, **options)

        return call

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "link", stepped(os.link if links else refuse))
        for name in ("open", "fdopen"):
            patch.setattr(os, name, stepped(getattr(os, name)))
        for name in ("read_bytes", "stat", "rename", "replace", "unlink"):
            patch.setattr(Path, name, stepped(getattr(Path, name)))
        yield


@LINKS
@pytest.mark.parametrize("released", [False, True], ids=["A keeps it", "A releases it"])
def test_of_those_who_found_a_dead_lock_one_gets_it(tmp_path: Path, links: bool, released: bool) -> None:
    """B is interrupted before each of its steps: there A runs through; and before the next one C does."""
    outcomes, at = set(), 0
    while at < MOST_STEPS:
        at += 1
        index = tmp_path / str(at) / "main.sqlite"
        index.parent.mkdir()
        index.with_name("main.sqlite.lock-held").write_bytes(dead_owner())
        locks = a, b, c = lock_of(index), lock_of(index), lock_of(index)
        reached = False

        def step(number: int) -> None:
            nonlocal reached
            if number == at:  # noqa: B023 - called within this turn
                reached = True
                if a.acquire() and released:  # noqa: B023
                    a.release()  # noqa: B023
            elif number == at + 1:  # noqa: B023
                c.acquire()  # noqa: B023

        with stepping(step, links=links):
            assert b.acquire() == is_held(b)
        if not reached:
            break
        having = "".join(name for name, lock in zip("ABC", locks, strict=True) if is_held(lock))
        outcomes.add(having)
        assert len(having) <= 1, f"{having} have it, when B was interrupted at {at}"
        assert released or having, f"nobody has it, when B was interrupted at {at}"
        for lock in locks:
            lock.release()
        free = lock_of(index)
        assert free.acquire()
        free.release()
        assert list(index.parent.iterdir()) == [], f"something stays, when B was interrupted at {at}"
    assert 5 < at < MOST_STEPS
    assert outcomes >= {"B", "C"} if released else outcomes >= {"A", "B"}


def killing(at: int) -> Callable[[int], None]:
    """A step that kills this process when it is the one of that number."""

    def step(number: int) -> None:
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    return step


@LINKS
@pytest.mark.parametrize("before", ["free", "dead"])
def test_whoever_is_killed_while_taking_it_does_not_block_it(
    tmp_path: Path, links: bool, before: str
) -> None:
    at = 0
    while at < MOST_STEPS:
        at += 1
        index = tmp_path / str(at) / "main.sqlite"
        index.parent.mkdir()
        if before == "dead":
            index.with_name("main.sqlite.lock-held").write_bytes(dead_owner())
        child = os.fork()
        if child == 0:
            with stepping(killing(at), links=links):
                lock_of(index).acquire()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status):
            break
        with stepping(lambda _: None, links=links):
            lock = lock_of(index)
            if not lock.acquire():
                # Killed between making a file and writing it: whose it is nobody can tell.
                assert not links
                for left in index.parent.iterdir():
                    os.utime(left, (time.time() - 3600,) * 2)
                assert lock.acquire(), f"killed at {at}"
            assert not lock_of(index).acquire()
            lock.release()
    assert 5 < at < MOST_STEPS
    assert os.WIFEXITED(status)


def test_takers_that_are_killed_one_after_the_other_leave_nothing(index: Path, held: Path) -> None:
    held.write_bytes(dead_owner())
    real = exclusive._put
    for _ in range(4):
        child = os.fork()
        if child == 0:
            exclusive._put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
            lock_of(index).acquire()
            os._exit(1)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    assert exclusive._put is real
    assert len(list(index.parent.iterdir())) == 5, "a claim on the lock, and each on the one before"
    lock = lock_of(index)
    assert lock.acquire()
    assert list(index.parent.iterdir()) == [held]
    lock.release()


# -- who lives ------------------------------------------------------------------------------------------


def test_a_number_given_to_another_process_does_not_keep_a_dead_lock(index: Path, held: Path) -> None:
    here = Owner.this_process("indexing", time.time())
    if not here.born:
        pytest.skip("this system does not tell when a process was started")
    held.write_bytes(Owner(os.getpid(), here.host, here.since, "indexing", "another-1").to_json())
    lock = lock_of(index)
    assert lock.acquire()
    assert read_owner(held) is not None
    lock.release()
    assert not held.exists()


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid": 1}', b"[" * 5000, b"elsewhere", b"no birth"])
def test_what_nobody_here_can_judge_is_free_after_a_silence(index: Path, held: Path, content: bytes) -> None:
    if content == b"elsewhere":
        content = Owner(4, "another-machine", time.time(), "indexing", "x-1").to_json()
    if content == b"no birth":  # as systems without /proc write it; the number is in use
        host = Owner.this_process("indexing", 0.0).host
        content = Owner(os.getppid(), host, time.time(), "indexing", "").to_json()
    held.write_bytes(content)
    lock = lock_of(index)
    assert not lock.acquire()
    os.utime(held, (time.time() - 3600, time.time() - 3600))
    assert lock.owner() is None
    assert lock.acquire()
    lock.release()
    assert list(index.parent.iterdir()) == []


def test_an_owner_is_dead_only_when_that_is_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    here = Owner.this_process("indexing", 0.0)
    if not here.born:
        pytest.skip("this system does not tell when a process was started")
    assert here.lives() is True
    assert Owner(here.pid, here.host, 0.0, "indexing", "another-1").lives() is False
    assert Owner(here.pid, here.host, 0.0, "indexing", "").lives() is None
    assert Owner(here.pid, "another-machine", 0.0, "indexing", here.born).lives() is None
    monkeypatch.setattr(owner, "born_at", lambda _: "")  # a /proc that hides others' processes
    assert here.lives() is None
    assert not here.is_dead()


# -- a lock that is lost --------------------------------------------------------------------------------


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_an_owner_keeps_its_lock_fresh_and_never_that_of_another(
    index: Path, held: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exclusive, "BEAT_S", 0.02)
    lock = lock_of(index)
    assert lock.acquire()
    old = time.time() - 3600
    os.utime(held, (old, old))
    wait_until(lambda: held.stat().st_mtime > old + 1)
    assert not lock.is_lost
    thief = Owner(4, "another-machine", time.time(), "rebuilding", "x-1").to_json()
    draft = held.with_name("draft")
    draft.write_bytes(thief)
    os.utime(draft, (old, old))
    draft.replace(held)
    wait_until(lambda: lock.is_lost)
    time.sleep(0.1)
    assert held.stat().st_mtime < old + 1
    assert "lost to another process (process 4 on another-machine, rebuilding" not in str(
        lock.taken_away()
    ), "it is silent by now"
    os.utime(held)
    assert "lost to another process (process 4 on another-machine, rebuilding" in str(lock.taken_away())
    lock.release()
    assert held.read_bytes() == thief
    assert not lock.is_lost


@pytest.mark.parametrize(
    ("meanwhile", "lost"),
    [("nothing", False), ("taken", True), ("removed", True), ("out of reach", True)],
)
def test_an_owner_that_slept_looks_before_it_goes_on(
    index: Path, held: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: str, lost: bool
) -> None:
    lock = lock_of(index)
    assert lock.acquire()
    assert not lock.is_lost
    if meanwhile == "taken":
        held.write_bytes(Owner(4, "another-machine", time.time(), "indexing", "x-1").to_json())
    elif meanwhile != "nothing":
        held.unlink()
    if meanwhile == "out of reach":
        held.mkdir()  # what stands there cannot be read
    late = time.time() + 3600
    monkeypatch.setattr(exclusive, "now_s", lambda: late)
    assert lock.is_lost is lost
    lock.release()
