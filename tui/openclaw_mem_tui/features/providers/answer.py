"""What answered the last query, its results and those of the baseline, as lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import Row
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.search.comparison import answered_by, compared
from openclaw_mem_tui.features.search.render.above import overlap
from openclaw_mem_tui.features.search.render.hits import best_line, path_spans
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Details, Line, Span, fit, line, spread, width, wrapped
from openclaw_mem_tui.render.status import reason, took
from openclaw_mem_tui.render.terms import Marker

if TYPE_CHECKING:
    from openclaw_mem_tui.features.search.baseline import Baseline

#: Hits shown of those that a run returned, and of those that only its baseline did.
_HITS_SHOWN = 6
#: From so many rows of a screen there is room for a line of each result, and where two runs are compared.
_TEXTS, _TEXTS_COMPARED = 35, 48
#: Cells of the labels.
_LABEL = 9


def last_query(view: View, rows: int, cells: int) -> list[Line]:
    """What answered the last query, how far that is from the baseline, and why. ``rows`` are those of the
    screen, 0 where room is short: then only the results that differ, without the time of each step."""
    if not view.query.strip():
        return wrapped(
            line(
                ("The lab has no query now. ", "strong"), (key("compare"), "key"), (" opens the lab.", "dim")
            ),
            cells,
        )
    details = Details(cells)
    say, made = details.say, details.lines
    query = fmt.crop(fmt.inert(view.query, 300), cells - 4)
    made.append(line(("“", "faint"), (query, "strong"), ("”", "faint")))
    if view.error:
        say("failed", (fmt.message(view.error), "bad"))
    if view.pending:
        say("", ("searching again …", "accent"))
        return made
    pool = view.pool
    if pool is None:
        return made
    seen = compared(view) if view.pool_faults else None
    if seen is not None:
        made.extend(wrapped(overlap(seen), cells - 1))
    role = "warn" if pool.fallback is not None else ""
    say("searched", (fmt.inert(answered_by(pool)), role))
    if view.pool_faults and view.other_pool is not None:
        say("baseline", fmt.inert(answered_by(view.other_pool)))
    # With many rows, the pane beside it says why a provider is paused.
    why = _warnings(view) if pool.fallback is None else "" if rows else reason(pool)
    if why:
        say("why", fmt.message(why))
    texts = view if rows >= (_TEXTS if seen is None else _TEXTS_COMPARED) else None
    returned = view.trace.returned if view.trace is not None else ()
    if seen is None:
        made.extend(_hits("returned", returned, None, texts, cells))
    else:
        first = ("returned", returned) if rows else ("new", seen.new)
        for label, hits in (first, ("lost", seen.lost)):
            made.extend(_hits(label, hits, view.baseline if rows else None, texts, cells))
    if rows:
        whole = line(*took(view), (" to rank again" * view.again, "dim"))
        say("took", *(whole if width(whole) <= cells - _LABEL - 2 else took(view, steps=False)))
    if not view.pool_faults:
        made.extend(
            wrapped(
                line(
                    (key("toggle_fault"), "key"), (" on a fault repeats this search with the fault.", "dim")
                ),
                cells - 1,
            )
        )
    return made


def _hits(
    label: str, rows: Sequence[Row], baseline: Baseline | None, texts: View | None, cells: int
) -> list[Line]:
    """The first hits with their ranks; at the right the rank in the baseline; below, with ``texts``, the line
    of each that has most words of the query."""
    made = []
    marker = Marker.of(texts.pool if texts is not None else None)
    for at, row in enumerate(rows[:_HITS_SHOWN]):
        lost = label == "lost"
        rank = Span(fmt.left(fmt.ranked(row.outcome.rank), 4), "bad" if lost else "good")
        start = line((fmt.left("" if at else label, _LABEL) + " ", "dim"), rank)
        before = baseline.rank(row) if baseline is not None else None
        end = line(("new", "good") if before is None else (f"{fmt.ranked(before)} in the baseline", "dim"))
        if lost or baseline is None:
            end = ()
        more = len(rows) - _HITS_SHOWN if at == _HITS_SHOWN - 1 else 0
        end = (*end, *line((f" and {more} more" if more > 0 else "", "dim")))
        room = cells - 1 - width(start) - width(end)
        made.append(spread((*start, *path_spans(row, room)), end, cells - 1))
        if texts is not None and texts.candidate(row.chunk_id) is not None:
            indent = width(start)
            made.append(fit((Span(" " * indent), *best_line(texts, row, marker, cells - indent)), cells - 1))
    return made


def _warnings(view: View) -> str:
    """The warnings of an answer that no fallback explains, and what a simulated fault has changed in it."""
    notes = view.trace.notes if view.trace is not None else ()
    said = [n for n in notes if n.level == "warning" or n.code in view.pool_faults]
    return " ".join(dict.fromkeys(n.text for n in said if n.code != "fault"))
