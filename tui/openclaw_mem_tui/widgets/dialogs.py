"""The dialogs over a screen: pick from a list, confirm, the command palette, the help."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Input

from openclaw_mem_tui.bindings import GROUPS
from openclaw_mem_tui.features.search.history import holding
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.choices import Choice, choice_rows
from openclaw_mem_tui.widgets.edges import Banner
from openclaw_mem_tui.widgets.frames import named_key, rows_of
from openclaw_mem_tui.widgets.line_view import Drawer, Lines, Pane
from openclaw_mem_tui.widgets.lists import CursorList, Rows

T = TypeVar("T")
#: On a narrower screen a dialog is as wide as that: what was left of the screen below would be no words.
_APART = 150

#: How every dialog with a long text is scrolled.
PAGES = (
    Binding("pagedown", "scroll(10)", "ten down", show=False),
    Binding("pageup", "scroll(-10)", "ten up", show=False),
)


def hints(**keys: str) -> str:
    """What each key of a dialog does, for its frame; ``j_k`` are two keys."""
    return fmt.join(named_key(sign.replace("_", " "), what) for sign, what in keys.items())


class Dialog(ModalScreen[T]):
    """One framed widget over the screen, below the banner. The keys of the screen do not work meanwhile: its
    bottom line is covered."""

    def __init__(self, box: Widget, title: str, keys: str) -> None:
        super().__init__()
        self._box = box.add_class("box")
        box.border_title, box.border_subtitle = title, keys

    def compose(self) -> ComposeResult:
        self._widen()
        yield Banner(classes="over")
        yield self._box
        yield Lines(classes="no-keys")

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Once: a key that is pressed twice must not close the screen below too."""
        return super().dismiss(result) if self.is_current else AwaitComplete()

    @on(events.Resize)
    def _widen(self) -> None:
        self.set_class(self.app.size.width < _APART, "-whole")

    def action_scroll(self, step: int) -> None:
        self._box.scroll_relative(y=step, animate=False)

    def room(self, *, typed: bool) -> int:
        """Lines for what is in the box, below a line that is ``typed`` in."""
        margin, around = (2, 4) if typed else (0, 2)  # the frame, and that line with a blank one
        return max(1, min(24, (self.size.height - 1 - margin) * 4 // 5 - around))


class Choices(CursorList, can_focus=False):
    """The rows of a pick; the keys are the picker's."""


class PickScreen(Dialog[str | None]):
    """Returns the key of the chosen row, or None. ``find`` gives the rows for what is typed; where these are
    only the first, ``count`` says how many there are."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter", "choose", "pick", show=False),
        Binding("up,ctrl+p,k", "step(-1)", "up", show=False),
        # Also the key that opens one for the view of a list.
        Binding("down,ctrl+n,j,v", "step(1)", "down", show=False),
        Binding("pageup,ctrl+u", "step(-10)", "ten up", show=False),
        Binding("pagedown,ctrl+d", "step(10)", "ten down", show=False),
        Binding("g,home", "step(-1_000_000)", "the first row", show=False),
        Binding("G,end", "step(1_000_000)", "the last row", show=False),
        Binding("escape,q", "dismiss(None)", "close", show=False),
    ]

    def __init__(
        self,
        title: str,
        find: Callable[[str], Sequence[Choice]],
        *,
        filtered: bool = False,
        empty: str = "nothing here",
        about: str = "",
        start: int = 0,
        count: Callable[[], int] | None = None,
    ) -> None:
        self._find, self._filtered, self._empty, self._about = find, filtered, empty, about
        self._count = count or (lambda: len(self._choices))
        self._choices: Sequence[Choice] = ()
        self._list = Choices()
        self._list.cursor = start
        typed = [Input(placeholder="type to narrow", compact=True, classes="filter")] if filtered else []
        super().__init__(Vertical(*typed, self._list), title, "")
        self.set_class(filtered, "-typed")

    def on_mount(self) -> None:
        self._show("")
        self.call_after_refresh(self._list.follow)

    def _show(self, typed: str) -> None:
        self._choices = choices = self._find(typed)

        def rows(cells: int, cursor: int) -> Rows:
            return Rows(*choice_rows(choices, self._empty, cells, cursor, self._about))

        self._list.show(rows)
        self.call_after_refresh(self._label)

    def on_resize(self) -> None:
        self._list.styles.max_height = self.room(typed=self._filtered)
        self.call_after_refresh(self._label)

    @on(CursorList.Moved)
    def _label(self) -> None:
        shown, every, hidden = len(self._choices), self._count(), self._list.max_scroll_y > 0
        at = f"{self._list.cursor + 1:,} of {every:,}" if hidden else ""
        first = f"{shown:,} shown" if shown < every else ""
        pick = {"enter": "pick"} if self._choices else {}
        self._box.border_subtitle = fmt.join((at, first, hints(**pick, esc="close")))

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


class ScrolledDialog(Dialog[T]):
    """Its frame says how much is shown of a text that is longer than the room for it, and the keys that
    scroll it."""

    SCROLLS = "J K"

    def __init__(self, text: Pane, box: Widget, title: str, keys: str) -> None:
        self._text, self._keys = text, keys
        super().__init__(box, title, keys)

    def action_scroll(self, step: int) -> None:
        self._text.scroll_relative(y=step, animate=False)

    def on_lines_sized(self) -> None:
        self.call_after_refresh(self._label)

    def _label(self) -> None:
        text = self._text
        hidden = text.max_scroll_y > 0
        shown = rows_of(text) if hidden else ""
        scroll = named_key(self.SCROLLS, "scroll") if hidden else ""
        self._box.border_subtitle = fmt.join((shown, scroll, self._keys))


class ConfirmScreen(ScrolledDialog[bool]):
    """Shows what is about to be done; returns whether to go ahead."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("enter,y", "dismiss(True)", "go ahead", show=False),
        Binding("escape,n,q", "dismiss(False)", "cancel", show=False),
        Binding("J", "scroll(3)", "scroll down", show=False),
        Binding("K", "scroll(-3)", "scroll up", show=False),
        *PAGES,
    ]

    def __init__(self, title: str, drawer: Drawer, verb: str) -> None:
        """``verb`` is what enter does, like ``rebuild``."""
        text = Pane(drawer, classes="said")
        super().__init__(text, text, title, hints(enter=verb, esc="cancel"))


def pick(
    screen: Screen[Any],
    title: str,
    find: Callable[[str], Sequence[Choice]],
    then: Callable[[str], object],
    **options: Any,
) -> None:
    """Show a ``PickScreen``; ``then`` is given the key of the chosen row."""

    def chosen(key: str | None) -> None:
        if key is not None:
            then(key)

    screen.app.push_screen(PickScreen(title, find, **options), chosen)


def confirm(screen: Screen[Any], title: str, drawer: Drawer, verb: str, then: Callable[[], object]) -> None:
    """Show what is about to be done, and do it after a yes."""

    def decided(sure: bool | None) -> None:
        if sure:
            then()

    screen.app.push_screen(ConfirmScreen(title, drawer, verb), decided)


class Palette(PickScreen):
    """Every action by name: by section with the recent ones first, or those that fit what is typed."""

    def __init__(self, commands: Sequence[Choice], recent: Sequence[str]) -> None:
        by_key = {command.key: command for command in commands}
        last = [by_key[key]._replace(section="recent") for key in recent if key in by_key]
        others = sorted(commands, key=lambda command: GROUPS.index(command.section))

        known = [*last, *(command for command in others if command.key not in recent)]
        keys = {command.key: command.detail for command in commands}

        def find(text: str) -> list[Choice]:
            return [by_key[title] for title in holding(text, keys, keys)] if text.strip() else known

        super().__init__("palette", find, filtered=True, empty="no action of this name on this screen")


# -- the help ---------------------------------------------------------------------------------------------


class HelpText(Pane, can_focus=True):
    """Scrolled with the keys of every scrolled widget."""


class TextScreen(ScrolledDialog[None]):
    """A text to read."""

    BINDINGS = [  # noqa: RUF012 - Textual reads it from the class
        Binding("escape,q,question_mark,exclamation_mark,f1,enter", "dismiss(None)", "close", show=False),
        Binding("j,J", "scroll(1)", "scroll down", show=False),
        Binding("k,K", "scroll(-1)", "scroll up", show=False),
    ]

    def __init__(self, title: str, drawer: Drawer) -> None:
        text = HelpText(drawer)
        super().__init__(text, text, title, hints(esc="close"))
