"""``openclaw-mem timeline``."""

from __future__ import annotations

import time
from argparse import Namespace
from functools import partial
from textwrap import wrap
from typing import TYPE_CHECKING

from openclaw_mem_engine.cli.log import kinds_of, moment_of
from openclaw_mem_engine.cli.opening import warned_settings
from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.terminal import crop, dim, indented, marked, one_line, pad, show, strong, width
from openclaw_mem_engine.cli.text_format import clock_text
from openclaw_mem_engine.sanitize import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openclaw_mem_engine.timeline.model import Moment, Session, Timeline

_LIMIT = 20
_RESULTS_SHOWN = 6
_BAD = ("failed", "stopped", "killed", "skipped")


def run(arguments: Namespace) -> int:
    """Print what happened in each session, the latest last, and then what belongs to none."""
    from openclaw_mem_engine.lifecycle.sessions import find_session
    from openclaw_mem_engine.timeline.merge import read_timeline
    from openclaw_mem_engine.timeline.model import ASKED_KINDS
    from openclaw_mem_engine.timeline.writes import by_file_and_day

    kinds = kinds_of(arguments.kind, ASKED_KINDS)
    since = moment_of(arguments.since, time.time()) if arguments.since is not None else None
    limit = whole_number(arguments.limit, "--limit", 1) or _LIMIT
    settings = warned_settings(arguments)
    whole, session = read_timeline(settings), None
    if wanted := arguments.session:
        # One that was reset is in the timeline alone.
        ids = {found.id for found in whole.sessions if found.id.startswith(wanted)}
        session = ids.pop() if len(ids) == 1 else find_session(settings, wanted).id
    found = whole.only(kinds=kinds, since=since, session=session)
    listed = [one for one in found.sessions if one.moments or not kinds]
    lines = _lines(found, listed, limit, str(settings.openclaw.sessions_dir), width())
    files = {"files": [row._asdict() for row in by_file_and_day(found.moments)]}
    show(found.to_dict() | files, lines, as_json=arguments.json)
    return 0


def _lines(
    found: Timeline, listed: Sequence[Session], limit: int, folder: str, columns: int
) -> Iterator[str]:
    """The last sessions of those ``listed``, then what belongs to none, then totals."""
    for note in found.notes:
        yield dim(one_line(note))
    if found.sessions:
        for session in reversed(listed[:limit]):
            yield from _session(session, columns)
    elif not found.notes:
        yield f"No transcript of a session is in {one_line(folder)}."
    named = {session.id for session in found.sessions}
    others = [moment for moment in found.moments if moment.session not in named]
    if others:
        yield strong("without a session")
        for moment in reversed(others):
            yield from indented(_moment(moment, columns - 2))
        yield ""
    if (more := len(listed) - limit) > 0:
        yield dim(f"{counted(more, 'earlier session')} not shown: see --limit.")
    missed = counted(found.missed, "missed flush", "missed flushes")
    text = f"{counted(len(found.sessions), 'session')}, {missed}"
    yield f"{marked(text)} (compacted without a flush before it)." if found.missed else f"{text}."


def _session(session: Session, columns: int) -> Iterator[str]:
    from openclaw_mem_engine.timeline.model import sparkline

    days = " to ".join(dict.fromkeys(clock_text(at, "%Y-%m-%d") for at in (session.start, session.end)))
    title = f"  {one_line(session.title)}" if session.title else ""
    yield f"{strong(one_line(session.name))}{title}  {dim(days)}"
    threshold = session.flush_threshold
    line = threshold if threshold > 0 else session.window
    bars = sparkline(session.curve.columns(session.start, session.end, min(60, columns - 2)), line)
    about = "about " if session.curve.estimated else ""
    facts = [
        f"peak {about}{session.curve.peak:,} of {session.window:,} tokens",
        f"flush threshold {threshold:,} (█)" if threshold > 0 else "a flush is never due",
        "estimated: no answer has a count" if session.curve.estimated else "",
        counted(session.broken, "broken line") if session.broken else "",
    ]
    yield f"  {bars.rstrip()}"
    yield f"  {dim(', '.join(filter(None, facts)))}"
    for moment in session.moments:
        yield from indented(_moment(moment, columns - 2))
    yield ""


def _moment(moment: Moment, columns: int) -> Iterator[str]:
    at, kind = clock_text(moment.at, "%Y-%m-%d %H:%M"), pad(moment.kind, 13)
    mark = marked if moment.is_missed or moment.state in _BAD else str
    lines = partial(wrap, width=columns, subsequent_indent=" " * 18)
    yield from map(mark, lines(f"{at}  {kind}  {one_line(moment.summary)}"))
    if moment.why:
        yield from map(dim, lines(one_line(moment.why), initial_indent=" " * 18))
    for result in moment.results[:_RESULTS_SHOWN]:
        score = "" if result.score is None else f"{result.score:.3f}  "
        yield dim(crop(f"{' ' * 18}{score}{one_line(result.location)}", columns))
