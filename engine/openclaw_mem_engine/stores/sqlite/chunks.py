"""Chunks as they are kept in the index, read and compared with what was stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.model import chunk_id_of
from openclaw_mem_engine.stores.records import StoredChunk
from openclaw_mem_engine.stores.sqlite.database import Bound, decoding
from openclaw_mem_engine.stores.sqlite.schema import TEXT

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw_mem_engine.stores.sqlite.database import Database

#: What a chunk is read as. Its text as bytes: on a damaged page they may be no text. And the model that its
#: id names, which SQLite reads once for all rows; NULL where the record of the build settings is none.
COLUMNS = f"""c.id, c.path, c.source, c.start_line, c.end_line, c.hash, CAST({TEXT} AS BLOB),
    (SELECT iif(json_valid(value), value ->> '$.model', NULL) FROM meta WHERE key = 'fingerprint')"""
_KINDS = (str, str, str, int, int, bytes, bytes)
#: Chunks that a resident process keeps between searches: some 2 kB each, like their vectors.
_KEPT = 16_000
#: Chunks between two calls of a progress.
_TOGETHER = 1_000
#: A change of one of these is a reason to read chunks, and the times of their files, again.
_CHANGING = ("generation", "touches")


class ChunkRows:
    """Reads of the chunks of a :class:`SqliteIndex`. With ``resident`` each is read once for as long as the
    index does not change."""

    def __init__(self, database: Database, *, resident: bool) -> None:
        self._db = database
        self._resident = resident
        self._known: tuple[tuple[str | None, ...], dict[str, StoredChunk]] = (), {}

    def of_file(self, path: str) -> list[StoredChunk]:
        found = self._db.read(f"SELECT {COLUMNS} FROM chunks c WHERE path = ? ORDER BY seq", (path,))
        return stored(found, self._db.path)

    def fetch(self, ids: Iterable[str], flags: Mapping[str, str]) -> dict[str, StoredChunk]:
        """Chunks by id; ``flags`` are the rows of the table ``meta``. Raises as ``stored``."""
        wanted = list(ids)
        if not self._resident:
            return self._read(wanted)
        now, known = self._known
        if now != (now := tuple(map(flags.get, _CHANGING))) or len(known) > _KEPT:
            known = {}
            self._known = now, known
        if new := [chunk_id for chunk_id in wanted if chunk_id not in known]:
            known |= self._read(new)
        return {chunk_id: known[chunk_id] for chunk_id in wanted if chunk_id in known}

    def _read(self, ids: Sequence[str]) -> dict[str, StoredChunk]:
        found = self._db.read(
            f"""SELECT {COLUMNS}, iif(typeof(f.mtime_ns) = 'integer', f.mtime_ns, 0)
            FROM json_each(?) wanted JOIN chunks c ON c.id = wanted.value
            LEFT JOIN files f ON f.path = c.path AND f.source = c.source""",
            (json.dumps(ids),),
        )
        return {chunk.chunk_id: chunk for chunk in stored(found, self._db.path)}


def stored(found: Iterable[Bound], path: Path) -> list[StoredChunk]:
    """Rows of ``COLUMNS``, with the time of their file or without, of the index at ``path`` as chunks. Raises
    IndexDamaged where one is not what was stored: its text must get no vector."""
    made = []
    with decoding(path):
        for row in found:
            if (chunk := as_stored(row)) is None:
                raise ValueError("a chunk is not what was stored")
            made.append(chunk)
    return made


def as_stored(row: Bound) -> StoredChunk | None:
    """A row of ``COLUMNS`` as a chunk; None where it is not what was stored: its hash tells that of the text,
    its id that of the rest."""
    stored, (model, *times) = row[: len(_KINDS)], row[len(_KINDS) :]
    if tuple(map(type, stored)) != _KINDS:
        return None
    chunk_id, path, source, first, last, content, text = stored
    key = content.hex()
    if sha256(text).digest() != content or (
        model is not None and chunk_id != chunk_id_of(source, path, first, last, key, model)
    ):
        return None
    return StoredChunk._make((*stored[:5], key, str(text, "utf-8"), *(times or (0,))))


def readable(found: Iterable[Bound]) -> Iterator[Bound]:
    """Rows that begin with number, path and text of a chunk. Raises apsw.CorruptError for one of other kinds,
    of which no words can be made."""
    for row in found:
        if tuple(map(type, row[:3])) != (int, str, str):
            raise apsw.CorruptError("a chunk has no text, or no path")
        yield row


def overlap(own: str, lines: int, text: str) -> str:
    """The last ``lines`` lines of ``own`` where ``text`` begins with them, else ""."""
    end = "\n".join(own.rsplit("\n", lines)[-lines:]) if lines > 0 else ""
    return end if text.startswith(end) else ""


def all_chunks(connection: apsw.Connection) -> Iterator[Bound]:
    """seq, path, text and id of every chunk, of which rows are made: read once their table is there."""
    yield from readable(connection.execute(f"SELECT seq, path, {TEXT}, id FROM chunks c"))
