"""The event log, one row an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Details, Line, Span, line, wrapped

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Event, EventKind
    from openclaw_mem_tui.features.index.presenter import IndexState

#: Mark, words and role of each kind: never distinguished by colour alone.
_KINDS: dict[EventKind, tuple[str, str, str]] = {
    "sync": ("●", "sync", "good"),
    "rebuild": ("■", "rebuild", "accent"),
    "fallback": ("!", "fallback", "warn"),
    "recovered": ("●", "recovered", "good"),
    "search-failed": ("✗", "failed", "bad"),
    "doctor": ("i", "doctor", "accent"),
    "watch": ("·", "watch", "dim"),
}
_KIND = 10


def event_row(event: Event, state: IndexState, cells: int, selected: bool) -> Line:
    """Time, kind and text of an event."""
    mark, words, role = _KINDS[event.kind]
    when = fmt.stamp(event.at, state.at)
    start = line(
        ("▌ " if selected else "  ", "accent"),
        (f"{when} ", "dim"),
        (f"{mark} ", role),
        (fmt.left(words, _KIND), ""),
    )
    room = cells - 4 - len(when) - 1 - _KIND
    return (*start, Span(fmt.crop(fmt.inert(event.text), max(0, room)), "dim"))


def event_detail(event: Event | None, state: IndexState, cells: int) -> list[Line]:
    """Everything about one event; every text in full."""
    if event is None:
        return wrapped(line(("No event has been recorded yet.", "dim")), cells)
    details = Details(cells)
    say = details.say
    mark, words, role = _KINDS[event.kind]
    took = f", took {fmt.seconds(event.seconds)}" if event.seconds is not None else ""
    if event.kind == "recovered" and event.seconds is not None:
        took = f", after {fmt.age(event.seconds)}"
    say(
        "event",
        (f"{mark} {words}", f"strong {role}"),
        (f" at {fmt.clock(event.at, state.at, True)}{took}", ""),
    )
    say("what", fmt.inert(event.text))
    if event.reason:
        say("why", fmt.inert(event.reason))
    counts = fmt.join((f"{name} {number:,}" for name, number in event.counts.items() if number), ", ")
    if counts:
        say("counts", (fmt.inert(counts), "dim"))
    return details.lines
