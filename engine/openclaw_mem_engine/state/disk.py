"""Writing files so that they survive a kill and a full disk, one process at a time."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, WorkspaceError, disk_full
from openclaw_mem_engine.state import private_folder

#: How long one process waits for another that writes, seconds.
LOCK_WAIT_S = 10.0
#: The name of the lock of a folder.
LOCK = "lock"


@contextmanager
def held(
    folder: Path, what: str, wait_s: float = LOCK_WAIT_S, cancel: CancelToken | None = None
) -> Iterator[None]:
    """Hold the lock of a private folder, which is made where it is missing; ``what`` is written under it.
    Raises WorkspaceError when another process holds it for ``wait_s`` seconds, or the disk refuses; and
    Cancelled."""
    from filelock import FileLock, Timeout

    try:
        private_folder(folder)
        lock = FileLock(folder / LOCK, mode=0o600, timeout=wait_s)
        lock.acquire(cancel_check=None if cancel is None else cancel.is_set)
    except Timeout:
        if cancel is not None and cancel.is_set():
            raise Cancelled("Waiting for another process was stopped.") from None
        raise WorkspaceError(
            f"Another process has been writing {what} for {wait_s:.3g} s. "
            "Nothing was written; try again when it is done."
        ) from None
    except OSError as error:
        raise refused(str(folder), error) from error
    try:
        yield
    finally:
        lock.release()


def read_file(path: Path, most: int = -1) -> bytes:
    """A state file, or its first ``most`` bytes. Raises OSError, also for what is no regular file: to open a
    FIFO would wait for a writer."""
    with open(path, "rb", opener=_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return file.read(most)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def write_file(path: Path, data: bytes, mode: int | None, *, synced: bool = True) -> None:
    """Make a file that did not exist, and where it is to be ``synced`` wait until it is on disk. Without
    ``mode`` it gets that of any new file of this user. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666 if mode is None else 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        if mode is not None:
            path.chmod(mode)
        if synced:
            file.flush()
            os.fsync(file.fileno())


def replace_file(path: Path, data: bytes, *, synced: bool = False) -> None:
    """Write a small file of ours, for this user alone, in one step: a reader finds the old or the new one.
    Unless ``synced``, it may be lost in a crash of the system. Raises OSError."""
    beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}.tmp")
    try:
        write_file(beside, data, 0o600, synced=synced)
        beside.replace(path)
    except OSError:
        with suppress(OSError):
            beside.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on disk, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def refused(shown: str, error: OSError) -> WorkspaceError:
    """What the disk refused, and what to do; what was there before is still there."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return WorkspaceError(disk_full(shown))
    why = os.strerror(error.errno) if error.errno else str(error)
    return WorkspaceError(f"{shown} cannot be written ({why}). Nothing was changed. Check its permissions.")
