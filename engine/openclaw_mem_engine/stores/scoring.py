"""Scores computed in this process: BM25 as FTS5 defines it, BM25 of the best line of a text, and cosines over
a matrix of vectors. Pure functions and values, for every store."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery, Scored

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Source
    from openclaw_mem_engine.stores.base import Vector

# FTS5's own constants, so that scores of lines and chunks, and of every store, are on one scale.
_K1 = 1.2
_B = 0.75
_LEAST_IDF = 1e-6
_WORD = re.compile(r"[^\W_]+")
#: How far from 1 the squared length of a stored vector may be; wider than the tolerance of the doctor, so
#: that it finds every vector that is refused here.
_TOLERANCE = 0.01
#: How far from 1 the length of a float32 unit vector may be.
_UNIT_TOLERANCE = 1e-4


def idf(total: float, matching: float) -> float:
    """Inverse document frequency of a term that ``matching`` of ``total`` texts hold."""
    return max(_LEAST_IDF, math.log((total - matching + 0.5) / (matching + 0.5)))


def bm25(weights: Sequence[float], counts: Sequence[int], length: int, mean_length: float) -> float:
    """BM25 of one text of ``length`` tokens: idf of each term and how often it occurs."""
    norm = _K1 * (1 - _B + _B * length / mean_length)
    return sum(w * n * (_K1 + 1) / (n + norm) for w, n in zip(weights, counts, strict=True))


def best_line_scores(
    terms: Sequence[tuple[str, ...]],
    texts: Mapping[str, str],
    tokens_of: Callable[[str], list[str]],
    matching_chunks: Mapping[tuple[str, ...], int],
    total_chunks: int,
) -> dict[str, float]:
    """The highest line BM25 of each text (Robertson and Zaragoza, 2009, FTS5's k1 and b); 0 where no line
    matches. ``terms`` are token tuples (phrases); ``tokens_of`` tokenises a line as the full-text table does;
    ``matching_chunks`` holds how many chunks of the index match each term. How many *lines* match is not
    stored: it is estimated as chunks × (matching lines per matching chunk, seen in this pool), and the number
    of lines alike."""
    lines = {
        key: [tokens for line in text.split("\n") if (tokens := tokens_of(line))]
        for key, text in texts.items()
    }
    line_count = sum(len(found) for found in lines.values())
    if not line_count:
        return dict.fromkeys(texts, 0.0)
    counts = {
        key: [[occurrences(term, tokens) for term in terms] for tokens in found]
        for key, found in lines.items()
    }
    mean_length = sum(len(tokens) for found in lines.values() for tokens in found) / line_count
    all_lines = max(line_count, total_chunks * line_count / max(1, len(texts)))
    weights = []
    for column, term in enumerate(terms):
        hit_lines = sum(1 for rows in counts.values() for row in rows if row[column])
        hit_texts = sum(1 for rows in counts.values() if any(row[column] for row in rows))
        # The pool is no random sample: the estimate can exceed the number of all lines.
        matching = min(all_lines, matching_chunks.get(term, hit_texts) * hit_lines / max(1, hit_texts))
        weights.append(idf(all_lines, matching))
    return {
        key: max(
            (
                bm25(weights, row, len(tokens), mean_length)
                for tokens, row in zip(found, counts[key], strict=True)
                if any(row)
            ),
            default=0.0,
        )
        for key, found in lines.items()
    }


def occurrences(term: tuple[str, ...], tokens: Sequence[str]) -> int:
    """How often a token, or a phrase of neighbouring tokens, occurs among ``tokens``."""
    if len(term) == 1:
        return tokens.count(term[0])
    width = len(term)
    return sum(1 for i in range(len(tokens) - width + 1) if tuple(tokens[i : i + width]) == term)


class Stemmer:
    """Words to index tokens, with a memory: most words of a pool repeat."""

    def __init__(self, tokenise: Callable[[str], list[str]]) -> None:
        self._tokenise = tokenise
        self._known: dict[str, list[str]] = {}

    def terms(self, query: LexicalQuery) -> list[tuple[str, ...]]:
        """The terms of a query as index tokens; those without any are left out."""
        found = (tuple(t for word in term for t in self.tokens(word.rstrip("*"))) for term in query.terms)
        return [tokens for tokens in found if tokens]

    def tokens(self, text: str) -> list[str]:
        """The index tokens of a text."""
        found: list[str] = []
        for word in _WORD.findall(text):
            tokens = self._known.get(word)
            if tokens is None:
                tokens = self._tokenise(word)
                if len(self._known) < 200_000:
                    self._known[word] = tokens
            found.extend(tokens)
        return found


def document_frequencies(
    counts: Counter[str], terms: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], int]:
    """A phrase is at most as frequent as its rarest token."""
    return {term: min(counts[token] for token in term) for term in terms}


def products(matrix: Vector, vector: Vector) -> Vector:
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

    def nearest(self, vector: Vector, limit: int, sources: Sequence[Source] | None = None) -> CandidateRows:
        """The ``limit`` largest cosines, best first, ties by chunk id. Raises ValueError for a ``vector`` of
        other dimensions than the stored ones."""
        import numpy as np

        if not len(self.ids) or limit < 1:
            return CandidateRows()
        if len(vector) != self.matrix.shape[1]:
            raise ValueError(f"stored vectors have {self.matrix.shape[1]} dimensions, not {len(vector)}")
        scores = products(self.matrix, vector)
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
