"""Checks of our own files and folders, which write nothing, and their repairs: access, room and lock that a
sync needs; leftovers, permissions, sizes, the other databases."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from openclaw_mem_engine.commands import FIX, UPGRADE
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexUnavailable, disk_full
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_engine.providers.factory import RECORDS_FILE
from openclaw_mem_engine.providers.records import SCHEMA as RECORDS
from openclaw_mem_engine.sanitize import byte_size, counted, counted_are
from openclaw_mem_engine.state import described
from openclaw_mem_engine.state.curation import CURATION_FILE
from openclaw_mem_engine.state.database import Schema, Trouble, TroubleKind, rows_of
from openclaw_mem_engine.state.events import EVENTS_FILE
from openclaw_mem_engine.state.events import SCHEMA as EVENTS
from openclaw_mem_engine.state.expected import EXPECTED_FILE
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.sqlite import files
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.stores.sqlite.snapshot import Snapshot
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.workspace.opening import kind_of

#: Bytes that even a small sync writes: pages of the full-text tables to the log, the log's own map, the lock.
LEAST_FREE = 1_000_000
#: A write-ahead log of more bytes, and larger than the index, is a finding: SQLite merges it at 80 MB.
_LARGE_LOG = 200_000_000

#: Folders in the data folder: those with files of ours alone, and others.
_MADE = ("edits", "exports", "flushes", "memories")
_SHARED = ("indexes", "qmd", "models")
#: Permission bits that a file or folder of ours must not have.
_FORBIDDEN = 0o077


def _folders(settings: Settings) -> list[Path]:
    return list(dict.fromkeys((settings.data_dir, settings.index_path.parent)))


def _files(settings: Settings) -> Iterator[Path]:
    kept = (settings.data_dir / name for name in (RECORDS_FILE, EVENTS_FILE, EXPECTED_FILE, CURATION_FILE))
    for file in (settings.index_path, *kept):
        for ending in ("", "-wal", "-shm", ".lock"):
            path = file.with_name(file.name + ending)
            if path.is_file():
                yield path


def _ours(settings: Settings) -> list[Path]:
    """Files and folders of ours that there are. Other programs may use the data folder as well, and a demo is
    no secret: of its folders only those that hold what was made of notes count, and files of other programs
    beside our indexes and models do not."""
    found = [*_files(settings), *filter(Path.exists, _folders(settings))]
    found += settings.data_dir.glob("*.sqlite*")
    found += filter(Path.is_dir, (settings.data_dir / name for name in _SHARED))
    for name in _MADE:
        for folder, _, names in os.walk(settings.data_dir / name):
            found += [Path(folder), *(Path(folder, file) for file in names)]
    return list(dict.fromkeys(found))


# -- what a sync needs: access, room on the disk, and its lock -----------------------------------------------


#: What the repair of closed files and folders does.
_GIVES = "`openclaw-mem doctor --fix` gives this user access."


def check_writing(settings: Settings, out: Outcome) -> None:
    """This user may enter the data folder and write there, the disk has room for a sync, and the lock can be
    taken."""
    for path, error in filter(None, map(files.blocked, _folders(settings))):
        out.detail = "the data folder cannot be entered"
        repair = _opening(settings, [path])
        text = files.unreachable(path, error, f"{_GIVES} Path: {path}" if repair == FIX else "")
        out.add("no-access", "error", text, [described(path)], repair)
        return
    _check_access(settings, out)
    _check_room(settings, out)
    _check_lock(settings, out)


def _nearest(folder: Path) -> Path:
    """The folder, or the one above it in which it would be made."""
    return next((path for path in (folder, *folder.parents) if path.exists()), folder)


def _needed(settings: Settings) -> list[Path]:
    """What a sync writes, as far as it is there. SQLite makes its log in the folder of the index, so a file
    that may be written is not enough."""
    return [*dict.fromkeys(map(_nearest, _folders(settings))), *_files(settings)]


def _is_closed(path: Path) -> bool:
    return not files.may(path, os.W_OK | (os.X_OK if path.is_dir() else os.R_OK))


def _opening(settings: Settings, closed: Sequence[Path]) -> str:
    """What gives this user these files and folders: a repair of ours, or the command for other folders of
    this user; empty for those of another user."""
    command = files.opening(closed)
    ours = all(any(map(path.is_relative_to, _folders(settings))) for path in closed)
    return FIX if command and ours else command


def _check_access(settings: Settings, out: Outcome) -> None:
    needed = _needed(settings)
    closed = list(filter(_is_closed, needed))
    number = counted(len(needed), "file and folder", "files and folders")
    out.detail = f"{number} can be written"
    if closed:
        number = counted(len(closed), "file or folder", "files or folders")
        out.detail = f"{number} cannot be written"
        these = closed[0].name if len(closed) == 1 else f"{number} of openclaw-mem"
        repair = _opening(settings, closed)
        advice = "Check the permissions, or set OPENCLAW_MEM_HOME to a folder of yours."
        advice = _GIVES if repair == FIX else advice
        text = f"This user cannot write {these}. No sync can run. {advice}"
        out.add("not-writable", "error", text, map(described, closed), repair)


def _check_room(settings: Settings, out: Outcome) -> None:
    index = settings.index_path
    disks = {folder.stat().st_dev: folder for folder in map(_nearest, reversed(_folders(settings)))}
    room: list[int] = []
    for folder in disks.values():
        with suppress(OSError):  # not known: writing will show it
            room.append(free := shutil.disk_usage(folder).free)
            if free < LEAST_FREE:
                least = f"a sync needs {byte_size(LEAST_FREE)}"
                elsewhere = "run `openclaw-mem index`, or set OPENCLAW_MEM_HOME to a folder on another disk"
                text = disk_full(folder, elsewhere, f"has {byte_size(free)} free, and {least}")
                out.add("disk-full", "error", text)
    if room:
        out.detail += f"; {byte_size(min(room))} free"
    if not room or min(room) < LEAST_FREE or not index.exists():
        return
    try:
        files.check_room(index, files.bytes_of([index, files.log_of(index)]))
    except IndexUnavailable as error:
        out.add("no-room-to-rebuild", "warning", str(error))


def _check_lock(settings: Settings, out: Outcome) -> None:
    path = SyncLock(settings.index_path).path
    with suppress(OSError):  # it is made when it is needed
        if not stat.S_ISREG(mode := path.lstat().st_mode):
            text = f"The path of the lock of the index is {kind_of(mode)}, so no sync can start: {path}."
            aside = path.with_name(f"{path.name}.aside")
            out.add("lock-blocked", "error", text, repair=f"mv -- {files.quoted([path, aside])}")


# -- files of ours ---------------------------------------------------------------------------------


def check_left_overs(settings: Settings, out: Outcome) -> None:
    """Neither a rebuild nor an edit of a note that was killed left its files."""
    owner = SyncLock(settings.index_path).owner()
    left = files.leftovers(settings.index_path)
    edits = NoteEditor(settings).unfinished()
    damaged = files.damaged_files(settings.index_path)
    out.detail = (
        f"{counted(len(left) + len(edits), 'file')}; no other process is writing"
        if owner is None
        else f"process {owner.pid} is {owner.what} now"
    )
    if left and owner is None:
        size = byte_size(files.bytes_of(left))
        text = f"{counted_are(len(left), 'file')} left by rebuilds that were killed ({size})."
        out.add("leftovers", "warning", text, (path.name for path in left), FIX)
    if edits:
        text = f"{counted_are(len(edits), 'file')} of a change of a note that did not end."
        out.add("leftovers", "warning", text, map(str, edits), FIX)
    if damaged:
        many = len(set(damaged.values()))
        number = counted_are(many, "damaged copy of the index", "damaged copies of the index")
        them = "it" if many == 1 else "them"
        size = f"{counted(len(damaged), 'file')}, {byte_size(files.bytes_of(damaged))}"
        text = f"{number} kept: {size}. You can delete {them}."
        out.add(
            "damaged-aside", "info", text, (path.name for path in damaged), f"rm -- {files.quoted(damaged)}"
        )


def check_permissions(settings: Settings, out: Outcome) -> None:
    """Other users may not read what was made of the notes, nor enter its folders."""
    if os.name == "nt":
        out.detail = "not checked on Windows"
        return
    open_ones = list(too_open(settings))
    out.detail = f"{counted(len(_ours(settings)), 'file and folder', 'files and folders')} checked"
    if open_ones:
        number = counted_are(
            len(open_ones), "file or folder of openclaw-mem", "files or folders of openclaw-mem"
        )
        text = f"{number} accessible to other users of this machine."
        some = (f"{path} ({stat.filemode(mode)})" for path, mode in open_ones)
        out.add("permissions", "warning", text, some, FIX)


def too_open(settings: Settings) -> Iterator[tuple[Path, int]]:
    """Files and folders that others may read, write or enter, with their modes."""
    user = getattr(os, "geteuid", lambda: None)()
    for path in _ours(settings):
        with suppress(OSError):
            status = path.lstat()
            mode = status.st_mode
            if status.st_uid == user and mode & _FORBIDDEN and not stat.S_ISLNK(mode):
                yield path, mode


def check_size(settings: Settings, snap: Snapshot, out: Outcome) -> None:
    """The file is not much larger than its content."""
    pragmas = ("page_size", "page_count", "freelist_count")
    page, pages, free = (snap.number(f"PRAGMA {name}") for name in pragmas)
    waiting = files.bytes_of([files.log_of(settings.index_path)])
    size, unused = page * pages, page * free
    out.detail = f"index {byte_size(size)}, {byte_size(unused)} of it unused; log {byte_size(waiting)}"
    if waiting > max(_LARGE_LOG, page * pages):
        text = "The write-ahead log is larger than the index. Every search reads through it."
        out.add("log-large", "info", text, (out.detail,), FIX)


def check_records(settings: Settings, out: Outcome) -> None:
    """What is remembered of the providers can be read and written."""
    nouns = ("line of usage", "lines of usage")
    _check_database(settings.data_dir / RECORDS_FILE, RECORDS, "providers-file", "usage", nouns, out)


def check_event_log(settings: Settings, out: Outcome) -> None:
    """The event log can be read and written."""
    nouns = ("event", "events")
    _check_database(settings.data_dir / EVENTS_FILE, EVENTS, "events-file", "events", nouns, out)


def _check_database(
    path: Path, schema: Schema, code: str, table: str, nouns: tuple[str, str], out: Outcome
) -> None:
    """Its content is nowhere else, so we never remove it: the repair is a command to type."""
    if not path.exists():
        out.detail = "none yet"
        return
    found = rows_of(path, schema, table)
    if not isinstance(found, Trouble):
        out.detail = f"{path.name}: {counted(found, *nouns)}"
        return
    out.detail = f"{path.name} cannot be used"
    repairs: dict[TroubleKind, str] = {
        "damaged": f"rm -- {files.quoted(files.with_companions(path))}",
        "foreign": files.moving(path),
        "newer": UPGRADE,
    }
    out.add(code, "warning", found.text, repair=repairs.get(found.kind, ""))


# -- repair -----------------------------------------------------------------------------------------------


def repair_locations(settings: Settings, codes: set[str]) -> list[str]:
    """Repair what ``codes`` name; what was done, in words. The caller holds the lock of the index, so that no
    other process rebuilds it."""
    done = []
    if "leftovers" in codes:
        edits = NoteEditor(settings).settle()
        number = files.sweep(settings.index_path, of_all=True) + edits
        done.append(f"{counted(number, 'file')} of killed rebuilds and changes removed")
    if "log-large" in codes:
        with closing(Database(settings.index_path, extension=False)) as database:
            database.merge_log()
        done.append("the write-ahead log was moved into the index")
    return done


def open_to_user(settings: Settings) -> list[str]:
    """Give this user its own files and folders that are closed to it; what was done, in words. Raises
    IndexUnavailable."""
    opened = list[Path]()
    while True:
        blocked = [path for path, _ in filter(None, map(files.blocked, _folders(settings)))]
        closed = [path for path in blocked or filter(_is_closed, _needed(settings)) if path not in opened]
        if _opening(settings, closed[:1]) != FIX:
            return [f"this user may use {counted(len(opened), 'file or folder', 'files or folders')} again"]
        opened += closed[:1]
        try:
            mode = opened[-1].stat().st_mode
            opened[-1].chmod(stat.S_IMODE(mode) | (0o700 if stat.S_ISDIR(mode) else 0o600))
        except OSError as error:
            raise IndexUnavailable(files.unreachable(opened[-1], error)) from error


def narrow_permissions(settings: Settings) -> list[str]:
    """Take the rights of other users from what is ours; what was done, in words."""
    narrowed = 0
    for path, mode in list(too_open(settings)):
        with suppress(OSError):
            path.chmod(stat.S_IMODE(mode) & ~_FORBIDDEN)
            narrowed += 1
    return [f"permissions of {counted(narrowed, 'file or folder', 'files or folders')} narrowed"]
