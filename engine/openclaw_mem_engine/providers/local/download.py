"""Downloads a model file: asked first, resumable, checked, and never incomplete under its final name.

The file grows as ``<name>.part``; ``<name>.part.sha256`` beside it holds the checksum of the remote file that
it belongs to.

Why not ``huggingface_hub``: release 2.4 downloads into a file of a random name and deletes it when it is
stopped, so nothing can be resumed; it does not compare the checksum, and follows redirects to plain http.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote

from openclaw_mem_engine.errors import Cancelled, ConfigError
from openclaw_mem_engine.providers.base import stop_if_cancelled
from openclaw_mem_engine.providers.local.hub import (
    DownloadFailed,
    RemoteFile,
    ask,
    fetch_all,
    host_of,
    may_ask,
    run,
)
from openclaw_mem_engine.providers.local.model_file import HUB, hub_file, local_path

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Progress

#: Left free on the disk besides the file.
_SPARE_BYTES = 64 << 20


class _Part:
    """A file that is growing. It is only continued while its checksum will show whether it fits together."""

    def __init__(self, target: Path, remote: RemoteFile) -> None:
        self.path = target.with_name(target.name + ".part")
        self._notes = target.with_name(target.name + ".part.sha256")
        self._sha256 = remote.sha256
        self.done = 0
        with contextlib.suppress(OSError, ValueError):
            if remote.sha256 and self._notes.read_text("ascii") == remote.sha256:
                self.done = self.path.stat().st_size
        if self.done > remote.size:
            self.done = 0
        self._notes.write_text(remote.sha256, "ascii")

    @property
    def can_continue(self) -> bool:
        return bool(self.done and self._sha256)

    def opened(self) -> BinaryIO:
        """To write after the first ``done`` bytes."""
        file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600), "wb", buffering=0)
        os.truncate(file.fileno(), self.done)
        file.seek(self.done)
        return file

    def drop(self, *, notes_only: bool = False) -> None:
        self._notes.unlink(missing_ok=True)
        if not notes_only:
            self.path.unlink(missing_ok=True)


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

    ``confirm`` gets the size in bytes before anything is fetched or written; False means Cancelled. A file
    that is there already with the right size and checksum is returned without asking. ``progress`` gets
    bytes. Raises ConfigError (no such kind of address), DownloadFailed, Cancelled (within 0.2 s).
    """
    file = hub_file(uri)
    target = local_path(uri, folder)
    base = base_url.rstrip("/")
    if not may_ask(base):
        raise ConfigError(f"Models are downloaded over https only; {host_of(base)} is not asked.")
    url = f"{base}/{file.org}/{file.repo}/resolve/{quote(file.revision)}/{quote(file.path)}"
    remote = run(ask(url, uri), cancel)
    if _is_complete(target, remote, cancel):
        return target
    if not confirm(remote.size):
        raise Cancelled(f"{uri} was not downloaded: {remote.size:,} bytes were not agreed to.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _only_one(target):
            part = _Part(target, remote)
            _check_room(folder, remote.size - part.done, free_bytes)

            def tick() -> None:
                if progress is not None:
                    progress(part.done, remote.size, file.path.rsplit("/", 1)[-1])

            run(fetch_all(remote, part), cancel, tick)
            _check(part, remote, progress, cancel)
            part.path.chmod(0o600)
            part.path.replace(target)
            part.drop(notes_only=True)
    except OSError as exc:
        raise DownloadFailed(
            f"{uri} cannot be written to {folder}: {exc}. Make room or choose another folder, then run "
            "the download again; it goes on where it stopped."
        ) from exc
    return target


def _check(part: _Part, remote: RemoteFile, progress: Progress | None, cancel: CancelToken | None) -> None:
    """Raises DownloadFailed, and deletes the part, when the content is not what was announced."""
    with part.path.open("rb") as file:
        if file.read(4) != b"GGUF":
            part.drop()
            raise DownloadFailed(f"{remote.uri} is no GGUF file; it was deleted. Check the address.")
        os.fsync(file.fileno())
    if remote.sha256 and _sha256(part.path, progress, cancel) != remote.sha256:
        part.drop()
        raise DownloadFailed(
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
def _only_one(target: Path) -> Iterator[None]:
    """Held so that two processes do not write the part together."""
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
        yield
