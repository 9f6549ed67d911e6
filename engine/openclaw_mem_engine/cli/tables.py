"""An answer as text: hits with their matching lines, stages, arithmetic, and what was not returned."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from openclaw_mem_engine.answer import Matches
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
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer, Hit
    from openclaw_mem_engine.ranking.trace import Row

#: Dropped rows that ``--explain`` prints; the rest is counted.
DROPPED_SHOWN = 8
_SNIPPET_LINES = 3
#: A sync before the search that took less is not mentioned, seconds.
_WAITED_S = 0.05
_RESCUED = "kept by keyword rescue"
_INDENT = " " * 11
_WORD = re.compile(r"[^\W_]")


def answer_lines(answer: Answer, style: Style, columns: int) -> Iterator[str]:
    """The hits, each with the lines that match best, then one line on how they were found."""
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
        yield _INDENT + visible(arithmetic(row, answer.trace.knobs))
        if row.diversity is not None:
            yield _INDENT + one_line(diversity(row, answer.trace.knobs))
        if beside := other_vectors(row, answer.trace):
            yield _INDENT + style.dim(one_line(beside))
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
        head = f"{hit.rank:>3}  {hit.score:.{digits}f}  {_location(hit.path, hit.start_line, hit.end_line)}"
        head += f"  [{_RESCUED}]" if hit.rescued else ""
        yield head
        line = (best_lines(matches, hit.text, 2) or [""])[-1]
        yield _INDENT + style.dim(crop(one_line(line), columns - len(_INDENT)))
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
    location = _location(row.path, row.start_line, row.end_line)
    return score, location, row.outcome.stage or "", one_line(row.outcome.reason or "")


def nothing_found(answer: Answer) -> str:
    """Why the answer is empty, with what would have been best and how to see it."""
    trace = answer.trace
    best = next((row for row in trace.dropped if row.final is not None), None)
    if best is not None and best.final is not None and best.outcome.stage == "min_score":
        location = _location(best.path, best.start_line, best.end_line)
        limit = f"below min_score {trace.knobs.min_score:g}"
        reason = f"Nothing passes: best was {best.final:.2f} at {location}, {limit}"
        lower = max(0.0, math.floor(best.final * 20) / 20)
        return f"{reason}; try --set min_score={lower:g}" if best.final >= 0 else f"{reason}."
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
    listed = ", ".join(f"{name} {setting_text(value)}" for name, value in changes.items())
    return f"{knobs.profile} with {listed}" if listed else knobs.profile


def _hit(hit: Hit, answer: Answer, matches: Matches, style: Style, columns: int) -> Iterator[str]:
    digits = digits_of(answer.trace.knobs)
    location = style.strong(_location(hit.path, hit.start_line, hit.end_line))
    mark = f"  {style.mark(f'[{_RESCUED}]')}" if hit.rescued else ""
    yield f"{hit.rank:>3}  {hit.score:.{digits}f}  {location}{mark}"
    room = columns - len(_INDENT)
    for raw in best_lines(matches, hit.to_dict()["snippet"], _SNIPPET_LINES):
        yield _INDENT + emphasised(matches, crop(_around(one_line(raw), matches, room), room), style.match)


def _around(line: str, matches: Matches, room: int) -> str:
    """A long line from shortly before its first match, when that would be cropped away otherwise."""
    found = matches.ranges(line) if len(line) > room else []
    start = found[0][0] - room // 3 if found and found[0][1] > room - 1 else 0
    return f"…{line[start:].lstrip()}" if start > 0 else line


def _location(path: str, start: int, end: int) -> str:
    return one_line(f"{path}:{start}-{end}")


def emphasised(matches: Matches, line: str, put: Callable[[str], str]) -> str:
    """The line with ``put`` around every match."""
    parts, at = [], 0
    for start, stop in matches.ranges(line):
        parts += [line[at:start], put(line[start:stop])]
        at = stop
    return "".join([*parts, line[at:]])


def best_lines(matches: Matches, text: str, limit: int) -> list[str]:
    """At most ``limit`` lines of a passage: the first one (often a heading) and those with most distinct
    matches, in their own order."""
    lines = [line for raw in text.split("\n") if _WORD.search(line := raw.strip())]
    if len(lines) <= limit:
        return lines
    chosen = sorted(range(1, len(lines)), key=lambda index: -matches.distinct(lines[index]))[: limit - 1]
    return [lines[0], *(lines[index] for index in sorted(chosen))]
