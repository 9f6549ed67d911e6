"""The timeline as lines: one row each for sessions, events and files by day."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from openclaw_mem_engine.api import FileDay, Moment, Session, sparkline
from openclaw_mem_tui.features.timeline.presenter import TimelineState
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Line, Span, fit, line, width, wrapped

#: Mark, words and role by kind, or by kind and state; never distinguished by colour alone.
_MARKS: dict[str, tuple[str, str, str]] = {
    "flush": ("●", "flush", "good"),
    "flush no-reply": ("○", "no reply", "dim"),
    "flush nothing": ("○", "flush", "warn"),
    "flush skipped": ("!", "skipped", "warn"),
    "compaction": ("▼", "compaction", "dim"),
    "compaction missed": ("✗", "missed", "bad"),
    "snapshot": ("◆", "snapshot", "good"),
    "write": ("▲", "write", "good"),
    "edit": ("▲", "edit", "good"),
    "search": ("◇", "search", ""),
    "sync": ("·", "sync", "dim"),
    "rebuild": ("■", "rebuild", "good"),
    "fallback": ("!", "fallback", "warn"),
    "recovered": ("·", "recovered", "good"),
    "search-failed": ("✗", "failed", "bad"),
    "denied": ("!", "denied", "warn"),
}
#: Bars of a row of the sessions, low enough that rows do not touch in a font without space between lines. The
#: highest is for what is above the flush threshold alone.
_BARS = "▁▂▃▄▅▆"
PAST = _BARS[-1]
_WHEN, _KIND, _PEAK, _MISSED = 11, 11, 6, 7
#: Cells of a row of the events around its session, and those that what happened has before it; of a session.
_BEFORE_WHAT, _WHAT = 6 + _WHEN + _KIND, 25
_LEAST_NAME, _MOST_NAME = 8, 22
#: A session's first and last day, and the blank after them.
_DAYS = 19
#: Before what happened, where the word for the event says so.
NO_REPLY = "NO_REPLY, "
#: What a row does not repeat: the column of the kind says it.
_IN_KIND = ("wrote ", "skipped ", NO_REPLY, "The sync failed. ", "A search failed. ")
#: Phrases of what happened end before these; a row has as many whole ones as there is room for.
_ENDS = re.compile(r"[,;:.] | \(")
#: What a cut leaves of words in parentheses.
_OPENED = re.compile(r" \([^)]*$")


def mark_of(moment: Moment) -> tuple[str, str, str]:
    """Mark, words and role of an event."""
    mark, words, role = _MARKS.get(f"{moment.kind} {moment.state}") or _MARKS[moment.kind]
    mark, role = fmt.ENDED.get(moment.state, (mark, role))
    return mark, words, role


def thousands(tokens: int) -> str:
    """``176k``, ``950``"""
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)


# -- the top ----------------------------------------------------------------------------------------------


def facts(state: TimelineState, waits: Line, cells: int) -> list[Line]:
    """How many flushes did not run; what it ``waits`` for, when it could not be read."""
    whole = state.whole
    if whole is None:
        return (
            wrapped(waits, cells)
            if waits
            else [line(("Transcripts and the event log are being read.", "dim"))]
        )
    missed = fmt.count(state.missed, "missed flush", "missed flushes")
    known = (f"● {missed}", "good") if whole.sessions else ("· missed flushes: not known", "dim")
    count = (f"✗ {missed}", "bad strong") if state.missed else known
    skipped = line(" · ", (f"! {fmt.count(state.skipped, 'skipped flush', 'skipped flushes')}", "warn"))
    skipped *= state.skipped > 0
    meant, not_run = " (compacted without one)" * (state.missed > 0), " (did not run)" * bool(skipped)
    first = line(" ", count, (meant, "dim"), *skipped, (not_run, "dim"))
    lines = [first if width(first) <= cells else line(" ", count, *skipped)]
    for note in whole.notes[:2]:
        said = wrapped(line((f" ! {fmt.message(note)}", "warn")), cells, 3)
        lines += said if len(said) < 3 else [said[0], fit((*said[1], Span(" "), *said[2][1:]), cells)]
    return lines


# -- rows -------------------------------------------------------------------------------------------------


def session_row(session: Session | None, cells: int, selected: bool, year: int) -> Line:
    """Name, first and last day, curve over that time against the flush threshold, peak, missed flushes; the
    first row is for all of them."""
    head = fmt.POINTER[selected]
    if session is None:
        return line(head, "all sessions")
    name, days, bars = _session_columns(cells)
    limit = session.flush_threshold if session.flush_threshold > 0 else session.window
    curve = session.curve
    shape = sparkline(curve.columns(session.start, session.end, bars), limit, _BARS) if bars >= 4 else ""
    peak = f"{'~' if curve.estimated else ''}{thousands(curve.peak)}" if curve.times else "·"
    return line(
        head,
        fmt.left(fmt.inert(session.name), name),
        " ",
        (fmt.left(_days(session, year), days), "dim"),
        *_shape(fmt.left(shape, bars)),
        (fmt.right(peak, _PEAK), "dim"),
        (fmt.right(f"✗ {session.missed}", _MISSED) if session.missed else "", "bad"),
    )


def _session_columns(cells: int) -> tuple[int, int, int]:
    """Cells for the name, the days and the curve of a session."""
    name, days = max(8, min(22, cells // 3)), _DAYS if cells >= 56 else 0
    return name, days, max(0, cells - name - days - 3 - _PEAK - _MISSED - 1)


def session_head(cells: int) -> Line:
    """Titles of the columns of ``session_row``."""
    name, days, bars = _session_columns(cells)
    span = "tokens from first to last" if bars > 24 else "tokens"
    titles = f"  {fmt.left('session', name)} {fmt.left('first – last', days)}{fmt.left(span, bars)}"
    return line((fmt.crop(f"{titles}{fmt.right('peak', _PEAK)}{fmt.right('missed', _MISSED)}", cells), "dim"))


def session_words(session: Session | None) -> str:
    """What a filter of the sessions looks at."""
    return "all sessions" if session is None else fmt.inert(session.name)


def moment_words(moment: Moment, names: Mapping[str, str]) -> str:
    """What a filter of the events looks at."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(moment.at))
    words = (when, mark_of(moment)[1], moment.kind, names.get(moment.session, ""), moment.summary, moment.why)
    return " ".join(words)


