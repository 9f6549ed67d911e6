"""Sums of the token vectors of lines, and packed lines: what a comparison of every line of a text with a
query needs, some 50 bytes a line. No text is cut into tokens for it and no vectors are summed, so that it
takes milliseconds for the lines of 200 texts.

The cosine of a line and a query is the sum over the line's tokens of ``scale[id] * (table[id] · query)``,
divided by the length of the line's vector. The products are made once for each token of all lines.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import products
from openclaw_mem_engine.providers.static.wordpiece import LINE_END

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from openclaw_mem_engine.providers.base import Floats

DIMS = 256
#: Tokens per product. OpenBLAS does 36 x 256 multiplications in the calling thread; for larger products it
#: wakes others, which then spin between ours and double the CPU time for nothing.
_PIECE = 36
#: Tokens whose rows are converted together: few enough to stay in the cache of a core.
_BLOCK, _TOKENS = 256, 64
#: Bytes of the number of lines, with which packed lines begin, and of each of their lengths.
_COUNT, _LENGTH = 4, 4


class Arrays(NamedTuple):
    """The table of the embedder by token."""

    rows: npt.NDArray[np.int8]  # (tokens, 256)
    scale: npt.NDArray[np.float64]  # (tokens,)
    content: npt.NDArray[np.bool_]  # (tokens,)


class LineSums(NamedTuple):
    """Lines as ``ids``, with LINE_END after each: tokens of line i are ``ids[starts[i] : ends[i]]``. ``sums``
    are their vectors before they are divided by their ``lengths``, which are 0 for lines without meaning."""

    ids: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.intp]
    ends: npt.NDArray[np.intp]
    sums: npt.NDArray[np.float64]  # (lines, 256)
    lengths: npt.NDArray[np.float64]  # (lines,)


def line_sums(table: Arrays, packed: bytes) -> LineSums:
    """The sums of lines that were cut into tokens by ``WordPiece.pack_lines``, at least one."""
    import numpy as np

    ids = np.frombuffer(packed, dtype=np.uint16)
    starts, ends = _bounds(ids)
    tokens = np.concatenate((ids, np.zeros(_PIECE, np.uint16)))
    tokens[ends] = 0  # any row: it counts nothing
    scale, content = table.scale[tokens], table.content[tokens[: len(ids)]]
    scale[ends], content[ends] = 0.0, False
    sums = np.zeros((len(starts), DIMS))
    steps, begins = np.arange(_PIECE), starts
    while len(some := np.flatnonzero(begins < ends)):  # the next piece of every line that has one
        counts = np.minimum(ends[some] - begins[some], _PIECE)
        # Pieces of nearly equal numbers of tokens together; what is beyond the end of one counts nothing.
        order = np.argsort(counts, kind="stable")
        some, counts, at = some[order], counts[order], 0
        while at < len(some):
            to = min(len(some), at + _BLOCK // int(counts[at]))
            within, width = some[at:to], int(counts[to - 1])
            where = begins[within][:, np.newaxis] + steps[:width]
            weights = scale[where] * (steps[:width] < counts[at:to, np.newaxis])
            rows = table.rows.take(tokens[where], axis=0).astype(np.float64)
            sums[within] += np.matmul(weights[:, np.newaxis], rows)[:, 0]
            at = to
        begins = begins + _PIECE
    lengths = lengths_of(sums)
    lengths[~np.logical_or.reduceat(content, starts)] = 0.0
    return LineSums(ids, starts, ends, sums, lengths)


def lengths_of(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    import numpy as np

    found: npt.NDArray[np.float64] = np.sqrt((sums * sums).sum(axis=1))
    return found


def pack(lines: LineSums, numbers: npt.NDArray[np.intp], bounds: Sequence[int]) -> list[bytes]:
    """Packed lines of texts, of which text i has the lines ``numbers[bounds[i] : bounds[i + 1]]``, all in
    native byte order: how many lines (uint32), the length of the vector of each (float32), their token ids
    (uint16) with LINE_END after each line."""
    import numpy as np

    lengths, ids = lines.lengths.astype(np.float32)[numbers].tobytes(), lines.ids.tobytes()
    spans = zip((2 * lines.starts).tolist(), (2 * lines.ends + 2).tolist(), strict=True)
    parts = [ids[start:end] for start, end in spans]
    of_lines = [*map(parts.__getitem__, numbers.tolist())]
    return [
        b"".join(
            (
                (end - start).to_bytes(_COUNT, sys.byteorder),
                lengths[_LENGTH * start : _LENGTH * end],
                *of_lines[start:end],
            )
        )
        for start, end in pairwise(bounds)
    ]


def cosines(table: Arrays, packed: Sequence[bytes], vector: Floats) -> list[tuple[float | None, ...]]:
    """The cosine of each line of texts and a ``vector`` of unit length; None for a line without a vector. The
    numbers of a text are the same whatever other texts there are."""
    import numpy as np

    if not packed:
        return []
    counts = [int.from_bytes(text[:_COUNT], sys.byteorder) for text in packed]
    middles = [_COUNT + _LENGTH * count for count in counts]
    joined = b"".join([text[_COUNT:middle] for text, middle in zip(packed, middles, strict=True)])
    lengths = np.frombuffer(joined, np.float32).astype(np.float64)
    ids = np.frombuffer(b"".join([t[m:] for t, m in zip(packed, middles, strict=True)]), np.uint16)
    seen = np.zeros(LINE_END + 1, np.bool_)
    seen[ids] = True
    tokens = np.flatnonzero(seen[: len(table.rows)])
    by_token, query = np.zeros(LINE_END + 1), np.asarray(vector, np.float64)
    rows = np.empty((_TOKENS, DIMS))  # used again: new memory costs as much as the products
    for at in range(0, len(tokens), _TOKENS):
        some = tokens[at : at + _TOKENS]
        rows[: len(some)] = table.rows[some]
        by_token[some] = table.scale[some] * products(rows[: len(some)], query)
    sums = np.add.reduceat(by_token[ids], _bounds(ids)[0])
    values = (sums / np.where(lengths, lengths, 1.0)).tolist()
    found = [value if length else None for value, length in zip(values, lengths.tolist(), strict=True)]
    return [tuple(found[start:end]) for start, end in pairwise(accumulate(counts, initial=0))]


def _bounds(ids: npt.NDArray[np.uint16]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where each line starts, and its LINE_END."""
    import numpy as np

    ends = np.flatnonzero(ids == LINE_END)
    return np.concatenate(([0], ends[:-1] + 1)), ends
