"""Repairs of an index. Derived rows are made anew and unusable rows dropped in the file itself; a damaged
file is moved out of the way, and its embeddings saved, each of which cost time and perhaps money.

Notes are not touched, and nothing is embedded: what is missing afterwards is made by the next sync, or by a
rebuild.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator
from contextlib import closing
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.findings import counted
from openclaw_mem_engine.stores.scoring import unit_vector
from openclaw_mem_engine.stores.sqlite.checks import bad_vectors, vector_differs
from openclaw_mem_engine.stores.sqlite.database import Database, rows
from openclaw_mem_engine.stores.sqlite.files import aside_path, remove, set_aside
from openclaw_mem_engine.stores.sqlite.full_text import FullTextRows
from openclaw_mem_engine.stores.sqlite.schema import Meta, new_generation, vector_space
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.stores.sqlite.vectors import VectorRows

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector

#: Everything that ``repair`` can repair.
INDEX_CODES = frozenset(
    """full-text-tables full-text-damaged full-text-missing full-text-orphans full-text-lost full-text-differs
    full-text-behind cache-length cache-values cache-dims cache-names vectors-missing vectors-differ
    vectors-behind vector-orphans vector-dims recall chunks-without-file file-without-chunks
    vectors-forgotten generation synced-at fingerprint-unreadable""".split()
)
_VECTOR_CODES = frozenset(
    "vectors-missing vectors-differ vectors-behind vector-orphans vector-dims recall".split()
)
#: So many vectors are made anew rather than trusted.
_FEW_DOUBTFUL = 50
#: Reading ends after so many seconds, with the rows found by then: a failing disk reads slowly.
SALVAGE_S = 60.0

_HASH = re.compile(r"[0-9a-f]{64}")
_LAST_ROW = 2**62
_TOGETHER = 1_000
#: What reading a damaged page may raise: SQLite's errors, bytes that are no text, impossible lengths.
_DAMAGE = (apsw.Error, UnicodeDecodeError, MemoryError)
# Not "rowid > ?": SQLite begins to search on that row's page, which may be damaged.
_SQL = """SELECT rowid, provider, model, provider_key, hash, dims, embedding FROM embedding_cache
    WHERE rowid >= ? + 1 AND rowid <= ? ORDER BY rowid"""


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
            return _repair(connection, asked, extension=database.extension)
    finally:
        database.close()


def _repair(connection: apsw.Connection, asked: set[str], *, extension: bool) -> list[str]:
    """The steps, in one transaction; what was done."""
    done: list[str] = []
    found = rows(connection, "SELECT value FROM meta WHERE key = 'fingerprint'")
    space = vector_space(found[0][0]) if extension and found else None
    stray = "chunks-without-file" in asked
    cache = any(code.startswith("cache-") for code in asked)
    if cache:
        bad = sorted({row for numbers in bad_vectors(connection).values() for row in numbers})
        connection.executemany("DELETE FROM embedding_cache WHERE rowid = ?", ((n,) for n in bad))
        Meta.set_behind(connection, "vectors_awaited")
        done.append(f"{counted(len(bad), 'cached vector')} dropped; the next sync makes them anew")
    if "vectors-differ" in asked and space is not None:
        done += _drop_doubtful_vectors(connection, space)
    if stray:
        connection.execute(
            """DELETE FROM chunks AS c WHERE NOT EXISTS (
                SELECT 1 FROM files f WHERE f.path = c.path AND f.source = c.source AND f.refusal = '')"""
        )
        done.append(f"{counted(connection.changes(), 'chunk')} of no file dropped")
    if "file-without-chunks" in asked:
        connection.execute(
            """DELETE FROM files AS f WHERE f.refusal = '' AND NOT EXISTS (
                SELECT 1 FROM chunks c WHERE c.path = f.path AND c.source = f.source)"""
        )
        number = connection.changes()
        done.append(f"{counted(number, 'file')} without chunks forgotten; the next sync reads them again")
    if stray or any(code.startswith("full-text-") for code in asked):
        number = FullTextRows.refill(connection)
        done.append(f"the full-text tables were made anew from {counted(number, 'chunk')}")
    if space is not None and (stray or cache or asked & _VECTOR_CODES):
        VectorRows.refill(connection, space)
        done.append("the vec0 table was made anew from the cache")
    if "vectors-forgotten" in asked:
        Meta.set_behind(connection, "vectors_awaited")
        done.append("the next sync looks for chunks without a vector")
    if "synced-at" in asked:
        connection.execute("DELETE FROM meta WHERE key = 'synced_at'")
        done.append("the time of the last sync was forgotten")
    if "fingerprint-unreadable" in asked:
        connection.execute("DELETE FROM meta WHERE key = 'fingerprint'")
        done.append("what the index was built with was forgotten; a rebuild writes it anew")
    if "generation" in asked:
        Meta.put(connection, "generation", str(new_generation()))
        return [*done, "the generation of the index was set anew"]
    Meta.bump(connection)
    return done


def _drop_doubtful_vectors(connection: apsw.Connection, space: Space) -> list[str]:
    """Where cache and vec0 table differ, one of them was damaged, and it is unknown which. A few are made
    anew; where many differ it is the table that was filled wrongly, and the cache was paid for."""
    seqs = [row[0] for row in rows(connection, "SELECT rowid FROM chunks_vec")]
    doubtful = [seq for seq in seqs if vector_differs(connection, space, seq)]
    if not doubtful or len(doubtful) > _FEW_DOUBTFUL:
        return []
    connection.executemany(
        """DELETE FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?
        AND hash = (SELECT hash FROM chunks WHERE seq = ?)""",
        [(*space, seq) for seq in doubtful],
    )
    Meta.set_behind(connection, "vectors_awaited")
    return [f"{counted(len(doubtful), 'vector')} in doubt dropped; the next sync makes them anew"]


# -- a damaged file ---------------------------------------------------------------------------------------


def replace_damaged(index: Path) -> tuple[Path, int]:
    """Move a damaged index to ``NAME.damaged``, and replace it by a new one that holds the embeddings
    which can still be read. Returns where the damaged one is now, and how many embeddings were saved. The
    caller holds the sync lock; may take ``SALVAGE_S`` seconds. Raises IndexUnavailable.

    The embeddings are saved first, into a file of its own: a process that is killed meanwhile leaves a file
    that is removed like that of a killed rebuild, and the damaged index where it is.
    """
    fresh = aside_path(index)
    try:
        saved = save_embeddings(index, fresh)
        damaged = set_aside(index)
        fresh.replace(index)
    finally:
        remove(fresh)
    return damaged, saved


def save_embeddings(damaged: Path, index: Path, seconds: float = SALVAGE_S) -> int:
    """Copy the embeddings that can still be read in a damaged index into another one, which is made when it
    is not there; how many. 0 when nothing of the damaged one can be read. The caller holds the sync lock.

    Only whole vectors are taken: of unit length, for the hash of a text. Raises IndexUnavailable when the
    other index cannot be written.
    """
    saved = 0
    until = time.monotonic() + seconds
    with closing(SqliteIndex(index)) as store:
        found = _whole_rows(damaged, until)
        while batch := sorted(islice(found, _TOGETHER), key=itemgetter(0)):
            for space, of_space in groupby(batch, key=itemgetter(0)):
                vectors = {text_hash: vector for _, text_hash, vector in of_space}
                store.cache_vectors(vectors, space)
                saved += len(vectors)
    return saved


def _whole_rows(damaged: Path, until: float) -> Iterator[tuple[Space, str, Vector | None]]:
    try:
        # For writing, although nothing is written: what is still in the log is not read without.
        connection = apsw.Connection(str(damaged), flags=apsw.SQLITE_OPEN_READWRITE)
        # What was set aside stays as it was.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    except apsw.Error:
        return
    try:
        for _, *values in _readable(connection, 0, _LAST_ROW, until):
            row = _checked(*values)
            if row is not None:
                yield row
    finally:
        connection.close()


def _readable(connection: apsw.Connection, after: int, last: int, until: float) -> Iterator[tuple[Any, ...]]:
    """All rows with ``after`` < rowid <= ``last`` that can be read, as far as there is time."""
    while after < last and time.monotonic() < until:
        try:
            for row in connection.execute(_SQL, (after, last)):
                after = row[0]
                yield row
                if time.monotonic() >= until:
                    return
            return
        except _DAMAGE:
            bad = after
        # Skip ahead, each time twice as far, until something can be read again; then read what was skipped.
        step, before = 1, bad
        while (after := bad + step) < last and not _is_readable(connection, after, last):
            if time.monotonic() >= until:
                return
            before, step = after, 2 * step
        if after < last:
            if after - before > 1:
                yield from _readable(connection, before, after, until)
        elif last < _LAST_ROW and last - before > 1:
            after = before  # readable rows may begin after the last skip
        else:
            return


def _is_readable(connection: apsw.Connection, after: int, last: int) -> bool:
    """Whether the next row can be read, or there is none."""
    try:
        connection.execute(f"{_SQL} LIMIT 1", (after, last)).fetchall()
    except _DAMAGE:
        return False
    return True


def _checked(
    provider: object, model: object, key: object, text_hash: object, dims: object, embedding: object
) -> tuple[Space, str, Vector | None] | None:
    """A row as we write it; None when a damaged page made something else of it."""
    if not (isinstance(provider, str) and isinstance(model, str) and isinstance(key, str)):
        return None
    if not isinstance(text_hash, str) or _HASH.fullmatch(text_hash) is None:
        return None
    space = Space(provider, model, key)
    if embedding is None:
        return (space, text_hash, None) if dims == 0 else None
    vector = unit_vector(embedding, dims)
    return None if vector is None else (space, text_hash, vector)
