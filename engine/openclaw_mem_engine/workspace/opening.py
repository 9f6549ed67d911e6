"""Opening a note without following any link, and the reasons for which a file is refused.

Every part of a path is opened relative to the folder before it, with "do not follow", so that a link planted
between the check and the open changes nothing.
"""

# Paths are strings here, split once and opened part by part.
# ruff: noqa: PTH114, PTH118, PTH206

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from openclaw_mem_engine.errors import PathRefused
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.workspace.rules import MAX_NOTE_BYTES

RefusalKind = Literal[
    "outside",  # not inside of the workspace and not an extra path
    "not-memory",  # inside, but not a file that counts as memory
    "not-markdown",  # does not end in .md
    "link",  # it, or a folder on the way to it, is a link
    "not-regular",  # a folder, FIFO, socket or device
    "too-large",
    "unreadable",  # permissions or a failing disk: it may be readable later
    "missing",  # vanished since it was listed
    "binary",  # holds NUL bytes
    "not-utf8",
]


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

_LATEST_NS = 2**63 - 1
#: A file written this shortly before it was last read may have been written again in the same clock tick.
RACY_NS = 2_000_000_000

#: The reason shown for a link itself.
LINK = "is a link; links are not followed"
#: The reason shown for a file that this user may not read.
UNREADABLE = "may not be read; change its permissions"


class NoteRefused(PathRefused):
    """A file that is not read. ``kind`` is stable; the message says which path, why, and often what to do."""

    def __init__(self, kind: RefusalKind, path: str, reason: str) -> None:
        super().__init__(f"{printable(path)}: {reason}")
        self.kind: RefusalKind = kind
        self.path = path
        self.reason = reason

    @property
    def transient(self) -> bool:
        """Whether the same file may be readable later, as it is."""
        return self.kind == "unreadable"


class FileBytes(NamedTuple):
    """What was read, and what the file was when the reading began. ``settled`` is False when the file changed
    meanwhile."""

    data: bytes
    status: os.stat_result
    settled: bool


@contextmanager
def entries_of(folder: str) -> Iterator[Iterator[os.DirEntry[str]]]:
    """What a folder holds; not through a link. Where the system can, it finds the status of an entry by its
    name in the folder, without the parts of the path; ``entry.path`` is that name then. Raises OSError."""
    if os.scandir not in os.supports_fd:
        with os.scandir(folder) as entries:
            yield entries
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(descriptor) as entries:
            yield entries
    finally:
        os.close(descriptor)


def read_bytes(base: str, tail: str, max_bytes: int = MAX_NOTE_BYTES, shown: str | None = None) -> FileBytes:
    """Read the regular file ``tail`` (parts split by the separator) below the folder ``base``; only ``base``
    may be reached through links. ``shown`` is the path that a refusal names (default: the full path).

    Raises ``NoteRefused`` with kind link, not-regular, too-large, unreadable or missing.
    """
    shown = os.path.join(base, tail) if shown is None else shown
    descriptor, before = open_file(base, tail, shown)
    try:
        _check(before, shown, max_bytes)
        parts, left = [], max_bytes + 1
        while left > 0 and (part := os.read(descriptor, min(left, 2**16))):
            parts.append(part)
            left -= len(part)
        after = os.fstat(descriptor)
    except OSError as error:
        raise refusal_of(error, shown) from error
    finally:
        os.close(descriptor)
    data = b"".join(parts)
    if len(data) > max_bytes:  # it grew past the limit while it was read
        raise NoteRefused("too-large", shown, too_large(len(data), max_bytes))
    same = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
    return FileBytes(data, before, settled=same and len(data) == before.st_size)


def read_if_there(
    base: str, tail: str, max_bytes: int = MAX_NOTE_BYTES, shown: str | None = None
) -> FileBytes | None:
    """The same; None for a file that is missing."""
    try:
        return read_bytes(base, tail, max_bytes, shown)
    except NoteRefused as refusal:
        if refusal.kind != "missing":
            raise
        return None


