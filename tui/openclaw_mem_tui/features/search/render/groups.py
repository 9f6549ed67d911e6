"""The groups of the hit list: what is returned, and below a rule each what is not, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_tui.bindings import action
from openclaw_mem_tui.bindings import key as key_of
from openclaw_mem_tui.features.search.comparison import GONE, lost
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Drop, Row, Stage, Trace


class Group(NamedTuple):
    """Rows below one rule. The first group, what is returned, has no title and no rule."""

    title: str
    rows: Sequence[Row]
    of: int = 0  # how many there are, where a filter shows some of them
    reasons: Sequence[str] = ()  # how many of them what dropped, in full and shorter
    compared: bool = False  # what the baseline returned


def groups(view: View, dropped: bool) -> list[Group]:
    """What the list shows: returned rows, then those that the baseline returned and this run does not, then
    the rest that was ranked, a group for each stage that dropped some, nearest to being returned first, then
    what no list sent into the pool."""
    trace = view.trace
    if trace is None:
        return []
    first = Group("", trace.returned)
    if not dropped:
        return [first]
    left = lost(view)
    gone = {row.chunk_id for row in left}
    run = f"with {view.baseline_name}" if view.pool_faults else f"by {view.other_backend or 'the baseline'}"
    title = f"returned only {run}"
    reasons = _reasons((row.outcome.drop for row in left), trace)
    others = [Group(title, left, reasons=reasons, compared=True)]
    stages: dict[str, dict[str, Drop]] = {}
    for chunk_id, drop in trace.dropped_by.items():
        if chunk_id not in gone:
            stages.setdefault(drop.stage, {})[chunk_id] = drop
    for drops in stages.values():
        rows = trace.unreturned.only([*drops])
        others.append(Group("not returned", rows, reasons=_reasons(drops.values(), trace)))
    others.append(Group("outside the pool", trace.outside.without(gone)))
    return [first, *(group for group in others if group.rows)]


def _reasons(drops: Iterable[Drop], trace: Trace) -> list[str]:
    """``3 past max 6 · 24 below min score .20``: how many rows each stage dropped, and for what cause where
    it has several; the same without the causes."""
    caused = Counter(drops)
    by_stage = Counter[str]()
    for drop, count in caused.items():
        by_stage[drop.stage] += count
    full = (
        fmt.join((f"{count} {dropped_by(stage, trace)}", why), " ") for (stage, why), count in caused.items()
    )
    short = (f"{count} {dropped_by(stage, trace)}" for stage, count in by_stage.items())
    return [" · ".join(full), " · ".join(short)]


#: What is said of rows that were dropped elsewhere than by a limit or by the order.
_DROPPED = {
    "snippet": "without a line to send",
    "pool": "outside the pool",
    "scope": "only in lists that are not fused",
    GONE: "not found",
}


def dropped_by(name: str, trace: Trace) -> str:
    """Why rows are not returned, in words: ``past max 6``, ``below min score .20``."""
    stage = trace.stage(name)
    if name in _DROPPED or stage is None:
        return _DROPPED.get(name, name)
    if stage.kind == "cut":
        return f"below {name.replace('_', ' ')} {fmt.setting(stage.limit or 0.0)}"
    if stage.kind == "count":
        return f"past {counted(stage)}"
    return f"too similar ({stage.label})"


def counted(stage: Stage) -> str:
    """What a stage that counts lets through: ``max 6``, or more chunks than that, whose lines are packed."""
    limit = f"{stage.limit:g}"
    packs = stage.constants.get("max_results", stage.limit) != stage.limit
    return f"{limit} for packing" if packs else f"{stage.label} {limit}"


def rule(group: Group, hint: bool, cells: int) -> Line:
    """The line above a group of rows that are not returned: how many they are, and why where there is room
    for it; with a filter only where all rows of the group have one reason."""
    many = f"{len(group.rows)} of {group.of}" if group.of else str(len(group.rows))
    text = f"── {group.title}: {many} "
    known = (reasons for reasons in group.reasons if not (group.of and " · " in reasons))
    shown = f"{len(group.rows)} of " if group.of else ""  # a reason begins with the count of all
    full = (f"── {group.title}: {shown}{reasons} " for reasons in known)
    text = next((each for each in full if fmt.width_of(each) < cells), text)
    key = f" {key_of('dropped')} {action('dropped').footer} ──" if hint else ""
    if fmt.width_of(text) + fmt.width_of(key) >= cells:
        key = ""
    filling = max(0, cells - 1 - fmt.width_of(text) - fmt.width_of(key))
    return fit((Span(text, "faint"), Span("─" * filling, "faint"), Span(key, "faint")), cells)
