"""One sync of an index at a time, over all threads and processes.

The lock is that of ``filelock`` on ``<index>.lock``: the operating system releases it when its process ends,
however that ends. ``<index>.lock-owner`` says who works on the index since when; its owner removes it before
it releases the lock, so a record that the next owner finds is that of a process that was killed.
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
from openclaw_mem_engine.stores.sqlite.files import is_running

if TYPE_CHECKING:
    from filelock import BaseFileLock

#: Pause between two attempts to take the lock, seconds.
POLL_S = 0.05

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


class SyncBusy(IndexLocked):
    """Another process is bringing the index up to date. ``owner`` is None when it is not known."""

    def __init__(self, message: str, owner: Owner | None) -> None:
        super().__init__(message)
        self.owner = owner


class SyncLock:
    """The right to change an index. Not re-entrant; one object is used by one thread at a time."""

    def __init__(self, index_path: Path, what: str = "indexing") -> None:
        self.index_path = index_path
        self.path = index_path.with_name(f"{index_path.name}.lock")
        self.record_path = index_path.with_name(f"{index_path.name}.lock-owner")
        self.what = what
        self._lock: BaseFileLock | None = None
        self._pid = 0
        #: The owner before this one, when it was killed.
        self.found_dead: Owner | None = None

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
        return True

    def release(self) -> None:
        """Release the lock. May be called when it is not held, and in a forked child, which holds nothing."""
        lock, self._lock = self._lock, None
        if lock is None or self._pid != os.getpid():
            return
        with suppress(OSError):
            self.record_path.unlink()
        with suppress(OSError):
            lock.release()

    @contextmanager
    def holding(
        self, wait_s: float = 0.0, cancel: CancelToken | None = None, on_wait: OnWait | None = None
    ) -> Iterator[SyncLock]:
        """``acquire`` … ``release``; raises SyncBusy when another owner keeps it."""
        if not self.acquire(wait_s, cancel, on_wait):
            raise self.busy()
        try:
            yield self
        finally:
            self.release()

    def busy(self) -> SyncBusy:
        """The error for a lock that another owner keeps."""
        owner = self.owner()
        who = f" ({owner.described(time.time())})" if owner else ""
        return SyncBusy(
            f"Another process is syncing the index {self.index_path}{who}. Nothing was changed; "
            "try again when it is done.",
            owner,
        )

    def _try(self) -> bool:
        from filelock import FileLock, Timeout

        if not self.path.parent.is_dir():  # filelock would make it
            raise _refused(self.path, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)))
        try:
            lock = FileLock(self.path, mode=0o600, thread_local=False)
            lock.acquire(blocking=False)
        except Timeout:
            return False
        except OSError as error:
            raise _refused(self.path, error) from error
        self._lock, self._pid = lock, os.getpid()
        return True

    def _write_record(self) -> None:
        """Say who holds the lock. On a full disk the lock holds without a record."""
        with suppress(OSError):
            self.record_path.unlink(missing_ok=True)
            descriptor = os.open(self.record_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(Owner(os.getpid(), _host(), time.time(), self.what).to_json())


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


def _refused(path: Path, error: OSError) -> IndexUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IndexUnavailable(disk_full(path, "run `openclaw-mem index` again"))
    if error.errno == errno.EROFS:
        return IndexUnavailable(
            f"{path.parent} is on a read-only file system: set OPENCLAW_MEM_HOME to a folder that can be "
            "written."
        )
    return IndexUnavailable(
        f"The lock {path} cannot be taken ({error.strerror}). Check its permissions and its folder's, or "
        "set OPENCLAW_MEM_HOME to a folder of yours on a local disk."
    )


def _host() -> str:
    """The name of this host, without importing ``socket``."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
