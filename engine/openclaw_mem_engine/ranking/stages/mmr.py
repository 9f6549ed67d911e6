"""Maximal Marginal Relevance (Carbonell and Goldstein, 1998) over token sets kept as integer bitsets."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from openclaw_mem_engine.model import snippet_of
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Diversity
from openclaw_mem_engine.sanitize import CJK, figure

_ASCII_WORD = re.compile(r"[a-z0-9_]+")
# Compiled at first use: classes of CJK characters take milliseconds.
_CJK_RUN = f"[{CJK}]+"
_OTHER_WORD = rf"[^\W{CJK}]+"


def ascii_tokens(text: str) -> frozenset[str]:
    """Words of ``[a-z0-9_]`` in the lower-cased text, as OpenClaw 2026.2 compares them (CJK has none)."""
    return frozenset(_ASCII_WORD.findall(text.lower()))


def unicode_tokens(text: str) -> frozenset[str]:
    """Words of any script; a CJK run gives its characters and its neighbouring pairs."""
    if text.isascii():
        return ascii_tokens(text)  # the same words, found in half the time
    text = text.lower()
    found = set(re.findall(_OTHER_WORD, text))
    for run in re.findall(_CJK_RUN, text):
        found.update(run)
        found.update(run[i : i + 2] for i in range(len(run) - 1))
    return frozenset(found)


TOKENISERS: dict[str, Callable[[str], frozenset[str]]] = {"ascii": ascii_tokens, "unicode": unicode_tokens}


def bitsets(token_sets: Iterable[frozenset[str]], positions: dict[str, int] | None = None) -> list[int]:
    """One integer for each text, one bit for each distinct token: ``|A ∩ B|`` is ``(a & b).bit_count()``.
    ``positions``, the bit of each token, is added to: sets made with the same ones can be compared."""
    positions = {} if positions is None else positions
    result = []
    for tokens in token_sets:
        bits = 0
        for token in tokens:
            bits |= 1 << positions.setdefault(token, len(positions))
        result.append(bits)
    return result


class Selection(NamedTuple):
    """One candidate after selection. ``value`` is ``λ·relevance − (1 − λ)·similarity`` when it was picked, or
    when the last one was and it was not: the two values that were compared. ``nearest`` is the position of
    the candidate it resembles most of those picked before, or -1."""

    position: int
    picked: bool
    relevance: float
    similarity: float
    nearest: int
    value: float


def mmr_order(
    scores: Sequence[float],
    sets: Sequence[int],
    lam: float,
    enough: Callable[[int], bool] | None = None,
) -> list[Selection]:
    """All candidates in MMR order; ties go to the larger score, then to the earlier candidate.

    ``scores`` and ``sets`` are parallel. ``enough(index)`` is called after each pick and ends the selection
    when true; the rest follow by the value with which they lost to this pick. A candidate's value can only
    fall while picks are made, so a heap of upper bounds finds each maximum without comparing all pairs.
    """
    lam = min(1.0, max(0.0, lam))
    if not scores:
        return []
    low, spread = min(scores), max(scores) - min(scores)
    relevance = [(s - low) / spread if spread else 1.0 for s in scores]
    counts = [bits.bit_count() for bits in sets]
    similarity = [0.0] * len(scores)
    nearest = [-1] * len(scores)
    seen = [0] * len(scores)
    picked: list[int] = []
    ordered: list[Selection] = []

    def refresh(index: int) -> float:
        """Bring a candidate's largest similarity up to date with the picks made since the last refresh, and
        return its value. Similarity is Jaccard's; two empty sets are equal, as in the original."""
        bits, count, best = sets[index], counts[index], similarity[index]
        for other in picked[seen[index] :]:
            shared = (bits & sets[other]).bit_count()
            union = count + counts[other] - shared
            alike = shared / union if union else 1.0
            if alike > best or nearest[index] < 0:
                best, nearest[index] = alike, other
        similarity[index] = best
        seen[index] = len(picked)
        return lam * relevance[index] - (1.0 - lam) * best

    heap = [(-lam * rel, -score, i) for i, (rel, score) in enumerate(zip(relevance, scores, strict=True))]
    heapq.heapify(heap)
    done = False
    while heap and not done:
        bound, tie, index = heap[0]
        if lam < 1.0 and seen[index] < len(picked):
            heapq.heapreplace(heap, (-refresh(index), tie, index))
            continue
        heapq.heappop(heap)
        ordered.append(Selection(index, True, relevance[index], similarity[index], nearest[index], -bound))
        done = enough is not None and enough(index)
        if not done:
            picked.append(index)
    rest = [(-refresh(index) if lam < 1.0 else bound, tie, index) for bound, tie, index in heap]
    ordered.extend(
        Selection(index, False, relevance[index], similarity[index], nearest[index], -bound)
        for bound, _, index in sorted(rest)
    )
    return ordered


