"""Checks of what a sync needs before it can write anything: access, room on the disk, and its lock. They only
ask the system; nothing is written to find out."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.providers.factory import RECORDS_FILE
from openclaw_mem_engine.state.events import EVENTS_FILE
from openclaw_mem_engine.stores.findings import Outcome, counted
from openclaw_mem_engine.stores.sqlite.files import check_room, unreachable
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.workspace.opening import kind_of

#: Even a small sync writes so much: pages of the full-text tables to the log, the log's own map, the lock.
LEAST_FREE = 1_000_000

_EFFECTIVE_IDS = os.access in os.supports_effective_ids
#: What moves our data where this user may write; any folder of theirs would do.
_ELSEWHERE = "export OPENCLAW_MEM_HOME=~/openclaw-mem-data"


def check_writing(settings: Settings, out: Outcome) -> None:
    """This user may enter the data folder and write there, the disk has room for a sync, and the lock can be
    taken."""
    for folder in _folders(settings):
        blocked = _blocked(folder)
        if blocked is not None:
            place, error = blocked
            out.detail = "the data folder cannot be entered"
            refused = isinstance(error, PermissionError)
            repair = _opening(settings, [place]) if refused else _ELSEWHERE
            out.add("no-access", "error", unreachable(place, error), repair=repair)
            return
    _check_access(settings, out)
    _check_room(settings, out)
    _check_lock(settings, out)


def _folders(settings: Settings) -> list[Path]:
    return list(dict.fromkeys((settings.data_dir, settings.index_path.parent)))


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=_EFFECTIVE_IDS)


def _blocked(folder: Path) -> tuple[Path, OSError] | None:
    """The first folder on the way that this user may not enter, and why; None when there is none."""
    for place in reversed((folder, *folder.parents)):
        try:
            mode = place.stat().st_mode
        except FileNotFoundError:
            return None  # it is made when it is needed
        except OSError as error:
            return place, error
        if not stat.S_ISDIR(mode):
            return place, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not _may(place, os.X_OK if place != folder else os.R_OK | os.X_OK):
            return place, PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return None


def _nearest(folder: Path) -> Path:
    """The folder, or the one above it in which it would be made."""
    return next((place for place in (folder, *folder.parents) if place.exists()), folder)


# -- access ------------------------------------------------------------------------------------------------


def _check_access(settings: Settings, out: Outcome) -> None:
    # SQLite makes its log beside the index, so a file that may be written is not enough.
    folders = list(dict.fromkeys(map(_nearest, _folders(settings))))
    files = list(_files(settings))
    closed = [folder for folder in folders if not _may(folder, os.W_OK | os.X_OK)]
    closed += [file for file in files if not _may(file, os.R_OK | os.W_OK)]
    told = counted(len(folders) + len(files), "file and folder", "files and folders")
    out.detail = f"{told} can be written"
    if closed:
        number = counted(len(closed), "file or folder", "files or folders")
        out.detail = f"{number} cannot be written"
        text = f"{number} of ours cannot be written by this user: no sync can work."
        out.add("not-writable", "error", text, map(_described, closed), _opening(settings, closed))


def _files(settings: Settings) -> Iterator[Path]:
    for file in (settings.index_path, settings.data_dir / RECORDS_FILE, settings.data_dir / EVENTS_FILE):
        for ending in ("", "-wal", "-shm", ".lock"):
            path = file.with_name(file.name + ending)
            if path.is_file():
                yield path


def _described(path: Path) -> str:
    status = path.stat()
    return f"{path} ({stat.filemode(status.st_mode)}, owner {status.st_uid})"


def _opening(settings: Settings, closed: list[Path]) -> str:
    """The command that lets this user in."""
    if os.name == "nt" or any(map(_read_only_disk, closed)):
        return _ELSEWHERE
    mine = all(path.stat().st_uid == os.geteuid() for path in closed)
    ours = [folder for folder in _folders(settings) if any(path.is_relative_to(folder) for path in closed)]
    if not all(any(path.is_relative_to(folder) for folder in ours) for path in closed):
        # A folder above ours is only opened itself, and only by whom it belongs to.
        return f"chmod u+rwx -- {_quoted(closed)}" if mine else _ELSEWHERE
    inner = [folder for folder in ours if any(folder != o and folder.is_relative_to(o) for o in ours)]
    roots = _quoted([folder for folder in ours if folder not in inner])
    return f"chmod -R u+rwX -- {roots}" if mine else f'sudo chown -R "$(id -u)" -- {roots}'


def _quoted(paths: list[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in paths)


def _read_only_disk(path: Path) -> bool:
    with suppress(OSError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


# -- room and lock -----------------------------------------------------------------------------------------


def _check_room(settings: Settings, out: Outcome) -> None:
    index = settings.index_path
    least: int | None = None
    disks = {folder.stat().st_dev: folder for folder in map(_nearest, reversed(_folders(settings)))}
    for folder in disks.values():
        try:
            free = shutil.disk_usage(folder).free
        except OSError:
            continue  # nobody knows: writing will tell
        least = free if least is None else min(least, free)
        if free < LEAST_FREE:
            text = (
                f"The disk that holds {folder} is full: {free / 1e6:.1f} MB are free, and a sync needs "
                f"{LEAST_FREE / 1e6:.0f} MB at least. Remove something from it, or set OPENCLAW_MEM_HOME to "
                "a folder on another disk."
            )
            out.add("disk-full", "error", text, repair=f"df -h -- {_quoted([folder])}")
    if least is not None:
        out.detail += f"; {_size(least)} free"
    if least is None or least < LEAST_FREE or not index.exists():
        return
    parts = (index, index.with_name(f"{index.name}-wal"))
    try:
        check_room(index, sum(part.stat().st_size for part in parts if part.exists()))
    except IndexUnavailable as error:
        out.add("no-room-to-rebuild", "warning", str(error), repair=f"df -h -- {_quoted([index.parent])}")


def _check_lock(settings: Settings, out: Outcome) -> None:
    path = SyncLock(settings.index_path).path
    try:
        mode = path.lstat().st_mode
    except OSError:
        return  # made when it is needed
    if not stat.S_ISREG(mode):
        text = f"Where the lock of the index belongs is {kind_of(mode)}, so that no sync can start: {path}."
        aside = path.with_name(f"{path.name}.aside")
        out.add("lock-blocked", "error", text, repair=f"mv -- {_quoted([path, aside])}")


def _size(count: int) -> str:
    """``82 GB``, ``0.7 MB``"""
    return f"{count / 1e9:,.0f} GB" if count >= 10e9 else f"{count / 1e6:,.1f} MB"
