"""Vectors in the SQLite index: the embedding cache by text hash, in which they are searched too."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal
from zlib import crc32

import apsw

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.providers.base import products
from openclaw_mem_engine.stores.base import CacheSize, SpaceSize, StoredChunk
from openclaw_mem_engine.stores.query import CandidateRows, Scored
from openclaw_mem_engine.stores.scoring import ResidentVectors, matrix_of, ranks_among, unit_vector
from openclaw_mem_engine.stores.sqlite.chunks import COLUMNS, stored
from openclaw_mem_engine.stores.sqlite.database import Bound, Database, decoding, rows
from openclaw_mem_engine.stores.sqlite.files import damaged

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.stores.base import Vector

#: The number of a space, whose names are bound first.
SPACE = "(SELECT id FROM spaces WHERE (provider, model, provider_key) = (?1, ?2, ?3))"
# Each chunk with its row of the cache; and only those with a vector. CROSS keeps SQLite from reading the
# cache first and all chunks for each of its rows.
CACHED = f"chunks c CROSS JOIN embedding_cache e ON e.hash = c.hash AND e.space = {SPACE}"
EMBEDDED = f"{CACHED} AND e.embedding IS NOT NULL"
# Both indexes are in the order of hashes: 2 ms for 20,000 chunks.
_LACKING = f"""EXISTS(SELECT hash FROM chunks EXCEPT SELECT hash FROM embedding_cache
    WHERE space = {SPACE})"""
# Texts without a vector: so many cost no search anything.
_SOME_WITHOUT = f"""SELECT embedding, hash, checksum FROM embedding_cache
    WHERE space = {SPACE} AND embedding IS NULL LIMIT 50"""
# A vector of the space, for its length.
ONE_VECTOR = f"""SELECT embedding, hash, checksum FROM embedding_cache
    WHERE space = {SPACE} AND embedding IS NOT NULL LIMIT 1"""
# Of a row of the cache; sqlite-vec refuses what is no vector of this length.
_DISTANCE = "vec_distance_cosine(embedding, ?4)"
# All rows of a space with a vector, in the order of the file ("+": not by the index).
_EVERY = f"FROM embedding_cache WHERE +space = {SPACE} AND embedding IS NOT NULL"
#: Pages that a connection keeps of what it reads once, as SQLite counts them: kB, negative.
_PASSING = -2_000
#: The names of a space as they are in the file: those on a damaged page may be no text at all.
NAMES = "CAST(provider AS BLOB), CAST(model AS BLOB), CAST(provider_key AS BLOB)"
#: Holds for rows of the cache with values of the kinds that we write.
AS_WRITTEN = """typeof(hash) = 'blob' AND length(hash) = 32 AND typeof(embedding) IN ('blob', 'null')
    AND typeof(checksum) = 'integer' AND typeof(updated_at) = 'real'"""
#: What the checksum of a row is compared with (see ``check_bytes``).
BYTES = "e.embedding, e.hash, e.checksum"
#: What may be wrong with a row of the cache.
BadVector = Literal["cache-dims", "cache-values", "cache-bytes", "cache-names"]


def as_written(content: object, blob: object, checksum: object) -> bool:
    """Whether hash and vector of a row (None: the text has none) are what was stored, byte for byte."""
    if not isinstance(content, bytes) or not (blob is None or isinstance(blob, bytes)):
        return False
    return crc32(blob or b"", crc32(content)) == checksum


def check_bytes(rows: Iterable[Bound]) -> None:
    """Raise ValueError unless each row, which ends with ``BYTES``, is as it was stored."""
    if not all(as_written(content, blob, checksum) for *_, blob, content, checksum in rows):
        raise ValueError("a vector is not the one that was stored")


class VectorRows:
    """Vector reads and writes of a :class:`SqliteIndex` (see ``SearchStore``, ``EmbeddingCache``). They are
    compared inside SQLite when sqlite-vec is there and the process is short-lived, else in memory; both are
    exact."""

    def __init__(self, database: Database, *, resident: bool) -> None:
        self._db = database
        self._in_memory = resident or not database.extension
        self._loaded: dict[Space, ResidentVectors] = {}
        self._loading = threading.Lock()
        #: Whether chunks have no vector in a space, and in what state of the index. A search asks four times.
        self._lacking: dict[Space, tuple[tuple[apsw.Connection, int], bool]] = {}

    def forget(self) -> None:
        """Drop what is held in memory; the next query loads it again."""
        self._loaded = {}

    # -- search -----------------------------------------------------------------------------------------

    def nearest(self, space: Space, generation: int, vector: Floats, limit: int) -> CandidateRows:
        if limit < 1:
            return CandidateRows()
        if self._in_memory:
            resident = self._resident(space, generation)
            with decoding(self._db.path):
                return resident.nearest(vector, limit)
        found = sorted(self._near(space, vector, limit), key=lambda hit: (-hit.raw, hit.chunk_id))
        best, known = tuple(found[:limit]), self.count(space)
        self._check_read(len(best), min(known, limit))
        return CandidateRows(best, known)

    def _check_read(self, read: int, known: int) -> None:
        """Raises IndexDamaged when fewer vectors were read than the table indexes know."""
        if read < known:
            raise damaged(f"{known:,} vectors are known, and {read:,} can be read", self._db.path)

    def _near(self, space: Space, vector: Floats, limit: int) -> list[Scored]:
        """The nearest chunks, at least ``limit`` if there are so many. Raises IndexDamaged for rows that are
        not as they were stored. Only the nearest ones are joined to chunks: more of them while too few belong
        to one, and while those at the limit are equally far, which is settled by chunk id."""
        wanted, asked = limit + 8, vector.tobytes()
        # Each page is read once: no page fault where memory is used again, and a cache of the processor.
        self._db.reader().pragma("cache_size", _PASSING)
        while True:
            rows = self._db.search(
                f"""SELECT near.id, near.distance, c.id, {BYTES} FROM (
                    SELECT id, {_DISTANCE} AS distance {_EVERY} ORDER BY distance LIMIT ?5) near
                CROSS JOIN embedding_cache e ON e.id = near.id
                LEFT JOIN chunks c ON c.hash = e.hash ORDER BY near.distance""",
                (*space, asked, wanted),
            )
            with decoding(self._db.path):
                found = [row for row in rows if row[2] is not None]
                check_bytes(found)
                if any(row[1] is None for row in found):
                    raise ValueError("a row that is searched has no score")  # that of zeros is NULL
                near = [Scored(row[2], 1.0 - row[1]) for row in found]
                is_all = len({row[0] for row in rows}) < wanted
                if is_all or (len(near) >= limit and near[limit - 1].raw > 1.0 - rows[-1][1]):
                    return near
            wanted *= 4

    def ranks(self, space: Space, generation: int, vector: Floats, ids: Iterable[str]) -> dict[str, int]:
        if self._in_memory:
            resident = self._resident(space, generation)
            with decoding(self._db.path):
                return resident.ranks(vector, ids)
        # Neither NumPy nor all vectors in memory; one whose bytes were changed counts as it is.
        self._db.reader().pragma("cache_size", _PASSING)
        every = f"SELECT hash, 1.0 - {_DISTANCE} {_EVERY}"
        asked = (*space, vector.tobytes())
        scores = {key: score for key, score in self._db.search(every, asked) if score is not None}
        unused = f"SELECT hash FROM embedding_cache WHERE space = {SPACE} EXCEPT SELECT hash FROM chunks"
        for (key,) in self._db.search(unused, space):
            scores.pop(key, None)
        shared = self._db.search("SELECT hash, count(*) FROM chunks GROUP BY hash HAVING count(*) > 1")
        again = (score for key, count in shared if key in scores for score in [scores[key]] * (count - 1))
        ordered = sorted([*scores.values(), *again])
        self._check_read(len(ordered), self.count(space))

        def scored(which: str, wanted: Iterable[str]) -> list[tuple[str, float]]:
            sql = f"SELECT id, hash FROM chunks WHERE {which} FROM json_each(?))"
            found = self._db.search(sql, (json.dumps(list(wanted)),))
            return [(chunk_id, scores[key]) for chunk_id, key in found if key in scores]

        def ids_of(equal: set[float]) -> list[tuple[str, float]]:
            return scored("hash IN (SELECT unhex(value)", (k.hex() for k, s in scores.items() if s in equal))

        return ranks_among(ordered, dict(scored("id IN (SELECT value", ids)), ids_of)

    def _resident(self, space: Space, generation: int) -> ResidentVectors:
        """All vectors of a space in memory; those of this generation are loaded once."""
        with self._loading:
            loaded = self._loaded.get(space)
            if loaded is None or loaded.generation != generation:
                sql = f"SELECT c.id, {BYTES} FROM {EMBEDDED} ORDER BY c.seq"
                every = self._db.search(sql, space)
                self._check_read(len(every), self.count(space))
                with decoding(self._db.path):
                    check_bytes(every)
                    loaded = self._loaded[space] = ResidentVectors.from_rows(generation, every)
            return loaded

    def cosines(self, space: Space, generation: int, vector: Floats, ids: Sequence[str]) -> dict[str, float]:
        held = self._loaded.get(space)
        if held is not None and held.generation == generation:  # as the list of the same search left it
            at = held.rows_of(ids)
            scores = products(held.matrix[[*at.values()]], vector) if at else ()
            return dict(zip(at, map(float, scores), strict=True))
        found = self._db.search(
            f"SELECT c.id, {BYTES} FROM {EMBEDDED} WHERE c.id IN (SELECT value FROM json_each(?4))",
            (*space, json.dumps(list(ids))),
        )
        if not found:
            return {}
        with decoding(self._db.path):
            check_bytes(found)
            matrix = matrix_of([row[1] for row in found], len(vector))
        return {row[0]: float(score) for row, score in zip(found, products(matrix, vector), strict=True)}

    def count(self, space: Space) -> int:
        """How many chunks have a vector in this space."""
        # All with a row, without those whose row is known to have no vector: of both an index alone is read.
        held = f"SELECT count(*) FROM {CACHED if self.lacking(space) else 'chunks'}"
        none = f"""SELECT count(*) FROM embedding_cache e CROSS JOIN chunks c ON c.hash = e.hash
            AND e.embedding IS NULL AND e.space = {SPACE}"""
        return int(self._db.read(f"SELECT ({held}) - ({none})", space)[0][0])

    def dims(self, space: Space) -> int | None:
        found = self._db.read(ONE_VECTOR, space)
        with decoding(self._db.path):
            check_bytes(found)  # another length may be damage, or that of another model
            return len(found[0][0]) // 4 if found else None

    def spaces(self) -> list[SpaceSize]:
        named = self._db.read("SELECT provider, model, provider_key FROM spaces ORDER BY 1, 2, 3")
        found = [(space, self.count(space)) for space in map(Space._make, named)]
        return [SpaceSize(space, vectors, self.dims(space) or 0) for space, vectors in found if vectors]

    # -- the cache --------------------------------------------------------------------------------------

    def cached(self, space: Space, hashes: Iterable[str]) -> dict[str, Vector | None]:
        import numpy as np

        found = self._db.read(
            f"""SELECT lower(hex(hash)), embedding FROM embedding_cache WHERE space = {SPACE}
            AND hash IN (SELECT unhex(value) FROM json_each(?4))""",
            (*space, json.dumps(list(hashes))),
        )
        with decoding(self._db.path):
            return {h: None if blob is None else np.frombuffer(blob, dtype=np.float32) for h, blob in found}

    def cache(
        self,
        connection: apsw.Connection,
        space: Space,
        vectors: Mapping[str, Vector | None],
        *,
        replace: bool = True,
    ) -> None:
        """Keep embeddings by text hash, over those that are there or only where there is none."""
        if not vectors:
            return
        lengths = {len(vector) for vector in vectors.values() if vector is not None}
        held = rows(connection, ONE_VECTOR, space) if lengths else []
        lengths.update(
            len(blob) // 4 for blob, content, checksum in held if as_written(content, blob, checksum)
        )
        if len(lengths) > 1:  # no search could compare them
            raise IndexUnavailable(
                f"The index {self._db.path} cannot hold vectors of {' and '.join(map(str, sorted(lengths)))} "
                f"dimensions of {space.label}. Nothing of this was written: run `openclaw-mem index`."
            )
        sql = "INSERT OR IGNORE INTO spaces(provider, model, provider_key) VALUES(?1, ?2, ?3)"
        connection.execute(sql, space)
        ((number,),) = rows(connection, f"SELECT {SPACE}", space)
        now, otherwise = time.time(), "REPLACE" if replace else "IGNORE"
        made = ((bytes.fromhex(key), None if v is None else v.tobytes()) for key, v in vectors.items())
        connection.executemany(
            f"""INSERT OR {otherwise} INTO embedding_cache(space, hash, embedding, checksum, updated_at)
            VALUES(?, ?, ?, ?, ?)""",
            ((number, content, blob, crc32(content + (blob or b"")), now) for content, blob in made),
        )

    def cache_sizes(self) -> list[CacheSize]:
        found = self._db.read(
            """SELECT provider, model, provider_key, count(*),
                sum(hash IN (SELECT hash FROM chunks)), sum(coalesce(length(embedding), 0)),
                min(updated_at), max(updated_at)
            FROM embedding_cache e JOIN spaces s ON s.id = e.space GROUP BY s.id ORDER BY 4 DESC"""
        )
        with decoding(self._db.path):
            return [CacheSize(Space(*row[:3]), *map(int, row[3:6]), *row[6:]) for row in found]

    @staticmethod
    def prune(connection: apsw.Connection, beyond: int) -> int:
        """Delete up to ``beyond`` rows of the cache, oldest first, sparing the texts that are indexed."""
        connection.execute(
            """DELETE FROM embedding_cache WHERE id IN (
                SELECT id FROM embedding_cache WHERE hash NOT IN (SELECT hash FROM chunks)
                ORDER BY updated_at LIMIT ?)""",
            (beyond,),
        )
        return connection.changes()

    def lacking(self, space: Space) -> bool:
        """Whether there are chunks that were not embedded. Raises IndexDamaged for one that was, and has lost
        its vector."""
        now = self._db.reader(), self._db.version()  # it counts the commits that this connection has seen
        if (known := self._lacking.get(space)) is None or known[0] != now:
            with decoding(self._db.path):
                check_bytes(self._db.read(_SOME_WITHOUT, space))
            known = self._lacking[space] = now, bool(self._db.read(f"SELECT {_LACKING}", space)[0][0])
        return known[1]

    def missing(self, space: Space, limit: int) -> list[StoredChunk]:
        """Chunks that were not embedded."""
        found = self._db.read(
            f"""SELECT {COLUMNS} FROM chunks c
                LEFT JOIN embedding_cache e ON e.hash = c.hash AND e.space = {SPACE}
                WHERE e.hash IS NULL LIMIT ?4""",
            (*space, limit),
        )
        return stored(found, self._db.path)


def bad_vectors(connection: apsw.Connection) -> dict[BadVector, list[int]]:
    """Row numbers of the cache that no search can use, by what is wrong with them."""
    held = connection.execute(f"SELECT id, {NAMES} FROM spaces")
    named = {number for number, *names in held if all(map(_is_text, names))}
    counts = rows(
        connection,
        """SELECT space, length(embedding) FROM embedding_cache WHERE embedding IS NOT NULL
        GROUP BY 1, 2 ORDER BY count(*)""",
    )
    usual: dict[object, object] = dict(counts)  # the most frequent length comes last
    bad: dict[BadVector, list[int]] = {}
    held = connection.execute("SELECT id, space, hash, embedding, checksum FROM embedding_cache")
    for number, space, content, blob, checksum in held:
        fault: BadVector | None = None
        if space not in named:
            fault = "cache-names"
        elif blob is not None and (not isinstance(blob, bytes) or len(blob) != usual[space]):
            fault = "cache-dims"
        elif blob is not None and unit_vector(blob) is None:
            fault = "cache-values"
        elif not as_written(content, blob, checksum):
            fault = "cache-bytes"
        if fault is not None:
            bad.setdefault(fault, []).append(number)
    return bad


def _is_text(name: bytes) -> bool:
    with suppress(TypeError, UnicodeDecodeError):
        str(name, "utf-8")
        return True
    return False
