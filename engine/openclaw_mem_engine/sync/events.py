"""What one agent's memory writes into the event log: when something is worth an event, and in which words."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import Cancelled, IndexDamaged, OpenClawMemError, UsageError
from openclaw_mem_engine.state.events import EVENTS_FILE, EventLog
from openclaw_mem_engine.sync.report import first_few

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.model import Fallback
    from openclaw_mem_engine.state.events import EventKind
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.sync.lock import Owner
    from openclaw_mem_engine.sync.report import SyncReport

#: The same failure is written down once in so many seconds: a search as you type would fill the log with it.
QUIET_S = 600.0

#: So many new or modified files are named.
_NAMED = 3
_WELL = "well"
#: What an owner of the lock may have been at, and the event of its end.
_WORK: dict[str, tuple[EventKind, str]] = {
    "indexing": ("sync", "A sync"),
    "rebuilding": ("rebuild", "A rebuild"),
    "repairing": ("doctor", "A repair"),
}
#: Notes of a sync that was to be a rebuild and is none, since the provider does not answer in time.
_NO_REBUILD = ("not-rebuilt", "rebuild-later")
#: Notes that say why a sync did what its event says, besides those of ``SyncReport.incomplete``.
_REASONS = ("rebuilt", "chunks-lost", "emptied", "rebuild-later", "embedding-later")


class Journal:
    """Writes for agent, workspace and backend of ``settings``, into the log of the data folder; not ``kept``:
    in memory alone. Thread-safe. No method raises because of the log; errors of the work pass through."""

    def __init__(
        self, settings: Settings, clock: Callable[[], float] = time.time, *, kept: bool = True
    ) -> None:
        self.log = EventLog(settings.data_dir / EVENTS_FILE if kept else None, clock)
        self._of = {"agent": settings.agent, "workspace": str(settings.workspace)}
        agent, workspace, backend = settings.agent, str(settings.workspace), settings.openclaw.backend
        self._add = partial(self.log.add, agent=agent, workspace=workspace, backend=backend)
        #: ``EventLog.read`` of these events, and of those that are about no index.
        self.read = partial(self.log.read, agent=agent, workspace=workspace, backend=backend)
        self._guard = threading.Lock()
        #: The last known state of each provider; saves reading the file at each search.
        self._known_states: dict[str, str] = {}

    @property
    def has_synced(self) -> bool:
        """Whether the last sync that is written down was a complete one."""
        return self.log.last_state("sync", well=_WELL, **self._of)[0] == _WELL

    @contextmanager
    def syncing(
        self, report: SyncReport, will_rebuild: Callable[[], bool], quiet_s: float = QUIET_S
    ) -> Iterator[None]:
        """Write down what the sync in the body did, or why it failed; nothing when there was nothing to do,
        or when it could do nothing for the same reason less than ``quiet_s`` ago. The body fills in
        ``report``. ``will_rebuild`` is asked before it."""
        start = time.perf_counter()
        rebuild = False
        try:
            rebuild = will_rebuild()
            yield
        except (KeyboardInterrupt, Exception) as error:
            self._sync_failed(error, time.perf_counter() - start, report, rebuild=rebuild, quiet_s=quiet_s)
            raise
        self._synced(report, quiet_s)

    def _sync_failed(
        self,
        error: BaseException,
        seconds: float,
        done: SyncReport,
        *,
        rebuild: bool,
        quiet_s: float = QUIET_S,
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            error = Cancelled("Stopped at once, without waiting for the end of the step.")
        ended = "was stopped" if isinstance(error, Cancelled) else "failed"
        # What was meant to be a rebuild becomes a plain sync when the provider does not answer.
        rebuild = rebuild and not any(note.code in _NO_REBUILD for note in done.notes)
        if done.rebuilt:
            text = f"The index was rebuilt; what followed {ended}: finished work is kept."
        elif rebuild:
            text = f"The rebuild {ended}: the index is unchanged."
        elif isinstance(error, Cancelled):
            text = f"The sync {ended}: finished work is kept."
        else:  # where there is no index, nothing is kept
            text = f"The sync {ended}."
        reason = _reason(error)
        self._add(
            "rebuild" if rebuild or done.rebuilt else "sync",
            text,
            seconds=seconds,
            counts={ended.rpartition(" ")[2]: 1},
            reason=reason,
            topic="sync",
            state=f"{ended}: {reason}",
            quiet_s=quiet_s,
        )

    def _synced(self, report: SyncReport, quiet_s: float) -> None:
        made = report.embedded + report.beside
        did = report.rebuilt or report.changed or report.without_text or report.removed or made
        failures = [note.text for note in report.incomplete]
        if not did and not failures:
            return
        from openclaw_mem_engine.sanitize import counted

        parts = []
        if report.rebuilt:
            parts.append(f"index rebuilt with {counted(report.files, 'file')}")
        elif report.changed or report.without_text or report.removed:
            out = f", {len(report.newly_excluded):,} excluded" if report.newly_excluded else ""
            named = f" ({', '.join(report.changed)})" if 0 < len(report.changed) <= _NAMED else ""
            changed = f"{counted(len(report.changed), 'file')} new or modified{named}"
            parts.append(f"{', '.join((changed, *report.taken_out))}{out}")
        if made:
            parts.append(f"{counted(made, 'text')} embedded")
        if report.shortfall:
            parts.append(report.shortfall)
        why = [note.text for note in report.notes if note.code in _REASONS]
        if report.newly_excluded and not report.rebuilt:
            old = dict.fromkeys(report.removed, " (its old text was removed)")
            texts = [f"{file.path}: {file.reason}{old.get(file.path, '')}" for file in report.newly_excluded]
            why.append(f"Excluded: {first_few(texts, '; ')}.")
        reason = " ".join([*why, *failures])
        self._add(
            "rebuild" if report.rebuilt else "sync",
            _sentence("; ".join(parts)),
            seconds=report.seconds,
            counts={
                **{name: len(getattr(report, name)) for name in ("changed", "removed", "excluded")},
                "withoutText": len(report.without_text),
                **{name: getattr(report, name) for name in ("files", "chunks", "embedded", "beside")},
                "cacheHits": report.cache_hits,
                **({"failed": 1} if failures else {}),
            },
            reason=reason,
            topic="sync",
            state=f"incomplete: {reason}" if failures else _WELL,
            # A provider that stays away is no news at every search.
            quiet_s=0.0 if did else quiet_s,
        )

    def killed(self, owner: Owner | None, left: bool) -> None:
        """The process ``owner`` (None: not known) was killed while it worked on the index; ``left``: during
        a rebuild."""
        work = "rebuilding" if left else owner.what if owner is not None else ""
        if work not in _WORK:
            return  # tidying up and the like: the next one does it again
        kind, what = _WORK[work]
        who = "" if owner is None else f" of process {owner.pid} that began {_began(owner.since)}"
        kept = "the index is unchanged" if left else "what it had finished is in the index"
        self._add(kind, f"{what}{who} was killed; {kept}.", counts={"killed": 1})

    def set_aside(self, damaged: str, error: IndexDamaged) -> None:
        """A damaged index was moved to the file ``damaged``, and a new one is built instead."""
        text = f"The damaged index was renamed to {damaged}; it is rebuilt."
        self._add("rebuild", text, counts={"renamed": 1}, reason=str(error))

    def answered(self, fallback: Fallback | None, primary: str | None) -> None:
        """A search was answered by a ``fallback``, or by the provider ``primary`` itself (both None: not
        known). Only what changed is written down, once for all processes."""
        provider, state = (fallback.origin, fallback.active) if fallback is not None else (primary, _WELL)
        with self._guard:
            if provider is None or self._known_states.get(provider) == state:
                return
            self._known_states[provider] = state
        news = partial(self._add, topic=f"provider {provider}", state=state, quiet_s=math.inf)
        if fallback is not None:
            text = _sentence(fallback.words)
            news("fallback", text, reason=fallback.reason)
            return
        last, since = self.log.last_state(f"provider {provider}", well=_WELL, **self._of)
        if last not in (None, _WELL):
            away = None if since is None else max(0.0, self.log.now() - since)
            news("recovered", f"Searches use {provider} again.", seconds=away)

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

    def denied(self, reason: str) -> None:
        """A search was denied by the scope of its session."""
        self._add(
            "denied",
            "A search was denied by its scope.",
            reason=reason,
            topic="scope",
            state=reason,
            quiet_s=QUIET_S,
        )

    @contextmanager
    def opening(self) -> Iterator[None]:
        """The same for opening the index; the log is closed then."""
        try:
            yield
        except Exception as error:
            self.unopened(error)
            self.close()
            raise

    def unopened(self, error: Exception) -> None:
        """The index could not be opened."""
        self._search_failed("The index could not be opened: nothing can be searched.", error)

    def _search_failed(self, text: str, error: Exception) -> None:
        reason = _reason(error)
        self._add("search-failed", text, reason=reason, topic="search", state=reason, quiet_s=QUIET_S)

    def repaired(self, done: Sequence[str], seconds: float) -> None:
        """The doctor has repaired what ``done`` names; nothing is written down of nothing. To be called at
        once: what follows may be stopped."""
        if done:
            counts = {"repaired": len(done)}
            self._add(
                "doctor", f"Repaired: {'; '.join(done).removesuffix('.')}.", seconds=seconds, counts=counts
            )

    def examined(self, report: DoctorReport, seconds: float) -> None:
        """The doctor has checked. Nothing is written down when there is no index: a check makes no file."""
        from openclaw_mem_engine.sanitize import counted

        codes = list(dict.fromkeys(finding.code for finding in report.findings))
        if "not-there" in codes:
            return
        found = Counter(finding.severity for finding in report.findings)
        counts = {"errors": found["error"], "warnings": found["warning"], "infos": found["info"]}
        self._add(
            "doctor",
            f"{counted(found['error'], 'error')}, {counted(found['warning'], 'warning')}.",
            seconds=seconds,
            counts=counts | {"checks": len(report.checks)},
            reason=", ".join(codes),
        )

    def watched(self, text: str) -> None:
        """What following the files reports of itself. The syncs that it starts write their own events."""
        self._add("watch", text)

    def close(self) -> None:
        """Close the log. May be called twice."""
        self.log.close()


def _reason(error: BaseException) -> str:
    """What an error says; an unexpected one with its type."""
    return str(error) if isinstance(error, OpenClawMemError) else f"{type(error).__name__}: {error}"


def _began(since: float) -> str:
    """``on 2026-02-20 at 14:02``: of the system's clock, in its time zone."""
    try:
        return time.strftime("on %Y-%m-%d at %H:%M", time.localtime(since))
    except (OverflowError, OSError, ValueError):
        return "at an unknown time"


def _sentence(text: str) -> str:
    from openclaw_mem_engine.sanitize import capital

    return f"{capital(text)}."
