"""What an index holds, what nothing needs any more, and the cache of model answers."""

from __future__ import annotations

import time
from dataclasses import dataclass

from openclaw_mem_engine.qmd.documents import VirtualPath
from openclaw_mem_engine.stores.qmd.embedding import Embedding
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.stores.qmd.updating import iso_time
from openclaw_mem_engine.stores.sqlite.database import Database, rows
from openclaw_mem_engine.stores.sqlite.files import bytes_of, with_companions

#: Answers that are kept; the oldest beyond are removed, once in so many writes.
_CACHE_ROWS, _CACHE_EVERY = 1_000, 100


@dataclass(frozen=True, slots=True)
class CollectionStatus:
    """``files`` are its documents; ``updated_at`` is when the latest of them was modified, ISO 8601; ""
    without documents."""

    name: str
    files: int
    updated_at: str


@dataclass(frozen=True, slots=True)
class Status:
    """Numbers of an index: active ``documents``, different ``texts``, those ``embedded`` with the model that
    was asked for (None: with any) and with ``others``, the ``models``, and what ``cleanup`` would remove."""

    bytes: int
    documents: int
    texts: int
    embedded: int
    others: int
    models: tuple[str, ...]
    collections: tuple[CollectionStatus, ...]
    waste: Cleanup


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What a cleanup removed, or would: answers of models, vectors of texts that no document has, records of
    removed files, texts that only they had, and embeddings that were kept for the next ``embed``."""

    cached: int = 0
    vectors: int = 0
    inactive: int = 0
    content: int = 0
    embeddings: int = 0


@dataclass(frozen=True, slots=True)
class Entry:
    """One document in a listing; ``size`` in characters."""

    collection: str
    path: str
    size: int
    modified_at: str

    @property
    def uri(self) -> str:
        return str(VirtualPath(self.collection, self.path))


_ORPHANED = "hash NOT IN (SELECT hash FROM documents WHERE active = 1)"


class Maintenance(Embedding):
    """Listings, numbers, cleaning and the cache of an index."""

    def ls(self, collection: str, prefix: str = "") -> list[Entry]:
        """The documents of a collection whose path is ``prefix`` or lies in that folder, by path. Raises
        UsageError for an unknown collection."""
        self.collection(collection)
        folder = prefix.strip("/")
        found = self._db.read(
            """SELECT d.collection, d.path, length(c.doc), d.modified_at
            FROM documents d JOIN content c ON c.hash = d.hash
            WHERE d.collection = ?1 AND d.active = 1
                AND (?2 = '' OR d.path = ?2 OR substr(d.path, 1, length(?2) + 1) = ?2 || '/')
            ORDER BY d.path""",
            (collection, folder),
        )
        return [Entry(*row) for row in found]

    def document_count(self) -> int:
        """How many documents are active."""
        return int(self._db.read("SELECT count(*) FROM documents WHERE active = 1")[0][0])

    def status(self, space: VectorSpace | None = None) -> Status:
        """Numbers of the index; ``embedded`` are texts with vectors of this space (None: of any)."""
        ((documents, texts),) = self._db.read(
            "SELECT count(*), count(DISTINCT hash) FROM documents WHERE active = 1"
        )
        condition, bound = ("1", ()) if space is None else self._of_space(space)
        ((embedded, others),) = self._db.read(
            f"""SELECT count(DISTINCT iif(own, hash, NULL)), count(DISTINCT iif(own, NULL, hash)) FROM (
                SELECT hash, {condition} AS own FROM content_vectors WHERE NOT ({_ORPHANED}))""",
            bound,
        )
        models = self._db.read("SELECT DISTINCT model FROM content_vectors ORDER BY model")
        held = {
            name: rest
            for name, *rest in self._db.read(
                """SELECT collection, count(*), max(modified_at) FROM documents
                WHERE active = 1 GROUP BY collection"""
            )
        }
        return Status(
            bytes=bytes_of(with_companions(self.path)),
            documents=documents,
            texts=texts,
            embedded=embedded,
            others=others,
            models=tuple(model for (model,) in models),
            collections=tuple(
                CollectionStatus(one.name, *held.get(one.name, (0, ""))) for one in self.collections()
            ),
            waste=self._waste(),
        )

    def integrity(self) -> list[str]:
        """What is damaged; [] for a whole index. Takes about a second for 100 MB."""
        found = [str(row[0]) for row in self._db.read("PRAGMA integrity_check(10)") if row[0] != "ok"]
        sql = """SELECT (SELECT count(*) FROM documents WHERE active = 1),
            (SELECT count(*) FROM documents_fts_docsize), (SELECT count(*) FROM documents d
            WHERE active = 1 AND NOT EXISTS(SELECT 1 FROM content WHERE hash = d.hash))"""
        ((documents, in_full_text, without_text),) = self._db.read(sql)
        if documents != in_full_text:
            found.append(f"{documents} documents, but {in_full_text} in the full-text table")
        if without_text:
            found.append(f"{without_text} documents without their text")
        return found

    def _waste(self) -> Cleanup:
        # Not in an index of QMD, nor in one that was made before and only read since.
        kept = self._has_table("openclaw_mem_embeddings")
        embeddings = "(SELECT count(*) FROM openclaw_mem_embeddings)" if kept else "0"
        ((found,),) = [
            self._db.read(
                f"""SELECT (SELECT count(*) FROM llm_cache),
                (SELECT count(*) FROM content_vectors WHERE {_ORPHANED}),
                (SELECT count(*) FROM documents WHERE active = 0),
                (SELECT count(*) FROM content WHERE {_ORPHANED}), {embeddings}"""
            )
        ]
        return Cleanup(*found)

    def cleanup(self, *, dry_run: bool = False) -> Cleanup:
        """Remove what nothing needs any more, and give the room back to the disk; ``dry_run`` only counts.
        May take seconds, and raises IndexLocked when another process is in the way."""
        waste = self._waste()
        if dry_run:
            return waste
        self._check_writable()
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM llm_cache")
            connection.execute("DELETE FROM openclaw_mem_embeddings")
            if self._db.extension and self._has_vector_table():
                gone = rows(connection, f"SELECT hash || '_' || seq FROM content_vectors WHERE {_ORPHANED}")
                connection.executemany("DELETE FROM vectors_vec WHERE hash_seq = ?", gone)
            connection.execute(f"DELETE FROM content_vectors WHERE {_ORPHANED}")
            connection.execute(
                """DELETE FROM openclaw_mem_vectors WHERE hash_seq NOT IN (
                SELECT hash || '_' || seq FROM content_vectors)"""
            )
            connection.execute("DELETE FROM documents WHERE active = 0")
            connection.execute(f"DELETE FROM content WHERE {_ORPHANED}")
            connection.execute("INSERT INTO documents_fts(documents_fts) VALUES('optimize')")
        if isinstance(self._db, Database):  # else the transaction was refused
            with self._db.exclusive_writer() as connection:
                connection.execute("VACUUM")
            self._db.merge_log()
        return waste

    # -- the cache of model answers ---------------------------------------------------------------------

    def cache_get(self, key: str) -> str | None:
        """The answer that was stored under a key (``qmd.queries.cache_key``)."""
        found = self._db.read("SELECT result FROM llm_cache WHERE hash = ?", (key,))
        return str(found[0][0]) if found else None

    def cache_put(self, key: str, result: str | None) -> None:
        """Store an answer, or with None forget it. Does nothing to an index that is only read."""
        if self.read_only:
            return
        with self._db.transaction() as connection:
            if result is None:
                connection.execute("DELETE FROM llm_cache WHERE hash = ?", (key,))
                return
            sql = "INSERT OR REPLACE INTO llm_cache(hash, result, created_at) VALUES(?, ?, ?)"
            connection.execute(sql, (key, result, iso_time(time.time())))
            if connection.last_insert_rowid() % _CACHE_EVERY == 0:
                connection.execute(
                    """DELETE FROM llm_cache WHERE rowid NOT IN (
                    SELECT rowid FROM llm_cache ORDER BY created_at DESC, rowid DESC LIMIT ?)""",
                    (_CACHE_ROWS,),
                )
