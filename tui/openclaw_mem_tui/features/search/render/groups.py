"""The groups of the hit list: what is returned, and below a rule each what is not, with the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_tui.bindings import key as key_of
from openclaw_mem_tui.features.search.comparison import GONE, lost
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, width

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Drop, Row, Stage, Trace


class Group(NamedTuple):
    """Rows below one rule. The first group, what is returned, has no title and no rule. The rows that one of
    the two runs returned are read most: with ``lines``, the best line of each is shown too."""

    title: str
    rows: Sequence[Row]
    of: int = 0  # how many there are, where a filter shows some of them
    reasons: Sequence[Sequence[str]] = ()  # how many of them what dropped, in full and shorter
    hidden: int = 0  # rows that are not shown: the rule alone says so
    lines: bool = False


def groups(view: View, dropped: bool) -> list[Group]:
    """What the list shows: returned rows, then those that the baseline returned and this run does not, then
    the rest that was ranked, a group for each stage that dropped some, nearest to being returned first, then
    what no list sent into the pool; without ``dropped`` how many these are."""
    trace = view.trace
    if trace is None:
        return []
    first = Group("", trace.returned, lines=True)
    left = lost(view)
    gone = {row.chunk_id for row in left}
    run = "the run without faults" if view.pool_faults else view.other_backend or "the baseline"
    title = f"only in {run}"
    reasons = _reasons((row.outcome.drop for row in left), trace)
    if len(left) == 1 and (ranks := past_the_last(trace, left[0])):
        reasons.insert(0, [f"now {ranks[0]}", *ranks[1:]])
    order = ", in its order" * (len(left) > 1)
    others = [Group(f"{title}{order}", left, reasons=reasons, lines=True)]
    stages: dict[str, dict[str, Drop]] = {}
    for chunk_id, drop in trace.dropped_by.items():
        if chunk_id not in gone:
            stages.setdefault(drop.stage, {})[chunk_id] = drop
    for drops in stages.values():
        rows = trace.unreturned.only([*drops])
        others.append(Group("not returned", rows, reasons=_reasons(drops.values(), trace)))
    others.append(Group("outside the pool", trace.outside.without(gone)))
    if not dropped:
        others = [Group("not returned", (), hidden=sum(len(group.rows) for group in others))]
    return [first, *(group for group in others if group.rows or group.hidden)]


def _reasons(drops: Iterable[Drop], trace: Trace) -> list[Sequence[str]]:
    """``3 below rank 6``, ``24 below min score .20``: how many rows each stage dropped, and for what cause
    where it has several; the same without the causes."""
    caused = Counter(drops)
    by_stage = Counter[str]()
    for drop, count in caused.items():
        by_stage[drop.stage] += count
    full = [
        fmt.join((f"{count} {dropped_by(stage, trace)}", why), " ") for (stage, why), count in caused.items()
    ]
    return [full, [f"{count} {dropped_by(stage, trace)}" for stage, count in by_stage.items()]]


#: What is said of rows that were dropped elsewhere than by a limit or by the order.
_DROPPED = {
    "snippet": "not sent",
    "pool": "outside the pool",
    "mode": "only in lists that are not fused",
    GONE: "not found",
}


def dropped_by(name: str, trace: Trace) -> str:
    """Why rows are not returned, in words: ``below rank 6``, ``below min score .20``."""
    stage = trace.stage(name)
    if name in _DROPPED or stage is None:
        return _DROPPED.get(name, name)
    if stage.kind == "cut":
        return f"below {name.replace('_', ' ')} {fmt.setting(stage.limit or 0.0)}"
    if stage.kind == "count":
        first = f"not considered for packing: only the first {stage.limit:g} are"
        rank = "rank" if name == "max_results" else "fused rank"
        return first if packs(stage) else f"below {rank} {stage.limit:g}"
    return f"moved below rank {trace.knobs.max_results} by {stage.label}"


def past_the_last(trace: Trace, row: Row) -> Sequence[str]:
    """``rank 28``, ``rank 1 before decay`` of a row past the last result; empty for any other."""
    stage, rank = trace.stage(row.outcome.stage or ""), row.ranks.get("final")
    if row.returned or stage is None or stage.kind != "count" or rank is None:
        return ()
    before = row.outcome.lowered
    return [f"rank {rank}", *([before.cause] if before else [])]


def packs(stage: Stage) -> bool:
    """Whether a stage lets through more chunks than results, whose lines are packed."""
    return stage.kind == "count" and stage.constants.get("max_results", stage.limit) != stage.limit


def rule(group: Group, hint: bool, cells: int, *, low: bool = False) -> Line:
    """The line above a group of rows that are not returned: how many they are, and why where there is room
    for it; with a filter only where all rows of the group have one reason. With a ``hint`` the key that hides
    them. In a ``low`` list it is a text alone: the edges of panes are lines there."""
    start = "  " if low else "──"
    if group.hidden:
        text, does = f"{start} {group.hidden:,} {group.title}", " shows them"
    else:
        many = f"{len(group.rows)} of {group.of}" if group.of else str(len(group.rows))
        text, does = f"{start} {group.title}: {many}", " hide"
        known = (reasons for reasons in group.reasons if not (group.of and reasons[1:]))
        shown = f"{len(group.rows)} of " if group.of else ""  # a reason begins with the count of all
        full = (f"{start} {group.title}: {shown}{' · '.join(reasons)}" for reasons in known)
        text = next((each for each in full if fmt.width_of(each) < cells), text)
    key = line((" · ", "faint"), (key_of("dropped"), "key"), (does, "dim")) if hint or group.hidden else ()
    said = (Span(text, "faint"), *(key if fmt.width_of(text) + width(key) < cells else ()))
    room = cells - 2 - width(said)
    return fit((*said, Span(f" {'─' * room}" if room > 0 and not low else "", "faint")), cells)
