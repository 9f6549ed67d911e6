"""Writing one agent's index in PostgreSQL: changes, the embedding cache, new generations."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Source, Space
from openclaw_mem_engine.stores.base import (
    CacheSize,
    FileChange,
    FileState,
    Fingerprint,
    Generation,
    IndexStore,
    StoredChunk,
)
from openclaw_mem_engine.stores.postgres.lexical import term_row
from openclaw_mem_engine.stores.postgres.reader import CHUNK, literal
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import Reading
from openclaw_mem_engine.stores.postgres.writing import PostgresWriting
from openclaw_mem_engine.stores.tokens import FORMS

if TYPE_CHECKING:
    import numpy as np

    from openclaw_mem_engine.stores.base import Vector
    from openclaw_mem_engine.stores.findings import Outcome

_GENERATION_TABLES = ("generations", "files", "chunks", "terms")


class PostgresIndex(PostgresWriting, IndexStore):
    """``IndexStore`` over one agent's rows (contract: ``stores.base``)."""

    def diagnosis(self) -> Mapping[str, Callable[[Outcome], None]]:
        from openclaw_mem_engine.stores.postgres.checks import diagnosis

        return diagnosis(self)

    # -- changes ----------------------------------------------------------------------------------------

    def begin(self, fingerprint: Fingerprint) -> None:
        with self._writing(bump=False) as write:
            self._put(write, "fingerprint", fingerprint.to_json())

    def _put(self, write: Reading, fact: str, value: object) -> None:
        sql = f"UPDATE {NAME}.generations SET {fact} = %s WHERE agent = %s AND gen = %s"
        write.execute(sql, (value, self._agent, write.facts.gen))

    def apply(self, *changes: FileChange, built_with: Fingerprint | None = None) -> None:
        with self._writing(built_with=built_with) as write:
            key = self._agent, write.facts.gen
            last = write.one(f"SELECT max(seq) FROM {NAME}.chunks WHERE agent = %s AND gen = %s", key)
            numbers = count((last or 0) + 1)
            chunks: list[tuple[Any, ...]] = []
            terms: list[tuple[Any, ...]] = []
            made: dict[str, Vector | None] = {}
            for change in changes:
                self._delete(write, change.state.path, change.state.source)
                pairs = zip(change.chunks, change.vectors, strict=True)
                # Equal pieces of one over-long line share an id, and one row.
                for chunk, vector in {chunk.chunk_id: (chunk, vector) for chunk, vector in pairs}.values():
                    seq = next(numbers)
                    # PostgreSQL keeps no NUL; notes have none either (``reading``), transcripts may.
                    chunks.append((*key, seq, *chunk[:6], chunk.text.replace("\0", "\ufffd")))
                    if self.caps.full_text:
                        rows = (term_row(form, chunk.path, chunk.text) for form in FORMS)
                        terms += [(*key, seq, *row) for row in rows]
                    if vector is not None:
                        made[chunk.hash] = vector
            self._insert(
                write, "chunks(agent, gen, seq, id, path, source, start_line, end_line, hash, text)", chunks
            )
            self._insert(write, "terms(agent, gen, seq, kind, dl, nl, t, n)", terms)
            self._put_states(write, [change.state for change in changes])
            if built_with is not None:
                # What was put into the cache before its chunk was written may have been pruned meanwhile.
                self._cache(write, made, built_with.space, replace=False)
            if any(change.awaits_vectors for change in changes):
                self._put(write, "awaits_vectors", True)

    @staticmethod
    def _insert(write: Reading, into: str, rows: Sequence[tuple[Any, ...]], more: str = "") -> None:
        if rows:
            marks = ", ".join(["%s"] * len(rows[0]))
            sql = f"INSERT INTO {NAME}.{into} VALUES ({marks}) {more}"
            with write.connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    def _delete(self, write: Reading, path: str, source: str) -> None:
        write.execute(
            f"""WITH gone AS (DELETE FROM {NAME}.chunks
                WHERE agent = %s AND gen = %s AND path = %s AND source = %s RETURNING seq)
            DELETE FROM {NAME}.terms t USING gone WHERE t.agent = %s AND t.gen = %s AND t.seq = gone.seq""",
            (self._agent, write.facts.gen, path, source, self._agent, write.facts.gen),
        )

    def _put_states(self, write: Reading, states: Sequence[FileState]) -> None:
        columns = "path source hash mtime_ns size inode checked_ns refusal".split()
        update = ", ".join(f"{name} = excluded.{name}" for name in columns[2:])
        rows = [(self._agent, write.facts.gen, *state) for state in states]
        more = f"ON CONFLICT (agent, gen, path, source) DO UPDATE SET {update}"
        self._insert(write, f"files(agent, gen, {', '.join(columns)})", rows, more)

    def touch(self, states: Sequence[FileState]) -> None:
        if states:
            with self._writing(bump=False) as write:
                self._put_states(write, states)

    def remove(self, path: str, source: Source) -> None:
        with self._writing() as write:
            self._delete(write, path, source)
            sql = f"DELETE FROM {NAME}.files WHERE agent = %s AND gen = %s AND path = %s AND source = %s"
            write.execute(sql, (self._agent, write.facts.gen, path, source))

    def chunks_without_vector(self, limit: int, space: Space | None = None) -> list[StoredChunk]:
        with self._reading() as read:
            asked, primary = self._space(read.facts, space), self._space(read.facts, None)
            if read.facts.fingerprint is None or (asked == primary and not read.facts.awaits_vectors):
                return []
            sql = f"""SELECT {CHUNK} FROM {NAME}.chunks c WHERE agent = %s AND gen = %s AND NOT EXISTS (
                SELECT 1 FROM {NAME}.vectors v
                WHERE v.agent = %s AND v.space = %s AND v.pending = %s AND v.hash = c.hash)
                ORDER BY seq LIMIT %s"""
            found = read.rows(sql, (self._agent, read.facts.gen, self._agent, *asked, limit))
        return [StoredChunk(*row) for row in found]

    def set_vectors(self, vectors: Mapping[str, Vector], built_with: Fingerprint | None = None) -> None:
        with self._writing(built_with=built_with) as write:
            sql = f"SELECT id, hash FROM {NAME}.chunks WHERE agent = %s AND gen = %s AND id = ANY(%s)"
            found = dict(write.rows(sql, (self._agent, write.facts.gen, list(vectors))))
            self._cache(write, {found[i]: v for i, v in vectors.items() if i in found}, None)

    def vectors_complete(self) -> None:
        with self._writing(bump=False) as write:
            self._put(write, "awaits_vectors", False)

    def finish(self, synced_at: float, *, purge: bool = False) -> None:  # noqa: ARG002
        with self._writing(bump=False) as write:
            self._put(write, "synced_at", synced_at)

    # -- the cache --------------------------------------------------------------------------------------

    def cached_vectors(self, hashes: Iterable[str], space: Space | None = None) -> dict[str, Vector | None]:
        sql = f"""SELECT hash, vector_send(v) FROM {NAME}.vectors
            WHERE agent = %s AND space = %s AND pending = %s AND hash = ANY(%s)"""
        with self._reading() as read:
            found = read.rows(sql, (self._agent, *self._space(read.facts, space), list(hashes)))
        return {content: None if sent is None else _received(sent) for content, sent in found}

    def cache_vectors(self, vectors: Mapping[str, Vector | None], space: Space | None = None) -> None:
        if vectors:
            with self._writing(bump=space is not None) as write:
                self._cache(write, vectors, space)

    def _cache(
        self,
        write: Reading,
        vectors: Mapping[str, Vector | None],
        space: Space | None,
        *,
        replace: bool = True,
    ) -> None:
        if space is None and write.facts.fingerprint is None:
            return
        key, now = self._space(write.facts, space), time.time()
        rows = [
            (self._agent, *key, content, *((None, 0) if v is None else (literal(v), v.size)), now)
            for content, v in vectors.items()
        ]
        update = "UPDATE SET v = excluded.v, dims = excluded.dims, updated_at = excluded.updated_at"
        more = f"ON CONFLICT (agent, space, pending, hash) DO {update if replace else 'NOTHING'}"
        self._insert(write, "vectors(agent, space, pending, hash, v, dims, updated_at)", rows, more)

    def cache_sizes(self) -> list[CacheSize]:
        sql = f"""SELECT space, count(*), count(c.hash), sum(4 * dims)::bigint, min(updated_at),
                max(updated_at)
            FROM {NAME}.vectors v LEFT JOIN (
                SELECT DISTINCT hash FROM {NAME}.chunks WHERE agent = %s AND gen = %s) c ON c.hash = v.hash
            WHERE agent = %s AND {self._usable()} GROUP BY space ORDER BY 2 DESC, 1"""
        with self._reading() as read:
            found = read.rows(sql, (self._agent, read.facts.gen, self._agent))
        return [CacheSize(Space(*json.loads(space)), *sizes) for space, *sizes in found]

    def prune_cache(self, most: int) -> int:
        beyond = self.counts().cached - most
        if beyond <= 0:
            return 0
        sql = f"""DELETE FROM {NAME}.vectors WHERE agent = %(agent)s AND (space, pending, hash) IN (
            SELECT space, pending, hash FROM {NAME}.vectors v WHERE agent = %(agent)s AND pending = 0
                AND NOT EXISTS (SELECT 1 FROM {NAME}.chunks c WHERE c.agent = %(agent)s AND c.hash = v.hash)
            ORDER BY updated_at, hash LIMIT %(beyond)s)"""
        with self._writing(bump=False) as write:
            bound = {"agent": self._agent, "beyond": beyond}
            return int(write.execute(sql, bound).rowcount)

    # -- generations ------------------------------------------------------------------------------------

    def new_generation(self, fingerprint: Fingerprint, without: Space | None = None) -> PostgresGeneration:
        with self._writing(bump=False) as write:
            sql = f"SELECT max(gen) + 1 FROM {NAME}.generations WHERE agent = %s"
            gen = int(write.one(sql, (self._agent,)))  # not the number of a rebuild that lost its lease
            self._sweep(write)  # what killed rebuilds left
            self._insert(
                write,
                "generations(agent, gen, fingerprint, generation)",
                [(self._agent, gen, fingerprint.to_json(), 1)],
            )
        return PostgresGeneration(self, gen, without)

    def _sweep(self, write: Reading) -> None:
        """Remove the rows of every generation but the live one."""
        live = f"(SELECT live FROM {NAME}.agents WHERE agent = %s)"
        for table in _GENERATION_TABLES:
            sql = f"DELETE FROM {NAME}.{table} WHERE agent = %s AND gen <> {live}"
            write.execute(sql, (self._agent, self._agent))
        sql = f"DELETE FROM {NAME}.vectors WHERE agent = %s AND pending <> 0"
        write.execute(sql, (self._agent,))


