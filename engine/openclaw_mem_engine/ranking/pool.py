"""What retrieval hands to ranking: an immutable pool of candidate lists with raw scores.

Lists are over-fetched (200 rows each) so that candidate count, max results and score cut are decisions of
:func:`openclaw_mem_engine.ranking.pipeline.rank`, and every absence can be explained.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Literal

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import Fallback, Freshness, Note, Source
from openclaw_mem_engine.named_tuple import NamedTuple

#: Rows fetched for each list, whatever the knobs are; also the upper bound of the candidate count.
OVERFETCH = 200

#: What is remembered of single chunks in ``Pool.memo``: their lines, and their tokens by the knob mmr_tokens.
CHUNKS = frozenset({"lines", "keys", "unicode", "ascii"})

#: Codes of notes that say why a list could not be made.
MISSING_LIST_NOTES = frozenset(
    {
        "bm25-only",
        "other-vectors",
        "embedding-failed",
        "no-embedding",
        "other-script",
        "no-full-text",
        "no-words",
    }
)

#: What a list was made by; ``ranking.kinds`` holds what ranking knows of each.
Kind = Literal["lexical", "vector", "external"]
#: Which text a list was made for: the query itself, or a line that expansion made of it.
Role = Literal["original", "lex", "vec", "hyde"]
DateKind = Literal["dated", "evergreen", "mtime"]


class Candidate(NamedTuple):
    """A chunk of at least one list. ``date`` is epoch seconds for decay, None where the text is evergreen;
    ``context`` is what the user says of its folder or collection."""

    chunk_id: str
    path: str
    start_line: int
    end_line: int
    text: str
    source: Source
    date: float | None = None
    date_kind: DateKind = "evergreen"
    context: str = ""

    @property
    def location(self) -> str:
        return f"{self.path}:{self.start_line}-{self.end_line}"


class ListRow(NamedTuple):
    """One row of a list, best first. ``raw``: negated FTS5 bm25 (>= 0), cosine similarity (-1..1), or the
    score that another program gave."""

    chunk_id: str
    raw: float


#: Ranks by chunk id; or why they are not known, as the end of a sentence ("": they were not asked for).
Ranks = Mapping[str, int] | str


def not_read() -> Ranks:
    """The ranks of a list that knows none beyond its rows."""
    return ""


@dataclass(frozen=True, slots=True)
class CandidateList:
    """One ranked list of chunks.

    ``id`` is unique in a pool: the retriever ("bm25"), and for a further query or vector space its name after
    a colon ("bm25:expanded"). ``query`` is the full-text expression or the text that was embedded, ``words``
    the tokens of a lexical one, of which a row holds any, or with ``every`` each, and none of ``excluded``.
    ``weight`` (above 0) is the share among the lists of its kind, and the factor in RRF. ``matched`` counts
    the chunks that matched in all, None when unknown; ``matches_beyond`` are the candidates outside of
    ``rows`` that are among them, None when unknown. ``ranks_beyond`` gives their exact ranks, which may read
    the index when it is called first. ``milliseconds`` is wall time, ``label`` the name on screens (6 letters
    fit), by default the kind's. ``floor`` is the raw score below which a row says nothing, None where that
    was not measured. ``suits`` is False for vectors of a model for languages of another script than the
    query's. ``space_number`` 0 is the primary's vector space (or its fallback's), None no space; ``space``
    names it, "" for the primary's. ``provider`` and ``model`` made its vectors, "" where unknown. ``by_name``
    are the ids of rows that match only with the words of their path, None where paths are not searched.
    ``role``: which text of an expanded query it was made for.
    """

    id: str
    kind: Kind
    query: str
    rows: tuple[ListRow, ...]
    weight: float = 1.0
    matched: int | None = None
    matches_beyond: frozenset[str] | None = None
    ranks_beyond: Callable[[], Ranks] = not_read
    milliseconds: float = 0.0
    words: tuple[str, ...] = ()
    every: bool = False
    excluded: tuple[str, ...] = ()
    space_number: int | None = None
    space: str = ""
    provider: str = ""
    model: str = ""
    label: str = ""
    floor: float | None = None
    suits: bool = True
    by_name: frozenset[str] | None = None
    role: Role = "original"

    def among(self, ids: Container[str]) -> CandidateList:
        """The list without the rows of other chunks."""
        return replace(self, rows=tuple(row for row in self.rows if row.chunk_id in ids))

    @property
    def found(self) -> int:
        """How many chunks matched, as far as is known."""
        return max(len(self.rows), self.matched or 0)


@dataclass(frozen=True)
class Signal:
    """The true score of a chunk for the query of a list, also of one outside the list, and the scores of its
    lines. None: not computed, or does not exist."""

    raw: float | None = None
    lines: tuple[float | None, ...] | None = None

    @cached_property
    def line(self) -> float | None:
        """The score of the best line."""
        return max([score for score in self.lines or () if score is not None], default=None)


@dataclass(frozen=True, slots=True)
class Pool:
    """Everything ``rank()`` needs, and nothing that can change.

    ``candidates`` and ``rerank_scores`` are keyed by chunk id, ``signals`` by list id and then chunk id.
    ``now`` is epoch seconds (ranking has no clock); ``timings`` are milliseconds by step, in their order.
    ``rerank_missing`` is why the reranker gave some of the candidates no score, "" where none is missing;
    ``intent`` is what the query is for, as far as it was said.
    """

    query: str
    lists: tuple[CandidateList, ...]
    candidates: Mapping[str, Candidate]
    now: float
    signals: Mapping[str, Mapping[str, Signal]] = field(default_factory=dict)
    provider: str = "none"
    model: str = ""
    backend: str = "builtin"
    fallback: Fallback | None = None
    freshness: Freshness | None = None
    notes: tuple[Note, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict)
    rerank_scores: Mapping[str, float] = field(default_factory=dict)
    rerank_missing: str = ""
    intent: str = ""
    # Work that is done once for a pool (token bitsets), with the knobs that enter it as a key where it has
    # any; the pool's content never changes, so what is remembered here cannot become wrong.
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def first(self, kind: Kind, space_number: int = 0) -> CandidateList | None:
        """The first list of a kind and, for vectors, of a space; None when there is none."""
        return next(
            (lst for lst in self.lists if lst.kind == kind and lst.space_number in (None, space_number)), None
        )

    def owner_of(self, found: CandidateList) -> str:
        """Whose vectors a list compared: the configured provider's own space has no name but its model's."""
        return "" if found.space_number is None else found.space or self.model or self.provider
