"""What every screen draws: its edges, the frames of its panes, and when they are drawn anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.events import ScreenResume
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from openclaw_mem_tui.bindings import IN_TURN
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.memory_thread import Unexpected
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.damage import waiting
from openclaw_mem_tui.render.spans import Line, Reading
from openclaw_mem_tui.widgets.edges import Banner, KeyBar, Top, tab_of
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.frames import Frames, frame_of, framed, key_hint, markup
from openclaw_mem_tui.widgets.line_view import Lines, Pane
from openclaw_mem_tui.widgets.lists import CursorList
from openclaw_mem_tui.widgets.painting import paint_less

#: With fewer lines, the list is given those of the texts above it.
_FEW = 22


class DrawnScreen(Screen[None]):
    """A subclass sets the class variables and its bindings, and overrides ``body``, ``draw_body`` and
    ``read_again``. ``draw`` is called when the state of the search or the size of the screen changed."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    #: Where its actions are declared in the table of bindings.
    WHERE: ClassVar[str]
    #: Whether it shows the configured backend, whichever answers in the search lab.
    OF_CONFIGURED: ClassVar[bool] = False
    #: Whether the frame of a pane that is too low names the keys that scroll it.
    NAMES_SCROLL: ClassVar[bool] = False
    #: What is behind the tabs at the top, of a screen that has none.
    TITLE: ClassVar[str | None] = None
    #: How to read it, for the help.
    reading: Reading
    #: Whether the pane about the selected row has no room.
    hides_details = False

    def __init__(self, search: SearchPresenter) -> None:
        super().__init__()
        paint_less(self)
        self.search = search
        self.presenter: Presenter[Any] = search  # whose messages are in the status line
        self._read_for: object = None
        self._frames = Frames()
        self._letters, self._frame = False, 0  # whether keys are letters of a line; the frame of the spinner
        self.status_line = Pane(lambda cells: [self.status_at(cells)], id="status")

    def compose(self) -> ComposeResult:
        # Textual sets these classes after the first layout: another one would be seen for a moment.
        steps = (self.HORIZONTAL_BREAKPOINTS, self.VERTICAL_BREAKPOINTS)
        for size, limits in zip(self.app.size, steps, strict=True):
            self.add_class(max(limit for limit in limits if limit[0] <= size)[1], update=False)
        yield Banner()
        yield Top(id="top")
        yield from self.body()
        yield self.status_line
        yield FilterLine()
        yield KeyBar(id="keys")

    def body(self) -> Iterable[Widget]:
        """What is between the top and the status line."""
        return ()

    def status_at(self, cells: int) -> Line:
        """What the status line says."""
        return status.status(self.search.view, self.search.activity, cells, self._frame)

    def on_mount(self) -> None:
        self.search.listen(self.search_changed)

    def on_unmount(self) -> None:
        self.search.unlisten(self.search_changed)

    def search_changed(self) -> None:
        """The state of the search or its activity has changed."""
        if self.is_mounted and self.is_current:
            self.read_again()
            self.draw()

    def read_again(self) -> None:
        """Begin to read what is drawn, where the search has changed that."""

    def read_for(self, now: object, work: Callable[[], Awaitable[object]]) -> None:
        """Run ``work`` when ``now`` is another than last time, or the screen is shown again."""
        if now != self._read_for:
            self._read_for = now
            self.run_in(work, "read")

    def on_screen_resume(self, event: ScreenResume) -> None:
        event.refresh_styles &= self.stack_updates > 0  # at first all was styled as it was mounted
        self._read_for = None
        self.search_changed()

    def on_descendant_focus(self) -> None:
        if self.is_attached:  # else it was closed meanwhile
            typed, self._letters = self._letters, isinstance(self.focused, Input)
            (self.draw_keys if typed is self._letters else self.draw_all)()  # texts name the keys that work

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw_all)  # the breakpoint's classes come with the new layout

    # -- drawing ------------------------------------------------------------------------------------------

    def draw_all(self) -> None:
        """Draw also what ``draw`` leaves as it is."""
        self.draw()

    def draw(self) -> None:
        """Draw everything anew, before the app ends."""
        if not (self.is_mounted and self.is_attached):
            return
        self.set_class(self.app.size.height < _FEW, "-few")
        header = self.search.sync.header
        if self.OF_CONFIGURED and header.backend:
            header = replace(header, backend=self.search.service.configured_backend)
        header = replace(header, provider=self.search.sync.instead or header.provider)
        self.query_one(Banner).show(self.search.view.shown_faults)
        self.query_one(Top).show_tabs(header, tab_of(self), self.TITLE or "")
        self.draw_body()
        self.draw_keys()
        for widget in self._frames.widgets:  # their edges depend on the size of the screen
            self.label(widget)

    def draw_body(self) -> None:
        """Draw what is between the top and the status line."""

    def draw_keys(self) -> None:
        self.status_line.changed()
        where = "filter" if isinstance(self.focused, FilterLine) else self.key_place()
        bar, target = self.query_one(KeyBar), self.current_list
        still = self.NAMES_SCROLL or self.lower_pane.max_scroll_y <= 0
        idle = {f"show_{self.WHERE}", "filter" * (target is not None and not target.counted[1])}
        idle |= {"scroll_down" * still, "messages" * (not self.hides_details), "repair" * (not self.repairs)}
        bar.show(where, self.idle_keys() | idle | waiting(self.search.activity), self.first_keys())
        clears = "clear" * (target is not None and target.wanted != "")
        bar.rename(clears, "leave", "cancel")
        bar.rename(clears or "close" * (self.closes is not None), "quit")

    def label(self, widget: Widget, title: str | None = None, subtitle: str | None = None) -> None:
        """Set what is on the frame of a widget; that of a filtered list says so instead of its subtitle."""
        words = next((markup(table.filtered) for table in framed(widget) if table.filtered), "")
        said = f"{words} · {key_hint('leave', 'clear')}" if words else ""
        self._frames.label(widget, title, subtitle, instead=said, one_edge=self.low)

    def key_place(self) -> str:
        """Whose keys are shown at the bottom (``Action.where``)."""
        return self.WHERE

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return action not in IN_TURN or bool(self.search.view.shown_faults) == (action == "clear_faults")

    def idle_keys(self) -> frozenset[str]:
        """Ids of actions that do nothing just now, and so are not at the bottom."""
        return frozenset()

    @property
    def repairs(self) -> bool:
        """Whether there is something to repair, as far as this screen knows."""
        activity = self.search.activity
        found = activity.errors > 0 and activity.repairable
        return activity.damage is not None or activity.is_empty or found

    def first_keys(self) -> frozenset[str]:
        """Ids of those that matter most just now: they stay at the bottom where room is short."""
        return frozenset()

    @property
    def narrow(self) -> bool:
        """One column."""
        return not self.has_class("-wide")

    @property
    def low(self) -> bool:
        """One column of few lines, but enough for panes: their frames have one edge."""
        return self.has_class("-narrow") and self.has_class("-short")

    @property
    def current_list(self) -> CursorList | None:
        """The list that the keys of lists are for."""
        return self.focused if isinstance(self.focused, CursorList) else None

    @property
    def closes(self) -> Callable[[], object] | None:
        """What closes what is open on this screen: the filter of the list with the keys; None without one."""
        target = self.current_list
        return partial(target.filter, "") if target is not None and target.wanted else None

    @property
    def lower_pane(self) -> Lines:
        """What J and K scroll."""
        return self.query_one(".pane", Pane)

    @on(CursorList.Moved)
    def _label_frames(self, event: CursorList.Moved) -> None:
        if self.is_attached:
            self.label(frame_of(event.control))
            self.draw_keys()  # a filter may have come or gone

    def run_in(self, work: Callable[[], Awaitable[object]], group: str, exclusive: bool = True) -> None:
        """Run a coroutine; with ``exclusive`` the one that runs in the group is cancelled."""
        self.run_worker(work, group=group, exclusive=exclusive, exit_on_error=False)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and (error := event.worker.error) is not None:
            self.search.trouble(str(Unexpected(error)))
