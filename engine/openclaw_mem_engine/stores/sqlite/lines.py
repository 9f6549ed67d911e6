"""Packed lines of chunks (``providers.base.Lines``), kept beside them: a search that compares lines need not
make them from the text, as it does where a row is absent or damaged, which its checksum tells."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.errors import IndexLocked, IndexUnavailable

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import FileChange, Pack
    from openclaw_mem_engine.stores.sqlite.database import Bound, Database

#: Bytes of the checksum: a CRC-32 over the id of the chunk and its packed lines.
_CHECKSUM = 4
#: Texts that are packed together.
_TOGETHER = 256


def insert(connection: apsw.Connection, changes: Sequence[FileChange]) -> None:
    """Keep the packed lines of chunks that were written, as far as the changes have them."""
    connection.executemany(
        "INSERT OR REPLACE INTO line_tokens SELECT seq, ? FROM chunks WHERE id = ?",
        [
            (packed + _checksum(chunk.chunk_id, packed), chunk.chunk_id)
            for change in changes
            for chunk in change.chunks
            if (packed := change.lines.get(chunk.chunk_id)) is not None
        ],
    )


def fill(connection: apsw.Connection, chunks: Iterator[Bound], pack: Pack) -> None:
    """Keep the packed lines of (seq, path, text, id) rows."""
    while batch := list(islice(chunks, _TOGETHER)):
        made = zip(batch, pack([text for _, _, text, _ in batch]), strict=True)
        connection.executemany(
            "INSERT INTO line_tokens VALUES(?, ?)",
            [(seq, packed + _checksum(chunk_id, packed)) for (seq, _, _, chunk_id), packed in made],
        )


def delete(connection: apsw.Connection, seqs: Sequence[Bound]) -> None:
    """Remove rows by (seq,): the tokens of a text are as good as its words."""
    connection.executemany("DELETE FROM line_tokens WHERE seq = ?", seqs)


def read(database: Database, ids: Iterable[str]) -> dict[str, bytes]:
    """By chunk id; those that are absent or damaged are left out."""
    sql = """SELECT c.id, l.packed FROM json_each(?) asked CROSS JOIN chunks c ON c.id = asked.value
        CROSS JOIN line_tokens l ON l.seq = c.seq"""
    try:
        found = database.search(sql, (json.dumps(list(ids)),))
    except IndexLocked:
        raise
    except IndexUnavailable:
        return {}
    return {
        chunk_id: row[:-_CHECKSUM]
        for chunk_id, row in found
        if isinstance(row, bytes) and row[-_CHECKSUM:] == _checksum(chunk_id, row[:-_CHECKSUM])
    }


def _checksum(chunk_id: str, packed: bytes) -> bytes:
    return zlib.crc32(packed, zlib.crc32(chunk_id.encode())).to_bytes(_CHECKSUM, "little")
