"""Passages that the user expects in answers: paths, lines and the query of each, kept for each agent and
workspace. The text of a note is not stored: a line that moves is another passage."""

from __future__ import annotations

import time
from pathlib import Path

from openclaw_mem_engine.model import Expected
from openclaw_mem_engine.state.database import Schema, StateDatabase
from openclaw_mem_engine.state.records import StateRecords

#: The name of the file in the data folder.
EXPECTED_FILE = "expected.sqlite"

_TABLE = """
CREATE TABLE expected(
  agent TEXT NOT NULL, workspace TEXT NOT NULL, path TEXT NOT NULL, line INTEGER NOT NULL,
  query TEXT NOT NULL, PRIMARY KEY(agent, workspace, path, line)
) STRICT, WITHOUT ROWID;
"""
SCHEMA = Schema((_TABLE,), "expected-passages", "info", "expected passages", "which passages are expected")


class ExpectedPassages(StateRecords):
    """Those of one agent and workspace, in ``folder``."""

    def __init__(self, folder: Path, agent: str, workspace: Path) -> None:
        self._file = StateDatabase(folder / EXPECTED_FILE, SCHEMA, time.time)
        self._of = (agent, str(workspace))

    def read(self) -> tuple[Expected, ...]:
        """All, sorted by path and line. Makes no file."""
        return tuple(self.queries())

    def queries(self) -> dict[Expected, str]:
        """All, sorted, with the query at which each was expected ("": of any). Makes no file."""
        sql = "SELECT path, line, query FROM expected WHERE agent = ? AND workspace = ? ORDER BY path, line"
        found = self._file.read(sql, self._of, lambda row: (Expected(str(row[0]), int(row[1])), str(row[2])))
        return dict(found)

    def toggle(self, passage: Expected, query: str = "") -> bool:
        """Expect a passage in answers to this query ("": to any) from now on, or no longer in any; whether it
        is expected now."""
        if passage in self.read():
            sql = "DELETE FROM expected WHERE agent = ? AND workspace = ? AND path = ? AND line = ?"
            self._file.write(sql, (*self._of, *passage))
        else:
            self._file.write("INSERT INTO expected VALUES(?, ?, ?, ?, ?)", (*self._of, *passage, query))
        return passage in self.read()
