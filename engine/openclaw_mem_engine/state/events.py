"""What happened to the memories of this machine: syncs, rebuilds, fallbacks, failures; with time and reason.

One small SQLite file for all agents and workspaces. It is bounded: the oldest events go when they are too
many, and old ones when they are not among the newest. It holds counts and redacted messages, never a query
and never the text of a note.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import one_line, visible
from openclaw_mem_engine.state.database import Row, Schema, StateDatabase, finite
from openclaw_mem_engine.state.records import StateRecords

if TYPE_CHECKING:
    import apsw

    from openclaw_mem_engine.model import Note

#: ``watch``: a watcher began, ended, or polls instead; ``edit``: a note was written, with its number.
EventKind: TypeAlias = Literal[
    "sync",
    "rebuild",
    "fallback",
    "recovered",
    "search-failed",
    "denied",
    "doctor",
    "watch",
    "flush",
    "snapshot",
    "edit",
]
KINDS: tuple[EventKind, ...] = get_args(EventKind)

#: The name of the file in the data folder.
EVENTS_FILE = "events.sqlite"
#: What is kept at most.
KEEP_EVENTS = 10_000
KEEP_DAYS = 90
#: The newest ones are kept whatever their age: a clock that is wrong for a minute must not cost the history.
KEEP_NEWEST = 1_000
#: Text and reason are messages for people; a page of text that a server sends does not fill the file.
TEXT_CHARS = 500

_READ_CHARS = 20_000
#: Beyond any true count; keeps nonsense within SQLite's 64 bits.
_MOST = 10**12

# AUTOINCREMENT: an id is never given twice, so a reader that follows the log misses nothing. ``topic`` and
# ``state`` find an event that says the same as the one before; both may be "".
_EVENTS = """
CREATE TABLE events(
  id INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL,
  seconds REAL, counts TEXT NOT NULL, reason TEXT NOT NULL, agent TEXT NOT NULL, workspace TEXT NOT NULL,
  topic TEXT NOT NULL, state TEXT NOT NULL
) STRICT;
CREATE INDEX events_topic ON events(topic, agent, workspace, id);
"""
_BACKEND = "ALTER TABLE events ADD COLUMN backend TEXT NOT NULL DEFAULT ''"
SCHEMA = Schema((_EVENTS, _BACKEND), "event-log", "info", "events", "a record of what happened")
_COLUMNS = "id, at, kind, text, seconds, counts, reason, agent, workspace, backend"
_ADD = """
INSERT INTO events(at, kind, text, seconds, counts, reason, agent, workspace, topic, state, backend)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?12 WHERE NOT EXISTS (
  SELECT 1 FROM (
    SELECT at, state FROM events WHERE topic = ?9 AND agent = ?7 AND workspace = ?8 ORDER BY id DESC LIMIT 1
  ) WHERE state = ?10 AND abs(?1 - at) < ?11
)"""
_LAST_STATE = """
SELECT state, (
  SELECT at FROM events WHERE topic = ?1 AND agent = ?2 AND workspace = ?3 AND id > coalesce(
    (SELECT max(id) FROM events WHERE topic = ?1 AND agent = ?2 AND workspace = ?3 AND state = ?4), 0
  ) ORDER BY id LIMIT 1
) FROM events WHERE topic = ?1 AND agent = ?2 AND workspace = ?3 ORDER BY id DESC LIMIT 1"""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. ``at`` is epoch seconds, ``seconds`` how long it took (None: a moment);
    ``reason`` is "" where there is nothing to explain. Texts are one line each, redacted and printable;
    ``workspace`` is a path; ``backend`` is the one whose index it is about, "" for none."""

    id: int
    at: float
    kind: EventKind
    text: str
    seconds: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    agent: str = ""
    workspace: str = ""
    backend: str = ""

    @property
    def ended(self) -> str:
        """``failed``, ``stopped`` or ``killed`` for work that did not end as it should, else ""."""
        return next((name for name in ("failed", "stopped", "killed") if self.counts.get(name)), "")

    def to_dict(self) -> dict[str, Any]:
        """The stable object of ``openclaw-mem log --json``."""
        return asdict(self)


