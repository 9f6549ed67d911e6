"""Embeddings over HTTP from any provider whose protocol is known (``wires``).

Texts are packed into requests, several of which are in flight. A request that a server refuses as too large
is sent in halves, and later ones have no more texts than these.
"""

from __future__ import annotations

import math
import queue
from array import array
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from openclaw_mem_engine.cancellation import LinkedToken
from openclaw_mem_engine.providers.base import (
    BadAnswer,
    NotConfigured,
    RequestFailed,
    TextRefused,
    Usage,
    check_vectors,
    stop_if_cancelled,
)
from openclaw_mem_engine.providers.base_embedder import BaseEmbedder
from openclaw_mem_engine.providers.prices import estimated_tokens
from openclaw_mem_engine.providers.remote.limits import (
    MAX_BATCH_BYTES,
    Packing,
    batch_end,
    max_input_bytes,
    sendable,
)
from openclaw_mem_engine.providers.remote.transport import RETRY_CAP_S, TIMING, RetryPolicy, Timing, Transport
from openclaw_mem_engine.providers.remote.wires import SPLIT_STATUSES, parsed

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.providers.base import Floats, Keep, Meter, Purpose, Vector
    from openclaw_mem_engine.providers.registry import EmbedderSpec
    from openclaw_mem_engine.providers.remote.wires import Wire

#: (first input, end of inputs, body) of an answered request, and (first, end) of a batch.
Answered: TypeAlias = tuple[int, int, bytes]
Batch: TypeAlias = tuple[int, int]

#: Seconds after which a calling thread that waits for answers can be interrupted.
_SLICE_S = 0.1


