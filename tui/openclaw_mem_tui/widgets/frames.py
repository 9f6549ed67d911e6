"""The texts on the frames of a screen: a title on the upper edge, a subtitle on the lower one."""

from __future__ import annotations

from functools import lru_cache

from textual.content import Content
from textual.widget import Widget

from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.render.format import join
from openclaw_mem_tui.widgets.line_view import Lines
from openclaw_mem_tui.widgets.lists import CursorList, Table
from openclaw_mem_tui.widgets.painting import set_frame


def markup(text: str) -> str:
    """A text for a frame, whose brackets mean nothing, whatever follows it."""
    return text.replace("[", "\\[")


#: Parsing takes longer than painting the edge, and most texts are asked for with each key.
_parsed = lru_cache(256)(Content.from_markup)


def named_key(sign: str, what: str) -> str:
    """``key what`` for a frame, the key in the style of the bottom line; ``what`` is markup."""
    return f"[bold $accent]{markup(sign)}[/] {what}".rstrip()


def key_hint(name: str, what: str) -> str:
    """``key what`` for a frame, where a click does it too; ``name`` is the id of the action."""
    return f"[@click=screen.do('{name}')]{named_key(key(name), what)}[/]"


class Frames:
    """Knows what each frame was given, and paints only what is other than before."""

    def __init__(self) -> None:
        self._given: dict[Widget, tuple[str, str]] = {}
        self._shown: dict[Widget, tuple[str, str]] = {}

    @property
    def widgets(self) -> tuple[Widget, ...]:
        """Those that were given a text."""
        return tuple(self._given)

    def label(
        self, widget: Widget, title: str | None, subtitle: str | None, *, instead: str = "", one_edge: bool
    ) -> None:
        """Set the title and the subtitle (None: as before) of a frame; what is shown ``instead`` of the
        subtitle; with ``one_edge`` the upper one has both. That of a list that is too low says which rows are
        in sight, where there is room."""
        before = self._given.get(widget, ("", ""))
        title, subtitle = before[0] if title is None else title, before[1] if subtitle is None else subtitle
        self._given[widget] = title, subtitle
        texts = title, instead or subtitle
        if isinstance(widget, Table):
            texts = title, more(widget, False, texts[1], taken_by(title) if one_edge else 0)
        if one_edge:
            room = widget.outer_size.width - 4  # corners and blanks
            texts = f" {join((_cropped(title, texts[1], room), texts[1]))} ", ""
        for name, text, was in zip(_EDGES, texts, self._shown.get(widget, ("", "")), strict=True):
            if text != was:
                set_frame(widget, name, text)
        self._shown[widget] = texts


def _cropped(title: str, beside: str, room: int) -> str:
    """A title as far as there is room for it beside another text, which may have keys."""
    whole = _parsed(title)
    left = room - _parsed(beside).cell_length - 3 * bool(beside)
    return title if room < 0 or whole.cell_length <= left else whole.truncate(left, ellipsis=True).markup


def rows_of(pane: Lines) -> str:
    """``rows 30–58 of 120``: which rows are in sight; empty where all are."""
    if pane.max_scroll_y <= 0:
        return ""
    first, height = pane.scroll_offset.y + 1, pane.size.height - pane.fixed
    return f"rows {first:,}–{min(first + height - 1, len(pane.drawn)):,} of {len(pane.drawn):,}"


def taken_by(title: str) -> int:
    """The cells that a title takes of an edge that has another text, too."""
    return _parsed(title).cell_length + 1


def more(pane: Lines, keys: bool, beside: str = "", taken: int = 0) -> str:
    """What the frame of a pane says that is too low for its text: which of its rows are in sight, and the
    ``keys`` that scroll it; ``taken`` are cells of the same edge that others use. Where there is too little
    room, the word of the keys goes first; of a pane with them then what is ``beside``, the keys, the rows."""
    rows, scrolls = rows_of(pane), [""]
    if keys and rows:
        scrolls = [f"{key_hint('scroll_down', '')} {key_hint('scroll_up', word)}" for word in ("scroll", "")]
    ways = [join((rows, scroll, beside)) for scroll in scrolls]
    less = [*(join((rows, scroll)) for scroll in scrolls), rows, ""] if keys else []
    room = pane.outer_size.width - 6 - taken  # corners, a line and a blank on both sides
    fits = (way for way in (*ways, *less) if _parsed(way).cell_length <= room)
    return next(fits, "" if keys else beside or ways[-1])


def framed(widget: Widget) -> list[CursorList]:
    """The lists that have this frame: the widget itself, or those that it holds."""
    held = widget.children if widget.has_class("listed") else ()
    return [found for found in (widget, *held) if isinstance(found, CursorList)]


def frame_of(table: CursorList) -> Widget:
    """The widget with the frame of a list: itself, or what holds it with others."""
    outer = table.parent
    return outer if isinstance(outer, Widget) and outer.has_class("listed") else table


_EDGES = ("border_title", "border_subtitle")
