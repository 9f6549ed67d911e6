"""The few facts of a GGUF file that we need before anybody loads it, read with bounds on everything.

A file may be damaged or hostile: every length is checked against what is left of the file and against a
ceiling of our own, and nothing is memory-mapped, so a file that shrinks meanwhile is an error and no signal.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_MAX_KEYS = 4096
_MAX_KEY_BYTES = 65_535
_MAX_STRING = 1 << 24
#: A vocabulary of 262,144 words with its merges takes some 12 MB.
_MAX_HEADER = 1 << 27
_BLOCK = 1 << 20
_STRING, _ARRAY = 8, 9
#: struct format of each plain value type.
_PLAIN = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

#: Values of ``<architecture>.pooling_type``.
POOLING = {0: "none", 1: "mean", 2: "cls", 3: "last", 4: "rank"}


class NotGGUF(Exception):
    """The file is no GGUF file, or its header is damaged; the text says where."""


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    """``context_length``, ``embedding_length`` and ``vocab_size`` are None when the file does not tell;
    ``pooling`` is "none" then. ``tokenizer`` is llama.cpp's name: "bert" is WordPiece."""

    architecture: str
    name: str
    context_length: int | None
    embedding_length: int | None
    pooling: str
    tokenizer: str
    vocab_size: int | None


class _Reader:
    """The first bytes of a file, fetched as they are asked for."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.data = bytearray()
        self.at = 0

    def take(self, size: int) -> int:
        """Where the next ``size`` bytes begin in ``data``; they are there, and are passed."""
        start, end = self.at, self.at + size
        if end > _MAX_HEADER:
            raise NotGGUF(f"its header is longer than {_MAX_HEADER >> 20} MB")
        while len(self.data) < end:
            block = self._file.read(max(_BLOCK, end - len(self.data)))
            if not block:
                raise NotGGUF(f"it ends at byte {len(self.data):,}, within its header")
            self.data += block
        self.at = end
        return start

    def number(self, kind: str) -> int | float | bool:
        layout = "<" + kind
        value: int | float | bool = struct.unpack_from(layout, self.data, self.take(struct.calcsize(layout)))[
            0
        ]
        return value

    def length(self, limit: int, what: str) -> int:
        size = int(self.number("Q"))
        if size > limit:
            raise NotGGUF(f"{what} of {size:,} bytes or items is announced at byte {self.at - 8:,}")
        return size

    def string(self, limit: int = _MAX_STRING) -> str:
        size = self.length(limit, "a text")
        start = self.take(size)
        return self.data[start : start + size].decode("utf-8", "replace")

    def value(self, kind: int) -> str | int | float | bool | None:
        """A plain value or text; None for an array, which is passed over (its length is in ``count``)."""
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            self._pass_array()
            return None
        if kind not in _PLAIN:
            raise NotGGUF(f"a value of the unknown type {kind} at byte {self.at:,}")
        return self.number(_PLAIN[kind])

    def peek_array(self) -> int:
        """How many items the array that begins here has; nothing is passed."""
        start = self.at
        self.take(4)
        count = self.length(_MAX_HEADER, "an array")
        self.at = start
        return count

    def _pass_array(self) -> None:
        kind = int(self.number("I"))
        count = self.length(_MAX_HEADER, "an array")
        if kind in _PLAIN:
            self.take(count * struct.calcsize("<" + _PLAIN[kind]))
        elif kind == _STRING:
            unpack = struct.Struct("<Q").unpack_from
            for _ in range(count):
                size = unpack(self.data, self.take(8))[0]
                if size > _MAX_STRING:
                    raise NotGGUF(f"a text of {size:,} bytes is announced at byte {self.at - 8:,}")
                self.take(size)
        else:
            raise NotGGUF(f"an array of the type {kind} at byte {self.at:,}")


def read_header(path: Path) -> GGUFHeader:
    """The facts of one file. Raises NotGGUF, OSError."""
    with path.open("rb") as file:
        reader = _Reader(file)
        magic = reader.take(4)
        if reader.data[magic : magic + 4] != b"GGUF":
            raise NotGGUF(f"it begins with {bytes(reader.data[:4])!r} instead of b'GGUF'")
        version = int(reader.number("I"))
        if version not in (2, 3):
            raise NotGGUF(f"its version {version} is unknown (2 and 3 are read)")
        reader.number("Q")  # tensors
        keys = reader.length(_MAX_KEYS, "a list of keys")
        return _facts(reader, keys)


def _facts(reader: _Reader, keys: int) -> GGUFHeader:
    found: dict[str, object] = {}
    vocab_size: int | None = None
    for _ in range(keys):
        key = reader.string(_MAX_KEY_BYTES)
        kind = int(reader.number("I"))
        if key == "tokenizer.ggml.tokens" and kind == _ARRAY:
            vocab_size = reader.peek_array()
            architecture = found.get("general.architecture")
            # Everything else usually stands before the vocabulary, which is long: enough is known.
            if f"{architecture}.pooling_type" in found and "tokenizer.ggml.model" in found:
                break
        found[key] = reader.value(kind)

    architecture = found.get("general.architecture")
    if not isinstance(architecture, str) or not architecture:
        raise NotGGUF("it names no architecture")

    def count(name: str) -> int | None:
        value = found.get(f"{architecture}.{name}")
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def text(key: str) -> str:
        value = found.get(key)
        return value if isinstance(value, str) else ""

    pooling = found.get(f"{architecture}.pooling_type", 0)
    return GGUFHeader(
        architecture=architecture,
        name=text("general.name"),
        context_length=count("context_length"),
        embedding_length=count("embedding_length_out") or count("embedding_length"),
        pooling=POOLING.get(pooling, "none") if isinstance(pooling, int) else "none",
        tokenizer=text("tokenizer.ggml.model"),
        vocab_size=vocab_size,
    )
