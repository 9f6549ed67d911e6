"""A file with its chunks drawn on it: where each begins and ends, and what it shares with its neighbour."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_engine.api import Anatomy, AnatomyState, Piece, Row, never_shown
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import (
    GOOD,
    Details,
    Line,
    Span,
    brief,
    fit,
    line,
    reported,
    spread,
    width,
    wrapped,
)
from openclaw_mem_tui.render.status import Activity

_STATES: dict[AnatomyState, tuple[str, str]] = {
    "up-to-date": ("● the index holds this text", "good"),
    "modified": ("◌ modified since it was indexed: the next sync makes these chunks", "warn"),
    "not-indexed": ("+ not indexed yet: the next sync makes these chunks", "warn"),
    "deleted": ("− deleted on disk: the index still has these chunks", "warn"),
    "not-included": ("− not included any more: the index still has these chunks", "warn"),
    "excluded": ("✗ cannot be read: the index still has these chunks", "bad"),
}
#: Lines shown of a piece that is very long, at either end.
_LINES_KEPT = 400
#: Before a line that no search result shows, or not the whole of it.
_HIDDEN = "┊"


def summary(anatomy: Anatomy, cells: int) -> list[Line]:
    """The state of the file, and how it is cut."""
    words, role = _STATES[anatomy.state]
    if anatomy.state == "excluded" and not anatomy.stored:
        words, role = "⊘ excluded: not in the index", "warn"
    cut = f"chunk limit {anatomy.chunk_tokens} tokens, overlap {anatomy.chunk_overlap}"
    made = [spread(line((f" {words}", role)), line((f"{cut} ", "dim")), cells)]
    if anatomy.unshown.hidden_lines:
        mark = _HIDDEN if anatomy.hidden else " "
        said = f" {mark} {never_shown(anatomy.unshown.share, 'this file')}: {anatomy.unshown_cause}"
        made += wrapped(line((said, "warn")), cells - 1, 3)
    if anatomy.why:
        made += wrapped(line(("   ", ""), (fmt.message(anatomy.why), "warn")), cells, 3)
    return made


def header(cells: int) -> Line:
    """Titles of the list's columns."""
    titles = f"  {'#':>4} {'lines':>11} {'tokens':>6} {'overlap':>7}  BM25    vector"
    return line((fmt.crop(titles, cells), "dim"))


def piece_row(anatomy: Anatomy, chosen: int, cells: int, selected: bool) -> Line:
    """One chunk: its number, lines, size, the lines that it repeats, and which retriever can find it."""
    piece = anatomy.pieces[chosen]
    row = line(
        fmt.POINTER[selected],
        (f"{chosen + 1:>4} ", "strong" if selected else ""),
        f"{lines_of(piece):>11} ",
        f"{piece.tokens:>6} ",
        (f"{piece.overlap or '':>7}  ", "text"),
        *(_found(piece.keyword, 8)),
        *(_found(piece.embedded, 6)),
    )
    return row if width(row) <= cells else spread(row, (), cells)


def _found(yes: bool, cells: int) -> Line:
    return line((fmt.left("✓", cells), "good") if yes else (fmt.left("✗ no", cells), "warn"))


def lines_of(piece: Piece) -> str:
    """``12–31``; ``12`` of a chunk that is one line."""
    return (
        f"{piece.start_line}–{piece.end_line}" if piece.end_line > piece.start_line else str(piece.start_line)
    )


def _is_after_end(anatomy: Anatomy, index: int) -> bool:
    """Whether it is the empty text after the last line end. Chunks count it, so that their lines and hashes
    are those of OpenClaw; the lines of a file do not."""
    number, content = anatomy.lines[index]
    return not content and number > 1 and index == len(anatomy.lines) - 1


Heads = list[tuple[int, int, str]]


