"""The hit list: which columns there are, and the line of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from openclaw_mem_engine.api import Row, Trace
from openclaw_mem_tui.features.search.comparison import GONE, missing
from openclaw_mem_tui.features.search.state import Columns, View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit
from openclaw_mem_tui.render.terms import Marker

#: What a stage that dropped a row is called where four letters fit.
TAGS = {"min_score": "min", "max_results": "max", "mmr": "mmr", "pool": "pool", "scope": "mode", GONE: "gone"}

#: The legs in the order in which they stand everywhere, with their short names.
LEGS = {"vector": "vec", "bm25": "bm25"}

#: Stages that drop a row before it is ranked.
_OUTSIDE = ("pool", "scope")

_MIN_PATH = 14
#: What almost every path begins with: left out of a list that has no room for it.
_FOLDER = "memory/"
_ROOMY_TEXT = 26


class Column(NamedTuple):
    """``key`` says what the column shows; ``width`` includes no gap (one blank stands between columns)."""

    key: str
    title: str
    width: int


class Layout(NamedTuple):
    """The columns for one trace and one pane width. ``path`` and ``text`` are the flexible ones, in cells;
    ``folder``: paths are shown with the ``memory/`` that they share."""

    mode: Columns
    numbers: tuple[Column, ...]
    delta: bool
    folder: bool
    path: int
    text: int
    digits: int


def layout(view: View, mode: Columns, cells: int) -> Layout:
    """Columns of the stages that ran. When the pane is narrow they go in this order: decay, mmr and fused,
    bm25 and vector, Δ; rank, path with its lines and the final score always stay."""
    trace = view.trace
    numbers = list(_numbers(trace, mode)) if trace else []
    digits = 4 if trace is not None and trace.knobs.fusion == "rrf" else 3
    if digits == 4 and mode != "ranks":
        numbers = [c._replace(width=max(c.width, 6)) for c in numbers]
    delta = view.compares
    wanted = _longest_path(trace)
    folder = not _share_folder(trace)
    cells -= 1  # a blank before the scroll bar

    def left() -> int:
        fixed = 2 + 4 + (5 if delta else 0) + sum(c.width + 1 for c in numbers) + 1
        return cells - fixed

    def drop(*keys: str) -> None:
        numbers[:] = [c for c in numbers if c.key not in keys]

    tight = min(wanted, 22)
    for keys in (("decay",), ("mmr", "fusion"), ("bm25", "text", "vector")):
        if left() < min(tight, 18 if keys != ("bm25", "text", "vector") else _MIN_PATH):
            drop(*keys)
    if left() < _MIN_PATH:
        delta = False
    room = max(4, left())
    if room - 1 >= wanted:
        folder = True
    spare = room - wanted - 2
    text = spare if spare >= _ROOMY_TEXT else 0
    return Layout(mode, tuple(numbers), delta, folder, room - (text + 2 if text else 0), text, digits)


def _numbers(trace: Trace, mode: Columns) -> list[Column]:
    ran = {stage.name for stage in trace.stages}
    legs = [name for name in LEGS if name in ran]
    columns = [Column(name, LEGS[name], 5) for name in legs]
    later = [name for name in ("decay", "mmr") if name in ran]
    if later and len(legs) > 1:
        columns.append(Column("fusion", "fused", 5))
    if "decay" in ran:
        columns.append(Column("decay", "decay", 5))
    if "mmr" in ran and mode != "contributions":
        columns.append(Column("mmr", "mmr", 5))
    columns.append(Column("final", "final", 5))
    return columns


def _longest_path(trace: Trace | None) -> int:
    if trace is None:
        return 20
    shown = trace.rows[:60]
    return max(
        (fmt.width_of(row.path) + len(f":{row.start_line}-{row.end_line}") for row in shown), default=20
    )


def _share_folder(trace: Trace | None) -> bool:
    """Whether leaving ``memory/`` out makes no two places of the list look alike."""
    return trace is not None and all(
        row.path.startswith(_FOLDER) or row.path == "MEMORY.md" for row in trace.rows
    )


def header(plan: Layout) -> Line:
    """Titles of the columns."""
    parts = [Span("     #", "dim")]
    if plan.delta:
        parts.append(Span("  Δ  ", "dim"))
    parts.append(Span("  " + fmt.left("chunk", plan.path - 1), "dim"))
    if plan.text:
        parts.append(Span("  " + fmt.left("line that matched, or why not", plan.text), "dim"))
    parts.extend(Span(" " + fmt.right(column.title, column.width), "dim") for column in plan.numbers)
    return tuple(parts)


def hit(view: View, row: Row, plan: Layout, marker: Marker, selected: bool) -> Line:
    """One row. The selected one carries a mark, so that it is seen without colour."""
    out = not row.returned
    tone = "dim" if out else ""
    parts = [Span("▌ " if selected else "  ", "accent")]
    if row.outcome.rank is not None:
        parts.append(Span(fmt.right(str(row.outcome.rank), 4), "strong"))
    else:
        parts.append(Span(fmt.right(TAGS.get(row.outcome.stage or "", row.outcome.stage or ""), 4), "dim"))
    if plan.delta:
        parts.append(_delta(view, row))
    parts.append(Span("* " if row.outcome.rescued else "  ", "warn"))
    parts.extend(fit(path_spans(row, plan.path - 1, plan.folder, out), plan.path - 1))
    if plan.text:
        told = _told(view, row, marker, plan.text)
        parts.extend((Span("  "), *fit(told, plan.text)))
    for column in plan.numbers:
        text, role = _cell(row, column.key, plan)
        if column.key == "final":
            role = "strong" if row.returned else "dim"
        parts.append(Span(" " + fmt.right(text, column.width), role or tone))
    return tuple(parts)


def _delta(view: View, row: Row) -> Span:
    baseline = view.baseline
    before = baseline.ranks.get(row.chunk_id) if baseline is not None else None
    text = fmt.arrow(before, row.outcome.rank)
    role = {"▲": "good", "n": "good", "▼": "bad", "o": "bad"}.get(text[:1], "faint")
    return Span(" " + fmt.left(text, 4), role)


def path_spans(row: Row, room: int, folder: bool = True, out: bool = False) -> Line:
    """A location in ``room`` cells: the folder steps back, the name stands out, the range follows. Where room
    is short the folder goes first, then the beginning of the name; the range always stays."""
    tail = f":{row.start_line}-{row.end_line}" if row.end_line > row.start_line else f":{row.start_line}"
    path = fmt.inert(row.path if folder else row.path.removeprefix(_FOLDER))
    before, slash, name = path.rpartition("/")
    before += slash
    spare = room - fmt.width_of(name) - len(tail)
    if fmt.width_of(before) > spare:
        before = fmt.crop_left(before, spare) if spare > 5 else ""
    if spare < 0:
        name = fmt.crop_left(name, max(1, room - len(tail)))
    parts = (
        Span(before, "faint" if out else "dim"),
        Span(name, "dim" if out else ""),
        Span(tail, "faint" if out else "dim"),
    )
    return tuple(p for p in parts if p.text)


def _told(view: View, row: Row, marker: Marker, room: int) -> Line:
    if not row.returned:
        return (Span(fmt.crop(fmt.numbers(fmt.inert(row.outcome.reason or "", 400)), room), "faint"),)
    candidate = view.pool.candidates.get(row.chunk_id) if view.pool is not None else None
    if candidate is None:
        return ()
    return marker.best_line(candidate.text, room)


def _cell(row: Row, key: str, plan: Layout) -> tuple[str, str]:
    if plan.mode == "ranks":
        rank = row.ranks.get("fusion" if key == "fusion" else key)
        return (str(rank), "") if rank is not None else ("·", "faint")
    if plan.mode == "contributions" and key != "final":
        return _contribution(row, key, plan.digits)
    if key == "decay":
        operand = next((o for o in row.operands if o.stage == "decay"), None)
        if operand is None or operand.value == 1.0:
            return "·", "faint"
        return "×" + fmt.score(operand.value), ""
    if key in LEGS:
        value = _leg_score(row, key)
        if value is None:
            rank = row.ranks.get(key)
            return ("·" if rank is None else f"#{rank}"), "faint"
        return fmt.score(value, 3), ""
    value = row.scores.get(key)
    if value is None:
        return "·", "faint"
    return fmt.score(value, plan.digits), ""


def _leg_score(row: Row, leg: str) -> float | None:
    """What a leg says of a row; None where it added nothing (found too late, or not at all)."""
    if leg == "bm25":
        return row.scores.get("text")
    operand = next((o for o in row.operands if o.op == "add" and o.label == "vector"), None)
    if operand is None or not operand.inputs:
        return None
    return row.scores.get("vector", operand.inputs.get("cosine"))


def _contribution(row: Row, key: str, digits: int) -> tuple[str, str]:
    """What a stage added to the final score: its product, or what its factor took away."""
    total = 0.0
    label = {"bm25": "text", "vector": "vector"}.get(key)
    for operand in row.operands:
        if operand.op == "add":
            if operand.label == label:
                return (fmt.signed(operand.product, digits), "") if operand.product else ("·", "faint")
            total += operand.product
        elif key == "decay" and operand.stage == "decay":
            loss = total * operand.value - total
            return (fmt.signed(loss, digits), "bad") if loss else ("·", "faint")
    if key == "fusion":
        value = row.scores.get("fusion")
        return (fmt.score(value, digits), "") if value is not None else ("·", "faint")
    return "·", "faint"


class Group(NamedTuple):
    """Rows below one rule. The first group, what is returned, has no title and no rule."""

    title: str
    rows: Sequence[Row]


def groups(view: View, dropped: bool) -> list[Group]:
    """What the list shows: returned rows, then those that the baseline returned and this run does not, then
    the rest that was ranked, nearest to being returned first, then what no leg sent into the pool."""
    trace = view.trace
    if trace is None:
        return []
    made = [Group("", trace.returned)]
    if not dropped:
        return made
    left = lost(view)
    gone = {row.chunk_id for row in left}
    rest = [row for row in trace.dropped if row.chunk_id not in gone]
    outside = [row for row in rest if row.outcome.stage in _OUTSIDE]
    healthy = bool(view.pool_faults)
    made.append(Group(f"returned by the {'healthy run' if healthy else 'baseline'}, not now", left))
    made.append(Group("not returned", [row for row in rest if row.outcome.stage not in _OUTSIDE]))
    made.append(Group("outside the pool", outside))
    return [made[0], *(group for group in made[1:] if group.rows)]


def lost(view: View) -> list[Row]:
    """What the baseline returned and this run does not, best first; also what this run did not find."""
    ranks = view.baseline.ranks if view.compares and view.baseline is not None else {}
    dropped = view.trace.dropped if view.trace is not None else ()
    rows = [*(row for row in dropped if row.chunk_id in ranks), *missing(view)]
    return sorted(rows, key=lambda row: ranks[row.chunk_id])


def rule(group: Group, hint: bool, cells: int) -> Line:
    """The line above a group of rows that are not returned."""
    text = f"── {group.title}: {len(group.rows)} "
    key = " d hides ──" if hint else ""
    filling = max(0, cells - 1 - fmt.width_of(text) - fmt.width_of(key))
    return fit((Span(text, "faint"), Span("─" * filling, "faint"), Span(key, "faint")), cells)
