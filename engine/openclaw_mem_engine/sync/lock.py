"""One sync of an index at a time, over all threads and processes.

The lock is that of ``filelock`` on ``<index>.lock``: the operating system releases it when its process ends,
however that ends. A file system without such locks gets a lock file (``<index>.lock-held``) instead.
``<index>.lock-owner`` says who works on the index since when; its owner removes it before it releases the
lock, so a record that the next owner finds is that of a process that was killed.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import Cancelled, IndexLocked, IndexUnavailable, disk_full
from openclaw_mem_engine.stores.sqlite.files import has_leftovers, is_running

if TYPE_CHECKING:
    from filelock import BaseFileLock

#: Pause between two attempts to take the lock, seconds.
POLL_S = 0.05

#: Errors of a file system, or a system, that has no lock of the operating system.
_NO_NATIVE_LOCK = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL})
#: A larger file is no record of ours.
_MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that works on an index. ``since`` is epoch seconds, ``what`` says what it does
    ("indexing")."""

    pid: int
    host: str
    since: float
    what: str

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode("ascii") + b"\n"

    def described(self, now: float) -> str:
        """``process 123, indexing for 12 s``; with its host when that is another one."""
        host = "" if self.host == _host() else f" on {self.host}"
        age = max(0.0, now - self.since)  # the clock may have gone back
        return f"process {self.pid}{host}, {self.what} for {_duration(age)}"

    def is_gone(self) -> bool:
        """Whether no process of this number runs on this host; False for a process of another host."""
        return self.host == _host() and is_running(self.pid) is False


#: Called while waiting, with the owner (None: not known).
OnWait: TypeAlias = Callable[[Owner | None], None]
#: Called with the process that was killed at work (None: not known), and whether it left a rebuild.
Killed: TypeAlias = Callable[[Owner | None, bool], None]


class SyncBusy(IndexLocked):
    """Another process is bringing the index up to date. ``owner`` is None when it is not known."""

    def __init__(self, message: str, owner: Owner | None) -> None:
        super().__init__(message)
        self.owner = owner


