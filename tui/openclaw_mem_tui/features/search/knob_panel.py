"""The knob panel: a cursor over all knobs; what a step does is given to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from openclaw_mem_engine.api import Knobs, knob_words
from openclaw_mem_tui.bindings import bindings
from openclaw_mem_tui.features.search.render.knobs import meaning, panel_row
from openclaw_mem_tui.features.search.state import KNOB_NAMES, View
from openclaw_mem_tui.render.spans import Line
from openclaw_mem_tui.render.terms import has_words
from openclaw_mem_tui.widgets.lazy import Lazy
from openclaw_mem_tui.widgets.lists import Table


class KnobPanel(Table[str]):
    """The names of all knobs; the selected one moves with left and right."""

    HELP = "The list shows every ranking knob. Values that are not as configured are bold."
    BINDINGS = bindings("knobs")  # type: ignore[assignment]

    def __init__(self, turn: Callable[[str, int, bool], None]) -> None:
        """``turn`` gets each press: the name of the knob, -1, +1 or 0 for its configured value, and whether
        the step is large. At once, not by a message: a key behind it may undo the step."""
        super().__init__(id="knobs")
        self._turned = turn
        self.cursor = KNOB_NAMES.index("min_score")
        # The cursor moves also before the panel is drawn for the first time.
        self._items = KNOB_NAMES
        self._spans = [(at, at + 1) for at in range(len(KNOB_NAMES))]

    def open(self, view: View) -> None:
        """Show the knobs of a view, with the focus on one that differs from the baseline, where one does."""
        changed = view.knobs.changes_from(view.baseline_knobs)
        if self.name_at_cursor not in changed:
            self.cursor = next((at for at, name in enumerate(KNOB_NAMES) if name in changed), self.cursor)
        self.show_knobs(view.knobs, view.defaults)
        self.screen.set_focus(self)
        self.call_after_refresh(self.follow)

    def show_knobs(self, knobs: Knobs, defaults: Knobs) -> None:
        def row(name: str, cells: int, selected: bool) -> Line:
            return panel_row(knobs, defaults, name, cells, selected)

        self.show_rows(KNOB_NAMES, row, _words)

    def filter(self, words: str) -> None:
        """As there, with the cursor on the first knob of which the name has the words, else on the first."""
        super().filter(words)
        if self.wanted:
            named = (at for at, name in enumerate(self._items) if has_words(_names(name), self.wanted))
            self.action_go(next(named, 0) - self.cursor)

    def draw(self, cells: int) -> Sequence[Line]:
        # The steps of the selected knob are there to be clicked also without the focus.
        return Lazy(len(self._items), lambda at: self._row(self._items[at], cells, at == self.cursor))

    def _scroll_to_line(self, line: int) -> None:
        # Opened and scrolled before the layout that adds the scroll bar, which does not ask for its position.
        self.scroll_to(y=line, animate=False, force=True)
        self.vertical_scrollbar.position = self.scroll_y

    @property
    def name_at_cursor(self) -> str:
        """ "" when the filter leaves no knob."""
        return self.selected or ""

    def action_less(self) -> None:
        self._turn(-1)

    def action_more(self) -> None:
        self._turn(1)

    def action_much_less(self) -> None:
        self._turn(-1, large=True)

    def action_much_more(self) -> None:
        self._turn(1, large=True)

    def action_reset_knob(self) -> None:
        self._turn(0)

    def _turn(self, direction: int, *, large: bool = False) -> None:
        if name := self.name_at_cursor:
            self._turned(name, direction, large)


def _names(name: str) -> str:
    """As it is shown, and as it is written in settings."""
    return f"{knob_words(name)} {name}"


def _words(name: str) -> str:
    """What a filter looks at."""
    return f"{_names(name)} {meaning(name)}"
