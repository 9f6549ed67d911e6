"""The lower right pane: snippet, lines of the note, or the chunk as rendered Markdown."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Literal

from rich.style import Style

from openclaw_mem_engine import api
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.search.render import outcome
from openclaw_mem_tui.features.search.render import preview as render
from openclaw_mem_tui.features.search.render.hits import scored_line
from openclaw_mem_tui.features.search.render.waterfall import waterfall
from openclaw_mem_tui.features.search.state import Citations, View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span
from openclaw_mem_tui.render.terms import Marker
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.widgets.frames import key_hint, markup
from openclaw_mem_tui.widgets.line_view import Anchor, Drawer, Pane, nothing

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Expected, Pool, Result, Row

Kind = Literal["snippet", "get", "markdown"]

_LARGEST_RENDERED = 20_000
#: Lines of the waterfall and its frame, as in the stylesheet, and most of them on a low screen.
_USUAL, _MOST = 10, 15

#: Before the role of a span that is a style of Rich.
_RICH = "rich "

#: Roles, and the parts of a Markdown document that have them, as Rich names them.
_MARKDOWN = {
    "strong accent": "h1 h2",
    "strong": "h3 h4",
    "accent": "item.bullet item.number",
    "text": "code link",
    "dim": "code_block link_url block_quote",
    "faint": "h1.border hr",
}


def agent_text(result: Result, citations: Citations, session_key: str = "") -> str:
    """The text that the agent receives for a result, with its footer when citations are shown."""
    cite = api.shows_citation(citations, session_key)
    return api.present_snippet(result.snippet, result.path, result.start_line, result.end_line, cite)


class Waterfall(Pane, can_focus=True):
    """What made the score of the selected row. One that has more rows than fit takes the focus; then the keys
    of a list scroll it."""

    HELP = "This pane shows what made the score of the selected chunk."
    BINDINGS = bindings("lists")  # type: ignore[assignment]

    #: Whether the knobs were open when its height was set, and what had been found.
    _beside_knobs = False
    _pool: Pool | None = None
    #: Whether its columns have titles, where there is room; whether its frame has the outcome.
    _titled = _low = False

    def allow_focus(self) -> bool:
        return self.max_scroll_y > 0

    def on_focus(self) -> None:
        self.post_message(self.Sized())  # the frame names the keys that scroll it

    on_blur = on_focus

    def show_row(self, view: View, row: Row | None, marker: Marker) -> None:
        """Draw another row."""

        def draw(cells: int) -> list[Line]:
            if row is None:
                return []
            return waterfall(view, row, cells, titled=self._titled, marker=marker if self._low else None)

        self.show(draw)

    def fit(self, view: View, row: Row | None, knobs_open: bool, room: int) -> None:
        """As tall as its text, which leaves lines to the snippet or the knobs; taller for many lists in
        ``room`` lines. It does not shrink again before another search: a new layout at every step would cost
        more than the ranking."""
        trace = view.trace
        screen = self.screen
        assert isinstance(screen, WorkbenchScreen)
        wide, low = not screen.narrow, screen.low
        titled = wide and screen.has_class("-tall")
        if (titled, low) != (self._titled, self._low):
            self._titled, self._low = titled, low
            self.changed()
        said = outcome.on_frame(trace, row) if low and trace and row else ""
        screen.label(self, fmt.join(("waterfall", markup(said))))
        if not wide or (screen.has_class("-short") and not knobs_open):
            if self.styles.inline.has_rule("height"):
                self.styles.height = None
            return
        least, most = (5, _MOST) if knobs_open else (_USUAL, max(_MOST, room // 2))
        lines, height = min(most, max(least, len(self.drawn) + 2)), self.styles.height
        same = knobs_open is self._beside_knobs and view.pool is self._pool
        if not same or height is None or lines > height.value:
            self._beside_knobs, self._pool, self.styles.height = knobs_open, view.pool, lines


class Preview(Pane, can_focus=True):
    """Lines like any pane, also of Markdown (no widget a paragraph). With the focus, the keys of a list
    scroll it."""

    HELP = "This pane shows the text of the selected chunk."
    BINDINGS = bindings("lists")  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__(id="preview", classes="pane")
        self.kind: Kind = "snippet"
        self.citations: Citations | None = None
        #: What the edges of its frame say beside what is in sight.
        self.title = self.subtitle = ""
        #: The query and the line of a note that was asked about: its chunk opens on that line.
        self.asked: tuple[str, Expected] | None = None
        #: What the snippet was drawn for, and the pool that it is from.
        self._followed: tuple[object, object] = (None, None)

    def follow(self, view: View, row: Row | None, marker: Marker, *, again: bool = False) -> None:
        """Show what the agent gets of the selected row. Unless ``again`` nothing is drawn while that,
        chunk, marked words and citations are the same; other texts than the snippet go with their pool."""
        mode = self.citations or "auto"
        result = view.result(row.chunk_id) if row is not None else None
        found = view.candidate(row.chunk_id) if row is not None else None
        here = [got._replace(score=0.0) for got in view.results_of(row.path)] if row is not None else []
        line = self._asked_line(view, row)
        now = (found, row and (row.shown, scored_line(view, row)), here, marker, mode, view.session_key, line)
        before, self._followed = self._followed, (now, view.pool)
        same = before if self.kind != "snippet" else (before[0], view.pool)
        if same == self._followed and not again:
            return
        if row is None or found is None:
            self.begin("snippet", "snippet", "")
            self.show(nothing)
            return
        text = agent_text(result, mode, view.session_key) if result is not None else ""
        marked = marker.count(result.snippet) if result is not None else 0  # not in the line of the source
        whole = fmt.count(len(result.chunk_ids), "chunk") if result and len(result.chunk_ids) > 1 else ""
        matches = fmt.count(marked, "match", "matches") if marked else ""
        cut = "truncated" if row.truncated else ""
        title = fmt.join(("snippet", whole, matches, cut))
        if result is None:
            # Lines of it may be in the result of another chunk of its file.
            title = f"chunk · {render.elsewhere(view, row)}"
        self.begin("snippet", title, key_hint("citations", f"citations: {mode}"))
        at = partial(render.position, number=line)
        self.show(lambda cells: render.snippet(view, row, text, marker, cells), at)

    def show(self, drawer: Drawer, anchor: Anchor | None = None, first: Anchor | None = None) -> None:
        super().show(drawer, anchor, first)
        self.call_after_refresh(self.post_message, self.Sized())  # the frame says which rows are in sight

    def _asked_line(self, view: View, row: Row | None) -> int | None:
        """The line that was asked about, where this is the answer to the same query and its row."""
        if self.asked is None or row is None:
            return None
        query, (path, line) = self.asked
        inside = row.path == path and row.start_line <= line <= row.end_line
        return line if inside and view.query == query else None

    def begin(self, kind: Kind, title: str, subtitle: str) -> None:
        """Something else is shown from now on."""
        self.kind, self.title, self.subtitle = kind, title, subtitle
        screen = self.screen
        assert isinstance(screen, WorkbenchScreen)
        screen.draw_keys()
        screen.label(self, title)

    @property
    def heading(self) -> str:
        """The title as markup, with what the marks of the lines in sight mean, in their colours."""
        first = self.scroll_offset.y
        lines = self.drawn[first : first + self.size.height]
        text = markup(render.titled(self.title, lines, note=self.kind != "snippet"))
        for sign, colour in ((render.EDGE, "accent"), (render.CUT, "warning")):
            text = text.replace(sign, f"[${colour}]{sign}[/]")
        return text

    def allow_focus(self) -> bool:
        """Only where there is something to scroll: keys that do nothing are of no use."""
        return super().allow_focus() and self.max_scroll_y > 0

    def on_hide(self) -> None:
        """In another layout, or behind the knobs: the keys are those of the list again."""
        screen = self.screen
        if self.has_focus and isinstance(screen, WorkbenchScreen) and screen.current_list is not None:
            screen.set_focus(screen.current_list)

    def action_go(self, step: int) -> None:
        self.let_go()
        self.scroll_relative(y=step, animate=False)

    def action_turn(self, pages: float) -> None:
        self.action_go(int(pages * max(2, self.size.height - 1)))

    def notify_style_update(self) -> None:
        self._drawn_for = -1  # rendered Markdown holds the colours of the theme
        super().notify_style_update()

    def style_of(self, role: str) -> Style:
        own = role.removeprefix(_RICH)
        return super().style_of(role) if own == role else Style.parse(own)

    def show_markdown(self, text: str) -> None:
        """Render a text (made inert first): headings, lists, code; links are shown, not made."""
        text = "\n".join(fmt.inert_lines(text[:_LARGEST_RENDERED]))
        self.show(lambda cells: self._render_rich(text, cells))

    def _render_rich(self, text: str, cells: int) -> list[Line]:
        # A tenth of a second of imports that most sessions never need.
        from rich.console import Console
        from rich.markdown import Markdown
        from rich.theme import Theme

        # Rich's default theme has colours of its own; ours replace them, so that themes hold here too.
        styles = {
            f"markdown.{name}": self.style_of(role)
            for role, names in _MARKDOWN.items()
            for name in names.split()
        }
        console = Console(
            file=io.StringIO(),
            width=max(8, cells),
            color_system="truecolor",
            theme=Theme(styles),
            legacy_windows=False,
        )
        document = Markdown(text, hyperlinks=False, code_theme="ansi_dark")
        return [
            tuple(Span(s.text, f"{_RICH}{s.style or ''}") for s in row if not s.control)
            for row in console.render_lines(document, console.options, pad=False)
        ]
