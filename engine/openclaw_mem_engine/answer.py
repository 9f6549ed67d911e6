"""The result of a search: the returned passages and the explanation of every other one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openclaw_mem_engine.model import Source, snippet_of
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.trace import Trace


@dataclass(frozen=True, slots=True)
class Hit:
    """One returned passage; ``text`` is the whole chunk, ``rank`` counts from 1."""

    rank: int
    chunk_id: str
    path: str
    start_line: int
    end_line: int
    score: float
    text: str
    source: Source
    rescued: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The documented result object."""
        return {
            "path": self.path,
            "startLine": self.start_line,
            "endLine": self.end_line,
            "score": self.score,
            "snippet": snippet_of(self.text),
            "source": self.source,
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """A search and its explanation. ``sync_seconds`` is how long the search waited before it, until the index
    was brought up to date or that was given up; None when it did not."""

    pool: Pool
    trace: Trace
    sync_seconds: float | None = None

    @property
    def hits(self) -> tuple[Hit, ...]:
        """What is returned, best first."""
        found = []
        for row in self.trace.returned:
            candidate = self.pool.candidates[row.chunk_id]
            found.append(
                Hit(
                    row.outcome.rank or 0,
                    row.chunk_id,
                    row.path,
                    row.start_line,
                    row.end_line,
                    row.scores["final"],
                    candidate.text,
                    row.source,
                    row.outcome.rescued,
                )
            )
        return tuple(found)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes this answer less than it could be."""
        return tuple(note.text for note in self.trace.notes if note.level == "warning")

    def to_dict(self, *, explain: bool = False) -> dict[str, Any]:
        """The stable answer of ``openclaw-mem search --json``; with ``explain`` it carries the trace."""
        pool = self.pool
        result: dict[str, Any] = {
            "query": pool.query,
            "profile": self.trace.knobs.profile,
            "backend": pool.backend,
            "provider": pool.provider,
            "model": pool.model,
            "fallback": pool.fallback.to_dict() if pool.fallback else None,
            "freshness": pool.freshness.to_dict() if pool.freshness else None,
            "results": [hit.to_dict() | ({"rescued": True} if hit.rescued else {}) for hit in self.hits],
            "notes": [note.to_dict() for note in self.trace.notes],
            "syncSeconds": None if self.sync_seconds is None else round(self.sync_seconds, 3),
        }
        if explain:
            result["trace"] = self.trace.to_dict()
        return result
