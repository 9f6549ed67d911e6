"""What is about to be done, shown before it is done."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen

from openclaw_mem_tui.widgets.banner import Banner
from openclaw_mem_tui.widgets.panes import Drawer, Pane


class ConfirmScreen(ModalScreen[bool]):
    """Returns whether to go ahead."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter,y", "dismiss(True)", show=False),
        Binding("escape,n,q", "dismiss(False)", show=False),
    ]

    def __init__(self, title: str, drawer: Drawer, verb: str) -> None:
        """``verb`` is what enter does, like ``rebuild``."""
        super().__init__()
        self._title, self._drawer, self._verb = title, drawer, verb

    def compose(self) -> ComposeResult:
        yield Banner(classes="over")
        with Vertical(classes="box") as box:
            box.border_title = self._title
            box.border_subtitle = f"enter {self._verb} · esc cancel"
            yield Pane(classes="said")

    def on_mount(self) -> None:
        self.query_one(Pane).show(self._drawer)
