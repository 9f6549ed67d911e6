"""Keeping an index up to date: a sync at the start, after changes on disk, by the clock, after a failure."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, OpenClawMemError
from openclaw_mem_engine.model import WAITING, Freshness, Note, Progress, SkippedFile
from openclaw_mem_engine.sync.report import SyncReport
from openclaw_mem_engine.sync.watch import Watcher

Reason: TypeAlias = Literal["start", "changes", "interval", "retry"]
EventName: TypeAlias = Literal["watching", "sync", "note", "waiting", "failed", "stopped"]

#: Pauses after a failed sync, first and longest, seconds; each is twice the one before.
RETRY_S, LONGEST_RETRY_S = 5.0, 300.0
#: Pauses between comparisons of all files where events are not enough, seconds. A comparison may cost a
#: hundredth of the time.
LEAST_PAUSE_S, MOST_PAUSE_S = 2.0, 60.0
_SHARE = 100
#: Of the time after which a conversation counts as ended: how often that is checked, since it has no event.
_QUIET_SHARE = 10


@dataclass(frozen=True, slots=True)
class SyncTrigger:
    """Why a sync is to be made; ``paths`` are the absolute paths that changed, as far as they are known."""

    reason: Reason
    paths: frozenset[str] = frozenset()


#: Makes one sync. The progress that it is given must be called with the progress of that sync.
FollowSync: TypeAlias = Callable[[SyncTrigger, Progress], SyncReport]


@dataclass(frozen=True, slots=True)
class FollowEvent:
    """Something to report. ``time`` is epoch seconds; ``reason`` says why a sync was made; ``text`` belongs
    to a failure or to waiting, ``retry_s`` are the seconds until the next try. ``excluded`` was not excluded
    before this sync, or had text in the index; ``included`` was excluded before it."""

    event: EventName
    time: float
    reason: Reason | None = None
    report: SyncReport | None = None
    note: Note | None = None
    text: str = ""
    retry_s: float | None = None
    excluded: tuple[SkippedFile, ...] = ()
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
        watcher: Watcher | None = None,
    ) -> None:
        self._on_event = on_event
        self._stop = stop
        self._sync_now = sync
        self._freshness = freshness
        self._watched = watched
        self._watcher = watcher or Watcher(settings)
        self._interval_s = settings.sync.interval_minutes * 60.0 or math.inf
        quiet_s = settings.sync.session_quiet_s if "sessions" in settings.sources else 0
        self._quiet_pause_s = min(MOST_PAUSE_S, max(0.5, quiet_s / _QUIET_SHARE)) if quiet_s else math.inf
        self._failures = 0
        #: Texts of what is wrong, as reported.
        self._reported: set[str] = set()
        #: What is excluded, as the last sync found it; None before the first.
        self._excluded: set[str] | None = None
        #: Whether this sync was reported to wait for another process.
        self._waited = False
        self._on_event_failed = False
        #: When the last sync ended and the last comparison was due, monotonic seconds.
        self._synced = self._compared = time.monotonic()
        self._compare_s = LEAST_PAUSE_S

    def run(self, *, at_start: bool = True) -> None:
        """Follow until the stop. A sync that fails is reported and tried again. Raises what ``on_event``
        raises."""
        groups = self._watcher.groups(self._stop, self._note)
        paths = next(groups, frozenset())
        self._report("watching")
        self._watched("Watching for changes.")
        if at_start and not self._stop.is_set():
            self._sync(SyncTrigger("start"))
        for more in groups:
            paths |= more
            trigger = SyncTrigger("changes", paths) if paths else self._due()
            paths = frozenset()
            if trigger is not None and not self._stop.is_set():
                self._sync(trigger)
        self._watched("Watching stopped.")
        self._report("stopped")

    def _due(self) -> SyncTrigger | None:
        """What is due by the clock."""
        now = time.monotonic()
        if self._failures and now - self._synced >= self._retry_s():
            return SyncTrigger("retry")
        if now - self._synced >= self._interval_s:
            return SyncTrigger("interval")
        pause = self._compare_s if self._watcher.is_blind else self._quiet_pause_s
        if self._failures or now - self._compared < pause:
            return None
        return self._compare()

    def _compare(self) -> SyncTrigger | None:
        """Compare all files, where events are not enough."""
        began = time.monotonic()
        try:
            fresh = self._freshness()
        except OpenClawMemError:
            return SyncTrigger("changes")  # which fails, and says why
        finally:
            self._compared = time.monotonic()
            self._compare_s = min(MOST_PAUSE_S, max(LEAST_PAUSE_S, (self._compared - began) * _SHARE))
        return SyncTrigger("changes", frozenset(fresh.changed)) if fresh.changed_count else None

    def _sync(self, trigger: SyncTrigger) -> None:
        self._waited = False
        try:
            report = self._sync_now(trigger, self._progress)
        except Cancelled:
            if not self._stop.is_set():
                raise
        except Exception as error:  # one failed sync must not end it
            if self._on_event_failed:
                raise
            known = isinstance(error, OpenClawMemError)
            text = str(error) if known else f"unexpected {type(error).__name__}: {error}"
            self._failed(trigger.reason, text)
        else:
            self._done(trigger.reason, report)
        self._synced = self._compared = time.monotonic()

    def _done(self, reason: Reason, report: SyncReport) -> None:
        self._failures = self._failures + 1 if report.incomplete else 0
        news = [note for note in report.notes if note.text not in self._reported]
        recovered = bool(self._reported) and not report.notes
        self._reported = {note.text for note in report.notes}
        excluded, included = self._differences(report)
        did = report.changed or report.removed or report.rebuilt or report.embedded or report.beside
        if did or excluded or included or news or recovered or self._waited or reason == "start":
            self._report("sync", reason=reason, report=report, excluded=excluded, included=included)
        for note in news:
            self._report("note", note=note)

    def _differences(self, report: SyncReport) -> tuple[tuple[SkippedFile, ...], tuple[str, ...]]:
        """What is excluded and was not, and what was and is not. What the first sync finds excluded from
        before is no news."""
        # What is no memory by rule, like a hidden folder, is as it should be.
        now = [file for file in report.skipped if not file.by_rule]
        before, self._excluded = self._excluded, {file.path for file in now}
        if before is None:
            return tuple(report.left_out), ()
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
