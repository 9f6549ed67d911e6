"""Vectors for the text of the index: from the cache where it has them, from embedders where it has not.

Everything that an embedder has finished is in the cache at once, so a sync that fails, is stopped or killed
pays for nothing twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.index.protocol import IndexStore
from openclaw_mem_engine.model import CancelToken, Note, Progress, Space
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.providers.prices import cost, estimated_tokens

if TYPE_CHECKING:
    from openclaw_mem_engine.index.protocol import Vector
    from openclaw_mem_engine.providers.base import Embedder

#: Chunks that are embedded and written together: enough for several requests, few enough to stop soon.
GROUP_CHUNKS = 256
#: The same where a batch job is made of them: a job takes hours, so there should be few.
JOB_CHUNKS = 10_000


class Embedding:
    """Makes the vectors of one space during one sync. After the first failure it asks no more: ``failure``
    says why, and what is missing is awaited by the next sync."""

    def __init__(
        self,
        store: IndexStore,
        embedder: Embedder | None,
        space: Space | None = None,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        *,
        group: int = GROUP_CHUNKS,
    ) -> None:
        self._store = store
        self.group = group
        self._embedder = embedder
        # None for the primary: its space is what the index says, also when nobody can embed for it now.
        self._space = space
        self._progress = progress
        self._cancel = cancel
        self.failure: ProviderError | None = None
        self.notes: list[Note] = []
        #: Texts that were sent to the embedder, and those that the cache spared it.
        self.embedded = self.cache_hits = 0
        #: Files done and files in all, for the progress; 0 of 0 when no file is being read.
        self.files = (0, 0)
        self._bytes = 0
        self._since = time.monotonic()

    def vectors_of(self, texts: Mapping[str, str], label: str = "") -> dict[str, Vector | None]:
        """Vectors by text hash; a hash is absent when its text could not be embedded. Raises Cancelled."""
        if not texts:
            return {}
        known = self._store.cached_vectors(texts, self._space)
        if self._embedder is None:
            return known
        self.cache_hits += len(known)
        missing = [key for key in texts if key not in known]
        if missing and self.failure is None:
            try:
                self._embed(missing, texts, known, label)
            except ProviderError as error:
                self.failure = error
            self.notes += self._embedder.take_notes()
        return known

    def _embed(
        self, missing: Sequence[str], texts: Mapping[str, str], known: dict[str, Vector | None], label: str
    ) -> None:
        embedder = self._embedder
        assert embedder is not None
        held = self._store.vector_dims(self._space)

        def keep(places: Sequence[int], vectors: Sequence[Vector | None]) -> None:
            sent = next((vector.size for vector in vectors if vector is not None), held)
            if held is not None and sent is not None and sent != held:
                raise ProviderError(other_dims(embedder, sent, held))
            made = {missing[place]: vector for place, vector in zip(places, vectors, strict=True)}
            self._store.cache_vectors(made, self._space)
            known.update(made)
            self.embedded += len(made)
            self._bytes += sum(len(texts[key].encode("utf-8", "replace")) for key in made)

        def tell(done: int, total: int, _: str) -> None:
            if self._progress is not None:
                self._progress(*self.files, f"{label}{self._told(done, total)}")

        embedder.embed_documents([texts[key] for key in missing], self._cancel, tell, keep)

    def _told(self, done: int, total: int) -> str:
        """``  embedded 120 of 256, 31/s, about $0.0021``"""
        embedder = self._embedder
        assert embedder is not None
        seconds = time.monotonic() - self._since
        rate = f", {self.embedded / seconds:.0f}/s" if seconds > 1 else ""
        spent = cost(embedder.id, embedder.model, embedder.place, estimated_tokens(self._bytes))
        price = f", about ${spent:.4f}" if spent else ""
        return f"  embedded {done:,} of {total:,}{rate}{price}"

    def catch_up(self, label: str = "") -> None:
        """Embed what earlier syncs could not. Raises Cancelled."""
        if self._embedder is None:
            return
        while self.failure is None and (
            waiting := self._store.chunks_without_vector(self.group, self._space)
        ):
            if self._cancel is not None and self._cancel.is_set():
                raise Cancelled("Indexing was stopped; the vectors made so far are in the index.")
            vectors = self.vectors_of({chunk.hash: chunk.text for chunk in waiting}, label)
            if not any(chunk.hash in vectors for chunk in waiting):
                return  # they wait for a batch job
            if self._space is None:
                ready = {c.chunk_id: v for c in waiting if (v := vectors.get(c.hash)) is not None}
                self._store.set_vectors(ready)


def fill_beside(
    store: IndexStore,
    embedder: Embedder,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
) -> tuple[Embedding, list[Note]]:
    """Bring the vectors of another than the primary space up to date with the chunks of the index.

    Raises Cancelled. A failure is a note: nothing but this space suffers from it.
    """
    made = Embedding(store, embedder, space_of(embedder), progress, cancel)
    made.catch_up(f"vectors of {space_of(embedder).label}")
    if made.failure is None:
        return made, made.notes
    told = f"The vectors of {space_of(embedder).label} are not complete: {made.failure}"
    return made, [*made.notes, Note("beside-failed", told, "warning")]


def other_dims(embedder: Embedder, sent: int, held: int) -> str:
    """What to say of vectors that cannot be compared with those of the index."""
    return (
        f"{embedder.id} {embedder.model} now sends vectors of {sent} dimensions, the index holds {held}: "
        "another model stands behind this name. Delete the index file and run `openclaw-mem index`."
    )
