"""Every action, declared once: bindings, footer, help, palette, messages and docs/keys.md come from here. A
key means the same on every screen: actions of different screens share one only where they are one thing to do
(``r`` reads again, ``v`` is the view of the list, ``enter`` opens, ``space`` switches).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_tui.features import SCREENS

if TYPE_CHECKING:
    from textual.binding import Binding

#: Parts of screens with keys of their own: every other word of ``Action.where`` is a screen.
PARTS = frozenset({"query", "knobs", "lists"})

#: Where the first clause of a help text ends.
_CLAUSE = re.compile(r"[:,;] | \(")
#: The screens of the table.
TABS = tuple(entry.name for entry in SCREENS)

#: Actions that may share a key on a screen: one of them works at a time (``WorkbenchScreen.check_action``).
IN_TURN = frozenset({"clear_faults", "reset_all"})

#: Actions that open a line in which is typed.
TYPED = frozenset({"focus_query", "edit_query", "filter", "find"})


class Action(NamedTuple):
    """``keys`` as Textual names them, comma separated; ``shown`` is how they are displayed. ``where`` names
    the screens on which they work ("search": outside of its query line), parts of a screen (the knob panel,
    the list with the focus), or "everywhere". ``footer`` is the short text of the bottom line and ``rank``
    its importance there (0: not shown; small numbers stay longest)."""

    id: str
    keys: str
    shown: str
    help: str
    group: str
    where: str = "search"
    footer: str = ""
    rank: int = 0

    @property
    def command(self) -> str:
        """The Textual action that a key or a click runs."""
        if self.group == "Screens":
            return f"app.show('{self.id.removeprefix('show_')}')"
        run = _COMMANDS.get(self.id, self.id)
        return run if self.where in PARTS or run.startswith("app.") else f"screen.{run}"

    @property
    def parts(self) -> frozenset[str]:
        """The words of ``where``."""
        return frozenset(self.where.split())

    def works_in(self, where: str) -> bool:
        """On this screen, as those do that work on every one, or in this part of a screen."""
        return where in self.parts or (where not in PARTS and self.where == "everywhere")

    @property
    def key(self) -> str:
        """The first of its keys, as it is displayed."""
        return self.shown.split()[0]


#: Actions that differ by an argument only, or share a method with another.
_COMMANDS = {
    "down": "go(1)",
    "up": "go(-1)",
    "first": "go(-1_000_000)",
    "last": "go(1_000_000)",
    "page_down": "turn(1)",
    "page_up": "turn(-1)",
    "half_down": "turn(0.5)",
    "half_up": "turn(-0.5)",
    "next_match": "match(1)",
    "previous_match": "match(-1)",
    "find": "filter",
    "close_chunks": "leave",
    "close_why_not": "leave",
    "leave_view": "leave",
    "scroll_down": "scroll_pane(3)",
    "scroll_up": "scroll_pane(-3)",
    "next_list": "next_list(1)",
    "previous_list": "next_list(-1)",
    "verify": "sync_index(True)",
    "sync_now": "sync_index",
    "examine_deep": "examine(True)",
    "palette": "app.command_palette",
    "suspend": "app.suspend_process",
}
_SEARCH = "search: what is typed replaces the query"
_FILTERED = "providers index chunks timeline curate why_not"
_LEFT = "providers index chunks timeline curate why_not"
_SEVERAL = "providers index timeline curate"
_BACKEND = "switch the backend (builtin, qmd) and compare"
_WHY_NOT = "why the passage is not returned, and what would change that"
_EXPECT = "expect the passage (its rank is shown above the hits), or stop"
_APPLY = "write the knobs to config.toml after showing the diff, or undo that"
_ANEW = "start over: no query, knobs and baseline as configured"
_UNDO_STEP = "undo the last step of a knob or a fault"
_EXPORT_CHANGE = "export the selected change as configuration"
_MUCH = "change it by a large step (also H and L)"
_SWAP = "swap the shown run and its baseline, with their knobs"
_NEXT_LESSON = "next lesson of the demo"
_MESSAGES = "show in full what is shortened"
_TOGGLE = "switch a simulated fault on or off"
_CHUNKS = "open the chunks of a file, the repair or the file of a finding, an event in full"
_REBUILD = "rebuild the index, after showing the plan"
_VERIFY = "read every file again, even unmodified ones, and sync"
_DEEP = "deep check: chunk every file again and compare with the index"
_PRUNE = "remove deleted notes from the index, after showing how many (no file is touched)"
_REPAIR = "repair the findings, after showing the plan"
_OPEN_MOMENT = "open the file of a write; run a search again in the lab; another event in full"
_KINDS = "events shown: all, flushes, missed flushes, problems, writes, searches, index"
_ZOOM = "zoom of the curve: session, day, hour"
_ACCEPT = "write the change after confirmation; propose a rejected one again"
_UNDO_NOTE = "undo the last step: a rejection, or a change of notes after confirmation"
_WHICH = "proposals shown: all, one kind, the rejected ones"
_REMEMBER = "remember… a fact in MEMORY.md, an event in the daily log"
_FILTER = "filter the list by words; esc clears it"
_EDIT = "open the note in your editor, at the line (curate: the proposal)"
_SUSPEND = "suspend the workbench; fg in the shell resumes it"
_QUIT = "close what is open (a filter, a note, a panel), then quit"
_PANE = "scroll the text or details"

ACTIONS: tuple[Action, ...] = (
    Action("focus_query", "slash", "/", _SEARCH, "Search", footer="search", rank=1),
    Action("edit_query", "i", "i", "edit the query", "Search"),
    Action("previous_query", "less_than_sign", "<", "previous query of the history", "Search"),
    Action("next_query", "greater_than_sign", ">", "next query of the history", "Search"),
    Action("history", "ctrl+r,Q", "ctrl+r Q", "search the query history", "Search", "search", "history", 14),
    Action("mode", "s", "s", "mode: hybrid, BM25 only, vectors only", "Search", footer="mode", rank=13),
    Action("backend", "o", "o", _BACKEND, "Search", footer="backend", rank=15),
    Action("session", "S", "S", "set the session, for the scope of qmd and for citations", "Search"),
    Action("start_anew", "0", "0", _ANEW, "Search"),
    Action("cancel", "escape", "esc", "cancel the search, close what is open", "Search"),
    Action("filter", "f", "f", _FILTER, "Lists", f"search {_FILTERED}", "filter", 8),
    Action("find", "slash", "/", _FILTER, "Lists", _FILTERED),
    Action("next_match", "n", "n", "next match of a filter, or next row", "Lists", f"search {_FILTERED}"),
    Action("previous_match", "N", "N", "previous match, or row", "Lists", f"search {_FILTERED}"),
    Action("down", "j,down", "j ↓", "down the list", "Lists", "lists"),
    Action("up", "k,up", "k ↑", "up the list", "Lists", "lists"),
    Action("first", "g,home", "gg home", "the first row", "Lists", "lists"),
    Action("last", "G,shift+g,end", "G end", "the last row", "Lists", "lists"),
    Action("page_down", "pagedown,ctrl+f", "pagedown ctrl+f", "a page down", "Lists", "lists"),
    Action("page_up", "pageup,ctrl+b", "pageup ctrl+b", "a page up", "Lists", "lists"),
    Action("half_down", "ctrl+d", "ctrl+d", "half a page down", "Lists", "lists"),
    Action("half_up", "ctrl+u", "ctrl+u", "half a page up", "Lists", "lists"),
    Action("next_list", "tab", "tab", "next list", "Lists", _SEVERAL, "next list", 4),
    Action("previous_list", "shift+tab", "shift+tab", "previous list", "Lists", _SEVERAL),
    Action("next_pane", "tab", "tab", "next pane (narrow), next focus (wide)", "Lists"),
    Action("scroll_down", "J", "J", f"{_PANE} down", "Lists", f"search {_LEFT}", "scroll", 13),
    Action("scroll_up", "K", "K", f"{_PANE} up", "Lists", f"search {_LEFT}"),
    Action("leave", "escape", "esc", "stop the running task, or go back", "Lists", _LEFT, "back", 2),
    Action("columns", "v", "v", "columns: scores, ranks, contributions", "Hits", footer="columns", rank=7),
    Action("dropped", "d", "d", "show or hide what is not returned", "Hits", footer="hide", rank=10),
    Action("baseline", "b", "b", "pin this run as the baseline", "Hits", footer="baseline", rank=9),
    Action("swap", "space", "space", _SWAP, "Hits", footer="swap", rank=4),
    Action("clear_baseline", "B", "B", "back to the configured baseline", "Hits"),
    Action("why_not", "w", "w", _WHY_NOT, "Why not", footer="why not", rank=3),
    Action(
        "why_not_any",
        "W",
        "W",
        "why any line of the memory is not returned: find it by path or text",
        "Why not",
    ),
    Action("expect", "full_stop", ".", _EXPECT, "Why not", "search why_not", "expect", 11),
    Action("expected", "comma", ",", "choose one of the expected passages, and stop expecting it", "Why not"),
    Action("apply_change", "enter", "enter", "apply the selected change", "Why not", "why_not", "apply", 1),
    Action("export_change", "x", "x", _EXPORT_CHANGE, "Why not", "why_not", "export", 2),
    Action("pick_passage", "W", "W", "another line of the memory", "Why not", "why_not", "other line", 4),
    Action("close_why_not", "w", "w", "back to the hits", "Why not", "why_not"),
    Action("get", "enter", "enter", "the lines around the chunk (memory_get)", "Note", footer="note", rank=3),
    Action("render", "m", "m", "render the Markdown of the chunk", "Note", footer="render", rank=12),
    Action("edit", "e", "e", _EDIT, "Note", "search index chunks timeline curate why_not", "edit", 9),
    Action("copy_location", "y", "y", "copy path:line", "Note", "search why_not chunks"),
    Action("copy_snippet", "Y", "Y", "copy the snippet as the agent receives it", "Note"),
    Action("citations", "t", "t", "citations: auto, on, off", "Note"),
    Action("knobs", "p", "p", "open the knob panel, go to it, or close it", "Knobs", footer="knobs", rank=2),
    Action("undo_knob", "z", "z", _UNDO_STEP, "Knobs", "search providers"),
    Action("redo_knob", "Z", "Z", "redo the step", "Knobs", "search providers"),
    Action("less", "left,h", "← →", "change the selected knob by a small step", "Knobs", "knobs", "step", 1),
    Action("more", "right,l", "", "a small step up", "Knobs", "knobs"),
    Action("much_less", "shift+left,H", "shift ← →", _MUCH, "Knobs", "knobs", "large", 8),
    Action("much_more", "shift+right,L", "", "a large step up", "Knobs", "knobs"),
    Action("reset_knob", "u,backspace", "u", "reset the selected knob", "Knobs", "knobs", "reset", 5),
    Action("reset_all", "U", "U", "reset all knobs, when no fault is simulated", "Knobs"),
    Action("apply_knobs", "A", "A", _APPLY, "Knobs"),
    Action("toggle_fault", "space", "space", _TOGGLE, "Providers", "providers", "on/off", 1),
    Action(
        "compare",
        "enter",
        "enter",
        "compare in the lab: the last query against the baseline",
        "Providers",
        "providers",
        "compare",
        3,
    ),
    Action("probe", "r", "r", "probe the selected provider now", "Providers", "providers", "probe", 5),
    Action("chunks", "enter", "enter", _CHUNKS, "Index", "index", "chunks", 1),
    Action("sync_now", "r", "r", "sync now", "Index", "index", "sync", 3),
    Action("rebuild", "R", "R", _REBUILD, "Index", "index", "rebuild", 6),
    Action("repair", "F", "F", _REPAIR, "Index", "index", "repair", 2),
    Action("examine", "c", "c", "run checks", "Index", "index", "check", 5),
    Action("examine_deep", "C", "C", _DEEP, "Index", "index", "deep check", 14),
    Action("verify", "V", "V", _VERIFY, "Index", "index", "verify", 11),
    Action("prune", "P", "P", _PRUNE, "Index", "index", "drop gone", 7),
    Action("order", "v", "v", "sort files by state, path, size, chunks, time", "Index", "index"),
    Action("close_chunks", "enter", "enter", "back to the list", "Index", "chunks"),
    Action("open_moment", "enter", "enter", _OPEN_MOMENT, "Timeline", "timeline", "open", 1),
    Action("kinds", "v", "v", _KINDS, "Timeline", "timeline"),
    Action("zoom", "plus", "+", _ZOOM, "Timeline", "timeline"),
    Action("this_session", "S", "S", "show only this session, or all", "Timeline", "timeline"),
    Action("read_timeline", "r", "r", "read transcripts and log again", "Timeline", "timeline", "reload", 10),
    Action("open_note", "enter", "enter", "show the chunks of the note", "Curate", "curate", "note", 7),
    Action("accept", "a", "a", _ACCEPT, "Curate", "curate", "accept", 1),
    Action("reject", "X", "X", "reject: do not propose it again", "Curate", "curate", "reject", 2),
    Action("undo_note", "z", "z", _UNDO_NOTE, "Curate", "curate", "undo", 4),
    Action("which", "v", "v", _WHICH, "Curate", "curate"),
    Action("measure", "E", "E", "measure the effect on answers again", "Curate", "curate", "effect", 11),
    Action("read_notes", "r", "r", "read notes and searches again", "Curate", "curate", "reload", 10),
    *(
        Action(f"show_{name}", key, key, help, "Screens", "everywhere", tab)
        for name, key, help, tab in SCREENS
    ),
    Action("guide", "T", "T", "the demo lessons", "More", footer="lessons", rank=5),
    Action("next_lesson", "right_square_bracket", "]", _NEXT_LESSON, "More", footer="next lesson", rank=6),
    Action("previous_lesson", "left_square_bracket", "[", "previous lesson of the demo", "More"),
    Action("export", "x", "x", "export JSON, Markdown, SVG, configuration", "More", footer="export", rank=11),
    Action("sync", "r", "r", "sync the index, or try to open it again", "More"),
    Action("clear_faults", "U", "U", "reset all simulated faults to off", "More", "everywhere"),
    Action("remember", "M", "M", _REMEMBER, "More", "everywhere"),
    Action("messages", "exclamation_mark", "!", _MESSAGES, "More", "everywhere", "details", 2),
    Action("palette", "colon,ctrl+p", ": ctrl+p", "command palette, themes", "More", "everywhere"),
    Action("help", "question_mark,f1", "? f1", "help", "More", "everywhere", footer="help", rank=1),
    Action("suspend", "ctrl+z", "ctrl+z", _SUSPEND, "More", "everywhere"),
    Action("quit", "q", "q ctrl+q", _QUIT, "More", " ".join(TABS), footer="quit", rank=5),
    Action("leave_view", "q", "q", "back; ctrl+q quits", "More", "chunks why_not"),
)

GROUPS: tuple[str, ...] = tuple(dict.fromkeys(action.group for action in ACTIONS))
#: The actions as they are declared, and as the user's keys have them.
DECLARED: Mapping[str, Action] = {action.id: action for action in ACTIONS}
_by_id = dict(DECLARED)
_typing = False
#: Actions that the palette does not offer: they are there under another name, or only move within a screen.
NOT_IN_PALETTE = frozenset({"palette", "cancel", "leave", "find"}) | {
    name for name in _COMMANDS if name not in ("verify", "sync_now", "examine_deep", "suspend")
}


def actions() -> tuple[Action, ...]:
    """Every action, with the user's keys."""
    return tuple(_by_id.values())


