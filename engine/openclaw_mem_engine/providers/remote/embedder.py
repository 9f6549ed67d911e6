"""Embeddings over HTTP from any provider whose protocol is known (``wires``).

Texts are packed into requests, several of which are in flight. A server that refuses a request as too large
is asked with halves, and what it takes is remembered.
"""

from __future__ import annotations

import math
import queue
import random
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from openclaw_mem_engine.providers.base import (
    BATCH_TIMEOUT_S,
    QUERY_TIMEOUT_S,
    BadAnswer,
    NotConfigured,
    RequestFailed,
    TextRefused,
    Usage,
    check_vectors,
    stop_if_cancelled,
)
from openclaw_mem_engine.providers.prices import estimated_tokens
from openclaw_mem_engine.providers.remote.limits import MAX_BATCH_BYTES, LearnedCaps, max_input_bytes
from openclaw_mem_engine.providers.remote.packing import Job, array_of
from openclaw_mem_engine.providers.remote.retry import RetryPolicy
from openclaw_mem_engine.providers.remote.transport import Transport
from openclaw_mem_engine.providers.remote.wires.base import SPLIT_STATUSES, check_sendable, parsed, sendable

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken, LinkedToken
    from openclaw_mem_engine.model import Note, Progress
    from openclaw_mem_engine.providers.base import Keep, Meter, Vector
    from openclaw_mem_engine.providers.remote.limits import Caps
    from openclaw_mem_engine.providers.remote.wires import Purpose, Wire

    #: (first input, end of inputs, body) of every answered request.
    _Answers: TypeAlias = Generator[tuple[int, int, bytes], None, None]

#: While waiting for answers, so often the calling thread can be interrupted; in seconds.
_SLICE_S = 0.1


