"""Connections to the SQLite file of an index, and the errors of SQLite turned into ours."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import apsw

from openclaw_mem_engine.cancellation import BUSY_TIMEOUT_MS, SEARCH_STOPPED, retried
from openclaw_mem_engine.errors import (
    Cancelled,
    IndexChanged,
    IndexDamaged,
    IndexLocked,
    IndexUnavailable,
    disk_full,
)
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.state import is_full
from openclaw_mem_engine.state.database import immediate
from openclaw_mem_engine.stores.sqlite.connections import (
    APPLICATION_ID,
    begin_file,
    connect_read_only,
    load_extension,
    refuse_emptied,
    refuse_foreign,
    set_pragma,
)
from openclaw_mem_engine.stores.sqlite.files import (
    access,
    closed_to_user,
    damaged,
    identity,
    is_of_full_disk,
    is_writable,
    make_folder,
    shared_of,
)

#: The size of the log at which it is merged into the file.
_LOG_BYTES = 80 << 20
#: Why sqlite-vec is not in use when it is not wanted.
NOT_LOADED = "not loaded"
#: How SQLite complains of tables that are not as they were made, and sqlite-vec of what is no such vector.
_LOST = ("no such table", "no such column", "vtable constructor failed")
_OTHER_FORMAT = ("unsupported file format", "invalid fts5 file format")
_NO_VECTOR = ("Error reading 1st vector", "Vector dimension")
#: What may be bound to a statement, and what one row is.
Bound = tuple[Any, ...]


class Advice(NamedTuple):
    """What the messages of one kind of index advise; the defaults are those of the builtin index."""

    again: str = "run `openclaw-mem index` again"
    check: str = "`openclaw-mem doctor` checks it."
    repair: str = IndexDamaged.repair


_ADVICE = Advice()


def rows(connection: apsw.Connection, sql: str, bound: Bound = ()) -> list[Bound]:
    """All rows of one statement."""
    return connection.execute(sql, bound).fetchall()


@contextmanager
def explained(path: Path, advice: Advice = _ADVICE) -> Iterator[None]:
    """Turn SQLite's errors into ours, with what to do next."""
    try:
        yield
    except apsw.InterruptError as error:
        raise Cancelled(SEARCH_STOPPED) from error
    except apsw.Error as error:
        # On a full disk our rollback fails with a second error, as SQLite did it: the first one is named.
        named = _named(error, path, advice)
        named.repair = advice.repair
        raise named from error
    except UnicodeDecodeError as error:  # text that SQLite gives unchanged from a damaged page
        raise damaged("some of its text is not UTF-8", path, advice.repair) from error


