"""The lower right pane: the snippet as the agent receives it, or the lines of the note around it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openclaw_mem_engine.api import Candidate, Excerpt
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, line, wrapped
from openclaw_mem_tui.render.terms import Marker

# A list item goes on below its text, not below its bullet.
_HANGING = re.compile(r"\s*(?:[-*+>] |\d+[.)] )?")

_EDGE = "▎"

#: Lines shown before and after the chunk by ``enter``.
CONTEXT = 8


def snippet(candidate: Candidate, presented: str, marker: Marker, cells: int) -> list[Line]:
    """``presented`` is what the agent gets: trimmed text and, when citations are on, its footer."""
    body, footer = presented, ""
    at = presented.rfind("\n\nSource: ")
    if at >= 0 and presented.startswith(f"Source: {candidate.path}", at + 2):
        body, footer = presented[:at], presented[at + 2 :]
    text = candidate.text
    first = candidate.start_line + text[: max(0, text.find(body))].count("\n")
    made = _numbered(body, first, candidate.end_line, marker, cells)
    units = len(presented.encode("utf-16-le", "surrogatepass")) // 2
    if len(body.rstrip()) < len(text.strip()):
        rest = fmt.count(len(text.strip()) - len(body.rstrip()), "more character")
        made.append(line((" " * _gutter(candidate.end_line) + f"… the agent does not see {rest}", "faint")))
    if footer:
        made.append(())
        made.extend(wrapped(line((fmt.inert(footer), "dim")), cells, 2))
    made.append(line((f"{fmt.count(units, 'UTF-16 unit')} of the agent's context", "faint")))
    return made


def excerpt(got: Excerpt, candidate: Candidate, marker: Marker, cells: int) -> list[Line]:
    """Lines of the note as they are on disk now; those of the chunk are brighter than their context."""
    if not got.found:
        gone = line(("This file is gone. ", "warn"), "The index still has what it said; r syncs.")
        return wrapped(gone, cells)
    chunk = range(candidate.start_line, candidate.end_line + 1)
    made = _numbered(got.text, got.start_line, got.end_line, marker, cells, chunk)
    shown = f"lines {got.start_line}–{got.end_line} of {got.total_lines} · chunk "
    lines = f"{candidate.start_line}–{candidate.end_line}"
    return [*made, (), line((shown, "faint"), (_EDGE, "accent"), (lines, "faint"))]


def first_of_chunk(lines: Sequence[Line]) -> int:
    """The first drawn line of an excerpt that belongs to the chunk; 0 when none does."""
    return next((n for n, row in enumerate(lines) if len(row) > 1 and row[1].text == _EDGE), 0)


def first_match(lines: Sequence[Line]) -> int:
    """The first drawn line with a matched term; 0 when there is none."""
    return next((n for n, row in enumerate(lines) if any("match" in s.role.split() for s in row)), 0)


def transcript(candidate: Candidate, marker: Marker, cells: int) -> list[Line]:
    """The whole chunk of a transcript, which ``memory_get`` does not read."""
    text = "Agents cannot get the lines of a transcript (memory_get reads notes alone). The chunk as indexed:"
    numbered = _numbered(candidate.text, candidate.start_line, candidate.end_line, marker, cells)
    return [*wrapped(line((text, "dim")), cells), (), *numbered]


def refusal(message: str, cells: int) -> list[Line]:
    """Why ``get`` gave nothing."""
    return wrapped(line(("Refused. ", "bad"), fmt.inert(message)), cells)


def _numbered(
    body: str, first: int, last: int, marker: Marker, cells: int, chunk: range = range(0)
) -> list[Line]:
    """The lines of a text, numbered up to ``last``. Those of ``chunk`` have an edge, the others are faint."""
    made: list[Line] = []
    gutter = _gutter(last)
    for number, text in enumerate(fmt.inert_lines(body), first):
        inside = number in chunk
        edge = Span(_EDGE if inside else " ", "accent")
        indent = min(len(_HANGING.match(text)[0]), 8, cells // 4)  # type: ignore[index]
        head = Span(fmt.right(str(min(number, last)), gutter - 2) + " ", "faint")
        spans = marker.mark(text, "faint" if chunk and not inside else "")
        for row in wrapped(spans, max(8, cells - gutter - 2), indent):
            made.append((head, edge, Span(" "), *row))
            head = Span(" " * (gutter - 1))
    return made


def _gutter(last: int) -> int:
    return max(3, len(str(last))) + 2
