"""Vectors in the SQLite index: the embedding cache by text hash, and the vec0 table for KNN."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import apsw

from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import CacheSize, SpaceSize, StoredChunk
from openclaw_mem_engine.stores.query import CandidateRows, Scored
from openclaw_mem_engine.stores.scoring import ResidentVectors, matrix_of, products, unit_vector
from openclaw_mem_engine.stores.sqlite.database import Database, decoding, rows
from openclaw_mem_engine.stores.sqlite.schema import Meta, vector_table

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Source
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.stores.base import Vector

# Each chunk with its row of the cache, which alone keeps vectors for good; and only those with a vector.
# CROSS keeps SQLite from reading the cache first and all chunks for each of its rows.
CACHED = """chunks c CROSS JOIN embedding_cache e ON e.hash = c.hash
    AND e.provider = ?1 AND e.model = ?2 AND e.provider_key = ?3"""
EMBEDDED = f"{CACHED} AND e.embedding IS NOT NULL"
#: The names of a space as they are in the file: those on a damaged page may be no text at all.
NAMES = "CAST(provider AS BLOB), CAST(model AS BLOB), CAST(provider_key AS BLOB)"
#: Holds for rows of the cache with values of the kinds and lengths that we write.
AS_WRITTEN = """typeof(provider) = 'text' AND typeof(model) = 'text' AND typeof(provider_key) = 'text'
    AND typeof(hash) = 'text' AND typeof(updated_at) = 'real' AND typeof(dims) = 'integer'
    AND typeof(embedding) IN ('blob', 'null') AND coalesce(length(embedding), 0) = 4 * dims"""
#: What may be wrong with a row of the cache.
BadVector = Literal["cache-length", "cache-values", "cache-dims", "cache-names"]
#: The largest k that sqlite-vec takes; longer lists are computed in memory.
_MAX_K = 4096


class VectorRows:
    """Vector reads and writes of a :class:`SqliteIndex` (see ``SearchStore``, ``EmbeddingCache``). KNN runs
    inside SQLite when sqlite-vec is there and the process is short-lived, else in memory; both are exact."""

    def __init__(self, database: Database, *, resident: bool) -> None:
        self._db = database
        #: Whether vectors of every space are compared in memory, from the cache.
        self.in_memory = resident or not database.extension
        self._loaded: dict[Space, ResidentVectors] = {}
        self._loading = threading.Lock()

    def forget(self) -> None:
        """Drop what is held in memory; the next query loads it again."""
        self._loaded = {}

    # -- search -----------------------------------------------------------------------------------------

    def nearest(
        self,
        space: Space,
        generation: int,
        vector: Floats,
        limit: int,
        sources: Sequence[Source] | None,
        *,
        primary: bool,
    ) -> CandidateRows:
        """The vec0 table holds the primary space; another one is compared in memory."""
        if limit < 1:
            return CandidateRows()
        if self.in_memory or not primary or limit > _MAX_K:
            resident = self.resident(space, generation)
            with decoding(self._db.path):
                return resident.nearest(vector, limit, sources)
        if not self._has_table():
            return CandidateRows()
        found: list[Scored] = []
        for source in (None,) if sources is None else sources:
            found.extend(self._near(vector, limit, source))
        if not found and sources is None and self.has_rows():
            with decoding(self._db.path):
                raise ValueError("the vec0 table has rows and finds none of them")
        found.sort(key=lambda hit: (-hit.raw, hit.chunk_id))
        rows = tuple(found[:limit])
        return CandidateRows(rows, len(rows) if len(rows) < limit else self._compared(sources))

    def ranks(self, space: Space, generation: int, vector: Floats, ids: Iterable[str]) -> dict[str, int]:
        resident = self.resident(space, generation)
        with decoding(self._db.path):
            return resident.ranks(vector, ids)

    def _compared(self, sources: Sequence[Source] | None) -> int:
        """How many rows the vec0 table has, by the table in which sqlite-vec keeps their numbers: counting
        the virtual table itself would read every vector."""
        sql, bound = "SELECT count(*) FROM chunks_vec_rowids v", ""
        if sources is not None:
            sql += """ JOIN chunks c ON c.seq = v.rowid
                WHERE c.source IN (SELECT value FROM json_each(?))"""
            bound = json.dumps(list(sources))
        return int(self._db.read(sql, (bound,) if bound else ())[0][0])

    def _near(self, vector: Floats, limit: int, source: Source | None) -> list[Scored]:
        """The nearest chunks of one source (None: of all). Ties at the border are settled by chunk id, as in
        memory: while the rows at the limit are equally far, more are fetched."""
        condition, bound = ("", ()) if source is None else (" AND source = ?", (source,))
        wanted = limit + 8
        while True:
            depth = min(_MAX_K, wanted)
            near = self._db.search_scores(
                f"""SELECT c.id, near.distance FROM (
                    SELECT rowid AS seq, distance FROM chunks_vec
                    WHERE embedding MATCH ? AND k = ?{condition}) near
                JOIN chunks c ON c.seq = near.seq ORDER BY near.distance""",
                (vector.tobytes(), depth, *bound),
            )
            if len(near) < depth or depth == _MAX_K or near[limit - 1][1] < near[-1][1]:
                return [Scored(chunk_id, 1.0 - distance) for chunk_id, distance in near]
            wanted = 4 * depth

    def resident(self, space: Space, generation: int) -> ResidentVectors:
        """All vectors of a space in memory; those of this generation are loaded once."""
        with self._loading:
            loaded = self._loaded.get(space)
            if loaded is None or loaded.generation != generation:
                sql = f"SELECT c.id, c.source, e.embedding FROM {EMBEDDED} ORDER BY c.seq"
                found = self._db.search(sql, space)
                with decoding(self._db.path):
                    loaded = self._loaded[space] = ResidentVectors.from_rows(generation, found)
            return loaded

    def cosines(self, space: Space, vector: Floats, ids: Sequence[str]) -> dict[str, float]:
        found = self._db.search(
            f"SELECT c.id, e.embedding FROM {EMBEDDED} WHERE c.id IN (SELECT value FROM json_each(?4))",
            (*space, json.dumps(list(ids))),
        )
        if not found:
            return {}
        with decoding(self._db.path):
            matrix = matrix_of([row[1] for row in found], len(vector))
        return {row[0]: float(score) for row, score in zip(found, products(matrix, vector), strict=True)}

    def count(self, space: Space) -> int:
        return next((size.vectors for size in self.spaces() if size.space == space), 0)

    def dims(self, space: Space) -> int | None:
        found = self._db.read(
            """SELECT dims FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?
            AND embedding IS NOT NULL LIMIT 1""",
            space,
        )
        with decoding(self._db.path):
            return int(found[0][0]) if found else None

    def spaces(self) -> list[SpaceSize]:
        # All, and then those that are known to have no vector: of both an index alone is read ("+": not the
        # one by which they are grouped).
        counted = """SELECT e.provider, e.model, e.provider_key, count(*)
            FROM embedding_cache e CROSS JOIN chunks c ON c.hash = e.hash"""
        every = self._db.read(f"{counted} GROUP BY 1, 2, 3")
        none = self._db.read(
            f"{counted} WHERE e.embedding IS NULL GROUP BY +e.provider, +e.model, +e.provider_key"
        )
        without = {row[:3]: row[3] for row in none}
        found = [(Space(*row[:3]), row[3] - without.get(row[:3], 0)) for row in every]
        return [SpaceSize(space, vectors, self.dims(space) or 0) for space, vectors in found if vectors]

    # -- the vec0 table ---------------------------------------------------------------------------------

    def _has_table(self, connection: apsw.Connection | None = None) -> bool:
        """Whether there is a vec0 table; as seen by the transaction of ``connection`` when one is given."""
        sql = "SELECT 1 FROM sqlite_schema WHERE name = 'chunks_vec'"
        return bool(self._db.read(sql) if connection is None else rows(connection, sql))

    def has_rows(self) -> bool:
        """Whether there is a vec0 table that holds something."""
        return self._has_table() and bool(self._db.read("SELECT rowid FROM chunks_vec LIMIT 1"))

    def insert(self, connection: apsw.Connection, added: Sequence[tuple[int, str, Vector]]) -> None:
        """Put (seq, source, vector) rows, over those that are there (vec0 has no REPLACE). Without sqlite-vec
        they are noted as behind."""
        if not added:
            return
        if not self._db.extension:
            Meta.set_behind(connection, "vectors_behind")
            return
        # Every time: the transaction that made the table may have been rolled back, or replaced by a rebuild.
        connection.execute(vector_table(len(added[0][2])))
        self.delete(connection, [(seq,) for seq, _, _ in added])
        values = [(seq, source, vector.tobytes()) for seq, source, vector in added]
        connection.executemany("INSERT INTO chunks_vec(rowid, source, embedding) VALUES(?, ?, ?)", values)

    def delete(self, connection: apsw.Connection, seqs: Sequence[tuple[int, ...]]) -> None:
        """Remove rows by seq, or note that they are behind."""
        if not self._has_table(connection):
            return
        if self._db.extension:
            connection.executemany("DELETE FROM chunks_vec WHERE rowid = ?", seqs)
        else:
            Meta.set_behind(connection, "vectors_behind")

    @staticmethod
    def refill(connection: apsw.Connection, space: Space) -> None:
        """Make the vec0 table anew from the cache."""
        connection.execute("DROP TABLE IF EXISTS chunks_vec")
        found = rows(connection, f"SELECT c.seq, c.source, e.embedding FROM {EMBEDDED}", space)
        if found:
            connection.execute(vector_table(len(found[0][2]) // 4))
            connection.executemany("INSERT INTO chunks_vec(rowid, source, embedding) VALUES(?, ?, ?)", found)
        Meta.set_behind(connection, "vectors_behind", False)

    # -- the cache --------------------------------------------------------------------------------------

    def cached(self, space: Space, hashes: Iterable[str]) -> dict[str, Vector | None]:
        import numpy as np

        found = self._db.read(
            """SELECT hash, embedding FROM embedding_cache WHERE provider = ? AND model = ?
            AND provider_key = ? AND hash IN (SELECT value FROM json_each(?))""",
            (*space, json.dumps(list(hashes))),
        )
        with decoding(self._db.path):
            return {h: None if blob is None else np.frombuffer(blob, dtype=np.float32) for h, blob in found}

    @staticmethod
    def cache(
        connection: apsw.Connection,
        space: Space,
        vectors: Mapping[str, Vector | None],
        *,
        replace: bool = True,
    ) -> None:
        """Keep embeddings, over those that are there or only where there is none."""
        now, otherwise = time.time(), "REPLACE" if replace else "IGNORE"
        connection.executemany(
            f"INSERT OR {otherwise} INTO embedding_cache VALUES(?, ?, ?, ?, ?, ?, ?)",
            [
                (*space, key, None if v is None else v.tobytes(), 0 if v is None else len(v), now)
                for key, v in vectors.items()
            ],
        )

    def cache_sizes(self) -> list[CacheSize]:
        found = self._db.read(
            """SELECT provider, model, provider_key, count(*),
                sum(hash IN (SELECT hash FROM chunks)), sum(coalesce(length(embedding), 0)),
                min(updated_at), max(updated_at)
            FROM embedding_cache GROUP BY 1, 2, 3 ORDER BY 4 DESC"""
        )
        return [CacheSize(Space(*row[:3]), *row[3:]) for row in found]

    @staticmethod
    def prune(connection: apsw.Connection, beyond: int) -> int:
        """Delete up to ``beyond`` rows of the cache, oldest first, sparing the texts that are indexed."""
        connection.execute(
            """DELETE FROM embedding_cache WHERE rowid IN (
                SELECT rowid FROM embedding_cache WHERE hash NOT IN (SELECT hash FROM chunks)
                ORDER BY updated_at LIMIT ?)""",
            (beyond,),
        )
        return connection.changes()

    def missing(self, space: Space, limit: int, *, primary: bool) -> list[StoredChunk]:
        """Chunks that were not embedded; of the primary space also those whose vector is in the cache (made
        for another chunk of the same text, or by a sync that was killed) but not in the vec0 table."""
        absent = "e.hash IS NULL"
        if primary and self._db.extension:
            unplaced = "c.seq NOT IN (SELECT rowid FROM chunks_vec)" if self._has_table() else "true"
            absent += f" OR (e.embedding IS NOT NULL AND {unplaced})"
        found = self._db.read(
            f"""SELECT c.id, c.path, c.source, c.start_line, c.end_line, c.hash, c.text
                FROM chunks c LEFT JOIN embedding_cache e ON e.provider = ?1 AND e.model = ?2
                    AND e.provider_key = ?3 AND e.hash = c.hash WHERE {absent} LIMIT ?4""",
            (*space, limit),
        )
        return [StoredChunk(*row) for row in found]


def differing(connection: apsw.Connection, space: Space, seqs: Sequence[int]) -> dict[int, str]:
    """Those of these chunks of which vec0 table and cache hold other vectors of one length: seq to text
    hash."""
    sql = f"""SELECT c.seq, c.hash FROM json_each(?4) asked CROSS JOIN {EMBEDDED} AND c.seq = asked.value
        CROSS JOIN chunks_vec v ON v.rowid = c.seq
        WHERE length(v.embedding) = length(e.embedding)
            AND (v.source, v.embedding) IS NOT (c.source, e.embedding)"""
    return dict(rows(connection, sql, (*space, json.dumps(list(seqs)))))


def uncached(connection: apsw.Connection, space: Space) -> dict[str, Vector | None]:
    """The vectors of chunks that the vec0 table has and the cache does not, by text hash."""
    sql = """SELECT c.hash, v.embedding FROM chunks_vec v JOIN chunks c ON c.seq = v.rowid
        WHERE c.hash NOT IN (SELECT hash FROM embedding_cache
            WHERE provider = ? AND model = ? AND provider_key = ?)"""
    found = ((key, unit_vector(blob, len(blob) // 4)) for key, blob in rows(connection, sql, space))
    return {key: vector for key, vector in found if vector is not None}


def bad_vectors(connection: apsw.Connection) -> dict[BadVector, list[int]]:
    """Row numbers of the cache that no search can use, by what is wrong with them."""
    counts = rows(
        connection,
        f"""SELECT {NAMES}, dims, count(*) FROM embedding_cache
        WHERE embedding IS NOT NULL GROUP BY 1, 2, 3, 4 ORDER BY 5""",
    )
    usual = {tuple(space): dims for *space, dims, _ in counts}  # the most frequent one comes last
    bad: dict[BadVector, list[int]] = {}
    held = connection.execute(
        f"SELECT rowid, CAST(hash AS BLOB), {NAMES}, dims, embedding FROM embedding_cache"
    )
    for number, content, *space, dims, blob in held:
        fault: BadVector | None = None
        if not all(map(_is_text, (content, *space))):
            fault = "cache-names"
        elif blob is None:
            pass  # a text that is known to have no vector
        elif not isinstance(blob, bytes) or not isinstance(dims, int) or not dims or len(blob) != 4 * dims:
            fault = "cache-length"
        elif dims != usual[tuple(space)]:
            fault = "cache-dims"
        elif unit_vector(blob, dims) is None:
            fault = "cache-values"
        if fault is not None:
            bad.setdefault(fault, []).append(number)
    return bad


def _is_text(name: bytes) -> bool:
    with suppress(TypeError, UnicodeDecodeError):
        str(name, "utf-8")
        return True
    return False
