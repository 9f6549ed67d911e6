"""The dialogs over a screen: pick from a list, confirm, the command palette, the help."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input

from openclaw_mem_tui.bindings import GROUPS, Action
from openclaw_mem_tui.features.search.history import fuzzy
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Reading, line, spread, width, wrapped
from openclaw_mem_tui.widgets.edges import Banner
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.line_view import Drawer, Pane
from openclaw_mem_tui.widgets.lists import CursorList, Rows, WrappedTable

T = TypeVar("T")


#: Cells of the name of a section.
_SECTION = 11


class Choice(NamedTuple):
    """``key`` is returned; a ``letter`` picks it at once. Those of a ``section`` are under its name, with
    their ``detail`` at the right edge."""

    key: str
    title: str
    detail: str = ""
    letter: str = ""
    section: str = ""


class Dialog(ModalScreen[T]):
    """One framed widget over the screen, below the banner."""

    def __init__(self, box: Widget, title: str, keys: str) -> None:
        super().__init__()
        self._box = box.add_class("box")
        box.border_title, box.border_subtitle = title, keys

    def compose(self) -> ComposeResult:
        yield Banner(classes="over")
        yield self._box


class Choices(CursorList, can_focus=False):
    """The rows of a pick; the keys are the picker's."""


class PickScreen(Dialog[str | None]):
    """Returns the key of the chosen row, or None. ``find`` gives the rows for what is typed."""

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
        self._find, self._filtered, self._empty = find, filtered, empty
        self._choices: Sequence[Choice] = ()
        self._list = Choices()
        self._list.cursor = start
        typed = [Input(placeholder="type to narrow", compact=True, classes="filter")] if filtered else []
        super().__init__(Vertical(*typed, self._list), title, "enter picks · esc closes")

    def on_mount(self) -> None:
        self._show("")
        self.call_after_refresh(self._list.follow)

    def _show(self, typed: str) -> None:
        self._choices = choices = self._find(typed)
        self._list.show(lambda cells, cursor: _choice_rows(choices, self._empty, cells, cursor))

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list.cursor = 0
        self._show(event.value)
        self._list.follow()

    def on_input_submitted(self) -> None:
        self.action_choose()

    def on_key(self, event: events.Key) -> None:
        if self._filtered or not event.character:
            return
        for choice in self._choices:
            if choice.letter == event.character:
                # Stopped here, or the screen below would take the same key as its own.
                event.stop().prevent_default()
                self.dismiss(choice.key)
                return

    def action_step(self, step: int) -> None:
        self._list.action_go(step)

    def action_choose(self) -> None:
        self.dismiss(self._choices[self._list.cursor].key if self._choices else None)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self._list and self._choices:
            self.action_choose()
        elif event.widget is self:
            self.dismiss(None)


