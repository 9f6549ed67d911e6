"""Pools for ranking tests: small ones by hand, and random ones with every kind of gap and tie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, DateKind, Leg, LegRow, Pool, Signals

NOW = 1_772_366_400.0  # 2026-03-01, midnight UTC
DAY = 86_400.0
_WORDS = ("router", "vlan", "dns", "pump", "valve", "温室", "データ", "crème")


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
    """A pool from (id, raw score) lists, best first; None is a leg that did not run."""
    legs = []
    if vector is not None:
        legs.append(Leg("vector", "vector", "q", tuple(LegRow(*row) for row in vector)))
    if lexical is not None:
        legs.append(Leg("bm25", "lexical", '"q"', tuple(LegRow(*row) for row in lexical)))
    ids = dict.fromkeys(row.chunk_id for leg in legs for row in leg.rows)
    known = {i: candidate(i) for i in ids} | dict(candidates or {})
    return Pool("q", tuple(legs), known, NOW, signals or {})


# Coarse grids, so that ties are common; 0 and equal values matter most.
_COSINES = st.integers(-4, 16).map(lambda n: n / 16)
_BM25 = st.integers(0, 12).map(lambda n: n / 4)
_MAYBE_COSINE = st.none() | _COSINES
_MAYBE_BM25 = st.none() | _BM25


@st.composite
def pools(draw: st.DrawFn, largest: int = 14) -> Pool:
    """Any pool: legs that are missing, empty, disjoint or equal, with ties, dates in the future, no words."""
    ids = [f"c{n:02d}" for n in range(draw(st.sampled_from([0, 1, 3, 7, largest])))]
    legs: list[list[tuple[str, float]] | None] = []
    for values in (_COSINES, _BM25):
        if draw(st.integers(0, 6)) == 0:
            legs.append(None)
            continue
        # Often the whole list, so that many are known to both legs and beyond the limit of one.
        size = draw(st.sampled_from([0, len(ids) // 2, len(ids), len(ids)]))
        members = draw(st.permutations(ids))[:size]
        raw = sorted((draw(values) for _ in members), reverse=True)
        legs.append(list(zip(members, raw, strict=True)))
    words = st.lists(st.sampled_from(_WORDS), max_size=5).map(" ".join)
    ages = st.none() | st.sampled_from([-3.0, 0.0, 0.5, 30.0, 400.0, 90_000.0])
    known, signals = {}, {}
    for chunk_id in ids:
        known[chunk_id] = candidate(chunk_id, draw(words) or " ", days_old=draw(ages))
        if draw(st.booleans()):
            signals[chunk_id] = Signals(
                draw(_MAYBE_BM25), draw(_MAYBE_COSINE), draw(_MAYBE_BM25), draw(_MAYBE_COSINE)
            )
    return pool_of(legs[0], legs[1], known, signals)


_SHARE = st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0])


@st.composite
def knob_settings(draw: st.DrawFn) -> Knobs:
    """Any combination of knobs; small counts, so that every cut falls inside of small pools."""
    return Knobs(
        mode=draw(st.sampled_from(["hybrid", "hybrid", "bm25", "vector"])),
        line_text=draw(_SHARE),
        line_vector=draw(_SHARE),
        fill_missing=draw(st.booleans()),
        candidate_multiplier=draw(st.sampled_from([1, 1, 2, 4])),
        pool_results=draw(st.sampled_from([1, 1, 3, 40])),
        text_score=draw(st.sampled_from(["rank", "one", "max"])),
        vector_score=draw(st.sampled_from(["cosine", "minmax"])),
        fusion=draw(st.sampled_from(["weighted", "rrf"])),
        vector_weight=draw(_SHARE),
        text_weight=draw(_SHARE),
        rrf_k=draw(st.sampled_from([1, 60])),
        decay=draw(st.booleans()),
        half_life_days=draw(st.sampled_from([1.0, 30.0, 3650.0])),
        mmr=draw(st.booleans()),
        mmr_lambda=draw(_SHARE),
        mmr_tokens=draw(st.sampled_from(["unicode", "ascii"])),
        min_score=draw(st.sampled_from([0.0, 0.2, 0.35, 0.9])),
        keyword_rescue=draw(st.sampled_from(["off", "when-empty", "fill"])),
        max_results=draw(st.sampled_from([1, 2, 3, 4, 8])),
    )
