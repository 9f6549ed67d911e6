"""The groups of the hit list: what is returned, and below a rule each what is not, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_tui.bindings import key as key_of
from openclaw_mem_tui.features.search.comparison import lost
from openclaw_mem_tui.features.search.render.hits import LIMITS, tag
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Row, Trace


class Group(NamedTuple):
    """Rows below one rule. The first group, what is returned, has no title and no rule."""

    title: str
    rows: Sequence[Row]
    of: int = 0  # how many there are, where a filter shows some of them
    reasons: Sequence[str] = ()  # how many of them what dropped, in full and shorter


def groups(view: View, dropped: bool) -> list[Group]:
    """What the list shows: returned rows, then those that the baseline returned and this run does not, then
    the rest that was ranked, nearest to being returned first, then what no list sent into the pool."""
    trace = view.trace
    if trace is None:
        return []
    first = Group("", trace.returned)
    if not dropped:
        return [first]
    left = lost(view)
    gone = {row.chunk_id for row in left}
    run = view.baseline_name if view.pool_faults else f"by {view.other_backend or 'the baseline'}"
    others = (
        *(
            Group(title, rows, reasons=_reasons(rows, trace))
            for title, rows in (
                (f"returned {run}, not by this run", left),
                ("not returned", trace.unreturned.without(gone)),
            )
        ),
        Group("outside the pool", trace.outside.without(gone)),
    )
    return [first, *(group for group in others if group.rows)]


def _reasons(rows: Sequence[Row], trace: Trace) -> list[str]:
    """``3 past max 6 · 24 below min score .20``: how many of the rows each stage dropped, and for what cause
    where it has several; the same without the causes."""
    caused = Counter((_dropped_by(row, trace), row.outcome.cause) for row in rows)
    by_stage = Counter[str]()
    for (text, _), count in caused.items():
        by_stage[text] += count
    full = {fmt.join((text, cause), " "): count for (text, cause), count in caused.items()}
    return [" · ".join(f"{count} {text}" for text, count in many.items()) for many in (full, by_stage)]


def _dropped_by(row: Row, trace: Trace) -> str:
    stage = trace.stage(row.outcome.stage or "")
    if stage is not None and stage.kind == "order":
        return f"too similar ({stage.label})"
    if stage is None or stage.kind not in LIMITS:
        return tag(row, trace)
    if stage.kind == "cut":
        return f"below {stage.name.replace('_', ' ')} {fmt.setting(stage.limit or 0.0)}"
    return f"past {stage.label} {stage.limit:g}"


def rule(group: Group, hint: bool, cells: int) -> Line:
    """The line above a group of rows that are not returned: how many they are, and why where all are shown
    and there is room for that."""
    many = f"{len(group.rows)} of {group.of}" if group.of else str(len(group.rows))
    text = f"── {group.title}: {many} "
    full = (f"── {group.title}: {reasons} " for reasons in group.reasons if not group.of)
    text = next((each for each in full if fmt.width_of(each) < cells), text)
    key = f" {key_of('dropped')} hide ──" if hint else ""
    if fmt.width_of(text) + fmt.width_of(key) >= cells:
        key = ""
    filling = max(0, cells - 1 - fmt.width_of(text) - fmt.width_of(key))
    return fit((Span(text, "faint"), Span("─" * filling, "faint"), Span(key, "faint")), cells)
