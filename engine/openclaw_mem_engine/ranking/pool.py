"""What retrieval hands to ranking: an immutable pool of candidates with raw signals.

Legs are over-fetched (200 rows a side by default) so that candidate count, result count and score cut are
decisions of :func:`openclaw_mem_engine.ranking.rank.rank`, and every absence can be explained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from openclaw_mem_engine.model import Fallback, Freshness, Note, Source

#: Rows fetched a leg, whatever the knobs say; also the upper bound of the candidate count.
OVERFETCH = 200

#: Codes of notes that say why a leg did not run.
MISSING_LEG_NOTES = frozenset(
    {
        "keywords-only",
        "other-vectors",
        "embedding-failed",
        "no-embedding",
        "no-full-text",
        "no-words",
        "vectors-damaged",
        "words-damaged",
    }
)

LegKind = Literal["lexical", "vector"]
DateKind = Literal["dated", "evergreen", "mtime"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A chunk that some leg found. ``date`` is epoch seconds for decay, None where the text is evergreen."""

    chunk_id: str
    path: str
    start_line: int
    end_line: int
    text: str
    source: Source
    date: float | None = None
    date_kind: DateKind = "evergreen"

    @property
    def location(self) -> str:
        return f"{self.path}:{self.start_line}-{self.end_line}"


@dataclass(frozen=True, slots=True)
class LegRow:
    """One row of a leg; its rank is its position in the leg, from 1. ``raw`` is larger-is-better:
    negated FTS5 bm25 (>= 0) or cosine similarity (-1..1)."""

    chunk_id: str
    raw: float


@dataclass(frozen=True, slots=True)
class Leg:
    """One ranked candidate list. ``query`` is what was really asked (the full-text expression, or the text
    that was embedded); ``milliseconds`` is wall time; ``words`` are the tokens a lexical leg looked for.
    ``number`` counts vector spaces: 0 is the primary's (or that of its fallback), and ``space`` names whose
    vectors were compared, "" for the primary's."""

    name: str
    kind: LegKind
    query: str
    rows: tuple[LegRow, ...]
    milliseconds: float = 0.0
    words: tuple[str, ...] = ()
    number: int = 0
    space: str = ""


@dataclass(frozen=True, slots=True)
class Signals:
    """Raw scores of one candidate beyond its place in a leg. None: not computed, or does not exist.

    ``bm25`` and ``cosine`` are filled for every candidate near the head of any leg when the profile mixes
    true scores (``Knobs.fill_missing``); the line ones hold the best single line of the chunk.
    """

    bm25: float | None = None
    cosine: float | None = None
    line_bm25: float | None = None
    line_cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Everything ``rank()`` needs, and nothing that can change. ``now`` is epoch seconds (the clock of the
    answer: ranking has none of its own)."""

    query: str
    legs: tuple[Leg, ...]
    candidates: Mapping[str, Candidate]
    now: float
    signals: Mapping[str, Signals] = field(default_factory=dict)
    provider: str = "none"
    model: str = ""
    backend: str = "builtin"
    fallback: Fallback | None = None
    freshness: Freshness | None = None
    notes: tuple[Note, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    # Knob-independent work (token bitsets) done once for a pool; the pool's content never changes, so
    # what is remembered here cannot become wrong.
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def leg(self, kind: LegKind, number: int = 0) -> Leg | None:
        """The leg of a kind and number, or None when it did not run."""
        return next((leg for leg in self.legs if leg.kind == kind and leg.number == number), None)
