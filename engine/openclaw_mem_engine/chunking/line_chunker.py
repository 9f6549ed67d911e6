"""The line chunker: whole lines are packed into chunks of about ``tokens`` tokens (four characters each).

Lengths are UTF-16 code units, so that spans, texts and hashes agree with indexes that were written by a
program whose strings are UTF-16. One thing differs on purpose: a line that is too long is never cut inside
of a surrogate pair. The cut is then one unit earlier, because half a character can neither be stored nor be
embedded.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, count
from operator import add
from typing import ClassVar

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import ChunkSpan, utf16_length
from openclaw_mem_engine.sanitize import WHITE

DEFAULT_TOKENS = 400
DEFAULT_OVERLAP = 80

#: The estimate that the whole format rests on; it is not a tokenizer and knows nothing of scripts.
UNITS_PER_TOKEN = 4
#: A chunk may always hold this many units, however few tokens were asked for.
SMALLEST_LIMIT = 32


@dataclass(frozen=True, slots=True)
class LineChunker:
    """Contract: ``chunking.Chunker``. Sizes: see ``chunk_lines``. Raises UsageError as that does."""

    name: ClassVar[str] = "lines"
    tokens: int = DEFAULT_TOKENS
    overlap: int = DEFAULT_OVERLAP

    def __post_init__(self) -> None:
        limits_of(self.tokens, self.overlap)

    def chunks(self, text: str) -> list[ChunkSpan]:
        """The chunks that are worth storing: those which hold more than white space."""
        return [span for span in chunk_lines(text, self.tokens, self.overlap) if not is_blank(span.text)]


def chunk_lines(text: str, tokens: int = DEFAULT_TOKENS, overlap: int = DEFAULT_OVERLAP) -> list[ChunkSpan]:
    """Cut ``text`` into chunks in reading order; there is always at least one, also for ``""``.

    ``tokens`` (>= 1) sets the size: a chunk holds at most ``max(32, tokens * 4)`` UTF-16 units, one for the
    end of each line included. ``overlap`` (clamped to 0 .. tokens - 1) sets how much of the end of a chunk
    the next one repeats: whole lines, until they make ``overlap * 4`` units. The first new line after them is
    always taken, so a chunk of very long lines can reach twice its size and ``overlap * 4`` more.

    Lines end at ``\\n`` only. A line longer than a chunk is cut into pieces which all carry its number and
    are joined by ``\\n`` when two share a chunk. Raises ``UsageError`` when ``tokens`` is below 1 or when
    either number is not an integer.
    """
    limit, repeat = limits_of(tokens, overlap)
    pieces = _pieces(text, limit)
    offsets, numbers = pieces.offsets, pieces.numbers
    total = len(pieces.texts)
    found: list[ChunkSpan] = []
    first = fresh = 0  # first piece of the chunk; first piece of it that no chunk held before
    while fresh < total:
        fitting = bisect_right(offsets, offsets[first] + limit) - 1
        after = max(fresh + 1, fitting)
        found.append(ChunkSpan(pieces.joined(first, after), numbers[first], numbers[after - 1]))
        # A repeat of 0 gives `after` itself; otherwise the piece that crosses the limit is kept whole.
        first = max(first, bisect_right(offsets, offsets[after] - repeat) - 1)
        fresh = after
    return found


def is_blank(text: str) -> bool:
    """Whether a text is empty or all white space (a byte order mark counts as white space)."""
    return not text.strip(WHITE)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Lines, or parts of over-long lines, which the packing never cuts again."""

    texts: Sequence[str]
    #: ``offsets[i]``: units of the pieces before ``i``, with 1 for each line end; one entry more than pieces.
    offsets: Sequence[int]
    #: The 1-based line number of each piece.
    numbers: Sequence[int]
    #: The original text when ``offsets`` are also its character offsets: a chunk is then one slice of it.
    whole: str | None

    def joined(self, first: int, after: int) -> str:
        if self.whole is not None:
            return self.whole[self.offsets[first] : self.offsets[after] - 1]
        return "\n".join(self.texts[first:after])


def limits_of(tokens: int, overlap: int) -> tuple[int, int]:
    """The UTF-16 units of a chunk and of what it repeats. Raises UsageError as ``chunk_lines`` does."""
    for name, value in (("tokens", tokens), ("overlap", overlap)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"Chunk {name} must be an integer, not {value!r}.")
    if tokens < 1:
        raise UsageError(f"Chunk tokens must be 1 or more, not {tokens}.")
    kept = min(max(overlap, 0), tokens - 1)
    return max(SMALLEST_LIMIT, tokens * UNITS_PER_TOKEN), kept * UNITS_PER_TOKEN


def _pieces(text: str, limit: int) -> _Pieces:
    lines = text.split("\n")
    one_unit_each = text.isascii() or utf16_length(text) == len(text)
    lengths = list(map(len if one_unit_each else utf16_length, lines))
    if max(lengths) <= limit:
        return _Pieces(lines, _offsets(lengths), range(1, len(lines) + 1), text if one_unit_each else None)
    texts: list[str] = []
    numbers: list[int] = []
    for number, line in enumerate(lines, 1):
        if lengths[number - 1] <= limit:
            texts.append(line)
            numbers.append(number)
        else:
            parts = _cut(line, limit)
            texts.extend(parts)
            numbers.extend([number] * len(parts))
    return _Pieces(texts, _offsets(list(map(utf16_length, texts))), numbers, None)


def _offsets(lengths: Sequence[int]) -> list[int]:
    # Adding the index adds the 1 of every newline; all of it runs in C, which is what makes the chunker fast.
    return list(map(add, accumulate(lengths, initial=0), count()))


def _cut(line: str, limit: int) -> list[str]:
    """Pieces of ``limit`` UTF-16 units; one unit less where a surrogate pair lies across the cut."""
    if line.isascii():
        return [line[start : start + limit] for start in range(0, len(line), limit)]
    data = line.encode("utf-16-le", "surrogatepass")
    pieces: list[str] = []
    start = 0
    while start < len(data):
        end = min(start + 2 * limit, len(data))
        # The second byte of a little-endian unit tells the half: D8-DB opens a pair, DC-DF closes it.
        if end < len(data) and 0xD8 <= data[end - 1] <= 0xDB and 0xDC <= data[end + 1] <= 0xDF:
            end -= 2
        pieces.append(data[start:end].decode("utf-16-le", "surrogatepass"))
        start = end
    return pieces
