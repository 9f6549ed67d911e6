"""Connections whose waiting ends at once: when the caller cancels, and when the time for a request is over,
however slowly a server drips.

An HTTP library waits for one piece of an answer at a time, and for its own timeout each. Here every wait is
cut into slices, and between two slices somebody looks at the clock and at the cancel token. Only what cannot
be cut (looking up a name, connecting, a TLS handshake) runs in a helper thread, which is abandoned when it
is too late; that happens once a connection, and connections are kept.

Importing this module imports the HTTP library, so only ``transport`` does, at the first request.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore2  # the network half of httpx2: half the time per request, and it takes connections of ours

from openclaw_mem_engine.errors import ProviderError

#: Between two looks at clock and cancel token, in seconds.
SLICE_S = 0.05
#: A host that has not taken a connection by then will not; in seconds, also for the TLS handshake.
_CONNECT_S = 15.0
#: What fits into the buffers of any system is written here and now.
_SMALL_WRITE = 16_384
#: A server that takes nothing for so long takes nothing at all, in seconds.
_STALLED_S = 60.0
_KEEP_CONNECTIONS = 8
_KEEP_S = 30.0
#: What stays as it is in a path or query: it may be quoted already.
_PATH_CHARS = "/:@!$&'()*+,;=%~?"

_Result = TypeVar("_Result")


class TooLate(Exception):
    """The time for this try is over."""


class Patience:
    """How long the request of one thread may wait. ``check`` raises when it must end."""

    __slots__ = ("_check", "_deadline")

    def __init__(self, seconds: float, check: Callable[[], None]) -> None:
        self._deadline = time.monotonic() + seconds
        self._check = check

    def slice_s(self) -> float:
        """The next wait in seconds. Raises TooLate, or what ``check`` raises."""
        self._check()
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TooLate
        return min(left, SLICE_S)


class _Mine(threading.local):
    patience: Patience | None = None


_mine = _Mine()


@contextmanager
def patience(seconds: float, check: Callable[[], None]) -> Iterator[None]:
    """All waiting of this thread inside of the block ends after ``seconds`` (TooLate) or when ``check``
    raises."""
    _mine.patience = Patience(seconds, check)
    try:
        yield
    finally:
        _mine.patience = None


def _my_patience() -> Patience:
    return _mine.patience or Patience(_CONNECT_S, lambda: None)


def _in_helper(work: Callable[[], _Result], discard: Callable[[_Result], object]) -> _Result:
    """The result of ``work``, which runs in another thread. When that takes too long, it is left alone, and
    what it still brings is discarded."""
    mine = _my_patience()
    lock = threading.Lock()
    done = threading.Event()
    found: list[_Result] = []
    failed: list[BaseException] = []
    is_abandoned = False

    def run() -> None:
        try:
            result = work()
        except BaseException as exc:  # noqa: BLE001 - raised again by the thread that waits
            failed.append(exc)
        else:
            with lock:
                found.append(result)
                late = is_abandoned
            if late:
                discard(result)
        done.set()

    threading.Thread(target=run, daemon=True, name="openclaw-mem-connect").start()
    try:
        while not done.wait(mine.slice_s()):
            pass
    except BaseException:
        with lock:
            is_abandoned = True
            late_results = list(found)
        for result in late_results:
            discard(result)
        raise
    if failed:
        raise failed[0]
    return found[0]


class _Stream(httpcore2.NetworkStream):
    """A connection round another one. The library's own timeouts are not used: ``Patience`` has the time."""

    def __init__(self, inner: httpcore2.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002
        mine = _my_patience()
        while True:
            try:
                return self._inner.read(max_bytes, mine.slice_s())
            except httpcore2.ReadTimeout:
                continue

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002
        if len(buffer) <= _SMALL_WRITE:
            self._inner.write(buffer, _CONNECT_S)
            return
        # A write that ran out of time does not tell how much went out, so it cannot be cut into slices.
        _in_helper(lambda: self._inner.write(buffer, _STALLED_S), lambda _: None)

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: Any,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002
    ) -> httpcore2.NetworkStream:
        try:
            return _Stream(
                _in_helper(
                    lambda: self._inner.start_tls(ssl_context, server_hostname, _CONNECT_S),
                    lambda stream: stream.close(),
                )
            )
        except BaseException:
            self._inner.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore2.NetworkBackend):
    def __init__(self) -> None:
        self._inner = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        def connect() -> httpcore2.NetworkStream:
            return self._inner.connect_tcp(host, port, _CONNECT_S, local_address, socket_options)

        return _Stream(_in_helper(connect, lambda stream: stream.close()))


#: What a try may raise besides TooLate: each means that no whole answer came.
NETWORK_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.TimeoutException,
    httpcore2.UnsupportedProtocol,
    OSError,
)


class Client:
    """Connections to one endpoint. Safe to use from several threads.

    It follows no redirect: that would carry notes and keys to a host that nobody configured. A proxy from
    the environment is used except for this machine itself.
    """

    def __init__(self, base_url: str, *, is_loopback: bool) -> None:
        parts = urlsplit(base_url)
        self._scheme = parts.scheme.encode()
        self._host = (parts.hostname or "").encode("idna")
        self._port = parts.port
        shown = b"[%b]" % self._host if b":" in self._host else self._host
        self._host_header = shown if self._port is None else b"%b:%d" % (shown, self._port)
        options: dict[str, Any] = {
            "max_connections": None,  # as many as the caller has threads
            "max_keepalive_connections": _KEEP_CONNECTIONS,
            "keepalive_expiry": _KEEP_S,
            "network_backend": _Backend(),
        }
        proxy = "" if is_loopback else _proxy_for(base_url)
        self._pool = _proxied_pool(proxy, options) if proxy else httpcore2.ConnectionPool(**options)

    def send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> httpcore2.Response:
        """The answer, its body not yet read; close it afterwards. ``url`` is on the host of this client."""
        parts = urlsplit(url)
        target = quote(parts.path, safe=_PATH_CHARS) + (
            f"?{quote(parts.query, safe=_PATH_CHARS)}" if parts.query else ""
        )
        sent = [(b"Host", self._host_header)]
        sent += [(name.encode(), value.encode()) for name, value in headers.items()]
        if content is not None:
            sent.append((b"Content-Length", b"%d" % len(content)))
        address = httpcore2.URL(
            scheme=self._scheme, host=self._host, port=self._port, target=target.encode() or b"/"
        )
        return self._pool.handle_request(httpcore2.Request(method, address, headers=sent, content=content))

    def close(self) -> None:
        self._pool.close()


def _proxy_for(base_url: str) -> str:
    parts = urlsplit(base_url)
    proxies = getproxies()
    if proxy_bypass(parts.hostname or ""):
        return ""
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return proxy if not proxy or "://" in proxy else f"http://{proxy}"


def _proxied_pool(proxy: str, options: dict[str, Any]) -> httpcore2.ConnectionPool:
    parts = urlsplit(proxy)
    host = parts.hostname or ""
    port = parts.port or {"https": 443, "http": 80}.get(parts.scheme, 1080)
    if parts.scheme not in ("http", "https"):
        raise ProviderError(
            f"The proxy {host}:{port} of the environment is of the kind {parts.scheme!r}; only http and "
            "https proxies can be used. Set HTTPS_PROXY to one, or NO_PROXY to the provider's host."
        )
    headers: dict[bytes | str, bytes | str] = {}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    shown = f"[{host}]" if ":" in host else host
    return httpcore2.HTTPProxy(f"{parts.scheme}://{shown}:{port}", proxy_headers=headers, **options)
