"""Scores computed in this process: BM25 as FTS5 defines it, BM25 of the best line of a text, and cosines over
a matrix of vectors. Pure functions and values, for every store."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import OnDemand
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import products
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery, Scored, segment

if TYPE_CHECKING:
    import numpy.typing as npt

    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.stores.base import Vector
    from openclaw_mem_engine.stores.rounded import RoundedRows

# FTS5's own constants, so that scores of lines and chunks, and of every store, are on one scale.
_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6
#: Texts whose tokens are remembered, 2 kB each: as many as a resident process keeps chunks.
_TEXTS_KEPT = 16_000
#: How far from 1 the squared length of a stored vector may be; wider than the tolerance of the doctor, so
#: that it finds every vector that is refused here.
_TOLERANCE = 0.01
#: Of so many scores one is looked at to guess which are the largest.
_SAMPLED = 16
#: Fewer rows are compared faster than bounds of their products; and of more than this part of all rows the
#: full product is faster than that of each.
_BOUNDED_FROM = 20_000
_FEW = 8
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
    """The tokens of a text, prepared for any number of queries: each line as its tokens with a space round
    each. All in one string, which takes a tenth of the memory of sets, and no time of the garbage
    collector."""

    __slots__ = ("_sizes", "_tokens")

    def __init__(self, lines: list[str]) -> None:
        self._tokens = "\n".join(lines)
        tokens = self._tokens.count(" ") - len(lines)
        self._sizes = len(lines), len(lines) - lines.count(" "), tokens

    def where(self, terms: Sequence[tuple[str, ...]]) -> TermLines:
        """Where each term (a phrase is a tuple of tokens) occurs, in the order of the terms."""
        found = []
        for number, term in enumerate(terms):
            first = f" {term[0]} "
            for at, line in enumerate(self._tokens.split("\n") if first in self._tokens else ()):
                if first in line and (count := occurrences(term, tokens := line.split())):
                    found.append((at, len(tokens), number, count))
        return TermLines(*self._sizes, tuple(found))


def token_lines(text: str, tokens_of: Callable[[str], list[str]]) -> TokenLines:
    """The tokens of a text, found in one call: most of the time of a short line is the call itself. A
    character of private use that the text does not hold, a token for FTS5, marks the ends of lines."""
    mark = next(char for char in map(chr, range(0xE000, 0xF900)) if char not in text)
    tokens = tokens_of(segment(text).replace("\n", f" {mark} "))
    return TokenLines(f" {' '.join(tokens)} ".split(mark))


def line_bm25(
    terms: Sequence[tuple[str, ...]],
    texts: Mapping[str, TermLines],
    basis: Iterable[str],
    matching_chunks: Mapping[tuple[str, ...], int],
    total_chunks: int,
) -> Mapping[str, tuple[float, ...]]:
    """BM25 of each line of each text, 0 where no term occurs; computed when it is read.

    ``terms`` are token tuples (phrases). A term weighs what it weighs for chunks: its idf over the index, of
    whose ``total_chunks`` ``matching_chunks`` hold it. The mean length is that of the lines that hold a token
    in the texts named by ``basis``, so that no other text changes a score. Formula: Robertson and Zaragoza
    (2009) with FTS5's k1 and b.
    """
    weights = [(idf(total_chunks, matching_chunks.get(term, 0)),) for term in terms]
    based = [texts[key] for key in basis]
    filled = sum(text.filled for text in based)
    mean = sum(text.total for text in based) / filled if filled else 1.0

    def scores_of(key: str) -> tuple[float, ...]:
        values = [0.0] * texts[key].lines
        for at, length, term, count in texts[key].found:
            values[at] += bm25(weights[term], (count,), length, mean)
        return tuple(values)

    return OnDemand(texts, scores_of)


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

    def where(self, terms: list[tuple[str, ...]], texts: Mapping[str, str]) -> Mapping[str, TermLines]:
        """Where the terms occur in each text, by the key of the text, looked for when it is read; remembered
        for the terms that were asked for last: many pools of one query are scored one after the other."""
        before, known = self._terms
        if before != terms:
            known = {}
            self._terms = terms, known

        def of(key: str) -> TermLines:
            if (text := texts[key]) not in known:
                known[text] = self._lines_of(text).where(terms)
            return known[text]

        return OnDemand(texts, of)

    def _lines_of(self, text: str) -> TokenLines:
        """A process asks for the same chunks again and again."""
        if (made := self._texts.get(text)) is None:
            if len(self._texts) >= _TEXTS_KEPT:
                self._texts.clear()
            made = self._texts[text] = token_lines(text, self._tokenise)
        return made

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
    ordered: Sequence[float] | Vector,
    asked: Mapping[str, float],
    ids_of: Callable[[set[float]], Iterable[tuple[str, float]]],
) -> dict[str, int]:
    """The 1-based ranks of asked scores, by id, among all, which are ``ordered`` (smallest first; equal ones
    are ranked by id). ``ids_of`` gives ids and scores of all that have one of these scores: they are looked
    up only where scores are equal."""
    total, ranks = len(ordered), {}
    starts = {score: total - bisect_right(ordered, score) for score in asked.values()}
    # Where the one before the last of a score is equal too, there are several.
    equal = {s for s, start in starts.items() if (last := total - start - 1) > 0 and ordered[last - 1] == s}
    tied: dict[float, list[str]] = {}
    for chunk_id, score in ids_of(equal) if equal else ():
        tied.setdefault(score, []).append(chunk_id)
    for found in tied.values():
        found.sort()
    for chunk_id, score in asked.items():
        ranks[chunk_id] = starts[score] + 1 + bisect_left(tied.get(score, []), chunk_id)
    return ranks


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


def unit_vector(blob: object) -> Vector | None:
    """A stored vector; None when it is none, or not of unit length: bytes of a damaged page are not that
    close."""
    import numpy as np

    if not isinstance(blob, bytes) or not blob or len(blob) % 4:
        return None
    vector = np.frombuffer(blob, dtype=np.float32)
    with np.errstate(all="ignore"):
        # A comparison with NaN is False.
        return vector if abs(float(np.sqrt(np.dot(vector, vector))) - 1) < _UNIT_TOLERANCE else None


def _no_rows() -> RoundedRows:
    from openclaw_mem_engine.stores.rounded import RoundedRows  # not of a search inside SQLite

    return RoundedRows()


@dataclass(frozen=True, slots=True)
class ResidentVectors:
    """All vectors of one index generation: row ``i`` of ``matrix`` (n × dims, float32, unit length) belongs
    to ``ids[i]``. The same exact result as the search inside SQLite, several times faster."""

    generation: int
    ids: Sequence[str]
    matrix: Vector
    #: The row of each id, made for the first ranks, and the products with the vector that was asked for last.
    _rows: dict[str, int] = field(default_factory=dict, repr=False)
    _known: dict[bytes, Vector] = field(default_factory=dict, repr=False)
    _rounded: RoundedRows = field(default_factory=_no_rows, repr=False)

    @staticmethod
    def from_rows(generation: int, rows: Sequence[tuple[Any, ...]]) -> ResidentVectors:
        """Rows begin with chunk id and float32 blob. Raises TypeError or ValueError for what we never
        stored."""
        if not all(isinstance(row[0], str) for row in rows):
            raise TypeError("the id of a chunk is no text")
        matrix = matrix_of([row[1] for row in rows], len(rows[0][1]) // 4 if rows else 0)
        return ResidentVectors(generation, [row[0] for row in rows], matrix)

    def _scores(self, vector: Floats) -> Vector:
        self._check(vector)
        key = vector.tobytes()  # lists and ranks of one query, one after the other
        if (known := self._known.get(key)) is None:
            self._known.clear()
            known = self._known[key] = products(self.matrix, vector)
        return known

    def _check(self, vector: Floats) -> None:
        if len(vector) != self.matrix.shape[1]:
            raise ValueError(f"stored vectors have {self.matrix.shape[1]} dimensions, not {len(vector)}")

    def rows_of(self, ids: Iterable[str]) -> dict[str, int]:
        """The rows of chunks by id; those without a vector are absent."""
        if not (rows := self._rows):
            rows.update(dict(zip(self.ids, range(len(self.ids)), strict=True)))  # all at once
        return {i: rows[i] for i in ids if i in rows}

    def ranks(self, vector: Floats, ids: Iterable[str]) -> dict[str, int]:
        """The 1-based ranks of chunks among all, by id; those without a vector are absent."""
        import numpy as np

        if not len(self.ids):
            return {}
        scores, rows = self._scores(vector), self.rows_of(ids)
        asked = {i: float(scores[row]) for i, row in rows.items()}

        def ids_of(equal: set[float]) -> Iterable[tuple[str, float]]:
            tied = np.flatnonzero(np.isin(scores, np.array([*equal], dtype=scores.dtype))).tolist()
            return ((self.ids[row], float(scores[row])) for row in tied)

        return ranks_among(np.sort(scores), asked, ids_of)

    def nearest(self, vector: Floats, limit: int) -> CandidateRows:
        """The ``limit`` largest cosines, best first, ties by chunk id. Raises ValueError for a ``vector`` of
        other dimensions than the stored ones."""
        if not len(self.ids) or limit < 1:
            return CandidateRows()
        self._check(vector)
        count = min(limit, len(self.ids))
        rows = self._possible(vector, count)
        few = len(rows) * _FEW < len(self.ids)
        scores = products(self.matrix[rows], vector) if few else self._scores(vector)[rows]
        nearest = scores >= _border(scores, count)
        pairs = zip(rows[nearest].tolist(), scores[nearest].tolist(), strict=True)
        found = [Scored(self.ids[i], raw) for i, raw in pairs]
        found.sort(key=lambda hit: (-hit.raw, hit.chunk_id))
        return CandidateRows(tuple(found[:limit]), len(self.ids))

    def _possible(self, vector: Floats, count: int) -> npt.NDArray[Any]:
        """The rows that can be among the ``count`` nearest."""
        import numpy as np

        if len(self.ids) < _BOUNDED_FROM or vector.tobytes() in self._known:
            return np.arange(len(self.ids))
        self._rounded.grow(self.matrix)
        least, most = np.empty((2, len(self.ids)), np.float32)
        if bounded := self._rounded.count:  # more may be added meanwhile
            least[:bounded], most[:bounded] = self._rounded.bounds(vector, bounded)
        least[bounded:] = most[bounded:] = products(self.matrix[bounded:], vector)
        return np.flatnonzero(most >= _border(least, count))


def _border(scores: Vector, count: int) -> float:
    """The smallest of the ``count`` largest scores: equal ones there are all kept, and cut by chunk id."""
    import numpy as np

    # Few scores are above a border that is guessed from every sixteenth: an eighth of the time for all.
    sample, rank = scores[::_SAMPLED], 2 * count // _SAMPLED + 8
    if rank < len(sample):
        likely = scores[scores >= np.partition(sample, len(sample) - rank)[len(sample) - rank]]
        scores = likely if len(likely) >= count else scores
    return float(np.partition(scores, len(scores) - count)[len(scores) - count])
