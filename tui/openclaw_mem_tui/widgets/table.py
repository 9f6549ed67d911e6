"""A list with a cursor for any number of one-line rows: only what is seen is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.widgets.cursor_list import CursorList

#: Draws the row at a place, for a width, selected or not.
RowDrawer = Callable[[int, int, bool], Line]


class _Drawn(Sequence[Line]):
    """Rows that are drawn when they are asked for."""

    def __init__(self, count: int, draw: Callable[[int], Line]) -> None:
        self._count = count
        self._draw = draw

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> Line: ...
    @overload
    def __getitem__(self, place: slice) -> list[Line]: ...
    def __getitem__(self, place: int | slice) -> Line | list[Line]:
        if isinstance(place, slice):
            return [self._draw(at) for at in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return self._draw(place)


class _Places(Sequence[tuple[int, int]]):
    """Each row is one line."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> tuple[int, int]: ...
    @overload
    def __getitem__(self, place: slice) -> list[tuple[int, int]]: ...
    def __getitem__(self, place: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
        if isinstance(place, slice):
            return [(at, at + 1) for at in range(*place.indices(self._count))]
        if not 0 <= place < self._count:
            raise IndexError(place)
        return place, place + 1


def _nothing(place: int, cells: int, selected: bool) -> Line:  # noqa: ARG001 - the shape of every drawer
    return ()


class Table(CursorList):
    """Draws what its drawer says, row by row. A row counts as selected while the table has the focus."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._count = 0
        self._row: RowDrawer = _nothing

    def show_rows(self, count: int, row: RowDrawer) -> None:
        """Draw these rows from now on; the cursor stays where it is as far as there are so many."""
        self._count, self._row = count, row
        self.cursor = max(0, min(self.cursor, count - 1))
        self._spans = _Places(count)
        self.changed()

    def draw(self, cells: int) -> Sequence[Line]:
        # The cursor as it is when a row is painted: these rows outlive its moves.
        def row(place: int) -> Line:
            return self._row(place, cells, place == self.cursor and self.has_focus)

        return _Drawn(self._count, row)

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
