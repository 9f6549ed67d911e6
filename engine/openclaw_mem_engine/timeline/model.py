"""What a timeline holds: moments, the token curve of each session, and the text of both."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

from openclaw_mem_engine.model import as_json
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.notes.edit import changed_lines

Kind: TypeAlias = Literal[
    "flush",
    "compaction",
    "snapshot",
    "write",
    "search",
    "sync",
    "rebuild",
    "fallback",
    "recovered",
    "search-failed",
    "denied",
    "edit",
]
MOMENT_KINDS: tuple[Kind, ...] = get_args(Kind)
#: What can be asked for: kinds, and the compactions without a flush.
ASKED_KINDS = (*MOMENT_KINDS, "missed")
#: Of a flush: wrote, no-reply, nothing, failed, skipped, recorded, open. Of a compaction: flushed, missed,
#: unknown. Of a search: found, nothing, failed, open. Of others: how they ended, if not well.
State: TypeAlias = Literal[
    "",
    "wrote",
    "no-reply",
    "nothing",
    "failed",
    "stopped",
    "killed",
    "skipped",
    "recorded",
    "open",
    "flushed",
    "missed",
    "unknown",
    "found",
]
Origin: TypeAlias = Literal["git", "pre-image", "tool call", "file"]
_BARS = "▁▂▃▄▅▆▇█"


class Found(NamedTuple):
    """A result of the agent's own search; lines are 1-based and 0 where the result did not name them."""

    path: str
    start_line: int
    end_line: int
    score: float | None

    @property
    def location(self) -> str:
        lines = f"{self.start_line}-{self.end_line}" if self.end_line > self.start_line else self.start_line
        return f"{self.path}:{lines}" if self.start_line else self.path


