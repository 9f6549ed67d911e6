"""A remote embedder that sends many documents by batch jobs, and everything else by plain requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.providers.base import TextRefused
from openclaw_mem_engine.providers.base_embedder import DelegatingEmbedder
from openclaw_mem_engine.providers.batch.jobs import BatchCall, BatchJobs
from openclaw_mem_engine.providers.batch.wires import batch_service
from openclaw_mem_engine.providers.remote.limits import sendable

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.config.settings import BatchSettings
    from openclaw_mem_engine.model import Note, Progress
    from openclaw_mem_engine.providers.base import Embedder, Keep, Vector
    from openclaw_mem_engine.providers.records import ProviderRecords
    from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder


class BatchEmbedder(DelegatingEmbedder["RemoteEmbedder"]):
    """``inner`` with the provider's batch interface for ``embed_documents``.

    A text that waits in a job has the vector None in the answer, and ``keep`` is not called for it: only what
    ``keep`` was called for is final.
    """

    def __init__(self, inner: RemoteEmbedder, jobs: BatchJobs) -> None:
        super().__init__(inner)
        self._jobs = jobs
        self._notes: list[Note] = []

    @property
    def dims(self) -> int | None:
        return self._inner.dims or self._jobs.dims

    def take_notes(self) -> tuple[Note, ...]:
        """What happened to the jobs since the last call, and the notes of the inner embedder."""
        notes, self._notes = self._notes, []
        return (*notes, *self._inner.take_notes())

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """One vector per text, in order; None for blank text, a zero vector, and a text that waits in a job.

        Equal texts are sent once. What a job could not embed is embedded by plain requests. Raises
        ProviderError (TextRefused where a plain request tells of one text) or Cancelled.
        """
        asked = _Asked(texts, keep)
        if asked.wanted:
            self._inner.check_key()
            call = BatchCall(asked.wanted, cancel, progress, asked.found, self.dims)
            self._jobs.run(call)
            self._notes += call.notes
            if call.missing:
                self._by_requests(asked, [*call.missing], cancel, progress)
        return asked.vectors

    def _by_requests(
        self, asked: _Asked, plain: Sequence[str], cancel: CancelToken | None, progress: Progress | None
    ) -> None:
        done = len(asked.wanted) - len(plain)

        def report(now: int, _: int, label: str) -> None:
            if progress is not None:
                progress(done + now, len(asked.wanted), label)

        def found(positions: Sequence[int], vectors: Sequence[Vector | None]) -> None:
            asked.found({plain[at]: vector for at, vector in zip(positions, vectors, strict=True)})

        try:
            self._inner.embed_documents([asked.wanted[key] for key in plain], cancel, report, found)
        except TextRefused as exc:
            exc.position = asked.positions[plain[exc.position]][0]
            raise


class _Asked:
    """The texts of one call, equal ones taken together, and the vectors as they come in."""

    def __init__(self, texts: Sequence[str], keep: Keep | None) -> None:
        self._keep = keep
        self.vectors: list[Vector | None] = [None] * len(texts)
        #: What is to be embedded, by hash, as JSON in UTF-8 can carry it; and where it is in the texts.
        self.wanted: dict[str, str] = {}
        self.positions: dict[str, list[int]] = {}
        blank: list[int] = []
        for position, text in enumerate(texts):
            if text.strip():
                key = text_hash(text)
                self.wanted.setdefault(key, sendable(text))
                self.positions.setdefault(key, []).append(position)
            else:
                blank.append(position)
        if blank and keep is not None:
            keep(blank, [None] * len(blank))

    def found(self, vectors: Mapping[str, Vector | None]) -> None:
        for key, vector in vectors.items():
            for position in self.positions[key]:
                self.vectors[position] = vector
        if self._keep is not None:
            positions = [position for key in vectors for position in self.positions[key]]
            self._keep(positions, [self.vectors[position] for position in positions])


def with_batches(
    embedder: Embedder, records: ProviderRecords, settings: BatchSettings, *, agent: str = "main"
) -> Embedder:
    """``embedder`` with batch jobs when they are enabled and its provider has them, else itself. Jobs and
    their usage are stored in ``records``."""
    from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder

    if not settings.enabled or not isinstance(embedder, RemoteEmbedder):
        return embedder
    service = batch_service(embedder.id, embedder.transport, embedder.model)
    if service is None:
        return embedder
    return BatchEmbedder(
        embedder,
        BatchJobs(
            service,
            records,
            settings,
            provider_key=embedder.key,
            agent=agent or "main",
            meter=records.add_usage,
        ),
    )
