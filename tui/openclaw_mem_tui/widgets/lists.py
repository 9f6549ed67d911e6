"""Lists with a cursor: of items that may take several lines, and of any number of one-line rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, NamedTuple, TypeVar

from rich.style import Style
from textual import events
from textual.message import Message

from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.render.format import inert
from openclaw_mem_tui.render.spans import Line, text_of, unpointed
from openclaw_mem_tui.render.terms import has_words
from openclaw_mem_tui.widgets.lazy import Lazy
from openclaw_mem_tui.widgets.line_view import Lines

T = TypeVar("T")


class Rows(NamedTuple):
    """Lines above the items, the lines of each item, and lines below all of them."""

    head: Sequence[Line] = ()
    items: Sequence[Sequence[Line]] = ()
    foot: Sequence[Line] = ()


#: Cells in which a row that is searched is drawn.
WIDE = 240
#: Draws all items, given the width and the number of the item under the cursor.
Maker = Callable[[int, int], Rows]


class CursorList(Lines, can_focus=True, inherit_bindings=False):
    """Draws what its maker says; moves a cursor and posts a message when it does."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--cursor", "rows--cursor-away"}
    BINDINGS = bindings("lists")  # type: ignore[assignment]
    #: Whether its rows can be filtered: it overrides ``rearrange``, ``words_at`` and ``counted`` then.
    CAN_FILTER: ClassVar[bool] = False
    #: Whether ``draw`` draws the items, which may depend on the cursor; else each is drawn when painted.
    DRAWS_ITEMS: ClassVar[bool] = True

    class Moved(Message):
        """The cursor is on another item."""

        def __init__(self, sender: CursorList) -> None:
            super().__init__()
            self._list = sender

        @property
        def control(self) -> CursorList:
            return self._list

        def can_replace(self, message: Message) -> bool:
            # Of keys that wait, the last one says where the cursor is.
            same = isinstance(message, CursorList.Moved) and message.control is self.control
            return same and type(self) is type(message) is CursorList.Moved

    class Chosen(Moved):
        """An item was clicked twice."""

    def __init__(self, about: str = "", *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.about = about  # shown in the help
        self._maker: Maker = lambda cells, cursor: Rows()  # noqa: ARG005 - the shape of every maker
        self.cursor = 0
        #: The words that every shown row has, and the last ones that were searched for.
        self.wanted = self.searched = ""
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
        return [*lines, *rows.foot]

    def line_at(self, index: int) -> tuple[Line, Style]:
        spans, base = super().line_at(index)
        first, stop = self._spans[self.cursor] if self.cursor < len(self._spans) else (0, 0)
        if first <= index < stop:
            base = self._cursor_style()
            spans = spans if self.points else unpointed(spans)
        return spans, base

    #: Whether its selected row has the pointer: of several lists that of the keys alone.
    points = property(lambda self: bool(self.has_focus or not self.can_focus))

    def _cursor_style(self) -> Style:
        name = "rows--cursor" if self.points else "rows--cursor-away"
        if name not in self._styles_of:
            self._styles_of[name] = self.base_style + self.get_component_rich_style(name, partial=True)
        return self._styles_of[name]

    def action_go(self, step: int) -> None:
        target = max(0, min(len(self._spans) - 1, self.cursor + step))
        if target == self.cursor:
            self.scroll_relative(y=step, animate=False)  # to the lines above and below all items
            return
        before, self.cursor = self.cursor, target
        # Straight to the screen, and before the list asks to be painted: it is painted with the details then.
        self.screen.post_message(self.Moved(self))
        if self.DRAWS_ITEMS:
            self.changed()
        else:
            self._draw_again(before, target)
        self.follow()

    def _draw_again(self, *items: int) -> None:
        """The lines of these items, and no others: most of the cost of a key is that of lines painted."""
        for at in items:
            for index in range(*self._spans[at]) if at < len(self._spans) else ():
                self._sources.pop(index, None)
        self.repaint()

    def action_turn(self, pages: float) -> None:
        """So many pages, each of about as many items as are in sight."""
        height, items = self.size.height - 1, len(self._spans) / (len(self.drawn) or 1)
        self.action_go(int(pages * max(2, height * items)))

    # -- filter -------------------------------------------------------------------------------------------

    def filter(self, words: str) -> None:
        """Show only the rows that have all of these words (any case, in any order), in their order; none
        shows every row. The selected row stays selected where it is shown."""
        self.wanted = " ".join(words.lower().split())
        self.searched = self.wanted or self.searched
        self.rearrange()
        self.call_after_refresh(self.follow)  # more rows may need a scroll bar, which comes with a layout
        self.post_message(self.Moved(self))

    def rearrange(self) -> None:
        """Take over what is wanted."""

    def words_at(self, at: int) -> str:  # noqa: ARG002 - for subclasses
        """The text of a shown row, in lower case."""
        return ""

    @property
    def counted(self) -> tuple[int, int]:
        """How many rows are shown, and how many there are."""
        return len(self._spans), len(self._spans)

    def go_to_match(self, step: int) -> bool:
        """Cursor to the next (1) or previous (-1) shown row with the words searched for last, any row without
        such words; past the last row the first is next. False when no row has them."""
        many = len(self._spans)
        for away in range(1, many + 1):
            at = (self.cursor + step * away) % many
            if has_words(self.words_at(at), self.searched):
                self.action_go(at - self.cursor)
                return True
        return False

    @property
    def filtered(self) -> str:
        """What the frame says of the filter; "" without one."""
        shown, all_rows = self.counted
        if not self.wanted:
            return ""
        return f"filter {inert(self.wanted, 40)} · {shown:,} of {all_rows:,}"

    # -- cursor and mouse ---------------------------------------------------------------------------------

    def follow(self) -> None:
        """Bring the selected item into sight, with the first one the lines above it."""
        if self.cursor >= len(self._spans):
            return
        (first, stop), height = self._spans[self.cursor], self.size.height - self.fixed
        if self.scroll_offset.y > (first if self.cursor else 0):
            self._scroll_to_line(first if self.cursor else 0)
        elif 0 < height < stop - self.scroll_offset.y:
            self._scroll_to_line(stop - height)

    def _scroll_to_line(self, line: int) -> None:
        self.scroll_to(y=line, animate=False)

    def on_focus(self) -> None:
        self._draw_again(self.cursor)

    on_blur = on_focus

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self.call_after_refresh(self.follow)

    async def on_click(self, event: events.Click) -> None:
        line = event.y - self.fixed - self.gutter.top + self.scroll_offset.y
        target = next((i for i, (first, stop) in enumerate(self._spans) if first <= line < stop), None)
        if target not in (None, self.cursor):  # only what is around the rows and in the selected one acts
            event.prevent_default()
        if target is not None:
            if target == self.cursor and event.chain > 1:
                self.post_message(self.Chosen(self))
            await self.run_action(f"go({target - self.cursor})")


class Table(CursorList, Generic[T]):
    """Any number of one-line rows: only those in sight are drawn. A row counts as selected while the table
    has the focus."""

    CAN_FILTER, DRAWS_ITEMS = True, False
    _all: Sequence[T] = ()
    _items: Sequence[T] = ()
    _row: Callable[[T, int, bool], Line]
    _words: Callable[[T], str] | None = None
    head: Callable[[int], Line] | None = None
    #: What an item is known by when all are read anew; whether a cursor on the first row stays there then.
    known_by: Callable[[T], object] = staticmethod(lambda item: item)
    stays_first = False
    _texts: dict[int, str]  # of items that were searched, by their position

    def show_rows(
        self,
        items: Sequence[T],
        row: Callable[[T, int, bool], Line],
        words: Callable[[T], str] | None = None,
        head: Callable[[int], Line] | None = None,
    ) -> None:
        """Draw a row for each of these from now on, given the item, the width and whether it is selected, and
        above them the titles that ``head`` draws. The cursor follows its item; it stays
        when that is gone. ``words`` is what a filter looks at (None: what a wide row shows)."""
        self._row, self.head = row, head
        self.take(items, words)

    def take(self, items: Sequence[T], words: Callable[[T], str] | None) -> None:
        """These are the items from now on."""
        before, follows = self.cursor, items is not self._all and (self.cursor > 0 or not self.stays_first)
        if items is not self._all or not items:
            self._texts = {}
        self._all, self._words = items, words
        self.rearrange(stay=not (self.wanted or follows))
        if self.cursor != before:
            self.call_after_refresh(self.follow)

    def rearrange(self, *, stay: bool = False) -> None:
        chosen = self.selected
        self._items = items = self._matching() if self.wanted else self._all
        if not stay and chosen is not None:
            wanted, known = self.known_by(chosen), map(self.known_by, items)
            self.cursor = next((at for at, one in enumerate(known) if one == wanted), self.cursor)
        self.cursor = max(0, min(self.cursor, len(items) - 1))
        self.spread()

    def _matching(self) -> Sequence[T]:
        at_all = range(len(self._all))
        return [self._all[at] for at in at_all if has_words(self._text_of(at), self.wanted)]

    def _text_of(self, at: int) -> str:
        if at not in self._texts:
            self._texts[at] = (self._words or self.full_text)(self._all[at]).lower()
        return self._texts[at]

    def full_text(self, item: T) -> str:
        """All that a row says where there is room."""
        return text_of(self._row(item, WIDE, False))

    def words_at(self, at: int) -> str:
        item = self._items[at]
        return self._text_of(at if self._items is self._all else self._all.index(item))

    @property
    def counted(self) -> tuple[int, int]:
        return len(self._items), len(self._all)

    def spread(self) -> None:
        """The items are others: draw them."""
        others = len(self._drawn) != len(self._items)
        self._spans = Lazy(len(self._items), lambda at: (at, at + 1))
        self.changed()
        if others:
            self.call_after_refresh(self.follow)

    def point_at(self, item: T) -> None:
        """Cursor to this item, where it is shown."""
        if item in self._items:
            self.action_go(self._items.index(item) - self.cursor)

    @property
    def selected(self) -> T | None:
        """The item under the cursor."""
        return self._items[self.cursor] if self.cursor < len(self._items) else None

    fixed = property(lambda self: int(self.head is not None))

    def line_at(self, index: int) -> tuple[Line, Style]:
        head = self.head if index < 0 else None
        return super().line_at(index) if head is None else (head(self.cells), self.base_style)

    def draw(self, cells: int) -> Sequence[Line]:
        # The cursor as it is when a row is painted: these rows outlive its moves.
        def row(at: int) -> Line:
            return self._row(self._items[at], cells, at == self.cursor and self.has_focus)

        return Lazy(len(self._items), row)
