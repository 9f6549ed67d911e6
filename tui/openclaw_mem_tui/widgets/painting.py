"""What Textual paints, less: of a screen the widgets with a line to paint, of a scroll bar the lines that
differ. That is made of names that Textual does not document: a release without one of them paints by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.geometry import Region
from textual.screen import Screen
from textual.scrollbar import ScrollBar, ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

try:
    from textual._compositor import Compositor, CompositorUpdate
except ImportError:  # then they are not used
    Compositor = CompositorUpdate = object  # type: ignore[assignment,misc]


def _has_all() -> bool:
    """Whether this release has the names of the inside of a screen, which is a widget too, that are used
    here."""
    names = "_border_title _border_subtitle _dirty_widgets _exchange_repaint_regions _layout_cache _set_dirty"
    names += " _vertical_scrollbar"
    inner = "_dirty_regions _regions_to_spans render_full_update render_partial_update visible_widgets size"
    screen = Screen[Any]()
    own = getattr(screen, "_compositor", None)
    return {*names.split()} <= {*dir(screen)} and {*inner.split()} <= {*dir(own)}


#: Else Textual paints in its own way.
PAINTS_LESS = _has_all() and hasattr(App, "_start_widget")


class Pieces(CompositorUpdate):
    """Parts of lines, each with the column and the line at which it begins; later ones are in front."""

    def __init__(self, pieces: Sequence[tuple[int, int, Strip]]) -> None:
        self.pieces = pieces

    def render_segments(self, console: Console) -> str:
        return "".join(f"{Control.move_to(x, y)}{strip.render(console)}" for x, y, strip in self.pieces)


class DirtyLines(Compositor):
    """Asks for what is to be painted. Textual's own asks every widget in sight for all of its lines and cuts
    each line at the edges of all widgets, which takes longer than painting the few that differ."""

    def render_partial_update(self) -> Pieces | None:  # type: ignore[override]
        left, found = list(self._dirty_regions), list[tuple[int, int, Strip]]()
        self._dirty_regions.clear()
        for widget, (region, clip) in self.visible_widgets.items():  # those in front first
            seen = region.intersection(clip).intersection(self.size.region)
            for part in self._runs([dirty.intersection(seen) for dirty in left if dirty.overlaps(seen)]):
                strips = widget.render_lines(part.translate(-region.offset))
                found += ((part.x, y, strip) for y, strip in zip(part.line_range, strips, strict=True))
            left = [dirty for dirty in left if not seen.contains_region(dirty)]
        return Pieces(found[::-1]) if found else None

    def render_full_update(self, simplify: bool = False) -> Any:
        """All of the screen, after which nothing waits to be painted: what a widget asked for before it had a
        place would be painted with its next line."""
        for widget in self.visible_widgets:
            widget._exchange_repaint_regions()
        return super().render_full_update(simplify=simplify)

    def _runs(self, regions: Sequence[Region]) -> list[Region]:
        """The same cells, each once: lines that begin and end alike in one region."""
        made: list[Region] = []
        for y, start, stop in self._regions_to_spans(regions):
            above = made[-1] if made else None
            if above is not None and (above.x, above.right, above.bottom) == (start, stop, y):
                made[-1] = Region(start, above.y, stop - start, above.height + 1)
            else:
                made.append(Region(start, y, stop - start, 1))
        return made


def paint_less(screen: Screen[Any]) -> None:
    """Have a screen that was just made painted in parts."""
    if PAINTS_LESS:
        screen._compositor = DirtyLines()


def paint_soon(widget: Widget, regions: Sequence[Region]) -> None:
    """Paint regions of the content of a widget with the next frame: as its ``refresh``, whose two messages to
    reach the screen cost as much as painting some lines."""
    if not regions or not widget.is_attached or not widget.display:
        return
    if not PAINTS_LESS:
        widget.refresh(*regions)
    else:
        widget._layout_cache.clear()
        widget._set_dirty(*regions)
        widget.screen._dirty_widgets.add(widget)
        widget.screen.check_idle()


def set_frame(widget: Widget, name: str, text: str) -> None:
    """Set ``border_title`` or ``border_subtitle``, and paint that edge: Textual paints the whole widget."""
    if not PAINTS_LESS:
        setattr(widget, name, text)
        return
    setattr(widget, f"_{name}", widget.render_str(text))
    (top, _, _, left), (width, height) = widget.gutter, widget.outer_size
    y = -top if name == "border_title" else height - top - 1
    paint_soon(widget, [Region(-left, y, width, 1)] if height else [])


def filtered(widget: Widget, strips: list[Strip]) -> list[Strip]:
    """Lines as the filters of the application have them (no colours, those of the terminal)."""
    _, background = widget.background_colors
    for each in widget.get_line_filters():
        strips = [strip.apply_filter(each, background) for strip in strips]
    return strips


class WholeCells(ScrollBarRender):
    """A thumb of whole cells: parts of one are drawn with glyphs that many fonts set apart from the rest."""

    VERTICAL_BARS = [" "]  # noqa: RUF012 - Textual reads it from the class


ScrollBar.renderer = WholeCells


class LineBar(ScrollBar):
    """A vertical scroll bar that paints the lines that differ: moves of a cursor change few of them."""

    #: One segment a line: what was painted last.
    _painted: Sequence[Segment] = ()
    #: What was made last, and from what.
    _made: Sequence[Segment] = ()
    _made_for: tuple[object, ...] = ()

    def _lines(self) -> Sequence[Segment]:
        size, position, pointed = self.size, self.position, (self.mouse_over, self.grabbed)
        now = size, self.window_virtual_size, self.window_size, position, pointed
        if self._made_for != now:
            bar = self.render()
            assert isinstance(bar, WholeCells) and isinstance(bar.style, Style)
            background, color = bar.style.bgcolor, bar.style.color
            assert background is not None and color is not None
            sizes = size.height, bar.virtual_size, bar.window_size, position, size.width
            made = WholeCells.render_bar(*sizes, back_color=background, bar_color=color)
            self._made, self._made_for = tuple(made.segments), now
        return self._made

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        # Of a screen that was closed meanwhile nothing can be made.
        if self._painted and self.size and self.is_attached and not (regions or layout or recompose):
            lines = self._lines()
            if len(lines) == len(self._painted):
                differ = (y for y, before in enumerate(self._painted) if before != lines[y])
                paint_soon(self, [Region(0, y, self.size.width, 1) for y in differ])
                return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        self._painted = self._made_for = ()
        super().notify_style_update()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._painted = self._lines()
        return filtered(self, [self.render_line(y) for y in crop.line_range])

    def render_line(self, y: int) -> Strip:
        return Strip([self._painted[y]], self.size.width)
