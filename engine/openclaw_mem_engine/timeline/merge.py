"""The whole timeline of an agent: transcripts, event log, notes of sessions, commits and our own edits."""

# Paths are strings here, as in the listing of notes.
# ruff: noqa: PTH118, PTH208

from __future__ import annotations

import os
import re
from bisect import bisect_right
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.lifecycle.decision import decide, threshold_of
from openclaw_mem_engine.lifecycle.flush import logged
from openclaw_mem_engine.lifecycle.sessions import SessionEntry, read_sessions
from openclaw_mem_engine.notes.editor import KEEP_EDITS, NoteEditor
from openclaw_mem_engine.state.events import (
    EVENTS_FILE,
    KEEP_EVENTS,
    KINDS,
    Event,
    EventKind,
    EventLog,
    printable,
)
from openclaw_mem_engine.timeline.flushes import Facts, moments_of
from openclaw_mem_engine.timeline.model import (
    MOMENT_KINDS,
    Curve,
    Kind,
    Moment,
    Session,
    State,
    Timeline,
    Write,
)
from openclaw_mem_engine.timeline.reading import Transcripts
from openclaw_mem_engine.timeline.records import LATEST, Scan
from openclaw_mem_engine.timeline.writes import edit_moments, git_writes
from openclaw_mem_engine.workspace.reading import read_note
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, open_workspace

_SNAPSHOT = re.compile(r"\d{4}-\d{2}-\d{2}-.+\.md")
_HEADING = re.compile(r"# Session: (\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}(?::\d{2})?) UTC")
_SESSION_ID = re.compile(r"\*\*Session ID\*\*: *(\S+)")
#: Kinds of the event log that are moments; ``edit`` comes from the kept texts, with its difference.
_LOGGED = tuple(kind for kind in KINDS if kind in MOMENT_KINDS and kind != "edit")
_UNREAD = "sessions.json could not be read: whether a flush could run in this session is not known"


class TimelineReader:
    """Reads the timeline of one agent again and again. Use it in one thread. With ``read_only`` nothing is
    kept for the next time."""

    def __init__(self, settings: Settings, *, read_only: bool = False) -> None:
        self.settings = settings
        self._log = EventLog(settings.data_dir / EVENTS_FILE, read_only=True)
        folder = settings.openclaw.sessions_dir
        self._transcripts = Transcripts(settings.data_dir, folder, read_only=read_only)

    def sessions(self, cancel: CancelToken | None = None) -> tuple[tuple[Session, ...], tuple[str, ...]]:
        """Every transcript with its flushes and compactions, the latest first, and sentences about what could
        not be read. The first time it may take seconds. Raises Cancelled."""
        settings, own = self.settings, self._own_flushes()
        scans, notes = self._transcripts.read(cancel)
        entries, trouble = session_entries(settings)
        found = []
        for path, scan in scans.items():
            file = settings.openclaw.sessions_dir / Path(path).name
            entry = entries.get(file.name) or SessionEntry("", file.name.partition(".jsonl")[0], file)
            unread = _UNREAD if trouble else ""
            facts = Facts(
                flush_threshold=threshold_of(entry, settings).line,
                skipped=skipped_because(entry, settings),
                unread=unread,
                flushed_at=entry.flush_at,
                own=own.get(entry.id, []),
                private=entry.flush_is_private,
            )
            found.append(_session(path, scan, entry, facts, threshold_of(entry, settings).window))
        found.sort(key=lambda session: (-session.end, session.path))
        return tuple(found), (*notes, *trouble)

    def read(self, cancel: CancelToken | None = None) -> Timeline:
        """Everything up to now. It may start git, and waits for that a few seconds at most. Raises
        WorkspaceError for a workspace that is not there, Cancelled."""
        settings = self.settings
        open_workspace(settings.workspace)
        sessions, notes = self.sessions(cancel)
        commits, slow = git_writes(settings.workspace)
        edits: dict[int, Moment] = {}
        with suppress(OpenClawMemError, OSError):
            edits = edit_moments(NoteEditor(settings).history(KEEP_EDITS))
        # A flush or a snapshot of ours made an edit, and a snapshot is a file: each is one event.
        logged_moments = [_of_event(event, edits) for event in self._events(*_LOGGED)]
        paths = {write.path for moment in logged_moments for write in moment.writes}
        snapshots = [found for found in _snapshots(settings.workspace) if found.writes[0].path not in paths]
        others = [*commits, *snapshots, *logged_moments, *edits.values()]
        ids: dict[str, list[Moment]] = {session.id: [] for session in sessions}
        for moment in others:
            if moment.session in ids:
                ids[moment.session].append(moment)
        sessions = tuple(_with(session, ids[session.id]) for session in sessions)
        moments = [moment for session in sessions for moment in session.moments]
        moments += [moment for moment in others if moment.session not in ids]
        moments.sort(key=lambda moment: moment.at, reverse=True)
        log = self._log.note
        sentences = (*notes, slow, log.text if log else "")
        return Timeline(sessions, tuple(moments), tuple(filter(None, sentences)))

    def close(self) -> None:
        self._transcripts.close()
        self._log.close()

    def _events(self, *kinds: EventKind) -> list[Event]:
        settings = self.settings
        return self._log.read(
            KEEP_EVENTS,
            kinds,
            agent=settings.agent,
            workspace=str(settings.workspace),
            backend=settings.openclaw.backend,
        )

    def _own_flushes(self) -> dict[str, list[float]]:
        """When we flushed which session."""
        found: dict[str, list[float]] = {}
        for event in self._events("flush"):
            whose = logged(event)
            if whose.outcome in ("wrote", "no-reply"):
                found.setdefault(whose.session, []).append(event.at)
        return found


