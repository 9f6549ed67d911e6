"""Vectors rounded to one byte a value: bounds of cosines from a quarter of the memory that the floats take.
Which rows can be among the nearest follows from the bounds, so the floats of these alone are read, and the
result is that of the full product."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.stores.base import Vector

#: The part of all rows that one query rounds, which costs it less than half of the full product.
_PART = 32
#: Values that are rounded at once: their floats stay in the cache of the processor.
_BLOCK = 200_000
_LARGEST = 127


class RoundedRows:
    """The first ``count`` rows of a matrix (n × dims, float32), each as bytes times a unit of its own."""

    __slots__ = ("_bytes", "_errors", "_growing", "_longest", "_units", "count")

    def __init__(self) -> None:
        self.count = 0
        self._growing = threading.Lock()

    def grow(self, matrix: Vector) -> None:
        """Round the next part of the rows of ``matrix``, which is the same in every call: no query waits for
        all of them. Returns at once while another thread does it."""
        import numpy as np

        if self.count == len(matrix) or not self._growing.acquire(blocking=False):
            return
        try:
            if not self.count:
                self._bytes, self._longest = np.empty(matrix.shape, np.int8), 0.0
                self._units, self._errors = np.empty((2, len(matrix)), np.float32)
            end = min(len(matrix), self.count + len(matrix) // _PART + 1)
            block = max(1, _BLOCK // matrix.shape[1])
            for start in range(self.count, end, block):
                part = slice(start, min(end, start + block))
                self._bytes[part], self._units[part], self._errors[part], lengths = _rounded(matrix[part])
                self._longest = max(self._longest, float(lengths.max()))
            self.count = end
        finally:
            self._growing.release()

    def bounds(self, vector: Floats, count: int) -> tuple[Vector, Vector]:
        """For each of the first ``count`` rows the least and the largest that its product with ``vector`` can
        be (float32): what is lost by rounding a row and the vector is at most as long as the difference."""
        import numpy as np
        import simsimd

        query, unit, error, length = (part[0] for part in _rounded(np.asarray(vector, np.float32)[None]))
        sums = simsimd.cdist(query[None], self._bytes[:count], metric="dot", out_dtype="float32")
        about = np.asarray(sums)[0] * self._units[:count]
        about *= unit
        longest = float(length + error)
        # The last term: sums of so many float32 products are rounded, too, here and in the full product.
        lost = error * self._longest + longest * self._longest * (len(vector) + 8) * np.finfo(np.float32).eps
        widths = self._errors[:count] * np.float32(longest)
        widths += np.float32(lost)
        return about - widths, np.add(about, widths, out=about)


def _rounded(rows: Vector) -> tuple[Vector, Vector, Vector, Vector]:
    """Each row as bytes, the unit of the bytes, how far their product is from the row, and its length."""
    import numpy as np

    units = np.maximum(np.abs(rows).max(axis=1), np.finfo(np.float32).tiny) / np.float32(_LARGEST)
    whole = np.rint(rows / units[:, None])
    values = whole.astype(np.int8)
    whole *= units[:, None]
    lengths = np.sqrt(np.einsum("ij,ij->i", whole, whole))
    whole -= rows
    return values, units, np.sqrt(np.einsum("ij,ij->i", whole, whole)), lengths
