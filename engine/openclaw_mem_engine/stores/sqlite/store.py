"""Writing the index in one SQLite file: chunks, full-text rows, the embedding cache, and new generations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.errors import Cancelled, IndexUnavailable
from openclaw_mem_engine.model import Source, Space, utf8
from openclaw_mem_engine.stores.base import (
    CacheSize,
    Derived,
    FileChange,
    FileState,
    Fingerprint,
    Generation,
    IndexStore,
    Pack,
    StoredChunk,
)
from openclaw_mem_engine.stores.sqlite import lines, unshown
from openclaw_mem_engine.stores.sqlite.chunks import all_chunks, overlap
from openclaw_mem_engine.stores.sqlite.database import explained, rows
from openclaw_mem_engine.stores.sqlite.files import aside_path, check_room, damaged, remove, sweep
from openclaw_mem_engine.stores.sqlite.reader import SqliteReader
from openclaw_mem_engine.stores.sqlite.schema import DERIVED, derived, generation_after
from openclaw_mem_engine.stores.sqlite.vectors import AS_WRITTEN, SPACE, bad_vectors

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector


#: Chunks of an index whose words are purged by every sync that removes files: half a second.
_SOON_PURGED = 10_000


class SqliteIndex(SqliteReader, IndexStore):
    """``IndexStore`` over one SQLite file (see there for the contract)."""

    @contextmanager
    def _changing(self) -> Iterator[apsw.Connection]:
        """A transaction that changes chunks."""
        with self._db.transaction() as connection:
            self._text.remake_unusable(connection)
            yield connection

    def begin(self, fingerprint: Fingerprint) -> None:
        with self._db.transaction() as connection:
            self._meta.put(connection, "fingerprint", fingerprint.to_json())

    def apply(self, *changes: FileChange, built_with: Fingerprint | None = None) -> None:
        """See ``IndexWriter.apply``: with each commit FTS5 writes and merges its segments."""
        with self._changing() as connection:
            space = self._meta.expect(connection, built_with)
            added = [row for change in changes for row in self._replace(connection, change)]
            # All rows of a table together: a write to another virtual table between them makes FTS5 write
            # what it has gathered as a segment; done for each file, that was a sixth of a first index.
            self._text.insert(connection, added)
            if "lines" in derived(connection):
                lines.insert(connection, changes)
            if space is not None:
                # What was put into the cache before its chunk was written may have been pruned meanwhile.
                pairs = (pair for x in changes for pair in zip(x.chunks, x.vectors, strict=True))
                made = {chunk.hash: vector for chunk, vector in pairs if vector is not None}
                self._vectors.cache(connection, space, made, replace=False)
            self._meta.bump(connection)

    def _replace(self, connection: apsw.Connection, change: FileChange) -> list[tuple[int, str, str]]:
        """Replace the chunks of a file. Returns what the full-text tables need: seq, path, text."""
        path, source = change.state.path, change.state.source
        kept, added = list[StoredChunk](), list[tuple[int, str, str]]()
        before, own = -1, ""  # the last line and the own text of the predecessor
        self._delete_chunks(connection, path, source, gone=not change.chunks)
        for chunk in change.chunks:
            shared = overlap(own, before - chunk.start_line + 1, chunk.text)
            row = rows(
                connection,
                """INSERT INTO chunks(id, path, source, start_line, end_line, hash, text, shared)
                VALUES(?, ?, ?, ?, ?, unhex(?), ?, ?) ON CONFLICT(id) DO NOTHING RETURNING seq""",
                (*chunk[:6], chunk.text[len(shared) :], len(utf8(shared))),
            )
            if row:  # equal pieces of one over-long line share an id, and one row
                before, own = chunk.end_line, chunk.text[len(shared) :]
                kept.append(chunk)
                added.append((row[0][0], chunk.path, chunk.text))
            elif chunk.chunk_id not in {one.chunk_id for one in kept}:  # an id names the path, too
                raise damaged("a chunk of one file is recorded as one of another", self.path)
        unshown.insert(connection, path, source, kept)
        self._put_state(connection, change.state)
        return added

    def _delete_chunks(self, connection: apsw.Connection, path: str, source: str, *, gone: bool) -> None:
        found = rows(connection, "SELECT seq FROM chunks WHERE path = ? AND source = ?", (path, source))
        if found:
            if gone:
                self._meta.set_words_left(connection)
            self._text.delete(connection, found)
            if "lines" in derived(connection):
                lines.delete(connection, found)
            connection.execute("DELETE FROM chunks WHERE path = ? AND source = ?", (path, source))
            connection.execute("DELETE FROM unshown WHERE path = ? AND source = ?", (path, source))

    @staticmethod
    def _put_state(connection: apsw.Connection, s: FileState) -> None:
        connection.execute(
            """INSERT OR REPLACE INTO files(path, source, hash, mtime_ns, size, inode, checked_ns, refusal)
            VALUES(?, ?, ?, ?, ?, ?, ?, ?)""",
            s,
        )

    def provide(self, *kinds: Derived, pack: Pack | None = None) -> None:
        if wanted := self.lacking(*kinds):
            with self._db.transaction() as connection:
                for kind in sorted(wanted - derived(connection), reverse=True):  # not made meanwhile
                    if kind == "lines":
                        connection.execute(DERIVED[kind])
                        assert pack is not None, "lines are made by the embedder of the index"
                        lines.fill(connection, all_chunks(connection), pack)
                    else:
                        self._text.fill(connection, kind, all_chunks(connection))
            self._give_back()

    def touch(self, states: Sequence[FileState]) -> None:
        if states:
            with self._db.transaction() as connection:
                for state in states:
                    self._put_state(connection, state)
                # Not the generation: content that is kept in memory stays valid.
                self._meta.bump(connection, "touches")

    def settle(self, files: str, digest: str) -> None:
        if not self._db.read_only:
            with suppress(IndexUnavailable), self._db.transaction(wait=False) as connection:
                if self._meta.settled(connection)[0] == files:
                    self._meta.put(connection, "settled", files + digest)

    def remove(self, *files: tuple[str, Source]) -> None:
        with self._changing() as connection:
            for path, source in files:
                self._delete_chunks(connection, path, source, gone=True)
            connection.executemany("DELETE FROM files WHERE path = ? AND source = ?", files)
            self._meta.bump(connection)

    def finish(self, synced_at: float, *, purge: bool = False) -> None:
        with self._db.transaction() as connection:
            flags = self._meta.all(connection)
            if flags.get("words_left") == "yes" and (
                purge or rows(connection, "SELECT count(*) FROM chunks")[0][0] <= _SOON_PURGED
            ):
                self._text.purge(connection)
            self._meta.put(connection, "synced_at", repr(synced_at))
        self._give_back(merge="synced_at" not in flags)

    def _give_back(self, *, merge: bool = False) -> None:
        """Give free pages back: a merge of segments leaves what it read, up to a third of the file. That
        takes room in the log: on a full disk it waits for another sync. ``merge``: first make one segment of
        what a first index wrote, with .94 of the room, and .8 of the time of a query."""
        with suppress(IndexUnavailable), self._db.transaction() as connection:
            if merge:
                self._text.purge(connection)
            rows(connection, "PRAGMA incremental_vacuum")

    # -- embeddings -------------------------------------------------------------------------------------

    def cached_vectors(self, hashes: Iterable[str], space: Space | None = None) -> dict[str, Vector | None]:
        return self._vectors.cached(self._primary(space), hashes)

    def cache_vectors(self, vectors: Mapping[str, Vector | None], space: Space | None = None) -> None:
        asked = self._primary(space)
        if any(asked) and vectors:
            with self._db.transaction() as connection:
                self._vectors.cache(connection, asked, vectors)
                if space is not None:
                    self._meta.bump(connection)

    def cached_hashes(self, space: Space) -> list[str]:
        sql = f"SELECT lower(hex(hash)) FROM embedding_cache WHERE space = {SPACE} ORDER BY hash"
        return [row[0] for row in self._db.read(sql, space)]

    def cache_sizes(self) -> list[CacheSize]:
        return self._vectors.cache_sizes()

    def prune_cache(self, most: int) -> int:
        beyond = self.counts().cached - most
        if beyond <= 0:
            return 0
        with self._db.transaction() as connection:
            return self._vectors.prune(connection, beyond)

    def chunks_without_vector(self, limit: int, space: Space | None = None) -> list[StoredChunk]:
        primary = self._primary()
        asked = space or primary
        if not any(primary) or (asked == primary and not self._awaits_vectors()):
            return []
        return self._vectors.missing(asked, limit)

    def set_vectors(self, vectors: Mapping[str, Vector], built_with: Fingerprint | None = None) -> None:
        with self._changing() as connection:
            space = self._meta.expect(connection, built_with)
            sql = "SELECT id, lower(hex(hash)) FROM chunks WHERE id IN (SELECT value FROM json_each(?))"
            found = rows(connection, sql, (json.dumps([*vectors]),))
            if space is not None:
                made = {key: vectors[chunk_id] for chunk_id, key in found}
                self._vectors.cache(connection, space, made, replace=False)  # most are there already
            self._meta.bump(connection)

    # -- rebuilding -------------------------------------------------------------------------------------

    def new_generation(self, fingerprint: Fingerprint, without: Space | None = None) -> SqliteGeneration:
        sweep(self.path)
        check_room(self.path, self.bytes_on_disk())
        generation = SqliteGeneration(self, without)
        try:
            generation.begin(fingerprint)
            generation._take_cache(self.path, without)
            generation.dropped = generation._drop_unusable()
        except BaseException:
            generation._end()
            raise
        return generation

    def _take_cache(self, source: Path, without: Space | None = None) -> None:
        """Add the embeddings that another index has made, but none of the space ``without``."""
        with self._attached(source) as connection:
            names = "provider, model, provider_key"
            connection.execute(
                f"INSERT OR IGNORE INTO spaces({names}) SELECT {names} FROM other.spaces ORDER BY id"
            )
            # Not what only a damaged page can hold: it would stay in the cache for good.
            connection.execute(
                f"""INSERT OR IGNORE INTO embedding_cache(space, hash, embedding, checksum, updated_at)
                SELECT s.id, hash, embedding, checksum, updated_at FROM other.embedding_cache e
                JOIN other.spaces o ON o.id = e.space JOIN main.spaces s USING({names})
                WHERE {AS_WRITTEN} AND ({names}) IS NOT (?, ?, ?) ORDER BY e.id""",
                without or (None, None, None),
            )

    @contextmanager
    def _attached(self, source: Path) -> Iterator[apsw.Connection]:
        """The writing connection, on which ``other`` is the index file ``source``. Its damage is reported as
        damage of ``source``."""
        with self._db.exclusive_writer() as connection, explained(source):
            connection.execute("ATTACH ? AS other", (str(source),))
            try:
                yield connection
            finally:
                connection.execute("DETACH other")


class SqliteGeneration(SqliteIndex, Generation):
    """A new generation in a file of its own, next to the index that it is to replace. SQLite's backup copies
    it over in one step for all connections of all processes, and a kill in the middle leaves the old one."""

    def __init__(self, old: SqliteIndex, without: Space | None) -> None:
        aside = aside_path(old.path)
        try:
            # What this process can do, not what state the old file is in.
            super().__init__(
                aside,
                extension=old._db.extension,
                full_text=old.caps.full_text,
                page_bytes=old._db.read("PRAGMA page_size")[0][0],
            )
        except BaseException:
            remove(aside)
            raise
        self._old, self._without = old, without
        self._is_over = False

    def _drop_unusable(self) -> int:
        """Forget the embeddings that no search can use: they are made anew when they are needed. Returns how
        many."""
        with self._db.transaction() as connection:
            bad = [(number,) for numbers in bad_vectors(connection).values() for number in numbers]
            connection.executemany("DELETE FROM embedding_cache WHERE id = ?", bad)
            connection.execute("DELETE FROM spaces WHERE id NOT IN (SELECT space FROM embedding_cache)")
        return len(bad)

    def packed_lines(self, ids: Iterable[str], space: Space) -> dict[str, bytes]:
        """Those of the old index: ids name the content, too."""
        return self._old.packed_lines(ids, space)

    def commit(self) -> None:
        """A generation number that readers have already seen must not come again."""
        with self._db.transaction() as connection:
            after = generation_after(self._old._meta.all().get("generation"))
            self._meta.put(connection, "generation", str(after))
        self._old._db.replace_content(self._db)
        self._old._vectors.forget()
        self._end()

    def abort(self) -> None:
        if not self._is_over:
            try:
                with suppress(IndexUnavailable, Cancelled):
                    self._old._take_cache(self.path, self._without)
            finally:
                self._end()

    def _end(self) -> None:
        self._is_over = True
        try:
            self.close()
        finally:
            remove(self.path)
