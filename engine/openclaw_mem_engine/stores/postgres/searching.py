"""Searches in one agent's index in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Note, Space
from openclaw_mem_engine.stores.base import Capabilities, SearchStore, StoredChunk
from openclaw_mem_engine.stores.postgres.content import CHUNK, WITH_VECTORS, WITHOUT_VECTORS, dims_of, literal
from openclaw_mem_engine.stores.postgres.lexical import Lexical
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import AgentRows, Transaction
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery, Scored

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats


class Searches(SearchStore):
    """``SearchStore`` over the rows of an agent."""

    _rows: AgentRows
    _lexical: Lexical
    caps: Capabilities
    #: The notes, and the state of the index that has them.
    _noted: tuple[tuple[int, int], tuple[Note, ...]] = (-1, -1), ()

    @property
    def notes(self) -> tuple[Note, ...]:
        with self._rows.reading() as read:
            state = read.facts.gen, read.facts.generation
            if self._noted[0] != state:  # not in every search
                primary, awaited = read.primary, f"SELECT EXISTS (SELECT 1 {WITHOUT_VECTORS})"
                text = f"Some chunks have no vectors of {primary.label} yet."
                is_behind = primary.has_vectors and read.one(awaited, **read.of_space(None))
                found = (Note("vectors-awaited", text, "warning"),) if is_behind else ()
                self._noted = state, found
        return self._noted[1]

    def generation(self) -> int:
        with self._rows.reading() as read:
            return read.facts.generation

    def fetch(self, ids: Iterable[str]) -> dict[str, StoredChunk]:
        sql = f"""SELECT {CHUNK}, coalesce(f.mtime_ns, 0) FROM {NAME}.chunks c
            LEFT JOIN {NAME}.files f
                ON f.agent = %(agent)s AND f.gen = %(gen)s AND f.path = c.path AND f.source = c.source
            WHERE c.agent = %(agent)s AND c.gen = %(gen)s AND c.id = ANY(%(ids)s)"""
        wanted = list(ids)
        if not wanted:
            return {}
        with self._rows.reading() as read:
            return {row[0]: StoredChunk(*row) for row in read.rows(sql, ids=wanted)}

    def interrupt(self) -> None:
        self._rows.interrupt()

    def close(self) -> None:
        self._rows.close()

    # -- by words ---------------------------------------------------------------------------------------

    def _scores(self, query: LexicalQuery) -> list[dict[str, float]]:
        if not self.caps.full_text:
            return []
        with self._rows.reading(search=True) as read:
            return self._lexical.scores(read, query)

    def lexical(self, query: LexicalQuery, limit: int) -> CandidateRows:
        found: dict[str, Scored] = {}
        matched: set[str] = set()
        for scores in self._scores(query):
            rows = [Scored(*row) for row in scores.items()]
            rows.sort(key=lambda row: (-row.raw, row.chunk_id))
            matched |= {row.chunk_id for row in rows}
            for row in rows[: max(0, limit)]:
                found.setdefault(row.chunk_id, row)
        shown = f" {query.operator} ".join(map(" ".join, query.terms)) if self.caps.full_text else ""
        return CandidateRows(tuple(found.values()), len(matched), shown)

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        found: dict[str, float] = {}
        for scores in self._scores(query) if ids else ():
            for chunk_id in ids:
                if chunk_id in scores:
                    found[chunk_id] = found.get(chunk_id, 0.0) + scores[chunk_id]
        return found

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> Mapping[str, tuple[float, ...]]:
        if not self.caps.full_text or not texts:
            return {}
        with self._rows.reading(search=True) as read:
            return self._lexical.line_scores(read, query, texts, basis)

    # -- by vectors -------------------------------------------------------------------------------------

    @contextmanager
    def _compared(
        self, vector: Floats, space: Space | None
    ) -> Iterator[tuple[Transaction, str, dict[str, Any]]]:
        """The beginning of a statement that reads ``near``: ids and distances of all chunks with a
        vector; and what is bound to it. Materialized, so that numbers are sorted and counted, not vectors."""
        with self._rows.reading(search=True) as read:
            if (held := dims_of(read, space)) not in (None, len(vector)):
                raise IndexUnavailable(
                    f"The vectors of the index have {held} dimensions, that of the query {len(vector)}: run "
                    "`openclaw-mem index --force`."
                )
            near = f"SELECT c.id, v.v <=> %(vector)s::vector AS distance {WITH_VECTORS}"
            bound = read.of_space(space) | {"vector": literal(vector)}
            yield read, f"WITH near AS MATERIALIZED ({near})", bound

    def vector(self, vector: Floats, limit: int, space: Space | None = None) -> CandidateRows:
        if limit < 1:
            return CandidateRows()
        with self._compared(vector, space) as (read, near, bound):
            sql = f"""{near} SELECT id, 1 - distance, count(*) OVER () FROM near
                ORDER BY distance, id LIMIT %(limit)s"""
            rows = read.rows(sql, **bound, limit=limit)
        return CandidateRows(tuple(Scored(*row[:2]) for row in rows), rows[0][2] if rows else 0)

    def cosines(self, vector: Floats, ids: Sequence[str], space: Space | None = None) -> dict[str, float]:
        if not ids:
            return {}
        with self._compared(vector, space) as (read, near, bound):
            sql = f"{near} SELECT id, 1 - distance FROM near WHERE id = ANY(%(ids)s)"
            return dict(read.rows(sql, **bound, ids=list(ids)))

    def vector_ranks(self, vector: Floats, ids: Iterable[str], space: Space | None = None) -> dict[str, int]:
        with self._compared(vector, space) as (read, near, bound):
            sql = f"""{near} SELECT id, rank FROM (
                SELECT id, row_number() OVER (ORDER BY distance, id) AS rank FROM near) ranked
                WHERE id = ANY(%(ids)s)"""
            return dict(read.rows(sql, **bound, ids=list(ids)))
