"""An answer in short sentences: what was found, how sure, and what is wrong with it. And what became of one
passage in it. Both are made from facts that pool and trace hold, so they are true or absent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openclaw_mem_engine.model import Note, says_damage
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.ranking.kinds import RankedList, evidence
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import CandidateList, Pool
from openclaw_mem_engine.ranking.stages.snippets import WINDOW
from openclaw_mem_engine.ranking.trace import Trace, touches
from openclaw_mem_engine.sanitize import apart, capital, figure

#: What an answer from a damaged index is about.
READABLE = "the part of the index that can be read"


class Fate(NamedTuple):
    """What became of a line of the memory in one run: its ``rank`` among the results, or among all that were
    ranked (None: it was not ranked), whether the agent receives it, and both in words."""

    rank: int | None
    shown: bool
    text: str


def answer_text(pool: Pool, trace: Trace) -> str:
    """Short sentences, the last without its full stop: ``found`` and ``would_add``. Paths in them are as in
    the index."""
    parts = filter(None, (*found(pool, trace), would_add(trace)))
    return ". ".join(map(capital, parts))


def found(pool: Pool, trace: Trace) -> tuple[str, ...]:
    """How many results and why none, how many candidates the minimum score drops, how many results the agent
    gets in part only and which of them without their best line, and how the first one is ranked: clauses, the
    least important one last."""
    count = len(trace.results)
    absent = _absent_words(pool, trace)
    rescued = bool(count) and trace.cut is not None and not trace.cut.left
    head = _counted(count, "result") if count else _nothing(pool, trace)
    if absent:
        head += f"{' by vectors only: ' if count else '; '}{absent}"
    elif rescued:
        scores = trace.cut.entered if trace.cut else 0
        low = f"all {scores:,} scores are" if scores > 1 else "its score is"
        head += f" by keyword rescue: {low} below min score {trace.knobs.min_score:g}"
    truncated, loses = _truncated(trace)
    first = "" if loses or absent or not count else _first(trace)
    more = _below(trace) if count and not rescued else 0
    are = "is" if more == 1 else "are"
    below = f"{more:,} {are} below min score {trace.knobs.min_score:g}" if more else ""
    parts = (head, truncated, below) if loses else (head, below, truncated, first)
    return tuple(part for part in parts if part)


def fate(trace: Trace, path: str, line: int) -> Fate:
    """What became of the line ``line`` (1-based) of the file ``path``."""
    rows = [row for row in trace.rows if row.path == path and row.start_line <= line <= row.end_line]
    if not rows:
        return Fate(None, False, unsearched(trace.notes) or "in no candidate list")
    shown = next((row for row in rows if row.shown.holds(line)), None)
    row = shown or rows[0]  # rows begin with those nearest to being returned
    if row.returned:
        at = next(n for n, result in enumerate(trace.results, 1) if row.chunk_id in result.chunk_ids)
        part = "only in part" if any(touches(row.shown.lines, line) for row in rows) else "not"
        return Fate(
            at, shown is not None, f"rank {at}{'' if shown else f', but line {line} is {part} shown'}"
        )
    rank, reason = row.ranks.get("final"), row.outcome.reason or ""
    known = rank is None or reason.startswith("its rank ")
    return Fate(rank, False, reason if known else f"rank {rank}: {reason}")


def unsearched(notes: Iterable[Note]) -> str:
    """Why nothing was searched at all; empty when something was."""
    why = (note.text for note in notes if note.code in ("scope-denied", "no-collection", "no-notes"))
    return next(why, "").removesuffix(".")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _first(trace: Trace) -> str:
    """How the lists of the query itself rank the first result."""
    row = next(row for row in trace.returned if row.chunk_id == trace.results[0].chunk_ids[0])
    knobs = trace.knobs
    # What the tables show of it below the name of the list, unless something else is made of it.
    as_is = knobs.fusion != "weighted" or (knobs.vector_score == "cosine" and not knobs.line_vector)
    ranks = [
        f"{lst.name} rank {row.ranks[lst.key]}"
        if lst.kind.by_words
        else f"{lst.name} rank {row.ranks[lst.key]} ({_raw(lst, as_is)}{figure(row.scores[lst.key], 3)})"
        for lst in trace.lists
        if lst.key in row.ranks and lst.source.role == "original"
    ]
    return f"#1 has {', '.join(ranks)}" if ranks else "#1 is found only by variants of the query"


def _raw(lst: RankedList, as_is: bool) -> str:
    """What a list's own score is, before it, where the tables show another one."""
    return "" if as_is or lst.source.kind == "external" else "cosine "


def _nothing(pool: Pool, trace: Trace) -> str:
    """Why there is no result."""
    if why := unsearched(pool.notes):
        return why
    where = f" in {READABLE}" if says_damage(pool.notes) else ""
    if unrelated(pool, trace.knobs):
        return f"Nothing relevant found{where}"
    best = next((row for row in trace.dropped if row.final is not None), None)
    if best is not None and best.final is not None and best.outcome.stage == "min_score":
        score = apart(best.final, trace.knobs.min_score, trace.knobs.digits)
        least = f"min score {trace.knobs.min_score:g}"
        return f"Nothing{where} reaches {least}: the best is {score}, at {best.location}"
    if where:
        return f"Nothing found{where}"
    fresh = pool.freshness
    if (fresh is not None and fresh.state == "empty") or not pool.lists:
        return "Nothing found: nothing could be searched"
    if not trace.rows:
        return "Nothing found: no chunk matches"
    nearest = trace.rows[0]
    return f"Nothing returned; {nearest.location}: {nearest.outcome.reason}"


