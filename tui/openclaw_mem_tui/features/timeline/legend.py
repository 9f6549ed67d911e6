"""What the marks below the chart of a session mean, in a line."""

from __future__ import annotations

from openclaw_mem_engine.api import Moment, Session
from openclaw_mem_tui.features.timeline.presenter import TimelineState, window
from openclaw_mem_tui.features.timeline.render import mark_of
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span


def legend(state: TimelineState, moment: Moment | None, session: Session | None, cells: int) -> Line:
    """The marks that the chart has, each with its word, in the order of their first events; as many as there
    is room for."""
    start, end = window(state, moment, session)
    of = session.moments if session is not None else state.moments
    marks = list(dict.fromkeys(mark_of(one) for one in of if start <= one.at <= end))
    wide = sum(fmt.width_of(f"{mark} {words}  ") for mark, words, _ in marks)
    gap, made, used = "  " if wide <= cells else " ", [Span(" ")], 1
    for mark, words, role in marks:
        used += fmt.width_of(f"{mark} {words}{gap}")
        if used > cells:
            break
        made += [Span(f"{mark} ", role), Span(f"{words}{gap}", "dim")]
    return tuple(made)
