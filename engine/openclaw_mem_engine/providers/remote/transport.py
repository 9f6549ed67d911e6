"""Requests to one endpoint: one client under one retry layer.

Retries, waiting and time limits are all here, so that they are visible, bounded and can be cancelled. No API
key or header value ever gets into a message: errors are built from our own words, and what a server says is
redacted before it is quoted.
"""

from __future__ import annotations

import base64
import json as json_library
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed, stop_if_cancelled
from openclaw_mem_engine.providers.remote.hosts import host_of
from openclaw_mem_engine.providers.remote.quoting import Quoting, error_of_body, secrets_in
from openclaw_mem_engine.providers.remote.retry import (
    RateGate,
    RetryPolicy,
    is_worth_retrying,
    retry_after_s,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.remote.http_client import HttpClient, Reply

#: No answer is read further than this, in bytes after decompression.
MAX_ANSWER_BYTES = 64 * 1024 * 1024

#: Seconds between two checks of the cancel token while waiting for a retry.
_SLICE_S = 0.1
#: The values of these are no secrets, and their words are needed in messages.
_PLAIN_HEADERS = frozenset({"accept", "content-type", "user-agent"})
_WEB = ("http://", "https://")


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why one try failed. ``hint_s``: seconds that the server asks to wait. ``is_wrong_key``: whatever the
    status is, the key is the reason."""

    status: int | None
    said: str
    worth_retrying: bool
    hint_s: float | None = None
    is_wrong_key: bool = False


class Transport:
    """Sends requests to one endpoint. Safe to use from several threads, which share connections and wait
    together when the server is asked too often.

    ``headers`` go with every request, the one with the key included; their values, ``secrets``, and what may
    be secret in ``base_url`` (passwords, values of the query) are kept out of messages. User name and
    password in ``base_url`` become a Basic authorization, unless ``headers`` hold another. ``advice`` says
    what to do about a status (None: no answer).
    ``sleep``, ``random``, ``clock`` (monotonic) and ``now`` (since 1970) are parameters for tests.
    Raises ConfigError for a base URL that cannot be used.
    """

    def __init__(
        self,
        provider: str,
        base_url: str,
        headers: Mapping[str, str],
        *,
        secrets: Sequence[str] = (),
        advice: Callable[[int | None], str],
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._provider = provider
        self.host, self.is_loopback = host_of(base_url, provider)
        parts = urlsplit(base_url)
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        self._base_url, self._query = plain.geturl().rstrip("/"), parts.query
        self._headers = {"User-Agent": "openclaw-mem", "Accept": "application/json", **headers}
        keys = [*secrets, *secrets_in(base_url)]
        values = [value for name, value in headers.items() if name.lower() not in _PLAIN_HEADERS]
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            keys.append(pair)
            if not any(name.lower() == "authorization" for name in headers):
                self._headers["Authorization"] = f"Basic {pair}"
        # The one coding that every server has; httpx2 would offer more.
        self._headers["Accept-Encoding"] = "gzip"
        self._quoting = Quoting(keys, values)
        self._advice = advice
        self._sleep, self._random, self._clock, self._now = sleep, random, clock, now
        self._gate = RateGate()
        self._connection: HttpClient | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Transport(provider={self._provider!r}, host={self.host!r})"

    def request(
        self,
        method: str,
        path: str,
        *,
        json: object | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        what: str = "embeddings",
        timeout_s: float,
        policy: RetryPolicy,
        deadline: float = math.inf,
        cancel: CancelToken | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> Reply:
        """The answer to one request, tried again as ``policy`` allows until ``deadline`` (on ``clock``).

        ``path`` is below the base URL, or a whole address on the same host. ``timeout_s`` holds for every
        try as a whole; ``what`` names the request in errors. Ends within 0.2 s of a cancel or ``close``,
        whatever the server does, and within the time of a try even when the answer comes in drips.
        Raises RequestFailed (with the server's hint), BadAnswer for an answer of more than
        ``max_bytes`` or an address elsewhere, Cancelled.
        """
        url = self._address(path, what)
        sent = dict(self._headers)
        if json is not None:
            content = json_library.dumps(json, ensure_ascii=False, separators=(",", ":")).encode()
            _put(sent, "Content-Type", "application/json")
        for name, value in (headers or {}).items():
            _put(sent, name, value, override=True)
        tries = silent = 0
        while True:
            self._pass_gate(what, policy, deadline, cancel)
            tries += 1
            seconds = max(min(timeout_s, deadline - self._clock()), 0.001)
            found = self._try(method, url, content, sent, what, seconds, cancel, max_bytes)
            if not isinstance(found, _Refusal):
                return found
            silent += found.status is None
            wait_s = policy.wait_s(tries, found.hint_s, self._random)
            if (
                wait_s is None
                or not found.worth_retrying
                or silent > policy.max_silent_retries
                or self._clock() + wait_s >= deadline
            ):
                raise self._failed(found, what, tries)
            if found.status == 429:
                # The limit is the account's: other requests would get the same answer, and prolong it.
                self._gate.shut_until(self._clock() + wait_s)
            else:
                self._wait(wait_s, cancel)

    def quote(self, said: str) -> str:
        """What a server said, for a message: short, in one line, without the secrets of this endpoint."""
        return self._quoting.quote(said)

    def close(self) -> None:
        """Closes the connections; requests in flight end (Cancelled), the next request opens new ones."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _address(self, path: str, what: str) -> str:
        if not path.startswith(_WEB):
            address = f"{self._base_url}/{path.removeprefix('/')}"
            if not self._query:
                return address
            return f"{address}{'&' if '?' in path else '?'}{self._query}"
        here, there = urlsplit(self._base_url), urlsplit(path)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise BadAnswer(
                f"{self._provider} {what}: {self.host} named an address on another host. Nothing was sent "
                "there, since the API key goes to the configured host only."
            )
        return path

    def _pass_gate(self, what: str, policy: RetryPolicy, deadline: float, cancel: CancelToken | None) -> None:
        """Waits as long as the server asked another request to; refuses when ``policy`` would not wait so
        long."""
        while (left := self._gate.left_s(self._clock())) > 0:
            longest = max(policy.max_hint_s, policy.cap_s * (1 + policy.jitter))
            if left > longest or self._clock() + left >= deadline:
                refusal = _Refusal(429, "", worth_retrying=False, hint_s=left)
                raise self._failed(refusal, what, tries=0)
            self._wait(left, cancel)
        stop_if_cancelled(cancel)

    def _try(
        self,
        method: str,
        url: str,
        content: bytes | None,
        headers: Mapping[str, str],
        what: str,
        seconds: float,
        cancel: CancelToken | None,
        max_bytes: int,
    ) -> Reply | _Refusal:
        from openclaw_mem_engine.providers.remote import http_client as http

        try:
            reply = self._connected().send(
                method, url, headers, content, seconds=seconds, max_bytes=max_bytes, cancel=cancel
            )
        except http.TooLate:
            return _Refusal(None, f"waited {seconds:.3g} s", worth_retrying=True)
        except http.NoAnswer as exc:
            return _Refusal(None, self._quoting.quote(str(exc)), worth_retrying=True)
        except http.TooLong:
            raise BadAnswer(
                f"{self._provider} {what} at {self.host} sent more than {max_bytes // 1024**2:,} MB; nothing "
                "of it was kept. Check that the base URL is that of an embeddings API."
            ) from None
        except http.Undecodable:
            raise BadAnswer(
                f"{self._provider} {what} at {self.host} sent an answer that cannot be decompressed. "
                "Try again; if it stays, check what is between this machine and the server."
            ) from None
        return reply if 200 <= reply.status < 300 else self._refusal_of(reply)

    def _refusal_of(self, reply: Reply) -> _Refusal:
        said, codes = error_of_body(reply.body.decode("utf-8", "replace"))
        # An account without credit answers 429 as well, and stays without credit.
        out_of_credit = "insufficient_quota" in codes
        return _Refusal(
            reply.status,
            self._quoting.quote(said),
            worth_retrying=is_worth_retrying(reply.status) and not out_of_credit,
            hint_s=retry_after_s(reply.headers, self._now()),
            is_wrong_key="API_KEY_INVALID" in codes,  # Gemini's 400 for what others call 401
        )

    def _failed(self, refusal: _Refusal, what: str, tries: int) -> RequestFailed:
        status = "no answer" if refusal.status is None else refusal.status
        parts = [f"{self._provider} {what} failed: {status} from {self.host}"]
        if tries > 1:
            parts.append(f" after {tries} tries")
        if tries == 0:
            parts.append(" for another request, so this one is not sent now")
        if refusal.said:
            parts.append(f": {refusal.said}")
        if refusal.hint_s is not None:
            parts.append(f" (the server asks to wait {refusal.hint_s:.0f} s)")
        meant = 401 if refusal.is_wrong_key else refusal.status
        return RequestFailed(
            f"{''.join(parts).rstrip('.')}. {self._advice(meant)}", status=meant, retry_after_s=refusal.hint_s
        )

    def _wait(self, seconds: float, cancel: CancelToken | None) -> None:
        connection = self._connection
        while seconds > 0:
            stop_if_cancelled(cancel)
            if connection is not None and connection.is_closed:
                raise Cancelled("The connection was closed while a request was waiting for its turn.")
            self._sleep(min(seconds, _SLICE_S))
            seconds -= _SLICE_S
        stop_if_cancelled(cancel)

    def _connected(self) -> HttpClient:
        with self._lock:
            if self._connection is None:
                from openclaw_mem_engine.providers.remote.http_client import HttpClient

                self._connection = HttpClient(self._base_url, is_loopback=self.is_loopback)
            return self._connection


def _put(headers: dict[str, str], name: str, value: str, *, override: bool = False) -> None:
    """Sets a header whatever the case of one that is there; without ``override`` that one stays."""
    same = [known for known in headers if known.lower() == name.lower()]
    if same and not override:
        return
    for known in same:
        del headers[known]
    headers[name] = value
