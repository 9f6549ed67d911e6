"""The query line."""

from __future__ import annotations

from typing import Self

from textual.binding import Binding
from textual.containers import Horizontal
from textual.events import Key, Paste
from textual.geometry import Region
from textual.widgets import Input

from openclaw_mem_tui.bindings import key, reach, typing
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render import status
from openclaw_mem_tui.render.spans import line
from openclaw_mem_tui.widgets.frames import markup, named_key
from openclaw_mem_tui.widgets.line_view import Pane


class QueryLine(Input):
    """Search as you type. Arrow up asks the previous query, arrow down the one after it; behind the last one
    it goes to the hits, as enter does."""

    HELP = "Type a question or some words. There are no operators."
    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("up", "screen.previous_query", "previous query", show=False),
        # The app itself handles these, so that keys of the list may be typed right behind them. Enter is
        # ctrl+j where it was typed before the first frame: the terminal made a line feed of it.
        Binding(
            "enter,ctrl+j",
            "screen.submit_query",
            "go to the chunks; on the start page ask the marked query",
            show=False,
            priority=True,
        ),
        Binding("down", "screen.query_down", "next query, or the chunks", show=False, priority=True),
        Binding("escape", "screen.leave_query", "go to the chunks", show=False, priority=True),
        Binding("ctrl+r", "screen.history", "query history", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(
            placeholder="search the memory", id="query", compact=True, select_on_focus=False, max_length=2_000
        )
        self.cursor_blink = False
        self._title = ""

    def beside_key(self) -> Horizontal:
        """Where it has no frame with its name, its key is before it."""
        prompt = Pane(lambda _: [line(" ", (key("focus_query"), "key"))], id="prompt")
        return Horizontal(prompt, self, id="asks")

    def put(self, query: str) -> None:
        """Show a query that is asked otherwise; what is typed replaces it."""
        with self.prevent(Input.Changed):
            self.value = query
        self.select_all()

    def label(self, view: View) -> None:
        """What its frame says: that it is the query, and which session asks."""
        asks = markup(status.asker(view))
        if asks and not view.session_key:
            with typing(self.has_focus):
                asks += f" ({named_key(reach('session'), 'sets one')})"
        title = fmt.join(("query", asks))
        if title != self._title:
            self.border_title = self._title = title

    async def on_key(self, event: Key) -> None:
        """The start page names the key that goes to this line: no text where the line is empty, or holds a
        query that what is typed replaces."""
        if event.character == key("focus_query") and self.value in ("", self.selected_text):
            event.prevent_default()
            event.stop()

    def on_paste(self, event: Paste) -> None:
        """All lines of it as one: Textual takes the first alone."""
        event.text = " ".join(event.text.splitlines())

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        # Its size never depends on its text, and a new layout at every key costs more than the search.
        return super().refresh(
            *regions, repaint=repaint, layout=layout and not self.is_mounted, recompose=recompose
        )
