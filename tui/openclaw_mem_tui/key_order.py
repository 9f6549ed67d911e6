"""Keys before a widget has them: what was typed in one burst does the same as what was typed slowly."""

from __future__ import annotations

import string
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.app import App
from textual.events import Event, Key
from textual.keys import Keys, _character_to_key
from textual.widgets import Input

from openclaw_mem_tui.screen import WorkbenchScreen

_KEYS = cast("dict[str, object]", ANSI_SEQUENCES_KEYS)
#: Textual reads escape and a digit as the sign that alt types with it in a terminal of macOS.
for _digit in "0123456789":
    _KEYS.pop(f"\x1b{_digit}", None)
#: And it drops the escape before a control key or a sign. Signs with which answers of a terminal begin, and
#: alt with backspace, which deletes a word, stay.
for _control, _named in [*ANSI_SEQUENCES_KEYS.items()]:
    if len(_control) == 1 and _control not in "\x1b\x7f\x9b" and isinstance(_named, tuple):
        _KEYS[f"\x1b{_control}"] = (Keys.Escape, *_named)
for _sign in set(string.punctuation) - set("[]\\^_"):
    _KEYS[f"\x1b{_sign}"] = (Keys.Escape, SimpleNamespace(value=_character_to_key(_sign)))
#: Seconds until a key that does not come back from a line is given up: the line was closed.
_LOST_S = 0.5


class KeyOrder(App[int]):
    """Textual gives each key to the queue of the widget with the focus. A line types what is text at once,
    but what its other keys do is done when they come back to the application: text that was typed behind them
    would be there before. So it waits."""

    def __init__(self) -> None:
        super().__init__()
        #: The key that a line has, and those that were pressed since.
        self._away: Key | None = None
        self._held: deque[Key] = deque()

    async def on_event(self, event: Event) -> None:
        """A terminal sends alt with a key as escape and that key. Two keys that were pressed one after the
        other look the same (tmux joins them for half a second), so it is always these two."""
        if isinstance(event, Key) and event.is_printable and event.key.startswith("alt+"):
            await self.on_event(Key("escape", "\x1b"))
            event = Key(_character_to_key(event.character or ""), event.character)
        if isinstance(event, Key) and not event.is_forwarded and self._away is not None:
            self._held.append(event)
            return
        in_line = isinstance(event, Key) and isinstance(self.focused, Input)
        await super().on_event(event)
        if event is self._away:
            await self._is_back(event)
        elif isinstance(event, Key) and in_line and event.is_forwarded and not event.is_printable:
            self._goes_away(event)

    def _goes_away(self, key: Key) -> None:
        self._away = key
        self.set_timer(_LOST_S, partial(self._is_back, key))

    async def _is_back(self, key: Event) -> None:
        if key is self._away:
            self._away = None
            while self._held and self._away is None:
                await self.on_event(self._held.popleft())

    async def _check_bindings(self, key: str, priority: bool = False) -> bool:
        """Outside of a line that is typed in the application itself does what a key says, not the widget
        that has the focus, and waits for a screen that is opened: in one burst the keys behind it go to
        that, and a key that does nothing goes nowhere."""
        done = await super()._check_bindings(key, priority)
        if priority and not done and isinstance(self.screen, WorkbenchScreen):
            if isinstance(self.focused, Input):
                return False
            if not await super()._check_bindings(key):
                self.screen.tell_unused(key)
            done = True
        if done:
            await self.screen._mounted_event.wait()
        return done

    def on_key(self, event: Key) -> None:
        """A key that no line took."""
        if isinstance(self.screen, WorkbenchScreen):
            self.screen.tell_unused(event.key)
