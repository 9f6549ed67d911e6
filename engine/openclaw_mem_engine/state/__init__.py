"""What is remembered between runs, and the folders in which it is kept."""

from __future__ import annotations

import shutil
import stat
from contextlib import suppress
from pathlib import Path

#: Free bytes with which SQLite can hardly write anything.
_FEW_PAGES = 65_536


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
    owner = str(status.st_uid)
    with suppress(KeyError, NotImplementedError, OSError):  # no name for it, or none on Windows
        owner = path.owner()
    return f"{path} ({stat.filemode(status.st_mode)}, owner {owner})"


def is_full(folder: Path) -> bool:
    """Whether the disk of a folder has no room for even a few pages; False when that is not known."""
    try:
        return shutil.disk_usage(folder).free < _FEW_PAGES
    except OSError:
        return False
