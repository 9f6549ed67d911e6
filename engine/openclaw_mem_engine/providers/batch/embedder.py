"""A remote embedder that sends many documents by batch jobs, and everything else by plain requests."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import text_hash, utf8
from openclaw_mem_engine.providers.batch.jobs import BatchJobs
from openclaw_mem_engine.providers.batch.wires import batch_wire

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import BatchSettings
    from openclaw_mem_engine.model import CancelToken, Note, Progress
    from openclaw_mem_engine.providers.base import Embedder, EmbedderSpec, Keep, Vector
    from openclaw_mem_engine.providers.records import ProviderRecords
    from openclaw_mem_engine.providers.remote import RemoteEmbedder

#: Fewer new texts are embedded by plain requests: that takes seconds and costs next to nothing, while a job
#: takes minutes to hours. It is what a sync after some edited notes brings.
MIN_TEXTS = 32


class BatchEmbedder:
    """``inner`` with the provider's batch interface for ``embed_documents``.

    A text that waits in a job has the vector None in the answer, and ``keep`` does not hear of it: only what
    ``keep`` heard of is final. ``waiting`` are the hashes of those texts. Safe to use from several threads.
    """

    def __init__(self, inner: RemoteEmbedder, jobs: BatchJobs, *, minimum: int = MIN_TEXTS) -> None:
        self._inner, self._jobs, self._minimum = inner, jobs, minimum
        self._lock = threading.Lock()
        self._notes: list[Note] = []
        #: SHA-256 of the texts that the last ``embed_documents`` left to a running job.
        self.waiting: frozenset[str] = frozenset()

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def model(self) -> str:
        return self._inner.model

    @property
    def key(self) -> str:
        return self._inner.key

    @property
    def dims(self) -> int | None:
        return self._inner.dims or self._jobs.dims

    @property
    def languages(self) -> str:
        return self._inner.languages

    @property
    def cheap_lines(self) -> bool:
        return self._inner.cheap_lines

    @property
    def place(self) -> str:
        return self._inner.place

    @property
    def max_input_bytes(self) -> int | None:
        return self._inner.max_input_bytes

    @property
    def notes(self) -> tuple[Note, ...]:
        """What happened to the jobs since the last ``take_notes``."""
        with self._lock:
            return tuple(self._notes)

    def take_notes(self) -> tuple[Note, ...]:
        """The notes, those of the inner embedder too; the next call tells only what is new."""
        with self._lock:
            notes, self._notes = tuple(self._notes), []
        return (*notes, *self._inner.take_notes())

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Vector | None:
        """As the inner embedder: somebody waits for it."""
        return self._inner.embed_query(text, cancel)

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """One vector per text, in order; None for blank text, a zero vector, and a text that waits in a job.

        Equal texts are sent once. What a job could not embed is embedded by plain requests. Raises
        ProviderError or Cancelled.
        """
        asked = _Asked(texts, keep)
        wanted = asked.wanted
        known = self._jobs.known(wanted)
        many = len(wanted) - len(known) >= self._minimum and not self._jobs.disabled
        by_job = {key: text for key, text in wanted.items() if many or key in known}
        plain = [key for key in wanted if key not in by_job]
        if by_job:
            self._inner.check_key()
            outcome = self._jobs.run(by_job, cancel, progress, found=asked.found, dims=self.dims)
            plain += outcome.missing
            with self._lock:
                self._notes += outcome.notes
                self.waiting = frozenset(outcome.waiting)
        else:
            self.waiting = frozenset()
        if plain:
            done = len(wanted) - len(plain)

            def tell(now: int, _: int, label: str) -> None:
                if progress is not None:
                    progress(done + now, len(wanted), label)

            def found(places: Sequence[int], vectors: Sequence[Vector | None]) -> None:
                asked.found({plain[place]: v for place, v in zip(places, vectors, strict=True)})

            vectors = self._inner.embed_documents([wanted[key] for key in plain], cancel, tell, found)
            asked.fill(dict(zip(plain, vectors, strict=True)))
        return asked.vectors

    def close(self) -> None:
        """Closes the inner embedder. Jobs go on at the provider."""
        self._inner.close()


class _Asked:
    """The texts of one call, equal ones taken together, and the vectors as they come in."""

    def __init__(self, texts: Sequence[str], keep: Keep | None) -> None:
        self._keep = keep
        self._places: dict[str, list[int]] = {}
        self.vectors: list[Vector | None] = [None] * len(texts)
        #: What is to be embedded, by hash, as JSON in UTF-8 can carry it.
        self.wanted: dict[str, str] = {}
        blank: list[int] = []
        for place, text in enumerate(texts):
            if text.strip():
                key = text_hash(text)
                self.wanted.setdefault(key, text if text.isascii() else utf8(text).decode())
                self._places.setdefault(key, []).append(place)
            else:
                blank.append(place)
        if blank and keep is not None:
            keep(blank, [None] * len(blank))

    def fill(self, vectors: Mapping[str, Vector | None]) -> None:
        for key, vector in vectors.items():
            for place in self._places[key]:
                self.vectors[place] = vector

    def found(self, vectors: Mapping[str, Vector | None]) -> None:
        """These are finished."""
        self.fill(vectors)
        if self._keep is not None:
            places = [place for key in vectors for place in self._places[key]]
            self._keep(places, [self.vectors[place] for place in places])


def with_batches(
    embedder: Embedder,
    spec: EmbedderSpec,
    records: ProviderRecords,
    settings: BatchSettings,
    *,
    agent: str = "main",
) -> Embedder:
    """``embedder`` with batch jobs when they are enabled and its provider has them, else itself.

    ``spec`` is what it was made from; jobs and their usage are written down in ``records``.
    """
    from openclaw_mem_engine.providers.remote import RemoteEmbedder

    if not settings.enabled or not isinstance(embedder, RemoteEmbedder):
        return embedder
    wire = batch_wire(embedder.id, embedder.base_url, embedder.model)
    if wire is None:
        return embedder
    jobs = BatchJobs(
        wire,
        embedder.transport,
        records,
        settings,
        provider_key=embedder.key,
        agent=agent or "main",
        secrets=(spec.api_key, *spec.headers.values()),
        meter=records.add_usage,
    )
    return BatchEmbedder(embedder, jobs)
