"""What a side file holds, whether it can be used, and what to do where it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path
from typing import Literal, TypeAlias

import apsw

#: How long one process waits for another, milliseconds.
BUSY_TIMEOUT_MS = 5_000


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


TroubleKind: TypeAlias = Literal["damaged", "newer", "foreign", "locked", "full", "out-of-reach"]


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a file cannot be used. ``text`` says it, and what to do."""

    kind: TroubleKind
    text: str


class Unusable(Exception):
    """The file is whole, and not one that this program may write to: it is ``kind``."""

    def __init__(self, kind: TroubleKind, text: str) -> None:
        super().__init__(text)
        self.kind = kind


#: What a file that is damaged, locked, foreign or out of reach may raise, in SQLite or while decoding rows.
TROUBLE = (apsw.Error, OSError, TypeError, ValueError, Unusable)


def rows_of(path: Path, layout: Layout, table: str) -> int | Trouble:
    """Look at all of a file that is there, and change nothing: the number of rows of a table, or why the file
    cannot be used."""
    try:
        # Not SQLITE_OPEN_READONLY, which could not take its own companions away again.
        with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            connection.pragma("query_only", True)
            if connection.readonly("main"):  # SQLite opens it all the same
                raise PermissionError(EACCES, "it may not be written to")
            if version_of(connection, layout) == 0:
                return 0  # made, and not yet filled
            ((said,),) = connection.execute("PRAGMA integrity_check(1)")
            if said != "ok":
                raise ValueError(said)
            with closing(apsw.Connection(":memory:")) as fresh:
                fresh.execute(layout.schema)
                for name in layout.tables:
                    if (found := _columns(connection, name)) != _columns(fresh, name):
                        raise ValueError(
                            f"the table {name} has other columns" if found else f"no table {name}"
                        )
            ((number,),) = connection.execute(f"SELECT count(*) FROM {table}")
            return int(number)
    except TROUBLE as error:
        return explained(error, path, layout)


def _columns(connection: apsw.Connection, table: str) -> list[str]:
    return [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))]


def version_of(connection: apsw.Connection, layout: Layout) -> int:
    """The version of the tables, 0 when there are none yet. Raises Unusable for those of others."""
    # One statement sees one state of the file, also while another process makes its tables.
    ((version, tables),) = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    )
    if version > layout.version:
        raise Unusable(
            "newer",
            f"was written by a newer version of this program (schema {version}; this one knows "
            f"{layout.version}). Update this program, or move that file away",
        )
    if version == 0 and tables:
        raise Unusable("foreign", "is a database of something else. Move that file away")
    return int(version)


def explained(error: Exception, path: Path, layout: Layout) -> Trouble:
    """What is wrong with the file and what to do."""
    if isinstance(error, Unusable):
        return Trouble(error.kind, f"{path} {error}.")
    if isinstance(error, (apsw.BusyError, apsw.LockedError)):
        told = f"Another program keeps {path} locked ({error}). End it, and start this one again."
        return Trouble("locked", told)
    if isinstance(error, apsw.FullError):
        told = f"The disk that holds {path} is full. Free some space."
        return Trouble("full", told)
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, TypeError, ValueError)):
        told = f"{path} is damaged ({error}). Remove it: it holds only {layout.lost}, and a new one is made."
        return Trouble("damaged", told)
    said = error.strerror if isinstance(error, OSError) else error
    told = (
        f"{path} cannot be used ({said}). Check its permissions and its folder's, or set "
        "OPENCLAW_MEM_HOME to a folder of yours."
    )
    return Trouble("out-of-reach", told)
