"""Exact vector search in memory, for processes that live longer than one query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openclaw_mem_engine.index.protocol import Scored

if TYPE_CHECKING:
    from openclaw_mem_engine.index.protocol import Vector
    from openclaw_mem_engine.model import Source


def products(matrix: Vector, vector: Vector) -> Vector:
    """Each row of ``matrix`` times ``vector``.

    Not ``matrix @ vector``: OpenBLAS takes twice as long for this shape, and wakes threads that then spin.
    """
    found: Vector = np.einsum("ij,j->i", matrix, vector)
    return found


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
        """Rows are (chunk id, source, float32 blob)."""
        dims = len(rows[0][2]) // 4 if rows else 0
        joined = b"".join(row[2] for row in rows)
        matrix = np.frombuffer(joined, dtype=np.float32).reshape(len(rows), dims)
        return ResidentVectors(generation, [row[0] for row in rows], [row[1] for row in rows], matrix)

    def nearest(self, vector: Vector, limit: int, sources: Sequence[Source] | None) -> list[Scored]:
        """The ``limit`` largest cosines, best first, ties by chunk id."""
        if not len(self.ids) or limit < 1:
            return []
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
