"""Searching an index: full text in SQLite, vectors in this process."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.documents import VirtualPath, docid
from openclaw_mem_engine.qmd.lexical import WEIGHTS
from openclaw_mem_engine.qmd.queries import fingerprint
from openclaw_mem_engine.stores.qmd.collections import Collections
from openclaw_mem_engine.stores.sqlite.database import Bound, decoding

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, Floats, Vector
    from openclaw_mem_engine.stores.qmd.foreign import ForeignDatabase
    from openclaw_mem_engine.stores.sqlite.database import Database

_BM25 = f"bm25(documents_fts, {', '.join(map(str, WEIGHTS))})"
_DIMS = re.compile(r"float\[(\d+)\]", re.IGNORECASE)


class VectorSpace(NamedTuple):
    """Which vectors can be compared: the columns ``model`` and ``embed_fingerprint`` of a stored one."""

    model: str
    fingerprint: str

    @classmethod
    def of(cls, embedder: Embedder) -> VectorSpace:
        """That of an embedder. QMD itself knows local models only; the name of any other one begins with its
        provider, and its fingerprint covers the endpoint."""
        if embedder.id == "local":
            return cls(embedder.model, fingerprint(embedder.model))
        model = f"{embedder.id}:{embedder.model}"
        return cls(model, fingerprint(f"{model} {embedder.key}"))


class DocumentRow(NamedTuple):
    """One row of a candidate list. ``document`` is its id (``collection/path``); ``raw`` is |BM25|, or the
    cosine of its best chunk, which begins at ``pos`` (UTF-16 units; 0 for BM25)."""

    document: str
    raw: float
    pos: int = 0


class Rows(NamedTuple):
    """The best rows first, equal ones in the order of the index; ``matched`` is how many documents matched in
    all."""

    rows: tuple[DocumentRow, ...] = ()
    matched: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """One document as it is stored. ``modified_at`` is ISO 8601 in UTC."""

    collection: str
    path: str
    title: str
    hash: str
    created_at: str
    modified_at: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.collection}/{self.path}"

    @property
    def docid(self) -> str:
        """6 hex digits of the hash of its text."""
        return docid(self.hash)

    @property
    def uri(self) -> str:
        """Its virtual path."""
        return str(VirtualPath(self.collection, self.path))


@dataclass(frozen=True, slots=True)
class _Vectors:
    """All vectors of one space, of unit length or zero: row ``i`` of ``matrix`` is a chunk of the text
    ``hashes[i]`` that begins at ``positions[i]``. ``state`` changes with them and with the space."""

    state: Bound
    matrix: Vector
    hashes: Sequence[str]
    positions: Sequence[int]


class Searching(Collections):
    """Searches of an index."""

    def __init__(self, database: Database | ForeignDatabase) -> None:
        super().__init__(database)
        self._vectors: _Vectors | None = None
        self._loading = threading.Lock()

    def lexical(self, match: str | None, limit: int, collections: Sequence[str] | None = None) -> Rows:
        """Documents of these collections (None: of those that are searched by default) that an FTS5
        expression finds; none for ``match`` None. See ``qmd.lexical.match_expression``.

        The score is BM25 with the weights 1.5, 4 and 1 of path, title and text. Raises IndexUnavailable,
        Cancelled after ``interrupt``."""
        if match is None or limit < 1:
            return Rows()
        found = self._db.search(
            f"""SELECT d.collection || '/' || d.path, -f.score, count(*) OVER () FROM (
                SELECT rowid AS id, {_BM25} AS score FROM documents_fts WHERE documents_fts MATCH ?) f
            JOIN documents d ON d.id = f.id AND d.active = 1
                AND d.collection IN (SELECT value FROM json_each(?))
            ORDER BY f.score, d.id LIMIT ?""",
            (match, json.dumps(self._searched(collections)), limit),
        )
        with decoding(self.path, self._db.advice):
            rows = tuple(DocumentRow(str(document), max(0.0, float(raw))) for document, raw, _ in found)
        return Rows(rows, found[0][2] if found else 0)

    def vector(
        self, vector: Floats, space: VectorSpace, limit: int, collections: Sequence[str] | None = None
    ) -> Rows:
        """The documents whose best chunk in ``space`` is nearest to a query vector of any length but zero.
        Exact: QMD looks at the nearest ``3 * limit`` chunks, so it may find fewer documents.

        Raises IndexUnavailable, also when the stored vectors have another number of dimensions: then another
        model answers by that name."""
        import numpy as np

        from openclaw_mem_engine.providers.base import products

        stored = self._stored_vectors(space)
        if limit < 1 or not len(stored.hashes):
            return Rows()
        if stored.matrix.shape[1] != len(vector):
            raise IndexUnavailable(other_dims(space.model, len(vector), stored.matrix.shape[1]))
        asked = np.asarray(vector, np.float32)
        length = float(np.linalg.norm(asked))
        scores = products(stored.matrix, (asked / length if length else asked).astype(np.float32))
        best: dict[str, int] = {}
        for at in np.argsort(-scores, kind="stable").tolist():
            best.setdefault(stored.hashes[at], at)
        found = [
            DocumentRow(document, float(scores[best[hash_]]), stored.positions[best[hash_]])
            for document, hash_ in self._active(collections)
            if hash_ in best
        ]
        found.sort(key=lambda row: -row.raw)
        return Rows(tuple(found[:limit]), len(found))

    def matches(self, document: str, expressions: Sequence[str]) -> list[tuple[bool, bool]]:
        """Of an active document, for each FTS5 expression: whether it matches, and whether its text alone
        does, without title and path."""
        sql = """SELECT count(*) FROM documents_fts WHERE documents_fts MATCH ?1 AND rowid =
            (SELECT id FROM documents WHERE collection || '/' || path = ?2 AND active = 1)"""
        return [
            (
                bool(self._db.search(sql, (one, document))[0][0]),
                bool(self._db.search(sql, (f"body : ({one})", document))[0][0]),
            )
            for one in expressions
        ]

    def documents(self, ids: Iterable[str]) -> dict[str, Document]:
        """Active documents by id; unknown ones are absent."""
        found = self._db.read(
            """SELECT d.collection, d.path, d.title, d.hash, d.created_at, d.modified_at, c.doc
            FROM documents d JOIN content c ON c.hash = d.hash
            WHERE d.active = 1 AND d.collection || '/' || d.path IN (SELECT value FROM json_each(?))
            ORDER BY d.id""",
            (json.dumps(list(ids)),),
        )
        return {one.id: one for one in (Document(*row) for row in found)}

    def interrupt(self) -> None:
        """Stop the full-text searches that run now; they raise Cancelled."""
        self._db.interrupt()

    def _searched(self, collections: Sequence[str] | None) -> list[str]:
        return (
            [c.name for c in self.collections() if c.included] if collections is None else list(collections)
        )

    def _active(self, collections: Sequence[str] | None) -> list[tuple[str, str]]:
        """Id and text hash of all documents, by collection in the order asked for, then as in the index."""
        names = self._searched(collections)
        found = self._db.search(
            """SELECT d.collection || '/' || d.path, d.hash FROM json_each(?) asked
            JOIN documents d ON d.collection = asked.value AND d.active = 1 ORDER BY asked.key, d.id""",
            (json.dumps(names),),
        )
        return [(str(document), str(hash_)) for document, hash_ in found]

    # -- vectors ----------------------------------------------------------------------------------------

    def check_vectors(self, space: VectorSpace) -> None:
        """Read all vectors of a space, as a search does. Raises IndexDamaged, IndexUnavailable."""
        self._stored_vectors(space)

    def _stored_vectors(self, space: VectorSpace) -> _Vectors:
        """All vectors of one space, kept in memory until they change or another one is asked for."""
        with self._loading:
            state = self._vector_state(space)
            if self._vectors is None or self._vectors.state != state:
                self._vectors = self._load(space, state)
            return self._vectors

    def _vector_state(self, space: VectorSpace) -> Bound:
        (state,) = self._db.read("SELECT count(*), max(embedded_at), total(pos) FROM content_vectors")
        if self._has_vector_table():
            state += self._db.read("SELECT count(*), max(rowid) FROM vectors_vec_rowids")[0]
        return (*space, *state)

    def _of_space(self, space: VectorSpace) -> tuple[str, Bound]:
        """The condition for rows of ``content_vectors``; QMD 1.0 stores no fingerprints."""
        if self._is_old:
            return "model = ?", (space.model,)
        return "model = ? AND embed_fingerprint = ?", tuple(space)

    def _has_vector_table(self) -> bool:
        return self._has_table("vectors_vec_rowids")

    def _has_table(self, name: str) -> bool:
        return bool(self._db.read("SELECT 1 FROM sqlite_schema WHERE name = ?", (name,)))

    def _table_dims(self) -> int | None:
        """How many dimensions the vectors of the vec0 table have; None without that table."""
        found = self._db.read("SELECT sql FROM sqlite_schema WHERE name = 'vectors_vec'")
        dims = _DIMS.search(found[0][0] or "") if found else None
        return int(dims[1]) if dims else None

    def vector_dims(self, space: VectorSpace) -> int | None:
        """How many dimensions the stored vectors of a space have; None when there are none."""
        condition, bound = self._of_space(space)
        held = f"SELECT hash || '_' || seq FROM content_vectors WHERE {condition}"
        if self._has_details:
            sql = f"SELECT length(embedding) / 4 FROM openclaw_mem_vectors WHERE hash_seq IN ({held}) LIMIT 1"
            if found := self._db.read(sql, bound):
                return int(found[0][0])
        if self._has_vector_table():
            sql = f"SELECT 1 FROM vectors_vec_rowids WHERE id IN ({held}) LIMIT 1"
            return self._table_dims() if self._db.read(sql, bound) else None
        return None

    def _load(self, space: VectorSpace, state: Bound) -> _Vectors:
        """Read the vectors where sqlite-vec keeps them, in ordinary tables: ``chunks`` of up to 1,024 vectors
        in one blob each. That works where the extension does not load, and takes a third of the time."""
        import numpy as np

        dims, table_dims = self.vector_dims(space) or 0, self._table_dims() or 0
        blobs: dict[str, memoryview | bytes] = {}
        if self._has_vector_table():
            parts: dict[int, bytes] = dict(
                self._db.read("SELECT rowid, vectors FROM vectors_vec_vector_chunks00")
            )
            views = {chunk: memoryview(blob) for chunk, blob in parts.items()}
            sql = "SELECT id, chunk_id, chunk_offset FROM vectors_vec_rowids"
            for key, chunk, offset in self._db.read(sql):
                blobs[key] = views[chunk][4 * table_dims * offset : 4 * table_dims * (offset + 1)]
        if self._has_details:
            blobs.update(self._db.read("SELECT hash_seq, embedding FROM openclaw_mem_vectors"))
        condition, bound = self._of_space(space)
        sql = f"SELECT hash || '_' || seq, hash, pos FROM content_vectors WHERE {condition} ORDER BY rowid"
        found = self._db.read(sql, bound)
        found = [row for row in found if row[0] in blobs]
        with decoding(self.path, self._db.advice):
            if any(len(blobs[row[0]]) != 4 * dims for row in found):
                raise ValueError(f"a stored vector has not {dims} dimensions")
            matrix = np.frombuffer(b"".join(blobs[row[0]] for row in found), np.float32).reshape(
                len(found), dims
            )
            lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
            if not np.isfinite(lengths).all():
                raise ValueError("a stored vector is not finite")
        unit = (matrix / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return _Vectors(state, unit, [row[1] for row in found], [row[2] for row in found])


def other_dims(model: str, sent: int, held: int) -> str:
    """What to say of vectors of one model that cannot be compared."""
    return (
        f"{model} now sends vectors of {sent} dimensions, the index holds {held}: another model answers by "
        "this name. `openclaw-mem qmd cleanup` and then `openclaw-mem qmd embed -f` make all of them again."
    )
