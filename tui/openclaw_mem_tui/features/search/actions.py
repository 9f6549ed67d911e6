"""What the keys of the search lab do: one method an action of the table.
Dialogs are loaded when they are first shown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual.widgets import Input

from openclaw_mem_engine.api import OpenClawMemError
from openclaw_mem_tui.bindings import key as key_of
from openclaw_mem_tui.features.search.baseline import OF_NOTES
from openclaw_mem_tui.features.search.lab import Lab
from openclaw_mem_tui.features.search.preview import agent_text
from openclaw_mem_tui.features.search.remembered import left_now, offered, start_anew
from openclaw_mem_tui.features.search.render import preview as render
from openclaw_mem_tui.features.search.run_actions import continue_session
from openclaw_mem_tui.features.search.state import CITATIONS, COLUMNS, nudged
from openclaw_mem_tui.features.search.steps import clear_baseline, take_step
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.choices import Choice
from openclaw_mem_tui.widgets.frames import key_hint

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Candidate, Row

_NO_HIT = "no chunk is selected"


class QueryActions(Lab):
    """The query line, the history, and cancelling."""

    def action_focus_query(self) -> None:
        # At once: focus() waits its turn, and keys sent in one burst would overtake it.
        self.set_focus(self.query_line)
        self.query_line.select_all()

    def action_edit_query(self) -> None:
        query_line = self.query_line
        self.set_focus(query_line)
        query_line.cursor_position = len(query_line.value)

    async def action_submit_query(self) -> None:
        """Go to the hits; where nothing was typed, ask the marked query of the start page."""
        await self.action_leave_query()
        if not self.query_line.value:
            ask_marked(self)

    async def action_leave_query(self) -> None:
        # Letters that were typed before this key may still be on their way to the line, and keys behind it
        # are about the answer to all of them.
        line, typed = self.query_line, asyncio.Event()
        line.call_later(typed.set)
        await typed.wait()
        if line.value != self.search.view.query:
            self.ask(line.value)
        self.search.history.add(line.value)
        self.set_focus(self.hits)

    def action_previous_query(self) -> None:
        previous = self.search.history.previous(self.query_line.value)
        self._ask_again(previous, "there is no previous query")

    def action_next_query(self) -> None:
        self._ask_again(self.search.history.next(), "there is no next query")

    async def action_query_down(self) -> None:
        """The query after an earlier one, as in a shell; else to the chunks."""
        newer = self.search.history.newer(self.query_line.value)
        if newer is None:
            await self.action_leave_query()
        else:
            self._ask_again(newer, "")

    def _ask_again(self, query: str | None, otherwise: str) -> None:
        if query is None:
            self.search.say(otherwise)
        else:
            self.ask_instead(query)
            self.search.say(self.search.history.position)

    def action_history(self) -> None:
        history = self.search.history
        history.add(self.search.view.query)

        def ask(picked: str) -> None:
            self.ask_instead(picked)
            self.set_focus(self.hits)

        def find(text: str) -> list[Choice]:
            return [Choice(query, fmt.inert(query, 300)) for query in history.matching(text)]

        from openclaw_mem_tui.widgets.dialogs import pick

        pick(self, "history", find, ask, filtered=True, empty="no earlier query matches")

    def action_start_anew(self) -> None:
        left = left_now(self)
        with self.query_line.prevent(Input.Changed):
            self.query_line.value = ""
        start_anew(self.search, left)
        configured = self.search.service.configured_backend
        if configured:
            self.preview.citations = self.search.service.settings.citations
        if not self.search.uses(configured):
            self.use_backend(configured, lambda: None)
        self.action_focus_query()

    def action_mode(self) -> None:
        knobs = nudged(self.search.view.knobs, "mode", 1)
        self.tune(knobs)
        self.search.say(f"mode {knobs.mode}")

    def action_session(self) -> None:
        if not self.search.service.is_open:
            return
        from openclaw_mem_engine.api import scope_decision
        from openclaw_mem_tui.widgets.dialogs import pick

        settings, now = self.search.service.settings, self.search.view.session_key
        chats = (f"agent:{settings.agent}:{chat}" for chat in ("telegram:group:1", "discord:channel:1"))
        known = list(dict.fromkeys((now, "", *chats)))

        def find(text: str) -> list[Choice]:
            typed = text.strip()
            keys = [typed, *(key for key in known if typed in key)] if typed else known
            made = []
            for key in dict.fromkeys(keys):
                allowed, _, why = scope_decision(settings, key)
                title = fmt.inert(key, 300) or "none: a direct chat"
                made.append(
                    Choice(key, title, f"qmd {'allows' if allowed else 'denies'} it: {fmt.inert(why)}")
                )
            return made

        def ask(picked: str) -> None:
            if self.search.ask_as(picked):
                self.search_soon(0.0)

        pick(self, "session key", find, ask, filtered=True)

    def action_cancel(self) -> None:
        if not self.cancel_work():
            (self.closes or self.hits.focus)()


class HitActions(Lab):
    """The hit list, and the panes beside it."""

    def action_columns(self) -> None:
        if not self._has_hits():
            return
        self.hits.set_mode(COLUMNS[(COLUMNS.index(self.hits.mode) + 1) % len(COLUMNS)])
        self.label_hits()

    def action_dropped(self) -> None:
        if not self._has_hits():
            return
        self.hits.set_dropped(not self.hits.dropped)
        self.label_hits()
        self.draw_keys()
        self.show_row()

    def action_group(self, step: int) -> None:
        if self.hits.go_to_group(step) or not self._has_hits():
            return
        where, hidden = "below" if step > 0 else "above", step > 0 and not self.hits.dropped
        shows = f"; {key_of('dropped')} shows what is not returned" * hidden
        self.search.say(f"no group of chunks is {where} this one{shows}")

    def action_knobs(self) -> None:
        """Open the panel, or go to it where it is open, or close it."""
        if self.knobs_open and self.focused is not self.knob_panel:
            self.set_focus(self.knob_panel)
        else:
            self.toggle_knobs()

    def action_reset_all(self) -> None:
        view, pin = self.search.view, self.search.view.pin
        edited = pin is not None and pin.name in OF_NOTES
        if edited:
            clear_baseline(self)
        if view.knobs == view.defaults:
            if not edited:
                self.search.say("no knob differs from the configuration")
            return
        self.tune(self.search.view.defaults)
        self.search.say(f"all knobs reset to the configuration; {key_of('undo_knob')} undoes it")

    def action_undo_knob(self) -> None:
        self.search.say(take_step(self, "undo"))

    def action_redo_knob(self) -> None:
        self.search.say(take_step(self, "redo"))

    def action_knob(self, name: str) -> None:
        """Open the panel on one knob."""
        if not self.knobs_open:
            self.toggle_knobs()
        panel = self.knob_panel
        panel.filter("")
        self.set_focus(panel)
        panel.point_at(name)

    def action_apply_knobs(self) -> None:
        from openclaw_mem_tui.features.search import apply  # not needed for the first frame

        self.run_in(partial(apply.offer, self), "apply")


class NoteActions(Lab):
    """The note of the selected hit: read, render, edit, copy."""

    def _selected(self) -> tuple[Row, Candidate] | None:
        row = self.hits.selected
        if row is None or (candidate := self.search.view.candidate(row.chunk_id)) is None:
            self.search.say(_NO_HIT)
            return None
        return row, candidate

    def action_get(self) -> None:
        if not ask_marked(self):
            self.run_in(self._get, "get")

    async def _get(self) -> None:
        """The lines around the chunk; back to the snippet when they are shown."""
        if (selected := self._selected()) is None:
            return
        row, candidate = selected
        marker, preview, view = self.hits.marker, self.preview, self.search.view
        self._bring_up_preview()
        if self.preview.kind == "get":
            self.show_snippet()
            return
        transcript = row.source == "sessions"
        preview.begin("get", "transcript" if transcript else "note", key_hint("get", "snippet"))
        if transcript:
            preview.show(lambda cells: render.transcript(candidate, marker, cells))
            return
        start = max(1, row.start_line - render.CONTEXT)
        count = row.end_line - start + 1 + render.CONTEXT
        try:
            got = await self.search.service.read(
                lambda memory: memory.get(row.path, start, count), answering=True
            )
        except OpenClawMemError as error:
            message = str(error)
            preview.show(lambda cells: render.refusal(message, cells))
            return
        if self.hits.selected is row and preview.kind == "get":
            if got.found:
                preview.title = f"note, lines {got.start_line}–{got.end_line}"
            preview.show(lambda cells: render.excerpt(got, view, row, marker, cells), render.evidence)

    def _bring_up_preview(self) -> None:
        """Where there is one column, show the preview instead of the waterfall or the knobs."""
        self.add_class("-pane-preview")
        if self.knobs_open:
            self.toggle_knobs()

    def action_render(self) -> None:
        if (selected := self._selected()) is None:
            return
        row, candidate = selected
        self._bring_up_preview()
        if self.preview.kind == "markdown":
            self.show_snippet()
            return
        title = f"rendered, lines {row.start_line}–{row.end_line}"
        self.preview.begin("markdown", title, key_hint("render", "snippet"))
        self.preview.show_markdown(candidate.text)

    def action_edit(self) -> None:
        if when_answered(self, self.action_edit):
            self.search.say("the first chunk will be opened in your editor")
            return
        passage = self.hits.passage
        if passage is not None and self.search.service.is_open:
            self.edit_note(*passage)
        else:
            self.search.say("nothing to edit: no chunk is selected")

    def action_copy_location(self) -> None:
        if when_answered(self, self.action_copy_location):
            return
        if (passage := self.hits.passage) is not None:
            self.copy(passage.location)
        else:
            self.search.say(_NO_HIT)

    def action_copy_snippet(self) -> None:
        if when_answered(self, self.action_copy_snippet):
            return
        row = self.hits.selected
        if row is not None and (result := self.search.view.result(row.chunk_id)) is not None:
            session, mode = self.search.view.session_key, self.preview.citations or "auto"
            self.copy(agent_text(result, mode, session), "the snippet")
        else:
            self.search.say(_NO_HIT if row is None else "nothing to copy: this chunk is not returned")

    def action_citations(self) -> None:
        if not self._has_hits():
            return
        mode = self.preview.citations or "auto"
        self.preview.citations = CITATIONS[(CITATIONS.index(mode) + 1) % len(CITATIONS)]
        self.show_snippet()


def ask_marked(lab: Lab) -> bool:
    """Ask the query under the cursor of the start page. False where there is none."""
    if query := lab.hits.asks:
        left = offered(lab.search)
        lab.hits.filter("")
        if left is not None and query == left[0]:
            lab.run_in(partial(continue_session, lab), "continue")
            return True
        lab.search.history.add(query)
        lab.ask_instead(query)
    return bool(query)


def when_answered(lab: Lab, act: Callable[[], object]) -> bool:
    """While the shown rows are of an earlier query, act on the hit that is selected when the answer is there,
    unless another query is asked, another screen shown or another such key pressed meanwhile; else False."""
    query = lab.search.view.query
    if not lab.hits.awaits:
        return False

    def answered() -> None:
        view = lab.search.view
        if view.query == query and view.pending:
            return
        lab.search.unlisten(answered)
        if view.query == query and lab.is_current and lab.hits.awaited is answered:
            lab.call_after_refresh(act)  # over the results

    lab.hits.awaited = answered
    lab.search.listen(answered)
    return True
