"""A remote embedder that sends many documents by batch jobs, and everything else by plain requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import text_hash, utf8
from openclaw_mem_engine.providers.base import TextRefused, stop_if_cancelled
from openclaw_mem_engine.providers.base_embedder import DelegatingEmbedder
from openclaw_mem_engine.providers.batch.jobs import BatchCall, BatchJobs
from openclaw_mem_engine.providers.batch.wires import batch_service

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.config.settings import BatchSettings
    from openclaw_mem_engine.model import Note, Progress
    from openclaw_mem_engine.providers.base import Embedder, Keep, Vector
    from openclaw_mem_engine.providers.records import ProviderRecords
    from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder

#: Fewer new texts are embedded by plain requests: that takes seconds and costs next to nothing, while a job
#: takes minutes to hours. It is what a sync after some edited notes brings.
MIN_TEXTS = 32
#: Seconds between two checks of the cancel token while another call handles jobs.
_SLICE_S = 0.1


class BatchEmbedder(DelegatingEmbedder["RemoteEmbedder"]):
    """``inner`` with the provider's batch interface for ``embed_documents``.

    A text that waits in a job has the vector None in the answer, and ``keep`` is not called for it: only what
    ``keep`` was called for is final. ``waiting`` are the hashes of those texts. Safe to use from several
    threads: one at a time handles jobs, and the others get what it found for them.
    """

    def __init__(self, inner: RemoteEmbedder, jobs: BatchJobs, *, minimum: int = MIN_TEXTS) -> None:
        super().__init__(inner)
        self._jobs, self._minimum = jobs, minimum
        self._lock = threading.Lock()
        self._notes: list[Note] = []
        self._turn = threading.Lock()  # held by the call that handles jobs
        self._calls: list[_Asked] = []
        #: What the calls under way have found: it is paid for, and its job may be forgotten already.
        self._recent: dict[str, Vector | None] = {}
        #: SHA-256 of the texts that the last ``embed_documents`` left to a running job.
        self.waiting: frozenset[str] = frozenset()

    @property
    def dims(self) -> int | None:
        return self._inner.dims or self._jobs.dims

    @property
    def notes(self) -> tuple[Note, ...]:
        """What happened to the jobs since the last ``take_notes``."""
        with self._lock:
            return tuple(self._notes)

    def take_notes(self) -> tuple[Note, ...]:
        """The notes, those of the inner embedder too; the next call returns only new ones."""
        with self._lock:
            notes, self._notes = tuple(self._notes), []
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
        with self._lock:
            is_shared = any(asked.wanted.keys() & call.wanted.keys() for call in self._calls)
            self._calls.append(asked)
        try:
            if is_shared or self._for_jobs(asked.wanted):
                with self._my_turn(cancel):
                    self._embed(asked, cancel, progress)
            else:
                self.waiting = frozenset()
                self._by_requests(asked, [*asked.wanted], cancel, progress)
        finally:
            with self._lock:
                self._calls.remove(asked)
                if not self._calls:
                    self._recent.clear()
        return asked.vectors

    @contextmanager
    def _my_turn(self, cancel: CancelToken | None) -> Iterator[None]:
        while not self._turn.acquire(timeout=_SLICE_S):
            stop_if_cancelled(cancel)
        try:
            yield
        finally:
            self._turn.release()

    def _embed(self, asked: _Asked, cancel: CancelToken | None, progress: Progress | None) -> None:
        """By jobs what is theirs, the rest by plain requests; one call at a time."""
        stop_if_cancelled(cancel)
        with self._lock:
            given = {key: self._recent[key] for key in asked.wanted if key in self._recent}
        if given:
            asked.found(given)
        left = {key: text for key, text in asked.wanted.items() if key not in given}
        by_job = self._for_jobs(left)
        plain = [key for key in left if key not in by_job]
        waiting: frozenset[str] = frozenset()
        if by_job:
            self._inner.check_key()
            call = BatchCall(by_job, cancel, progress, lambda vectors: self._found(asked, vectors), self.dims)
            self._jobs.run(call)
            plain += call.missing
            waiting = frozenset(call.waiting)
            with self._lock:
                self._notes += call.notes
        self.waiting = waiting
        self._by_requests(asked, plain, cancel, progress)

    def _for_jobs(self, wanted: Mapping[str, str]) -> dict[str, str]:
        """Those of the texts that jobs are to embed: all when there are many, else those that have one."""
        known = self._jobs.known(wanted)
        many = len(wanted) - len(known) >= self._minimum and not self._jobs.disabled
        return {key: text for key, text in wanted.items() if many or key in known}

    def _found(self, asked: _Asked, vectors: Mapping[str, Vector | None]) -> None:
        with self._lock:
            self._recent.update(vectors)
        asked.found(vectors)

    def _by_requests(
        self, asked: _Asked, plain: Sequence[str], cancel: CancelToken | None, progress: Progress | None
    ) -> None:
        """The texts with the hashes ``plain``."""
        if not plain:
            return
        done = len(asked.wanted) - len(plain)

        def report(now: int, _: int, label: str) -> None:
            if progress is not None:
                progress(done + now, len(asked.wanted), label)

        def found(positions: Sequence[int], vectors: Sequence[Vector | None]) -> None:
            self._found(asked, {plain[at]: v for at, v in zip(positions, vectors, strict=True)})

        try:
            vectors = self._inner.embed_documents([asked.wanted[key] for key in plain], cancel, report, found)
        except TextRefused as exc:
            exc.position = asked.position_of(plain[exc.position])
            raise
        asked.fill(dict(zip(plain, vectors, strict=True)))


class _Asked:
    """The texts of one call, equal ones taken together, and the vectors as they come in."""

    def __init__(self, texts: Sequence[str], keep: Keep | None) -> None:
        self._keep = keep
        self._positions: dict[str, list[int]] = {}
        self.vectors: list[Vector | None] = [None] * len(texts)
        #: What is to be embedded, by hash, as JSON in UTF-8 can carry it.
        self.wanted: dict[str, str] = {}
        blank: list[int] = []
        for position, text in enumerate(texts):
            if text.strip():
                key = text_hash(text)
                self.wanted.setdefault(key, text if text.isascii() else utf8(text).decode())
                self._positions.setdefault(key, []).append(position)
            else:
                blank.append(position)
        if blank and keep is not None:
            keep(blank, [None] * len(blank))

    def position_of(self, key: str) -> int:
        """The index of a text, the first of equal ones."""
        return self._positions[key][0]

    def fill(self, vectors: Mapping[str, Vector | None]) -> None:
        for key, vector in vectors.items():
            for position in self._positions[key]:
                self.vectors[position] = vector

    def found(self, vectors: Mapping[str, Vector | None]) -> None:
        """These are finished."""
        self.fill(vectors)
        if self._keep is not None:
            positions = [position for key in vectors for position in self._positions[key]]
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
    jobs = BatchJobs(
        service,
        records,
        settings,
        provider_key=embedder.key,
        agent=agent or "main",
        meter=records.add_usage,
    )
    return BatchEmbedder(embedder, jobs)
