"""The start page of one's own workspace: queries to begin with, and what the doctor said last. No Textual."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine.api import OpenClawMemError
from openclaw_mem_tui.features.search.render import funnel
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, line

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Memory
    from openclaw_mem_tui.features.search.presenter import SearchPresenter

#: Suggestions, notes that are looked into, and lines of each.
_MOST, _NOTES, _LINES = 6, 12, 80
_HEADING = re.compile(r"#{1,4}\s+(.*?)\s*#*\s*")
#: Headings that say nothing about a note: dates, times, numbers, and one short word.
_SAYS_NOTHING = re.compile(
    r"[\d\W_]*|\w{1,3}|(?:notes?|log|todo|memory|facts|summary|misc|done|decisions)", re.I
)


class StartPage(NamedTuple):
    """``suggestions`` are queries with the note that they come from; ``doctor`` is a sentence, or empty;
    ``errors`` are those that it found."""

    suggestions: tuple[tuple[str, str], ...] = ()
    doctor: str = ""
    errors: int = 0


def read(memory: Memory, now: float) -> StartPage:
    """Headings of the most recent daily notes and of others, and the last examination of the log. Reads a few
    notes; raises OpenClawMemError."""
    paths = memory.paths()
    dated = sorted((path for path in paths if re.search(r"\d{4}-\d\d-\d\d", path)), reverse=True)
    chosen = [*dated[: _NOTES // 2], *(path for path in paths if path not in dated)][:_NOTES]
    found: dict[str, tuple[str, str]] = {}
    each = [list(_headings(memory, path)) for path in chosen]
    for turn in range(max(map(len, each), default=0)):  # one heading of each note first
        for path, headings in zip(chosen, each, strict=True):
            if turn < len(headings) and len(found) < _MOST:
                found.setdefault(headings[turn].casefold(), (headings[turn], path))
    last = next((event for event in memory.events(200) if event.kind == "doctor" and event.counts), None)
    doctor, errors = "", 0
    if last is not None and (last.counts.get("errors") or last.counts.get("warnings")):
        errors = last.counts.get("errors", 0)
        doctor = f"doctor, {fmt.clock(last.at, now)}: {last.text}"
    return StartPage(tuple(found.values()), doctor, errors)


def _headings(memory: Memory, path: str) -> Iterator[str]:
    try:
        text = memory.get(path, 1, _LINES).text
    except OpenClawMemError:  # one that may not be read is no suggestion
        return
    for row in text.split("\n"):
        heading = _HEADING.fullmatch(row)
        if heading and 3 < len(heading[1]) <= 60 and not _SAYS_NOTHING.fullmatch(heading[1]):
            yield heading[1]


def landing(search: SearchPresenter) -> list[Line]:
    """The hit list before there is a query."""
    lines = funnel.landing(search.view, search.activity, search.guide)
    page, idle = search.start_page, search.activity.phase == "ready" and not search.view.query.strip()
    return [*lines, *_rows(page)] if idle else lines


def _rows(page: StartPage) -> list[Line]:
    made: list[Line] = []
    if page.suggestions:
        head = ("Headings of your notes ", "strong")
        made += [(), line("  ", head, ("ctrl+r", "key"), (" asks one", "dim"))]
        for query, path in page.suggestions:
            origin = (fmt.crop_left(fmt.inert(path), 28), "dim")
            made.append(line("  ", fmt.left(fmt.inert(query), 34), " ", origin))
    if page.doctor:
        made += [(), line("  ", (fmt.inert(page.doctor), "warn"), (" 3", "key"), (" shows it", "dim"))]
    return made
