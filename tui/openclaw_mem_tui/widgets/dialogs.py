"""The dialogs over a screen: pick from a list, confirm, the command palette, the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rich.style import Style
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.command import CommandPalette
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.strip import Strip
from textual.widgets import Input

from openclaw_mem_tui.bindings import ACTIONS, GROUPS
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, wrapped
from openclaw_mem_tui.widgets.edges import Banner
from openclaw_mem_tui.widgets.line_view import Drawer, Lines, Pane


class Choice(NamedTuple):
    """``key`` is returned; a ``letter`` picks it at once."""

    key: str
    title: str
    detail: str = ""
    letter: str = ""


class Choices(Lines, can_focus=False):
    """The rows of a pick; the cursor is the picker's."""

    COMPONENT_CLASSES = {"choices--cursor"}  # noqa: RUF012 - Textual reads it from the class

    def __init__(self) -> None:
        super().__init__()
        self.choices: Sequence[Choice] = ()
        self.cursor = 0
        self.empty = ""

    def draw(self, cells: int) -> Sequence[Line]:
        if not self.choices:
            return [(Span(f"  {self.empty}", "dim"),)]
        letters = any(choice.letter for choice in self.choices)
        wide = min(max(fmt.width_of(c.title) for c in self.choices) + 2, cells * 3 // 5)
        made: list[Line] = []
        for at, choice in enumerate(self.choices):
            mark = Span("▌ " if at == self.cursor else "  ", "accent")
            letter = (Span(fmt.left(choice.letter, 3), "key"),) if letters else ()
            detail = bool(choice.detail)
            title = fmt.left(choice.title, wide) if detail else fmt.crop(choice.title, cells - 3)
            room = cells - 2 - (3 if letters else 0) - wide
            made.append(
                (mark, *letter, Span(title), Span(fmt.crop(choice.detail, room) if detail else "", "dim"))
            )
        return made

    def painted(self, index: int) -> Strip:
        if index != self.cursor or not self.choices:
            return super().painted(index)
        base: Style = self.rich_style + self.get_component_rich_style("choices--cursor", partial=True)
        return self.paint(self.drawn[index], base, self.cells)

    def go(self, at: int) -> None:
        self.cursor = max(0, min(at, len(self.choices) - 1))
        self.changed()
        self.bring_into_sight(self.cursor, self.cursor + 1)


class PickScreen(ModalScreen[str | None]):
    """Returns the key of the chosen row, or None."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("escape", "dismiss(None)", show=False),
        Binding("up,ctrl+p,k", "step(-1)", show=False),
        Binding("down,ctrl+n,j", "step(1)", show=False),
        Binding("pageup", "step(-10)", show=False),
        Binding("pagedown", "step(10)", show=False),
        Binding("enter", "choose", show=False),
        Binding("q", "dismiss(None)", show=False),
    ]

    def __init__(
        self,
        title: str,
        find: Callable[[str], Sequence[Choice]],
        *,
        filtered: bool = False,
        empty: str = "nothing here",
        start: int = 0,
    ) -> None:
        super().__init__()
        self._title = title
        self._find = find
        self._filtered = filtered
        self._start = start
        self._list = Choices()
        self._list.empty = empty

    def compose(self) -> ComposeResult:
        yield Banner(classes="over")
        with Vertical(classes="box") as box:
            box.border_title = self._title
            box.border_subtitle = "enter picks · esc closes"
            if self._filtered:
                yield Input(placeholder="type to narrow", compact=True, classes="filter")
            yield self._list

    def on_mount(self) -> None:
        self._list.choices = self._find("")
        self._list.go(self._start)
        self.call_after_refresh(self._list.go, self._start)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list.choices = self._find(event.value)
        self._list.go(0)

    def on_input_submitted(self) -> None:
        self.action_choose()

    def on_key(self, event: events.Key) -> None:
        if self._filtered or not event.character:
            return
        for choice in self._list.choices:
            if choice.letter == event.character:
                # Stopped here, or the screen below would take the same key as its own.
                event.stop().prevent_default()
                self.dismiss(choice.key)
                return

    def action_step(self, step: int) -> None:
        self._list.go(self._list.cursor + step)

    def action_choose(self) -> None:
        rows = self._list.choices
        self.dismiss(rows[self._list.cursor].key if rows else None)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self._list:
            at = event.y + self._list.scroll_offset.y
            if 0 <= at < len(self._list.choices):
                self.dismiss(self._list.choices[at].key)
        elif event.widget is self:
            self.dismiss(None)


class ConfirmScreen(ModalScreen[bool]):
    """Shows what is about to be done; returns whether to go ahead."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter,y", "dismiss(True)", show=False),
        Binding("escape,n,q", "dismiss(False)", show=False),
    ]

    def __init__(self, title: str, drawer: Drawer, verb: str) -> None:
        """``verb`` is what enter does, like ``rebuild``."""
        super().__init__()
        self._title, self._drawer, self._verb = title, drawer, verb

    def compose(self) -> ComposeResult:
        yield Banner(classes="over")
        with Vertical(classes="box") as box:
            box.border_title = self._title
            box.border_subtitle = f"enter {self._verb} · esc cancel"
            yield Pane(classes="said")

    def on_mount(self) -> None:
        self.query_one(Pane).show(self._drawer)


class Palette(CommandPalette):
    """Textual's command palette, below the banner when a fault is simulated."""

    def compose(self) -> ComposeResult:
        yield Banner(classes="over")
        yield from super().compose()


# -- the help ---------------------------------------------------------------------------------------------

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
