"""A styled line as data: pieces of text, each with a role. Widgets turn roles into colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

from rich.cells import cell_len, get_character_cell_size, set_cell_size

from openclaw_mem_tui.bindings import reach
from openclaw_mem_tui.render.format import POINTER, crop, inert, inert_lines, join, message


class Span(NamedTuple):
    """``role`` is one or more names of ``ROLES``, separated by spaces; empty is the plain text colour.
    ``action`` is what a click on it does, as Textual names actions of the screen; a span with role ``key``
    needs none."""

    text: str
    role: str = ""
    action: str = ""


Line = tuple[Span, ...]
#: What is left of a selected row.
_POINTER = Span(*POINTER[True])
#: How to read a screen: signs with their meaning.
Reading = Sequence[tuple[str, str]]

#: What a role means; the style sheets give each a colour or an attribute (``.role--NAME``).
ROLES = (
    "strong",  # what the eye should find first
    "dim",  # secondary
    "faint",  # rules, separators, zeros
    "accent",  # the one colour: selection, keys, what was changed
    "good",  # came up, passes
    "bad",  # went down, was dropped
    "warn",  # degraded service
    "match",  # a matched term: underlined, never by colour alone
    "vector",  # bar of a vector list
    "text",  # bar of a lexical list
    "sum",  # bar of a total
    "key",  # a key to press
    "reversed",  # a mark on a bar: the two colours exchanged
)


def line(*parts: Span | tuple[str, ...] | str) -> Line:
    """A line from spans, (text, role) pairs and plain strings; empty parts are left out."""
    made = (Span(p) if isinstance(p, str) else Span(*p) for p in parts)
    return tuple(span for span in made if span.text)


def keyed(text: str, role: str = "dim") -> Line:
    """A sentence of ours, in which what is in backticks is a key to press."""
    return line(*((part, "key" if at % 2 else role) for at, part in enumerate(text.split("`"))))


def text_of(spans: Iterable[Span]) -> str:
    return "".join(span.text for span in spans)


def unpointed(spans: Iterable[Span]) -> Line:
    """A row without the pointer of a selected one."""
    return tuple(span._replace(text=POINTER[False][0]) if span == _POINTER else span for span in spans)


def width(spans: Iterable[Span]) -> int:
    return sum(cell_len(span.text) for span in spans)


def clauses(spans: Sequence[Span], cells: int) -> Line:
    """All of a text, or as many whole clauses as there is room for: it may be none."""
    return tuple(spans) if width(spans) <= cells else _until(_CLAUSE, spans, cells)


def _until(ends: re.Pattern[str], spans: Sequence[Span], cells: int) -> Line:
    """What is before the last one of the ``ends`` that there is room for; empty where that is none."""
    found = [end.start() for end in ends.finditer(text_of(spans))]
    made = (slice_of(spans, 0, end) for end in reversed(found))
    return next((some for some in made if width(some) <= cells), ())


def cut(spans: Sequence[Span], cells: int) -> Line:
    """The first words of a text that has more, of a long word its beginning, and the key that shows all of
    it, in at most ``cells``. Nothing of a sentence that does not end there, where most was said before it."""
    end = line(" ", (reach("messages"), "key"), (" show all", "dim"))
    room = cells - width(end)
    words = wrapped(spans, room - 2)[0]
    said = _until(_SENTENCE, spans, width(words))
    words = said if 2 * width(said) >= width(words) else words
    if 2 * width(words) < min(room, width(spans)):
        return (*fit(spans, room), *end)
    return (*words, Span(" …", "dim"), *end)


def brief(spans: Sequence[Span], cells: int) -> Line:
    """Exactly ``cells`` wide: all of a message, or its first words and the key that shows all of it."""
    return fit(spans if width(spans) <= cells else cut(spans, cells - 1), cells)


class Failed(str):
    """A sentence about what failed."""

    __slots__ = ()


#: The signs at the start of every status line: all is well, something is degraded, something has failed.
GOOD, DEGRADED, BROKEN = Span(" ● ", "good"), Span(" ! ", "warn"), Span(" ✗ ", "bad")


def parted(*parts: Line) -> Line:
    """Those that there are, with a mark between two."""
    return line(*(span for part in parts if part for span in (Span(" · ", "faint"), *part)))[1:]


def worst_first(worse: Line, *states: Line) -> Line:
    """What is known of the state of an index. Beside what is ``worse`` than all of them, errors of the
    doctor, what is good is left out, and the others have no colour."""
    if worse:
        rest = (state for state in states if state and state[0].role != "good")
        states = tuple(
            tuple(span._replace(role=span.role.replace("warn", "dim")) for span in state) for state in rest
        )
    return parted(worse, *states)


def reported(text: str, sign: Span, role: str = "") -> Line:
    """What was said last, with its ``sign``, or that of a failure."""
    return line(BROKEN if isinstance(text, Failed) else sign, (inert(text), role))


def spoken(trouble: str, said: str, runs: str, position: str) -> Line:
    """What went wrong; else what was said last and what runs; else the ``position`` in a list."""
    if trouble:
        return line(BROKEN, (message(trouble), "bad"))
    now = join((said, runs)) if runs else said
    return reported(now or position, GOOD, "dim")


def fit(spans: Sequence[Span], cells: int) -> Line:
    """Exactly ``cells`` wide: padded, or cut with an ellipsis."""
    used = width(spans)
    if used <= cells:
        return (*spans, Span(" " * (cells - used))) if used < cells else tuple(spans)
    kept: list[Span] = []
    room = cells
    for span in spans:
        size = cell_len(span.text)
        if size >= room:
            kept.append(span._replace(text=crop(span.text + " " * (size == room), room)))
            room -= cell_len(kept[-1].text)
            break
        kept.append(span)
        room -= size
    return (*kept, Span(" " * room)) if room > 0 else tuple(kept)


def spread(start: Sequence[Span], end: Sequence[Span], cells: int) -> Line:
    """``start`` at the left edge and ``end`` at the right; the start gives way when room is short, and a
    blank parts it from the end."""
    room = cells - width(end)
    if room < 1:
        return fit(end, cells)
    if end and width(start) > room - 1 and end[0].text[:1] != " ":
        return (*fit(start, room - 1), Span(" "), *end)
    return (*fit(start, room), *end)


def _parts(before: str, wide: str) -> bool:
    """Whether a line may end before a wide character: a letter or an opening bracket, not behind another."""
    return (wide.isalpha() or category(wide) == "Ps") and category(before) != "Ps"


@lru_cache(512)  # a move of the selection draws most lines of a note again
def wrap_spans(text: str, width: int, indent: int = 0) -> Sequence[tuple[int, int]]:
    """Lines of at most ``width`` cells (after the first: ``indent`` less), cut at spaces or before a wide
    letter where there are any, else after a slash in their second half: character ranges that cover the text
    without a gap, at least one."""
    width = max(1, width)
    if text.isascii() and len(text) <= width:
        return [(0, len(text))]
    spans: list[tuple[int, int]] = []
    start, used, after_space, after_slash = 0, 0, -1, -1
    index = 0
    while index < len(text):
        cells = get_character_cell_size(text[index])
        if cells > 1 and _parts(text[index - 1], text[index]):
            after_space = index
        if used + cells > width and text[index] != " ":
            cut = after_space if after_space > start else max(index, start + 1)
            if after_space <= start and 2 * (after_slash - start) > index - start:
                cut = after_slash
            spans.append((start, cut))
            if len(spans) == 1:
                width = max(1, width - indent)
            start, after_space = cut, -1
            used = cell_len(text[cut:index])
            if cut > index:
                index = cut
            continue
        used += cells
        index += 1
        if text[index - 1] == " ":
            after_space = index
        elif text[index - 1] == "/":
            after_slash = index
    if start < len(text) or not spans:
        spans.append((start, len(text)))
    return spans


def wrapped(spans: Sequence[Span], cells: int, indent: int = 0, *, verbatim: bool = False) -> list[Line]:
    """The spans over as many lines as needed; lines after the first begin with ``indent`` blanks. A separator
    at which a line is cut is not drawn: the end of the line separates. The text of a note keeps its own
    (``verbatim``)."""
    whole = text_of(spans)
    made: list[Line] = []
    for start, stop in wrap_spans(whole, max(4, cells), min(indent, max(0, cells - 4))):
        # Nor is the blank at which it was cut, which may stand past the edge.
        end = stop - (1 if stop < len(whole) and whole[stop - 1] == " " else 0)
        if made and not verbatim and whole[start:end].startswith("· "):
            start += 2
        if end < stop and not verbatim and whole[start:end].endswith(" ·"):
            end -= 2
        piece = slice_of(spans, start, end)
        made.append((Span(" " * indent), *piece) if indent and made else piece)
    return made


def balanced(spans: Sequence[Span], cells: int, indent: int = 0) -> list[Line]:
    """As many lines as ``wrapped`` makes; they are narrower where the last one would have a single word."""
    made = wrapped(spans, cells, indent)
    for less in range(cells - 1, cells // 2, -1):
        narrow = wrapped(spans, less, indent)
        if " " in text_of(made[-1]).strip() or len(narrow) > len(made):
            break
        made = narrow
    return made


# Where a sentence ends, with its full stop; where a clause does.
_SENTENCE = re.compile(r"(?<=\.) | ·")
_CLAUSE = re.compile(r"(?<=\.) |[;:,]? [(·]|[;:,] ")

# A list item goes on below its text, not below its bullet.
_HANGING = re.compile(r"\s*(?:[-*+>] |\d+[.)] )?")


def hanging(spans: Sequence[Span], cells: int) -> list[Line]:
    """A line of a note over as many lines as needed."""
    text = text_of(spans)
    indent = min(len(_HANGING.match(text)[0]), 8, cells // 4)  # type: ignore[index]
    return wrapped(spans, cells, indent, verbatim=True)


def diff_lines(diff: str, cells: int, most: int) -> list[Line]:
    """The first ``most`` lines of a unified diff, each coloured by its sign, which a blank separates from the
    text; long ones are wrapped. Of several files each begins with its name; one is named beside it."""
    texts = inert_lines(diff.rstrip("\n"))
    roles, made = {"+": "good", "-": "bad", "@": "faint"}, list[Line]()
    # A removed "-- text" is a line "--- text" too.
    heads = [at for at in range(len(texts)) if [t[:3] for t in texts[at : at + 3]] == ["---", "+++", "@@ "]]
    for at, text in enumerate(texts[:most]):
        if at in heads or at - 1 in heads:
            if at in heads and len(heads) > 1:
                named = text if texts[at + 1] == "+++ /dev/null" else texts[at + 1]
                made.append(line((named[len("+++ b/") :], "strong")))
            continue
        signed = text[:1] in ("+", "-", " ")
        role = roles.get(text[:1], "dim")
        first = Span(f"{text[:1]} " if signed else "", role)
        for row in hanging(line((text[signed:], role)), max(8, cells - 3)):
            made.append((first, *row))
            first = Span("  ")
    return [*made, line((f"… {len(texts) - most:,} more lines", "dim"))] if len(texts) > most else made


class Details:
    """All about one thing: lines of a label and a text that is wrapped beside it."""

    def __init__(self, cells: int) -> None:
        self.lines: list[Line] = []
        self._cells = cells - 1  # the scroll bar touches no text

    def say(self, label: str | Span, *parts: Span | tuple[str, str] | str) -> None:
        text, role, _ = label if isinstance(label, Span) else Span(label, "dim")
        head = Span(set_cell_size(text, 9) + " ", role)
        for piece in wrapped(line(*parts), max(8, self._cells - 10)):
            self.lines.append((head, *piece))
            head = Span(" " * 10)


def slice_of(spans: Sequence[Span], start: int, stop: int) -> Line:
    """The characters ``start`` to ``stop`` of a line, roles kept."""
    kept: list[Span] = []
    at = 0
    for span in spans:
        text = span.text[max(0, start - at) : max(0, stop - at)]
        if text:
            kept.append(span._replace(text=text))
        at += len(span.text)
    return tuple(kept)
