"""Pools for ranking tests: small ones by hand, and random ones with every kind of gap and tie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, CandidateList, DateKind, ListRow, Pool, Signal

NOW = 1_772_366_400.0  # 2026-03-01, midnight UTC
DAY = 86_400.0
_WORDS = ("router", "vlan", "dns", "pump", "valve", "温室", "データ", "crème")


class Signals(NamedTuple):
    """True scores of one chunk for both lists, and those of its best line."""

    bm25: float | None = None
    cosine: float | None = None
    line_bm25: float | None = None
    line_cosine: float | None = None


def vector_list(rows: Sequence[tuple[str, float]]) -> CandidateList:
    found = tuple(ListRow(*row) for row in rows)
    return CandidateList("vector", "vector", "q", found, matched=len(found), space_number=0)


def bm25_list(rows: Sequence[tuple[str, float]], name: str = "", **details: Any) -> CandidateList:
    """A lexical list; ``name`` makes it one of a further query."""
    id = f"bm25:{name}" if name else "bm25"
    details = {"matched": len(rows), "words": ("q",), **details}
    return CandidateList(id, "lexical", '"q"', tuple(ListRow(*row) for row in rows), **details)


def candidate(chunk_id: str, text: str = "", *, days_old: float | None = None) -> Candidate:
    """A chunk in a file of its own; ``days_old`` None is evergreen."""
    date = None if days_old is None else NOW - days_old * DAY
    kind: DateKind = "evergreen" if date is None else "dated"
    return Candidate(
        chunk_id, f"memory/{chunk_id}.md", 1, 5, text or f"text of {chunk_id}", "memory", date, kind
    )


def pool_of(
    vector: Sequence[tuple[str, float]] | None,
    lexical: Sequence[tuple[str, float]] | None,
    candidates: Mapping[str, Candidate] | None = None,
    signals: Mapping[str, Signals] | None = None,
) -> Pool:
    """A pool from (id, raw score) lists, best first; None is a list that could not be made."""
    lists = []
    if vector is not None:
        lists.append(vector_list(vector))
    if lexical is not None:
        lists.append(bm25_list(lexical))
    return pool_of_lists(*lists, candidates=candidates, signals=signals)


def pool_of_lists(
    *lists: CandidateList,
    candidates: Mapping[str, Candidate] | None = None,
    signals: Mapping[str, Signals] | None = None,
    **details: Any,
) -> Pool:
    """A pool of any lists, with a candidate for every row."""
    ids = dict.fromkeys(row.chunk_id for found in lists for row in found.rows)
    known = {i: candidate(i) for i in ids} | dict(candidates or {})
    given = (signals or {}).items()
    by_list = {
        "bm25": {i: Signal(s.bm25, _lines(known, i, s.line_bm25)) for i, s in given},
        "vector": {i: Signal(s.cosine, _lines(known, i, s.line_cosine)) for i, s in given},
    }
    return Pool("q", lists, known, NOW, by_list, **details)


def _lines(
    known: Mapping[str, Candidate], chunk_id: str, best: float | None
) -> tuple[float | None, ...] | None:
    """Scores of the lines of a chunk: the last one has the best."""
    if best is None or chunk_id not in known:
        return None
    return (*[None] * known[chunk_id].text.count("\n"), best)


# Coarse grids, so that ties are common; 0 and equal values matter most.
_COSINES = st.integers(-4, 16).map(lambda n: n / 16)
_BM25 = st.integers(0, 12).map(lambda n: n / 4)
_MAYBE_COSINE = st.none() | _COSINES
_MAYBE_BM25 = st.none() | _BM25


@st.composite
def pools(draw: st.DrawFn, largest: int = 14) -> Pool:
    """Any pool: lists missing, empty, disjoint or equal, with ties, dates in the future, empty texts."""
    ids = [f"c{n:02d}" for n in range(draw(st.sampled_from([0, 1, 3, 7, largest])))]
    lists: list[list[tuple[str, float]] | None] = []
    for values in (_COSINES, _BM25):
        if draw(st.integers(0, 6)) == 0:
            lists.append(None)
            continue
        # Often the whole list, so that many are known to both lists and beyond the limit of one.
        size = draw(st.sampled_from([0, len(ids) // 2, len(ids), len(ids)]))
        members = draw(st.permutations(ids))[:size]
        raw = sorted((draw(values) for _ in members), reverse=True)
        lists.append(list(zip(members, raw, strict=True)))
    words = st.lists(st.sampled_from(_WORDS), max_size=5).map("\n".join)
    ages = st.none() | st.sampled_from([-3.0, 0.0, 0.5, 30.0, 400.0, 90_000.0])
    known, signals = {}, {}
    for chunk_id in ids:
        known[chunk_id] = candidate(chunk_id, draw(words) or " ", days_old=draw(ages))
        if draw(st.booleans()):
            signals[chunk_id] = Signals(
                draw(_MAYBE_BM25), draw(_MAYBE_COSINE), draw(_MAYBE_BM25), draw(_MAYBE_COSINE)
            )
    return pool_of(lists[0], lists[1], known, signals)


_SHARE = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0])


@st.composite
def knob_settings(draw: st.DrawFn) -> Knobs:
    """Any combination of knobs; small counts, so that every cut falls inside of small pools."""
    return Knobs(
        mode=draw(st.sampled_from(["hybrid", "hybrid", "bm25", "vector"])),
        line_bm25=draw(_SHARE),
        line_vector=draw(_SHARE),
        fill_missing=draw(st.booleans()),
        candidate_multiplier=draw(st.sampled_from([1, 1, 2, 4])),
        pool_results=draw(st.sampled_from([1, 1, 3, 40])),
        bm25_score=draw(st.sampled_from(["rank", "one", "max"])),
        vector_score=draw(st.sampled_from(["cosine", "minmax"])),
        fusion=draw(st.sampled_from(["weighted", "rrf"])),
        vector_weight=draw(_SHARE),
        bm25_weight=draw(_SHARE),
        rrf_k=draw(st.sampled_from([1, 60])),
        decay=draw(st.booleans()),
        half_life_days=draw(st.sampled_from([1.0, 30.0, 3650.0])),
        mmr=draw(st.booleans()),
        mmr_lambda=draw(_SHARE),
        mmr_tokens=draw(st.sampled_from(["unicode", "ascii"])),
        min_score=draw(st.sampled_from([0.0, 0.2, 0.35, 0.9])),
        keyword_rescue=draw(st.sampled_from(["off", "when-empty", "fill"])),
        max_results=draw(st.sampled_from([1, 2, 3, 4, 8])),
        snippet=draw(st.sampled_from(["head", "head", "best-line", "packed"])),
        snippet_chars=draw(st.sampled_from([40, 700])),
    )