class RemoteEmbedder:
    """Embeddings from one endpoint.

    ``base_url`` and ``model`` default to those of the ``wire``'s provider. An empty ``api_key`` sends none;
    the provider's own host then refuses at the first text (NotConfigured, with ``key_missing``). All tries of
    a query together take at most ``query_timeout_s``; a try of a document request ``batch_timeout_s``.
    ``concurrency``: requests in flight. ``meter`` hears what every answered request has used; ``caps``
    remembers how many inputs the server takes. ``sleep``, ``random``, ``clock`` (monotonic) and ``now``
    (since 1970) come in for tests.
    Raises ConfigError for a base URL, key or header that cannot be sent.
    """

    languages = "any"
    cheap_lines = False

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
        sent = {"Content-Type": "application/json"} | (
            {wire.key_header: wire.key_value(api_key)} if api_key else {}
        )
        given = {name.lower() for name in own}
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
        # Someone waits for a query, and keyword search can answer instead.
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
    def place(self) -> str:
        """The host that the text goes to; "" for a server on this machine."""
        return "" if self._transport.is_loopback else self._transport.host

    @property
    def max_input_bytes(self) -> int | None:
        return max_input_bytes(self.id, self.model)

    @property
    def transport(self) -> Transport:
        """Where requests go through, for what else this endpoint offers; call ``check_key`` before."""
        return self._transport

    def check_key(self) -> None:
        """Raises NotConfigured when this endpoint wants a key and there is none."""
        # Said here, since it is clearer than the server's 401, and nothing has to be sent for it.
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
        """The vector of a query; None for blank text or a zero vector. Raises ProviderError (TextRefused with
        the place 0 when the server does not take this text), Cancelled.

        All tries together take no longer than the query timeout.
        """
        if not text.strip():
            return None
        self.check_key()
        deadline = self._clock() + self._query_timeout_s
        texts = [sendable(text)]
        try:
            body = self._ask(texts, "query", self._query_policy, deadline, cancel)
        except RequestFailed as exc:
            if exc.status not in SPLIT_STATUSES:
                raise
            raise _refused(exc, 0) from None
        return self._vectors_of(body, texts)[0]

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
        job = Job(texts)
        if not job.places:
            return vectors
        self.check_key()
        done = len(texts) - len(job.places)
        # Closed at once when keep or progress raise, not when somebody collects garbage.
        with closing(self._answers(job, cancel)) as answers:
            for start, end, body in answers:
                found = self._vectors_of(body, job.inputs[start:end])
                places = job.places[start:end]
                for place, vector in zip(places, found, strict=True):
                    vectors[place] = vector
                if keep is not None:
                    keep(places, found)
                done += len(found)
                if progress is not None:
                    progress(done, len(texts), "Embedding")
        return vectors

    def take_notes(self) -> tuple[Note, ...]:
        """Nothing: every text is embedded as it is, or the call fails."""
        return ()

    def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        self._transport.close()

    def _answers(self, job: Job, cancel: CancelToken | None) -> _Answers:
        """Every answer, as they come in."""
        first = job.next_batch(self._caps)
        if first is None:
            return
        if self._concurrency == 1 or first[1] == len(job.inputs):
            batch: tuple[int, int] | None = first
            while batch is not None:
                yield from self._embed(job, *batch, cancel)
                batch = job.next_batch(self._caps)
            return
        yield from self._answers_in_parallel(job, first, cancel)

    def _answers_in_parallel(self, job: Job, first: tuple[int, int], cancel: CancelToken | None) -> _Answers:
        """The threads only send and receive. Reading an answer is work that holds the interpreter; done by
        one thread, the calling one, it is faster than by several that wait for each other."""
        from concurrent.futures import ThreadPoolExecutor

        stop = LinkedToken(cancel)
        # An answer, or the failure of a batch, or None for a batch that is through.
        found: queue.SimpleQueue[tuple[int, int, bytes] | Exception | None] = queue.SimpleQueue()

        def embed(start: int, end: int) -> None:
            try:
                for answer in self._embed(job, start, end, stop):
                    found.put(answer)
            except Exception as exc:  # noqa: BLE001 - raised again in the calling thread
                found.put(exc)
            else:
                found.put(None)

        failure: Exception | None = None
        pool = ThreadPoolExecutor(self._concurrency, "openclaw-mem-embed")
        try:
            pool.submit(embed, *first)
            pending = 1
            while pending:
                # One more than can run: the next is ready when one ends. Cut late, with all that is learned.
                while failure is None and pending <= self._concurrency:
                    batch = job.next_batch(self._caps)
                    if batch is None:
                        break
                    pool.submit(embed, *batch)
                    pending += 1
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
                if not is_one_text:  # else what is in flight will be answered, and need not be paid twice
                    stop.set()
        finally:
            # Also when the caller is interrupted: requests in flight notice within a fraction of a second.
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
        if failure is not None:
            raise failure

    def _embed(self, job: Job, start: int, end: int, cancel: CancelToken | None) -> _Answers:
        """The answers to the requests that inputs ``start`` to ``end`` take: one, or as many as a server with
        a cap wants."""
        most = self._caps.max_items
        if end - start > most:  # learned since this batch was cut
            for part in range(start, end, most):
                yield from self._embed(job, part, min(part + most, end), cancel)
            return
        sizes = job.sizes[start:end]
        try:
            body = self._ask(job.inputs[start:end], "document", self._policy, math.inf, cancel)
        except RequestFailed as exc:
            if exc.status not in SPLIT_STATUSES:
                raise
            if end - start == 1:
                raise _refused(exc, job.places[start], f" It was sent alone: {sizes[0]:,} bytes.") from None
        else:
            self._caps.passed(sizes)
            yield start, end, body
            return
        stop_if_cancelled(cancel)
        half = (end - start + 1) // 2
        yield from self._embed(job, start, start + half, cancel)
        yield from self._embed(job, start + half, end, cancel)
        self._caps.halved(sizes, half)

    def _ask(
        self,
        texts: list[str],
        purpose: Purpose,
        policy: RetryPolicy,
        deadline: float,
        cancel: CancelToken | None,
    ) -> bytes:
        """The answer to one request, not yet read."""
        path, body = self.wire.request(self.model, texts, purpose)
        return self._transport.request(
            "POST",
            path,
            json=body,
            timeout_s=self._batch_timeout_s if deadline == math.inf else self._query_timeout_s,
            policy=policy,
            deadline=deadline,
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
        return self._checked([array_of(row) for row in rows], len(texts), label)

    def _checked(self, rows: list[object], expected: int, label: str) -> list[Vector | None]:
        vectors = check_vectors(rows, expected=expected, dims=self.dims, provider=label)
        if self.dims is None:
            found = next((len(vector) for vector in vectors if vector is not None), None)
            with self._lock:
                if self.dims is None:
                    self.dims = found
                known = self.dims
            if known is not None and found not in (None, known):  # two first answers at once disagree
                check_vectors(rows, expected=expected, dims=known, provider=label)
        return vectors

    def _count(self, texts: list[str], tokens: int) -> None:
        if self._meter is None:
            return
        estimate = estimated_tokens(sum(len(text.encode()) for text in texts))
        self._meter(Usage(self.id, self.model, 1, len(texts), tokens or estimate, not tokens))


def _refused(why: RequestFailed, place: int, how: str = "") -> TextRefused:
    return TextRefused(f"{why}{how}", place=place, status=why.status, retry_after_s=why.retry_after_s)
