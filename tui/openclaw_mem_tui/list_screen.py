"""The base of the screens of several lists that share one pane with the details of the selected row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from openclaw_mem_tui.features.search.presenter import SearchPresenter
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render.damage import unopened
from openclaw_mem_tui.render.spans import Line, line, wrapped
from openclaw_mem_tui.screen import WorkbenchScreen
from openclaw_mem_tui.widgets.frames import more
from openclaw_mem_tui.widgets.line_view import Drawer, Pane
from openclaw_mem_tui.widgets.lists import CursorList, Table
from openclaw_mem_tui.widgets.wrapped import Around, WrappedTable

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.screen import SearchScreen

PresenterT = TypeVar("PresenterT", bound=Presenter[Any])


def _no_match(name: str, cells: int) -> list[Line]:
    return wrapped(line((f"No {name} matches the filter.", "dim")), cells - 1)


class ListScreen(WorkbenchScreen, Generic[PresenterT]):
    """Drawn from the state of its presenter. The list with the focus decides what the details are about;
    where there is one column, only that list is shown (class ``-at-ID``). A subclass gives its lists in the
    order of ``tab`` to ``use_lists``, and overrides ``draw_selected``."""

    OF_CONFIGURED: ClassVar[bool] = True
    NAMES_SCROLL: ClassVar[bool] = True

    def __init__(self, search: SearchPresenter, lab: SearchScreen, presenter: PresenterT) -> None:
        super().__init__(search)
        self.lab = lab
        self.presenter: PresenterT = presenter
        self.lists: tuple[Table[Any], ...] = ()
        self.at: Table[Any]
        self.detail: Pane
        self._detailed: object = None
        self._filled: dict[Table[Any], Sequence[Any]] = {}

    def use_lists(self, detail: Pane, *lists: Table[Any]) -> None:
        """``detail`` is the pane of the details; the first list has the focus when the screen opens."""
        self.detail, self.lists = detail, lists
        #: The list that was gone to last: the focus itself comes a moment later, and keys may overtake it.
        self.at = lists[0]

    def on_mount(self) -> None:
        self.presenter.listen(self.draw)
        self.go_to(self.at)
        self.draw()

    @property
    def current_list(self) -> CursorList | None:
        return self.at

    @property
    def waits(self) -> Line:
        """What is said instead of all that needs an index, which could not be opened; () where it was."""
        return unopened(self.search.activity.phase, self.search.activity.damage)

    def fill(
        self,
        table: Table[Any],
        title: str,
        items: Sequence[Any],
        row: Callable[..., Any],
        words: Callable[[Any], str] | None = None,
        head: Callable[[int], Line] | None = None,
        around: Around | None = None,
    ) -> None:
        """Draw the rows of a list when they are others: all that are in sight are painted for that. The title
        counts them, but not a first one that is None. ``head`` draws the titles of the columns, ``around``
        what a wrapped list says instead of rows."""
        if items and self._filled.get(table) is items and (table.head is None) is (head is None):
            return
        self._filled[table] = items
        if isinstance(table, WrappedTable):
            table.show_wrapped(items, row, around)
        else:
            table.show_rows(items, row, words, head)
        number = len(items) - (None in items[:1])
        self.label(table, f"{title} · {number:,}" if number > 0 else title)

    @staticmethod
    def position(name: str, table: Table[Any]) -> str:
        """``event 2 of 20``: where the cursor of a list is, among the rows that its filter leaves."""
        return f"{name} {table.cursor + 1:,} of {table.counted[0]:,}" if table.selected is not None else ""

    def has_row(self) -> bool:
        """Whether the list shows a row; says so where it has none."""
        if not self.at.counted[0]:
            self.tell("no row is selected")
        return bool(self.at.counted[0])

    def draw_selected(self) -> None:
        """Draw the details of the selected row."""

    def show_detail(self, shown: object, title: str, drawer: Drawer, of: Table[Any] | None = None) -> bool:
        """Draw the details when ``shown`` is other than before; False when it is the same, and nothing
        changes. They say where the filter leaves no row of the list that they are ``of`` (None: that with the
        focus)."""
        table = self.at if of is None else of
        if table.wanted and not table.counted[0]:
            shown, drawer = title, partial(_no_match, title)
        if shown == self._detailed:
            return False
        self._detailed = shown
        self.label(self.detail, title)
        self.detail.show(drawer)
        self.call_after_refresh(self.mark_more)
        return True

    def mark_more(self) -> None:
        self.label(self.detail, subtitle=self.more(self.detail))
        self.draw_keys()

    def on_lines_sized(self) -> None:
        for table in self.lists:
            self.label(table)
        self.mark_more()

    def more(self, pane: Pane) -> str:
        """As ``frames.more``; the keys scroll the lower pane."""
        return more(pane, pane is self.lower_pane)

    def messages(self, cells: int) -> list[Line]:
        """Of the selected row too: its pane is low, or hidden, where room is short. What this screen has said
        is before it."""
        details = self.lower_pane.draw(cells) if self.at.counted[0] else []
        said, state = super().messages(cells), self.presenter.state
        first, then = (said, details) if state.trouble or state.said else (details, said)
        return [*first, *([()] if first and then else []), *then]

    @property
    def lower_pane(self) -> Pane:
        return self.detail

    def draw_keys(self) -> None:
        self.hides_details = not self.lower_pane.is_on_screen
        super().draw_keys()

    def on_cursor_list_moved(self) -> None:
        self.draw_selected()

    def on_descendant_focus(self) -> None:
        self.mark(next((table for table in self.lists if table.has_focus), self.at))
        self.draw_selected()

    def go_to(self, target: Table[Any]) -> None:
        """Focus this list."""
        self.mark(target)
        self.set_focus(target)

    def mark(self, target: Table[Any]) -> None:
        """Where there is one column, show this list."""
        self.at = target
        for table in self.lists:
            self.set_class(table is target, f"-at-{table.id}", update=False)
        if self.narrow or self.has_class("-flat"):  # elsewhere no rule has it, and all would be styled anew
            self.update_node_styles()

    def action_next_list(self, step: int) -> None:
        self.go_to(self.lists[(self.lists.index(self.at) + step) % len(self.lists)])
