"""The files of the workspace that a conversation starts with, as they go into the system prompt.

``AGENTS.md`` and six more in a fixed order, then ``MEMORY.md``. A file over the limit keeps its head and its
tail, and all of them together have a limit, too. Which session gets which file: sub-agents and cron jobs the
first five without heartbeat and bootstrap; by the documents ``MEMORY.md`` is for the main session alone, and
release 2026.2 puts it into groups as well (:data:`~.decision.SHIPPED_PROFILE`).

Sizes are UTF-16 units, as that program counts characters.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.lifecycle.decision import SHIPPED_PROFILE
from openclaw_mem_engine.lifecycle.sessions import SessionType
from openclaw_mem_engine.model import snippet_of, utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.workspace.opening import NoteRefused, read_bytes
from openclaw_mem_engine.workspace.reading import bootstrap_cut
from openclaw_mem_engine.workspace.rules import ROOT_FILES

FIXED_FILES = (
    "AGENTS.md",
    "SOUL.md",
    "TOOLS.md",
    "IDENTITY.md",
    "USER.md",
    "HEARTBEAT.md",
    "BOOTSTRAP.md",
)
#: All that sub-agents and cron jobs get.
MINIMAL_FILES = ("AGENTS.md", "TOOLS.md", "SOUL.md", "IDENTITY.md", "USER.md")
#: With less room than this no further file is begun.
LEAST_CHARS = 64


class WorkspaceFile(NamedTuple):
    """A file as it is on disk. ``text`` is None for a missing one; ``refused`` says why it is not read."""

    name: str
    text: str | None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class BootstrapFile:
    """A file as it goes into the prompt. ``chars`` is its length on disk, None for a missing one;
    ``cut_line`` the first line (from 1) that is not whole in the prompt, None when all of them are."""

    name: str
    text: str
    chars: int | None
    cut_line: int | None = None


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """``files`` in order; ``warnings`` as OpenClaw logs them; ``left_out`` names with the reason."""

    files: tuple[BootstrapFile, ...]
    warnings: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...] = ()


def read_files(settings: Settings) -> list[WorkspaceFile]:
    """The fixed files, missing ones included, and then ``MEMORY.md`` and ``memory.md`` where they are."""
    root, found = os.path.realpath(settings.workspace), []
    identities: set[tuple[int, int]] = set()
    for name in (*FIXED_FILES, *ROOT_FILES):
        try:
            read = read_bytes(root, name, settings.max_file_bytes, name)
        except NoteRefused as refusal:
            if refusal.kind != "missing":
                found.append(WorkspaceFile(name, None, refusal.reason))
            elif name in FIXED_FILES:
                found.append(WorkspaceFile(name, None))
            continue
        identity = (read.status.st_dev, read.status.st_ino)
        if identity not in identities:  # one file by two names on a disk that ignores case
            identities.add(identity)
            found.append(WorkspaceFile(name, read.data.decode("utf-8", "replace")))
    return found


def files_for(session: SessionType, *, shipped: bool = False) -> tuple[str, ...]:
    """The names of the files that a session gets, in no order."""
    if session in ("subagent", "cron"):
        return MINIMAL_FILES
    return (*FIXED_FILES, *ROOT_FILES) if session != "group" or shipped else FIXED_FILES


def bootstrap(settings: Settings, session: SessionType) -> Bootstrap:
    """What a session of this type starts with now."""
    shipped = settings.query.profile == SHIPPED_PROFILE
    names = files_for(session, shipped=shipped)
    there = read_files(settings)
    limits = settings.bootstrap
    made = fitted(
        [file for file in there if file.name in names and not file.refused],
        os.path.realpath(settings.workspace),
        limits.max_chars,
        limits.total_max_chars,
    )
    why = {
        "group": "not for groups and channels",
        "subagent": "not for sub-agents",
        "cron": "not for cron jobs",
    }.get(session, "")
    not_for = [(file.name, why) for file in there if file.name not in names and file.text is not None]
    refused = [(file.name, file.refused) for file in there if file.refused]
    return Bootstrap(made.files, made.warnings, (*not_for, *refused, *made.left_out))


def fitted(files: Sequence[WorkspaceFile], root: str, max_chars: int, total_max_chars: int) -> Bootstrap:
    """The texts of the files within both limits. ``root`` is the folder where missing files are expected."""
    left, made, warnings = total_max_chars, list[BootstrapFile](), list[str]()
    left_out: list[str] = []
    for number, file in enumerate(files):
        if file.text is None:
            chars = cut = None
            text = _clamped(f"[MISSING] Expected at: {Path(root, file.name)}", left)
        elif left < LEAST_CHARS:
            warnings.append(
                f"remaining bootstrap budget is {left} chars (<{LEAST_CHARS}); skipping additional bootstrap "
                "files"
            )
            left_out = [other.name for other in files[number:]]
            break
        else:
            limit = min(max_chars, left)
            whole = file.text.rstrip()
            text, chars, cut = whole, utf16_length(whole), None
            if truncated := bootstrap_cut(whole, limit):
                text = _clamped(truncated.given(file.name), left)
                cut = whole[: min(len(truncated.head), len(text))].count("\n") + 1
                warnings.append(
                    f"workspace bootstrap file {file.name} is {chars} chars (limit {limit}); truncating in "
                    "injected context"
                )
        left -= utf16_length(text)
        if text:
            made.append(BootstrapFile(file.name, text, chars, cut))
        if left <= 0:
            left_out = [other.name for other in files[number + 1 :]]
            break
    why = f"bootstrap.total_max_chars is {total_max_chars}"
    return Bootstrap(tuple(made), tuple(warnings), tuple((name, why) for name in left_out))


def _clamped(text: str, limit: int) -> str:
    if utf16_length(text) <= limit:
        return text
    return snippet_of(text, limit) if limit <= 3 else f"{snippet_of(text, limit - 1)}…"
