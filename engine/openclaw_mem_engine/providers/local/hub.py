"""Asking a hub for a file: redirects, refusals, tries, and a cancel that no silent server can hold up.

No token is ever sent, and redirects lead only to https (or this machine).
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, TypeVar
from urllib.parse import urlsplit

from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.providers.remote.endpoint import is_loopback
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


class _Broken(Exception):
    """The connection failed or broke; asking again may help."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """What the hub says about a file before it is fetched. ``sha256`` is "" when it does not say."""

    url: str
    uri: str
    size: int
    sha256: str


class Part(Protocol):
    """What receives the content. ``done`` bytes of it are there; only a part that ``can_continue`` is asked
    for from there on, any other from the start."""

    done: int

    @property
    def can_continue(self) -> bool: ...

    def opened(self) -> BinaryIO: ...

    def drop(self) -> None: ...


def run(
    work: Coroutine[Any, Any, _T], cancel: CancelToken | None, tick: Callable[[], None] = lambda: None
) -> _T:
    """The result of ``work``; ``tick`` is called every 0.1 s and at the end. Raises what ``work`` raises, and
    Cancelled, whatever the server does or does not do."""

    async def watched() -> _T:
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_POLL_S)
                tick()
                stop_if_cancelled(cancel)
        finally:
            task.cancel()
            await asyncio.wait({task})
        return task.result()

    return asyncio.run(watched())


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


def _new_client(url: str) -> httpx2.AsyncClient:
    """Takes files as they are, without compression on the way, and asks no host without https."""
    import httpx2

    async def check(request: httpx2.Request) -> None:
        if not may_ask(str(request.url)):
            host = host_of(str(request.url))
            raise DownloadFailed(
                f"{host_of(url)} sends the download on to {host} without https; not followed."
            )

    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S),
        headers={"User-Agent": _AGENT, "Accept-Encoding": "identity"},
        follow_redirects=True,
        max_redirects=_MAX_REDIRECTS,
        event_hooks={"request": [check]},
    )


@contextlib.asynccontextmanager
async def _answer(
    client: httpx2.AsyncClient, method: str, url: str, headers: Mapping[str, str]
) -> AsyncIterator[httpx2.Response]:
    """The answer after all redirects, its body unread. Raises DownloadFailed, _Broken."""
    import httpx2

    try:
        async with client.stream(method, url, headers=dict(headers)) as response:
            yield response
    except httpx2.TooManyRedirects as exc:
        raise DownloadFailed(
            f"{host_of(url)} redirects more than {_MAX_REDIRECTS} times; nothing was fetched."
        ) from exc
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as exc:
        raise _Broken(f"{host_of(url)}: {type(exc).__name__} {_quoted(exc)}".strip()) from exc


async def ask(url: str, uri: str) -> RemoteFile:
    """Size and checksum, without fetching the content. Raises DownloadFailed."""

    async def once() -> RemoteFile:
        size, sha256 = 0, ""
        for method in ("HEAD", "GET"):
            async with _answer(client, method, url, {}) as response:
                for found in (*response.history, response):
                    said_size, said_sha256 = _facts(found)
                    size, sha256 = size or said_size, sha256 or said_sha256
                if method == "HEAD" and response.status_code in (403, 405, 501):
                    continue  # some servers, and addresses signed for GET, refuse HEAD
                if response.status_code != 200:
                    raise _refused(response, url, uri)
            if size:
                return RemoteFile(url, uri, size, sha256)
        raise DownloadFailed(f"{host_of(url)} does not tell the size of {uri}; it was not downloaded.")

    async with _new_client(url) as client:
        return await _retried(once, uri, lambda: 0)


def _facts(response: httpx2.Response) -> tuple[int, str]:
    """(size, SHA-256 hex) as far as the headers of one answer say; 0 and "" otherwise."""
    headers = response.headers
    size = headers.get("x-linked-size", "")
    if not size and not response.is_redirect:
        size = headers.get("content-length", "")
    tags = (headers.get(name, "").strip('"').lower() for name in ("x-linked-etag", "etag"))
    sha256 = next((tag for tag in tags if re.fullmatch(r"[0-9a-f]{64}", tag)), "")
    return (int(size) if size.isdecimal() else 0), sha256


async def fetch_all(remote: RemoteFile, part: Part) -> None:
    """Fetches what is missing, connecting anew as long as connections bring something."""
    async with _new_client(remote.url) as client:
        while part.done < remote.size:
            await _retried(lambda: _fetch(client, remote, part), remote.uri, lambda: part.done)


async def _fetch(client: httpx2.AsyncClient, remote: RemoteFile, part: Part) -> None:
    """One connection: continues the part, or starts it over when there is no checksum or no ranges."""
    host = host_of(remote.url)
    headers = {"Range": f"bytes={part.done}-"} if part.can_continue else {}
    async with _answer(client, "GET", remote.url, headers) as response:
        if response.status_code not in (200, 206, 416):
            raise _refused(response, remote.url, remote.uri)
        if response.status_code == 200:
            part.done = 0
            length = response.headers.get("content-length", "")
            if length.isdecimal() and int(length) != remote.size:
                raise DownloadFailed(
                    f"{host} sends {int(length):,} bytes for {remote.uri} instead of the {remote.size:,} "
                    "that it announced. Try again later."
                )
        elif not response.headers.get("content-range", "").startswith(f"bytes {part.done}-"):
            part.drop()
            raise DownloadFailed(f"{host} sends parts of {remote.uri} that do not fit. Try again later.")
        with part.opened() as file:
            async for block in response.aiter_raw():  # as it comes: a break loses nothing
                if part.done + len(block) > remote.size:
                    part.drop()
                    raise DownloadFailed(
                        f"{host} sent more than the {remote.size:,} bytes that it announced for {remote.uri}"
                        "; all of it was deleted. Try again later."
                    )
                file.write(block)
                part.done += len(block)
    if part.done < remote.size:
        raise _Broken(f"{host} ended after {part.done:,} of {remote.size:,} bytes")


async def _retried(call: Callable[[], Awaitable[_T]], uri: str, done: Callable[[], int]) -> _T:
    """Calls again after a broken connection; at once after one that brought ``done`` further."""
    tries = 0
    while True:
        before = done()
        try:
            return await call()
        except _Broken as exc:
            tries = 0 if done() > before else tries + 1
            if tries == _TRIES:
                raise DownloadFailed(
                    f"{uri} could not be downloaded: {exc}, {tries} times in a row. Check the network and "
                    "run the download again; it goes on where it stopped."
                ) from exc
        await asyncio.sleep(_FIRST_WAIT_S * 2 ** (tries - 1) if tries else 0)


def _refused(response: httpx2.Response, url: str, uri: str) -> DownloadFailed | _Broken:
    host, status, said = host_of(url), response.status_code, _quoted(response.reason_phrase)
    if status in (408, 425, 429) or status >= 500:
        return _Broken(f"{host} answered {status} {said}".strip())
    if status in (401, 403):
        return DownloadFailed(
            f"{host} does not hand out {uri} without a login ({status}). Accept its licence there, download "
            "it with a browser, and give the path of the file."
        )
    return DownloadFailed(f"{host} answered {status} {said} for {uri}. Check the address.")


def host_of(url: str) -> str:
    """Host and port, without the user name or signature that an address may hold."""
    try:
        parts = urlsplit(url)
        return visible(f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname))
    except ValueError:
        return "an unreadable address"


def _quoted(text: object) -> str:
    return visible(redact(str(text)))[:200].replace("\n", " ")
