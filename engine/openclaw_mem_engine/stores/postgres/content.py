"""What one agent's index in PostgreSQL holds, and its embeddings by space and text hash, which searches read
too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import (
    CacheSize,
    Capabilities,
    Counts,
    EmbeddingCache,
    FileState,
    Fingerprint,
    IndexContent,
    SpaceSize,
    StoredChunk,
)
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import OWN, USABLE, AgentRows, Transaction

if TYPE_CHECKING:
    import numpy as np

    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.ranking.unshown import Passage
    from openclaw_mem_engine.stores.base import Vector
    from openclaw_mem_engine.stores.postgres.turns import Turns

#: The columns of a chunk, as ``StoredChunk`` has them, but for the time of its file.
CHUNK = "c.id, c.path, c.source, c.start_line, c.end_line, c.hash, c.text"
#: The chunks that have a vector of a space (see ``Transaction.of_space``).
WITH_VECTORS = f"""FROM {NAME}.chunks c JOIN {NAME}.vectors v ON v.agent = %(agent)s AND v.space = %(space)s
        AND v.pending = %(pending)s AND v.hash = c.hash AND v.v IS NOT NULL
    WHERE c.agent = %(agent)s AND c.gen = %(gen)s"""
#: The condition for the vectors of a space (see ``Transaction.of_space``).
_OF_SPACE = "agent = %(agent)s AND space = %(space)s AND pending = %(pending)s"
#: The chunks that were not embedded in a space.
WITHOUT_VECTORS = f"""FROM {NAME}.chunks c WHERE {OWN} AND NOT EXISTS (
    SELECT 1 FROM {NAME}.vectors v WHERE v.agent = %(agent)s AND v.space = %(space)s
        AND v.pending = %(pending)s AND v.hash = c.hash)"""


def dims_of(read: Transaction, space: Space | None) -> int | None:
    """Length of the vectors of a space; None as long as there is none."""
    sql = f"""SELECT dims FROM {NAME}.vectors WHERE agent = %(agent)s AND space = %(space)s
        AND pending = %(pending)s AND v IS NOT NULL LIMIT 1"""
    found = read.rows(sql, **read.of_space(space))
    return int(found[0][0]) if found else None


class Content(IndexContent, EmbeddingCache):
    """``IndexContent`` and ``EmbeddingCache`` over the rows of an agent."""

    _rows: AgentRows
    _turns: Turns
    caps: Capabilities

    def fingerprint(self) -> Fingerprint | None:
        with self._rows.reading() as read:
            text = read.facts.fingerprint
        try:
            return None if text is None else Fingerprint.from_json(text)
        except ValueError as error:
            raise IndexUnavailable(
                f"The index at {self._rows.at.shown} was written by another version of this program "
                f"({error}): use that version, or rebuild it with `openclaw-mem index --force`."
            ) from error

    def synced_at(self) -> float | None:
        with self._rows.reading() as read:
            return read.facts.synced_at

    def counts(self) -> Counts:
        sql = f"""SELECT (SELECT count(*) FROM {NAME}.files WHERE {OWN} AND refusal = ''),
            (SELECT count(*) FROM {NAME}.chunks WHERE {OWN}),
            (SELECT count(*) FROM {NAME}.vectors WHERE agent = %(agent)s AND {USABLE})"""
        with self._rows.reading() as read:
            return Counts(*read.rows(sql)[0])

    def spaces(self) -> list[SpaceSize]:
        sql = f"""SELECT v.space, count(*), max(v.dims) FROM {NAME}.chunks c
            JOIN {NAME}.vectors v ON v.agent = %(agent)s AND v.hash = c.hash AND v.v IS NOT NULL AND {USABLE}
            WHERE c.agent = %(agent)s AND c.gen = %(gen)s GROUP BY v.space ORDER BY 2 DESC, 1"""
        with self._rows.reading() as read:
            found = read.rows(sql)
        return [SpaceSize(Space(*json.loads(space)), number, dims) for space, number, dims in found]

    def covered(self, space: Space | None = None) -> int:
        with self._rows.reading() as read:
            return int(read.one(f"SELECT count(*) {WITH_VECTORS}", **read.of_space(space)))

    def vector_dims(self, space: Space | None = None) -> int | None:
        with self._rows.reading() as read:
            return dims_of(read, space)

    def files(self) -> Mapping[str, FileState]:
        sql = f"SELECT {', '.join(FileState._fields)} FROM {NAME}.files WHERE {OWN}"
        with self._rows.reading() as read:
            return {state.path: state for state in map(FileState._make, read.rows(sql))}

    def is_hollow(self) -> bool:
        sql = f"""SELECT EXISTS (SELECT 1 FROM {NAME}.files WHERE {OWN} AND refusal = '' AND size > 0)
            AND NOT EXISTS (SELECT 1 FROM {NAME}.chunks WHERE {OWN})"""
        with self._rows.reading() as read:
            return bool(read.one(sql))

    def chunk_counts(self) -> dict[str, int]:
        with self._rows.reading() as read:
            return dict(read.rows(f"SELECT path, count(*) FROM {NAME}.chunks WHERE {OWN} GROUP BY path"))

    def chunks_of(self, path: str) -> list[StoredChunk]:
        sql = f"SELECT {CHUNK} FROM {NAME}.chunks c WHERE {OWN} AND path = %(path)s ORDER BY seq"
        with self._rows.reading() as read:
            return [StoredChunk(*row) for row in read.rows(sql, path=path)]

    def passages(self) -> Iterable[Passage]:
        from openclaw_mem_engine.ranking.unshown import Passage

        sql = f"""SELECT path, start_line, end_line, text FROM {NAME}.chunks
            WHERE {OWN} ORDER BY path, source, seq"""
        with self._rows.reading() as read:
            return map(Passage._make, read.rows(sql))

    def in_full_text(self, ids: Iterable[str]) -> set[str]:
        sql = f"""SELECT c.id FROM {NAME}.chunks c
            JOIN {NAME}.terms t ON t.agent = %(agent)s AND t.gen = %(gen)s AND t.seq = c.seq
            WHERE c.agent = %(agent)s AND c.gen = %(gen)s AND c.id = ANY(%(ids)s)
            GROUP BY c.id HAVING count(*) = 2"""
        if not self.caps.full_text:
            return set()
        with self._rows.reading() as read:
            return {row[0] for row in read.rows(sql, ids=list(ids))}

    # -- the cache of embeddings ------------------------------------------------------------------------

    def cached_vectors(self, hashes: Iterable[str], space: Space | None = None) -> dict[str, Vector | None]:
        sql = f"SELECT hash, vector_send(v) FROM {NAME}.vectors WHERE {_OF_SPACE} AND hash = ANY(%(hashes)s)"
        with self._rows.reading() as read:
            found = read.rows(sql, **read.of_space(space), hashes=list(hashes))
        return {content: None if sent is None else _received(sent) for content, sent in found}

    def cached_hashes(self, space: Space) -> list[str]:
        """See ``IndexStore``."""
        sql = f"SELECT hash FROM {NAME}.vectors WHERE {_OF_SPACE} ORDER BY hash"
        with self._rows.reading() as read:
            return [row[0] for row in read.rows(sql, **read.of_space(space))]

    def cache_vectors(self, vectors: Mapping[str, Vector | None], space: Space | None = None) -> None:
        if vectors:
            with self._turns.writing(bump=space is not None) as write:
                put_vectors(write, vectors, space)

    def cache_sizes(self) -> list[CacheSize]:
        sql = f"""SELECT space, count(*), count(c.hash), sum(4 * dims)::bigint, min(updated_at),
                max(updated_at)
            FROM {NAME}.vectors v LEFT JOIN (SELECT DISTINCT hash FROM {NAME}.chunks
                WHERE agent = %(agent)s AND gen = %(gen)s) c ON c.hash = v.hash
            WHERE agent = %(agent)s AND {USABLE} GROUP BY space ORDER BY 2 DESC, 1"""
        with self._rows.reading() as read:
            found = read.rows(sql)
        return [CacheSize(Space(*json.loads(space)), *sizes) for space, *sizes in found]

    def prune_cache(self, most: int) -> int:
        held = f"SELECT count(*) FROM {NAME}.vectors WHERE agent = %(agent)s AND {USABLE}"
        sql = f"""DELETE FROM {NAME}.vectors WHERE agent = %(agent)s AND (space, pending, hash) IN (
            SELECT space, pending, hash FROM {NAME}.vectors v WHERE agent = %(agent)s AND pending = 0
                AND NOT EXISTS (SELECT 1 FROM {NAME}.chunks c WHERE c.agent = %(agent)s AND c.hash = v.hash)
            ORDER BY updated_at, hash LIMIT %(beyond)s)"""
        with self._rows.reading() as read:
            beyond = read.one(held) - most
        if beyond <= 0:
            return 0
        with self._turns.writing(bump=False) as write:
            return int(write.execute(sql, beyond=beyond).rowcount)


def literal(vector: Floats) -> str:
    """A vector as pgvector reads it; its float32 values come back as they are."""
    return f"[{','.join(map(repr, vector.tolist()))}]"


def put_vectors(write: Transaction, vectors: Mapping[str, Vector | None], space: Space | None) -> None:
    """Keep embeddings by text hash, over those that are there."""
    if space is None and write.facts.fingerprint is None:
        return
    key, now = write.of_space(space), time.time()
    rows = [
        (write.agent, *key.values(), content, *((None, 0) if v is None else (literal(v), v.size)), now)
        for content, v in vectors.items()
    ]
    update = "SET v = excluded.v, dims = excluded.dims, updated_at = excluded.updated_at"
    more = f"ON CONFLICT (agent, space, pending, hash) DO UPDATE {update}"
    write.insert("vectors(agent, space, pending, hash, v, dims, updated_at)", rows, more)


def put_missing(write: Transaction, vectors: Mapping[str, Vector], space: Space) -> None:
    """Keep those embeddings that are not there; the others are not sent."""
    sql = f"SELECT hash FROM {NAME}.vectors WHERE {_OF_SPACE} AND hash = ANY(%(hashes)s)"
    held = {row[0] for row in write.rows(sql, **write.of_space(space), hashes=list(vectors))}
    put_vectors(write, {content: v for content, v in vectors.items() if content not in held}, space)


def _received(sent: bytes) -> np.ndarray[Any, Any]:
    """The values of a vector as pgvector sends it: two 16-bit numbers, then big-endian float32."""
    import numpy as np

    return np.frombuffer(sent, dtype=">f4", offset=4).astype(np.float32)