def _shape(bars: str) -> list[Span]:
    """A sparkline whose highest bars, above the flush threshold, have another colour."""
    return [Span(run, "warn" if run[0] == PAST else "dim") for run in re.findall(f"{PAST}+|[^{PAST}]+", bars)]


def year_of(state: TimelineState) -> int:
    """The year of the newest event or session: rows name the others."""
    whole = state.whole
    found = (*(m.at for m in whole.moments), *(s.end for s in whole.sessions)) if whole is not None else ()
    return time.localtime(max(found, default=state.at)).tm_year


def _days(session: Session, year: int) -> str:
    """``03-25 – 03-31``, or one day; of another year ``2025-12-10 – 12-11``."""
    ends = [time.localtime(at) for at in (session.start, session.end)]
    days = " – ".join(dict.fromkeys(time.strftime("%m-%d", end) for end in ends))
    return days if ends[0].tm_year == year else f"{ends[0].tm_year}-{days}"


def _in_row(moment: Moment, cells: int) -> str:
    """What happened, and why it failed, without what the column of the kind says, in as many whole phrases as
    there is room for with cut paths; a query is cut anywhere."""
    failed = moment.state == "failed" or moment.kind == "search-failed"
    whole = fmt.with_reason(moment.summary, moment.why * failed)
    for said in _IN_KIND:
        whole = whole.removeprefix(said)
    whole = whole.removesuffix(".")
    if moment.kind == "search" and fmt.width_of(whole) > cells:
        return fmt.crop(fmt.inert(moment.query), cells)
    paths = {fmt.inert(write.path) for write in moment.writes}
    shown = whole
    for end in (len(whole), *reversed([found.start() for found in _ENDS.finditer(whole)])):
        shown = _OPENED.sub("", whole[:end])
        for path in paths:
            room = fmt.width_of(path) - max(0, fmt.width_of(shown) - cells)
            shown = shown.replace(path, fmt.path(path, max(room, fmt.width_of(path.rpartition("/")[2]) + 1)))
        if fmt.width_of(shown) <= cells:
            break
    return fmt.crop(shown, cells)


