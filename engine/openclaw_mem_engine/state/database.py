"""A small SQLite database of state that may be lost: the event log, and the records of providers.

It is made at the first write (mode 0600) and brought up to date by numbered migrations. A file that is
damaged, foreign, full or written by a newer version is neither adopted nor changed: it is reported, and state
is kept in memory until the end of the run.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from datetime import date, datetime
from errno import EACCES
from functools import partial
from pathlib import Path
from stat import S_ISLNK
from typing import Any, Literal, TypeAlias, TypeVar

import apsw

from openclaw_mem_engine.cancellation import BUSY_TIMEOUT_MS, retried
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import disk_full
from openclaw_mem_engine.model import Note, utf8
from openclaw_mem_engine.state import is_full, private_folder

TroubleKind: TypeAlias = Literal["damaged", "newer", "foreign", "locked", "full", "out-of-reach"]
#: What is bound to a statement, and what comes back.
Row: TypeAlias = tuple[Any, ...]
_Result = TypeVar("_Result")
#: Device and inode.
Identity: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Schema:
    """What a database holds. ``migrations[n]`` is SQL that takes it from version n to n + 1 (SQLite's
    user_version). The rest is for notes: code and level, what is remembered (a plural, as in a sentence), and
    what is lost with the file."""

    migrations: tuple[str, ...]
    code: str
    level: Literal["info", "warning"]
    remembered: str
    lost: str

    @property
    def version(self) -> int:
        return len(self.migrations)

    def migrate(self, connection: apsw.Connection) -> None:
        """Run the migrations that the database lacks, in the caller's transaction. Raises Trouble."""
        for number in range(version_of(connection, self), self.version):
            connection.execute(self.migrations[number])
            connection.pragma("user_version", number + 1)