def read_timeline(settings: Settings) -> Timeline:
    with closing(TimelineReader(settings)) as reader:
        return reader.read()


def missed_flushes(settings: Settings) -> list[tuple[Session, tuple[Moment, ...]]]:
    """Sessions that were compacted without a flush, each with these compactions. Writes nothing."""
    with closing(TimelineReader(settings, read_only=True)) as reader:
        sessions, _ = reader.sessions()
    return [
        (session, tuple(moment for moment in session.moments if moment.is_missed))
        for session in sessions
        if session.missed
    ]


def session_entries(settings: Settings) -> tuple[dict[str, SessionEntry], tuple[str, ...]]:
    """Every session by the name of its transcript; a sentence when sessions.json cannot be read."""
    try:
        return {entry.file.name: entry for entry in read_sessions(settings)}, ()
    except OpenClawMemError as error:
        return {}, (f"{printable(str(error))} Sessions are shown by the names of their transcripts.",)


def skipped_because(entry: SessionEntry, settings: Settings) -> str:
    """Why no flush can run in a session with the settings of now; "" when one can."""
    decision = decide(entry, settings)
    if decision.code == "session-type":
        return printable(decision.reason)
    by_settings = decision.code in ("disabled", "read-only", "no-threshold")
    return printable(f"as configured now, {decision.reason}") if by_settings else ""


def _session(path: str, scan: Scan, entry: SessionEntry, facts: Facts, window: int) -> Session:
    curve = _curve(scan)
    number = printable(entry.id)
    moments = moments_of(scan, curve, number, facts)
    return Session(
        id=number,
        key=printable(entry.key),
        title=printable(entry.name),
        path=path,
        start=scan.start or scan.at,
        end=scan.at,
        window=window,
        flush_threshold=facts.flush_threshold,
        curve=curve,
        moments=moments,
        model=scan.model,
        broken=scan.broken,
        missed=sum(moment.is_missed for moment in moments),
    )


def _curve(scan: Scan) -> Curve:
    """The counts of a transcript. After a compaction the next count says what is left: the curve falls to it
    at the compaction, not with the next answer, which may be days later."""
    times, tokens = scan.times[:], scan.tokens[:]
    for record in scan.records:
        index = bisect_right(times, record.at)
        if record.kind == "compaction" and 0 < index < len(times) and tokens[index] < tokens[index - 1]:
            times.insert(index, record.at)
            tokens.insert(index, tokens[index])
    return Curve(times, tokens, scan.estimated)


def _with(session: Session, others: list[Moment]) -> Session:
    if not others:
        return session
    return replace(session, moments=tuple(sorted((*session.moments, *others), key=lambda moment: moment.at)))


def _of_event(event: Event, edits: dict[int, Moment]) -> Moment:
    """An event of the log; the edit that it made is taken from ``edits``."""
    whose = logged(event)
    edit = edits.pop(event.counts.get("edit", 0), None)
    return Moment(
        at=event.at,
        kind=cast("Kind", event.kind),
        text=whose.text,
        state=whose.outcome or cast("State", event.ended),
        session=printable(whose.session),
        why=event.reason,
        writes=edit.writes if edit is not None else (),
    )


def _snapshots(workspace: Path) -> list[Moment]:
    """The notes of ended sessions, by their names and headings."""
    real = os.path.realpath(workspace)
    folder = os.path.join(real, MEMORY_FOLDER)
    names: list[str] = []
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if _SNAPSHOT.fullmatch(name))
    found = []
    for name in names:
        with suppress(OpenClawMemError, ValueError, OSError):
            text = read_note(os.path.join(folder, name), real).text
            if heading := _HEADING.match(text):
                at = datetime.fromisoformat(f"{heading[1]}T{heading[2]}").replace(tzinfo=UTC).timestamp()
                if not 0 < at < LATEST:
                    continue
                session = _SESSION_ID.search(text)
                path = printable(f"{MEMORY_FOLDER}/{name}")
                write = Write(path, text.count("\n"), 0, "file", "")
                number = printable(session[1]) if session else ""
                found.append(Moment(at, "snapshot", f"wrote {write.text}", "", number, writes=(write,)))
    return found
