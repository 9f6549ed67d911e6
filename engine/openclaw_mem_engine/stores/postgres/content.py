"""What one agent's index in PostgreSQL holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import (
    Capabilities,
    Counts,
    FileState,
    Fingerprint,
    IndexContent,
    SpaceSize,
    StoredChunk,
)
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import OWN, USABLE, AgentRows, Transaction

if TYPE_CHECKING:
    from openclaw_mem_engine.ranking.unshown import Passage

#: The columns of a chunk, as ``StoredChunk`` has them, but for the time of its file.
CHUNK = "c.id, c.path, c.source, c.start_line, c.end_line, c.hash, c.text"
#: The chunks that have a vector of a space (see ``Transaction.of_space``).
WITH_VECTORS = f"""FROM {NAME}.chunks c JOIN {NAME}.vectors v ON v.agent = %(agent)s AND v.space = %(space)s
        AND v.pending = %(pending)s AND v.hash = c.hash AND v.v IS NOT NULL
    WHERE c.agent = %(agent)s AND c.gen = %(gen)s"""
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


class Content(IndexContent):
    """``IndexContent`` over the rows of an agent."""

    _rows: AgentRows
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
