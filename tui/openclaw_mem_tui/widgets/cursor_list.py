"""A list with a cursor, whose items may take more than one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip

from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.widgets.line_view import Lines


class Rows(NamedTuple):
    """Lines above the items, and the lines of each item."""

    head: Sequence[Line] = ()
    items: Sequence[Sequence[Line]] = ()


#: Draws all items for a width, given the cursor's place.
Maker = Callable[[int, int], Rows]


def _no_rows(cells: int, cursor: int) -> Rows:  # noqa: ARG001 - the shape of every maker
    return Rows()


class CursorList(Lines, can_focus=True, inherit_bindings=False):
    """Draws what its maker says; moves a cursor; tells who listens."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--cursor-away"}
    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("down,j", "go(1)", show=False),
        Binding("up,k", "go(-1)", show=False),
        Binding("home,g", "go(-1_000_000)", show=False),
        Binding("end,G", "go(1_000_000)", show=False),
        Binding("pagedown,ctrl+d", "turn(1)", show=False),
        Binding("pageup,ctrl+u", "turn(-1)", show=False),
    ]

    class Moved(Message):
        """The cursor stands on another item."""

        def __init__(self, sender: CursorList) -> None:
            super().__init__()
            self._list = sender

        @property
        def control(self) -> CursorList:
            return self._list

    class Chosen(Moved):
        """An item was clicked twice."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._maker: Maker = _no_rows
        self.cursor = 0
        self._spans: Sequence[tuple[int, int]] = []  # first line and line after the last, of each item

    def show(self, maker: Maker) -> None:
        """Draw with another function from now on."""
        self._maker = maker
        self.changed()

    def draw(self, cells: int) -> Sequence[Line]:
        rows = self._maker(cells, self.cursor)
        lines = list(rows.head)
        spans = []
        for item in rows.items:
            spans.append((len(lines), len(lines) + len(item)))
            lines.extend(item)
        self._spans = spans
        return lines

    def painted(self, index: int) -> Strip:
        first, stop = self._spans[self.cursor] if self.cursor < len(self._spans) else (0, 0)
        if not first <= index < stop:
            return super().painted(index)
        name = "rows--cursor" if self.has_focus else "rows--cursor-away"
        base = self.rich_style + self.get_component_rich_style(name, partial=True)
        return self.paint(self.drawn[index], base, self.cells)

    def action_go(self, step: int) -> None:
        place = max(0, min(len(self._spans) - 1, self.cursor + step))
        if place == self.cursor:
            return
        for at in (self.cursor, place):
            for index in range(*self._spans[at]) if at < len(self._spans) else ():
                self._painted.pop((index, self.cells), None)
        self.cursor = place
        self.changed()
        self.refresh()
        self.follow()
        self.post_message(self.Moved(self))

    def action_turn(self, direction: int) -> None:
        """Half a page."""
        self.action_go(direction * max(5, self.size.height // 2))

    def follow(self) -> None:
        """Bring the selected item into sight."""
        if self.cursor >= len(self._spans):
            return
        first, stop = self._spans[self.cursor]
        top, height = self.scroll_offset.y, self.size.height
        if self.cursor == 0:
            self.scroll_to(y=0, animate=False)
        elif first < top:
            self.scroll_to(y=first, animate=False)
        elif height and stop > top + height:
            self.scroll_to(y=stop - height, animate=False)

    def on_focus(self) -> None:
        self._painted.clear()
        self.refresh()

    def on_blur(self) -> None:
        self._painted.clear()
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.follow)

    def on_click(self, event: events.Click) -> None:
        line = event.y - self.gutter.top + self.scroll_offset.y
        place = next((i for i, (first, stop) in enumerate(self._spans) if first <= line < stop), None)
        if place is None:
            return
        if place == self.cursor and event.chain > 1:
            self.post_message(self.Chosen(self))
        self.action_go(place - self.cursor)
