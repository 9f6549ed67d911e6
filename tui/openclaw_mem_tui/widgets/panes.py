"""The quiet widgets: edges, funnel, knob strip, lesson, waterfall. Each draws one function of ``lines/``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.widgets.line_view import Lines

Drawer = Callable[[int], Sequence[Line]]


def nothing(cells: int) -> Sequence[Line]:  # noqa: ARG001 - the shape of every drawer
    """An empty pane."""
    return ()


class Pane(Lines):
    """Draws whatever function it was given last."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._drawer: Drawer = nothing

    def show(self, drawer: Drawer) -> None:
        """Draw with another function from now on (and scroll to its top)."""
        self._drawer = drawer
        self.changed()
        if self.scroll_offset.y:
            self.scroll_to(y=0, animate=False, immediate=True)

    def draw(self, cells: int) -> Sequence[Line]:
        return self._drawer(cells)


class Waterfall(Pane):
    """The arithmetic of the selected hit."""

    HELP = "How the selected chunk came to its score: every operand, what it added or took, and what cut it."
