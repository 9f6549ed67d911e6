"""Single flight: whoever asks for a sync while one runs gets that one's report, or waits for its turn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from openclaw_mem_engine.cancellation import CancelToken, LinkedToken
from openclaw_mem_engine.errors import Cancelled, IndexUnavailable
from openclaw_mem_engine.model import Progress
from openclaw_mem_engine.stores.sqlite.files import has_leftovers, sweep
from openclaw_mem_engine.sync.lock import Killed, SyncLock
from openclaw_mem_engine.sync.owner import Owner, now_s
from openclaw_mem_engine.sync.report import SyncReport

#: How long a sync that was asked for waits for another process before it gives up, seconds: a first index
#: with a remote provider may take that long, and Ctrl-C ends the wait at once.
WAIT_S = 1_800.0
#: How long a search waits with its own sync, seconds: most syncs and all tidying up are over by then.
GRACE_S = 0.2
#: Labels of the progress that begin like this are no files: somebody else is at work.
WAITING = "waiting for "

_POLL_S = 0.1


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a sync is asked for: see ``sync.indexer.sync``; ``wait_s`` is how long to wait for another
    process."""

    force: bool = False
    verify: bool = False
    tails: bool = False
    budget_s: float | None = None
    files_s: float | None = None
    wait_s: float = WAIT_S

    def cover(self, other: Wishes) -> bool:
        """Whether the report of a sync with these wishes is an answer to the other ones. ``wait_s`` is no
        part of that: how long one waits is everybody's own. A ``verify`` that has begun is an answer to none
        that was asked for later: what it has read may have changed since without a trace."""
        if other.verify or (other.force and not self.force) or (other.tails and not self.tails):
            return False
        return _lasts(self.budget_s, other.budget_s) and _lasts(self.files_s, other.files_s)


def _lasts(time_s: float | None, other_s: float | None) -> bool:
    """Whether this much time (None: any) is at least as much as the other."""
    return time_s is None or (other_s is not None and time_s >= other_s)


class _Flight:
    """A sync that runs in some thread of this process."""

    def __init__(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self.done = threading.Event()
        #: When it had the lock, monotonic seconds; None while it waits for another process.
        self.began: float | None = None
        self.report: SyncReport | None = None
        #: What its progress last said; read by those who joined.
        self.told: tuple[int, int, str] = (0, 0, "")


class SingleFlight:
    """The syncs of one opened index. Thread-safe.

    Threads that share it share a sync: the second one waits and gets the report of the first, as long as
    nothing has changed since (``is_current``). Other processes, and other openings of the index in this one,
    are kept out by the lock beside the index. ``killed`` hears of a process that did not live to give that
    lock back.
    """

    def __init__(
        self, index_path: Path, clock: Callable[[], float] = now_s, killed: Killed = lambda *_: None
    ) -> None:
        self._index_path = index_path
        self._clock = clock
        self._killed = killed
        self._guard = threading.Lock()
        self._running: _Flight | None = None

    def run(
        self,
        work: Callable[[Progress, CancelToken], SyncReport],
        is_current: Callable[[], bool],
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        wishes: Wishes | None = None,
    ) -> SyncReport:
        """Do ``work`` alone, or join the sync that does it just now. ``work`` stops when the token that it is
        given is set.

        What another process does meanwhile is told as progress. Raises SyncBusy when it took longer than
        ``wishes.wait_s``, or took this lock over; Cancelled (a joined sync goes on for those who did not
        cancel); and what ``work`` raises. Errors are not shared: they tell of a moment before this was asked.
        """
        wishes = wishes or Wishes()
        left = wishes.wait_s
        while True:
            with self._guard:
                running = self._running
                if running is None:
                    mine = self._running = _Flight(wishes)
                    break
            left -= self._join(running, left, progress, cancel)
            report = running.report
            if report is None or not running.wishes.cover(wishes) or _ran_out_of_time(report):
                continue
            # What was changed after its look at the files is not in it: that would be a lie.
            if is_current():
                return report
        try:
            mine.report = self._alone(mine, work, progress, cancel, left)
            return mine.report
        finally:
            with self._guard:
                self._running = None
            mine.done.set()

    def _alone(
        self,
        flight: _Flight,
        work: Callable[[Progress, CancelToken], SyncReport],
        progress: Progress | None,
        cancel: CancelToken | None,
        wait_s: float,
    ) -> SyncReport:
        def tell(done: int, total: int, label: str) -> None:
            flight.told = (done, total, label)
            if progress is not None:
                progress(done, total, label)

        def waiting(owner: Owner | None, _: float) -> None:
            who = owner.described(self._clock()) if owner else "another process, which is indexing"
            tell(0, 0, f"{WAITING}{who}")

        lock = self._lock("rebuilding" if flight.wishes.force else "indexing")
        with lock.holding(wait_s, cancel, waiting):
            flight.began = time.monotonic()
            try:
                # Without the lock nobody may write on as if alone.
                return work(tell, LinkedToken(cancel, lambda: lock.is_lost))
            except Cancelled as error:
                if lock.is_lost:
                    raise lock.taken_away() from error
                raise

    def _join(
        self, flight: _Flight, wait_s: float, progress: Progress | None, cancel: CancelToken | None
    ) -> float:
        """Wait for the end of a sync of another thread. Returns how long that waited for another process
        meanwhile, seconds; raises SyncBusy when it is more than ``wait_s``."""
        start = time.monotonic()
        told: tuple[int, int, str] | None = None
        while not flight.done.wait(_POLL_S):
            if cancel is not None and cancel.is_set():
                raise Cancelled("Waiting for a running sync was stopped; that sync goes on.")
            if flight.began is None and time.monotonic() - start >= wait_s:
                raise self._lock("indexing").busy()
            if progress is not None and flight.told != told:
                told = flight.told
                progress(*told)
        return max(0.0, (flight.began or time.monotonic()) - start)

    def _lock(self, what: str) -> SyncLock:
        return SyncLock(self._index_path, what, killed=self._killed, clock=self._clock)


def _ran_out_of_time(report: SyncReport) -> bool:
    """Whether it left work for whoever has more time."""
    return bool(report.waiting) or any(note.code == "embedding-later" for note in report.notes)


def sweep_unowned(index_path: Path, killed: Killed = lambda *_: None) -> None:
    """Remove what killed rebuilds left beside an index, when nobody is at work on it; ``killed`` hears of
    them. Never raises: what cannot be removed now is removed another time."""
    if not has_leftovers(index_path):
        return
    lock = SyncLock(index_path, "tidying up", killed=killed)
    with suppress(IndexUnavailable), lock.holding():
        left = has_leftovers(index_path)  # one that was at work a moment ago has taken its own away
        sweep(index_path, of_all=True)
        if lock.found_dead is None and left and not has_leftovers(index_path):
            killed(None, True)
