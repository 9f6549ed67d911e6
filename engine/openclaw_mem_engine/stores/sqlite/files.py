"""Files of an index: its own path and folder, and the files of rebuilds next to it."""

from __future__ import annotations

import errno
import glob
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable, disk_full
from openclaw_mem_engine.sanitize import byte_size
from openclaw_mem_engine.state import described, is_full, private_folder
from openclaw_mem_engine.stores.findings import KEEP_DAMAGED

#: A rebuild needs room for the new index next to the old one, and for the log through which it is copied.
_ROOM_FACTOR = 2
_CHECK = "Check its permissions and its folder's, or set OPENCLAW_MEM_HOME to a folder of yours."


def aside_path(index: Path) -> Path:
    """A new name for each rebuild: it never continues a file of a killed process of the same number."""
    return index.with_name(f"{index.name}.tmp-{os.getpid()}-{os.urandom(4).hex()}")


def damaged_path(index: Path) -> Path:
    """Where a damaged index is moved: to the number after those that there are."""
    number = max(damaged_files(index).values(), default=0) + 1
    return index.with_name(f"{index.name}.damaged" + f"-{number}" * (number > 1))


def damaged_files(index: Path) -> dict[Path, int]:
    """The damaged indexes that were moved, with their companions, sorted; each with its number, from 1."""
    ours = re.compile(r"\.damaged(?:-([0-9]+))?(?:-wal|-shm|-journal)?")
    paths = sorted(index.parent.glob(f"{glob.escape(index.name)}.damaged*"))
    found = ((path, ours.fullmatch(path.name, len(index.name))) for path in paths)
    return {path: int(match[1] or 1) for path, match in found if match}


def log_of(path: Path) -> Path:
    """What SQLite writes to before it writes the file."""
    return path.with_name(f"{path.name}-wal")


def shared_of(path: Path) -> Path:
    """The map of the log, which SQLite makes and all processes share."""
    return path.with_name(f"{path.name}-shm")


