"""Changes of one agent's index in PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import Source, Space
from openclaw_mem_engine.stores.base import (
    Capabilities,
    FileChange,
    FileState,
    Fingerprint,
    IndexWriter,
    StoredChunk,
)
from openclaw_mem_engine.stores.postgres.content import CHUNK, WITHOUT_VECTORS, put_missing, put_vectors
from openclaw_mem_engine.stores.postgres.lexical import term_row
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import OWN, AgentRows, Transaction
from openclaw_mem_engine.stores.postgres.turns import Turns
from openclaw_mem_engine.stores.tokens import FORMS

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector
    from openclaw_mem_engine.stores.postgres.connections import Row


class Changes(IndexWriter):
    """``IndexWriter`` over the rows of an agent."""

    _rows: AgentRows
    _turns: Turns
    caps: Capabilities

    def begin(self, fingerprint: Fingerprint) -> None:
        self._put("fingerprint", fingerprint.to_json())

    def finish(self, synced_at: float, *, purge: bool = False) -> None:  # noqa: ARG002
        self._put("synced_at", synced_at)

    def _put(self, fact: str, value: object) -> None:
        with self._turns.writing(bump=False) as write:
            write.execute(f"UPDATE {NAME}.generations SET {fact} = %(value)s WHERE {OWN}", value=value)

    def apply(self, *changes: FileChange, built_with: Fingerprint | None = None) -> None:
        with self._turns.writing(built_with=built_with) as write:
            key = write.agent, write.facts.gen
            last = write.one(f"SELECT max(seq) FROM {NAME}.chunks WHERE {OWN}")
            numbers = count((last or 0) + 1)
            chunks: list[Row] = []
            terms: list[Row] = []
            made: dict[str, Vector] = {}
            for change in changes:
                _delete(write, change.state.path, change.state.source)
                pairs = zip(change.chunks, change.vectors, strict=True)
                # Equal pieces of one over-long line share an id, and one row.
                for chunk, vector in {chunk.chunk_id: (chunk, vector) for chunk, vector in pairs}.values():
                    seq = next(numbers)
                    # PostgreSQL keeps no NUL; notes have none either (``reading``), transcripts may.
                    chunks.append((*key, seq, *chunk[:6], chunk.text.replace("\0", "\ufffd")))
                    rows = (term_row(form, chunk.path, chunk.text) for form in FORMS)
                    terms += [(*key, seq, *row) for row in rows]
                    if vector is not None:
                        made[chunk.hash] = vector
            write.insert(
                "chunks(agent, gen, seq, id, path, source, start_line, end_line, hash, text)", chunks
            )
            write.insert("terms(agent, gen, seq, kind, dl, nl, t, n)", terms)
            _put_states(write, [change.state for change in changes])
            if built_with is not None:
                # What was put into the cache before its chunk was written may have been pruned meanwhile.
                put_missing(write, made, built_with.space)

    def touch(self, states: Sequence[FileState]) -> None:
        if states:
            with self._turns.writing(bump=False) as write:
                _put_states(write, states)

    def remove(self, *files: tuple[str, Source]) -> None:
        sql = f"DELETE FROM {NAME}.files WHERE {OWN} AND path = %(path)s AND source = %(source)s"
        with self._turns.writing() as write:
            for path, source in files:
                _delete(write, path, source)
                write.execute(sql, path=path, source=source)

    def chunks_without_vector(self, limit: int, space: Space | None = None) -> list[StoredChunk]:
        sql = f"SELECT {CHUNK} {WITHOUT_VECTORS} ORDER BY seq LIMIT %(limit)s"
        with self._rows.reading() as read:
            if not (space or read.primary).has_vectors:
                return []
            return [StoredChunk(*row) for row in read.rows(sql, **read.of_space(space), limit=limit)]

    def set_vectors(self, vectors: Mapping[str, Vector], built_with: Fingerprint | None = None) -> None:
        sql = f"SELECT id, hash FROM {NAME}.chunks WHERE {OWN} AND id = ANY(%(ids)s)"
        with self._turns.writing(built_with=built_with) as write:
            hashes: dict[str, str] = dict(write.rows(sql, ids=list(vectors)))
            put_vectors(write, {hashes[i]: v for i, v in vectors.items() if i in hashes}, None)


def _delete(write: Transaction, path: str, source: str) -> None:
    """The chunks of a file, and their words."""
    write.execute(
        f"""WITH gone AS (DELETE FROM {NAME}.chunks
            WHERE {OWN} AND path = %(path)s AND source = %(source)s RETURNING seq)
        DELETE FROM {NAME}.terms t USING gone
            WHERE t.agent = %(agent)s AND t.gen = %(gen)s AND t.seq = gone.seq""",
        path=path,
        source=source,
    )


def _put_states(write: Transaction, states: Sequence[FileState]) -> None:
    columns = FileState._fields
    update = ", ".join(f"{name} = excluded.{name}" for name in columns[2:])
    rows = [(write.agent, write.facts.gen, *state) for state in states]
    more = f"ON CONFLICT (agent, gen, path, source) DO UPDATE SET {update}"
    write.insert(f"files(agent, gen, {', '.join(columns)})", rows, more)
