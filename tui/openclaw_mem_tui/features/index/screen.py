"""The index screen: what the index is, its files, what the doctor says, and what happened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.timer import Timer

from openclaw_mem_engine.api import Check, Freshness
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.index.actions import DoctorTable, EventTable, FileTable, IndexActions
from openclaw_mem_tui.features.index.render import doctor
from openclaw_mem_tui.features.index.render import events as happened
from openclaw_mem_tui.features.index.render import files as file_lines
from openclaw_mem_tui.features.index.render import summary as index_lines
from openclaw_mem_tui.features.search.presenter import Lab
from openclaw_mem_tui.screens.help import READING_INDEX
from openclaw_mem_tui.widgets.banner import Banner
from openclaw_mem_tui.widgets.cursor_list import CursorList
from openclaw_mem_tui.widgets.key_bar import KeyBar
from openclaw_mem_tui.widgets.panes import Drawer, Pane

#: Actions that are about the file under the cursor.
_OF_FILES = {"chunks", "order", "edit_file", "find_file"}
#: Actions that need an index that can be opened.
_WITH_INDEX = frozenset(_OF_FILES | {"rebuild", "verify", "examine", "examine_deep", "mend"})
#: Seconds between frames of the spinner, while something runs.
_FRAME = 0.12


class IndexScreen(IndexActions):
    """Drawn from the desk's look and the lab's activity. Three lists share one pane, which tells all about
    the selected row of the list with the focus; where there is one column, only that list is shown."""

    WHERE, ACTION, READING = "index", "show_index", READING_INDEX
    NAMES = "index", "index health"
    BINDINGS = bindings("index")  # type: ignore[assignment]
    HELP = "Whether the index is what the notes are, and whether it is whole."

    def __init__(self, lab: Lab, resync: Callable[..., None]) -> None:
        super().__init__(lab, resync)
        self._read_for: tuple[str, Freshness | None] | None = None
        self._clock: Timer | None = None
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
                yield FileTable(id="files")
            with Vertical(id="index-side"):
                yield DoctorTable(id="doctor", classes="listed")
                yield EventTable(id="events", classes="listed")
                yield Pane(id="detail", classes="pane")
        yield Pane(id="status")
        yield KeyBar(id="keys")

    # -- life ---------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        self._clock = self.set_interval(_FRAME, self._tick)
        self.files.focus()
        self.draw()

    def on_screen_resume(self) -> None:
        self._read_for = None
        self.heard()

    def heard(self) -> None:
        """A sync has ended, or the files were found to differ: the index is read again."""
        if not self.is_mounted or not self.is_current:
            return
        activity = self.lab.activity
        syncing = activity.phase == "syncing"
        now = (activity.phase, activity.freshness)
        if now != self._read_for:
            # At its beginning too: while a sync waits for another process, what it has to do is seen.
            self._read_for = now
            if self._was_syncing and not syncing:
                self.desk.say("")  # what the sync has come to is the news now
            self.run_in(partial(self.desk.read, examine=not syncing), "read")
        self._was_syncing = syncing
        self.draw()

    def _tick(self) -> None:
        self._frame += 1
        self.lab.tick()
        if self.lab.activity.busy or self.desk.look.doing:
            self._draw_status()

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self) -> None:
        if not self.is_mounted:
            return
        look, activity = self.desk.look, self.lab.activity
        short = self.narrow or not self.has_class("-tall")
        self.draw_edges()
        self.query_one("#facts", Pane).show(lambda cells: index_lines.facts(look, activity, cells, short))
        self.query_one("#files-head", Pane).show(lambda cells: [file_lines.header(cells)])
        self.files.show_rows(
            len(look.files),
            lambda at, cells, chosen: file_lines.file_row(look.files[at], look, cells, chosen),
        )
        found = look.findings
        self.doctor.show_rows(len(found), lambda at, cells, chosen: doctor.item_row(found[at], cells, chosen))
        self.events.show_rows(
            len(look.events),
            lambda at, cells, chosen: happened.event_row(look.events[at], look, cells, chosen),
        )
        box = self.query_one("#files-box", Vertical)
        box.border_title = file_lines.title(look)
        box.border_subtitle = f"by {look.order} (o) · enter: chunks"
        self.doctor.border_title = doctor.title(look)
        self.doctor.border_subtitle = doctor.subtitle(look)
        self.events.border_title = "events"
        self.events.border_subtitle = f"{len(look.events):,}" if look.events else ""
        self._draw_detail()
        self._draw_status()

    def _draw_detail(self) -> None:
        """All about the selected row; drawn anew, from its top, only when that is another one."""
        look, at = self.desk.look, self.at
        if at is self.doctor:
            item = look.findings[at.cursor] if at.cursor < len(look.findings) else None
            name = "check" if isinstance(item, Check) else "finding"
            self._show_detail(name, item, lambda cells: doctor.item_detail(item, cells))
        elif at is self.events:
            event = look.events[at.cursor] if at.cursor < len(look.events) else None
            self._show_detail("event", event, lambda cells: happened.event_detail(event, look, cells))
        else:
            row = self.selected
            self._show_detail("file", row, lambda cells: file_lines.file_detail(row, look, cells))

    def _show_detail(self, name: str, item: object, drawer: Drawer) -> None:
        shown = name, item, self.desk.look.overview is None
        if shown != self._detailed:
            self._detailed = shown
            self.detail.border_title = name
            self.detail.show(drawer)
        self.call_after_refresh(self._tell_of_more)

    def _tell_of_more(self) -> None:
        self.detail.border_subtitle = "J K scroll" if self.detail.max_scroll_y > 0 else ""

    def idle_keys(self) -> frozenset[str]:
        look = self.desk.look
        if self.lab.activity.phase == "failed":
            return _WITH_INDEX
        fixable = look.report is not None and look.report.fixable
        idle = set() if fixable else {"mend"}
        return frozenset(idle | (_OF_FILES if self.at is not self.files else {"examine", "examine_deep"}))

    def _draw_status(self) -> None:
        look, activity, told, frame = self.desk.look, self.lab.activity, self.desk.told, self._frame
        self.query_one("#status", Pane).show(
            lambda cells: [index_lines.status(look, activity, told, cells, frame)]
        )

    # -- events -------------------------------------------------------------------------------------------

    @on(CursorList.Moved)
    def _moved(self) -> None:
        self._draw_detail()

    @on(CursorList.Chosen, "#files")
    def _chosen(self) -> None:
        self.action_chunks()

    def on_descendant_focus(self) -> None:
        self.mark(next((table for table in self.lists if table.has_focus), self.at))
        self._draw_detail()
        self.draw_keys()
