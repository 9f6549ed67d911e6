"""The edges of every screen: the banner of simulated faults at the top, the keys at the bottom."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from openclaw_mem_tui.bindings import Action, action, offered
from openclaw_mem_tui.render.spans import Line, Span, spread, width
from openclaw_mem_tui.render.status import fault_banner
from openclaw_mem_tui.widgets.line_view import Lines

#: The keys of lines that are typed in.
_TYPED = {
    "query": (
        ("enter ↓", "to the hits"),
        ("↑", "previous query"),
        ("esc", "hits"),
        ("ctrl+r", "history"),
        ("ctrl+p", "palette"),
    ),
    "filter": (("enter ↓", "to the rows"), ("esc", "show all rows")),
}


class Banner(Lines):
    """Hidden while no fault is simulated. Starts with the faults of the application."""

    _faults: frozenset[str] = frozenset()

    def on_mount(self) -> None:
        search = getattr(self.app, "search", None)
        if search is not None:
            self.show(search.view.shown_faults)

    def show(self, faults: frozenset[str]) -> None:
        if faults != self._faults:
            self._faults = faults
            self.set_class(bool(faults), "-on")
            self.changed()

    def draw(self, cells: int) -> Sequence[Line]:
        # A dialog has no key for it: that of the screen below is meant.
        stack = self.app.screen_stack
        below = stack[: stack.index(self.screen) + 1] if self.screen in stack else [self.screen]
        named = filter(None, (getattr(screen, "WHERE", "") for screen in reversed(below)))
        here = next(named, "") == "providers"
        return [fault_banner(self._faults, cells, here)] if self._faults else []


class KeyBar(Lines):
    """Sheds the less important keys where room is short; a click on a key is a press."""

    class Pressed(Message):
        def __init__(self, action: Action) -> None:
            super().__init__()
            self.action = action

    where = "search"
    hidden = frozenset({"show_search"})
    _shows = action("get").footer
    _places: Sequence[tuple[int, int, Action]] = ()

    def rename(self, footer: str) -> None:
        """What ``enter`` shows next to the hits."""
        if footer != self._shows:
            self._shows = footer
            self.changed()

    def show(self, where: str, hidden: frozenset[str]) -> None:
        """``hidden`` are ids of actions that do nothing now."""
        if (where, hidden) != (self.where, self.hidden):
            self.where, self.hidden = where, hidden
            self.changed()

    def draw(self, cells: int) -> Sequence[Line]:
        self._places = places = []
        if self.where in _TYPED:
            parts = [Span(" ")]
            for key, text in _TYPED[self.where]:
                if width(parts) + len(key) + len(text) + 3 <= cells:
                    parts.extend((Span(key, "key"), Span(f" {text}   ", "dim")))
            return [tuple(parts)]
        if self.where == "knobs":
            shown = [a for a in offered("knobs") if a.rank]
            shown.append(action("reset_all")._replace(footer="reset all", rank=4))
            shown.append(action("knobs")._replace(footer="close"))
        else:
            shown = [a for a in offered(self.where) if a.rank and a.id not in self.hidden]
            shown = [a._replace(footer=self._shows) if a.id == "get" else a for a in shown]
        end: Line = (Span(action("help").key, "key"), Span(" help ", "dim"))
        chosen = [a for a in shown if a.id != "help"]
        while chosen and self._wide(chosen) + width(end) + 1 > cells:
            chosen.remove(max(chosen, key=lambda a: a.rank))
        if self.where != "knobs":
            chosen.sort(key=lambda a: (a.id == "quit", a.rank))
        parts = [Span(" ")]
        for one in chosen:
            start = width(parts)
            parts.extend((Span(self._key(one), "key"), Span(f" {one.footer}", "dim")))
            places.append((start, width(parts), one))
            parts.append(Span("   "))
        places.append((cells - width(end), cells, action("help")))
        return [spread(parts, end, cells)]

    @staticmethod
    def _key(action: Action) -> str:
        return action.shown if action.where == "knobs" else action.key

    def _wide(self, actions: Sequence[Action]) -> int:
        return 1 + sum(len(self._key(a)) + 1 + len(a.footer) + 3 for a in actions)

    def on_click(self, event: events.Click) -> None:
        for start, stop, pressed in self._places:
            if start <= event.x < stop:
                self.post_message(self.Pressed(pressed))
