"""What the index screen does with the index: sync, rebuild, checks and repairs, and what each asks first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from openclaw_mem_engine.api import DoctorReport, IndexDamaged, Plan, SyncRequest
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.index.presenter import CHECKING, IndexPresenter
from openclaw_mem_tui.features.index.render import doctor, summary
from openclaw_mem_tui.list_screen import ListScreen
from openclaw_mem_tui.render.damage import DAMAGED
from openclaw_mem_tui.render.reports import Done
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.dialogs import confirm
from openclaw_mem_tui.widgets.wrapped import WrappedTable


class Upkeep(ListScreen[IndexPresenter]):
    """The actions of the screen on the whole index; ``doctor`` is the list of its findings."""

    doctor: WrappedTable[doctor.Item]

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
            self.run_in(partial(self._ask_rebuild, "rebuild"), "question")

    async def _ask_rebuild(self, verb: str, *, force: bool = True) -> None:
        """Ask whether a new index may be built, or without ``force`` every file be read into this one."""
        job, verify = Job(force=force, verify=not force, tails=True), not force
        plan = await self.presenter.plan(SyncRequest(force, verify, tails=True), f"a {verb} takes")
        if isinstance(plan, IndexDamaged):
            await self._ask_repair(plan)
        elif plan is not None:
            drawer = partial(summary.rebuild_plan, plan)
            confirm(self, f"{verb} the index", drawer, verb, partial(self._sync, job))

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
                self.run_in(ask, "question")

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
            self.run_in(partial(self._ask_repair, damage or IndexDamaged(lost)), "question")
        elif doctor.rebuilds(fixable):
            self.run_in(partial(self._ask_rebuild, "repair"), "question")
        elif report is not None and fixable:
            repair = partial(self.run_in, partial(self._repair_found, report), "doctor")
            confirm(self, "repair the findings", partial(doctor.repairs, fixable), "repair", repair)
        elif report is not None and report.synced:
            self.run_in(partial(self._ask_rebuild, "repair", force=False), "question")
        elif report is None or self.presenter.state.stale:
            self._run_doctor(partial(self._examine, then=self.repair))
        elif not report.findings:
            self.presenter.say("there is nothing to repair")
        else:
            self.go_to(self.doctor)
            self.presenter.say(f"{key('repair')} repairs none of these findings; {key('chunks')} opens one")

    async def _repair_found(self, report: DoctorReport) -> None:
        await self.presenter.repair(report)
        if self.presenter.state.trouble:
            return
        if self.search.service.is_open:
            self.search.say("")  # what failed before the repair need not fail now
            await self.search.sync.read_status()
        else:
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