def with_companions(path: Path) -> list[Path]:
    """A SQLite file and its companions, as far as they are there."""
    parts = (path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", "-journal"))
    return [part for part in parts if os.path.lexists(part)]


def bytes_of(paths: Iterable[Path]) -> int:
    """The size of those of these files that are there."""
    size = 0
    for path in paths:
        with suppress(OSError):
            size += path.stat().st_size
    return size


def remove(aside: Path) -> None:
    """Remove a file of SQLite and its companions."""
    for part in with_companions(aside):
        part.unlink(missing_ok=True)


def identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file at ``path`` now; None when there is none, or it cannot be seen."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def damaged(cause: object, path: Path | str, repair: str = IndexDamaged.repair) -> IndexDamaged:
    """The error for damage of the index at ``path``, a file or a location on a server: the same sentence,
    whatever found it."""
    what = f"The index is damaged. {repair} Your notes are not touched. Found: {cause}. File: {path}"
    error = IndexDamaged(what)
    error.repair, error.cause, error.file = repair, cause, identity(Path(path))
    return error


def set_aside(index: Path, new: Path | None = None) -> Path:
    """Move a damaged index with its log to ``damaged_path``; returns that. With ``new``, a file that takes
    its place, there is an index at its path at every moment, else until the end. The log goes first: it would
    be taken as one of the next index. Then its map: a process that opens the damaged index meanwhile would
    make a new one from a log that is still there, and the next index would look in its own log for those
    pages. What a kill meanwhile leaves is the damaged index without the log at its path, and with ``new``
    also whole where it is moved, which no later repair replaces. Processes that have it open then, of which
    SQLite still uses the old log, must open it again."""
    damaged = damaged_path(index)
    if new is not None:
        try:
            os.link(index, damaged)
        except OSError:  # not on this file system
            check_room(index, bytes_of([index]))
            shutil.copyfile(index, damaged)
    for part in sorted(with_companions(index), key=lambda part: part == index):
        with suppress(FileNotFoundError):
            made_anew = part.name.endswith("-shm")  # by SQLite, from the log
            if made_anew or (part != index and part.stat().st_size == 0):
                part.unlink()
            elif part != index or new is None:
                part.replace(part.with_name(part.name.replace(index.name, damaged.name, 1)))
    if new is not None:
        new.replace(index)
    files = damaged_files(index)
    old = sorted(set(files.values()))[:-KEEP_DAMAGED]
    for path in (path for path, number in files.items() if number in old):
        with suppress(OSError):  # in use, or no file of ours
            path.unlink()
    return damaged


def sweep(index: Path, *, of_all: bool = False) -> int:
    """Remove files of killed rebuilds: those of processes that are gone, or ``of_all``, for a caller that
    holds the sync lock (another process may have got the number since). Returns how many were removed."""
    gone = 0
    for left, owner in leftovers(index).items():
        # Windows does not tell; there the file system refuses to remove an open file.
        if of_all or not is_running(owner):
            with suppress(OSError):  # in use after all, or just gone
                left.unlink()
                gone += 1
    return gone


def leftovers(index: Path) -> dict[Path, int]:
    """Files of rebuilds, sorted, with the number of the process that made them: of a running one, or of those
    that were killed. Files of other programs are not among them, whatever their names begin with."""
    found = {}
    with suppress(OSError):
        for left in sorted(index.parent.glob(f"{glob.escape(index.name)}.tmp-*")):
            end = left.name.rpartition(".tmp-")[2]
            if owner := re.fullmatch(r"([0-9]+)-[0-9a-f]{8}(?:-wal|-shm|-journal)?", end):
                found[left] = int(owner[1])
    return found


def has_leftovers(index: Path) -> bool:
    """Whether a rebuild is running, or one was killed."""
    return bool(leftovers(index))


def is_of_full_disk(error: BaseException, index: Path) -> bool:
    """Whether SQLite failed because the disk of an index is full: without room for the files beside one, it
    says something else."""
    import apsw

    without_room = isinstance(error, (apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError))
    return isinstance(error, apsw.FullError) or (without_room and is_full(index.parent))


def check_room(index: Path, size: int) -> None:
    """Raise IndexUnavailable when the disk has no room to build an index of ``size`` bytes anew."""
    needed = _ROOM_FACTOR * size
    try:
        free = shutil.disk_usage(index.parent).free
    except OSError:
        return  # unknown: writing reports it
    if free < needed:
        room = f"has {byte_size(free)} free, and a rebuild needs {byte_size(needed)}"
        raise IndexUnavailable(disk_full(index, "run `openclaw-mem index` again", room))


def may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def is_writable(index: Path) -> bool:
    """Whether this user may write an index and the files that SQLite makes beside it."""
    return may(index, os.W_OK) and may(index.parent, os.W_OK)


def blocked(folder: Path) -> tuple[Path, OSError] | None:
    """The first folder on the way that this user may not enter, and why; None when there is none."""
    for path in reversed((folder, *folder.parents)):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return None  # it is made when it is needed
        except OSError as error:
            return path, error
        if not stat.S_ISDIR(mode):
            return path, NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not may(path, os.X_OK if path != folder else os.R_OK | os.X_OK):
            return path, PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return None


def quoted(paths: Iterable[Path]) -> str:
    """Paths for a shell."""
    return " ".join(shlex.quote(str(path)) for path in paths)


def moving(path: Path) -> str:
    """The command that moves what is at this path aside, a database with its companions."""
    aside = f"{path.name}.other"
    parts = ((part, path.with_name(aside + part.name[len(path.name) :])) for part in with_companions(path))
    return "; ".join(f"mv -- {quoted(each)}" for each in parts)


def closed_to_user(index: Path) -> list[Path]:
    """What of an index file, its companions and its folder this user may not read and write."""
    found = blocked(index.parent)
    closed = [found[0]] if found else [index.parent, *with_companions(index)]
    return [path for path in closed if not may(path, os.R_OK | os.W_OK)]


def opening(closed: Sequence[Path]) -> str:
    """The command that gives this user the files and folders that are closed to it; empty for those of
    another user."""
    try:
        own = bool(closed) and all(path.stat().st_uid == os.geteuid() for path in closed)
    except (AttributeError, OSError):  # no such numbers on Windows; a folder that may not be entered
        own = False
    return f"chmod u+rwX {quoted(closed)}" if own else ""


def access(index: Path) -> str:
    """What is closed to this user of an index file, and what to do, in sentences."""
    closed = closed_to_user(index)
    if not closed:
        return f"{_CHECK} File: {index}"
    does = f"`{command}` allows it." if (command := opening(closed)) else _CHECK
    return f"This user may not use {described(closed[0])}. {does}"


def make_folder(path: Path) -> None:
    """Make the folder of an index file, should it be missing. Raises IndexUnavailable."""
    try:
        private_folder(path.parent)
    except OSError as error:
        raise IndexUnavailable(
            f"The folder {path.parent} for the index cannot be made ({error.strerror}). Set "
            "OPENCLAW_MEM_HOME to a folder of yours."
        ) from error


def unreachable(path: Path, error: OSError, advice: str = "") -> str:
    """The message for a file or folder that the system refuses. ``advice`` says what to do, and where."""
    return f"{error.strerror}: {path.name} cannot be used. {advice or f'{_CHECK} Path: {path}'}"


def is_running(pid: int) -> bool | None:
    """Whether a process of this machine has this number; None on Windows, where asking would end it."""
    if os.name == "nt":
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    return True
