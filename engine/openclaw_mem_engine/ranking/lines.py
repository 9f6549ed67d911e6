"""The lines of a chunk as a reader sees them: their numbers in the note, and which of them say something."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from openclaw_mem_engine.model import snippet_of, utf16_length

_HEADING = re.compile(r"\s{0,3}#{1,6}(\s|$)")
#: A heading, a fence mark, or no word at all.
_SILENT = re.compile(rf"(?!\w)(?:{_HEADING.pattern}|\s*(```|~~~)|\W*$)")
_RULE = re.compile(r"-{3,}\s*$")


class NoteLine(NamedTuple):
    """One line of a note, or a piece of an over-long one. ``number`` is 1-based in the file.
    ``says_something`` is False for headings, front matter, fences, rules and blank lines."""

    number: int
    text: str
    says_something: bool
    is_heading: bool


class Numbered(Protocol):
    """A text with the numbers of its first and last line in the note, 1-based."""

    @property
    def start_line(self) -> int: ...
    @property
    def end_line(self) -> int: ...
    @property
    def text(self) -> str: ...


def note_lines(chunk: Numbered) -> list[NoteLine]:
    """The lines of a chunk's text (``text.split("\\n")``), in their order."""
    texts = chunk.text.split("\n")
    silent = silent_lines(texts, chunk.start_line)
    numbered = enumerate(zip(_numbers(chunk, texts), texts, strict=True))
    return [NoteLine(*line, at not in silent, silent.get(at, False)) for at, line in numbered]


def silent_lines(texts: list[str], start_line: int) -> dict[int, bool]:
    """The indexes of the lines of a chunk that say nothing, in their order, and whether each is a heading. Of
    a chunk that has nothing but headings, these say something."""
    matter = _front_matter(texts) if start_line == 1 else 0
    silent = {
        at: at >= matter and _HEADING.match(texts[at]) is not None
        for at, found in enumerate(map(_SILENT.match, texts))
        if found or at < matter
    }
    if len(silent) == len(texts):
        return {at: False for at, is_heading in silent.items() if not is_heading}
    return silent


def _front_matter(texts: list[str]) -> int:
    """How many lines the front matter takes, 0 without one."""
    if not _RULE.match(texts[0]):
        return 0
    return next((at + 1 for at, text in enumerate(texts) if at and _RULE.match(text)), 0)


def _numbers(chunk: Numbered, texts: list[str]) -> list[int]:
    """The number of each line. A line longer than a chunk is cut into pieces of equal length with the same
    number: where there are more texts than lines, the longest are those that go on in the next one."""
    extra = len(texts) - (chunk.end_line - chunk.start_line + 1)
    going_on = set(sorted(range(len(texts) - 1), key=lambda at: -len(texts[at]))[: max(0, extra)])
    numbers, number = [], chunk.start_line
    for at in range(len(texts)):
        numbers.append(number)
        number += at not in going_on
    return numbers


def best_of(lines: Sequence[NoteLine], scores: Sequence[float]) -> int | None:
    """The index of the best line that says something; None when no such line has a score."""
    usable = [at for at, line in enumerate(lines) if line.says_something and scores[at] > 0]
    return max(usable, key=lambda at: (scores[at], -at), default=None)


def excerpt_of(text: str, words: Iterable[str], most: int) -> str:
    """A line, or of a longer one the ``most`` UTF-16 units that hold the most different ``words``: the first
    such part that begins at a word."""
    if utf16_length(text) <= most:
        return text
    pattern = "|".join(re.escape(word) for word in words)
    found = [(m.start(), m[0].casefold()) for m in re.finditer(pattern, text, re.I)] if pattern else []
    best, start = 0, 0
    for at, _ in found:
        inside = {word for place, word in found if at <= place < at + most * 3 // 4}
        if len(inside) > best:
            best, start = len(inside), at
    if start + most >= len(text):
        start = max(0, len(text) - most)
    elif start:
        start = max(0, start - most // 8)
    if start and " " in text[start : start + most // 8]:
        start = text.index(" ", start) + 1
    return snippet_of(text[start:], most)
