"""Index files with known content, and everything that is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from openclaw_mem_engine.model import Source, chunk_id_of, text_hash
from openclaw_mem_engine.stores.base import FileChange, FileState, Fingerprint, IndexStore, StoredChunk
from openclaw_mem_engine.stores.query import LABEL, build_query
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

Vector = npt.NDArray[np.float32]
FINGERPRINT = Fingerprint("static", "test", "key", 400, 80, ("memory",))


def unit(values: Sequence[float] | npt.NDArray[Any]) -> Vector:
    """A vector of length 1."""
    vector = np.asarray(values, dtype=np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def change_of(
    path: str, texts: Sequence[str], vectors: Sequence[Vector | None] = (), source: Source = "memory"
) -> FileChange:
    """A file of one-line chunks."""
    chunks = []
    for line, text in enumerate(texts, 1):
        content = text_hash(text)
        chunk_id = chunk_id_of(source, path, line, line, content, FINGERPRINT.model)
        chunks.append(StoredChunk(chunk_id, path, source, line, line, content, text))
    state = FileState(path, source, text_hash("\n".join(texts)), 1, len(texts), 1, 1)
    return FileChange(state, chunks, list(vectors) or [None] * len(chunks))


def put(
    store: IndexStore,
    path: str,
    texts: Sequence[str],
    vectors: Sequence[Vector | None] = (),
    source: Source = "memory",
) -> None:
    """Store a file as a sync does: vectors go to the cache first."""
    change = change_of(path, texts, vectors, source)
    cached = {c.hash: v for c, v in zip(change.chunks, change.vectors, strict=True) if v is not None}
    store.cache_vectors(cached)
    store.apply(change)


def new_store(path: Path, notes: Mapping[str, Sequence[str]] | None = None, **options: Any) -> SqliteIndex:
    """A begun index with these files and no vectors."""
    store = SqliteIndex(path, **options)
    if store.fingerprint() is None:
        store.begin(FINGERPRINT)
    for name, texts in (notes or {}).items():
        put(store, name, texts)
    return store


def provide_all(store: IndexStore) -> None:
    """Have every kind of derived rows, with texts as their packed lines."""
    store.provide(*LABEL, pack=lambda texts: [text.encode() for text in texts])


def found(store: SqliteIndex, text: str, form: str = "or", index: str = "stemmed") -> set[str]:
    """Texts that a full-text query finds."""
    query = build_query(text, form, index)  # type: ignore[arg-type]
    store.provide(index)  # type: ignore[arg-type]
    ids = [hit.chunk_id for hit in store.lexical(query, 50)] if query else []
    return {chunk.text for chunk in store.fetch(ids).values()}


def content(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row that two indexes of the same notes must share; seq, times and generation may differ."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        queries = {
            "files": "SELECT path, source, hash, size, refusal FROM files",
            "chunks": "SELECT id, path, source, start_line, end_line, lower(hex(hash)), text FROM chunks",
            "cache": """SELECT provider, model, provider_key, lower(hex(hash)), embedding, checksum
                FROM embedding_cache e JOIN spaces s ON s.id = e.space""",
            "vectors": """SELECT c.id, s.provider, s.model, s.provider_key, e.embedding FROM chunks c
                JOIN embedding_cache e ON e.hash = c.hash JOIN spaces s ON s.id = e.space""",
            "stemmed": "SELECT term, doc, cnt FROM stemmed_terms",
            "rows": "SELECT count(*) FROM chunks_fts_stemmed",
            "fingerprint": "SELECT value FROM meta WHERE key = 'fingerprint'",
        }
        # Other words only some indexes have: the doctor compares those.
        connection.execute(
            "CREATE VIRTUAL TABLE temp.stemmed_terms USING fts5vocab(main, chunks_fts_stemmed, row)"
        )
        return {name: sorted(connection.execute(sql).fetchall()) for name, sql in queries.items()}
    finally:
        connection.close()