class Write(NamedTuple):
    """A change of one memory file. ``added`` and ``removed`` count lines, None where that is not known: a
    call that writes a whole file does not say what it replaces. ``ref`` is a commit, the number of an edit of
    ours, the offset of a line of the transcript with the number of the call in it (``1024:0``), or "" for a
    file that is all new."""

    path: str
    added: int | None
    removed: int | None
    origin: Origin
    ref: str

    @property
    def text(self) -> str:
        """``memory/a.md, +3 lines``, ``memory/a.md, +3 -1 line``"""
        if self.added is None:
            return self.path
        return f"{self.path}, {changed_lines(self.added, self.removed or 0)}"


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that happened at ``at`` (epoch seconds). ``session`` is the id of a session, "" for what
    belongs to none; ``text`` and ``why`` are one line each, redacted and printable. ``tokens`` is the size of
    the window's content then, ``tokens_after`` that after a compaction. ``line`` is the line of the
    transcript, from 1, 0 for what is in none; ``offset`` is the byte at which that line begins."""

    at: float
    kind: Kind
    text: str
    state: State = ""
    session: str = ""
    why: str = ""
    tokens: int | None = None
    tokens_after: int | None = None
    writes: tuple[Write, ...] = ()
    query: str = ""
    results: tuple[Found, ...] = ()
    line: int = 0
    offset: int = 0

    @property
    def is_missed(self) -> bool:
        """A compaction before which no flush ran: what was only in the conversation may be lost."""
        return self.state == "missed"

    @property
    def summary(self) -> str:
        """What happened, in one line."""
        if self.kind == "compaction" and self.tokens:
            after = "size unknown" if self.tokens_after is None else f"{self.tokens_after:,} tokens"
            return f"{self.tokens:,} → {after}, {self.text}"
        if self.kind == "search":
            return f"{self.query}: {self.text}"
        if self.kind == "flush" and self.tokens and self.state != "skipped":
            return f"{self.text} (at {self.tokens:,} tokens)"
        return self.text

    def to_dict(self) -> dict[str, Any]:
        """The stable object of ``openclaw-mem timeline --json``."""
        return as_json(self, why="reason", offset="")


@dataclass(frozen=True, slots=True)
class Curve:
    """Tokens in the window over time, oldest first. ``estimated``: no answer of the session says how many it
    used, so they are the bytes of the transcript divided by 4."""

    times: array[float] = field(default_factory=lambda: array("d"))
    tokens: array[float] = field(default_factory=lambda: array("d"))
    estimated: bool = False

    @property
    def peak(self) -> int:
        return int(max(self.tokens, default=0))

    def before(self, at: float) -> int | None:
        """The last count before a time."""
        index = bisect_left(self.times, at)
        return int(self.tokens[index - 1]) if index else None

    def after(self, at: float) -> int | None:
        """The first count after a time, None when none follows."""
        index = bisect_right(self.times, at)
        return int(self.tokens[index]) if index < len(self.times) else None

    def columns(self, start: float, end: float, number: int) -> list[int | None]:
        """The highest count in each of ``number`` equal spans from ``start`` to ``end``; in a span without a
        new count the last one before it. None before the first count, and after the last."""
        step = max(end - start, 1e-9) / max(1, number)
        found: list[int | None] = []
        left = bisect_left(self.times, start)
        for index in range(number):
            right = bisect_left(self.times, start + (index + 1) * step, left)
            if index == number - 1:
                right = bisect_right(self.times, end, left)
            if right > left:
                found.append(int(max(self.tokens[left:right])))
            else:
                held = 0 < left < len(self.times)
                found.append(int(self.tokens[left - 1]) if held else None)
            left = right
        return found


@dataclass(frozen=True, slots=True)
class Session:
    """One transcript. ``key`` and ``title`` are "" when sessions.json no longer names it; ``path`` is
    relative to the agent's folder. ``start`` and ``end`` are epoch seconds; ``flush_threshold`` is the count
    at which a flush is due (0 or less: never), ``window`` the size of the window that it was computed from.
    ``broken`` counts lines that are no JSON object, ``missed`` the compactions without a flush. ``moments``
    are oldest first."""

    id: str
    key: str
    title: str
    path: str
    start: float
    end: float
    window: int
    flush_threshold: int
    curve: Curve
    moments: tuple[Moment, ...]
    model: str = ""
    broken: int = 0
    missed: int = 0

    @property
    def name(self) -> str:
        """How it is shown: the session key without the agent, else the beginning of its id."""
        parts = self.key.split(":", 2)
        return parts[2] if parts[0] == "agent" and len(parts) == 3 else self.key or self.id[:8]

    def to_dict(self) -> dict[str, Any]:
        names = {"window": "contextTokens", "missed": "missedFlushes", "broken": "brokenLines"}
        return as_json(self, moments="", curve="", **names) | {
            "peakTokens": self.curve.peak,
            "estimated": self.curve.estimated,
            "tokens": [[at, int(n)] for at, n in zip(self.curve.times, self.curve.tokens, strict=True)],
        }


@dataclass(frozen=True, slots=True)
class Timeline:
    """Sessions by their last moment, and all moments, with or without a session, newest first. ``notes`` are
    sentences about what could not be read."""

    sessions: tuple[Session, ...]
    moments: tuple[Moment, ...]
    notes: tuple[str, ...] = ()

    @property
    def missed(self) -> int:
        return sum(session.missed for session in self.sessions)

    def only(
        self, *, kinds: Collection[str] = (), since: float | None = None, session: str | None = None
    ) -> Timeline:
        """The part with moments of these ``ASKED_KINDS`` (none named: all), not before ``since`` (epoch
        seconds), of the session with this id. Sessions whose last line is older than ``since`` are not in it;
        missed flushes are counted whatever the kinds."""

        def later(moment: Moment) -> bool:
            return since is None or moment.at >= since

        def chosen(moment: Moment) -> bool:
            wanted = not kinds or moment.kind in kinds or (moment.is_missed and "missed" in kinds)
            return wanted and later(moment)

        sessions = tuple(
            replace(
                found,
                moments=tuple(filter(chosen, found.moments)),
                missed=sum(moment.is_missed for moment in filter(later, found.moments)),
            )
            for found in self.sessions
            if session in (None, found.id) and (since is None or found.end >= since)
        )
        ids = None if session is None else {found.id for found in sessions}
        moments = tuple(m for m in self.moments if chosen(m) and (ids is None or m.session in ids))
        return Timeline(sessions, moments, self.notes)

    def to_dict(self) -> dict[str, Any]:
        return as_json(self, moments="events") | {"missedFlushes": self.missed}


def sparkline(counts: Sequence[int | None], line: int, bars: str = _BARS) -> str:
    """A bar for each count: the last of ``bars`` from ``line`` on, the others in equal steps below, a blank
    without a count."""
    below = len(bars) - 1
    return "".join(
        " " if count is None else bars[below if count >= line else int(count / line * below)]
        for count in counts
    )
