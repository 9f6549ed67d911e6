"""The lower right pane: snippet, lines of the note, or the chunk as rendered Markdown."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip

from openclaw_mem_engine.api import Candidate, Row, present_snippet, shows_citation
from openclaw_mem_tui.features.search.render import preview as render
from openclaw_mem_tui.features.search.state import Citations, View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import ROLES, Line
from openclaw_mem_tui.render.terms import Marker
from openclaw_mem_tui.widgets.line_view import Drawer, Pane, nothing

#: Of the drawn lines, the one to scroll to.
Anchor = Callable[[Sequence[Line]], int]

Kind = Literal["snippet", "get", "markdown"]

_LARGEST_RENDERED = 20_000


def agent_text(candidate: Candidate, citations: Citations) -> str:
    """The text that the agent receives for a chunk, with its footer when citations are shown."""
    cite = shows_citation(citations, None)
    return present_snippet(candidate.text, candidate.path, candidate.start_line, candidate.end_line, cite)


class Preview(Pane):
    """Lines like any pane; or, after ``render_markdown``, strips made by Rich (no widget a paragraph)."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {f"role--{role}" for role in ROLES}
    HELP = "The text of the selected chunk. J and K scroll it."

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, classes="pane")
        self.kind: Kind = "snippet"
        self.citations: Citations | None = None
        self._followed: object = None  # what the snippet was drawn for
        self._markdown: str | None = None
        self._anchor: Anchor | None = None
        self._rendered: list[Strip] = []
        self._rendered_for = -1

    def follow(self, view: View, row: Row | None, marker: Marker) -> None:
        """Show the snippet of the selected row; nothing is drawn while chunk, pool and citations are the
        same."""
        mode = self.citations or "auto"
        key = row.chunk_id if row is not None else "", id(view.pool), mode
        if key == self._followed:
            return
        self._followed = key
        candidate = view.candidate(row.chunk_id) if row is not None else None
        if candidate is None:
            self.begin("snippet", "snippet", "")
            self.show(nothing)
            return
        text = agent_text(candidate, mode)
        found = marker.count(text)
        title = f"snippet · {fmt.count(found, 'match', 'matches')}" if found else "snippet"
        self.begin("snippet", title, f"citations: {mode} (t)")
        self.show(lambda cells: render.snippet(candidate, text, marker, cells), render.first_match)

    def shows(self, kind: Kind) -> bool:
        return self.kind == kind

    def forget(self) -> None:
        """The next ``follow`` draws the snippet again."""
        self._followed = None

    def begin(self, kind: Kind, title: str, subtitle: str) -> None:
        """Something else is shown from now on."""
        self.kind = kind
        self.border_title, self.border_subtitle = title, subtitle

    def show(self, drawer: Drawer, anchor: Anchor | None = None) -> None:
        """``anchor`` names the line that must be in sight, at any size, until the user scrolls."""
        self._markdown = None
        self._anchor = anchor
        super().show(drawer)
        self.call_after_refresh(self._bring_into_sight)

    def _bring_into_sight(self) -> None:
        height = self.size.height
        if self._anchor is None or height <= 0 or self.cells <= 0:
            return
        at, top = self._anchor(self.drawn), self.scroll_offset.y
        if not top <= at < top + height:
            self.scroll_to(y=max(0, at - 2), animate=False, immediate=True)

    def let_go(self) -> None:
        """The user scrolls: the pane stays there."""
        self._anchor = None

    def on_mouse_scroll_down(self) -> None:
        self.let_go()

    def on_mouse_scroll_up(self) -> None:
        self.let_go()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        # The bounds of scrolling are those of the new size only after the layout.
        self.call_after_refresh(self._bring_into_sight)

    def render_markdown(self, text: str) -> None:
        """Render a text (made inert first): headings, lists, code; links are shown, not made."""
        self._anchor = None
        self._markdown = "\n".join(fmt.inert_lines(text[:_LARGEST_RENDERED]))
        self._rendered_for = -1
        self.changed()
        self.scroll_to(y=0, animate=False)

    def notify_style_update(self) -> None:
        self._rendered_for = -1
        super().notify_style_update()

    def _strips(self) -> list[Strip]:
        if self._rendered_for != self.cells:
            self._rendered_for = self.cells
            self._rendered = self._render_rich(self._markdown or "")
        return self._rendered

    def _render_rich(self, text: str) -> list[Strip]:
        # A tenth of a second of imports that most sessions never need.
        from rich.console import Console
        from rich.markdown import Markdown
        from rich.theme import Theme

        # Rich's default theme has colours of its own; ours replace them, so that themes hold here too.
        names = {
            "markdown.h1": self.style_of("strong accent"),
            "markdown.h2": self.style_of("strong accent"),
            "markdown.h3": self.style_of("strong"),
            "markdown.h4": self.style_of("strong"),
            "markdown.code": self.style_of("text"),
            "markdown.code_block": self.style_of("dim"),
            "markdown.link": self.style_of("text"),
            "markdown.link_url": self.style_of("dim"),
            "markdown.block_quote": self.style_of("dim"),
            "markdown.item.bullet": self.style_of("accent"),
            "markdown.item.number": self.style_of("accent"),
            "markdown.hr": self.style_of("faint"),
            "markdown.h1.border": self.style_of("faint"),
        }
        console = Console(
            file=io.StringIO(),
            width=max(8, self.cells),
            color_system="truecolor",
            theme=Theme(names),
            legacy_windows=False,
        )
        document = Markdown(text, hyperlinks=False, code_theme="ansi_dark")
        made = []
        for row in console.render_lines(document, console.options, pad=False):
            segments = [
                Segment(s.text, self.rich_style + (s.style or Style.null())) for s in row if not s.control
            ]
            made.append(Strip(segments).adjust_cell_length(self.cells, self.rich_style))
        return made

    def _measure(self) -> None:
        if self._markdown is None:
            super()._measure()
        elif self.cells > 0:
            self.set_height(len(self._strips()))

    def render_line(self, y: int) -> Strip:
        if self._markdown is None:
            return super().render_line(y)
        strips, index = self._strips(), y + self.scroll_offset.y
        return strips[index] if index < len(strips) else Strip.blank(self.cells, self.rich_style)

    @property
    def text(self) -> str:
        if self._markdown is None:
            return super().text
        return "\n".join(strip.text.rstrip() for strip in self._strips())
