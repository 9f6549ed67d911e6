"""Matched words on screen: marked in a line, and the line of a chunk that shows most of them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.render.format import crop, crop_left, inert_lines, width_of
from openclaw_mem_tui.render.spans import Line, Span, slice_of

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Matches, Pool

#: Lines of one chunk that are looked at when the best one is chosen.
_LINES_LOOKED_AT = 60


@dataclass(frozen=True)
class Marker:
    """Marks the terms of one query (none without a pool)."""

    matches: Matches | None

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

    @lru_cache(maxsize=256)  # noqa: B019 - a marker is a value
    def best_line(self, text: str, room: int) -> Line:
        """The line of a chunk with most distinct terms, cropped around its first, dim but for the terms."""
        lines = (line.strip() for line in inert_lines(text[:8_000], 400)[:_LINES_LOOKED_AT])
        distinct = self.matches.distinct if self.matches is not None else bool
        best = max(filter(None, lines), key=distinct, default="")
        marked = self._ranges(best)
        start = 0
        if marked and width_of(best[: marked[0][1]]) > room - 2:
            before = crop_left(best[: marked[0][0]], room // 3).removeprefix("…")
            start = marked[0][0] - len(before)
            if best[start - 1 : start].isalnum() and before[:1].isalnum() and " " in before:
                start += before.index(" ") + 1  # not within a word
        if start > 0:
            return (Span("…", "dim"), *slice_of(self.mark(best, "dim"), start, len(best)))
        return self.mark(best if len(best) < room * 4 else crop(best, room * 4), "dim")
