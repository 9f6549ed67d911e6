"""The SQLite file behind ``records.py``: its tables, and how long what is in them is kept."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING

from openclaw_mem_engine.state.side_file import Row, SideFile
from openclaw_mem_engine.state.side_layout import Layout

if TYPE_CHECKING:
    import apsw

__all__ = ["KEEP_DAYS", "KEEP_JOBS_DAYS", "LAYOUT", "SCHEMA_VERSION", "RecordsFile", "Row"]

#: Written as SQLite's user_version.
SCHEMA_VERSION = 1
#: What is kept at most, in days. No provider keeps the outcome of a batch job longer than a month.
KEEP_DAYS = 400
KEEP_JOBS_DAYS = 60

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
#: The tables of the file.
LAYOUT = Layout(
    SCHEMA_VERSION,
    _SCHEMA,
    {"meta": 2, "usage": 7, "health": 9, "item_caps": 3, "jobs": 6},
    "provider-records",
    "warning",
    "usage and failures of embedding providers",
    "counts, times and the state of batch jobs",
)


class RecordsFile(SideFile):
    """Tables in the file ``path``, or in memory without one (see ``SideFile``). ``clock`` is in seconds since
    1970."""

    def __init__(self, path: Path | None, clock: Callable[[], float], *, read_only: bool = False) -> None:
        #: Goes into a file that this process makes; what a file holds is in its table ``meta``.
        self.salt = token_hex(16)
        first = "INSERT INTO meta VALUES('salt', ?)", (self.salt,)
        super().__init__(path, LAYOUT, clock, first, read_only=read_only)

    def tidy(self, connection: apsw.Connection, *, new_day: bool) -> None:
        if not new_day:
            return
        limit = (self.today() - timedelta(days=KEEP_DAYS)).isoformat()
        for table in ("usage", "health", "item_caps"):
            connection.execute(f"DELETE FROM {table} WHERE day < ?", (limit,))
        connection.execute("DELETE FROM jobs WHERE submitted_at < ?", (self.now() - KEEP_JOBS_DAYS * 86_400,))