def open_file(base: str, tail: str, shown: str) -> tuple[int, os.stat_result]:
    """A descriptor, which the caller closes, and its status. Arguments and refusals as of ``read_bytes``."""
    try:
        descriptor = _open_beneath(base, tail, shown)
        try:
            status = os.fstat(descriptor)
            _check(status, shown, None)
        except BaseException:
            os.close(descriptor)
            raise
    except (OSError, ValueError) as error:
        raise refusal_of(error, shown) from error
    return descriptor, status


def too_large(size: int, limit: int) -> str:
    """The reason shown for a file over the size limit, both in bytes."""
    return f"too large: {size:,} bytes, the limit is {limit:,}"


def refusal_of(error: Exception, path: str) -> NoteRefused:
    """The refusal that an error of the operating system (or of an impossible path) amounts to."""
    code = error.errno if isinstance(error, OSError) else None
    if code in (errno.ENOENT, errno.ENOTDIR):
        return NoteRefused("missing", path, "does not exist")
    if code == errno.ELOOP:
        return NoteRefused("link", path, LINK)
    reason = "is not a possible path" if code is None else f"cannot be read: {os.strerror(code)}"
    return NoteRefused("unreadable", path, UNREADABLE if code in (errno.EACCES, errno.EPERM) else reason)


def through_link(part: str) -> str:
    """The reason shown for a file which is reached only through the link ``part``."""
    return f"leads through a link ({printable(part)}); links are not followed"


def printable(path: str) -> str:
    """A path that can be stored and shown: controls and bytes that are not UTF-8 become ``\\xNN``."""
    try:
        text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        text = path.encode("utf-8", "backslashreplace").decode("utf-8")
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def _open_beneath(base: str, tail: str, shown: str) -> int:
    parts = [part for part in tail.split(os.sep) if part]
    if not parts or ".." in parts:
        raise NoteRefused("not-regular", shown, "is a folder" if not parts else "climbs out of its folder")
    if os.open not in os.supports_dir_fd:
        return _open_by_name(base, parts, shown)
    walk = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(base, (walk & ~os.O_NOFOLLOW))
    try:
        for part in parts[:-1]:
            # Looked at first, because opening a link as a folder fails with the same error as opening a file.
            if stat.S_ISLNK(os.stat(part, dir_fd=folder, follow_symlinks=False).st_mode):
                raise NoteRefused("link", shown, through_link(part))
            inner = os.open(part, walk, dir_fd=folder)
            os.close(folder)
            folder = inner
        # A device or FIFO may act on a mere open, so its kind is looked at before (and again after).
        _check(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False), shown, None)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        return os.open(parts[-1], flags, dir_fd=folder)
    finally:
        os.close(folder)


def _open_by_name(base: str, parts: list[str], shown: str) -> int:
    """The same where a system cannot open relative to a folder."""
    path = base
    for part in parts:
        path = os.path.join(path, part)
        if os.path.islink(path):
            raise NoteRefused("link", shown, through_link(part))
    _check(os.lstat(path), shown, None)
    return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0))


def _check(status: os.stat_result, shown: str, max_bytes: int | None) -> None:
    if stat.S_ISLNK(status.st_mode):
        raise NoteRefused("link", shown, LINK)
    if not stat.S_ISREG(status.st_mode):
        raise NoteRefused("not-regular", shown, f"is {kind_of(status.st_mode)}, not a plain file")
    if max_bytes is not None and status.st_size > max_bytes:
        raise NoteRefused("too-large", shown, too_large(status.st_size, max_bytes))


def kind_of(mode: int) -> str:
    """What a file mode stands for, in words."""
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a FIFO",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFLNK: "a link",
    }
    return kinds.get(stat.S_IFMT(mode), "a special file")


def mtime_of(status: os.stat_result) -> int:
    """The modification time in nanoseconds, at most what 64 bits hold: in the year 2262."""
    found = status.st_mtime_ns
    return found if -_LATEST_NS <= found <= _LATEST_NS else _LATEST_NS if found > 0 else -_LATEST_NS


def proves_unchanged(checked_ns: int, changed_ns: int) -> bool:
    """Whether equal times mean equal content, of a file that was read at ``checked_ns`` and changed last at
    ``changed_ns``. A check that is yet to come was made by a clock that was set back since: it says nothing
    about what came first."""
    return changed_ns < checked_ns - RACY_NS and checked_ns <= time.time_ns()
