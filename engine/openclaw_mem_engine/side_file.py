"""A small SQLite file that may be lost: made when it is first needed, left alone when it cannot be used."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import apsw

from openclaw_mem_engine.model import Note

#: How long one process waits for another, milliseconds.
BUSY_TIMEOUT_MS = 5_000

_POLL_S = 0.01

#: What is bound to a statement, and what comes back.
Row: TypeAlias = tuple[Any, ...]
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file holds. ``version`` is written as SQLite's user_version; ``tables`` has the number of
    columns of each table of ``schema``. The rest is for a note: its code and level, what is remembered (a
    plural, as in a sentence), and what is lost with the file."""

    version: int
    schema: str
    tables: Mapping[str, int]
    code: str
    level: Literal["info", "warning"]
    remembered: str
    lost: str


class _Unusable(Exception):
    """The file is whole, and not one that this program may write to."""


#: What a file that is damaged, locked, foreign or out of reach may raise, in SQLite or while decoding rows.
_TROUBLE = (apsw.Error, OSError, TypeError, ValueError, _Unusable)


class SideFile:
    """Tables in the file ``path``, or in memory without one. Safe to call from several threads; several
    processes may use one file. Reading makes no file. ``clock`` is in seconds since 1970.

    When the file cannot be used, ``note`` says why, and memory takes its place until the end of the run.
    """

    def __init__(
        self,
        path: Path | None,
        layout: Layout,
        clock: Callable[[], float],
        first: tuple[str, Row] | None = None,
    ) -> None:
        """``first`` is a statement, with what is bound to it, for a file that this process makes."""
        self.note: Note | None = None
        self._layout = layout
        self._first = first
        self._path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._tidied = ""
        if path is None:
            kept = f"{layout.remembered[0].upper()}{layout.remembered[1:]}"
            told = f"{kept} are kept in memory: they are forgotten when this program ends."
            self.note = Note(layout.code, told)

    def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again (what was in memory is gone)."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(apsw.Error):
                    connection.close()

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
            except _TROUBLE as error:
                if self._path is None:
                    return []
                self._go_on_in_memory(error)
                return self.read(sql, bound, decode)

    def write(self, sql: str, bound: Row) -> None:
        """Run one statement in a transaction of its own. What fails in memory too, is not remembered."""
        with self._lock:
            try:
                connection = self._opened(create=True)
                assert connection is not None
                with _transaction(connection):
                    connection.execute(sql, bound)
                    today = self.today().isoformat()
                    self.tidy(connection, new_day=self._tidied != today)
                    self._tidied = today
            except _TROUBLE as error:
                if self._path is None:
                    return
                self._go_on_in_memory(error)
                self.write(sql, bound)

    def tidy(self, connection: apsw.Connection, *, new_day: bool) -> None:
        """Drop what is too old or too much, in the transaction of every write; ``new_day`` at the first one
        of a day in this process."""

    def _opened(self, *, create: bool) -> apsw.Connection | None:
        """The connection; None when there is no file and none is to be made."""
        if self._connection is None:
            if self._path is None:
                connection = apsw.Connection(":memory:")
                self._make_tables(connection)
                self._connection = connection
            elif create or self._path.exists():
                self._connection = self._open(self._path, create=create)
        return self._connection

    def _go_on_in_memory(self, error: Exception) -> None:
        """Leave the file alone for the rest of the run, with a note; what can still be read goes along."""
        assert self._path is not None
        self.note = Note(self._layout.code, self._explained(error, self._path), self._layout.level)
        self._path, self._tidied = None, ""
        file, self._connection = self._connection, None
        memory = self._opened(create=True)
        assert memory is not None
        if file is None:
            return
        for table, columns in self._layout.tables.items():
            with suppress(*_TROUBLE):
                values = ",".join("?" * columns)
                for row in _decoded(file.execute(f"SELECT * FROM {table}"), tuple):
                    with suppress(*_TROUBLE):
                        memory.execute(f"INSERT OR REPLACE INTO {table} VALUES({values})", row)
        with suppress(apsw.Error):
            file.close()

    def _open(self, path: Path, *, create: bool) -> apsw.Connection:
        """A connection to ``path`` with all tables. Raises one of ``_TROUBLE``."""
        if create:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Made before SQLite does it, so that nobody else can read it for an instant; -wal and -shm get
            # the same mode from SQLite.
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with suppress(OSError):
            if path.stat().st_mode & 0o077:
                path.chmod(0o600)
        patience = time.monotonic() + BUSY_TIMEOUT_MS / 1000
        while True:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
            try:
                connection.set_busy_timeout(BUSY_TIMEOUT_MS)
                connection.pragma("synchronous", "normal")
                if self._version(connection) == 0:
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

    def _version(self, connection: apsw.Connection) -> int:
        """The version of the tables, 0 when there are none yet. Raises _Unusable for those of others."""
        # One statement sees one state of the file, also while another process makes its tables.
        ((version, tables),) = connection.execute(
            "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
        )
        if version > self._layout.version:
            raise _Unusable(
                f"was written by a newer version of this program (schema {version}; this one knows "
                f"{self._layout.version}). Update this program, or move that file away"
            )
        if version == 0 and tables:
            raise _Unusable("is a database of something else. Move that file away")
        return int(version)

    def _make_tables(self, connection: apsw.Connection) -> None:
        """Make the tables, unless another process just did."""
        with _transaction(connection):
            if self._version(connection) == 0:
                connection.execute(self._layout.schema)
                if self._first is not None:
                    connection.execute(*self._first)
                connection.pragma("user_version", self._layout.version)

    def _explained(self, error: Exception, path: Path) -> str:
        """What is wrong with the file and what to do, for a note."""
        kept = f"Until then, {self._layout.remembered} are kept in memory only."
        if isinstance(error, _Unusable):
            return f"{path} {error}. {kept}"
        if isinstance(error, (apsw.BusyError, apsw.LockedError)):
            return f"Another program keeps {path} locked ({error}). End it, and start this one again. {kept}"
        if isinstance(error, apsw.FullError):
            return (
                f"The disk that holds {path} is full. Free some space, and start this program again. {kept}"
            )
        if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, TypeError, ValueError)):
            return (
                f"{path} is damaged ({error}). Remove it: it holds only {self._layout.lost}, and a new one "
                f"is made. {kept}"
            )
        said = error.strerror if isinstance(error, OSError) else error
        return (
            f"{path} cannot be used ({said}). Check its permissions and its folder's, or set "
            f"OPENCLAW_MEM_HOME to a folder of yours. {kept}"
        )


class _transaction:
    """BEGIN IMMEDIATE … COMMIT, rolled back when the body raises."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._connection.execute("COMMIT")
        finally:
            # A full disk rolls back by itself; a second ROLLBACK would hide the first error.
            if self._connection.in_transaction:
                with suppress(apsw.Error):
                    self._connection.execute("ROLLBACK")


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
