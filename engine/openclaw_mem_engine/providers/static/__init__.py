"""The built-in embedder: one vector per WordPiece token, summed; no download, no network. NumPy sums the
texts of an index; a query is not worth the 0.1 s of its import, and gets the same bits without it.

The table was distilled from all-MiniLM-L6-v2 (see ``data/LICENSE-static-minilm.txt``). A text's vector is the
sum over its tokens of ``scale[id] * table[id]``, divided by its length; weights per token are in the rows.
A text without any token that carries meaning (punctuation only, or a script that the table does not know) has
no embedding.

Sums are taken in float64. A product has 31 bits and the scales span 6 more, so for texts of up to some
60,000 tokens no addition rounds: a text gets the same bits alone, in a batch, and in any order of its tokens.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import threading
import zipfile
import zlib
from array import array
from collections.abc import Sequence
from functools import reduce
from itertools import chain, pairwise
from math import sqrt
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.providers.base_embedder import BaseEmbedder
from openclaw_mem_engine.providers.static.wordpiece import LINE_END, WordPiece

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Caps, Embedder, Floats, Meter, Purpose, Vector
    from openclaw_mem_engine.providers.registry import EmbedderSpec

MODEL = "static-minilm-256-int8"
DIMS = 256
TABLE_FILE = Path(__file__).with_name("data") / f"{MODEL}.npz"

#: SHA-256 of the three arrays that make a vector, as recorded in the file itself.
TABLE_HASHES = {
    "table_sha256": "a555c3a7338d3612b28a63d9575064ddc5c1f769bdd991a258e433007a9e6c77",
    "scale_sha256": "57b1238ccb986f0dc3ba8190694ddf367918bb8f9d5d7d7c4fca751b6ae53769",
    "vocab_sha256": "0f052197aac305fe42f378b5c61554b7bacb34b8be4af83fec2cfdcdffbc9973",
}
#: Counted up when the tokenisation or the sum changes for the same table.
ENCODING_VERSION = 1

#: A short text is summed row by row, without the set-up that pays for a batch.
_QUERY_TOKENS = 512
#: Tokens per product. OpenBLAS does 36 x 256 multiplications in the calling thread; for larger products it
#: wakes others, which then spin between ours and double the CPU time for nothing.
_PIECE = 32
#: Texts whose vectors are made together, and products whose rows are converted together: few enough to stay
#: in the cache of a core.
_TEXTS, _BLOCK = 128, 16


class _Table(NamedTuple):
    """The arrays of the file, as they are there; the rows are mapped into memory, not read."""

    rows: memoryview  # of tokens x 256 int8
    scale: memoryview[Any]  # float32 by token, 0 for a row without meaning
    content: memoryview  # 1 by token that carries meaning, else 0
    wordpiece: WordPiece

    @property
    def arrays(self) -> _Arrays:
        import numpy as np

        rows = np.frombuffer(self.rows, np.int8).reshape(-1, DIMS)
        scale = np.frombuffer(self.scale, np.float32).astype(np.float64)
        return _Arrays(rows, scale, np.frombuffer(self.content, np.bool_))


class _Arrays(NamedTuple):
    rows: npt.NDArray[np.int8]  # (tokens, 256)
    scale: npt.NDArray[np.float64]  # (tokens,)
    content: npt.NDArray[np.bool_]  # (tokens,)


class StaticEmbedder(BaseEmbedder):
    """Embeds English text from the table that ships with the package; loads it at the first text.

    Within a batch equal lines are tokenised once. Raises ProviderError when the table cannot be read.
    """

    id = "static"
    model = MODEL
    dims = DIMS
    languages = "English"
    no_vector = "it holds no word that a model for English reads"
    #: Of results without a word of the query, 2 % of those of nonsense reach it by chunk or line, and 34 % of
    #: the right ones of real queries do not (three workspaces: docs/architecture.md, "Weak results").
    floor = 0.32
    cheap_lines = True

    def __init__(self, path: Path = TABLE_FILE) -> None:
        self._path = path
        self._table: _Table | None = None
        self._lock = threading.Lock()

    @property
    def key(self) -> str:
        """SHA-256 hex over the hashes of the table and the version of the encoding; needs no file."""
        identity = {"provider": self.id, "encoding": ENCODING_VERSION, **TABLE_HASHES}
        return hashlib.sha256(json.dumps(identity, separators=(",", ":")).encode()).hexdigest()

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Floats | None:
        table = self._loaded()
        ids = table.wordpiece.ids(text)
        if len(ids) > _QUERY_TOKENS:
            return self.embed_batch([text], "query", cancel)[0]
        if not any(map(table.content.__getitem__, ids)):
            return None
        sums = [0.0] * DIMS
        for id in ids:
            scale, row = table.scale[id], table.rows[id * DIMS : (id + 1) * DIMS]
            sums = [total + scale * value for total, value in zip(sums, row, strict=True)]
        norm = sqrt(_sum_as_numpy([value * value for value in sums]))
        return array("f", [value / norm for value in sums]) if norm else None

    def embed_batch(
        self,
        texts: Sequence[str],
        purpose: Purpose,  # noqa: ARG002
        cancel: CancelToken | None,  # noqa: ARG002
    ) -> list[Vector | None]:
        return _embed(self._loaded(), texts)

    def close(self) -> None:
        """Gives the memory of the table back."""
        with self._lock:
            self._table = None

    def _loaded(self) -> _Table:
        table = self._table
        if table is None:
            with self._lock:
                table = self._table = self._table or _load(self._path)
        return table


class _Static:
    """The provider ``static`` of the registry."""

    def make(self, spec: EmbedderSpec, meter: Meter | None, caps: Caps | None) -> Embedder:  # noqa: ARG002
        if spec.model not in ("", MODEL):
            raise ProviderError(
                f"The static provider has one model, {MODEL}, not {spec.model!r}. "
                "Leave the model out, or choose provider openai for it."
            )
        return StaticEmbedder()

    def model_name(self, given: str) -> str:  # noqa: ARG002
        return MODEL

    def base_url(self, given: str) -> str:  # noqa: ARG002
        return ""


PROVIDER = _Static()


def _load(path: Path) -> _Table:
    advice = "Reinstall the package, or choose another embedding provider."
    try:
        with zipfile.ZipFile(path) as file:
            meta = json.loads(bytes(_numbers(file.read("meta.npy"))))
            if {name: meta.get(name) for name in TABLE_HASHES} != TABLE_HASHES:
                raise ProviderError(f"The embedding table {path} is not the one this version knows. {advice}")
            scale, content, words = (
                _numbers(file.read(f"{name}.npy")) for name in ("scale", "content", "vocab")
            )
            rows = _numbers(_mapped(path, file.getinfo("table.npy")))
            wordpiece = WordPiece(str(words, "utf-8").split("\n"))
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error) as exc:
        raise ProviderError(f"The embedding table {path} cannot be read: {exc}. {advice}") from exc
    return _Table(rows.cast("b"), scale.cast("f"), content, wordpiece)


def _mapped(path: Path, member: zipfile.ZipInfo) -> memoryview:
    """A member of a zip file that is stored as it is. Raises ValueError, OSError."""
    with path.open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    # The local header: 30 bytes, of which the last four are the lengths of the name and of what follows it.
    header = whole[member.header_offset : member.header_offset + 30]
    start = member.header_offset + 30 + sum(header[26:].cast("H"))
    found = whole[start : start + member.file_size]
    if member.compress_type != zipfile.ZIP_STORED or zlib.crc32(found) != member.CRC:
        raise ValueError("its rows are damaged")
    return found


def _numbers(member: bytes | memoryview) -> memoryview:
    """The numbers of a .npy file (version 1): they follow a header, whose length is in its bytes 8 and 9."""
    whole = memoryview(member)
    return whole[10 + int.from_bytes(whole[8:10], "little") :]


def _sum_as_numpy(values: Sequence[float]) -> float:
    """The sum of 128 numbers, or of that times a power of 2, in NumPy's order, to round alike."""
    if (half := len(values) // 2) >= 128:
        return _sum_as_numpy(values[:half]) + _sum_as_numpy(values[half:])
    parts = [reduce(add, values[start::8]) for start in range(8)]
    while len(parts) > 1:
        parts = [one + other for one, other in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _embed(found: _Table, texts: Sequence[str]) -> list[Vector | None]:
    """Vectors of one block of texts: tokenise every distinct line once, then sum per text."""
    import numpy as np

    # Neighbouring chunks overlap by whole lines, and notes repeat headings: equal lines share their ids.
    numbers: dict[str, int] = {}
    lines_of = [[numbers.setdefault(line, len(numbers)) for line in text.split("\n")] for text in texts]
    packed = np.frombuffer(found.wordpiece.pack_lines(numbers), dtype=np.uint16)
    ends = np.flatnonzero(packed == LINE_END)
    starts = np.concatenate(([0], ends[:-1] + 1))

    line_counts = np.fromiter(map(len, lines_of), dtype=np.intp, count=len(texts))
    lines = np.fromiter(chain.from_iterable(lines_of), dtype=np.intp, count=int(line_counts.sum()))
    lengths = (ends - starts)[lines]
    # Token k of the whole block is at its line's start plus its distance from that line's first token.
    first = np.cumsum(lengths) - lengths
    where = np.repeat(starts[lines] - first, lengths)
    where += np.arange(where.size)
    ids = packed[where]
    bounds = np.concatenate(([0], np.cumsum(lengths)))[np.concatenate(([0], np.cumsum(line_counts)))]

    table = found.arrays
    vectors: list[Vector | None] = []
    for start in range(0, len(texts), _TEXTS):
        vectors += _vectors(table, ids, bounds[start : start + _TEXTS + 1].tolist())
    return vectors


def _vectors(table: _Arrays, ids: npt.NDArray[np.uint16], bounds: list[int]) -> list[Vector | None]:
    """Vectors of neighbouring texts: the tokens of text i are ``ids[bounds[i] : bounds[i + 1]]``."""
    import numpy as np

    sums = np.zeros((len(bounds) - 1, DIMS))
    pieces = [
        (number, at, min(at + _PIECE, end))
        for number, (start, end) in enumerate(pairwise(bounds))
        for at in range(start, end, _PIECE)
    ]
    for at in range(0, len(pieces), _BLOCK):
        block = pieces[at : at + _BLOCK]
        low, high = block[0][1], block[-1][2]
        some = ids[low:high]
        rows, scale = table.rows[some].astype(np.float64), table.scale[some]
        for number, start, end in block:
            sums[number] += scale[start - low : end - low] @ rows[start - low : end - low]
    held = np.concatenate(([0], np.cumsum(table.content[ids[bounds[0] : bounds[-1]]])))
    meaningful = np.diff(held[np.asarray(bounds) - bounds[0]]) > 0
    return _unit_rows(sums, meaningful)


def _unit_rows(sums: npt.NDArray[np.float64], meaningful: npt.NDArray[np.bool_]) -> list[Vector | None]:
    """Each row of (texts, 256) divided by its length; None where the text has no embedding."""
    import numpy as np

    norms = np.sqrt((sums * sums).sum(axis=1))
    usable = meaningful & (norms > 0)
    norms[~usable] = 1.0
    unit = (sums / norms[:, np.newaxis]).astype(np.float32)
    return [row if ok else None for row, ok in zip(unit, usable.tolist(), strict=True)]
