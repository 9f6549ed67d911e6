"""``openclaw-mem log``."""

from __future__ import annotations

import time
from argparse import Namespace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from openclaw_mem_engine.cli.opening import warned_settings
from openclaw_mem_engine.cli.parser import whole_number
from openclaw_mem_engine.cli.terminal import (
    dim,
    flush_out,
    hanging,
    json_text,
    one_line,
    out,
    pad,
    show,
    strong,
)
from openclaw_mem_engine.cli.text_format import clock_text, duration
from openclaw_mem_engine.errors import Cancelled, IndexUnavailable, UsageError, WorkspaceError, did_you_mean
from openclaw_mem_engine.sanitize import visible
from openclaw_mem_engine.state.events import EVENTS_FILE, KEEP_EVENTS, KINDS, EventLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.state.events import Event, EventKind

Kind = TypeVar("Kind", bound=str)
_LIMIT = 50
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_POLL_S = 0.3


def run(arguments: Namespace) -> int:
    """Print what is in the log, oldest first; with ``--follow`` also what comes. Makes no log."""
    kinds = kinds_of(arguments.kind, KINDS)
    limit = whole_number(arguments.limit, "--limit", 1) or _LIMIT
    since = moment_of(arguments.since, time.time()) if arguments.since is not None else None
    settings = warned_settings(arguments)
    lines_of = partial(_lines, everyone=arguments.all, backend=settings.openclaw.backend)
    reader = _Reader(settings, kinds, since, everyone=arguments.all)
    try:
        events = reader.new(limit)
        if arguments.follow:
            return _follow(reader, events, lines_of, as_json=arguments.json)
    finally:
        reader.log.close()
    data = {"path": str(reader.path), "events": [event.to_dict() for event in events]}
    filters = [name for name, value in (("--kind", kinds), ("--since", since)) if value not in ([], (), None)]
    lines = lines_of(events) if events else [_none(settings, arguments.all, filters)]
    show(data, lines, as_json=arguments.json)
    return 0


def _none(settings: Settings, everyone: bool, filters: Sequence[str]) -> str:
    """That there is no event, of whom, and what to do next."""
    from openclaw_mem_engine.workspace.rules import open_workspace

    what = f"No event fits {' and '.join(filters)}" if filters else "No event is logged"
    if everyone:
        return f"{what}."
    of = f"for agent {settings.agent} in {one_line(str(settings.workspace))}"
    advice = "`openclaw-mem log --all` shows those of every agent and workspace."
    try:
        open_workspace(settings.workspace)
    except WorkspaceError as error:
        advice = one_line(str(error))
    return f"{what} {of}. {advice}"


def kinds_of(named: Sequence[str], known: Sequence[Kind]) -> tuple[Kind, ...]:
    """Those of the ``known`` kinds that ``--kind`` asks for; none for all. Raises UsageError."""
    wanted = {name.strip() for part in named for name in part.split(",")}
    for name in sorted(wanted.difference(known)):
        shown, hint = repr(visible(name)[:60]), did_you_mean(name, known)
        raise UsageError(f"--kind is {shown}; allowed: {', '.join(known)}.{hint}")
    return tuple(kind for kind in known if kind in wanted)


def moment_of(text: str, now: float) -> float:
    """``2d`` or ``2026-02-20`` (or with a time: ``2026-02-20T08:30``) as epoch seconds. Raises UsageError."""
    text = text.strip()
    number, unit = text[:-1], text[-1:].lower()
    if number.isascii() and number.isdigit() and len(number) < 10 and unit in _UNITS:
        return now - int(number) * _UNITS[unit]
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"--since is {visible(text)[:60]!r}; allowed: for example 30m, 12h, 2d, 1w, or a date like "
            "2026-02-20 or 2026-02-20T08:30."
        ) from None


class _Reader:
    """Reads what is new in the log since it was last read."""

    def __init__(
        self, settings: Settings, kinds: Sequence[EventKind], since: float | None, *, everyone: bool
    ) -> None:
        self.path: Path = settings.data_dir / EVENTS_FILE
        self.log = EventLog(self.path)
        agent = None if everyone else settings.agent
        workspace = None if everyone else str(settings.workspace)
        self._read = partial(self.log.read, kinds=kinds, since=since, agent=agent, workspace=workspace)
        self._seen = 0
        self._file: tuple[int, int] | None = None

    def new(self, limit: int = KEEP_EVENTS) -> list[Event]:
        """At most ``limit`` events, oldest first. Raises IndexUnavailable when the log cannot be read."""
        found = self._read(limit, after=self._seen)
        if self.log.identity != self._file and self._seen:
            found = self._read(limit)  # another file of the same path counts from the start
            self._seen = 0
        self._file = self.log.identity
        if self.log.note is not None:
            raise IndexUnavailable(self.log.note.text)
        if found:
            self._seen = found[0].id
        return found[::-1]


def _follow(
    reader: _Reader,
    events: Sequence[Event],
    lines_of: Callable[[Sequence[Event]], Iterator[str]],
    *,
    as_json: bool,
) -> int:
    """Print events as they come, JSON as one object a line, until Ctrl-C."""
    try:
        while True:
            texts = (json_text(event.to_dict()) for event in events)
            for line in texts if as_json else lines_of(events):
                out(line)
            flush_out()
            time.sleep(_POLL_S)
            events = reader.new()
    except KeyboardInterrupt:
        return Cancelled.exit_code


def _lines(events: Sequence[Event], *, everyone: bool, backend: str) -> Iterator[str]:
    """Events for people; ``everyone``: with whose memory it happened to. Another backend than the configured
    ``backend`` is named."""
    for event in events:
        # All texts were made printable when they were written; a file can be written to by others.
        took = "" if event.seconds is None else f" ({duration(event.seconds)})"
        kind = strong(pad(event.kind, max(map(len, KINDS))))
        yield f"{clock_text(event.at, '%Y-%m-%d %H:%M:%S')}  {kind}  {one_line(event.text)}{took}"
        if event.reason:
            yield from map(dim, hanging(f"    {one_line(event.reason)}", 4))
        if event.backend not in ("", backend):
            yield f"    {dim(one_line(f'backend {event.backend}'))}"
        if everyone:
            yield f"    {dim(one_line(f'agent {event.agent}, {event.workspace}'))}"
