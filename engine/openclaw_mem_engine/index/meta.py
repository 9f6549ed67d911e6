"""The facts that an index keeps about itself: what it was built with, what changed, what is behind."""

from __future__ import annotations

from typing import Literal

import apsw

from openclaw_mem_engine.errors import IndexChanged, IndexUnavailable
from openclaw_mem_engine.index.database import Database, rows
from openclaw_mem_engine.index.protocol import SCHEMA_VERSION, Fingerprint

#: Work that a process could not do and that the next one that can does.
Behind = Literal["fts_behind", "vectors_behind", "vectors_awaited"]


class Meta:
    """The rows of the table ``meta``; what is written goes through the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def all(self) -> dict[str, str]:
        """Every row, in one read."""
        return {row[0]: row[1] for row in self._db.read("SELECT key, value FROM meta")}

    def fingerprint(self) -> Fingerprint | None:
        """What the content was built with; None for an index that was never begun. Raises IndexUnavailable
        for one that a newer program wrote."""
        text = self.all().get("fingerprint")
        if text is None:
            return None
        try:
            known = Fingerprint.from_json(text)
            if known.schema > SCHEMA_VERSION:
                raise ValueError(f"schema {known.schema}, this one knows {SCHEMA_VERSION}")
            return known
        except (ValueError, TypeError, KeyError) as error:
            raise IndexUnavailable(
                f"The index {self._db.path} was written by another version of this program ({error}). "
                "Delete it and run `openclaw-mem index`: it is rebuilt from your notes."
            ) from error

    def generation(self) -> int:
        """Grows with every change; two equal values mean equal content."""
        return int(self.all().get("generation", "0"))

    def synced_at(self) -> float | None:
        """Epoch seconds of the last completed sync."""
        value = self.all().get("synced_at")
        return float(value) if value else None

    def is_behind(self, what: Behind) -> bool:
        """Whether such work is waiting."""
        return self.all().get(what) == "yes"

    @staticmethod
    def put(connection: apsw.Connection, key: str, value: str) -> None:
        connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", (key, value))

    @classmethod
    def set_behind(cls, connection: apsw.Connection, what: Behind, behind: bool = True) -> None:
        cls.put(connection, what, "yes" if behind else "no")

    @staticmethod
    def bump(connection: apsw.Connection, counter: Literal["generation", "touches"] = "generation") -> None:
        connection.execute(
            """INSERT INTO meta(key, value) VALUES(?, '1')
            ON CONFLICT(key) DO UPDATE SET value = CAST(value AS INTEGER) + 1""",
            (counter,),
        )

    def expect(self, connection: apsw.Connection, built_with: Fingerprint | None) -> None:
        """Raises IndexChanged when a transaction sees another index than the one that ``built_with`` names;
        None expects nothing."""
        found = rows(connection, "SELECT value FROM meta WHERE key = 'fingerprint'")
        if built_with is not None and (not found or Fingerprint.from_json(found[0][0]) != built_with):
            raise IndexChanged(
                f"Another process has rebuilt the index {self._db.path} with other settings meanwhile. "
                "Nothing of this was written: run it again."
            )

    @staticmethod
    def model(connection: apsw.Connection) -> str:
        """The model that the content was built with, as seen by a transaction."""
        found = rows(connection, "SELECT value FROM meta WHERE key = 'fingerprint'")
        return Fingerprint.from_json(found[0][0]).model if found else ""
