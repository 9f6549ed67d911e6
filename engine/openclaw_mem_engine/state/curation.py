"""What curation remembers of one agent and workspace: rejected candidates, and the searches of the command
``tool memory_search``, which are in no transcript."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.state.database import Row, Schema, StateDatabase
from openclaw_mem_engine.state.records import StateRecords

if TYPE_CHECKING:
    import apsw

#: The name of the file in the data folder.
CURATION_FILE = "curation.sqlite"
#: Searches that are kept, of all agents and workspaces; older ones are deleted.
KEEP_SEARCHES = 1_000

#: Path, first and last line of what was returned.
Returned = tuple[str, int, int]

_TABLES = """
CREATE TABLE rejected(
  agent TEXT NOT NULL, workspace TEXT NOT NULL, candidate TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY(agent, workspace, candidate)
) STRICT, WITHOUT ROWID;
CREATE TABLE searches(
  id INTEGER PRIMARY KEY, agent TEXT NOT NULL, workspace TEXT NOT NULL, at REAL NOT NULL,
  query TEXT NOT NULL, returned TEXT NOT NULL
) STRICT;
"""
SCHEMA = Schema(
    (_TABLES,),
    "curation-state",
    "info",
    "rejected candidates and the searches of `tool`",
    "which candidates were rejected, and what `tool memory_search` returned",
)


class CurationState(StateRecords):
    """That of one agent and workspace, in ``folder``. ``clock`` gives epoch seconds."""

    def __init__(self, folder: Path, agent: str, workspace: Path, clock: Callable[[], float]) -> None:
        self._file = StateDatabase(folder / CURATION_FILE, SCHEMA, clock, tidy=_tidy)
        self._of = (agent, str(workspace))

    def rejected(self) -> set[str]:
        """Ids of rejected candidates."""
        sql = "SELECT candidate FROM rejected WHERE agent = ? AND workspace = ?"
        return set(self._file.read(sql, self._of, lambda row: str(row[0])))

    def reject(self, candidate: str) -> None:
        """Remember that a candidate was rejected."""
        values = (*self._of, candidate, self._file.now())
        self._file.write("INSERT OR REPLACE INTO rejected VALUES(?, ?, ?, ?)", values)

    def restore(self, candidate: str) -> None:
        """Forget that a candidate was rejected."""
        sql = "DELETE FROM rejected WHERE agent = ? AND workspace = ? AND candidate = ?"
        self._file.write(sql, (*self._of, candidate))

    def add_search(self, query: str, returned: Iterable[Returned]) -> None:
        """Keep a search, with credentials in its query masked; nothing of what the notes say is kept."""
        values = (*self._of, self._file.now(), redact(query)[:1000], json.dumps(list(returned)))
        sql = "INSERT INTO searches(agent, workspace, at, query, returned) VALUES(?, ?, ?, ?, ?)"
        self._file.write(sql, values)

    def searches(self) -> list[tuple[float, str, tuple[Returned, ...]]]:
        """Time (epoch seconds), query and what was returned, oldest first."""
        sql = "SELECT at, query, returned FROM searches WHERE agent = ? AND workspace = ? ORDER BY id"
        return self._file.read(sql, self._of, _search)


def _search(row: Row) -> tuple[float, str, tuple[Returned, ...]]:
    returned = tuple((str(path), int(first), int(last)) for path, first, last in json.loads(row[2]))
    return float(row[0]), str(row[1]), returned


def _tidy(connection: apsw.Connection, _new_day: bool) -> None:
    sql = "DELETE FROM searches WHERE id <= (SELECT max(id) FROM searches) - ?"
    connection.execute(sql, (KEEP_SEARCHES,))
