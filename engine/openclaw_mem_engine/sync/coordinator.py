"""One sync at a time: the lock of the index, the turns of the threads of a process, the event log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from openclaw_mem_engine.cancellation import FIRST_INDEX_S, CancelToken, LinkedToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import (
    Cancelled,
    IndexChanged,
    IndexDamaged,
    IndexUnavailable,
    OpenClawMemError,
)
from openclaw_mem_engine.model import WAITING, Note, Progress
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.providers.circuit_breaker import Embedders
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.sqlite.files import has_leftovers, make_folder, sweep
from openclaw_mem_engine.sync.changes import Comparison, compared, listed, scan
from openclaw_mem_engine.sync.events import QUIET_S, Journal
from openclaw_mem_engine.sync.fingerprint import beside_of, fingerprint_of, lacking, needs_rebuild
from openclaw_mem_engine.sync.lock import Owner, SyncLock
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from openclaw_mem_engine.workspace.walk import Listing

_POLL_S = 0.1
_EMPTIED = "The index file had lost its content (0 bytes) and was built anew from your notes."

#: A context in which a sync works; it is given the report, which is filled in meanwhile.
During = Callable[[SyncReport], AbstractContextManager[None]]


@dataclass(slots=True)
class _Seen:
    """The files as they were compared with this state of the index, when that showed that there is work."""

    listing: Listing | None = None
    version: tuple[int, int] | None = None


class SyncCoordinator:
    """The syncs of one opened index. Thread-safe: threads take turns, and see the progress of the one whose
    turn it is. Other processes, and other openings of the index in this one, are kept out by the lock of the
    index. ``during`` surrounds the work of each sync."""

    def __init__(
        self,
        settings: Settings,
        store: IndexStore,
        embedders: Embedders,
        events: Journal,
        clock: Callable[[], float] = time.time,
        during: During = lambda _: nullcontext(),
    ) -> None:
        self._settings = settings
        self._store = store
        self._embedders = embedders
        self._events = events
        self._clock = clock
        self._during = during
        self._turn = threading.Lock()
        #: When the thread whose turn it is had the lock, monotonic seconds; None while it waits for another
        #: process. And its last progress.
        self._began: float | None = None
        self._latest: tuple[int, int, str] = (0, 0, "")

    def sync(
        self, request: SyncRequest, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> SyncReport:
        """Bring the index up to date (see ``sync.update.update``). An index that was set aside or removed
        meanwhile is made anew.

        Work of another process is reported as progress. Raises SyncBusy when it takes longer than
        ``request.wait_s``; IndexChanged when the index was taken away meanwhile;
        Cancelled; and what ``update`` raises.
        """
        report = SyncReport()
        quiet_s = 0.0 if request.is_asked_for else QUIET_S
        with self._in_turn(request.wait_s, progress, cancel) as wait_s:
            seen = _Seen()
            if self._is_up_to_date(request, report, seen):
                return report
            from openclaw_mem_engine.sync.update import update  # most searches do without it

            def show(*now: Any) -> None:
                self._latest = now
                if progress is not None:
                    progress(*now)

            with (
                self._locked(request, show, seen, wait_s, cancel),
                self._during(report),
                self._events.syncing(report, lambda: self._will_rebuild(request), quiet_s),
            ):
                opened = self._store.follow()
                if self._store.was_empty and self._store.fingerprint() is None and self._events.has_synced:
                    report.notes.append(Note("emptied", _EMPTIED, "warning"))
                same = seen.version is not None and seen.version == (opened, self._store.generation())
                update(
                    self._settings,
                    self._store,
                    self._embedders,
                    request,
                    show,
                    LinkedToken(cancel),
                    self._clock,
                    seen.listing if same else None,
                    report,
                )
                if self._store.follow() != opened:
                    raise IndexChanged(
                        f"The index {self._store.path} was set aside or removed while it was brought up to "
                        "date: run it again."
                    )
        return report

    def _is_up_to_date(self, request: SyncRequest, report: SyncReport, seen: _Seen) -> bool:
        """Whether a sync would neither read nor write: the usual case of a search, which needs no lock, nor
        the library of locks. ``report`` is filled in then. Never while another process has the lock, or was
        killed."""
        start, store = time.perf_counter(), self._store
        if not store.is_present() or request.force or request.verify:
            return False
        if SyncLock(store.path).record_path.exists():
            return False
        try:
            opened = store.follow(make=False)
            if store.synced_at() is None or self._will_rebuild(request) or store.is_hollow():
                return False
            how = Comparison(prune=request.prune, tails=request.tails, reading=_reading_is_work)
            seen.version = opened, store.generation()
            seen.listing = listing = listed(self._settings)
            files, _ = store.settled()
            changes, excluded = scan(self._settings, store, how, listing)
            # What the index itself excludes, a listing does not show.
            if files and changes.proven and len(excluded) == len(listing.excluded):
                store.settle(files, compared(listing, store))
            primary = self._embedders.primary
            filled = [*([primary] if primary else []), *beside_of(self._embedders)]
            if request.knobs is not None and lacking(store, request.knobs, primary):
                return False
            if changes.paths or any(store.chunks_without_vector(1, space_of(each)) for each in filled):
                return False
            with self._during(report):
                counts = store.counts()
                report.files, report.chunks, report.excluded = counts.files, counts.chunks, excluded
                report.seconds = time.perf_counter() - start
        except OpenClawMemError:
            return False  # an error is raised again by the sync, and written down there
        return True

    def sweep(self) -> None:
        """Remove what killed rebuilds left beside the index, unless a process is at work on it. Never raises:
        what cannot be removed now is removed another time."""
        path = self._store.path
        if not has_leftovers(path):
            return
        lock = SyncLock(path, "tidying up")
        with suppress(IndexUnavailable), lock.holding():
            left = has_leftovers(path)  # a process that was at work a moment ago has removed its own
            sweep(path, of_all=True)
            if lock.found_dead is not None or (left and not has_leftovers(path)):
                self._events.killed(lock.found_dead, left)

    @contextmanager
    def _in_turn(
        self, wait_s: float, progress: Progress | None, cancel: CancelToken | None
    ) -> Iterator[float]:
        """No other thread syncs in the body. Yields what is left of ``wait_s``, of which the time counts that
        another thread waited for another process meanwhile. Raises SyncBusy when that is more, Cancelled."""
        shown: tuple[int, int, str] | None = None
        last, waited = time.monotonic(), 0.0
        while not self._turn.acquire(timeout=_POLL_S):
            if cancel is not None and cancel.is_set():
                raise Cancelled("Waiting for a running sync was stopped; that sync continues.")
            now = time.monotonic()
            waited += now - last if self._began is None else 0.0
            last = now
            if waited >= wait_s:
                raise SyncLock(self._store.path).busy()
            if progress is not None and self._latest != shown:
                shown = self._latest
                progress(*shown)
        try:
            self._began, self._latest = None, (0, 0, "")
            yield wait_s - waited
        finally:
            self._turn.release()

    def _will_rebuild(self, request: SyncRequest) -> bool:
        self._store.follow(make=False)  # the one that was open may have been set aside as damaged
        present = self._store.fingerprint()
        wanted = fingerprint_of(self._settings, self._embedders.primary)
        return present is not None and (request.force or needs_rebuild(present, wanted))

    @contextmanager
    def _locked(
        self, request: SyncRequest, show: Progress, seen: _Seen, wait_s: float, cancel: CancelToken | None
    ) -> Iterator[None]:
        def waiting(owner: Owner | None) -> None:
            seen.listing = None  # it is not of now any more
            who = owner.described(time.time()) if owner else "another process, which is indexing"
            show(0, 0, f"{WAITING}{who}")

        make_folder(self._store.path)  # that of the lock, too: all of it may have been removed
        what = "rebuilding" if request.force else "indexing"
        lock = SyncLock(self._store.path, what)
        with lock.holding(wait_s, cancel, waiting):
            self._began = time.monotonic()
            if lock.found_dead is not None:
                self._events.killed(lock.found_dead, has_leftovers(lock.index_path))
            with self._store.exclusive():
                yield


def _reading_is_work(path: str) -> None:
    raise Cancelled(f"{path} has to be read.")


def set_aside(settings: Settings, error: IndexDamaged) -> tuple[Path, int]:
    """Move the damaged index away, and replace it as ``replace_damaged`` does: its path now, and how many
    embeddings were saved. The log has ``error`` as the reason. Raises SyncBusy, IndexUnavailable,
    IndexChanged where another file is at its path than the one in which the damage was found."""
    from openclaw_mem_engine.stores.sqlite import files
    from openclaw_mem_engine.stores.sqlite.repair import replace_damaged

    index = settings.index_path
    lock, before = SyncLock(index, "renaming a damaged index"), error.file or files.identity(index)
    with closing(Journal(settings)) as journal, lock.holding(FIRST_INDEX_S):
        if files.identity(index) != before:
            raise IndexChanged("The damaged file is not at its path any more: nothing was renamed.")
        try:
            damaged, saved = replace_damaged(index, of_qmd=settings.qmd_in_process)
        except OSError as cause:
            what = cause.filename2 or cause.filename or index
            text = f"The damaged index {index} cannot be renamed: {what}: {cause.strerror}."
            raise IndexUnavailable(text) from cause
        journal.set_aside(damaged.name, error)
    return damaged, saved


def replaced(settings: Settings, error: IndexDamaged) -> Note:
    """Replace the damaged index as ``set_aside`` does: the note of it. Raises ``error`` for an index on a
    server, which repairs its own files."""
    from openclaw_mem_engine.stores.damage import kept

    if settings.store.location:
        raise error
    try:
        what = kept(*set_aside(settings, error))
    except IndexChanged as changed:
        what = str(changed)
    text = f"The index was damaged. {what}"
    return Note("damaged-replaced", text, "warning")