def action(name: str) -> Action:
    """An action by its id, with the user's keys."""
    return _by_id[name]


def key(name: str) -> str:
    """The first key of an action as it is displayed: what messages name."""
    return _by_id[name].key


@contextmanager
def typing(letters: bool) -> Iterator[None]:
    """What is drawn meanwhile is on a screen where ``letters`` go to a line and are no keys (``reach``)."""
    global _typing
    before, _typing = _typing, letters
    try:
        yield
    finally:
        _typing = before


def reach(name: str, screen: str = "") -> str:
    """The keys of an action as messages name them, of another ``screen`` with the key of that; from a line
    that is typed in, those to press one after the other."""
    way = [key(f"show_{screen}")] if screen else []
    if _typing:
        return " ".join(("esc", *way, key(name)))
    return " on screen ".join((key(name), *way))


def typed_key(name: str) -> str:
    """The key of an action that is no letter in a line that is typed in; empty when it has none."""
    return next((key for key in _by_id[name].shown.split() if len(key) > 1), "")


def offered(where: str) -> tuple[Action, ...]:
    """The actions of a screen with those that work on every screen, or those of a part of a screen."""
    return tuple(a for a in actions() if a.works_in(where))


def listed(where: str) -> tuple[Action, ...]:
    """What the help of a screen lists: also the keys of its lists, and those of the knobs in the lab."""
    here = {where, "everywhere", "lists", *(["knobs"] if where == "search" else [])}
    return tuple(a for a in actions() if a.shown and here & a.parts)


