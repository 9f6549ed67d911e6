"""Downloads a model file: asked first, resumable, checked, and never incomplete under its final name.

The file grows as ``<name>.<checksum>.part``, with 16 digits of the checksum that it will have. No token is
ever sent, and redirects lead only to https (or this machine).

Why not ``huggingface_hub``: release 2.4 downloads into a file of a random name and deletes it when it is
stopped, so nothing can be resumed; it does not compare the checksum, and follows redirects to plain http.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, urlsplit

from openclaw_mem_engine.cancellation import awaited
from openclaw_mem_engine.errors import Cancelled, ConfigError, ProviderError
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.providers.local.model_file import HUB, hub_file, local_path, part_of, parts_of
from openclaw_mem_engine.providers.remote.endpoint import is_loopback
from openclaw_mem_engine.providers.remote.transport import TIMING
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible
from openclaw_mem_engine.state import private_folder

if TYPE_CHECKING:
    import httpx2

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress

_T = TypeVar("_T")

#: Left free on the disk besides the file.
_SPARE_BYTES = 64 << 20
#: Failures in a row, without a byte between them, before we give up.
_TRIES = 4
_FIRST_WAIT_S = 0.5
#: How long a server may be silent.
_SILENCE_S = 10.0


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
        self.path = part_of(target, remote.sha256)
        for other in [*parts_of(target)]:
            if other != self.path:
                other.unlink()  # of another version of the file
        size = self.path.stat().st_size if self.path.exists() else 0
        self.done = size if remote.sha256 and size <= remote.size else 0

    def refused(self, why: str) -> DownloadFailed:
        """The error to raise after the part has been deleted."""
        self.path.unlink(missing_ok=True)
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
    bytes, in a thread while this one waits. Raises ConfigError (no such kind of address), DownloadFailed,
    Cancelled.
    """
    file = hub_file(uri)
    target = local_path(uri, folder)
    base = base_url.rstrip("/")
    if not may_ask(base):
        raise ConfigError(f"Models are downloaded over https only; {_host_of(base)} is not asked.")
    url = f"{base}/{file.org}/{file.repo}/resolve/{quote(file.revision)}/{quote(file.path)}"
    with _client(_host_of(base)) as client:
        remote = _tried(lambda: _ask(client, url, uri), url, uri, cancel)
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
                        f"{_SPARE_BYTES:,} more are left free, but only {free:,} are free. Make room or "
                        "choose another folder."
                    )

                def came() -> None:
                    stop_if_cancelled(cancel)
                    if progress is not None:
                        progress(part.done, remote.size, file.path.rsplit("/", 1)[-1])

                if missing:
                    _tried(lambda: _fetch(client, remote, part, came), url, uri, cancel, lambda: part.done)
                _check(part, remote, progress, cancel)
                part.path.replace(target)
        except Timeout:
            raise DownloadFailed(
                f"{target.name} is being downloaded by another process; wait for it."
            ) from None
        except OSError as exc:
            raise DownloadFailed(
                f"{uri} cannot be written to {folder}: {exc}. Free some space or choose another folder, then "
                "run the download again; it continues where it stopped."
            ) from exc
    return target


def _check(part: _Part, remote: _RemoteFile, progress: Progress | None, cancel: CancelToken | None) -> None:
    """Raises DownloadFailed, and deletes the part, when the content is not what was announced."""
    with part.path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise part.refused(f"{remote.uri} is not a GGUF file; it was deleted. Check the address.")
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


def may_ask(url: str) -> bool:
    """https anywhere; http only on this machine."""
    try:
        scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    except ValueError:
        return False
    return bool(host) and (scheme == "https" or (scheme == "http" and is_loopback(host)))


def _client(host: str) -> httpx2.Client:
    """It follows redirects, to https only (or this machine), and asks for uncompressed content."""
    import httpx2

    def check(request: httpx2.Request) -> None:
        if not may_ask(str(request.url)):
            raise DownloadFailed(
                f"{host} sends the download on to {_host_of(str(request.url))} without https; not followed."
            )

    return httpx2.Client(
        headers={"User-Agent": "openclaw-mem-workbench", "Accept-Encoding": "identity"},
        timeout=_SILENCE_S,
        follow_redirects=True,
        event_hooks={"request": [check]},
    )


