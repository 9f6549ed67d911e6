"""What the system prompt of an agent gets from memory: bootstrap files, the instruction to search, the daily
logs; and how many tokens that is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from openclaw_mem_engine.config.groups import STORE
from openclaw_mem_engine.config.settings import CitationMode, Settings
from openclaw_mem_engine.lifecycle.bootstrap import Bootstrap, bootstrap
from openclaw_mem_engine.lifecycle.decision import CHARS_A_TOKEN
from openclaw_mem_engine.lifecycle.sessions import SessionType
from openclaw_mem_engine.notes.user_time import user_time
from openclaw_mem_engine.workspace.listing import notes_of
from openclaw_mem_engine.workspace.opening import NoteRefused, read_if_there
from openclaw_mem_engine.workspace.rules import open_workspace

_RECALL = (
    "Before answering anything about past work, decisions, dates, people, preferences or todos: search "
    "memory with memory_search, then read just the lines that are needed with memory_get. If you are not "
    "sure after that, say that you have looked."
)
_CITE = "Name the source of what you take from memory as `Source: path#line` where it helps to verify it."
_DO_NOT_CITE = "Citations are off: do not mention paths of files or line numbers in answers unless asked to."
_READ_LOGS = "Read {} at the start of the conversation."


@dataclass(frozen=True, slots=True)
class DailyLog:
    """The log of today or yesterday. ``text`` is "" for one that is missing or may not be read; ``why`` says
    which."""

    path: str
    text: str
    why: str = ""

    @property
    def tokens(self) -> int:
        return tokens_of(self.text)


@dataclass(frozen=True, slots=True)
class MemoryPrompt:
    """What a new conversation of a type gets. ``text`` goes into the system prompt: ``recall`` ("" where
    there is no memory_search) and the files of ``bootstrap``. ``logs`` are no part of it: the agent is asked
    to read them (one document says that the program loads them; then they come on top)."""

    session: SessionType
    bootstrap: Bootstrap
    recall: str
    cites: bool
    logs: tuple[DailyLog, ...]
    text: str

    @property
    def tokens(self) -> int:
        return tokens_of(self.text)


@dataclass(frozen=True, slots=True)
class WholeMemory:
    """All notes together, as an agent without search would have to read them. ``note_tokens`` is that of
    single notes, by path."""

    notes: int
    tokens: int
    note_tokens: dict[str, int]


def memory_prompt(
    settings: Settings,
    session: SessionType,
    citations: CitationMode | None = None,
    clock: Callable[[], float] = time.time,
) -> MemoryPrompt:
    """The prompt at this moment. ``citations`` replaces the configured mode."""
    found = bootstrap(settings, session)
    mode = citations or settings.citations
    cites = mode == "on" or (mode == "auto" and session != "group")
    searches = settings.enabled and session != "subagent" and settings.plugin.slot != STORE
    logs = _logs(settings, clock()) if searches and session == "main" else ()
    recall = ""
    if searches:
        asked = _READ_LOGS.format(" and ".join(log.path for log in logs)) if logs else ""
        recall = "\n".join(filter(None, ("## Memory", _RECALL, _CITE if cites else _DO_NOT_CITE, asked)))
    files = [f"## {file.name}\n\n{file.text}" for file in found.files]
    parts = [recall, *(["# Files of the workspace", *files] if files else [])]
    return MemoryPrompt(session, found, recall, cites, logs, "\n\n".join(filter(None, parts)))


def whole_memory(settings: Settings) -> WholeMemory:
    """The size of every note that can be searched, transcripts apart. Raises WorkspaceError."""
    listing = notes_of(settings)
    by_path = {file.path: -(-file.size // CHARS_A_TOKEN) for file in listing.files}
    return WholeMemory(len(by_path), sum(by_path.values()), by_path)


def tokens_of(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // CHARS_A_TOKEN)


def _logs(settings: Settings, now: float) -> tuple[DailyLog, ...]:
    at = user_time(settings.user_timezone, now)
    return tuple(_log(settings, f"memory/{day.isoformat()}.md") for day in (at.today, at.yesterday))


def _log(settings: Settings, path: str) -> DailyLog:
    root = open_workspace(settings.workspace).real
    try:
        found = read_if_there(root, path, settings.max_file_bytes, path)
    except NoteRefused as refusal:
        return DailyLog(path, "", refusal.reason)
    if found is None:
        return DailyLog(path, "", "there is none")
    return DailyLog(path, found.data.decode("utf-8", "replace"))
