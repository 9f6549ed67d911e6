"""Matched words in printed lines: which lines tell most, and emphasis around what matched."""

from __future__ import annotations

import re
from collections.abc import Callable

from openclaw_mem_engine.matches import Matches

_WORD = re.compile(r"[^\W_]")


def emphasised(matches: Matches, line: str, put: Callable[[str], str]) -> str:
    """The line with ``put`` around every match."""
    parts, at = [], 0
    for start, stop in matches.ranges(line):
        parts += [line[at:start], put(line[start:stop])]
        at = stop
    return "".join([*parts, line[at:]])


def best_lines(matches: Matches, text: str, limit: int) -> list[str]:
    """The lines of a passage that tell most: the first one (often a heading), then those with most distinct
    matches, in their own order."""
    lines = [line for raw in text.split("\n") if _WORD.search(line := raw.strip())]
    if len(lines) <= limit:
        return lines
    chosen = sorted(range(1, len(lines)), key=lambda place: -matches.distinct(lines[place]))[: limit - 1]
    return [lines[0], *(lines[place] for place in sorted(chosen))]
