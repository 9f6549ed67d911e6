"""The search lab without its layout: its widgets, the work that keys start, what is beside the hits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from textual import on
from textual.timer import Timer
from textual.widgets import Input

from openclaw_mem_engine.api import Knobs
from openclaw_mem_tui.features.search.hit_list import HitList
from openclaw_mem_tui.features.search.knob_panel import KnobPanel
from openclaw_mem_tui.features.search.presenter import DEBOUNCE, SearchPresenter
from openclaw_mem_tui.features.search.preview import Preview, Waterfall
from openclaw_mem_tui.features.search.query_line import QueryLine
from openclaw_mem_tui.features.search.render.knobs import at_end, hint
from openclaw_mem_tui.features.search.state import View, turned
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render import status
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.sync_controller import Job
from openclaw_mem_tui.widgets.frames import frame_of, key_hint, more, rows_of, taken_by
from openclaw_mem_tui.widgets.line_view import Brief, Pane
from openclaw_mem_tui.widgets.lists import CursorList

#: Seconds of waiting after which rows of an older query are dimmed; sooner would flicker at every key.
_STALE_AFTER = 0.15


class Lab(WorkbenchScreen):
    """What the actions of the search lab are written on."""

    WHERE = "search"

    def __init__(self, search: SearchPresenter, initial_query: str = "") -> None:
        super().__init__(search)
        self.query_line = QueryLine()
        self.hits = HitList(search)
        self.waterfall = Waterfall(id="waterfall", classes="pane")
        self.preview = Preview()
        self.knob_panel = KnobPanel(self.turn_knob)
        self.hint, self.answer = Pane(id="hint"), Pane(id="answer")
        self.lesson, self.strip, self.funnel = Pane(id="lesson"), Pane(id="strip"), Pane(id="funnel")
        self.notes = Brief(4, id="notes")
        self._initial_query, self._switching = initial_query, asyncio.Lock()
        self._clock: Timer | None = None
        self._stale_timer: Timer | None = None
        self._view: View | None = None  # what is drawn
        self._activity = status.Activity()
        # The cursor of the next answer: on the first row of a comparison, on the row of a lesson.
        self._fault_opens, self._lesson_opens = bool(search.view.faults), False
        # The row of the next answer, by path and first line, of what is continued.
        self.opens_on: tuple[object, object] | None = None

    async def _start(self, job: Job | None = None) -> None:
        """Open, load the first lesson, answer what was asked already, sync (by the ``job``, where one was
        asked for), answer again, watch."""
        if not await self.search.open():
            return
        self.search.service.warm_up()
        self.preview.citations = self.preview.citations or self.search.service.settings.citations
        if self.search.guide is not None and not (self._initial_query or self.query_line.value):
            self.load_lesson(0)
        elif self.search.view.query.strip() or self.search.view.faults:
            self.search_soon(0.0)
        await self.search.sync.start(job)
        await self.search.begin()
        self.hits.changed()
        self.draw_keys()
        self.run_in(self.search.sync.watch, "watch")
        self.run_in(self.search.sync.check_file, "check")

    def ask(self, query: str) -> None:
        """Ask this after a quiet moment; what is asked no more is not searched."""
        before = self.search.view.query
        if self.search.ask(query):
            self.search_soon()
        elif query != before:
            self.workers.cancel_group(self, "search")

    def ask_instead(self, query: str) -> None:
        """Ask this instead of what is in the query line."""
        with self.query_line.prevent(Input.Changed):
            self.query_line.value = query
        self.query_line.cursor_position = len(query)
        self.ask(query)

    def search_soon(self, delay: float = DEBOUNCE) -> None:
        """Search after ``delay`` seconds of quiet; a search that runs for something older is cancelled."""
        self.run_in(partial(self.search.search, delay), "search")
        if self._stale_timer is None:
            self._stale_timer = self.set_timer(delay + _STALE_AFTER, self._mark_stale)

    def tune(self, knobs: Knobs, *, by_step: bool = False) -> None:
        """Other knobs: ranked again in this frame when possible, else searched after a quiet moment."""
        if self.search.tune(knobs, by_step=by_step):
            self.search_soon(0.12)

    def turn_knob(self, name: str, direction: int, large: bool) -> None:
        """A step of a knob; says so at the end of its range."""
        view = self.search.view
        self.tune(turned(view, name, direction, large))
        if said := at_end(name, getattr(view.knobs, name), direction):
            self.search.say(said)

    def use_backend(self, name: str, then: Callable[[], object]) -> None:
        """Let a backend answer, and go on with ``then``. One is opened at a time, and then the one that was
        asked for last."""
        if not self.search.service.is_open:
            return

        async def switch() -> None:
            async with self._switching:
                if name == self.search.wanted and (
                    self.search.uses(name) or await self.search.use_backend(name)
                ):
                    then()

        self.search.wanted = name
        self.run_in(switch, "backend", exclusive=False)

    def resync(self, job: Job) -> None:
        """Sync and answer the last query again; an index that could not be opened is opened first."""
        if self.search.activity.phase in ("ready", "syncing"):
            # A running sync is not cancelled: this one follows it.
            self.run_in(partial(self.search.sync.sync_and_refresh, job), "sync", exclusive=False)
        elif self.search.activity.phase != "opening":
            self.run_in(partial(self._start, job), "start")

    def note_changed(self) -> None:
        """A note was written: bring the index up to date where nothing watches the notes."""
        if self.search.activity.phase != "failed" and not self.search.service.settings.sync.watch:
            self.resync(Job(tails=True))

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
        self.search.last_lesson, self.search.awaits_lesson = number, True
        backend = self.search.backend_of(number)
        if not self.search.uses(backend):
            self.use_backend(backend, lambda: self.load_lesson(self.search.last_lesson))
        elif self.search.load_lesson(number):
            self._lesson_opens = True
            self.hits.set_dropped(True)  # the row that it is about may be one of them
            self.query_line.put(self.search.view.query)
            self.search_soon(0.0)

    def _mark_stale(self) -> None:
        self._stale_timer = None
        self.hits.set_stale(self.search.view.pending)
        self.status_line.changed()

    # -- beside the hits ----------------------------------------------------------------------------------

    def _has_hits(self) -> bool:
        """Whether there is an answer; says so when there is none."""
        if self.search.view.trace is None:
            self.search.say("there is no answer yet")
        return self.search.view.trace is not None

    def label_hits(self) -> None:
        facts, columns = self.hits.said, key_hint("columns", f"columns: {self.hits.mode}")
        said = fmt.join((*facts, *([] if self.low and facts[1:] else [columns])))
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
        self.call_after_refresh(self._label_texts)

    def on_lines_sized(self) -> None:
        self._fit_waterfall()  # of another width it has other lines

    def _label_texts(self) -> None:
        if self.is_attached:
            lower, shown = self.lower_pane, self.preview
            scrolls = lower is self.waterfall
            there = key_hint("next_pane", "to it") if self.waterfall.focusable and not scrolls else ""
            self.label(self.waterfall, subtitle=more(self.waterfall, scrolls, there))
            taken = taken_by(shown.heading) if self.low else 0
            self.label(shown, shown.heading, more(shown, lower is shown, shown.subtitle, taken))
            self.label(frame_of(self.knob_panel), fmt.join(("knobs", rows_of(self.knob_panel))))

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
            self.set_focus(self.hits)
        self._fit_waterfall()
        self.draw_keys()

    @on(CursorList.Moved, "#knobs")
    def draw_hint(self) -> None:
        name, view = self.knob_panel.name_at_cursor, self.search.view
        most = 4 if self.has_class("-tall") else 2
        self.hint.show(lambda cells: hint(name, cells, view.knobs, most, view.backend))
        self.call_after_refresh(self._label_texts)
