"""The hit list: which columns there are, and the line of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from openclaw_mem_engine.ranking.trace import Row, Trace
from openclaw_mem_tui import format as fmt
from openclaw_mem_tui.lines.terms import Marker
from openclaw_mem_tui.spans import Line, Span, fit
from openclaw_mem_tui.state import Columns, View

#: What a stage that dropped a row is called where four letters fit.
TAGS = {"min_score": "min", "max_results": "max", "mmr": "mmr", "pool": "pool", "scope": "mode"}

_MIN_PATH = 14
_ROOMY_TEXT = 26


class Column(NamedTuple):
    """``key`` says what the column shows; ``width`` includes no gap (one blank stands between columns)."""

    key: str
    title: str
    width: int


class Layout(NamedTuple):
    """The columns for one trace and one pane width. ``path`` and ``text`` are the flexible ones, in cells."""

    mode: Columns
    numbers: tuple[Column, ...]
    delta: bool
    lines: bool
    path: int
    text: int
    digits: int


def layout(view: View, mode: Columns, cells: int) -> Layout:
    """Columns of the stages that ran. When the pane is narrow they go in this order: line ranges, decay,
    bm25 and vector, Δ; rank, path and the final score always stay."""
    trace = view.trace
    numbers = list(_numbers(trace, mode)) if trace else []
    digits = 4 if trace is not None and trace.knobs.fusion == "rrf" else 3
    if digits == 4 and mode != "ranks":
        numbers = [c._replace(width=max(c.width, 6)) for c in numbers]
    delta, lines = view.compares, True
    wanted = _longest_path(trace)
    cells -= 1  # a blank before the scroll bar

    def left() -> int:
        fixed = 2 + 4 + (5 if delta else 0) + sum(c.width + 1 for c in numbers) + 1
        return cells - fixed

    def drop(*keys: str) -> None:
        numbers[:] = [c for c in numbers if c.key not in keys]

    tight = min(wanted, 22)
    if left() < min(wanted, 18):
        lines = False
    for keys in (("decay",), ("mmr", "fusion"), ("bm25", "text", "vector")):
        if left() < min(tight, 18 if keys != ("bm25", "text", "vector") else _MIN_PATH):
            drop(*keys)
    if left() < _MIN_PATH:
        delta = False
    room = max(4, left())
    spare = room - wanted - 2
    text = spare if spare >= _ROOMY_TEXT else 0
    return Layout(mode, tuple(numbers), delta, lines, room - (text + 2 if text else 0), text, digits)


def _numbers(trace: Trace, mode: Columns) -> list[Column]:
    ran = {stage.name for stage in trace.stages}
    legs = [n for n in ("bm25", "vector") if n in ran]
    titles = {"bm25": "bm25", "vector": "vec"}
    columns = [Column(name, titles[name], 5) for name in legs]
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
    parts.extend(fit(path_spans(row, plan.path - 1, plan.lines, out), plan.path - 1))
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


def path_spans(row: Row, room: int, lines: bool, out: bool = False) -> Line:
    """A location in ``room`` cells: the folder steps back, the name stands out, the range follows. Where room
    is short the folder goes first, then the range, then the beginning of the name."""
    span = f":{row.start_line}-{row.end_line}" if row.end_line > row.start_line else f":{row.start_line}"
    path, tail = fmt.inert(row.path), span if lines else ""
    folder, slash, name = path.rpartition("/")
    folder += slash
    if fmt.width_of(path) + len(tail) > room:
        folder = folder.removeprefix("memory/")
    over = fmt.width_of(folder) + fmt.width_of(name) + len(tail) - room
    if over > 0 and folder:
        folder = (
            fmt.crop_left(folder, max(0, fmt.width_of(folder) - over))
            if fmt.width_of(folder) - over > 2
            else ""
        )
        over = fmt.width_of(folder) + fmt.width_of(name) + len(tail) - room
    if over > 0:
        tail = tail if fmt.width_of(name) + len(tail) - 6 <= room else ""
        name = fmt.crop_left(name, max(4, room - len(tail)))
    parts = (
        Span(folder, "faint" if out else "dim"),
        Span(name, "dim" if out else ""),
        Span(tail, "faint" if out else "dim"),
    )
    return tuple(p for p in parts if p.text)


def _told(view: View, row: Row, marker: Marker, room: int) -> Line:
    if not row.returned:
        return (Span(fmt.crop(fmt.inert(row.outcome.reason or "", 400), room), "faint"),)
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
    if key == "bm25":
        value = row.scores.get("text")
        if value is None:
            raw = row.scores.get("bm25")
            return ("·", "faint") if raw is None else (f"#{row.ranks['bm25']}", "faint")
        return fmt.score(value, 3), ""
    value = row.scores.get(key)
    if value is None:
        return "·", "faint"
    return fmt.score(value, plan.digits if key != "vector" else 3), ""


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
    the rest, nearest to being returned first."""
    trace = view.trace
    if trace is None:
        return []
    made = [Group("", trace.returned)]
    if not dropped:
        return made
    ranks = view.baseline.ranks if view.compares and view.baseline is not None else {}
    left = sorted(
        (row for row in trace.dropped if row.chunk_id in ranks), key=lambda row: ranks[row.chunk_id]
    )
    rest = [row for row in trace.dropped if row.chunk_id not in ranks]
    if left:
        made.append(Group("returned by the baseline, not now", left))
    if rest:
        made.append(Group("not returned", rest))
    return made


def rule(group: Group, hint: bool, cells: int) -> Line:
    """The line above a group of rows that are not returned."""
    text = f"── {group.title}: {len(group.rows)} "
    key = " d hides ──" if hint else ""
    filling = max(0, cells - 1 - fmt.width_of(text) - fmt.width_of(key))
    return fit((Span(text, "faint"), Span("─" * filling, "faint"), Span(key, "faint")), cells)
