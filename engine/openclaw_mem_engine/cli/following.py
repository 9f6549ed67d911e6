"""Keeping an index up to date as long as somebody wants it: at the start, on changes, by the clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.cli.opening import open_memory
from openclaw_mem_engine.cli.progress import ProgressLine
from openclaw_mem_engine.cli.terminal import OutputFailed
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.sync.flight import WAITING
from openclaw_mem_engine.sync.journal import Journal
from openclaw_mem_engine.sync.watch import Watcher

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.model import Progress, SkippedFile
    from openclaw_mem_engine.sync.report import SyncReport

Reason = Literal["start", "changes", "interval", "retry"]

#: After a failure it is tried again, whether anything changes or not: first and longest pause, seconds.
RETRY_S, LONGEST_RETRY_S = 5.0, 300.0
#: How long the first sync waits until changes are noticed, seconds; most often it takes milliseconds.
_READY_S = 30.0
#: How often it looks when the watcher has ended by a defect of ours, seconds.
_BLIND_S = 60.0


@dataclass(frozen=True, slots=True)
class Happening:
    """Something to tell. ``time`` is epoch seconds; ``reason`` says why a sync was made; ``text`` is what is
    to be known of a note or a failure, ``retry_s`` when a failure is tried again. ``left_out`` was not left
    out before this sync, or had text in the index; ``back`` are paths that were left out before it and are
    not any more."""

    event: Literal["watching", "sync", "note", "waiting", "failed", "stopped"]
    time: float
    reason: Reason | None = None
    report: SyncReport | None = None
    note: Note | None = None
    text: str = ""
    retry_s: float | None = None
    left_out: tuple[SkippedFile, ...] = ()
    back: tuple[str, ...] = ()


class Follower:
    """One workspace, followed until ``stop()``. A sync that fails is told and tried again, never the end."""

    def __init__(
        self, settings: Settings, tell: Callable[[Happening], None], watcher: Watcher | None = None
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._watcher = watcher or Watcher(settings)
        self._stopped = threading.Event()
        #: Groups of changes, notes and a defect of the watcher; None only wakes up.
        self._inbox: SimpleQueue[frozenset[str] | Note | Exception | None] = SimpleQueue()
        self._journal = Journal.of(settings)
        self._memory: Memory | None = None
        self._interval_s = settings.sync.interval_minutes * 60.0
        self._failures = 0
        self._told: set[str] = set()  # what went wrong and is still so
        self._left_out: set[str] | None = None  # as the last sync found it; None before the first
        self._waited = False  # that this sync waits for another process was told, and what came of it not yet

    def stop(self) -> None:
        """End ``run`` soon; a running sync keeps what it has done. May be called in a signal handler."""
        self._stopped.set()
        self._inbox.put(None)

    def run(self) -> None:
        """Follow until it is stopped. Raises what opening the index for the first time raises, and what
        ``tell`` raises."""
        thread = threading.Thread(target=self._watch, name="openclaw-mem-watch", daemon=True)
        try:
            self._opened()
            thread.start()
            # What changes from here on has an event, what changed before is found by the first sync.
            self._watcher.ready.wait(_READY_S)
            self._happened("watching")
            self._journal.watched("Watching for changes.")
            self._take_in()
            reason: Reason | None = "start"
            while reason is not None and not self._stopped.is_set():
                self._sync(reason)
                reason = self._next()
            self._journal.watched("Watching was ended.")
            self._happened("stopped")
        finally:
            self._stopped.set()
            if thread.is_alive():
                thread.join()
            self._close()
            self._journal.log.close()

    # -- waiting ----------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            self._watcher.run(self._stopped, self._inbox.put, self._inbox.put)
        except Exception as error:  # noqa: BLE001 - told by the other thread
            self._inbox.put(error)
        finally:
            self._watcher.ready.set()

    def _next(self) -> Reason | None:
        """Wait for a reason to sync; None when it was stopped."""
        began = time.monotonic()
        while not self._stopped.is_set():
            pauses: dict[Reason, float] = {}
            if self._interval_s:
                pauses["interval"] = self._interval_s
            if self._failures:
                pauses["retry"] = self._retry_s()
            why, pause = min(pauses.items(), key=lambda item: item[1]) if pauses else (None, None)
            left = None if pause is None else pause - (time.monotonic() - began)
            if why is not None and left is not None and left <= 0:
                return why
            try:
                # A limit, because on some systems a signal does not end a wait without one.
                item = self._inbox.get(timeout=min(left, 3600.0) if left is not None else 3600.0)
            except Empty:
                continue
            if self._take_in(item):
                return "changes"
        return None

    def _take_in(self, item: frozenset[str] | Note | Exception | None = None) -> bool:
        """Tell notes; whether there were changes."""
        changed = False
        while True:
            if isinstance(item, frozenset):
                changed = True
            elif isinstance(item, Note):
                self._journal.watched(item.text)
                self._happened("note", note=item)
            elif isinstance(item, Exception):
                self._interval_s = min(self._interval_s or _BLIND_S, _BLIND_S)
                told = f"Changes are not noticed any more ({item!r}); all files are looked at every minute."
                self._journal.watched(told)
                self._happened("note", note=Note("watch-ended", told, "warning"))
                changed = True
            try:
                item = self._inbox.get_nowait()
            except Empty:
                return changed

    # -- syncing ----------------------------------------------------------------------------------------

    def _sync(self, reason: Reason) -> None:
        self._waited = False
        try:
            memory = self._opened()
            if reason == "start":
                from openclaw_mem_engine.cli.planning import announce

                announce(memory, self._stopped, force=False)
            with ProgressLine() as line:
                report = memory.sync(self._progress(line), self._stopped)
        except Cancelled:
            if not self._stopped.is_set():
                raise
            return
        except (OutputFailed, BrokenPipeError, KeyboardInterrupt):
            raise  # nobody hears what would be told
        except OpenClawMemError as error:
            self._failed(reason, str(error))
        except Exception as error:  # noqa: BLE001 - one failed sync must not end it
            self._close()
            self._failed(reason, f"unexpected {type(error).__name__}: {error}")
        else:
            self._done(reason, report)

    def _done(self, reason: Reason, report: SyncReport) -> None:
        waits = any(note.code in ("embedding-failed", "beside-failed") for note in report.notes)
        self._failures = self._failures + 1 if waits else 0
        news = [note for note in report.notes if note.text not in self._told]
        recovered = bool(self._told) and not report.notes
        self._told = {note.text for note in report.notes}
        left_out, back = self._compared(report)
        did = report.changed or report.removed or report.rebuilt or report.embedded or report.beside
        if did or left_out or back or news or recovered or self._waited or reason == "start":
            self._happened("sync", reason=reason, report=report, left_out=left_out, back=back)
        for note in news:
            self._happened("note", note=note)

    def _compared(self, report: SyncReport) -> tuple[tuple[SkippedFile, ...], tuple[str, ...]]:
        """What is left out and was not, and what was and is not. What the first sync finds left out from of
        old is no news."""
        # What is no memory by rule, like a hidden folder, is as it should be.
        now = [file for file in report.skipped if not file.by_rule]
        before, self._left_out = self._left_out, {file.path for file in now}
        if before is None:
            return tuple(report.left_out), ()
        left_out = [file for file in now if file.path not in before or file.path in report.removed]
        folders = tuple(f"{file.path}/" for file in now)  # what lies in one of them stays left out
        back = [path for path in sorted(before - self._left_out) if not path.startswith(folders)]
        return tuple(left_out), tuple(back)

    def _failed(self, reason: Reason, text: str) -> None:
        self._failures += 1
        if text not in self._told or self._waited:
            self._told.add(text)
            self._happened("failed", reason=reason, text=text, retry_s=self._retry_s())

    def _retry_s(self) -> float:
        return min(LONGEST_RETRY_S, RETRY_S * 2.0 ** min(self._failures - 1, 10))

    def _progress(self, line: ProgressLine) -> Progress:
        """The line on the terminal; and once, that another process is waited for."""

        def progress(done: int, total: int, label: str) -> None:
            line(done, total, label)
            if label.startswith(WAITING) and not self._waited:
                self._waited = True
                self._happened("waiting", text=label)

        return progress

    def _opened(self) -> Memory:
        if self._memory is None:
            self._memory = open_memory(self._settings)
        return self._memory

    def _close(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()

    def _happened(
        self,
        event: Literal["watching", "sync", "note", "waiting", "failed", "stopped"],
        *,
        reason: Reason | None = None,
        report: SyncReport | None = None,
        note: Note | None = None,
        text: str = "",
        retry_s: float | None = None,
        left_out: tuple[SkippedFile, ...] = (),
        back: tuple[str, ...] = (),
    ) -> None:
        self._tell(Happening(event, time.time(), reason, report, note, text, retry_s, left_out, back))
