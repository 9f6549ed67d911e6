"""The help: what the focused pane is, and every key, from the table of actions."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import ModalScreen

from openclaw_mem_tui.bindings import ACTIONS, GROUPS
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, wrapped
from openclaw_mem_tui.widgets.edges import Banner
from openclaw_mem_tui.widgets.line_view import Lines

_KEY = 10

#: What to read on a screen: a heading, and signs with their meaning.
Reading = tuple[str, Sequence[tuple[str, str]]]


class HelpText(Lines, can_focus=True):
    """Two columns where there is room."""

    def __init__(self, about: str, reading: Reading, hidden: frozenset[str]) -> None:
        super().__init__()
        self._about = about
        self._signs = reading
        self._hidden = hidden

    def draw(self, cells: int) -> Sequence[Line]:
        made: list[Line] = [*wrapped(line((self._about, "")), cells), ()] if self._about else []
        half = (cells - 3) // 2 if cells >= 96 else cells
        groups = [*(rows for group in GROUPS if (rows := self._group(group, half))), self._reading(half)]
        if cells < 96:
            for group in groups:
                made.extend((*group, ()))
            return made
        columns: tuple[list[Line], list[Line]] = ([], [])
        total = sum(len(g) + 1 for g in groups)
        for group in groups:
            target = columns[0] if len(columns[0]) + len(group) <= total // 2 + 2 else columns[1]
            target.extend((*group, ()))
        for at in range(max(map(len, columns))):
            pair = [column[at] if at < len(column) else () for column in columns]
            made.append((*fit(pair[0], half), Span("   "), *fit(pair[1], half)))
        return made

    def _group(self, group: str, cells: int) -> list[Line]:
        rows: list[Line] = []
        for action in ACTIONS:
            if action.group == group and action.shown and action.id not in self._hidden:
                rows.extend(_row(action.shown, action.help, cells))
        return [line((group, "strong accent")), *rows] if rows else []

    def _reading(self, cells: int) -> list[Line]:
        title, signs = self._signs
        made: list[Line] = [line((title, "strong accent"))]
        for key, text in signs:
            made.extend(_row(key, text, cells))
        return made


def _row(key: str, text: str, cells: int) -> list[Line]:
    return wrapped(line((fmt.left(key, _KEY) + " ", "key"), text), cells, _KEY + 1)


class HelpScreen(ModalScreen[None]):
    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("escape,q,question_mark,f1,enter", "dismiss(None)", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, about: str, reading: Reading, hidden: frozenset[str] = frozenset()) -> None:
        """``hidden`` are ids of actions that do nothing now."""
        super().__init__()
        self._text = HelpText(about, reading, hidden)
        self._text.border_title = "help"
        self._text.border_subtitle = "j k scroll · esc closes"
        self._text.add_class("box")

    def compose(self) -> ComposeResult:
        yield Banner(classes="over")
        yield self._text

    def action_scroll(self, step: int) -> None:
        self._text.scroll_relative(y=step, animate=False)
