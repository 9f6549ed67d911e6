"""What is remembered between runs, and the folders in which it is kept."""

from __future__ import annotations

from pathlib import Path


def private_folder(path: Path) -> Path:
    """The folder, made with those above it where they are missing: for this user alone. ``mkdir`` would give
    the given mode to the last of them only. Raises OSError."""
    for folder in (*reversed(path.parents), path):
        folder.mkdir(mode=0o700, exist_ok=True)
    return path
