"""An answer as text for people: hits, stages, arithmetic, and what was left out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.matching import best_lines, emphasised
from openclaw_mem_engine.cli.progress import duration
from openclaw_mem_engine.cli.terminal import Style, aligned, crop, one_line, setting_text
from openclaw_mem_engine.cli.text_format import fallback_words
from openclaw_mem_engine.explain import (
    arithmetic,
    digits_of,
    diversity,
    other_vectors,
    stage_effect,
    stage_formula,
)
from openclaw_mem_engine.matches import Matches
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer, Hit
    from openclaw_mem_engine.ranking.trace import Row

#: Dropped rows that ``--explain`` prints; the rest is counted.
DROPPED_SHOWN = 8
_SNIPPET_LINES = 3
#: A sync before the search that took less is not worth a word, seconds.
_WAITED_S = 0.05
_RESCUED = "kept by keyword rescue"


def answer_lines(answer: Answer, style: Style, columns: int) -> Iterator[str]:
    """The hits, each with the lines that tell most, then one line on how they were found."""
    matches = Matches.of(answer.pool)
    for hit in answer.hits:
        yield from _hit(hit, answer, matches, style, columns)
        yield ""
    if not answer.hits:
        yield nothing_found(answer)
    yield from closing(answer, style)


def explained_lines(answer: Answer, style: Style, columns: int) -> Iterator[str]:
    """The same with every stage before it, the arithmetic of every hit, and the first of the dropped."""
    matches = Matches.of(answer.pool)
    yield from stage_lines(answer, style)
    yield ""
    for hit, row in zip(answer.hits, answer.trace.returned, strict=True):
        yield from _hit(hit, answer, matches, style, columns)
        indent = " " * 11
        yield indent + visible(arithmetic(row, answer.trace.knobs))
        if row.diversity is not None:
            yield indent + one_line(diversity(row, answer.trace.knobs))
        if beside := other_vectors(row, answer.trace):
            yield indent + style.dim(one_line(beside))
        yield ""
    if not answer.hits:
        yield nothing_found(answer)
        yield ""
    yield from dropped_lines(answer, style, DROPPED_SHOWN)
    yield from closing(answer, style)


def stage_lines(answer: Answer, style: Style) -> list[str]:
    """One line a stage: name, candidates in and out, what it moved, its formula."""
    rows = [("stage", "in", "", "out", "effect", "formula")]
    for stage in answer.trace.stages:
        counts = (f"{stage.entered:>5}", "→", f"{stage.left:<5}")
        rows.append((stage.name, *counts, stage_effect(stage), one_line(stage_formula(stage))))
    head, *lines = aligned(rows)
    return [style.strong(head), *lines]


def hit_lines(answer: Answer, style: Style, columns: int, limit: int) -> Iterator[str]:
    """One line a hit, for comparing two runs."""
    digits = digits_of(answer.trace.knobs)
    matches = Matches.of(answer.pool)
    for hit in answer.hits[:limit]:
        head = f"{hit.rank:>3}  {hit.score:.{digits}f}  {_place(hit.path, hit.start_line, hit.end_line)}"
        head += f"  [{_RESCUED}]" if hit.rescued else ""
        yield head
        line = (best_lines(matches, hit.text, 2) or [""])[-1]
        yield " " * 11 + style.dim(crop(one_line(line), columns - 11))
    if not answer.hits:
        yield nothing_found(answer)


def dropped_lines(answer: Answer, style: Style, limit: int) -> Iterator[str]:
    """What was nearest to being returned, with stage and reason; the rest as a number."""
    dropped = answer.trace.dropped
    if not dropped:
        return
    yield style.strong(f"not returned ({len(dropped):,})")
    digits = digits_of(answer.trace.knobs)
    yield from (f"  {line}" for line in aligned([_dropped(row, digits) for row in dropped[:limit]]))
    if len(dropped) > limit:
        yield style.dim(f"  {len(dropped) - limit:,} more; --json --explain lists them all")
    yield ""


def _dropped(row: Row, digits: int) -> tuple[str, ...]:
    score = "" if row.final is None else f"{row.final:.{digits}f}"
    place = _place(row.path, row.start_line, row.end_line)
    return score, place, row.outcome.stage or "", one_line(row.outcome.reason or "")


def nothing_found(answer: Answer) -> str:
    """Why the answer is empty, with what would have been best and how to see it."""
    trace = answer.trace
    best = next((row for row in trace.dropped if row.final is not None), None)
    if best is not None and best.final is not None and best.outcome.stage == "min_score":
        place = _place(best.path, best.start_line, best.end_line)
        told = (
            f"Nothing passes: best was {best.final:.2f} at {place}, below min_score {trace.knobs.min_score:g}"
        )
        lower = max(0.0, math.floor(best.final * 20) / 20)
        return f"{told}; try --set min_score={lower:g}" if best.final >= 0 else f"{told}."
    fresh = answer.pool.freshness
    if (fresh is not None and fresh.state == "empty") or not answer.pool.lists:
        return "Nothing found: nothing could be searched."
    if not trace.rows:
        return "Nothing found: no passage matches."
    return f"Nothing found: {one_line(trace.rows[0].outcome.reason or 'no passage matches')}."


def closing(answer: Answer, style: Style) -> Iterator[str]:
    """How the answer was made, in one line, then what makes it less than it could be."""
    trace, pool = answer.trace, answer.pool
    spent = sum(pool.timings.values()) + trace.milliseconds
    fresh, waited = pool.freshness, answer.sync_seconds or 0.0
    parts = [
        f"{len(trace.returned)} of {len(trace.rows):,} candidates",
        f"profile {_profile(answer)}",
        f"provider {pool.provider}",
        f"index {fresh.state}" if fresh is not None else "",
        f"{spent:.1f} ms",
        f"after {duration(waited)} of bringing the index up to date" if waited >= _WAITED_S else "",
    ]
    yield style.dim(one_line(" · ".join(part for part in parts if part)))
    if pool.fallback is not None:
        yield f"{style.mark('fallback')}: {fallback_words(pool.fallback, pool.now)}"
    for note in trace.notes:
        text = one_line(note.text)
        yield f"{style.mark(note.level)}: {text}" if note.level == "warning" else style.dim(f"note: {text}")


def _profile(answer: Answer) -> str:
    """The profile's name and what was changed of it."""
    from openclaw_mem_engine.ranking.knobs import profile

    knobs = answer.trace.knobs
    changes = knobs.changes_from(profile(knobs.profile))
    told = ", ".join(f"{name} {setting_text(value)}" for name, value in changes.items())
    return f"{knobs.profile} with {told}" if told else knobs.profile


def _hit(hit: Hit, answer: Answer, matches: Matches, style: Style, columns: int) -> Iterator[str]:
    digits = digits_of(answer.trace.knobs)
    place = style.strong(_place(hit.path, hit.start_line, hit.end_line))
    mark = f"  {style.mark(f'[{_RESCUED}]')}" if hit.rescued else ""
    yield f"{hit.rank:>3}  {hit.score:.{digits}f}  {place}{mark}"
    room = columns - 11
    for raw in best_lines(matches, hit.to_dict()["snippet"], _SNIPPET_LINES):
        yield " " * 11 + emphasised(matches, crop(_around(one_line(raw), matches, room), room), style.match)


def _around(line: str, matches: Matches, room: int) -> str:
    """A long line from shortly before its first match, when that would be cropped away otherwise."""
    found = matches.ranges(line) if len(line) > room else []
    start = found[0][0] - room // 3 if found and found[0][1] > room - 1 else 0
    return f"…{line[start:].lstrip()}" if start > 0 else line


def _place(path: str, start: int, end: int) -> str:
    return one_line(f"{path}:{start}-{end}")
