"""The SQLite file behind ``records.py``: made when it is first needed, left alone when it cannot be used."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeAlias, TypeVar

import apsw

from openclaw_mem_engine.model import Note

#: Written as SQLite's user_version.
SCHEMA_VERSION = 1
#: How long one process waits for another, milliseconds.
BUSY_TIMEOUT_MS = 5_000
#: What is kept at most, in days. No provider keeps the outcome of a batch job longer than a month.
KEEP_DAYS = 400
KEEP_JOBS_DAYS = 60

_POLL_S = 0.01

_SCHEMA = """
CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE usage(
  day TEXT NOT NULL, provider TEXT NOT NULL, model TEXT NOT NULL, requests INTEGER NOT NULL,
  texts INTEGER NOT NULL, tokens INTEGER NOT NULL, estimated INTEGER NOT NULL,
  PRIMARY KEY(day, provider, model)
) STRICT, WITHOUT ROWID;
CREATE TABLE health(
  key TEXT PRIMARY KEY, failing_since REAL, reason TEXT NOT NULL, failures INTEGER NOT NULL,
  next_retry REAL, last_ok REAL, last_ms REAL, key_tag TEXT NOT NULL, day TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE item_caps(key TEXT PRIMARY KEY, items INTEGER NOT NULL, day TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE jobs(
  id TEXT PRIMARY KEY, provider_key TEXT NOT NULL, provider TEXT NOT NULL, state TEXT NOT NULL,
  submitted_at REAL NOT NULL, texts TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""
_TABLES = {"meta": 2, "usage": 7, "health": 9, "item_caps": 3, "jobs": 6}

#: What is bound to a statement, and what comes back.
Row: TypeAlias = tuple[Any, ...]
_Result = TypeVar("_Result")


class _Unusable(Exception):
    """The file is whole, and not one that this program may write to."""


#: What a file that is damaged, locked, foreign or out of reach may raise, in SQLite or while decoding rows.
_TROUBLE = (apsw.Error, OSError, TypeError, ValueError, _Unusable)


class RecordsFile:
    """Tables in the file ``path``, or in memory without one. Safe to call from several threads; several
    processes may use one file. Reading makes no file. ``clock`` is in seconds since 1970.

    When the file cannot be used, ``note`` says why, and memory takes its place until the end of the run.
    """

    def __init__(self, path: Path | None, clock: Callable[[], float]) -> None:
        self.note: Note | None = None
        #: Goes into a file that this process makes; what a file holds is in its table ``meta``.
        self.salt = token_hex(16)
        self._path = path
        self._clock = clock
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._tidied = ""
        if path is None:
            self.note = Note(
                "provider-records",
                "Usage and failures of embedding providers are kept in memory: they are forgotten when this "
                "program ends.",
            )

    def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again (what was in memory is gone)."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(apsw.Error):
                    connection.close()

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
                    self._tidy(connection)
            except _TROUBLE as error:
                if self._path is None:
                    return
                self._go_on_in_memory(error)
                self.write(sql, bound)

    def _tidy(self, connection: apsw.Connection) -> None:
        """Drop what is too old, at the first write of a day."""
        today = self.today()
        if self._tidied == today.isoformat():
            return
        limit = (today - timedelta(days=KEEP_DAYS)).isoformat()
        for table in ("usage", "health", "item_caps"):
            connection.execute(f"DELETE FROM {table} WHERE day < ?", (limit,))
        connection.execute(
            "DELETE FROM jobs WHERE submitted_at < ?", (self._clock() - KEEP_JOBS_DAYS * 86_400,)
        )
        self._tidied = today.isoformat()

    def _opened(self, *, create: bool) -> apsw.Connection | None:
        """The connection; None when there is no file and none is to be made."""
        if self._connection is None:
            if self._path is None:
                connection = apsw.Connection(":memory:")
                _make_tables(connection, self.salt)
                self._connection = connection
            elif create or self._path.exists():
                self._connection = _open(self._path, self.salt, create=create)
        return self._connection

    def _go_on_in_memory(self, error: Exception) -> None:
        """Leave the file alone for the rest of the run, with a note; what can still be read goes along."""
        assert self._path is not None
        self.note = Note("provider-records", _explained(error, self._path), "warning")
        self._path, self._tidied = None, ""
        file, self._connection = self._connection, None
        memory = self._opened(create=True)
        assert memory is not None
        if file is None:
            return
        for table, columns in _TABLES.items():
            with suppress(*_TROUBLE):
                values = ",".join("?" * columns)
                for row in _decoded(file.execute(f"SELECT * FROM {table}"), tuple):
                    with suppress(*_TROUBLE):
                        memory.execute(f"INSERT OR REPLACE INTO {table} VALUES({values})", row)
        with suppress(apsw.Error):
            file.close()


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


def _open(path: Path, salt: str, *, create: bool) -> apsw.Connection:
    """A connection to ``path`` with all tables. Raises one of ``_TROUBLE``."""
    if create:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Made before SQLite does it, so that nobody else can read it for an instant; -wal and -shm get the
        # same mode from SQLite.
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
            if _version(connection) == 0:
                connection.pragma("journal_mode", "wal")
                _make_tables(connection, salt)
        except BaseException as error:
            with suppress(apsw.Error):
                connection.close()
            # While a new file becomes WAL, SQLite refuses a second process at once, without waiting.
            if isinstance(error, apsw.BusyError) and time.monotonic() < patience:
                time.sleep(_POLL_S)
                continue
            raise
        return connection


def _version(connection: apsw.Connection) -> int:
    """The version of the tables, 0 when there are none yet. Raises _Unusable for those of others."""
    # One statement sees one state of the file, also while another process makes its tables.
    ((version, tables),) = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    )
    if version > SCHEMA_VERSION:
        raise _Unusable(
            f"was written by a newer version of this program (schema {version}; this one knows "
            f"{SCHEMA_VERSION}). Update this program, or move that file away"
        )
    if version == 0 and tables:
        raise _Unusable("is a database of something else. Move that file away")
    return int(version)


def _make_tables(connection: apsw.Connection, salt: str) -> None:
    """Make the tables, unless another process just did."""
    with _transaction(connection):
        if _version(connection) == 0:
            connection.execute(_SCHEMA)
            connection.execute("INSERT INTO meta VALUES('salt', ?)", (salt,))
            connection.pragma("user_version", SCHEMA_VERSION)


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


def _explained(error: Exception, path: Path) -> str:
    """What is wrong with the file and what to do, for a note."""
    kept = "Until then, usage and failures of embedding providers are kept in memory only."
    if isinstance(error, _Unusable):
        return f"{path} {error}. {kept}"
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return f"Another program keeps {path} locked ({error}). End it, and start this one again. {kept}"
    if isinstance(error, apsw.FullError):
        return f"The disk that holds {path} is full. Free some space, and start this program again. {kept}"
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, TypeError, ValueError)):
        return (
            f"{path} is damaged ({error}). Remove it: it holds only counts, times and the state of batch "
            f"jobs, and a new one is made. {kept}"
        )
    said = error.strerror if isinstance(error, OSError) else error
    return (
        f"{path} cannot be used ({said}). Check its permissions and its folder's, or set OPENCLAW_MEM_HOME "
        f"to a folder of yours. {kept}"
    )
