"""A small SQLite database of state that may be lost: the event log, and the records of providers.

It is made at the first write (mode 0600) and brought up to date by numbered migrations. A file that is
damaged, foreign or written by a newer version is neither adopted nor changed: it is reported, and state is
kept in memory until the end of the run.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import apsw

from openclaw_mem_engine.model import Note
from openclaw_mem_engine.state.schema import (
    BUSY_TIMEOUT_MS,
    TROUBLE,
    Schema,
    explained,
    immediate,
    tables_of,
    version_of,
)

_POLL_S = 0.01
#: At most so many statements wait for room on a full disk: the oldest are dropped.
_MOST_WAITING = 1_000

#: What is bound to a statement, and what comes back.
Row: TypeAlias = tuple[Any, ...]
_Result = TypeVar("_Result")
#: Device and inode.
_Identity: TypeAlias = tuple[int, int]


class StateDatabase:
    """Tables in the file ``path``, or in memory without one. Safe to call from several threads; several
    processes may use one file. Reading makes no file. ``clock`` gives epoch seconds. No method raises because
    of the file: ``note`` says why it cannot be used.

    A file that was removed or replaced is opened anew, or made anew at the next write. ``first`` is a
    statement, with what is bound to it, for a file that this process makes. ``tidy`` is called in the
    transaction of every write, with True at the first one of a day. With ``waits_for_room`` writes on a full
    disk are kept for later instead of going on in memory. ``read_only`` is for looking at a file as it is:
    nothing may be written, no tables are made in an empty one, and its mode stays.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Schema,
        clock: Callable[[], float],
        *,
        first: tuple[str, Row] | None = None,
        tidy: Callable[[apsw.Connection, bool], None] = lambda _connection, _new_day: None,
        waits_for_room: bool = False,
        read_only: bool = False,
    ) -> None:
        self.note: Note | None = None
        self._path = path
        self._schema = schema
        self._clock = clock
        self._first = first
        self._tidy = tidy
        self._waits_for_room = waits_for_room
        self._read_only = read_only
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._identity: _Identity | None = None
        self._tidied = ""
        #: Statements that wait for room on the disk, the oldest first.
        self._waiting: deque[tuple[str, Row]] = deque(maxlen=_MOST_WAITING)
        if path is None:
            kept = f"{schema.remembered[0].upper()}{schema.remembered[1:]}"
            self.note = Note(
                schema.code, f"{kept} are kept in memory: they are forgotten when this program ends."
            )

    def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again (what was in memory is gone)."""
        with self._lock:
            connection, self._connection, self._identity = self._connection, None, None
            if connection is not None:
                with suppress(apsw.Error):
                    connection.close()

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the file that was last read or written; None without a file, and in memory."""
        return self._identity

    def now(self) -> float:
        """Epoch seconds."""
        return self._clock()

    def today(self) -> date:
        """The local date."""
        return datetime.fromtimestamp(self._clock()).date()

    def read(self, sql: str, bound: Row, decode: Callable[[Row], _Result]) -> list[_Result]:
        """``decode`` of every row. A row that it refuses (TypeError, ValueError) was not written by us: it is
        dropped."""
        with self._lock:
            try:
                connection = self._opened(create=False)
                return [] if connection is None else _decoded(connection.execute(sql, bound), decode)
            except TROUBLE as error:
                if self._path is None:
                    return []
                self._go_on_in_memory(error, self._path)
                return self.read(sql, bound, decode)

    def write(self, sql: str, bound: Row) -> None:
        """Run one statement in a transaction of its own. What fails in memory too, is dropped."""
        assert not self._read_only, "opened read-only"
        with self._lock:
            try:
                connection = self._opened(create=True)
                assert connection is not None
                with immediate(connection):
                    for late in self._waiting:
                        connection.execute(*late)
                    connection.execute(sql, bound)
                    today = self.today().isoformat()
                    self._tidy(connection, self._tidied != today)
                    self._tidied = today
                if self._waiting:
                    self._waiting.clear()
                    self.note = None
            except TROUBLE as error:
                if self._path is None:
                    return
                if self._waits_for_room and isinstance(error, apsw.FullError):
                    self._waiting.append((sql, bound))
                    later = f"{self._schema.remembered.capitalize()} are written when there is room again."
                    self._explain(error, self._path, later)
                    return
                self._go_on_in_memory(error, self._path)
                self.write(sql, bound)

    def _explain(self, error: Exception, path: Path, kept: str) -> None:
        schema = self._schema
        self.note = Note(schema.code, f"{explained(error, path, schema).text} {kept}", schema.level)

    def _opened(self, *, create: bool) -> apsw.Connection | None:
        """The connection; None when there is no file and none is to be made. Raises one of ``TROUBLE``."""
        if self._path is None:
            if self._connection is None:
                self._connection = self._in_memory()
            return self._connection
        identity = _identity_of(self._path)
        if identity != self._identity:
            self.close()  # what is written into a file without a name would be lost
        if self._connection is None:
            if create:
                identity = _make(self._path)
            if identity is not None:
                # Read before the file is opened: when it is replaced in between, the next call notices.
                self._connection, self._identity = self._open(self._path), identity
        return self._connection

    def _go_on_in_memory(self, error: Exception, path: Path) -> None:
        """Use memory for the rest of the run, with a note and all rows that can still be read."""
        self._explain(error, path, f"Until then, {self._schema.remembered} are kept in memory only.")
        self._path, self._tidied = None, ""
        file, self._connection, self._identity = self._connection, None, None
        memory = self._opened(create=True)
        assert memory is not None
        if file is None:
            return
        for table, columns in tables_of(memory).items():
            with suppress(*TROUBLE):
                values = ",".join("?" * len(columns))
                for row in _decoded(file.execute(f"SELECT * FROM {table}"), tuple):
                    with suppress(*TROUBLE):
                        memory.execute(f"INSERT OR REPLACE INTO {table} VALUES({values})", row)
        with suppress(apsw.Error):
            file.close()

    def _in_memory(self) -> apsw.Connection:
        connection = apsw.Connection(":memory:")
        self._migrate(connection)
        return connection

    def _open(self, path: Path) -> apsw.Connection:
        """A connection to the file ``path`` with all tables. Raises one of ``TROUBLE``."""
        if not self._read_only:
            with suppress(OSError):
                if path.stat().st_mode & 0o077:
                    path.chmod(0o600)
        until = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                connection.set_busy_timeout(BUSY_TIMEOUT_MS)
                connection.pragma("synchronous", "normal")
                connection.pragma("query_only", self._read_only)
                if version_of(connection, self._schema) < self._schema.version:
                    if self._read_only:
                        connection.close()
                        return self._in_memory()
                    connection.pragma("journal_mode", "wal")
                    self._migrate(connection)
            except BaseException as error:
                with suppress(apsw.Error):
                    connection.close()
                # While a new file becomes WAL, SQLite refuses a second process at once, without waiting.
                if isinstance(error, apsw.BusyError) and time.monotonic() < until:
                    time.sleep(_POLL_S)
                    continue
                raise
            return connection

    def _migrate(self, connection: apsw.Connection) -> None:
        """Bring the tables up to date, unless another process just did."""
        with immediate(connection):
            is_new = version_of(connection, self._schema) == 0
            self._schema.migrate(connection)
            if is_new and self._first is not None:
                connection.execute(*self._first)


def _make(path: Path) -> _Identity | None:
    """Make an empty file, unless there is one. Before SQLite would do it, so that other users cannot read it
    for an instant; -wal and -shm get the same mode from SQLite."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return _identity_of(path)


def _identity_of(path: Path) -> _Identity | None:
    """None when there is no file. Raises OSError when that cannot be found out."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return status.st_dev, status.st_ino


def _decoded(cursor: apsw.Cursor, decode: Callable[[Row], _Result]) -> list[_Result]:
    """``decode`` of every row that can be read and decoded."""
    found: list[_Result] = []
    while True:
        # Text that is not UTF-8 is a ValueError of its row, and the next row can still be read.
        with suppress(TypeError, ValueError, OverflowError, RecursionError):
            row = next(cursor, None)
            if row is None:
                return found
            found.append(decode(row))