def _tried(
    call: Callable[[], _T],
    url: str,
    uri: str,
    cancel: CancelToken | None,
    done: Callable[[], int] = lambda: 0,
) -> _T:
    """What ``call`` returns. It is called again after a broken connection, at once after one that brought
    ``done`` further. Raises DownloadFailed, Cancelled."""
    import httpx2

    failures = 0
    while True:
        before = done()
        try:
            return awaited(call, lambda: stop_if_cancelled(cancel))
        except _Broken as exc:
            why = str(exc)
        except (httpx2.HTTPError, httpx2.InvalidURL) as exc:
            why = f"{_host_of(url)}: {type(exc).__name__} {_quoted(exc)}".strip()
        failures = 0 if done() > before else failures + 1
        if failures == _TRIES:
            raise DownloadFailed(
                f"{uri} could not be downloaded: {why}, {failures} times in a row. Check the network and run "
                "the download again; it continues where it stopped."
            )
        if failures:
            for _ in TIMING.slices(_FIRST_WAIT_S * 2 ** (failures - 1), cancel):
                pass


def _ask(client: httpx2.Client, url: str, uri: str) -> _RemoteFile:
    """Size and checksum, without fetching the content. Raises DownloadFailed, _Broken."""
    size, sha256 = 0, ""
    for method in ("HEAD", "GET"):
        with client.stream(method, url) as response:
            for found in (*response.history, response):
                said_size, said_sha256 = _facts(found)
                size, sha256 = size or said_size, sha256 or said_sha256
            if method == "HEAD" and response.status_code in (403, 405, 501):
                continue  # some servers, and addresses signed for GET, refuse HEAD
            if response.status_code != 200:
                raise _refused(response, url, uri)
        if size:
            return _RemoteFile(url, uri, size, sha256)
    raise DownloadFailed(f"{_host_of(url)} does not report the size of {uri}; it was not downloaded.")


def _facts(response: httpx2.Response) -> tuple[int, str]:
    """(size, SHA-256 hex) as far as the headers of one answer say; 0 and "" otherwise."""
    headers = response.headers
    size = headers.get("x-linked-size", "")
    if not size and not response.is_redirect:
        size = headers.get("content-length", "")
    tags = (headers.get(name, "").strip('"').lower() for name in ("x-linked-etag", "etag"))
    sha256 = next((tag for tag in tags if re.fullmatch(r"[0-9a-f]{64}", tag)), "")
    return (int(size) if size.isdecimal() else 0), sha256


def _fetch(client: httpx2.Client, remote: _RemoteFile, part: _Part, came: Callable[[], None]) -> None:
    """One connection: continues the part, or starts it over when there is no checksum or no ranges. ``came``
    is called before each block. Raises DownloadFailed, _Broken, and what ``came`` raises."""
    host = _host_of(remote.url)
    start = part.done if remote.sha256 else 0
    with client.stream("GET", remote.url, headers={"Range": f"bytes={start}-"} if start else {}) as response:
        if response.status_code not in (200, 206):
            raise _refused(response, remote.url, remote.uri)
        if response.status_code == 200:
            part.done = 0
        # Unbuffered and as it comes: a break loses nothing.
        opened = os.open(part.path, os.O_WRONLY | os.O_CREAT, 0o600)
        with os.fdopen(opened, "wb", buffering=0) as file:
            file.truncate(part.done)
            file.seek(part.done)
            for block in response.iter_raw():
                came()
                if part.done + len(block) > remote.size:
                    raise part.refused(
                        f"{host} sent more than the {remote.size:,} bytes that it announced for {remote.uri}"
                        "; all of it was deleted. Try again later."
                    )
                file.write(block)
                part.done += len(block)
    came()
    if part.done < remote.size:
        raise _Broken(f"{host} ended after {part.done:,} of {remote.size:,} bytes")


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
