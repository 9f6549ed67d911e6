"""The presenter of the timeline screen: reads the timeline, and keeps what of it is shown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from openclaw_mem_engine.api import (
    CancelToken,
    Difference,
    FileDay,
    Moment,
    OpenClawMemError,
    Session,
    Settings,
    Timeline,
    TimelineReader,
    Write,
    by_file_and_day,
    difference,
)
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.service import Service

_OF_INDEX = frozenset({"sync", "rebuild", "fallback", "recovered", "search-failed", "denied"})
#: Which events each filter shows, in words and as a test.
GROUPS: dict[str, tuple[str, Callable[[Moment], bool]]] = {
    "all": ("everything", lambda _: True),
    "flushes": (
        "flushes, compactions, snapshots",
        lambda moment: moment.kind in ("flush", "compaction", "snapshot"),
    ),
    "missed": ("compactions without a flush before them", lambda moment: moment.is_missed),
    "problems": (
        "missed, skipped and failed ones",
        lambda moment: moment.is_missed or moment.state in ("skipped", "failed", "killed"),
    ),
    "writes": ("changes of memory files", lambda moment: bool(moment.writes)),
    "searches": (
        "the agent's own searches, and failed ones",
        lambda moment: moment.kind in ("search", "search-failed"),
    ),
    "index": ("syncs, rebuilds, fallbacks, failures", lambda moment: moment.kind in _OF_INDEX),
}
ZOOMS = ("session", "day", "hour")


@dataclass(frozen=True, slots=True)
class TimelineState:
    """``sessions`` are rows, None stands for all. ``moments`` and ``days`` are those of the session
    ``chosen`` (None: all) and the kinds of ``group``, newest first. ``shown`` is the write whose difference
    is ``change``, or the compaction whose summary it is. ``at`` is when it was read, ``missed`` and
    ``skipped`` count such flushes of all sessions."""

    whole: Timeline | None = None
    sessions: tuple[Session | None, ...] = (None,)
    missed: int = 0
    skipped: int = 0
    chosen: Session | None = None
    group: str = "all"
    zoom: str = "session"
    moments: tuple[Moment, ...] = ()
    days: tuple[FileDay, ...] = ()
    shown: Write | Moment | None = None
    change: Difference | None = None
    reading: bool = False
    at: float = 0.0
    said: str = ""
    trouble: str = ""

    def session_of(self, moment: Moment | None) -> Session | None:
        """The session that a moment happened in, else the chosen one."""
        number = moment.session if moment is not None else ""
        sessions = self.whole.sessions if self.whole is not None and number else ()
        return next((session for session in sessions if session.id == number), self.chosen)


class TimelinePresenter(Presenter[TimelineState]):
    """Errors become ``trouble``."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, TimelineState())
        self._reader: TimelineReader | None = None

    async def read(self) -> None:
        """Read what is new. The first time it may take seconds."""
        if not self.service.is_open and self.service.reload is None:
            return
        self.update(reading=True)
        try:
            whole = await self.service.read_files(self._read)
        except OpenClawMemError as error:
            self.update(trouble=str(error))
        else:
            before = self.state.chosen
            chosen = next((found for found in whole.sessions if before and found.id == before.id), None)
            sessions = (None, *whole.sessions)
            now = self.service.clock()
            skipped = sum(moment.state == "skipped" for moment in whole.moments)
            flushes = {"missed": whole.missed, "skipped": skipped}
            self.choose(whole=whole, sessions=sessions, **flushes, chosen=chosen, at=now, trouble="")
        finally:
            self.update(reading=False)

    async def read_again(self) -> None:
        """Read what is new, and say how much there is."""
        await self.read()
        if self.state.whole is not None and not self.state.trouble:
            self.say(f"read again: {fmt.count(len(self.state.whole.moments), 'event')}")

    def _read(self, settings: Settings, stop: CancelToken) -> Timeline:
        self._reader = self._reader or TimelineReader(settings)
        return self._reader.read(stop)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    async def read_change(self, moment: Moment, write: Write | None, delay: float) -> None:
        """Read the difference that a write made, or without one the summary that the compaction ``moment``
        left, after a quiet moment."""
        shown = write or moment
        if shown == self.state.shown and self.state.change is not None:
            return
        self.update(shown=shown, change=None)
        await asyncio.sleep(delay)
        session = self.state.session_of(moment)
        try:
            change = await self.service.read_files(
                lambda settings, _: difference(settings, write, moment, session)
            )
        except OpenClawMemError as error:
            change = Difference("", str(error))
        if self.state.shown == shown:
            self.update(change=change)

    def turn_zoom(self) -> None:
        zoom = ZOOMS[(ZOOMS.index(self.state.zoom) + 1) % len(ZOOMS)]
        self.update(zoom=zoom, said="")

    def choose(self, **changes: object) -> None:
        """Show another ``group`` of events, or those of another session (``chosen``; None: of all)."""
        state = replace(self.state, **changes)  # type: ignore[arg-type]
        found = (
            state.chosen.moments[::-1]
            if state.chosen
            else state.whole.moments
            if state.whole is not None
            else ()
        )
        moments = tuple(filter(GROUPS[state.group][1], found))
        self.update(**changes, moments=moments, days=tuple(by_file_and_day(found)))


def window(state: TimelineState, moment: Moment | None, session: Session | None) -> tuple[float, float]:
    """What the chart spans, in epoch seconds: the session, or the local day or hour of the moment."""
    at = moment.at if moment is not None else session.end if session is not None else state.at
    if state.zoom == "session" and session is not None:
        return session.start, max(session.end, session.start + 60)
    there = time.localtime(at)
    hour = there.tm_hour if state.zoom == "hour" else 0
    start = time.mktime((there.tm_year, there.tm_mon, there.tm_mday, hour, 0, 0, 0, 0, -1))
    return start, start + (3600 if state.zoom == "hour" else 86_400)
