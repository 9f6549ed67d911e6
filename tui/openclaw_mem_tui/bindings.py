"""Every action, declared once: bindings, footer, help, palette, messages and docs/keys.md come from here. A
key means the same on every screen: actions of different screens share one only where they are one thing to do
(``r`` reads again, ``v`` is the view of the list, ``enter`` opens, ``space`` switches).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openclaw_mem_tui.actions import SIGNS, Action
from openclaw_mem_tui.features import SCREENS

if TYPE_CHECKING:
    from textual.binding import Binding

#: Where the first clause of a help text ends.
_CLAUSE = re.compile(r"[:,;] | \(")
#: The screens of the table.
TABS = tuple(entry.name for entry in SCREENS)

#: Actions that may share a key on a screen: one of them works at a time (``WorkbenchScreen.check_action``).
IN_TURN = frozenset({"clear_faults", "reset_all"})

_PAGES, _HALVES = "a page down, up", "half a page down, up"
_SEARCH = "search: typing replaces the query"
_LISTS = "providers index chunks timeline curate why_not"
_ALL = f"search {_LISTS}"
_SEVERAL = "providers index timeline curate"
_WHY_NOT = "why the passage is not returned, and what would return it"
_EXPECT = "expect the passage (its rank is shown above the chunks), or stop"
_STEP = "change the selected knob by a small step"
_SWAP = "swap the shown run and its baseline, with their knobs"
_CHUNKS = "open what is selected: the chunks of a file, the repair of a finding, an event in full"
_VERIFY = "read every file again, even unmodified ones, and sync"
_DEEP = "deep check: chunk every file again and compare with the index"
_PRUNE = "remove deleted notes from the index, after showing how many (no file is touched)"
_REPAIR = "repair the index, or what the checks found, after showing the plan"
_OPEN_MOMENT = "open the file of a write; run a search again in the lab; another event in full"
_KINDS = "events shown: all, flushes, missed flushes, problems, writes, searches, index"
_ACCEPT = "write the change after confirmation; propose a rejected one again"
_UNDO_NOTE = "undo the last step: a rejection, or a change of notes after confirmation"
_UNDO_EDIT = "undo the last change that openclaw-mem made to notes, after confirmation"
_FILTER = "filter the list by words; esc clears it"
_MATCHES = "next, previous match (or row, if there is no filter)"
_GROUP_AFTER = "the first chunk that is not returned; the next group of them"
_GROUP_BEFORE, _GROUPS_BOTH = "the group of chunks before", "next, previous group: what is not returned"
_NEXT_LIST = "next, previous list"
_PANE_AFTER = "next pane: chunks, knobs, a text that scrolls (one column: the other text)"
_COMPARE = "compare in the lab: the last query against the baseline"
_OTHER_LINE = "another line of the memory"
_EDIT = "open the note in your editor, at the line"
_PROPOSAL = "open the proposal, or the note, in your editor"
_SUSPEND = "suspend the workbench; fg in the shell resumes it"
_QUIT = "close what is open (a filter, a note, a panel), then quit"
_PANE = "scroll the text or details"

_GROUPS: Mapping[str, tuple[Action, ...]] = {
    "Search": (
        Action("focus_query", "slash", _SEARCH, footer="search", rank=1),
        Action("edit_query", "i", "edit the query"),
        Action("previous_query", "less_than_sign", "previous query in the history"),
        Action("next_query", "greater_than_sign", "next query in the history"),
        Action("history", "ctrl+r,Q", "search the query history", "search", "history", 14),
        Action("mode", "s", "mode: hybrid, BM25 only, vectors only", footer="mode", rank=13),
        Action("backend", "o", "switch the backend (builtin, qmd) and compare", footer="backend", rank=15),
        Action("session", "S", "set the session, for the scope of qmd and for citations"),
        Action("start_anew", "0", "start over: no query, all as configured except the session"),
        Action("cancel", "escape", "cancel the search, close what is open"),
    ),
    "Lists": (
        Action("filter", "f", _FILTER, _ALL, "filter", 8),
        Action("find", "slash", _FILTER, f"{_SEVERAL} chunks knobs", run="filter", back="filter"),
        Action(
            "next_match", "n", "next match (without a filter: next row)", _ALL, run="match(1)", both=_MATCHES
        ),
        Action("previous_match", "N", "previous match, or row", _ALL, run="match(-1)", back="next_match"),
        Action("down", "j,down", "down the list", "lists", run="go(1)", both="move"),
        Action("up", "k,up", "up the list", "lists", run="go(-1)", back="down"),
        Action("first", "g,home", "the first row", "lists", label="gg home", run="go(-1_000_000)"),
        Action("last", "G,shift+g,end", "the last row", "lists", label="G end", run="go(1_000_000)"),
        Action("page_down", "pagedown,ctrl+f", "a page down", "lists", run="turn(1)", both=_PAGES),
        Action("page_up", "pageup,ctrl+b", "a page up", "lists", run="turn(-1)", back="page_down"),
        Action("half_down", "ctrl+d", "half a page down", "lists", run="turn(0.5)", both=_HALVES),
        Action("half_up", "ctrl+u", "half a page up", "lists", run="turn(-0.5)", back="half_down"),
        Action(
            "next_list", "tab", "next list", _SEVERAL, "next list", 4, run="next_list(1)", both=_NEXT_LIST
        ),
        Action(
            "previous_list", "shift+tab", "previous list", _SEVERAL, run="next_list(-1)", back="next_list"
        ),
        Action("next_pane", "tab", _PANE_AFTER, run="next_pane(1)", both="next, previous pane"),
        Action("previous_pane", "shift+tab", "previous pane", run="next_pane(-1)", back="next_pane"),
        Action("scroll_down", "J", f"{_PANE} down", _ALL, "scroll", 13, run="scroll_pane(3)", both=_PANE),
        Action("scroll_up", "K", f"{_PANE} up", _ALL, run="scroll_pane(-3)", back="scroll_down"),
        Action("leave", "escape", "stop the running task, or go back", _LISTS, "back", 2),
    ),
    "Chunks": (
        Action("columns", "v", "columns: scores, ranks, contributions"),
        Action("dropped", "d", "show or hide what is not returned"),
        Action("next_group", "right_curly_bracket", _GROUP_AFTER, run="group(1)", both=_GROUPS_BOTH),
        Action("previous_group", "left_curly_bracket", _GROUP_BEFORE, run="group(-1)", back="next_group"),
        Action("baseline", "b", "pin this run as the baseline", footer="baseline", rank=9),
        Action("swap", "space", _SWAP, footer="swap", rank=4),
        Action("clear_baseline", "B", "back to the configured baseline"),
    ),
    "Why not": (
        Action("why_not", "w", _WHY_NOT, footer="why not", rank=3),
        Action("why_not_any", "W", "why any line of the memory is not returned: find it by path or text"),
        Action("expect", "full_stop", _EXPECT, "search why_not", "expect", 11),
        Action("expected", "comma", "stop expecting a passage: choose which"),
        Action("apply_change", "enter", "try the selected change in the lab", "why_not", "try", 1),
        Action("export_change", "x", "export the selected change as configuration", "why_not", "export", 2),
        Action("pick_passage", "W", _OTHER_LINE, "why_not", "other line", 4, twin="why_not_any"),
        Action("new_query", "slash", _SEARCH, "why_not", twin="focus_query"),
        Action("close_why_not", "w", "back to the chunks", "why_not", run="leave", twin="why_not"),
    ),
    "Note": (
        Action("get", "enter", "the lines around the chunk (memory_get)", footer="note", rank=3),
        Action("render", "m", "render the Markdown of the chunk", footer="render", rank=12),
        Action("edit", "e", _EDIT, "search index chunks timeline why_not", "edit", 9),
        Action("copy_location", "y", "copy path:line", "search why_not chunks"),
        Action("copy_snippet", "Y", "copy the snippet as the agent receives it"),
        Action("citations", "t", "citations: auto, on, off"),
    ),
    "Knobs": (
        Action("knobs", "p", "open the knob panel, go to it, or close it", footer="knobs", rank=2),
        Action(
            "undo_knob",
            "z",
            "undo the last step: a changed knob or fault, a cleared baseline, or starting over",
            "search providers",
        ),
        Action("redo_knob", "Z", "redo it", "search providers"),
        Action("less", "left,h", "a small step down", "knobs", "step", 1, label="← →", both=_STEP),
        Action("more", "right,l", "a small step up", "knobs", label=""),
        Action(
            "much_less",
            "shift+left,H",
            "a large step down",
            "knobs",
            "large step",
            8,
            label="shift+← shift+→",
            both="change it by a large step (also H and L)",
        ),
        Action("much_more", "shift+right,L", "a large step up", "knobs", label=""),
        Action("reset_knob", "u,backspace", "reset the selected knob", "knobs", "reset", 5, label="u"),
        Action("reset_all", "U", "reset all knobs (not while a fault is simulated)"),
        Action("apply_knobs", "A", "write the knobs to config.toml after showing the diff, or undo that"),
    ),
    "Providers": (
        Action("toggle_fault", "space", "switch a simulated fault on or off", "providers", "on/off", 1),
        Action("compare", "enter", _COMPARE, "providers", "compare", 3),
        Action("probe", "r", "probe the selected provider now", "providers", "probe", 5),
    ),
    "Index": (
        Action("chunks", "enter", _CHUNKS, "index", "chunks", 1),
        Action("sync_now", "r", "sync now", "index", "sync", 3, run="sync_index", twin="sync"),
        Action("rebuild", "R", "rebuild the index, after showing the plan", "index", "rebuild", 6),
        Action("repair", "F", _REPAIR, "everywhere", "repair", 2, run="app.repair"),
        Action("examine", "c", "run checks", "index", "check", 5),
        Action("examine_deep", "C", _DEEP, "index", "deep check", 14, run="examine(True)"),
        Action("verify", "V", _VERIFY, "index", "verify", 11, run="sync_index(True)"),
        Action("prune", "P", _PRUNE, "index", "remove deleted", 7),
        Action("order", "v", "sort files by state, path, size, chunks, time", "index"),
        Action("close_chunks", "enter", "back to the list", "chunks", run="leave", twin="chunks"),
    ),
    "Timeline": (
        Action("open_moment", "enter", _OPEN_MOMENT, "timeline", "open", 1),
        Action("kinds", "v", _KINDS, "timeline"),
        Action("zoom", "plus", "zoom of the curve: session, day, hour", "timeline"),
        Action("this_session", "S", "show only this session, or all", "timeline"),
        Action("read_timeline", "r", "read transcripts and log again", "timeline", "reload", 10),
    ),
    "Curate": (
        Action("open_note", "enter", "show the chunks of the note", "curate", "open", 7),
        Action("accept", "a", _ACCEPT, "curate", "accept", 1),
        Action("reject", "X", "reject: do not propose it again", "curate", "reject", 2),
        Action("edit_proposal", "e", _PROPOSAL, "curate", "edit", 9, run="edit", twin="edit"),
        Action("undo_note", "z", _UNDO_NOTE, "curate", "undo", 4),
        Action("undo_edit", "D", _UNDO_EDIT, "everywhere", run="app.undo_edit"),
        Action("which", "v", "proposals shown: all, one kind, the rejected ones", "curate"),
        Action("measure", "E", "measure the effect on answers again", "curate", "effect", 11),
        Action("read_notes", "r", "read notes and searches again", "curate", "reload", 10),
    ),
    "Screens": (*(Action(f"show_{name}", key, help, "everywhere", tab) for name, key, help, tab in SCREENS),),
    "More": (
        Action("guide", "T", "the demo lessons", footer="lessons", rank=5),
        Action(
            "next_lesson", "right_square_bracket", "next lesson of the demo", footer="next lesson", rank=6
        ),
        Action("previous_lesson", "left_square_bracket", "previous lesson of the demo"),
        Action("export", "x", "export: JSON, Markdown, SVG, configuration", footer="export", rank=11),
        Action("sync", "r", "sync the index, or try to open it again"),
        Action("clear_faults", "U", "switch off all simulated faults", "everywhere"),
        Action("remember", "M", "save a fact in MEMORY.md or an event in the daily log", "everywhere"),
        Action("messages", "exclamation_mark", "show in full what is cut", "everywhere", "details", 2),
        Action("palette", "colon,ctrl+p", "command palette, themes", "everywhere", run="app.command_palette"),
        Action("help", "question_mark,f1", "help", "everywhere", footer="help", rank=1),
        Action("suspend", "ctrl+z", _SUSPEND, "everywhere", run="app.suspend_process"),
        Action("quit", "q", _QUIT, " ".join(TABS), footer="quit", rank=5),
        Action("leave_view", "q", "back", "chunks why_not", run="leave", twin="quit"),
        Action("quit_now", "ctrl+q", "quit at once", "everywhere", run="app.quit"),
    ),
}
# A key bar asks hundreds of times how they are shown.
ACTIONS = tuple(a._replace(group=name, label=a.shown) for name, group in _GROUPS.items() for a in group)
GROUPS = tuple(_GROUPS)
#: The actions as they are declared, and as the user's keys have them.
DECLARED: Mapping[str, Action] = {action.id: action for action in ACTIONS}
_by_id = dict(DECLARED)
_typing, _where = False, ""


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
def typing(letters: bool, where: str = "") -> Iterator[None]:
    """What is drawn meanwhile is on a screen (``where``) on which ``letters`` go to a line and are no keys
    (``reach``)."""
    global _typing, _where
    before, (_typing, _where) = (_typing, _where), (letters, where)
    try:
        yield
    finally:
        _typing, _where = before


def reach(name: str, screen: str = "") -> str:
    """The keys of an action as messages name them: the one that does it on this screen, else that of another
    ``screen`` with the key that shows it; from a line that is typed in, those to press in turn."""
    does = _by_id[name]
    here = next((a for a in (does, _by_id.get(does.twin)) if a is not None and a.works_in(_where)), None)
    way = [key(f"show_{screen}")] if screen and here is None else []
    pressed = (here or does).key
    if _typing:
        return " then ".join(("esc", *way, pressed))
    return " on screen ".join((pressed, *way))


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


def unused(pressed: str, here: Set[str], acts: Callable[[str], bool | None], below: str = "") -> str:
    """That a key does nothing on a screen with the parts ``here``, or works in one place only, and what it
    does on another screen: on the one ``below``, to which esc leads back, if it does anything there. "" when
    it ``acts`` here, or is neither printed nor a key of ours. ``pressed`` is its name. One line holds it."""
    from textual.keys import key_to_character

    character = SIGNS.get(pressed) or key_to_character(pressed) or ""
    sign = (character.strip() if character.isprintable() else "") or pressed
    found = [a for a in actions() if pressed in a.keys.split(",")]
    works = any((a.where == "everywhere" or here & a.parts) and acts(a.id) for a in found)
    if works or not (found or len(sign) == 1):
        return ""
    places = {entry.name: f"on {entry.key} {entry.tab}" for entry in SCREENS}
    places["knobs"] = f"in the knob panel ({key('knobs')} on {SCREENS[0].key} {SCREENS[0].tab})"
    others = [(name, a) for a in found for name in places if name in a.parts - here]
    others.sort(key=lambda other: other[0] != below)
    elsewhere = (f"{places[name]}: {_CLAUSE.split(a.help)[0]}" for name, a in others)
    if len({part for a in found for part in a.parts}) == 1 and others:
        return f"{sign} works only {next(elsewhere)}"
    return f"{sign} does nothing here; " + next(elsewhere, f"{key('help')} lists the keys")


def bindings(where: str) -> list[Binding]:
    """The Textual bindings of a screen or a part of one, as they are declared; their ids let users rebind
    them (``user_keys``)."""
    from textual.binding import Binding

    return [
        Binding(
            a.keys,
            a.command,
            a.help,
            show=False,
            id=a.id,
        )
        for a in DECLARED.values()
        if a.works_in(where)
    ]


def use(made: Mapping[str, Action]) -> None:
    """These are the actions with the user's keys from now on."""
    _by_id.clear()
    _by_id.update(made)
