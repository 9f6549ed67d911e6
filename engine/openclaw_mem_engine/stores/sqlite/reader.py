"""Reading the index in one SQLite file: opening it, what it holds, and every search in it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.errors import IndexChanged, IndexDamaged, IndexUnavailable
from openclaw_mem_engine.model import Note, Space
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.stores.base import (
    UNLIMITED,
    Capabilities,
    Counts,
    FileState,
    Fingerprint,
    SpaceSize,
    StoredChunk,
)
from openclaw_mem_engine.stores.query import CandidateRows, Derived, LexicalQuery
from openclaw_mem_engine.stores.sqlite import lines, unshown
from openclaw_mem_engine.stores.sqlite.chunks import ChunkRows
from openclaw_mem_engine.stores.sqlite.connections import one_state, size_of
from openclaw_mem_engine.stores.sqlite.database import Database, decoding, explained
from openclaw_mem_engine.stores.sqlite.files import bytes_of, damaged, log_of
from openclaw_mem_engine.stores.sqlite.full_text import FullTextRows
from openclaw_mem_engine.stores.sqlite.schema import (
    DERIVED,
    FILES,
    FULL_TEXT_TABLES,
    NEEDED,
    PAGE_BYTES,
    PASSAGES,
    TABLES,
    Meta,
    derived,
    file_states,
)
from openclaw_mem_engine.stores.sqlite.vectors import VectorRows

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.ranking.unshown import Passage, Unshown


class SqliteReader:
    """``SearchStore`` and ``IndexContent`` over one SQLite file (contract: ``stores.base``; options:
    ``open_store``). Opening it makes tables that are missing. ``caps`` are those of this process, whatever
    state the file is in."""

    opened = 1

    def __init__(
        self,
        path: Path,
        *,
        resident: bool = False,
        extension: bool = True,
        full_text: bool = True,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        self.path = path
        self._reopen = partial(
            SqliteReader, path, resident=resident, extension=extension, full_text=full_text
        )
        self._resident = self.stays_open = resident
        self._full_text = full_text
        self._following = threading.Lock()
        self._lost = False  # closed to be opened again, which has failed so far
        self._left: Database | None = None  # the one before: what other threads just read there goes on
        self.was_empty = size_of(path) == 0
        self._db = Database(path, extension=extension, or_read_only=True, page_bytes=page_bytes)
        self._meta = Meta(self._db)
        try:
            self._open()
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> None:
        notes: list[Note] = []
        self._make_tables()
        self._check_rows()
        self.fingerprint()  # refuses what a newer program wrote, before any of its rows is touched
        if not self._db.extension:
            why = self._db.extension_error
            text = f"sqlite-vec is not in use ({why}): vectors are compared in this process."
            notes.append(Note("no-sqlite-vec", text, "info"))
        if self._db.read_only:
            text = f"{self.path} cannot be written: it is searched as it is. `openclaw-mem doctor` says why."
            notes.append(Note("read-only-index", text, "warning"))
        self.caps = Capabilities(self._full_text, "sqlite-vec" if self._db.extension else "in-process")
        self._notes = tuple(notes)
        self._files: tuple[str, Mapping[str, FileState]] | None = None
        self._gaps = threading.local()  # as the connection of each thread has found them
        self._vectors = VectorRows(self._db, resident=self._resident)
        self._text = FullTextRows(self._db)
        self._chunks = ChunkRows(self._db, resident=self._resident)

    def _make_tables(self) -> None:
        """Make what is missing; damaged tables do not count as that."""
        held = {row[0] for row in self._db.read("SELECT name FROM sqlite_schema")}
        if not {*NEEDED, "chunks_terms"} <= held:
            with self._db.transaction() as connection:
                for statement in TABLES:
                    connection.execute(statement)
                # Without FTS5, or among the remains of such a table: what reads it says so.
                with suppress(apsw.SQLError, apsw.CorruptError):
                    connection.execute(DERIVED["stemmed"])

    def _check_rows(self) -> None:
        """Raises IndexDamaged unless each full-text table has as many rows as there are chunks; the one that
        every index has counts as empty where it is missing. Those rows that FTS5 keeps in a table are
        counted, with the chunks, in 0.7 ms for 60,000. Where that meets a damaged page, the search that reads
        one says so."""
        chunks, words = 0, set[int]()
        with suppress(IndexDamaged), one_state(self._db.reader()):
            names = {row[0] for row in self._db.read("SELECT name FROM sqlite_schema")}
            held = {f"{table}_docsize" for table in FULL_TEXT_TABLES.values()} & names
            chunks, *rows = (
                self._db.read(f"SELECT count(*) FROM {table}")[0][0] for table in ("chunks", *held)
            )
            if self._full_text and FULL_TEXT_TABLES["stemmed"] not in names:
                rows.append(0)
            words = {*rows} - {chunks}
        for number in words:
            raise damaged(f"{counted(chunks, 'chunk')}, and words of {number:,}", self.path)

    def is_present(self) -> bool:
        """See ``IndexStore``."""
        return size_of(self.path) is not None

    # -- keeping up with other processes ----------------------------------------------------------------

    def follow(self, *, make: bool = True) -> int:
        """See ``IndexStore``. What is written into a file that was set aside or removed is lost."""
        if self._lost or not self._db.is_as_opened(or_nothing=not make):
            with self._following:
                changed = not self._db.is_closed and not self._db.is_as_opened(or_nothing=not make)
                if self._lost or changed:
                    self._open_again()
        return self.opened

    def _open_again(self) -> None:
        if not self._db.has_its_log:
            self._lost = True
            self._db.close()  # else SQLite goes on with what it keeps of the same file
        other = self._reopen()
        self._lost = False
        long_left, self._left = self._left, self._db
        self.caps, self._notes = other.caps, other._notes
        self._db, self._meta, self._vectors, self._text = other._db, other._meta, other._vectors, other._text
        self._files, self._gaps, self._chunks = None, other._gaps, other._chunks
        self.opened += 1
        if long_left is not None:
            long_left.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """See ``IndexStore``. Raises IndexChanged when another thread has begun to follow another file."""
        opened = self._db
        with one_state(opened.reader()):
            yield
        if self._db is not opened:
            raise IndexChanged(f"Another index is at {self.path} now. Try again.")

    # -- what the index is ------------------------------------------------------------------------------

    def fingerprint(self) -> Fingerprint | None:
        return self._meta.fingerprint()

    @property
    def notes(self) -> tuple[Note, ...]:
        now = self._db.version()
        if getattr(self._gaps, "version", None) != now:  # not in every search
            self._gaps.notes = ()
            with suppress(IndexUnavailable):  # damage is reported by the search that meets it
                if self._awaits_vectors():
                    text = f"Some chunks have no vectors of {self._primary().label} yet."
                    self._gaps.notes = (Note("vectors-awaited", text, "warning"),)
            self._gaps.version = now
        return (*self._notes, *self._gaps.notes)

    def generation(self) -> int:
        return self._meta.generation()

    def synced_at(self) -> float | None:
        return self._meta.synced_at()

    def counts(self) -> Counts:
        sql = """SELECT (SELECT count(*) FROM files WHERE refusal = ''), (SELECT count(*) FROM chunks),
            (SELECT count(*) FROM embedding_cache)"""
        return Counts(*self._db.read(sql)[0])

    def _primary(self, space: Space | None = None) -> Space:
        """The asked space, else that of the fingerprint; one without vectors in an index never begun."""
        known = self.fingerprint() if space is None else None
        return known.space if known else space or Space("", "", "")

    def _awaits_vectors(self) -> bool:
        """Whether the next sync has vectors to make. Counted and not recorded: rows may be lost."""
        space = self._primary()
        return space.has_vectors and self._vectors.lacking(space)

    def spaces(self) -> list[SpaceSize]:
        return self._vectors.spaces()

    def covered(self, space: Space | None = None) -> int:
        return self._vectors.count(self._primary(space))

    def vector_dims(self, space: Space | None = None) -> int | None:
        return self._vectors.dims(self._primary(space))

    def files(self) -> Mapping[str, FileState]:
        now, _ = self._meta.settled()
        if self._files is not None and self._files[0] == now:
            return self._files[1]
        held = self._db.read(FILES)
        with decoding(self.path):
            found = file_states(held)
        if self._resident:
            self._files = now, found
        return found

    def settled(self) -> tuple[str, str]:
        return self._meta.settled()

    def is_hollow(self) -> bool:
        sql = """SELECT iif(EXISTS(SELECT 1 FROM chunks),
            NOT (EXISTS(SELECT 1 FROM files) AND EXISTS(SELECT 1 FROM meta WHERE key = 'fingerprint')),
            EXISTS(SELECT 1 FROM files WHERE refusal = '' AND size > 0))"""
        return bool(self._db.read(sql)[0][0])

    def chunk_counts(self) -> dict[str, int]:
        found: dict[str, int] = dict(self._db.read("SELECT path, count(*) FROM chunks GROUP BY path"))
        with decoding(self.path):
            if not all(isinstance(path, str) for path in found):
                raise ValueError("the path of a chunk is none")
        return found

    # -- reading ----------------------------------------------------------------------------------------

    def chunks_of(self, path: str) -> list[StoredChunk]:
        return self._chunks.of_file(path)

    def passages(self) -> Iterable[Passage]:
        from openclaw_mem_engine.ranking.unshown import Passage

        return map(Passage._make, self._db.read(PASSAGES))

    def unshown(self, knobs: Knobs) -> dict[str, Unshown]:
        from openclaw_mem_engine.ranking.unshown import unshown_by_file

        known = unshown.read(self._db, knobs)
        return unshown_by_file(self.passages(), knobs) if known is None else known

    def lacking(self, *kinds: Derived) -> set[Derived]:
        able = {kind for kind in kinds if kind == "lines" or self.caps.full_text}
        with explained(self.path):
            return able - derived(self._db.reader()) if able else able

    def in_full_text(self, ids: Iterable[str]) -> set[str]:
        return self._text.holding(ids) if self.caps.full_text else set()

    def fetch(self, ids: Iterable[str]) -> dict[str, StoredChunk]:
        with one_state(self._db.reader()):
            return self._chunks.fetch(ids, self._meta.all() if self._resident else {})

    def lexical(self, query: LexicalQuery, limit: int) -> CandidateRows:
        with one_state(self._db.reader()):
            if not self.caps.full_text:
                return CandidateRows()
            return self._text.search(query, limit, self.generation())

    def without_common(self, query: LexicalQuery) -> LexicalQuery:
        with one_state(self._db.reader()):
            return self._text.without_common(query, self.generation()) if self.caps.full_text else query

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        with one_state(self._db.reader()):
            return self._text.scores(query, ids, self.generation()) if self.caps.full_text and ids else {}

    def matching(self, query: LexicalQuery, ids: Sequence[str]) -> frozenset[str]:
        with one_state(self._db.reader()):
            return self._text.matching(query, ids, self.generation()) if self.caps.full_text else frozenset()

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> Mapping[str, tuple[float, ...]]:
        with one_state(self._db.reader()):
            if not self.caps.full_text or not texts:
                return {}
            return self._text.line_scores(query, texts, basis, self.generation())

    def vector(self, vector: Floats, limit: int, space: Space | None = None) -> CandidateRows:
        with one_state(self._db.reader()):
            return self._vectors.nearest(self._primary(space), self.generation(), vector, limit)

    def cosines(self, vector: Floats, ids: Sequence[str], space: Space | None = None) -> dict[str, float]:
        with one_state(self._db.reader()):
            return self._vectors.cosines(self._primary(space), self.generation(), vector, ids) if ids else {}

    def packed_lines(self, ids: Iterable[str], space: Space) -> dict[str, bytes]:
        return lines.read(self._db, ids) if space == self._primary() else {}

    def lexical_ranks(self, query: LexicalQuery, ids: Iterable[str]) -> dict[str, int]:
        with one_state(self._db.reader()):
            if query.operator == "keywords":  # one list after the other
                return self.lexical(query, UNLIMITED).ranks_of(ids)
            return self._text.ranks(query, ids, self.generation()) if self.caps.full_text else {}

    def vector_ranks(self, vector: Floats, ids: Iterable[str], space: Space | None = None) -> dict[str, int]:
        with one_state(self._db.reader()):
            return self._vectors.ranks(self._primary(space), self.generation(), vector, ids)

    def bytes_on_disk(self) -> int:
        return bytes_of([self.path, log_of(self.path)])

    def interrupt(self) -> None:
        for database in filter(None, (self._db, self._left)):
            database.interrupt()

    def close(self) -> None:
        with self._following:
            for database in filter(None, (self._db, self._left)):
                database.close()
