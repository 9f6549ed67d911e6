"""The hit list: its columns, which come from the trace's lists and stages, and the line of each row."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Literal, NamedTuple

from openclaw_mem_engine import api
from openclaw_mem_tui.features.search.state import Columns, View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, width
from openclaw_mem_tui.render.terms import Marker

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Knobs, NoteLine, Operand, Row, Trace

_MIN_PATH = 14
#: Cells of a name and its lines for which columns of later stages are omitted.
_NAME = 26
_ROOMY_TEXT = 30
_BEGINNING = 8
#: Cells behind a location of at most ``_NAME`` from which a row without a second line has its best one there.
_GAP = 14
#: The cell of a column that says nothing of a row, and its role.
_NONE = ("·", "faint")
_NOT_SENT = ("", "")


ColumnKind = Literal["list", "variant", "fusion", "score", "order", "snippet", "final"]


class Column(NamedTuple):
    """``key`` is the name of scores and ranks in a row, ``term`` that of operands; ``width`` includes no gap
    (one blank separates columns)."""

    key: str
    title: str
    kind: ColumnKind
    term: str = ""
    width: int = 5


class Layout(NamedTuple):
    """The columns for one trace and one pane width. ``path`` and ``text`` are the flexible ones, in cells."""

    mode: Columns
    numbers: tuple[Column, ...]
    delta: bool
    path: int
    text: int
    marks: int
    rank: int


def layout(view: View, mode: Columns, cells: int) -> Layout:
    """Columns of the lists and stages that ran. When the pane is narrow they go in this order: the fused
    score where it is a weighted sum of the lists, those without a value in any row, how much is shown, the
    lists of an expansion, those that change scores (the first ones first), those that change the order with a
    fused score of ranks and its bonus, the lists, moves; rank, path with its lines and the last score always
    stay; of ranks, the last one is in the first column."""
    trace = view.trace
    assert trace is not None
    numbers = _numbers(trace, mode)
    by_rank = trace.knobs.fusion != "weighted"  # whose scores have more digits
    if by_rank and mode != "ranks":
        numbers = [c._replace(width=max(c.width, 6)) for c in numbers]
    delta = view.compares
    most = max([0, *(len(_marks(row)) for row in trace.returned)])
    marks = most + (1 if delta and most else 2)  # what the column before ends with is a blank
    # Of their candidates: most rows of them are not on the screen, and are never made.
    first = [found.location for i in trace.rows.ids[:60] if (found := view.candidate(i)) is not None]
    wanted = max(map(fmt.width_of, first), default=20)
    cells -= 1  # a blank before the scroll bar
    rank = len(str(len(trace.returned) + len(trace.unreturned)))

    def left() -> int:
        fixed = 2 + rank + (5 if delta else 0) + sum(c.width + 1 for c in numbers) + marks
        return cells - fixed

    if not by_rank and left() < wanted:  # a sum of the lists, as the waterfall shows
        numbers = [c for c in numbers if c.kind != "fusion"]
    # The names get the room first: columns of later stages go before a name is cropped.
    names = max((fmt.width_of(location.rpartition("/")[2]) for location in first), default=0)
    needed, before = 18, left()
    if before < wanted or not trace.rows:
        # The first row of every list that is fused is in the pool.
        numbers = [
            c
            for c in numbers
            if any(
                _cell(row, c, mode, trace.knobs) not in (_NONE, _NOT_SENT)
                for row in chain(trace.returned, trace.unreturned)
            )
        ]
        needed += left() - before  # what that frees is for the locations
    needed = max(min(needed, _NAME), min(names, _NAME))
    scores = [(c.key,) for c in numbers if c.kind == "score"]
    later: tuple[tuple[str, ...], ...] = (*scores, ("order",))
    if by_rank:
        # Fused score and bonus together make the order.
        later = (*(keys for keys in scores if keys[0] != "bonus"), ("order", "fusion", "bonus"))
    for gone in (("snippet",), ("variant",), *later, ("list",)):
        if left() < min(wanted, _MIN_PATH if "list" in gone else needed):
            numbers = [c for c in numbers if c.kind not in gone and c.key not in gone]
    delta = delta and left() >= _MIN_PATH
    room = max(4, left())
    spare = room - min(wanted, room // 2) - 2
    text = spare if spare >= _ROOMY_TEXT else 0
    path = room - (text + 2 if text else 0)
    return Layout(mode, tuple(numbers), delta, path, text, marks, rank)


def _numbers(trace: Trace, mode: Columns) -> list[Column]:
    columns = list[Column]()
    for lst in trace.lists:
        kind: ColumnKind = "list" if lst.source.role == "original" else "variant"
        title = short_label(lst.label)
        columns.append(Column(lst.key, title, kind, lst.term))
    later = (*trace.of_kind("score"), *trace.of_kind("order"))
    if later and len(columns) > 1:
        columns.extend(Column(stage.name, stage.label, "fusion") for stage in trace.of_kind("fusion"))
    # 1 / rank says what the rank says.
    scoring = (stage for stage in trace.of_kind("score") if stage.name != "position")
    columns.extend(Column(stage.name, stage.label, "score") for stage in scoring)
    if mode != "ranks":  # those of this order are in the first column
        columns.extend(Column(stage.name, f"{stage.label} ↓", "order") for stage in trace.of_kind("order"))
    wide = max([5, *(len(shown(row)) for row in trace.returned)])
    snippets = trace.of_kind("snippet") if any(row.truncated for row in trace.returned) else ()
    columns.extend(Column(stage.name, stage.label, "snippet", width=wide) for stage in snippets)
    columns = columns if mode == "ranks" else [*columns, Column("final", "score", "final")]
    return [c._replace(width=max(c.width, len(c.title))) for c in columns]


def short_label(label: str) -> str:
    """``BM25 v1`` of the list ``BM25 variant 1``."""
    return label.replace("variant ", "v")


def shown(row: Row) -> str:
    """``9/18``: how many of the chunk's lines the agent gets whole."""
    return "{}/{}".format(*row.sent)


