"""One state of an index file, opened to be looked at: nothing is made, brought up to date or repaired."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import FileState, Fingerprint
from openclaw_mem_engine.stores.sqlite.database import (
    BUSY_TIMEOUT_MS,
    MMAP_BYTES,
    Bound,
    explained,
    extension_path,
    rows,
)
from openclaw_mem_engine.stores.sqlite.schema import FULL_TEXT_TABLES, time_of

_DIMS = re.compile(r"FLOAT\[(\d+)\]", re.IGNORECASE)
#: How many steps of SQLite's machine lie between two looks at the cancel token.
_STEPS = 50_000


class Snapshot:
    """A read transaction over the index ``path``. Opening an index for use already repairs some of it, so
    this does not; and what other processes write meanwhile is not seen, so that no check meets a half of it.

    Raises IndexDamaged or IndexUnavailable when not even that is possible, and from every read Cancelled
    when ``cancel`` is set.
    """

    def __init__(self, path: Path, cancel: CancelToken | None = None, *, extension: bool = True) -> None:
        """``extension`` asks for sqlite-vec; ``extension_error`` tells why it is not there."""
        self.path = path
        self.extension_error = "" if extension else "switched off by configuration"
        with explained(path):
            # Not SQLITE_OPEN_READONLY, which could neither read the log of a process that was killed nor
            # take its own companions away again.
            self.connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            self._prepare(cancel)
            with explained(path):
                self.connection.execute("BEGIN")
                self.tables = {
                    name: sql or "" for name, sql in self.rows("SELECT name, sql FROM sqlite_schema")
                }
                self.meta = self._meta()
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self, cancel: CancelToken | None) -> None:
        connection = self.connection
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        if not self.extension_error:
            try:
                connection.enable_load_extension(True)
                connection.load_extension(extension_path())
                connection.enable_load_extension(False)
            except (ImportError, AttributeError, apsw.Error) as error:
                self.extension_error = str(error) or type(error).__name__
        with explained(self.path):
            connection.pragma("mmap_size", MMAP_BYTES)
            for table in FULL_TEXT_TABLES.values():
                with suppress(apsw.SQLError):  # no FTS5
                    connection.execute(
                        f"CREATE VIRTUAL TABLE temp.{table}_words USING fts5vocab(main, {table}, instance)"
                    )
            connection.pragma("query_only", True)
        if cancel is not None:
            connection.set_progress_handler(cancel.is_set, _STEPS)

    def _meta(self) -> dict[str, str]:
        if "meta" not in self.tables:
            return {}
        return {str(key): str(value) for key, value in self.rows("SELECT key, value FROM meta")}

    # -- reading ----------------------------------------------------------------------------------------

    def rows(self, sql: str, bound: Bound = ()) -> list[Bound]:
        """All rows of one query. Raises apsw.Error."""
        return rows(self.connection, sql, bound)

    def each(self, sql: str, bound: Bound = ()) -> Iterator[Bound]:
        """The same one by one."""
        return iter(self.connection.execute(sql, bound))

    def number(self, sql: str, bound: Bound = ()) -> int:
        """The one number that a query gives."""
        return int(self.rows(sql, bound)[0][0])

    # -- facts ------------------------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint | None:
        """What the content was built with; None when the index does not say. Raises ValueError, TypeError or
        KeyError for what is no fingerprint of ours."""
        text = self.meta.get("fingerprint")
        return None if text is None else Fingerprint.from_json(text)

    def space(self) -> Space | None:
        """The primary vector space; None when it has none, or none that can be read."""
        with suppress(ValueError, TypeError, KeyError):
            known = self.fingerprint()
            return known.space if known is not None and known.provider != "none" else None
        return None

    def files(self) -> dict[str, FileState]:
        """Known files by path."""
        sql = "SELECT path, source, hash, mtime_ns, size, inode, checked_ns, refusal FROM files"
        return {state.path: state for state in map(FileState._make, self.rows(sql))}

    def vector_table_dims(self) -> int | None:
        """The length of vectors that the vec0 table takes; None when there is no such table."""
        found = _DIMS.search(self.tables.get("chunks_vec", ""))
        return int(found[1]) if found else None

    @property
    def synced_at(self) -> float | None:
        """Epoch seconds of the last completed sync, None when there was none or it is no number."""
        with suppress(ValueError, KeyError):
            return min(time_of(self.meta["synced_at"]), time.time() + 1e9)
        return None

    def close(self) -> None:
        """End the transaction and close the file."""
        with suppress(apsw.Error):
            self.connection.set_progress_handler(None)
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        with suppress(apsw.Error):
            self.connection.close()
