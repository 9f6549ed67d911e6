"""The seam between searching and storage: what every index offers, as protocols.

A store gives candidate lists with raw scores: it does not fuse, decay, diversify or cut. A new store is one
module that passes ``tests/engine/test_store_contract.py`` and one line of the registry (``__init__.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import Note, Source, Space
from openclaw_mem_engine.stores.query import CandidateRows, Derived, LexicalQuery
from openclaw_mem_engine.stores.records import (
    SCHEMA_VERSION,
    CacheSize,
    Capabilities,
    Counts,
    FileChange,
    FileState,
    Fingerprint,
    SpaceSize,
    StoredChunk,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Floats
    from openclaw_mem_engine.ranking.knobs import Knobs
    from openclaw_mem_engine.ranking.unshown import Passage, Unshown
    from openclaw_mem_engine.stores.findings import Outcome
    from openclaw_mem_engine.stores.records import Vector as Vector

#: The records of the protocols are imported from here, too.
__all__ = [
    "SCHEMA_VERSION",
    "UNLIMITED",
    "CacheSize",
    "Capabilities",
    "Counts",
    "Derived",
    "EmbeddingCache",
    "FileChange",
    "FileState",
    "Fingerprint",
    "Generation",
    "IndexContent",
    "IndexStore",
    "IndexWriter",
    "SearchStore",
    "SpaceSize",
    "StoredChunk",
]

UNLIMITED = 2**62
#: Makes packed lines of texts (``providers.base.Lines.pack``).
Pack = Callable[[Sequence[str]], list[bytes]]


class SearchStore(Protocol):
    """Searches over one index. Thread-safe; no method writes or waits for a writer. ``space`` None means the
    primary vector space, which the fingerprint names. Every method may read the disk for milliseconds, and
    raises IndexUnavailable (IndexDamaged when what is stored cannot be read), and Cancelled after
    ``interrupt``."""

    caps: Capabilities
    #: Whether what only an explanation shows can be read later, by any thread, in some milliseconds.
    stays_open: bool = False

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes answers less than they could be: a missing capability, derived rows that are damaged,
        gone or behind, passages without vectors."""

    def generation(self) -> int:
        """Grows with every change of content; two equal values mean equal content."""

    def lexical(self, query: LexicalQuery, limit: int) -> CandidateRows:
        """The ``limit`` best full-text matches by BM25 (k1 1.2, b 0.75, idf = max(ln((N - n + 0.5) / (n +
        0.5)), 1e-6) over all chunks; with a ``name_weight`` over texts and paths together). For ``keywords``
        the union of one search per term, in order of first appearance, each limited on its own. Of equal
        scores at the limit the smaller chunk ids are taken. Empty without full-text search."""

    def without_common(self, query: LexicalQuery) -> LexicalQuery:
        """The query without terms that are ``query.Common``; all of it from a store where they are fast."""
        return query

    def vector(self, vector: Floats, limit: int, space: Space | None = None) -> CandidateRows:
        """The ``limit`` nearest chunks by cosine; ``matched`` is how many were compared. ``vector`` is
        float32 of unit length. Raises IndexUnavailable when it has other dimensions than those stored."""

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        """The score that ``lexical`` gives these chunks, by chunk id; those that do not match are absent."""

    def matching(self, query: LexicalQuery, ids: Sequence[str]) -> frozenset[str]:
        """Those of these chunks that ``lexical`` matches."""
        return frozenset(self.lexical_scores(query, ids))

    def cosines(self, vector: Floats, ids: Sequence[str], space: Space | None = None) -> dict[str, float]:
        """The cosine of these chunks, by chunk id; those without a vector in that space are absent."""

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> Mapping[str, tuple[float, ...]]:
        """BM25 of each line of each text, by the key of the text; 0 where a line does not match. A text is
        cut into tokens when its scores are read, which needs the index no more. ``basis``
        are the keys of the texts that give the mean length of a line (see ``scoring.line_bm25``)."""

    def packed_lines(self, ids: Iterable[str], space: Space) -> dict[str, bytes]:  # noqa: ARG002
        """Packed lines (``providers.base.Lines``) of chunks in a space, by chunk id, unaltered; chunks of
        which none are kept are absent."""
        return {}

    def lexical_ranks(self, query: LexicalQuery, ids: Iterable[str]) -> dict[str, int]:
        """1-based ranks of chunks in an unlimited ``lexical`` list; those that do not match are absent."""
        return self.lexical(query, UNLIMITED).ranks_of(ids)

    def vector_ranks(self, vector: Floats, ids: Iterable[str], space: Space | None = None) -> dict[str, int]:
        """The same in an unlimited ``vector`` list; those without a vector in that space are absent."""
        return self.vector(vector, UNLIMITED, space).ranks_of(ids)

    def fetch(self, ids: Iterable[str]) -> dict[str, StoredChunk]:
        """Chunks with the time of their file, by chunk id; unknown ids are absent."""

    def interrupt(self) -> None:
        """Stop the searches that run now; they raise Cancelled. Other reads and writes go on."""

    def close(self) -> None:
        """Release all; other threads' searches are interrupted. May wait two seconds."""


