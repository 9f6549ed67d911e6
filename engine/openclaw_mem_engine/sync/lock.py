"""One sync of an index at a time, over all threads and processes.

The lock is the operating system's (``flock`` on ``<index>.lock``): it falls when its process ends, however
that ends, so there is nothing to recover. What the file holds is only for people: who does what since when.

A file system that knows no such lock gets a file that only one can make (``<index>.lock-held``), see
``exclusive``.
"""

from __future__ import annotations

import errno
import os
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, IndexLocked, IndexUnavailable
from openclaw_mem_engine.stores.sqlite.files import has_leftovers
from openclaw_mem_engine.sync.exclusive import Exclusive
from openclaw_mem_engine.sync.owner import MOST_BYTES, Owner, now_s, parse_owner, read_owner

#: How often a waiting process looks, seconds.
POLL_S = 0.05

#: A file system, or a system, that has no lock of this kind.
_NO_FLOCK = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL})

#: Called while waiting, with the owner (None: not known) and the seconds waited so far.
OnWait = Callable[[Owner | None, float], None]
#: Called with the process that was killed at its work on the index (None: nobody knows which), and whether
#: what an unfinished rebuild had written aside was still there.
Killed = Callable[[Owner | None, bool], None]


class SyncBusy(IndexLocked):
    """Another process is bringing the index up to date. ``owner`` is who, as far as that is known."""

    def __init__(self, message: str, owner: Owner | None) -> None:
        super().__init__(message)
        self.owner = owner


class SyncLock:
    """The right to change an index. Not re-entrant; one object is used by one thread at a time.

    ``killed`` hears of who had it before and did not live to give it back: of all who take it after that, one
    is told, and nobody else can write that down. ``flock`` False takes the other way, for file systems
    without such locks (found out by itself when it fails). ``clock`` gives epoch seconds.
    """

    def __init__(
        self,
        index_path: Path,
        what: str = "indexing",
        *,
        killed: Killed = lambda *_: None,
        flock: bool = True,
        clock: Callable[[], float] = now_s,
    ) -> None:
        self.index_path = index_path
        self.path = index_path.with_name(f"{index_path.name}.lock")
        self.what = what
        self._killed = killed
        self._clock = clock
        self._ways: list[_Flock | Exclusive] = [_Flock(self.path)] if flock else []
        self._ways.append(Exclusive(self.path.with_name(f"{self.path.name}-held")))
        self._way: _Flock | Exclusive | None = None
        #: Who had it before and ended without giving it back, as ``killed`` was told when it was taken.
        self.found_dead: Owner | None = None

    @property
    def is_lost(self) -> bool:
        """Whether another process has taken it away from this one, believing it dead: without ``flock`` that
        may happen to one on another machine, or on one that slept. Whoever works longer under the lock asks
        for this before it writes on."""
        return self._way is not None and self._way.is_lost()

    def owner(self) -> Owner | None:
        """Who holds it, by what is written; None when nobody does or it cannot be told."""
        return next((owner for way in self._ways if (owner := way.owner()) is not None), None)

    def acquire(
        self, wait_s: float = 0.0, cancel: CancelToken | None = None, on_wait: OnWait | None = None
    ) -> bool:
        """Take the lock, waiting up to ``wait_s`` seconds; False when somebody else keeps it. Who is found
        dead is told to ``killed``.

        Raises Cancelled, and IndexUnavailable when no lock file can be made.
        """
        assert self._way is None, "a lock is taken once"
        began = time.monotonic()
        while not self._try():
            waited = time.monotonic() - began
            if waited >= wait_s:
                return False
            if cancel is not None and cancel.is_set():
                raise Cancelled("Waiting for another process was stopped.")
            if on_wait is not None:
                on_wait(self.owner(), waited)
            time.sleep(min(POLL_S, wait_s - waited))
        if self.found_dead is not None:
            self._killed(self.found_dead, has_leftovers(self.index_path))
        return True

    def release(self) -> None:
        """Give the lock back. May be called when it is not held."""
        way, self._way = self._way, None
        if way is not None:
            way.leave()

    @contextmanager
    def holding(
        self, wait_s: float = 0.0, cancel: CancelToken | None = None, on_wait: OnWait | None = None
    ) -> Iterator[SyncLock]:
        """``acquire`` … ``release``; raises SyncBusy when somebody else keeps it."""
        if not self.acquire(wait_s, cancel, on_wait):
            raise self.busy()
        try:
            yield self
        finally:
            self.release()

    def busy(self) -> SyncBusy:
        """What to tell when the lock is not to be had."""
        owner = self.owner()
        who = f" ({owner.described(self._clock())})" if owner else ""
        return SyncBusy(
            f"Another process is bringing the index {self.index_path} up to date{who}. Nothing was changed; "
            "try again when it is done.",
            owner,
        )

    def taken_away(self) -> SyncBusy:
        """What to tell when the lock is lost (see ``is_lost``)."""
        owner = self.owner()
        who = f" to another process ({owner.described(self._clock())})" if owner else ""
        return SyncBusy(
            f"The lock of the index {self.index_path} was lost{who}: this process gave no sign of life for a "
            "while, as when the machine sleeps, or the lock file was removed or out of reach. What was "
            "finished before stays; run it again.",
            owner,
        )

    def _try(self) -> bool:
        told = Owner.this_process(self.what, self._clock())
        for way in self._ways:
            try:
                if not way.enter(told):
                    return False
            except _NotHere:
                continue
            except OSError as error:
                raise _refused(way.path, error) from error
            self._way = way
            self.found_dead, way.found_dead = way.found_dead, None
            return True
        raise AssertionError("the second way works everywhere")


