"""The pure ranking: pool and knobs in, complete trace out. No I/O, no clock of its own."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from openclaw_mem_engine.model import Note, snippet_of
from openclaw_mem_engine.ranking import cuts, outcomes
from openclaw_mem_engine.ranking.decay import age_days, decay_multiplier
from openclaw_mem_engine.ranking.fusion import (
    LegValues,
    Places,
    operands_of,
    text_formula,
    text_values,
    vector_formula,
    vector_values,
)
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.mmr import TOKENISERS, bitsets, mmr_order
from openclaw_mem_engine.ranking.pool import MISSING_LEG_NOTES, Leg, Pool
from openclaw_mem_engine.ranking.state import Ranked, count_moves
from openclaw_mem_engine.ranking.trace import Diversity, Operand, Stage, Trace

_STAGE_OF_KIND = {"lexical": "bm25", "vector": "vector"}


def rank(pool: Pool, knobs: Knobs) -> Trace:
    """Rank a pool: candidate cut, fusion, decay, MMR, score cut, keyword rescue, result count.

    The stages run in the order of the documented engine. Every candidate of the pool appears in the trace,
    returned or with the stage and reason that dropped it. Cost: about a millisecond for the default pool.
    """
    stages: list[Stage] = []
    notes = list(pool.notes)
    places = _places(pool, knobs, stages, notes)
    ranked = _fuse(pool, knobs, places, stages, notes)
    if knobs.decay:
        ranked = _decay(pool, knobs, ranked, stages)
    no_cut = _why_no_cut(knobs, places)
    if knobs.mmr:
        ranked = _diversify(pool, knobs, ranked, no_cut is None, stages)
    verdict = cuts.apply(ranked, knobs, no_cut, stages, notes)
    rows = outcomes.rows(pool, knobs, places, _other_spaces(pool, knobs), ranked, verdict)
    return Trace(pool.query, knobs, tuple(stages), rows, tuple(notes))


def _places(pool: Pool, knobs: Knobs, stages: list[Stage], notes: list[Note]) -> list[Places]:
    """Ranks and raw scores of the legs that take part in this mode, and a stage for each."""
    wanted = {"hybrid": ("vector", "lexical"), "bm25": ("lexical",), "vector": ("vector",)}[knobs.mode]
    found = []
    for kind in wanted:
        leg = pool.leg("vector", knobs.space_number) if kind == "vector" else pool.leg("lexical")
        if leg is None:
            if kind == "vector" and knobs.space_number and pool.leg("vector") is not None:
                told = f"The index holds no {knobs.vector_space} vector space: set provider.also and index."
                notes.append(Note("leg-missing", told, "warning"))
            elif knobs.mode != "hybrid":
                notes.append(
                    Note(
                        "leg-missing",
                        f"Mode {knobs.mode} was asked for, but that leg did not run.",
                        "warning",
                    )
                )
            continue
        found.append(_place(leg, knobs))
        entered, left = len(leg.rows), min(len(leg.rows), knobs.candidates)
        constants: dict[str, float | str | bool] = {"candidates": knobs.candidates, "query": leg.query}
        if leg.space:
            constants["space"] = leg.space
        formula = "negated FTS5 bm25, best first" if kind == "lexical" else "cosine similarity, best first"
        stages.append(Stage(_STAGE_OF_KIND[kind], formula, constants, entered, left, 0, leg.milliseconds))
    return found


def _place(leg: Leg, knobs: Knobs) -> Places:
    ranks = {row.chunk_id: place for place, row in enumerate(leg.rows, 1)}
    raw = {row.chunk_id: row.raw for row in leg.rows}
    return Places(leg.kind, ranks, raw, knobs.candidates, leg.space)


def _other_spaces(pool: Pool, knobs: Knobs) -> list[Places]:
    """The vector legs that are shown beside the fused one."""
    legs = (leg for leg in pool.legs if leg.kind == "vector" and leg.number != knobs.space_number)
    return [_place(leg, knobs) for leg in legs]


def _why_no_cut(knobs: Knobs, places: Sequence[Places]) -> str | None:
    """Why the score cut has no meaning here, or None when it has.

    Scores made of ranks alone are not on the scale that the minimum was set for: an RRF sum is at most
    2/61, and a lone text score says only "first".
    """
    if knobs.fusion == "rrf":
        return "RRF scores come from ranks, not relevance: the score cut does not apply"
    if len(places) == 1 and places[0].kind == "lexical":
        return "keywords alone: scores come from ranks, the score cut does not apply"
    return None


def _members(places: Sequence[Places]) -> list[str]:
    """Chunk ids inside the candidate cut of any leg: vector order first, then what only keywords found."""
    seen: dict[str, None] = {}
    for leg in places:
        for chunk_id, place in leg.ranks.items():
            if place > leg.cut:
                break
            seen.setdefault(chunk_id)
    return list(seen)


def _fuse(
    pool: Pool, knobs: Knobs, places: Sequence[Places], stages: list[Stage], notes: list[Note]
) -> list[Ranked]:
    start = perf_counter()
    members = _members(places)
    vector_weight, text_weight = knobs.weights
    if len(places) == 1:
        vector_weight = text_weight = 1.0
        told_why = any(note.code in MISSING_LEG_NOTES for note in pool.notes)
        if knobs.mode == "hybrid" and not told_why:
            only = "keywords" if places[0].kind == "lexical" else "vectors"
            notes.append(Note("single-leg", f"Only {only} could run: their score counts alone.", "info"))
    legs: list[tuple[Places, LegValues, float]] = []
    for leg in places:
        if leg.kind == "vector":
            legs.append((leg, vector_values(pool, knobs, leg, members), vector_weight))
        else:
            legs.append((leg, text_values(pool, knobs, leg, members), text_weight))
    ranked = []
    for chunk_id in members:
        operands = operands_of(chunk_id, legs, knobs)
        score = sum(o.value * o.weight for o in operands)
        ranked.append(Ranked(chunk_id, score, operands, {"fusion": score}, {}))
        for (leg, values, _), operand in zip(legs, operands, strict=True):
            if leg.kind == "lexical" and chunk_id in values:
                ranked[-1].scores["text"] = (
                    operand.value if knobs.fusion == "weighted" else values[chunk_id].value
                )
    ranked.sort(key=lambda item: -item.score)
    for place, item in enumerate(ranked, 1):
        item.ranks["fusion"] = place
    formula, constants = _fusion_words(knobs, legs)
    elapsed = (perf_counter() - start) * 1000
    stages.append(
        Stage(
            "fusion",
            formula,
            constants,
            sum(min(len(p.ranks), p.cut) for p in places),
            len(ranked),
            0,
            elapsed,
        )
    )
    return ranked


def _fusion_words(
    knobs: Knobs, legs: Sequence[tuple[Places, LegValues, float]]
) -> tuple[str, dict[str, float | str | bool]]:
    if knobs.fusion == "rrf":
        return "Σ 1 / (k + rank)", {"k": knobs.rrf_k}
    parts, constants = [], dict[str, float | str | bool]()
    for leg, _, weight in legs:
        name = "vector" if leg.kind == "vector" else "text"
        parts.append(f"{weight:g} × {name}")
        constants[f"{name}_weight"] = weight
        constants[f"{name}_score"] = vector_formula(knobs) if leg.kind == "vector" else text_formula(knobs)
    return " + ".join(parts) or "no leg ran", constants


def _decay(pool: Pool, knobs: Knobs, ranked: list[Ranked], stages: list[Stage]) -> list[Ranked]:
    start = perf_counter()
    for item in ranked:
        candidate = pool.candidates[item.chunk_id]
        if candidate.date is None:
            operand = Operand("decay", "decay", "mul", 1.0, 1.0, {}, "evergreen")
        else:
            age = age_days(pool.now, candidate.date)
            factor = decay_multiplier(age, knobs.half_life_days)
            note = "age from the file's mtime" if candidate.date_kind == "mtime" else ""
            inputs = {"age_days": age, "half_life_days": knobs.half_life_days}
            operand = Operand("decay", "decay", "mul", factor, 1.0, inputs, note)
        item.operands = (*item.operands, operand)
        item.score *= operand.value
        item.scores["decay"] = item.score
    before = [item.chunk_id for item in ranked]
    ranked = sorted(ranked, key=lambda item: -item.score)
    for place, item in enumerate(ranked, 1):
        item.ranks["decay"] = place
    moved = count_moves(before, ranked)
    elapsed = (perf_counter() - start) * 1000
    constants: dict[str, float | str | bool] = {"half_life_days": knobs.half_life_days}
    formula = "score × exp(−ln 2 / half-life × age)"
    stages.append(Stage("decay", formula, constants, len(ranked), len(ranked), moved, elapsed))
    return ranked


def _diversify(
    pool: Pool, knobs: Knobs, ranked: list[Ranked], cut_applies: bool, stages: list[Stage]
) -> list[Ranked]:
    start = perf_counter()
    sets = _token_bitsets(pool, knobs.mmr_tokens, [item.chunk_id for item in ranked])
    wanted = knobs.max_results

    def enough(index: int) -> bool:
        # What comes after the last returned hit needs no exact order, only its value and its rival.
        nonlocal wanted
        if not cut_applies or ranked[index].score >= knobs.min_score:
            wanted -= 1
        return wanted <= 0

    order = mmr_order([i.score for i in ranked], sets, knobs.mmr_lambda, enough)
    before = [item.chunk_id for item in ranked]
    after = [ranked[s.position] for s in order]
    for place, (item, chosen) in enumerate(zip(after, order, strict=True), 1):
        rival = pool.candidates[before[chosen.nearest]].location if chosen.nearest >= 0 else None
        item.ranks["mmr"] = place
        item.scores["mmr"] = chosen.value
        item.diversity = Diversity(chosen.picked, chosen.relevance, chosen.similarity, rival, chosen.value)
    moved = sum(1 for place, chosen in enumerate(order) if chosen.picked and chosen.position != place)
    elapsed = (perf_counter() - start) * 1000
    formula = "λ × relevance − (1 − λ) × largest similarity to a chosen hit"
    constants: dict[str, float | str | bool] = {"lambda": knobs.mmr_lambda, "tokens": knobs.mmr_tokens}
    stages.append(Stage("mmr", formula, constants, len(after), len(after), moved, elapsed))
    return after


def _token_bitsets(pool: Pool, kind: str, ids: Sequence[str]) -> list[int]:
    """Token bitsets of these candidates, made once a pool: similarity does not depend on knobs."""
    places, made = pool.memo.get(kind, ({}, {}))
    missing = [chunk_id for chunk_id in ids if chunk_id not in made]
    if missing:
        # Copies: another thread may be ranking the same pool.
        places, made = dict(places), dict(made)
        tokens = (TOKENISERS[kind](snippet_of(pool.candidates[chunk_id].text)) for chunk_id in missing)
        made.update(zip(missing, bitsets(tokens, places), strict=True))
        pool.memo[kind] = places, made
    return [made[chunk_id] for chunk_id in ids]
