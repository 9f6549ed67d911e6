"""Every action, declared once: bindings, footer, help, palette and docs/keys.md come from here."""

from __future__ import annotations

from typing import NamedTuple

from textual.binding import Binding

from openclaw_mem_tui.features import SCREENS

#: Parts of the search lab with keys of their own: every other value of ``Action.where`` is a screen.
_PARTS = frozenset({"query", "knobs"})


class Action(NamedTuple):
    """``keys`` as Textual names them, comma separated; ``shown`` is how they are displayed. ``where`` is the
    screen on which they work ("search": outside of its query line), a part of the search lab, or
    "everywhere". ``footer`` is the short text of the bottom line and ``rank`` its importance there (0: not
    shown; small numbers stay longest)."""

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
        return self.id if self.where == "knobs" else f"screen.{_SHARED.get(self.id, self.id)}"


#: Actions that several screens share, or that differ by an argument; every key has an id of its own, by which
#: users rebind it.
_SHARED = {
    **dict.fromkeys(("pane_down", "detail_down", "text_down", "walk_down", "moment_down"), "scroll_pane(3)"),
    **dict.fromkeys(("pane_up", "detail_up", "text_up", "walk_up", "moment_up"), "scroll_pane(-3)"),
    "verify": "sync_index(True)",
    "examine_deep": "examine(True)",
    "next_of_index": "next_list(1)",
    "previous_of_index": "next_list(-1)",
    "next_of_timeline": "next_list(1)",
    "previous_of_timeline": "next_list(-1)",
    "leave_timeline": "leave",
    "diff_down": "scroll_pane(3)",
    "diff_up": "scroll_pane(-3)",
    "next_of_curate": "next_list(1)",
    "previous_of_curate": "next_list(-1)",
    "leave_curate": "leave",
    "leave_chunks": "leave",
    "leave_why_not": "leave",
}
_BACKEND = "the other backend, builtin or qmd, compared with this one"
_WHY_NOT = "why not this passage? what would bring it in"
_EXPECT = "expect this passage, or no longer: its rank stands above the hits"
_APPLY = "write the knobs into config.toml after showing that, or take it back"
_ANEW = "start anew: no query, knobs and baseline as configured"
_EXPORT_CHANGE = "write the selected change as configuration"
_MUCH = "a large step (H and L too)"
_NEXT_LESSON = "next lesson of the demo"
_EDIT_CHUNK = "open the file in your editor, at the chunk"
_MESSAGES = "every message of this screen in full"
_TOGGLE = "simulate a fault, or stop"
_NEXT_LIST = "from the chain to the faults and back"
_REBUILD = "build a new index, after showing what that takes"
_VERIFY = "read every file again, whatever its date says, and sync"
_DEEP = "deep check: cut every file again and compare with the index"
_PRUNE = "forget the notes of an emptied workspace, after showing how many"
_REPAIR = "repair what the doctor can, after showing what that is"
_NEXT_OF_INDEX = "next list: files, doctor, events"
_OPEN_MOMENT = "the file of a write, a search again in the lab"
_KINDS = "which events: all, flushes, missed flushes, writes, searches, index"
_ZOOM = "the curve of the session, the day, or the hour"
_NEXT_OF_TIMELINE = "next list: events, sessions, files by day"
_ACCEPT = "write the shown change, after asking; a rejected candidate is proposed again"
_EDIT_PROPOSAL = "edit the proposal, or the selected file, in your editor"
_WHICH = "which candidates: all, one kind, the rejected ones"
_REMEMBER = "remember… a fact in MEMORY.md, an event in the log of the day"

