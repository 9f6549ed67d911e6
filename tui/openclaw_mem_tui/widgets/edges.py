"""The edges of every screen: the banner of simulated faults, the tabs, the keys at the bottom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from textual.screen import Screen

from openclaw_mem_engine import api
from openclaw_mem_tui.actions import Action
from openclaw_mem_tui.bindings import TABS, action, key, offered, typed_key
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, spread, width
from openclaw_mem_tui.render.status import Header, top
from openclaw_mem_tui.widgets.line_view import Lines, Pane

#: Seconds between frames of the spinner, while something runs.
FRAME_S = 0.12
#: The keys of lines that are typed in.
_OF_QUERY = (("↑", "previous query"), ("ctrl+r", "history"), ("ctrl+p", "palette"))
#: The query line: over chunks, over the start page with and without suggestions; the line of a filter. What
#: ``enter`` does to the row of a suggestion depends on it.
_TYPED = {
    "query": (("esc", "for keys"), ("enter ↓", "to the chunks"), *_OF_QUERY),
    "start": (("esc", "for keys"), ("enter", ""), ("↓", "to the list"), *_OF_QUERY),
    "blank": (("esc", "for keys"), *_OF_QUERY),
    "filter": (("enter ↓", "to the rows"), ("esc", "show all rows")),
}

#: Those of ``enter`` whose text depends on the selected row.
_OPENS = ("get", "chunks")
#: The actions at the right end of every key bar.
_ENDS = ("leave", "cancel", "help", "quit", "quit_now")
#: What the knob panel shares with the search lab, with the texts and the importance that it has there.
_PANEL = (
    ("reset_all", "reset all", 3),
    ("undo_knob", "undo", 2),
    ("redo_knob", "redo", 7),
    ("apply_knobs", "apply", 3),
    ("filter", "filter", 7),
    ("cancel", "close", 2),
    ("help", "help", 1),
    ("quit", "quit", 5),
)


def _part(action: Action) -> int:
    return 2 + _ENDS.index(action.id) if action.id in _ENDS else int(action.group == "Lists")


def tab_of(screen: Screen[Any]) -> str:
    """The screen of the table that this one is, or that it is over."""
    below = (screen, *reversed(screen.app.screen_stack))
    return next(where for one in below if (where := getattr(one, "WHERE", "")) in TABS)


def fault_banner(faults: frozenset[str], cells: int) -> Line:
    if not faults:
        return ()
    names = [*(name for name in api.FAULTS if name in faults), *sorted(faults - api.FAULTS.keys())]
    head = f" ✗ SIMULATED FAULT{'S' * (len(names) > 1)}: "
    off = f" · {key('clear_faults')} switches {'them' if names[1:] else 'it'} off "
    for end in (off, ""):
        for count in range(len(names), 0, -1):
            more = f" +{len(names) - count}" if count < len(names) else ""
            text = head + ", ".join(names[:count]) + more
            if fmt.width_of(text) + fmt.width_of(end or "   ") <= cells:
                return fit((Span(text), Span(end, "", "do('clear_faults')")), cells)
    return fit((Span(head + ", ".join(names)),), cells)


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
        return [fault_banner(self._faults, cells)] if self._faults else []


class Top(Pane):
    """The tabs."""

    _shows: tuple[Header, str, str] | None = None

    def show_tabs(self, header: Header, at: str, title: str) -> None:
        """As ``top`` draws them."""
        if (header, at, title) != self._shows:
            self._shows = header, at, title
            self.show(lambda cells: [top(header, cells, at, title)])


class KeyBar(Lines):
    """Sheds the less important keys where room is short; a click on a key is a press."""

    where = "search"
    hidden, first = frozenset({"show_search"}), frozenset[str]()
    _renamed: Mapping[str, str] = MappingProxyType({})

    def rename(self, footer: str, *names: str) -> None:
        """What these actions (without: ``enter``) do just now; "": what the table of actions says."""
        renamed = {**self._renamed, **dict.fromkeys(names or _OPENS, footer)}
        if renamed != self._renamed:
            self._renamed = renamed
            self.changed()

    def show(self, where: str, hidden: frozenset[str], first: frozenset[str]) -> None:
        """``hidden`` are ids of actions that do nothing now, ``first`` those that are shed last now."""
        if (where, hidden, first) != (self.where, self.hidden, self.first):
            self.where, self.hidden, self.first = where, hidden, first
            self.changed()

    def draw(self, cells: int) -> Sequence[Line]:
        if self.where in _TYPED:
            parts, right = [Span(" typing", "strong accent"), Span(" │ ", "faint")], list[Span]()
            if self.where != "filter" and (key := typed_key("help")):
                right = [Span(key, "key", "do('help')"), Span(" help ", "dim", "do('help')")]
            for at, (key, does) in enumerate(_TYPED[self.where]):
                text = does or self._renamed.get("get", "")
                more = line("   " * (at > 0), (key, "key"), (f" {text}", "dim"))
                if width(parts) + width(more) + width(right) < cells:
                    parts.extend(more)
            return [spread(parts, right, cells)]
        if self.where == "knobs":
            shown = [*offered("knobs"), *(action(name)._replace(footer=f, rank=r) for name, f, r in _PANEL)]
        else:
            shown = [*offered(self.where)]
        shown = [
            a._replace(footer=self._renamed.get(a.id) or a.footer)
            for a in shown
            if a.rank and a.id not in self.hidden
        ]
        ids = {a.id for a in shown}
        shown = [a for a in shown if a.id != "quit_now" or "quit" not in ids]
        named = {a.footer for a in shown if a.id != "quit"}
        shown = [a for a in shown if a.id != "quit" or a.footer not in named]  # one key for one thing
        while len(shown) > 1 and width(self._line(shown)) + 2 > cells:
            shown.remove(max((a for a in shown if a.id != "help"), key=self._sheds))
        start, end = (self._line([a for a in shown if (a.id in _ENDS) == ends]) for ends in (False, True))
        return [spread((Span(" "), *start), (*end, Span(" ")), cells)]

    def _sheds(self, action: Action) -> tuple[bool, int, bool]:
        """The action with the greatest goes first; ``enter`` is tried without being named."""
        return action.id not in {*_ENDS, *self.first}, action.rank, action.id in _OPENS

    def _line(self, shown: Sequence[Action]) -> Line:
        """What acts on the screen by importance, then the keys of its lists, then those of every screen."""
        made: list[Span] = []
        before = 0
        for one in sorted(shown, key=lambda a: (_part(a), a.rank if self.where != "knobs" else 0)):
            gap = ("   ", "") if _part(one) == before or one.id in _ENDS else (" │ ", "faint")
            shown_key = one.shown if one.where == "knobs" else one.key
            made += [Span(*gap)] if made else []
            does = f"do('{one.id}')"
            made += [Span(shown_key, "key", does), Span(f" {one.footer}", "dim", does)]
            before = _part(one)
        return tuple(made)
