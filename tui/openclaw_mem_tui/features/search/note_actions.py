"""What the keys do with the note of the selected hit: read, render, edit, copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine.api import Candidate, OpenClawMemError, Row
from openclaw_mem_tui.editor import edit
from openclaw_mem_tui.features.search.preview import agent_text
from openclaw_mem_tui.features.search.render import preview as render
from openclaw_mem_tui.features.search.state import CITATIONS
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.sync_controller import Job

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.screen import SearchScreen


class NoteActions:
    def __init__(self, screen: SearchScreen) -> None:
        self._screen = screen
        self._search = screen.search
        self._preview = screen.preview

    def _selected(self) -> tuple[Row, Candidate] | None:
        row = self._screen.hits.selected
        candidate = self._search.view.candidate(row.chunk_id) if row is not None else None
        return (row, candidate) if row is not None and candidate is not None else None

    def action_get(self) -> None:
        self._screen.run_in(self._get, "get")

    async def _get(self) -> None:
        """The lines around the chunk; back to the snippet when they are shown."""
        if (selected := self._selected()) is None:
            return
        row, candidate = selected
        marker, preview = self._screen.hits.marker, self._preview
        self._screen.bring_up_preview()
        if preview.shows("get"):
            self._screen.show_snippet()
            return
        transcript = row.source == "sessions"
        preview.begin("get", "transcript" if transcript else "note", "back to the snippet (enter)")
        if transcript:
            preview.show(lambda cells: render.transcript(candidate, marker, cells))
            return
        start = max(1, row.start_line - render.CONTEXT)
        count = row.end_line - start + 1 + render.CONTEXT
        try:
            got = await self._search.service.read(lambda memory: memory.get(row.path, start, count))
        except OpenClawMemError as error:
            message = str(error)
            preview.show(lambda cells: render.refusal(message, cells))
            return
        if self._screen.hits.selected is row and preview.shows("get"):
            if got.found:
                preview.border_title = f"note, lines {got.start_line}–{got.end_line}"
            preview.show(lambda cells: render.excerpt(got, candidate, marker, cells), render.first_of_chunk)

    def action_render(self) -> None:
        if (selected := self._selected()) is None:
            return
        row, candidate = selected
        self._screen.bring_up_preview()
        if self._preview.kind == "markdown":
            self._screen.show_snippet()
            return
        title = f"rendered, lines {row.start_line}–{row.end_line}"
        self._preview.begin("markdown", title, "back to the snippet (m)")
        self._preview.render_markdown(candidate.text)

    def action_edit(self) -> None:
        row = self._screen.hits.selected
        if row is None or not self._search.service.is_open:
            return
        settings = self._search.service.settings
        outcome, ran = edit(self._screen.app, settings, row.path, row.start_line)
        self._search.say(outcome)
        if ran and not settings.sync.watch:
            self._screen.resync(Job(tails=True))

    def action_copy_location(self) -> None:
        row = self._screen.hits.selected
        if row is not None:
            self._copy(f"{row.path}:{row.start_line}", f"{row.path}:{row.start_line}")

    def action_copy_snippet(self) -> None:
        if (selected := self._selected()) is not None:
            self._copy(agent_text(selected[1], self._preview.citations or "auto"), "the snippet")

    def _copy(self, text: str, name: str) -> None:
        self._screen.app.copy_to_clipboard(text.encode("utf-8", "replace").decode("utf-8"))
        self._search.say(f"copied {fmt.inert(name, 200)}")

    def action_citations(self) -> None:
        mode = self._preview.citations or "auto"
        self._preview.citations = CITATIONS[(CITATIONS.index(mode) + 1) % len(CITATIONS)]
        self._screen.show_snippet()