class RemoteEmbedder(BaseEmbedder):
    """Embeddings from one endpoint.

    Address and model of ``spec`` default to those of the ``wire``'s provider, whose own host wants a key
    (NotConfigured at the first text). All tries of a query together take at most ``timeout_s``; a try of a
    document request ``batch_timeout_s``. ``meter`` gets the usage of every answered request. Raises
    ConfigError for a base URL, key or header that cannot be sent.
    """

    def __init__(
        self,
        wire: Wire,
        spec: EmbedderSpec,
        *,
        max_retries: int = 5,
        max_batch_items: int | None = None,
        meter: Meter | None = None,
        timing: Timing = TIMING,
    ) -> None:
        self.wire = wire
        self.id = wire.id
        self.model = wire.model_name(spec.model)
        self.dims: int | None = None
        self.max_input_bytes = max_input_bytes(self.id, self.model)
        #: Sends requests for other interfaces of this endpoint as well; call ``check_key`` before.
        self.transport = Transport(
            wire, base_url=spec.base_url, api_key=spec.api_key, headers=spec.headers, timing=timing
        )
        self.base_url = self.transport.base_url
        self.host = "" if self.transport.is_loopback else self.transport.host
        self.key = wire.space_key(self.base_url, self.model, spec.headers)
        is_public = bool(wire.public_host) and urlsplit(self.base_url).hostname == wire.public_host
        self._needs_key = is_public and not self.transport.has_key
        self._key_missing = spec.key_missing
        self._timeouts_s: dict[Purpose, float] = {"query": spec.timeout_s, "document": spec.batch_timeout_s}
        self._policies: dict[Purpose, RetryPolicy] = {
            # A query should be quick, and BM25 can answer instead.
            "query": RetryPolicy(min(max_retries, 3), max_hint_s=RETRY_CAP_S),
            "document": RetryPolicy(max_retries),
        }
        self._concurrency = max(1, spec.concurrency)
        #: Inputs of one request; fewer once the server has refused so many and taken the halves.
        self._max_items = max_batch_items or wire.max_items
        self._meter = meter

    def check_key(self) -> None:
        """Raises NotConfigured when this endpoint wants a key and there is none."""
        if (missing := self.why_not()) is not None:
            raise NotConfigured(missing)

    @property
    def awaited(self) -> tuple[str, str, str]:
        return self.transport.host, *self.transport.retrying

    def why_not(self) -> str | None:
        if not self._needs_key:
            return None
        why = f" ({self._key_missing.rstrip('.')})" if self._key_missing else ""
        return (
            f"No API key for {self.transport.host}{why}: set {self.wire.key_variable} or, for the primary "
            "provider, provider.api_key in config.toml; or use --provider static."
        )

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Floats | None:
        try:
            return super().embed_query(text, cancel)
        except RequestFailed as exc:
            if exc.status not in SPLIT_STATUSES:
                raise
            raise _refused(exc, 0) from None

    def embed_batch(
        self, texts: Sequence[str], purpose: Purpose, cancel: CancelToken | None
    ) -> list[Vector | None]:
        self.check_key()
        inputs = [sendable(text) for text in texts]
        return self._vectors_of(self._ask(inputs, purpose, cancel), inputs)

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        keep: Keep | None = None,
    ) -> list[Vector | None]:
        """As the protocol says. The first failure ends what is in flight; a text that is refused although it
        was sent alone only keeps the rest from being sent."""
        vectors: list[Vector | None] = [None] * len(texts)
        packing = Packing(texts)
        if not packing.positions:
            return vectors
        self.check_key()
        done = len(texts) - len(packing.positions)
        # Closed at once when keep or progress raise, not at the next garbage collection.
        with closing(self._answers(packing, cancel)) as answers:
            for start, end, body in answers:
                found = self._vectors_of(body, packing.inputs[start:end])
                positions = packing.positions[start:end]
                for position, vector in zip(positions, found, strict=True):
                    vectors[position] = vector
                if keep is not None:
                    keep(positions, found)
                done += len(found)
                if progress is not None:
                    progress(done, len(texts), "Embedding")
        return vectors

    def close(self) -> None:
        self.transport.close()

    def _answers(self, packing: Packing, cancel: CancelToken | None) -> Generator[Answered, None, None]:
        """Every answer, as they come in."""
        batches = self._requests(packing)
        first = next(batches)
        batches = chain([first], batches)
        if self._concurrency > 1 and first[1] < len(packing.inputs):
            yield from self._in_parallel(packing, batches, cancel)
        else:
            for batch in batches:
                yield from self._embed(packing, *batch, cancel)

    def _requests(self, packing: Packing) -> Iterator[Batch]:
        """(start, end) of the inputs for one request each, cut late: with what was refused until then."""
        end = 0
        while end < len(packing.inputs):
            start, end = end, batch_end(packing.sizes, end, MAX_BATCH_BYTES, self._max_items)
            yield start, end

    def _in_parallel(
        self, packing: Packing, batches: Iterator[Batch], cancel: CancelToken | None
    ) -> Iterator[Answered]:
        """The answers to all ``batches``, as they come in.

        Batches are sent by threads, one ahead of what can run. Raises the first failure, once all threads
        have ended; a TextRefused lets the batches in flight finish (they are paid for), and gives way to any
        other failure.
        """
        from concurrent.futures import ThreadPoolExecutor

        stop = LinkedToken(cancel)
        # An answer, or the failure of a batch, or None for a batch that is finished.
        found: queue.SimpleQueue[Answered | Exception | None] = queue.SimpleQueue()

        def run(batch: Batch) -> None:
            try:
                for answer in self._embed(packing, *batch, stop):
                    found.put(answer)
            except Exception as exc:  # noqa: BLE001 - raised again in the calling thread
                found.put(exc)
            else:
                found.put(None)

        failure: Exception | None = None
        pending = 0
        pool = ThreadPoolExecutor(self._concurrency, "openclaw-mem-embed")
        try:
            while True:
                room = 0 if failure is not None else self._concurrency + 1 - pending
                for batch in islice(batches, room):
                    pool.submit(run, batch)
                    pending += 1
                if not pending:
                    break
                try:
                    answer = found.get(timeout=_SLICE_S)
                except queue.Empty:
                    continue
                if isinstance(answer, tuple):
                    yield answer
                    continue
                pending -= 1
                if answer is None:
                    continue
                is_one_text = isinstance(answer, TextRefused)
                if failure is None or (isinstance(failure, TextRefused) and not is_one_text):
                    failure = answer
                if not is_one_text:
                    stop.set()
        finally:
            # Also when the caller is interrupted: requests in flight end within a fraction of a second.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        if failure is not None:
            raise failure

    def _embed(
        self, packing: Packing, start: int, end: int, cancel: CancelToken | None
    ) -> Iterator[Answered]:
        """The answers to inputs ``start`` to ``end``: one, or several when the server has a cap."""
        most = self._max_items
        if end - start > most:  # found out since this batch was cut
            for part in range(start, end, most):
                yield from self._embed(packing, part, min(part + most, end), cancel)
            return
        try:
            body = self._ask(packing.inputs[start:end], "document", cancel)
        except RequestFailed as exc:
            if exc.status not in SPLIT_STATUSES:
                raise
            if end - start == 1:
                how = f" It was sent as the only text: {packing.sizes[start]:,} bytes."
                raise _refused(exc, packing.positions[start], how) from None
        else:
            yield start, end, body
            return
        stop_if_cancelled(cancel)
        half = (end - start + 1) // 2
        yield from self._embed(packing, start, start + half, cancel)
        yield from self._embed(packing, start + half, end, cancel)
        self._max_items = min(self._max_items, half)

    def _ask(self, texts: Sequence[str], purpose: Purpose, cancel: CancelToken | None) -> bytes:
        """The body of the answer to one request."""
        path, body = self.wire.request(self.model, texts, purpose)
        timeout_s = self._timeouts_s[purpose]
        return self.transport.request(
            "POST",
            path,
            json=body,
            timeout_s=timeout_s,
            policy=self._policies[purpose],
            total_s=timeout_s if purpose == "query" else math.inf,
            cancel=cancel,
        )

    def _vectors_of(self, body: bytes, texts: list[str]) -> list[Vector | None]:
        label = f"{self.id} embeddings at {self.transport.host}"
        answer = parsed(body, label)
        if self._meter is not None:
            tokens = self.wire.tokens(answer)
            estimate = estimated_tokens(sum(len(text.encode()) for text in texts))
            self._meter(Usage(self.id, self.model, 1, len(texts), tokens or estimate, not tokens))
        rows = self.wire.rows(answer, len(texts))
        if rows is None:
            raise BadAnswer(
                f"{label} sent JSON without a list of embeddings. "
                f"Check that the base URL is that of an API with the protocol of {self.id}."
            )
        arrays = [_array_of(row) for row in rows]
        # Of one length. Whether that is the length of an index, the index tells.
        vectors = check_vectors(arrays, expected=len(texts), dims=None, provider=label)
        self.dims = next((len(vector) for vector in vectors if vector is not None), self.dims)
        return vectors


def _array_of(row: object) -> object:
    """A list of numbers as an array, twice as fast as numpy does it; anything else as it is."""
    if type(row) is list:
        with suppress(TypeError, OverflowError):
            return array("d", row)
    return row


def _refused(why: RequestFailed, position: int, how: str = "") -> TextRefused:
    return TextRefused(f"{why}{how}", position=position, status=why.status, retry_after_s=why.retry_after_s)