class SyncLock:
    """The right to change an index. Not re-entrant; one object is used by one thread at a time.

    ``killed`` is called once when the lock is taken after an owner that was killed. ``soft`` uses a lock file
    from the start, as on a file system without native locks.
    """

    def __init__(
        self,
        index_path: Path,
        what: str = "indexing",
        *,
        killed: Killed = lambda *_: None,
        soft: bool = False,
    ) -> None:
        self.index_path = index_path
        self.path = index_path.with_name(f"{index_path.name}.lock")
        self.record_path = index_path.with_name(f"{index_path.name}.lock-owner")
        self._held_path = index_path.with_name(f"{index_path.name}.lock-held")
        self.what = what
        self._killed = killed
        self._soft = soft
        self._lock: BaseFileLock | None = None
        self._pid = 0
        #: What identifies our record: another one in its path is that of another owner.
        self._record: tuple[int, int, int] | None = None
        #: The owner before this one, when it was killed.
        self.found_dead: Owner | None = None

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken the lock meanwhile, as after its file was removed by hand. Long
        work under the lock checks this before each write; one stat."""
        return self._record is not None and _identity(self.record_path) not in (None, self._record)

    def owner(self) -> Owner | None:
        """Who holds it, by the record; None when it is free or that is not known."""
        owner = read_owner(self.record_path)
        return None if owner is None or owner.is_gone() else owner

    def acquire(
        self, wait_s: float = 0.0, cancel: CancelToken | None = None, on_wait: OnWait | None = None
    ) -> bool:
        """Take the lock, waiting up to ``wait_s`` seconds; False when another owner keeps it. Raises
        Cancelled, and IndexUnavailable when no lock can be made."""
        assert self._lock is None, "a lock is taken once"
        began = time.monotonic()
        while not self._try():
            if (waited := time.monotonic() - began) >= wait_s:
                return False
            if cancel is not None and cancel.is_set():
                raise Cancelled("Waiting for another process was stopped.")
            if on_wait is not None:
                on_wait(self.owner())
            time.sleep(min(POLL_S, wait_s - waited))
        self.found_dead = read_owner(self.record_path)
        self._write_record()
        if self.found_dead is not None:
            self._killed(self.found_dead, has_leftovers(self.index_path))
        return True

    def release(self) -> None:
        """Release the lock. May be called when it is not held, and in a forked child, which holds nothing."""
        lock, self._lock = self._lock, None
        if lock is None or self._pid != os.getpid():
            return
        if self._record is not None and not self.is_lost:
            with suppress(OSError):
                self.record_path.unlink()
        self._record = None
        with suppress(OSError):
            lock.release()

    @contextmanager
    def holding(
        self, wait_s: float = 0.0, cancel: CancelToken | None = None, on_wait: OnWait | None = None
    ) -> Iterator[SyncLock]:
        """``acquire`` … ``release``; raises SyncBusy when another owner keeps it, or has taken it from a body
        that was stopped."""
        if not self.acquire(wait_s, cancel, on_wait):
            raise self.busy()
        try:
            yield self
        except Cancelled as error:
            if self.is_lost:
                raise self.taken_away() from error
            raise
        finally:
            self.release()

    def busy(self) -> SyncBusy:
        """The error for a lock that another owner keeps."""
        owner, who = self._who()
        # The death of an owner on another host cannot be noticed here.
        remote = f" If it has ended, remove {self._held_path}." if self._soft else ""
        return SyncBusy(
            f"Another process is syncing the index {self.index_path}{who}. Nothing was changed; "
            f"try again when it is done.{remote}",
            owner,
        )

    def taken_away(self) -> SyncBusy:
        """The error for a lock that was lost (see ``is_lost``)."""
        owner, who = self._who(" to another process")
        return SyncBusy(
            f"The lock of the index {self.index_path} was lost{who}: its file was removed, or this host gave "
            "no answer for a while. What was finished before stays; run it again.",
            owner,
        )

    def _who(self, before: str = "") -> tuple[Owner | None, str]:
        owner = self.owner()
        return owner, f"{before} ({owner.described(time.time())})" if owner else ""

    def _try(self) -> bool:
        from filelock import FileLock, SoftFileLock, Timeout

        if not self.path.parent.is_dir():  # filelock would make it
            raise _refused(self.path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        kind, path = (SoftFileLock, self._held_path) if self._soft else (FileLock, self.path)
        try:
            lock = kind(path, mode=0o600, thread_local=False, fallback_to_soft=False)
            lock.acquire(blocking=False)
        except Timeout:
            return False
        except OSError as error:
            if self._soft or error.errno not in _NO_NATIVE_LOCK:
                raise _refused(path, error) from error
            self._soft = True
            return self._try()
        self._lock, self._pid = lock, os.getpid()
        return True

    def _write_record(self) -> None:
        """Say who holds the lock. On a full disk the lock holds without a record."""
        with suppress(OSError):
            self.record_path.unlink(missing_ok=True)
            descriptor = os.open(self.record_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(Owner(os.getpid(), _host(), time.time(), self.what).to_json())
            self._record = _identity(self.record_path)


def read_owner(path: Path) -> Owner | None:
    """The owner that a record names; None for a file that is missing, empty, half written or foreign. Texts
    that are not printable are refused: they may reach a terminal."""
    from openclaw_mem_engine.state.disk import read_file

    with suppress(OSError, LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        found = json.loads(read_file(path, _MOST_BYTES))
        host, what = str(found["host"]), str(found["what"])
        if all(text.isprintable() and len(text) < 300 for text in (host, what)):
            return Owner(int(found["pid"]), host, float(found["since"]), what)
    return None


def _identity(path: Path) -> tuple[int, int, int] | None:
    with suppress(OSError):
        status = path.stat(follow_symlinks=False)
        return status.st_dev, status.st_ino, status.st_mtime_ns
    return None


def _refused(path: Path, error: OSError) -> IndexUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IndexUnavailable(disk_full(path, "run `openclaw-mem index` again"))
    if error.errno == errno.EROFS:
        return IndexUnavailable(
            f"{path.parent} is on a read-only file system: set OPENCLAW_MEM_HOME to a folder that can be "
            "written."
        )
    closed = "this file" if path.exists() else "its folder"
    return IndexUnavailable(
        f"The lock {path} cannot be taken ({error.strerror}). Check the permissions of {closed}, or set "
        "OPENCLAW_MEM_HOME to a folder of yours."
    )


def _host() -> str:
    """The name of this host, without importing ``socket``."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
