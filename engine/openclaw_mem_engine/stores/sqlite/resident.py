"""Exact vector search in memory, for processes that live longer than one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openclaw_mem_engine.stores.base import Scored

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Source
    from openclaw_mem_engine.stores.base import Vector


#: How far from 1 the squared length of a stored vector may be; more than the doctor lets pass, so that it
#: finds whatever is refused here.
_TOLERANCE = 0.01


def products(matrix: Vector, vector: Vector) -> Vector:
    """Each row of ``matrix`` times ``vector``.

    Not ``matrix @ vector``: OpenBLAS takes twice as long for this shape, and wakes threads that then spin.
    """
    found: Vector = np.einsum("ij,j->i", matrix, vector)
    return found


def matrix_of(blobs: Sequence[bytes], dims: int) -> Vector:
    """Stored vectors as rows (n × dims, float32). Raises TypeError or ValueError when one is not what was
    stored: unchecked, a blob of another length would give every row behind it to the wrong chunk, and a NaN
    would be the nearest to everything."""
    if any(len(blob) != 4 * dims for blob in blobs):
        raise ValueError(f"a stored vector has not the {dims} dimensions of its space")
    matrix: Vector = np.frombuffer(b"".join(blobs), dtype=np.float32).reshape(len(blobs), dims)
    with np.errstate(all="ignore"):
        squares = np.einsum("ij,ij->i", matrix, matrix)
        # A comparison with NaN is False.
        if not (np.abs(squares - 1.0) < _TOLERANCE).all():
            raise ValueError("a stored vector is not of unit length")
    return matrix


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

    def nearest(self, vector: Vector, limit: int, sources: Sequence[Source] | None) -> list[Scored]:
        """The ``limit`` largest cosines, best first, ties by chunk id. Raises ValueError for a ``vector`` of
        other dimensions than the stored ones."""
        if not len(self.ids) or limit < 1:
            return []
        if len(vector) != self.matrix.shape[1]:
            raise ValueError(f"stored vectors have {self.matrix.shape[1]} dimensions, not {len(vector)}")
        scores = products(self.matrix, vector)
        if sources is not None:
            scores = np.where(np.isin(np.asarray(self.sources), list(sources)), scores, -np.inf)
        if limit < len(scores):
            # Ties at the border would otherwise fall as argpartition pleases.
            border = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            places = np.flatnonzero(scores >= border)
        else:
            places = np.arange(len(scores))
        places = places[np.isfinite(scores[places])]
        found = [
            Scored(self.ids[i], raw) for i, raw in zip(places.tolist(), scores[places].tolist(), strict=True)
        ]
        found.sort(key=lambda hit: (-hit.raw, hit.chunk_id))
        return found[:limit]
