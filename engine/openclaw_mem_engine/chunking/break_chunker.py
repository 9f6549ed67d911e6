"""The chunker of QMD: texts are cut at the best break point before a size, and chunks overlap.

Sizes are UTF-16 code units, and a cut never separates a surrogate pair, so that chunks agree with indexes of
QMD 2.8.3. Positions in results are code points of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import ClassVar, Final

from openclaw_mem_engine.chunking.line_chunker import is_blank, limits_of
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import ChunkSpan
from openclaw_mem_engine.named_tuple import NamedTuple

TOKENS: Final = 900
OVERLAP_TOKENS: Final = 135
WINDOW_TOKENS: Final = 200
#: Estimated units of a token.
UNITS: Final = 4
#: How much of its score a break point loses at the far end of the window.
DECAY: Final = 0.7
#: A code block that is kept whole makes a chunk of at most so many times the size.
CODE_CAP: Final = 2

#: Pattern, score and kind of a break point, which lies on the newline that the pattern starts with.
_PATTERNS = tuple(
    (re.compile(pattern), score, kind)
    for pattern, score, kind in (
        *((rf"\n#{{{level}}}(?!#)", 110 - 10 * level, f"h{level}") for level in range(1, 7)),
        (r"\n```", 80, "codeblock"),
        (r"\n(?:---|\*\*\*|___)\s*\n", 60, "hr"),
        (r"\n\n+", 20, "blank"),
        (r"\n[-*]\s", 5, "list"),
        (r"\n[0-9]+\.\s", 5, "numlist"),
        (r"\n", 1, "newline"),
    )
)
_FENCE = re.compile(r"\n```")
#: Also a fence on the first line, which the program does not see.
_ANY_FENCE = re.compile(r"(?:\A|\n)```")
_PAIR = re.compile("[\U00010000-\U0010ffff]")


class BreakPoint(NamedTuple):
    """A position where a text may be cut, and how good that is."""

    pos: int
    score: float
    kind: str


class Fence(NamedTuple):
    """A code block: from the newline before it to the end of its closing marks, or of the text."""

    start: int
    end: int


class Piece(NamedTuple):
    """A part of a text. ``pos``: where it starts in the text, in code points."""

    pos: int
    text: str


@dataclass(frozen=True, slots=True)
class BreakChunker:
    """Contract: ``chunking.Chunker``. ``tokens`` and ``overlap`` are estimates of four units each."""

    name: ClassVar[str] = "breaks"
    tokens: int = TOKENS
    overlap: int = OVERLAP_TOKENS

    def __post_init__(self) -> None:
        limits_of(self.tokens, self.overlap)

    def chunks(self, text: str) -> list[ChunkSpan]:
        """The chunks without the newlines around them; those of white space alone are left out."""
        size, overlap = limits_of(self.tokens, self.overlap)
        spans = []
        line = 1
        counted = 0
        for pos, piece in cut(text, size, overlap, size * WINDOW_TOKENS // TOKENS):
            start = pos + len(piece) - len(piece.lstrip("\n"))
            line += text.count("\n", counted, start)
            counted = start
            shown = piece.strip("\n")
            if not is_blank(shown):
                spans.append(ChunkSpan(shown, line, line + shown.count("\n")))
        return spans


def break_points(text: str) -> list[BreakPoint]:
    """Where ``text`` may be cut, in order; at one position the best kind. ``#tag`` counts as a heading."""
    best: dict[int, BreakPoint] = {}
    for pattern, score, kind in _PATTERNS:  # from the best score down, so the first one stays
        for found in pattern.finditer(text):
            best.setdefault(found.start(), BreakPoint(found.start(), score, kind))
    return sorted(best.values())


def code_fences(text: str, *, first_line: bool = False) -> list[Fence]:
    """The code blocks: each ````` ``` ````` at the begin of a line opens or closes one; one without an
    end runs to that of the text. ``first_line``: also look there. QMD does not, so that in a text that begins
    with a code block it takes the prose for code."""
    marks = [(m.start(), m.end()) for m in (_ANY_FENCE if first_line else _FENCE).finditer(text)]
    closed = [Fence(start, end) for (start, _), (_, end) in zip(marks[::2], marks[1::2], strict=False)]
    return [*closed, Fence(marks[-1][0], len(text))] if len(marks) % 2 else closed


