"""What no search can show of the indexed text: that follows from how it is cut, and how snippets are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import groupby, pairwise
from typing import Any, TypeVar

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import as_json, snippet_of, utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.lines import Numbered, silent_lines

T = TypeVar("T")


class Passage(NamedTuple):
    """A chunk, with the file that it is of."""

    path: str
    start_line: int
    end_line: int
    text: str


@dataclass(frozen=True, slots=True)
class Unshown:
    """How much text there is (UTF-16 units, and lines that are not blank), and how much of it is in no
    snippet, whatever the query: a line is hidden when no snippet shows it whole. Each part of a line that is
    longer than a chunk counts as one."""

    characters: int = 0
    lines: int = 0
    hidden_characters: int = 0
    hidden_lines: int = 0

    def __add__(self, other: Unshown) -> Unshown:
        return Unshown(
            self.characters + other.characters,
            self.lines + other.lines,
            self.hidden_characters + other.hidden_characters,
            self.hidden_lines + other.hidden_lines,
        )

    @property
    def share(self) -> float:
        """Hidden characters of all, 0–1."""
        return self.hidden_characters / self.characters if self.characters else 0.0

    @property
    def line_share(self) -> float:
        """Hidden lines of all, 0–1."""
        return self.hidden_lines / self.lines if self.lines else 0.0

    @property
    def text(self) -> str:
        """``38% of the text can never appear in a search result, 41% of the lines never in full``"""
        return f"{never_shown(self.share, 'the text')}, {percent(self.line_share)} of the lines never in full"

    def to_dict(self) -> dict[str, Any]:
        return as_json(self) | {"share": round(self.share, 4), "lineShare": round(self.line_share, 4)}


def cause(snippet_chars: int) -> str:
    """Why no search result shows a text: only with ``snippet=head`` is there such a text."""
    return f"snippets end after {snippet_chars:,} characters"


def never_shown(share: float, of: str) -> str:
    """``38% of MEMORY.md can never appear in a search result``"""
    return f"{percent(share)} of {of} can never appear in a search result"


def percent(share: float) -> str:
    """``37%``; a small share is not rounded to nothing, nor a large one to all."""
    if 0 < share < 0.01:
        return "under 1%"
    return f"{min(99, round(100 * share)) if share < 1 else 100}%"


def form_of(knobs: Knobs) -> str:
    """All that ``unshown_of`` needs to know of the knobs: equal forms give equal counts."""
    return f"head {knobs.snippet_chars}" if knobs.snippet == "head" else knobs.snippet


#: The forms of the snippets of profiles, for which an index keeps the counts.
KEPT = {form_of(knobs): knobs for knobs in (Knobs(), Knobs(snippet="packed"))}


def unshown_by_file(passages: Iterable[Passage], knobs: Knobs) -> dict[str, Unshown]:
    """Path to what no search can show of the file. ``passages`` are in the order of files and of reading."""
    by_file = groupby(passages, lambda passage: passage.path)
    return {path: unshown_of(list(chunks), knobs) for path, chunks in by_file}


def total(parts: Iterable[Unshown]) -> Unshown:
    return reduce(Unshown.__add__, parts, Unshown())


def by_file(files: Mapping[str, Unshown]) -> dict[str, Any]:
    """As JSON: the sum, and below ``files`` each file that has a line that no search can show."""
    hidden = {path: found.to_dict() for path, found in files.items() if found.hidden_lines}
    return total(files.values()).to_dict() | {"files": hidden}


def unshown_of(chunks: Sequence[Numbered], knobs: Knobs) -> Unshown:
    """What no search can show of the file that is cut into ``chunks``, in reading order.

    ``snippet=head``: what is beyond the head of its chunk and before the next chunk. ``best-line`` and
    ``window``: nothing, since every line can be the best or next to it. ``packed``: fence marks, rules and
    front matter, and headings that no line follows.
    """
    if not chunks:
        return Unshown()
    repeats = _repeats(chunks)
    new = [chunk.text[known:] for chunk, (_, known) in zip(chunks, repeats, strict=False)]
    return Unshown(*_size(new), *_size([part.text for part in _hidden(chunks, repeats, knobs)]))


def hidden_lines(chunks: Sequence[Numbered], knobs: Knobs) -> set[tuple[int, int]]:
    """The lines that ``unshown_of`` counts as hidden: the position of a chunk, and of a line in it."""
    return {
        (chunk, first + at)
        for chunk, first, text in _hidden(chunks, _repeats(chunks), knobs)
        for at, line in enumerate(text.split("\n"))
        if line.strip()
    }


class _Hidden(NamedTuple):
    """A text of the chunk at a position that no snippet shows; it begins on the ``line`` of that, from 0."""

    chunk: int
    line: int
    text: str


def _repeats(chunks: Sequence[Numbered]) -> list[tuple[int, int]]:
    return [(0, 0), *(_repeated(before, chunk) for before, chunk in pairwise(chunks))]


def _hidden(chunks: Sequence[Numbered], repeats: list[tuple[int, int]], knobs: Knobs) -> list[_Hidden]:
    if knobs.snippet == "packed":
        return _never_packed(chunks, repeats)
    hidden = []
    if knobs.snippet == "head":
        for at, (chunk, (lines, after)) in enumerate(zip(chunks, [*repeats[1:], (0, 0)], strict=False)):
            shown = len(snippet_of(chunk.text, knobs.snippet_chars))
            rest = chunk.text[shown : max(shown, len(chunk.text) - after + (lines > 0))]
            hidden.append(_Hidden(at, chunk.text.count("\n", 0, shown), rest))
    return hidden


def _size(texts: Sequence[str]) -> tuple[int, int]:
    """UTF-16 units, and lines that are not blank."""
    whole = "\n".join(texts)
    units = utf16_length(whole) - max(0, len(texts) - 1)
    return units, sum(map(bool, map(str.strip, whole.split("\n"))))


def _repeated(before: Numbered, chunk: Numbered) -> tuple[int, int]:
    """How much of the beginning of a chunk is also the end of the chunk before it: lines, and characters with
    the line ends."""
    lines = before.end_line - chunk.start_line + 1
    if lines <= 0:
        return 0, 0
    parts = chunk.text.split("\n", lines)[:lines]
    if not before.text.endswith("\n".join(("", *parts))):
        # Of an over-long line several parts have one number, and of a transcript several lines.
        parts = chunk.text.split("\n")
        parts = parts[: overlap(before.text.split("\n"), parts)]
    return len(parts), sum(map(len, parts)) + len(parts)


def overlap(before: Sequence[T], parts: Sequence[T]) -> int:
    """How many of ``parts``, from the first, are also the end of ``before``."""
    most = min(len(before), len(parts))
    return next((n for n in range(most, 0, -1) if before[-n:] == parts[:n]), 0)


def _never_packed(chunks: Sequence[Numbered], repeats: Sequence[tuple[int, int]]) -> list[_Hidden]:
    """The lines that packing never takes: they say nothing, and are not the heading above one that does."""
    never: list[_Hidden] = []
    none = heading = _Hidden(0, 0, "")  # one that no line has followed yet
    for number, (chunk, (known, _)) in enumerate(zip(chunks, repeats, strict=False)):
        texts = chunk.text.split("\n")
        follows = known
        for at, is_heading in silent_lines(texts, chunk.start_line).items():
            if at < known:
                continue
            if at > follows:
                heading = none
            follows = at + 1
            line = _Hidden(number, at, texts[at])
            if is_heading:
                never.append(heading)
                heading = line
            else:
                never.append(line)
        if follows < len(texts):
            heading = none
    return [line for line in (*never, heading) if line.text.strip()]
