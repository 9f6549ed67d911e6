"""Repairs of an index: it is rebuilt from its own chunks, or, when its file cannot be read, moved out of the
way. Both keep every embedding that can be used: each cost time and perhaps money.

Notes are not touched, and nothing is embedded: what is missing afterwards is made by the next sync.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from openclaw_mem_engine.model import Space
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.stores.scoring import unit_vector
from openclaw_mem_engine.stores.sqlite.files import HEADER_BYTES, aside_path, remove, set_aside
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.stores.sqlite.vectors import AS_WRITTEN, as_written

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector

#: Reading ends after so many seconds, with the rows found by then: a failing disk reads slowly.
SALVAGE_S = 60.0

#: So many times a file may have been as long as what is left of it.
_MOST_CUT = 20
_LAST_ROW = 2**62
#: The first byte behind the header of a database: the kind of its first page.
_ROOTS = (b"\x05", b"\x0d")
_TOGETHER = 1_000
#: What reading a damaged page may raise: SQLite's errors, bytes that are no text, impossible lengths.
_DAMAGE = (apsw.Error, UnicodeDecodeError, MemoryError)
# Not "rowid > ?": SQLite begins to search on that row's page, which may be damaged.
_SQL = f"""SELECT e.id, provider, model, provider_key, hash, embedding, checksum
    FROM embedding_cache e CROSS JOIN temp.names s ON s.id = e.space
    WHERE e.id >= ? + 1 AND e.id <= ? AND {AS_WRITTEN} ORDER BY e.id"""
# The table has one copy of the names of its spaces, its index another.
_NAMES = "CREATE TEMP TABLE IF NOT EXISTS names AS SELECT id, provider, model, provider_key FROM spaces"
_COPIES = ("NOT INDEXED", "INDEXED BY sqlite_autoindex_spaces_1")


def repair(path: Path) -> list[str]:
    """Rebuild the index file from its own files, chunks and cached embeddings; what was done, in words. The
    caller keeps other writers away. Raises IndexUnavailable; nothing has changed then."""
    with closing(SqliteIndex(path, extension=False)) as old:
        known = old.fingerprint()
        if known is None:
            return []
        before = old.counts()
        fresh = old.new_generation(known)
        try:
            fresh.take_content()
            fresh.commit()
        finally:
            fresh.abort()
        after = old.counts()
    done = [f"the index was made anew from its own {counted(after.chunks, 'chunk')}"]
    for number, noun, what in (
        (before.cached - after.cached, "cached vector", "dropped; the next sync makes them again"),
        (before.chunks - after.chunks, "chunk", "of no file dropped"),
    ):
        if number > 0:
            done.append(f"{counted(number, noun)} {what}")
    return done


# -- a damaged file ---------------------------------------------------------------------------------------


def replace_damaged(index: Path) -> tuple[Path, int]:
    """Move a damaged index to ``NAME.damaged``, and replace it by a new one that holds the embeddings
    which can still be read. Returns where the damaged one is now, and how many embeddings were saved. The
    caller holds the sync lock; may take ``SALVAGE_S`` seconds. A process that is killed meanwhile leaves the
    index where it is, and a file like that of a killed rebuild. Raises IndexUnavailable."""
    fresh = aside_path(index)
    try:
        saved = save_embeddings(index, fresh)
        damaged = set_aside(index)
        fresh.replace(index)
    finally:
        remove(fresh)
    return damaged, saved


def save_embeddings(damaged: Path, index: Path, seconds: float = SALVAGE_S) -> int:
    """Copy the whole embeddings that can still be read in a damaged index into another one, which is made
    when it is not there; how many. Raises IndexUnavailable when the other index cannot be written."""
    saved, until = 0, time.monotonic() + seconds
    with closing(SqliteIndex(index)) as store, _with_header(damaged, index) as file:
        found = _whole_rows(file, until)
        while batch := list(islice(found, _TOGETHER)):
            for asked in {space for space, _, _ in batch}:
                store.cache_vectors({key: vector for space, key, vector in batch if space == asked}, asked)
            saved += len(batch)
    return saved


@contextmanager
def _with_header(damaged: Path, fresh: Path) -> Iterator[Path]:
    """The damaged file; where its header alone is lost, a copy that has the one of a new index."""
    copy = aside_path(damaged)
    try:
        with suppress(OSError):
            with damaged.open("rb") as file:
                page = file.read(HEADER_BYTES + 1)
            try:
                with closing(apsw.Connection(str(damaged), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                    connection.pragma("schema_version")
            except apsw.NotADBError:
                if page[HEADER_BYTES:] in _ROOTS:
                    shutil.copyfile(damaged, copy)
                    with copy.open("r+b") as file, fresh.open("rb") as other:
                        head = other.read(HEADER_BYTES)
                        pages = copy.stat().st_size // int.from_bytes(head[16:18], "big")
                        file.write(head[:28] + pages.to_bytes(4, "big") + head[32:])
                    damaged = copy
            except apsw.Error:
                pass
        yield damaged
    finally:
        remove(copy)


def _whole_rows(damaged: Path, until: float) -> Iterator[tuple[Space, str, Vector | None]]:
    """Space, text hash and vector (None: the text has none) of the rows that are as we write them."""
    _lengthen(damaged)
    try:
        # For writing, although nothing is written: what is still in the log is not read without.
        connection = apsw.Connection(str(damaged), flags=apsw.SQLITE_OPEN_READWRITE)
        # What was set aside stays as it was.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    except apsw.Error:
        return
    try:
        for copy in _COPIES:
            with suppress(*_DAMAGE):
                connection.execute(f"{_NAMES} {copy}")
        for row in _readable(connection, 0, _LAST_ROW, until):
            content, blob, checksum = row[4:7]
            vector = unit_vector(blob)
            if (blob is None or vector is not None) and as_written(content, blob, checksum):
                yield Space(*row[1:4]), content.hex(), vector
    except _DAMAGE:
        return  # not even the names of its tables can be read
    finally:
        connection.close()


def _lengthen(damaged: Path) -> None:
    """Give a file that was cut off the length that its header says, without which SQLite reads nothing of it;
    not one of which hardly anything is left: then the header may be what is damaged."""
    with suppress(OSError), damaged.open("r+b") as file:
        head, size = file.read(32), damaged.stat().st_size
        length = int.from_bytes(head[16:18], "big") * int.from_bytes(head[28:32], "big")
        if size < length < _MOST_CUT * size:
            file.truncate(length)


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
