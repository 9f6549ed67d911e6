"""Since when the index is older than the files."""

from __future__ import annotations

import os
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.sync.scan import Changes
from openclaw_mem_engine.workspace.transcript_listing import TRANSCRIPT_FOLDER


def stale_since(settings: Settings, changes: Changes, synced_at: float | None, now: float) -> float | None:
    """When the first of these changes happened, as far as the disk tells: epoch seconds, not before the last
    sync and not in the future. None when nothing tells, as after a change of the settings alone.

    Of a file it is the time its inode changed, which moving and copying with old times do not set back; of a
    file that is gone, when the folder it was in last changed.
    """
    moments = [_moment(file.absolute) for file in changes.changed]
    if "memory" in settings.sources:
        gone = {Path(state.path).parent for state in changes.removed if state.source == "memory"}
        moments += [_nearest_moment(settings.workspace, folder) for folder in gone]
    if any(state.path.startswith(f"{TRANSCRIPT_FOLDER}/") for state in changes.removed):
        moments.append(_moment(settings.openclaw.sessions_dir))
    known = [moment for moment in moments if moment is not None]
    if not known:
        return None
    return min(now, max(min(known), synced_at or 0.0))


def _nearest_moment(root: Path, folder: Path) -> float | None:
    """When a folder changed, or the nearest one above it that is still there."""
    while (moment := _moment(root / folder)) is None and folder != folder.parent:
        folder = folder.parent
    return moment


def _moment(path: str | Path) -> float | None:
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - also of paths that are strings
    except OSError:
        return None
    # On Windows ctime is when a file was made.
    return status.st_ctime if os.name != "nt" else max(status.st_ctime, status.st_mtime)
