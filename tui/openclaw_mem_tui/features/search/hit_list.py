"""The hit list: a row for each candidate, a cursor, and below a rule what was not returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip

from openclaw_mem_engine.api import Row
from openclaw_mem_tui.features.search.render import funnel, hits
from openclaw_mem_tui.features.search.state import Columns, View
from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.render.terms import Marker
from openclaw_mem_tui.widgets.line_view import Lines


class HitList(Lines, can_focus=True, inherit_bindings=False):
    """Keeps the cursor on its chunk while knobs move, and goes to the first hit for a new query."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"hits--cursor", "hits--cursor-away"}
    HELP = "The hits in the order in which the agent gets them; below the rule, what it does not get and why."

    @dataclass
    class Selected(Message):
        """The cursor is on another row (None: there is none), or its row has new numbers."""

        row: Row | None

    class Chosen(Message):
        """A row was clicked once more: the same as enter."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.view: View | None = None
        self.marker = Marker.of(None)
        self.mode: Columns = "scores"
        self.dropped = True
        self.stale = False
        self.landing: Sequence[Line] = ()
        self.rows: Sequence[Row] = ()
        self.cursor = 0
        self._groups: list[hits.Group] = []
        self._empty: list[Line] = []  # why nothing was returned, above the rows
        self._slots: list[int | hits.Group | None] = []  # of each drawn line: its row, rule, or other text
        self._line_of: list[int] = []  # of each row: its drawn line
        self._plan: hits.Layout | None = None

    # -- state --------------------------------------------------------------------------------------------

    def show(self, view: View) -> None:
        """Draw another view. The cursor follows its chunk within a query."""
        before, chosen = self.view, self.selected
        self.view = view
        self.stale = False
        if before is None or before.pool is not view.pool:
            self.marker = Marker.of(view.pool)
        self._arrange()
        same_query = before is not None and before.trace is not None and view.trace is not None
        same_query = same_query and before.trace.query == view.trace.query  # type: ignore[union-attr]
        self.cursor = self._index_of(chosen) if same_query and chosen is not None else 0
        self._refresh_rows()

    def set_mode(self, mode: Columns) -> None:
        self.mode = mode
        self.changed()

    def changed(self) -> None:
        # Rows are made when they become visible, so drawn lines say nothing about what differs.
        self._redraw()

    def set_dropped(self, dropped: bool) -> None:
        chosen, self.dropped = self.selected, dropped
        self._arrange()
        self.cursor = self._index_of(chosen) if chosen is not None else 0
        self._refresh_rows()

    def set_stale(self, stale: bool) -> None:
        """Old rows are dim until a newer answer is there."""
        if self.stale != stale:
            self.stale = stale
            self._painted.clear()
            self.refresh()

    @property
    def selected(self) -> Row | None:
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def _arrange(self) -> None:
        """Which row or rule is on which line, whatever the width."""
        self._groups = hits.groups(self.view, self.dropped) if self.view is not None else []
        self.rows = [row for group in self._groups for row in group.rows]
        self._empty = funnel.nothing(self.view) if self.view is not None else []
        self._slots, self._line_of = [None] * (len(self._empty) + bool(self._empty)), []
        for group in self._groups:
            if group.title:
                self._slots.append(group)
            for _ in group.rows:
                self._line_of.append(len(self._slots))
                self._slots.append(len(self._line_of) - 1)

    def _index_of(self, row: Row) -> int:
        index = next((i for i, r in enumerate(self.rows) if r.chunk_id == row.chunk_id), None)
        return min(self.cursor, max(0, len(self.rows) - 1)) if index is None else index

    def _refresh_rows(self) -> None:
        self.changed()
        self._follow()

    # -- cursor -------------------------------------------------------------------------------------------

    def move(self, step: int) -> None:
        self.go(self.cursor + step)

    def go(self, index: int) -> None:
        """Cursor to a row, or the nearest one that there is."""
        index = max(0, min(index, len(self.rows) - 1))
        if index == self.cursor:
            return
        for line in (self._line_of[self.cursor], self._line_of[index]):
            self._painted.pop((line, self.cells), None)
            self.refresh_line(line + 1)
        self.cursor = index
        self._follow()
        self.post_message(self.Selected(self.selected))

    def point_at(self, rows: Sequence[Row]) -> None:
        """Cursor to the first of these rows, if it is shown."""
        if rows:
            index = next((i for i, row in enumerate(self.rows) if row.chunk_id == rows[0].chunk_id), None)
            if index is not None:
                self.go(index)

    @property
    def page(self) -> int:
        """Half of the visible rows."""
        return max(1, (self.size.height - 1) // 2)

    def _follow(self) -> None:
        height = self.size.height - 1
        if height <= 0 or not self.rows:
            return
        at, top = self._line_of[self.cursor] if self.cursor else 0, self.scroll_offset.y
        if at < top:
            self.scroll_to(y=at, animate=False)
        elif at >= top + height:
            self.scroll_to(y=at - height + 1, animate=False)

    def _row_at(self, index: int) -> int | None:
        slot = self._slots[index] if 0 <= index < len(self._slots) else None
        return slot if isinstance(slot, int) else None

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self, cells: int) -> Sequence[Line]:
        """Only what is around the rows; the rows themselves are made when they become visible."""
        view = self.view
        if view is None or view.trace is None:
            self._plan = None
            return self.landing
        self._plan = hits.layout(view, self.mode, cells)
        lines: list[Line] = [*self._empty, *([()] if self._empty else [])]
        hint = True
        for slot in self._slots[len(lines) :]:
            if isinstance(slot, hits.Group):
                lines.append(hits.rule(slot, hint, cells))
                hint = False
            else:
                lines.append(())
        return lines

    def _measure(self) -> None:
        if self.cells > 0:
            # One line more than there are rows: the titles stay on top while rows scroll under them.
            self.set_height(len(self.drawn) + (1 if self._plan else 0))

    def render_line(self, y: int) -> Strip:
        lines = self.drawn
        if self._plan is None:
            return self.painted(y + self.scroll_offset.y)
        if y == 0:
            return self.paint(hits.header(self._plan), self.rich_style, self.cells)
        index = y - 1 + self.scroll_offset.y
        if index >= len(lines):
            return Strip.blank(self.cells, self.rich_style)
        return self.painted(index)

    def painted(self, index: int) -> Strip:
        at = self._row_at(index) if self._plan is not None else None
        if at is None or self._plan is None or self.view is None:
            return super().painted(index)
        key = (index, self.cells)
        strip = self._painted.get(key)
        if strip is None:
            selected = at == self.cursor
            spans = hits.hit(self.view, self.rows[at], self._plan, self.marker, selected)
            if self.stale:
                spans = tuple(span._replace(role="faint") for span in spans)
            base = self.rich_style + self._cursor_style() if selected else self.rich_style
            strip = self._painted[key] = self.paint(spans, base, self.cells)
        return strip

    def _cursor_style(self) -> Style:
        name = "hits--cursor" if self.has_focus else "hits--cursor-away"
        return self.get_component_rich_style(name, partial=True)

    @property
    def text(self) -> str:
        titles = [self._plan_header()] if self.drawn is not None and self._plan is not None else []
        body = [self.painted(index).text.rstrip() for index in range(len(self.drawn))]
        return "\n".join([*titles, *body])

    def _plan_header(self) -> str:
        assert self._plan is not None
        return "".join(span.text for span in hits.header(self._plan)).rstrip()

    # -- events -------------------------------------------------------------------------------------------

    def on_focus(self) -> None:
        self._painted.clear()
        self.refresh()

    def on_blur(self) -> None:
        self._painted.clear()
        self.refresh()

    def on_resize(self, event: events.Resize) -> None:
        super().on_resize(event)
        self._follow()

    def on_click(self, event: events.Click) -> None:
        index = self._row_at(event.y - 1 - self.gutter.top + self.scroll_offset.y)
        if index is None:
            return
        if index == self.cursor and event.chain > 1:
            self.post_message(self.Chosen())
        self.go(index)
