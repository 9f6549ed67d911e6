"""A damaged index: moved out of the way, and its embeddings saved, each of which cost time and perhaps money.

Everything else is rebuilt from the notes within seconds. The rows on a page that cannot be read are lost; all
others are read, row by row around the damage.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import apsw

from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.sqlite.files import ENDINGS, aside_path, remove
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector

#: Reading ends after so many seconds, with the rows found by then: a failing disk reads slowly.
SALVAGE_S = 60.0

_HASH = re.compile(r"[0-9a-f]{64}")
#: How far from 1 the length of a float32 unit vector may be. Bytes of a damaged page are not that close.
_TOLERANCE = 1e-4
_LAST_ROW = 2**62
_TOGETHER = 1_000
#: What reading a damaged page may raise: SQLite's errors, bytes that are no text, impossible lengths.
_DAMAGE = (apsw.Error, UnicodeDecodeError, MemoryError)
# Not "rowid > ?": SQLite begins to search on that row's page, which may be damaged.
_SQL = """SELECT rowid, provider, model, provider_key, hash, dims, embedding FROM embedding_cache
    WHERE rowid >= ? + 1 AND rowid <= ? ORDER BY rowid"""


class _Row(NamedTuple):
    space: Space
    hash: str
    vector: Vector | None


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


def set_aside(index: Path) -> Path:
    """Move a damaged index (with its companions) to ``NAME.damaged``, over an older one; returns it."""
    damaged = index.with_name(f"{index.name}.damaged")
    remove(damaged)
    for ending in ENDINGS:
        companion = index.with_name(index.name + ending)
        with suppress(FileNotFoundError):
            companion.replace(damaged.with_name(damaged.name + ending))
    return damaged


def set_aside_files(index: Path) -> list[Path]:
    """The damaged index that ``set_aside`` has moved away, with its companions; none when there is none."""
    names = (f"{index.name}.damaged{ending}" for ending in ENDINGS)
    with suppress(OSError):
        return [path for path in map(index.with_name, names) if path.exists()]
    return []


def save_embeddings(damaged: Path, index: Path, seconds: float = SALVAGE_S) -> int:
    """Copy the embeddings that can still be read in a damaged index into another one, which is made when it
    is not there; how many. 0 when nothing of the damaged one can be read. The caller holds the sync lock.

    Only whole vectors are taken: of unit length, for the hash of a text. Raises IndexUnavailable when the
    other index cannot be written.
    """
    saved = 0
    until = time.monotonic() + seconds
    with closing(SqliteIndex(index)) as store:
        for batch in _batches(_whole_rows(damaged, until)):
            for space, rows in groupby(sorted(batch, key=itemgetter(0)), key=itemgetter(0)):
                vectors = {row.hash: row.vector for row in rows}
                store.cache_vectors(vectors, space)
                saved += len(vectors)
    return saved


def _batches(rows: Iterator[_Row]) -> Iterator[list[_Row]]:
    batch: list[_Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _TOGETHER:
            yield batch
            batch = []
    if batch:
        yield batch


def _whole_rows(damaged: Path, until: float) -> Iterator[_Row]:
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
) -> _Row | None:
    """A row as we write it; None when a damaged page made something else of it."""
    import numpy as np

    if not (isinstance(provider, str) and isinstance(model, str) and isinstance(key, str)):
        return None
    if not isinstance(text_hash, str) or _HASH.fullmatch(text_hash) is None:
        return None
    space = Space(provider, model, key)
    if embedding is None:
        return _Row(space, text_hash, None) if dims == 0 else None
    if not (isinstance(embedding, bytes) and isinstance(dims, int) and dims > 0):
        return None
    if len(embedding) != 4 * dims:
        return None
    vector = np.frombuffer(embedding, dtype=np.float32)
    with np.errstate(all="ignore"):
        length = float(np.sqrt(np.dot(vector, vector)))
    return _Row(space, text_hash, vector) if abs(length - 1) < _TOLERANCE else None
