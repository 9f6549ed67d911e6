"""Requests to one endpoint: one client under one layer for retries, waiting and time limits.

No API key or header value gets into a message: what a server says is redacted before it is quoted.
"""

from __future__ import annotations

import base64
import json as json_library
import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.providers.base import LONGEST_HINT_S, BadAnswer, RequestFailed, stop_if_cancelled
from openclaw_mem_engine.providers.remote.endpoint import (
    Quoting,
    check_sendable,
    error_of_body,
    host_of,
    merged,
    secrets_in,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.remote.http_client import HttpClient, Reply
    from openclaw_mem_engine.providers.remote.wires import Wire

#: No answer is read further than this, in bytes after decompression.
MAX_ANSWER_BYTES = 64 * 1024 * 1024

#: Seconds before the first retry; they double with every further one up to the cap, plus up to ``_JITTER``.
_BASE_S = 0.5
RETRY_CAP_S = 8.0
_JITTER = 0.2
#: What asks to wait longer, 30 days, is no hint.
_LONGEST_HINT_S = 30 * 86_400.0
#: Worth another try besides every 5xx: request timeout, too early, too many requests.
_RETRY_STATUSES = frozenset({408, 425, 429})
#: Server errors that no waiting repairs: not implemented, HTTP version not supported.
_HOPELESS_STATUSES = frozenset({501, 505})
#: Seconds between two checks of the cancel token while waiting.
_SLICE_S = 0.1
#: Sent unless others are given. Their values are no secrets: messages need their words.
_PLAIN_HEADERS = {
    "User-Agent": "openclaw-mem",
    "Accept": "application/json",
    "Content-Type": "application/json",
}


@dataclass(frozen=True, slots=True)
class Timing:
    """Sources of time and chance, replaced in tests: ``clock`` is monotonic, ``now`` since 1970 (seconds),
    ``random`` gives numbers in [0, 1)."""

    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    random: Callable[[], float] = random.random

    def slices(self, seconds: float, cancel: CancelToken | None) -> Iterator[None]:
        """Sleeps in slices, and yields before each. Raises Cancelled."""
        while seconds > 0:
            stop_if_cancelled(cancel)
            yield
            self.sleep(min(seconds, _SLICE_S))
            seconds -= _SLICE_S
        stop_if_cancelled(cancel)


TIMING = Timing()


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``max_hint_s``: a server that asks to wait for more seconds ends the tries. ``max_silent_retries``
    limits the retries without an answer, since the server may have acted on such a request, and those after
    an answer that asks to wait for what cannot be read. A request that timed out is not tried again."""

    max_retries: int = 5
    max_hint_s: float = 60.0
    max_silent_retries: int = 1

    def wait_s(self, retry: int, hint_s: float | None, random: Callable[[], float]) -> float | None:
        """Seconds before retry number ``retry`` (from 1); None when there is no point in waiting."""
        if retry > self.max_retries or (hint_s is not None and hint_s > self.max_hint_s):
            return None
        backoff: float = min(RETRY_CAP_S, _BASE_S * 2 ** (retry - 1)) * (1 + _JITTER * random())
        return backoff if hint_s is None else max(backoff, hint_s)


def is_worth_retrying(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _RETRY_STATUSES or (status >= 500 and status not in _HOPELESS_STATUSES)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds that a server asks to wait, or None: ``retry-after-ms``, or ``retry-after`` (seconds or a date,
    RFC 9110, 10.2.3). ``headers`` have lower-case names; ``now`` is in seconds since 1970."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds <= _LONGEST_HINT_S:
            return seconds
    try:
        seconds = max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
    return seconds if seconds <= _LONGEST_HINT_S else None


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why one try failed. ``hint_s``: seconds to wait. ``is_wrong_key``: whatever the status is.
    ``is_unclear``: there was no answer, or it asks to wait for what cannot be read."""

    status: int | None
    said: str
    worth_retrying: bool
    hint_s: float | None = None
    is_wrong_key: bool = False
    is_unclear: bool = False


class Transport:
    """Sends requests to one endpoint. Safe to use from several threads, which share connections and wait
    together when the server is asked too often.

    An empty ``base_url`` is that of the ``wire``; user name and password in it become a Basic authorization.
    ``headers`` replace ours. Raises ConfigError for a base URL, key or header that cannot be sent.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        base_url: str = "",
        api_key: str = "",
        headers: Mapping[str, str] | None = None,
        timing: Timing = TIMING,
    ) -> None:
        self._provider, self._advice, self._timing = wire.id, wire.advice, timing
        api_key, own = api_key.strip(), dict(headers or {})
        check_sendable(wire.id, api_key, own)
        self.base_url = wire.base_url(base_url)
        self.host, self.is_loopback = host_of(self.base_url, wire.id)
        parts = urlsplit(self.base_url)
        plain = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
        self._address, self._query = plain.geturl().rstrip("/"), parts.query
        keys, ours = [api_key, *secrets_in(self.base_url)], {}
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            pair = base64.b64encode(f"{user}:{password}".encode()).decode()
            keys.append(pair)
            ours["Authorization"] = f"Basic {pair}"
        if api_key:
            ours[wire.key_header] = wire.key_value(api_key)
        given = merged(ours, own)
        self._headers = merged(_PLAIN_HEADERS, given, {"Accept-Encoding": "gzip"})
        #: Whether requests carry what a server may take as a key.
        self.has_key = bool(api_key) or any(
            name.lower() in ("authorization", wire.key_header.lower()) for name in own
        )
        values = [value for name, value in given.items() if name.title() not in _PLAIN_HEADERS]
        self._quoting = Quoting(keys, values)
        self._shut_until = -math.inf  # the account is over its rate limit until then, on the clock
        self._connection: HttpClient | None = None
        self._lock = threading.Lock()
        self._retry: tuple[int | None, float] | None = None  # status of the last try, when the next one is

    @property
    def retrying(self) -> tuple[str, str]:
        """What the last try got, and when the next one is; empty where none has failed."""
        if (retry := self._retry) is None:
            return "", ""
        status, at = retry
        left = at - self._timing.clock()
        then = f"next try in {left:.0f} s" if left >= 0.5 else "trying again"
        return "no answer" if status is None else f"answered {status}", then

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
        total_s: float = math.inf,
        cancel: CancelToken | None = None,
        max_bytes: int = MAX_ANSWER_BYTES,
    ) -> bytes:
        """The body of a 2xx answer, tried for as ``policy`` allows, for at most ``total_s`` seconds.

        ``path`` is below the base URL, or a whole address on the same host. ``timeout_s`` holds for every
        try as a whole; ``what`` names the request in errors. Ends within 0.2 s of a cancel or ``close``.
        Raises RequestFailed, BadAnswer (more than ``max_bytes``, an address elsewhere), Cancelled.
        """
        clock = self._timing.clock
        deadline = clock() + total_s
        url = self._url(path, what)
        sent = merged(self._headers, headers or {})
        if json is not None:
            content = json_library.dumps(json, ensure_ascii=False, separators=(",", ":")).encode()
        tries = silent = 0
        if self._retry is not None and self._retry[1] < clock():
            self._retry = None  # of a request that ended
        failed: _Refusal | None = None

        def send() -> Reply:
            seconds = max(min(timeout_s, deadline - clock()), 0.001)
            return self._connected().send(
                method, url, sent, content, seconds=seconds, max_bytes=max_bytes, cancel=cancel
            )

        while True:
            self._pass_gate(what, policy, deadline, cancel)
            if failed is not None and clock() >= deadline:  # the wait took longer than it should
                raise self._failed(failed, what, tries)
            tries += 1
            found = self._try(send, what)
            if isinstance(found, bytes):
                self._retry = None
                return found
            failed = found
            silent += found.is_unclear
            wait_s = policy.wait_s(tries, found.hint_s, self._timing.random)
            if (
                wait_s is None
                or not found.worth_retrying
                or silent > policy.max_silent_retries
                or clock() + wait_s >= deadline
            ):
                self._retry = None
                raise self._failed(found, what, tries)
            self._retry = found.status, clock() + wait_s
            if found.status == 429:
                # The limit is the account's: other requests would get the same answer, and prolong it.
                with self._lock:
                    self._shut_until = max(self._shut_until, clock() + wait_s)
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

    def _url(self, path: str, what: str) -> str:
        if not path.startswith(("http://", "https://")):
            url = f"{self._address}/{path.removeprefix('/')}"
            return f"{url}{'&' if '?' in path else '?'}{self._query}" if self._query else url
        here, there = urlsplit(self._address), urlsplit(path)
        if (here.scheme, here.netloc) != (there.scheme, there.netloc):
            raise BadAnswer(
                f"{self._provider} {what}: {self.host} named an address on another host. Nothing was sent "
                "there, since the API key goes to the configured host only."
            )
        return path

    def _pass_gate(self, what: str, policy: RetryPolicy, deadline: float, cancel: CancelToken | None) -> None:
        """Waits as long as the server asked another request to, unless ``policy`` would not."""
        while (left := self._shut_until - self._timing.clock()) > 0:
            longest = max(policy.max_hint_s, RETRY_CAP_S * (1 + _JITTER))
            if left > longest or self._timing.clock() + left >= deadline:
                raise self._failed(_Refusal(429, "", worth_retrying=False, hint_s=left), what, tries=0)
            self._wait(left, cancel)
        stop_if_cancelled(cancel)

    def _try(self, send: Callable[[], Reply], what: str) -> bytes | _Refusal:
        from openclaw_mem_engine.providers.remote import http_client as http

        try:
            reply = send()
        except http.NoAnswer as exc:
            # One that was silent for so long is hanging: another try would double the wait.
            tried_again = not isinstance(exc, http.TimedOut)
            return _Refusal(None, self.quote(str(exc)), worth_retrying=tried_again, is_unclear=True)
        except http.Unreadable as exc:
            raise BadAnswer(f"{self._provider} {what} at {self.host} sent {exc}") from None
        if 200 <= reply.status < 300:
            return reply.body
        said, codes = error_of_body(reply.body.decode("utf-8", "replace"))
        hint_s = retry_after_s(reply.headers, self._timing.now())
        return _Refusal(
            reply.status,
            self.quote(said),
            # An account without credit answers 429 as well, and stays without credit.
            worth_retrying=is_worth_retrying(reply.status) and "insufficient_quota" not in codes,
            hint_s=hint_s,
            is_wrong_key="API_KEY_INVALID" in codes,  # Gemini's 400 for what others call 401
            is_unclear=hint_s is None and bool(reply.headers.get("retry-after", "").strip()),
        )

    def _failed(self, refusal: _Refusal, what: str, tries: int) -> RequestFailed:
        status = "no answer" if refusal.status is None else refusal.status
        said = f"{self._provider} {what} failed: {status} from {self.host}"
        if tries == 0:
            said += " for another request, so this one is not sent now"
        elif tries > 1:
            said += f" after {tries} tries"
        if refusal.said:
            said += f": {refusal.said}"
        if refusal.hint_s is not None:
            sooner = refusal.hint_s > LONGEST_HINT_S
            most = f"; the next try is after {LONGEST_HINT_S:.0f} s at most" if sooner else ""
            said += f" (the server asks to wait {refusal.hint_s:.0f} s{most})"
        meant = 401 if refusal.is_wrong_key else refusal.status
        return RequestFailed(
            f"{said.rstrip('.')}. {self._advice(meant)}", status=meant, retry_after_s=refusal.hint_s
        )

    def _wait(self, seconds: float, cancel: CancelToken | None) -> None:
        connection = self._connection
        for _ in self._timing.slices(seconds, cancel):
            if connection is not None and connection.is_closed:
                raise Cancelled("The connection was closed while a request was waiting for its turn.")

    def _connected(self) -> HttpClient:
        with self._lock:
            if self._connection is None:
                from openclaw_mem_engine.providers.remote import http_client

                self._connection = http_client.HttpClient(self._address, is_loopback=self.is_loopback)
            return self._connection
