"""What the keys of the search lab do, one method an action of the table."""

from __future__ import annotations

from textual import work
from textual.containers import Vertical

from openclaw_mem_engine.api import KNOBS, Knobs, OpenClawMemError, Row
from openclaw_mem_tui.bindings import ACTIONS, elsewhere
from openclaw_mem_tui.features.search.export_actions import ExportActions
from openclaw_mem_tui.features.search.render import preview as preview_lines
from openclaw_mem_tui.features.search.state import CITATIONS, COLUMNS, needs_baseline_pool, pinned, unpinned
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.screens.editing import edit
from openclaw_mem_tui.screens.help import HelpScreen
from openclaw_mem_tui.screens.pick import Choice, PickScreen
from openclaw_mem_tui.service import present
from openclaw_mem_tui.widgets.panes import nothing


class SearchActions(ExportActions):
    """Actions read the lab's view and hand back a new one; none ranks, none waits for the engine."""

    # -- search -------------------------------------------------------------------------------------------

    def action_focus_query(self) -> None:
        # At once: focus() waits its turn, and keys sent in one burst would overtake it.
        self.set_focus(self.query_line)
        self.query_line.cursor_position = len(self.query_line.value)

    def action_leave_query(self) -> None:
        self.lab.history.add(self.lab.view.query)
        self.set_focus(self.hits)

    def action_older(self) -> None:
        self._ask_again(self.lab.history.older(), "there is no older query")

    def action_newer(self) -> None:
        self._ask_again(self.lab.history.newer(), "there is no newer query")

    def _ask_again(self, query: str | None, otherwise: str) -> None:
        if query is None:
            self.lab.say(otherwise)
        else:
            self.query_line.value = query
            self.query_line.cursor_position = len(query)

    def action_history(self) -> None:
        self.lab.history.add(self.lab.view.query)
        found = self.lab.history.matching

        def ask(picked: str | None) -> None:
            if picked is not None:
                self.query_line.value = picked
                self.hits.focus()

        self.app.push_screen(
            PickScreen(
                "history",
                lambda text: [Choice(q, fmt.inert(q, 300)) for q in found(text)],
                filtered=True,
                empty="no query yet that fits",
            ),
            ask,
        )

    def action_mode(self) -> None:
        modes = KNOBS["mode"].choices
        knobs = self.lab.view.knobs
        mode = modes[(modes.index(knobs.mode) + 1) % len(modes)]
        self.tune(knobs.set({"mode": mode}))
        self.lab.say(f"mode {mode}")

    def action_cancel(self) -> None:
        if self.cancel_work():
            return
        if self.knobs_open:
            self.action_knobs()
        elif self.preview_kind != "snippet":
            self.show_snippet()
        else:
            self.hits.focus()

    def tune(self, knobs: Knobs) -> None:
        """Other knobs: re-ranked in this frame when that is possible, else searched after a quiet moment."""
        if self.lab.tune(knobs):
            self.search_soon(0.12)

    # -- hits ---------------------------------------------------------------------------------------------

    def action_down(self) -> None:
        self.hits.move(1)

    def action_up(self) -> None:
        if self.hits.cursor == 0 and self.hits.has_focus:
            self.hits.scroll_home(animate=False)
        self.hits.move(-1)

    def action_first(self) -> None:
        self.hits.go(0)

    def action_last(self) -> None:
        self.hits.go(len(self.hits.rows) - 1)

    def action_page_down(self) -> None:
        self.hits.move(self.hits.page)

    def action_page_up(self) -> None:
        self.hits.move(-self.hits.page)

    def action_columns(self) -> None:
        mode = COLUMNS[(COLUMNS.index(self.hits.mode) + 1) % len(COLUMNS)]
        self.hits.set_mode(mode)
        self.hits.border_subtitle = f"columns: {mode} (v)"

    def action_dropped(self) -> None:
        self.hits.set_dropped(not self.hits.dropped)
        self.show_row(self.hits.selected)

    def action_baseline(self) -> None:
        if self.lab.view.shown_faults:
            self.lab.say("while a fault is on, the healthy run is the baseline")
            return
        if not self.lab.view.answers:
            self.lab.say("there is no answer to pin yet")
            return
        self.lab.set_view(pinned(self.lab.view))
        self.lab.say("this run is the baseline now; B goes back")

    def action_clear_baseline(self) -> None:
        if self.lab.view.shown_faults:
            self.lab.say("while a fault is on, the healthy run is the baseline")
            return
        self.lab.set_view(unpinned(self.lab.view))
        if needs_baseline_pool(self.lab.view):
            self.search_soon(0.0)
        self.lab.say("the configured defaults are the baseline")

    # -- the note -----------------------------------------------------------------------------------------

    def draw_preview(self, row: Row | None) -> None:
        """The preview follows the selection; it is drawn anew only when chunk, text or citations changed."""
        pool = self.lab.view.pool
        candidate = self.lab.view.candidate(row.chunk_id) if row is not None else None
        key = (row.chunk_id if row else "", id(pool), self.citations)
        if key == self.previewed:
            return
        self.previewed = key
        self.preview_kind = "snippet"
        self.preview.border_title = "snippet"
        if candidate is None:
            self.preview.border_subtitle = ""
            self.preview.show(nothing)
            return
        mode = self.citations or "auto"
        marker, shown = self.hits.marker, candidate
        self.preview.border_subtitle = f"citations: {mode} (t)"
        text = present(candidate, mode)
        found = marker.count(text)
        self.preview.border_title = (
            f"snippet · {fmt.count(found, 'match', 'matches')}" if found else "snippet"
        )
        self.preview.show(
            lambda cells: preview_lines.snippet(shown, text, marker, cells), preview_lines.first_match
        )

    def show_snippet(self) -> None:
        self.previewed = ("", 0, None)
        self.draw_preview(self.hits.selected)

    def _bring_up_preview(self) -> None:
        self.add_class("-pane-preview")
        if self.knobs_open:
            self.action_knobs()

    @work(exclusive=True, group="get", exit_on_error=False)
    async def action_get(self) -> None:
        row = self.hits.selected
        candidate = self.lab.view.candidate(row.chunk_id) if row is not None else None
        if row is None or candidate is None:
            return
        self._bring_up_preview()
        if self.preview_kind == "get":
            self.show_snippet()
            return
        marker = self.hits.marker
        start = max(1, row.start_line - preview_lines.CONTEXT)
        count = row.end_line - start + 1 + preview_lines.CONTEXT
        self.preview_kind = "get"
        self.preview.border_title = "note"
        self.preview.border_subtitle = "back to the snippet (enter)"
        if row.source == "sessions":
            self.preview.border_title = "transcript"
            self.preview.show(lambda cells: preview_lines.transcript(candidate, marker, cells))
            return
        try:
            got = await self.lab.service.get(row.path, start, count)
        except OpenClawMemError as error:
            message = str(error)
            self.preview.show(lambda cells: preview_lines.refusal(message, cells))
            return
        if self.hits.selected is row and self.preview_kind == "get":
            if got.found:
                self.preview.border_title = f"note, lines {got.start_line}–{got.end_line}"
            self.preview.show(
                lambda cells: preview_lines.excerpt(got, candidate, marker, cells),
                preview_lines.first_of_chunk,
            )

    def action_render(self) -> None:
        row = self.hits.selected
        candidate = self.lab.view.candidate(row.chunk_id) if row is not None else None
        if row is None or candidate is None:
            return
        self._bring_up_preview()
        if self.preview_kind == "markdown":
            self.show_snippet()
            return
        self.preview_kind = "markdown"
        self.preview.border_title = f"rendered, lines {row.start_line}–{row.end_line}"
        self.preview.border_subtitle = "back to the snippet (m)"
        self.preview.render_markdown(candidate.text)

    def action_edit(self) -> None:
        row = self.hits.selected
        if row is None or not self.lab.service.is_open:
            return
        settings = self.lab.service.settings
        said, ran = edit(self.app, settings, row.path, row.start_line)
        self.lab.say(said)
        if ran and not settings.sync.watch:
            self.resync()

    def action_copy_place(self) -> None:
        row = self.hits.selected
        if row is not None:
            self._copy(f"{row.path}:{row.start_line}", f"{row.path}:{row.start_line}")

    def action_copy_snippet(self) -> None:
        row = self.hits.selected
        candidate = self.lab.view.candidate(row.chunk_id) if row is not None else None
        if candidate is not None:
            self._copy(present(candidate, self.citations or "auto"), "the snippet")

    def _copy(self, text: str, name: str) -> None:
        self.app.copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))
        self.lab.say(f"copied {fmt.inert(name, 200)}")

    def action_citations(self) -> None:
        mode = self.citations or "auto"
        self.citations = CITATIONS[(CITATIONS.index(mode) + 1) % len(CITATIONS)]
        self.show_snippet()

    def action_scroll_down(self) -> None:
        self._scroll_lower(3)

    def action_scroll_up(self) -> None:
        self._scroll_lower(-3)

    def _scroll_lower(self, step: int) -> None:
        self.preview.let_go()
        self.lower_pane.scroll_relative(y=step, animate=False)

    def action_next_pane(self) -> None:
        if self.has_class("-narrow") and not self.query_line.has_focus:
            if self.knobs_open:
                self.action_knobs()
            self.toggle_class("-pane-preview")
            return
        ring = [self.query_line, self.hits, *([self.knob_panel] if self.knobs_open else [])]
        at = next((i for i, widget in enumerate(ring) if widget.has_focus), -1)
        ring[(at + 1) % len(ring)].focus()

    # -- knobs --------------------------------------------------------------------------------------------

    def action_knobs(self) -> None:
        opening = not self.knobs_open
        self.set_class(opening, "-knobs")
        self.query_one("#knob-box", Vertical).set_class(opening, "-on")
        if opening:
            self.knob_panel.show(self.lab.view.knobs, self.lab.view.defaults)
            self.draw_hint()
            self.knob_panel.focus()
            self.call_after_refresh(self.knob_panel.follow)
        else:
            self.hits.focus()
        self.fit_waterfall()
        self.draw_keys()

    def action_reset_all(self) -> None:
        self.tune(self.lab.view.defaults)
        self.lab.say("all knobs as configured")

    # -- more ---------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        if action in ("guide", "next_lesson", "previous_lesson"):
            return self.guide is not None
        # In the query line "/" and "i" are letters.
        return action != "focus_query" or self.focused is not self.query_line

    def action_guide(self) -> None:
        guide = self.guide
        if guide is None:
            return
        choices = [
            Choice(str(n), f"{n + 1:2}  {lesson.title}", lesson.query)
            for n, lesson in enumerate(guide.lessons)
        ]

        def load(picked: str | None) -> None:
            if picked is not None:
                self.load_lesson(int(picked))
                self.hits.focus()

        screen = PickScreen("lessons of the demo", lambda _: choices, start=self.lesson_at or 0)
        self.app.push_screen(screen, load)

    def action_next_lesson(self) -> None:
        self._turn_page(1)

    def action_previous_lesson(self) -> None:
        self._turn_page(-1)

    def _turn_page(self, step: int) -> None:
        if self.guide is not None:
            at = self.last_lesson + step if self.lesson_at is not None else self.last_lesson
            self.load_lesson(at % len(self.guide.lessons))

    async def action_show_search(self) -> None:
        self.hits.focus()

    async def action_show_providers(self) -> None:
        await self.app.run_action("app.show_providers")

    async def action_show_index(self) -> None:
        await self.app.run_action("app.show_index")

    def action_sync(self) -> None:
        self.resync()

    def action_palette(self) -> None:
        self.app.action_command_palette()

    def action_help(self) -> None:
        focused = self.focused
        about = (getattr(focused, "HELP", None) or self.HELP or "").strip()
        hidden = {a.id for a in ACTIONS if not self.check_action(a.id, ())} | {"show_search"}
        self.app.push_screen(HelpScreen(about, elsewhere("lab") | hidden))

    def action_quit(self) -> None:
        self.app.exit(0)
