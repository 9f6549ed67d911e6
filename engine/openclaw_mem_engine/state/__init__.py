"""What is remembered between runs, and the folders in which it is kept."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Note
    from openclaw_mem_engine.state.database import StateDatabase

#: Free bytes with which SQLite can hardly write anything.
_FEW_PAGES = 65_536


class StateRecords:
    """What is kept in one ``StateDatabase``. Thread-safe. No method raises because of the file."""

    _file: StateDatabase

    @property
    def note(self) -> Note | None:
        """Why the file cannot be used and what to do; None as long as it can."""
        return self._file.note

    def now(self) -> float:
        """Epoch seconds."""
        return self._file.now()

    def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again (what was in memory is gone)."""
        self._file.close()


def private_folder(path: Path) -> Path:
    """The folder, made with those above it where they are missing: for this user alone. ``mkdir`` would give
    the given mode to the last of them only. Raises OSError."""
    for folder in (*reversed(path.parents), path):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path


def described(path: Path) -> str:
    """A path with its mode and its owner, as far as that is known."""
    try:
        status = path.stat()
    except OSError:
        return str(path)
    return f"{path} ({stat.filemode(status.st_mode)}, owner {status.st_uid})"


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has no room for even a few pages; False when that is not known."""
    try:
        return shutil.disk_usage(folder).free < _FEW_PAGES
    except OSError:
        return False
