"""The base of every drawn widget: lines of spans through the Line API, painted once and kept; and panes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widgets import Input

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.bindings import typing
from openclaw_mem_tui.render.spans import Line, Span, cut
from openclaw_mem_tui.widgets.painting import PAINTS_LESS, LineBar, filtered, paint_soon

#: What a line is painted from: spans, the style that they add to, and the width.
Source = tuple[Line, Style, int]


class Lines(ScrollView, can_focus=False):
    """Shows what ``draw`` returns for the present width. Call ``changed`` when that would be different."""

    ALLOW_MAXIMIZE = False
    #: Lines at the top that do not scroll: those before the first drawn one.
    fixed = 0

    @dataclass
    class Clicked(Message):
        """A span was clicked that names a key (``text``), or does something of its own (``action``)."""

        text: str
        action: str

    class Sized(Message):
        """It has another size, or was scrolled: it shows other rows than before."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._drawn: Sequence[Line] = ()
        self._drawn_for = -1
        self._sources: dict[int, Source] = {}  # of the present state, as far as they were asked for
        self._painted: dict[int, tuple[Source, Strip]] = {}  # what was painted last, and from what
        self._shown: dict[int, Source] = {}  # by line of the widget: what it was painted from
        self._styles_of: dict[str, Style] = {}
        self._added: dict[Style, dict[str, Style]] = {}  # to a base style, by role
        self._base: Style | None = None
        self._cells: tuple[object, int] = (None, 0)  # and the size that they are of

    def on_mount(self) -> None:
        # The styles of roles are the application's: a theme may change them and nothing of this widget.
        self.app.theme_changed_signal.subscribe(self, lambda _theme: self.refresh())

    @property
    def vertical_scrollbar(self) -> ScrollBar:
        if not PAINTS_LESS:
            return super().vertical_scrollbar
        if self._vertical_scrollbar is None:  # as Textual makes its own
            self._vertical_scrollbar = bar = LineBar(name="vertical")
            bar.display = False
            self.app._start_widget(self, bar)
        return self._vertical_scrollbar

    def draw(self, cells: int) -> Sequence[Line]:  # noqa: ARG002 - for subclasses
        """The lines for a width. Pure work on state that the widget was given; no lines here."""
        return ()

    def changed(self) -> None:
        """The state behind ``draw`` is new: repaint the lines in sight that differ, and nothing when none
        does."""
        self.draw_again()
        self.repaint()

    def draw_again(self) -> None:
        """The state behind ``draw`` is new; ``repaint`` follows."""
        before = len(self._drawn) if self._drawn_for == self.cells > 0 else -1
        self._drawn_for = -1
        if self.is_attached and before != len(self.drawn):
            if self.display and self.styles.auto_dimensions:
                self.refresh(layout=True)
            self._measure()

    def repaint(self) -> None:
        """Paint the lines in sight that are other than what was painted last."""
        if not self.is_attached:
            return
        _ = self.drawn
        cells, scrolled, fixed = self._drawn_for, self.scroll_offset.y, self.fixed
        differ = list[Region]()
        for y in range(self.size.height if cells > 0 else 0):
            index = y - fixed + (scrolled if y >= fixed else 0)
            if self._shown.get(y) != self._source(index):
                differ.append(Region(0, y, cells, 1))
        paint_soon(self, differ)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.position = new_value
        if round(old_value) != round(new_value):
            self.repaint()
            self.post_message(self.Sized())

    @property
    def cells(self) -> int:
        """Columns there are to draw on: read from the layout once a size."""
        known = self._size, self.show_vertical_scrollbar
        if self._cells[0] != known or not self._cells[1]:
            self._cells = known, self.scrollable_content_region.width or self.size.width
        return self._cells[1]

    @property
    def drawn(self) -> Sequence[Line]:
        """The current lines (drawn now when needed)."""
        cells = self.cells
        if self._drawn_for != cells:
            self._drawn = self._draw(cells) if cells > 0 else ()
            self._drawn_for = cells
            self._sources.clear()
        return self._drawn

    def _draw(self, cells: int) -> Sequence[Line]:
        with typing(isinstance(self.screen.focused, Input), getattr(self.screen, "WHERE", "")):
            return self.draw(cells)

    def _measure(self) -> None:
        if self.cells > 0:
            drawn = len(self.drawn)
            self.set_height(drawn + self.fixed)

    def watch_show_vertical_scrollbar(self) -> None:
        """The lines are narrower beside it, and may be more."""
        self.call_after_refresh(self._measure)

    def set_height(self, lines: int) -> None:
        """How many lines can be scrolled. A new layout is only asked for when the scroll bar comes or goes:
        it costs ten times as much as drawing."""
        size = Size(self.cells, lines)
        if size == self.virtual_size:
            return
        comes_and_goes = self.styles.overflow_y == "auto"
        if comes_and_goes and self.show_vertical_scrollbar != (lines > self.container_size.height):
            self.virtual_size = size
            return
        self.set_reactive(Lines.virtual_size, size)
        if self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = lines
        self.scroll_y = self.validate_scroll_y(self.scroll_y)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002
        # Textual's ``width`` includes a scroll bar that is always there; the lines are drawn beside it.
        bar = self.styles.scrollbar_size_vertical if self.styles.overflow_y == "scroll" else 0
        return len(self._draw(width - bar)) + self.fixed

    def on_resize(self, event: events.Resize) -> None:  # noqa: ARG002
        self._measure()
        self.post_message(self.Sized())

    async def on_click(self, event: events.Click) -> None:
        y = event.y - self.fixed - self.gutter.top + self.scroll_offset.y
        x = event.x - self.gutter.left
        before = Span("")
        for span in self.drawn[y] if 0 <= y < len(self.drawn) else ():
            x -= cell_len(span.text)
            if x < 0:
                # What a key does is said behind it, and works as the key; a separator does not.
                of_key = "key" in before.role.split() and not span.action and span.role != "faint"
                named = before if of_key else span
                if named.action or "key" in named.role.split():
                    self.post_message(self.Clicked(named.text.strip(), named.action))
                return
            before = span

    def notify_style_update(self) -> None:
        self._sources.clear()
        self._painted.clear()
        self._shown.clear()
        self._styles_of.clear()
        self._added.clear()
        self._base = None
        self._cells = (None, 0)
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        _ = self.drawn  # for the present width; says how many lines do not scroll
        gutter = self.gutter
        inside = crop.x == gutter.left and crop.width == self.cells and crop.y >= gutter.top
        if not inside or crop.bottom > gutter.top + self.size.height:
            return super().render_lines(crop)
        # No edge is painted: Textual would make one around each line.
        return [self.render_line(y - gutter.top) for y in crop.line_range]

    def render_line(self, y: int) -> Strip:
        index = y - self.fixed + (self.scroll_offset.y if y >= self.fixed else 0)
        self._shown[y] = self._source(index)
        return self.painted(index)

    def painted(self, index: int) -> Strip:
        """One line as a strip, painted anew when it differs from what was painted last."""
        row = self._source(index)
        if index not in self._painted or self._painted[index][0] != row:
            self._painted[index] = row, self.paint(*row)
        return self._painted[index][1]

    def _source(self, index: int) -> Source:
        if index not in self._sources:
            self._sources[index] = *self.line_at(index), self._drawn_for
        return self._sources[index]

    def line_at(self, index: int) -> tuple[Line, Style]:
        """The spans of a drawn line and the style that they add to."""
        return (self._drawn[index] if 0 <= index < len(self._drawn) else ()), self.base_style

    @property
    def base_style(self) -> Style:
        """``rich_style``, kept until a style changes: each reading of that goes through all ancestors."""
        if self._base is None:
            self._base = self.rich_style
        return self._base

    def paint(self, spans: Line, base: Style, cells: int) -> Strip:
        """Spans on a base style, exactly ``cells`` wide."""
        styles = self._added.setdefault(base, {})
        for role in ("", *(span.role for span in spans)):
            if role not in styles:
                styles[role] = base + self.style_of(role)
                (segment,) = filtered(self, [Strip([Segment(" ", styles[role])])])[0]
                styles[role] = segment.style or base
        segments = [Segment(span.text, styles[span.role]) for span in spans]
        return Strip(segments).adjust_cell_length(cells, styles[""])

    def style_of(self, role: str) -> Style:
        """What a role (or several) adds to the base style."""
        style = self._styles_of.get(role)
        if style is None:
            style = Style.null()
            for name in role.split():
                style += self.app.get_component_styles(f"role--{name}").partial_rich_style
            self._styles_of[role] = style
        return style

    @property
    def text(self) -> str:
        """What is drawn, as plain text (tests and exports)."""
        return "\n".join("".join(span.text for span in spans).rstrip() for spans in self.drawn)


