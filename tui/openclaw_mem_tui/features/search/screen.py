"""The screen of the search lab: lays out its panes, runs the presenter's coroutines, draws each new view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.timer import Timer
from textual.widgets import Input

from openclaw_mem_engine.api import Knobs
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.search.hit_list import HitList
from openclaw_mem_tui.features.search.knob_panel import KnobPanel
from openclaw_mem_tui.features.search.lessons import knob_strip, lines_above, opens_on, over_hits
from openclaw_mem_tui.features.search.presenter import DEBOUNCE, SearchPresenter
from openclaw_mem_tui.features.search.preview import Preview, Waterfall
from openclaw_mem_tui.features.search.query_line import QueryLine
from openclaw_mem_tui.features.search.render import above, legend
from openclaw_mem_tui.features.search.render.knobs import hint
from openclaw_mem_tui.features.search.run_actions import GROUPS
from openclaw_mem_tui.features.search.start_page import idle_keys, is_blank, takes_back
from openclaw_mem_tui.features.search.state import View, same_rows, turned
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.spans import Line, Reading
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.edges import FRAME_S, KeyBar
from openclaw_mem_tui.widgets.frames import frame_of, key_hint
from openclaw_mem_tui.widgets.line_view import Brief, Pane
from openclaw_mem_tui.widgets.lists import CursorList

#: Seconds of waiting after which rows of an older query are dimmed; sooner would flicker at every key.
_STALE_AFTER = 0.15


class SearchScreen(WorkbenchScreen):
    """One frozen ``View`` drives everything that is drawn; ``activity`` drives the edges."""

    WHERE = "search"
    #: Beside panes, the list has room for the columns that it has in one column of 80 cells.
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (118, "-wide")]  # noqa: RUF012
    BINDINGS = bindings("search")  # type: ignore[assignment]

    def __init__(self, search: SearchPresenter, initial_query: str = "") -> None:
        super().__init__(search)
        self.query_line = QueryLine()
        self.hits = HitList(search)
        self.waterfall = Waterfall(id="waterfall", classes="pane")
        self.preview = Preview()
        self.knob_panel = KnobPanel()
        self.hint, self.verdict = Pane(id="hint"), Pane(id="verdict")
        self.lesson, self.strip, self.funnel = Pane(id="lesson"), Pane(id="strip"), Pane(id="funnel")
        self.notes = Brief(4, id="notes")
        for group in GROUPS:
            group(self)
        self._looks = bool(initial_query)  # at hits, before typing
        self._initial_query = initial_query or search.remembered.query
        self._clock: Timer | None = None
        self._stale_timer: Timer | None = None
        self._view: View | None = None  # what is drawn
        self._activity = status.Activity()
        # The cursor of the next answer: on the first row of a comparison, on the row of a lesson.
        self._fault_opens, self._lesson_opens = bool(search.view.faults), False

    def body(self) -> ComposeResult:
        self.set_class(is_blank(self.search) and not self._initial_query, "-landing", update=False)
        yield from (self.query_line.beside_key(), self.lesson, self.strip, self.verdict, self.funnel)
        with Container(id="body"):
            yield self.hits
            with Vertical(id="side"):
                yield from (self.waterfall, self.preview)
                yield Vertical(self.knob_panel, self.hint, id="knob-box", classes="pane listed")
        yield self.notes

    def on_mount(self) -> None:
        self.watch(self.hits, "scroll_y", self.label_hits, init=False)
        self._clock = self.set_interval(FRAME_S, self._tick)
        if self._initial_query:
            self.query_line.put(self._initial_query)
            self.search.ask(self._initial_query)
        # At once: keys that were typed before wait for it (``Workbench.on_mount``).
        self.set_focus(self.hits if self._looks else self.query_line)
        # Loading the engine would take half of the time to the first frame, which says that it is loaded.
        self.call_after_refresh(self.run_in, self._start, "start")

    async def _start(self) -> None:
        """Open, load the first lesson, answer what was asked already, sync, answer again, watch."""
        if not await self.search.open():
            return
        self.search.service.warm_up()
        self.preview.citations = self.preview.citations or self.search.service.settings.citations
        if self.search.guide is not None and not (self._initial_query or self.query_line.value):
            self.load_lesson(0)
            if not self.query_line.called:
                self.set_focus(self.hits)
        elif self.search.view.query.strip() or self.search.view.faults:
            self.search_soon(0.0)
        await self.search.sync.start()
        await self.search.begin()
        self.hits.changed()
        self.draw_keys()
        self.run_in(self.search.sync.watch, "watch")
        self.run_in(self.search.sync.check_file, "check")

    # -- workers ------------------------------------------------------------------------------------------

    def search_soon(self, delay: float = DEBOUNCE) -> None:
        """Search after ``delay`` seconds of quiet; a search that runs for something older is cancelled."""
        self.run_in(partial(self.search.search, delay), "search")
        if self._stale_timer is None:
            self._stale_timer = self.set_timer(delay + _STALE_AFTER, self._mark_stale)

    def tune(self, knobs: Knobs, *, by_step: bool = False) -> None:
        """Other knobs: ranked again in this frame when possible, else searched after a quiet moment."""
        if self.search.tune(knobs, by_step=by_step):
            self.search_soon(0.12)

    def resync(self, job: Job) -> None:
        """Sync and answer the last query again; an index that is not open is opened first."""
        if self.search.service.is_open:
            # A running sync is not cancelled: this one follows it.
            self.run_in(partial(self.search.sync.sync_and_refresh, job), "sync", exclusive=False)
        elif self.search.activity.phase != "opening":
            self.run_in(self._start, "start")

    def cancel_work(self) -> bool:
        """Cancel a running search, else a running sync. False when nothing ran."""
        if self.search.service.is_open and (self.search.activity.searching or self.search.view.pending):
            self.workers.cancel_group(self, "search")
            self.search.give_up()
        elif self.search.activity.phase == "syncing":
            self.search.sync.stop_sync()
        else:
            return False
        return True

    def switch_faults(self, faults: frozenset[str], *, by_step: bool = False) -> None:
        """Simulate these faults, with the last query or the first lesson's. ``by_step``: as for ``tune``."""
        self.search.switch_faults(faults, by_step=by_step)
        self._fault_opens = True
        if faults and not self.search.view.query.strip():
            if self.search.guide is not None:
                self.load_lesson(0)
            elif self.search.history.queries:
                self.query_line.value = self.search.history.queries[-1]
        self._lesson_opens = False
        self.search_soon(0.0)

    def load_lesson(self, number: int) -> None:
        """Ask a lesson's query with its knobs, against its baseline; of its backend, once that is there."""
        backend = self.search.backend_of(number)

        async def switch() -> None:
            if await self.search.use_backend(backend):
                self.load_lesson(number)

        if backend != self.search.view.backend:
            self.run_in(switch, "backend")
        elif self.search.load_lesson(number):
            self._lesson_opens = True
            self.query_line.put(self.search.view.query)
            self.search_soon(0.0)

    # -- state to screen ----------------------------------------------------------------------------------

    def search_changed(self) -> None:
        before, self._view = self._view, (view := self.search.view)
        activity, self._activity = self._activity, self.search.activity
        if self._stale_timer is not None and not view.pending:
            self._stale_timer.stop()
            self._stale_timer = None
        if self.is_attached and view is not before:
            self._view_changed(before, view)
        if self.is_attached and activity != self._activity:
            self._activity_changed(activity, self._activity)

    def _view_changed(self, before: View | None, view: View) -> None:
        if before is not None and same_rows(before, view):
            self.hits.view = view
            self.draw()
            return
        self.hits.show_view(view)
        if self._fault_opens and view.answers:
            self._fault_opens = False
            self.hits.action_go(-self.hits.cursor)
            self.hits.scroll_home(animate=False)
        if self._lesson_opens and view.answers and view.trace and view.trace.rows:
            self._lesson_opens = False
            self.hits.point_at(opens_on(self.search))
        self.strip.show(lambda cells: [knob_strip(self.search, cells)])
        if self.knobs_open:
            self.knob_panel.show_knobs(view.knobs, view.defaults)
            self.draw_hint()
        self.label_hits()
        self.draw()
        self._draw_numbers()
        self.show_row()

    def _draw_numbers(self) -> None:
        if self.is_attached:  # and the app does not end
            view, most = self.search.view, lines_above(self)
            self.verdict.show(lambda cells: above.above(view, cells, most))
            self.funnel.show(lambda cells: above.numbers(view, cells, most))
            self._fit_waterfall()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw_numbers)

    def _activity_changed(self, before: status.Activity, now: status.Activity) -> None:
        if self._clock is not None and (now.busy != before.busy or not now.busy):
            (self._clock.reset if now.busy else self._clock.pause)()
        if now != replace(before, searching=now.searching):
            if self.search.view.trace is None:
                self.hits.changed()
            self.draw()
        elif not now.searching:  # the first frame of the spinner says that it does: most are done before
            self.status_line.changed()

    def draw(self) -> None:
        """The edges; the panes are drawn when the view changes."""
        self.set_class(blank := is_blank(self.search), "-landing")
        self.label(self.hits, "start" if blank else "chunks")
        super().draw()
        view, activity = self.search.view, self.search.activity
        compared = bool(view.pool_faults) and view.compares
        self.set_class(compared or self.search.lesson_at is not None, "-lesson")
        # Its lines depend on the size of the screen too.
        self.lesson.show(partial(over_hits, self.search, brief=self.narrow and self.has_class("-few")))
        self.query_line.label(view)
        notes = partial(status.soundness, view, activity, framed=self.has_class("-tall"))
        self.notes.set_class(bool(notes(80)), "-on")
        self.notes.show(notes)

    def draw_keys(self) -> None:
        super().draw_keys()
        bar = self.query_one(KeyBar)
        bar.rename("undo write" * takes_back(self.search), "apply_knobs")
        bar.rename("ask" if is_blank(self.search) else "snippet" if self.preview.kind == "get" else "", "get")
        bar.rename("hide" if self.hits.dropped else "show", "dropped")
        does = "close" if self.focused is self.knob_panel else "go here"
        self.label(frame_of(self.knob_panel), "knobs", key_hint("knobs", does))

    def label_hits(self) -> None:
        said = " · ".join((*self.hits.said, key_hint("columns", f"columns: {self.hits.mode}")))
        self.label(self.hits, subtitle=said if self.search.view.trace is not None else "")

    @on(CursorList.Moved, "#hits")
    def show_row(self) -> None:
        """Waterfall and preview of the selected row."""
        view, row = self.search.view, self.hits.selected
        self.waterfall.show_row(view, row, self.hits.marker)
        self._fit_waterfall()
        self.preview.follow(view, row, self.hits.marker)

    def show_snippet(self) -> None:
        """The preview shows the snippet of the selected row again."""
        self.preview.follow(self.search.view, self.hits.selected, self.hits.marker, again=True)

    def _fit_waterfall(self) -> None:
        row, room = self.hits.selected, self.hits.outer_size.height
        self.waterfall.fit(self.search.view, row, self.knobs_open, room)

    @property
    def knobs_open(self) -> bool:
        return self.has_class("-knobs")

    def toggle_knobs(self) -> None:
        self.toggle_class("-knobs")
        if self.knobs_open:
            self.knob_panel.open(self.search.view)
            self.draw_hint()
        else:
            self.knob_panel.filter("")
            self.hits.focus()
        self._fit_waterfall()
        self.draw_keys()

    @on(CursorList.Moved, "#knobs")
    def draw_hint(self) -> None:
        name, knobs = self.knob_panel.name_at_cursor, self.search.view.knobs
        self.hint.show(lambda cells: hint(name, cells, knobs, 3 if self.has_class("-tall") else 2))

    def _mark_stale(self) -> None:
        self._stale_timer = None
        self.hits.set_stale(self.search.view.pending)
        self.status_line.changed()

    def _tick(self) -> None:
        self._frame += 1
        self.search.sync.tick()
        self.status_line.changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("guide", "next_lesson", "previous_lesson"):
            return self.search.guide is not None
        return super().check_action(action, parameters)

    @property
    def closes(self) -> Callable[[], object] | None:
        """As there; then the knobs, then what the preview shows instead of the snippet."""
        other = self.show_snippet if self.preview.kind != "snippet" else None
        return super().closes or (self.toggle_knobs if self.knobs_open else other)

    @property
    def current_list(self) -> CursorList:
        return self.knob_panel if self.focused is self.knob_panel else self.hits

    @property
    def lower_pane(self) -> Pane:
        return self.waterfall if self.narrow and not self.has_class("-pane-preview") else self.preview

    def key_place(self) -> str:
        if self.focused is self.query_line:
            return ("start" if self.hits.asks else "blank") if is_blank(self.search) else "query"
        return "knobs" if self.focused is self.knob_panel else "search"

    @property
    def reading(self) -> Reading:  # type: ignore[override]
        return legend.legend(self.search.view.trace)

    def messages(self, cells: int) -> list[Line]:
        return [*over_hits(self.search, cells, full=True), *super().messages(cells)]

    def idle_keys(self) -> frozenset[str]:
        return idle_keys(self.search, self.hits.asks)

    def first_keys(self) -> frozenset[str]:
        return frozenset({"swap", "next_lesson"} if self.search.lesson_at is not None else ())

    @on(Input.Changed, "#query")
    def _typed(self, event: Input.Changed) -> None:
        if self.search.ask(event.value):
            self.search_soon()
        else:
            self.workers.cancel_group(self, "search")

    @on(CursorList.Chosen, "#hits")
    async def _chosen(self) -> None:
        await self.run_action("get")

    def on_knob_panel_turned(self, event: KnobPanel.Turned) -> None:
        self.tune(turned(self.search.view, event.name, event.direction, event.large))
