"""Full-text rows of the SQLite index: two FTS5 tables, and the best line of a chunk."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import apsw

from openclaw_mem_engine.model import Source
from openclaw_mem_engine.stores.base import Scored
from openclaw_mem_engine.stores.sqlite.database import Bound, Database
from openclaw_mem_engine.stores.sqlite.lexical_query import LexicalQuery, segment
from openclaw_mem_engine.stores.sqlite.line_bm25 import Stemmer, best_line_scores, document_frequencies
from openclaw_mem_engine.stores.sqlite.schema import FULL_TEXT, FULL_TEXT_TABLES

#: Opens every table and reads no row.
_OPEN_ALL = f"SELECT 1 FROM {', '.join(FULL_TEXT_TABLES.values())} LIMIT 0"

_LINE_WORD = re.compile(r"[^\W_]+")


class FullTextRows:
    """Full-text reads and writes of a :class:`SqliteIndex`. All scores are negated FTS5 bm25: >= 0 in
    practice, larger is better."""

    def __init__(self, database: Database) -> None:
        self._db = database
        self._stemmer: Stemmer | None = None

    def holding(self, ids: Iterable[str]) -> set[str]:
        """Those of these chunks that have a row in every full-text table."""
        rows = "".join(f" JOIN {table} ON {table}.rowid = c.seq" for table in FULL_TEXT_TABLES.values())
        sql = f"SELECT c.id FROM json_each(?) wanted JOIN chunks c ON c.id = wanted.value{rows}"
        return {row[0] for row in self._db.read(sql, (json.dumps(list(ids)),))}

    def search(
        self, query: LexicalQuery, limit: int, sources: Sequence[Source] | None = None
    ) -> list[Scored]:
        """The ``limit`` best full-text matches. For ``keywords`` the union of one search a term, in order of
        first appearance, each limited by itself."""
        found: dict[str, Scored] = {}
        for expression in query.expressions():
            for hit in self._match(query.index, expression, limit, sources):
                found.setdefault(hit.chunk_id, hit)
        return list(found.values())

    def _match(
        self, index: str, expression: str, limit: int, sources: Sequence[Source] | None
    ) -> list[Scored]:
        table = FULL_TEXT_TABLES[index]
        # ORDER BY bm25() lets SQLite keep only the best rows; ORDER BY rank would sort every match.
        if sources is None:
            sql = f"""SELECT c.id, best.score FROM (
                SELECT rowid AS seq, bm25({table}) AS score FROM {table}
                WHERE {table} MATCH ? ORDER BY bm25({table}) LIMIT ?) best
                JOIN chunks c ON c.seq = best.seq"""
            bound: Bound = (expression, limit)
        else:
            sql = f"""SELECT c.id, bm25({table}) AS score FROM {table} JOIN chunks c ON c.seq = {table}.rowid
                WHERE {table} MATCH ? AND c.source IN (SELECT value FROM json_each(?))
                ORDER BY bm25({table}) LIMIT ?"""
            bound = (expression, json.dumps(list(sources)), limit)
        hits = [Scored(chunk_id, -score) for chunk_id, score in self._db.read_scores(sql, bound)]
        hits.sort(key=lambda hit: (-hit.raw, hit.chunk_id))
        return hits

    def scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        """Negated bm25 of these chunks; those that do not match are absent."""
        table = FULL_TEXT_TABLES[query.index]
        found = self._db.read_scores(
            f"""SELECT c.id, -bm25({table}) FROM {table} JOIN chunks c ON c.seq = {table}.rowid
                WHERE {table} MATCH ? AND {table}.rowid IN (
                    SELECT seq FROM chunks WHERE id IN (SELECT value FROM json_each(?)))""",
            (query.expression(), json.dumps(list(ids))),
        )
        return dict(found)

    def line_scores(self, query: LexicalQuery, texts: Mapping[str, str]) -> dict[str, float]:
        """BM25 of the best line of each text (see ``lines.py``)."""
        stemmer = self._stemmer or self._make_stemmer()
        split = _LINE_WORD.findall
        terms = []
        for term in query.terms:
            tokens = tuple(t for word in term for t in stemmer.tokens(word.rstrip("*"), split))
            if tokens:
                terms.append(tokens)
        counts: Counter[str] = Counter()
        for token in {token for term in terms for token in term}:
            for row in self._db.read("SELECT doc FROM chunks_terms WHERE term = ?", (token,)):
                counts[token] = row[0]
        total = int(self._db.read("SELECT count(*) FROM chunks")[0][0])
        return best_line_scores(
            terms,
            texts,
            lambda line: stemmer.tokens(segment(line), split),
            document_frequencies(counts, terms),
            total,
        )

    def _make_stemmer(self) -> Stemmer:
        # The table's own tokeniser, so that a line's tokens are the index's tokens.
        tokeniser = self._db.reader().fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])

        def tokenise(word: str) -> list[str]:
            found = tokeniser(
                word.encode(),
                apsw.FTS5_TOKENIZE_DOCUMENT,
                None,
                include_offsets=False,
                include_colocated=False,
            )
            return [str(token) for token in found]

        self._stemmer = Stemmer(tokenise)
        return self._stemmer

    def insert(self, connection: apsw.Connection, added: Sequence[Bound]) -> None:
        """Index (seq, text) rows in both tables."""
        try:
            self._insert(connection, added)
        except apsw.ConstraintError:
            # Rows that outlived their chunk, whose number was given again: damage from outside.
            self.delete(connection, [(seq,) for seq, _ in added])
            self._insert(connection, added)

    @staticmethod
    def _insert(connection: apsw.Connection, added: Sequence[Bound]) -> None:
        connection.executemany("INSERT INTO chunks_fts(rowid, text) VALUES(?, ?)", added)
        connection.executemany(
            "INSERT INTO chunks_fts_stemmed(rowid, text) VALUES(?, ?)",
            [(seq, segment(t)) for seq, t in added],
        )

    def delete(self, connection: apsw.Connection, seqs: Sequence[Bound]) -> None:
        """Remove rows by (seq,)."""
        for table in FULL_TEXT_TABLES.values():
            connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", seqs)

    @staticmethod
    def make(connection: apsw.Connection) -> apsw.Error | None:
        """Make the tables that are missing; what kept it from that."""
        try:
            for statement in FULL_TEXT:
                connection.execute(statement)
        except (apsw.SQLError, apsw.CorruptError) as error:
            return error
        return None

    @staticmethod
    def trouble(connection: apsw.Connection) -> apsw.Error | None:
        """Why the tables cannot be used as they stand in the file; None when they can, as far as opening them
        tells. Raises apsw.Error for what is no matter of theirs, like a lock."""
        try:
            connection.execute(_OPEN_ALL).fetchall()
        except (apsw.SQLError, apsw.CorruptError) as error:
            return error
        return None

    def clear(self, connection: apsw.Connection) -> None:
        """Remove all rows."""
        for table in FULL_TEXT_TABLES.values():
            connection.execute(f"DELETE FROM {table}")