def diversify(state: RankingState) -> None:
    """Order the candidates by MMR until enough hits for the result are chosen. Scores do not change."""
    knobs, before = state.knobs, state.ranked
    if not knobs.mmr:
        return
    missing = {item.chunk_id for item in before if state.wanted and item.chunk_id in state.wanted.chunk_ids}
    alone = state.wanted is not None and knobs.snippet != "packed"  # packed lines share one budget
    if alone and (not missing or _order_is_idle(state)):
        return
    sets = token_bitsets(state.pool, knobs.mmr_tokens, [item.chunk_id for item in before])
    wanted = knobs.depth

    def enough(index: int) -> bool:
        # What comes after the last returned hit needs no exact order, only its value and its nearest hit.
        nonlocal wanted
        missing.discard(before[index].chunk_id)
        if alone and not missing:
            return True
        if state.no_cut is not None or before[index].score >= knobs.min_score:
            wanted -= 1
        return wanted <= 0

    order = mmr_order([item.score for item in before], sets, knobs.mmr_lambda, enough)
    near_of: dict[str, str] = {}
    for chosen in order if state.explained else ():
        item, nearest = before[chosen.position], None
        if chosen.nearest >= 0:
            near = near_of[item.chunk_id] = before[chosen.nearest].chunk_id
            nearest = state.pool.candidates[near].location
        item.scores["mmr"] = chosen.value
        item.diversity = Diversity(chosen.picked, chosen.relevance, chosen.similarity, nearest, chosen.value)
    state.reorder("mmr", [before[chosen.position] for chosen in order])
    state.why_displaced = "mmr", partial(_why_displaced, near_of, numbered=knobs.snippet != "packed")
    moved = sum(1 for at, chosen in enumerate(order) if chosen.picked and chosen.position != at)
    state.record(
        "mmr",
        "lambda × relevance − (1 − lambda) × largest similarity to a chosen chunk",
        {
            "lambda": knobs.mmr_lambda,
            "tokens": knobs.mmr_tokens,
            "picked": sum(chosen.picked for chosen in order),
            "lowest": min((item.score for item in before), default=0.0),
            "highest": max((item.score for item in before), default=0.0),
        },
        changed=moved,
        kind="order",
        label="MMR",
        heading="out: too similar to a better chunk",
    )


def _order_is_idle(state: RankingState) -> bool:
    """Whether no later stage drops anything because of its rank: all that pass the score cut are returned,
    and keyword rescue takes none of the others, or all."""
    knobs, count = state.knobs, len(state.ranked)
    passing = count
    if state.no_cut is None:
        passing = sum(1 for item in state.ranked if item.score >= knobs.min_score)
    rescue = knobs.keyword_rescue
    unused = passing == count or rescue == "off" or (rescue == "when-empty" and passing > 0)
    return count <= knobs.depth or (unused and passing <= knobs.depth)


def _why_displaced(
    near_of: Mapping[str, str], item: Ranked, kept: Sequence[Ranked], *, numbered: bool
) -> str:
    """What was compared: its value with that of the last hit ``kept``, which no earlier one is below, and the
    similarity that lowered it. ``numbered``: hits are returned by the numbers that they have here."""
    seen, last = item.diversity, kept[-1].diversity
    if seen is None or last is None:
        return ""
    many = next((n for n in range(3, 9) if round(seen.value, n) < round(last.value, n)), 3)
    compares = "is below" if seen.value < last.value else "equals"
    of = f"#{len(kept)}" if numbered else f"the last of {len(kept)}"
    text = f"its MMR value {figure(seen.value, many)} {compares} {figure(last.value, many)}, that of {of}"
    if seen.nearest is not None and seen.similarity > 0:
        numbers = (n for n, hit in enumerate(kept, 1) if hit.chunk_id == near_of[item.chunk_id])
        number = next(numbers, None) if numbered else None
        where = f"#{number}" if number is not None else seen.nearest
        text += f"; its similarity to {where} is {seen.similarity:.3f}"
    return f"{text}; by score alone it would be kept"


def token_bitsets(pool: Pool, kind: str, ids: Sequence[str]) -> list[int]:
    """Token bitsets of these candidates, made once for a pool: similarity does not depend on knobs."""
    positions, made = pool.memo.get(kind, ({}, {}))
    missing = [chunk_id for chunk_id in ids if chunk_id not in made]
    if missing:
        # Copies: another thread may be ranking the same pool.
        positions, made = dict(positions), dict(made)
        tokens = (TOKENISERS[kind](snippet_of(pool.candidates[chunk_id].text)) for chunk_id in missing)
        made.update(zip(missing, bitsets(tokens, positions), strict=True))
        pool.memo[kind] = positions, made
    return [made[chunk_id] for chunk_id in ids]
