"""Asking a hub for a file: redirects, refusals, tries, and a cancel that no silent server can hold up.

No token is ever sent, and redirects lead only to https (or this machine).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urljoin, urlsplit

from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.providers.remote.hosts import is_loopback
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    import httpx2

    from openclaw_mem_engine.cancellation import CancelToken

_T = TypeVar("_T")

_MAX_REDIRECTS = 5
#: Failures in a row, without a byte between them, before we give up.
_TRIES = 4
_FIRST_WAIT_S = 0.5
_POLL_S = 0.1
_CONNECT_S, _SILENCE_S = 20.0, 60.0
_AGENT = "openclaw-mem-workbench"


class DownloadFailed(ProviderError):
    """A model could not be downloaded; what came so far is kept for the next try unless the message says
    otherwise."""


class Broken(Exception):
    """The connection failed or broke; asking again may help."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What the hub tells about a file before it is fetched. ``sha256`` is "" when it does not tell."""

    size: int
    sha256: str


def new_client() -> httpx2.Client:
    """Takes files as they are, without compression on the way."""
    import httpx2

    return httpx2.Client(
        timeout=httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S),
        headers={"User-Agent": _AGENT, "Accept-Encoding": "identity"},
    )


def ask(client: httpx2.Client, url: str, uri: str) -> RemoteFile:
    """Size and checksum, without fetching the content. Raises DownloadFailed, Broken."""
    size, sha256 = 0, ""
    for method in ("HEAD", "GET"):
        for response in hops(client, method, url, {}):
            told_size, told_sha = _told(response.headers)
            size, sha256 = size or told_size, sha256 or told_sha
            status, said = response.status_code, response.reason_phrase
        if method == "HEAD" and status in (403, 405, 501):
            continue  # some servers, and addresses signed for GET, refuse HEAD
        if status != 200:
            raise refused(status, said, url, uri)
        if size:
            break
    if not size:
        raise DownloadFailed(f"{host_of(url)} does not tell the size of {uri}; it was not downloaded.")
    return RemoteFile(size, sha256)


def hops(
    client: httpx2.Client, method: str, url: str, headers: Mapping[str, str]
) -> Iterator[httpx2.Response]:
    """Every answer on the way to the file, the last one last; each is closed when the next is asked for.

    Raises DownloadFailed for a redirect that we do not follow, Broken.
    """
    import httpx2

    start = url
    for _ in range(_MAX_REDIRECTS + 1):
        try:
            with client.stream(method, url, headers=dict(headers), follow_redirects=False) as response:
                yield response
                location = response.headers.get("location")
                if response.status_code not in (301, 302, 303, 307, 308) or not location:
                    return
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as exc:
            raise Broken(f"{host_of(url)}: {type(exc).__name__} {quoted(exc)}".strip()) from exc
        url = urljoin(url, location)
        if not may_ask(url):
            raise DownloadFailed(
                f"{host_of(start)} sends the download on to {host_of(url)} without https; not followed."
            )
    raise DownloadFailed(f"{host_of(start)} redirects more than {_MAX_REDIRECTS} times; nothing was fetched.")


def retried(call: Callable[[], _T], cancel: CancelToken | None, uri: str) -> _T:
    for tries in range(1, _TRIES + 1):
        try:
            return call()
        except Broken as exc:
            if tries == _TRIES:
                raise DownloadFailed(
                    f"{uri} could not be downloaded: {exc}, {tries} times in a row. Check the network and "
                    "run the download again; it goes on where it stopped."
                ) from exc
            until = time.monotonic() + _FIRST_WAIT_S * 2 ** (tries - 1)
            while (left := until - time.monotonic()) > 0:
                stop_if_cancelled(cancel)
                time.sleep(min(left, _POLL_S))
    raise AssertionError("unreachable")


def in_background(
    call: Callable[[threading.Event], _T],
    cancel: CancelToken | None,
    tick: Callable[[], None] = lambda: None,
) -> _T:
    """Runs ``call`` in a thread, so that a server that hangs cannot hold up a cancel. Raises what it raises,
    and Cancelled: then the thread is left to end by itself, with the event that it was given set."""
    stop = threading.Event()
    results: list[_T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call(stop))
        except BaseException as exc:  # noqa: BLE001 (raised again in the calling thread)
            errors.append(exc)

    worker = threading.Thread(target=run, name="model-download", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_POLL_S)
            tick()
            stop_if_cancelled(cancel)
    finally:
        stop.set()
        worker.join(_POLL_S)
    if errors:
        raise errors[0]
    return results[0]


def refused(status: int, said: str, url: str, uri: str) -> DownloadFailed | Broken:
    host = host_of(url)
    if status in (408, 425, 429) or status >= 500:
        return Broken(f"{host} answered {status} {quoted(said)}".strip())
    if status in (401, 403):
        return DownloadFailed(
            f"{host} does not hand out {uri} without a login ({status}). Accept its licence there, download "
            "it with a browser, and give the path of the file."
        )
    return DownloadFailed(f"{host} answered {status} {quoted(said)} for {uri}. Check the address.")


def may_ask(url: str) -> bool:
    """https anywhere; http only on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(host)
    return parts.scheme == "http" and is_loopback(host)


def host_of(url: str) -> str:
    """Host and port, without the user name or signature that an address may hold."""
    try:
        parts = urlsplit(url)
        return visible(f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname))
    except ValueError:
        return "an unreadable address"


def quoted(said: object) -> str:
    return visible(redact(str(said)))[:200].replace("\n", " ")


def _told(headers: Mapping[str, str]) -> tuple[int, str]:
    """(size, SHA-256 hex) as far as these headers tell."""
    size = headers.get("x-linked-size") or ""
    if not size and "location" not in headers:
        size = headers.get("content-length") or ""
    for name in ("x-linked-etag", "etag"):
        value = headers.get(name, "").strip('"').lower()
        if re.fullmatch(r"[0-9a-f]{64}", value):
            return (int(size) if size.isdecimal() else 0), value
    return (int(size) if size.isdecimal() else 0), ""
