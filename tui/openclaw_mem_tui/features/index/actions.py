"""What the keys of the index screen do with the index: sync, rebuild, checks, repairs, files."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_tui.editor import edit
from openclaw_mem_tui.features.index.presenter import REPAIRING
from openclaw_mem_tui.features.index.render import doctor, summary
from openclaw_mem_tui.features.index.render.files import STATE_WORDS
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.dialogs import Choice, ConfirmScreen, PickScreen

if TYPE_CHECKING:
    from openclaw_mem_tui.features.index.screen import IndexScreen

#: So many files are offered to pick from at once.
_PICKED = 200


class IndexActions:
    """Sync, rebuild, checks and repairs."""

    def __init__(self, screen: IndexScreen) -> None:
        self._screen = screen
        self._search = screen.search
        self._presenter = screen.presenter

    def action_sync_index(self) -> None:
        self._sync(Job(tails=True))

    def action_verify(self) -> None:
        self._sync(Job(verify=True, tails=True))

    def _sync(self, job: Job) -> None:
        running = self._search.activity.phase == "syncing"
        self._presenter.say("it follows the sync that runs" if running else "")
        self._screen.lab.resync(job)

    def action_rebuild(self) -> None:
        async def ask() -> None:
            plan = await self._presenter.plan_rebuild()
            if plan is not None:
                self._screen.app.push_screen(
                    ConfirmScreen("rebuild the index", partial(summary.rebuild_plan, plan), "rebuild"),
                    lambda sure: self._sync(Job(force=True, tails=True)) if sure else None,
                )

        if self._is_free():
            self._screen.run_in(ask, "doctor")

    def action_examine(self) -> None:
        if self._is_free():
            self._screen.run_in(self._presenter.examine, "doctor")

    def action_examine_deep(self) -> None:
        if self._is_free():
            self._screen.run_in(partial(self._presenter.examine, deep=True), "doctor")

    def action_repair(self) -> None:
        report = self._presenter.state.report
        if not self._is_free():
            return
        if report is None or not report.fixable:
            self._presenter.say("there is nothing to repair" if report else "d runs the checks first")
            return

        async def repair_and_search() -> None:
            await self._presenter.repair()
            # The index that the shown answer came from is another one now.
            await self._search.sync.read_status()
            await self._search.refresh()

        def repair(sure: bool | None) -> None:
            if sure:
                self._screen.run_in(repair_and_search, "doctor")

        dialog = ConfirmScreen("repair the index", partial(doctor.repairs, report), "repair")
        self._screen.app.push_screen(dialog, repair)

    def _is_free(self) -> bool:
        """Whether checks can run now; says why not."""
        if not self._search.service.is_open:
            self._presenter.say("the index cannot be opened: see the reason above; y tries again")
        elif self._search.activity.phase == "syncing":
            self._presenter.say("not while a sync runs; esc stops it")
        elif self._presenter.state.doing:
            self._presenter.say("")
        else:
            return True
        return False

    def action_leave_index(self) -> None:
        """Stop what runs; when nothing does, back to the search lab."""
        doing = self._presenter.state.doing
        if self._search.activity.phase == "syncing":
            self._search.sync.stop_sync()
        elif doing == REPAIRING:
            self._presenter.say("a repair is not stopped half way; it takes a moment")
        elif doing:
            self._screen.workers.cancel_group(self._screen, "read")
            self._screen.workers.cancel_group(self._screen, "doctor")
            self._presenter.say("stopped")
        else:
            self._screen.app.pop_screen()


class FileActions:
    """What is done with the file under the cursor, and finding one."""

    def __init__(self, screen: IndexScreen) -> None:
        self._screen = screen
        self._presenter = screen.presenter

    def action_order(self) -> None:
        """The next order; the cursor stays on its file."""
        row = self._screen.selected
        self._presenter.turn_order()
        self._point_at(row.path if row is not None else "")

    def _point_at(self, path: str) -> None:
        files = self._presenter.state.files
        at = next((at for at, row in enumerate(files) if row.path == path), 0)
        self._screen.files.action_go(at - self._screen.files.cursor)

    def action_find_file(self) -> None:
        files = self._presenter.state.files

        def find(text: str) -> list[Choice]:
            words = text.lower().split()
            found = [row for row in files if all(word in row.path.lower() for word in words)]
            return [Choice(row.path, fmt.inert(row.path), STATE_WORDS[row.state]) for row in found[:_PICKED]]

        def go(path: str | None) -> None:
            if path is not None:
                self._screen.go_to(self._screen.files)
                self._point_at(path)

        self._screen.app.push_screen(PickScreen("files", find, filtered=True, empty="no such file"), go)

    def action_chunks(self) -> None:
        row = self._screen.selected
        if self._screen.at is not self._screen.files:
            self._screen.go_to(self._screen.files)
        elif row is not None:
            from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen

            self._screen.app.push_screen(ChunksScreen(self._screen.search, row.path))

    def action_edit_file(self) -> None:
        row, service = self._screen.selected, self._screen.search.service
        if row is None or not service.is_open:
            return
        if row.source == "sessions":
            self._presenter.say("transcripts are the agent's own: they are not edited here")
            return
        outcome, ran = edit(self._screen.app, service.settings, row.path, 1)
        self._presenter.say(outcome)
        if ran and not service.settings.sync.watch:
            self._screen.lab.resync(Job(tails=True))
