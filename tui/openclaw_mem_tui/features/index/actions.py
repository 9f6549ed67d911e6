"""What the keys of the index screen do, one method an action of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from openclaw_mem_tui.features.index.presenter import FIXING, HealthDesk
from openclaw_mem_tui.features.index.render import files as file_lines
from openclaw_mem_tui.features.index.render import plan as plan_lines
from openclaw_mem_tui.features.search.presenter import Lab
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.screens.confirm import ConfirmScreen
from openclaw_mem_tui.screens.editing import edit
from openclaw_mem_tui.screens.pick import Choice, PickScreen
from openclaw_mem_tui.screens.subscreen import OverScreen
from openclaw_mem_tui.widgets.panes import Pane
from openclaw_mem_tui.widgets.table import Table

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import FileRow

#: So many files are offered to pick from at once.
_PICKED = 200


class FileTable(Table):
    HELP = "Every file that the index holds, should hold, or met and left out."


class DoctorTable(Table):
    HELP = (
        "What the doctor found, the worst first, then everything that it looked at. Looking changes nothing."
    )


class EventTable(Table):
    HELP = "What happened: syncs, rebuilds, fallbacks, failed searches (`openclaw-mem log` has all of it)."


class IndexActions(OverScreen):
    """The three lists by name, and what can be done with them."""

    def __init__(self, lab: Lab, resync: Callable[..., None]) -> None:
        """``resync`` syncs and searches again, with ``force`` and ``verify`` as ``Lab.sync``."""
        super().__init__(lab)
        self._resync = resync
        self.desk = HealthDesk(lab.service, self.draw)
        self.last: Table | None = None  # the list that had the focus last

    # -- widgets ------------------------------------------------------------------------------------------

    @property
    def files(self) -> FileTable:
        return self.query_one(FileTable)

    @property
    def doctor(self) -> DoctorTable:
        return self.query_one(DoctorTable)

    @property
    def events(self) -> EventTable:
        return self.query_one(EventTable)

    @property
    def detail(self) -> Pane:
        return self.query_one("#detail", Pane)

    @property
    def lists(self) -> Sequence[Table]:
        return self.files, self.doctor, self.events

    @property
    def at(self) -> Table:
        """The list that was gone to last: the focus itself comes a moment later, and keys may overtake it."""
        return self.last or self.files

    @property
    def selected(self) -> FileRow | None:
        """The file under the cursor."""
        files, at = self.desk.look.files, self.files.cursor
        return files[at] if at < len(files) else None

    # -- moving about -------------------------------------------------------------------------------------

    def action_next_of_index(self) -> None:
        self._turn(1)

    def action_previous_of_index(self) -> None:
        self._turn(-1)

    def _turn(self, step: int) -> None:
        lists = list(self.lists)
        self._go_to(lists[(lists.index(self.at) + step) % len(lists)])

    def _go_to(self, target: Table) -> None:
        self.mark(target)
        self.set_focus(target)

    def mark(self, target: Table) -> None:
        """Where there is one column, this list is shown."""
        self.last = target
        for table in self.lists:
            self.set_class(table is target, f"-at-{table.id}")

    def action_detail_down(self) -> None:
        self.detail.scroll_relative(y=3, animate=False)

    def action_detail_up(self) -> None:
        self.detail.scroll_relative(y=-3, animate=False)

    def action_order(self) -> None:
        """The next order; the cursor stays on its file."""
        row = self.selected
        self.desk.turn_order()
        self._point_at(row.path if row is not None else "")

    def _point_at(self, path: str) -> None:
        files = self.desk.look.files
        place = next((at for at, row in enumerate(files) if row.path == path), 0)
        self.files.action_go(place - self.files.cursor)

    def action_find_file(self) -> None:
        files = self.desk.look.files

        def find(text: str) -> list[Choice]:
            words = text.lower().split()
            found = [row for row in files if all(word in row.path.lower() for word in words)]
            return [
                Choice(row.path, fmt.inert(row.path), file_lines.STATE_WORDS[row.state])
                for row in found[:_PICKED]
            ]

        def go(path: str | None) -> None:
            if path is not None:
                self._go_to(self.files)
                self._point_at(path)

        self.app.push_screen(PickScreen("files", find, filtered=True, empty="no such file"), go)

    def action_leave_index(self) -> None:
        """Stop what runs; when nothing does, back to the lab."""
        if self.lab.activity.phase == "syncing":
            self.lab.stop_sync()
        elif self.desk.look.doing == FIXING:
            self.desk.say("a fix is not stopped half way; it takes a moment")
        elif self.desk.look.doing:
            self.workers.cancel_group(self, "read")
            self.workers.cancel_group(self, "doctor")
            self.desk.say("stopped")
        else:
            self.app.pop_screen()

    # -- doing --------------------------------------------------------------------------------------------

    def action_sync_index(self) -> None:
        self._sync()

    def action_verify(self) -> None:
        self._sync(verify=True)

    def _sync(self, *, force: bool = False, verify: bool = False) -> None:
        running = self.lab.activity.phase == "syncing"
        self.desk.say("it follows the sync that runs" if running else "")
        self._resync(force=force, verify=verify)

    def action_rebuild(self) -> None:
        async def ask() -> None:
            plan = await self.desk.plan_rebuild()
            if plan is not None:
                self.app.push_screen(
                    ConfirmScreen("rebuild the index", partial(plan_lines.rebuild, plan), "rebuild"),
                    lambda sure: self._sync(force=True) if sure else None,
                )

        if self._is_free():
            self.run_in(ask, "doctor")

    def action_examine(self) -> None:
        if self._is_free():
            self.run_in(self.desk.examine, "doctor")

    def action_examine_deep(self) -> None:
        if self._is_free():
            self.run_in(partial(self.desk.examine, deep=True), "doctor")

    def action_mend(self) -> None:
        report = self.desk.look.report
        if not self._is_free():
            return
        if report is None or not report.fixable:
            self.desk.say(
                "the doctor knows nothing that it could fix" if report else "d lets the doctor look first"
            )
            return

        async def fix_and_search() -> None:
            await self.desk.mend()
            # The index that the lab has answered from is another one now.
            await self.lab.look()
            await self.lab.refresh()

        def mend(sure: bool | None) -> None:
            if sure:
                self.run_in(fix_and_search, "doctor")

        self.app.push_screen(ConfirmScreen("fix the index", partial(plan_lines.fixing, report), "fix"), mend)

    def _is_free(self) -> bool:
        """Whether the doctor can be asked now; says why not."""
        if not self.lab.service.is_open:
            self.desk.say("the index cannot be opened: the reason above says what to type; y tries again")
        elif self.lab.activity.phase == "syncing":
            self.desk.say("not while the index is being written; esc stops that")
        elif self.desk.look.doing:
            self.desk.say("")
        else:
            return True
        return False

    def action_chunks(self) -> None:
        row = self.selected
        if self.at is not self.files:
            self._go_to(self.files)
        elif row is not None:
            from openclaw_mem_tui.features.index.chunks_screen import ChunksScreen

            self.app.push_screen(ChunksScreen(self.lab, row.path))

    def action_edit_file(self) -> None:
        row = self.selected
        if row is None or not self.lab.service.is_open:
            return
        if row.source == "sessions":
            self.desk.say("transcripts are the agent's own: they are not edited here")
            return
        settings = self.lab.service.settings
        said, ran = edit(self.app, settings, row.path, 1)
        self.desk.say(said)
        if ran and not settings.sync.watch:
            self._sync()