def unused(pressed: str, sign: str, here: Set[str], acts: Callable[[str], bool | None]) -> str:
    """That a key does nothing on a screen with the parts ``here``, and what it does on another one; "" when
    it ``acts`` here, or is neither printed nor a key of ours. ``pressed`` is its name, ``sign`` how it is
    displayed. One line holds it."""
    found = [a for a in actions() if pressed in a.keys.split(",")]
    works = any((a.where == "everywhere" or here & a.parts) and acts(a.id) for a in found)
    if works or not (found or len(sign) == 1):
        return ""
    places = {entry.name: f"on {entry.key} {entry.tab}" for entry in SCREENS}
    places["knobs"] = f"in the knob panel ({key('knobs')} on {SCREENS[0].key} {SCREENS[0].tab})"
    others = ((place, a) for a in found for name, place in places.items() if name in a.parts - here)
    elsewhere = (f"{place}: {_CLAUSE.split(a.help)[0]}" for place, a in others)
    return f"{sign} does nothing here; " + next(elsewhere, f"{key('help')} lists the keys")


def bindings(where: str) -> list[Binding]:
    """The Textual bindings of a screen or a part of one, as they are declared; their ids let users rebind
    them (``user_keys``)."""
    from textual.binding import Binding

    return [
        Binding(
            a.keys,
            a.command.replace("app.show(", "app.show_by_key("),
            a.help,
            show=False,
            id=a.id,
            # The app itself handles it, before the keys behind it are sent to the focused widget: what is
            # typed right behind it must reach the line or screen that it opens, also over a slow line.
            priority=a.id in TYPED or a.group == "Screens",
        )
        for a in DECLARED.values()
        if a.works_in(where)
    ]


def use(made: Mapping[str, Action]) -> None:
    """These are the actions with the user's keys from now on."""
    _by_id.clear()
    _by_id.update(made)
