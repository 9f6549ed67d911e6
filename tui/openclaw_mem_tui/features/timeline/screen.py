"""The timeline screen: sessions with their token curves, what happened in them, and the selected event."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical

from openclaw_mem_engine.api import FileDay, Moment, Session
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.features.timeline import chart as charts
from openclaw_mem_tui.features.timeline import details, render
from openclaw_mem_tui.features.timeline.presenter import GROUPS, TimelinePresenter
from openclaw_mem_tui.list_screen import ListScreen
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.choices import Choice
from openclaw_mem_tui.render.spans import Line, Reading, brief, spoken
from openclaw_mem_tui.widgets.dialogs import pick
from openclaw_mem_tui.widgets.frames import key_hint, markup
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.lists import CursorList, Table

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.screen import SearchScreen

READING: Reading = (
    ("▁▄▆", "tokens in the window, over the time of the session; yellow: above the flush threshold"),
    ("█ red", "above the flush threshold, where a compaction missed its flush"),
    ("┄", "the flush threshold: the number of tokens at which a flush is due"),
    ("compaction", "the older part of a conversation is replaced by a summary"),
    ("flush", "before that a model is asked what to keep, and its answer is written to a note"),
    ("● flush", "wrote to a note"),
    ("○ no reply", "NO_REPLY: the model stored nothing"),
    ("! skipped", "a flush that did not run; the details show the reason"),
    ("▼", "a compaction"),
    ("✗ missed", "a compaction without a flush before it: a missed flush"),
    ("◆ + ?", "snapshot, write, the agent's own search"),
    ("→ size", "tokens after the compaction are not known: no response follows"),
    ("~", "estimated from the length of the transcript"),
    ("2025-12-10", "a day of another year than the newest event; the details have the time"),
)
_SESSIONS = "The list shows the sessions, the latest first, with their tokens against the flush threshold."
_EVENTS = "The list shows what happened, the newest first."
_DAYS = "The list shows memory files by day, with the lines that were written and removed."
#: With fewer lines one column has no room for chart and details both; up to the other, for a small chart.
_LOW, _SLIM = 20, 22
#: Seconds of quiet before a difference is read.
_QUIET_S = 0.08


class TimelineScreen(ListScreen[TimelinePresenter]):
    """The chart too is about the row of the list with the focus."""

    WHERE, reading = "timeline", READING
    CSS_PATH = "styles.tcss"
    BINDINGS = bindings("timeline")  # type: ignore[assignment]
    HELP = (
        "This screen shows when memory was written and read, and which compactions had a flush before them."
    )

    def __init__(self, search: SearchPresenter, lab: SearchScreen) -> None:
        super().__init__(search, lab, TimelinePresenter(search.service))
        self.sessions: Table[Session | None] = Table(_SESSIONS, id="sessions", classes="listed")
        self.events: Table[Moment] = Table(_EVENTS, id="moments", classes="listed")
        self.days: Table[FileDay] = Table(_DAYS, id="days", classes="listed")
        self.use_lists(Pane(id="moment", classes="pane"), self.events, self.sessions, self.days)
        self.events.stays_first = True
        self._opened = False

    def body(self) -> ComposeResult:
        yield Pane(id="facts")
        with Container(id="timeline-body"):
            with Vertical(id="timeline-lists"):
                yield self.sessions
                yield self.events
                yield self.days
            with Vertical(id="timeline-side"):
                yield Pane(id="chart", classes="pane")
                yield self.detail

    # -- life ---------------------------------------------------------------------------------------------

    def on_unmount(self) -> None:
        self.presenter.close()

    def read_again(self) -> None:
        """After a sync too: it is an event."""
        activity = self.search.activity
        self.read_for((self.search.service.is_open, activity.phase), self.presenter.read)

    def action_read_timeline(self) -> None:
        self.run_in(self.presenter.read_again, "read")

    # -- drawing ------------------------------------------------------------------------------------------

    def draw_body(self) -> None:
        state = self.presenter.state
        self.set_class(self.narrow and self.size.height < _LOW, "-low")
        self.set_class(self.narrow and _LOW <= self.size.height < _SLIM, "-slim")
        waits = () if self.search.service.is_open else self.waits
        self.query_one("#facts", Pane).show(partial(render.facts, state, waits))
        rows, titles, year = state.sessions, render.session_head, render.year_of(state)
        of_session = partial(render.session_row, year=year)
        self.fill(self.sessions, "sessions", rows, of_session, render.session_words, titles)
        self.label(self.sessions, subtitle="[$warning]■[/] above the flush threshold")
        names = {one.id: one.name for one in state.whole.sessions} if state.whole and not state.chosen else {}
        if state.whole is not None and not self._opened:
            self._opened = True  # on an event with a curve: the last one is often a sync
            of_one = (at for at, moment in enumerate(state.moments) if state.session_of(moment))
            self.events.cursor = next(of_one, 0)
        row, words = (
            partial(render.moment_row, names=names, year=year),
            partial(render.moment_words, names=names),
        )
        low = self.narrow and self.size.height < _SLIM
        head = None if low else partial(render.moment_head, names=names)
        self.fill(self.events, "events", state.moments, row, words, head)
        self.set_class(not state.days, "-no-days")
        of_days = partial(render.day_head, empty=state.whole is not None and not state.days)
        self.fill(self.days, "files by day", state.days, render.day_row, head=of_days)
        chosen = fmt.crop(fmt.inert(state.chosen.name), 22) if state.chosen is not None else "all"
        hints = key_hint("kinds", f"events: {state.group}"), key_hint("this_session", f"session: {chosen}")
        # One edge is for two facts beside the title.
        self.label(self.events, subtitle=fmt.join(hints[: 1 if self.low and state.chosen is None else 2]))
        self.draw_selected()

    def status_at(self, cells: int) -> Line:
        state, position = self.presenter.state, self.position("event", self.events)
        runs = "reading transcripts …" if state.reading else ""
        return brief(spoken(state.trouble, state.said, runs, position), cells)

    def draw_selected(self) -> None:
        """Chart and details of the selected row; drawn anew only when that is another one."""
        state, item = self.presenter.state, self.at.selected
        moment = item if isinstance(item, Moment) else None
        session = item if self.at is self.sessions else state.session_of(moment)
        chart = self.query_one("#chart", Pane)
        named = self.has_class("-tall") and not self.narrow  # elsewhere the list above it has the words
        height = chart.size.height
        shown = moment, session, state.zoom, state.change, state.shown, state.whole, item, height, named
        kind, drawer = "event", partial(details.moment_detail, state, moment)
        if self.at is self.sessions:
            kind, drawer = "session", partial(details.session_detail, state, session)
        elif self.at is self.days:
            kind, drawer = "file", partial(details.day_detail, state, self.days.selected)
        if not self.show_detail(shown, kind, drawer):
            return
        chart.show(partial(charts.chart, state, moment, session, height, named=named))
        limit = session.flush_threshold if session is not None else 0
        line = (
            f"[$warning]┄[/] flush threshold {render.thousands(limit)}"
            if limit > 0 and not self.has_class("-tiny")
            else ""
        )
        zoom = key_hint("zoom", f"zoom: {state.zoom}")
        self.label(chart, markup(charts.title(session, moment is not None)), fmt.join((line, zoom)))
        write = details.first_write(moment)
        if moment is not None and (write is not None or moment.kind == "compaction"):
            self.run_in(partial(self.presenter.read_change, moment, write, _QUIET_S), "change")

    def on_lines_sized(self) -> None:
        if self.presenter.state.whole is not None:
            self.draw_selected()  # the bars are as high as the chart

    def idle_keys(self) -> frozenset[str]:
        return frozenset() if self._path() else frozenset({"edit"})

    # -- what is shown ------------------------------------------------------------------------------------

    def action_zoom(self) -> None:
        self.presenter.turn_zoom()

    def action_kinds(self) -> None:
        choices = [Choice(name, name, about, name[0]) for name, (about, _) in GROUPS.items()]

        def show(name: str) -> None:
            moment = self.events.selected
            self.presenter.choose(group=name, said="")
            self.go_to(self.events)
            if moment is not None:
                self.events.point_at(moment)

        start = list(GROUPS).index(self.presenter.state.group)
        pick(self, "events", lambda _: choices, show, start=start)

    def action_this_session(self) -> None:
        """Only the selected session, or that of the selected event; all of them when one is shown."""
        state, item = self.presenter.state, self.at.selected
        of_event = state.session_of(item) if isinstance(item, Moment) else None
        session = item if isinstance(item, Session) else of_event
        if state.chosen is None and session is None:
            self.presenter.say("this row has no session")
        else:
            self._choose(None if state.chosen is not None else session, item)

    def _choose(self, session: Session | None, moment: object = None) -> None:
        """Show a session, with the cursors of both lists on it and on the event."""
        self.presenter.choose(chosen=session, said="")
        self.sessions.point_at(session)
        if isinstance(moment, Moment):
            self.events.point_at(moment)

    # -- going there --------------------------------------------------------------------------------------

    def _path(self) -> str:
        """The file of the selected row; "" without one."""
        item = self.at.selected
        if isinstance(item, FileDay):
            return item.path
        if isinstance(item, Moment):
            write = details.first_write(item)
            return write.path if write is not None else ""
        return ""

    def _query(self) -> str:
        item = self.at.selected
        return item.query if isinstance(item, Moment) else ""

    @on(CursorList.Chosen)
    def action_open_moment(self) -> None:
        if not self.has_row():
            return
        path, query = self._path(), self._query()
        if self.at is self.sessions:
            self.presenter.choose(chosen=self.sessions.selected, said="")
            self.go_to(self.events)
            self.events.action_go(-self.events.cursor)
        elif query:
            self.lab.query_line.value = query
            self.lab.set_focus(self.lab.hits)
            self.app.action_show("search")  # type: ignore[attr-defined]
        elif path and self.search.service.draws_chunks:
            self.open_chunks(path)
        else:
            self.action_messages()

    def action_edit(self) -> None:
        if not (path := self._path()) or not self.search.service.is_open:
            self.presenter.say("this row has no file to edit")
        else:
            self.edit_note(path)
