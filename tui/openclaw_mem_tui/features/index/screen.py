"""The index screen: what the index is, its files, the doctor's findings and checks, and the events."""

from __future__ import annotations

from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.api import Check, FileRow, Freshness
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.index.actions import FileActions, IndexActions
from openclaw_mem_tui.features.index.presenter import IndexPresenter
from openclaw_mem_tui.features.index.render import doctor, files, summary
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.screen import Lab, WorkbenchScreen
from openclaw_mem_tui.widgets.dialogs import Reading
from openclaw_mem_tui.widgets.edges import Banner, KeyBar
from openclaw_mem_tui.widgets.line_view import Drawer, Pane
from openclaw_mem_tui.widgets.lists import CursorList, Table

#: Actions that are about the file under the cursor.
_OF_FILES = {"chunks", "order", "edit_file", "find_file"}
#: Actions that need an index that can be opened.
_WITH_INDEX = frozenset(_OF_FILES | {"rebuild", "verify", "examine", "examine_deep", "repair"})
#: Seconds between frames of the spinner, while something runs.
_FRAME = 0.12

READING: Reading = (
    "Reading the index",
    (
        ("↑ ↓ j k", "up and down a list"),
        ("● up to date", "what is indexed is what is on disk"),
        ("◌ modified", "text on disk differs; +48 B: 48 bytes longer"),
        ("+ not indexed", "on disk, not in the index yet"),
        ("− deleted", "in the index, not on disk any more"),
        ("⊘ excluded", "found, not indexed; the file pane says why"),
        ("= ≠", "built with the present settings; with others"),
        ("✗ ! i", "error, warning, information of the doctor"),
        ("✓", "a check that found nothing"),
        ("generation", "grows with every change of the index"),
    ),
)


class FileTable(Table):
    HELP = "Every file that is indexed, is to be indexed, or is excluded."


class DoctorTable(Table):
    HELP = "The findings of the doctor, the worst first, then its checks. A check changes nothing."


class EventTable(Table):
    HELP = "Events: syncs, rebuilds, fallbacks, failed searches (`openclaw-mem log` has all of them)."


