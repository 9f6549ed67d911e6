"""An answer as text: for people hits with matching lines, stages, arithmetic, and what was not returned; for
programs CSV, Markdown and bare paths."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from openclaw_mem_engine.answer import Matches
from openclaw_mem_engine.answer_text import unrelated
from openclaw_mem_engine.cli.terminal import (
    aligned,
    crop,
    dim,
    hanging,
    indented,
    marked,
    matched,
    one_line,
    strong,
)
from openclaw_mem_engine.cli.text_format import duration, fallback_words
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.config.knobs import profile_words
from openclaw_mem_engine.explain import (
    arithmetic,
    cut_off,
    diversity,
    fenced,
    final_score,
    hit_marks,
    inline,
    other_vectors,
    plain,
    stage_effect,
    stage_formula,
    stage_name,
    trace_markdown,
)
from openclaw_mem_engine.model import index_state
from openclaw_mem_engine.ranking.lines import note_lines
from openclaw_mem_engine.sanitize import counted, figure, visible

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Answer, Hit
    from openclaw_mem_engine.ranking.trace import Row

#: Dropped rows that ``--explain`` prints; the rest is counted.
DROPPED_SHOWN = 5
_SNIPPET_LINES = 3
#: A sync before the search that took less is not mentioned, seconds.
_WAITED_S = 0.05
_INDENT = " " * 11
#: A spreadsheet takes a cell that begins so for a formula, and runs it.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_CSV_COLUMNS = "rank score path start_line end_line source rescued best_line_cut snippet".split()
_WORD = re.compile(r"[^\W_]")


def answer_lines(answer: Answer, columns: int, *, explain: bool = False) -> Iterator[str]:
    """The hits, each with the lines that match best, then what was found and how; with ``explain`` what was
    found comes first, then every stage, the arithmetic of every hit, and the first of the dropped."""
    matches = Matches.of(answer.pool)
    if explain:
        yield from hanging(advice(answer_line(answer)), 2)
        yield ""
        yield from stage_lines(answer)
        yield ""
    for hit in answer.hits:
        yield from _hit(hit, answer, matches, columns)
        row = answer.trace.row(hit.chunk_id) if explain else None
        if row is not None:
            if len(hit.shown) > 1:
                lines = ", ".join(f"{a}-{b}" if b > a else f"{a}" for a, b in hit.shown)
                yield _INDENT + dim(f"shows the lines {lines}")
            yield from hanging(_INDENT + visible(arithmetic(row, answer.trace)), len(_INDENT) + 2)
            if picked := diversity(row, answer.trace):
                yield from hanging(_INDENT + one_line(picked), len(_INDENT) + 2)
            if beside := other_vectors(row, answer.trace):
                yield _INDENT + dim(one_line(beside))
        yield ""
    if explain:
        yield from _dropped_lines(answer)
    yield from closing(answer, explain=explain)


def stage_lines(answer: Answer) -> list[str]:
    """Each stage: name, candidates in and out, what it moved, its formula."""
    rows = [("stage", "in", "", "out", "effect", "formula")]
    for stage in answer.trace.stages:
        counts = (f"{stage.entered:>5}", "→", f"{stage.left:<5}")
        name, formula = stage_name(stage, answer.trace), stage_formula(stage, answer.trace)
        rows.append((one_line(name), *counts, stage_effect(stage), one_line(formula)))
    head, *lines = aligned(rows)
    return [strong(head), *chain.from_iterable(hanging(line, head.index("formula")) for line in lines)]


def hit_lines(answer: Answer, columns: int, limit: int) -> Iterator[str]:
    """One line a hit, for comparing two runs."""
    digits = answer.trace.knobs.digits
    matches = Matches.of(answer.pool)
    for hit in answer.hits[:limit]:
        yield f"{hit.rank:>3}  {figure(hit.score, digits)}  {_location(hit)}{_marks(hit)}"
        line = (best_lines(matches, hit.snippet, 2) or [""])[-1]
        yield _INDENT + dim(crop(one_line(line), columns - len(_INDENT)))
    if not answer.hits:
        yield answer_line(answer)


def _dropped_lines(answer: Answer) -> Iterator[str]:
    """What was nearest to being returned, with stage and reason; the rest as a number."""
    dropped, outside = answer.trace.dropped, len(answer.trace.outside)
    if not dropped:
        return
    yield strong(f"not returned ({len(dropped):,}{f'; outside the pool: {outside:,}' if outside else ''})")
    nearest = dropped[:DROPPED_SHOWN]
    rows = []
    for row in nearest:
        score, reason = final_score(row, answer.trace.knobs), one_line(row.outcome.reason or "")
        rows.append((score, _location(row), (row.outcome.stage or "").replace("_", " "), reason))
    for row, line in zip(nearest, indented(aligned(rows)), strict=True):
        yield from hanging(line, 11)
        if row.outcome.stage == "mmr" and (compared := diversity(row, answer.trace)):
            yield from map(dim, hanging(_INDENT + one_line(compared), len(_INDENT) + 2))
    if more := len(dropped) - len(nearest):
        yield dim(f"  and {more:,} more; --json --explain lists them all")
    yield ""


def answer_line(answer: Answer) -> str:
    """What was found; where nothing passes ``min_score``, which one the best would pass:
    not where that would return noise."""
    text, trace = one_line(answer.text), answer.trace
    best = next((row for row in trace.dropped if row.final is not None), None)
    # No cut lets a score below zero pass.
    lower = best is not None and (best.final or 0.0) >= 0 and best.outcome.stage == "min_score"
    if best is None or not lower or trace.results or unrelated(answer.pool, trace.knobs):
        return f"{text}."
    return f"{text}. Try --set min_score={math.floor((best.final or 0.0) * 20) / 20:g}"


def closing(answer: Answer, *, explain: bool) -> Iterator[str]:
    """How the answer was made, in one line, then what makes it less than it could be."""
    trace, pool = answer.trace, answer.pool
    spent = sum(pool.timings.values()) + trace.milliseconds
    fresh, waited = pool.freshness, answer.sync_seconds or 0.0
    # Where a result shows lines of several chunks, the sentence above counts other things.
    chunks = f"{len(trace.returned):,} chunks of " if len(trace.results) != len(trace.returned) else ""
    how = " (--explain: why not the others)" if trace.dropped and not explain else ""
    parts = [
        f"{chunks}{counted(len(trace.rows) - len(trace.outside), 'candidate')}{how}",
        f"profile {profile_words(trace.knobs, pool.backend)}",
        f"provider {answer.served_by[0]}",
        f"index {index_state(fresh, trace.notes)}" if fresh is not None else "files not compared",
        f"{spent:.1f} ms",
        f"after {duration(waited)} of sync" if waited >= _WAITED_S else "",
    ]
    if not explain:  # where it is the first line
        yield from hanging(advice(answer_line(answer)), 2)
    yield from map(dim, hanging(one_line(" · ".join(part for part in parts if part)), 2))
    if pool.fallback is not None:
        yield f"{marked('fallback')}: {fallback_words(pool.fallback, pool.now)}"
    for note in trace.notes:
        if note.text.rstrip(".") == answer.text:
            continue
        warns = note.level == "warning"
        head, *lines = hanging(f"{note.level}: {one_line(advice(note.text))}", 2)
        yield head.replace(note.level, marked(note.level), 1) if warns else dim(head)
        yield from lines if warns else map(dim, lines)
    if fresh is not None and fresh.state == "partial":
        left = [file for file in fresh.excluded if not file.by_rule and not file.of_workspace]
        if left:  # what is not indexed of the workspace itself is a note
            more = f" ({len(left) - 1:,} more: `openclaw-mem status`)" if left[1:] else ""
            # What was indexed before is kept, and found.
            state = "cannot be read" if left[0].transient else "not indexed"
            yield f"{marked(state)}: {one_line(left[0].text)}{advice(more)}"


def _hit(hit: Hit, answer: Answer, matches: Matches, columns: int) -> Iterator[str]:
    digits = answer.trace.knobs.digits
    location = strong(_location(hit))
    yield f"{hit.rank:>3}  {figure(hit.score, digits)}  {location}{_marks(hit)}"
    room = columns - len(_INDENT)
    for raw in best_lines(matches, hit.snippet, _SNIPPET_LINES):
        yield _INDENT + emphasised(matches, crop(_around(one_line(raw), matches, room), room), matched)
    if hit.best_line_cut:
        yield _INDENT + marked(crop(cut_off(hit), room))


def _marks(hit: Hit) -> str:
    texts = ", ".join(hit_marks(hit))
    return f"  {marked(f'[{texts}]')}" if texts else ""


def _around(line: str, matches: Matches, room: int) -> str:
    """A long line from shortly before its first match, when that would be cropped away otherwise."""
    found = matches.ranges(line) if len(line) > room else []
    start = found[0][0] - room // 3 if found and found[0][1] > room - 1 else 0
    return f"…{line[start:].lstrip()}" if start > 0 else line


def _location(passage: Hit | Row) -> str:
    return one_line(f"{passage.path}:{passage.start_line}-{passage.end_line}")


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


def csv_text(answer: Answer) -> str:
    """One row for each hit below a header; cells that a spreadsheet would run begin with an apostrophe."""
    import csv
    import io

    made = io.StringIO()
    writer = csv.writer(made, lineterminator="\n")
    writer.writerow(_CSV_COLUMNS)
    for hit in answer.hits:
        start = (hit.rank, f"{hit.score:.6f}", _guarded(hit.path), hit.start_line, hit.end_line)
        marks = ("yes" if mark else "no" for mark in (hit.rescued, hit.best_line_cut))
        writer.writerow((*start, hit.source, *marks, _guarded(hit.snippet)))
    return made.getvalue()


def _guarded(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula and no terminal for a command."""
    text = visible(text)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def escaped(text: str) -> str:
    """The text with every control character in notation, tabs and newlines too."""
    return visible(text).replace("\t", "^I").replace("\n", "^J")


