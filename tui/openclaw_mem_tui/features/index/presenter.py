"""The presenter of the index screen: reads the index and its events, runs the checks and repairs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeVar

from openclaw_mem_engine.api import (
    FILE_STATES,
    Cancelled,
    Check,
    DoctorReport,
    ExcludedFile,
    FileRow,
    Finding,
    IndexDamaged,
    OpenClawMemError,
    Overview,
    Plan,
    SyncRequest,
    files_on_disk,
    index_stamp,
)
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.service import Service

if TYPE_CHECKING:
    from openclaw_mem_engine.api import CancelToken, Event, Settings

T = TypeVar("T")
Order = Literal["state", "path", "size", "chunks", "newest"]
_KEYS: dict[Order, Callable[[FileRow], float]] = {
    "state": lambda row: FILE_STATES.index(row.state),
    "path": lambda _: 0,
    "size": lambda row: -(row.size or 0),
    "chunks": lambda row: -row.chunks,
    "newest": lambda row: -(row.mtime or 0.0),
}
#: Events that are read at most.
EVENTS = 500
#: Seconds between two looks for new events: failed searches and other processes change no index.
EVENTS_EVERY_S = 1.0
#: Checks run without being asked for when the last run took less, in seconds, or the index is small enough.
QUICK_S = 1.0
FEW_FILES = 2_000
#: Errors that say nothing of the content of the index.
_OF_PLACE = frozenset({"not-writable", "disk-full", "lock-blocked"})
#: A finding shows this many rows of its evidence at most.
_SHOWN = 5
#: What runs: the checks; a repair, which is one transaction and not stopped half way.
CHECKING, REPAIRING = "checking", "repairing"


@dataclass(frozen=True, slots=True)
class IndexState:
    """The index as it was at ``at`` (epoch seconds). ``report`` is the doctor's, of ``examined_at``, which
    took ``seconds``; ``stale`` when the index has changed since. ``unreadable``: why the index could not be
    read after that, or "". ``doing`` is what runs just now."""

    overview: Overview | None = None
    files: tuple[FileRow, ...] = ()
    order: Order = "state"
    events: tuple[Event, ...] = ()
    report: DoctorReport | None = None
    examined_at: float = 0.0
    seconds: float = 0.0
    stale: bool = False
    unreadable: str = ""
    at: float = 0.0
    doing: str = ""
    said: str = ""
    trouble: str = ""

    @property
    def _named(self) -> frozenset[str] | None:
        """The files that errors of the doctor name; None where an error names none, or as many as a finding
        shows. Errors of the place of the index say nothing of its content."""
        found = self.report.findings if self.report is not None else ()
        errors = [each for each in found if each.severity == "error" and each.code not in _OF_PLACE]
        paths = frozenset(row.path for row in self.files) if errors else frozenset()
        each_names = [paths.intersection(named(each)) for each in errors]
        known = all(0 < len(names) < _SHOWN for names in each_names)
        return frozenset().union(*each_names) if known else None

    @property
    def is_gone(self) -> bool:
        """Whether there is no index: it was removed, or never built."""
        overview = self.overview
        return overview is not None and overview.freshness.state == "empty" and not overview.bytes

    @property
    def names_damage(self) -> bool:
        """Whether the index could not be read because it is damaged."""
        return IndexDamaged.repair in self.unreadable

    @property
    def unsure(self) -> bool:
        """Whether the index need not hold what it has recorded."""
        return bool(self.unreadable) or self._named is None

    def doubt(self, damaged: bool) -> str:
        """Why the states of the ``doubtful`` files are not known."""
        if damaged or self.names_damage:
            return "the index is damaged"
        return "the index cannot be read" if self.unreadable else "the index has errors"

    def doubtful(self, damaged: bool) -> frozenset[str]:
        """The files whose state is not known: all of a ``damaged`` index, or of one that could not be read,
        and those in which an error may be, where they would be up to date."""
        if damaged or self.unreadable:
            return frozenset(row.path for row in self.files)
        if (errors := self._named) == frozenset():
            return frozenset()
        whole = (row.path for row in self.files if row.state == "up-to-date")
        return frozenset(path for path in whole if errors is None or path in errors)

    @property
    def findings(self) -> tuple[Finding | Check | tuple[Check, ...], ...]:
        """The findings of the doctor, the worst first, checks that failed without one, and those that found
        nothing as one."""
        if self.report is None:
            return ()
        failed = [check for check in self.report.checks if not (check.ok or check.found)]
        passed = tuple(check for check in self.report.checks if check.ok and not check.found)
        return (*self.report.findings, *failed, *([passed] if passed else []))


def named(finding: Finding) -> Iterator[str]:
    """What may be the paths of files in its evidence: alone, with lines or with a text."""
    for text in finding.evidence:
        yield from (text, text.partition(": ")[0], text.rpartition(":")[0])
        yield text.rpartition(" ")[2].rpartition(":")[0]


class IndexPresenter(Presenter[IndexState]):
    """Errors become ``trouble``."""

    def __init__(self, service: Service, found: Callable[[DoctorReport], None]) -> None:
        """``found`` is given each report of the doctor."""
        super().__init__(service, IndexState())
        self._found = found
        #: How far the running check is, as its thread reports it.
        self.progress = ""
        #: How often the index was built anew, and whether the checks run after that however long they take.
        self._built, self._due = 0, False
        self._file: tuple[int, ...] = ()

    @property
    def emptied(self) -> ExcludedFile | None:
        """See ``Freshness.emptied``."""
        overview = self.state.overview
        return overview.freshness.emptied if overview is not None else None

    @property
    def examines(self) -> bool:
        """Whether the checks can run: also where the index cannot be opened, from the configuration."""
        return self.service.is_open or self.service.reload is not None

    async def read(self, built: int = 0, *, examine: bool = True) -> None:
        """Read the index and its events anew; with ``examine`` run the checks too where that is quick. The
        report of an index before the one that was ``built`` last says nothing of this one."""
        if not self.service.is_open:
            return
        if built != self._built:
            self._built = built
            self.update(report=None, stale=False)
        await self._reread()
        state = self.state
        if examine and not state.doing and (state.report is None or state.stale) and self._is_quick():
            await self._with_doctor(CHECKING, partial(self._examine, False))

    async def read_unopened(self) -> None:
        """The log, and the checks, of an index that cannot be opened."""
        with suppress(OpenClawMemError):  # why it cannot be opened is on the screen
            events = await self.service.read_files(_logged)
            self.update(events=tuple(events), at=self.service.clock())
            await self._with_doctor(CHECKING, partial(self._examine, False))

    async def _reread(self) -> None:
        """The log is shown also when the index cannot be read."""
        before = self.state.overview
        try:
            events = await self.service.read(lambda memory: memory.events(EVENTS))
            self.update(events=tuple(events), at=self.service.clock())
            overview = await self.service.read(lambda memory: memory.overview())
        except OpenClawMemError as error:
            self.update(unreadable=str(error))
            if before is None and not self.state.files:
                with suppress(OpenClawMemError):  # that of the index is on the screen
                    files = await self.service.read(lambda memory: files_on_disk(memory.settings))
                    self.update(files=_ordered(files, self.state.order))
            return
        file, self._file = self._file, self._stamp()
        changed = before is None or _version(before) != _version(overview) or file != self._file
        self.update(
            overview=overview,
            files=_ordered(overview.files, self.state.order),
            at=self.service.clock(),
            stale=self.state.stale or (changed and self.state.report is not None),
            trouble="",
            unreadable="",
        )

    async def follow_events(self) -> None:
        """Show what is logged from now on, by this process or another, until it is cancelled."""
        while True:
            await asyncio.sleep(EVENTS_EVERY_S)
            if not self.service.is_open:
                continue
            newest = await self.service.read(lambda memory: memory.events(1))
            if newest and newest[0] not in self.state.events[:1]:
                self.update(events=tuple(await self.service.read(lambda memory: memory.events(EVENTS))))

    @property
    def is_written(self) -> bool:
        """Whether the file of the index was written to since it was read."""
        return self.state.overview is not None and self._file != self._stamp()

    def _stamp(self) -> tuple[int, ...]:
        return index_stamp(self.service.settings)

    def _is_quick(self) -> bool:
        report = self.state.report
        if self._due:
            return True
        if report is None or any(found.code == "unavailable" for found in report.findings):
            return len(self.state.files) <= FEW_FILES
        return self.state.seconds < QUICK_S and not report.deep

    def turn_order(self) -> None:
        """The next order of the files."""
        orders = tuple(_KEYS)
        order = orders[(orders.index(self.state.order) + 1) % len(orders)]
        self.update(order=order, files=_ordered(self.state.files, order))

    async def examine(self, *, deep: bool = False) -> None:
        """Run all checks. Cancelling leaves the previous report."""
        self.say("")
        report = await self._with_doctor(CHECKING, partial(self._examine, deep))
        if report is not None:
            found = {"error": report.errors, "warning": report.warnings}
            said = ", ".join(fmt.count(many, kind) for kind, many in found.items() if many)
            self.say(f"{'deep check' if deep else 'checked'}: {said or 'no error, no warning'}")

    async def _examine(self, deep: bool) -> DoctorReport:
        started, progress = time.perf_counter(), self._on_progress
        if self.service.is_open:
            report = await self.service.long(
                "doctor", lambda memory, token: memory.examine(progress, token, deep=deep)
            )
        else:
            from openclaw_mem_engine.api import examine_unopened  # loads much, and is seldom needed

            report = await self.service.read_files(
                lambda settings, token: examine_unopened(settings, progress, token, deep=deep)
            )
        self._take(report, time.perf_counter() - started)
        return report

    async def repair(self, report: DoctorReport) -> None:
        """Repair what the report calls fixable, none of which takes a new index, and run the checks again."""
        self.say("")
        await self._with_doctor(REPAIRING, partial(self._repair, report))

    async def _repair(self, report: DoctorReport) -> None:
        started = time.perf_counter()
        if not self.service.is_open:
            from openclaw_mem_engine.api import repair_unopened  # as above

            await self.service.read_files(lambda settings, token: repair_unopened(settings, report, token))
            return
        done, after = await self.service.long(
            "doctor", lambda memory, token: memory.repair(report, self._on_progress, token)
        )
        await self._reread()
        if after is None:
            self.update(stale=True)
        else:
            self._take(after, time.perf_counter() - started)
        self.update(said=f"repaired: {fmt.join(done, '; ')}" if done else "nothing was repaired")

    async def plan(self, request: SyncRequest, what: str) -> Plan | IndexDamaged | None:
        """What this sync would do, or why that cannot be known; None when that failed or was cancelled."""
        self.say("")
        return await self._with_doctor(f"counting what {what}", partial(self._plan, request))

    async def _plan(self, request: SyncRequest) -> Plan | IndexDamaged:
        try:
            return await self.service.long("doctor", lambda memory, token: memory.plan(request, token))
        except IndexDamaged as damage:
            return damage

    async def readable(self) -> tuple[int, int | None] | None:
        """How many embeddings of a damaged index its repair keeps, of how many; None: not known."""
        return await self._with_doctor("counting the embeddings that can be read", self.service.readable)

    async def hosts(self) -> tuple[str, ...]:
        """The hosts that note text may be sent to."""
        return await self.service.read(lambda memory: memory.hosts)

    async def set_aside(self, damage: IndexDamaged) -> str:
        """Replace a damaged index by one that holds its embeddings: its name now; "" when that failed."""
        doing, self._due = "saving the embeddings of the damaged index", True
        return await self._with_doctor(doing, partial(self.service.set_aside, damage)) or ""

    async def _with_doctor(self, doing: str, work: Callable[[], Awaitable[T]]) -> T | None:
        self.progress = ""
        self.update(doing=doing, trouble="")
        try:
            return await work()
        except Cancelled:
            self.update(said="stopped")
        except OpenClawMemError as error:
            self.update(trouble=str(error))
        finally:
            if self.state.doing == doing:
                self.update(doing="")
        return None

    def _take(self, report: DoctorReport, seconds: float) -> None:
        self._due = False
        self.update(report=report, seconds=seconds, examined_at=self.service.clock(), stale=False)
        self._found(report)

    def _on_progress(self, done: int, total: int, label: str) -> None:
        # Called in the doctor's thread, often: the screen's clock reads the last one.
        self.progress = f"{label} {done:,} of {total:,}" if total else label


def _logged(settings: Settings, _: CancelToken) -> list[Event]:
    from openclaw_mem_engine.api import Journal  # as above

    with closing(Journal(settings)) as journal:
        return journal.read(EVENTS)


def _version(overview: Overview) -> tuple[object, ...]:
    """What differs between an index and one that was made anew."""
    fresh = overview.freshness
    return fresh.generation, fresh.synced_at, fresh.state == "empty"


def _ordered(files: tuple[FileRow, ...], order: Order) -> tuple[FileRow, ...]:
    return tuple(sorted(files, key=lambda row: (_KEYS[order](row), row.path)))