class IndexContent(Protocol):
    """What an index holds. Thread-safe; no method writes. Raises IndexUnavailable, IndexDamaged."""

    def fingerprint(self) -> Fingerprint | None:
        """What the content was built with; None for an index that was never begun. Raises IndexUnavailable
        for one that a newer program wrote."""

    def synced_at(self) -> float | None:
        """Epoch seconds of the last completed sync, None before the first."""

    def counts(self) -> Counts: ...

    def spaces(self) -> list[SpaceSize]:
        """Every vector space of which some chunk has a vector."""

    def covered(self, space: Space | None = None) -> int:
        """How many chunks have a vector in this space."""

    def vector_dims(self, space: Space | None = None) -> int | None:
        """Length of the vectors of a space; None as long as there is none."""

    def files(self) -> Mapping[str, FileState]:
        """Known files by path, not to be changed."""

    def settled(self) -> tuple[str, str]:
        """A name for what ``files`` gives, which every change of it changes, and the digest that ``settle``
        has kept for it, or "". A store that keeps none has no name for it either: ""."""
        return "", ""

    def chunk_counts(self) -> dict[str, int]:
        """How many chunks each file has, by path; a file without any is absent."""

    def chunks_of(self, path: str) -> list[StoredChunk]:
        """All chunks of a file, in reading order; empty for an unknown file."""

    def passages(self) -> Iterable[Passage]:
        """Every chunk, by file and in reading order."""

    def unshown(self, knobs: Knobs) -> dict[str, Unshown]:
        """What no search with these knobs can show of each file that has chunks, by path; here from all text,
        which takes 10 µs a chunk."""
        from openclaw_mem_engine.ranking.unshown import unshown_by_file

        return unshown_by_file(self.passages(), knobs)

    def in_full_text(self, ids: Iterable[str]) -> set[str]:
        """Those of these chunks that a full-text search can find."""

    def lacking(self, *kinds: Derived) -> set[Derived]:  # noqa: ARG002
        """Those of these derived rows that are not made yet, and can be; none of a store that has them all,
        or does without. Lines are read without them, words are not."""
        return set()

    def is_hollow(self) -> bool:
        """Whether the index has lost its content: files with text are known but no chunk, or chunks but no
        file, or not what they were built with."""


class EmbeddingCache(Protocol):
    """Embeddings by space and ``model.text_hash``, for rebuilds and texts that come back. Thread-safe; each
    write is atomic. Raises IndexUnavailable, IndexLocked."""

    def cached_vectors(self, hashes: Iterable[str], space: Space | None = None) -> dict[str, Vector | None]:
        """Known embeddings by text hash; None where the text has none; unknown ones are absent."""

    def cache_vectors(self, vectors: Mapping[str, Vector | None], space: Space | None = None) -> None:
        """Keep embeddings by text hash, over those that are there. A chunk is searchable in another than the
        primary space as soon as its embedding is here."""

    def cache_sizes(self) -> list[CacheSize]:
        """The cache, space by space, the largest first."""

    def prune_cache(self, most: int) -> int:
        """Forget the oldest vectors beyond ``most`` rows, but none that a chunk needs. Returns how many."""


