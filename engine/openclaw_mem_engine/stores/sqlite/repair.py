"""Repairs of an index from its own content: derived rows are made anew, unusable rows are dropped.

Notes are not touched, and nothing is embedded: what is missing afterwards is made by the next sync.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

import apsw

from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import Fingerprint
from openclaw_mem_engine.stores.findings import counted
from openclaw_mem_engine.stores.sqlite.database import Database, rows
from openclaw_mem_engine.stores.sqlite.derived_checks import bad_vectors, vector_differs
from openclaw_mem_engine.stores.sqlite.full_text import FullTextRows
from openclaw_mem_engine.stores.sqlite.schema import FULL_TEXT, FULL_TEXT_TABLES, Meta, new_generation
from openclaw_mem_engine.stores.sqlite.vectors import VectorRows

_FULL_TEXT_TROUBLE = {"tables", "damaged", "missing", "orphans", "lost", "differs", "behind"}
FULL_TEXT_CODES = frozenset(f"full-text-{what}" for what in _FULL_TEXT_TROUBLE)
CACHE_CODES = frozenset({"cache-length", "cache-values", "cache-dims", "cache-names"})
VECTOR_CODES = frozenset(
    {"vectors-missing", "vectors-differ", "vectors-behind", "vector-orphans", "vector-dims", "recall"}
)
#: So many vectors are made anew rather than trusted.
FEW_DOUBTFUL = 50
#: Everything that ``repair`` can repair.
INDEX_CODES = (
    FULL_TEXT_CODES
    | CACHE_CODES
    | VECTOR_CODES
    | {"chunks-without-file", "file-without-chunks", "vectors-forgotten", "generation", "synced-at"}
    | {"fingerprint-unreadable"}
)


def repair(path: Path, codes: Collection[str], *, extension: bool = True) -> list[str]:
    """Repair the index file for these codes of findings, in one transaction; what was done, in words.

    ``extension`` asks for sqlite-vec. The caller keeps other writers away. Raises IndexUnavailable; nothing
    has changed then.
    """
    asked = set(codes) & INDEX_CODES
    if not asked:
        return []
    database = Database(path, extension=extension)
    try:
        with database.transaction() as connection:
            return _Repair(database, connection).run(asked)
    finally:
        database.close()


class _Repair:
    """Steps that share a transaction."""

    def __init__(self, database: Database, connection: apsw.Connection) -> None:
        self._db = database
        self._connection = connection
        self._done: list[str] = []

    def run(self, asked: set[str]) -> list[str]:
        stray = "chunks-without-file" in asked
        steps: list[tuple[bool, Callable[[], None]]] = [
            (bool(asked & CACHE_CODES), self._drop_bad_vectors),
            ("vectors-differ" in asked, self._drop_doubtful_vectors),
            (stray, self._drop_stray_chunks),
            ("file-without-chunks" in asked, self._forget_empty_files),
            (stray or bool(asked & FULL_TEXT_CODES), self._refill_full_text),
            (stray or bool(asked & (VECTOR_CODES | CACHE_CODES)), self._refill_vectors),
            ("vectors-forgotten" in asked, self._await_vectors),
            ("synced-at" in asked, self._forget_sync),
            ("fingerprint-unreadable" in asked, self._forget_fingerprint),
        ]
        for wanted, step in steps:
            if wanted:
                step()
        if "generation" in asked:
            Meta.put(self._connection, "generation", str(new_generation()))
            self._done.append("the generation of the index was set anew")
        else:
            Meta.bump(self._connection)
        return self._done

    def _drop_bad_vectors(self) -> None:
        bad = sorted({row for numbers in bad_vectors(self._connection).values() for row in numbers})
        self._connection.executemany("DELETE FROM embedding_cache WHERE rowid = ?", ((n,) for n in bad))
        Meta.set_behind(self._connection, "vectors_awaited")
        self._done.append(f"{counted(len(bad), 'cached vector')} dropped; the next sync makes them anew")

    def _drop_doubtful_vectors(self) -> None:
        """Where cache and vec0 table differ, one of them was damaged, and it is unknown which. A few are made
        anew; where many differ it is the table that was filled wrongly, and the cache was paid for."""
        space = self._space()
        if space is None or not self._db.extension:
            return
        seqs = [row[0] for row in rows(self._connection, "SELECT rowid FROM chunks_vec")]
        doubtful = [seq for seq in seqs if vector_differs(self._connection, space, seq)]
        if not doubtful or len(doubtful) > FEW_DOUBTFUL:
            return
        self._connection.executemany(
            """DELETE FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?
            AND hash = (SELECT hash FROM chunks WHERE seq = ?)""",
            [(*space, seq) for seq in doubtful],
        )
        Meta.set_behind(self._connection, "vectors_awaited")
        self._done.append(
            f"{counted(len(doubtful), 'vector')} in doubt dropped; the next sync makes them anew"
        )

    def _space(self) -> Space | None:
        found = rows(self._connection, "SELECT value FROM meta WHERE key = 'fingerprint'")
        with suppress(ValueError, TypeError, KeyError, IndexError):
            known = Fingerprint.from_json(found[0][0])
            return known.space if known.provider != "none" else None
        return None

    def _drop_stray_chunks(self) -> None:
        self._connection.execute(
            """DELETE FROM chunks AS c WHERE NOT EXISTS (
                SELECT 1 FROM files f WHERE f.path = c.path AND f.source = c.source AND f.refusal = '')"""
        )
        self._done.append(f"{counted(self._connection.changes(), 'chunk')} of no file dropped")

    def _forget_empty_files(self) -> None:
        self._connection.execute(
            """DELETE FROM files AS f WHERE f.refusal = '' AND NOT EXISTS (
                SELECT 1 FROM chunks c WHERE c.path = f.path AND c.source = f.source)"""
        )
        number = self._connection.changes()
        self._done.append(
            f"{counted(number, 'file')} without chunks forgotten; the next sync reads them again"
        )

    def _refill_full_text(self) -> None:
        for table in ("chunks_terms", *FULL_TEXT_TABLES.values()):
            self._connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in FULL_TEXT:
            self._connection.execute(statement)
        texts = rows(self._connection, "SELECT seq, text FROM chunks")
        FullTextRows(self._db).insert(self._connection, texts)
        Meta.set_behind(self._connection, "fts_behind", False)
        self._done.append(f"the full-text tables were made anew from {counted(len(texts), 'chunk')}")

    def _refill_vectors(self) -> None:
        space = self._space()
        if space is None or not self._db.extension:
            return
        VectorRows(self._db, resident=False).refill(self._connection, space)
        Meta.set_behind(self._connection, "vectors_behind", False)
        self._done.append("the vec0 table was made anew from the cache")

    def _await_vectors(self) -> None:
        Meta.set_behind(self._connection, "vectors_awaited")
        self._done.append("the next sync looks for chunks without a vector")

    def _forget_sync(self) -> None:
        self._connection.execute("DELETE FROM meta WHERE key = 'synced_at'")
        self._done.append("the time of the last sync was forgotten")

    def _forget_fingerprint(self) -> None:
        self._connection.execute("DELETE FROM meta WHERE key = 'fingerprint'")
        self._done.append("what the index was built with was forgotten; a rebuild writes it anew")
