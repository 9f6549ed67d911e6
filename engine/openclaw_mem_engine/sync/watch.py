"""Noticing that notes change on disk. Events are only hints: what really changed is for the scan to say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, NOTE_SUFFIX, ROOT_FILES, is_ignored_folder

#: Quiet time that ends a group of events, and the longest a group may last, milliseconds.
QUIET_MS = 200
LONGEST_MS = 1_000


async def watch_notes(settings: Settings, stop: asyncio.Event) -> AsyncIterator[frozenset[str]]:
    """Groups of changed absolute paths, as long as ``stop`` is not set.

    Watches the workspace folder itself (for MEMORY.md and a new ``memory`` folder) and the folders below
    ``memory/`` and the extra paths. A workspace that does not exist gives nothing.
    """
    from watchfiles import Change, awatch

    root = Path(os.path.realpath(settings.workspace))
    extras = [Path(os.path.realpath(root / Path(p).expanduser())) for p in settings.extra_paths]
    watched = [path for path in (root, *extras) if path.exists()]

    def is_note(change: Change, path: str) -> bool:  # noqa: ARG001 - watchfiles calls it with both
        place = Path(path)
        for base in extras:
            if place.is_relative_to(base):
                return path.endswith(NOTE_SUFFIX)
        if not place.is_relative_to(root):
            return False
        parts = place.relative_to(root).parts
        if len(parts) == 1:
            return parts[0] in ROOT_FILES or parts[0] == MEMORY_FOLDER
        if parts[0] != MEMORY_FOLDER or any(is_ignored_folder(part) for part in parts[1:-1]):
            return False
        # A folder that comes or goes brings or takes notes without an event of their own.
        return path.endswith(NOTE_SUFFIX) or not place.suffix

    if not watched:
        return
    async for changes in awatch(
        *watched, watch_filter=is_note, stop_event=stop, step=QUIET_MS, debounce=LONGEST_MS, recursive=True
    ):
        yield frozenset(path for _, path in changes)
