"""Downloads a model file: asked first, resumable, checked, and never incomplete under its final name.

The file grows as ``<name>.part``; ``<name>.part.sha256`` beside it holds the checksum of the remote file that
it belongs to. No token is ever sent, and redirects lead only to https (or this machine).

Why not ``huggingface_hub``: release 2.4 downloads into a file of a random name and deletes it when it is
stopped, so nothing can be resumed; it does not compare the checksum, and follows redirects to plain http.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

from openclaw_mem_engine.errors import Cancelled, ConfigError, ProviderError
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.providers.local.model_file import HUB, hub_file, local_path
from openclaw_mem_engine.providers.remote.endpoint import is_loopback
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible
from openclaw_mem_engine.state import private_folder
from openclaw_mem_engine.state.disk import read_file, replace_file

if TYPE_CHECKING:
    import httpx2

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress

_T = TypeVar("_T")

#: Left free on the disk besides the file.
_SPARE_BYTES = 64 << 20
_MAX_REDIRECTS = 5
#: Failures in a row, without a byte between them, before we give up.
_TRIES = 4
_FIRST_WAIT_S = 0.5
_POLL_S = 0.1
_CONNECT_S, _SILENCE_S = 20.0, 60.0


class DownloadFailed(ProviderError):
    """No model came; the bytes so far are kept for the next try unless the message says otherwise."""


class _Broken(Exception):
    """The connection broke; asking again may help."""


class _RemoteFile(NamedTuple):
    """What the hub says about a file; ``sha256`` is "" when it does not say."""

    url: str
    uri: str
    size: int
    sha256: str


class _Part:
    """A file that is growing. It is only continued while its checksum will show whether it fits together."""

    def __init__(self, target: Path, remote: _RemoteFile) -> None:
        self.path = target.with_name(target.name + ".part")
        self._notes = target.with_name(target.name + ".part.sha256")
        self.done = 0
        with contextlib.suppress(OSError, ValueError):
            size = self.path.stat().st_size
            if size <= remote.size and remote.sha256 and read_file(self._notes) == remote.sha256.encode():
                self.done = size
        replace_file(self._notes, remote.sha256.encode())

    def opened(self) -> BinaryIO:
        """To write after the first ``done`` bytes."""
        file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600), "wb", buffering=0)
        os.truncate(file.fileno(), self.done)
        file.seek(self.done)
        return file

    def drop(self) -> None:
        self._notes.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def refused(self, why: str) -> DownloadFailed:
        """The error to raise after the part has been deleted."""
        self.drop()
        return DownloadFailed(why)


def download(
    uri: str,
    folder: Path,
    *,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    base_url: str = HUB,
    confirm: Callable[[int], bool],
) -> Path:
    """Fetches the file of an ``hf:`` address into ``folder`` and returns its path.

    ``confirm`` gets the size in bytes before anything is fetched or written; False means Cancelled. A file
    that is there already with the right size and checksum is returned without asking. ``progress`` gets
    bytes. Raises ConfigError (no such kind of address), DownloadFailed, Cancelled (within 0.2 s).
    """
    file = hub_file(uri)
    target = local_path(uri, folder)
    base = base_url.rstrip("/")
    if not may_ask(base):
        raise ConfigError(f"Models are downloaded over https only; {_host_of(base)} is not asked.")
    url = f"{base}/{file.org}/{file.repo}/resolve/{quote(file.revision)}/{quote(file.path)}"
    remote = _run(_ask(url, uri), cancel)
    if _is_complete(target, remote, cancel):
        return target
    if not confirm(remote.size):
        raise Cancelled(f"{uri} was not downloaded: {remote.size:,} bytes were not agreed to.")
    from filelock import FileLock, Timeout

    try:
        private_folder(folder)
        with FileLock(f"{target}.lock", timeout=0, mode=0o600):
            part = _Part(target, remote)
            missing, free = remote.size - part.done, shutil.disk_usage(folder).free
            if free < missing + _SPARE_BYTES:
                raise DownloadFailed(
                    f"There is not enough space in {folder}: {missing:,} bytes are needed and "
                    f"{_SPARE_BYTES:,} more are left free, but only {free:,} are free. Make room or choose "
                    "another folder."
                )

            def tick() -> None:
                if progress is not None:
                    progress(part.done, remote.size, file.path.rsplit("/", 1)[-1])

            if missing:
                _run(_retried(lambda: _fetch(remote, part), uri, lambda: part.done), cancel, tick)
            _check(part, remote, progress, cancel)
            part.path.chmod(0o600)
            part.path.replace(target)
            part.drop()
    except Timeout:
        raise DownloadFailed(f"{target.name} is being downloaded by another process; wait for it.") from None
    except OSError as exc:
        raise DownloadFailed(
            f"{uri} cannot be written to {folder}: {exc}. Free some space or choose another folder, then run "
            "the download again; it continues where it stopped."
        ) from exc
    return target


def _check(part: _Part, remote: _RemoteFile, progress: Progress | None, cancel: CancelToken | None) -> None:
    """Raises DownloadFailed, and deletes the part, when the content is not what was announced."""
    with part.path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise part.refused(f"{remote.uri} is no GGUF file; it was deleted. Check the address.")
        os.fsync(file.fileno())
    if remote.sha256 and _sha256(part.path, progress, cancel) != remote.sha256:
        raise part.refused(
            f"{remote.uri} arrived with a wrong SHA-256 checksum and was deleted. Download it again; if that "
            "does not help, the server or a proxy damages it."
        )


def _sha256(path: Path, progress: Progress | None, cancel: CancelToken | None) -> str:
    digest, done, size = hashlib.sha256(), 0, path.stat().st_size
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            stop_if_cancelled(cancel)
            digest.update(block)
            done += len(block)
            if progress is not None:
                progress(done, size, "Checking")
    return digest.hexdigest()


def _is_complete(target: Path, remote: _RemoteFile, cancel: CancelToken | None) -> bool:
    try:
        whole = target.stat().st_size == remote.size
        return whole and (not remote.sha256 or _sha256(target, None, cancel) == remote.sha256)
    except OSError:
        return False


def _run(
    work: Coroutine[Any, Any, _T], cancel: CancelToken | None, tick: Callable[[], None] = lambda: None
) -> _T:
    """The result of ``work``; ``tick`` is called every 0.1 s and at the end. Raises Cancelled as well."""

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
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    except ValueError:
        return False
    return bool(host) and (scheme == "https" or (scheme == "http" and is_loopback(host)))


@contextlib.asynccontextmanager
async def _answer(method: str, url: str, start: int = 0) -> AsyncIterator[httpx2.Response]:
    """The answer after all redirects, its body unread and not compressed; with ``start`` the file from that
    byte on. No host is asked without https. Raises DownloadFailed, _Broken."""
    import httpx2

    async def check(request: httpx2.Request) -> None:
        if not may_ask(str(request.url)):
            hosts = f"{_host_of(url)} sends the download on to {_host_of(str(request.url))}"
            raise DownloadFailed(f"{hosts} without https; not followed.")

    headers = {"User-Agent": "openclaw-mem-workbench", "Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    client = httpx2.AsyncClient(
        timeout=httpx2.Timeout(_SILENCE_S, connect=_CONNECT_S),
        follow_redirects=True,
        max_redirects=_MAX_REDIRECTS,
        event_hooks={"request": [check]},
    )
    try:
        async with client, client.stream(method, url, headers=headers) as response:
            yield response
    except httpx2.TooManyRedirects as exc:
        raise DownloadFailed(
            f"{_host_of(url)} redirects more than {_MAX_REDIRECTS} times; nothing was fetched."
        ) from exc
    except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as exc:
        raise _Broken(f"{_host_of(url)}: {type(exc).__name__} {_quoted(exc)}".strip()) from exc


async def _ask(url: str, uri: str) -> _RemoteFile:
    """Size and checksum, without fetching the content. Raises DownloadFailed."""

    async def once() -> _RemoteFile:
        size, sha256 = 0, ""
        for method in ("HEAD", "GET"):
            async with _answer(method, url) as response:
                for found in (*response.history, response):
                    said_size, said_sha256 = _facts(found)
                    size, sha256 = size or said_size, sha256 or said_sha256
                if method == "HEAD" and response.status_code in (403, 405, 501):
                    continue  # some servers, and addresses signed for GET, refuse HEAD
                if response.status_code != 200:
                    raise _refused(response, url, uri)
            if size:
                return _RemoteFile(url, uri, size, sha256)
        raise DownloadFailed(f"{_host_of(url)} does not tell the size of {uri}; it was not downloaded.")

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


async def _fetch(remote: _RemoteFile, part: _Part) -> None:
    """One connection: continues the part, or starts it over when there is no checksum or no ranges."""
    host = _host_of(remote.url)
    async with _answer("GET", remote.url, part.done if remote.sha256 else 0) as response:
        if response.status_code not in (200, 206, 416):
            raise _refused(response, remote.url, remote.uri)
        if response.status_code == 200:
            part.done = 0
        elif not response.headers.get("content-range", "").startswith(f"bytes {part.done}-"):
            raise part.refused(f"{host} sends parts of {remote.uri} that do not fit. Try again later.")
        with part.opened() as file:
            async for block in response.aiter_raw():  # as it comes: a break loses nothing
                if part.done + len(block) > remote.size:
                    raise part.refused(
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
                    "run the download again; it continues where it stopped."
                ) from exc
        await asyncio.sleep(_FIRST_WAIT_S * 2 ** (tries - 1) if tries else 0)


def _refused(response: httpx2.Response, url: str, uri: str) -> DownloadFailed | _Broken:
    host, status, said = _host_of(url), response.status_code, _quoted(response.reason_phrase)
    if status in (408, 425, 429) or status >= 500:
        return _Broken(f"{host} answered {status} {said}".strip())
    if status in (401, 403):
        return DownloadFailed(
            f"{host} does not hand out {uri} without a login ({status}). Accept its licence there, download "
            "it with a browser, and give the path of the file."
        )
    return DownloadFailed(f"{host} answered {status} {said} for {uri}. Check the address.")


def _host_of(url: str) -> str:
    """Host and port, without the user name or signature that an address may hold."""
    try:
        parts = urlsplit(url)
        return visible(f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname))
    except ValueError:
        return "an unreadable address"


def _quoted(text: object) -> str:
    return visible(redact(str(text)))[:200].replace("\n", " ")
