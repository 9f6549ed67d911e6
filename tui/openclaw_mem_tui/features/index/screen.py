"""The index screen: what the index is, its files, the doctor's findings and checks, and the events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.api import Check, DoctorReport, FileRow, Finding, IndexDamaged, Plan, SyncRequest
from openclaw_mem_tui.bindings import bindings, key
from openclaw_mem_tui.features.index.presenter import CHECKING, REPAIRING, IndexPresenter
from openclaw_mem_tui.features.index.render import doctor, files, summary
from openclaw_mem_tui.features.index.render.legend import READING
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.list_screen import ListScreen
from openclaw_mem_tui.render.damage import DAMAGED
from openclaw_mem_tui.render.reports import Done
from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.dialogs import confirm
from openclaw_mem_tui.widgets.edges import FRAME_S, KeyBar
from openclaw_mem_tui.widgets.frames import key_hint, markup
from openclaw_mem_tui.widgets.line_view import Brief, Pane
from openclaw_mem_tui.widgets.lists import CursorList, Table
from openclaw_mem_tui.widgets.wrapped import WrappedTable

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Event
    from openclaw_mem_tui.features.search.screen import SearchScreen

#: Actions that are about the file under the cursor.
_OF_FILES = {"order", "edit"}
_CHECKS = {"examine", "examine_deep"}
#: Actions that need an index that can be read.
_READING = {"rebuild", "verify", "repair", "prune"}
#: Actions that a damaged index does not allow.
_NOT_DAMAGED = {"sync_now", "verify", "rebuild", "prune"}
_FILES = "The list shows every file: indexed, waiting or excluded."
_DOCTOR = "The list shows the findings of the doctor, errors first, then its checks. A check changes nothing."
_NO_FILE = "no file is selected"
_EVENTS = "The list shows the last syncs, rebuilds, fallbacks, failed searches; `openclaw-mem log` has all."


class IndexScreen(ListScreen[IndexPresenter]):
    """Drawn from the state of the presenter and the activity of the sync."""

    WHERE, reading = "index", READING
    CSS_PATH = "styles.tcss"
    BINDINGS = bindings("index")  # type: ignore[assignment]
    HELP = "This screen shows whether the index matches the notes, and whether it is intact."

    def __init__(self, search: SearchPresenter, lab: SearchScreen) -> None:
        super().__init__(search, lab, IndexPresenter(search.service, search.sync.take_report))
        self.files: Table[FileRow] = Table(_FILES, id="files", classes="listed")
        self.doctor: WrappedTable[doctor.Item] = WrappedTable(_DOCTOR, id="doctor", classes="listed")
        self.events: WrappedTable[Sequence[Event]] = WrappedTable(_EVENTS, id="events", classes="listed")
        self.files.known_by, self.events.known_by = attrgetter("path"), itemgetter(-1)
        self.doctor.stays_first = self.events.stays_first = True  # the worst, the newest
        self.use_lists(Pane(id="detail", classes="pane"), self.files, self.doctor, self.events)
        self._was_syncing = False

    def body(self) -> ComposeResult:
        yield Brief(5, id="facts")
        with Container(id="index-body"):
            yield self.files
            with Vertical(id="index-side"):
                yield self.doctor
                yield self.events
                yield self.detail

    # -- life ---------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.set_interval(FRAME_S, self._tick)
        self.run_in(self.presenter.follow_events, "watch")

    def read_again(self) -> None:
        """After a sync, or when the files were found to differ. At the beginning of one too: while it waits
        for another process, what it has to do is shown."""
        syncing = (activity := self.search.activity).phase == "syncing"
        if self._was_syncing and not syncing:
            self.presenter.say("")  # the outcome of the sync is shown now
        self._was_syncing = syncing
        read = partial(self.presenter.read, activity.built, examine=not syncing)
        work = read if self.search.service.is_open else self.presenter.read_unopened
        self.read_for((activity.phase, activity.freshness), work)

    def _tick(self) -> None:
        self._frame += 1
        self.search.sync.tick()
        if self.search.activity.busy or self.presenter.state.doing:
            self.status_line.changed()
        elif self.presenter.is_written:
            self._read_for = None
            self.read_again()

    # -- drawing ------------------------------------------------------------------------------------------

    def draw_body(self) -> None:
        state, activity = self.presenter.state, self.search.activity
        damaged = activity.damage is not None
        unknown = state.doubtful(damaged)
        short = self.narrow or not self.has_class("-tall")
        self.query_one("#facts", Pane).show(lambda cells: summary.facts(state, activity, cells, short))
        of_file, words = partial(files.file_row, state, unknown), partial(files.words, unknown)
        self.files.show_rows(
            state.files, of_file, words, partial(files.header, files.unread(state, activity))
        )
        around = doctor.around_nothing if activity.phase == "failed" else None
        self.doctor.show_wrapped(state.findings, doctor.item_rows, around)
        events, row = files.folded(state.events), partial(files.event_row, state)
        self.events.show_wrapped(events, row, words=partial(files.event_words, state))
        asked, shown = self.search.service.backend, self.search.service.configured_backend
        other = f" · index of {shown}, as configured; {asked} answers" * (asked != shown)
        hint = key_hint("order", f"order: {state.order}") if state.files else ""
        self.label(self.files, markup(files.title(state) + other), hint)
        self.label(self.doctor, doctor.title(state, damaged), markup(doctor.subtitle(state)))
        self.label(self.events, f"events · {len(events):,}" if events else "events")
        self.draw_selected()

    def draw_selected(self) -> None:
        """The details of the selected row; drawn anew, from its top, only when that is another one."""
        state, item = self.presenter.state, self.at.selected
        damaged = self.search.activity.damage is not None
        doubted = isinstance(item, FileRow) and item.path in state.doubtful(damaged)
        unknown = state.doubt(damaged) if doubted else ""
        drawer: Callable[[int], list[Line]]
        if self.at is self.doctor:
            kinds = {Check: "check", tuple: "checks without findings"}
            name = kinds.get(type(item), "finding")
            drawer = partial(doctor.item_detail, item)
        elif self.at is self.events:
            name, drawer = "event", partial(files.event_detail, item, state)
        else:
            name, drawer = "file", partial(files.file_detail, item, state, unknown)
        if not self.show_detail((name, item, state.overview is None, unknown), name, drawer):
            self.call_after_refresh(self.mark_more)

    def idle_keys(self) -> frozenset[str]:
        state, damaged = self.presenter.state, self.search.activity.damage is not None
        idle = set(_NOT_DAMAGED) if damaged else set()
        if self.search.activity.phase == "failed" or state.unreadable:
            idle |= _READING - ({"repair"} if damaged else set())
        if self.presenter.emptied is None:
            idle.add("prune")
        idle |= set() if self.at is self.files and state.files else _OF_FILES
        idle |= _CHECKS if self.at is self.files or not self.presenter.examines else set()
        drawn = self.search.service.draws_chunks or self.at is not self.files
        chunks = set() if drawn and self.at.selected is not None else {"chunks"}
        return frozenset(idle | chunks)

    @property
    def repairs(self) -> bool:
        return super().repairs or bool(doctor.repairable(self.presenter.state.report))

    def first_keys(self) -> frozenset[str]:
        return frozenset({"repair"})

    def draw_keys(self) -> None:
        bar, state, activity = self.query_one(KeyBar), self.presenter.state, self.search.activity
        unread = activity.phase == "failed" or (bool(state.unreadable) and not state.names_damage)
        bar.rename("try again" * unread, "sync_now")
        of_file = "text" * (activity.damage is not None)  # its chunks are not known
        bar.rename(of_file if self.at is self.files else "open")
        super().draw_keys()

    def status_at(self, cells: int) -> Line:
        state, progress = self.presenter.state, self.presenter.progress
        return summary.status(state, self.search.activity, progress, cells, self._frame)

    def stop_work(self) -> bool:
        doing = self.presenter.state.doing
        if self.search.activity.phase == "syncing":
            self.search.sync.stop_sync()
        elif doing == REPAIRING:
            self.presenter.say("a running repair cannot be stopped")
        elif doing:
            self.workers.cancel_group(self, "read")
            self.workers.cancel_group(self, "doctor")
            self.presenter.say("stopped")
        else:
            return False
        return True

    # -- sync, rebuild, checks, repairs -------------------------------------------------------------------

    def action_sync_index(self, verify: bool = False) -> None:
        job = Job(verify=verify, tails=True)
        damaged = self.search.activity.damage is not None and self.search.activity.phase == "ready"

        def sync() -> None:  # what was damaged, should another process have repaired it
            if self._is_free(whole=True):
                self._sync(job)

        self._run_doctor(partial(self._examine, then=sync)) if damaged else self._sync(job)

    def _sync(self, job: Job) -> None:
        running = self.search.activity.phase == "syncing"
        self.presenter.say("queued after the running sync" if running else "")
        self.lab.resync(job)

    def action_rebuild(self) -> None:
        if self._is_free(whole=True):
            self.run_in(partial(self._ask_rebuild, "rebuild"), "doctor")

    async def _ask_rebuild(self, verb: str) -> None:
        plan = await self.presenter.plan(SyncRequest(force=True), "a rebuild takes")
        if isinstance(plan, IndexDamaged):
            await self._ask_repair(plan)
        elif plan is not None:
            rebuild = partial(self._sync, Job(force=True, tails=True))
            confirm(self, f"{verb} the index", partial(summary.rebuild_plan, plan), verb, rebuild)

    async def _ask_repair(self, damage: IndexDamaged) -> None:
        """Ask whether a new index may replace the damaged one."""
        report = self.presenter.state.report
        found = [each.text for each in doctor.repairable(report) if each.replaces and each.code != "damaged"]
        readable, hosts = await self.presenter.readable(), await self.presenter.hosts()
        drawer = partial(summary.repair_plan, found, readable, hosts)
        repair = partial(self.run_in, partial(self._replace, damage), "doctor")
        confirm(self, "repair the index", drawer, "repair", repair)

    async def _replace(self, damage: IndexDamaged) -> None:
        if kept := await self.presenter.set_aside(damage):
            self.search.sync.done = Done(then=f"{kept} is kept")
            self._sync(Job(force=True, tails=True, repair=True))

    def action_prune(self) -> None:
        async def ask() -> None:
            request = SyncRequest(prune=True, tails=True)
            plan = await self.presenter.plan(request, "would be removed")
            if isinstance(plan, Plan) and plan.removed:
                drop = partial(self._sync, Job(prune=True, tails=True))
                confirm(self, "remove from the index", partial(summary.prune_plan, plan), "remove", drop)

        if self._is_free(whole=True):
            if self.presenter.emptied is None:
                self.presenter.say("nothing to remove: a sync removes deleted notes, unless all are deleted")
            else:
                self.run_in(ask, "doctor")

    def action_examine(self, deep: bool = False) -> None:
        self._run_doctor(partial(self._examine, deep))

    async def _examine(self, deep: bool = False, then: Callable[[], None] | None = None) -> None:
        """Run the checks, ``then`` what they are for; the index is read again with them, so that both are of
        one moment."""
        await self.presenter.examine(deep=deep)
        if self.search.service.is_open:
            await self.search.sync.read_status()
        if then is not None and self.presenter.state.report is not None and not self.presenter.state.stale:
            self.call_later(then)

    def repair(self) -> None:
        """Ask for the repair of what is damaged, else of what the checks found, which run first where that is
        not known; says why nothing can be repaired."""
        report, damage = self.presenter.state.report, self.search.activity.damage
        fixable = doctor.repairable(report)
        lost = " ".join(finding.text for finding in fixable if finding.replaces)
        # Permissions may be what keeps the index from being opened.
        if not self._is_free(able=self.presenter.examines and not lost and (report is None or bool(fixable))):
            return
        if damage is not None or lost:
            self.run_in(partial(self._ask_repair, damage or IndexDamaged(lost)), "doctor")
        elif doctor.rebuilds(fixable):
            self.run_in(partial(self._ask_rebuild, "repair"), "doctor")
        elif report is not None and fixable:
            repair = partial(self.run_in, partial(self._repair_found, report), "doctor")
            confirm(self, "repair the findings", partial(doctor.repairs, fixable), "repair", repair)
        elif report is not None and report.synced:
            self._sync(Job(verify=True, tails=True))
        elif report is None or self.presenter.state.stale:
            self._run_doctor(partial(self._examine, then=self.repair))
        elif not report.findings:
            self.presenter.say("there is nothing to repair")
        else:
            self.go_to(self.doctor)
            self.presenter.say(f"{key('repair')} repairs none of these findings; {key('chunks')} opens one")

    async def _repair_found(self, report: DoctorReport) -> None:
        await self.presenter.repair(report)
        if not self.search.service.is_open and not self.presenter.state.trouble:
            self.lab.resync(Job())  # which opens it

    def _run_doctor(self, work: Callable[[], Awaitable[None]]) -> None:
        if self._is_free(able=self.presenter.examines):
            self.run_in(work, "doctor")

    def _is_free(self, *, whole: bool = False, able: bool = False) -> bool:
        """Whether what needs an open index, or is ``able`` without one, or needs a ``whole`` one can run now;
        says why not."""
        if not (self.search.service.is_open or able) or (whole and self.presenter.state.unreadable):
            state, damage = self.presenter.state, self.search.activity.damage
            repairs = damage is not None or state.names_damage or doctor.repairable(state.report)
            again = f"{key('repair')} repairs it" if repairs else f"{key('sync_now')} tries again"
            self.presenter.say(f"the index cannot be read: {again}")
        elif whole and self.search.activity.damage is not None:
            self.presenter.say(DAMAGED)
        elif self.search.activity.phase == "syncing":
            self.presenter.say(f"not possible during a sync; {key('leave')} stops it")
        elif self.presenter.state.doing not in ("", CHECKING):
            self.presenter.say(f"not possible now: {self.presenter.state.doing}")
        else:
            if self.presenter.state.doing:  # the checks make way, also those that began by themselves
                self.workers.cancel_group(self, "read")
            return True
        return False

    # -- the file under the cursor ------------------------------------------------------------------------

    def action_order(self) -> None:
        """The next order; the cursor stays on its file."""
        row = self.files.selected
        self.presenter.turn_order()
        if row is not None:
            self.files.point_at(row)

    @on(CursorList.Chosen)
    def action_chunks(self) -> None:
        if not self.has_row():
            return
        if self.at is not self.files:
            self._follow(self.at.selected)
        elif (row := self.files.selected) is not None:
            self.open_chunks(row.path)

    def _follow(self, item: doctor.Item | Event | None) -> None:
        """From a finding to its repair, to its screen or the chunks of its first file; else to all known."""
        if not isinstance(item, Finding):
            self.action_messages()
        elif doctor.action_of(item) == "repair":
            self.repair()
        elif (opens := doctor.action_of(item)).startswith("show_"):
            self.app.action_show(opens.removeprefix("show_"))  # type: ignore[attr-defined]
        elif (row := doctor.file_of(item, self.presenter.state.files)) is not None:
            self.go_to(self.files)
            self.files.point_at(row)
            if row.chunks:
                self.open_chunks(row.path)
        else:
            self.action_messages()

    def action_edit(self) -> None:
        row = self.files.selected if self.at is self.files else None
        if row is None or not self.search.service.is_open:
            self.presenter.say(_NO_FILE)
        elif row.source == "sessions":
            self.presenter.say("transcripts belong to the agent: they are not edited here")
        else:
            self.edit_note(row.path)
