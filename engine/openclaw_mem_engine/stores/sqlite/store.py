"""The index in one SQLite file: chunks, two full-text tables, vectors, and the embedding cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, IndexUnavailable
from openclaw_mem_engine.model import Source, Space
from openclaw_mem_engine.stores.base import (
    CacheSize,
    FileChange,
    FileState,
    Fingerprint,
    IndexStore,
    StoredChunk,
)
from openclaw_mem_engine.stores.sqlite.aside import aside_path, check_room, remove, sweep
from openclaw_mem_engine.stores.sqlite.database import (
    Bound,
    explained,
    rows,
)
from openclaw_mem_engine.stores.sqlite.meta import generation_after
from openclaw_mem_engine.stores.sqlite.reader import SqliteReader

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector


class SqliteIndex(SqliteReader):
    """:class:`IndexStore` over one SQLite file (see there for the contract)."""

    # -- writing ----------------------------------------------------------------------------------------

    @contextmanager
    def _changing(self) -> Iterator[apsw.Connection]:
        """A transaction that changes chunks. Rows that another process could not write come first: those of
        chunks that are gone would be in the way of new ones."""
        with self._db.transaction() as connection:
            self._refill(connection)
            yield connection

    def begin(self, fingerprint: Fingerprint) -> None:
        """Declare what an empty index will be built with."""
        with self._db.transaction() as connection:
            self._meta.put(connection, "fingerprint", fingerprint.to_json())

    def apply(self, *changes: FileChange, built_with: Fingerprint | None = None) -> None:
        """Replace everything known of these files, in one transaction: with each commit FTS5 writes and
        merges its segments, so many small files are written together.

        ``built_with`` is what the chunks and vectors were made for. Raises IndexChanged when the index has
        become another one since.
        """
        with self._changing() as connection:
            self._meta.expect(connection, built_with)
            model, now = self._meta.model(connection), time.time()
            for change in changes:
                self._replace(connection, change, model, now)
            if built_with is not None:
                self._keep_cached(connection, built_with.space, changes)
            self._meta.bump(connection)

    def _keep_cached(self, connection: apsw.Connection, space: Space, changes: Sequence[FileChange]) -> None:
        """The cache is where vectors are kept for good. What was put there before its chunk was written may
        have been forgotten by somebody in between."""
        made = {
            chunk.hash: vector
            for change in changes
            for chunk, vector in zip(change.chunks, change.vectors, strict=True)
            if vector is not None
        }
        self._vectors.cache_missing(connection, space, made)

    def _replace(self, connection: apsw.Connection, change: FileChange, model: str, now: float) -> None:
        self._delete_chunks(connection, change.state.path, change.state.source)
        added: list[tuple[int, str]] = []
        vectors: list[tuple[int, str, Vector]] = []
        for chunk, vector in zip(change.chunks, change.vectors, strict=True):
            row = rows(
                connection,
                """INSERT INTO chunks(
                    id, path, source, start_line, end_line, hash, model, text, updated_at)
                VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT(id) DO NOTHING RETURNING seq""",
                (*chunk[:6], model, chunk.text, now),
            )
            if row:  # equal pieces of one over-long line share an id, and one row
                added.append((row[0][0], chunk.text))
                if vector is not None:
                    vectors.append((row[0][0], chunk.source, vector))
        self._insert_text(connection, added)
        if not self._vectors.insert(connection, vectors):
            self._meta.set_behind(connection, "vectors_behind")
        if change.awaits_vectors:
            self._meta.set_behind(connection, "vectors_awaited")
        self._put_state(connection, change.state)

    def _insert_text(self, connection: apsw.Connection, added: Sequence[Bound]) -> None:
        if self._can_write_text(connection):
            self._text.insert(connection, added)
        else:
            self._meta.set_behind(connection, "fts_behind")

    def _delete_chunks(self, connection: apsw.Connection, path: str, source: str) -> None:
        found = rows(connection, "SELECT seq FROM chunks WHERE path = ? AND source = ?", (path, source))
        if not found:
            return
        if self._can_write_text(connection):
            self._text.delete(connection, found)
        else:
            self._meta.set_behind(connection, "fts_behind")
        if not self._vectors.delete(connection, found):
            self._meta.set_behind(connection, "vectors_behind")
        connection.execute("DELETE FROM chunks WHERE path = ? AND source = ?", (path, source))

    @staticmethod
    def _put_state(connection: apsw.Connection, s: FileState) -> None:
        connection.execute(
            """INSERT OR REPLACE INTO files(path, source, hash, mtime_ns, size, inode, checked_ns, refusal)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?)""",
            s,
        )

    def touch(self, states: Sequence[FileState]) -> None:
        """Remember new stat values of files whose content is the same."""
        if states:
            with self._db.transaction() as connection:
                for state in states:
                    self._put_state(connection, state)
                # Not the generation: what is kept in memory of the content stays right.
                self._meta.bump(connection, "touches")

    def remove(self, path: str, source: Source) -> None:
        """Forget a file and all its chunks."""
        with self._changing() as connection:
            self._delete_chunks(connection, path, source)
            connection.execute("DELETE FROM files WHERE path = ? AND source = ?", (path, source))
            self._meta.bump(connection)

    def finish(self, synced_at: float) -> None:
        """Record a completed sync."""
        with self._db.transaction() as connection:
            self._meta.put(connection, "synced_at", repr(synced_at))

    # -- embeddings -------------------------------------------------------------------------------------

    def cached_vectors(self, hashes: Iterable[str], space: Space | None = None) -> dict[str, Vector | None]:
        """Known embeddings of a space by text hash; None: the text is known to have none."""
        asked = self._primary(space)
        return self._vectors.cached(asked, hashes) if asked else {}

    def cache_vectors(self, vectors: Mapping[str, Vector | None], space: Space | None = None) -> None:
        """Remember embeddings of a space by text hash. For another than the primary space that is all it
        takes to be searchable."""
        asked = self._primary(space)
        if asked and vectors:
            with self._db.transaction() as connection:
                self._vectors.cache(connection, asked, vectors)
                if space is not None:
                    self._meta.bump(connection)

    def cache_sizes(self) -> list[CacheSize]:
        """The embedding cache, space by space, the largest first."""
        return self._vectors.cache_sizes()

    def prune_cache(self, most: int) -> int:
        """Forget the oldest embeddings beyond ``most``, but none that a chunk of the index needs. Returns how
        many went."""
        beyond = self.counts().cached - most
        if beyond <= 0:
            return 0
        with self._db.transaction() as connection:
            return self._vectors.prune(connection, beyond)

    def chunks_without_vector(self, limit: int, space: Space | None = None) -> list[StoredChunk]:
        """Chunks whose text was not embedded in this space. For the primary space they are looked for only
        when there may be some (see ``vectors_complete``): the search reads all chunks."""
        primary = self._primary()
        if primary is None:
            return []
        if space is not None and space != primary:
            return self._vectors.missing(space, limit, primary=False)
        return self._vectors.missing(primary, limit, primary=True) if self._awaits_vectors() else []

    def vectors_complete(self) -> None:
        """Remember that no chunk waits for a vector of the primary space."""
        if self._awaits_vectors():
            with self._db.transaction() as connection:
                self._meta.set_behind(connection, "vectors_awaited", False)

    def _awaits_vectors(self) -> bool:
        return self._meta.is_behind("vectors_awaited")

    def set_vectors(self, vectors: Mapping[str, Vector], built_with: Fingerprint | None = None) -> None:
        """Give stored chunks their vectors of the primary space, by chunk id. Raises IndexChanged, as
        ``apply``."""
        with self._changing() as connection:
            self._meta.expect(connection, built_with)
            found = []
            for chunk_id, vector in vectors.items():
                for seq, source in connection.execute(
                    "SELECT seq, source FROM chunks WHERE id = ?", (chunk_id,)
                ):
                    found.append((seq, source, vector))
            # Another process may have caught up at the same time, and vec0 knows no REPLACE.
            gone = self._vectors.delete(connection, [(seq,) for seq, _, _ in found])
            if not (gone and self._vectors.insert(connection, found)):
                self._meta.set_behind(connection, "vectors_behind")
            self._meta.bump(connection)

    # -- rebuilding -------------------------------------------------------------------------------------

    def rebuild(
        self,
        fingerprint: Fingerprint,
        fill: Callable[[IndexStore], None],
        cancel: CancelToken | None = None,
        *,
        without: Space | None = None,
    ) -> None:
        """Build a fresh index aside with ``fill`` and put it in this one's place in one step.

        Searches go on against the old content. The embedding cache is carried over, and what is newly
        embedded is kept even when the rebuild is stopped. SQLite's backup moves the content: all connections
        of all processes see it at once, and a kill in the middle leaves the old index whole.

        ``without`` names a space whose old embeddings cannot be compared with those to come: they are not
        carried over, and stay with the old index when the rebuild fails, as the new ones do not.
        """
        sweep(self.path)
        check_room(self.path, self.bytes_on_disk())
        aside = aside_path(self.path)
        try:
            # What this process can do, not what state the old file is in.
            fresh = SqliteIndex(aside, extension=self._db.extension, full_text=self.caps.full_text)
            try:
                fresh.begin(fingerprint)
                fresh._take_cache(self.path, without)
                try:
                    fill(fresh)
                except BaseException:
                    with suppress(IndexUnavailable, Cancelled):
                        self._take_cache(aside, without)
                    raise
                if cancel is not None and cancel.is_set():
                    raise Cancelled("The rebuild was stopped; the old index is as it was.")
                fresh._continue_generation(self._meta.all().get("generation"))
                self._db.replace_content(fresh._db)
            finally:
                fresh.close()
        finally:
            remove(aside)
        self._vectors.forget()

    def _continue_generation(self, old: str | None) -> None:
        """A swapped-in index must not repeat a generation that readers have already seen."""
        with self._db.transaction() as connection:
            self._meta.put(connection, "generation", str(generation_after(old)))

    def _take_cache(self, source: Path, without: Space | None = None) -> None:
        """Add the embeddings that another index has made, but none of the space ``without``."""
        # What is wrong with the source must not be told of the target.
        with self._db.exclusive_writer() as connection, explained(source):
            connection.execute("ATTACH ? AS other", (str(source),))
            try:
                # Not what only a damaged page can hold: it would stay damaged for good.
                connection.execute(
                    """INSERT OR IGNORE INTO embedding_cache SELECT * FROM other.embedding_cache
                    WHERE typeof(provider) = 'text' AND typeof(model) = 'text' AND typeof(hash) = 'text'
                        AND typeof(provider_key) = 'text' AND typeof(updated_at) = 'real'
                        AND typeof(dims) = 'integer' AND typeof(embedding) IN ('blob', 'null')
                        AND coalesce(length(embedding), 0) = 4 * dims
                        AND (provider, model, provider_key) IS NOT (?, ?, ?)""",
                    without or (None, None, None),
                )
            finally:
                connection.execute("DETACH other")
