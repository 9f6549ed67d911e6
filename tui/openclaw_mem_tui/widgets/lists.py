"""Lists with a cursor: of items that may take several lines, and of any number of one-line rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar, overload

from rich.style import Style
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.strip import Strip

from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.widgets.line_view import Lines

T = TypeVar("T")


class Rows(NamedTuple):
    """Lines above the items, and the lines of each item."""

    head: Sequence[Line] = ()
    items: Sequence[Sequence[Line]] = ()


#: Draws all items, given the width and the number of the item under the cursor.
Maker = Callable[[int, int], Rows]


def _no_rows(cells: int, cursor: int) -> Rows:  # noqa: ARG001 - the shape of every maker
    return Rows()


class CursorList(Lines, can_focus=True, inherit_bindings=False):
    """Draws what its maker says; moves a cursor and posts a message when it does."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--cursor-away"}
    #: Lines at the top that do not scroll.
    FIXED: ClassVar[int] = 0
    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("down,j", "go(1)", show=False),
        Binding("up,k", "go(-1)", show=False),
        Binding("home,g", "go(-1_000_000)", show=False),
        Binding("end,G", "go(1_000_000)", show=False),
        Binding("pagedown,ctrl+d", "turn(1)", show=False),
        Binding("pageup,ctrl+u", "turn(-1)", show=False),
    ]

    class Moved(Message):
        """The cursor is on another item."""

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
        return self.paint(self.drawn[index], self._cursor_style(), self.cells)

    def _cursor_style(self) -> Style:
        name = "rows--cursor" if self.has_focus else "rows--cursor-away"
        return self.rich_style + self.get_component_rich_style(name, partial=True)

    def action_go(self, step: int) -> None:
        target = max(0, min(len(self._spans) - 1, self.cursor + step))
        if target == self.cursor:
            return
        for at in (self.cursor, target):
            for index in range(*self._spans[at]) if at < len(self._spans) else ():
                self._painted.pop((index, self.cells), None)
        self.cursor = target
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
        # The lines above the first item come into sight with it.
        self.bring_into_sight(first if self.cursor else 0, stop, self.size.height - self.FIXED)

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
        line = event.y - self.FIXED - self.gutter.top + self.scroll_offset.y
        target = next((i for i, (first, stop) in enumerate(self._spans) if first <= line < stop), None)
        if target is None:
            return
        if target == self.cursor and event.chain > 1:
            self.post_message(self.Chosen(self))
        self.action_go(target - self.cursor)


class _Lazy(Sequence[T], Generic[T]):
    """A sequence whose items are made when they are asked for."""

    def __init__(self, count: int, make: Callable[[int], T]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> list[T]: ...
    def __getitem__(self, at: int | slice) -> T | list[T]:
        if isinstance(at, slice):
            return [self._make(index) for index in range(*at.indices(self._count))]
        if not 0 <= at < self._count:
            raise IndexError(at)
        return self._make(at)


#: Draws one row, given its number, the width, and whether it is selected.
RowDrawer = Callable[[int, int, bool], Line]


def _no_row(row: int, cells: int, selected: bool) -> Line:  # noqa: ARG001 - the shape of every drawer
    return ()


class Table(CursorList):
    """Any number of one-line rows: only those in sight are drawn. A row counts as selected while the table
    has the focus."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._count = 0
        self._row: RowDrawer = _no_row

    def show_rows(self, count: int, row: RowDrawer) -> None:
        """Draw these rows from now on; the cursor stays where it is as far as there are so many."""
        self._count, self._row = count, row
        self.cursor = max(0, min(self.cursor, count - 1))
        self._spans = _Lazy(count, lambda at: (at, at + 1))
        self.changed()

    def draw(self, cells: int) -> Sequence[Line]:
        # The cursor as it is when a row is painted: these rows outlive its moves.
        def row(at: int) -> Line:
            return self._row(at, cells, at == self.cursor and self.has_focus)

        return _Lazy(self._count, row)

    def changed(self) -> None:
        # Not compared line by line: painting the rows in sight is cheaper than drawing all of them.
        if not self.is_attached or self.cells <= 0 or self._drawn_for != self.cells:
            self._redraw()
        elif len(self._drawn) != self._count:
            self._redraw()
            self.call_after_refresh(self.follow)
        else:
            self._painted.clear()
            self.refresh()
