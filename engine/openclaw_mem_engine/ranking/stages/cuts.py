"""The last decisions: score cut, keyword rescue, max results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from openclaw_mem_engine.model import Note
from openclaw_mem_engine.ranking.kinds import may_match
from openclaw_mem_engine.ranking.state import Ranked, RankingState
from openclaw_mem_engine.sanitize import capital, decimals, figure


def cut_by_score(state: RankingState) -> None:
    """Drop what is below the minimum score, where scores have a scale (``state.no_cut``)."""
    minimum, no_cut, before = state.knobs.min_score, state.no_cut, state.ranked
    if no_cut is None:
        state.ranked = [item for item in before if item.score >= minimum]
        state.low = [item for item in before if item.score < minimum]
        state.why_below = partial(_why_below, minimum, state.knobs.digits)
        _drop_low(state, state.low, state.why_below)
    elif minimum > 0 and before:
        state.notes.append(Note("cut-not-applied", f"{capital(no_cut)}."))
    state.record(
        "min_score",
        f"score ≥ {minimum:g}" if no_cut is None else "does not apply",
        {"min_score": minimum},
        note=no_cut or "",
        kind="cut",
        label="min",
        heading="out: below min score",
        limit=minimum,
    )


def _drop_low(
    state: RankingState, items: Sequence[Ranked], why: Callable[[Ranked], str], cause: str = ""
) -> None:
    state.drop(items, "min_score", why, lambda item: -item.score, cause, [*state.why_low])


def _why_below(minimum: float, digits: int, item: Ranked) -> str:
    many = decimals(item.score, minimum, digits)
    short = f"{minimum - item.score:.{many}f}"
    return f"its score {figure(item.score, many)} is below min score {minimum:g} by {short}"


def rescue_keyword_hits(state: RankingState) -> None:
    """Take back keyword hits below the score cut: all of them when nothing passed (``when-empty``), or to
    fill free result slots (``fill``). Where it takes any, it is this that decides about the others."""
    knobs, passed = state.knobs, len(state.ranked)
    if knobs.keyword_rescue == "off" or state.no_cut is not None:
        return
    fills = knobs.keyword_rescue == "fill"
    free = max(0, knobs.max_results - passed) if fills or not passed else 0
    matches = [item for item in state.low if item.chunk_id in state.by_words] if free else []
    saved = matches[:free]
    for item in saved:
        state.restore(item)
    if saved:
        for rank, item in enumerate((*state.ranked, *(i for i in state.low if not i.rescued)), 1):
            item.rank = rank
    if saved and state.explained:
        _drop_unrescued(state, matches, len(saved))
    state.record(
        "keyword_rescue",
        "keyword matches fill free results" if fills else "keyword matches are kept if nothing passes",
        {"keyword_rescue": knobs.keyword_rescue},
        changed=len(saved),
        kind="rescue",
        label="keyword rescue",
        heading="keyword matches below min score that are kept",
    )


def _drop_unrescued(state: RankingState, matches: Sequence[Ranked], kept: int) -> None:
    """Drop again what keyword rescue did not take, with the reason for that."""
    below, numbers = state.why_below, {item.chunk_id: at for at, item in enumerate(matches, 1)}
    first = f"the first {kept} keyword matches" if kept > 1 else "the first keyword match"
    which = first + " below min score" * (state.knobs.keyword_rescue == "fill")

    def why_late(item: Ranked) -> str:
        number = f"and it is number {numbers[item.chunk_id]} of {len(numbers)}"
        return f"{below(item)}; keyword rescue kept {which}, {number}"

    lists = [lst for lst in state.lists if lst.kind.by_words]

    def why_not(item: Ranked) -> str:
        known = any(may_match(lst, item.chunk_id) for lst in lists)
        is_none = f"one of the first {lists[0].cut} keyword matches" if known else "a keyword match"
        return f"{below(item)}; it is not {is_none}; keyword rescue keeps only those"

    _drop_low(state, matches[kept:], why_late, f"beyond {first}")
    others = [item for item in state.low if item.chunk_id not in numbers]
    _drop_low(state, others, why_not, "without a keyword match")


def cut_by_count(state: RankingState) -> None:
    """Keep the first ``max_results``, or those whose lines are packed. What its score alone would have kept
    was displaced by the stage that changed the order, which names the reason."""
    most, why_displaced, before = state.knobs.depth, state.why_displaced, state.ranked
    state.ranked = before[:most]
    firsts = "is" if most == 1 else f"{most} are"
    done = "considered for packing" if state.knobs.snippet == "packed" else "returned"
    beyond = before[most:]
    if why_displaced is not None:
        passed = sorted((i for i in before if not i.rescued), key=lambda item: -item.score)
        by_score = {item.chunk_id for item in passed[:most]}
        stage, why = why_displaced
        displaced = [item for item in beyond if item.chunk_id in by_score]
        state.drop(displaced, stage, partial(why, kept=tuple(state.ranked)))
        beyond = [item for item in beyond if item.chunk_id not in by_score]

    def why_late(item: Ranked) -> str:
        return f"its rank is {item.rank}, and only the first {firsts} {done}"

    state.drop(beyond, "max_results", why_late, lowered=[*state.why_late])
    state.record(
        "max_results",
        f"first {most}{f' are {done}' * (done != 'returned')}",
        {"max_results": state.knobs.max_results},
        kind="count",
        label="max",
        heading="out: beyond max results",
        limit=most,
    )
