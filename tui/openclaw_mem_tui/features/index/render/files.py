"""The files and the events of the index: one row each, and everything about the selected one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import FileRow, FileState, byte_size
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.index.presenter import IndexState
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.damage import rescue
from openclaw_mem_tui.render.spans import Details, Line, fit, keyed, line, text_of, wrapped
from openclaw_mem_tui.render.status import Activity

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Event, EventKind

#: Mark of each state, and what it means for a search.
_MEANING: dict[FileState, tuple[str, str]] = {
    "modified": ("◌", "searches find the old text until the next sync"),
    "not-indexed": ("+", "no search finds it until the next sync"),
    "deleted": ("−", "searches still find it until the next sync"),
    "not-included": ("−", "the settings no longer list it; searches find it until the next sync"),
    "stale": ("◌", "the index was built with other settings; the next sync builds it anew"),
    "excluded": ("⊘", "no search finds it"),
    "up-to-date": ("●", "index matches disk"),
}
#: What is as it should be: a doctor has an information of it at most.
_ROLES: dict[FileState, str] = {"up-to-date": "", "excluded": "dim"}
#: Mark, words and role of each state: never distinguished by colour alone.
STATES = {
    state: (mark, state.replace("-", " "), _ROLES.get(state, "warn"))
    for state, (mark, _meaning) in _MEANING.items()
}
#: The same where that is in doubt.
UNKNOWN = "?", "not known", "warn"
_CHUNKS, _SIZE, _STATE, _TIME = 6, 8, 18, 10


def title(state: IndexState) -> str:
    """Title of the table, whose size is above it; that nothing is known of an index that cannot be read."""
    return f"files · {UNKNOWN[0]} {UNKNOWN[1]}" if state.overview is None and state.unreadable else "files"


def _columns(cells: int) -> tuple[int, int, int, int]:
    """Cells for path, chunks, size and time of the last change; 0 for one that there is no room for."""
    cells -= 1  # the scroll bar touches no text
    chunks = _CHUNKS + 1 if cells >= 50 else 0
    size, modified = (_SIZE + 1, _TIME) if cells >= 68 else (0, 0)
    return max(8, cells - 2 - chunks - size - _STATE - 2 - modified), chunks, size, modified


def header(unread: Line, cells: int) -> Line:
    """Titles of the columns; where there are no rows, why they are ``unread``."""
    if unread:
        return fit(line(" ", *unread), cells)
    path, chunks, size, modified = _columns(cells)
    titles = f"  {fmt.left('file', path)}{fmt.right('chunks', chunks)}{fmt.right('size', size)}"
    titles += f"  {fmt.left('state', _STATE)}{fmt.right('modified', modified)}"
    return line((fmt.crop(titles, cells), "dim"))


def unread(state: IndexState, activity: Activity) -> Line:
    """Why there are no rows, and the key that helps; empty where there are some, or there is no file."""
    if state.files or not (activity.damage or state.unreadable or activity.phase == "failed"):
        return ()
    if activity.damage:
        return line(("Files not known: the index is damaged; ", "warn"), *rescue(), (" it", "dim"))
    again = line((key("sync_now"), "key"), (" tries again", "dim"))
    return line(("Files not known: the index cannot be read; ", "warn"), *again)


def file_row(state: IndexState, doubtful: frozenset[str], row: FileRow, cells: int, selected: bool) -> Line:
    """One file: path, chunks, size, state, time of its last change."""
    unknown = row.path in doubtful
    mark, _, role = UNKNOWN if unknown else STATES[row.state]
    path, chunks, size, modified = _columns(cells)
    name = fmt.left(fmt.path(fmt.inert(row.path), path), path)
    return line(
        fmt.POINTER[selected],
        (name, "faint" if row.state == "excluded" else ""),
        fmt.right(f"{row.chunks:,}" if row.chunks else "", chunks),
        (fmt.right("" if row.size is None else byte_size(row.size), size), "dim"),
        (f"  {mark} ", role or "good"),
        (fmt.left(UNKNOWN[1] if unknown else _state(row), _STATE - 2), role or "dim"),
        (fmt.right(fmt.day(row.mtime, state.at) if row.mtime is not None else "", modified), "dim"),
    )


def _state(row: FileRow) -> str:
    """``modified +512 B``"""
    words = STATES[row.state][1]
    if row.state == "up-to-date" and row.delta > 0:
        return f"{words} {byte_size(row.delta)} waiting"
    if row.state != "modified":
        return words
    if not row.delta:
        return f"{words} ±0 B"
    return f"{words} {'+' if row.delta > 0 else '−'}{byte_size(abs(row.delta))}"


def file_detail(row: FileRow | None, state: IndexState, unknown: str, cells: int) -> list[Line]:
    """Everything about one file; every text in full. ``unknown``: why its state is not known, or ""."""
    if row is None:
        return [line(("No file is selected.", "dim"))]
    details = Details(cells)
    say = details.say
    mark, words, role = UNKNOWN if unknown else STATES[row.state]
    say("path", fmt.inert(row.path), (" · transcript" if row.source == "sessions" else "", "dim"))
    say(
        "state",
        (f"{mark} ", role or "good"),
        (words, f"strong {role}".strip()),
        (_meaning(row, unknown), "dim"),
    )
    if row.state == "up-to-date" and row.delta > 0:
        when = "indexed when it has grown more, after a time without messages, or by a sync"
        say("waits", f"{byte_size(row.delta)} of new messages", (f": {when}", "dim"))
    if row.state == "excluded" and row.chunks:
        say("found", ("with the text that was indexed last, until it can be read again", "warn"))
    if row.why:
        say("why", (fmt.message_here(row.why), role))
    if row.size is not None:
        size = byte_size(row.size)
        if row.state == "modified" and row.indexed_size is not None:
            size = f"{row.size:,} B on disk, {row.indexed_size:,} B when it was indexed"
        say("size", size)
    if row.mtime is not None:
        say("modified", fmt.clock(row.mtime, state.at, True))
    if row.indexed_size is not None and (row.kept or not row.why):
        say("chunks", *_chunks(row, state, bool(unknown)))
    if row.hash:
        say("hash", (row.hash[:16], "dim"), ("… of the indexed text", "faint"))
    return details.lines


def _meaning(row: FileRow, unknown: str) -> str:
    """What the state means for a search; a line of its own says it of a file that is found by older text."""
    if unknown:
        below = "; below is what it has recorded" if row.indexed_size is not None else ""
        return f": {unknown}{below}"
    meaning = "searches still find it" if row.kept else _MEANING[row.state][1]
    return "" if row.state == "excluded" and row.chunks else f": {meaning}"


def _chunks(row: FileRow, state: IndexState, unknown: bool) -> Line:
    built = state.overview.present if state.overview is not None else None
    if built is not None and not built.chunk_tokens:
        return line("1", (": the whole document", "dim"))
    them = "the text" if unknown else f"{'it' if row.chunks == 1 else 'them'} in the text"
    shows = keyed(f"; `{key('chunks')}` shows {them}" * bool(row.chunks))
    return line(f"{row.chunks:,}", *shows)


# -- events -----------------------------------------------------------------------------------------------

#: Mark, words and role of each kind: never distinguished by colour alone.
_KINDS: dict[EventKind, tuple[str, str, str]] = {
    "sync": ("●", "sync", "good"),
    "rebuild": ("■", "rebuild", "good"),
    "fallback": ("!", "fallback", "warn"),
    "recovered": ("●", "recovered", "good"),
    "search-failed": ("✗", "failed", "bad"),
    "doctor": ("i", "doctor", "dim"),
    "watch": ("·", "watch", "dim"),
    "denied": ("!", "denied", "warn"),
    "flush": ("●", "flush", "good"),
    "snapshot": ("◆", "snapshot", "good"),
    "edit": ("▲", "edit", "good"),
}
_KIND = 10
#: What counts are called whose names are not words.
_COUNTS = {"cacheHits": "from the cache", "withoutText": "without text"}
#: Cells in which the text of an event is not broken.
_UNCUT = 10_000


def _sign(event: Event) -> tuple[str, str, str]:
    mark, words, role = _KINDS[event.kind]
    mark, role = fmt.ENDED.get(event.ended, (mark, role))
    found = next((name for name in fmt.SEVERITIES if event.counts.get(f"{name}s")), "")
    mark, role = fmt.SEVERITIES.get(found, (mark, role))
    return mark, words, role


def words(doubtful: frozenset[str], row: FileRow) -> str:
    """What a filter of the files looks at."""
    return f"{fmt.inert(row.path)} {(UNKNOWN if row.path in doubtful else STATES[row.state])[1]}"


def folded(events: Iterable[Event]) -> list[Sequence[Event]]:
    """The rows of the events: those of the watcher that follow one another are one, as each session of the
    workbench starts and stops it."""
    rows = groupby(events, lambda event: 0 if event.kind == "watch" else event.id)
    return [tuple(row) for _, row in rows]


def event_row(state: IndexState, row: Sequence[Event], cells: int, selected: bool) -> list[Line]:
    """Time, kind and text of an event, of several the newest with how many they are; its further lines begin
    below the text, or where room is short below the kind."""
    event = row[0]
    mark, words, role = _sign(event)
    words += f" ×{len(row)}" if row[1:] else ""
    failed = event.ended == "failed" or event.kind == "search-failed"
    when = fmt.stamp(event.at, state.at, wide := cells >= 60)
    made = line(
        fmt.POINTER[selected],
        (f"{when} ", "dim"),
        (f"{mark} ", role),
        f"{words} ".ljust(_KIND) if wide else f"{words}  ",
        (fmt.with_reason(event.text, event.reason * failed), "dim"),
    )
    return wrapped(made, cells - 1, 5 + len(when) + _KIND * wide)


def event_words(state: IndexState, row: Sequence[Event]) -> str:
    """What a filter of the events looks at: the text of each event of a row, also of those that it counts."""
    lines = (each for event in row for each in event_row(state, [event], _UNCUT, False))
    return " ".join([*map(text_of, lines), f"×{len(row)}"])


def event_detail(row: Sequence[Event] | None, state: IndexState, cells: int) -> list[Line]:
    """Everything about the event of a row, and what happened earlier; every text in full."""
    if row is None:
        return wrapped(line(("No event has been recorded yet.", "dim")), cells)
    event, *earlier = row
    details = Details(cells)
    say = details.say
    mark, words, role = _sign(event)
    took = f", took {fmt.seconds(event.seconds)}" if event.seconds is not None else ""
    if event.kind == "recovered" and event.seconds is not None:
        took = f", after {fmt.age(event.seconds)}"
    at = fmt.clock(event.at, state.at, True)
    say("kind", (f"{mark} {words}", f"strong {role}"), f" at {at}{took}")
    say("what", fmt.message_here(event.text))
    if event.reason:
        say("why", fmt.message_here(event.reason))
    named = ((_COUNTS.get(name, name), number) for name, number in event.counts.items() if number)
    counts = fmt.join((f"{name} {number:,}" for name, number in named), ", ")
    if counts:
        say("counts", (fmt.inert(counts), "dim"))
    for before in earlier:
        label = "earlier" if before is earlier[0] else ""
        say(label, (fmt.clock(before.at, state.at, True), "dim"), f" {fmt.message_here(before.text)}")
    return details.lines
