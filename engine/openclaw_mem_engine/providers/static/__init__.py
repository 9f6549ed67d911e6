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
from itertools import accumulate, chain, pairwise
from math import sqrt
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base_embedder import BaseEmbedder
from openclaw_mem_engine.providers.static.lines import (
    DIMS,
    Arrays,
    cosines,
    lengths_of,
    line_sums,
    pack,
)
from openclaw_mem_engine.providers.static.wordpiece import WordPiece

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Embedder, Floats, Meter, Purpose, Vector
    from openclaw_mem_engine.providers.registry import EmbedderSpec

MODEL = "static-minilm-256-int8"
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
#: Texts whose vectors are made together: the sums of their lines take some 8 MB.
_TEXTS = 128


class _Table(NamedTuple):
    """The arrays of the file, as they are there; the rows are mapped into memory, not read."""

    rows: memoryview  # of tokens x 256 int8
    scale: memoryview[Any]  # float32 by token, 0 for a row without meaning
    content: memoryview  # 1 by token that carries meaning, else 0
    wordpiece: WordPiece

    @property
    def arrays(self) -> Arrays:
        import numpy as np

        rows = np.frombuffer(self.rows, np.int8).reshape(-1, DIMS)
        scale = np.frombuffer(self.scale, np.float32).astype(np.float64)
        return Arrays(rows, scale, np.frombuffer(self.content, np.bool_))


class StaticEmbedder(BaseEmbedder):
    """Embeds English text from the table that ships with the package; loads it at the first text.

    Within a batch equal lines are tokenised once. Raises ProviderError when the table cannot be read.
    """

    id = "static"
    model = MODEL
    dims = DIMS
    languages = "English"
    no_vector = "the English model reads none of its words"
    #: Of results without a word of the query, 2 % of those of nonsense reach it by chunk or line, and 34 % of
    #: the right ones of real queries do not (three workspaces: docs/architecture.md, "Weak results").
    floor = 0.32

    def __init__(self, path: Path = TABLE_FILE) -> None:
        self._path = path
        self._table: _Table | None = None
        self._packed: dict[str, bytes] = {}
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
        purpose: Purpose,
        cancel: CancelToken | None,  # noqa: ARG002
    ) -> list[Vector | None]:
        vectors, packed = self._embed(texts)
        if purpose == "document":
            self._packed = dict(zip(texts, packed, strict=True))
        return vectors

    @property
    def lines(self) -> StaticEmbedder:
        return self

    def pack(self, texts: Sequence[str]) -> list[bytes]:
        """Those of the texts that were embedded last are at hand."""
        known = self._packed
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known = {**known, **dict(zip(new, self._embed(new)[1], strict=True))}
        return [known[text] for text in texts]

    def cosines(self, packed: Sequence[bytes], vector: Floats) -> list[tuple[float | None, ...]]:
        return cosines(self._loaded().arrays, packed, vector)

    def _embed(self, texts: Sequence[str]) -> tuple[list[Vector | None], list[bytes]]:
        table = self._loaded()
        vectors: list[Vector | None] = []
        packed: list[bytes] = []
        for start in range(0, len(texts), _TEXTS):
            some, lines = _embed(table, texts[start : start + _TEXTS])
            vectors += some
            packed += lines
        return vectors, packed

    def close(self) -> None:
        """Gives the memory of the table back."""
        with self._lock:
            self._table, self._packed = None, {}

    def _loaded(self) -> _Table:
        table = self._table
        if table is None:
            with self._lock:
                table = self._table = self._table or _load(self._path)
        return table


class _Static:
    def make(self, spec: EmbedderSpec, meter: Meter | None) -> Embedder:  # noqa: ARG002
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
    """A member of a zip file that is stored as it is. Its checksum is not compared: that would read all of
    it, 4 % of a search. Raises OSError."""
    with path.open("rb") as file:
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    # The local header: 30 bytes, of which the last four are the lengths of the name and of what follows it.
    header = whole[member.header_offset : member.header_offset + 30]
    start = member.header_offset + 30 + sum(header[26:].cast("H"))
    return whole[start : start + member.file_size]


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


def _embed(found: _Table, texts: Sequence[str]) -> tuple[list[Vector | None], list[bytes]]:
    """Vectors and packed lines of one block of texts, in which every distinct line is tokenised and summed
    once: neighbouring chunks overlap by whole lines, and notes repeat headings."""
    import numpy as np

    known: dict[str, int] = {}
    lines_of = [[known.setdefault(line, len(known)) for line in text.split("\n")] for text in texts]
    lines = line_sums(found.arrays, found.wordpiece.pack_lines(known))
    bounds = [*accumulate(map(len, lines_of), initial=0)]
    numbers = np.fromiter(chain.from_iterable(lines_of), np.intp, count=bounds[-1])
    sums = np.empty((len(texts), DIMS))
    for row, (start, end) in zip(sums, pairwise(bounds), strict=True):
        np.add.reduce(lines.sums.take(numbers[start:end], axis=0), axis=0, out=row)
    lengths = lengths_of(sums)
    usable = np.maximum.reduceat(lines.lengths[numbers], bounds[:-1]) > 0
    usable &= lengths > 0
    lengths[~usable] = 1.0
    unit = (sums / lengths[:, np.newaxis]).astype(np.float32)
    vectors = [row if ok else None for row, ok in zip(unit, usable.tolist(), strict=True)]
    return vectors, pack(lines, numbers, bounds)