def moment_row(moment: Moment, cells: int, selected: bool, names: Mapping[str, str], year: int) -> Line:
    """Time, kind, whose, and what happened. ``names`` are those of the sessions by id. Of an event of another
    ``year`` the time is in the details."""
    mark, words, role = mark_of(moment)
    there = time.localtime(moment.at)
    when = fmt.left(time.strftime("%m-%d %H:%M" if there.tm_year == year else "%Y-%m-%d", there), _WHEN)
    room = _session_room(cells, names)
    whose = f"{fmt.left(_short(fmt.inert(names.get(moment.session, '')), room), room)} " if room else ""
    rest = max(0, cells - _BEFORE_WHAT - fmt.width_of(whose))
    return line(
        fmt.POINTER[selected],
        (f"{when} ", "dim"),
        (f"{mark} ", role),
        (fmt.left(words, _KIND), "bad strong" if moment.is_missed else ""),
        whose,
        (_in_row(moment, rest), "" if selected else "dim"),
    )


def _session_room(cells: int, names: Mapping[str, str]) -> int:
    """Cells for the session of an event: as many as what happened leaves, up to the longest name, in full
    where all have room for that; 0 where it leaves too few, or all are of one."""
    room = cells - _BEFORE_WHAT - _WHAT
    if room < _LEAST_NAME or len(names) < 2:
        return 0
    room = min(room, _MOST_NAME)
    longest = max(fmt.width_of(_short(fmt.inert(name), room)) for name in names.values())
    return max(_LEAST_NAME, longest)


def _short(name: str, room: int) -> str:
    """The name of a session, whole or its last part: ``…tobi`` of ``telegram:direct:tobi``."""
    before, _, last = name.rpartition(":")
    return fmt.crop_left(name if fmt.width_of(name) <= room or not before else f"…{last}", room)


def moment_head(cells: int, names: Mapping[str, str]) -> Line:
    """Titles of the columns of ``moment_row``."""
    room = _session_room(cells, names)
    session = f"{fmt.left('session', room)} " if room else ""
    return line((fmt.crop(f"  {'time':<11} {'event':<{_KIND + 2}}{session}what happened", cells), "dim"))


def day_head(cells: int, empty: bool) -> Line:
    """Titles of the columns of ``day_row``; what would fill the list where it is ``empty``."""
    if empty:
        return line((fmt.crop("  No write is recorded (sessions, git, openclaw-mem).", cells), "dim"))
    return line((f"  {'day':<10} {fmt.left('file', max(4, cells - 23))} written", "dim"))


def day_row(row: FileDay, cells: int, selected: bool) -> Line:
    """Day, file, and lines written and removed."""
    removed = f", {row.removed:,} removed" if row.removed else ""
    known = row.added or row.removed
    change = f"{fmt.count(row.added, 'line')}{removed}" if known else "lines unknown"
    path = max(4, cells - 14 - len(change) - 2)
    return line(
        fmt.POINTER[selected],
        (f"{row.day} ", "dim"),
        fmt.left(fmt.path(fmt.inert(row.path), path), path),
        (f" {change}", "good" if known else "dim"),
    )