class Trouble(Exception):
    """Why a file cannot be used. ``text`` says it, and what to do."""

    def __init__(self, kind: TroubleKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


#: What a file that is damaged, locked, foreign or out of reach may raise, in SQLite or while decoding rows.
TROUBLE = (apsw.Error, OSError, TypeError, ValueError, Trouble)


class StateDatabase:
    """Tables in the file ``path``, or in memory without one. Safe to call from several threads; several
    processes may use one file. Reading makes no file; one that was removed or replaced is opened or made
    anew. No method raises because of the file: ``note`` says why it cannot be used.

    ``clock`` gives epoch seconds. ``tidy`` is called in the transaction of every write, with True at the
    first of a day.
    """

    def __init__(
        self,
        path: Path | None,
        schema: Schema,
        clock: Callable[[], float],
        *,
        tidy: Callable[[apsw.Connection, bool], None] = lambda _connection, _new_day: None,
        read_only: bool = False,
    ) -> None:
        self.note: Note | None = None
        #: Epoch seconds.
        self.now = clock
        #: Device and inode of the file that was last read or written; None without a file, and in memory.
        self.identity: Identity | None = None
        self._path = path
        self._schema = schema
        self._tidy = tidy
        self._read_only = read_only
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._tidied = ""
        if path is None:
            text = f"{schema.remembered} are kept in memory only, until this program ends."
            self.note = Note(schema.code, f"{text[0].upper()}{text[1:]}")

    def close(self) -> None:
        """Close the file. May be called twice; a later call opens it again (what was in memory is gone)."""
        with self._lock:
            if self._connection is not None:
                with suppress(apsw.Error):
                    self._connection.close()
            self._connection = self.identity = None

    def today(self) -> date:
        """The local date."""
        return datetime.fromtimestamp(self.now()).date()

    def read(self, sql: str, bound: Row, decode: Callable[[Row], _Result]) -> list[_Result]:
        """``decode`` of every row; a row that it refuses (TypeError, ValueError) is dropped."""
        with self._lock:
            try:
                connection = self._opened(create=False)
                return _decoded(connection.execute(sql, _bindable(bound)), decode) if connection else []
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
                    connection.execute(sql, _bindable(bound))
                    today = self.today().isoformat()
                    self._tidy(connection, self._tidied != today)
                    self._tidied = today
            except TROUBLE as error:
                if self._path is not None:
                    self._go_on_in_memory(error, self._path)
                    self.write(sql, bound)

    def _opened(self, *, create: bool) -> apsw.Connection | None:
        """The connection; None when there is no file and none is to be made. Raises one of ``TROUBLE``."""
        if self._path is None:
            self._connection = self._connection or self._migrated(apsw.Connection(":memory:"))
            return self._connection
        identity = _identity_of(self._path)
        if identity != self.identity or (self._connection and not self._connection.filename):
            self.close()  # what is written into a file without a name would be lost, and a copy is old
        if self._connection is None:
            identity = _make(self._path) if create else identity
            if identity is not None:
                # Read before the file is opened: when it is replaced in between, the next call notices.
                self._connection, self.identity = self._open(self._path), identity
        return self._connection

    def _go_on_in_memory(self, error: Exception, path: Path) -> None:
        """Use memory for the rest of the run, with a note and all rows that can still be read."""
        schema = self._schema
        until_then = f"Until then, {schema.remembered} are kept in memory only."
        self.note = Note(schema.code, f"{explained(error, path, schema).text} {until_then}", schema.level)
        self._path, self._tidied, self.identity = None, "", None
        file, memory = self._connection, self._migrated(apsw.Connection(":memory:"))
        self._connection = memory
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

    def _open(self, path: Path) -> apsw.Connection:
        """A connection to the file ``path`` with all tables. Raises one of ``TROUBLE``."""
        if not self._read_only:
            with suppress(OSError):
                if path.stat().st_mode & 0o077:
                    path.chmod(0o600)
        # While a new file becomes WAL, SQLite refuses a second process at once, without waiting.
        return retried(partial(self._connected, path), apsw.BusyError, BUSY_TIMEOUT_MS / 1000)

    def _connected(self, path: Path) -> apsw.Connection:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        if self._read_only and connection.readonly("main"):
            # Reading would make companions with its mode, which stay.
            connection.close()
            raise PermissionError(EACCES, "it may not be written to")
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.pragma("synchronous", "normal")
        connection.pragma("query_only", self._read_only)
        if version_of(connection, self._schema) < self._schema.version:
            if self._read_only:
                memory = apsw.Connection(":memory:")
                with closing(connection), memory.backup("main", connection, "main") as backup:
                    backup.step()
                return self._migrated(memory)
            connection.pragma("journal_mode", "wal")
            self._migrated(connection)
        return connection

    def _migrated(self, connection: apsw.Connection) -> apsw.Connection:
        """The connection with its tables up to date, unless another process just did that."""
        with immediate(connection):
            self._schema.migrate(connection)
        return connection


@contextmanager
def immediate(connection: apsw.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, rolled back when the body raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk rolls back by itself; a second ROLLBACK would hide the first error.
        if connection.in_transaction:
            with suppress(apsw.Error):
                connection.execute("ROLLBACK")
        raise


def rows_of(path: Path, schema: Schema, table: str) -> int | Trouble:
    """Check an existing file without changing it: the rows of a table, or why the file cannot be used."""
    try:
        _identity_of(path)
        # Not SQLITE_OPEN_READONLY, which could not remove its own companions again.
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            connection.pragma("query_only", True)
            if connection.readonly("main"):  # SQLite opens it all the same
                raise PermissionError(EACCES, "it may not be written to")
            version = version_of(connection, schema)
            if not version:
                return 0  # made, and not yet filled
            ((answer,),) = connection.execute("PRAGMA integrity_check(1)")
            if answer != "ok":
                raise ValueError(answer)
            found = tables_of(connection)
            with closing(apsw.Connection(":memory:")) as fresh:
                replace(schema, migrations=schema.migrations[:version]).migrate(fresh)
                for name, columns in tables_of(fresh).items():
                    if found.get(name) != columns:
                        there = f"the table {name} has other columns"
                        raise ValueError(there if name in found else f"no table {name}")
            ((number,),) = connection.execute(f"SELECT count(*) FROM {table}")
            return int(number)
    except TROUBLE as error:
        return explained(error, path, schema)


def version_of(connection: apsw.Connection, schema: Schema) -> int:
    """The version of the tables, 0 without any. Raises Trouble for a newer one, or tables of others."""
    # One statement sees one state of the file, also while another process makes its tables.
    ((version, tables),) = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    )
    if version > schema.version:
        text = f"was written by a newer version of this program (schema {version}; this one knows "
        raise Trouble("newer", f"{text}{schema.version}). Update this program, or move that file away")
    if version == 0 and tables:
        raise Trouble("foreign", "is a database of another program. Move that file away")
    return int(version)


def explained(error: Exception, path: Path, schema: Schema) -> Trouble:
    """What is wrong with the file and what to do."""
    if isinstance(error, Trouble):
        return Trouble(error.kind, f"{path} {error}.")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        return Trouble("locked", f"Another program keeps {path} locked. End it, and try again. ({error})")
    if isinstance(error, apsw.FullError) or (isinstance(error, apsw.IOError) and is_full(path.parent)):
        return Trouble("full", disk_full(path))
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, TypeError, ValueError)):
        text = f"Remove it: it holds only {schema.lost}, and a new one is made."
        return Trouble("damaged", f"{path} is damaged. {text} ({error})")
    reason = error.strerror if isinstance(error, OSError) else error
    text = "Check its permissions and its folder's, or set OPENCLAW_MEM_HOME to a folder of yours."
    return Trouble("out-of-reach", f"{path} cannot be used. {text} ({reason})")


def tables_of(connection: apsw.Connection) -> dict[str, list[str]]:
    """The columns of each table of a database."""
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    columns = "SELECT name FROM pragma_table_info(?)"
    return {
        name: [row[0] for row in connection.execute(columns, (name,))]
        for name in [str(row[0]) for row in connection.execute(names)]
    }


def finite(value: float | None) -> float | None:
    """The number, None for one that SQLite cannot compare."""
    return value if value is not None and math.isfinite(value) else None


def _make(path: Path) -> Identity | None:
    """Make an empty file, unless there is one: SQLite would let other users read it for an instant. Its -wal
    and -shm get the same mode."""
    private_folder(path.parent)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    return _identity_of(path)


def _identity_of(path: Path) -> Identity | None:
    """None when there is no file. Raises OSError when that cannot be found out, Trouble for a link."""
    with suppress(FileNotFoundError, NotADirectoryError):
        status = path.lstat()
        if S_ISLNK(status.st_mode):  # what it leads to is not ours
            raise Trouble("foreign", "is a link. Move it away")
        return status.st_dev, status.st_ino
    return None


def _bindable(bound: Row) -> Row:
    """Texts as SQLite can store them: a lone surrogate becomes U+FFFD."""
    return tuple(utf8(value).decode() if isinstance(value, str) else value for value in bound)


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
