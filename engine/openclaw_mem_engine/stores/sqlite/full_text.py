"""Full-text rows of the SQLite index: FTS5 expressions, three FTS5 tables, and the best line of a chunk."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Literal

import apsw

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.stores.query import CandidateRows, Common, Derived, LexicalQuery, Scored
from openclaw_mem_engine.stores.scoring import Stemmer, document_frequencies, line_bm25, ranks_among
from openclaw_mem_engine.stores.sqlite.chunks import readable
from openclaw_mem_engine.stores.sqlite.database import Bound, Database, decoding
from openclaw_mem_engine.stores.sqlite.files import damaged
from openclaw_mem_engine.stores.sqlite.schema import (
    DERIVED,
    FULL_TEXT_ROWS,
    FULL_TEXT_TABLES,
    TEXT,
    Meta,
    derived,
)
from openclaw_mem_engine.stores.tokens import tokens_of

#: Rows that are looked up one by one: from three on, whatever the index and the words, one pass is faster.
_FEW = 2


def expression_of(query: LexicalQuery) -> str:
    """The FTS5 expression. Every token is quoted, so no character of the user's text has a meaning there."""
    return (" AND " if query.operator == "and" else " OR ").join(map(_quoted, query.terms))


def _quoted(term: tuple[str, ...]) -> str:
    # A single CJK character is searched as the beginning of a bigram.
    if len(term) == 1 and term[0].endswith("*"):
        return f'"{term[0][:-1]}"*'
    return '"' + " ".join(term).replace('"', '""') + '"'


def _table(query: LexicalQuery) -> tuple[str, str]:
    """The table that a query searches, and the SQL of its score (negative, best smallest)."""
    table = FULL_TEXT_TABLES[query.form]
    return table, f"bm25({table}, 1.0, {query.name_weight!r})" if query.name_weight > 0 else f"bm25({table})"


def tables_of(connection: apsw.Connection) -> Mapping[Derived, str]:
    """The full-text tables by form: those that are there, and the one that every index has."""
    held = {"stemmed", *derived(connection)}
    return {form: table for form, table in FULL_TEXT_TABLES.items() if form in held}


def _among_rows(ids: Sequence[str]) -> str:
    """The condition that a row of a full-text table is one of a JSON list. FTS5 evaluates the expression anew
    for each rowid; "+" makes it read all matches once instead."""
    return f"{'+' if len(ids) > _FEW else ''}rowid IN (SELECT value FROM json_each(?))"


def _best_first(hit: Scored) -> tuple[float, str]:
    return -hit.raw, hit.chunk_id


class _Matches(NamedTuple):
    """The scores of all matches of a query in a generation of the index, by ``seq``, and smallest first."""

    query: LexicalQuery
    generation: int
    scores: Mapping[int, float]
    ordered: Sequence[float]


class _LookedUp(NamedTuple):
    """What was looked up so far in a generation of the index: chunks by ``seq`` and by id, and how many rows
    each term of a table has."""

    generation: int
    ids: dict[int, str]
    seqs: dict[str, int]
    counts: dict[tuple[str, str], int]


