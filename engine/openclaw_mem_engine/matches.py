"""Which words of a text matched the query: for emphasis, never for deciding anything."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.scripts import CJK

_WORD = re.compile(r"[^\W_]+")
_CJK = re.compile(f"[{CJK}]")
_ENDINGS = ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "e", "y")


@dataclass(frozen=True, slots=True)
class Matches:
    """Marks the terms of one query. ``stems`` are word stems, ``pieces`` are substrings of scripts written
    without spaces."""

    stems: frozenset[str]
    pieces: tuple[str, ...]

    @classmethod
    def of(cls, pool: Pool) -> Matches:
        """The words of the lexical lists; those of the query when there is no such list."""
        searched = tuple(dict.fromkeys(word for lst in pool.lists for word in lst.words)) or (pool.query,)
        words = [word for text in searched for word in _WORD.findall(text)]
        plain = frozenset(stem(word) for word in words if not _CJK.search(word))
        return cls(plain, tuple(dict.fromkeys(word for word in words if _CJK.search(word))))

    def ranges(self, line: str) -> list[tuple[int, int]]:
        """Start and stop of every match in a line, in order, without overlaps."""
        if not self.stems and not self.pieces:
            return []
        found = [m.span() for m in _WORD.finditer(line) if stem(m[0]) in self.stems]
        for piece in self.pieces:
            at = line.find(piece)
            while at >= 0:
                found.append((at, at + len(piece)))
                at = line.find(piece, at + 1)
        merged: list[tuple[int, int]] = []
        for start, stop in sorted(found):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(stop, merged[-1][1]))
            else:
                merged.append((start, stop))
        return merged

    def distinct(self, line: str) -> int:
        """How many different terms a line holds."""
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
