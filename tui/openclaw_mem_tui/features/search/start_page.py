"""The start page of one's own workspace: queries to begin with, and what the doctor said last. No Textual."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine import api
from openclaw_mem_engine.api import OpenClawMemError, redacted
from openclaw_mem_tui.bindings import key, offered, reach, typed_key
from openclaw_mem_tui.features import SCREENS
from openclaw_mem_tui.features.search.comparison import swaps
from openclaw_mem_tui.features.search.remembered import offered as continues
from openclaw_mem_tui.features.search.render.knobs import NAMED, knob_value
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.damage import rescue
from openclaw_mem_tui.render.spans import Line, line, wrapped

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Memory
    from openclaw_mem_tui.features.search.presenter import SearchPresenter
    from openclaw_mem_tui.features.search.state import View
    from openclaw_mem_tui.render.status import Activity

#: Suggestions, notes that are looked into, and lines of each.
_MOST, _NOTES, _LINES = 6, 12, 80
_LONGEST = 60
#: A line that is no heading, without the mark of a list.
_PLAIN = re.compile(r"\s*(?:[-*+]\s+)?([^\W_].*?)\s*")
_HEADING = re.compile(r"#{1,4}\s+(.*?)\s*#*\s*")
#: Headings that say nothing about a note: one short word, and dates, times and numbers, with or without
#: words that many notes begin with.
_SAYS_NOTHING = re.compile(
    r"\w{1,3}|(?:[\d\W_]|\b(?:notes?|log|daily|journal|diary|todo|memory|facts|summary|misc|done|decisions|"
    r"for|of|(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|march|april|may|june|july|august|"
    r"september|october|november|december)\b)*",
    re.I,
)

_KEYS = (
    ("knobs", "change the ranking knobs: the results follow at once"),
    ("history", "earlier queries"),
    ("help", "all keys and the legend"),
)
#: Of the hits; while no note is known, which may be before the index is read, what makes one.
_HITS = (
    ("why_not", "why the selected passage is not returned, and what would return it"),
    ("why_not_any", "the same for any line of your notes: the one that you miss"),
)
_FIRST = ("remember", "write a note")
#: What the page says where there are notes, and where there is none.
_PURPOSE = "Ask what your agent would search for: you see what it gets, and why it does not get the rest."
_EMPTY = "Write MEMORY.md or memory/*.md there. `openclaw-mem demo` shows a workspace with notes."


#: Queries, each with the note that it comes from.
Suggestions = Sequence[tuple[str, str]]


class StartPage(NamedTuple):
    """``doctor`` is a sentence, or empty; ``errors`` are those that it found, ``stuck`` whether one of them
    lets no sync run."""

    suggestions: Suggestions = ()
    doctor: str = ""
    errors: int = 0
    stuck: bool = False


def read(memory: Memory, now: float) -> StartPage:
    """Headings of the most recent daily notes and of others as they stand, of a note with none of several
    words its first line. Lines that other notes have too, as those of a template, come last; of lines that
    differ in numbers there is the first. And the last examination of the log, unless the index was rebuilt
    since."""
    paths = memory.paths()
    dated = sorted((path for path in paths if re.search(r"\d{4}-\d\d-\d\d", path)), reverse=True)
    recent, older = dated[: _MOST // 2], dated[_MOST // 2 : _MOST]
    chosen = [*recent, *[path for path in paths if path not in dated][: _NOTES - _MOST], *older]
    found: dict[str, tuple[str, str]] = {}
    rows = [_rows(memory, path) for path in chosen]
    notes_with = Counter(alike for note in rows for alike in {_alike(row) for row in note})
    own = [[row for row in note if notes_with[_alike(row)] == 1] for note in rows]
    for each in ([*map(_queries, notes)] for notes in (own, rows)):
        for turn in range(max(map(len, each), default=0)):  # one heading of each note first
            for path, headings in zip(chosen, each, strict=True):
                if turn < len(headings) and len(found) < _MOST:
                    found.setdefault(_alike(headings[turn]), (headings[turn], path))
    # A rebuild that was done ends what was found before it.
    kinds = ("doctor", "rebuild")
    done = (event for event in memory.events(200) if event.kind in kinds and not event.ended)
    last = next((event for event in done if event.counts), None)
    doctor, errors, stuck = "", 0, False
    if (
        last is not None
        and last.kind == "doctor"
        and (last.counts.get("errors") or last.counts.get("warnings"))
    ):
        errors = last.counts.get("errors", 0)
        stuck = not api.UNWRITABLE.isdisjoint(last.reason.split(", "))
        doctor = f"doctor, {fmt.clock(last.at, now)}: {last.text}"
    return StartPage(tuple(found.values()), doctor, errors, stuck)


def _rows(memory: Memory, path: str) -> list[str]:
    try:
        return memory.get(path, 1, _LINES).text.split("\n")
    except OpenClawMemError:  # one that may not be read is no suggestion
        return []


def _alike(text: str) -> str:
    return re.sub(r"\d+", "#", text.strip().casefold())


def _queries(rows: Sequence[str]) -> list[str]:
    """The headings that say more than one word; without any the first line that does, then the others."""
    headings = [found[1] for row in rows if (found := _HEADING.fullmatch(row)) and _is_query(found[1])]
    if several := [text for text in headings if " " in text]:
        return several
    plain = (found[1] for row in rows if (found := _PLAIN.fullmatch(row)) and _is_query(found[1]))
    return [*islice((text.removesuffix(".") for text in plain), 1), *headings]


def _is_query(text: str) -> bool:
    """Short, about something, and without a credential: what is asked is remembered."""
    return 3 < len(text) <= _LONGEST and not _SAYS_NOTHING.fullmatch(text) and redacted(text) == text


def suggested(search: SearchPresenter) -> Suggestions:
    """The rows of the start page, where it is shown: what continues what was left, then queries."""
    if not _is_idle(search.view, search.activity):
        return ()
    left = continues(search)
    return (*([left] if left is not None else []), *_page(search).suggestions)


def _page(search: SearchPresenter) -> StartPage:
    """What is shown of it now: nothing above an answer, and no query for an index that is damaged."""
    if not _is_idle(search.view, search.activity):
        return StartPage()
    page = search.start_page
    return page if search.activity.damage is None else page._replace(suggestions=())


def is_blank(search: SearchPresenter) -> bool:
    """Whether the start page is all there is to see. The demo begins with a lesson, which is in the history
    then."""
    begun = search.guide is None or bool(search.history.queries)
    return begun and search.view.trace is None and not search.view.query.strip()


def idle_keys(search: SearchPresenter, asks: str) -> frozenset[str]:
    """Ids of actions of the lab that do nothing now: without lessons, without a query, with no
    heading under the cursor that ``asks`` one, with no baseline of other knobs, with no step of a knob,
    with no knobs to write and no write of this session to undo."""
    view, steps, guided = search.view, search.steps, search.guide is not None
    acts = {
        "guide": guided,
        "next_lesson": guided,
        "swap": swaps(view),
        "reset_all": view.knobs != view.defaults and not view.shown_faults,
        "undo_knob": any(step.differs(view.tried) for step in steps.done),
        "redo_knob": any(step.differs(view.tried) for step in steps.undone),
        "apply_knobs": search.service.reload is not None
        and (view.knobs != view.defaults or takes_back(search)),
    }
    idle = {name for name, does in acts.items() if not does}
    if is_blank(search) or search.activity.phase == "failed" or (view.error and view.trace is None):
        acting = {"focus_query", "history", "knobs", "cancel", "help", "quit", "repair", *acts} - {"swap"}
        acting |= {"sync"} if search.activity.phase == "failed" else set()
        acting |= {"get"} if asks else set()
        acting |= {"filter"} if suggested(search) else set()
        idle = idle | {action.id for action in offered("search")} - acting
    return frozenset(idle)


def takes_back(search: SearchPresenter) -> bool:
    """Whether writing the shown knobs undoes the last write of this session: they are those that it wrote, or
    those before it."""
    view, written = search.view, search.steps.written
    return written is not None and (view.knobs == view.defaults or written == (view.knobs, view.defaults))


def _is_idle(view: View, activity: Activity) -> bool:
    opened = activity.phase in ("ready", "syncing")
    return view.trace is None and opened and not (view.error or view.query.strip())


def landing(
    search: SearchPresenter, shown: Suggestions, cells: int, room: int
) -> tuple[list[Line], list[list[Line]], list[Line]]:
    """The hit list before there is a query: what can be searched, the ``shown`` ones of the queries to begin
    with, and the keys; where there is no ``room`` for these lines, the key that lists them."""
    view, activity = search.view, search.activity
    said = what(view, activity, search.sync.header.workspace)
    head = [row for each in said for row in wrapped(each, cells - 1, 2)]
    items, foot = list[list[Line]](), list[Line]()
    page = _page(search)
    if rows := suggested(search):
        notes = "your notes" if page.suggestions else ""
        begun = "what you left" if len(rows) > len(page.suggestions) else ""
        first = (f"From {fmt.join((begun, notes), ' and ')}", "strong")
        head += [(), line("  ", first, "  ", (key("get"), "key"), (" asks one", "dim"))]
        wide = min(60, cells // 2, max((fmt.width_of(fmt.inert(query)) + 1 for query, _ in shown), default=0))
        room_beside = max(4, cells - wide - 4)
        in_full = dict(filter(None, (continues(search, named=True),)))
        for query, path in shown:
            whole = fmt.inert(in_full.get(query, path))
            fits = fmt.width_of(whole) <= room_beside
            origin = (whole if fits else fmt.path(fmt.inert(path), room_beside), "dim")
            items.append([line("  ", fmt.left(fmt.crop(fmt.inert(query), wide - 1), wide), " ", origin)])
    if found := page.doctor if search.sync.examined is None else search.sync.examined:
        opens = (reach("show_index"), "key")
        doctor = line("  ", (fmt.inert(found), "warn"), " ", opens, (" shows it", "dim"))
        foot += [(), *wrapped(doctor, cells, 2)]
    if is_blank(search) and not (view.error or activity.phase == "failed"):
        keys = _keys(search.guide is not None, activity.files, cells)
        used = len(head) + len(items) + len(foot)
        foot += next((lines for lines in keys if used + len(lines) <= room), [(), _in_short()])
    return head, items, foot


def what(view: View, activity: Activity, workspace: str) -> list[Line]:
    """What can be searched, or why nothing can."""
    more = ""
    if activity.phase == "failed":
        title = "The index cannot be opened"
        made = [(), line("  ", (f"{title}.", "strong"))]
        why = fmt.message(activity.trouble or str(activity.damage or "")).removeprefix(f"{title}: ")
        made += [line("  ", api.capital(why))] if why else []
        again = line("  ", (reach("sync"), "key"), (" tries again.", "dim"))
        return made if activity.damage else [*made, again]  # the reason says what repairs it
    if view.error:
        return [(), line("  ", ("The search failed; the reason is below.", "strong"))]
    if view.query.strip():
        builds = activity.phase == "syncing" and not activity.files
        said = "Building the index; then this query is answered." if builds else "Searching…"
        return [(), line("  ", (said, "dim"))]
    if activity.phase == "opening":
        text = "Opening the index."
    elif activity.phase == "syncing" and not activity.files:
        text = "Reading the notes."
    elif activity.damage is not None:
        first = ("The index is damaged: a search can fail, or miss notes.", "strong")
        return [(), line("  ", first), line("  ", *rescue())]
    elif activity.freshness is None:
        text = "Reading the index."
    elif not activity.files:
        text, more = f"There is no note to search yet in {fmt.inert(workspace)}.", _EMPTY
    else:
        files, chunks = fmt.count(activity.files, "file"), fmt.count(activity.chunks, "chunk")
        text, more = f"{files}, {chunks} to search.", _PURPOSE
    others = (more, _own_settings(view), activity.not_included) if more else ()
    return [(), line("  ", (text, "strong")), *(line("  ", (said, "dim")) for said in others if said)]


def _own_settings(view: View) -> str:
    """With which knobs the answers are not those of the agent; empty where none is set for us alone."""
    names = list(api.set_here(view.settings)) if view.settings is not None else []
    if not names:
        return ""
    shown = ", ".join(knob_value(name, view.defaults) for name in names[:NAMED])
    more = f" and {len(names) - NAMED} more" if names[NAMED:] else ""
    return f"Set for openclaw-mem alone: {shown}{more}. The agent's own settings may answer differently."


def _in_short() -> Line:
    typed = typed_key("help")
    in_line = [(", in the query line ", "dim"), (typed, "key")] if typed else []
    return line("  ", (key("help"), "key"), (" lists all keys", "dim"), *in_line, (".", "dim"))


def _keys(guided: bool, files: int, cells: int) -> list[list[Line]]:
    """The keys for rooms of different heights, most of them first."""
    typed = typed_key("help")
    in_line = line(
        ("  In the query line: type to search, ", "dim"),
        (key("cancel"), "key"),
        (" leaves it", "dim"),
        *([(", ", "dim"), (typed, "key"), (" is the help", "dim")] if typed else []),
        (".", "dim"),
    )
    outside = [*_KEYS, *([("guide", "the demo lessons")] if guided else [])]
    groups = [
        *([("  With results:", list(_HITS))] if files else []),
        ("  Outside the query line:", outside if files else [_FIRST, *outside]),
        (
            "  Screens, outside the query line too:",
            [(f"show_{entry.name}", entry.help) for entry in SCREENS[1:]],
        ),
    ]
    lines, made = [(), *wrapped(in_line, cells, 2)], list[list[Line]]()
    for title, rows in groups:
        lines = [*lines, line((title, "dim"))]
        for name, text in rows:
            lines += wrapped(line("  ", (fmt.left(key(name), 7), "key"), (text, "dim")), cells - 1, 9)
        made.insert(0, lines)
    return made