def facts(
    anatomy: Anatomy, heads: Heads, chosen: int, query: str, found: Row | None, cells: int
) -> list[Line]:
    """All about the chunk at ``chosen`` that its text does not say; ``heads`` are the headings of the file,
    ``query`` is the last one, with what it made of the chunk (None: not a candidate), "" where that is not
    known."""
    pieces, piece = anatomy.pieces, anatomy.pieces[chosen]
    details, whole = Details(cells), range(piece.first, piece.last + 1)
    after_end = _is_after_end(anatomy, piece.last)
    lines = fmt.count(len(whole) - after_end, "line")
    details.say("size", f"{piece.tokens} tokens in {lines}", (f" (limit {anatomy.chunk_tokens})", "dim"))
    if after_end:
        number = anatomy.lines[piece.last].number
        details.say("", (f"{number} is the empty text after the last line end, not a line", "dim"))
    repeats = [f"{piece.overlap} tokens of chunk {chosen}"] * (piece.overlap > 0)
    if chosen + 1 < len(pieces) and (after := pieces[chosen + 1].overlap):
        repeats.append(f"chunk {chosen + 2} repeats {after} of these")
    how = f" (overlap {anatomy.chunk_overlap}, in whole lines)" * (bool(repeats) and not piece.partial)
    details.say("repeats", "; ".join(repeats) or "nothing; no chunk repeats it", (how, "dim"))
    if anatomy.source != "sessions":
        above: Heads = []
        for head in (one for one in heads if one[0] <= piece.first):
            above = [one for one in above if one[1] < head[1]] + [head]
        path = " › ".join(fmt.inert(title, 60) for _, _, title in above)
        at_head = bool(above) and above[-1][0] == piece.first
        details.say("begins", ("at the heading " if at_head else "within ", "dim"), path or "no section")
        inside = [fmt.inert(title, 60) for number, _, title in heads if piece.first < number <= piece.last]
        if inside:
            details.say(
                "sections",
                (f"{len(inside)} begin{'s' * (len(inside) == 1)} in it: ", "dim"),
                ", ".join(inside),
            )
    if not piece.partial:
        texts = [at for at in whole if anatomy.lines[at].text.strip()]
        hidden = sum(at in anatomy.hidden for at in texts)
        if hidden:
            never = f"{'is' if hidden == 1 else 'are'} never sent in full"
            details.say(
                "not sent", (f"{hidden} of {fmt.count(len(texts), 'non-blank line')} {never}", "warn")
            )
        else:
            details.say("sent", "every line fits in a snippet")
    ways = {"BM25": piece.keyword, "vectors": piece.embedded}
    missing = " or ".join(name for name, yes in ways.items() if not yes)
    by = " and ".join(name for name, yes in ways.items() if yes)
    why = "" if piece.embedded else " (no embedding was made yet, or the model has none for its text)"
    details.say("found by", by, (f"{by and '; '}not by {missing}{why}" if missing else "", "warn"))
    if query:
        details.say("query", ("“", "faint"), fmt.inert(query, 80), ("”: ", "faint"), _outcome(found))
    return details.lines


def _outcome(row: Row | None) -> tuple[str, str]:
    """What the last search made of a chunk."""
    if row is None:
        return "not a candidate", "dim"
    if row.returned:
        return f"{fmt.ranked(row.outcome.rank)}, score {fmt.score(row.final)}", "good"
    return f"not returned ({fmt.message(row.outcome.reason or '')})", "bad"


def text(anatomy: Anatomy, chosen: int, cells: int) -> list[Line]:
    """The text of the chunk at ``chosen`` and of both its neighbours, with their edges."""
    if not anatomy.pieces:
        return wrapped(line(("This file has no text to split.", "dim")), cells)
    shown = range(max(0, chosen - 1), min(len(anatomy.pieces), chosen + 2))
    piece = anatomy.pieces[chosen]
    if piece.partial:
        return _partial(anatomy, chosen, cells)
    first = min(anatomy.pieces[at].first for at in shown)
    last = max(anatomy.pieces[at].last for at in shown)
    gutter = max(3, len(str(anatomy.lines[last].number)))
    made: list[Line] = []
    if anatomy.lines[:first]:
        made.append(line((f"   … {fmt.count(first, 'line')} above", "faint")))
    for index in range(first, last + 1):
        if piece.first + _LINES_KEPT < index < piece.last - _LINES_KEPT:
            if index == piece.first + _LINES_KEPT + 1:
                hidden = piece.last - piece.first - 2 * _LINES_KEPT - 1
                made.append(line((f"   … {fmt.count(hidden, 'line')} of this chunk", "faint")))
            continue
        for at in shown:
            if anatomy.pieces[at].first == index:
                made.append(_begins(anatomy, at, at == chosen, piece.first <= index <= piece.last, cells))
        made.extend(_numbered(anatomy, index, chosen, shown, gutter, cells))
        for at in shown:
            if anatomy.pieces[at].last == index:
                made.append(_ends(at, at == chosen, piece.first <= index < piece.last, cells))
    below = len(anatomy.lines) - last - 1
    if below > 0:
        made.append(line((f"   … {fmt.count(below, 'line')} below", "faint")))
    return made


