"""Embeddings over HTTP from any provider whose protocol is known (``wires``).

Texts are packed into requests, several of which are in flight. A request that a server refuses as too large
is sent in halves, and the size that passes is stored.
"""

from __future__ import annotations

import math
import random
import threading
import time
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

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
from openclaw_mem_engine.providers.registry import BATCH_TIMEOUT_S, QUERY_TIMEOUT_S
from openclaw_mem_engine.providers.remote.hosts import check_sendable
from openclaw_mem_engine.providers.remote.limits import (
    MAX_BATCH_BYTES,
    LearnedCaps,
    Packing,
    max_input_bytes,
    sendable,
)
from openclaw_mem_engine.providers.remote.parallel import in_parallel
from openclaw_mem_engine.providers.remote.retry import RetryPolicy
from openclaw_mem_engine.providers.remote.transport import Transport
from openclaw_mem_engine.providers.remote.wires import SPLIT_STATUSES, parsed

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.providers.base import Caps, Keep, Meter, Purpose, Vector
    from openclaw_mem_engine.providers.remote.parallel import Answered
    from openclaw_mem_engine.providers.remote.wires import Wire


class RemoteEmbedder(BaseEmbedder):
    """Embeddings from one endpoint.

    ``base_url`` and ``model`` default to those of the ``wire``'s provider. An empty ``api_key`` sends none;
    the provider's own host then refuses at the first text (NotConfigured, with ``key_missing``). All tries of
    a query together take at most ``query_timeout_s``; a try of a document request ``batch_timeout_s``.
    ``concurrency``: requests in flight. ``meter`` is called with the usage of every answered request;
    ``caps`` stores how many inputs the server takes. ``sleep``, ``random``, ``clock`` (monotonic) and ``now``
    (since 1970) are parameters for tests.
    Raises ConfigError for a base URL, key or header that cannot be sent.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        base_url: str = "",
        api_key: str = "",
        key_missing: str = "",
        model: str = "",
        headers: Mapping[str, str] | None = None,
        query_timeout_s: float = QUERY_TIMEOUT_S,
        batch_timeout_s: float = BATCH_TIMEOUT_S,
        max_retries: int = 5,
        concurrency: int = 4,
        max_batch_items: int | None = None,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        meter: Meter | None = None,
        caps: Caps | None = None,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.wire = wire
        self.id = wire.id
        self.model = wire.model_name(model)
        self.base_url = wire.base_url(base_url)
        self.dims: int | None = None
        own = dict(headers or {})
        api_key = api_key.strip()
        check_sendable(wire.id, api_key, own)
        self.key = wire.space_key(self.base_url, self.model, own)
        given = {name.lower() for name in own}
        sent = {"Content-Type": "application/json"}
        if api_key:
            sent[wire.key_header] = wire.key_value(api_key)
        sent = {name: value for name, value in sent.items() if name.lower() not in given} | own
        self._transport = Transport(
            wire.id,
            self.base_url,
            sent,
            secrets=(api_key,),
            advice=wire.advice,
            sleep=sleep,
            random=random,
            clock=clock,
            now=now,
        )
        has_key = bool(api_key) or not given.isdisjoint({"authorization", wire.key_header.lower()})
        at_home = bool(wire.public_host) and urlsplit(self.base_url).hostname == wire.public_host
        self._needs_key = at_home and not has_key
        self._key_missing = key_missing
        self._query_timeout_s, self._batch_timeout_s = query_timeout_s, batch_timeout_s
        self._policy = RetryPolicy(max_retries=max_retries)
        # A query should be quick, and BM25 can answer instead.
        self._query_policy = replace(
            self._policy, max_retries=min(max_retries, 3), max_hint_s=self._policy.cap_s
        )
        self._concurrency = max(1, concurrency)
        self._caps = LearnedCaps(self.key, max_batch_items or wire.max_items, max_batch_bytes, caps)
        self._meter = meter
        self._clock = clock
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"RemoteEmbedder({self.id}, host={self._transport.host!r}, model={self.model!r})"

    @property
    def host(self) -> str:
        """The host that text is sent to; "" for a server on this machine."""
        return "" if self._transport.is_loopback else self._transport.host

    @property
    def max_input_bytes(self) -> int | None:
        return max_input_bytes(self.id, self.model)

    @property
    def transport(self) -> Transport:
        """Sends requests for other interfaces of this endpoint; call ``check_key`` before."""
        return self._transport

    def check_key(self) -> None:
        """Raises NotConfigured when this endpoint wants a key and there is none."""
        # Raised here, since it is clearer than the server's 401, and nothing has to be sent for it.
        if (missing := self.why_not()) is not None:
            raise NotConfigured(missing)

    def why_not(self) -> str | None:
        """That this endpoint wants a key and there is none."""
        if not self._needs_key:
            return None
        why = f" ({self._key_missing.rstrip('.')})" if self._key_missing else ""
        return (
            f"No API key for {self._transport.host}{why}: set the environment variable "
            f"{self.wire.key_variable} or agents.defaults.memorySearch.remote.apiKey in OpenClaw's "
            'configuration, or choose provider "static" (built in, no key) or "none".'
        )

    def embed_query(self, text: str, cancel: CancelToken | None = None) -> Vector | None:
        """The vector of a query; None for blank text or a zero vector. All tries together take no longer than
        the query timeout. Raises ProviderError (TextRefused with the position 0 when the server does not take
        this text), Cancelled."""
        try:
            return super().embed_query(text, cancel)
        except RequestFailed as exc:
            if exc.status not in SPLIT_STATUSES:
                raise
            raise _refused(exc, 0) from None

    def embed_batch(
        self, texts: Sequence[str], purpose: Purpose, cancel: CancelToken | None
    ) -> list[Vector | None]:
        """The vectors of one request."""
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
        """One vector per text, in order; None for blank text (never sent) and for a zero vector.

        ``keep`` and ``progress`` are called in this thread after every answered request. The first failure
        ends what is in flight; a text that is refused although it was sent alone only keeps the rest from
        being sent. Raises ProviderError (TextRefused for such a text) or Cancelled.
        """
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
        """Closes the connections; the next request opens new ones."""
        self._transport.close()

    def _answers(self, packing: Packing, cancel: CancelToken | None) -> Generator[Answered, None, None]:
        """Every answer, as they come in."""
        batch = packing.next_batch(self._caps)
        if batch is not None and self._concurrency > 1 and batch[1] < len(packing.inputs):
            # Batches are cut late, with all that is learned about the server by then.
            batches = chain([batch], iter(lambda: packing.next_batch(self._caps), None))
            yield from in_parallel(
                lambda batch, stop: self._embed(packing, *batch, stop), batches, self._concurrency, cancel
            )
            return
        while batch is not None:
            yield from self._embed(packing, *batch, cancel)
            batch = packing.next_batch(self._caps)

    def _embed(
        self, packing: Packing, start: int, end: int, cancel: CancelToken | None
    ) -> Iterator[Answered]:
        """The answers to the requests that inputs ``start`` to ``end`` take: one, or several when the server
        has a cap."""
        most = self._caps.max_items
        if end - start > most:  # learned since this batch was cut
            for part in range(start, end, most):
                yield from self._embed(packing, part, min(part + most, end), cancel)
            return
        sizes = packing.sizes[start:end]
        try:
            body = self._ask(packing.inputs[start:end], "document", cancel)
        except RequestFailed as exc:
            if exc.status not in SPLIT_STATUSES:
                raise
            if end - start == 1:
                raise _refused(
                    exc, packing.positions[start], f" It was sent alone: {sizes[0]:,} bytes."
                ) from None
        else:
            self._caps.passed(sizes)
            yield start, end, body
            return
        stop_if_cancelled(cancel)
        half = (end - start + 1) // 2
        yield from self._embed(packing, start, start + half, cancel)
        yield from self._embed(packing, start + half, end, cancel)
        self._caps.halved(sizes, half)

    def _ask(self, texts: Sequence[str], purpose: Purpose, cancel: CancelToken | None) -> bytes:
        """The body of the answer to one request."""
        path, body = self.wire.request(self.model, texts, purpose)
        is_query = purpose == "query"
        return self._transport.request(
            "POST",
            path,
            json=body,
            timeout_s=self._query_timeout_s if is_query else self._batch_timeout_s,
            policy=self._query_policy if is_query else self._policy,
            deadline=self._clock() + self._query_timeout_s if is_query else math.inf,
            cancel=cancel,
        ).body

    def _vectors_of(self, body: bytes, texts: list[str]) -> list[Vector | None]:
        label = f"{self.id} embeddings at {self._transport.host}"
        answer = parsed(body, label)
        self._count(texts, self.wire.tokens(answer))
        rows = self.wire.rows(answer, len(texts))
        if rows is None:
            raise BadAnswer(
                f"{label} sent JSON without a list of embeddings. "
                f"Check that the base URL is that of an API that speaks as {self.id} does."
            )
        return self._checked([_array_of(row) for row in rows], len(texts), label)

    def _checked(self, rows: list[object], expected: int, label: str) -> list[Vector | None]:
        if self.dims is not None:
            return check_vectors(rows, expected=expected, dims=self.dims, provider=label)
        with self._lock:  # two first answers at once may disagree
            vectors = check_vectors(rows, expected=expected, dims=self.dims, provider=label)
            self.dims = self.dims or next((len(vector) for vector in vectors if vector is not None), None)
        return vectors

    def _count(self, texts: list[str], tokens: int) -> None:
        if self._meter is None:
            return
        estimate = estimated_tokens(sum(len(text.encode()) for text in texts))
        self._meter(Usage(self.id, self.model, 1, len(texts), tokens or estimate, not tokens))


def _array_of(row: object) -> object:
    """A list of numbers as an array, twice as fast as numpy does it; anything else as it is."""
    if type(row) is list:
        with suppress(TypeError, OverflowError):
            return array("d", row)
    return row


def _refused(why: RequestFailed, position: int, how: str = "") -> TextRefused:
    return TextRefused(f"{why}{how}", position=position, status=why.status, retry_after_s=why.retry_after_s)