class IndexWriter(Protocol):
    """Changes of one generation of an index. Each call is atomic, also when the process is killed, and can be
    repeated. Waits some seconds for another process that writes, then raises IndexLocked; IndexUnavailable
    when the disk is full; IndexChanged when the index is another than ``built_with`` names."""

    def begin(self, fingerprint: Fingerprint) -> None:
        """Declare what an empty index will be built with."""

    def apply(self, *changes: FileChange, built_with: Fingerprint | None = None) -> None:
        """Replace everything known of these files, all in one step: small files are written together."""

    def touch(self, states: Sequence[FileState]) -> None:
        """Keep new times of files whose content is the same. Does not change the generation."""

    def remove(self, *files: tuple[str, Source]) -> None:
        """Forget files, by path and source, and all their chunks, in one step; an unknown one is no error.
        Their embeddings stay in the cache."""

    def provide(self, *kinds: Derived, pack: Pack | None = None) -> None:  # noqa: ARG002
        """Make what is ``lacking`` of these derived rows, from the chunks and in one step; from then on they
        are kept as the chunks are. ``pack`` makes lines; what it raises ends this: nothing has changed then.
        """
        return

    def settle(self, files: str, digest: str) -> None:  # noqa: ARG002
        """Keep the digest of a listing from which ``files``, as ``settled`` names them, do not differ. Does
        nothing when they have changed since, when it would have to wait, or cannot write."""
        return

    def chunks_without_vector(self, limit: int, space: Space | None = None) -> list[StoredChunk]:
        """At most ``limit`` chunks that were not embedded in this space."""

    def set_vectors(self, vectors: Mapping[str, Vector], built_with: Fingerprint | None = None) -> None:
        """Give stored chunks their vectors of the primary space, by chunk id."""

    def finish(self, synced_at: float, *, purge: bool = False) -> None:
        """Record a completed sync, epoch seconds; ``purge``: overwrite words of removed files at any cost."""


class IndexStore(SearchStore, IndexContent, EmbeddingCache, IndexWriter, Protocol):
    """An opened index: searched, and written in its live generation. The defaults of what an index that
    several hosts share adds are those of an index in a file of this host."""

    path: Path  # names the index, also for the lock of a sync; nothing above the store opens it
    #: How many files were opened so far: what ``follow`` returned last.
    opened: int = 1
    #: Whether there was a file of 0 bytes when it was opened first.
    was_empty: bool = False

    def new_generation(self, fingerprint: Fingerprint, without: Space | None = None) -> Generation:
        """Begin an empty generation. It takes every usable embedding over, but none of the space ``without``
        (not comparable with vectors to come). Raises IndexUnavailable, also when there is no room for it."""

    def rebuild(
        self,
        fingerprint: Fingerprint,
        fill: Callable[[Generation], None],
        cancel: CancelToken | None = None,
        *,
        without: Space | None = None,
    ) -> None:
        """Fill a new generation with ``fill``, then let it replace this one; searches see the old content
        until then. Raises what ``fill`` raises, and Cancelled: the old content and new embeddings stay."""
        generation = self.new_generation(fingerprint, without)
        try:
            fill(generation)
            if cancel is not None and cancel.is_set():
                raise Cancelled("The rebuild was stopped; the old index is as it was.")
            generation.commit()
        finally:
            generation.abort()

    @property
    def location(self) -> str:
        """Where the index is, for people; never with a password."""
        return str(self.path)

    def is_present(self) -> bool:
        """Whether the index is still where it was opened. Raises IndexUnavailable when this user may not
        look there."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """What this thread reads in the body is one state, which is not written there. Not nested. Raises
        IndexChanged when what was read is not at ``path`` any more."""
        return nullcontext()

    def diagnosis(self) -> Mapping[str, Callable[[Outcome], None]]:
        """Checks that the store makes of itself, by name, for stores without a file to examine."""
        return {}

    def cached_hashes(self, space: Space) -> list[str]:
        """The text hashes of all embeddings of a space in the cache, in order."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other hosts from writing in the body; processes of this host are kept out by the lock of a
        sync. Raises IndexLocked at once when another host writes."""
        return nullcontext()

    def follow(self, *, make: bool = True) -> int:
        """Reopen when another index is at ``path`` now. Returns a number that changes when the index does.
        ``make`` False keeps what is opened as long as nothing is at ``path``. Raises what opening raises, and
        keeps what was opened then."""

    def bytes_on_disk(self) -> int:
        """Size in bytes, with what is not yet merged into the index; 0 for one in memory."""


class Generation(IndexStore, Protocol):
    """A generation that is being filled: it is not searched before ``commit``."""

    dropped: int = 0  # damaged embeddings that were not taken over

    def commit(self) -> None:
        """Replace the old generation by this one, in one step for all readers in all processes."""

    def abort(self) -> None:
        """Drop this generation, once and unless committed; its new embeddings go to the old cache."""
