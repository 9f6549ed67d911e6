"""Single flight: whoever asks for a sync while one runs gets that one's report, or waits for its turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.errors import Cancelled, IndexUnavailable, OpenClawMemError
from openclaw_mem_engine.index.aside import has_leftovers, sweep
from openclaw_mem_engine.model import CancelToken, Progress
from openclaw_mem_engine.sync.indexer import SyncReport
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.owner import Owner, now_s

#: How long a sync that was asked for waits for another process before it gives up, seconds: a first index
#: with a remote provider may take that long, and Ctrl-C ends the wait at once.
WAIT_S = 1_800.0
#: How long a search waits with its own sync, seconds: most syncs and all tidying up are over by then.
GRACE_S = 0.2
#: Labels of the progress that begin like this are no files: somebody else is at work.
WAITING = "waiting for "

_POLL_S = 0.1


class _Flight:
    """A sync that runs in some thread of this process."""

    def __init__(self, force: bool) -> None:
        self.force = force
        self.done = threading.Event()
        self.report: SyncReport | None = None
        self.error: OpenClawMemError | None = None
        #: What its progress last said; read by those who joined.
        self.told: tuple[int, int, str] = (0, 0, "")


class SingleFlight:
    """The syncs of one opened index. Thread-safe.

    Threads that share it share a sync: the second one waits and gets the report of the first, as long as
    nothing has changed since (``is_current``). Other processes, and other openings of the index in this one,
    are kept out by the lock beside the index.
    """

    def __init__(self, index_path: Path, clock: Callable[[], float] = now_s) -> None:
        self._index_path = index_path
        self._clock = clock
        self._guard = threading.Lock()
        self._running: _Flight | None = None

    def run(
        self,
        work: Callable[[Progress], SyncReport],
        is_current: Callable[[], bool],
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        *,
        force: bool = False,
        wait_s: float = WAIT_S,
    ) -> SyncReport:
        """Do ``work`` alone, or join the sync that does it just now.

        ``wait_s`` is how long to wait for another process; what it does is told as progress. Raises SyncBusy
        when that was not long enough, Cancelled (a joined sync goes on for those who did not cancel), and
        what ``work`` raises.
        """
        while True:
            with self._guard:
                running = self._running
                if running is None:
                    mine = self._running = _Flight(force)
                    break
            joined = self._join(running, progress, cancel)
            # What was changed after its look at the files is not in it: that would be a lie.
            if joined is not None and (running.force or not force) and is_current():
                return joined
        try:
            mine.report = self._alone(mine, work, progress, cancel, wait_s)
            return mine.report
        except OpenClawMemError as error:
            mine.error = error
            raise
        finally:
            with self._guard:
                self._running = None
            mine.done.set()

    def _alone(
        self,
        flight: _Flight,
        work: Callable[[Progress], SyncReport],
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

        what = "rebuilding" if flight.force else "indexing"
        lock = SyncLock(self._index_path, what, clock=self._clock)
        with lock.holding(wait_s, cancel, waiting):
            return work(tell)

    @staticmethod
    def _join(flight: _Flight, progress: Progress | None, cancel: CancelToken | None) -> SyncReport | None:
        """Wait for a sync of another thread; None when it was cancelled there. Raises its error."""
        told: tuple[int, int, str] | None = None
        while not flight.done.wait(_POLL_S):
            if cancel is not None and cancel.is_set():
                raise Cancelled("Waiting for a running sync was stopped; that sync goes on.")
            if progress is not None and flight.told != told:
                told = flight.told
                progress(*told)
        if flight.error is not None and not isinstance(flight.error, Cancelled):
            raise flight.error
        return flight.report


def sweep_unowned(index_path: Path) -> None:
    """Remove what killed rebuilds left beside an index, when nobody is at work on it. Never raises: what
    cannot be removed now is removed another time."""
    if not has_leftovers(index_path):
        return
    lock = SyncLock(index_path, "tidying up")
    with suppress(IndexUnavailable), lock.holding():
        sweep(index_path, of_all=True)
