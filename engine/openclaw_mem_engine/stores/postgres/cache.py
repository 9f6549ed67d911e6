"""Embeddings of one agent in PostgreSQL, by space and text hash, which searches read too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import CacheSize, EmbeddingCache
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.searching import literal
from openclaw_mem_engine.stores.postgres.session import USABLE, AgentRows, Transaction
from openclaw_mem_engine.stores.postgres.turns import Turns

if TYPE_CHECKING:
    import numpy as np

    from openclaw_mem_engine.stores.base import Vector

#: The condition for the vectors of a space (see ``Transaction.of_space``).
_OF_SPACE = "agent = %(agent)s AND space = %(space)s AND pending = %(pending)s"


class Cache(EmbeddingCache):
    """``EmbeddingCache`` over the rows of an agent."""

    _rows: AgentRows
    _turns: Turns

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
