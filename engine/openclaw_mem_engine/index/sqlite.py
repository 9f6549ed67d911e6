"""The index in one SQLite file: chunks, two full-text tables, vectors, and the embedding cache."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.errors import Cancelled, IndexUnavailable
from openclaw_mem_engine.index.aside import aside_path, check_room, remove, sweep
from openclaw_mem_engine.index.database import BUSY_TIMEOUT_MS, Bound, Database, explained, rows
from openclaw_mem_engine.index.full_text import FullTextRows
from openclaw_mem_engine.index.meta import Meta
from openclaw_mem_engine.index.protocol import (
    CacheSize,
    Caps,
    Counts,
    FileChange,
    FileState,
    Fingerprint,
    IndexStore,
    Scored,
    SpaceSize,
    StoredChunk,
)
from openclaw_mem_engine.index.schema import FULL_TEXT, TABLES
from openclaw_mem_engine.index.vectors import VectorRows
from openclaw_mem_engine.index.words import LexicalQuery
from openclaw_mem_engine.model import CancelToken, Note, Source, Space

if TYPE_CHECKING:
    from openclaw_mem_engine.index.protocol import Vector


class SqliteIndex:
    """:class:`IndexStore` over one SQLite file (see there for the contract).

    ``resident`` keeps all vectors in memory between queries: for long-lived processes. ``full_text`` and
    ``extension`` exist so that the degraded forms can be chosen, and tested, on any machine.
    ``busy_timeout_ms`` is how long a write waits for another process before it raises IndexLocked.
    """

    def __init__(
        self,
        path: Path,
        *,
        resident: bool = False,
        extension: bool = True,
        full_text: bool = True,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    ) -> None:
        self.path = path
        self._db = Database(path, extension=extension, busy_timeout_ms=busy_timeout_ms)
        self._meta = Meta(self._db)
        try:
            self._open(resident, full_text)
        except BaseException:
            self._db.close()
            raise

    def _open(self, resident: bool, full_text: bool) -> None:
        notes: list[Note] = []
        full_text = self._make_tables(full_text, notes)
        self.fingerprint()  # refuses what a newer program wrote, before any of its rows is touched
        if not self._db.extension:
            why = self._db.extension_error
            told = f"sqlite-vec is not in use ({why}): vectors are compared in this process."
            notes.append(Note("no-sqlite-vec", told, "info"))
        self.caps = Caps(full_text, "sqlite-vec" if self._db.extension else "in-process")
        self._notes = tuple(notes)
        self._resident = resident
        self._files: tuple[tuple[str, str], Mapping[str, FileState]] | None = None
        self._vectors = VectorRows(self._db, resident=resident)
        self._text = FullTextRows(self._db)
        self._bring_derived_up_to_date()

    def _make_tables(self, full_text: bool, notes: list[Note]) -> bool:
        tables = {row[0] for row in self._db.read("SELECT name FROM sqlite_schema")}
        wanted = {"meta", "files", "chunks", "embedding_cache"} | ({"chunks_terms"} if full_text else set())
        if wanted <= tables:
            return full_text and self._can_read_full_text(notes)
        with self._db.transaction() as connection:
            for statement in TABLES:
                connection.execute(statement)
            if full_text:
                try:
                    for statement in FULL_TEXT:
                        connection.execute(statement)
                except apsw.SQLError as error:
                    full_text = False
                    notes.append(Note("no-fts5", f"SQLite has no FTS5 ({error}).", "warning"))
        return full_text

    def _can_read_full_text(self, notes: list[Note]) -> bool:
        """Whether this process's SQLite knows the full-text tables that another one has made."""
        with explained(self.path):
            try:
                self._db.reader().execute("SELECT 1 FROM chunks_fts LIMIT 0")
            except apsw.SQLError as error:
                notes.append(Note("no-fts5", f"SQLite has no FTS5 ({error}).", "warning"))
                return False
        return True

    def _bring_derived_up_to_date(self) -> None:
        """Refill full-text or vector rows that a process without FTS5 or sqlite-vec could not write."""
        flags = self._meta.all()
        if self.caps.full_text and flags.get("fts_behind") == "yes":
            with self._db.transaction() as connection:
                self._text.clear(connection)
                self._text.insert(connection, rows(connection, "SELECT seq, text FROM chunks"))
                self._meta.set_behind(connection, "fts_behind", False)
        if self._db.extension and flags.get("vectors_behind") == "yes" and (known := self.fingerprint()):
            with self._db.transaction() as connection:
                self._vectors.refill(connection, known.space)
                self._meta.set_behind(connection, "vectors_behind", False)

    # -- what the index is ------------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint | None:
        """What the content was built with; None for an index that was never begun. Raises IndexUnavailable
        for one that a newer program wrote."""
        return self._meta.fingerprint()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes this index less than it could be."""
        if not self._awaits_vectors():
            return self._notes
        told = "Some passages have no vectors yet, keywords alone find them: run `openclaw-mem index`."
        return (*self._notes, Note("vectors-awaited", told, "warning"))

    def generation(self) -> int:
        """Grows with every change; two equal values mean equal content."""
        return self._meta.generation()

    def synced_at(self) -> float | None:
        """Epoch seconds of the last completed sync."""
        return self._meta.synced_at()

    def counts(self) -> Counts:
        sql = """SELECT (SELECT count(*) FROM files WHERE refusal = ''), (SELECT count(*) FROM chunks),
            (SELECT count(*) FROM embedding_cache)"""
        return Counts(*self._db.read(sql)[0])

    def _primary(self, space: Space | None = None) -> Space | None:
        """The asked space, else the one of the fingerprint; None for an index that was never begun."""
        known = self.fingerprint() if space is None else None
        return known.space if known else space

    def spaces(self) -> list[SpaceSize]:
        """Every space that some chunk has a vector of."""
        return self._vectors.spaces()

    def covered(self, space: Space | None = None) -> int:
        """Chunks that have a vector in this space."""
        asked = self._primary(space)
        return self._vectors.count(asked) if asked else 0

    def vector_dims(self, space: Space | None = None) -> int | None:
        """Length of the vectors of a space; None as long as there is none."""
        asked = self._primary(space)
        return self._vectors.dims(asked) if asked else None

    def files(self) -> Mapping[str, FileState]:
        """Known files by path."""
        flags = self._meta.all()
        now = flags.get("generation", ""), flags.get("touches", "")
        if self._files is not None and self._files[0] == now:
            return self._files[1]
        sql = "SELECT path, source, hash, mtime_ns, size, inode, checked_ns, refusal FROM files"
        found = {state.path: state for state in map(FileState._make, self._db.read(sql))}
        if self._resident:
            self._files = now, found
        return found

    # -- reading ----------------------------------------------------------------------------------------

    def fetch(self, ids: Iterable[str]) -> dict[str, StoredChunk]:
        """Chunks by id; unknown ids are absent."""
        found = self._db.read(
            """SELECT c.id, c.path, c.source, c.start_line, c.end_line, c.hash, c.text,
                coalesce(f.mtime_ns, 0)
            FROM json_each(?) wanted JOIN chunks c ON c.id = wanted.value
            LEFT JOIN files f ON f.path = c.path AND f.source = c.source""",
            (json.dumps(list(ids)),),
        )
        return {row[0]: StoredChunk(*row) for row in found}

    def lexical(
        self, query: LexicalQuery, limit: int, sources: Sequence[Source] | None = None
    ) -> list[Scored]:
        """The ``limit`` best full-text matches. For ``keywords`` the union of one search a term, in order of
        first appearance, each limited by itself."""
        return self._text.search(query, limit, sources) if self.caps.full_text else []

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        """Negated bm25 of these chunks; those that do not match are absent."""
        return self._text.scores(query, ids) if self.caps.full_text and ids else {}

    def line_scores(self, query: LexicalQuery, texts: Mapping[str, str]) -> dict[str, float]:
        """BM25 of the best line of each text (see ``lines.py``); 0 where no line matches."""
        return self._text.line_scores(query, texts) if self.caps.full_text and texts else {}

    def vector(
        self,
        vector: Vector,
        limit: int,
        sources: Sequence[Source] | None = None,
        space: Space | None = None,
    ) -> list[Scored]:
        """The ``limit`` nearest chunks by cosine; exact, whichever way it is computed."""
        primary = self._primary()
        if primary is None:
            return []
        asked = space or primary
        return self._vectors.nearest(
            asked, self.generation(), vector, limit, sources, primary=asked == primary
        )

    def cosines(self, vector: Vector, ids: Sequence[str], space: Space | None = None) -> dict[str, float]:
        """Cosine of these chunks; those without an embedding are absent."""
        asked = self._primary(space)
        return self._vectors.cosines(asked, vector, ids) if asked and ids else {}

    # -- writing ----------------------------------------------------------------------------------------

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
        with self._db.transaction() as connection:
            self._meta.expect(connection, built_with)
            model, now = self._meta.model(connection), time.time()
            for change in changes:
                self._replace(connection, change, model, now)
            self._meta.bump(connection)

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
        if self.caps.full_text:
            self._text.insert(connection, added)
        else:
            self._meta.set_behind(connection, "fts_behind")

    def _delete_chunks(self, connection: apsw.Connection, path: str, source: str) -> None:
        found = rows(connection, "SELECT seq FROM chunks WHERE path = ? AND source = ?", (path, source))
        if not found:
            return
        if self.caps.full_text:
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
        with self._db.transaction() as connection:
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

    def forget_space(self, space: Space) -> None:
        """Drop every cached embedding of a space, also those that passages need."""
        with self._db.transaction() as connection:
            connection.execute(
                "DELETE FROM embedding_cache WHERE provider = ? AND model = ? AND provider_key = ?", space
            )
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
        with self._db.transaction() as connection:
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
        self, fingerprint: Fingerprint, fill: Callable[[IndexStore], None], cancel: CancelToken | None = None
    ) -> None:
        """Build a fresh index aside with ``fill`` and put it in this one's place in one step.

        Searches go on against the old content. The embedding cache is carried over, and what is newly
        embedded is kept even when the rebuild is stopped. SQLite's backup moves the content: all connections
        of all processes see it at once, and a kill in the middle leaves the old index whole.
        """
        sweep(self.path)
        check_room(self.path, self.bytes_on_disk())
        aside = aside_path(self.path)
        try:
            fresh = SqliteIndex(aside, extension=self._db.extension, full_text=self.caps.full_text)
            try:
                fresh.begin(fingerprint)
                fresh._take_cache(self.path)
                try:
                    fill(fresh)
                except BaseException:
                    with suppress(IndexUnavailable, Cancelled):
                        self._take_cache(aside)
                    raise
                if cancel is not None and cancel.is_set():
                    raise Cancelled("The rebuild was stopped; the old index is as it was.")
                fresh._continue_generation(self.generation())
                self._db.replace_content(fresh._db)
            finally:
                fresh.close()
        finally:
            remove(aside)
        self._vectors.forget()

    def _continue_generation(self, old: int) -> None:
        """A swapped-in index must not repeat a generation that readers have already seen."""
        with self._db.transaction() as connection:
            self._meta.put(connection, "generation", str(old + 1))

    def _take_cache(self, source: Path) -> None:
        """Add the embeddings that another index has made."""
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
                        AND coalesce(length(embedding), 0) = 4 * dims"""
                )
            finally:
                connection.execute("DETACH other")

    def bytes_on_disk(self) -> int:
        """Size of the file and of what is still in its write-ahead log."""
        parts = (self.path, self.path.with_name(f"{self.path.name}-wal"))
        return sum(part.stat().st_size for part in parts if part.exists())

    def interrupt(self, threads: Collection[int]) -> None:
        """Stop the reads of these threads (``threading.get_ident``); they raise Cancelled."""
        self._db.interrupt(threads)

    def close(self) -> None:
        """Close all connections. The object cannot be used afterwards."""
        self._db.close()
