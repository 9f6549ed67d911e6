"""How to read the rows of the hit list: in the help, and in few words on its frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Trace
    from openclaw_mem_tui.features.search.render.hits import Column

_MARKS = (
    ("·", "not in this candidate list, or not changed by this stage"),
    ("#2", "the result with rank 2"),
    (":1-17", "lines; OpenClaw also counts the empty line after a final line break, QMD does not"),
    ("×.70", "waterfall: the weight of that list"),
    ("evergreen", "MEMORY.md, or a note in memory/ whose name is not just a date: unchanged by decay"),
    ("▲2 ▼2", "two ranks higher than in the baseline; two ranks lower"),
    ("=", "the same rank as in the baseline"),
    ("new", "not returned by the baseline"),
    ("out", "returned only by the baseline; these rows are in its order"),
    ("*", "rescued: a keyword match below min score"),
    ("†", "best line cut: the agent does not get all of the best line"),
    ("█ ▒", "waterfall: what a step adds; what it takes away"),
    ("↓", "the rows are in the order of this column, not of the score"),
    ("MMR", "lambda × rel − (1 − lambda) × sim: score scaled to 0–1, similarity to a result chosen before"),
    ("┊", "a line of the chunk that is not sent"),
    ("characters", "counted in UTF-16 units, as OpenClaw does"),
    ("│", "waterfall: min score, on every bar"),
    ("9/18", "truncated: the agent gets 9 of 18 lines whole (blank ones at the end of a chunk not counted)"),
)


def marks(trace: Trace) -> list[tuple[str, str]]:
    """The marks of the rows that are returned, each with what it means."""
    made = [("†", "best line cut")] if any(row.shown.best_line_cut for row in trace.returned) else []
    return made + [("*", "rescued")] * any(row.outcome.rescued for row in trace.returned)


def pairs(columns: Sequence[Column]) -> list[str]:
    """What the columns of two numbers say."""
    return [f"{c.title}: whole lines sent / lines" for c in columns if c.kind == "snippet"]


def legend(trace: Trace | None) -> list[tuple[str, str]]:
    """How to read the rows: lists and stages of a trace by their own words, then the marks of any list."""
    stages = trace.stages if trace is not None else ()
    columns = [
        (s.label, s.heading) for s in stages if s.kind in ("list", "fusion", "score", "order", "snippet")
    ]
    return [*columns, *_MARKS]
