"""The screen of the search lab: lays out its panes, runs the presenter's coroutines, draws each new view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.widgets import Input

from openclaw_mem_tui.bindings import bindings, key
from openclaw_mem_tui.features.search.actions import HitActions, NoteActions, QueryActions
from openclaw_mem_tui.features.search.lessons import knob_strip, lines_above, opens_on, over_hits
from openclaw_mem_tui.features.search.remembered import CONTINUES, offered
from openclaw_mem_tui.features.search.render import above, legend
from openclaw_mem_tui.features.search.run_actions import RunActions
from openclaw_mem_tui.features.search.start_page import idle_keys, is_blank, takes_back
from openclaw_mem_tui.features.search.state import View, same_rows
from openclaw_mem_tui.features.why_not.actions import WhyNotActions
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.damage import waiting
from openclaw_mem_tui.render.spans import Line, Reading
from openclaw_mem_tui.widgets.edges import FRAME_S, KeyBar
from openclaw_mem_tui.widgets.frames import frame_of, key_hint
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.lists import CursorList


class SearchScreen(QueryActions, HitActions, NoteActions, RunActions, WhyNotActions):
    """One frozen ``View`` drives everything that is drawn; ``activity`` drives the edges."""

    #: Beside panes, the list has room for the columns that it has in one column of 80 cells.
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (118, "-wide")]  # noqa: RUF012
    BINDINGS = bindings("search")  # type: ignore[assignment]

    def body(self) -> ComposeResult:
        self.set_class(is_blank(self.search) and not self._initial_query, "-landing", update=False)
        yield from (self.query_line.beside_key(), self.lesson, self.strip, self.answer, self.funnel)
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
        # Letters are keys where there are results, and a query on the start page alone. At once: keys that
        # were typed before wait for it (``Workbench.on_mount``).
        results = self._initial_query or self.search.guide is not None
        self.set_focus(self.hits if results else self.query_line)
        # Loading the engine would take half of the time to the first frame, which says that it is loaded.
        self.call_after_refresh(self.run_in, self._start, "start")

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
        if self.opens_on is not None and view.answers:
            at, self.opens_on = self.opens_on, None
            self.hits.point_at([row for row in self.hits.rows if (row.path, row.start_line) == at])
        self.hits.catch_up()
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
            self.answer.show(lambda cells: above.above(view, cells, most))
            self.funnel.show(lambda cells: above.numbers(view, cells, most, not self.narrow))
            self._fit_waterfall()

    def draw_all(self) -> None:
        super().draw_all()
        self.strip.changed()
        self._draw_numbers()
        self.label_hits()  # the room decides about what it says

    def _activity_changed(self, before: status.Activity, now: status.Activity) -> None:
        empty = self.focused is self.query_line and not self.query_line.value
        if empty and waiting(now) and not waiting(before):
            self.set_focus(self.hits)  # where the key that the page names works at once
        if self._clock is not None and (now.busy != before.busy or not now.busy):
            (self._clock.reset if now.busy else self._clock.pause)()
        if now != replace(before, searching=now.searching):
            if self.search.view.trace is None:
                self.hits.changed()
                self.strip.changed()  # whether the knobs are known
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
        brief = self.narrow and self.has_class("-few")
        self.lesson.show(partial(over_hits, self.search, brief=brief, low=self.low, profile=not self.narrow))
        self.query_line.label(view)
        notes = partial(status.soundness, view, activity, framed=self.has_class("-tall"))
        self.notes.set_class(bool(notes(80)), "-on")
        self.notes.show(notes)

    def draw_keys(self) -> None:
        super().draw_keys()
        bar = self.query_one(KeyBar)
        bar.rename("undo write" * takes_back(self.search), "apply_knobs")
        left, asks = offered(self.search), self.hits.asks
        ask = "continue" if left is not None and asks == left[0] else "ask"
        bar.rename(ask if is_blank(self.search) else "snippet" if self.preview.kind == "get" else "", "get")
        guide, at = self.search.guide, self.search.lesson_at
        lesson = "first lesson" if guide is not None and at == len(guide) - 1 else ""
        bar.rename("back to the lesson" if guide is not None and at is None else lesson, "next_lesson")
        does = "close" if self.focused is self.knob_panel else "go here"
        self.label(frame_of(self.knob_panel), subtitle=key_hint("knobs", does))

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
        alone = self.narrow and not self.has_class("-pane-preview")
        return self.waterfall if alone or self.waterfall.has_focus else self.preview

    def key_place(self) -> str:
        if self.focused is self.query_line:
            return ("start" if self.hits.asks else "blank") if is_blank(self.search) else "query"
        return "knobs" if self.focused is self.knob_panel else "search"

    @property
    def HELP(self) -> str:  # type: ignore[override]
        """What the first row of the start page does, where it is there."""
        return CONTINUES if is_blank(self.search) and offered(self.search) is not None else ""

    @property
    def reading(self) -> Reading:  # type: ignore[override]
        return legend.legend(self.search.view.trace)

    def messages(self, cells: int) -> list[Line]:
        lesson, others = over_hits(self.search, cells, full=True), super().messages(cells)
        return [*others, *lesson] if self.search.activity.said else [*lesson, *others]

    def idle_keys(self) -> frozenset[str]:
        return idle_keys(self.search, self.hits.asks)

    def first_keys(self) -> frozenset[str]:
        return frozenset({"swap", "next_lesson"} if self.search.lesson_at is not None else ())

    async def action_next_pane(self, step: int) -> None:
        """Never the query line, where the keys behind this one would be letters."""
        if self.query_line.has_focus:
            await self.action_leave_query()
            return
        if self.has_class("-narrow"):
            if self.knobs_open:
                self.toggle_knobs()
            self.toggle_class("-pane-preview")
            return
        others = (self.knob_panel, self.waterfall, self.preview)
        ring = [self.hits, *(pane for pane in others if pane.is_on_screen and pane.focusable)]
        if not ring[1:]:
            self.search.say(f"keys move in the chunks alone; {key('knobs')} opens the knobs")
        at = next((i for i, pane in enumerate(ring) if pane.has_focus), 0)
        self.set_focus(ring[(at + step) % len(ring)])

    @on(Input.Changed, "#query")
    def _typed(self) -> None:
        # Not the value of the event: it may come behind a key that has asked for all that was typed.
        self.ask(self.query_line.value)

    @on(CursorList.Chosen, "#hits")
    async def _chosen(self) -> None:
        await self.run_action("get")
