"""OpenClaw's ``sessions.json`` and its transcripts, read-only: which sessions there are, and what was said.

Neither file is ours and both are written while we read them: what cannot be used is skipped, never guessed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError, WorkspaceError
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.scope import session_scope
from openclaw_mem_engine.sanitize import visible
from openclaw_mem_engine.workspace.listing import list_transcripts
from openclaw_mem_engine.workspace.opening import open_file, read_if_there, refusal_of
from openclaw_mem_engine.workspace.transcripts import text_blocks

SESSIONS_FILE = "sessions.json"
MAX_SESSIONS_BYTES = 64 * 2**20
#: What a session is for; ``main`` are direct chats with the user.
SessionType = Literal["main", "group", "subagent", "cron", "heartbeat"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One session. Counts are tokens, times epoch seconds; None where nothing is known.

    ``key`` is "" for a transcript that ``sessions.json`` does not name. ``fresh`` is False when OpenClaw says
    that ``total_tokens`` may be outdated. ``flush_at`` and ``flush_compaction_count`` are those of the last
    flush that OpenClaw made itself. The transcript ``file`` need not exist.
    """

    key: str
    id: str
    file: Path
    updated_at: float | None = None
    total_tokens: int | None = None
    fresh: bool = True
    context_tokens: int | None = None
    compaction_count: int = 0
    flush_at: float | None = None
    flush_compaction_count: int | None = None
    chat_type: str = ""
    channel: str = ""
    name: str = ""
    #: OpenClaw 2026.9.6 flushes in a copy of the session: the transcript does not show it.
    flush_is_private: bool = False

    @property
    def type(self) -> SessionType:
        """By its key, and by the chat type where OpenClaw has written it down."""
        found = session_type(self.key)
        return "group" if found == "main" and self.chat_type in ("group", "channel") else found

    @property
    def label(self) -> str:
        """Key, or the id of a session without one; safe to print."""
        return visible(self.key or self.id)


class Said(NamedTuple):
    """One message: ``line`` (from 1) of its transcript, the role, its first text block and all of them."""

    line: int
    role: str
    first: str
    text: str


def session_type(key: str) -> SessionType:
    """What a session key says: ``agent:main:subagent:x``, ``agent:main:telegram:group:1``."""
    scope = session_scope(key)
    parts = scope.raw.split(":")
    inner = parts[2:] if parts[0] == "agent" else parts
    if "subagent" in inner[:1]:
        return "subagent"
    if "cron" in inner[:1]:
        return "cron"
    if inner[-1:] == ["heartbeat"]:
        return "heartbeat"
    return "group" if scope.chat_type in ("group", "channel") else "main"


def read_sessions(settings: Settings) -> tuple[SessionEntry, ...]:
    """Every session of the agent, last used first; then transcripts that no session names, by name. Raises
    NoteRefused for a file that may not be read, WorkspaceError for one that is no JSON."""
    folder = settings.openclaw.sessions_dir
    found: list[SessionEntry] = []
    read = read_if_there(str(folder), SESSIONS_FILE, MAX_SESSIONS_BYTES)
    try:
        table = json.loads(read.data) if read else {}
    except (ValueError, RecursionError):
        what = "is not valid JSON: its sessions are not known. OpenClaw writes it; run OpenClaw to repair it."
        raise WorkspaceError(f"{folder / SESSIONS_FILE} {what}") from None
    for key, entry in table.items() if isinstance(table, dict) else ():
        if isinstance(entry, dict) and (session := _entry(str(key), entry, folder)) is not None:
            found.append(session)
    found.sort(key=lambda session: -(session.updated_at or 0.0))
    named = {session.file.name for session in found}
    for file in list_transcripts(folder).files:
        name = PurePath(file.path).name
        if name not in named:
            found.append(SessionEntry("", name.removesuffix(".jsonl"), folder / name))
    return tuple(found)


