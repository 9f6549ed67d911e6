"""Keeping an index up to date: a sync at the start, after changes on disk, by the clock, after a failure.

Changes are found by comparing all files: after events, and now and then without one, since a network disk, a
folder that was replaced or a system without watches left tells nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError
from openclaw_mem_engine.model import WAITING, ExcludedFile, Freshness, Note, Progress
from openclaw_mem_engine.sync.report import SyncReport
from openclaw_mem_engine.sync.watch import Watch

Reason: TypeAlias = Literal["start", "changes", "interval", "retry"]
EventName: TypeAlias = Literal["watching", "sync", "note", "waiting", "failed", "stopped"]

#: Pauses after a failed sync, first and longest, seconds; each is twice the one before.
RETRY_S, LONGEST_RETRY_S = 5.0, 300.0
#: Pauses between comparisons of all files without an event, seconds. They may cost half a hundredth of the
#: time.
LEAST_PAUSE_S, MOST_PAUSE_S = 2.0, 60.0
_SHARE = 200


#: Makes one sync for this reason. The progress that it is given must be called with that of the sync.
FollowSync: TypeAlias = Callable[[Reason, Progress], SyncReport]


@dataclass(frozen=True, slots=True)
class FollowEvent:
    """Something to report. ``time`` is epoch seconds; ``reason`` says why a sync was made; ``text`` belongs
    to a failure or to waiting, ``retry_s`` are the seconds until the next try. ``newly_excluded`` was not
    excluded before this sync, or had text in the index; ``included`` was excluded before it."""

    event: EventName
    time: float
    reason: Reason | None = None
    report: SyncReport | None = None
    note: Note | None = None
    text: str = ""
    retry_s: float | None = None
    newly_excluded: tuple[ExcludedFile, ...] = ()
    included: tuple[str, ...] = ()


class Follower:
    """Keeps one index up to date, in the thread that calls ``run``. ``freshness`` compares index and files;
    ``watched`` writes a text into the event log."""

    def __init__(
        self,
        settings: Settings,
        on_event: Callable[[FollowEvent], None],
        stop: CancelToken,
        sync: FollowSync,
        freshness: Callable[[], Freshness],
        watched: Callable[[str], None],
        watch: Watch | None = None,
    ) -> None:
        self._on_event = on_event
        self._stop = stop
        self._sync_now = sync
        self._freshness = freshness
        self._watched = watched
        self._watch = watch or Watch(settings, stop)
        self._interval_s = settings.sync.interval_minutes * 60.0 or math.inf
        self._failures = 0
        #: Texts of what is wrong, as reported.
        self._reported: set[str] = set()
        #: Why the system does not watch, as reported.
        self._unwatched = ""
        #: What is excluded, as the last sync found it; None before the first.
        self._excluded: set[str] | None = None
        #: What differs since a start without a sync: it waits for an event.
        self._left: tuple[str, ...] = ()
        #: Whether this sync was reported to wait for another process.
        self._waited = False
        self._on_event_failed = False
        #: When the last sync, and the last sync or comparison, ended, monotonic seconds.
        self._synced = self._looked = time.monotonic()
        self._pause_s = LEAST_PAUSE_S

    def run(self, *, at_start: bool = True) -> None:
        """Follow until the stop. A sync that fails is reported and tried again. Raises what ``on_event``
        raises."""
        with closing(self._watch):
            self._watch.look()
            self._watch.renew()
            self._report("watching")
            self._watched("Watching for changes.")
            if at_start:
                self._watch.look()  # again: a folder may have come before the watch was open
                self._sync("start")
            else:
                with suppress(OpenClawMemError):
                    self._left = self._freshness().changed
            while not self._stop.is_set():
                self._renew()
                hinted = self._watch.ended()
                differs = hinted and self._watch.look()
                reason = "changes" if differs else self._due()
                if reason is not None and not self._stop.is_set():
                    if not hinted:
                        self._watch.look()  # what changes during the sync differs from it
                    self._sync(reason)
        self._watched("Watching stopped.")
        self._report("stopped")

    def _due(self) -> Reason | None:
        """Why a sync is due by the clock. While something happens, changes wait for its end."""
        now = time.monotonic()
        if self._failures and now - self._synced >= self._retry_s():
            return "retry"
        if now - self._synced >= self._interval_s:
            return "interval"
        if self._failures or self._watch.is_busy or now - self._looked < self._pause_s:
            return None
        return "changes" if self._is_stale() else None

    def _is_stale(self) -> bool:
        """Compare all files with the index."""
        began = time.monotonic()
        try:
            fresh = self._freshness()
        except OpenClawMemError:
            return True  # the sync fails, too, and says why
        finally:
            self._looked = time.monotonic()
            self._pause_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, (self._looked - began) * _SHARE))
        return fresh.changed_count > 0 and fresh.changed != self._left

    def _renew(self) -> None:
        """Watch the folders that the last look has found, and say once when that cannot be done."""
        if self._watch.renew():
            self._pause_s = LEAST_PAUSE_S  # for what came into a folder before it was watched
        elif (failure := self._watch.failure) and failure != self._unwatched:
            self._unwatched = failure
            pauses = f"{LEAST_PAUSE_S:.0f} to {MOST_PAUSE_S:.0f} s"
            text = f"The system does not report changes: {failure}. All files are compared every {pauses}."
            self._note(Note("watch-polling", text, "warning"))

    def _sync(self, reason: Reason) -> None:
        self._waited = False
        try:
            report = self._sync_now(reason, self._progress)
        except Cancelled:
            if not self._stop.is_set():
                raise
        except Exception as error:  # one failed sync must not end it
            if self._on_event_failed:
                raise
            known = isinstance(error, OpenClawMemError)
            text = str(error) if known else f"unexpected {type(error).__name__}: {error}"
            self._failed(reason, text)
        else:
            self._done(reason, report)
        self._synced = self._looked = time.monotonic()

    def _done(self, reason: Reason, report: SyncReport) -> None:
        self._failures = self._failures + 1 if report.incomplete else 0
        news = [note for note in report.notes if note.text not in self._reported]
        recovered = bool(self._reported) and not report.notes
        self._reported = {note.text for note in report.notes}
        excluded, included = self._differences(report)
        self._left = ()
        did = report.changed or report.removed or report.rebuilt or report.embedded or report.beside
        if did or excluded or included or news or recovered or self._waited or reason == "start":
            self._report("sync", reason=reason, report=report, newly_excluded=excluded, included=included)
        for note in news:
            self._report("note", note=note)

    def _differences(self, report: SyncReport) -> tuple[tuple[ExcludedFile, ...], tuple[str, ...]]:
        """What is excluded and was not, and what was and is not. What the first sync finds excluded from
        before is no news."""
        # What is no memory by rule, like a hidden folder, is as it should be.
        now = [file for file in report.excluded if not file.by_rule]
        before, self._excluded = self._excluded, {file.path for file in now}
        if before is None:
            return tuple(report.newly_excluded), ()
        excluded = [file for file in now if file.path not in before or file.path in report.removed]
        folders = tuple(f"{file.path}/" for file in now)  # what lies in one of them stays excluded
        included = [path for path in sorted(before - self._excluded) if not path.startswith(folders)]
        return tuple(excluded), tuple(included)

    def _failed(self, reason: Reason, text: str) -> None:
        self._failures += 1
        if text not in self._reported or self._waited:
            self._reported.add(text)
            self._report("failed", reason=reason, text=text, retry_s=self._retry_s())

    def _retry_s(self) -> float:
        return min(LONGEST_RETRY_S, RETRY_S * 2.0 ** min(self._failures - 1, 10))

    def _progress(self, _done: int, _total: int, label: str) -> None:
        """Report, once a sync, that another process or a provider is waited for."""
        if label.startswith(WAITING) and not self._waited:
            self._waited = True
            self._report("waiting", text=label)

    def _note(self, note: Note) -> None:
        self._watched(note.text)
        self._report("note", note=note)

    def _report(self, event: EventName, **what: Any) -> None:
        self._on_event_failed = True
        self._on_event(FollowEvent(event, time.time(), **what))
        self._on_event_failed = False
