"""Everything about the selected event, session or file of the timeline, as lines."""

from __future__ import annotations

import time
from itertools import takewhile

from openclaw_mem_engine.api import FileDay, Moment, Session, Write
from openclaw_mem_tui.bindings import key
from openclaw_mem_tui.features.timeline.presenter import TimelineState
from openclaw_mem_tui.features.timeline.render import NO_REPLY, mark_of
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Details, Line, diff_lines, hanging, keyed, line, wrapped

#: Lines of a change that are drawn.
_MOST_LINES = 3_000
_SOURCES = {
    "git": "commits",
    "pre-image": "texts kept before edits of openclaw-mem",
    "file": "note of a session",
    "tool call": "tool calls in transcripts",
}


def moment_detail(state: TimelineState, moment: Moment | None, cells: int) -> list[Line]:
    """Everything about one event: what a search returned, what a write changed."""
    if moment is None:
        return _nothing(state, cells)
    details = Details(cells)
    say = details.say
    mark, words, role = mark_of(moment)
    which = " flush before the compaction" if moment.is_missed else ""
    say("kind", (f"{mark} {words}", f"strong {role}"), f"{which} at {fmt.clock(moment.at, state.at, True)}")
    session = state.session_of(moment) if moment.session else None
    if moment.kind == "search":
        say(
            "query",
            (fmt.inert(moment.query), "strong"),
            *keyed(f"  `{key('open_moment')}` searches it again in the lab"),
        )
    if not moment.is_missed:
        say("what", fmt.message(moment.text.removeprefix(NO_REPLY)))
    if moment.why:
        say("why", fmt.message(moment.why))
    if moment.is_missed:
        say("effect", ("anything said since the last flush and not in a note may be lost", "warn"))
        say("next", *keyed(f"compare the summary with the notes; `{key('remember')}` adds a missing fact"))
    if moment.kind == "compaction" and session is not None:
        _say_kept(details, state, moment, session)
    if moment.tokens is not None:
        after = f" → {moment.tokens_after:,}" if moment.tokens_after is not None else ""
        unknown = moment.kind == "compaction" and not after
        threshold = session.flush_threshold if session is not None else 0
        limit = f" (threshold {threshold:,})" if threshold > 0 else ""
        last = "; not known after it: no response follows" if unknown else ""
        say("tokens", f"{moment.tokens:,}{after}", (f"{limit}{last}", "dim"))
    if moment.session:
        name = session.name if session is not None else moment.session
        where = f", line {moment.line:,} of its transcript" if moment.line else ""
        say("session", fmt.inert(name), (fmt.inert(where), "dim"))
    for number, result in enumerate(moment.results, 1):
        score = (f"  {fmt.score(result.score)}" if result.score is not None else "", "dim")
        say("returned" if number == 1 else "", f"{number} {fmt.inert(result.location)}", score)
    for write in moment.writes:
        if write == state.shown:
            details.lines += _change(state, cells, named=len(moment.writes) > 1)
        else:
            say("file", fmt.inert(write.text))
    return details.lines


def _say_kept(details: Details, state: TimelineState, moment: Moment, session: Session) -> None:
    """What a compaction leaves: the notes that were written since the one before, and the summary."""
    writes: list[tuple[float, Write]] = []
    for other in takewhile(lambda other: other != moment, session.moments):
        made = [(other.at, write) for write in other.writes]
        writes = [] if other.kind == "compaction" else [*writes, *made]
    for number, (at, write) in enumerate(writes):
        when = f" at {fmt.clock(at, state.at, True)}"
        details.say("" if number else "earlier", ("wrote ", "dim"), fmt.inert(write.text), (when, "dim"))
    if not writes:
        details.say("earlier", ("no write in this transcript since the previous compaction", "dim"))
    change = state.change if state.shown == moment else None
    if change is None:
        details.say("summary", ("is being read …", "dim"))
    elif not change.text:
        details.say("summary", (fmt.inert(change.source), "dim"))
    for number, text in enumerate(fmt.inert_lines(change.text.strip()) if change and change.text else ()):
        details.say("" if number else "summary", text)
    if change is not None and change.text:
        details.say("", ("the agent continues from this summary and its latest messages", "dim"))


