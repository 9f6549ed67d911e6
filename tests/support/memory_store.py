"""An index in memory, in plain Python: the second store behind the contract of ``stores.base``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import IndexChanged, IndexDamaged, IndexUnavailable
from openclaw_mem_engine.model import Note, Source, Space
from openclaw_mem_engine.ranking.unshown import Passage
from openclaw_mem_engine.stores.base import (
    CacheSize,
    Capabilities,
    Counts,
    FileChange,
    FileState,
    Fingerprint,
    Generation,
    IndexStore,
    SpaceSize,
    StoredChunk,
)
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery, Scored, name_of, segment
from openclaw_mem_engine.stores.scoring import (
    ResidentVectors,
    Stemmer,
    bm25,
    document_frequencies,
    idf,
    line_bm25,
    occurrences,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.stores.base import Vector


class _Content:
    """What one generation holds."""

    def __init__(self, fingerprint: Fingerprint | None = None) -> None:
        self.fingerprint = fingerprint
        self.generation = 0
        self.synced_at: float | None = None
        self.awaits_vectors = False
        self.files: dict[tuple[str, str], FileState] = {}
        self.chunks: dict[str, StoredChunk] = {}  # in the order in which they came
        self.cache: dict[tuple[Space, str], tuple[Vector | None, float]] = {}


@cache
def _tokeniser(form: str) -> Callable[[str], list[str]]:
    """FTS5's own, so that this store finds what the index in a file finds."""
    import apsw

    from openclaw_mem_engine.stores.sqlite.full_text import tokeniser

    return tokeniser(apsw.Connection(":memory:"), form)


@lru_cache(10_000)
def _tokens(form: str, text: str) -> tuple[str, ...]:
    return tuple(_tokeniser(form)(segment(text) if form == "stemmed" else text))


def _counter(form: str, term: tuple[str, ...]) -> Callable[[tuple[str, ...]], int]:
    if len(term) == 1 and term[0].endswith("*"):
        start = "".join(_tokeniser(form)(term[0][:-1]))
        return lambda tokens: sum(token.startswith(start) for token in tokens) if start else 0
    phrase = tuple(_tokeniser(form)(" ".join(term)))
    return lambda tokens: occurrences(phrase, tokens) if phrase else 0


