"""The answer of a search: the passages, why every other one is absent, and the words that matched; and that
of ``Memory.status``."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.answer_text import answer_text
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import IndexDamaged
from openclaw_mem_engine.model import Source, as_json, index_state
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.profiles import PROFILES
from openclaw_mem_engine.ranking.trace import Lines, Trace
from openclaw_mem_engine.retrieval import IndexStatus
from openclaw_mem_engine.retrieval.freshness import who_makes
from openclaw_mem_engine.sanitize import CJK

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from openclaw_mem_engine.model import Fallback, Freshness, Note
    from openclaw_mem_engine.providers.factory import ProviderSet, ProviderState
    from openclaw_mem_engine.providers.records import DayUsage
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.retrieval import Backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(IndexStatus):
    """What is configured, what there is, and what is not as it should be."""

    agent: str
    workspace: str
    backend: str
    requested_provider: str
    profile: str
    fallback: Fallback | None
    freshness: Freshness
    notes: tuple[Note, ...]
    chain: tuple[ProviderState, ...] = ()
    usage: tuple[DayUsage, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The stable answer of ``openclaw-mem status --json``."""
        said = {"freshness": _freshness(self.freshness, self.notes)}
        return as_json(self, cached="cache", spaces="") | said


def known_status(backend: Backend) -> IndexStatus:
    """The status of an index; of a damaged one, with nothing in it."""
    try:
        return backend.status()
    except IndexDamaged:
        return IndexStatus(0, 0)


def chain_of(lineup: ProviderSet, found: IndexStatus, knobs: Knobs, index: Path) -> tuple[ProviderState, ...]:
    """See ``ProviderSet.states``; of each provider of which the index lacks the vectors it is said what makes
    them."""
    spaces = {size.space: (size.vectors, size.dims) for size in found.spaces if size.vectors}
    counted = knobs.space_number
    links = lineup.states(spaces, found.chunks, full_text=found.full_text, counted=counted)
    if not any(link.state == "not-indexed" for link in links):
        return links
    makes = who_makes(index)
    return tuple(
        replace(link, why=f"{link.why}. {makes}") if link.state == "not-indexed" else link for link in links
    )


def _freshness(freshness: Freshness, notes: Iterable[Note]) -> dict[str, Any]:
    return freshness.to_dict() | {"state": index_state(freshness, notes)}