def best_cutoff(
    points: Sequence[BreakPoint],
    target: int,
    window: int,
    decay: float = DECAY,
    fences: Sequence[Fence] = (),
) -> int:
    """The best position in ``target - window .. target`` by ``score * (1 - (distance / window)² * decay)``;
    ``target`` itself when there is none outside of code blocks. The first of equals wins."""
    best, highest = target, -1.0
    first = bisect_left(points, target - window, key=attrgetter("pos"))
    for point in points[first : bisect_right(points, target, key=attrgetter("pos"))]:
        score = point.score * (1.0 - ((target - point.pos) / window) ** 2 * decay)
        if score > highest and _around(fences, point.pos) is None:
            best, highest = point.pos, score
    return best


def _around(fences: Sequence[Fence], pos: int) -> Fence | None:
    """The code block that a cut at ``pos`` would separate."""
    index = bisect_left(fences, pos, key=attrgetter("start")) - 1
    return fences[index] if index >= 0 and pos < fences[index].end else None


def cut(
    text: str,
    max_chars: int = TOKENS * UNITS,
    overlap_chars: int = OVERLAP_TOKENS * UNITS,
    window_chars: int = WINDOW_TOKENS * UNITS,
    *,
    keep_code: bool = False,
) -> list[Piece]:
    """The pieces of ``text``, in order; one for a text of at most ``max_chars``. Each is at most that long
    and repeats ``overlap_chars`` of the one before it. All sizes are UTF-16 units, ``max_chars`` >= 1.

    ``keep_code``: no cut lies inside of a code block, unless its piece would be longer than ``CODE_CAP``
    times ``max_chars``; a piece that starts after a code block repeats nothing of it."""
    if max_chars < 1:
        raise UsageError(f"A chunk must have 1 unit or more, not {max_chars}.")
    units = _in_units(text)
    if len(units) <= max_chars:
        return [Piece(0, text)]
    points, fences = break_points(units), code_fences(units, first_line=keep_code)
    spans: list[tuple[int, int]] = []
    start = end = 0
    while end < len(units):
        target = min(start + max_chars, len(units))
        end = target
        if target < len(units):
            found = best_cutoff(points, target, window_chars, DECAY, fences)
            end = _outside_pair(units, found if found > start else target, start)
            block = _around(fences, end) if keep_code else None
            if block is not None and block.end - start <= max_chars * CODE_CAP:
                end = block.end
            elif block is not None and block.start > start:
                end = block.start
        spans.append((start, end))
        following = end - overlap_chars if end - overlap_chars > start else end
        if keep_code and _around(fences, following) is not None and _around(fences, end) is None:
            following = end
        start = _outside_pair(units, following, start)
    return _pieces(text, units, spans)


def _in_units(text: str) -> str:
    """The text with one character for each UTF-16 unit: itself, when it has none above U+FFFF."""
    return _PAIR.sub(_halves, text)


def _halves(found: re.Match[str]) -> str:
    data = found[0].encode("utf-16-be")
    return chr(data[0] << 8 | data[1]) + chr(data[2] << 8 | data[3])


def _outside_pair(units: str, pos: int, after: int) -> int:
    """``pos``; where it separates a surrogate pair one less, or one more if that is not above ``after``."""
    if 0 < pos < len(units) and units[pos - 1] in _HIGH and units[pos] in _LOW:
        return pos - 1 if pos - 1 > after else pos + 1
    return pos


_HIGH = frozenset(map(chr, range(0xD800, 0xDC00)))
_LOW = frozenset(map(chr, range(0xDC00, 0xE000)))


def _pieces(text: str, units: str, spans: Sequence[tuple[int, int]]) -> list[Piece]:
    if len(units) == len(text):
        return [Piece(start, text[start:end]) for start, end in spans]
    pieces, pos, counted = [], 0, 0
    for start, end in spans:
        pos += len(_whole(units[counted:start]))
        counted = start
        pieces.append(Piece(pos, _whole(units[start:end])))
    return pieces


def _whole(units: str) -> str:
    return units.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
