"""Matched words on screen: marked in a line, and the line of a chunk that shows most of them."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.render.format import crop, crop_left, inert, inert_lines, width_of
from openclaw_mem_tui.render.spans import Line, Span, slice_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openclaw_mem_engine.api import Candidate, Matches, NoteLine, Pool

#: Lines of one chunk that are looked at when the best one is chosen.
_LINES_LOOKED_AT = 60
#: Characters of a line that are looked at.
_LONGEST = 400


@dataclass(frozen=True)
class Marker:
    """Marks the terms of one query (none without a pool)."""

    matches: Matches | None
    _best: dict[tuple[object, ...], NoteLine] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, pool: Pool | None) -> Marker:
        """The marker for what a pool's lexical lists searched for."""
        return cls(api.Matches.of(pool) if pool is not None else None)

    def _ranges(self, text: str) -> list[tuple[int, int]]:
        return self.matches.ranges(text) if self.matches is not None else []

    def mark(self, text: str, role: str = "") -> Line:
        """The line (inert already) with its terms in role ``match``."""
        parts: list[Span] = []
        at = 0
        for start, stop in self._ranges(text):
            if start > at:
                parts.append(Span(text[at:start], role))
            parts.append(Span(text[start:stop], f"{role} match".strip()))
            at = stop
        if at < len(text) or not parts:
            parts.append(Span(text[at:], role))
        return tuple(parts)

    def count(self, text: str) -> int:
        """How many matches of a text are marked."""
        return sum(len(self._ranges(line)) for line in inert_lines(text))

    def best(
        self, found: Candidate, number: int | None = None, sent: Sequence[tuple[int, int]] = ()
    ) -> NoteLine:
        """The line ``number`` of a chunk. Where there is none, that with most distinct terms; of several, the
        one with the term that the query names first. A heading only where nothing else says anything. None of
        the lines ``sent``, if there are others."""
        key = found.chunk_id, number, tuple(sent)
        if key not in self._best:
            lines = api.note_lines(found)
            lines = [n for n in lines if not any(a <= n.number <= b for a, b in sent)] or lines
            fit = self.matches.fit if self.matches is not None else None
            of_number = (line for line in lines if line.number == number)
            self._best[key] = next(of_number, None) or max(
                lines[:_LINES_LOOKED_AT],
                key=lambda line: (line.says_something, fit(line.text[:_LONGEST]) if fit is not None else 0),
            )
        return self._best[key]

    def excerpt(self, text: str, room: int) -> Line:
        """A line of a note, cropped around its first term, dim but for the terms."""
        text = inert(text.removesuffix("\r"), _LONGEST).strip()
        marked = self._ranges(text)
        start = 0
        if marked and width_of(text[: marked[0][1]]) > room - 2:
            before = crop_left(text[: marked[0][0]], room // 3).removeprefix("…")
            start = marked[0][0] - len(before)
            if text[start - 1 : start].isalnum() and before[:1].isalnum() and " " in before:
                start += before.index(" ") + 1  # not within a word
        if start > 0:
            return (Span("…", "dim"), *slice_of(self.mark(text, "dim"), start, len(text)))
        return self.mark(text if len(text) < room * 4 else crop(text, room * 4), "dim")


def has_words(text: str, words: str) -> bool:
    """Whether a text in lower case has all of these words."""
    return all(word in text for word in words.split())
