"""Faults: the banner that names them, the list to switch them, and what they did to the last query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from openclaw_mem_engine.api import FAULTS, Row
from openclaw_mem_tui.features.providers.comparison import Compared, answered_by, compared
from openclaw_mem_tui.features.search.render.hits import path_spans
from openclaw_mem_tui.features.search.state import View
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, labelled, line, spread, width, wrapped
from openclaw_mem_tui.render.status import reason

#: From here on a fault and its explanation stand on one line.
_ONE_LINE = 66
_INDENT = 4
_LABEL = 9
_PLACES = 3


def in_order(faults: Iterable[str]) -> list[str]:
    """Known faults in the order in which they are offered, then others."""
    names = frozenset(faults)
    return [*(name for name in FAULTS if name in names), *sorted(names - FAULTS.keys())]


def banner(faults: frozenset[str], cells: int, here: bool = False) -> Line:
    """``here``: on the screen that has the switch."""
    if not faults:
        return ()
    names = in_order(faults)
    head = f" ✗ FAULT{'S' * (len(names) > 1)} INJECTED: "
    off = "u clears" if here else "2 then u clears"
    ends = (f"nothing of this is real · {off} ", f"{off} ", "")
    for end in ends:
        for count in range(len(names), 0, -1):
            more = f" +{len(names) - count}" if count < len(names) else ""
            text = head + ", ".join(names[:count]) + more
            if fmt.width_of(text) + 3 + fmt.width_of(end) <= cells:
                return fit((Span(text + (f" · {end}" if end else "")),), cells)
            if end is ends[0]:
                break  # the names matter more than this sentence
    return fit((Span(head + ", ".join(names)),), cells)


def fault_rows(name: str, on: bool, cells: int, selected: bool) -> list[Line]:
    """A check box, the name and what it does; below it where the pane is narrow."""
    mark = Span("▌ " if selected else "  ", "accent")
    box = line(("[", "dim"), ("x" if on else " ", "strong bad"), ("] ", "dim"))
    label = Span(name, "strong bad" if on else "strong" if selected else "")
    if cells >= _ONE_LINE:
        pad = " " * (max(map(len, FAULTS)) + 2 - len(name))
        whole = (mark, *box, label, Span(pad), Span(FAULTS[name], "dim"))
        return wrapped(whole, cells - 1, _INDENT + 2 + max(map(len, FAULTS)) + 2)
    told = wrapped((Span(" " * (_INDENT + 2)), Span(FAULTS[name], "dim")), cells - 1, _INDENT + 2)
    return [line(mark, *box, label), *told]


def last_query(view: View, cells: int) -> list[Line]:
    """Who answered the last query, how far that is from the healthy run, and why."""
    if not view.query.strip():
        return wrapped(
            line(("No query yet. ", "strong"), ("enter", "key"), (" opens the search lab.", "dim")), cells
        )
    made: list[Line] = [
        line(("“", "faint"), (fmt.crop(fmt.inert(view.query, 300), cells - 4), "strong"), ("”", "faint"))
    ]

    def say(label: str, *parts: Span | tuple[str, str] | str) -> None:
        made.extend(labelled(label, line(*parts), cells - 1, _LABEL))

    if view.error:
        say("failed", (fmt.inert(view.error), "bad"))
    if view.pending:
        say("", ("asked again just now …", "accent"))
        return made
    pool = view.pool
    if pool is None:
        return made
    seen = compared(view) if view.pool_faults else None
    if seen is not None:
        made.extend(wrapped(_overlap(seen), cells - 1))
    role = "warn" if pool.fallback is not None else ""
    say("answered", (fmt.inert(answered_by(pool)), role))
    if view.pool_faults and view.other_pool is not None:
        say("healthy", fmt.inert(answered_by(view.other_pool)))
    told = reason(pool) or _why_less(view)
    if told:
        say("why", fmt.inert(told))
    if seen is not None:
        for label, rows in (("lost", seen.lost), ("new", seen.new)):
            if rows:
                made.extend(_places(label, rows, cells))
    if not view.pool_faults:
        made.extend(
            wrapped(line(("space", "key"), (" on a fault asks it again under that.", "dim")), cells - 1)
        )
    return made


def in_short(view: View, cells: int) -> Line:
    """What the faults did to the shown answer, in one line of the lab."""
    seen = compared(view)
    if seen is None or view.pool is None:
        return ()
    who = line((" · ", "faint"), (f"{fmt.inert(answered_by(view.pool))} answered", ""))
    return spread((Span(" Δ ", "accent"), *_overlap(seen), *who), (), cells)


def _overlap(seen: Compared) -> Line:
    same, of, moved = seen.same, seen.of, seen.moved
    told = f"the same as the healthy run, {moved} moved" if moved else "the same as the healthy run"
    if not of:
        return line(("no hit", "strong"), ", and none in the healthy run")
    if same < of and len(seen.lost) != len(seen.new):
        told += f" ({len(seen.lost)} lost, {len(seen.new)} new)"
    measure = (f" · overlap@{seen.at} {same}/{of}", "dim")
    return line((f"{same} of {of} ", "strong good" if same == of else "strong bad"), told, measure)


def _places(label: str, rows: Sequence[Row], cells: int) -> list[Line]:
    """The first places of hits that only one of the runs returned."""
    made = []
    for at, row in enumerate(rows[:_PLACES]):
        rank = Span(fmt.left(fmt.place(row.outcome.rank), 4), "bad" if label == "lost" else "good")
        start = line((fmt.left("" if at else label, _LABEL) + " ", "dim"), rank)
        end = line((f" +{len(rows) - _PLACES}", "dim")) if at == _PLACES - 1 and len(rows) > _PLACES else ()
        room = cells - 1 - width(start) - width(end)
        made.append(spread((*start, *path_spans(row, room)), end, cells - 1))
    return made


def _why_less(view: View) -> str:
    """The warnings of an answer that no fallback explains."""
    notes = view.trace.notes if view.trace is not None else ()
    return " ".join(dict.fromkeys(n.text for n in notes if n.level == "warning" and n.code != "fault"))
