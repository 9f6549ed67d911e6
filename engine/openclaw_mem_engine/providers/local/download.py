"""Downloads a model file: asked first, resumable, checked, and never half there under its final name.

The file grows as ``<name>.part``; ``<name>.part.json`` beside it remembers which version of the remote file
it belongs to. No token is ever sent, and redirects lead only to https (or this machine).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

from openclaw_mem_engine.errors import Cancelled, ConfigError
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.providers.local.hub import (
    Broken,
    DownloadFailed,
    RemoteFile,
    ask,
    hops,
    host_of,
    in_background,
    may_ask,
    new_client,
    quoted,
    refused,
    retried,
)
from openclaw_mem_engine.providers.local.models import hub_file, local_path

if TYPE_CHECKING:
    import httpx2

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress

HUB = "https://huggingface.co"
#: Left free on the disk besides the file.
_SPARE_BYTES = 64 << 20
#: Times that a file may turn out to be another one while it is fetched.
_MAX_RESTARTS = 2
_LATER = "Try again later."


@dataclass(slots=True)
class _Part:
    """A file that is growing, and what it will be."""

    path: Path
    remote: RemoteFile
    label: str
    etag: str = ""
    done: int = 0
    restarts: int = 0

    @property
    def notes(self) -> Path:
        return self.path.with_name(self.path.name + ".json")

    def load(self) -> None:
        """Takes up an earlier try when it belongs to the same remote file."""
        try:
            notes = json.loads(self.notes.read_text("utf-8"))
            size = self.path.stat().st_size
        except (OSError, ValueError):
            return self.start_over()
        same = isinstance(notes, dict) and notes.get("size") == self.remote.size
        if not same or notes.get("sha256") != self.remote.sha256 or size > self.remote.size:
            return self.start_over()
        etag = notes.get("etag")
        self.etag = etag if isinstance(etag, str) else ""
        if not (self.etag or self.remote.sha256):
            return self.start_over()  # nothing could tell a changed file from the old one
        self.done = size
        return None

    def start_over(self) -> None:
        self.etag, self.done = "", 0
        self.path.unlink(missing_ok=True)

    def save(self) -> None:
        notes = {"size": self.remote.size, "sha256": self.remote.sha256, "etag": self.etag}
        self.notes.write_text(json.dumps(notes), "utf-8")

    def drop(self) -> None:
        for path in (self.path, self.notes):
            path.unlink(missing_ok=True)


def download(
    uri: str,
    folder: Path,
    *,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    base_url: str = HUB,
    confirm: Callable[[int], bool],
    free_bytes: Callable[[Path], int] = lambda folder: shutil.disk_usage(folder).free,
) -> Path:
    """Fetches the file of an ``hf:`` address into ``folder`` and returns its path.

    ``confirm`` hears the size in bytes before anything is fetched or written; False means Cancelled. A file
    that is there already with the right size and checksum is returned without asking. ``progress`` hears of
    bytes. Raises ConfigError (no such kind of address), DownloadFailed, Cancelled.
    """
    file = hub_file(uri)
    target = local_path(uri, folder)
    base = base_url.rstrip("/")
    if not may_ask(base):
        raise ConfigError(f"Models are downloaded over https only; {host_of(base)} is not asked.")
    url = f"{base}/{file.org}/{file.repo}/resolve/{quote(file.revision)}/{quote(file.path)}"
    with new_client() as client:
        remote = retried(lambda: in_background(lambda _stop: ask(client, url, uri), cancel), cancel, uri)
        if _is_complete(target, remote, cancel):
            return target
        if not confirm(remote.size):
            raise Cancelled(f"{uri} was not downloaded: {remote.size:,} bytes were not agreed to.")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _only_one(target) as part_path:
                part = _Part(part_path, remote, file.path.rsplit("/", 1)[-1])
                part.load()
                _check_room(folder, remote.size - part.done, free_bytes)
                _fetch_all(client, url, uri, part, progress, cancel)
                _check(part, uri, progress, cancel)
                part.path.chmod(0o600)
                part.path.replace(target)
                part.notes.unlink(missing_ok=True)
        except OSError as exc:
            raise DownloadFailed(
                f"{uri} cannot be written to {folder}: {exc}. Make room or choose another folder, then run "
                "the download again; it goes on where it stopped."
            ) from exc
    return target


def _fetch_all(
    client: httpx2.Client,
    url: str,
    uri: str,
    part: _Part,
    progress: Progress | None,
    cancel: CancelToken | None,
) -> None:
    """Fetches what is missing, connecting anew as long as every connection brings something."""

    def tick() -> None:
        if progress is not None:
            progress(min(part.done, part.remote.size), part.remote.size, part.label)

    def once() -> None:
        before = part.done
        try:
            in_background(lambda stop: _fetch(client, url, uri, part, stop), cancel, tick)
        except Broken:
            if part.done <= before:
                raise

    while part.done < part.remote.size:
        retried(once, cancel, uri)
    tick()


def _fetch(client: httpx2.Client, url: str, uri: str, part: _Part, stop: threading.Event) -> None:
    """One connection: appends to the part, or starts it over when the server has another file or no ranges.

    Runs in a thread of its own and writes nothing once ``stop`` is set.
    """
    import httpx2

    headers: dict[str, str] = {}
    if part.done:
        headers["Range"] = f"bytes={part.done}-"
        if part.etag and not part.etag.startswith("W/"):
            headers["If-Range"] = part.etag
    for response in hops(client, "GET", url, headers):
        if response.is_redirect:
            continue
        etag = response.headers.get("etag", "")
        if response.status_code == 416 or (
            response.status_code == 206 and not _continues(response.headers, part, etag)
        ):
            part.start_over()
            part.restarts += 1
            if part.restarts > _MAX_RESTARTS:
                raise DownloadFailed(
                    f"{host_of(url)} sends parts of {uri} that do not fit together. {_LATER}"
                )
            raise Broken(f"{host_of(url)} has another file now; starting over")
        if response.status_code not in (200, 206):
            raise refused(response.status_code, response.reason_phrase, url, uri)
        if response.status_code == 200:
            part.start_over()
            length = response.headers.get("content-length", "")
            if length.isdecimal() and int(length) != part.remote.size:
                raise DownloadFailed(
                    f"{host_of(url)} sends {int(length):,} bytes for {uri} instead of the "
                    f"{part.remote.size:,} that it announced. {_LATER}"
                )
        part.etag = etag
        with _opened(part.path) as file:
            part.save()
            try:
                for block in response.iter_raw():  # as it comes: a break loses nothing
                    if stop.is_set():
                        return
                    if part.done + len(block) > part.remote.size:
                        part.start_over()
                        raise DownloadFailed(
                            f"{host_of(url)} sent more than the {part.remote.size:,} bytes that it announced "
                            f"for {uri}; all of it was deleted. {_LATER}"
                        )
                    file.write(block)
                    part.done += len(block)
            except (httpx2.HTTPError, httpx2.StreamError) as exc:
                raise Broken(f"{host_of(url)}: {type(exc).__name__} {quoted(exc)}".strip()) from exc
    if part.done < part.remote.size:
        raise Broken(f"{host_of(url)} ended after {part.done:,} of {part.remote.size:,} bytes")


def _continues(headers: Mapping[str, str], part: _Part, etag: str) -> bool:
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("content-range", ""))
    return (
        match is not None
        and int(match[1]) == part.done
        and match[2] in ("*", str(part.remote.size))
        and (not part.etag or not etag or etag == part.etag)
    )


def _opened(path: Path) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab", buffering=0)


def _check(part: _Part, uri: str, progress: Progress | None, cancel: CancelToken | None) -> None:
    """Raises DownloadFailed, and deletes the part, when the content is not what was announced."""
    with part.path.open("rb") as file:
        if file.read(4) != b"GGUF":
            part.drop()
            raise DownloadFailed(f"{uri} is no GGUF file; it was deleted. Check the address.")
        os.fsync(file.fileno())
    if part.remote.sha256 and _sha256(part.path, progress, cancel) != part.remote.sha256:
        part.drop()
        raise DownloadFailed(
            f"{uri} arrived with a wrong SHA-256 checksum and was deleted. Download it again; if that does "
            "not help, the server or a proxy damages it."
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


def _is_complete(target: Path, remote: RemoteFile, cancel: CancelToken | None) -> bool:
    try:
        if target.stat().st_size != remote.size:
            return False
        return not remote.sha256 or _sha256(target, None, cancel) == remote.sha256
    except OSError:
        return False


def _check_room(folder: Path, missing: int, free_bytes: Callable[[Path], int]) -> None:
    free = free_bytes(folder)
    if free < missing + _SPARE_BYTES:
        raise DownloadFailed(
            f"There is not enough room in {folder}: {missing:,} bytes are needed and {_SPARE_BYTES:,} more "
            f"are left free, but only {free:,} are free. Make room or choose another folder."
        )


@contextlib.contextmanager
def _only_one(target: Path) -> Iterator[Path]:
    """The path of the part, held so that two processes do not write it together."""
    lock = target.with_name(target.name + ".lock")
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
        try:
            import fcntl
        except ImportError:  # Windows: two downloads at once end with a wrong checksum and are repeated
            pass
        else:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise DownloadFailed(
                    f"{target.name} is being downloaded by another process; wait for it."
                ) from None
        yield target.with_name(target.name + ".part")
