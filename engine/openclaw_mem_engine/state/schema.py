"""What a state database holds, its numbered migrations, and what to do with a file that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

#: How long one process waits for another, milliseconds.
BUSY_TIMEOUT_MS = 5_000

TroubleKind: TypeAlias = Literal["damaged", "newer", "foreign", "locked", "full", "out-of-reach"]


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
        """Run the migrations that the database lacks, in the caller's transaction. Raises Unusable."""
        for number in range(version_of(connection, self), self.version):
            connection.execute(self.migrations[number])
            connection.pragma("user_version", number + 1)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a file cannot be used. ``text`` says it, and what to do."""

    kind: TroubleKind
    text: str


class Unusable(Exception):
    """The file is whole, but this program may not write to it: it is ``kind``."""

    def __init__(self, kind: TroubleKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


#: What a file that is damaged, locked, foreign or out of reach may raise, in SQLite or while decoding rows.
TROUBLE = (apsw.Error, OSError, TypeError, ValueError, Unusable)


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
    """Check an existing file without changing it: the number of rows of a table, or why the file cannot be
    used."""
    try:
        # Not SQLITE_OPEN_READONLY, which could not remove its own companions again.
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            connection.pragma("query_only", True)
            if connection.readonly("main"):  # SQLite opens it all the same
                raise PermissionError(EACCES, "it may not be written to")
            if version_of(connection, schema) < schema.version:
                return 0  # made, and not yet filled
            ((answer,),) = connection.execute("PRAGMA integrity_check(1)")
            if answer != "ok":
                raise ValueError(answer)
            found = tables_of(connection)
            with closing(apsw.Connection(":memory:")) as fresh:
                schema.migrate(fresh)
                for name, columns in tables_of(fresh).items():
                    if found.get(name) != columns:
                        raise ValueError(
                            f"the table {name} has other columns" if name in found else f"no table {name}"
                        )
            ((number,),) = connection.execute(f"SELECT count(*) FROM {table}")
            return int(number)
    except TROUBLE as error:
        return explained(error, path, schema)


def version_of(connection: apsw.Connection, schema: Schema) -> int:
    """The version of the tables, 0 when there are none yet. Raises Unusable for a newer version, and for
    tables of another program."""
    # One statement sees one state of the file, also while another process makes its tables.
    ((version, tables),) = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    )
    if version > schema.version:
        raise Unusable(
            "newer",
            f"was written by a newer version of this program (schema {version}; this one knows "
            f"{schema.version}). Update this program, or move that file away",
        )
    if version == 0 and tables:
        raise Unusable("foreign", "is a database of something else. Move that file away")
    return int(version)


def explained(error: Exception, path: Path, schema: Schema) -> Trouble:
    """What is wrong with the file and what to do."""
    if isinstance(error, Unusable):
        return Trouble(error.kind, f"{path} {error}.")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        text = f"Another program keeps {path} locked ({error}). End it, and start this one again."
        return Trouble("locked", text)
    if isinstance(error, apsw.FullError):
        return Trouble("full", f"The disk that holds {path} is full. Free some space.")
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, TypeError, ValueError)):
        text = f"{path} is damaged ({error}). Remove it: it holds only {schema.lost}, and a new one is made."
        return Trouble("damaged", text)
    reason = error.strerror if isinstance(error, OSError) else error
    text = (
        f"{path} cannot be used ({reason}). Check its permissions and its folder's, or set "
        "OPENCLAW_MEM_HOME to a folder of yours."
    )
    return Trouble("out-of-reach", text)


def tables_of(connection: apsw.Connection) -> dict[str, list[str]]:
    """The columns of each table of a database."""
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    columns = "SELECT name FROM pragma_table_info(?)"
    return {
        name: [row[0] for row in connection.execute(columns, (name,))]
        for name in [str(row[0]) for row in connection.execute(names)]
    }
