"""Files beside the index: those in which a rebuild grows, and a damaged one that was set aside."""

from __future__ import annotations

import glob
import os
import re
from contextlib import suppress
from pathlib import Path
from secrets import token_hex


def aside_path(index: Path) -> Path:
    """A new name for each rebuild: what a killed process of the same number left must not be gone on with."""
    return index.with_name(f"{index.name}.tmp-{os.getpid()}-{token_hex(4)}")


def remove(aside: Path) -> None:
    """Remove a rebuild's file and its companions."""
    for ending in ("", "-wal", "-shm", "-journal"):
        aside.with_name(aside.name + ending).unlink(missing_ok=True)


def set_aside(index: Path) -> Path:
    """Move a damaged index (with its companions) to ``NAME.damaged``, over an older one; returns it."""
    damaged = index.with_name(f"{index.name}.damaged")
    remove(damaged)
    for ending in ("", "-wal", "-shm", "-journal"):
        companion = index.with_name(index.name + ending)
        with suppress(FileNotFoundError):
            companion.replace(damaged.with_name(damaged.name + ending))
    return damaged


def sweep(index: Path) -> None:
    """Remove what rebuilds that were killed have left."""
    for left in index.parent.glob(f"{glob.escape(index.name)}.tmp-*"):
        owner = re.fullmatch(r"([0-9]+)-[0-9a-f]{8}(?:-wal|-shm|-journal)?", left.name.rpartition(".tmp-")[2])
        if owner is not None and not _is_running(int(owner[1])):
            with suppress(OSError):  # in use after all, or just gone
                left.unlink()


def _is_running(pid: int) -> bool:
    """Whether a process of this machine has this number. On Windows, where asking would end it, the file
    system knows better: an open file cannot be removed there."""
    if os.name == "nt":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
