"""Which words of a line matched the query: for emphasis, never for deciding anything."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from openclaw_mem_engine.ranking.pool import Pool

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile("[\u3005\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_ENDINGS = ("ing", "ies", "ied", "ers", "er", "ed", "es", "ly", "s", "e", "y")


@dataclass(frozen=True, slots=True)
class Matches:
    """``stems`` are word stems, ``pieces`` are substrings of scripts written without spaces."""

    stems: frozenset[str]
    pieces: tuple[str, ...]

    @classmethod
    def of(cls, pool: Pool) -> Matches:
        """What the lexical leg asked for; the words of the query when it did not run."""
        leg = pool.leg("lexical")
        asked = _QUOTED.findall(leg.query) if leg is not None else [pool.query]
        words = [word for text in asked for word in _WORD.findall(text)]
        plain = frozenset(stem(word) for word in words if not _CJK.search(word))
        return cls(plain, tuple(dict.fromkeys(word for word in words if _CJK.search(word))))

    def ranges(self, line: str) -> list[tuple[int, int]]:
        """Start and stop of every match in a line, in order, without overlaps."""
        found = [m.span() for m in _WORD.finditer(line) if stem(m[0]) in self.stems]
        for piece in self.pieces:
            found += [m.span() for m in re.finditer(f"(?={re.escape(piece)})", line)]
        # A look-ahead finds overlapping pieces, but has no length of its own.
        found = [
            (start, stop if stop > start else start + self._piece_at(line, start)) for start, stop in found
        ]
        merged: list[tuple[int, int]] = []
        for start, stop in sorted(found):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        return merged

    def _piece_at(self, line: str, start: int) -> int:
        return max(len(piece) for piece in self.pieces if line.startswith(piece, start))

    def emphasised(self, line: str, put: Callable[[str], str]) -> str:
        """The line with ``put`` around every match."""
        parts, at = [], 0
        for start, stop in self.ranges(line):
            parts += [line[at:start], put(line[start:stop])]
            at = stop
        return "".join([*parts, line[at:]])

    def best_lines(self, text: str, limit: int) -> list[str]:
        """The lines of a passage that tell most: the first one (often a heading), then those with most
        distinct matches, in their own order."""
        lines = [line for raw in text.split("\n") if _WORD.search(line := raw.strip())]
        if len(lines) <= limit:
            return lines
        rest = range(1, len(lines))
        chosen = sorted(rest, key=lambda place: -self._distinct(lines[place]))[: limit - 1]
        return [lines[0], *(lines[place] for place in sorted(chosen))]

    def _distinct(self, line: str) -> int:
        return len({stem(line[start:stop]) for start, stop in self.ranges(line)})


@lru_cache(maxsize=4096)
def stem(word: str) -> str:
    """A rough stem, enough to mark "routers" for "router": lower case, no accents, no common ending."""
    word = "".join(c for c in unicodedata.normalize("NFKD", word.casefold()) if not unicodedata.combining(c))
    if not word.isascii() or not word.isalpha():
        return word
    for _ in range(2):
        ending = next((e for e in _ENDINGS if word.endswith(e) and len(word) - len(e) >= 3), "")
        word = word.removesuffix(ending)
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
