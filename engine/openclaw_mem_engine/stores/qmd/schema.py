"""The tables of QMD 2.8.3, and four of our own that it does not look at; whose file an index is.

The documented tables ``collections`` and ``path_contexts`` are temporary views of each connection: QMD
executes ``DROP TABLE IF EXISTS`` with these names when it opens an index, which fails for a view in the file.
"""

from __future__ import annotations

from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

import apsw

from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable
from openclaw_mem_engine.qmd.lexical import spaced_cjk
from openclaw_mem_engine.stores.sqlite.connections import QMD_ID, connect_read_only
from openclaw_mem_engine.stores.sqlite.database import Advice, Bound, rows

#: ``user_version`` of the schema below; QMD 1.0 has 0.
SCHEMA_VERSION = 1

ADVICE = Advice(
    again="run `openclaw-mem qmd update` again",
    check="Try again; should that not help, move it away, and `openclaw-mem qmd update` builds a new one.",
    repair="Move the file away, and `openclaw-mem qmd update` builds a new one from your notes.",
)
#: The same where the doctor repairs the index.
REPAIRED = ADVICE._replace(repair=IndexDamaged.repair)

TABLES = """
CREATE TABLE IF NOT EXISTS content(hash TEXT PRIMARY KEY, doc TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS documents(
    id INTEGER PRIMARY KEY AUTOINCREMENT, collection TEXT NOT NULL, path TEXT NOT NULL, title TEXT NOT NULL,
    hash TEXT NOT NULL, created_at TEXT NOT NULL, modified_at TEXT NOT NULL,
    active INTEGER NOT NULL DEFAULT 1,
    FOREIGN KEY (hash) REFERENCES content(hash) ON DELETE CASCADE,
    UNIQUE(collection, path));
CREATE INDEX IF NOT EXISTS idx_documents_collection ON documents(collection, active);
CREATE INDEX IF NOT EXISTS idx_documents_hash ON documents(hash);
CREATE INDEX IF NOT EXISTS idx_documents_path ON documents(path, active);
CREATE TABLE IF NOT EXISTS llm_cache(hash TEXT PRIMARY KEY, result TEXT NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS content_vectors(
    hash TEXT NOT NULL, seq INTEGER NOT NULL DEFAULT 0, pos INTEGER NOT NULL DEFAULT 0, model TEXT NOT NULL,
    embed_fingerprint TEXT NOT NULL DEFAULT '', total_chunks INTEGER NOT NULL DEFAULT 1,
    embedded_at TEXT NOT NULL,
    PRIMARY KEY (hash, seq));
CREATE INDEX IF NOT EXISTS idx_content_vectors_model_fingerprint
    ON content_vectors(model, embed_fingerprint, hash, total_chunks);
CREATE TABLE IF NOT EXISTS store_collections(
    name TEXT PRIMARY KEY, path TEXT NOT NULL, pattern TEXT NOT NULL DEFAULT '**/*.md', ignore_patterns TEXT,
    include_by_default INTEGER DEFAULT 1, update_command TEXT, context TEXT);
CREATE TABLE IF NOT EXISTS store_config(key TEXT PRIMARY KEY, value TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS documents_fts USING fts5(
    filepath, title, body, tokenize='porter unicode61');
CREATE TRIGGER IF NOT EXISTS documents_ai AFTER INSERT ON documents WHEN new.active = 1 BEGIN
    INSERT INTO documents_fts(rowid, filepath, title, body)
    SELECT new.id, new.collection || '/' || new.path, new.title,
        (SELECT doc FROM content WHERE hash = new.hash);
END;
CREATE TRIGGER IF NOT EXISTS documents_ad AFTER DELETE ON documents BEGIN
    DELETE FROM documents_fts WHERE rowid = old.id;
END;
CREATE TRIGGER IF NOT EXISTS documents_au AFTER UPDATE ON documents BEGIN
    DELETE FROM documents_fts WHERE rowid = old.id AND new.active = 0;
    INSERT OR REPLACE INTO documents_fts(rowid, filepath, title, body)
    SELECT new.id, new.collection || '/' || new.path, new.title,
        (SELECT doc FROM content WHERE hash = new.hash) WHERE new.active = 1;
END;

-- What a file was when it was last read, and why it is no document: unchanged ones are not read again.
CREATE TABLE IF NOT EXISTS openclaw_mem_files(
    collection TEXT NOT NULL, path TEXT NOT NULL, hash TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, inode INTEGER NOT NULL, checked_ns INTEGER NOT NULL,
    refusal TEXT NOT NULL DEFAULT '',
    PRIMARY KEY(collection, path)) WITHOUT ROWID;
-- What QMD has no column for; update_command is what the user gave us: only that is ever run.
CREATE TABLE IF NOT EXISTS openclaw_mem_collections(
    name TEXT PRIMARY KEY, source TEXT NOT NULL, configured INTEGER NOT NULL,
    update_command TEXT NOT NULL DEFAULT '');
-- Vectors that were made where sqlite-vec does not load; moved to vectors_vec where it does.
CREATE TABLE IF NOT EXISTS openclaw_mem_vectors(hash_seq TEXT PRIMARY KEY, embedding BLOB NOT NULL);
-- What models made of texts, by the hash of what they were sent: nothing is sent twice
-- until a cleanup, or until many newer ones came (``Embedding``).
CREATE TABLE IF NOT EXISTS openclaw_mem_embeddings(
    model TEXT NOT NULL, fingerprint TEXT NOT NULL, hash TEXT NOT NULL, embedding BLOB NOT NULL,
    PRIMARY KEY(model, fingerprint, hash));
"""
# Segments of one size are merged when there are 16, not 4 (as in the builtin index): a first update rewrites
# far less. The rows say that every CJK text is spaced, so QMD does not write them all again.
FIRST_ROWS = """
INSERT INTO documents_fts(documents_fts, rank) VALUES('automerge', 16);
INSERT OR IGNORE INTO store_config(key, value) VALUES('fts_cjk_normalized_version', '1');
"""

