"""What became of a row, in one line: its rank and score, or what dropped it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openclaw_mem_engine import api
from openclaw_mem_tui.features.search.render.groups import dropped_by, past_the_last
from openclaw_mem_tui.features.search.render.hits import final_rank, path_spans
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, line, spread, text_of, width

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Row, Trace


def head(trace: Trace, row: Row, cells: int) -> tuple[Line, bool]:
    """The location of a row, its score where it is not returned and there is room for that, and its
    outcome; and whether that says all that the reason of its drop does."""
    short = _past_the_last(trace, row)
    whole = bool(short) and width(short) + fmt.width_of(row.location) < cells
    end = short if whole else _outcome(trace, row)
    score = line(
        ("score ", "dim"), (fmt.score(row.final, api.final_digits(row, trace.knobs)), "strong"), ("  ", "")
    )
    room = fmt.width_of(row.location) + width(score) + width(end) < cells
    end = (*score, *end) if room and row.final is not None and not row.returned else end
    return spread(path_spans(row, cells - width(end) - 1), end, cells), whole


def on_frame(trace: Trace, row: Row) -> str:
    """The outcome alone, with what dropped the row."""
    why = (dropped_by(row.outcome.stage or "", trace), "bad")
    short = _outcome(trace, row) if row.returned else line(("out: ", "dim"), why)
    return text_of(_past_the_last(trace, row) or short)


def is_whole(trace: Trace, row: Row) -> bool:
    """Whether ``on_frame`` says all that the reason of the drop does."""
    return bool(past_the_last(trace, row))


def _outcome(trace: Trace, row: Row) -> Line:
    if row.outcome.rank is None:
        return line(("not returned", "bad"))  # why, the lines below say
    return line(
        ("rescued " if row.outcome.rescued else "", "warn"),
        (f"#{final_rank(row)}", "strong"),
        (" at ", "dim"),
        (fmt.score(row.final, api.final_digits(row, trace.knobs)), "strong"),
    )


def _past_the_last(trace: Trace, row: Row) -> Line:
    """``out: rank 28; rank 1 before decay`` of a row past the last result; empty for any other."""
    ranks = past_the_last(trace, row)
    return line(("out: ", "dim"), ("; ".join(ranks), "bad")) if ranks else ()
