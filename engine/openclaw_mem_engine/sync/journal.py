"""What one agent's memory writes into the event log: when something is worth an event, and in which words."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import Cancelled, OpenClawMemError, UsageError
from openclaw_mem_engine.events import EVENTS_FILE, EventLog

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.index.findings import Report
    from openclaw_mem_engine.model import Fallback, Note
    from openclaw_mem_engine.sync.indexer import SyncReport

#: The same failure is written down once in so many seconds: a search as you type would fill the log with it.
QUIET_S = 600.0

_WELL = "well"
#: Notes of a sync that did not do all that it should have done.
_INCOMPLETE = ("embedding-failed", "beside-failed")


class Journal:
    """Writes for the agent and the workspace of ``settings``. Thread-safe. No method raises because of the
    log; errors of the work that is written about pass through."""

    def __init__(self, settings: Settings, log: EventLog) -> None:
        self.log = log
        self._agent = settings.agent
        self._workspace = str(settings.workspace)
        self._add = partial(log.add, agent=self._agent, workspace=self._workspace)
        self._guard = threading.Lock()
        #: How each provider stood when this process last looked; saves a look into the file per search.
        self._standing: dict[str, str] = {}

    @classmethod
    def of(cls, settings: Settings, clock: Callable[[], float] = time.time, *, kept: bool = True) -> Journal:
        """A journal in the log of the data folder; not ``kept``: in memory alone."""
        return cls(settings, EventLog(settings.data_dir / EVENTS_FILE if kept else None, clock))

    @property
    def note(self) -> Note | None:
        """Why the log cannot be kept; None as long as it can."""
        return self.log.note

    # -- syncs ------------------------------------------------------------------------------------------

    def syncing(self, work: Callable[[], SyncReport], rebuilds: Callable[[], bool]) -> SyncReport:
        """Do ``work``, and write down what it did or why it failed; nothing of one that found nothing to do.
        ``rebuilds`` tells beforehand whether it is going to build the index anew."""
        start = time.perf_counter()
        rebuild = False
        try:
            rebuild = rebuilds()
            report = work()
        except Exception as error:
            self._sync_failed(error, time.perf_counter() - start, rebuild=rebuild)
            raise
        self._synced(report)
        return report

    def _sync_failed(self, error: Exception, seconds: float, *, rebuild: bool) -> None:
        what = "The rebuild" if rebuild else "The sync"
        kept = "the index is as it was" if rebuild else "what was done before stays"
        ended = "was stopped" if isinstance(error, Cancelled) else "failed"
        reason = _reason(error)
        self._add(
            "rebuild" if rebuild else "sync",
            f"{what} {ended}: {kept}.",
            seconds=seconds,
            reason=reason,
            topic="sync",
            state=f"{ended}: {reason}",
            quiet_s=QUIET_S,
        )

    def _synced(self, report: SyncReport) -> None:
        made = report.embedded + report.beside
        did = report.rebuilt or report.changed or report.removed or made
        failures = [note.text for note in report.notes if note.code in _INCOMPLETE]
        if not did and not failures:
            return
        told = []
        if report.rebuilt:
            told.append(f"index rebuilt with {_counted(report.files, 'file')}")
        elif report.changed or report.removed:
            told.append(
                f"{_counted(len(report.changed), 'file')} new or changed, {len(report.removed):,} gone"
            )
        if made:
            told.append(f"{_counted(made, 'text')} embedded")
        if failures:
            told.append("vectors are missing")
        why = [note.text for note in report.notes if note.code == "rebuilt"]
        reason = " ".join([*why, *failures])
        self._add(
            "rebuild" if report.rebuilt else "sync",
            _sentence("; ".join(told)),
            seconds=report.seconds,
            counts={
                "files": report.files,
                "chunks": report.chunks,
                "changed": len(report.changed),
                "removed": len(report.removed),
                "skipped": len(report.skipped),
                "embedded": report.embedded,
                "beside": report.beside,
                "cacheHits": report.cache_hits,
            },
            reason=reason,
            topic="sync",
            state=f"incomplete: {reason}" if failures else _WELL,
            # A provider that stays away is no news at every search.
            quiet_s=0.0 if did else QUIET_S,
        )

    # -- searches ---------------------------------------------------------------------------------------

    def answered(self, fallback: Fallback | None, primary: str | None) -> None:
        """A search was answered: instead of its provider by a ``fallback``, or by the provider ``primary``
        itself. Only what changed is written down, once for all processes. Both None: nothing is known."""
        if fallback is not None:
            self._fell_back(fallback)
        elif primary is not None:
            self._recovered(primary)

    def _fell_back(self, fallback: Fallback) -> None:
        if not self._is_news(fallback.origin, fallback.served):
            return
        served = "keywords" if fallback.served == "keywords" else f"vectors of {fallback.served}"
        self._add(
            "fallback",
            _sentence(f"{served} answer instead of {fallback.origin}"),
            reason=fallback.reason,
            topic=f"provider {fallback.origin}",
            state=fallback.served,
            quiet_s=math.inf,
        )

    def _recovered(self, provider: str) -> None:
        if not self._is_news(provider, _WELL):
            return
        topic = f"provider {provider}"
        stood = self.log.standing(topic, well=_WELL, agent=self._agent, workspace=self._workspace)
        if stood is None or stood.state == _WELL:
            return
        away = None if stood.since is None else max(0.0, self.log.now() - stood.since)
        self._add(
            "recovered",
            f"{provider} answers again.",
            seconds=away,
            topic=topic,
            state=_WELL,
            quiet_s=math.inf,
        )

    def _is_news(self, provider: str, state: str) -> bool:
        with self._guard:
            if self._standing.get(provider) == state:
                return False
            self._standing[provider] = state
            return True

    @contextmanager
    def searching(self) -> Iterator[None]:
        """Write down why a search in the body failed. A wrong query and a search that was stopped are no
        failures. The query itself is not written down."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, (Cancelled, UsageError)):
                self._search_failed("A search failed.", error)
            raise

    @contextmanager
    def opening(self) -> Iterator[None]:
        """The same for opening the index; the log is closed then, since nobody else will."""
        try:
            yield
        except Exception as error:
            self._search_failed("The index could not be opened: nothing can be searched.", error)
            self.close()
            raise

    def _search_failed(self, text: str, error: Exception) -> None:
        reason = _reason(error)
        self._add("search-failed", text, reason=reason, topic="search", state=reason, quiet_s=QUIET_S)

    # -- the rest ---------------------------------------------------------------------------------------

    def examined(self, report: Report, done: Sequence[str] = (), seconds: float | None = None) -> None:
        """The doctor has looked, and mended what ``done`` tells. Of an index that is not there nothing is
        written down: looking leaves nothing behind."""
        codes = list(dict.fromkeys(finding.code for finding in report.findings))
        if "not-there" in codes:
            return
        found = {
            severity: sum(finding.severity == severity for finding in report.findings)
            for severity in ("error", "warning", "info")
        }
        told = f"{_counted(found['error'], 'error')}, {_counted(found['warning'], 'warning')}"
        if done:
            told += f"; mended: {'; '.join(done)}"
        self._add(
            "doctor",
            f"{told}.",
            seconds=seconds,
            counts={
                "errors": found["error"],
                "warnings": found["warning"],
                "remarks": found["info"],
                "mended": len(done),
                "checks": len(report.checks),
            },
            reason=", ".join(codes),
        )

    def watched(self, text: str, *, counts: Mapping[str, int] | None = None, reason: str = "") -> None:
        """What a watcher tells of itself. The syncs that it starts write their own events."""
        self._add("watch", text, counts=counts, reason=reason)

    def close(self) -> None:
        """Close the log. May be called twice."""
        self.log.close()


def _reason(error: Exception) -> str:
    """What an error says; one that nobody raised on purpose is named, too."""
    return str(error) if isinstance(error, OpenClawMemError) else f"{type(error).__name__}: {error}"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
