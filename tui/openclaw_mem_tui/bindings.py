"""Every action, declared once: bindings, footer, help, palette and key table come from here."""

from __future__ import annotations

from typing import Literal, NamedTuple

from textual.binding import Binding

#: Where a key works: in the search lab (outside of the query line), in its query line, in its knob panel, on
#: the providers screen; or on both screens.
Where = Literal["lab", "query", "knobs", "providers", "both"]


class Action(NamedTuple):
    """``keys`` as Textual names them, comma separated; ``shown`` is what people read. ``footer`` is the short
    text of the bottom line and ``rank`` its importance there (0: not shown; small numbers stay longest)."""

    id: str
    keys: str
    shown: str
    help: str
    group: str
    where: Where = "lab"
    footer: str = ""
    rank: int = 0


_TOGGLE = "switch a fault on or off; on: compare with the healthy run"
_NEXT_LIST = "from the chain to the faults and back"

ACTIONS: tuple[Action, ...] = (
    Action("focus_query", "slash,i", "/ i", "edit the query", "Search", footer="search", rank=1),
    Action("older", "n", "n", "older query of the history", "Search", footer="history", rank=14),
    Action("newer", "N", "N", "newer query of the history", "Search"),
    Action("history", "ctrl+r,R", "ctrl+r R", "find a query of the history", "Search"),
    Action("mode", "s", "s", "mode: hybrid, bm25, vector", "Search", footer="mode", rank=13),
    Action("cancel", "escape", "esc", "cancel the search, close what is open", "Search"),
    Action("down", "j,down", "j ↓", "next hit", "Hits"),
    Action("up", "k,up", "k ↑", "previous hit", "Hits"),
    Action("first", "home,g", "home", "first hit", "Hits"),
    Action("last", "G,shift+g,end", "G", "last hit", "Hits"),
    Action("page_down", "ctrl+d,pagedown", "ctrl+d", "half a page down", "Hits"),
    Action("page_up", "ctrl+u,pageup", "ctrl+u", "half a page up", "Hits"),
    Action("columns", "v", "v", "columns: scores, ranks, contributions", "Hits", footer="columns", rank=4),
    Action("dropped", "d", "d", "show or hide what was not returned", "Hits", footer="dropped", rank=10),
    Action("baseline", "b", "b", "pin this run as the baseline", "Hits", footer="baseline", rank=6),
    Action("clear_baseline", "B", "B", "back to the configured baseline", "Hits"),
    Action(
        "get",
        "enter",
        "enter",
        "the lines around the chunk (memory_get)",
        "Note",
        footer="note",
        rank=3,
    ),
    Action("render", "m", "m", "render the Markdown of the chunk", "Note", footer="render", rank=12),
    Action("edit", "e", "e", "open the note in your editor, at the line", "Note", footer="edit", rank=9),
    Action("copy_place", "y", "y", "copy path:line", "Note"),
    Action("copy_snippet", "Y", "Y", "copy the snippet as the agent receives it", "Note"),
    Action("citations", "t", "t", "citations: auto, on, off", "Note"),
    Action("scroll_down", "J", "J", "scroll the lower pane down", "Note"),
    Action("scroll_up", "K", "K", "scroll the lower pane up", "Note"),
    Action("next_pane", "tab", "tab", "next pane (narrow), next focus (wide)", "Note"),
    Action("knobs", "p", "p", "open or close the knob panel", "Knobs", footer="knobs", rank=2),
    Action("less", "left,h", "← →", "a small step", "Knobs", "knobs", footer="step", rank=1),
    Action("more", "right,l", "", "a small step up", "Knobs", "knobs"),
    Action(
        "much_less",
        "shift+left,H",
        "shift ← →",
        "a large step (H and L too)",
        "Knobs",
        "knobs",
        footer="large",
        rank=2,
    ),
    Action("much_more", "shift+right,L", "", "a large step up", "Knobs", "knobs"),
    Action(
        "reset_knob",
        "u,backspace",
        "u",
        "the selected knob as configured",
        "Knobs",
        "knobs",
        footer="reset",
        rank=3,
    ),
    Action("reset_all", "U", "U", "all knobs as configured", "Knobs", footer="", rank=0),
    Action("toggle_fault", "space", "space", _TOGGLE, "Providers", "providers", "fault", 1),
    Action("clear_faults", "u", "u", "switch all faults off", "Providers", "providers", "clear", 4),
    Action("compare", "enter", "enter", "the last query in the lab", "Providers", "providers", "compare", 3),
    Action("probe", "r", "r", "ask the selected provider now", "Providers", "providers", "ask", 5),
    Action("next_list", "tab,shift+tab", "tab", _NEXT_LIST, "Providers", "providers", "chain, faults", 2),
    Action("pane_down", "J", "J", "scroll the pane below the list down", "Providers", "providers"),
    Action("pane_up", "K", "K", "scroll the pane below the list up", "Providers", "providers"),
    Action("leave", "escape", "esc", "back to the search lab", "Providers", "providers"),
    Action("show_search", "1", "1", "search lab", "Screens", "both", "lab", 6),
    Action("show_providers", "2", "2", "providers, fallback and faults", "Screens", "both", "providers", 7),
    Action("guide", "g", "g", "the lessons of the demo", "More", footer="lessons", rank=5),
    Action(
        "next_lesson",
        "right_square_bracket",
        "]",
        "next lesson of the demo",
        "More",
        footer="next lesson",
        rank=6,
    ),
    Action("previous_lesson", "left_square_bracket", "[", "previous lesson of the demo", "More"),
    Action("export", "x", "x", "export JSON, Markdown, SVG, configuration", "More", footer="export", rank=11),
    Action("sync", "r", "r", "sync the index, or try to open it again", "More"),
    Action("palette", "colon", ": ctrl+p", "command palette, themes", "More", "both"),
    Action("help", "question_mark,f1", "? f1", "this help", "More", "both", footer="help", rank=1),
    Action("quit", "q", "q ctrl+q", "quit", "More", "both", footer="quit", rank=5),
)

BY_ID = {action.id: action for action in ACTIONS}
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(action.group for action in ACTIONS))


def offered(where: Where) -> tuple[Action, ...]:
    """The actions of a place, with those that work on both screens."""
    both = where in ("lab", "providers")
    return tuple(a for a in ACTIONS if a.where == where or (both and a.where == "both"))


def bindings(where: Where) -> list[Binding]:
    """The Textual bindings of a place; their ids let users rebind them.

    A key that two actions share does the later one of the table when that is offered (``g`` opens the lessons
    of the demo, and goes to the first hit otherwise).
    """
    prefix = "" if where == "knobs" else "screen."
    return [
        Binding(
            action.keys,
            prefix + action.id,
            action.help,
            show=False,
            id=action.id,
            # The app itself handles it, before the keys behind it are sent to whatever has the focus: what is
            # typed right after "/" must reach the query line, also over a slow line.
            priority=action.id == "focus_query",
        )
        for action in reversed(offered(where))
    ]


def keys_markdown() -> str:
    """The key table of README, generated: one section a group."""
    parts = []
    for group in GROUPS:
        rows = [f"| {_code(a.shown)} | {a.help} |" for a in ACTIONS if a.group == group and a.shown]
        parts.append("\n".join((f"**{group}**", "", "| Key | Does |", "|---|---|", *rows)))
    return "\n\n".join(parts) + "\n"


def _code(shown: str) -> str:
    return " ".join(f"`{key}`" for key in shown.split())
