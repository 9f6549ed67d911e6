"""Embeddings from any endpoint that speaks the OpenAI protocol: ``POST {base_url}/embeddings``.

The ``openai`` package does the talking and is imported at the first request. Its own retries are off: there
is one retry layer, here, so that waiting is visible, bounded and can be cancelled. No API key or header value
ever gets into a message: errors are built from our own words, and what a server says is redacted before it
is quoted.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.providers.base import (
    BATCH_TIMEOUT_S,
    QUERY_TIMEOUT_S,
    RequestFailed,
    check_vectors,
    stop_if_cancelled,
)
from openclaw_mem_engine.providers.openai_wire import (
    MAX_BATCH_BYTES,
    MAX_BATCH_ITEMS,
    SPLIT_STATUSES,
    advice,
    batch_end,
    check_sendable,
    error_of_body,
    host_of,
    model_name,
    provider_key,
    rows_of_answer,
    sendable,
)
from openclaw_mem_engine.providers.retry import RetryPolicy, is_worth_retrying, retry_after_s
from openclaw_mem_engine.redact import redact

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI

    from openclaw_mem_engine.model import CancelToken, Progress
    from openclaw_mem_engine.providers.base import Vector

DEFAULT_BASE_URL = "https://api.openai.com/v1"
DEFAULT_MODEL = "text-embedding-3-small"
OPENAI_HOST = "api.openai.com"

#: A request without any answer may have been heard: it is sent once more, not for ever.
_SILENT_RETRIES = 1
#: While waiting for a retry the cancel token is looked at this often.
_SLICE_S = 0.2
_QUOTE_CHARS = 300
_READ_CHARS = 64_000


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why one try failed. ``hint_s``: seconds that the server asks to wait."""

    status: int | None
    said: str
    worth_retrying: bool
    hint_s: float | None = None


