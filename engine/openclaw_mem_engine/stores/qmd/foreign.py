"""Reading an index of the program QMD itself, of which nothing is changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import apsw

from openclaw_mem_engine.cancellation import BUSY_TIMEOUT_MS
from openclaw_mem_engine.errors import IndexLocked, IndexUnavailable
from openclaw_mem_engine.stores.qmd.schema import (
    ADVICE,
    NEEDED,
    SCHEMA_VERSION,
    VIEWS,
    tables_of,
)
from openclaw_mem_engine.stores.sqlite.connections import connect_read_only
from openclaw_mem_engine.stores.sqlite.database import Bound, explained, rows
from openclaw_mem_engine.stores.sqlite.files import log_of

#: How often a query is repeated because the file changed meanwhile.
_TRIES = 5


class ForeignDatabase:
    """An index of QMD (``is_theirs``) or of ours, read only: nothing is written to it, and no file is made
    beside it. The methods are what readers use of ``Database``; threads wait for each other."""

    advice = ADVICE
    extension = False
    extension_error = "the index is read only"

    def __init__(self, path: Path, *, is_theirs: bool = True) -> None:
        self.path = path
        self._is_theirs = is_theirs
        self._lock = threading.RLock()
        self._connection: apsw.Connection | None = None
        self._state: tuple[tuple[int, ...], ...] = ()
        self._is_closed = False
        with explained(path, ADVICE):
            missing = NEEDED - tables_of(self._opened()).keys()
            version = self._opened().pragma("user_version")
        if missing:
            raise IndexUnavailable(
                f"{path} is not an index of QMD: it has no table {', '.join(sorted(missing))}."
            )
        if version > SCHEMA_VERSION:
            raise IndexUnavailable(
                f"A newer QMD wrote the index {path} (its schema is {version}, not {SCHEMA_VERSION}). It is "
                "not read here: use the program qmd for it (setting memory.qmd.command)."
            )

    def _opened(self) -> apsw.Connection:
        """The connection to the file as it is now."""
        if self._is_closed:
            raise IndexUnavailable(f"The index {self.path} is closed: open it again.")
        now = self._on_disk()
        if self._connection is None or now != self._state:
            if self._connection is not None:
                self._connection.close()
            self._connection, self._state = connect_read_only(self.path), now
            self._connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            self._connection.execute(VIEWS)
        return self._connection

    def _on_disk(self) -> tuple[tuple[int, ...], ...]:
        """What changes when another program writes: the file, and whether there is a log. With a log SQLite
        itself gives each query one state."""
        log = log_of(self.path)
        try:
            found = self.path.stat()
        except OSError as error:
            raise IndexUnavailable(f"The index {self.path} cannot be read: {error.strerror}.") from error
        if log.exists():
            return ((found.st_dev, found.st_ino),)
        return ((found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns), (0,))

    def read(self, sql: str, bound: Bound = ()) -> list[Bound]:
        """All rows of one query, of one state of the file."""
        with self._lock:
            for _ in range(_TRIES):
                with explained(self.path, ADVICE):
                    connection = self._opened()
                    failed: apsw.Error | None = None
                    try:
                        found = rows(connection, sql, bound)
                    except apsw.Error as error:
                        failed = error
                    is_same = self._on_disk() == self._state
                    if len(self._state) == 1:  # else the log would outlast the program that writes it
                        connection.close()
                        self._connection = None
                    if is_same:
                        if failed is not None:
                            raise failed
                        return found
        raise IndexLocked(
            f"Another program keeps writing to the index {self.path}. Try again when it is done."
        )

    search = read

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """Refused."""
        self.refuse()
        yield

    def refuse(self) -> NoReturn:
        """Raise IndexUnavailable: this index is only read."""
        why = "was opened to be read only"
        if self._is_theirs:
            why = "was made by the program qmd and is only read here: change it with that program"
        raise IndexUnavailable(f"The index {self.path} {why}. Nothing of it was changed.")

    def interrupt(self) -> None:
        """Stop the query that runs at this moment; it raises Cancelled."""
        if (connection := self._connection) is not None:
            connection.interrupt()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()