class PostgresGeneration(PostgresIndex, Generation):
    """A generation that is being filled: rows with a number of its own. It shares the cache of the live one
    but for the space that it makes anew."""

    def __init__(self, old: PostgresIndex, gen: int, without: Space | None) -> None:
        more = {"full_text": old.caps.full_text, "follows": old._follows}
        super().__init__(old.path, location=old._at, gen=gen, without=without, **more)
        self._old, self._is_over = old, False
        self._owner, self._holds_lease = old._owner, old._holds_lease

    def commit(self) -> None:
        """The swap is one row; readers that began before go on with the old rows."""
        with self._writing(bump=False) as write:
            execute, agent, gen = write.execute, self._agent, self._gen
            if self._without is not None:
                sql = f"DELETE FROM {NAME}.vectors WHERE agent = %s AND pending = 0 AND space = %s"
                execute(sql, (agent, self._space(write.facts, self._without)[0]))
            sql = f"UPDATE {NAME}.vectors SET pending = 0 WHERE agent = %s AND pending = %s"
            execute(sql, (agent, gen))
            # A number that readers have seen must not come again.
            execute(
                f"""UPDATE {NAME}.generations g SET generation = 1 + (
                    SELECT max(o.generation) FROM {NAME}.generations o WHERE o.agent = %s)
                WHERE g.agent = %s AND g.gen = %s""",
                (agent, agent, gen),
            )
            execute(f"UPDATE {NAME}.agents SET live = %s WHERE agent = %s", (gen, agent))
        self._end()

    def abort(self) -> None:
        if not self._is_over:
            self._end()

    def _end(self) -> None:
        """Remove the rows that are not live; a later rebuild does it when the server is gone now."""
        self._is_over = True
        try:
            with suppress(IndexUnavailable), self._old._writing(bump=False) as write:
                self._sweep(write)
        finally:
            self.close()


def _received(sent: bytes) -> np.ndarray[Any, Any]:
    """The values of a vector as pgvector sends it: two 16-bit numbers, then big-endian float32."""
    import numpy as np

    return np.frombuffer(sent, dtype=">f4", offset=4).astype(np.float32)
