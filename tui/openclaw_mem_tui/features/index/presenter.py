"""What the index screen knows and does, without a screen: it reads the index and lets the doctor look."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.errors import Cancelled, OpenClawMemError
from openclaw_mem_engine.inspection import FILE_STATES, FileRow
from openclaw_mem_tui.presenter import Desk
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.service import Service

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.state.events import Event
    from openclaw_mem_engine.stores.findings import Check, Finding
    from openclaw_mem_engine.stores.findings import DoctorReport as Report
    from openclaw_mem_engine.sync.plan import Plan

Order = Literal["state", "path", "size", "chunks", "newest"]
ORDERS: tuple[Order, ...] = ("state", "path", "size", "chunks", "newest")
#: How many events are read: more than anybody scrolls through.
EVENTS = 500
#: The doctor looks by itself when the last look took less, in seconds, or the index is small enough.
QUICK_S = 1.0
FEW_FILES = 2_000
#: What goes on while an index is repaired: one transaction, which is not stopped half way.
FIXING = "fixing"


@dataclass(frozen=True, slots=True)
class HealthLook:
    """The index as it was at ``at`` (epoch seconds). ``report`` is the doctor's, of ``examined_at``, which
    took ``seconds``; ``stale`` when the index has changed since. ``doing`` is what goes on just now."""

    overview: Overview | None = None
    files: tuple[FileRow, ...] = ()
    order: Order = "state"
    events: tuple[Event, ...] = ()
    report: Report | None = None
    examined_at: float = 0.0
    seconds: float = 0.0
    stale: bool = False
    at: float = 0.0
    doing: str = ""
    said: str = ""
    trouble: str = ""

    @property
    def findings(self) -> tuple[Finding | Check, ...]:
        """What the doctor found, the worst first, then everything that it looked at."""
        return (*self.report.findings, *self.report.checks) if self.report is not None else ()


class HealthDesk(Desk[HealthLook]):
    """The desk of the index screen. Errors become ``trouble``."""

    def __init__(self, service: Service, publish: Callable[[], None]) -> None:
        super().__init__(HealthLook(), publish)
        self.service = service
        self._told = ""  # what the doctor does just now, as its thread says

    # -- reading ------------------------------------------------------------------------------------------

    async def read(self, *, examine: bool = True) -> None:
        """Read the index and what happened anew; with ``examine`` the doctor looks too where that takes no
        time."""
        if not self.service.is_open or not await self._reread():
            return
        look = self.look
        if examine and not look.doing and (look.report is None or look.stale) and self._is_quick():
            await self._with_doctor("the doctor looks", partial(self._examine, False))

    async def _reread(self) -> bool:
        """Whether the index and the log could be read."""
        before = self.look.overview
        try:
            overview = await self.service.overview()
            events = await self.service.events(EVENTS)
        except OpenClawMemError as error:
            self._set(trouble=str(error))
            return False
        changed = before is None or before.freshness.generation != overview.freshness.generation
        self._set(
            overview=overview,
            files=_ordered(overview.files, self.look.order),
            events=tuple(events),
            at=self.service.clock(),
            stale=self.look.stale or (changed and self.look.report is not None),
            trouble="",
        )
        return True

    def _is_quick(self) -> bool:
        if self.look.report is None:
            return len(self.look.files) <= FEW_FILES
        return self.look.seconds < QUICK_S and not self.look.report.deep

    def turn_order(self) -> None:
        """The next order of the files."""
        order = ORDERS[(ORDERS.index(self.look.order) + 1) % len(ORDERS)]
        self._set(order=order, files=_ordered(self.look.files, order))

    # -- the doctor ---------------------------------------------------------------------------------------

    async def examine(self, *, deep: bool = False) -> None:
        """Let the doctor look at everything. Cancelling leaves the report of before."""
        self.say("")
        await self._with_doctor("the doctor looks", partial(self._examine, deep))

    async def _examine(self, deep: bool) -> None:
        started = time.perf_counter()
        report = await self.service.examine(self._on_progress, deep=deep)
        self._take(report, time.perf_counter() - started)

    async def mend(self) -> None:
        """Mend what the report calls fixable, and look again."""
        self.say("")
        await self._with_doctor(FIXING, self._mend)

    async def _mend(self) -> None:
        report = self.look.report
        if report is None:
            return
        started = time.perf_counter()
        done, after = await self.service.mend(report, self._on_progress)
        await self._reread()
        if after is None:
            self._set(stale=True)
        else:
            self._take(after, time.perf_counter() - started)
        self._set(said=f"fixed: {fmt.join(done, '; ')}" if done else "nothing was fixed")

    async def plan_rebuild(self) -> Plan | None:
        """What a rebuild would do; None when that cannot be told or was cancelled."""
        found: list[Plan] = []

        async def count() -> None:
            found.append(await self.service.plan_rebuild())

        self.say("")
        await self._with_doctor("counting what a rebuild takes", count)
        return found[0] if found else None

    async def _with_doctor(self, doing: str, work: Callable[[], Awaitable[None]]) -> None:
        self._told = ""
        self._set(doing=doing, trouble="")
        try:
            await work()
        except Cancelled:
            self._set(said="stopped")
        except OpenClawMemError as error:
            self._set(trouble=str(error))
        finally:
            if self.look.doing == doing:
                self._set(doing="")

    def _take(self, report: Report, seconds: float) -> None:
        self._set(report=report, seconds=seconds, examined_at=self.service.clock(), stale=False)

    def _on_progress(self, done: int, total: int, label: str) -> None:
        # Called in the doctor's thread, often: the screen's clock picks up the last one.
        self._told = f"{label} {done:,} of {total:,}" if total else label

    @property
    def told(self) -> str:
        """What the doctor does just now."""
        return self._told


def _ordered(files: tuple[FileRow, ...], order: Order) -> tuple[FileRow, ...]:
    if order == "state":
        return tuple(sorted(files, key=lambda row: (FILE_STATES.index(row.state), row.path)))
    if order == "path":
        return tuple(sorted(files, key=lambda row: row.path))
    if order == "size":
        return tuple(sorted(files, key=lambda row: (-(row.size or 0), row.path)))
    if order == "chunks":
        return tuple(sorted(files, key=lambda row: (-row.chunks, row.path)))
    return tuple(sorted(files, key=lambda row: (-(row.mtime or 0.0), row.path)))