@contextmanager
def decoding(path: Path, advice: Advice = _ADVICE) -> Iterator[None]:
    """Values of a kind or length that we never wrote can only come from a damaged page."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise damaged(error, path, advice.repair) from error


def _named(error: apsw.Error, path: Path, advice: Advice) -> IndexUnavailable:
    while isinstance(error.__context__, apsw.Error):
        error = error.__context__
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return IndexLocked(
            "Another process is writing to the index. Nothing was changed; try again when it has finished. "
            f"File: {path}"
        )
    if is_of_full_disk(error, path):
        return IndexUnavailable(disk_full(path, advice.again))
    lost = str(error).startswith((*_LOST, *_OTHER_FORMAT, *_NO_VECTOR))
    if lost or isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.TooBigError)):
        return damaged(f"SQLite: {complaints(str(error))[0]}", path, advice.repair)
    if isinstance(error, (apsw.CantOpenError, apsw.ReadOnlyError, apsw.PermissionsError)):
        what = "opened" if isinstance(error, apsw.CantOpenError) else "written"
        why = "permission denied" if closed_to_user(path) else error
        return IndexUnavailable(f"The index cannot be {what}: {why}. {access(path)}")
    return IndexUnavailable(f"The index could not be used: {error}. {advice.check} File: {path}")


def complaints(said: str) -> list[str]:
    """What a check of SQLite found, line by line, without the heading that names the database; as it is where
    there is nothing else."""
    return [line for line in said.splitlines() if line and not line.startswith("***")] or [said]


@contextmanager
def _closed_on_error(connection: apsw.Connection) -> Iterator[None]:
    """What a connection holds is let go at once when opening fails."""
    try:
        yield
    except BaseException:
        connection.close()
        raise


def _close_when_idle(connection: apsw.Connection) -> None:
    """Close a connection that another thread may still be leaving; given up after two seconds."""
    for _ in range(200):
        try:
            connection.close()
        except apsw.ThreadingViolationError:
            time.sleep(0.01)
        except apsw.Error:
            return  # on a full disk: the log keeps what could not be merged, and is read with the file
        else:
            return


class Database:
    """Connections to one SQLite file, made when there is none: a reader for each thread, one writer behind a
    lock. ``extension`` asks for sqlite-vec; the attribute tells whether it is there, ``extension_error`` why
    not. ``application_id`` marks a file as ours, and of its kind; ``advice`` is for its messages.
    ``or_read_only``: a file that cannot be written is opened as it is; writing raises then. A file that is
    made has pages of ``page_bytes``; None leaves that to SQLite."""

    def __init__(
        self,
        path: Path,
        *,
        extension: bool,
        application_id: int = APPLICATION_ID,
        advice: Advice = _ADVICE,
        or_read_only: bool = False,
        page_bytes: int | None = None,
    ) -> None:
        self.path, self.advice, self._page_bytes = path, advice, page_bytes
        self.extension = False
        self.extension_error = "" if extension else NOT_LOADED
        self._wanted = extension
        self._local = threading.local()
        self._guard = threading.Lock()
        self._readers: dict[int, apsw.Connection] = {}
        self._searching: set[int] = set()  # threads whose reader runs a search
        self.is_closed = False
        self._write_lock = threading.RLock()
        # Decided before SQLite makes files beside it, which would have the mode of a file that is read only.
        there = or_read_only and path.is_file()
        self.read_only = there and not is_writable(path)
        make_folder(path)
        refuse_foreign(path, application_id)
        refuse_emptied(path, advice.repair)
        # Private, as notes are, before SQLite gives the files beside it the same mode; a file of another user
        # stays as it is, and what cannot be made is an error of the connection.
        with suppress(OSError):
            if not path.exists():
                path.touch(0o600)
            elif (mode := path.stat().st_mode) & 0o077:
                path.chmod(mode & 0o700)
        with self.explained():
            try:
                self._writer = self._connect() if self.read_only else self._opened_for_writing(application_id)
            except apsw.Error as error:
                if not (there and is_of_full_disk(error, path)):
                    raise
                self.read_only = True
                self._writer = self._connect()
        with self.explained(), _closed_on_error(self._writer):
            self._writer.pragma("application_id")  # the first read
        self._identity = identity(self.path)
        self._shared = shared_of(path)
        self._log_identity = identity(self._shared)

    def _opened_for_writing(self, application_id: int) -> apsw.Connection:
        connection = self._connect()
        with _closed_on_error(connection):
            begin = partial(begin_file, connection, application_id, self._page_bytes)
            retried(begin, apsw.BusyError, BUSY_TIMEOUT_MS / 1000)
            # WAL: readers never wait. NORMAL: a power cut may lose the last commits, never consistency.
            set_pragma(connection, "journal_mode", "wal")
            connection.pragma("synchronous", "normal")
            connection.pragma("secure_delete", True)  # else text of deleted notes stays in free pages
            connection.pragma("wal_autocheckpoint", _LOG_BYTES // rows(connection, "PRAGMA page_size")[0][0])
        return connection

    def explained(self) -> AbstractContextManager[None]:
        """See ``explained``, for this file."""
        return explained(self.path, self.advice)

    def is_at_its_path(self, *, or_nothing: bool = False) -> bool:
        """Whether the file that was opened is still at ``path``, or with ``or_nothing`` none is. One stat."""
        now = identity(self.path)
        return now == self._identity or (or_nothing and now is None)

    def is_as_opened(self, *, or_nothing: bool) -> bool:
        """The same, with its log, and the file could still not be written if it could not be when it was
        opened."""
        outdated = self.read_only and is_writable(self.path) and not is_full(self.path.parent)
        there = self.is_at_its_path(or_nothing=or_nothing)
        return there and self.has_its_log and not outdated

    @property
    def has_its_log(self) -> bool:
        """Whether the file that SQLite made beside it is there, or it is not at its path either: without that
        file SQLite fails on every connection of this process that is made from now on."""
        there = identity(self._shared) == self._log_identity
        return there or self.read_only or not self.is_at_its_path()

    def _connect(self) -> apsw.Connection:
        connection = connect_read_only(self.path) if self.read_only else apsw.Connection(str(self.path))
        with _closed_on_error(connection):
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            set_pragma(connection, "cache_size", -32_000)  # no mmap: a file that others cut ends the process
        if self._wanted:
            self.extension_error = load_extension(connection)
            self.extension = self._wanted = not self.extension_error
        return connection

    def reader(self) -> apsw.Connection:
        """This thread's connection, for reading."""
        connection: apsw.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            if self.is_closed:
                raise IndexUnavailable(f"The index {self.path} is closed: open the memory again.")
            if not self.is_at_its_path():  # another connection would see another file, or make one
                raise IndexChanged(
                    f"The index was renamed or removed: `openclaw-mem index` builds it. File: {self.path}"
                )
            with self.explained():
                connection = self._connect()
                connection.pragma("query_only", True)
            self._local.connection = connection
            with self._guard:
                self._readers[threading.get_ident()] = connection
        return connection

    def read(self, sql: str, bound: Bound = ()) -> list[Bound]:
        """All rows of one query, on this thread's connection."""
        with self.explained():
            return rows(self.reader(), sql, bound)

    def version(self) -> int:
        """Changes, for the connection of this thread, with every commit of another one of any program."""
        with self.explained():
            return int(self.reader().pragma("data_version"))

    def search(self, sql: str, bound: Bound = ()) -> list[Bound]:
        """The same for a query that ``interrupt`` stops."""
        thread = threading.get_ident()
        connection = self.reader()
        with self._guard:
            self._searching.add(thread)
        try:
            with self.explained():
                return connection.execute(sql, bound).fetchall()
        finally:
            with self._guard:
                self._searching.discard(thread)

    @contextmanager
    def transaction(self, *, wait: bool = True) -> Iterator[apsw.Connection]:
        """The writing connection inside BEGIN IMMEDIATE … COMMIT; rolled back when the body raises. Without
        ``wait`` another process that writes makes it fail at once."""
        with self._write_lock, self.explained():
            self._writer.set_busy_timeout(BUSY_TIMEOUT_MS * wait)
            try:
                with immediate(self._writer):
                    yield self._writer
            finally:
                self._writer.set_busy_timeout(BUSY_TIMEOUT_MS)

    @contextmanager
    def exclusive_writer(self) -> Iterator[apsw.Connection]:
        """The writing connection without a transaction, for what SQLite does on its own (backup, attach)."""
        with self._write_lock, self.explained():
            yield self._writer

    def replace_content(self, other: Database) -> None:
        """Become a copy of another database, in one step for all connections of all processes: SQLite's
        backup writes the pages, and a kill in the middle leaves the old ones."""
        other.merge_log()
        with (
            other.exclusive_writer() as source,
            self.exclusive_writer() as target,
            target.backup("main", source, "main") as copy,
        ):
            copy.step(-1)

    def merge_log(self) -> None:
        """Move the write-ahead log into the file."""
        with self.exclusive_writer() as connection:
            rows(connection, "PRAGMA wal_checkpoint(TRUNCATE)")  # apsw's pragma() would quote it

    def interrupt(self) -> None:
        """Stop the searches that run at this moment; they raise Cancelled."""
        with self._guard:
            for thread in self._searching & self._readers.keys():
                self._readers[thread].interrupt()

    def close(self) -> None:
        """Close all connections; what other threads are reading is interrupted first."""
        with self._guard:
            self.is_closed = True
        self.close_readers()
        _close_when_idle(self._writer)

    def close_readers(self) -> None:
        """Close the connections of all threads; what they are reading is interrupted first."""
        with self._guard:
            readers, self._readers = self._readers, {}
        self._local = threading.local()
        for connection in readers.values():
            connection.interrupt()
        for connection in readers.values():
            _close_when_idle(connection)
