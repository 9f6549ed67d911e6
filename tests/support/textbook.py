"""The ranking written down a second time, slowly and from the published formulas: the oracle of its tests."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Pool, Signal


def members_of(pool: Pool, knobs: Knobs) -> list[str]:
    """What is inside the candidate limit of a list that takes part: vector order, then keyword order."""
    kinds = {"hybrid": ["vector", "lexical"], "bm25": ["lexical"], "vector": ["vector"]}[knobs.mode]
    depth = min(200, knobs.candidate_multiplier * max(knobs.max_results, knobs.pool_results))
    found: list[str] = []
    for kind in kinds:
        for lst in pool.lists:
            if lst.kind == kind:
                found += [row.chunk_id for row in lst.rows[:depth] if row.chunk_id not in found]
    return found


def fused(pool: Pool, knobs: Knobs) -> dict[str, float]:
    """Fusion score of every member, in member order."""
    kinds = {"hybrid": ["vector", "lexical"], "bm25": ["lexical"], "vector": ["vector"]}[knobs.mode]
    lists = {found.kind: found.rows for found in pool.lists if found.kind in kinds}
    depth = min(200, knobs.candidate_multiplier * max(knobs.max_results, knobs.pool_results))
    members = members_of(pool, knobs)
    ranks = {k: {row.chunk_id: n for n, row in enumerate(rows, 1)} for k, rows in lists.items()}
    if knobs.fusion == "rrf":
        return {
            i: sum(
                1 / (knobs.rrf_k + ranks[k][i]) for k in kinds if k in lists and ranks[k].get(i, 999) <= depth
            )
            for i in members
        }
    raw = {k: _raw_scores(k, pool, knobs, members, depth) for k in lists}
    values: dict[str, dict[str, float]] = {}
    for kind, scores in raw.items():
        if kind == "lexical":
            values[kind] = _text_scores(scores, ranks[kind], depth, pool, knobs)
        else:
            values[kind] = _vector_scores(scores, pool, knobs)
    total = knobs.vector_weight + knobs.bm25_weight
    weights = {"vector": knobs.vector_weight / total, "lexical": knobs.bm25_weight / total} if total else {}
    weights = weights or {"vector": 0.7, "lexical": 0.3}
    if len(lists) == 1:
        weights = {"vector": 1.0, "lexical": 1.0}
    return {i: sum(weights[k] * values[k].get(i, 0.0) for k in values) for i in members}


def _raw_scores(kind: str, pool: Pool, knobs: Knobs, members: Sequence[str], depth: int) -> dict[str, float]:
    rows = next(found.rows for found in pool.lists if found.kind == kind)
    found = {row.chunk_id: row.raw for row in rows[:depth]}
    if knobs.fill_missing:
        for i in members:
            extra = _signal(pool, kind, i).raw
            deep = next((row.raw for row in rows if row.chunk_id == i), extra)
            if deep is not None:
                found.setdefault(i, deep)
    return found


def _signal(pool: Pool, kind: str, chunk_id: str) -> Signal:
    return pool.signals.get("bm25" if kind == "lexical" else "vector", {}).get(chunk_id, Signal())


def _text_scores(
    scores: Mapping[str, float], ranks: Mapping[str, int], depth: int, pool: Pool, knobs: Knobs
) -> dict[str, float]:
    inside = [i for i in scores if ranks.get(i, 999) <= depth]
    if knobs.bm25_score == "one":
        return dict.fromkeys(inside, 1.0)
    if knobs.bm25_score == "rank":
        return {i: 1 / (1 + ranks[i]) for i in inside}
    line = {i: _signal(pool, "lexical", i).line or 0.0 for i in scores}
    mixed = {i: s + knobs.line_bm25 * line[i] for i, s in scores.items()}
    top = max(mixed.values(), default=0.0)
    return {i: m / top if top else 0.0 for i, m in mixed.items()}


def _vector_scores(scores: Mapping[str, float], pool: Pool, knobs: Knobs) -> dict[str, float]:
    mixed = {}
    for i, cosine in scores.items():
        line = _signal(pool, "vector", i).line
        mixed[i] = cosine + knobs.line_vector * ((cosine if line is None else line) - cosine)
    if knobs.vector_score == "cosine":
        return mixed
    low, high = min(mixed.values(), default=0.0), max(mixed.values(), default=0.0)
    return {i: (m - low) / (high - low) if high - low > 1e-12 else 0.0 for i, m in mixed.items()}


def decayed(score: float, date: float | None, now: float, half_life_days: float) -> float:
    """Half after one half-life, a quarter after two; the future and the evergreen lose nothing."""
    if date is None or date >= now:
        return score
    return score * math.pow(0.5, (now - date) / 86_400 / half_life_days)


def words(text: str, kind: str) -> set[str]:
    """What MMR compares: ASCII words, or words of any script with CJK characters and pairs."""
    if kind == "ascii":
        return set(re.findall("[a-z0-9_]+", text.lower()))
    found: set[str] = set()
    for word in re.findall(r"\w+", text.lower()):
        for run in re.findall(
            r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\u3040-\u9fff\uac00-\ud7af]+", word
        ):
            if run[0] >= "\u3040":
                found |= set(run) | {a + b for a, b in pairwise(run)}
            else:
                found.add(run)
    return found


def jaccard(a: set[str], b: set[str]) -> float:
    if not a | b:
        return 1.0
    return len(a & b) / len(a | b)


def mmr(scores: Sequence[float], sets: Sequence[set[str]], lam: float) -> list[int]:
    """The quadratic loop: of what is left the largest value; on a tie the larger score, then the first."""
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    relevance = [1.0 if high == low else (s - low) / (high - low) for s in scores]
    chosen: list[int] = []
    left = list(range(len(scores)))
    while left:
        best, best_value = -1, float("-inf")
        for i in left:
            alike = max((jaccard(sets[i], sets[j]) for j in chosen), default=0.0)
            value = lam * relevance[i] - (1 - lam) * alike
            if value > best_value or (value == best_value and scores[i] > scores[best]):
                best, best_value = i, value
        chosen.append(best)
        left.remove(best)
    return chosen
