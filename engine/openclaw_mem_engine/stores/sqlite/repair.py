"""Repairs of an index: it is rebuilt from its own chunks, or, when its file cannot be read, moved out of the
way. Both keep every embedding that can be used: each cost time and perhaps money.

Notes are not touched, and nothing is embedded: what is missing afterwards is made by the next sync.
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
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.stores.sqlite.files import aside_path, remove, set_aside
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector

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
    """Rebuild the index file from its own files, chunks and cached embeddings; what was done, in words.

    Of ``codes``, those of the findings, "file-without-chunks" makes it forget such files, and
    "fingerprint-unreadable" what it was built with, which is all that is done then. ``extension`` asks for
    sqlite-vec. The caller keeps other writers away. Raises IndexUnavailable; nothing has changed then.
    """
    if "fingerprint-unreadable" in codes:  # such an index cannot be opened, and is rebuilt without one
        with closing(Database(path, extension=extension)) as database, database.transaction() as connection:
            connection.execute("DELETE FROM meta WHERE key = 'fingerprint'")
        return ["what the index was built with was forgotten; a rebuild writes it anew"]
    with closing(SqliteIndex(path, extension=extension)) as old:
        known = old.fingerprint()
        if known is None:
            return []
        before = old.counts()
        fresh = old.new_generation(known)
        try:
            fresh.take_content(forget_empty="file-without-chunks" in codes)
            fresh.commit()
        finally:
            fresh.abort()
        after = old.counts()
    done = [
        f"the index was rebuilt: its full-text tables were made anew from {counted(after.chunks, 'chunk')}"
    ]
    for number, noun, what in (
        (before.cached - after.cached, "cached vector", "dropped; the next sync makes them anew"),
        (before.chunks - after.chunks, "chunk", "of no file dropped"),
        (before.files - after.files, "file", "without chunks forgotten; the next sync reads them again"),
    ):
        if number:
            done.append(f"{counted(number, noun)} {what}")
    return done


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
