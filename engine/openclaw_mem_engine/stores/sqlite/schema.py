"""Tables of our index, named as documented, and the statements that make them."""

from __future__ import annotations

TABLES = (
    "CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE IF NOT EXISTS files(
        path TEXT NOT NULL, source TEXT NOT NULL DEFAULT 'memory', hash TEXT NOT NULL,
        mtime_ns INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL, checked_ns INTEGER NOT NULL,
        refusal TEXT NOT NULL,
        PRIMARY KEY(path, source)) WITHOUT ROWID""",
    # seq joins a chunk to its full-text and vector rows; id is what the world sees.
    """CREATE TABLE IF NOT EXISTS chunks(
        seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
        source TEXT NOT NULL DEFAULT 'memory', start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
        hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, updated_at REAL NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS idx_chunks_path ON chunks(path, source)",
    # A NULL embedding means: asked, and this text has none.
    """CREATE TABLE IF NOT EXISTS embedding_cache(
        provider TEXT NOT NULL, model TEXT NOT NULL, provider_key TEXT NOT NULL, hash TEXT NOT NULL,
        embedding BLOB, dims INTEGER NOT NULL, updated_at REAL NOT NULL,
        PRIMARY KEY(provider, model, provider_key, hash))""",
)

# Contentless: the text is kept once, in chunks. Tokenisers of SQLite alone, so any SQLite can read them.
FULL_TEXT = (
    """CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts USING fts5(
        text, content='', contentless_delete=1, tokenize='unicode61')""",
    """CREATE VIRTUAL TABLE IF NOT EXISTS chunks_fts_stemmed USING fts5(
        text, content='', contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')""",
    "CREATE VIRTUAL TABLE IF NOT EXISTS chunks_terms USING fts5vocab(chunks_fts_stemmed, row)",
    # Segments of one size are merged when there are 16, not 4: a first index rewrites far less, and a query
    # takes as long.
    "INSERT INTO chunks_fts(chunks_fts, rank) VALUES('automerge', 16)",
    "INSERT INTO chunks_fts_stemmed(chunks_fts_stemmed, rank) VALUES('automerge', 16)",
)

FULL_TEXT_TABLES = {"plain": "chunks_fts", "stemmed": "chunks_fts_stemmed"}


def vector_table(dims: int) -> str:
    """The vec0 table for vectors of ``dims`` float32 values; rowid is the chunk's seq."""
    return (
        "CREATE VIRTUAL TABLE IF NOT EXISTS chunks_vec USING vec0("
        f"source TEXT PARTITION KEY, embedding FLOAT[{dims}] distance_metric=cosine)"
    )
