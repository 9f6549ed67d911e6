"""The one seam between searching and storage: what any index must offer.

A store gives candidate lists with raw scores and nothing more: it does not fuse, decay, diversify or cut.
Tokenising and query building are ours (``words.py``), so that every store finds the same passages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.model import Note, Source, Space
from openclaw_mem_engine.stores.sqlite.lexical_query import LexicalQuery

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

#: Raised when rows or their tokenisation change shape: an index of another version is rebuilt.
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Caps:
    """What this store can do here. ``vector_search`` says how vectors are compared; both ways are exact."""

    full_text: bool
    vector_search: Literal["sqlite-vec", "in-process"]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What an index was built with. Another value means that its content cannot be mixed with new rows."""

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
        data = json.loads(text)
        data["sources"] = tuple(data["sources"])
        return Fingerprint(**data)

    def differences(self, other: Fingerprint) -> list[str]:
        """Human words for what differs, old value first."""
        mine, theirs = asdict(self), asdict(other)
        told = [
            f"{key} {mine[key]!r} → {theirs[key]!r}"
            for key in mine
            if mine[key] != theirs[key] and key != "provider_key"
        ]
        # A key is a hash that tells a reader nothing; it differs alone only when the endpoint does.
        return told or ["another endpoint or header for the same model"]


class FileState(NamedTuple):
    """What the index knows of a file. ``checked_ns`` is when its content was last compared with ``hash``;
    that of a transcript also tells whether it was cut (see ``workspace.transcripts.cut_at``).

    A file that holds no text for us (binary, not UTF-8) is remembered too, so that it is not read again and
    again: its ``refusal`` says why and it has no chunks. A named tuple, because every rescan reads them all.
    """

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
    """The whole new content of one file: all its old chunks go, these come. ``vectors`` is parallel to
    ``chunks``; None where a chunk has no embedding. ``awaits_vectors``: some could not be made now and
    are to be tried again."""

    state: FileState
    chunks: Sequence[StoredChunk]
    vectors: Sequence[Vector | None]
    awaits_vectors: bool = False


class Scored(NamedTuple):
    """One candidate: ``raw`` is larger-is-better (negated bm25 >= 0, or cosine -1..1)."""

    chunk_id: str
    raw: float


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


class IndexStore(Protocol):
    """Thread-safe. Reads never wait for a writer; each call that writes is atomic.

    An index may hold vectors of several spaces. ``space`` None means the primary one, which the fingerprint
    names; vectors of others are compared in memory.

    All methods raise IndexUnavailable (IndexLocked when another process holds the write lock) on trouble;
    what was committed before stays whole.

    ``follow`` goes on with what is at ``path`` when that is not what was opened any more, and returns a
    number that is another one from then on. ``make`` False keeps what is opened as long as nothing is there.
    """

    path: Path
    caps: Caps

    @property
    def notes(self) -> tuple[Note, ...]: ...

    def fingerprint(self) -> Fingerprint | None: ...

    def generation(self) -> int: ...

    def synced_at(self) -> float | None: ...

    def counts(self) -> Counts: ...

    def spaces(self) -> list[SpaceSize]: ...

    def covered(self, space: Space | None = None) -> int: ...

    def vector_dims(self, space: Space | None = None) -> int | None: ...

    def files(self) -> Mapping[str, FileState]: ...

    def is_hollow(self) -> bool: ...

    def chunk_counts(self) -> dict[str, int]: ...

    def chunks_of(self, path: str) -> list[StoredChunk]: ...

    def in_full_text(self, ids: Iterable[str]) -> set[str]: ...

    def fetch(self, ids: Iterable[str]) -> dict[str, StoredChunk]: ...

    def lexical(
        self, query: LexicalQuery, limit: int, sources: Sequence[Source] | None = None
    ) -> list[Scored]: ...

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]: ...

    def line_scores(self, query: LexicalQuery, texts: Mapping[str, str]) -> dict[str, float]: ...

    def vector(
        self,
        vector: Vector,
        limit: int,
        sources: Sequence[Source] | None = None,
        space: Space | None = None,
    ) -> list[Scored]: ...

    def cosines(self, vector: Vector, ids: Sequence[str], space: Space | None = None) -> dict[str, float]: ...

    def begin(self, fingerprint: Fingerprint) -> None: ...

    def apply(self, *changes: FileChange, built_with: Fingerprint | None = None) -> None: ...

    def touch(self, states: Sequence[FileState]) -> None: ...

    def remove(self, path: str, source: Source) -> None: ...

    def finish(self, synced_at: float) -> None: ...

    def cached_vectors(
        self, hashes: Iterable[str], space: Space | None = None
    ) -> dict[str, Vector | None]: ...

    def cache_vectors(self, vectors: Mapping[str, Vector | None], space: Space | None = None) -> None: ...

    def cache_sizes(self) -> list[CacheSize]: ...

    def prune_cache(self, most: int) -> int: ...

    def chunks_without_vector(self, limit: int, space: Space | None = None) -> list[StoredChunk]: ...

    def set_vectors(self, vectors: Mapping[str, Vector], built_with: Fingerprint | None = None) -> None: ...

    def vectors_complete(self) -> None: ...

    def rebuild(
        self,
        fingerprint: Fingerprint,
        fill: Callable[[IndexStore], None],
        cancel: CancelToken | None = None,
        *,
        without: Space | None = None,
    ) -> None: ...

    def follow(self, *, make: bool = True) -> int: ...

    def bytes_on_disk(self) -> int: ...

    def interrupt(self, threads: Collection[int]) -> None: ...

    def close(self) -> None: ...