def files_records(answer: Answer, path_text: Callable[[str], str]) -> Iterator[str]:
    """Each path once, best first: for ``xargs`` and editors."""
    yield from map(path_text, dict.fromkeys(hit.path for hit in answer.hits))


def lines_records(answer: Answer, path_text: Callable[[str], str]) -> Iterator[str]:
    """``path:line<TAB>score<TAB>text`` of each result, best first: its best line, else the one with the most
    words of the query. A line that two results have, of chunks that overlap, comes once."""
    matches, seen = Matches.of(answer.pool), set[tuple[str, int]]()
    for hit in answer.hits:
        best = max(
            note_lines(answer.pool.candidates[hit.chunk_id]),
            key=lambda line: (line.number == hit.best_line, line.says_something, matches.distinct(line.text)),
        )
        if (hit.path, best.number) in seen:
            continue
        seen.add((hit.path, best.number))
        yield f"{path_text(hit.path)}:{best.number}\t{hit.score:.6f}\t{escaped(best.text.strip())}"


def markdown_text(answer: Answer) -> str:
    """The hits as a Markdown list to paste into a chat or a note."""
    digits = answer.trace.knobs.digits
    lines = [f"# {inline(visible(answer.trace.query))}", *_fallback_lines(answer)]
    for hit in answer.hits:
        marks = "".join(f" ({mark})" for mark in hit_marks(hit))
        lines += ["", f"## {hit.rank}. {inline(_location(hit))} · {hit.score:.{digits}f}{marks}", ""]
        lines += fenced(visible(hit.snippet))
    return "\n".join(lines) + "\n"


def explained_markdown(answer: Answer) -> str:
    """The whole explanation as Markdown, with the fallback at its head, secrets masked as in every export."""
    from openclaw_mem_engine.redact import redact

    head, _, rest = trace_markdown(answer).partition("\n")
    return redact("\n".join([head, *_fallback_lines(answer), rest]))


def _fallback_lines(answer: Answer) -> list[str]:
    if (fallback := answer.pool.fallback) is None:
        return []
    words = f"{fallback_words(fallback, answer.pool.now)}: {advice(fallback.reason)}"
    return ["", f"> fallback: {plain(visible(words))}"]
