"""Scores computed in this process: BM25 as FTS5 defines it, BM25 of the best line of a text, and cosines over
a matrix of vectors. Pure functions and values, for every store."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery, Scored, segment

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Source
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.stores.base import Vector

# FTS5's own constants, so that scores of lines and chunks, and of every store, are on one scale.
_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6
#: Texts whose tokens are remembered; a few kB each.
_TEXTS_KEPT = 4_000
#: How far from 1 the squared length of a stored vector may be; wider than the tolerance of the doctor, so
#: that it finds every vector that is refused here.
_TOLERANCE = 0.01
#: How far from 1 the length of a float32 unit vector may be.
_UNIT_TOLERANCE = 1e-4


def idf(total: float, matching: float) -> float:
    """Inverse document frequency of a term that ``matching`` of ``total`` texts hold."""
    return max(_LEAST_IDF, math.log((total - matching + 0.5) / (matching + 0.5)))


def bm25(weights: Sequence[float], counts: Sequence[float], length: int, mean_length: float) -> float:
    """BM25 of one text of ``length`` tokens: idf of each term and how often it occurs (weighted)."""
    norm = _K1 * (1 - _B + _B * length / mean_length)
    return sum(w * n * (_K1 + 1) / (n + norm) for w, n in zip(weights, counts, strict=True))


class TermLines(NamedTuple):
    """Where terms occur in a text: ``found`` has the index of each line with a term, its length in tokens,
    the index of the term, and how often it occurs there. ``filled`` of the ``lines`` hold a token,
    ``total`` is how many tokens there are."""

    lines: int
    filled: int
    total: int
    found: tuple[tuple[int, int, int, int], ...]


class TokenLines:
    """The tokens of a text, line by line, prepared for any number of queries. They are kept in one string,
    which takes a tenth of the memory of their set, and no time of the garbage collector."""

    __slots__ = ("_sizes", "_tokens")

    def __init__(self, text: str, tokens_of: Callable[[str], list[str]]) -> None:
        lines = [tokens_of(line) for line in text.split("\n")]
        self._sizes = len(lines), sum(map(bool, lines)), sum(map(len, lines))
        self._tokens = "\n".join(f" {' '.join(tokens)} " for tokens in lines)

    def where(self, terms: Sequence[tuple[str, ...]]) -> TermLines:
        """Where each term (a phrase is a tuple of tokens) occurs, in the order of the terms."""
        held = [
            (number, term)
            for number, term in enumerate(terms)
            if all(f" {token} " in self._tokens for token in term)
        ]
        lines = [line.split() for line in self._tokens.split("\n")] if held else []
        found = [
            (at, len(tokens), number, count)
            for number, term in held
            for at, tokens in enumerate(lines)
            if (count := occurrences(term, tokens))
        ]
        return TermLines(*self._sizes, tuple(found))


def line_bm25(
    terms: Sequence[tuple[str, ...]],
    texts: Mapping[str, TermLines],
    basis: Iterable[str],
    matching_chunks: Mapping[tuple[str, ...], int],
    total_chunks: int,
) -> dict[str, tuple[float, ...]]:
    """BM25 of each line of each text, 0 where no term occurs.

    ``terms`` are token tuples (phrases). A term weighs what it weighs for chunks: its idf over the index, of
    whose ``total_chunks`` ``matching_chunks`` hold it. The mean length is that of the lines that hold a token
    in the texts named by ``basis``, so that no other text changes a score. Formula: Robertson and Zaragoza
    (2009) with FTS5's k1 and b.
    """
    weights = [(idf(total_chunks, matching_chunks.get(term, 0)),) for term in terms]
    based = [texts[key] for key in basis]
    filled = sum(text.filled for text in based)
    mean = sum(text.total for text in based) / filled if filled else 1.0
    scores = {}
    for key, text in texts.items():
        values = [0.0] * text.lines
        for at, length, term, count in text.found:
            values[at] += bm25(weights[term], (count,), length, mean)
        scores[key] = tuple(values)
    return scores


def occurrences(term: tuple[str, ...], tokens: Sequence[str]) -> int:
    """How often a token, or a phrase of neighbouring tokens, occurs among ``tokens``."""
    if len(term) == 1:
        return tokens.count(term[0])
    width = len(term)
    return sum(1 for i in range(len(tokens) - width + 1) if tuple(tokens[i : i + width]) == term)


class Stemmer:
    """The index tokens of texts, with a memory. ``tokenise`` is the tokeniser of the index."""

    def __init__(self, tokenise: Callable[[str], list[str]]) -> None:
        self._tokenise = tokenise
        self._texts: dict[str, TokenLines] = {}
        self._terms: tuple[list[tuple[str, ...]], dict[str, TermLines]] = [], {}

    def where(self, terms: list[tuple[str, ...]], texts: Mapping[str, str]) -> dict[str, TermLines]:
        """Where the terms occur in each text, by the key of the text; remembered for the terms that were
        asked for last: many pools of one query are scored one after the other."""
        before, known = self._terms
        if before != terms:
            known = {}
            self._terms = terms, known
        for text in texts.values():
            if text not in known:
                known[text] = self._lines(text).where(terms)
        return {key: known[text] for key, text in texts.items()}

    def _lines(self, text: str) -> TokenLines:
        """A text line by line, remembered: a process asks for the same chunks again and again."""
        found = self._texts.get(text)
        if found is None:
            found = TokenLines(text, lambda line: self._tokenise(segment(line)))
            if len(self._texts) >= _TEXTS_KEPT:
                self._texts.clear()
            self._texts[text] = found
        return found

    def terms(self, query: LexicalQuery) -> list[tuple[str, ...]]:
        """The terms of a query as index tokens; those without any are left out."""
        found = (tuple(t for word in term for t in self._tokenise(word.rstrip("*"))) for term in query.terms)
        return [tokens for tokens in found if tokens]


def document_frequencies(
    counts: Counter[str], terms: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """A phrase is at most as frequent as its rarest token."""
    return {term: min(counts[token] for token in term) for term in terms}


def ranks_among(
    scores: Sequence[float],
    asked: Mapping[str, float],
    ids_of: Callable[[set[float]], Iterable[tuple[str, float]]],
) -> dict[str, int]:
    """The 1-based ranks of asked scores, by id, among all (best first, equal ones by id). ``ids_of`` gives
    ids and scores of all that have one of these scores: they are looked up only where scores are equal."""
    ordered, ranks = sorted(scores), {}
    starts = {score: len(ordered) - bisect_right(ordered, score) for score in asked.values()}
    equal = {s for s, start in starts.items() if len(ordered) - bisect_left(ordered, s) > start + 1}
    tied: dict[float, list[str]] = {}
    for chunk_id, score in ids_of(equal) if equal else ():
        tied.setdefault(score, []).append(chunk_id)
    for found in tied.values():
        found.sort()
    for chunk_id, score in asked.items():
        ranks[chunk_id] = starts[score] + 1 + bisect_left(tied.get(score, []), chunk_id)
    return ranks


def products(matrix: Vector, vector: Floats) -> Vector:
    """Each row of ``matrix`` times ``vector``. Not ``matrix @ vector``: OpenBLAS takes twice as long for this
    shape, and wakes threads that then spin."""
    import numpy as np

    found: Vector = np.einsum("ij,j->i", matrix, vector)
    return found


def matrix_of(blobs: Sequence[bytes], dims: int) -> Vector:
    """Stored vectors as rows (n × dims, float32). Raises TypeError or ValueError when one is not what was
    stored: unchecked, a blob of another length would give every row behind it to the wrong chunk, and a NaN
    would be the nearest to everything."""
    import numpy as np

    if any(len(blob) != 4 * dims for blob in blobs):
        raise ValueError(f"a stored vector has not the {dims} dimensions of its space")
    matrix: Vector = np.frombuffer(b"".join(blobs), dtype=np.float32).reshape(len(blobs), dims)
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
        # A comparison with NaN is False.
        if not (np.abs(squares - 1.0) < _TOLERANCE).all():
            raise ValueError("a stored vector is not of unit length")
    return matrix


def unit_vector(blob: object, dims: object) -> Vector | None:
    """A stored vector of ``dims`` values; None when it is none, or not of unit length: bytes of a damaged
    page are not that close."""
    import numpy as np

    if not (isinstance(blob, bytes) and isinstance(dims, int) and dims > 0 and len(blob) == 4 * dims):
        return None
    vector = np.frombuffer(blob, dtype=np.float32)
    with np.errstate(all="ignore"):
        # A comparison with NaN is False.
        return vector if abs(float(np.sqrt(np.dot(vector, vector))) - 1) < _UNIT_TOLERANCE else None


@dataclass(frozen=True, slots=True)
class ResidentVectors:
    """All vectors of one index generation: row ``i`` of ``matrix`` (n × dims, float32, unit length) belongs
    to ``ids[i]``. The same exact result as the search inside SQLite, several times faster."""

    generation: int
    ids: Sequence[str]
    sources: Sequence[str]
    matrix: Vector

    @staticmethod
    def from_rows(generation: int, rows: Sequence[tuple[Any, ...]]) -> ResidentVectors:
        """Rows are (chunk id, source, float32 blob). Raises TypeError or ValueError for what we never
        stored."""
        if not all(isinstance(row[0], str) for row in rows):
            raise TypeError("the id of a chunk is no text")
        matrix = matrix_of([row[2] for row in rows], len(rows[0][2]) // 4 if rows else 0)
        return ResidentVectors(generation, [row[0] for row in rows], [row[1] for row in rows], matrix)

    def _scores(self, vector: Floats) -> Vector:
        if len(vector) != self.matrix.shape[1]:
            raise ValueError(f"stored vectors have {self.matrix.shape[1]} dimensions, not {len(vector)}")
        return products(self.matrix, vector)

    def ranks(self, vector: Floats, ids: Iterable[str]) -> dict[str, int]:
        """The 1-based ranks of chunks among all, by id; those without a vector are absent."""
        if not len(self.ids):
            return {}
        wanted, scores = set(ids), self._scores(vector).tolist()
        asked = {i: score for i, score in zip(self.ids, scores, strict=True) if i in wanted}
        return ranks_among(
            scores, asked, lambda equal: (x for x in zip(self.ids, scores, strict=True) if x[1] in equal)
        )

    def nearest(self, vector: Floats, limit: int, sources: Sequence[Source] | None = None) -> CandidateRows:
        """The ``limit`` largest cosines, best first, ties by chunk id. Raises ValueError for a ``vector`` of
        other dimensions than the stored ones."""
        import numpy as np

        if not len(self.ids) or limit < 1:
            return CandidateRows()
        scores = self._scores(vector)
        if sources is not None:
            scores = np.where(np.isin(np.asarray(self.sources), list(sources)), scores, -np.inf)
        if limit < len(scores):
            # Equal scores at the limit are all kept, and cut by chunk id below.
            border = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            rows = np.flatnonzero(scores >= border)
        else:
            rows = np.arange(len(scores))
        rows = rows[np.isfinite(scores[rows])]
        found = [
            Scored(self.ids[i], raw) for i, raw in zip(rows.tolist(), scores[rows].tolist(), strict=True)
        ]
        found.sort(key=lambda hit: (-hit.raw, hit.chunk_id))
        return CandidateRows(tuple(found[:limit]), int(np.isfinite(scores).sum()))
