"""One HTTP exchange at a time, ended at once by a cancel token or a total deadline.

A request runs in the calling thread, over connections of httpcore2 with a network backend of our own: it
receives in slices, and checks cancel token and deadline between them. The steps that cannot be cut into
slices (name lookup and connecting, TLS handshake) run in a thread each, which the request no longer waits for
when it has to end. Importing this module imports httpx2 (some 100 ms), so
``transport`` does it at the first request.
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.providers.base import stop_if_cancelled

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken

#: Seconds between two checks of the cancel token.
_POLL_S = 0.05
#: Seconds for connecting, and for the TLS handshake; a host that has not accepted by then will not.
_CONNECT_S = 15.0
#: How much of the body of a refusal is read, in bytes.
_MAX_REFUSAL_BYTES = 64_000
_FAILURES = (
    httpcore2.NetworkError,
    httpcore2.TimeoutException,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpx2.InvalidURL,
    OSError,
)


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


class _Exchange(threading.local):
    """The request of the calling thread; ``end`` of its ``seconds`` on the monotonic clock."""

    cancel: CancelToken | None = None
    seconds = math.inf
    end = math.inf


class HttpClient(httpcore2.NetworkBackend):
    """Connections to one endpoint, kept for 30 seconds. Safe to use from several threads.

    It follows no redirect: that would carry notes and keys to a host that is not configured. A proxy from the
    environment is used except for this machine itself. Raises ProviderError for a proxy of another kind than
    http and https.
    """

    def __init__(self, base_url: str, *, is_loopback: bool) -> None:
        self._pool = httpcore2.ConnectionPool(
            ssl_context=httpcore2.default_ssl_context() if base_url.startswith("https:") else None,
            proxy=None if is_loopback else _proxy_for(base_url),
            max_connections=None,
            max_keepalive_connections=8,
            keepalive_expiry=30.0,
            network_backend=self,
        )
        self._exchange = _Exchange()
        self._lock = threading.Lock()
        self._in_flight = 0
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
        """The answer to one request; ``max_bytes`` is for the decompressed body of a 2xx. Blocks for at most
        ``seconds``, ends within 0.1 s of ``cancel`` or ``close``. Raises NoAnswer, Unreadable, Cancelled."""
        now = self._exchange
        now.cancel, now.seconds, now.end = cancel, seconds, time.monotonic() + seconds
        self._count(1)
        try:
            self._stop_if_closed()
            with self._pool.stream(
                method,
                _url_of(url),
                headers=list(headers.items()),
                content=content,
                extensions={"timeout": {"connect": _CONNECT_S, "write": _CONNECT_S}},
            ) as response:
                names = {name.decode("latin-1").lower(): v.decode("latin-1") for name, v in response.headers}
                is_good = 200 <= response.status < 300
                parts: Iterable[bytes] = response.iter_stream()
                if "content-encoding" in names:
                    parts = httpx2.Response(response.status, headers=names, content=parts).iter_bytes()
                body = _body(parts, max_bytes if is_good else _MAX_REFUSAL_BYTES, is_cut=not is_good)
                return Reply(response.status, names, body)
        except _FAILURES as exc:
            raise NoAnswer(str(exc) or type(exc).__name__) from None
        finally:
            self._count(-1)

    def close(self) -> None:
        """Ends the requests in flight (Cancelled) and closes the connections. For good."""
        self.is_closed = True
        self._count(0)

    def _count(self, more: int) -> None:
        """Keeps the number of requests in flight; the last one of a closed client closes the connections."""
        with self._lock:
            self._in_flight += more
            if self.is_closed and not self._in_flight:
                self._pool.close()

    def _stop_if_closed(self) -> None:
        if self.is_closed:
            raise Cancelled("The connection was closed while a request was under way.")

    # -- the network backend ---------------------------------------------------------------------------

    def connect_tcp(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return self.opened(partial(httpcore2.SyncBackend().connect_tcp, *args, **options))

    def slice_s(self) -> float:
        """Seconds until the next check. Raises what ends the exchange of this thread."""
        now = self._exchange
        self._stop_if_closed()
        stop_if_cancelled(now.cancel)
        left = now.end - time.monotonic()
        if left <= 0:
            raise NoAnswer(f"waited {now.seconds:.3g} s")
        return min(left, _POLL_S)

    def opened(self, step: Callable[[], httpcore2.NetworkStream]) -> httpcore2.NetworkStream:
        """The connection that ``step`` opens in a thread of its own; one that comes too late is closed."""
        future: Future[httpcore2.NetworkStream] = Future()

        def run() -> None:
            try:
                future.set_result(step())
            except Exception as exc:  # noqa: BLE001 - raised again in the calling thread
                future.set_exception(exc)

        def close(late: Future[httpcore2.NetworkStream]) -> None:
            if late.exception() is None:
                late.result().close()

        threading.Thread(target=run, daemon=True, name="openclaw-mem-connect").start()
        try:
            while True:
                with suppress(TimeoutError):
                    return _Stream(future.result(timeout=self.slice_s()), self)
        except (Cancelled, NoAnswer):
            future.add_done_callback(close)
            raise


class _Stream(httpcore2.NetworkStream):
    """A connection that can be cancelled while it sends and receives."""

    def __init__(self, inner: httpcore2.NetworkStream, client: HttpClient) -> None:
        self._inner, self._client = inner, client
        self.close, self.get_extra_info = inner.close, inner.get_extra_info  # type: ignore[method-assign]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        while True:
            with suppress(httpcore2.ReadTimeout):
                return self._inner.read(max_bytes, self._client.slice_s())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if isinstance(self.get_extra_info("ssl_object"), ssl.SSLObject):  # of TLS inside of TLS to a proxy
            self._inner.write(buffer, timeout)
            return
        connection: socket.socket = self.get_extra_info("socket")
        left = memoryview(buffer)
        while left:
            connection.settimeout(self._client.slice_s())
            try:
                left = left[connection.send(left) :]
            except TimeoutError:
                continue
            except OSError as exc:
                raise httpcore2.WriteError(str(exc)) from None

    def start_tls(self, *args: Any, **options: Any) -> httpcore2.NetworkStream:
        return self._client.opened(partial(self._inner.start_tls, *args, **options))


def _body(parts: Iterable[bytes], max_bytes: int, *, is_cut: bool) -> bytes:
    """The decompressed body; a longer one is cut or Unreadable. httpx2 decompresses in pieces of 1 MiB, so a
    compression bomb is never held in memory as a whole."""
    found: list[bytes] = []
    room = max_bytes
    try:
        for part in parts:
            if len(part) > room:
                if not is_cut:
                    raise Unreadable(
                        f"more than {max_bytes // 1024**2:,} MB; nothing of it was kept. Check the base URL."
                    )
                found.append(part[:room])
                break
            room -= len(part)
            found.append(part)
    except httpx2.DecodingError:
        if not is_cut:
            raise Unreadable(
                "an answer that cannot be decompressed. Try again; if it stays, check what is between this "
                "machine and the server."
            ) from None
    return b"".join(found)


@lru_cache
def _url_of(url: str) -> httpcore2.URL:
    """An address with its name and path as HTTP wants them: punycode, percent-encoded."""
    parts = httpx2.URL(url)
    return httpcore2.URL(scheme=parts.raw_scheme, host=parts.raw_host, port=parts.port, target=parts.raw_path)


_OTHER_PROXIES = ("socks", "socks4", "socks4a", "socks5", "socks5h", "ftp")


def _proxy_for(base_url: str) -> httpcore2.Proxy | None:
    """The proxy for a host, as the environment or the system names it."""
    parts = urlsplit(base_url)
    if proxy_bypass(parts.hostname or ""):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if not proxy:
        return None
    advice = "Set HTTPS_PROXY to a usable one, or NO_PROXY to the provider's host."
    try:
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        named = urlsplit(proxy)
        if named.scheme in ("http", "https"):
            return httpcore2.Proxy(_url_of(proxy), auth=httpx2.Proxy(proxy).raw_auth)
    except (ValueError, httpx2.InvalidURL):  # its text may hold a password
        raise ProviderError(f"The address of a proxy in the environment cannot be read. {advice}") from None
    # Nothing else of it is quoted: of an address with a slash in its password, the host is part of that.
    kind = f"of the kind {named.scheme!r}" if named.scheme in _OTHER_PROXIES else "of an unknown kind"
    raise ProviderError(
        f"The proxy of the environment is {kind}; only http and https proxies can be used. {advice}"
    )
