"""The index screen: what the index is, its files, the doctor's findings and checks, and the events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.api import Check, FileRow, Finding
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.index.presenter import REPAIRING, IndexPresenter
from openclaw_mem_tui.features.index.render import doctor, files, summary
from openclaw_mem_tui.features.index.render.legend import READING
from openclaw_mem_tui.features.index.upkeep import Upkeep
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.render.spans import Line
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


class IndexScreen(Upkeep):
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
            idle |= _READING - ({"repair"} if self.repairs else set())
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
            self.workers.cancel_group(self, "question")  # of its own: checks that begin do not end it
            self.presenter.say("stopped")
        else:
            return False
        return True

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
