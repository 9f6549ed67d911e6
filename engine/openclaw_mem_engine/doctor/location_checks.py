"""Checks of our own files: left-overs, permissions, sizes, records of the providers, event log; and
repairs."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.providers.factory import RECORDS_FILE
from openclaw_mem_engine.providers.records import SCHEMA as RECORDS
from openclaw_mem_engine.state.database import Schema, Trouble, TroubleKind, rows_of
from openclaw_mem_engine.state.events import EVENTS_FILE
from openclaw_mem_engine.state.events import SCHEMA as EVENTS
from openclaw_mem_engine.stores.findings import FIX, UPGRADE, Outcome, counted, counted_are
from openclaw_mem_engine.stores.sqlite.database import Database, rows
from openclaw_mem_engine.stores.sqlite.files import leftovers, set_aside_files, sweep
from openclaw_mem_engine.stores.sqlite.snapshot import Snapshot
from openclaw_mem_engine.sync.lock import SyncLock

#: A write-ahead log that is larger than this, and than the index, is a finding: it is moved into the index
#: when it has about 80 MB.
_LARGE_LOG = 200_000_000


def check_left_overs(settings: Settings, out: Outcome) -> None:
    """No rebuild that was killed left its files."""
    owner = SyncLock(settings.index_path).owner()
    left = leftovers(settings.index_path)
    damaged = set_aside_files(settings.index_path)
    out.detail = (
        f"{counted(len(left), 'file')}; no other process is writing"
        if owner is None
        else f"process {owner.pid} is {owner.what} now"
    )
    if left and owner is None:
        text = f"{counted_are(len(left), 'file')} left by rebuilds that were killed ({_sizes(left)})."
        out.add("left-overs", "warning", text, (path.name for path in left), FIX, fixable=True)
    if damaged:
        text = f"A damaged index that was set aside is in the folder of this one ({_sizes(damaged)})."
        names = " ".join(shlex.quote(str(path)) for path in damaged)
        out.add("damaged-aside", "info", text, (path.name for path in damaged), f"rm -- {names}")


def _sizes(paths: list[Path]) -> str:
    size = 0
    for path in paths:
        with suppress(OSError):
            size += path.stat().st_size
    return f"{size / 1e6:.1f} MB"


def check_permissions(settings: Settings, out: Outcome) -> None:
    """No other user may read what was made of the notes, or write into its folder."""
    if os.name == "nt":
        out.detail = "not checked on Windows"
        return
    open_ones = list(too_open(settings))
    out.detail = f"{counted(len(list(_ours(settings))), 'file and folder', 'files and folders')} checked"
    if open_ones:
        files = counted_are(len(open_ones), "file or folder of ours", "files or folders of ours")
        text = f"{files} within reach of other users of this machine."
        some = (f"{path} ({stat.filemode(mode)})" for path, mode in open_ones)
        out.add("permissions", "warning", text, some, FIX, fixable=True)


def too_open(settings: Settings) -> Iterator[tuple[Path, int]]:
    """Files that others may read or write, and folders that others may write to, with their modes."""
    user = getattr(os, "geteuid", lambda: None)()
    for path in _ours(settings):
        try:
            status = path.lstat()
        except OSError:
            continue
        forbidden = 0o022 if stat.S_ISDIR(status.st_mode) else 0o077
        if status.st_uid == user and status.st_mode & forbidden and not stat.S_ISLNK(status.st_mode):
            yield path, status.st_mode


def _ours(settings: Settings) -> Iterator[Path]:
    others = (settings.data_dir / name for name in (RECORDS_FILE, EVENTS_FILE))
    for file in (settings.index_path, *others):
        for ending in ("", "-wal", "-shm", ".lock"):
            path = file.with_name(file.name + ending)
            if path.exists():
                yield path
    for folder in dict.fromkeys((settings.data_dir, settings.index_path.parent)):
        if folder.exists():
            yield folder


def check_size(settings: Settings, snap: Snapshot, out: Outcome) -> None:
    """The file is not much larger than its content."""
    page, pages, free = (
        snap.number(f"PRAGMA {name}") for name in ("page_size", "page_count", "freelist_count")
    )
    log = settings.index_path.with_name(f"{settings.index_path.name}-wal")
    waiting = log.stat().st_size if log.exists() else 0
    size, unused = page * pages / 1e6, page * free / 1e6
    out.detail = f"index {size:.1f} MB, {unused:.1f} MB of it unused; log {waiting / 1e6:.1f} MB"
    if waiting > max(_LARGE_LOG, page * pages):
        text = "The write-ahead log is larger than the index: every search reads through it."
        out.add("log-large", "info", text, (out.detail,), FIX, fixable=True)


def check_records(settings: Settings, out: Outcome) -> None:
    """What is remembered of the providers can be read and written."""
    path = settings.data_dir / RECORDS_FILE
    _check_side_file(path, RECORDS, "providers-file", "usage", ("line of usage", "lines of usage"), out)


def check_event_log(settings: Settings, out: Outcome) -> None:
    """The record of what happened can be read and written."""
    _check_side_file(
        settings.data_dir / EVENTS_FILE, EVENTS, "events-file", "events", ("event", "events"), out
    )


def _check_side_file(
    path: Path, schema: Schema, code: str, table: str, nouns: tuple[str, str], out: Outcome
) -> None:
    """One small database in the data folder. Its content is nowhere else, so it is never removed by us: the
    repair is a command to type."""
    if not path.exists():
        out.detail = "none yet"
        return
    found = rows_of(path, schema, table)
    if not isinstance(found, Trouble):
        out.detail = f"{path.name}: {counted(found, *nouns)}"
        return
    out.detail = f"{path.name} cannot be used"
    files = [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", "-journal")]
    there = " ".join(shlex.quote(str(file)) for file in files if file.exists())
    repairs: dict[TroubleKind, str] = {
        "damaged": f"rm -- {there}",
        "foreign": f"mv -- {shlex.quote(str(path))} {shlex.quote(f'{path}.other')}",
        "newer": UPGRADE,
    }
    out.add(code, "warning", found.text, repair=repairs.get(found.kind, ""))


# -- repair -----------------------------------------------------------------------------------------------


def repair_locations(settings: Settings, codes: set[str]) -> list[str]:
    """Repair what ``codes`` name; what was done, in words. The caller holds the lock of the index."""
    done = []
    if "left-overs" in codes:
        # The lock of the caller keeps other processes from rebuilding.
        done.append(f"{counted(sweep(settings.index_path, of_all=True), 'file')} of killed rebuilds removed")
    if "log-large" in codes:
        database = Database(settings.index_path, extension=False)
        try:
            with database.exclusive_writer() as connection:
                rows(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            database.close()
        done.append("the write-ahead log was moved into the index")
    if "permissions" in codes:
        narrowed = 0
        for path, mode in list(too_open(settings)):
            with suppress(OSError):
                path.chmod(stat.S_IMODE(mode) & ~(0o022 if stat.S_ISDIR(mode) else 0o077))
                narrowed += 1
        done.append(f"permissions of {counted(narrowed, 'file or folder', 'files or folders')} narrowed")
    return done
