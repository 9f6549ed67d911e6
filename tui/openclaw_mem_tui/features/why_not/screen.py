"""Why a passage is not in the answer of the present query: its walk to the first no, and what would bring it
in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical

from openclaw_mem_engine.api import (
    ONLY_HERE_MEANS,
    Change,
    Excerpt,
    Expected,
    Knobs,
    OpenClawMemError,
    WhyNot,
    fragment,
)
from openclaw_mem_tui.bindings import bindings, key
from openclaw_mem_tui.features.search.export import save, to_paste
from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.features.search.render import preview
from openclaw_mem_tui.features.why_not import render
from openclaw_mem_tui.features.why_not.expect import toggle
from openclaw_mem_tui.features.why_not.picker import pick_passage
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.damage import damaged
from openclaw_mem_tui.render.spans import Line, Reading, line, wrapped
from openclaw_mem_tui.render.terms import Marker
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.widgets.frames import more
from openclaw_mem_tui.widgets.line_view import Brief, Lines, Pane, nothing
from openclaw_mem_tui.widgets.lists import CursorList
from openclaw_mem_tui.widgets.wrapped import WrappedTable

READING: Reading = (
    ("✓ ✗", "a step that the passage passed; the step that drops it"),
    ("!", "a step that lowers it so far that a later step drops it"),
    ("*", "below min score, and kept by keyword rescue"),
    ("rank", "rank of the passage after this change, and no other"),
    ("weak", "no keyword match, and not close in meaning: the result is probably noise"),
    ("adds", "other results that the change also returns"),
    ("removes", "results that the change no longer returns"),
    ("returns it", "the rule that does, where its own score does not"),
    ("‡", "a change that ranks so in openclaw-mem alone: OpenClaw has no such setting"),
    ("note", "a change of the text, not of a knob"),
)


#: Lines of a note that are shown where the passage is not known.
_LINES = 12
#: Rows of a passage, if it has so many, without which it is not shown.
_LEAST = 3
#: The lines of one row each around the panes.
_EDGES = ("top", "status", "keys")


class WhyNotScreen(WorkbenchScreen):
    """Walks again when query, knobs or index have changed."""

    WHERE, reading = "why_not", READING
    NAMES_SCROLL = True
    TITLE = "why not"
    CSS_PATH = "styles.tcss"
    BINDINGS = bindings("why_not")  # type: ignore[assignment]
    HELP = "This screen shows the steps of one passage, from the file on disk to the snippet."

    def __init__(
        self,
        search: SearchPresenter,
        passage: Expected,
        tune: Callable[[Knobs, Expected], None],
        chunk_id: str | None = None,
    ) -> None:
        """``tune`` gives other knobs to the search lab, which then selects the passage: of the chunk
        ``chunk_id``, or of any chunk."""
        super().__init__(search)
        self.passage, self._tune, self._chunk_id = passage, tune, chunk_id
        self.changes: WrappedTable[Change] = WrappedTable(
            "The list shows the smallest change of each knob that returns the passage.",
            id="changes",
            classes="listed",
        )
        self.answer: WhyNot | None = None
        self._text: Excerpt | str = ""  # of the passage, or why it cannot be read
        self._drawn: WhyNot | None = None
        self._knobs = search.view.knobs  # those of the answer
        self.trouble = ""
        self._applies = False  # the first change, once there is an answer

    def body(self) -> ComposeResult:
        yield Pane(id="asked")
        yield Brief(2, id="notes")
        with Vertical(id="answered"):
            yield Pane(id="walk", classes="pane")
            yield self.changes
            yield Pane(id="passage", classes="pane")

    def on_mount(self) -> None:
        self.set_focus(self.changes)
        self.search_changed()

    def read_again(self) -> None:
        view, fresh = self.search.view, self.search.activity.freshness
        if self.search.service.is_open:
            generation = fresh.generation if fresh is not None else -1
            # Also when the memory without a fault has answered, which is opened until then.
            faults = view.faults, view.pool_faults
            self.read_for((self.passage, view.query, view.knobs, faults, generation), self._walk)

    async def _walk(self) -> None:
        view = self.search.view
        try:
            asked, chunk = (view.query, *self.passage, view.knobs), self._chunk_id
            answer = await self.search.service.long(
                "why",
                lambda memory, token: memory.why_not(*asked, token, view.session_key, chunk_id=chunk),
                answering=True,
            )
            at = answer.passage
            count = at.end_line - at.start_line + 1
            self._text = (
                await self._read(at.path, at.start_line, count) if at.start_line else "There is no such text."
            )
            self.answer, self._knobs, self.trouble = answer, view.knobs, ""
        except OpenClawMemError as error:
            self.answer, self.trouble = None, str(error)
            self._text = await self._read(self.passage.path, self.passage.line, _LINES)  # needs no index
        self.changes.cursor = 0
        self.draw()
        if self._applies:
            self._applies = False
            self.action_apply_change()

    async def _read(self, path: str, line: int, count: int) -> Excerpt | str:
        try:
            return await self.search.service.read(lambda memory: memory.get(path, line, count))
        except OpenClawMemError as error:
            return str(error)

    @property
    def lower_pane(self) -> Lines:
        panes: tuple[Lines, ...] = (self.query_one("#passage", Pane), self.changes)
        return next((pane for pane in panes if pane.display and pane.max_scroll_y > 0), super().lower_pane)

    def draw_body(self) -> None:
        answer, view, activity = self.answer, self.search.view, self.search.activity
        asked, steps = self.query_one("#asked", Pane), self.query_one("#walk", Pane)
        asked.show(lambda cells: render.heading(view.query, answer, self.passage.location, cells))
        self.label(steps, "steps")
        changes = answer.changes if answer is not None else ()
        legend = ONLY_HERE_MEANS * any(change.mark for change in changes)
        self.label(self.changes, "changes that would return it" if changes else "changes", legend)
        notes, shown = self.query_one("#notes", Brief), self.query_one("#passage", Pane)
        notices = partial(status.soundness, view, activity, framed=True)
        notes.set_class(bool(notices(80)), "-on")
        notes.show(notices)
        self.label(shown, "passage, as it is on disk")
        if answer is None:
            self._drawn = None
            mark, text = ("✗ ", self.trouble) if self.trouble else ("◐ ", "Tracing the passage.")
            waits = damaged() if self.trouble and activity.damage else ()
            said = waits or line((mark, "bad"), render.sentence(text))  # what is damaged, the notes say
            steps.show(lambda cells: wrapped(said, cells, 2))
            self.changes.show_wrapped((), partial(render.change_lines, self._knobs))
            shown.show(self._passage if self.trouble else nothing)
            self.call_after_refresh(self._fit)
            return
        if answer is not self._drawn:  # else it stays scrolled as it is
            self._drawn = answer
            shown.show(self._passage, preview.evidence)
            height = self.size.height
            room = height * 9 // 20 - 2 if self.has_class("-tall") else max(2, height // 2 - 5)
            steps.show(lambda cells: render.walk(answer.steps, cells, room))
            self.call_after_refresh(steps.scroll_end, animate=False)  # to the first no
            trace = self.search.view.trace
            others = key("next_group") if trace is not None and len(trace.returned) < len(trace.rows) else ""
            self.changes.show_wrapped(
                answer.changes,
                partial(render.change_lines, self._knobs),
                partial(render.around_changes, answer, others),
            )
            self.draw_keys()  # those of a change
        self.call_after_refresh(self._fit)

    def _passage(self, cells: int) -> list[Line]:
        """The text, or why it cannot be read."""
        if isinstance(self._text, str):
            return preview.refusal(self._text, cells)
        return preview.passage(self._text, self.passage.line, Marker.of(self.search.view.pool), cells)

    def _fit(self) -> None:
        """The steps come first, then the changes; the passage has the rest. A tall screen keeps a part of the
        rest for it, a lower one shows it where all lines of the others are shown, and some of its own."""
        if not self.is_current:
            return  # closed meanwhile, or covered: it is drawn again when it is shown again
        above = sum(len(self.query_one(name, Pane).drawn) for name in ("#asked", "#notes", "#walk"))
        edges = sum(len(found.drawn) for found in self.query(Lines) if found.id in (None, *_EDGES))
        frame, height = self.changes.gutter.height, self.size.height
        text = self._text if isinstance(self._text, str) else self._text.text
        kept = max(min(_LEAST, 1 + text.count("\n")), (height - 26) // 3)
        room = height - edges - above - 3 * frame - kept  # of the changes, beside the passage
        is_shown = self.has_class("-tall") or len(self.changes.drawn) <= room
        self.set_class(is_shown, "-passage")
        self.changes.styles.max_height = max(1, room) + frame if is_shown else None
        self.call_after_refresh(self.on_lines_sized)

    def on_lines_sized(self) -> None:
        self.label(self.changes)
        for pane in (self.query_one("#walk", Pane), self.query_one("#passage", Pane)):
            self.label(pane, subtitle=more(pane, pane is self.lower_pane))

    def idle_keys(self) -> frozenset[str]:
        idle = {"apply_change", "export_change"} if self._change() is None else set()
        return frozenset(idle if self.changes.counted[1] else {*idle, "filter"})

    def _change(self) -> Change | None:
        """The change of knobs under the cursor."""
        return self.changes.selected if self.answer is not None else None

    # -- actions ------------------------------------------------------------------------------------------

    @on(CursorList.Chosen)
    def action_apply_change(self) -> None:
        if self.answer is None:  # the key was pressed sooner than the answer came
            self._applies = not self.trouble
            return
        if (change := self._change()) is None:
            none = (
                "no change of a knob is selected" if self.changes.counted[1] else "there is no change to try"
            )
            self.search.say(f"{none}; {key('edit')} opens the note")
            return
        knobs = self._knobs
        if self.close():
            self._tune(knobs.set(change.set), self.passage)
            self.search.say(f"{render.setting(change, knobs)}; {key('undo_knob')} undoes it")

    async def action_new_query(self) -> None:
        """The query is that of the lab, below this screen."""
        if self.close():
            await self.app.run_action("screen.focus_query")

    def action_export_change(self) -> None:
        if (change := self._change()) is None:
            self.search.say("nothing to export: no change of a knob is selected")
            return
        pasted = to_paste(self.search.view, self._knobs.set(change.set))
        save(self.search, "config", fragment(pasted))

    def action_expect(self) -> None:
        self.run_in(partial(toggle, self.search, self.passage), "expect")

    def action_pick_passage(self) -> None:
        self.run_in(partial(pick_passage, self, self._ask), "pick")

    def _ask(self, passage: Expected) -> None:
        self.passage, self._chunk_id, self.answer, self._applies = passage, None, None, False
        self.search_changed()

    def action_copy_location(self) -> None:
        self.copy(self.passage.location)

    def action_edit(self) -> None:
        self.edit_note(self.passage.path, self.passage.line)
