"""What a store holds and says of itself, as plain records."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import Source, Space
from openclaw_mem_engine.named_tuple import NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

#: Raised when rows or their tokenisation change shape: an index of another version is rebuilt.
SCHEMA_VERSION = 5
#: What people know these fields of a fingerprint as.
_KNOWN_AS = {"chunk_tokens": "chunking.tokens", "chunk_overlap": "chunking.overlap", "schema": "index format"}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a store can do here, which code above must not assume, and how it compares vectors."""

    full_text: bool
    vector_search: Literal["sqlite-vec", "in-process", "pgvector"]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an index was built with. Another value means that its content cannot be mixed with new rows.
    ``chunk_tokens`` 0: its chunks are whole documents."""

    provider: str
    model: str
    provider_key: str
    chunk_tokens: int
    chunk_overlap: int
    sources: tuple[str, ...]
    schema: int = SCHEMA_VERSION
    #: The name of the chunker; indexes that were written before there were several do not say it.
    chunker: str = "lines"

    @property
    def space(self) -> Space:
        """The primary vector space: the one that is searched unless another is asked for."""
        return Space(self.provider, self.model, self.provider_key)

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Fingerprint:
        """Raises ValueError for anything else than what ``to_json`` of this version writes."""
        try:
            data = json.loads(text)
            return Fingerprint(**data | {"sources": tuple(data["sources"])})
        except (TypeError, LookupError, RecursionError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error

    def differences(self, other: Fingerprint) -> list[str]:
        """What differs, for people: ``setting old → new``."""
        mine, theirs = asdict(self), asdict(other)
        different = [
            f"{_KNOWN_AS.get(key, key)} {_in_words(mine[key])} → {_in_words(theirs[key])}"
            for key in mine
            if mine[key] != theirs[key] and key != "provider_key"
        ]
        return different or ["another endpoint or header for the same model"]


def _in_words(value: object) -> str:
    """``memory, sessions``; "none" for what is empty."""
    return ", ".join(value) if isinstance(value, tuple) else str(value) or "none"


class FileState(NamedTuple):
    """What the index knows of a file. ``checked_ns``: when its content was last compared with ``hash``.
    ``refusal``: why it holds no text, "" when it does; it is kept without chunks, and not read again."""

    path: str
    source: Source
    hash: str
    mtime_ns: int
    size: int
    inode: int
    checked_ns: int
    refusal: str = ""


class StoredChunk(NamedTuple):
    """A chunk as kept in the index. ``chunk_id`` is content-addressed (see ``chunk_id_of``)."""

    chunk_id: str
    path: str
    source: Source
    start_line: int
    end_line: int
    hash: str
    text: str
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class FileChange:
    """The whole new content of one file. ``vectors`` is parallel to ``chunks``; None where a chunk has no
    embedding, or none yet. ``lines`` are packed lines of chunks in the primary space, by chunk id, as far as
    they were made."""

    state: FileState
    chunks: Sequence[StoredChunk]
    vectors: Sequence[Vector | None]
    lines: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes. ``files`` are those with text in the index; ``cached`` are rows of the embedding cache."""

    files: int
    chunks: int
    cached: int


class SpaceSize(NamedTuple):
    """A vector space of the index: how many of its chunks have a vector there, and how long those are."""

    space: Space
    vectors: int
    dims: int


class CacheSize(NamedTuple):
    """The rows of the embedding cache that belong to one space; ``live`` are needed by a chunk. Times are
    epoch seconds of the oldest and the newest row."""

    space: Space
    entries: int
    live: int
    bytes: int
    oldest: float
    newest: float