class OpenAICompatEmbedder:
    """Embeddings over HTTP.

    ``sleep``, ``random``, ``clock`` (monotonic) and ``now`` (since 1970) come in for tests. An empty
    ``api_key`` sends no Authorization header. Raises ConfigError for a base URL, key or header that cannot be
    sent.
    """

    id = "openai"
    languages = "any"
    cheap_lines = False

    def __init__(
        self,
        base_url: str = DEFAULT_BASE_URL,
        api_key: str = "",
        model: str = DEFAULT_MODEL,
        *,
        headers: Mapping[str, str] | None = None,
        max_batch_items: int = MAX_BATCH_ITEMS,
        max_batch_bytes: int = MAX_BATCH_BYTES,
        query_timeout_s: float = QUERY_TIMEOUT_S,
        batch_timeout_s: float = BATCH_TIMEOUT_S,
        max_retries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._base_url = base_url.strip().rstrip("/")
        self._host, self._is_loopback = host_of(self._base_url)
        self._api_key = api_key.strip()
        # The SDK adds its own "Authorization": in another spelling ours would be a second one beside it.
        self._headers = {
            "Authorization" if name.lower() == "authorization" else name: value
            for name, value in (headers or {}).items()
        }
        check_sendable(self._api_key, self._headers)
        self._is_authorized = bool(self._api_key) or "Authorization" in self._headers
        self.model = model_name(model) or DEFAULT_MODEL
        self.key = provider_key(self._base_url, self.model, self._headers)
        self.dims: int | None = None
        self._max_batch_items = max(1, max_batch_items)
        self._max_batch_bytes = max_batch_bytes
        self._query_timeout_s = query_timeout_s
        self._batch_timeout_s = batch_timeout_s
        self._policy = RetryPolicy(max_retries=max_retries)
        # Someone waits for a query, and keyword search can answer instead.
        self._query_policy = replace(
            self._policy, max_retries=min(max_retries, 3), max_hint_s=self._policy.cap_s
        )
        self._sleep, self._random, self._clock, self._now = sleep, random, clock, now
        self._client: OpenAI | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"OpenAICompatEmbedder(host={self._host!r}, model={self.model!r})"

    @property
    def _label(self) -> str:
        return f"openai embeddings at {self._host}"

    def embed_query(self, text: str) -> Vector | None:
        """The vector of a query; None for blank text or a zero vector. Raises ProviderError.

        All tries together take no longer than the query timeout.
        """
        if not text.strip():
            return None
        deadline = self._clock() + self._query_timeout_s
        return self._request([sendable(text)], self._query_policy, deadline, None)[0]

    def embed_documents(
        self,
        texts: Sequence[str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
    ) -> list[Vector | None]:
        """One vector per text, in order; None for blank text (never sent) and for a zero vector.

        ``progress`` is called after every request. Raises ProviderError, or Cancelled between two requests.
        """
        vectors: list[Vector | None] = [None] * len(texts)
        filled = [number for number, text in enumerate(texts) if text.strip()]
        inputs = [sendable(texts[number]) for number in filled]
        sizes = [len(text.encode()) for text in inputs]
        start = 0
        while start < len(inputs):
            stop_if_cancelled(cancel)
            end = batch_end(sizes, start, self._max_batch_bytes, self._max_batch_items)
            for number, vector in zip(
                filled[start:end], self._embed_batch(inputs[start:end], cancel), strict=True
            ):
                vectors[number] = vector
            start = end
            if progress is not None:
                done = filled[start] if start < len(filled) else len(texts)
                progress(done, len(texts), "Embedding")
        return vectors

    def close(self) -> None:
        """Closes the connections; the next request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _embed_batch(self, texts: list[str], cancel: CancelToken | None) -> list[Vector | None]:
        try:
            return self._request(texts, self._policy, math.inf, cancel)
        except RequestFailed as exc:
            if len(texts) == 1 or exc.status not in SPLIT_STATUSES:
                raise
        # Servers cap the inputs of a request at 10, 16, 20 or 64 and word the refusal as they like: halve,
        # and remember what went through.
        stop_if_cancelled(cancel)
        half = (len(texts) + 1) // 2
        vectors = self._embed_batch(texts[:half], cancel) + self._embed_batch(texts[half:], cancel)
        self._max_batch_items = min(self._max_batch_items, half)
        return vectors

    def _request(
        self, texts: list[str], policy: RetryPolicy, deadline: float, cancel: CancelToken | None
    ) -> list[Vector | None]:
        """Vectors of one request, tried again as ``policy`` allows until ``deadline`` (on ``clock``)."""
        retry = silent = 0
        while True:
            timeout_s = min(self._batch_timeout_s, deadline - self._clock())
            body, refusal = self._try(texts, timeout_s)
            if refusal is None:
                break
            retry += 1
            silent += refusal.status is None
            wait_s = policy.wait_s(retry, refusal.hint_s, self._random)
            if (
                wait_s is None
                or not refusal.worth_retrying
                or silent > _SILENT_RETRIES
                or self._clock() + wait_s >= deadline
            ):
                raise self._failed(refusal, tries=retry)
            self._wait(wait_s, cancel)
        rows = rows_of_answer(body, expected=len(texts), provider=self._label)
        vectors = check_vectors(rows, expected=len(texts), dims=self.dims, provider=self._label)
        if self.dims is None:
            self.dims = next((len(vector) for vector in vectors if vector is not None), None)
        return vectors

    def _try(self, texts: list[str], timeout_s: float) -> tuple[bytes, _Refusal | None]:
        """The body of an answer, or why there is none."""
        import openai

        try:
            answer = self._connected().embeddings.with_raw_response.create(
                model=self.model,
                input=texts,
                encoding_format="float",
                extra_headers={} if self._is_authorized else {"Authorization": openai.Omit()},
                timeout=max(timeout_s, 0.001),
            )
        except openai.APITimeoutError:
            return b"", _Refusal(None, f"waited {timeout_s:.3g} s", worth_retrying=True)
        except openai.APIConnectionError as exc:
            said = self._quote(str(exc.__cause__ or exc))
            return b"", _Refusal(None, said, worth_retrying=True)
        except openai.APIStatusError as exc:
            return b"", self._refusal_of(exc)
        except openai.OpenAIError as exc:
            return b"", _Refusal(None, self._quote(str(exc)), worth_retrying=False)
        return answer.http_response.content, None

    def _refusal_of(self, exc: APIStatusError) -> _Refusal:
        said, code = error_of_body(exc.response.text)
        # An account without credit answers 429 as well, and stays without credit.
        out_of_credit = "insufficient_quota" in code
        return _Refusal(
            exc.status_code,
            self._quote(said),
            worth_retrying=is_worth_retrying(exc.status_code) and not out_of_credit,
            hint_s=retry_after_s(exc.response.headers, self._now()),
        )

    def _failed(self, refusal: _Refusal, tries: int) -> RequestFailed:
        status = "no answer" if refusal.status is None else refusal.status
        parts = [f"openai embeddings failed: {status} from {self._host}"]
        if tries > 1:
            parts.append(f" after {tries} tries")
        if refusal.said:
            parts.append(f": {refusal.said}")
        if refusal.hint_s is not None:
            parts.append(f" (the server asks to wait {refusal.hint_s:.0f} s)")
        return RequestFailed(f"{''.join(parts).rstrip('.')}. {advice(refusal.status)}", status=refusal.status)

    def _quote(self, said: str) -> str:
        """What a server said, on one line, short, without secrets and without terminal controls."""
        secrets = (self._api_key, *(value for value in self._headers.values() if len(value) >= 8))
        masked = redact(said[:_READ_CHARS], secrets)
        line = " ".join("".join(char if char.isprintable() else " " for char in masked).split())
        return line if len(line) <= _QUOTE_CHARS else f"{line[:_QUOTE_CHARS]}…"

    def _wait(self, seconds: float, cancel: CancelToken | None) -> None:
        while seconds > 0:
            stop_if_cancelled(cancel)
            self._sleep(min(seconds, _SLICE_S))
            seconds -= _SLICE_S
        stop_if_cancelled(cancel)

    def _connected(self) -> OpenAI:
        client = self._client
        if client is None:
            with self._lock:
                client = self._client = self._client or self._connect()
        return client

    def _connect(self) -> OpenAI:
        # Local servers want no key; OpenAI always does, and saying so beats its 401.
        if not self._is_authorized and urlsplit(self._base_url).hostname == OPENAI_HOST:
            raise ProviderError(
                f"No API key for {OPENAI_HOST}: set the environment variable OPENAI_API_KEY or "
                "agents.defaults.memorySearch.remote.apiKey in OpenClaw's configuration, "
                'or choose provider "static" (built in, no key) or "none".'
            )
        import openai

        client = openai.OpenAI(
            api_key=self._api_key or "none",  # never None: that would read the environment
            base_url=self._base_url,
            max_retries=0,
            default_headers=self._headers,
            http_client=openai.DefaultHttpxClient(
                # A redirect would carry the notes and the headers to a host that nobody configured.
                follow_redirects=False,
                # A proxy for the internet cannot reach this machine's loopback.
                trust_env=not self._is_loopback,
            ),
        )
        client.organization = client.project = None  # from the environment, meant for another endpoint
        return client