def _absent_words(pool: Pool, trace: Trace) -> str:
    """That the keyword lists found nothing, with the best cosine, unless a note has that of the results;
    empty where one did, or none was made."""
    knobs = trace.knobs
    lexical = [lst for lst in pool.lists if lst.kind == "lexical"]
    vector = pool.first("vector", knobs.space_number)
    if not lexical or any(lst.rows for lst in lexical) or vector is None or not vector.rows:
        return ""
    where = READABLE if says_damage(pool.notes) else "the index"
    text = (
        f"no chunk of {where} holds every searched word"
        if _every(lexical)
        else f"no searched word occurs in {where}"
    )
    if any(note.code == "weak" for note in trace.notes):
        return text
    best, floor = vector.rows[0].raw, vector.floor
    weak = f", below {floor:g} (weak)" if unrelated(pool, knobs) else ""
    return f"{text}, best cosine {apart(best, floor) if floor is not None else figure(best, 3)}{weak}"


def unrelated(pool: Pool, knobs: Knobs) -> bool:
    """Whether no candidate has to do with the query: no word of it occurs, and no cosine of a chunk or line
    reaches the floor of the weak. False where that is not known, or there is no candidate."""
    fitting = [lst for lst in pool.lists if lst.space_number in (None, knobs.space_number)]
    lexical = [lst for lst in fitting if lst.kind == "lexical"]
    if not lexical or _every(lexical) or all(lst.floor is None for lst in fitting):
        return False
    found = evidence(fitting, pool, list(pool.candidates))
    return bool(found) and not any(relevant for relevant, _ in found.values())


def _every(lexical: Sequence[CandidateList]) -> bool:
    """Whether a passage had to hold all of several words."""
    return lexical[0].every and len(lexical[0].words) > 1


def _truncated(trace: Trace) -> tuple[str, bool]:
    """Of how many results the agent gets a part only, and how many of these lose their best line or a part of
    it; whether any does."""
    rows = {row.chunk_id: row for row in trace.returned}
    of = [[rows[chunk_id] for chunk_id in result.chunk_ids] for result in trace.results]
    cut = [parts for parts in of if any(row.truncated or row.shown.best_line_cut for row in parts)]
    if not cut:
        return "", False
    lone = not of[1:]
    which = "the result is" if lone else "all" if len(cut) == len(of) else f"{len(cut)}"
    text = f"{which} truncated to {_most(trace.knobs)}"
    losing = [parts for parts in cut if any(row.shown.best_line_cut for row in parts)]
    if not losing:
        return text, False
    lost = [row.shown for parts in losing for row in parts if row.shown.best_line_cut]
    in_part = {touches(shown.lines, shown.best_line) for shown in lost}
    what = "all or part of " if len(in_part) > 1 else "a part of " if True in in_part else ""
    first = of[0][0].shown
    line = f"line {first.best_line}" if first.best_line_cut else ""
    if losing[1:]:
        return f"{text}, {len(losing)} lose {what}their best line", True
    who = ", and" if lone else ", #1" if line else ", 1"
    return f"{text}{who} loses {what}its best line{f' ({line})' if line else ''}", True


def _most(knobs: Knobs) -> str:
    """What no snippet of these knobs exceeds."""
    if knobs.snippet == "packed":
        return f"at most {knobs.budget:,} characters in all"
    most = f"{knobs.snippet_chars:,} characters"
    if knobs.snippet == "window":
        return f"{WINDOW} lines or {most}"
    return most if knobs.snippet == "head" else f"at most {most}"


def _below(trace: Trace) -> int:
    """How many candidates are below ``min_score`` and not returned."""
    low = trace.cut.entered - trace.cut.left if trace.cut else 0
    return low - sum(row.outcome.rescued for row in trace.returned)


def would_add(trace: Trace) -> str:
    """Keyword matches that ``min_score`` drops though results are free for them, and that a newer default
    returns; empty where there are none, with packed snippets, which need not hold a line of each, and with
    the profiles of QMD, which has no keyword rescue."""
    knobs = trace.knobs
    free = knobs.max_results - len(trace.returned)
    unknown = trace.cut is None or knobs.snippet == "packed" or knobs.profile.startswith("qmd")
    if free <= 0 or unknown or knobs.keyword_rescue == "fill":
        return ""
    terms = {lst.term for lst in trace.lists if lst.kind.by_words}
    below = (row for row in trace.unreturned if row.outcome.stage == "min_score")
    cut = sum(not terms.isdisjoint(row.scores) for row in below)
    filled = min(cut, free)
    if not filled:
        return ""
    more = f"{filled} more" if trace.returned else str(filled)
    return f"keyword rescue = fill would return {more} (OpenClaw 2026.9.6 has a similar rule)"
