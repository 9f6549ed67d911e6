"""The chart of a session: its token curve against the flush threshold, and the marks of its events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby

from openclaw_mem_engine.api import Moment, Session
from openclaw_mem_tui.features.timeline.presenter import TimelineState, window
from openclaw_mem_tui.features.timeline.render import mark_of, thousands
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, line, spread

_EIGHTHS = " ▁▂▃▄▅▆▇█"
#: The weight of events that share a column of the chart, the weightiest last.
_RANK = ("dim", "", "good", "warn", "bad")
#: From so many rows of a chart on, one of them is for the peaks: numbers say more than a row of bars.
_WITH_PEAKS = 3


def title(session: Session | None, of_event: bool) -> str:
    """Whose curve it is, ``of_event``: that of the selected event; else with its peak."""
    if session is None:
        return "tokens"
    if of_event:
        return fmt.join(("tokens", f"session {fmt.crop(fmt.inert(session.name), 22)}"))
    peak = f"peak {session.curve.peak:,}" if session.curve.times else ""
    return fmt.join(("tokens", fmt.crop(fmt.inert(session.name), 22), peak))


def chart(
    state: TimelineState,
    moment: Moment | None,
    session: Session | None,
    height: int,
    cells: int,
    *,
    named: bool,
) -> list[Line]:
    """The token curve against the flush threshold, the events below it, and the ends of the axis, in
    ``height`` lines; ``named``: with a legend of the events."""
    start, end = window(state, moment, session)
    gutter, width = _gutter(cells), _width(cells)
    made: list[Line] = []
    placed = _placed(state, moment, session, cells)
    legend = _legend([one for _, one in placed], cells) if named else []
    rows = max(2, height - 2 - len(legend))  # beside the marks and the axis
    if session is not None and session.curve.times:
        made = _bars(session, start, end, rows, width, gutter)
    else:
        none = "This event has no session." if moment is not None else "No session is selected."
        text = "This session has no responses." if session is not None else none
        made = [line((f"{' ' * gutter}{fmt.crop(text, width)}", "dim")), *[()] * (rows - 1)]
    made.append((Span(" " * gutter), *_marks(placed, moment)))
    form = "%m-%d %H:%M" if width < 50 else "%Y-%m-%d %H:%M"
    ends = [time.strftime(form, time.localtime(at)) for at in (start, end)]
    made.append(spread([Span(f"{' ' * gutter}{ends[0]}", "faint")], [Span(f"{ends[1]} ", "faint")], cells))
    return [*made, *legend]


def _gutter(cells: int) -> int:
    """Columns for the numbers of the axis."""
    return 6 if cells >= 40 else 0


def _width(cells: int) -> int:
    """Columns of the bars."""
    return max(1, cells - _gutter(cells) - 1)


def _bars(session: Session, start: float, end: float, rows: int, width: int, gutter: int) -> list[Line]:
    """Bars of an eighth of a row each on a linear scale, with the flush threshold in between. Those
    above it have a colour, and another one where a compaction missed its flush. Above them, where there is
    room, their peaks."""
    counts = session.curve.columns(start, end, width)
    limit = session.flush_threshold
    peaks = [(Span(" " * gutter), *_peaks(counts, limit))] if rows >= _WITH_PEAKS else []
    rows -= len(peaks)
    top, at_line = _scale(limit, session.curve.peak, rows)
    unit, middle = rows * 8 / top, (rows - 1 - at_line) * 8 + 4
    levels = [0 if count is None else max(1, round(count * unit)) for count in counts]
    if limit > 0:  # a count next to the threshold is not rounded to the other side of it
        known = zip(counts, levels, strict=True)
        levels = [max(n, middle + 1) if (count or 0) >= limit else min(n, middle) for count, n in known]
    # Of two peaks with different numbers the higher one is higher, if they would round to one height.
    peak = max((count or 0 for count in counts), default=0)
    second = max((n for n, count in zip(levels, counts, strict=True) if count != peak), default=0)
    levels = [n + (count == peak and second == n < rows * 8) for n, count in zip(levels, counts, strict=True)]
    within = (one for one in session.moments if one.is_missed and start <= one.at <= end)
    missed = {_column(one, start, end, width) for one in within}
    made = []
    for row in range(rows):
        base = (rows - 1 - row) * 8
        label = thousands(limit) if row == at_line else thousands(top) if row == 0 else ""
        spans = [
            Span(fmt.right(label, gutter - 1) + " " if gutter else "", "warn" if row == at_line else "faint")
        ]
        for column, (count, level) in enumerate(zip(counts, levels, strict=True)):
            eighths = max(0, min(8, level - base))
            if not eighths:
                char, role = ("┄", "warn") if row == at_line else (" ", "")
            else:
                over = count is not None and 0 < limit <= count
                char, role = _EIGHTHS[eighths], ("bad" if column in missed else "warn") if over else "dim"
            if spans[-1].role == role and len(spans) > 1:
                spans[-1] = Span(spans[-1].text + char, role)
            else:
                spans.append(Span(char, role))
        made.append(tuple(spans))
    return [*peaks, *made]


def _peaks(counts: Sequence[int | None], limit: int) -> list[Span]:
    """The highest count of each row of bars above the flush threshold, without any that of the highest bar;
    of two that would touch, the first."""
    known = [count or 0 for count in counts]
    least = limit if 0 < limit <= max(known) else max(known)
    spans, used = list[Span](), 0
    for above, group in groupby(range(len(known)), key=lambda at: known[at] >= least):
        top = max(group, key=lambda at: known[at])
        label = thousands(known[top])
        at = max(0, min(top - len(label) // 2, len(known) - len(label)))
        if above and at >= used + bool(used):
            spans.append(Span(" " * (at - used) + label, "dim"))
            used = at + len(label)
    return spans


def _scale(limit: int, peak: int, rows: int) -> tuple[int, int]:
    """The count at the upper edge of the chart, at least the peak, and the row in whose middle is the line of
    the flush threshold; -1 without one."""
    if limit <= 0:
        return max(peak, 1), -1
    tops = (round(limit * rows * 8 / ((rows - 1 - row) * 8 + 4)) for row in range(rows))
    fitting = ((top, row) for row, top in enumerate(tops) if top >= peak)
    return next(fitting, (peak, rows - 1))


def _column(moment: Moment, start: float, end: float, width: int) -> int:
    return min(width - 1, int((moment.at - start) / (end - start) * width))


def _placed(
    state: TimelineState, selected: Moment | None, session: Session | None, cells: int
) -> list[tuple[int, Moment]]:
    """The events that are drawn with their columns, in their order. Of several in a column the weightiest is
    drawn, and one of the others beside it: a compaction, which follows the flush at its peak, below the fall
    of the curve."""
    (start, end), width = window(state, selected, session), _width(cells)

    def weight(moment: Moment) -> tuple[bool, bool, int]:
        return moment.kind != "compaction", moment is selected, _RANK.index(mark_of(moment)[2])

    drawn: dict[int, Moment] = {}
    moments = session.moments if session is not None else state.moments
    within = (moment for moment in moments if start <= moment.at <= end)
    for moment in sorted(within, key=weight, reverse=True):
        column = _column(moment, start, end, width)
        other = drawn.get(column, moment)
        to = 1 if moment.at >= other.at else -1
        # Right of the bars is a blank cell.
        places = (at for at in (column, column + to, column + 2 * to, column - to) if 0 <= at <= width)
        free = [at for at in places if at not in drawn]
        if free or moment is selected:
            drawn[free[0] if free else column] = moment
    return sorted(drawn.items())


def _marks(drawn: Sequence[tuple[int, Moment]], selected: Moment | None) -> list[Span]:
    """The marks of the events in their columns; that of the selected one is underlined."""
    spans, at = [], 0
    for column, moment in drawn:
        mark, _, role = mark_of(moment)
        spans += [Span(" " * (column - at)), Span(mark, f"{role} match" if moment is selected else role)]
        at = column + 1
    return spans


def _legend(drawn: Sequence[Moment], cells: int) -> list[Line]:
    """The marks of the events, each with its word, in the order of the first ones; in two lines where they
    need more than one."""
    made, used = [[Span(" ")]], 1
    for mark, words, role in dict.fromkeys(map(mark_of, drawn)):
        wide = fmt.width_of(f"{mark} {words} ")
        if used + wide > cells:
            made, used = [*made, [Span(" ")]], 1
        made[-1] += [Span(f"{mark} ", role), Span(f"{words} ", "dim")]
        used += wide
    return [tuple(row) for row in made[:2]]