def first_of(lines: Sequence[Line]) -> int:
    """The drawn line at which the selected chunk begins."""
    return next((at for at, row in enumerate(lines) if row and row[0].text.startswith("┏")), 0)


def _begins(anatomy: Anatomy, at: int, selected: bool, within: bool, cells: int) -> Line:
    piece = anatomy.pieces[at]
    title = f" chunk {at + 1} · lines {lines_of(piece)} "
    after = anatomy.pieces[at + 1].overlap if at + 1 < len(anatomy.pieces) else 0
    shared = [(tokens, number) for tokens, number in ((piece.overlap, at), (after, at + 2)) if tokens]
    if shared and selected:
        (tokens, number), *more = shared
        with_first = f"· shares {fmt.count(tokens, 'token')} with chunk {number}"
        shares = "".join((with_first, *(f", {tokens} with chunk {number}" for tokens, number in more), " "))
        fits = fmt.width_of(title + shares) <= cells - 2
        title += shares if fits else shares.replace("with chunk", "with")
    return _rule("┏━" if selected else "┌", title, selected, within, cells)


def _ends(at: int, selected: bool, within: bool, cells: int) -> Line:
    return _rule("┗━" if selected else "└", f" end of chunk {at + 1} ", selected, within, cells)


def _rule(start: str, title: str, selected: bool, within: bool, cells: int) -> Line:
    """Of the selected chunk from the first column on, of a neighbour from the second on, as their bars;
    ``within`` the selected one, whose bar goes on."""
    stroke, role, title_role = ("━", "accent", "strong") if selected else ("─", "faint", "dim")
    bar = ("", "") if selected else ("┃" if within else " ", "accent")
    rest = max(0, cells - 2 - fmt.width_of(title))
    return fit(line(bar, (start, role), (title, title_role), (stroke * rest, role)), cells)


def _numbered(anatomy: Anatomy, index: int, chosen: int, shown: range, gutter: int, cells: int) -> list[Line]:
    inside = [at for at in shown if anatomy.pieces[at].first <= index <= anatomy.pieces[at].last]
    mine, other = chosen in inside, any(at != chosen for at in inside)
    number, content = anatomy.lines[index]
    role = "text" if other and mine else "" if mine else "faint"
    if _is_after_end(anatomy, index):
        content, role = "(empty: after the last line end)", "faint"
    rows = wrapped(line((fmt.inert(content), role)), max(8, cells - gutter - 6), 2)
    bars = Span("┃" if mine else " ", "accent"), Span("│ " if other else "  ", "text" if mine else "faint")
    mark = Span(f" {_HIDDEN if index in anatomy.hidden else ' '} ", "warn")
    return [
        (*bars, Span(fmt.right("" if at else str(number), gutter), "faint"), mark, *row)
        for at, row in enumerate(rows)
    ]


def _partial(anatomy: Anatomy, chosen: int, cells: int) -> list[Line]:
    """A chunk that is a part of an over-long line: its own text."""
    piece = anatomy.pieces[chosen]
    made = [_begins(anatomy, chosen, True, False, cells)]
    note = f"part of line {piece.start_line}, which is longer than a chunk"
    made.append(line(("┃ ", "accent"), (note, "dim")))
    for row in fmt.inert_lines(piece.text, limit=20_000):
        made.extend((Span("┃ ", "accent"), *part) for part in wrapped(line(row), max(8, cells - 3)))
    return [*made, _ends(chosen, True, False, cells)]


def status(anatomy: Anatomy, chosen: int, cells: int, activity: Activity) -> Line:
    """What was said last; else which chunk is selected, and how many of them can be found, and how."""
    if activity.said:
        return brief(reported(activity.said, GOOD), cells)
    pieces = anatomy.pieces
    if not pieces:
        return spread(line(GOOD, ("no chunk", "dim")), (), cells)
    keyword, vector = sum(piece.keyword for piece in pieces), sum(piece.embedded for piece in pieces)
    found = f"BM25 {keyword:,} of {len(pieces):,} · vector {vector:,} of {len(pieces):,} "
    whole = keyword == vector == len(pieces)
    at = f"chunk {chosen + 1:,} of {len(pieces):,} · {fmt.count(pieces[chosen].tokens, 'token')}"
    return spread(line(GOOD, (at, "dim")), line((found, "dim" if whole else "warn")), cells)


def numbered(texts: Sequence[str], cells: int) -> list[Line]:
    """The lines of a file of which no chunk is known."""
    return [
        row
        for number, text in enumerate(texts, 1)
        for row in wrapped(line((f"{number:5}   ", "faint"), text), cells - 1, 8)
    ]