class EventLog(StateRecords):
    """The file ``path``; without a path events stay in memory. Safe to call from several threads, and several
    processes may use one file. ``clock`` gives epoch seconds; with ``read_only`` nothing can be added. No
    method raises because of the file."""

    def __init__(
        self, path: Path | None, clock: Callable[[], float] = time.time, *, read_only: bool = False
    ) -> None:
        self._kept = path is not None
        self._file = StateDatabase(path, SCHEMA, clock, tidy=self._tidy, read_only=read_only)

    @property
    def note(self) -> Note | None:
        """Why the file cannot be used and what to do; None as long as it can."""
        return self._file.note if self._kept else None

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the file, None without one: another file counts its events from the start."""
        return self._file.identity

    def add(
        self,
        kind: EventKind,
        text: str,
        *,
        seconds: float | None = None,
        counts: Mapping[str, int] | None = None,
        reason: str = "",
        agent: str = "",
        workspace: str = "",
        topic: str = "",
        state: str = "",
        quiet_s: float = 0.0,
        backend: str = "",
    ) -> None:
        """Write an event down, unless the last one of the same topic, agent and workspace has the same
        ``state`` and is less than ``quiet_s`` seconds old: what fails at every keystroke is written once,
        also by two processes."""
        figures = {utf8(name).decode(): _count(number) for name, number in (counts or {}).items()}
        self._file.write(
            _ADD,
            (
                self._file.now(),
                kind,
                printable(text),
                finite(seconds),
                json.dumps(figures, separators=(",", ":")),
                printable(reason),
                agent,
                visible(workspace),
                topic,
                printable(state),
                quiet_s,
                backend,
            ),
        )

    def last_state(
        self, topic: str, *, well: str, agent: str = "", workspace: str = ""
    ) -> tuple[str | None, float | None]:
        """The last state of a topic, and the time of the first event after the topic was last in the state
        ``well`` (epoch seconds; None when it is in that). (None, None) when nothing is known of it."""
        found = self._file.read(
            _LAST_STATE,
            (topic, agent, visible(workspace), printable(well)),
            lambda row: (str(row[0]), finite(row[1])),
        )
        return found[0] if found else (None, None)

    def read(
        self,
        limit: int = 100,
        kinds: Collection[EventKind] = (),
        since: float | None = None,
        *,
        agent: str | None = None,
        workspace: str | None = None,
        backend: str | None = None,
        after: int = 0,
    ) -> list[Event]:
        """At most ``limit`` events, newest first: of these kinds (none named: all), not before ``since``
        (epoch seconds), of one agent and one workspace or of all (None), of a backend's index or of none
        (None: of any), with an id above ``after``."""
        path = None if workspace is None else visible(workspace)
        named = f"AND kind IN ({','.join(f'?{number}' for number in range(7, 7 + len(kinds)))})"
        return self._file.read(
            f"SELECT {_COLUMNS} FROM events WHERE id > ?1 AND (?2 IS NULL OR at >= ?2) AND "
            f"(?3 IS NULL OR agent = ?3) AND (?4 IS NULL OR workspace = ?4) AND "
            f"(?6 IS NULL OR backend IN (?6, '')) {named if kinds else ''} "
            "ORDER BY id DESC LIMIT ?5",
            (
                max(0, min(after, _MOST)),
                finite(since),
                agent,
                path,
                max(0, min(limit, _MOST)),
                backend,
                *kinds,
            ),
            _event,
        )

    def _tidy(self, connection: apsw.Connection, new_day: bool) -> None:
        beyond = "DELETE FROM events WHERE id <= (SELECT max(id) FROM events) - ?"
        connection.execute(beyond, (KEEP_EVENTS,))
        if new_day:
            connection.execute(f"{beyond} AND at < ?", (KEEP_NEWEST, self.now() - KEEP_DAYS * 86_400))


def printable(text: str, most: int = TEXT_CHARS) -> str:
    """One line of at most so many characters, without secrets and without anything that acts on a terminal;
    an ellipsis ends what is longer."""
    line = one_line(redact(utf8(text[:_READ_CHARS]).decode()))
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _event(row: Row) -> Event:
    """A row as an event. Raises ValueError for one that this version does not write."""
    number, at, kind, text, seconds, counts, reason, agent, workspace, backend = row
    found = json.loads(counts)
    if kind not in KINDS or not isinstance(found, dict) or not math.isfinite(at):
        raise ValueError("no event of ours")
    figures = {str(name): int(figure) for name, figure in found.items()}
    texts = str(reason), str(agent), str(workspace), str(backend)
    return Event(int(number), float(at), kind, str(text), finite(seconds), figures, *texts)


def _count(value: int) -> int:
    return max(-_MOST, min(int(value), _MOST))
