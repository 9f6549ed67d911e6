"""What became of every candidate: the rows of the trace, each with its outcome and reason."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_mem_engine.ranking.cuts import Verdict
from openclaw_mem_engine.ranking.fusion import Places
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.ranking.state import Ranked
from openclaw_mem_engine.ranking.trace import Outcome, Row


def rows(
    pool: Pool,
    knobs: Knobs,
    places: Sequence[Places],
    others: Sequence[Places],
    ranked: Sequence[Ranked],
    verdict: Verdict,
) -> tuple[Row, ...]:
    """One row a candidate of the pool, in the order that ``Trace`` promises. ``others`` are the legs of
    vector spaces that are not fused: shown, and otherwise without effect."""
    returned_at = {chunk_id: place for place, chunk_id in enumerate(verdict.returned, 1)}
    by_relevance = _without_mmr(ranked, knobs, verdict) if knobs.mmr else frozenset[str]()
    made: list[tuple[tuple[int, float], Row]] = []
    for place, item in enumerate(ranked, 1):
        item.scores["final"] = item.score
        item.ranks["final"] = place
        chunk_id = item.chunk_id
        if chunk_id in returned_at:
            at = returned_at[chunk_id]
            outcome = Outcome("returned", at, rescued=chunk_id in verdict.rescued)
            key = (0, float(at))
        elif verdict.cut_applies and chunk_id not in verdict.passed:
            outcome = Outcome("dropped", stage="min_score", reason=_below(item, knobs))
            key = (2, -item.score)
        elif chunk_id in by_relevance:
            outcome, key = Outcome("dropped", stage="mmr", reason=_displaced(item)), (1, float(place))
        else:
            outcome, key = (
                Outcome("dropped", stage="max_results", reason=_late(item, knobs)),
                (1, float(place)),
            )
        made.append((key, _row(pool.candidates[chunk_id], places, others, item, outcome)))
    inside = {item.chunk_id for item in ranked}
    nothing = Ranked("", 0.0, (), {}, {})
    for chunk_id, candidate in pool.candidates.items():
        if chunk_id not in inside:
            outcome, best = _outside(chunk_id, places, others)
            made.append(((3, best), _row(candidate, places, others, nothing, outcome)))
    made.sort(key=lambda pair: pair[0])
    return tuple(row for _, row in made)


def _without_mmr(ranked: Sequence[Ranked], knobs: Knobs, verdict: Verdict) -> frozenset[str]:
    """What would have been returned by score alone: the measure of "displaced by MMR"."""
    passing = sorted((i for i in ranked if i.chunk_id in verdict.passed), key=lambda item: -item.score)
    return frozenset(item.chunk_id for item in passing[: knobs.max_results])


def _late(item: Ranked, knobs: Knobs) -> str:
    """Told of a candidate that passes every cut and comes too late."""
    reason = f"place {item.ranks['final']}, the first {knobs.max_results} are returned"
    if knobs.decay and item.ranks["fusion"] <= knobs.max_results:
        return f"{reason}; before decay it was place {item.ranks['fusion']}"
    return reason


def _displaced(item: Ranked) -> str:
    """Told of a candidate that is out although its score alone would have kept it."""
    seen = item.diversity
    if seen is None or seen.rival is None:
        return "by score alone it was in; MMR preferred more different hits"
    return f"too close to {seen.rival} (similarity {seen.similarity:.2f}); by score alone it was in"


def _below(item: Ranked, knobs: Knobs) -> str:
    short = knobs.min_score - item.score
    reason = f"{item.score:.3f} is below {knobs.min_score:g}, short by {short:.3f}"
    fused = item.scores["fusion"]
    if fused >= knobs.min_score:
        return f"{reason}; decay took it down from {fused:.3f}"
    text = next((o for o in item.operands if o.label == "text"), None)
    vector = next((o for o in item.operands if o.label == "vector"), None)
    if text is not None and vector is not None and not vector.value and text.value:
        most = text.weight * (0.5 if knobs.text_score == "rank" else 1.0)  # 1 / (1 + rank) begins at 0.5
        if most < knobs.min_score:
            return f"{reason}; keywords alone can reach {most:g} at most"
    return reason


def _outside(chunk_id: str, places: Sequence[Places], others: Sequence[Places]) -> tuple[Outcome, float]:
    """Why a fetched row did not enter the pool, and its best rank (to order such rows)."""
    told = []
    for leg in places:
        place = leg.ranks.get(chunk_id)
        if place is not None:
            told.append((place, f"{'bm25' if leg.kind == 'lexical' else 'vector'} rank {place}"))
    if not told:
        elsewhere = [leg.space for leg in others if chunk_id in leg.ranks]
        if elsewhere:
            reason = (
                f"found only by the vectors of {', '.join(elsewhere)}, which are not fused (vector_space)"
            )
            return Outcome("dropped", stage="scope", reason=reason), 1e9
        return Outcome("dropped", stage="scope", reason="found only by a leg that this mode leaves out"), 1e9
    told.sort()
    reason = f"{', '.join(text for _, text in told)}; the pool takes the first {places[0].cut} of each leg"
    return Outcome("dropped", stage="pool", reason=reason), float(told[0][0])


def _row(
    candidate: Candidate,
    places: Sequence[Places],
    others: Sequence[Places],
    item: Ranked,
    outcome: Outcome,
) -> Row:
    scores: dict[str, float] = {}
    ranks: dict[str, int] = {}
    for leg in places:
        place = leg.ranks.get(candidate.chunk_id)
        if place is not None:
            name = "bm25" if leg.kind == "lexical" else "vector"
            scores[name] = leg.raw[candidate.chunk_id]
            ranks[name] = place
    for leg in others:
        place = leg.ranks.get(candidate.chunk_id)
        if place is not None:
            name = f"vector:{leg.space}"
            scores[name] = leg.raw[candidate.chunk_id]
            ranks[name] = place
    scores.update(item.scores)
    ranks.update(item.ranks)
    return Row(
        candidate.chunk_id,
        candidate.path,
        candidate.start_line,
        candidate.end_line,
        candidate.source,
        scores,
        ranks,
        item.operands,
        outcome,
        item.diversity,
    )