class IndexScreen(WorkbenchScreen):
    """Drawn from the state of the presenter and the activity of the sync. Three lists share one pane with the
    details of the selected row of the list with the focus; where there is one column, only that list is
    shown."""

    WHERE, OPENED_BY, READING = "index", "show_index", READING
    TITLES = "index", "index health"
    BINDINGS = bindings("index")  # type: ignore[assignment]
    HELP = "Whether the index is up to date with the notes, and whether it is intact."

    def __init__(self, search: SearchPresenter, lab: Lab) -> None:
        super().__init__(search)
        self.lab = lab
        self.presenter = IndexPresenter(search.service)
        self.files = FileTable(id="files")
        self.doctor = DoctorTable(id="doctor", classes="listed")
        self.events = EventTable(id="events", classes="listed")
        self.detail = Pane(id="detail", classes="pane")
        self.lists: tuple[Table, ...] = (self.files, self.doctor, self.events)
        #: The list that was gone to last: the focus itself comes a moment later, and keys may overtake it.
        self.at: Table = self.files
        self.add_actions(IndexActions(self), FileActions(self))
        self._read_for: tuple[str, Freshness | None] | None = None
        self._was_syncing = False
        self._frame = 0
        self._detailed: tuple[str, object, bool] | None = None

    def compose(self) -> ComposeResult:
        yield Banner()
        yield Pane(id="top")
        yield Pane(id="facts")
        with Container(id="index-body"):
            with Vertical(id="files-box", classes="listed"):
                yield Pane(id="files-head")
                yield self.files
            with Vertical(id="index-side"):
                yield self.doctor
                yield self.events
                yield self.detail
        yield Pane(id="status")
        yield KeyBar(id="keys")

    # -- life ---------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self.presenter.listen(self.draw)
        self.set_interval(_FRAME, self._tick)
        self.files.focus()
        self.draw()

    def on_screen_resume(self) -> None:
        self._read_for = None
        self.search_changed()

    def search_changed(self) -> None:
        """After a sync, or when the files were found to differ, the index is read again."""
        if not self.is_mounted or not self.is_current:
            return
        activity = self.search.activity
        syncing = activity.phase == "syncing"
        now = (activity.phase, activity.freshness)
        if now != self._read_for:
            # At its beginning too: while a sync waits for another process, what it has to do is shown.
            self._read_for = now
            if self._was_syncing and not syncing:
                self.presenter.say("")  # the outcome of the sync is shown now
            self.run_in(partial(self.presenter.read, examine=not syncing), "read")
        self._was_syncing = syncing
        self.draw()

    def _tick(self) -> None:
        self._frame += 1
        self.search.sync.tick()
        if self.search.activity.busy or self.presenter.state.doing:
            self._draw_status()

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_mounted:
            return
        state, activity = self.presenter.state, self.search.activity
        short = self.narrow or not self.has_class("-tall")
        super().draw()
        self.query_one("#facts", Pane).show(lambda cells: summary.facts(state, activity, cells, short))
        self.query_one("#files-head", Pane).show(lambda cells: [files.header(cells)])
        self.files.show_rows(
            len(state.files), lambda at, cells, chosen: files.file_row(state.files[at], state, cells, chosen)
        )
        found = state.findings
        self.doctor.show_rows(len(found), lambda at, cells, chosen: doctor.item_row(found[at], cells, chosen))
        self.events.show_rows(
            len(state.events),
            lambda at, cells, chosen: files.event_row(state.events[at], state, cells, chosen),
        )
        box = self.query_one("#files-box", Vertical)
        box.border_title = files.title(state)
        box.border_subtitle = f"by {state.order} (o) · enter: chunks"
        self.doctor.border_title = doctor.title(state)
        self.doctor.border_subtitle = doctor.subtitle(state)
        self.events.border_title = "events"
        self.events.border_subtitle = f"{len(state.events):,}" if state.events else ""
        self._draw_detail()
        self._draw_status()

    def _draw_detail(self) -> None:
        """The details of the selected row; drawn anew, from its top, only when that is another one."""
        state, at = self.presenter.state, self.at
        if at is self.doctor:
            item = state.findings[at.cursor] if at.cursor < len(state.findings) else None
            name = "check" if isinstance(item, Check) else "finding"
            self._show_detail(name, item, lambda cells: doctor.item_detail(item, cells))
        elif at is self.events:
            event = state.events[at.cursor] if at.cursor < len(state.events) else None
            self._show_detail("event", event, lambda cells: files.event_detail(event, state, cells))
        else:
            row = self.selected
            self._show_detail("file", row, lambda cells: files.file_detail(row, state, cells))

    def _show_detail(self, name: str, item: object, drawer: Drawer) -> None:
        shown = name, item, self.presenter.state.overview is None
        if shown != self._detailed:
            self._detailed = shown
            self.detail.border_title = name
            self.detail.show(drawer)
        self.call_after_refresh(self._mark_more)

    def _mark_more(self) -> None:
        self.detail.border_subtitle = "J K scroll" if self.detail.max_scroll_y > 0 else ""

    def idle_keys(self) -> frozenset[str]:
        report = self.presenter.state.report
        if self.search.activity.phase == "failed":
            return _WITH_INDEX
        idle = set() if report is not None and report.fixable else {"repair"}
        return frozenset(idle | (_OF_FILES if self.at is not self.files else {"examine", "examine_deep"}))

    def _draw_status(self) -> None:
        state, activity, frame = self.presenter.state, self.search.activity, self._frame
        progress = self.presenter.progress
        self.query_one("#status", Pane).show(
            lambda cells: [summary.status(state, activity, progress, cells, frame)]
        )

    # -- events -------------------------------------------------------------------------------------------

    @on(CursorList.Moved)
    def _moved(self) -> None:
        self._draw_detail()

    @on(CursorList.Chosen, "#files")
    async def _chosen(self) -> None:
        await self.run_action("chunks")

    def on_descendant_focus(self) -> None:
        self.mark(next((table for table in self.lists if table.has_focus), self.at))
        self._draw_detail()
        self.draw_keys()

    # -- moving about -------------------------------------------------------------------------------------

    @property
    def selected(self) -> FileRow | None:
        """The file under the cursor."""
        rows, at = self.presenter.state.files, self.files.cursor
        return rows[at] if at < len(rows) else None

    def go_to(self, target: Table) -> None:
        self.mark(target)
        self.set_focus(target)

    def mark(self, target: Table) -> None:
        """Where there is one column, this list is shown."""
        self.at = target
        for table in self.lists:
            self.set_class(table is target, f"-at-{table.id}")

    def action_next_of_index(self) -> None:
        self._turn(1)

    def action_previous_of_index(self) -> None:
        self._turn(-1)

    def _turn(self, step: int) -> None:
        self.go_to(self.lists[(self.lists.index(self.at) + step) % len(self.lists)])

    def action_detail_down(self) -> None:
        self.detail.scroll_relative(y=3, animate=False)

    def action_detail_up(self) -> None:
        self.detail.scroll_relative(y=-3, animate=False)
