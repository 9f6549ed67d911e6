"""Noticing that notes change on disk. Events are only hints: what really changed is for the scan to say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, NOTE_SUFFIX, ROOT_FILES, is_ignored_folder

#: Quiet time that ends a group of events, and the longest a group may last, milliseconds.
QUIET_MS = 200
LONGEST_MS = 1_000


async def watch_notes(settings: Settings, stop: asyncio.Event) -> AsyncIterator[frozenset[str]]:
    """Groups of changed absolute paths, as long as ``stop`` is not set.

    The workspace folder itself is watched without what lies below it (it may hold whole repositories);
    ``memory/`` and the extra paths with it. A ``memory`` folder that comes later is taken in. A workspace
    that does not exist gives nothing. Raises OSError or RuntimeError when the system refuses to watch.
    """
    root = Path(os.path.realpath(settings.workspace))
    extras = [Path(os.path.realpath(root / Path(path).expanduser())) for path in settings.extra_paths]
    memory = root / MEMORY_FOLDER
    if not root.is_dir():
        return
    while not stop.is_set():
        deep = [path for path in (memory, *extras) if path.exists()]
        async for paths in _groups([root], deep, stop):
            notes = frozenset(path for path in paths if _is_note(Path(path), root, extras))
            if notes:
                yield notes
            if str(memory) in paths:
                break  # it came or went: watch what is there now


def _is_note(path: Path, root: Path, extras: Sequence[Path]) -> bool:
    """Whether a change of this path can change what is memory. A folder that comes or goes brings or takes
    notes without an event of their own."""
    if any(path.is_relative_to(extra) for extra in extras):
        return path.name.endswith(NOTE_SUFFIX) or not path.suffix
    if not path.is_relative_to(root):
        return False
    parts = path.relative_to(root).parts
    if len(parts) == 1:
        return parts[0] in ROOT_FILES or parts[0] == MEMORY_FOLDER
    if not parts or parts[0] != MEMORY_FOLDER or any(is_ignored_folder(part) for part in parts[1:-1]):
        return False
    return path.name.endswith(NOTE_SUFFIX) or (not path.suffix and not is_ignored_folder(path.name))


async def _groups(
    shallow: Sequence[Path], deep: Sequence[Path], stop: asyncio.Event
) -> AsyncIterator[frozenset[str]]:
    """Changed paths of both watchers, merged, until ``stop`` is set or the caller has enough."""
    found: asyncio.Queue[frozenset[str] | OSError | RuntimeError] = asyncio.Queue()
    halt = asyncio.Event()
    watchers = [asyncio.create_task(_watch(shallow, False, halt, found))]
    if deep:
        watchers.append(asyncio.create_task(_watch(deep, True, halt, found)))
    stopping = asyncio.create_task(stop.wait())
    try:
        while True:
            next_group = asyncio.create_task(found.get())
            await asyncio.wait({next_group, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not next_group.done():
                next_group.cancel()
                return
            group = next_group.result()
            if isinstance(group, Exception):
                raise group
            yield group
    finally:
        halt.set()
        stopping.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)


async def _watch(
    paths: Sequence[Path],
    recursive: bool,
    halt: asyncio.Event,
    found: asyncio.Queue[frozenset[str] | OSError | RuntimeError],
) -> None:
    from watchfiles import awatch

    try:
        async for changes in awatch(
            *paths,
            watch_filter=None,
            stop_event=halt,
            step=QUIET_MS,
            debounce=LONGEST_MS,
            recursive=recursive,
        ):
            await found.put(frozenset(path for _, path in changes))
    except (OSError, RuntimeError) as error:
        await found.put(error)