VIEWS = """
CREATE TEMP VIEW IF NOT EXISTS collections AS SELECT name, path, pattern AS globs FROM store_collections;
CREATE TEMP VIEW IF NOT EXISTS path_contexts AS
    SELECT 'qmd://' || c.name || '/' || ltrim(p.key, '/') AS path, p.value AS context
    FROM store_collections c, json_each(c.context) p
    UNION ALL SELECT '/', value FROM store_config WHERE key = 'global_context' AND value <> '';
"""

#: The vec0 table, made when the first vector is stored.
VECTOR_TABLE = """CREATE VIRTUAL TABLE IF NOT EXISTS vectors_vec USING vec0(
    hash_seq TEXT PRIMARY KEY, embedding float[{dims}] distance_metric=cosine)"""

#: Without these no index can be read; that of QMD 1.0 has no others.
NEEDED = frozenset({"content", "documents", "documents_fts", "content_vectors"})

Owner = Literal["nothing", "ours", "qmd", "other"]


def owner_of(path: Path) -> Owner:
    """Whose file an index is; "nothing" where there is none, "other" also for what is no readable SQLite
    file. Only reads."""
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        return "nothing"
    with suppress(apsw.Error), closing(connect_read_only(path)) as connection:
        if connection.pragma("application_id") == QMD_ID:
            return "ours"
        if tables_of(connection).keys() >= NEEDED:
            return "qmd"
    return "other"


def tables_of(connection: apsw.Connection) -> dict[str, str]:
    """The SQL of each table by its name."""
    return {name: sql or "" for name, sql in rows(connection, "SELECT name, sql FROM sqlite_schema")}


def create(connection: apsw.Connection) -> None:
    """Make the tables, in the caller's transaction. Raises IndexUnavailable for those of a newer program."""
    version = connection.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise IndexUnavailable(
            f"A newer program wrote this index (schema {version}; this one knows {SCHEMA_VERSION}). "
            f"{ADVICE.repair}"
        )
    is_new = "documents_fts" not in tables_of(connection)
    connection.execute(TABLES)
    if is_new:
        connection.execute(FIRST_ROWS)
        connection.pragma("user_version", SCHEMA_VERSION)


def space_cjk(connection: apsw.Connection, condition: str, bound: Bound) -> None:
    """Write the full-text rows of those active documents ``d`` anew that hold CJK text: the triggers give the
    text as it is, and QMD indexes CJK runs with blanks between their characters."""
    sql = f"""SELECT d.id, d.collection || '/' || d.path, d.title, c.doc
        FROM documents d JOIN content c ON c.hash = d.hash WHERE d.active = 1 AND {condition}"""
    for number, *texts in rows(connection, sql, bound):
        spaced = [text if text.isascii() else spaced_cjk(text) for text in texts]
        if spaced != texts:
            sql = "INSERT OR REPLACE INTO documents_fts(rowid, filepath, title, body) VALUES(?, ?, ?, ?)"
            connection.execute(sql, (number, *spaced))
