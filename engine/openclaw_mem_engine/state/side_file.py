"""A small SQLite file that may be lost: made when it is first needed, left alone when it cannot be used."""

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
from openclaw_mem_engine.state.side_layout import BUSY_TIMEOUT_MS, TROUBLE, Layout, explained, version_of
from openclaw_mem_engine.state.transaction import immediate

_POLL_S = 0.01
#: More statements than this do not wait for room on a full disk: the oldest go.
_MOST_WAITING = 1_000

#: What is bound to a statement, and what comes back.
Row: TypeAlias = tuple[Any, ...]
_Result = TypeVar("_Result")
#: Device and inode.
_Identity: TypeAlias = tuple[int, int]


class SideFile:
    """Tables in the file ``path``, or in memory without one. Safe to call from several threads; several
    processes may use one file. Reading makes no file. ``clock`` is in seconds since 1970.

    A file that somebody removed or replaced is opened anew, or made anew when something is written. When the
    file cannot be used, ``note`` says why, and memory takes its place until the end of the run. Where
    ``WAITS_FOR_ROOM``, what is to be written on a full disk waits for room instead.
    """

    #: For files that are read by others rather than by the process that writes.
    WAITS_FOR_ROOM = False

    def __init__(
        self,
        path: Path | None,
        layout: Layout,
        clock: Callable[[], float],
        first: tuple[str, Row] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """``first`` is a statement, with what is bound to it, for a file that this process makes.
        ``read_only`` is for looking at a file as it is: nothing may be written, no tables are made in an
        empty one, and its mode stays."""
        self.note: Note | None = None
        self._read_only = read_only
        self._layout = layout
        self._first = first
        self._path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._identity: _Identity | None = None
        self._tidied = ""
        #: Statements that wait for room on the disk, the oldest first.
        self._waiting: deque[tuple[str, Row]] = deque(maxlen=_MOST_WAITING)
        if path is None:
            kept = f"{layout.remembered[0].upper()}{layout.remembered[1:]}"
            told = f"{kept} are kept in memory: they are forgotten when this program ends."
            self.note = Note(layout.code, told)

    def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again (what was in memory is gone)."""
        with self._lock:
            connection, self._connection, self._identity = self._connection, None, None
            if connection is not None:
                with suppress(apsw.Error):
                    connection.close()

    @property
    def identity(self) -> tuple[int, int] | None:
        """Device and inode of the file that was last read or written; None as long as there is none, and in
        memory."""
        return self._identity

    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    def today(self) -> date:
        """The local date."""
        return datetime.fromtimestamp(self._clock()).date()

    def read(self, sql: str, bound: Row, decode: Callable[[Row], _Result]) -> list[_Result]:
        """``decode`` of every row. A row that it cannot make sense of (TypeError, ValueError) is left out:
        we never wrote it, a damaged page or somebody's hand did."""
        with self._lock:
            try:
                connection = self._opened(create=False)
                return [] if connection is None else _decoded(connection.execute(sql, bound), decode)
            except TROUBLE as error:
                if self._path is None:
                    return []
                self._go_on_in_memory(error)
                return self.read(sql, bound, decode)

    def write(self, sql: str, bound: Row) -> None:
        """Run one statement in a transaction of its own. What fails in memory too, is not remembered."""
        assert not self._read_only, "opened to be looked at only"
        with self._lock:
            try:
                connection = self._opened(create=True)
                assert connection is not None
                with immediate(connection):
                    for late in self._waiting:
                        connection.execute(*late)
                    connection.execute(sql, bound)
                    today = self.today().isoformat()
                    self.tidy(connection, new_day=self._tidied != today)
                    self._tidied = today
                if self._waiting:
                    self._waiting.clear()
                    self.note = None
            except TROUBLE as error:
                if self._path is None:
                    return
                if self.WAITS_FOR_ROOM and isinstance(error, apsw.FullError):
                    self._wait_for_room(error, self._path, sql, bound)
                    return
                self._go_on_in_memory(error)
                self.write(sql, bound)

    def _wait_for_room(self, error: apsw.FullError, path: Path, sql: str, bound: Row) -> None:
        """Keep a statement for later: a full disk is a matter of time."""
        self._waiting.append((sql, bound))
        layout = self._layout
        kept = f"{layout.remembered.capitalize()} are written when there is room again."
        self.note = Note(layout.code, f"{explained(error, path, layout).text} {kept}", layout.level)

    def tidy(self, connection: apsw.Connection, *, new_day: bool) -> None:
        """Drop what is too old or too much, in the transaction of every write; ``new_day`` at the first one
        of a day in this process."""

    def _opened(self, *, create: bool) -> apsw.Connection | None:
        """The connection; None when there is no file and none is to be made. Raises one of ``TROUBLE``."""
        if self._path is None:
            if self._connection is None:
                self._connection = self._in_memory()
            return self._connection
        identity = _identity_of(self._path)
        if identity != self._identity:
            self.close()  # nobody would ever see what is written into a file that has no name any more
        if self._connection is None:
            if create:
                identity = self._make(self._path)
            if identity is not None:
                # Asked for before it is opened: when it is replaced in between, the next call notices.
                self._connection, self._identity = self._open(self._path), identity
        return self._connection

    def _go_on_in_memory(self, error: Exception) -> None:
        """Leave the file alone for the rest of the run, with a note; what can still be read goes along."""
        assert self._path is not None
        layout = self._layout
        kept = f"Until then, {layout.remembered} are kept in memory only."
        told = f"{explained(error, self._path, layout).text} {kept}"
        self.note = Note(layout.code, told, layout.level)
        self._path, self._tidied = None, ""
        file, self._connection, self._identity = self._connection, None, None
        memory = self._opened(create=True)
        assert memory is not None
        if file is None:
            return
        for table, columns in self._layout.tables.items():
            with suppress(*TROUBLE):
                values = ",".join("?" * columns)
                for row in _decoded(file.execute(f"SELECT * FROM {table}"), tuple):
                    with suppress(*TROUBLE):
                        memory.execute(f"INSERT OR REPLACE INTO {table} VALUES({values})", row)
        with suppress(apsw.Error):
            file.close()

    def _in_memory(self) -> apsw.Connection:
        connection = apsw.Connection(":memory:")
        self._make_tables(connection)
        return connection

    @staticmethod
    def _make(path: Path) -> _Identity | None:
        """Make an empty file, unless there is one. Before SQLite would do it, so that nobody else can read it
        for an instant; -wal and -shm get the same mode from SQLite."""
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        return _identity_of(path)

    def _open(self, path: Path) -> apsw.Connection:
        """A connection to the file ``path`` with all tables. Raises one of ``TROUBLE``."""
        if not self._read_only:
            with suppress(OSError):
                if path.stat().st_mode & 0o077:
                    path.chmod(0o600)
        patience = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                connection.set_busy_timeout(BUSY_TIMEOUT_MS)
                connection.pragma("synchronous", "normal")
                connection.pragma("query_only", self._read_only)
                if version_of(connection, self._layout) == 0:
                    if self._read_only:
                        connection.close()
                        return self._in_memory()
                    connection.pragma("journal_mode", "wal")
                    self._make_tables(connection)
            except BaseException as error:
                with suppress(apsw.Error):
                    connection.close()
                # While a new file becomes WAL, SQLite refuses a second process at once, without waiting.
                if isinstance(error, apsw.BusyError) and time.monotonic() < patience:
                    time.sleep(_POLL_S)
                    continue
                raise
            return connection

    def _make_tables(self, connection: apsw.Connection) -> None:
        """Make the tables, unless another process just did."""
        with immediate(connection):
            if version_of(connection, self._layout) == 0:
                connection.execute(self._layout.schema)
                if self._first is not None:
                    connection.execute(*self._first)
                connection.pragma("user_version", self._layout.version)


def _identity_of(path: Path) -> _Identity | None:
    """None when there is no file. Raises OSError when nobody can tell."""
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
