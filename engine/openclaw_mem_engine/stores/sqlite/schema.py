"""Tables of our index, named as documented, and the facts that an index keeps about itself in ``meta``: what
it was built with, what changed, what is behind."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, TypeVar

import apsw

from openclaw_mem_engine.errors import IndexChanged, IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import SCHEMA_VERSION, FileState, Fingerprint
from openclaw_mem_engine.stores.query import Derived, name_of, segment
from openclaw_mem_engine.stores.sqlite.database import Bound, Database, rows
from openclaw_mem_engine.stores.sqlite.files import damaged

TABLES = (
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS files(
        path TEXT NOT NULL, source TEXT NOT NULL DEFAULT 'memory', hash TEXT NOT NULL,
        mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL, checked_ns INTEGER NOT NULL,
        refusal TEXT NOT NULL,
        PRIMARY KEY(path, source)) WITHOUT ROWID""",
    # seq joins a chunk to its full-text rows, hash (the bytes of text_hash) to its vectors; id is what the
    # world sees. The text of a chunk begins with the last ``shared`` bytes that its predecessor has in
    # ``text``, and goes on with its own (see TEXT).
    """CREATE TABLE IF NOT EXISTS chunks(
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL, source TEXT NOT NULL,
        start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, hash BLOB NOT NULL, text TEXT NOT NULL,
        shared INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX IF NOT EXISTS idx_chunks_path ON chunks(path, source)",
    """CREATE TABLE IF NOT EXISTS spaces(
        id INTEGER PRIMARY KEY, provider TEXT NOT NULL, model TEXT NOT NULL, provider_key TEXT NOT NULL,
        UNIQUE(provider, model, provider_key))""",
    # The only copy of each vector. A NULL embedding means: asked, and this text has none. checksum is
    # crc32(hash + embedding): most flipped bytes leave what looks like a vector.
    """CREATE TABLE IF NOT EXISTS embedding_cache(
        id INTEGER PRIMARY KEY, space INTEGER NOT NULL, hash BLOB NOT NULL, embedding BLOB,
        checksum INTEGER NOT NULL, updated_at REAL NOT NULL, UNIQUE(space, hash))""",
    # With these no row has to be read, text or vector and all, to tell which chunks have one.
    "CREATE INDEX IF NOT EXISTS idx_chunks_hash ON chunks(hash)",
    "CREATE INDEX IF NOT EXISTS idx_cache_none ON embedding_cache(space, hash) WHERE embedding IS NULL",
    """CREATE TABLE IF NOT EXISTS unshown(
        path TEXT NOT NULL, source TEXT NOT NULL, form TEXT NOT NULL, characters INTEGER NOT NULL,
        lines INTEGER NOT NULL, hidden_characters INTEGER NOT NULL, hidden_lines INTEGER NOT NULL,
        PRIMARY KEY(path, source, form)) WITHOUT ROWID""",
)

#: The whole text of a row ``c`` of chunks: neighbours overlap by up to a fifth. Bytes, which SQLite need not
#: count; a predecessor that is lost leaves a text that does not match its hash.
TEXT = """iif(c.shared, coalesce((SELECT substr(CAST(p.text AS BLOB), -c.shared) FROM chunks p
    WHERE p.seq = c.seq - 1), '') || c.text, c.text)"""

#: The fields of ``Passage``.
PASSAGES = f"SELECT path, start_line, end_line, {TEXT} FROM chunks c ORDER BY path, source, seq"

# Contentless: the text is kept once, in chunks. Tokenisers of SQLite alone, so any SQLite can read them.
# Segments of one size are merged when there are 16, not 4: a first index rewrites far less, and a query takes
# as long.
_FULL_TEXT = """CREATE VIRTUAL TABLE IF NOT EXISTS {table} USING fts5(
    {columns}, content='', contentless_delete=1, tokenize='{tokeniser}');
    INSERT INTO {table}({table}, rank) VALUES('automerge', 16)"""
_STEMMED = "porter unicode61 remove_diacritics 2"
#: What makes the rows of each kind that are derived from chunks. Those of ``stemmed`` are in every index, the
#: others from the first use on: a table that is there has a row for every chunk.
DERIVED: Mapping[Derived, str] = {
    "plain": _FULL_TEXT.format(table="chunks_fts", columns="text", tokeniser="unicode61"),
    "stemmed": _FULL_TEXT.format(table="chunks_fts_stemmed", columns="text", tokeniser=_STEMMED)
    + "; CREATE VIRTUAL TABLE IF NOT EXISTS chunks_terms USING fts5vocab(chunks_fts_stemmed, row)",
    # A table of its own: bm25 counts the length of all columns, so a column more would change other scores.
    "named": _FULL_TEXT.format(table="chunks_fts_named", columns="text, name", tokeniser=_STEMMED),
    "lines": "CREATE TABLE IF NOT EXISTS line_tokens(seq INTEGER PRIMARY KEY, packed BLOB NOT NULL)",
}

FULL_TEXT_TABLES: Mapping[Derived, str] = {
    "plain": "chunks_fts",
    "stemmed": "chunks_fts_stemmed",
    "named": "chunks_fts_named",
}
TABLE_OF: Mapping[Derived, str] = {**FULL_TEXT_TABLES, "lines": "line_tokens"}
#: By form, what adds the row of a chunk, and the values of that row.
FULL_TEXT_ROWS: Mapping[Derived, tuple[str, Callable[[int, str, str], tuple[int | str, ...]]]] = {
    "plain": ("(rowid, text) VALUES(?, ?)", lambda seq, _, text: (seq, text)),
    "stemmed": ("(rowid, text) VALUES(?, ?)", lambda seq, _, text: (seq, segment(text))),
    "named": (
        "(rowid, text, name) VALUES(?, ?, ?)",
        lambda seq, path, text: (seq, segment(text), name_of(path)),
    ),
}
#: Tables without which nothing of an index can be used.
NEEDED = ("meta", "files", "chunks", "spaces", "embedding_cache", "unshown")


#: The fields of ``FileState``, and their kinds.
FILES = "SELECT path, source, hash, mtime_ns, size, inode, checked_ns, refusal FROM files"
_KINDS = (str, str, str, int, int, int, int, str)

#: Of a new file. Rows of 1 to 2 kB, chunks and vectors, leave a fifth of smaller pages empty.
PAGE_BYTES = 16_384

T = TypeVar("T")


def file_states(found: Iterable[Bound]) -> dict[str, FileState]:
    """Rows of ``FILES`` by path. Raises ValueError for one that we never wrote."""
    states = {row[0]: FileState._make(row) for row in found}
    if not all(tuple(map(type, state)) == _KINDS for state in states.values()):
        raise ValueError("the record of a file is none")
    return states


#: In the year 5138; every clock and calendar can do with less.
_LATEST_S = 1e11


def generation_of(value: str | None) -> int:
    """A stored generation; 0 where none is. Raises ValueError for what was never counted up from 1."""
    if value is None:
        return 0
    if re.fullmatch("[0-9]{1,18}", value) is None:  # more digits would not fit into SQLite's integers
        raise ValueError(f"{value[:40]!r} is no generation")
    return int(value)


def time_of(value: str | None) -> float | None:
    """A stored time in epoch seconds, None where none is. Raises ValueError for what is no number, or beyond
    any calendar."""
    moment = None if value is None else float(value)
    if moment is not None and not abs(moment) < _LATEST_S:  # nor is that of NaN
        raise ValueError(f"{moment} is no time")
    return moment


def generation_after(value: str | None) -> int:
    """What follows a stored generation; after one that cannot be read, more than any reader has seen."""
    try:
        return generation_of(value) + 1
    except (TypeError, ValueError):
        return time.time_ns() // 1_000_000


def schema_of(fingerprint: str) -> int:
    """The schema that a fingerprint names, whatever else a newer program has put there; 0 for none."""
    try:
        return int(json.loads(fingerprint)["schema"])
    except (ValueError, TypeError, LookupError, OverflowError, RecursionError):
        return 0


def newer(schema: int) -> str:
    """What is said of an index with a later schema than this program knows."""
    known = f"schema {schema}; this one knows {SCHEMA_VERSION}"
    return f"A newer program wrote this index ({known}). Update this program; the index stays as it is."


def derived(connection: apsw.Connection) -> set[Derived]:
    """The kinds of derived rows that the file has tables for, damaged or not."""
    names = {row[0] for row in rows(connection, "SELECT name FROM sqlite_schema")}
    return {kind for kind, table in TABLE_OF.items() if table in names}


class Meta:
    """The rows of the table ``meta``; what is written goes through the caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def all(self, connection: apsw.Connection | None = None) -> dict[str, str]:
        """Every row, in one read; as seen by the transaction of ``connection`` when one is given."""
        sql = "SELECT key, value FROM meta"
        return dict(self._db.read(sql) if connection is None else rows(connection, sql))

    def fingerprint(self) -> Fingerprint | None:
        """See ``IndexContent``. Raises IndexDamaged when what is stored is no fingerprint."""
        return self._decoded("fingerprint", "record of the build settings", self._built_with)

    def _built_with(self, text: str | None) -> Fingerprint | None:
        if text is not None and (schema := schema_of(text)) > SCHEMA_VERSION:
            from openclaw_mem_engine.commands import UPGRADE

            raise IndexUnavailable(f"To update this program: `{UPGRADE}`. {newer(schema)} {self._db.path}")
        return None if text is None else Fingerprint.from_json(text)

    def generation(self) -> int:
        """See ``SearchStore``. Raises IndexDamaged when what is stored is no generation."""
        return self._decoded("generation", "generation", generation_of)

    def settled(self, connection: apsw.Connection | None = None) -> tuple[str, str]:
        """See ``IndexContent``: every change of ``files`` counts one of two numbers up."""
        flags = self.all(connection)
        files, kept = f"{flags.get('generation')} {flags.get('touches')} ", flags.get("settled", "")
        return files, kept.removeprefix(files) if kept.startswith(files) else ""

    def synced_at(self) -> float | None:
        """See ``IndexContent``. Raises IndexDamaged when what is stored is no time."""
        return self._decoded("synced_at", "time of the last sync", time_of)

    def _decoded(self, key: str, what: str, decode: Callable[[str | None], T]) -> T:
        try:
            return decode(self.all().get(key))
        except (TypeError, ValueError) as error:
            raise damaged(f"its {what} cannot be read: {error}", self._db.path) from error

    @staticmethod
    def put(connection: apsw.Connection, key: str, value: str) -> None:
        connection.execute("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", (key, value))

    @classmethod
    def set_words_left(cls, connection: apsw.Connection, left: bool = True) -> None:
        """Whether words of removed files are still in the file."""
        cls.put(connection, "words_left", "yes" if left else "no")

    @staticmethod
    def bump(connection: apsw.Connection, counter: Literal["generation", "touches"] = "generation") -> None:
        """Count up; from a value that cannot be read, to one that no reader has seen."""
        found = rows(connection, "SELECT value FROM meta WHERE key = ?", (counter,))
        Meta.put(connection, counter, str(generation_after(found[0][0] if found else None)))

    def expect(self, connection: apsw.Connection, built_with: Fingerprint | None) -> Space | None:
        """The primary space of the content, as seen by a transaction; None for an index that was never begun.
        Raises IndexChanged when it is another index than ``built_with`` names; None names none."""
        found = rows(connection, "SELECT value FROM meta WHERE key = 'fingerprint'")
        known = Fingerprint.from_json(found[0][0]) if found else None
        if built_with is not None and built_with != known:
            raise IndexChanged(
                f"Another process has rebuilt the index {self._db.path} with other settings meanwhile. "
                "Nothing of this was written: run it again."
            )
        return known.space if known else None
