"""Reading one agent's index in PostgreSQL: what it holds, and every search in it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Note, Source, Space
from openclaw_mem_engine.stores.base import (
    UNLIMITED,
    Capabilities,
    Counts,
    FileState,
    Fingerprint,
    SpaceSize,
    StoredChunk,
)
from openclaw_mem_engine.stores.postgres.lexical import Lexical
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import AgentRows, Facts, Reading
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery, Scored

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.ranking.unshown import Passage

CHUNK = "c.id, c.path, c.source, c.start_line, c.end_line, c.hash, c.text"


class PostgresReader(AgentRows):
    """``SearchStore`` and ``IndexContent`` over one agent's rows (contract: ``stores.base``)."""

    def __init__(self, path: Path, *, full_text: bool = True, **options: Any) -> None:
        for of_files in ("resident", "extension"):
            options.pop(of_files, None)
        super().__init__(path, **options)
        self._lexical = Lexical()
        self.caps = Capabilities(full_text, "pgvector")
        if self._gen is None:
            self.fingerprint()  # reaches the server, and refuses what a newer program wrote

    # -- what the index is ------------------------------------------------------------------------------

    @property
    def notes(self) -> tuple[Note, ...]:
        with self._reading() as read:
            facts = read.facts
        if facts.fingerprint is None or not facts.awaits_vectors:
            return ()
        label = Fingerprint.from_json(facts.fingerprint).space.label
        text = f"Some passages have no vectors of {label} yet: run `openclaw-mem index`."
        return (Note("vectors-awaited", text, "warning"),)

    def generation(self) -> int:
        with self._reading() as read:
            return read.facts.generation

    def fingerprint(self) -> Fingerprint | None:
        with self._reading() as read:
            text = read.facts.fingerprint
        try:
            return None if text is None else Fingerprint.from_json(text)
        except ValueError as error:
            raise IndexUnavailable(
                f"The index at {self.location} was written by another version of this program ({error}): use "
                "that version, or rebuild it with `openclaw-mem index --force`."
            ) from error

    def synced_at(self) -> float | None:
        with self._reading() as read:
            return read.facts.synced_at

    def counts(self) -> Counts:
        sql = f"""SELECT
            (SELECT count(*) FROM {NAME}.files WHERE agent = %s AND gen = %s AND refusal = ''),
            (SELECT count(*) FROM {NAME}.chunks WHERE agent = %s AND gen = %s),
            (SELECT count(*) FROM {NAME}.vectors WHERE agent = %s AND {{usable}})"""
        with self._reading() as read:
            key = self._agent, read.facts.gen
            return Counts(*read.rows(sql.format(usable=self._usable()), (*key, *key, self._agent))[0])

    def spaces(self) -> list[SpaceSize]:
        sql = f"""SELECT v.space, count(*), max(v.dims) FROM {NAME}.chunks c
            JOIN {NAME}.vectors v ON v.agent = %s AND v.hash = c.hash AND v.v IS NOT NULL AND {self._usable()}
            WHERE c.agent = %s AND c.gen = %s GROUP BY v.space ORDER BY 2 DESC, 1"""
        with self._reading() as read:
            found = read.rows(sql, (self._agent, self._agent, read.facts.gen))
        return [SpaceSize(Space(*json.loads(space)), number, dims) for space, number, dims in found]

    def covered(self, space: Space | None = None) -> int:
        with self._reading() as read:
            joined, bound = self._with_vectors(read.facts, space)
            return int(read.one(f"SELECT count(*) {joined}", bound))

    def vector_dims(self, space: Space | None = None) -> int | None:
        sql = f"""SELECT (SELECT dims FROM {NAME}.vectors
            WHERE agent = %s AND space = %s AND pending = %s AND v IS NOT NULL LIMIT 1)"""
        with self._reading() as read:
            found = read.one(sql, (self._agent, *self._space(read.facts, space)))
        return None if found is None else int(found)

    def files(self) -> Mapping[str, FileState]:
        sql = f"""SELECT path, source, hash, mtime_ns, size, inode, checked_ns, refusal FROM {NAME}.files
            WHERE agent = %s AND gen = %s"""
        with self._reading() as read:
            found = read.rows(sql, (self._agent, read.facts.gen))
        return {state.path: state for state in map(FileState._make, found)}

    def is_hollow(self) -> bool:
        sql = f"""SELECT EXISTS (SELECT 1 FROM {NAME}.files
                WHERE agent = %s AND gen = %s AND refusal = '' AND size > 0)
            AND NOT EXISTS (SELECT 1 FROM {NAME}.chunks WHERE agent = %s AND gen = %s)"""
        with self._reading() as read:
            return bool(read.one(sql, (self._agent, read.facts.gen) * 2))

    def chunk_counts(self) -> dict[str, int]:
        sql = f"SELECT path, count(*) FROM {NAME}.chunks WHERE agent = %s AND gen = %s GROUP BY path"
        with self._reading() as read:
            return dict(read.rows(sql, (self._agent, read.facts.gen)))

    # -- reading ----------------------------------------------------------------------------------------

    def chunks_of(self, path: str) -> list[StoredChunk]:
        sql = f"""SELECT {CHUNK} FROM {NAME}.chunks c
            WHERE agent = %s AND gen = %s AND path = %s ORDER BY seq"""
        with self._reading() as read:
            return [StoredChunk(*row) for row in read.rows(sql, (self._agent, read.facts.gen, path))]

    def passages(self) -> Iterable[Passage]:
        from openclaw_mem_engine.ranking.unshown import Passage

        sql = f"""SELECT path, start_line, end_line, text FROM {NAME}.chunks
            WHERE agent = %s AND gen = %s ORDER BY path, source, seq"""
        with self._reading() as read:
            return map(Passage._make, read.rows(sql, (self._agent, read.facts.gen)))

    def in_full_text(self, ids: Iterable[str]) -> set[str]:
        sql = f"""SELECT c.id FROM {NAME}.chunks c JOIN {NAME}.terms t
                ON t.agent = %s AND t.gen = c.gen AND t.seq = c.seq
            WHERE c.agent = %s AND c.gen = %s AND c.id = ANY(%s) GROUP BY c.id HAVING count(*) = 2"""
        if not self.caps.full_text:
            return set()
        with self._reading() as read:
            found = read.rows(sql, (self._agent, self._agent, read.facts.gen, list(ids)))
        return {row[0] for row in found}

    def cached_hashes(self, space: Space) -> list[str]:
        sql = f"""SELECT hash FROM {NAME}.vectors
            WHERE agent = %s AND space = %s AND pending = %s ORDER BY hash"""
        with self._reading() as read:
            return [row[0] for row in read.rows(sql, (self._agent, *self._space(read.facts, space)))]

    def fetch(self, ids: Iterable[str]) -> dict[str, StoredChunk]:
        sql = f"""SELECT {CHUNK}, coalesce(f.mtime_ns, 0) FROM {NAME}.chunks c
            LEFT JOIN {NAME}.files f
                ON f.agent = %s AND f.gen = c.gen AND f.path = c.path AND f.source = c.source
            WHERE c.agent = %s AND c.gen = %s AND c.id = ANY(%s)"""
        wanted = list(ids)
        if not wanted:
            return {}
        with self._reading() as read:
            found = read.rows(sql, (self._agent, self._agent, read.facts.gen, wanted))
        return {row[0]: StoredChunk(*row) for row in found}

    # -- searching --------------------------------------------------------------------------------------

    def _scores(self, query: LexicalQuery) -> list[tuple[dict[str, float], dict[str, str]]]:
        if not self.caps.full_text:
            return []
        with self._reading(search=True) as read:
            state = read.facts.gen, read.facts.generation
            return self._lexical.scores(read.rows, self._agent, state, query)

    def lexical(
        self, query: LexicalQuery, limit: int, sources: Sequence[Source] | None = None
    ) -> CandidateRows:
        found: dict[str, Scored] = {}
        matched: set[str] = set()
        for scores, source_of in self._scores(query):
            rows = [Scored(*row) for row in scores.items() if sources is None or source_of[row[0]] in sources]
            rows.sort(key=lambda row: (-row.raw, row.chunk_id))
            matched |= {row.chunk_id for row in rows}
            for row in rows[: max(0, limit)]:
                found.setdefault(row.chunk_id, row)
        shown = f" {query.operator} ".join(map(" ".join, query.terms)) if self.caps.full_text else ""
        return CandidateRows(tuple(found.values()), len(matched), shown)

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for scores, _ in self._scores(query) if ids else ():
            for chunk_id in ids:
                if chunk_id in scores:
                    found[chunk_id] = found.get(chunk_id, 0.0) + scores[chunk_id]
        return found

    def lexical_ranks(self, query: LexicalQuery, ids: Iterable[str]) -> dict[str, int]:
        return self.lexical(query, UNLIMITED).ranks_of(ids)

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> dict[str, tuple[float, ...]]:
        if not self.caps.full_text or not texts:
            return {}
        with self._reading(search=True) as read:
            state = read.facts.gen, read.facts.generation
            return self._lexical.line_scores(read.rows, self._agent, state, query, texts, basis)

    def _with_vectors(self, facts: Facts, space: Space | None) -> tuple[str, list[Any]]:
        """The chunks that have a vector of this space, and what is bound."""
        sql = f"""FROM {NAME}.chunks c JOIN {NAME}.vectors v ON v.agent = %s AND v.space = %s
                AND v.pending = %s AND v.hash = c.hash AND v.v IS NOT NULL
            WHERE c.agent = %s AND c.gen = %s"""
        return sql, [self._agent, *self._space(facts, space), self._agent, facts.gen]

    @contextmanager
    def _compared(self, vector: Floats, space: Space | None) -> Iterator[tuple[Reading, str, list[Any]]]:
        """The beginning of a statement that reads ``near``: ids, sources and distances of all chunks with a
        vector; and what is bound to it. Materialized, so that numbers are sorted and counted, not vectors."""
        with self._reading(search=True) as read:
            joined, bound = self._with_vectors(read.facts, space)
            held = self.vector_dims(space)
            if held not in (None, len(vector)):
                raise IndexUnavailable(
                    f"The vectors of the index have {held} dimensions, that of the query {len(vector)}: run "
                    "`openclaw-mem index --force`."
                )
            near = f"SELECT c.id, c.source, v.v <=> %s::vector AS distance {joined}"
            yield read, f"WITH near AS MATERIALIZED ({near})", [literal(vector), *bound]

    def vector(
        self,
        vector: Floats,
        limit: int,
        sources: Sequence[Source] | None = None,
        space: Space | None = None,
    ) -> CandidateRows:
        if limit < 1:
            return CandidateRows()
        with self._compared(vector, space) as (read, near, bound):
            chosen = "WHERE source = ANY(%s)" if sources is not None else ""
            sql = f"""{near} SELECT id, 1 - distance, count(*) OVER () FROM near {chosen}
                ORDER BY distance, id LIMIT %s"""
            rows = read.rows(sql, [*bound, *([list(sources)] if sources is not None else []), limit])
        return CandidateRows(tuple(Scored(*row[:2]) for row in rows), rows[0][2] if rows else 0)

    def cosines(self, vector: Floats, ids: Sequence[str], space: Space | None = None) -> dict[str, float]:
        if not ids:
            return {}
        with self._compared(vector, space) as (read, near, bound):
            sql = f"{near} SELECT id, 1 - distance FROM near WHERE id = ANY(%s)"
            return dict(read.rows(sql, [*bound, list(ids)]))

    def vector_ranks(self, vector: Floats, ids: Iterable[str], space: Space | None = None) -> dict[str, int]:
        with self._compared(vector, space) as (read, near, bound):
            sql = f"""{near} SELECT id, rank FROM (
                SELECT id, row_number() OVER (ORDER BY distance, id) AS rank FROM near) ranked
                WHERE id = ANY(%s)"""
            return dict(read.rows(sql, [*bound, list(ids)]))

    # -- its state

    def follow(self, *, make: bool = True) -> int:
        """Every transaction reads the rows that are live by then."""
        del make
        return 1

    def is_present(self) -> bool:
        return True

    def bytes_on_disk(self) -> int:
        """Of this agent's rows, without what its server keeps beside them."""
        sizes = (
            f"(SELECT coalesce(sum(pg_column_size(x)), 0) FROM {NAME}.{table} x WHERE agent = %s)"
            for table in ("files", "chunks", "terms", "vectors")
        )
        with self._reading() as read:
            return int(read.one(f"SELECT {' + '.join(sizes)}", [self._agent] * 4))


def literal(vector: Floats) -> str:
    """A vector as pgvector reads it; its float32 values come back as they are."""
    return f"[{','.join(map(repr, vector.tolist()))}]"
