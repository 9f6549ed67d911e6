"""A list of few rows that may take several lines each, with lines around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openclaw_mem_tui.render.spans import Line, text_of
from openclaw_mem_tui.widgets.lists import WIDE, CursorList, Rows, T, Table

#: Draws lines above and below all items, given the width.
Around = Callable[[int], tuple[Sequence[Line], Sequence[Line]]]


class WrappedTable(Table[T]):
    """A table of few rows that may take several lines each: all of them are drawn."""

    DRAWS_ITEMS = True
    _lines: Callable[[T, int, bool], Sequence[Line]]
    _around: Around | None
    draw = CursorList.draw

    def show_wrapped(
        self,
        items: Sequence[T],
        rows: Callable[[T, int, bool], Sequence[Line]],
        around: Around | None = None,
        head: Callable[[int], Line] | None = None,
        words: Callable[[T], str] | None = None,
    ) -> None:
        """As ``show_rows``, with all lines of an item."""
        self._lines, self._around, self.head = rows, around, head
        self.take(items, words)

    def full_text(self, item: T) -> str:
        return " ".join(map(text_of, self._lines(item, 4 * WIDE, False)))

    def spread(self) -> None:
        items, rows, around = self._items, self._lines, self._around
        if len(self._spans) != len(items):  # until they are drawn, the cursor moves by one line
            self._spans = [(at, at + 1) for at in range(len(items))]

        def make(cells: int, cursor: int) -> Rows:
            head, foot = around(cells) if around is not None else ((), ())
            made = [rows(item, cells, at == cursor and self.has_focus) for at, item in enumerate(items)]
            return Rows(head, made, foot)

        self.show(make)

    def on_focus(self) -> None:
        self.call_later(self.changed)  # the mark of the cursor, once it has the focus

    on_blur = on_focus
