"""Files beside the index: those in which a rebuild grows, and a damaged one that was set aside."""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.state.processes import is_running

#: A rebuild needs room for the new index beside the old one, and for the log through which it moves in.
_ROOM_FACTOR = 2
_MB = 1_000_000
#: A SQLite file and its companions.
_ENDINGS = ("", "-wal", "-shm", "-journal")


def aside_path(index: Path) -> Path:
    """A new name for each rebuild: what a killed process of the same number left must not be gone on with."""
    return index.with_name(f"{index.name}.tmp-{os.getpid()}-{token_hex(4)}")


def remove(aside: Path) -> None:
    """Remove a rebuild's file and its companions."""
    for ending in _ENDINGS:
        aside.with_name(aside.name + ending).unlink(missing_ok=True)


def set_aside(index: Path) -> Path:
    """Move a damaged index (with its companions) to ``NAME.damaged``, over an older one; returns it."""
    damaged = index.with_name(f"{index.name}.damaged")
    remove(damaged)
    for ending in _ENDINGS:
        companion = index.with_name(index.name + ending)
        with suppress(FileNotFoundError):
            companion.replace(damaged.with_name(damaged.name + ending))
    return damaged


def set_aside_files(index: Path) -> list[Path]:
    """The damaged index that ``set_aside`` has moved away, with its companions; none when there is none."""
    names = (f"{index.name}.damaged{ending}" for ending in _ENDINGS)
    with suppress(OSError):
        return [path for path in map(index.with_name, names) if path.exists()]
    return []


def sweep(index: Path, *, of_all: bool = False) -> int:
    """Remove what rebuilds that were killed have left: that of processes which are gone, or ``of_all``, for
    a caller who keeps all others from rebuilding (a number may have been given to another process since).
    Returns how many files went."""
    gone = 0
    for left, owner in list(_left(index)):
        # On Windows, where nobody can be asked, the file system knows: it does not remove an open file.
        if of_all or not is_running(owner):
            with suppress(OSError):  # in use after all, or just gone
                left.unlink()
                gone += 1
    return gone


def leftovers(index: Path) -> list[Path]:
    """Files of rebuilds, sorted: of one that is at work, or of those that were killed. A file of somebody
    else's is none of them, however it begins."""
    return sorted(left for left, _ in _left(index))


def has_leftovers(index: Path) -> bool:
    """Whether a rebuild is at work, or one was killed."""
    return bool(leftovers(index))


def _left(index: Path) -> Iterator[tuple[Path, int]]:
    """Files of rebuilds, with the number of the process that made them."""
    with suppress(OSError):
        for left in index.parent.glob(f"{glob.escape(index.name)}.tmp-*"):
            end = left.name.rpartition(".tmp-")[2]
            owner = re.fullmatch(r"([0-9]+)-[0-9a-f]{8}(?:-wal|-shm|-journal)?", end)
            if owner is not None:
                yield left, int(owner[1])


def check_room(index: Path, size: int) -> None:
    """Raise IndexUnavailable when the disk has no room to build an index of ``size`` bytes anew."""
    needed = _ROOM_FACTOR * size
    try:
        free = shutil.disk_usage(index.parent).free
    except OSError:
        return  # nobody knows: writing will tell
    if free < needed:
        raise IndexUnavailable(
            f"The disk that holds {index} is too full to build it anew: {free / _MB:,.1f} MB are free and "
            f"{needed / _MB:,.1f} MB are needed (twice its size). The index keeps its old content; free some "
            "space and run `openclaw-mem index` again."
        )