#: Lines for a width in cells.
Drawer = Callable[[int], Sequence[Line]]
#: Of the drawn lines, the one to scroll to.
Anchor = Callable[[Sequence[Line]], int]


def nothing(cells: int) -> Sequence[Line]:  # noqa: ARG001 - the shape of every drawer
    """An empty pane."""
    return ()


class Pane(Lines):
    """Draws whatever function it was given last."""

    def __init__(
        self, drawer: Drawer = nothing, *, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._drawer = drawer
        self._anchor: Anchor | None = None

    def show(self, drawer: Drawer, anchor: Anchor | None = None, first: Anchor | None = None) -> None:
        """Draw with another function from now on, from its first line, or with the line that ``first`` names
        at the top. ``anchor`` names the line that must be in sight, at any size, until the user scrolls."""
        self._drawer, self._anchor = drawer, anchor
        self.draw_again()
        self._scroll_from(first(self.drawn) if first is not None else 0)
        if anchor is not None:  # the bounds of scrolling may come with a new layout
            self.call_after_refresh(self._bring_anchor_into_sight)

    def _scroll_from(self, top: int) -> None:
        """``top`` is the first line in sight, where that shows the anchor too. Repaints."""
        height = self.size.height
        if self._anchor is not None and height > 0 and self.cells > 0:
            at = self._anchor(self.drawn)
            top = top if top <= at < top + height else max(0, at - min(2, height - 1))
        top = min(top, self.max_scroll_y)  # where it stays, nothing else repaints
        if self.scroll_offset.y != top:
            self.scroll_to(y=top, animate=False, immediate=True)
        else:
            self.repaint()

    def _bring_anchor_into_sight(self) -> None:
        self._scroll_from(self.scroll_offset.y)

    def let_go(self) -> None:
        """The user scrolls: the pane stays there."""
        self._anchor = None

    on_mouse_scroll_down = on_mouse_scroll_up = let_go

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        if self._anchor is not None:
            self.call_after_refresh(self._bring_anchor_into_sight)

    def draw(self, cells: int) -> Sequence[Line]:
        return self._drawer(cells)


class Brief(Pane):
    """Draws at most ``most`` lines; the last one names the key that shows all messages when more are left."""

    def __init__(self, most: int, *, id: str) -> None:
        super().__init__(id=id)
        self.most = most

    def draw(self, cells: int) -> Sequence[Line]:
        lines = super().draw(cells)
        if len(lines) <= self.most:
            return lines
        return [*lines[: self.most - 1], cut(lines[self.most - 1], cells - 1)]
