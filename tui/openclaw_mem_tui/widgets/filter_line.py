"""The line in which a list is filtered: one for each screen, for the list that had the focus."""

from __future__ import annotations

from textual.binding import Binding
from textual.widgets import Input
from textual.widgets.input import Selection

from openclaw_mem_tui.widgets.lists import CursorList


class FilterLine(Input):
    """Hidden but while it is typed in. Enter and arrow down go back to the list, which stays filtered; escape
    shows every row again."""

    HELP = "Type words: a row stays when it has all of them. The help has the row of a key first."
    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter,down,up", "close(False)", "go back to the list", show=False),
        Binding("escape", "close(True)", "show every row", show=False),
    ]
    target: CursorList | None = None

    def __init__(self) -> None:
        super().__init__(id="filter", compact=True, select_on_focus=False, max_length=200)
        self.placeholder = "filter: words that a row must have"
        self.cursor_blink = False

    def open(self, target: CursorList) -> None:
        """Filter this list from now on; what is typed replaces what it is filtered by."""
        self.target = target
        with self.prevent(Input.Changed):
            self.value = target.wanted
        self.selection = Selection(0, len(self.value))
        self.add_class("-on")
        # At once: focus() waits its turn, and keys sent in one burst would overtake it.
        self.screen.set_focus(self)

    def on_input_changed(self, event: Input.Changed) -> None:
        if self.target is not None:
            self.target.filter(event.value)

    def action_close(self, clear: bool) -> None:
        if self.target is not None:
            if clear:
                self.target.filter("")
            self.screen.set_focus(self.target)

    def on_blur(self) -> None:
        self.remove_class("-on")