ACTIONS: tuple[Action, ...] = (
    Action("focus_query", "slash,i", "/ i", "edit the query", "Search", footer="search", rank=1),
    Action("previous_query", "n", "n", "previous query of the history", "Search", footer="history", rank=14),
    Action("next_query", "N", "N", "next query of the history", "Search"),
    Action("history", "ctrl+r,R", "ctrl+r R", "find a query of the history", "Search"),
    Action("mode", "s", "s", "mode: hybrid, BM25 only, vectors only", "Search", footer="mode", rank=13),
    Action("backend", "o", "o", _BACKEND, "Search", footer="backend", rank=12),
    Action("session", "S", "S", "the session that asks: scope of qmd, citations", "Search"),
    Action("start_anew", "0", "0", _ANEW, "Search"),
    Action("cancel", "escape", "esc", "cancel the search, close what is open", "Search"),
    Action("down", "j,down", "j ↓", "next hit", "Hits"),
    Action("up", "k,up", "k ↑", "previous hit", "Hits"),
    Action("first", "home,g", "home", "first hit", "Hits"),
    Action("last", "G,shift+g,end", "G", "last hit", "Hits"),
    Action("page_down", "ctrl+d,pagedown", "ctrl+d", "half a page down", "Hits"),
    Action("page_up", "ctrl+u,pageup", "ctrl+u", "half a page up", "Hits"),
    Action("columns", "v", "v", "columns: scores, ranks, contributions", "Hits", footer="columns", rank=7),
    Action("dropped", "d", "d", "show or hide what was not returned", "Hits", footer="dropped", rank=10),
    Action("baseline", "b", "b", "pin this run as the baseline", "Hits", footer="baseline", rank=9),
    Action("clear_baseline", "B", "B", "back to the configured baseline", "Hits"),
    Action("why_not", "w", "w", _WHY_NOT, "Why not", footer="why not", rank=3),
    Action("why_not_any", "W", "W", "the same for any line of the memory, found by path or text", "Why not"),
    Action("expect", "full_stop", ".", _EXPECT, "Why not", footer="expect", rank=11),
    Action("apply_change", "enter", "enter", "set the selected change", "Why not", "why_not", "apply", 1),
    Action("export_change", "x", "x", _EXPORT_CHANGE, "Why not", "why_not", "export", 2),
    Action("pick_passage", "slash", "/", "another line of the memory", "Why not", "why_not", "other line", 4),
    Action("expect_asked", "full_stop", ".", _EXPECT, "Why not", "why_not", "expect", 6),
    Action("edit_passage", "e", "e", "open the note at the line", "Why not", "why_not", "edit", 7),
    Action("walk_down", "J", "J", "scroll the walk down", "Why not", "why_not"),
    Action("walk_up", "K", "K", "scroll the walk up", "Why not", "why_not"),
    Action("leave_why_not", "escape,w", "esc", "back to the search lab", "Why not", "why_not", "back", 3),
    Action("get", "enter", "enter", "the lines around the chunk (memory_get)", "Note", footer="note", rank=3),
    Action("render", "m", "m", "render the Markdown of the chunk", "Note", footer="render", rank=12),
    Action("edit", "e", "e", "open the note in your editor, at the line", "Note", footer="edit", rank=9),
    Action("copy_location", "y", "y", "copy path:line", "Note"),
    Action("copy_snippet", "Y", "Y", "copy the snippet as the agent receives it", "Note"),
    Action("citations", "t", "t", "citations: auto, on, off", "Note"),
    Action("scroll_down", "J", "J", "scroll the lower pane down", "Note"),
    Action("scroll_up", "K", "K", "scroll the lower pane up", "Note"),
    Action("next_pane", "tab", "tab", "next pane (narrow), next focus (wide)", "Note"),
    Action("knobs", "p", "p", "open or close the knob panel", "Knobs", footer="knobs", rank=2),
    Action("less", "left,h", "← →", "a small step", "Knobs", "knobs", footer="step", rank=1),
    Action("more", "right,l", "", "a small step up", "Knobs", "knobs"),
    Action("much_less", "shift+left,H", "shift ← →", _MUCH, "Knobs", "knobs", "large", 2),
    Action("much_more", "shift+right,L", "", "a large step up", "Knobs", "knobs"),
    Action("reset_knob", "u,backspace", "u", "the selected knob as configured", "Knobs", "knobs", "reset", 3),
    Action("reset_all", "U", "U", "all knobs as configured", "Knobs"),
    Action("apply_knobs", "A", "A", _APPLY, "Knobs"),
    Action("toggle_fault", "space", "space", _TOGGLE, "Providers", "providers", "fault", 1),
    Action("clear_faults", "u", "u", "stop all simulated faults", "Providers", "providers", "clear", 4),
    Action("compare", "enter", "enter", "the last query in the lab", "Providers", "providers", "compare", 3),
    Action("probe", "r", "r", "probe the selected provider now", "Providers", "providers", "probe", 5),
    Action("next_list", "tab,shift+tab", "tab", _NEXT_LIST, "Providers", "providers", "chain, faults", 2),
    Action("pane_down", "J", "J", "scroll the pane below the list down", "Providers", "providers"),
    Action("pane_up", "K", "K", "scroll the pane below the list up", "Providers", "providers"),
    Action("leave", "escape", "esc", "back to the search lab", "Providers", "providers"),
    Action("sync_index", "y", "y", "sync now", "Index", "index", "sync", 3),
    Action("rebuild", "Y", "Y", _REBUILD, "Index", "index", "rebuild", 6),
    Action("verify", "v", "v", _VERIFY, "Index", "index", "verify", 7),
    Action("chunks", "enter", "enter", "the file with its chunks drawn on it", "Index", "index", "chunks", 1),
    Action("examine", "d", "d", "run all checks again", "Index", "index", "check again", 5),
    Action("examine_deep", "D", "D", _DEEP, "Index", "index", "deep check", 10),
    Action("repair", "f", "f", _REPAIR, "Index", "index", "repair", 2),
    Action("prune", "P", "P", _PRUNE, "Index", "index", "forget notes", 8),
    Action("order", "o", "o", "files by state, path, size, chunks, time", "Index", "index", "order", 9),
    Action("find_file", "slash", "/", "find a file", "Index", "index", "find", 11),
    Action("edit_file", "e", "e", "open the file in your editor", "Index", "index", "edit", 12),
    Action("next_of_index", "tab", "tab", _NEXT_OF_INDEX, "Index", "index", "next list", 4),
    Action("previous_of_index", "shift+tab", "shift+tab", "previous list", "Index", "index"),
    Action("detail_down", "J", "J", "scroll the lower pane down", "Index", "index"),
    Action("detail_up", "K", "K", "scroll the lower pane up", "Index", "index"),
    Action("leave_index", "escape", "esc", "stop what runs, else back to the search lab", "Index", "index"),
    Action("text_down", "J", "J", "scroll the text down", "Chunks", "chunks", "scroll", 1),
    Action("text_up", "K", "K", "scroll the text up", "Chunks", "chunks"),
    Action("edit_chunk", "e", "e", _EDIT_CHUNK, "Chunks", "chunks", "edit", 2),
    Action("leave_chunks", "escape,enter", "esc", "back to the index", "Chunks", "chunks", "back", 3),
    Action("open_moment", "enter", "enter", _OPEN_MOMENT, "Timeline", "timeline", "open", 1),
    Action("kinds", "f", "f", _KINDS, "Timeline", "timeline", "filter", 2),
    Action("zoom", "z", "z", _ZOOM, "Timeline", "timeline", "zoom", 3),
    Action("next_of_timeline", "tab", "tab", _NEXT_OF_TIMELINE, "Timeline", "timeline", "next list", 4),
    Action("previous_of_timeline", "shift+tab", "shift+tab", "previous list", "Timeline", "timeline"),
    Action("this_session", "s", "s", "only this session, or all", "Timeline", "timeline", "session", 6),
    Action("find_moment", "slash", "/", "find an event by its text", "Timeline", "timeline", "find", 7),
    Action("edit_moment", "e", "e", "open the file in your editor", "Timeline", "timeline", "edit", 8),
    Action("read_timeline", "r", "r", "read transcripts and log again", "Timeline", "timeline", "again", 10),
    Action("moment_down", "J", "J", "scroll the details down", "Timeline", "timeline"),
    Action("moment_up", "K", "K", "scroll the details up", "Timeline", "timeline"),
    Action("leave_timeline", "escape", "esc", "back to the search lab", "Timeline", "timeline"),
    Action("accept", "a", "a", _ACCEPT, "Curate", "curate", "accept", 1),
    Action("reject", "x", "x", "do not propose it again", "Curate", "curate", "reject", 2),
    Action("edit_proposal", "e", "e", _EDIT_PROPOSAL, "Curate", "curate", "edit", 3),
    Action("undo_note", "z", "z", "take back the last change of a note", "Curate", "curate", "undo", 4),
    Action("which", "f", "f", _WHICH, "Curate", "curate", "filter", 6),
    Action("measure", "m", "m", "measure the effect on answers again", "Curate", "curate", "effect", 7),
    Action("open_note", "enter", "enter", "the note with its chunks", "Curate", "curate", "note", 8),
    Action("next_of_curate", "tab", "tab", "candidates, files", "Curate", "curate", "next list", 5),
    Action("previous_of_curate", "shift+tab", "shift+tab", "back to the other list", "Curate", "curate"),
    Action("read_notes", "r", "r", "read notes and searches again", "Curate", "curate", "again", 10),
    Action("diff_down", "J", "J", "scroll the change down", "Curate", "curate"),
    Action("diff_up", "K", "K", "scroll the change up", "Curate", "curate"),
    Action("leave_curate", "escape", "esc", "back to the search lab", "Curate", "curate"),
    *(
        Action(f"show_{name}", key, key, help, "Screens", "everywhere", footer, rank)
        for name, key, _, help, footer, rank in SCREENS
    ),
    Action("guide", "g", "g", "the lessons of the demo", "More", footer="lessons", rank=5),
    Action("next_lesson", "right_square_bracket", "]", _NEXT_LESSON, "More", footer="next lesson", rank=6),
    Action("previous_lesson", "left_square_bracket", "[", "previous lesson of the demo", "More"),
    Action("export", "x", "x", "export JSON, Markdown, SVG, configuration", "More", footer="export", rank=11),
    Action("sync", "r", "r", "sync the index, or try to open it again", "More"),
    Action("remember", "M", "M", _REMEMBER, "More", "everywhere"),
    Action("messages", "exclamation_mark", "!", _MESSAGES, "More", "everywhere"),
    Action("palette", "colon", ": ctrl+p", "command palette, themes", "More", "everywhere"),
    Action("help", "question_mark,f1", "? f1", "this help", "More", "everywhere", footer="help", rank=1),
    Action("quit", "q", "q ctrl+q", "quit", "More", "everywhere", footer="quit", rank=5),
)