class MemoryIndex(IndexStore):
    """``IndexStore`` without a file; ``path`` only names it. Other options change nothing: vectors are
    always compared in this process."""

    def __init__(self, path: Path, *, full_text: bool = True, **_: bool) -> None:
        self.path = path
        self.caps = Capabilities(full_text, "in-process")
        self._content = _Content()
        self._guard = RLock()
        self._closed = False

    @property
    def _held(self) -> _Content:
        if self._closed:
            raise IndexUnavailable(f"The index {self.path} is closed: open the memory again.")
        return self._content

    def _space(self, space: Space | None) -> Space | None:
        known = self._held.fingerprint
        return space or (known.space if known else None)

    def _vectors(self, space: Space | None) -> dict[str, Vector]:
        """The vectors of a space by chunk id."""
        held, asked = self._held, self._space(space)
        with self._guard:
            rows = {i: held.cache.get((asked, c.hash)) for i, c in held.chunks.items()} if asked else {}
        return {i: row[0] for i, row in rows.items() if row is not None and row[0] is not None}

    # -- what it holds ----------------------------------------------------------------------------------

    @property
    def notes(self) -> tuple[Note, ...]:
        known = self._held.fingerprint
        if known is None or not self._held.awaits_vectors:
            return ()
        text = f"Some passages have no vectors of {known.space.label} yet: run `openclaw-mem index`."
        return (Note("vectors-awaited", text, "warning"),)

    def generation(self) -> int:
        return self._held.generation

    def fingerprint(self) -> Fingerprint | None:
        return self._held.fingerprint

    def synced_at(self) -> float | None:
        return self._held.synced_at

    def counts(self) -> Counts:
        held = self._held
        with_text = sum(not state.refusal for state in held.files.values())
        return Counts(with_text, len(held.chunks), len(held.cache))

    def spaces(self) -> list[SpaceSize]:
        found = {space: list(self._vectors(space).values()) for space, _ in list(self._held.cache)}
        return [
            SpaceSize(space, len(vectors), vectors[0].size) for space, vectors in found.items() if vectors
        ]

    def covered(self, space: Space | None = None) -> int:
        return len(self._vectors(space))

    def vector_dims(self, space: Space | None = None) -> int | None:
        asked = self._space(space)
        found = (vector for (where, _), (vector, _) in list(self._held.cache.items()) if where == asked)
        return next((vector.size for vector in found if vector is not None), None)

    def files(self) -> Mapping[str, FileState]:
        return {path: state for (path, _), state in self._held.files.items()}

    def chunk_counts(self) -> dict[str, int]:
        return dict(Counter(chunk.path for chunk in self._held.chunks.values()))

    def chunks_of(self, path: str) -> list[StoredChunk]:
        return [chunk for chunk in self._held.chunks.values() if chunk.path == path]

    def passages(self) -> Iterable[Passage]:
        chunks = sorted(self._held.chunks.values(), key=lambda chunk: chunk.path)
        return [Passage(chunk.path, chunk.start_line, chunk.end_line, chunk.text) for chunk in chunks]

    def in_full_text(self, ids: Iterable[str]) -> set[str]:
        return set(ids) & self._held.chunks.keys() if self.caps.full_text else set()

    def is_hollow(self) -> bool:
        held = self._held
        return not held.chunks and any(not state.refusal and state.size for state in held.files.values())

    def fetch(self, ids: Iterable[str]) -> dict[str, StoredChunk]:
        held = self._held
        found = (held.chunks[chunk_id] for chunk_id in ids if chunk_id in held.chunks)
        times = {key: state.mtime_ns for key, state in held.files.items()}
        return {c.chunk_id: c._replace(mtime_ns=times.get((c.path, c.source), 0)) for c in found}

    # -- searching --------------------------------------------------------------------------------------

    def lexical(
        self, query: LexicalQuery, limit: int, sources: Sequence[Source] | None = None
    ) -> CandidateRows:
        found: dict[str, Scored] = {}
        matched: set[str] = set()
        chunks = self._held.chunks
        for terms in [(term,) for term in query.terms] if query.operator == "keywords" else [query.terms]:
            scores = self._scores(query, terms).items()
            rows = [Scored(*row) for row in scores if sources is None or chunks[row[0]].source in sources]
            rows.sort(key=lambda row: (-row.raw, row.chunk_id))
            matched |= {row.chunk_id for row in rows}
            for row in rows[: max(0, limit)]:
                found.setdefault(row.chunk_id, row)
        shown = f" {query.operator} ".join(map(" ".join, query.terms))
        return CandidateRows(tuple(found.values()), len(matched), shown)

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        found = self._scores(query, query.terms)
        return {chunk_id: found[chunk_id] for chunk_id in ids if chunk_id in found}

    def _scores(self, query: LexicalQuery, terms: Sequence[tuple[str, ...]]) -> dict[str, float]:
        """BM25 of every chunk that matches: all terms of ``and``, any of the others."""
        if not self.caps.full_text:
            return {}
        chunks, weight = list(self._held.chunks.items()), query.name_weight
        texts = {i: _tokens(query.index, chunk.text) for i, chunk in chunks}
        names = {i: _tokens(query.index, name_of(chunk.path)) if weight else () for i, chunk in chunks}
        counters = [_counter(query.index, term) for term in terms]
        counts = {i: [count(texts[i]) + weight * count(names[i]) for count in counters] for i in texts}
        sizes = {i: len(texts[i]) + len(names[i]) for i in texts}
        columns = zip(*counts.values(), strict=True)
        weights = [idf(len(texts), sum(1 for number in column if number)) for column in columns]
        mean = sum(sizes.values()) / max(1, len(sizes))
        needed = all if query.operator == "and" else any
        return {i: bm25(weights, row, sizes[i], mean) for i, row in counts.items() if needed(row)}

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> Mapping[str, tuple[float, ...]]:
        if not self.caps.full_text or not texts:
            return {}
        stemmer = Stemmer(_tokeniser("stemmed"))
        chunks = list(self._held.chunks.values())
        counts = Counter(token for chunk in chunks for token in set(_tokens("stemmed", chunk.text)))
        terms = stemmer.terms(query)
        return line_bm25(
            terms, stemmer.where(terms, texts), basis, document_frequencies(counts, terms), len(chunks)
        )

    def vector(
        self,
        vector: Floats,
        limit: int,
        sources: Sequence[Source] | None = None,
        space: Space | None = None,
    ) -> CandidateRows:
        held, found = self._held, self._vectors(space)
        rows = [(i, held.chunks[i].source, v.tobytes()) for i, v in found.items() if i in held.chunks]
        try:
            return ResidentVectors.from_rows(held.generation, rows).nearest(vector, limit, sources)
        except ValueError as error:
            raise IndexDamaged(f"The index {self.path} is damaged ({error}).") from error

    def cosines(self, vector: Floats, ids: Sequence[str], space: Space | None = None) -> dict[str, float]:
        found = dict(self.vector(vector, len(self._held.chunks), space=space))
        return {chunk_id: found[chunk_id] for chunk_id in ids if chunk_id in found}

    def interrupt(self) -> None: ...  # searches here are too short to be stopped

    # -- writing ----------------------------------------------------------------------------------------

    def begin(self, fingerprint: Fingerprint) -> None:
        self._held.fingerprint = fingerprint

    def apply(self, *changes: FileChange, built_with: Fingerprint | None = None) -> None:
        pairs = [list(zip(change.chunks, change.vectors, strict=True)) for change in changes]
        with self._guard:
            held = self._expected(built_with)
            for change, chunks in zip(changes, pairs, strict=True):
                self._drop(change.state.path, change.state.source)
                held.chunks.update((chunk.chunk_id, chunk) for chunk, _ in chunks)
                if built_with is not None:
                    for chunk, vector in chunks:
                        if vector is not None:
                            held.cache.setdefault((built_with.space, chunk.hash), (vector, time.time()))
                held.awaits_vectors |= change.awaits_vectors
                held.files[change.state.path, change.state.source] = change.state
            held.generation += 1

    def _expected(self, built_with: Fingerprint | None) -> _Content:
        if built_with is not None and built_with != self._held.fingerprint:
            raise IndexChanged(f"The index {self.path} was rebuilt with other settings meanwhile.")
        return self._held

    def _drop(self, path: str, source: Source) -> None:
        chunks = self._held.chunks
        for chunk in [chunk for chunk in chunks.values() if (chunk.path, chunk.source) == (path, source)]:
            del chunks[chunk.chunk_id]

    def touch(self, states: Sequence[FileState]) -> None:
        self._held.files.update(((state.path, state.source), state) for state in states)

    def remove(self, *files: tuple[str, Source]) -> None:
        with self._guard:
            for path, source in files:
                self._drop(path, source)
                self._held.files.pop((path, source), None)
            self._held.generation += 1

    def chunks_without_vector(self, limit: int, space: Space | None = None) -> list[StoredChunk]:
        held, asked = self._held, self._space(space)
        if asked is None or (asked == self._space(None) and not held.awaits_vectors):
            return []
        missing = (chunk for chunk in held.chunks.values() if (asked, chunk.hash) not in held.cache)
        return list(islice(missing, limit))

    def set_vectors(self, vectors: Mapping[str, Vector], built_with: Fingerprint | None = None) -> None:
        del vectors  # they are in the cache already, where they are searched
        self._expected(built_with).generation += 1

    def vectors_complete(self) -> None:
        self._held.awaits_vectors = False

    def finish(self, synced_at: float, *, purge: bool = False) -> None:
        self._held.synced_at = synced_at

    # -- the cache --------------------------------------------------------------------------------------

    def cached_vectors(self, hashes: Iterable[str], space: Space | None = None) -> dict[str, Vector | None]:
        held, asked = self._held.cache, self._space(space)
        return {h: held[asked, h][0] for h in hashes if asked is not None and (asked, h) in held}

    def cache_vectors(self, vectors: Mapping[str, Vector | None], space: Space | None = None) -> None:
        asked, now = self._space(space), time.time()
        if asked is not None and vectors:
            with self._guard:
                self._held.cache.update(((asked, h), (vector, now)) for h, vector in vectors.items())
                self._held.generation += space is not None

    def cached_hashes(self, space: Space) -> list[str]:
        return sorted(content for where, content in self._held.cache if where == space)

    def cache_sizes(self) -> list[CacheSize]:
        live, sizes = {chunk.hash for chunk in self._held.chunks.values()}, []
        for space in {space: None for space, _ in self._held.cache}:
            rows = {h: row for (where, h), row in self._held.cache.items() if where == space}
            size = sum(vector.nbytes for vector, _ in rows.values() if vector is not None)
            times = [updated_at for _, updated_at in rows.values()]
            sizes.append(CacheSize(space, len(rows), len(rows.keys() & live), size, min(times), max(times)))
        return sorted(sizes, key=lambda size: -size.entries)

    def prune_cache(self, most: int) -> int:
        held, live = self._held.cache, {chunk.hash for chunk in self._held.chunks.values()}
        with self._guard:
            unused = sorted((row[1], key) for key, row in held.items() if key[1] not in live)
            beyond = unused[: max(0, len(held) - most)]
            for _, key in beyond:
                del held[key]
        return len(beyond)

    # -- generations, and its end -----------------------------------------------------------------------

    def new_generation(self, fingerprint: Fingerprint, without: Space | None = None) -> MemoryGeneration:
        return MemoryGeneration(self, fingerprint, without)

    def follow(self, *, make: bool = True) -> int:
        del make
        return 1

    def bytes_on_disk(self) -> int:
        return 0

    def close(self) -> None:
        self._closed = True


class MemoryGeneration(MemoryIndex, Generation):
    """Content of its own, which ``commit`` hands over."""

    def __init__(self, old: MemoryIndex, fingerprint: Fingerprint, without: Space | None) -> None:
        super().__init__(old.path, full_text=old.caps.full_text)
        self._old, self._without = old, without
        self._content = _Content(fingerprint)
        self._content.cache = {key: row for key, row in old._held.cache.items() if key[0] != without}

    def commit(self) -> None:
        self._content.generation = self._old._held.generation + 1
        self._old._content = self._content
        self.close()

    def abort(self) -> None:
        if not self._closed:
            made = {key: row for key, row in self._content.cache.items() if key[0] != self._without}
            self._old._content.cache = made | self._old._content.cache
            self.close()
