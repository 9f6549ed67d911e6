"""The lower right pane: the snippet as the agent receives it, or the lines of the note around it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine import api
from openclaw_mem_tui.bindings import reach
from openclaw_mem_tui.features.search.render.hits import best as best_of
from openclaw_mem_tui.features.search.render.hits import sent_of
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, hanging, line, wrapped
from openclaw_mem_tui.render.terms import Marker

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Candidate, Excerpt, Result, Row

EDGE = "┃"
_BEST = "▸"
CUT = "┊"
NOT_SENT = f"{CUT} not sent"

#: Lines shown before and after the chunk by ``enter``.
CONTEXT = 8


def snippet(view: View, row: Row, presented: str, marker: Marker, cells: int) -> list[Line]:
    """What the agent gets as the row's result, then a rule and the lines of the chunk that are not in it.
    ``presented`` is the snippet of the result, with its footer when citations are on."""
    made: list[Line] = []
    candidate, result = view.candidate(row.chunk_id), view.result(row.chunk_id)
    assert candidate is not None
    found, chunk = best_of(view, row, marker), range(candidate.start_line, candidate.end_line + 1)
    best = found.number if found is not None else None
    last = max(candidate.end_line, result.end_line if result is not None else 0)
    if result is not None:
        # With citations the text is trimmed and has a footer.
        cited = presented != result.snippet
        body = result.snippet.strip() if cited else presented
        edges = chunk if len(result.chunk_ids) > 1 else range(0)
        got = (
            _Numbered(number, text, EDGE if number in edges else " ", number == best)
            for number, text in _lines_of(result, body)
        )
        made = _numbered(got, last, marker, cells)
        units = api.utf16_length(body)
        sent = f"{fmt.count(units, 'character')} sent"
        if cited:
            footer = fmt.inert(presented[len(body) :].strip())
            made += [(), *wrapped(line((footer, "dim")), cells, 2)]
            sent += f", plus {api.utf16_length(presented) - units} for the source line"
        made += wrapped(line((sent, "faint")), cells - 1, 2)
    here = _seen([result] if result is not None else [])
    anywhere = _seen(view.results_of(row.path))
    hidden = [
        _Numbered(n, rest, CUT if n not in anywhere or _rest(text, anywhere[n]) else " ", n == best, "dim")
        for n, text, *_ in api.note_lines(candidate)
        if (rest := _rest(text, here.get(n, ()))) or n not in here
    ]
    if not result and not anywhere:
        made = _numbered(hidden, last, marker, cells)  # the frame says that nothing of it is sent
    elif any(rest.text for rest in hidden):
        made += wrapped(line((_unsent(candidate, anywhere, result), "warn")), cells - 1, 3)
        made += _numbered(hidden, last, marker, cells)
    return made


def elsewhere(view: View, row: Row) -> str:
    """Which lines of a chunk that is not returned are in results of other chunks of its file."""
    held = {(max(a, row.start_line), min(b, row.end_line)) for a, b in sent_of(view, row)}
    parts = [f"{a}–{b}" if a < b else f"{a}" for a, b in sorted(held) if a <= b]
    if not parts:
        return f"{NOT_SENT} to the agent"
    if len(parts) > 1:
        return f"lines {', '.join(parts)} in other results"
    return f"line{'s' * ('–' in parts[0])} {parts[0]} in another result"


def _unsent(candidate: Candidate, seen: dict[int, list[str]], result: Result | None) -> str:
    """How much of a chunk no result shows; ``seen`` is what results show of each line."""
    rests = (_rest(text, seen.get(n, ()), "") for n, text, *_ in api.note_lines(candidate))
    units = sum(map(api.utf16_length, rests))
    if not units:
        return "── sent to the agent in another result"
    many = fmt.count(units, "character")
    return f"── truncated by {many}" if result is not None else f"── {many} not sent"


def _lines_of(result: Result, body: str) -> Iterator[tuple[int, str]]:
    """The lines of a result with their numbers in the note; 0 where a gap is marked. ``body`` is its text,
    which may be trimmed."""
    ranges = [*result.shown]
    number = ranges[0][0] + result.snippet[: max(0, result.snippet.find(body))].count("\n")
    for text in body.split("\n"):
        if len(ranges) > 1 and number > ranges[0][1]:
            ranges.pop(0)
            number = ranges[0][0]
            yield 0, text
        elif text or number <= ranges[0][1]:  # nothing follows where a line ends at the cut
            yield min(number, ranges[0][1]), text
            number += 1


def _seen(results: Iterable[Result]) -> dict[int, list[str]]:
    """What results show of each line."""
    made: dict[int, list[str]] = {}
    for result in results:
        for number, text in _lines_of(result, result.snippet):
            made.setdefault(number, []).append(text)
    return made


def _rest(text: str, seen: Iterable[str], mark: str = "…") -> str:
    """What is left of a line without what is seen of it, the cut marked; empty when nothing is."""
    for part in seen:
        if part.strip() and part in text:
            text = mark.join(text.split(part, 1)) if text != part else ""
    return text if text.strip() else ""


def _whole(text: str, seen: Sequence[str] | None) -> bool:
    """Whether results show all of a line of the note as it is now."""
    return seen is not None and not _rest(text, seen)


def excerpt(got: Excerpt, view: View, row: Row, marker: Marker, cells: int) -> list[Line]:
    """Lines of the note as they are on disk now; those of the chunk are brighter than their context, with an
    edge that says which of them the agent gets whole, and the best of them is marked."""
    if not got.found:
        gone = line(
            ("This file is deleted. ", "warn"),
            "The index still has its old text; ",
            (reach("sync"), "key"),
            " syncs.",
        )
        return wrapped(gone, cells)
    chunk = range(row.start_line, row.end_line + 1)
    found = best_of(view, row, marker)
    best = found.number if found is not None else None
    seen = _seen(view.results_of(row.path))
    lines_got = [
        _Numbered(number, text, EDGE if _whole(text, seen.get(number)) else CUT, number == best)
        if number in chunk
        else _Numbered(number, text, role="faint")
        for number, text in enumerate(got.text.split("\n"), got.start_line)
    ]
    made = _numbered(lines_got, got.end_line, marker, cells)
    shown = f"lines {got.start_line}–{got.end_line} of {got.total_lines} · chunk "
    lines = f"{row.start_line}–{row.end_line}"
    edges = {found.edge for found in lines_got}
    edge = (EDGE, "accent") if EDGE in edges else (CUT, "warn")
    return [*made, (), line((shown, "faint"), edge, (lines, "faint"))]


def passage(got: Excerpt, asked: int, marker: Marker, cells: int) -> list[Line]:
    """Lines of a note as they are on disk now; the line ``asked`` is marked."""
    texts = (
        _Numbered(number, text, best=number == asked)
        for number, text in enumerate(got.text.split("\n"), got.start_line)
    )
    return _numbered(texts, got.end_line, marker, cells)


def evidence(lines: Sequence[Line]) -> int:
    """The drawn line that answers the query best, else the first with a matched term; 0 without any."""
    marked = (n for n, row in enumerate(lines) if len(row) > 1 and row[1].text == _BEST)
    matching = (n for n, row in enumerate(lines) if any("match" in s.role.split() for s in row))
    return next(marked, next(matching, 0))


def titled(title: str, lines: Sequence[Line], *, note: bool = False) -> str:
    """The title of a pane, with what the edges mean that some of its ``lines``, those in sight, have; of a
    ``note`` the lines of the chunk have one."""
    if NOT_SENT in title:
        return title
    edges = {span.text for row in lines for span in row[:3]}
    if CUT in edges:
        title = title.removesuffix(" · truncated")
    sent = f"{EDGE} {'sent' if note else 'this chunk'}"
    legend = ", ".join((sent,) * (EDGE in edges) + (NOT_SENT,) * (CUT in edges))
    return fmt.join((title, legend))


def position(lines: Sequence[Line], number: int | None) -> int:
    """The first drawn line of the line ``number``; where there is none, that of ``evidence``."""
    numbered = (n for n, row in enumerate(lines) if row and row[0].text.strip() == str(number))
    return next(numbered, evidence(lines))


def transcript(candidate: Candidate, marker: Marker, cells: int) -> list[Line]:
    """The whole chunk of a transcript, which ``memory_get`` does not read."""
    text = "memory_get does not read transcripts. The chunk as indexed:"
    whole = (_Numbered(found.number, found.text) for found in api.note_lines(candidate))
    numbered = _numbered(whole, candidate.end_line, marker, cells)
    return [*wrapped(line((text, "dim")), cells), (), *numbered]


def refusal(message: str, cells: int) -> list[Line]:
    """Why ``get`` gave nothing."""
    return wrapped(line(("Refused. ", "bad"), fmt.inert(message)), cells)


def _numbered(lines: Iterable[_Numbered], last: int, marker: Marker, cells: int) -> list[Line]:
    """Lines with their numbers, which are at most ``last``, and an edge where one is due."""
    made: list[Line] = []
    gutter = max(3, len(str(last))) + 3
    for number, raw, sign, best, role in lines:
        text = fmt.inert(raw.removesuffix("\r"))
        edge = Span(sign, "warn" if sign == CUT else "accent")
        head = Span(fmt.right(str(number or ""), gutter - 3) + " ", "faint")
        first = Span(_BEST if best else " ", "accent")
        for row in hanging(marker.mark(text, role), max(8, cells - gutter - 2)):
            made.append((head, first, edge, Span(" "), *row))
            head, first = Span(" " * (gutter - 2)), Span(" ")
    return made


class _Numbered(NamedTuple):
    """A line of a note: ``edge`` is what stands before it, ``best`` marks the one that answers best."""

    number: int
    text: str
    edge: str = " "
    best: bool = False
    role: str = ""