def _change(state: TimelineState, cells: int, *, named: bool) -> list[Line]:
    """The difference that is shown, long lines wrapped; ``named``: below the file that it is of."""
    write, change = state.shown, state.change
    if not isinstance(write, Write):
        return []
    details = Details(cells)
    if named:
        details.say("file", (fmt.inert(write.text), "strong"))
    if change is None:
        return [*details.lines, line(("The change is being read.", "dim"))]
    details.say("source", (fmt.inert(change.source), "dim"))
    if write.origin == "file":  # the text of the note: no line of it has a sign
        texts = fmt.inert_lines(change.text.rstrip("\n"))
        return [*details.lines, *(row for text in texts for row in hanging(line((text, "dim")), cells - 1))]
    return [*details.lines, *(diff_lines(change.text, cells, _MOST_LINES) if change.text else ())]


def session_detail(state: TimelineState, session: Session | None, cells: int) -> list[Line]:
    """Everything about one session; without one, how the rows are to be read."""
    if session is None:
        if state.whole is None or not state.whole.sessions:
            return _nothing(state, cells)
        text = f"This row stands for all sessions. `{key('open_moment')}` shows all events."
        return wrapped(keyed(text), cells - 1)
    details = Details(cells)
    say = details.say
    title = f"  {fmt.inert(session.title)}" if session.title else ""
    say("session", (fmt.inert(session.key or session.id), "strong"), (title, "dim"))
    say("file", fmt.inert(session.path), (f"  {session.model}" if session.model else "", "dim"))
    say("time", f"{fmt.clock(session.start, state.at)} to {fmt.clock(session.end, state.at)}")
    about = "about " if session.curve.estimated else ""
    say("tokens", f"{about}{session.curve.peak:,} at most, of {session.window:,}")
    if session.curve.estimated:
        say("", ("estimated from the length of the transcript: no response has a token count", "warn"))
    due = (
        f"{session.flush_threshold:,} tokens; a flush is due there"
        if session.flush_threshold > 0
        else "none; a flush is never due"
    )
    say("threshold", due)
    missed = f"{session.missed:,} before a compaction" if session.missed else "none"
    say("missed", (missed, "bad" if session.missed else "good"))
    if session.broken:
        say("broken", (f"{fmt.count(session.broken, 'line')} of the transcript cannot be read", "warn"))
    say("events", f"{len(session.moments):,}", *keyed(f"; `{key('open_moment')}` shows only them"))
    return details.lines


def day_detail(state: TimelineState, row: FileDay | None, cells: int) -> list[Line]:
    """What one file got on one day."""
    if row is None:
        return _nothing(state, cells)
    details = Details(cells)
    details.say("file", (fmt.inert(row.path), "strong"), f" on {row.day}")
    details.say("writes", f"{row.writes:,}", (f", known from: {_SOURCES[row.origin]}", "dim"))
    removed = f", {row.removed:,} removed" if row.removed else ""
    details.say("lines", f"{row.added:,} written{removed}" if row.added or row.removed else "not known")
    label = "events"
    for moment in state.chosen.moments[::-1] if state.chosen else state.whole.moments if state.whole else ():
        if row.path in (w.path for w in moment.writes) and row.day == time.strftime(
            "%Y-%m-%d", time.localtime(moment.at)
        ):
            mark, words, role = mark_of(moment)
            clock = time.strftime("%H:%M", time.localtime(moment.at))
            details.say(label, f"{clock} ", (f"{mark} {words} ", role), fmt.inert(moment.text))
            label = ""
    return details.lines


def _nothing(state: TimelineState, cells: int) -> list[Line]:
    """Why there is no row."""
    whole = state.whole
    if whole is None:
        return []
    if not whole.sessions and not whole.moments:
        text = "No events: there is no transcript of a session, and the event log is empty."
    elif state.group != "all":
        text = f"No event here is one of: {state.group}. `{key('kinds')}` shows others."
    elif state.moments:
        text = "No event is selected."
    else:
        text = "No events here: no flush, compaction, write or search."
    return wrapped(keyed(text), cells - 1)


def first_write(moment: Moment | None) -> Write | None:
    return moment.writes[0] if moment is not None and moment.writes else None
