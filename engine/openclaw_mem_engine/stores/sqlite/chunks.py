"""Chunks as they are kept in the index, read and compared with what was stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.model import Progress, utf8
from openclaw_mem_engine.stores.base import Derived
from openclaw_mem_engine.stores.query import ADDING, LABEL
from openclaw_mem_engine.stores.records import StoredChunk
from openclaw_mem_engine.stores.sqlite.database import Bound, decoding, rows
from openclaw_mem_engine.stores.sqlite.schema import TEXT

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw_mem_engine.stores.sqlite.database import Database

#: What a chunk is read as: with the time of its file, and its hash in hexadecimal digits.
_KINDS, _PLAIN = (str, str, str, int, int, bytes, str, int), (str, str, str, int, int, str, str)
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
        found = self._db.read(
            f"""SELECT id, path, source, start_line, end_line, lower(hex(hash)), {TEXT} FROM chunks c
            WHERE path = ? ORDER BY seq""",
            (path,),
        )
        return stored(found, self._db.path)

    def fetch(self, ids: Iterable[str], flags: Mapping[str, str]) -> dict[str, StoredChunk]:
        """Chunks by id; ``flags`` are the rows of the table ``meta``. Raises IndexDamaged."""
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
            f"""SELECT c.id, c.path, c.source, c.start_line, c.end_line, c.hash, {TEXT},
                iif(typeof(f.mtime_ns) = 'integer', f.mtime_ns, 0)
            FROM json_each(?) wanted JOIN chunks c ON c.id = wanted.value
            LEFT JOIN files f ON f.path = c.path AND f.source = c.source""",
            (json.dumps(ids),),
        )
        with decoding(self._db.path):
            columns = zip(zip(*found, strict=True), _KINDS, strict=False)
            if any({*map(type, column)} != {kind} for column, kind in columns):
                raise ValueError("text or lines of a chunk are of another kind than was stored")
            if any(sha256(utf8(row[6])).digest() != row[5] for row in found):
                raise ValueError("the text of a chunk is not what was stored")
        return {row[0]: StoredChunk._make((*row[:5], row[5].hex(), *row[6:])) for row in found}


def stored(found: Iterable[Bound], path: Path) -> list[StoredChunk]:
    """Rows of the index at ``path`` as chunks. Raises IndexDamaged where one is not what was stored: its text
    must get no vector."""
    made = [StoredChunk(*row) for row in found]
    with decoding(path):
        for chunk in made:
            if tuple(map(type, chunk))[: len(_PLAIN)] != _PLAIN:
                raise ValueError("text or lines of a chunk are of another kind than was stored")
            if sha256(utf8(chunk.text)).hexdigest() != chunk.hash:
                raise ValueError("the text of a chunk is not what was stored")
    return made


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


def counted(connection: apsw.Connection, kind: Derived, progress: Progress) -> Iterator[Bound]:
    """seq, path, text and id of every chunk, while rows of a kind are made of them."""
    total: int = rows(connection, "SELECT count(*) FROM chunks")[0][0]
    found = connection.execute(f"SELECT seq, path, {TEXT}, id FROM chunks c")
    for done, row in enumerate(readable(found)):
        if done % _TOGETHER == 0:
            progress(done, total, f"{ADDING}{LABEL[kind]} to the index")
        yield row