def _refused(path: Path, error: OSError) -> IndexUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IndexUnavailable(
            f"The disk that holds {path} is full. The index keeps its old content; free some space and run "
            "`openclaw-mem index` again."
        )
    return IndexUnavailable(
        f"The lock {path} cannot be taken ({error.strerror}). Check the permissions of its folder, or set "
        "OPENCLAW_MEM_HOME to a folder of yours."
    )


class _NotHere(Exception):
    """This way of locking is unknown to the file system."""


class _Flock:
    """``flock`` on a file that stays: removing it would let two processes lock two files of one name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found_dead: Owner | None = None
        self._descriptor: int | None = None

    def enter(self, told: Owner) -> bool:
        if os.name == "nt":
            raise _NotHere
        import fcntl

        # Not inherited by programs that are started (O_CLOEXEC is Python's default); forks: see below.
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            here, named = os.fstat(descriptor), self.path.stat()
        except BlockingIOError:
            os.close(descriptor)
            return False
        except OSError as error:
            os.close(descriptor)
            if error.errno in _NO_FLOCK:
                raise _NotHere from error
            if error.errno == errno.ENOENT:
                return False  # removed by somebody a moment ago: the next try makes it anew
            raise
        if (here.st_dev, here.st_ino) != (named.st_dev, named.st_ino):
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        _HELD.add(self)
        with suppress(OSError):
            self.found_dead = parse_owner(os.pread(descriptor, MOST_BYTES, 0))  # ``leave`` empties it
        with suppress(OSError):  # on a full disk the lock holds all the same, and nobody is told whose it is
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, told.to_json(), 0)
        return True

    def owner(self) -> Owner | None:
        owner = read_owner(self.path)
        return None if owner is None or owner.is_dead() else owner

    def is_lost(self) -> bool:
        return False  # nobody can take it away

    def leave(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        _HELD.discard(self)
        if descriptor is not None:
            with suppress(OSError):
                os.ftruncate(descriptor, 0)
            os.close(descriptor)

    def forked(self) -> None:
        """In a forked child: let go of the copy. Closing leaves the parent's lock alone, unlocking would
        not."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


#: The locks of this process, so that a forked child does not keep one alive that its parent has lost.
_HELD: weakref.WeakSet[_Flock] = weakref.WeakSet()


def _let_go() -> None:
    for lock in list(_HELD):
        lock.forked()
    _HELD.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