def header(plan: Layout, marks: Iterable[tuple[str, str]] = ()) -> Line:
    """Titles of the columns; beside that of the chunks, what the ``marks`` before them mean, as far as there
    is room."""
    parts = [Span(fmt.right("#", 2 + plan.rank), "dim")]
    if plan.delta:
        parts.append(Span(" move", "dim"))
    chunk = line(("chunk", "dim"))
    for sign, text in marks:
        more = (*chunk, Span("  "), Span(sign, "warn"), Span(f" {text}", "dim"))
        chunk = more if width(more) <= plan.path else chunk
    parts += (Span(" " * plan.marks), *fit(chunk, plan.path))
    if plan.text:
        parts.append(Span("  " + fmt.left("best line", plan.text), "dim"))
    parts.extend(Span(" " + fmt.right(column.title, column.width), "dim") for column in plan.numbers)
    return tuple(parts)


def hit(view: View, row: Row, plan: Layout, marker: Marker, selected: bool, whole: bool = True) -> Line:
    """One row. The selected one has a mark, so that it is visible without colour. ``whole``: there is no
    second line with its best one."""
    out = not row.returned
    tone = "dim" if out else ""
    trace = view.trace
    assert trace is not None
    parts = [Span(*fmt.POINTER[selected])]
    parts.append(Span(fmt.right(str(final_rank(row) or ""), plan.rank), "dim" if out else "strong"))
    if plan.delta:
        parts.append(_delta(view, row))
    parts.append(Span(fmt.left(_marks(row) if plan.delta else f" {_marks(row)}", plan.marks), "warn"))
    parts.extend(fit(_where(view, row, plan, marker if whole else None), plan.path))
    if plan.text:
        parts.extend((Span("  "), *fit(best_line(view, row, marker, plan.text), plan.text)))
    decides = "order" if trace.of_kind("order") else "final"
    for column in plan.numbers:
        text, role = _cell(row, column, plan.mode, trace.knobs)
        if column.kind == decides:
            role = "strong" if row.returned else "dim"
        parts.append(Span(" " + fmt.right(text, column.width), role or tone))
    return tuple(parts)


def final_rank(row: Row) -> int | None:
    """The rank of a row behind the last stage that ranks: also that of a chunk of which lines are packed,
    where chunks before it have none."""
    return row.ranks.get("final")


def _marks(row: Row) -> str:
    return ("*" if row.outcome.rescued else "") + ("†" if row.shown.best_line_cut else "")


def _delta(view: View, row: Row) -> Span:
    baseline = view.baseline
    before = baseline.rank(row) if baseline is not None else None
    if before is not None and baseline is not None and view.trace is not None and not row.returned:
        # Of a file that is compared as one, only the first row is returned no more.
        first = baseline.now(row, view.trace)
        before = before if first is None or first.chunk_id == row.chunk_id else None
    text = fmt.arrow(before, row.outcome.rank)
    role = {"▲": "good", "n": "good", "▼": "bad", "o": "bad"}.get(text[:1], "faint")
    return Span(" " + fmt.left(text, 4), role)


def _where(view: View, row: Row, plan: Layout, marker: Marker | None) -> Line:
    """The location of a row; where there is no column for its best line, and room, with how a chunk within
    one line begins (the other columns do not tell parts of one line apart), or with a ``marker`` with the
    best line."""
    where = path_spans(row, plan.path, not row.returned)
    room = plan.path - width(where) - 1
    found = view.candidate(row.chunk_id) if not plan.text else None
    if found is not None and row.start_line == row.end_line and room >= _BEGINNING:
        return (*where, Span(f" {fmt.crop(fmt.inert(found.text.strip()[: room + 1]), room)}", "faint"))
    blank = " " * (_NAME + 2 - width(where))  # the lines begin below one another
    if found is not None and marker is not None and blank and (left := room - len(blank) + 1) >= _GAP:
        shown = best_line(view, row, marker, left)
        # Without a word of the query it would say nothing of the answer.
        matches = any("match" in span.role.split() for span in shown)
        return (*where, Span(blank), *fit(shown, left)) if matches else where
    return where


