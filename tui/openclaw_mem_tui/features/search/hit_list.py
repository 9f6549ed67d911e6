"""The hit list: a row for each candidate, a cursor, and below a rule what was not returned."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from rich.style import Style
from textual import events

from openclaw_mem_engine import api
from openclaw_mem_tui.features.search.baseline import same_lines
from openclaw_mem_tui.features.search.lessons import run_in_short
from openclaw_mem_tui.features.search.moves_ahead import MovesAhead
from openclaw_mem_tui.features.search.render import funnel, groups, hits, legend
from openclaw_mem_tui.features.search.start_page import Suggestions, landing, suggested
from openclaw_mem_tui.features.search.state import Columns, View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, clauses, fit, text_of
from openclaw_mem_tui.render.terms import Marker, has_words
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.frames import markup
from openclaw_mem_tui.widgets.lazy import Lazy
from openclaw_mem_tui.widgets.lists import Rows

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Expected, Row
    from openclaw_mem_tui.features.search.presenter import SearchPresenter

#: The pane from which on what is returned takes two lines, in cells and lines.
_TWO_CELLS, _TWO_LINES = 66, 18


class HitList(MovesAhead):
    """Keeps the cursor on its chunk while knobs move, and goes to the first hit for a new query. The titles
    of the columns stay on top while rows scroll under them."""

    HELP = "The list shows the returned chunks, best first, and below the line the others with the reason."
    CAN_FILTER, DRAWS_ITEMS = True, False

    def __init__(self, search: SearchPresenter) -> None:
        super().__init__(search)
        self._maker = lambda cells, _: Rows(*landing(search, self._suggestions(), cells, self.size.height))
        self._suggested = partial(suggested, search)
        self.view: View | None = None
        self.marker = Marker.of(None)
        self.mode: Columns = "scores"
        self.dropped = True
        #: The selected row when rows were hidden, and the one that was selected instead.
        self._hidden: tuple[Row | None, Row | None] = (None, None)
        self.stale = False
        #: What the last key waits with that was pressed before the answer.
        self.awaited: object = None
        self.rows: Sequence[Row] = ()
        self._groups: list[groups.Group] = []
        self._two = False  # see _lines_of
        self._total = 0  # rows without the filter
        self._above: list[Line] = []  # why nothing was returned
        self._row_of: dict[int, int] = {}  # of each drawn line: its row
        self._rules: set[int] = set()  # lines with the title of a group of rows
        self._plan: hits.Layout | None = None

    # -- state --------------------------------------------------------------------------------------------

    def show_view(self, view: View) -> None:
        """Draw another view. The cursor follows its chunk within a query, but not from a damaged index to the
        new one: what comes first there is new."""
        before, chosen = self.view, self.selected
        self.view = view
        self.stale = False
        if before is None or before.pool is not view.pool:
            self.marker = Marker.of(view.pool)
        old = before.trace if before is not None else None
        same = old is not None and view.trace is not None and old.query == view.trace.query
        if old is not None and view.trace is not None and api.says_damage(old.notes):
            same &= api.says_damage(view.trace.notes)
        self._arrange(chosen if same else None)

    def set_mode(self, mode: Columns) -> None:
        self.mode = mode
        self.changed()

    def set_dropped(self, dropped: bool) -> None:
        """Hiding them moves the cursor off a hidden row; showing them moves it back, unless it went on."""
        chosen, (hidden, instead) = self.selected, self._hidden
        self.dropped = dropped
        self._arrange(hidden if dropped and hidden is not None and chosen is instead else chosen)
        self._hidden = (None, None) if dropped else (chosen, self.selected)
        self.call_after_refresh(self.follow)  # with the scroll bar that more rows need

    def set_stale(self, stale: bool) -> None:
        """Old rows are dim until a newer answer is there."""
        if self.stale != stale:
            self.stale = stale
            self.changed()

    @property
    def said(self) -> list[str]:
        """What the frame says before the key of the columns, as far as there is room: how many rows are above
        those in sight, the knobs and the baseline where no line above has them, and what pairs of numbers
        are."""
        if not self.drawn or self.view is None or self._plan is None:
            return []
        # Corners and blanks, the key with its text, and the title where there is one edge for both.
        room = self.outer_size.width - fmt.width_of(f"v columns: {self.mode}") - (13 if self._is_low else 6)
        many = bisect_right(self._spans, self.scroll_offset.y, key=lambda span: span[1])
        above = [f"{fmt.count(many, 'row')} above"] if many else []
        made = list[str]()
        if isinstance(self.screen, WorkbenchScreen) and self.screen.narrow:
            run, room = run_in_short(self._search, self.view, room)
            made += map(markup, run)
        if self._is_low and made:  # with the title, three texts are enough for one edge
            return [*above, *made][:2]
        for text in (*above, *legend.pairs(self._plan.numbers)):
            room -= fmt.width_of(text) + 3
            made += [text] * (room >= 0)
        return made

    @property
    def selected(self) -> Row | None:
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def passage(self) -> Expected | None:
        """What the keys of the selected row are about: its best line, else the one with most words of the
        query."""
        if (row := self.selected) is None or self.view is None:
            return None
        best = hits.best(self.view, row, self.marker)
        return api.Expected(row.path, best.number if best is not None else row.start_line)

    def _arrange(self, chosen: Row | None) -> None:
        """Which row or rule is on which line, whatever the width; the cursor to ``chosen``, or near it."""
        view = self.view
        self._groups = groups.groups(view, self.dropped) if view is not None else []
        self._total = sum(len(group.rows) for group in self._groups)
        if self.wanted:
            left = (
                group._replace(
                    rows=[row for row in group.rows if has_words(self._text_of(row), self.wanted)],
                    of=len(group.rows),
                )
                for group in self._groups
            )
            self._groups = [group for group in left if group.rows or group.hidden or not group.title]
        self.rows = Lazy(sum(len(group.rows) for group in self._groups), partial(_row, self._groups))
        self._above = funnel.nothing(view) if view is not None else []
        self._place()
        index = self._index_of(chosen) if chosen is not None else 0
        near = 0 if self.wanted else min(self.cursor, max(0, len(self.rows) - 1))
        self.cursor = near if index is None else index
        self.changed()
        self.follow()

    def _place(self) -> None:
        at = len(self._above)
        spans: list[tuple[int, int]] = []
        for group in self._groups:
            at += bool(group.title)
            each = self._lines_of(group)
            spans.extend((line, line + each) for line in range(at, at + len(group.rows) * each, each))
            at += len(group.rows) * each
        self._spans = spans
        self._row_of = {line: row for row, span in enumerate(spans) for line in range(*span)}

    def _lines_of(self, group: groups.Group) -> int:
        """What a run returned shows its best line below it, where there is no column for that."""
        return 2 if self._two and group.lines else 1

    @property
    def _is_low(self) -> bool:
        """Of the frame there is the upper edge alone."""
        return self.gutter.height < 2

    def rearrange(self) -> None:
        self._arrange(self.selected)

    def _text_of(self, row: Row) -> str:
        """Path and text of its chunk, in lower case."""
        found = self.view.candidate(row.chunk_id) if self.view is not None else None
        return f"{row.path} {found.text if found is not None else ''}".lower()

    def words_at(self, at: int) -> str:
        return " ".join(self._suggestions()[at]).lower() if self._is_start else self._text_of(self.rows[at])

    @property
    def counted(self) -> tuple[int, int]:
        if self._is_start:
            return len(self._suggestions()), len(self._suggested())
        return len(self.rows), self._total

    @property
    def filtered(self) -> str:
        said = super().filtered
        return f"{said} rows, ranks unchanged" if said and not self._is_start else said

    @property
    def _is_start(self) -> bool:
        return self.view is None or self.view.trace is None

    def _suggestions(self) -> Suggestions:
        """The queries of the start page, as far as the filter leaves them."""
        return [row for row in self._suggested() if has_words(" ".join(row).lower(), self.wanted)]

    @property
    def asks(self) -> str:
        """The query under the cursor of the start page; "" where there is none."""
        shown = self._suggestions() if self._is_start else ()
        return shown[self.cursor][0] if self.cursor < len(shown) else ""

    def _index_of(self, row: Row) -> int | None:
        """Where its chunk is, else its lines, else its file: another backend cuts that otherwise."""
        exact = next((i for i, r in enumerate(self.rows) if r.chunk_id == row.chunk_id), None)
        if exact is not None:
            return exact
        of_file = [(i, r) for i, r in enumerate(self.rows) if r.path == row.path]
        lines = same_lines(row, (r for _, r in of_file))
        return next((i for i, r in of_file if r is lines), of_file[0][0] if of_file else None)

    def point_at(self, rows: Sequence[Row]) -> None:
        """Cursor to the first of these rows, if it is shown."""
        index = self._index_of(rows[0]) if rows else None
        if index is not None:
            self.action_go(index - self.cursor)

    def go_to_group(self, step: int) -> bool:
        """Cursor to the first row of the next (1) or previous (-1) group. False where there is none."""
        if self.defers(partial(self.go_to_group, step)):
            return True
        ends = accumulate(len(group.rows) for group in self._groups)
        firsts = [first for first in (0, *ends) if first < len(self.rows)]
        others = [first for first in firsts if (first - self.cursor) * step > 0][::step]
        if others:
            self.action_go(others[0] - self.cursor)
        return bool(others)

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self, cells: int) -> Sequence[Line]:
        """Only what is around the rows; the rows themselves are made when they become visible."""
        if self.view is None or self.view.trace is None:
            self._plan = None
            return super().draw(cells)
        self._plan = hits.layout(self.view, self.mode, cells)
        two = not self._plan.text and cells >= _TWO_CELLS and self.size.height >= _TWO_LINES
        if two != self._two:
            self._two = two
            self._place()
        above = funnel.nothing(self.view)  # with the keys that work now: none while a filter is typed
        if isinstance(self.screen.focused, FilterLine):
            above = [() if any(span.role == "key" for span in row) else row for row in above]
        lines = [clauses(spans, cells - 1) or fit(spans, cells - 1) for spans in above]
        self._rules.clear()
        for number, group in enumerate(self._groups):
            if group.title and group.rows:
                self._rules.add(len(lines))
            if group.title:
                lines.append(groups.rule(group, number == 1, cells, low=self._is_low))
            lines.extend([()] * (len(group.rows) * self._lines_of(group)))
        return lines

    def on_resize(self, event: events.Resize) -> None:
        self.changed()  # the room decides about the keys of the start page, and about second lines
        if self.cursor < len(self._spans) and self._spans[self.cursor][1] <= self.size.height - self.fixed:
            self.scroll_home(animate=False)  # the first rows too are seen then
        super().on_resize(event)

    def on_focus(self) -> None:
        if self._is_start or self._above:  # which name the keys that work now
            self.changed()

    on_blur = on_focus

    @property
    def fixed(self) -> int:  # type: ignore[override]
        """The titles of the columns."""
        return int(self._plan is not None)

    @property
    def points(self) -> bool:
        # From the query line, enter asks the marked row of the start page.
        return bool(super().points) or self._is_start

    def line_at(self, index: int) -> tuple[Line, Style]:
        if index < 0 and (header := self._header()):
            return header, self.base_style
        spans, base = super().line_at(index)
        if index in self._rules and index == self._last_in_sight:
            return (), base  # a title without a row
        at = self._row_of.get(index)
        if self._plan is None and any(index == first for first, _ in self._spans[self.cursor :][:1]):
            return (Span(*fmt.POINTER[self.points]), *spans[1:]), base
        if at is None or self._plan is None or self.view is None:
            return spans, base
        selected = at == self.cursor and self.points
        first, stop = self._spans[at]
        if index == first:
            spans = hits.hit(self.view, self.rows[at], self._plan, self.marker, selected, stop == first + 1)
        else:
            spans = self._best_line(self.rows[at], self._plan, selected)
        if self.stale:
            spans = tuple(span._replace(role="faint") for span in spans)
        return spans, base

    @property
    def _last_in_sight(self) -> int:
        return self.scroll_offset.y + self.size.height - self.fixed - 1

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        for at in self._rules:  # another one is the last in sight
            self._sources.pop(at, None)
        super().watch_scroll_y(old_value, new_value)

    def _header(self) -> Line:
        trace = self.view.trace if self.view is not None else None
        return (
            hits.header(self._plan, legend.marks(trace))
            if self._plan is not None and trace is not None
            else ()
        )

    def _best_line(self, row: Row, plan: hits.Layout, selected: bool) -> Line:
        """The second line of a row: the best one of its chunk."""
        before = 2 + plan.rank + (5 if plan.delta else 0) + plan.marks
        room = self.cells - before - 2
        best = hits.best_line(self.view, row, self.marker, room) if self.view is not None else ()
        return (Span(*fmt.POINTER[selected]), Span(" " * (before - 2)), *fit(best, room))

    @property
    def text(self) -> str:
        body = [self.painted(index).text.rstrip() for index in range(len(self.drawn))]
        return "\n".join([*([text_of(self._header()).rstrip()] if self._plan else []), *body])


def _row(groups: Sequence[groups.Group], at: int) -> Row:
    """Of all rows of these groups, one: most are never read."""
    for group in groups:
        if at < len(group.rows):
            return group.rows[at]
        at -= len(group.rows)
    raise IndexError(at)
