"""The search lab: lays out its panes, runs the lab's coroutines as workers, and draws each new view."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.reactive import reactive
from textual.timer import Timer
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from openclaw_mem_engine.api import Row, UsageError
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.providers.render.faults import in_short
from openclaw_mem_tui.features.search.actions import SearchActions
from openclaw_mem_tui.features.search.guide import DemoGuide, left_behind, lesson_lines, taken_up
from openclaw_mem_tui.features.search.hit_list import HitList
from openclaw_mem_tui.features.search.knob_panel import KnobPanel
from openclaw_mem_tui.features.search.presenter import DEBOUNCE, Lab
from openclaw_mem_tui.features.search.preview import Preview
from openclaw_mem_tui.features.search.query import QueryLine
from openclaw_mem_tui.features.search.render import funnel
from openclaw_mem_tui.features.search.render.hits import lost
from openclaw_mem_tui.features.search.render.knobs import hint
from openclaw_mem_tui.features.search.render.landing import landing
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.features.search.state import View, nudged, reset, same_rows
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.status import Activity
from openclaw_mem_tui.widgets.banner import Banner
from openclaw_mem_tui.widgets.key_bar import KeyBar
from openclaw_mem_tui.widgets.panes import Pane, Waterfall, nothing

#: Seconds between frames of the spinner, while something runs.
_FRAME = 0.12
#: Seconds of waiting after which rows of an older query are dimmed; sooner would flicker at every key.
_STALE_AFTER = 0.15


class SearchScreen(SearchActions):
    """One frozen ``View`` drives everything that is drawn; ``activity`` drives the edges."""

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-wide")]  # noqa: RUF012
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (16, "-short"), (30, "-tall")]  # noqa: RUF012
    BINDINGS = bindings("lab")  # type: ignore[assignment]
    HELP = "Search the memory and see why every passage is, or is not, in the answer."

    view: reactive[View | None] = reactive(None, init=False, repaint=False)
    activity: reactive[Activity] = reactive(Activity(), init=False, repaint=False)

    def __init__(self, lab: Lab, guide: DemoGuide | None, initial_query: str) -> None:
        super().__init__()
        self.lab = lab
        lab.listen(self._take_over)
        self.guide = guide
        self.initial_query = initial_query
        self._clock: Timer | None = None
        self._stale_timer: Timer | None = None
        self._frame = 0
        self._fault_opens = bool(lab.view.faults)  # the comparison opens on its first row

    def compose(self) -> ComposeResult:
        yield Banner()
        yield Pane(id="top")
        yield QueryLine(id="query")
        yield Pane(id="lesson")
        yield Pane(id="strip")
        yield Pane(id="funnel")
        with Container(id="body"):
            yield HitList(id="hits")
            with Vertical(id="side"):
                yield Waterfall(id="waterfall", classes="pane")
                yield Preview(id="preview")
                with Vertical(id="knob-box", classes="pane"):
                    yield KnobPanel(id="knobs")
                    yield Pane(id="hint")
        yield Pane(id="notes")
        yield Pane(id="status")
        yield KeyBar(id="keys")

    def on_mount(self) -> None:
        self.hits.border_title, self.waterfall.border_title = "hits", "waterfall"
        self.knob_box.border_title = "knobs"
        self.knob_box.border_subtitle = "p closes"
        self._clock = self.set_interval(_FRAME, self._tick)
        self.hits.landing = landing(self.lab.view, self.lab.activity, self.guide)
        if self.initial_query:
            with self.prevent(Input.Changed):
                self.query_line.value = self.initial_query
            self.lab.ask(self.initial_query)
        self._take_over()
        (self.hits if self.guide or self.initial_query else self.query_line).focus()
        self._run(self._start, "start")

    async def _start(self) -> None:
        """Open, load the first lesson, answer what is there already, sync, answer again, watch."""
        if not await self.lab.open():
            return
        if self.citations is None:
            self.citations = self.lab.service.settings.citations
        if self.guide is not None and not self.initial_query:
            self.load_lesson(self.guide.start)
        elif self.lab.view.query.strip() or self.lab.view.faults:
            self.search_soon(0.0)
        await self.lab.start()
        self._run(self.lab.watch, "watch")

    # -- workers ------------------------------------------------------------------------------------------

    def _run(self, work: Callable[[], Awaitable[object]], group: str, exclusive: bool = True) -> None:
        self.run_worker(work, group=group, exclusive=exclusive, exit_on_error=False)

    def search_soon(self, delay: float = DEBOUNCE) -> None:
        """Search after a quiet moment; a search that runs for something older is cancelled."""
        self._run(partial(self.lab.search, delay), "search")
        if self._stale_timer is None:
            self._stale_timer = self.set_timer(delay + _STALE_AFTER, self._mark_stale)

    def resync(self, *, force: bool = False, verify: bool = False) -> None:
        """Sync and answer the last query again; before that, try to open an index that is not open."""

        async def sync_and_search() -> None:
            if self.lab.service.is_open:
                await self.lab.sync(force=force, verify=verify, tails=True)
                await self.lab.refresh()
            else:
                await self._start()

        # A sync is never cut off by the next one: the lab does that right after it.
        opened = self.lab.service.is_open
        self._run(sync_and_search, "sync" if opened else "start", exclusive=not opened)

    def cancel_work(self) -> bool:
        """Cancel a running search, else a running sync. False when nothing ran."""
        if self.lab.activity.searching or self.lab.view.pending:
            self.workers.cancel_group(self, "search")
            self.lab.give_up()
            return True
        if self.lab.activity.phase == "syncing":
            self.lab.stop_sync()
            return True
        return False

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.error is not None:
            error = event.worker.error
            self.lab.trouble(f"Unexpected {type(error).__name__}: {error}. This is a defect of openclaw-mem.")

    # -- state to screen ----------------------------------------------------------------------------------

    def _take_over(self) -> None:
        self.view = self.lab.view
        self.activity = self.lab.activity

    def watch_view(self, before: View | None, view: View | None) -> None:
        if view is None or not self.is_mounted:
            return
        if view.trace is None:
            self.hits.landing = landing(view, self.lab.activity, self.guide)
        if before is not None and same_rows(before, view):
            self.hits.view = view
            self._draw_lesson()
            self._draw_edges()
            return
        self.hits.show(view)
        if self._fault_opens and view.answers:
            self._fault_opens = False
            self.hits.go(0)
            self.hits.scroll_home(animate=False)
        if self.lesson_opens and view.answers and view.trace is not None and view.trace.rows:
            self.lesson_opens = False
            self.hits.point_at(lost(view))
        self.funnel.show(lambda cells: [funnel.funnel(view, cells)])
        self.strip.show(lambda cells: [funnel.strip(view.knobs, view.defaults, cells)])
        self.query_line.border_subtitle = funnel.counts(view, self.size.width)
        if self.knobs_open:
            self.knob_panel.show(view.knobs, view.defaults)
            self.draw_hint()
        self._label_hits()
        self._draw_lesson()
        self.show_row(self.hits.selected)
        self._draw_edges()

    def watch_activity(self) -> None:
        if not self.is_mounted:
            return
        if self.lab.view.trace is None:
            self.hits.landing = landing(self.lab.view, self.activity, self.guide)
            self.hits.changed()
        self._draw_edges()
        if self._clock is not None:
            (self._clock.resume if self.activity.busy else self._clock.pause)()

    def _draw_edges(self) -> None:
        view, activity = self.lab.view, self.lab.activity
        self.banner.show(view.shown_faults)
        self.top.show(lambda cells: [status.top(self.lab.place, cells)])
        self.status_line.show(lambda cells: [status.status(view, activity, cells, self._frame)])
        noted = bool(status.soundness(view, activity, 80))
        self.notes.set_class(noted, "-on")
        if noted:
            self.notes.show(lambda cells: status.soundness(view, activity, cells))
        self.draw_keys()

    def _label_hits(self) -> None:
        trace = self.lab.view.trace
        self.hits.border_subtitle = f"columns: {self.hits.mode} (v)" if trace is not None else ""

    def _draw_lesson(self) -> None:
        guide, place, view = self.guide, self.lesson_at, self.lab.view
        shown = guide is not None and place is not None and guide.lessons[place].query == self.lab.view.query
        if not shown:
            self.lesson_at = None
        broken = bool(view.pool_faults) and view.compares
        self.lesson.set_class(shown or broken, "-on")
        self.set_class(shown or broken, "-lesson")
        if broken:
            # What a lesson says need not be true under a fault, and its baseline is not the one shown.
            self.lesson.show(lambda cells: [in_short(view, cells)])
        elif shown and guide is not None and place is not None:
            self.lesson.show(lambda cells: lesson_lines(guide, place, cells))

    def show_row(self, row: Row | None) -> None:
        """Waterfall and preview of one row."""
        view = self.lab.view
        if row is None:
            self.waterfall.show(nothing)
        else:
            chosen = row
            self.waterfall.show(lambda cells: waterfall(view, chosen, cells))
        self.fit_waterfall()
        self.draw_preview(row)

    def _mark_stale(self) -> None:
        self._stale_timer = None
        self.hits.set_stale(self.lab.view.pending)

    def _tick(self) -> None:
        self._frame += 1
        self.lab.tick()
        if self.activity.busy:
            self.status_line.changed()
        elif self._clock is not None:
            self._clock.pause()

    # -- events -------------------------------------------------------------------------------------------

    @on(Input.Changed, "#query")
    def _typed(self, event: Input.Changed) -> None:
        if self.guide is not None and self.lesson_at is not None:
            lesson = self.guide.lessons[self.lesson_at]
            if event.value != lesson.query:
                self.lab.view = left_behind(self.lab.view, lesson)
        if self.lab.ask(event.value):
            self.search_soon()
        else:
            self.workers.cancel_group(self, "search")

    @on(Input.Submitted, "#query")
    def _submitted(self) -> None:
        self.action_leave_query()

    @on(HitList.Selected)
    def _selected(self, event: HitList.Selected) -> None:
        self.show_row(event.row)

    @on(HitList.Chosen)
    async def _chosen(self) -> None:
        await self.run_action("get")

    @on(KnobPanel.Step)
    def _stepped(self, event: KnobPanel.Step) -> None:
        self.tune(nudged(self.lab.view.knobs, event.name, event.direction, event.large))

    @on(KnobPanel.Reset)
    def _reset(self, event: KnobPanel.Reset) -> None:
        view = self.lab.view
        self.tune(reset(view.knobs, view.defaults, event.name))

    @on(KnobPanel.Moved)
    def _knob_moved(self) -> None:
        self.draw_hint()

    @on(KeyBar.Pressed)
    async def _key_pressed(self, event: KeyBar.Pressed) -> None:
        target = self.knob_panel if event.action.where == "knobs" else self
        await self.app.run_action(event.action.id, target)

    def on_descendant_focus(self) -> None:
        self.draw_keys()

    def draw_hint(self) -> None:
        name, knobs = self.knob_panel.name_at_cursor, self.lab.view.knobs
        self.hint.show(lambda cells: hint(name, cells, knobs))

    def switch_faults(self, faults: frozenset[str]) -> None:
        """Switch faults, and answer the last query anew; without one, that of the first lesson."""
        self.lab.switch(faults)
        self._fault_opens = True
        if faults and not self.lab.view.query.strip():
            if self.guide is not None:
                self.load_lesson(self.guide.start)
            elif self.lab.history.queries:
                self.query_line.value = self.lab.history.queries[-1]
        self.lesson_opens = False
        self.search_soon(0.0)

    def load_lesson(self, place: int) -> None:
        """Ask a lesson's query with its knobs, against its baseline."""
        if self.guide is None:
            return
        try:
            view = taken_up(self.lab.view, self.guide.lessons[place])
        except UsageError as error:
            self.lab.trouble(str(error))
            return
        self.lesson_at, self.lesson_opens = place, True
        with self.prevent(Input.Changed):
            self.query_line.value = view.query
        self.lab.set_view(view)
        self.lab.history.add(view.query)
        self.search_soon(0.0)