#: Actions that the palette does not offer: they are there under another name, or only move within a screen.
NOT_IN_PALETTE = frozenset(
    {"palette", "cancel", "leave", "leave_index", "next_list"}
    | (_SHARED.keys() - {"verify", "examine_deep"})
    | {action.id for action in ACTIONS if action.group == "Hits" and not action.rank}
)

#: The first paragraph of ``docs/keys.md``.
KEYS_HEAD = """The bottom line of a screen has its most used keys, `?` all of them; `:` finds actions by name.

This page is made from `tui/openclaw_mem_tui/bindings.py`:
`python -c "from openclaw_mem_tui.bindings import keys_page; print(keys_page(), end='')"`."""

BY_ID = {action.id: action for action in ACTIONS}
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(action.group for action in ACTIONS))


def offered(where: str) -> tuple[Action, ...]:
    """The actions of a screen with those that work on every screen, or those of a part of the search lab."""
    return tuple(a for a in ACTIONS if a.where == where or (where not in _PARTS and a.where == "everywhere"))


def elsewhere(where: str) -> frozenset[str]:
    """Ids of the actions that do not belong to a screen: the help leaves them out. The query line and the
    knobs belong to the search lab."""
    here = {where, "everywhere", *(_PARTS if where == "search" else ())}
    return frozenset(a.id for a in ACTIONS if a.where not in here)


def bindings(where: str) -> list[Binding]:
    """The Textual bindings of a screen or a part of the search lab; their ids let users rebind them.

    A key that two actions share does the later one of the table when that is offered (``g`` opens the lessons
    of the demo, and goes to the first hit otherwise).
    """
    return [
        Binding(
            action.keys,
            action.command,
            action.help,
            show=False,
            id=action.id,
            # The app itself handles it, before the keys behind it are sent to the focused widget: what is
            # typed right after "/" must reach the query line, also over a slow line.
            priority=action.id == "focus_query",
        )
        for action in reversed(offered(where))
    ]


def keys_page() -> str:
    """``docs/keys.md``: a table for each group."""
    parts = ["# Keys of the workbench", KEYS_HEAD]
    for group in GROUPS:
        shown = [action for action in ACTIONS if action.group == group and action.shown]
        rows = [f"| {' '.join(f'`{key}`' for key in a.shown.split())} | {a.help} |" for a in shown]
        parts.append("\n".join((f"## {group}", "", "| Key | Does |", "|---|---|", *rows)))
    return "\n\n".join(parts) + "\n"
