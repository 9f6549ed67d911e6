"""The score of a candidate: which lists take part, how their values are combined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TypeVar

from openclaw_mem_engine.model import Later, Note
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.kinds import (
    KINDS,
    RankedList,
    Values,
    entrance,
    kinds_of,
    ranked_list,
    true_scores,
    why_absent,
)
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import MISSING_LIST_NOTES, Candidate, CandidateList, Pool
from openclaw_mem_engine.ranking.state import Outside, Ranked, RankingState
from openclaw_mem_engine.ranking.trace import Drop, Operand, Outcome, Row

T = TypeVar("T")
_LAST = 1e9  # sorts behind every rank


def take_candidates(state: RankingState) -> None:
    """Choose the lists of this mode and vector space; their first rows are the candidates, each list is a
    stage. Drops what no list ranks high enough (``pool``) and what only other lists hold (``mode``)."""
    knobs = state.knobs
    for source in state.pool.lists:
        if source.space_number not in (None, knobs.space_number):  # shown beside the chosen space
            state.shown_lists.append(ranked_list(state.pool, source, knobs.candidates, fused=False))
        elif knobs.takes(source.kind) and not is_ignored(knobs, source, state.pool.lists):
            state.lists.append(ranked_list(state.pool, source, knobs.candidates, fused=True))
    _note_missing(state)
    for lst in state.lists:
        source, rows = lst.source, len(lst.source.rows)
        constants: dict[str, float | str | bool] = {"candidates": lst.cut, "query": source.query}
        constants |= {"fetched": rows, "matched": source.found}
        if source.space:
            constants["space"] = source.space
        state.record(
            lst.key,
            lst.kind.ordered_by + "; every word must match" * (source.every and len(source.words) > 1),
            constants,
            kind="list",
            label=lst.label,
            heading=lst.heading,
            entered=source.found,
            left=min(rows, lst.cut),
            milliseconds=source.milliseconds,
        )
    state.outside = _outside


def _outside(state: RankingState) -> Outside:
    """Candidates that are in no list, or too far down."""
    members, lists = set(_members(state)), [(lst.ranks, lst.name) for lst in state.lists]

    def row(chunk_id: str) -> Row:
        if found := [(ranks[chunk_id], name) for ranks, name in lists if chunk_id in ranks]:
            reason = entrance(found, state.knobs)
            return state.row(chunk_id, Outcome("dropped", None, "pool", reason))
        why = _why_excluded(state, chunk_id)
        return state.row(chunk_id, Outcome("dropped", None, "mode", why))

    best = {chunk_id: _LAST for chunk_id in state.pool.candidates if chunk_id not in members}
    for ranks, _ in lists:
        for chunk_id, rank in ranks.items():
            if rank < best.get(chunk_id, 0):
                best[chunk_id] = rank
    return sorted(best, key=best.__getitem__), row


def _members(state: RankingState) -> list[str]:
    """Chunk ids inside the cut of any list, in the order of the lists."""
    return list(dict.fromkeys(chain.from_iterable(islice(lst.ranks, lst.cut) for lst in state.lists)))


#: How a note begins that says why the list of a mode is missing, and which other one was searched.
_ONLY = {"vector": "BM25 only: ", "bm25": "Vectors only: "}


def _note_missing(state: RankingState) -> None:
    """Say which list the knobs ask for and the pool does not hold."""
    knobs, spaces = state.knobs, {lst.space_number for lst in state.pool.lists} - {None}
    text = ""
    if knobs.takes("vector") and knobs.space_number and spaces and knobs.space_number not in spaces:
        text = (
            f"vector_space={knobs.vector_space} counts only the {knobs.vector_space} vector space, which was "
        )
        text += "not searched. The setting provider.also names its embedder."
    elif (
        knobs.mode != "hybrid"
        and not state.lists
        and all(note.code != "scope-denied" for note in state.pool.notes)  # then none was to be made
    ):
        only = _ONLY[knobs.mode]
        reasons = [note for note in state.notes if note.text.startswith(only)]
        text = "" if reasons else f"Mode {knobs.mode_word} is set, but its candidate list could not be made."
        # The other list, which is named, does not count either.
        for at, note in enumerate(state.notes):
            if note in reasons:
                said = f"Mode {knobs.mode_word} finds nothing: {note.text.removeprefix(only)}"
                state.notes[at] = replace(note, text=said)
    if text:
        state.notes.append(Note("list-missing", text, "warning"))


def is_ignored(knobs: Knobs, source: CandidateList, lists: Iterable[CandidateList]) -> bool:
    """Whether vectors say nothing of a query in this script, and one of ``lists`` can be searched instead."""
    return (
        knobs.same_script and not source.suits and any(lst.suits and knobs.takes(lst.kind) for lst in lists)
    )


def _why_excluded(state: RankingState, chunk_id: str) -> str:
    spaces = [lst.source.space for lst in state.shown_lists if chunk_id in lst.ranks]
    shown = f"the vectors of {', '.join(spaces)}, which are not fused (vector_space)"
    fitting = (lst for lst in state.pool.lists if lst.space_number in (None, state.knobs.space_number))
    holding = [lst for lst in fitting if any(chunk_id == row.chunk_id for row in lst.rows)]
    if any(is_ignored(state.knobs, lst, state.pool.lists) for lst in holding):
        return "found only by vectors, which say nothing of a query in this script (same_script)"
    if holding and not spaces:
        candidate = state.pool.candidates[chunk_id]
        searched = (lst for lst in state.lists if lst.kind.by_words and lst.source.matched is not None)
        why = [f"{lst.name} {why_absent(lst, candidate)}" for lst in searched]
        why += [state.knobs.unused({lst.kind for lst in holding}).partition("; ")[2]] if why else []
        if why:
            return "; ".join(why)
    if holding:
        only = state.knobs.unused({lst.kind for lst in holding})
        return f"{only}, nor {shown}" if spaces and state.knobs.mode == "vector" else only
    return f"found only by {shown}"


class _Fused(NamedTuple):
    """The scores of all candidates, best first, and what they are made of: the ``values`` of each list, and
    what is ``added`` of it (times its weight). ``by_words`` are the chunks that a list by words values."""

    totals: dict[str, float]
    values: list[Values]
    added: list[Values]
    by_words: frozenset[str]


def fuse(state: RankingState) -> None:
    """One score for every candidate: values × weights (``weighted``), or list weight / (k + rank) (``rrf``
    and ``position``; Cormack, Clarke and Büttcher, 2009). Ties keep the order of the lists."""
    lists, knobs = state.lists, state.knobs
    weights = _weights(state)
    reads = tuple(getattr(knobs, name) for lst in lists for name in lst.kind.reads)
    key = "fused", _among(state), reads, tuple(weights), knobs.fusion, knobs.rrf_k
    totals, values, added, state.by_words = _once(state, key, lambda: _fused(state, weights))
    made = [Ranked(chunk_id, score) for chunk_id, score in totals.items()]
    if state.explained:
        named = [(lst.term, v.by_id) for lst, v in zip(lists, values, strict=True) if lst.term != lst.key]
        for item in made:
            i = item.chunk_id
            item.scores = {"fusion": item.score} | {term: by_id[i] for term, by_id in named if i in by_id}
    terms = list(zip(lists, added, weights, strict=True))
    state.fused = partial(_operands, state.pool, terms)
    state.add(made)
    state.reorder("fusion", made)
    explained = any(note.code in MISSING_LIST_NOTES for note in state.pool.notes)
    kinds = {lst.source.kind for lst in lists}
    alone = len(kinds) == 1 and kinds != {"external"}
    if made and alone and knobs.mode == "hybrid" and not explained and knobs.fusion != "position":
        text = f"{lists[0].kind.title} only: the score of this list counts in full."
        state.notes.append(Note("single-list", text, "info"))
    state.no_cut = _why_no_cut(state)
    state.why_low.append(partial(_ceiling, terms, knobs))
    formula, constants = _formula(state, values, weights)
    fuses = sum(bool(lst.ranks) for lst in lists) > 1
    state.record(
        "fusion",
        formula,
        constants,
        kind="fusion",
        label="fused" if fuses else "scored",
        heading="weighted sum of the lists, or sum of reciprocal ranks (RRF)"
        if fuses
        else "by one list alone",
        entered=sum(min(len(lst.ranks), lst.cut) for lst in lists),
    )


def _fused(state: RankingState, weights: Sequence[float]) -> _Fused:
    lists, knobs, signals = state.lists, state.knobs, state.pool.signals
    members, among, values = _members(state), _among(state), []
    for lst in lists:
        true = partial(true_scores, lst, signals.get(lst.source.id, {}), knobs.fill_missing, members)
        scored = partial(_once, state, ("true", lst.source.id, among, knobs.fill_missing), true)
        key = lst.source.id, among, *(getattr(knobs, name) for name in lst.kind.reads)
        values.append(_once(state, key, partial(lst.kind.values, lst, scored, knobs)))
    added = values if knobs.fusion == "weighted" else [_reciprocals(lst, knobs.rrf_k) for lst in lists]
    totals = dict.fromkeys(members, 0.0)
    for found, weight in zip(added, weights, strict=True):
        for chunk_id, value in found.by_id.items():
            totals[chunk_id] += value * weight
    best_first = {i: totals[i] for i in sorted(totals, key=totals.__getitem__, reverse=True)}
    by_words = (found.by_id for lst, found in zip(lists, values, strict=True) if lst.kind.by_words)
    return _Fused(best_first, values, added, frozenset(chain.from_iterable(by_words)))


def _among(state: RankingState) -> tuple[object, ...]:
    """What decides which chunks are the candidates."""
    return *(lst.source.id for lst in state.lists), state.knobs.candidates


def _once(state: RankingState, key: tuple[object, ...], make: Callable[[], T]) -> T:
    """What ``make`` returns; remembered by the settings that enter it where many are tried."""
    memo: dict[object, T] = {} if state.explained else state.pool.memo.setdefault("fusion", {})
    if key not in memo:
        memo[key] = make()
    return memo[key]


def _weights(state: RankingState) -> list[float]:
    """RRF: the list's own. Weighted: the share of its kind (1 when there is only one kind), divided among
    the lists of that kind by their own weights."""
    lists, knobs = state.lists, state.knobs
    own = [knobs.weight_of(lst.source) for lst in lists]
    if knobs.fusion != "weighted":
        return own
    totals: dict[str, float] = {}
    for lst, weight in zip(lists, own, strict=True):
        totals[lst.source.kind] = totals.get(lst.source.kind, 0.0) + weight
    shares = {kind: KINDS[kind].weight(knobs) if len(totals) > 1 else 1.0 for kind in KINDS}
    kinds = (lst.source.kind for lst in lists)
    return [shares[kind] * (weight / totals[kind]) for kind, weight in zip(kinds, own, strict=True)]


def _reciprocals(lst: RankedList, k: int) -> Values:
    inside = enumerate(lst.source.rows[: lst.cut], 1)
    values = {row.chunk_id: 1.0 / (k + rank) for rank, row in inside}
    return Values(values, lambda chunk_id: {"rank": lst.ranks[chunk_id], "k": k})


#: A list, what is added of it, and its weight.
_Term = tuple[RankedList, Values, float]


def _operands(pool: Pool, terms: Sequence[_Term], chunk_id: str) -> tuple[Operand, ...]:
    candidate = pool.candidates[chunk_id]
    return tuple([_operand(lst, candidate, weight, values) for lst, values, weight in terms])


def _operand(lst: RankedList, candidate: Candidate, weight: float, values: Values) -> Operand:
    chunk_id = candidate.chunk_id
    if (value := values.by_id.get(chunk_id)) is not None:
        named = "matches only with words of its path" if chunk_id in (lst.source.by_name or ()) else ""
        return Operand("fusion", lst.term, "add", value, weight, values.inputs(chunk_id), named)
    why = Later(partial(why_absent, lst, candidate))
    return Operand("fusion", lst.term, "add", 0.0, weight, {}, why)


def _formula(
    state: RankingState, values: Sequence[Values], weights: Sequence[float]
) -> tuple[str, dict[str, float | str | bool]]:
    knobs = state.knobs
    constants: dict[str, float | str | bool] = {}
    if knobs.fusion != "weighted":
        weighted = any(weight != 1.0 for weight in weights)
        return f"Σ {'weight' if weighted else '1'} / (k + rank)", {"k": knobs.rrf_k}
    for lst, found, weight in zip(state.lists, values, weights, strict=True):
        constants[f"{lst.term}_weight"] = weight
        constants[f"{lst.term}_score"] = found.formula
    terms = (f"{weight:g} × {lst.name}" for lst, weight in zip(state.lists, weights, strict=True))
    return " + ".join(terms) or "no candidate list", constants


def _why_no_cut(state: RankingState) -> str | None:
    """Scores made of ranks are not on the scale that the minimum was set for: an RRF sum of two lists is at
    most 2/61, and a single text score says only "first"."""
    if state.knobs.fusion == "position":
        return None  # QMD compares its minimum with 1 / rank, blended with the rerank score
    if state.knobs.bm25_score == "ratio" and state.knobs.fusion == "weighted":
        return None  # made of bm25 itself
    if state.knobs.fusion == "rrf":
        what = "RRF scores"
    elif state.lists and all(lst.kind.by_words for lst in state.lists):
        what = f"scores of {kinds_of(state.lists)} only"
    else:
        return None
    return f"min score is not applied: {what} come from ranks, not relevance"


def _ceiling(terms: Sequence[_Term], knobs: Knobs, item: Ranked) -> Drop | None:
    """Said of a candidate whose lists, all others being silent, cannot lift it over the minimum."""
    if knobs.fusion != "weighted" or any(o.op == "add" for o in item.operands):
        return None  # a score of ranks, or one with a term of a later stage
    found = [(lst, weight) for lst, values, weight in terms if item.chunk_id in values.by_id]
    ceilings = [lst.kind.ceiling(knobs) for lst, _ in found]
    if not found or len(found) == len(terms) or None in ceilings:
        return None
    most = sum(weight * (top or 0.0) for (_, weight), top in zip(found, ceilings, strict=True))
    title = found[0][0].kind.title
    if most >= knobs.min_score:
        return None
    return Drop("", f"with {title} only, a match scores at most {most:g}")
