"""The help of a screen: its keys, and how to read it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from textual import on
from textual.binding import Binding
from textual.containers import Horizontal, Vertical

from openclaw_mem_tui.actions import Action
from openclaw_mem_tui.bindings import GROUPS
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Reading, Span, fit, line, width, wrapped
from openclaw_mem_tui.render.terms import has_words
from openclaw_mem_tui.widgets.dialogs import Dialog, hints
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.frames import markup, rows_of
from openclaw_mem_tui.widgets.line_view import Pane
from openclaw_mem_tui.widgets.lists import CursorList
from openclaw_mem_tui.widgets.wrapped import WrappedTable


class HelpRow(NamedTuple):
    """``action`` is the id of what enter runs; "" for a sign to read. ``first``: of its group, whose name it
    shows."""

    sign: str
    text: str
    group: str
    action: str = ""
    first: bool = False


def _help_row(groups: int, wide: int, row: HelpRow, cells: int, selected: bool) -> list[Line]:
    """The group at the left of its first row; keys that are wider than their column, and the text, wrap."""
    mark, role = fmt.POINTER[selected][0], "key" if row.action else "dim"
    group = fmt.left(row.group if row.first or cells > _HEADED else "", groups)
    signs = wrapped(line((row.sign, role)), wide)
    texts = wrapped(line(row.text), cells - 1 - width((Span(mark), Span(group))) - wide - 2)
    made = []
    for sign, text in zip_longest(signs, texts, fillvalue=()):
        made.append(line((mark, "accent"), (group, "strong"), *fit(sign, wide + 2), *text))
        mark, group = " " * len(mark), " " * groups
    return made


def _key_width(rows: Sequence[HelpRow]) -> int:
    """Cells for the keys of these rows: for the widest one, and for those of an action in one line where that
    is not much wider; others stand below each other. Signs to read are not broken."""
    keys = [row.sign for row in rows if row.action and fmt.width_of(row.sign) <= _KEYS]
    alone = (key for row in rows if row.action for key in row.sign.split())
    return max(8, *map(fmt.width_of, (*keys, *alone, *(row.sign for row in rows if not row.action))))


#: The most cells for several keys in one line: "ctrl+r, Q". The texts have the room that others would take.
_KEYS = 10
#: The box is narrower: a wider row is what a filter looks at, which finds all of a group by its name.
_HEADED = 200
#: From this width on, what to read is beside the keys.
_BESIDE = 100


def _help_rows(actions: Sequence[Action], places: Sequence[str], reading: Reading) -> list[HelpRow]:
    """The groups with keys of the first of these places and of the next ones, those that they share, those of
    every screen, what to read, the keys of lists."""
    own = [{action.group for action in actions if action.where == where} for where in places]

    def part(action: Action) -> int:
        if action.group in ("Lists", "Screens", "More"):
            return len(own) + (2 if action.group == "Lists" else 1)
        return next((at for at, groups in enumerate(own) if action.group in groups), len(own))

    def order(action: Action) -> tuple[int, int, bool]:
        return part(action), GROUPS.index(action.group), places[0] not in action.parts

    backs = {action.back: action for action in actions if action.back}
    made = [HelpRow(*sign, "Legend") for sign in reading]
    before, after = list[HelpRow](), list[HelpRow]()
    for one in sorted(actions, key=order):
        back = backs.get(one.id)
        signs = zip_longest(one.shown.split(), back.shown.split() if back else ())
        sign = ", ".join(key for pair in signs for key in pair if key)
        if not one.back:
            row = HelpRow(sign, one.both or one.help, one.group, one.id)
            (after if one.group == "Lists" else before).append(row)
    rows = [*before, *made, *after]
    return [row._replace(first=not at or rows[at - 1].group != row.group) for at, row in enumerate(rows)]


class HelpRows(WrappedTable[HelpRow]):
    """The row of a key that is typed as a filter is the first."""

    def _matching(self) -> list[HelpRow]:

        def rest(row: HelpRow) -> list[bool]:  # F after f
            return [self.wanted not in re.split(", ?| ", keys) for keys in (row.sign.lower(), row.sign)]

        return sorted(super()._matching(), key=rest)


class HelpScreen(Dialog[str | None]):
    """The keys that work on a screen, and how to read it; returns the id of the action that was chosen."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter", "choose", "run the action", show=False),
        Binding("escape,q,question_mark,f1", "back", "clear the filter, close", show=False),
        Binding("f,slash", "filter", "filter", show=False, priority=True),
        Binding("J", "scroll_legend(3)", "scroll the legend down", show=False),
        Binding("K", "scroll_legend(-3)", "scroll it up", show=False),
    ]

    def __init__(
        self, about: str, reading: Reading, actions: Sequence[Action], places: Sequence[str]
    ) -> None:
        """``places`` are ``Action.where`` of what has the focus, and of the screen."""
        self._reading, self._actions, self._places = reading, actions, places
        self._beside: bool | None = None
        self._rows = HelpRows("", id="help-rows")
        said = Pane(lambda cells: wrapped(line((about, "dim")), cells) if about else (), id="help-about")
        self._legend = Pane(self._signs, id="help-legend")
        super().__init__(Vertical(said, FilterLine(), Horizontal(self._rows, self._legend)), "help", "")

    def _signs(self, cells: int) -> list[Line]:
        """How to read the screen: the signs that the filter finds."""
        rows = [sign for sign in self._reading if has_words(" ".join(sign).lower(), self._rows.wanted)]
        wide = max((fmt.width_of(sign) for sign, _ in rows), default=0)
        made = [line(("Legend", "strong"))] if rows else []
        for sign, text in rows:
            made += wrapped(line((fmt.left(sign, wide) + " ", "dim"), text), cells - 1, wide + 1)
        return made

    def on_mount(self) -> None:
        self.set_focus(self._rows)
        self.on_resize()

    def on_resize(self) -> None:
        beside = self.size.width >= _BESIDE
        if beside != self._beside:
            self._beside = self._legend.display = beside
            rows = _help_rows(self._actions, self._places, () if beside else self._reading)
            groups = max(fmt.width_of(row.group) for row in rows) + 2
            self._rows.show_wrapped(rows, partial(_help_row, groups, _key_width(rows)))
        self.call_after_refresh(self._label)

    @on(CursorList.Moved)
    def _label(self) -> None:
        filtered = self._rows.filtered
        keys = hints(esc="clear") if filtered else hints(enter="run", f="filter", esc="close")
        shown = rows_of(self._legend)
        legend = (f"legend {shown}", hints(J_K="scroll")) if shown else ()
        self._box.border_title = fmt.join(("help", rows_of(self._rows)))
        self._box.border_subtitle = fmt.join((markup(filtered), keys, *legend))
        self._legend.changed()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return action != "filter" or self._rows.has_focus

    def action_scroll_legend(self, lines: int) -> None:
        self._legend.scroll_relative(y=lines, animate=False)
        self.call_after_refresh(self._label)

    def action_filter(self) -> None:
        self.query_one(FilterLine).open(self._rows)

    def action_back(self) -> None:
        if self._rows.wanted:
            self._rows.filter("")
        else:
            self.dismiss(None)

    @on(CursorList.Chosen)
    def action_choose(self) -> None:
        if (row := self._rows.selected) is not None and row.action:
            self.dismiss(row.action)
