"""One HTTP exchange at a time, ended at once by a cancel token or a total deadline.

A request runs in a thread of its own, which the caller no longer waits for when it has to end: name lookup,
connecting, the TLS handshake and a silent server cannot be interrupted. Importing this module imports httpx2
(some 100 ms), so ``transport`` does it at the first request.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from openclaw_mem_engine.cancellation import awaited
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.providers.base import stop_if_cancelled

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken

#: Seconds for connecting, and for the TLS handshake; a host that has not accepted by then will not.
_CONNECT_S = 15.0
#: How much of the body of a refusal is read, in bytes.
_MAX_REFUSAL_BYTES = 64_000
_FAILURES = (httpx2.TransportError, httpx2.InvalidURL, OSError)


class NoAnswer(Exception):
    """No complete answer came: the network, the proxy or the protocol failed. The text says why."""


class TimedOut(NoAnswer):
    """The server has not answered within the whole time of the request."""


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
        self._transport = httpx2.HTTPTransport(
            verify=base_url.startswith("https:"),
            limits=httpx2.Limits(max_keepalive_connections=8, keepalive_expiry=30.0),
            proxy=None if is_loopback else _proxy_for(base_url),
        )
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
        ``seconds``, after which it raises TimedOut; ends within 0.1 s of ``cancel`` or ``close``. Raises
        NoAnswer, Unreadable, Cancelled."""
        left = threading.Event()

        def exchange() -> Reply:
            try:
                # The caller's deadline is the only one for its wait; this one ends a thread that was left.
                limits = httpx2.Timeout(seconds + 1.0, connect=_CONNECT_S, write=_CONNECT_S).as_dict()
                request = httpx2.Request(
                    method, url, headers=headers, content=content, extensions={"timeout": limits}
                )
                return self._exchange(request, max_bytes, left)
            except _FAILURES as exc:
                raise NoAnswer(str(exc) or type(exc).__name__) from None

        try:
            return awaited(exchange, lambda: self._stop_if_ended(cancel), seconds)
        except TimeoutError:
            raise TimedOut(f"waited {seconds:.3g} s") from None
        except NoAnswer:
            self._stop_if_ended(cancel)  # closing the connections is what failed it
            raise
        finally:
            left.set()

    def close(self) -> None:
        """Ends the requests in flight (Cancelled) and closes the connections. For good."""
        self.is_closed = True
        self._transport.close()

    def _stop_if_ended(self, cancel: CancelToken | None) -> None:
        if self.is_closed:
            raise Cancelled("The connection was closed while a request was under way.")
        stop_if_cancelled(cancel)

    def _exchange(self, request: httpx2.Request, max_bytes: int, left: threading.Event) -> Reply:
        with closing(self._transport.handle_request(request)) as response:
            is_good = 200 <= response.status_code < 300
            # Pieces of 1 MiB after decompression: a compression bomb is never held in memory as a whole.
            parts = response.iter_bytes()
            body = _body(parts, max_bytes if is_good else _MAX_REFUSAL_BYTES, left, is_cut=not is_good)
            return Reply(response.status_code, dict(response.headers), body)


def _body(parts: Iterable[bytes], max_bytes: int, left: threading.Event, *, is_cut: bool) -> bytes:
    """The decompressed body, as far as it is there when the caller ``left``. A longer one is cut, or
    Unreadable."""
    found: list[bytes] = []
    room = max_bytes
    try:
        for part in parts:
            if len(part) > room and not is_cut:
                raise Unreadable(
                    f"more than {max_bytes // 1024**2:,} MB; nothing of it was kept. Check the base URL."
                )
            found.append(part[:room])
            room -= len(part)
            if room < 0 or left.is_set():
                break
    except httpx2.DecodingError:
        if not is_cut:
            raise Unreadable(
                "an answer that cannot be decompressed. Try again; if it stays, check what is between this "
                "machine and the server."
            ) from None
    return b"".join(found)


_OTHER_PROXIES = ("socks", "socks4", "socks4a", "socks5", "socks5h", "ftp")


def _proxy_for(base_url: str) -> httpx2.Proxy | None:
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
            return httpx2.Proxy(proxy)
    except (ValueError, httpx2.InvalidURL):  # its text may hold a password
        raise ProviderError(f"The address of a proxy in the environment cannot be read. {advice}") from None
    # Nothing else of it is quoted: of an address with a slash in its password, the host is part of that.
    kind = f"of the kind {named.scheme!r}" if named.scheme in _OTHER_PROXIES else "of an unknown kind"
    raise ProviderError(
        f"The proxy of the environment is {kind}; only http and https proxies can be used. {advice}"
    )