@dataclass(frozen=True, slots=True)
class Hit:
    """One result; ``rank`` counts from 1. ``snippet`` is what the agent receives: the lines ``shown`` (first
    and last, 1-based) of the file, out of ``chunk_id`` and, when lines are packed, of others. ``text`` is the
    whole chunk. ``best_line_cut``: the best line of one of its chunks, ``best_line``, is not shown
    (``Shown``). ``weak``: no keyword match, and no cosine reaches the floor. ``band`` names the range of its
    score, empty in a profile without bands. ``context`` is what the user says of its collection."""

    rank: int
    chunk_id: str
    path: str
    start_line: int
    end_line: int
    score: float
    text: str
    source: Source
    snippet: str
    shown: tuple[Lines, ...]
    best_line: int | None = None
    best_line_cut: bool = False
    rescued: bool = False
    weak: bool = False
    band: str = ""
    context: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The documented result object."""
        return {
            "path": self.path,
            "startLine": self.start_line,
            "endLine": self.end_line,
            "score": self.score,
            "snippet": self.snippet,
            "source": self.source,
        }

    def explained(self) -> dict[str, Any]:
        """What the documented object does not say: which lines are shown, and what is cut off."""
        return {
            "shown": self.shown,
            "bestLineCut": self.best_line_cut,
            "bestLine": self.best_line,
            **({"rescued": True} if self.rescued else {}),
            **({"weak": True} if self.weak else {}),
            **({"band": self.band} if self.band else {}),
            **({"context": self.context} if self.context else {}),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A search and its explanation. ``sync_seconds`` is how long the sync before it took; None when there was
    none, or it failed."""

    pool: Pool
    trace: Trace
    sync_seconds: float | None = None

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What is returned, best first."""
        found, rows = [], {row.chunk_id: row for row in self.trace.returned}
        for rank, result in enumerate(self.trace.results, 1):
            chunks = [rows[chunk_id] for chunk_id in result.chunk_ids]
            best, hidden = chunks[0], next((row for row in chunks if row.shown.best_line_cut), chunks[0])
            found.append(
                Hit(
                    rank,
                    best.chunk_id,
                    result.path,
                    result.start_line,
                    result.end_line,
                    result.score,
                    self.pool.candidates[best.chunk_id].text,
                    result.source,
                    result.snippet,
                    result.shown,
                    hidden.shown.best_line,
                    hidden.shown.best_line_cut,
                    best.outcome.rescued,
                    all(rows[chunk_id].weak for chunk_id in result.chunk_ids),
                    PROFILES[self.trace.knobs.profile].band_of(result.score),
                    self.pool.candidates[best.chunk_id].context,
                )
            )
        return tuple(found)

    @property
    def served_by(self) -> tuple[str, str]:
        """Provider and model of the vector space that was counted; ("none", "") when that one is missing."""
        number = self.trace.knobs.space_number
        counted = self.pool.first("vector", number)
        if counted is not None and counted.provider:
            return counted.provider, counted.model
        return (self.pool.provider, self.pool.model) if number == 0 else ("none", "")

    @property
    def found_something(self) -> bool:
        """Whether anything was returned that is not weak."""
        return any(not hit.weak for hit in self.hits)

    @property
    def text(self) -> str:
        """What was found, how sure, and what is wrong with it, in short sentences."""
        return answer_text(self.pool, self.trace)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes this answer less than it could be."""
        return tuple(note.text for note in self.trace.notes if note.level == "warning")

    def to_dict(self, *, explain: bool = False) -> dict[str, Any]:
        """The stable answer of ``openclaw-mem search --json``, notes as they are; with ``explain`` it carries
        the trace, secrets in it masked."""
        pool = self.pool
        provider, model = self.served_by
        data: dict[str, Any] = {
            "query": pool.query,
            "profile": self.trace.knobs.profile,
            "backend": pool.backend,
            "provider": provider,
            "model": model,
            "fallback": pool.fallback.to_dict() if pool.fallback else None,
            "freshness": _freshness(pool.freshness, self.trace.notes) if pool.freshness else None,
            "answer": self.text,
            "results": [hit.to_dict() | hit.explained() for hit in self.hits],
            "notes": [note.to_dict() for note in self.trace.notes],
            "syncSeconds": None if self.sync_seconds is None else round(self.sync_seconds, 3),
        }
        if explain:
            from openclaw_mem_engine.redact import redacted

            data["trace"] = redacted(self.trace.to_dict())
        return data


# -- which words of a text matched: for emphasis, never for deciding anything --------------------------------

_WORD = re.compile(r"[^\W_]+")
_CJK = f"[{CJK}]"  # compiled at first use, which takes milliseconds
_ENDINGS = ("ingly", "edly", "ings", "ing", "ies", "ied", "ed", "es", "ly", "s", "e", "y")


@dataclass(frozen=True, slots=True)
class Matches:
    """Marks the terms of one query, in its order. ``stems`` are word stems, ``pieces`` are substrings of
    scripts written without spaces."""

    stems: tuple[str, ...]
    pieces: tuple[str, ...]

    @classmethod
    def of(cls, pool: Pool) -> Matches:
        """The words of the lexical lists that found something: a query that requires each of its words, stop
        words too, may find nothing, and its variants do. Without any, the words of the variants, else of all
        lists; those of the query when there is no such list."""
        lists = [lst for lst in pool.lists if lst.words]
        found, variants = [lst for lst in lists if lst.rows], [lst for lst in lists if lst.role != "original"]
        used = found or variants or lists
        searched = tuple(dict.fromkeys(word for lst in used for word in lst.words)) or (pool.query,)
        words = [word for text in searched for word in _WORD.findall(text)]
        pieces = [word for word in words if not word.isascii() and re.search(_CJK, word)]
        stems = (stem(word) for word in words if word not in pieces)
        return cls(tuple(dict.fromkeys(stems)), tuple(dict.fromkeys(pieces)))

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
        return len(self._terms(line))

    def fit(self, line: str) -> tuple[int, int]:
        """How well a line fits the query, greater is better: its different terms, then how early the query
        names the first of them."""
        terms = self._terms(line)
        named = (at for at, term in enumerate((*self.stems, *self.pieces)) if term in terms)
        return len(terms), -next(named, 0)

    def _terms(self, line: str) -> set[str]:
        return {stem(line[start:stop]) for start, stop in self.ranges(line)}


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
