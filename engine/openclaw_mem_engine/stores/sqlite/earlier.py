"""Indexes of schemas 3 and 4: when they are opened, their tables get today's shape in place, so that they
answer until the next sync rebuilds them with their embeddings. In both, each chunk had its whole text. The
cache of schema 3 repeated the names of its space in every row, and a vec0 table had each vector a second
time."""

from __future__ import annotations

from contextlib import suppress
from zlib import crc32

import apsw

from openclaw_mem_engine.stores.sqlite.database import Database, rows
from openclaw_mem_engine.stores.sqlite.schema import TABLES

#: The cache: number, names of the space, text hash and vector, as they are read today.
ROWS = """SELECT rowid AS id, provider, model, provider_key, unhex(hash) AS hash, embedding, NULL AS checksum,
    updated_at FROM {}
    WHERE typeof(provider) = 'text' AND typeof(model) = 'text' AND typeof(provider_key) = 'text'
    AND length(unhex(hash)) = 32 AND typeof(embedding) IN ('blob', 'null') AND typeof(updated_at) = 'real'"""

_OLD = ("chunks", "embedding_cache")
_CHUNKS = "seq, id, path, source, start_line, end_line, {}, text"
_SHARED = "ALTER TABLE chunks ADD COLUMN shared INTEGER NOT NULL DEFAULT 0"
_COPIED = (
    f"""INSERT OR IGNORE INTO chunks SELECT {_CHUNKS.format("unhex(hash)")}, 0 FROM old_chunks""",
    f"""INSERT OR IGNORE INTO spaces(provider, model, provider_key)
        SELECT provider, model, provider_key FROM ({ROWS.format("old_embedding_cache")}) ORDER BY id""",
    f"""INSERT OR IGNORE INTO embedding_cache(space, hash, embedding, checksum, updated_at)
        SELECT s.id, hash, embedding, crc32(hash, embedding), updated_at
        FROM ({ROWS.format("old_embedding_cache")}) old JOIN spaces s USING(provider, model, provider_key)
        ORDER BY old.id""",
)


def is_earlier(connection: apsw.Connection) -> bool:
    """Whether a file has the tables of schema 3."""
    sql = "SELECT name FROM sqlite_schema WHERE name IN ('embedding_cache', 'spaces')"
    return rows(connection, sql) == [("embedding_cache",)]


def bring_up(database: Database) -> None:
    """Convert the tables of an index, in one transaction. Raises IndexUnavailable, also when it may not be
    written."""
    with database.transaction() as connection:
        if not is_earlier(connection):
            if not rows(connection, "SELECT 1 FROM pragma_table_info('chunks') WHERE name = 'shared'"):
                connection.execute(_SHARED)  # else another process was faster
            return
        connection.create_scalar_function("crc32", lambda *parts: crc32(b"".join(filter(None, parts))), 2)
        for index in ("idx_chunks_path", "idx_chunks_hash", "idx_cache_none"):
            connection.execute(f"DROP INDEX IF EXISTS {index}")
        for table in _OLD:
            connection.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
        for statement in (*TABLES, *_COPIED, *(f"DROP TABLE old_{table}" for table in _OLD)):
            connection.execute(statement)
        with suppress(apsw.SQLError):  # without sqlite-vec it stays until the rebuild
            connection.execute("DROP TABLE IF EXISTS chunks_vec")
