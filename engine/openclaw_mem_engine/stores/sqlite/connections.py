"""Connections to the file of an index, and whether it is one of ours."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import BUSY_TIMEOUT_MS, retried
from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable
from openclaw_mem_engine.stores.sqlite.files import (
    access,
    bytes_of,
    damaged,
    is_of_full_disk,
    is_writable,
    log_of,
    moving,
    shared_of,
    unreachable,
)

if TYPE_CHECKING:
    import apsw

#: The application id of our index files, in the header of a SQLite file at this offset.
APPLICATION_ID, _ID_AT = 0x6F636D31, 68
#: The same of an index in the schema of QMD, where that program leaves 0.
QMD_ID = 0x6F636D71
#: The header of every SQLite file.
_HEADER_BYTES = 100


def refuse_foreign(path: Path, application_id: int | None = None) -> None:
    """Raise IndexUnavailable for a link, for what is no file, and for a SQLite file without this application
    id (None: any of ours). Only reads. What is empty, cut within the header (it can hold nothing), cannot be
    read or is no SQLite file passes: opening it finds out."""
    what = ""
    with suppress(OSError):
        if path.is_symlink():
            what = "is a link, and an index is never made or used through one"
        elif path.exists() and not path.is_file():
            what = f"is a {'folder' if path.is_dir() else 'device or pipe'}, not an index"
        elif path.is_file():
            head = _head(path)
            found = int.from_bytes(head[_ID_AT : _ID_AT + 4], "big")
            ours = found in ((APPLICATION_ID, QMD_ID) if application_id is None else (application_id,))
            if head.startswith(b"SQLite format 3\0") and len(head) == _HEADER_BYTES and not ours:
                what = "is a database that this program did not make"
    if what:
        advice = "move it away, or set OPENCLAW_MEM_HOME to another folder. Nothing was changed"
        raise IndexUnavailable(f"The path of the index {what}: {advice}. To move it: `{moving(path)}`")


def refuse_emptied(path: Path, repair: str = IndexDamaged.repair) -> None:
    """Raise IndexDamaged for an empty file beside the log of an index, which is made after the header of the
    file (see ``begin_file``). SQLite would begin a new database there, and wait until the log is free."""
    with suppress(OSError):
        # The log is looked for first: another process may begin the file and make its log meanwhile.
        if (log_of(path).exists() or shared_of(path).exists()) and path.stat().st_size == 0:
            raise damaged("the file is empty, and its log is not removed", path, repair)


def index_is_there(path: Path) -> bool:
    """Whether there is a file that holds something. Raises IndexUnavailable when it is not ours, and as
    ``size_of``."""
    refuse_foreign(path)
    refuse_emptied(path)
    return bool(size_of(path))


def size_of(path: Path) -> int | None:
    """The size of an index file in bytes; None where there is none. Raises IndexUnavailable when this user
    may not read its folder: that is not the same as "no index yet"."""
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise IndexUnavailable(unreachable(path, error, access(path))) from error


def _head(path: Path) -> bytes:
    """The header of a file, read by SQLite: a file that Python closes loses all locks of this process on it
    (https://sqlite.org/howtocorrupt.html), also those of an index that is open here. Raises OSError."""
    import apsw

    try:
        file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READONLY, 0])
    except apsw.Error as error:
        raise OSError(str(error)) from error
    try:
        return file.xRead(_HEADER_BYTES, 0)
    finally:
        file.xClose()


def uri_of(path: Path) -> str:
    """``file:`` URI of an absolute path. In Python 3.14 ``Path.as_uri`` imports urllib.request, and TLS."""
    from urllib.parse import quote

    return f"file:///{quote(os.fsencode(path.as_posix().lstrip('/')), safe='/:')}"


def connect_existing(path: Path) -> apsw.Connection:
    """A connection to a file that is there. Not READONLY unless the file may not be written: that could
    neither read the log of a killed process nor remove its companions."""
    import apsw

    if not is_writable(path):
        return connect_read_only(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.pragma("application_id")  # the first read makes the log
    except apsw.Error as error:
        refused = isinstance(error, (apsw.CantOpenError, apsw.ReadOnlyError))
        if refused or is_of_full_disk(error, path):
            connection.close()
            return connect_read_only(path)
        # Else damage: the first read of the caller reports it.
    return connection


def connect_read_only(path: Path) -> apsw.Connection:
    """A connection that makes no files. Where there is no log, SQLite is promised that nothing changes, or it
    would make one."""
    import apsw

    mode = "mode=ro" if bytes_of([log_of(path)]) else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{uri_of(path.resolve())}?{mode}", flags=flags)


def load_extension(connection: apsw.Connection) -> str:
    """Load sqlite-vec; why not, or "" when it is there. Its package is not imported: that would import numpy,
    which keyword search and ``status`` can do without."""
    import apsw

    found = find_spec("sqlite_vec")
    if found is None or not found.submodule_search_locations:
        return "the package sqlite-vec is not installed"
    try:
        connection.enable_load_extension(True)
        connection.load_extension(str(Path(found.submodule_search_locations[0]) / "vec0"))
        connection.enable_load_extension(False)
    except (AttributeError, apsw.Error) as error:
        return str(error) or type(error).__name__
    return ""


def set_pragma(connection: apsw.Connection, name: str, value: str | int) -> None:
    """The first pragma of a connection, and the one that makes a file WAL: while another process begins the
    file, SQLite refuses these at once, without waiting."""
    import apsw

    retried(partial(connection.pragma, name, value), apsw.BusyError, BUSY_TIMEOUT_MS / 1000)


def begin_file(connection: apsw.Connection, application_id: int, page_bytes: int | None) -> None:
    """Make a new file one of ours, unless it is already. Raises BusyError at once where another process
    begins it: one that waited with a lock would hold up the others.

    In one step: what a kill or a full disk leaves without the id is not known as ours. And before the
    write-ahead log: the id has to be in the file itself, read without SQLite."""
    import apsw

    connection.set_busy_timeout(0)
    try:
        if connection.pragma("application_id") == application_id:
            return
        if page_bytes is not None:
            connection.pragma("page_size", page_bytes)
        connection.execute("BEGIN")
        if page_bytes is not None:
            connection.pragma("auto_vacuum", "incremental")  # free pages can be given back
        connection.pragma("application_id", application_id)
        connection.execute("COMMIT")
    finally:
        # All of it: a savepoint that is rolled back would leave the page without the id to be written.
        with suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)


@contextmanager
def one_state(connection: apsw.Connection) -> Iterator[None]:
    """What a connection reads in the body is one state, which holds up no writer: readers of a write-ahead
    log never do. Inside another body it is the same one."""
    import apsw

    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        with suppress(apsw.Error):  # closed meanwhile
            connection.execute("ROLLBACK")
