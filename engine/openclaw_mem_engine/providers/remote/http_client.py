"""One HTTP exchange at a time, ended at once by a cancel token or a total deadline.

All connections of the process live on one event loop in one daemon thread. A calling thread hands its request
to that loop and polls its cancel token while it waits: an asynchronous request can be cancelled in every
phase (name lookup, connecting, TLS handshake, sending, receiving), and its deadline holds however slowly a
server sends. Importing this module imports httpx2 and asyncio (some 100 ms), so ``transport`` does it at the
first request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.providers.base import stop_if_cancelled

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken

#: Seconds between two checks of the cancel token.
_POLL_S = 0.05
#: Seconds to connect, TLS handshake included; a host that has not accepted by then will not.
_CONNECT_S = 15.0
#: How much of the body of a refusal is read, in bytes; a part of it is quoted in the error.
_MAX_REFUSAL_BYTES = 64_000
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=30.0)
_TIMEOUTS = {"connect": _CONNECT_S, "read": None, "write": None, "pool": None}


class NoAnswer(Exception):
    """No complete answer came: the network, the proxy or the protocol failed. The text says why."""


class Unreadable(Exception):
    """The body is longer than allowed, or cannot be decompressed: the text says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer. Header names are in lower case; the body is decompressed, and cut after 64,000 bytes unless
    the status is 2xx."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Connections to one endpoint, kept for 30 seconds. Safe to use from several threads.

    It follows no redirect: that would carry notes and keys to a host that is not configured. A proxy from the
    environment is used except for this machine itself. Raises ProviderError for a proxy of another kind than
    http and https.
    """

    def __init__(self, base_url: str, *, is_loopback: bool) -> None:
        proxy = "" if is_loopback else _proxy_for(base_url)
        self._transport = httpx2.AsyncHTTPTransport(limits=_LIMITS, proxy=proxy or None)
        self._lock = threading.Lock()
        self._in_flight: set[Future[Reply]] = set()
        self.is_closed = False

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        seconds: float,
        max_bytes: int,
        cancel: CancelToken | None = None,
    ) -> Reply:
        """The answer to one request. Blocks for at most ``seconds``, and ends within 0.1 s of ``cancel`` or
        ``close`` (Cancelled).

        ``max_bytes`` limits the decompressed body of a 2xx answer. Raises NoAnswer, Unreadable,
        Cancelled.
        """
        request = httpx2.Request(
            method, url, headers=dict(headers), content=content, extensions={"timeout": _TIMEOUTS}
        )
        with self._lock:
            self._stop_if_closed()
            future: Future[Reply] = _submit(self._exchange(request, seconds, max_bytes))
            self._in_flight.add(future)
        try:
            while True:
                try:
                    return future.result(timeout=_POLL_S)
                except TimeoutError:
                    if future.done():
                        raise NoAnswer(f"waited {seconds:.3g} s") from None
                stop_if_cancelled(cancel)
        except CancelledError:
            self._stop_if_closed()
            raise NoAnswer("the request was ended by the event loop") from None
        except httpx2.DecodingError:
            raise Unreadable(
                "an answer that cannot be decompressed. Try again; if it stays, check what is between this "
                "machine and the server."
            ) from None
        except (httpx2.TransportError, httpx2.InvalidURL, OSError) as exc:
            self._stop_if_closed()
            raise NoAnswer(str(exc) or type(exc).__name__) from None
        finally:
            future.cancel()
            with self._lock:
                self._in_flight.discard(future)

    def close(self) -> None:
        """Ends the requests in flight (Cancelled) and closes the connections. For good."""
        with self._lock:
            self.is_closed = True
            in_flight = list(self._in_flight)
        for future in in_flight:
            future.cancel()
        _submit(self._transport.aclose())

    def _stop_if_closed(self) -> None:
        if self.is_closed:
            raise Cancelled("The connection was closed while a request was under way.")

    async def _exchange(self, request: httpx2.Request, seconds: float, max_bytes: int) -> Reply:
        async with asyncio.timeout(seconds):
            response = await self._transport.handle_async_request(request)
            try:
                headers = {name.lower(): value for name, value in response.headers.items()}
                is_good = 200 <= response.status_code < 300
                body = await _body(response, max_bytes if is_good else _MAX_REFUSAL_BYTES, is_cut=not is_good)
            finally:
                await response.aclose()
            return Reply(response.status_code, headers, body)


async def _body(response: httpx2.Response, max_bytes: int, *, is_cut: bool) -> bytes:
    """The decompressed body; a longer one is cut or Unreadable. httpx2 decompresses in pieces of 1 MiB, so a
    compression bomb is never held in memory as a whole."""
    parts: list[bytes] = []
    room = max_bytes
    try:
        async for part in response.aiter_bytes():
            if len(part) > room:
                if not is_cut:
                    raise Unreadable(
                        f"more than {max_bytes // 1024**2:,} MB; nothing of it was kept. Check that the base "
                        "URL is that of an embeddings API."
                    )
                parts.append(part[:room])
                break
            room -= len(part)
            parts.append(part)
    except httpx2.DecodingError:
        if not is_cut:
            raise
    return b"".join(parts)


# -- the event loop ----------------------------------------------------------------------------------------

_loop: asyncio.AbstractEventLoop | None = None
_loop_lock = threading.Lock()


def _submit(work: Coroutine[Any, Any, Any]) -> Future[Any]:
    """Runs ``work`` on the loop of this process, which is started when it is needed first."""
    global _loop
    with _loop_lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, daemon=True, name="openclaw-mem-http").start()
        return asyncio.run_coroutine_threadsafe(work, _loop)


# -- proxies -----------------------------------------------------------------------------------------------


def _proxy_for(base_url: str) -> str:
    """The address of the proxy for a host, as the environment or the system names it; "" for none."""
    parts = urlsplit(base_url)
    if proxy_bypass(parts.hostname or ""):
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy:
        return ""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    named = urlsplit(proxy)
    if named.scheme not in ("http", "https"):
        shown = f"{named.hostname}:{named.port}" if named.port else named.hostname
        raise ProviderError(
            f"The proxy {shown} of the environment is of the kind {named.scheme!r}; only http and https "
            "proxies can be used. Set HTTPS_PROXY to one, or NO_PROXY to the provider's host."
        )
    return proxy