class FullTextRows:
    """Full-text reads and writes of a :class:`SqliteIndex` (see ``SearchStore``). All scores are negated FTS5
    bm25: >= 0 in practice, larger is better."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._stemmer = Stemmer(partial(tokens_of, "stemmed"))
        #: Of the query whose ranks were asked for last.
        self._matches: _Matches | None = None
        self._looked_up = _LookedUp(-1, {}, {}, {})

    def holding(self, ids: Iterable[str]) -> set[str]:
        """Those of these chunks that have a row in every full-text table."""
        tables = tables_of(self._db.reader()).values()
        joined = "".join(f" JOIN {table} ON {table}.rowid = c.seq" for table in tables)
        sql = f"SELECT c.id FROM json_each(?) wanted JOIN chunks c ON c.id = wanted.value{joined}"
        return {row[0] for row in self._db.read(sql, (json.dumps(list(ids)),))}

    def search(self, query: LexicalQuery, limit: int, generation: int) -> CandidateRows:
        """The best rows; for ``keywords`` those of one word after the other. Ties at the limit are settled by
        chunk id: while the rows there have equal scores, more are fetched."""
        whole, found, is_cut = expression_of(query), dict[str, Scored](), False
        table, score = _table(query)
        # ORDER BY bm25() lets SQLite keep only the best rows; ORDER BY rank would sort every match.
        sql = f"SELECT rowid, -{score} FROM {table} WHERE {table} MATCH ? ORDER BY {score} LIMIT ?"
        for expression in map(_quoted, query.terms) if query.operator == "keywords" else (whole,):
            wanted = max(0, limit) + 8
            while True:
                scores = self._scored(sql, (expression, wanted))
                ordered = sorted(scores.values(), reverse=True)
                if len(ordered) < wanted or limit < 1 or ordered[limit - 1] > ordered[-1]:
                    break
                wanted *= 4
            border = ordered[limit - 1] if 0 < limit < len(ordered) else -math.inf
            best = {seq: score for seq, score in scores.items() if score >= border}
            hits = sorted((Scored(*hit) for hit in self._with_ids(best, generation)), key=_best_first)
            is_cut |= len(hits) >= limit
            for hit in hits[: max(0, limit)]:
                found.setdefault(hit.chunk_id, hit)
        matched = self._count(query, whole) if is_cut else len(found)
        return CandidateRows(tuple(found.values()), max(matched, len(found)), whole)

    def without_common(self, query: LexicalQuery, generation: int) -> LexicalQuery:
        if query.operator != "or" or len(query.terms) < 2:
            return query
        known, (table, _) = self._held(generation).counts, _table(query)
        if (total := self._total(generation)) < Common.FROM:
            return query
        for new in {(table, _quoted(term)) for term in query.terms} - known.keys():
            known[new] = self._count(query, new[1])
        counts = {term: known[table, _quoted(term)] for term in query.terms}
        most = max(Common.SHARE * total, min((n for n in counts.values() if n), default=0))
        kept = tuple(term for term, count in counts.items() if count <= most)
        return replace(query, terms=kept)

    def _total(self, generation: int) -> int:
        """How many chunks there are."""
        known = self._held(generation).counts
        if ("chunks", "") not in known:
            known["chunks", ""] = int(self._db.read("SELECT count(*) FROM chunks")[0][0])
        return known["chunks", ""]

    def _count(self, query: LexicalQuery, expression: str) -> int:
        table, _ = _table(query)
        sql = f"SELECT count(*) FROM {table} WHERE {table} MATCH ?"
        return int(self._db.search(sql, (expression,))[0][0])

    def scores(self, query: LexicalQuery, ids: Sequence[str], generation: int) -> dict[str, float]:
        if (known := self._matches) is not None and known[:2] == (query, generation):
            return self._among(known.scores, ids, generation)
        table, score = _table(query)
        sql = f"SELECT rowid, -{score} FROM {table} WHERE {table} MATCH ? AND {_among_rows(ids)}"
        scores = self._scored(sql, (expression_of(query), self._rows_of(ids, generation)))
        return dict(self._with_ids(scores, generation))

    def matching(self, query: LexicalQuery, ids: Sequence[str], generation: int) -> frozenset[str]:
        """Without scores, which take ten times as long."""
        table, _ = _table(query)
        sql = f"SELECT rowid, 0.0 FROM {table} WHERE {table} MATCH ? AND {_among_rows(ids)}"
        scores = self._scored(sql, (expression_of(query), self._rows_of(ids, generation)))
        return frozenset(chunk_id for chunk_id, _ in self._with_ids(scores, generation))

    def ranks(self, query: LexicalQuery, ids: Iterable[str], generation: int) -> dict[str, int]:
        """Without the ids of all matches, which take longer to read than their scores."""
        known = self._every(query, generation)
        scores = known.scores

        def ids_of(equal: set[float]) -> list[tuple[str, float]]:
            return self._with_ids({seq: score for seq, score in scores.items() if score in equal}, generation)

        return ranks_among(known.ordered, self._among(scores, ids, generation), ids_of)

    def _every(self, query: LexicalQuery, generation: int) -> _Matches:
        """Every match, of the query that was asked for last."""
        known = self._matches
        if known is None or known[:2] != (query, generation):
            table, score = _table(query)
            sql = f"SELECT rowid, -{score} FROM {table} WHERE {table} MATCH ?"
            every = self._scored(sql, (expression_of(query),))
            known = self._matches = _Matches(query, generation, every, sorted(every.values()))
        return known

    def _scored(self, sql: str, bound: Bound) -> dict[int, float]:
        """Scores by ``seq``. Raises IndexDamaged when one cannot be computed."""
        found: dict[int, float] = dict(self._db.search(sql, bound))
        with decoding(self._db.path, self._db.advice):
            if not set(map(type, found.values())) <= {float}:
                raise ValueError("a row that is searched has no score")
        return found

    def _rows_of(self, ids: Sequence[str], generation: int) -> str:
        """The ``seq`` of chunks, as JSON."""
        seqs = self._chunks("id", ids, generation).seqs
        return json.dumps([seqs[chunk_id] for chunk_id in ids if chunk_id in seqs])

    def _with_ids(self, scores: Mapping[int, float], generation: int) -> list[tuple[str, float]]:
        """Chunk id and score, of scores by ``seq``. Raises IndexDamaged when there is no such chunk: of rows
        that a damaged page has lost, their words remain."""
        ids = self._chunks("seq", scores, generation).ids
        found = [(ids[seq], score) for seq, score in scores.items() if ids.get(seq) is not None]
        if len(found) < len(scores):
            said = f"words without their chunk: {len(scores) - len(found):,}"
            raise damaged(said, self._db.path, self._db.advice.repair)
        return found

    def _among(self, scores: Mapping[int, float], wanted: Iterable[str], generation: int) -> dict[str, float]:
        """The scores, which are by ``seq``, of chunks by id; those without one are left out."""
        wanted = list(wanted)
        seqs = self._chunks("id", wanted, generation).seqs
        return {i: scores[seq] for i in wanted if (seq := seqs.get(i, -1)) in scores}

    def _chunks(self, by: Literal["seq", "id"], wanted: Iterable[str | int], generation: int) -> _LookedUp:
        """These chunks among others, each read once in a generation."""
        held = self._held(generation)
        known: Container[object] = held.ids if by == "seq" else held.seqs
        if new := [one for one in wanted if one not in known]:
            sql = f"SELECT seq, id FROM chunks WHERE {by} IN (SELECT value FROM json_each(?))"
            found = self._db.read(sql, (json.dumps(new),))
            held.ids.update(found)
            held.seqs.update((chunk_id, seq) for seq, chunk_id in found)
        return held

    def _held(self, generation: int) -> _LookedUp:
        if (held := self._looked_up).generation != generation:
            held = self._looked_up = _LookedUp(generation, {}, {}, {})
        return held

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str], generation: int
    ) -> Mapping[str, tuple[float, ...]]:
        terms = self._stemmer.terms(query)
        known, counts = self._held(generation).counts, Counter[str]()
        for token in {token for term in terms for token in term}:
            if (key := ("chunks_terms", token)) not in known:
                held = self._db.read("SELECT doc FROM chunks_terms WHERE term = ?", (token,))
                known[key] = held[0][0] if held else 0
            counts[token] = known[key]
        matching = document_frequencies(counts, terms)
        return line_bm25(terms, self._stemmer.where(terms, texts), basis, matching, self._total(generation))

    def insert(self, connection: apsw.Connection, added: Sequence[Bound]) -> None:
        """Index (seq, path, text) rows in every table, over rows that outlived their chunk (damage from
        outside)."""
        for form in tables_of(connection):
            self.write(connection, form, added)

    def delete(self, connection: apsw.Connection, seqs: Sequence[Bound]) -> None:
        """Remove rows by (seq,)."""
        for table in tables_of(connection).values():
            connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", seqs)

    def purge(self, connection: apsw.Connection) -> None:
        """Overwrite the words of deleted rows, which FTS5 keeps until it merges the segments that hold them:
        about 50 µs a chunk of the index."""
        self.remake_unusable(connection)
        for table in tables_of(connection).values():
            connection.execute(f"INSERT INTO {table}({table}) VALUES('optimize')")
        Meta.set_words_left(connection, False)

    def remake_unusable(self, connection: apsw.Connection) -> None:
        """Make tables that cannot be used anew from the chunks. Raises CorruptError where not even that is
        possible: then only a new file helps."""
        if (trouble := self.trouble(connection)) is not None:
            with suppress(apsw.SQLError):
                self.refill(connection)
                return
            raise apsw.CorruptError(str(trouble))

    @staticmethod
    def write(connection: apsw.Connection, form: Derived, added: Iterable[Bound]) -> None:
        """Index rows that begin with seq, path and text in the table of one form."""
        into, values = FULL_TEXT_ROWS[form]
        sql = f"INSERT OR REPLACE INTO {FULL_TEXT_TABLES[form]}{into}"
        connection.executemany(sql, (values(*row[:3]) for row in added))

    @classmethod
    def fill(cls, connection: apsw.Connection, form: Derived, chunks: Iterable[Bound]) -> None:
        """Make the table of one form from all chunks, in one segment."""
        connection.execute(DERIVED[form])
        cls.write(connection, form, chunks)
        table = FULL_TEXT_TABLES[form]
        connection.execute(f"INSERT INTO {table}({table}) VALUES('optimize')")

    @classmethod
    def refill(cls, connection: apsw.Connection) -> None:
        """Make the tables anew from the chunks."""
        tables = tables_of(connection)
        chunks = [*readable(connection.execute(f"SELECT seq, path, {TEXT} FROM chunks c"))]
        for table in ("chunks_terms", *tables.values()):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for form in tables:
            cls.fill(connection, form, chunks)

    @staticmethod
    def trouble(connection: apsw.Connection) -> apsw.Error | None:
        """Why the tables of the file cannot be used; None when they can. Raises apsw.Error for other reasons,
        like a lock."""
        try:  # opens every table and reads no row
            tables = ", ".join(tables_of(connection).values())
            connection.execute(f"SELECT 1 FROM {tables} LIMIT 0").fetchall()
        except (apsw.SQLError, apsw.CorruptError) as error:
            return error
        return None