def find_session(settings: Settings, text: str) -> SessionEntry:
    """The session with this id or key, or the only one whose id begins, or whose key ends, with it. Raises
    UsageError, which names those that there are."""
    wanted = text.strip().lower()
    sessions = read_sessions(settings)
    exact = [one for one in sessions if wanted in (one.id.lower(), one.key.lower())]
    near = [
        one for one in sessions if one.id.lower().startswith(wanted) or one.key.lower().endswith(f":{wanted}")
    ]
    found = (exact or near) if wanted else []
    if len(found) == 1 or exact:
        return found[0]
    names = ", ".join(f"{one.id[:8]} ({one.label})" for one in (found or sessions)[:_NAMED])
    if not sessions:
        raise UsageError(
            f"There is no session in {settings.openclaw.sessions_dir}. --agent ID names another agent, "
            "--config FILE another configuration of OpenClaw."
        )
    more = len(found or sessions) - _NAMED
    names += f" and {more} more" if more > 0 else ""
    said, agent = repr(visible(text)[:80]), settings.agent
    if found:
        raise UsageError(f"{said} means several sessions of agent {agent}: {names}.")
    raise UsageError(f"Agent {agent} has no session {said}. Its sessions: {names}.")


def conversation(file: Path) -> list[Said]:
    """The messages of user and assistant in a transcript, in order. Lines that are no messages, or no JSON,
    do not count. Raises NoteRefused."""
    return [said for _, record in _records(file) if (said := _said(_, record)) is not None]


def since_compaction(file: Path) -> tuple[str, list[Said]]:
    """The summary that the last compaction left ("" without one), and the messages that it kept or that came
    later: what the model has in its window. Raises NoteRefused."""
    kept: list[tuple[str, Said]] = []
    summary = ""
    for line, record in _records(file):
        if record.get("type") == "compaction":
            summary, first = _text(record.get("summary")), record.get("firstKeptEntryId")
            start = next((n for n, (entry, _) in enumerate(kept) if entry == first), len(kept))
            kept = kept[start:]
        elif (said := _said(line, record)) is not None:
            kept.append((str(record.get("id", "")), said))
    return summary, [said for _, said in kept]


def archived(file: Path) -> Path | None:
    """The newest ``<file>.reset.*``: what a transcript was before its session was reset."""
    found = sorted(file.parent.glob(f"{file.name}.reset.*"))
    return found[-1] if found else None


def _records(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    descriptor, _ = open_file(str(file.parent), file.name, str(file))
    try:
        with os.fdopen(descriptor, "rb") as stream:
            for line, text in enumerate(stream, 1):
                try:
                    record = json.loads(text) if text.strip() else None
                except (ValueError, RecursionError):
                    continue
                if isinstance(record, dict):
                    yield line, record
    except OSError as error:
        raise refusal_of(error, str(file)) from error


def _said(line: int, record: Mapping[str, Any]) -> Said | None:
    message = record.get("message") if record.get("type") == "message" else None
    role = message.get("role") if isinstance(message, dict) else None
    if not isinstance(message, dict) or role not in ("user", "assistant") or _is_internal(message):
        return None
    texts = [_text(text) for text in text_blocks(message.get("content"))]
    text = "\n".join(filter(None, texts))
    return Said(line, str(role), texts[0], text) if text else None


def _is_internal(message: Mapping[str, Any]) -> bool:
    """Sent by another session of the program, not by the user."""
    origin = message.get("provenance")
    return isinstance(origin, dict) and origin.get("kind") == "inter_session"


def _entry(key: str, entry: Mapping[str, Any], folder: Path) -> SessionEntry | None:
    number = entry.get("sessionId")
    if not isinstance(number, str) or not _ID.fullmatch(number):
        return None
    # Only the name counts: a path in that file must not lead out of the folder.
    named = PurePath(_text(entry.get("sessionFile"))).name
    name = named if named.endswith(".jsonl") else f"{number}.jsonl"
    return SessionEntry(
        key,
        number,
        folder / name,
        _seconds(entry.get("updatedAt")),
        _count(entry.get("totalTokens")),
        entry.get("totalTokensFresh") is not False,
        _count(entry.get("contextTokens")),
        _count(entry.get("compactionCount")) or 0,
        _seconds(entry.get("memoryFlushAt")),
        _count(entry.get("memoryFlushCompactionCount")),
        _text(entry.get("chatType")),
        _text(entry.get("lastChannel") or entry.get("channel")),
        _text(entry.get("displayName")),
        isinstance(entry.get("memoryFlush"), dict),
    )


def _count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 2**53 else None


def _seconds(value: object) -> float | None:
    found = _count(value)
    return found / 1000 if found else None


def _text(value: object) -> str:
    # Halves of characters that escapes can spell have no UTF-8: as everywhere, they become U+FFFD.
    return utf8(value).decode() if isinstance(value, str) else ""
