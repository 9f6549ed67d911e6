"""The page ``docs/keys.md``, made from the table of actions."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType
from textual.dom import DOMNode

from openclaw_mem_tui.actions import PARTS, Action, signs
from openclaw_mem_tui.app import Workbench
from openclaw_mem_tui.bindings import ACTIONS, GROUPS
from openclaw_mem_tui.features.curate.remember import RememberScreen
from openclaw_mem_tui.features.search.query_line import QueryLine
from openclaw_mem_tui.widgets.dialogs import ConfirmScreen, PickScreen, TextScreen
from openclaw_mem_tui.widgets.filter_line import FilterLine
from openclaw_mem_tui.widgets.help import HelpScreen

HEAD = """# Keys of the workbench

This page lists every key. The bottom line of a screen shows the keys that are used most. `?` shows all of
them, and `:` runs an action by its name. Where there are results, letters are keys, also at the start: `/`
goes to the query line, `esc` leaves it. Only the start page, which has no results, begins in the query line.
Digits open screens: counts as in vi (`3j`) do not exist. *Where* names screens, or a part of a screen
(*lists*, *knobs*). The ids are for [changing keys](configuration.md#keys)."""

FIXED = """## Fixed keys

`[keys]` in `config.toml` changes the keys above, by their ids. These stay as they are:

| Where | Keys |
|---|---|"""
_COLUMNS = ("| Key | Does | Where | Id |", "|---|---|---|---|")
#: All screens that any action names.
_ALL = frozenset().union(*(action.parts for action in ACTIONS)) - PARTS - {"everywhere"}
_WITH_FIXED: dict[str, type[DOMNode]] = {
    "every screen": Workbench,
    "the query": QueryLine,
    "the filter of a list": FilterLine,
    "a list to pick from; letters where nothing is typed": PickScreen,
    "a question": ConfirmScreen,
    "a text to read": TextScreen,
    "help": HelpScreen,
    "remember…; `enter` writes": RememberScreen,
}


def keys_page() -> str:
    """A table for each group, with the keys as they are declared."""
    parts = [HEAD]
    for group in GROUPS:
        shown = [action for action in ACTIONS if action.group == group]
        rows = [f"| {_keys(one)} | {one.help} | {_where(one)} | `{one.id}` |" for one in shown]
        parts.append("\n".join((f"## {group}", "", *_COLUMNS, *rows)))
    fixed = [f"| {where} | {_fixed(bound.BINDINGS)} |" for where, bound in _WITH_FIXED.items()]
    parts.append("\n".join((FIXED, *fixed)))
    return "\n\n".join(parts) + "\n"


def _keys(action: Action) -> str:
    """All of its own: the labels of the knob panel are for both directions."""
    return _coded(signs(action.keys) if action.where == "knobs" else action.shown)


def _where(action: Action) -> str:
    """The screens, or the parts of them, on which it works."""
    return "everywhere" if action.parts >= _ALL else ", ".join(action.where.replace("_", "-").split())


def _fixed(bindings: Iterable[BindingType]) -> str:
    """Each of them with what it does."""
    made = (binding for binding in bindings if isinstance(binding, Binding))
    return " · ".join(f"{_coded(signs(binding.key))} {binding.description}" for binding in made)


def _coded(keys: str) -> str:
    return " ".join(f"`{key}`" for key in keys.split())
