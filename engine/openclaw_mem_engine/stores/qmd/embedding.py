"""Vectors of the documents of an index: which are missing, and making them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.model import Progress, text_hash, utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import TextRefused
from openclaw_mem_engine.qmd.queries import document_prompt
from openclaw_mem_engine.stores.qmd.schema import VECTOR_TABLE
from openclaw_mem_engine.stores.qmd.searching import Searching, VectorSpace, other_dims
from openclaw_mem_engine.stores.qmd.updating import iso_time
from openclaw_mem_engine.stores.sqlite.database import rows

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder, Vector

#: Documents and chunks that are embedded and stored in one step.
_BATCH_DOCUMENTS, _BATCH_CHUNKS = 64, 256
#: Embeddings that are kept, the newest, and at least as many as the documents have vectors.
_KEPT = 50_000

#: Model, title and piece to what is sent to the model.
Prompt = Callable[[str, str, str], str]


@dataclass(frozen=True, slots=True)
class EmbedReport:
    """``documents`` counts texts (files with equal text share one), ``refused`` those that the model did not
    take: document and reason. ``cached`` of the ``chunks`` were taken from the cache."""

    documents: int = 0
    chunks: int = 0
    refused: tuple[tuple[str, str], ...] = ()
    cached: int = 0


class _Text(NamedTuple):
    """A text without vectors, and the first document that has it."""

    hash: str
    document: str
    title: str


class Embedding(Searching):
    """Vectors of an index."""

    def pending(self, space: VectorSpace) -> int:
        """How many texts lack vectors of this space."""
        return len(self._pending(space))

    def pending_size(self, space: VectorSpace, *, force: bool = False) -> tuple[int, int]:
        """How many texts lack such vectors, or with ``force`` all, and how many characters they have."""
        hashes = [text.hash for text in self._pending(space, force=force)]
        sql = "SELECT total(length(doc)) FROM content WHERE hash IN (SELECT value FROM json_each(?))"
        return len(hashes), int(self._db.read(sql, (json.dumps(hashes),))[0][0])

    def _pending(self, space: VectorSpace, *, force: bool = False) -> list[_Text]:
        """The texts without vectors of this space, or with ``force`` all."""
        condition, bound = self._of_space(space)
        needed = "1" if self._is_old else "max(total_chunks)"  # QMD 1.0 does not store how many a text has
        found = self._db.read(
            f"""SELECT d.hash, d.collection || '/' || d.path, d.title, min(d.id) FROM documents d
            LEFT JOIN (SELECT hash, count(*) AS held, {needed} AS needed FROM content_vectors
                WHERE {condition} GROUP BY hash) v ON v.hash = d.hash
            WHERE d.active = 1 AND (? OR coalesce(v.held, 0) < coalesce(v.needed, 1))
            GROUP BY d.hash ORDER BY 4""",
            (*bound, force),
        )
        return [_Text(*row[:3]) for row in found]

    def embed(
        self,
        embedder: Embedder,
        *,
        force: bool = False,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        prompt: Prompt = document_prompt,
        most: int | None = None,
    ) -> EmbedReport:
        """Make the vectors that are missing, or with ``force`` all anew; the cache keeps those that were made
        before, until a cleanup. Texts are cut into 3,600 characters with 540 of overlap, and ``prompt`` says
        what the model is given; ``most`` documents are embedded at once.

        A text has vectors of one model: those of another one are replaced, all at once where their number of
        dimensions differs, which one table cannot hold. Each batch is one transaction: what was done before a
        stop or a kill stays. A text that the model does not take is reported and stays pending. Raises
        Cancelled, IndexLocked, and ProviderError, also when a model sends another number of dimensions than
        before: after the first document."""
        self._check_writable()
        space = VectorSpace.of(embedder)
        held = None if force else self.vector_dims(space)
        waiting = self._pending(space, force=force)
        total, done, chunks, cached = len(waiting), 0, 0, 0
        refused: list[tuple[str, str]] = []
        while waiting:
            batch: list[tuple[_Text, list[tuple[int, str]]]] = []
            # The first one shows how many dimensions there are.
            limit = (most or _BATCH_DOCUMENTS) if chunks else 1
            while waiting and len(batch) < limit and sum(len(p) for _, p in batch) < _BATCH_CHUNKS:
                text = waiting.pop(0)
                ((body,),) = self._db.read("SELECT doc FROM content WHERE hash = ?", (text.hash,)) or (("",),)
                batch.append((text, _pieces(body)))
            dims = held or embedder.dims  # else the cache gives those of a model that had this name before
            vectors, hits = self._embedded(embedder, batch, refused, cancel, prompt, dims)
            for vector in vectors:
                if vector is None:
                    continue
                held = held or len(vector)
                if len(vector) != held:
                    raise ProviderError(other_dims(space.model, len(vector), held))
            self._store(space, batch, vectors, held)
            done += len(batch)
            chunks += len(vectors)
            cached += hits
            if progress is not None:
                progress(done, total, batch[-1][0].document if batch else "")
        if chunks:
            self._forget_oldest()
        return EmbedReport(total - len(refused), chunks, tuple(refused), cached)

    def _store(
        self,
        space: VectorSpace,
        batch: Sequence[tuple[_Text, list[tuple[int, str]]]],
        vectors: Sequence[Vector | None],
        dims: int | None,
    ) -> None:
        now, made = iso_time(time.time()), iter(vectors)
        with self._db.transaction() as connection:
            if dims:
                self._forget_others(connection, dims)
                if self._db.extension:
                    connection.execute(VECTOR_TABLE.format(dims=dims))
                    _take_over(connection)
            in_table = self._db.extension and (bool(dims) or self._has_vector_table())
            for text, pieces in batch:
                _delete(connection, text.hash, in_table=in_table)
                for number, (position, _) in enumerate(pieces):
                    row = (text.hash, number, position, *space, len(pieces), now)
                    connection.execute("INSERT INTO content_vectors VALUES(?, ?, ?, ?, ?, ?, ?)", row)
                    if (vector := next(made)) is not None:
                        table = "vectors_vec" if self._db.extension else "openclaw_mem_vectors"
                        sql = f"INSERT INTO {table}(hash_seq, embedding) VALUES(?, ?)"
                        connection.execute(sql, (f"{text.hash}_{number}", vector.tobytes()))

    def _embedded(
        self,
        embedder: Embedder,
        batch: list[tuple[_Text, list[tuple[int, str]]]],
        refused: list[tuple[str, str]],
        cancel: CancelToken | None,
        prompt: Prompt,
        dims: int | None,
    ) -> tuple[list[Vector | None], int]:
        """The vectors of all pieces of a batch, and how many of them the cache had. A document of which the
        model refuses a piece is taken out of the batch and added to ``refused``."""
        space = VectorSpace.of(embedder)
        while batch:
            owners = [at for at, (_, pieces) in enumerate(batch) for _ in pieces]
            texts = [
                prompt(embedder.model, text.title, piece) for text, pieces in batch for _, piece in pieces
            ]
            keys = [text_hash(text) for text in texts]
            known: dict[str, Vector | None] = dict(self._cached(space, keys, dims))
            missing = [at for at, key in enumerate(keys) if key not in known]

            def keep(
                indexes: Sequence[int],
                vectors: Sequence[Vector | None],
                hashes: Sequence[str] = tuple(keys[at] for at in missing),
            ) -> None:
                self._cache(space, {hashes[i]: v for i, v in zip(indexes, vectors, strict=True)})

            sent = [texts[at] for at in missing]
            try:
                made = embedder.embed_documents(sent, cancel, None, keep) if sent else []
            except TextRefused as refusal:
                text, _ = batch.pop(owners[missing[refusal.position]])
                refused.append((text.document, str(refusal)))
                continue
            known.update(zip((keys[at] for at in missing), made, strict=True))
            return [known[key] for key in keys], len(keys) - len(missing)
        return [], 0

    def _cached(self, space: VectorSpace, keys: Sequence[str], dims: int | None) -> dict[str, Vector]:
        """Vectors of this many dimensions (None: of any) that were made before, by the hash of the text."""
        import numpy as np

        sql = """SELECT hash, embedding FROM openclaw_mem_embeddings WHERE model = ? AND fingerprint = ?
            AND hash IN (SELECT value FROM json_each(?)) AND (? IS NULL OR length(embedding) = 4 * ?)"""
        found = self._db.read(sql, (*space, json.dumps(keys), dims, dims))
        return {key: np.frombuffer(blob, np.float32) for key, blob in found}

    def _cache(self, space: VectorSpace, vectors: Mapping[str, Vector | None]) -> None:
        held = [(*space, key, vector.tobytes()) for key, vector in vectors.items() if vector is not None]
        with self._db.transaction() as connection:
            connection.executemany("INSERT OR REPLACE INTO openclaw_mem_embeddings VALUES(?, ?, ?, ?)", held)

    def _forget_oldest(self) -> None:
        """Bound the cache: text that is edited each day would make it grow for ever."""
        with self._db.transaction() as connection:
            connection.execute(
                """DELETE FROM openclaw_mem_embeddings WHERE rowid <= (
                SELECT rowid FROM openclaw_mem_embeddings ORDER BY rowid DESC
                LIMIT 1 OFFSET max(?, (SELECT count(*) FROM content_vectors
                    WHERE hash IN (SELECT hash FROM documents WHERE active = 1))))""",
                (_KEPT,),
            )

    def _forget_others(self, connection: apsw.Connection, dims: int) -> None:
        """Remove the vectors of another number of dimensions. Without sqlite-vec those of its table stay."""
        others = "FROM openclaw_mem_vectors WHERE length(embedding) <> ?"
        in_table = self._db.extension and self._table_dims() not in (None, dims)
        if not in_table and not rows(connection, f"SELECT 1 {others} LIMIT 1", (4 * dims,)):
            return
        if in_table:
            connection.execute("DROP TABLE vectors_vec")
        connection.execute(f"DELETE {others}", (4 * dims,))
        held = "SELECT hash_seq FROM openclaw_mem_vectors"
        if not in_table and self._has_vector_table():
            held += " UNION ALL SELECT id FROM vectors_vec_rowids"
        connection.execute(f"DELETE FROM content_vectors WHERE hash || '_' || seq NOT IN ({held})")


def _pieces(body: str) -> list[tuple[int, str]]:
    """The pieces of a text that hold anything, with their positions in UTF-16 units."""
    from openclaw_mem_engine.chunking.break_chunker import cut

    found = []
    at = units = 0
    for position, piece in cut(body):
        if piece.strip():
            # Pieces overlap, so a position may also lie before the last one.
            units += utf16_length(body[at:position]) if position >= at else -utf16_length(body[position:at])
            at = position
            found.append((units, piece))
    return found


def _delete(connection: apsw.Connection, hash_: str, *, in_table: bool) -> None:
    """Remove the vectors of a text."""
    if in_table:
        held = rows(connection, "SELECT seq FROM content_vectors WHERE hash = ?", (hash_,))
        keys = [(f"{hash_}_{seq}",) for (seq,) in held]
        connection.executemany("DELETE FROM vectors_vec WHERE hash_seq = ?", keys)
    connection.execute("DELETE FROM openclaw_mem_vectors WHERE hash_seq GLOB ? || '_*'", (hash_,))
    connection.execute("DELETE FROM content_vectors WHERE hash = ?", (hash_,))


def _take_over(connection: apsw.Connection) -> None:
    """Move vectors that were made without sqlite-vec to the table where QMD looks for them."""
    found = rows(connection, "SELECT hash_seq, embedding FROM openclaw_mem_vectors")
    if found:
        connection.executemany("DELETE FROM vectors_vec WHERE hash_seq = ?", [(key,) for key, _ in found])
        connection.executemany("INSERT INTO vectors_vec(hash_seq, embedding) VALUES(?, ?)", found)
        connection.execute("DELETE FROM openclaw_mem_vectors")


def prompt_of(embedder: Embedder) -> Prompt:
    """What an embedder is given for a passage of a document: a local model the prompt of QMD with the title,
    every other one the title above the text."""
    return document_prompt if embedder.id == "local" else _titled


def _titled(_model: str, title: str, text: str) -> str:
    return f"{title}\n\n{text}" if title and title not in text else text