def _choice_rows(choices: Sequence[Choice], empty: str, cells: int, cursor: int) -> Rows:
    if not choices:
        return Rows([line((f"  {empty}", "dim"))])
    if any(choice.section for choice in choices):
        return Rows((), [[row] for row in _sectioned(choices, cells, cursor)])
    letters = any(choice.letter for choice in choices)
    wide = min(max(fmt.width_of(choice.title) for choice in choices) + 2, cells * 3 // 5)
    room = cells - 2 - (3 if letters else 0) - wide
    made = [
        line(
            ("▌ " if at == cursor else "  ", "accent"),
            (fmt.left(choice.letter, 3) if letters else "", "key"),
            fmt.left(choice.title, wide) if choice.detail else fmt.crop(choice.title, cells - 3),
            (fmt.crop(choice.detail, room), "dim"),
        )
        for at, choice in enumerate(choices)
    ]
    return Rows((), [[row] for row in made])


def _sectioned(choices: Sequence[Choice], cells: int, cursor: int) -> Iterator[Line]:
    before = ""
    for at, choice in enumerate(choices):
        section = choice.section if choice.section != before else ""
        before = choice.section
        mark = ("▌ " if at == cursor else "  ", "accent")
        start = line(mark, (fmt.left(section, _SECTION), "strong accent"), fmt.inert(choice.title))
        yield spread(start, line((f" {choice.detail} ", "key")), cells)


class ConfirmScreen(Dialog[bool]):
    """Shows what is about to be done; returns whether to go ahead."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter,y", "dismiss(True)", show=False),
        Binding("escape,n,q", "dismiss(False)", show=False),
    ]

    def __init__(self, title: str, drawer: Drawer, verb: str) -> None:
        """``verb`` is what enter does, like ``rebuild``."""
        super().__init__(Vertical(Pane(drawer, classes="said")), title, f"enter {verb} · esc cancel")


class Palette(PickScreen):
    """Every action by name: by section with the recent ones first, or those that fit what is typed."""

    def __init__(self, commands: Sequence[Choice], recent: Sequence[str]) -> None:
        by_key = {command.key: command for command in commands}
        last = [by_key[key]._replace(section="recent") for key in recent if key in by_key]
        order = [group for group in GROUPS if any(command.section == group for command in commands)]
        others = sorted(commands, key=lambda command: order.index(command.section))

        def find(text: str) -> list[Choice]:
            titles = fuzzy(text, [command.title for command in commands]) if text.strip() else []
            named = {command.title: command for command in commands}
            known = [*last, *(command for command in others if command.key not in recent)]
            return [named[title] for title in titles] if text.strip() else known

        super().__init__("palette", find, filtered=True, empty="no action of this name")


# -- the help ---------------------------------------------------------------------------------------------


class HelpText(Pane, can_focus=True):
    """Scrolled with the keys of every scrolled widget."""


class TextScreen(Dialog[None]):
    """A text to read."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("escape,q,question_mark,exclamation_mark,f1,enter", "dismiss(None)", show=False),
        Binding("j", "scroll(1)", show=False),
        Binding("k", "scroll(-1)", show=False),
    ]

    def __init__(self, title: str, drawer: Drawer) -> None:
        super().__init__(HelpText(drawer), title, "j k scroll · esc closes")

    def action_scroll(self, step: int) -> None:
        self._box.scroll_relative(y=step, animate=False)


class HelpRow(NamedTuple):
    """``action`` is the id of what enter runs; "" for a sign to read."""

    sign: str
    text: str
    group: str
    action: str = ""


def _help_row(wide: int, row: HelpRow, cells: int, selected: bool) -> list[Line]:
    """The text wraps; its group is at the right of the first line."""
    end = line((f" {row.group} ", "faint"))
    head = line(
        ("▌ " if selected else "  ", "accent"),
        (fmt.left(row.sign, wide) + " ", "key" if row.action else "dim"),
    )
    first, *more = wrapped(line(*head, row.text), cells - width(end), wide + 3)
    return [spread(first, end, cells), *more]


_GLOSSARY = ("terms", "docs/glossary.md of the repository explains the terms of all screens")


class HelpScreen(Dialog[str | None]):
    """The keys that work on a screen, and how to read it; returns the id of the action that was chosen."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter", "choose", show=False),
        Binding("escape,q,question_mark,f1", "back", show=False),
        Binding("f,slash", "filter", show=False, priority=True),
    ]

    def __init__(self, about: str, reading: Reading, actions: Sequence[Action]) -> None:
        rows = [HelpRow(a.shown, a.help, a.group, a.id) for a in actions]
        rows += [HelpRow(sign, text, reading[0]) for sign, text in (*reading[1], _GLOSSARY)]
        wide = max(fmt.width_of(row.sign) for row in rows)
        self._rows: WrappedTable[HelpRow] = WrappedTable("", id="help-rows")
        self._rows.show_wrapped(rows, partial(_help_row, wide))
        said = Pane(lambda cells: wrapped(line((about, "dim")), cells) if about else (), id="help-about")
        super().__init__(Vertical(said, FilterLine(), self._rows), "help", "")

    def on_mount(self) -> None:
        self._rows.focus()
        self._label()

    @on(CursorList.Moved)
    def _label(self) -> None:
        found = self._rows.filtered
        keys = f"{found} · esc clears" if found else "enter runs it · f filters · esc closes"
        self._box.border_subtitle = Content(keys).markup

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return action != "filter" or self._rows.has_focus

    def action_filter(self) -> None:
        self.query_one(FilterLine).open(self._rows)

    def action_back(self) -> None:
        if self._rows.wanted:
            self._rows.filter("")
        else:
            self.dismiss(None)

    @on(CursorList.Chosen)
    def action_choose(self) -> None:
        row = self._rows.selected
        if row is not None and row.action:
            self.dismiss(row.action)