def path_spans(row: Row, room: int, out: bool = False) -> Line:
    """A location in ``room`` cells: a dim folder, the name, the range."""
    end = f"-{row.end_line}" if row.end_line > row.start_line else ""
    at = f"{fmt.inert(row.path)}:{row.start_line}{end}"
    path, colon, lines = fmt.location(at, room).rpartition(":")
    before, slash, name = path.rpartition("/")
    around = "faint" if out else "dim"
    return line((before + slash, around), (name, "dim" if out else ""), (colon + lines, around))


def scored_line(view: View, row: Row) -> int | None:
    """The number of the line of a row's chunk with the highest score. Only the lines of returned chunks are
    scored: of a chunk that the baseline alone returned, it is the line there."""
    then = view.baseline.trace.row(row.chunk_id) if view.baseline is not None else None
    return row.shown.best_line or (then.shown.best_line if then is not None else None)


def sent_of(view: View, row: Row) -> list[tuple[int, int]]:
    """The first and last lines of what the agent receives of a row's file."""
    return [lines for result in view.results_of(row.path) for lines in result.shown]


def best(view: View, row: Row, marker: Marker) -> NoteLine | None:
    """The line of a row's chunk that answers the query best, the same in a run and in its baseline; where no
    line has a score, that with most words of the query. Of a chunk that is not returned, one that no result
    shows: the agent has the others."""
    found = view.candidate(row.chunk_id)
    sent = [] if row.returned else sent_of(view, row)
    return marker.best(found, scored_line(view, row), sent) if found is not None else None


def best_line(view: View, row: Row, marker: Marker, room: int) -> Line:
    """The ``best`` line, cropped around its first term."""
    found = best(view, row, marker)
    return marker.excerpt(found.text, room) if found is not None else ()


def _cell(row: Row, column: Column, mode: Columns, knobs: Knobs) -> tuple[str, str]:
    if column.kind == "snippet":
        return (shown(row), "warn" if row.shown.best_line_cut else "") if row.returned else _NOT_SENT
    if mode == "ranks":
        rank = row.ranks.get(column.key)
        return (str(rank), "") if rank is not None else _NONE
    if column.kind == "final":
        if row.final is None:
            return _NONE
        digits = min(api.final_digits(row, knobs), column.width - 1 - (row.final < 0))
        return fmt.score(row.final, digits), ""
    if mode == "contributions":
        return _contribution(row, column, knobs.digits)
    if column.kind == "score":
        return _stage_cell(row, column, knobs.digits)
    if column.kind in ("list", "variant"):
        value = _list_score(row, column)
        return (fmt.score(value), "") if value is not None else _NONE
    value = row.scores.get(column.key)
    return (fmt.score(value, knobs.digits), "") if value is not None else _NONE


def _stage_cell(row: Row, column: Column, digits: int) -> tuple[str, str]:
    """What a stage put into the score of a row: the term that it added (before its weight, as lists show it)
    or the new score, else its factor."""
    found = {o.op: o for o in row.operands if o.stage == column.key and (o.inputs or o.op == "mul")}
    term = found.get("add", found.get("set"))
    if term is not None:
        return fmt.score(term.value, digits if term.weight == 1 else 3), ""
    factor = found["mul"].value if "mul" in found else 1.0
    return _NONE if factor == 1.0 else ("×" + fmt.score(factor), "")


def _list_score(row: Row, column: Column) -> float | None:
    """The score of a row in one list as it entered the fusion, of ranks the one that made them; None where
    the list added nothing (ranked too low, or not at all)."""
    if column.term != column.key:
        return row.scores.get(column.term)
    operand = next((o for o in row.operands if o.label == column.term), None)
    if operand is None or not operand.inputs:
        return None
    if "k" not in operand.inputs:
        return operand.value
    return row.scores.get(column.key, next(iter(operand.inputs.values())))


def _contribution(row: Row, column: Column, digits: int) -> tuple[str, str]:
    """What a list or stage added to the final score: its product, or what its factor removed."""
    found = [
        (change, operand.op)
        for operand, _, _, change in steps(row)
        if (operand.label == column.term if column.term else operand.stage == column.key)
    ]
    if found and column.kind != "fusion":
        total = sum(change for change, _ in found)
        factor = all(op == "mul" for _, op in found)
        return (fmt.signed(total, digits), "bad" if factor and total < 0 else "") if total else _NONE
    value = row.scores.get(column.key) if column.kind in ("fusion", "order") else None
    return (fmt.score(value, digits), "") if value is not None else _NONE


class Step(NamedTuple):
    """An operand with the running score ``before`` and ``after`` it."""

    operand: Operand
    before: float
    after: float
    change: float


def steps(row: Row) -> list[Step]:
    """What each operand of a row does to its score, in order."""
    made: list[Step] = []
    total = 0.0
    for operand in row.operands:
        after = operand.applied(total)
        made.append(Step(operand, total, after, operand.product if operand.op == "add" else after - total))
        total = after
    return made
