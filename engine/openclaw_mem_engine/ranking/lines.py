"""The lines of a chunk as a reader sees them: their numbers in the note, and which of them say something."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Protocol

from openclaw_mem_engine.model import snippet_of, utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple

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


class ScoredLines(NamedTuple):
    """The score of each line of a chunk, 0–1. ``order`` are the indexes of those that say something, best
    first, ``units`` the most UTF-16 units that the first n of these take with all that can stand between."""

    values: Sequence[float]
    order: Sequence[int]
    units: Sequence[int]

    @property
    def best(self) -> float:
        """The score of the best line."""
        return self.values[self.order[0]]

    @property
    def best_line(self) -> int | None:
        """The index of the best line that says something; None when no such line has a score."""
        return self.order[0] if self.order and self.best > 0 else None


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
    numbers = _numbers(chunk, texts)
    return [
        NoteLine(numbers[at], text, at not in silent, silent.get(at, False)) for at, text in enumerate(texts)
    ]


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


def _numbers(chunk: Numbered, texts: list[str]) -> Sequence[int]:
    """The number of each line. A line longer than a chunk is cut into pieces of equal length with the same
    number: where there are more texts than lines, the longest are those that go on in the next one."""
    extra = len(texts) - (chunk.end_line - chunk.start_line + 1)
    if extra <= 0:
        return range(chunk.start_line, chunk.start_line + len(texts))
    going_on = set(sorted(range(len(texts) - 1), key=lambda at: -len(texts[at]))[:extra])
    numbers, number = [], chunk.start_line
    for at in range(len(texts)):
        numbers.append(number)
        number += at not in going_on
    return numbers


#: A gap mark and two line ends.
_BETWEEN = 3


def scored_lines(lines: Sequence[NoteLine], values: Sequence[float]) -> ScoredLines:
    """The lines of a chunk with a score each."""
    order = sorted((at for at, line in enumerate(lines) if line.says_something), key=lambda at: -values[at])
    sizes = [(len(text) if text.isascii() else 2 * len(text)) + _BETWEEN for _, text, *_ in lines]
    silent = sum(sizes) - sum(sizes[at] for at in order)
    return ScoredLines(values, order, [*accumulate((sizes[at] for at in order), initial=silent)])


def excerpt_of(text: str, words: Iterable[str], most: int) -> str:
    """A line, or of a longer one the ``most`` UTF-16 units that hold the most different ``words``: the first
    such part that begins at a word."""
    if 2 * len(text) <= most or utf16_length(text) <= most:
        return text
    pattern = "|".join(re.escape(word) for word in words)
    found = [(m.start(), m[0].casefold()) for m in re.finditer(pattern, text, re.I)] if pattern else []
    best, start, end = 0, 0, 0
    inside = Counter[str]()  # the words from one match on, within three quarters of what is shown
    for at, word in found:
        while end < len(found) and found[end][0] < at + most * 3 // 4:
            inside[found[end][1]] += 1
            end += 1
        if len(inside) > best:
            best, start = len(inside), at
        inside[word] -= 1
        if inside[word] <= 0:
            del inside[word]
    if start + most >= len(text):
        start = max(0, len(text) - most)
    elif start:
        start = max(0, start - most // 8)
    if start and " " in text[start : start + most // 8]:
        start = text.index(" ", start) + 1
    return snippet_of(text[start:], most)
