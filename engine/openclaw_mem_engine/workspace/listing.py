"""Which files of a workspace are memory, and what is excluded.

Nothing that looks like a note disappears silently: links, oversized, unreadable and special files, other
spellings of ``.md``, duplicates and ignored folders are all in ``Listing.skipped`` with a reason.
"""

# Paths are strings here: a Path object per file would cost more than the whole walk.
# ruff: noqa: PTH112, PTH118, PTH206, PTH208

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.model import MemoryFile, SkippedFile, Source
from openclaw_mem_engine.workspace.opening import (
    LINK,
    kind_of,
    printable,
    refusal_of,
    through_link,
    too_large,
)
from openclaw_mem_engine.workspace.rules import (
    MAX_NOTE_BYTES,
    MEMORY_FOLDER,
    NOTE_SUFFIX,
    ROOT_FILES,
    ExtraPath,
    Workspace,
    is_ignored_folder,
    is_note_name,
    open_workspace,
    resolve_extras,
)

_SUFFIX_CASE = 'ends in another spelling of ".md"; only lower case counts'
_FOLDER_LINK = "is a link to a folder; links are not followed"
_HIDDEN = "hidden folder; nothing in it is memory"
_TOOLS = "folder of a tool; nothing in it is memory"
_NAME = "its name is not UTF-8 text; rename it"
UNREADABLE = "may not be read; change its permissions"
_EFFECTIVE_USER = getattr(os, "geteuid", lambda: None)
_EFFECTIVE_IDS = os.access in os.supports_effective_ids
#: On Windows ctime is when a file was made, which says nothing of changes.
_HAS_CTIME = os.name != "nt"


@dataclass(frozen=True, slots=True)
class Listing:
    """The memory files of a workspace and what is excluded, both sorted by path (by code point)."""

    files: tuple[MemoryFile, ...]
    skipped: tuple[SkippedFile, ...]


def list_memory(
    root: Path, extra_paths: Sequence[str] = (), max_bytes: int = MAX_NOTE_BYTES, home: str | None = None
) -> Listing:
    """List ``MEMORY.md``, ``memory.md``, ``memory/**/*.md`` and the extra paths of a workspace.

    ``extra_paths`` are absolute, ``~/…`` or workspace-relative: a folder with all below it, or a file that
    ends in ``.md``; what lies outside of the workspace gets a ``../…`` path. Only ``root`` itself may be a
    link. A file with several names counts once, under the first: top-level files before ``memory/`` before
    extra paths, then by path. ``max_bytes`` limits a note. ``home`` replaces ``~`` (default: that of the
    process). Raises ``WorkspaceError`` when the workspace is missing or cannot be read.
    """
    workspace = open_workspace(root)
    walk = _Walk(workspace, max_bytes)
    try:
        _take_root_files(walk)
        _take_memory_folder(walk)
    except PermissionError:
        raise WorkspaceError(
            f"What is in the workspace {workspace.given} may not be looked at. Change its permissions: a "
            "folder must be readable (r) and open to be entered (x)."
        ) from None
    except OSError as error:
        raise WorkspaceError(
            f"The workspace {workspace.given} cannot be read just now: {error.strerror or error}. Check the "
            "disk or the server that holds it, and try again."
        ) from error
    for extra in resolve_extras(workspace, extra_paths, home):
        _take_extra(walk, extra)
    files = sorted(walk.files.values(), key=attrgetter("path"))
    skipped = [
        SkippedFile(path, reason, reason in (_HIDDEN, _TOOLS), path in walk.transient)
        for path, reason in sorted(walk.skipped.items())
    ]
    return Listing(tuple(files), tuple(skipped))


@dataclass(slots=True)
class _Walk:
    """What was found so far; ``group`` holds the files of one root until they are deduplicated by path."""

    workspace: Workspace
    max_bytes: int
    files: dict[str, MemoryFile] = field(default_factory=dict)  # by absolute path
    skipped: dict[str, str] = field(default_factory=dict)  # printable path -> reason
    transient: set[str] = field(default_factory=set)  # those of them that may be readable later
    group: list[MemoryFile] = field(default_factory=list)
    first_names: dict[tuple[int, int], str] = field(default_factory=dict)  # (device, inode) -> path

    def skip(self, path: str, reason: str) -> None:
        self.skipped.setdefault(printable(path), reason)

    def skip_unreadable(self, path: str, reason: str) -> None:
        """Exclude what cannot be read now, and may be readable later."""
        self.skip(path, reason)
        self.transient.add(printable(path))

    def skip_for(self, error: OSError, path: str, absolute: str, what: str = "") -> None:
        """Exclude what the system refused; ``what`` begins the reason."""
        refusal = refusal_of(error, absolute)
        skip = self.skip_unreadable if refusal.transient else self.skip
        skip(path, what + refusal.reason)

    def offer(self, path: str, absolute: str, status: os.stat_result) -> None:
        """Take a file that is Markdown by name, or say why not."""
        reason = exclusion(path, absolute, status, self.max_bytes)
        if not reason:
            self.group.append(found_file(path, absolute, status))
        elif reason == UNREADABLE:
            self.skip_unreadable(path, reason)
        else:
            self.skip(path, reason)

    def close_group(self) -> None:
        """Deduplicate what one root gave; by path, so that the order of the disk decides nothing."""
        self.group.sort(key=attrgetter("path"))
        files, first_names = self.files, self.first_names
        for file in self.group:
            path, inode = file.path, file.inode
            # Some network file systems have no inode numbers and say 0: there only the path is left.
            known = first_names.setdefault((file.device, inode), path) if inode else path
            if known is path:
                files[file.absolute] = file
            elif file.absolute not in files:  # the same path again, from overlapping roots, is no news
                self.skip(path, f"the same file as {known}")
        self.group.clear()


def exclusion(path: str, absolute: str, status: os.stat_result, max_bytes: int) -> str:
    """Why a file is excluded although its name counts; "" for one that is taken. ``UNREADABLE`` is
    transient."""
    mode = status.st_mode
    if stat.S_ISLNK(mode):
        return LINK
    if not stat.S_ISREG(mode):
        return f"is {kind_of(mode)}, not a plain file"
    if status.st_size > max_bytes:
        return too_large(status.st_size, max_bytes)
    if not _is_utf8(path):
        return _NAME
    return "" if _may_read(absolute, status) else UNREADABLE


def found_file(path: str, absolute: str, status: os.stat_result, source: Source = "memory") -> MemoryFile:
    """A file that counts, as it was when it was listed."""
    ctime = status.st_ctime_ns if _HAS_CTIME else 0
    size, mtime, inode, device = status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev
    return MemoryFile(path, absolute, source, size, mtime, inode, device, ctime)


def _take_root_files(walk: _Walk) -> None:
    real = walk.workspace.real
    names = os.listdir(real)
    # On a disk that ignores case both spellings find one file: the one that is its real name goes first.
    for name in sorted(ROOT_FILES, key=lambda name: name not in names):
        absolute = os.path.join(real, name)
        try:
            status = os.lstat(absolute)
        except FileNotFoundError:
            continue
        except OSError as error:
            if name in names:
                walk.skip_for(error, name, absolute)
            continue
        if name in names or (status.st_dev, status.st_ino) not in walk.first_names:
            walk.offer(name, absolute, status)
            walk.close_group()
    for name in names:
        if name.lower() == ROOT_FILES[1] and name not in ROOT_FILES and not _is_taken(walk, name):
            walk.skip(name, "only the spellings MEMORY.md and memory.md count")


def _is_taken(walk: _Walk, name: str) -> bool:
    try:
        status = os.lstat(os.path.join(walk.workspace.real, name))
    except OSError:
        return True  # removed meanwhile: nothing to say about it
    return (status.st_dev, status.st_ino) in walk.first_names


def _take_memory_folder(walk: _Walk) -> None:
    absolute = os.path.join(walk.workspace.real, MEMORY_FOLDER)
    try:
        mode = os.lstat(absolute).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        walk.skip_for(error, MEMORY_FOLDER, absolute, "folder ")
        return
    if stat.S_ISLNK(mode):
        walk.skip(MEMORY_FOLDER, _FOLDER_LINK if os.path.isdir(absolute) else LINK)
    elif not stat.S_ISDIR(mode):
        walk.skip(MEMORY_FOLDER, "is not a folder")
    else:
        _take_folder(walk, MEMORY_FOLDER, absolute)


def _take_extra(walk: _Walk, extra: ExtraPath) -> None:
    if extra.refusal:
        walk.skip(extra.configured, f"extra path: {extra.refusal}")
        return
    absolute = extra.base
    parts = [part for part in extra.tail.split(os.sep) if part]
    try:
        status = os.lstat(absolute)
        for index, part in enumerate(parts):
            absolute = os.path.join(absolute, part)
            status = os.lstat(absolute)
            if stat.S_ISLNK(status.st_mode):
                last = index == len(parts) - 1
                reason = (_FOLDER_LINK if os.path.isdir(absolute) else LINK) if last else through_link(part)
                walk.skip(extra.configured, f"extra path: {reason}; name the path that it points to")
                return
    except OSError as error:
        # What may be readable later is named as its notes are, by which they are found to be below it.
        transient = refusal_of(error, absolute).transient
        named = walk.workspace.relative(extra.absolute) if transient else extra.configured
        walk.skip_for(error, named, absolute, "extra path: ")
        return
    path = walk.workspace.relative(absolute)
    if stat.S_ISDIR(status.st_mode):
        walk.skipped.pop(printable(path), None)  # a hidden folder that the user names is wanted after all
        _take_folder(walk, "" if path == "." else path, absolute)
    elif not absolute.endswith(NOTE_SUFFIX):
        walk.skip(path, "extra path: is neither a folder nor a file that ends in .md")
    else:
        walk.offer(path, absolute, status)
        walk.close_group()


def _take_folder(walk: _Walk, path: str, absolute: str) -> None:
    """Take a folder with all below it; ``path`` is its relative form ("" for the workspace itself)."""
    pending = [(path, absolute)]
    group, max_bytes, user = walk.group, walk.max_bytes, _EFFECTIVE_USER()
    while pending:
        path, absolute = pending.pop()
        prefix = path + "/" if path else ""
        ascii_prefix = prefix.isascii()
        try:
            with os.scandir(absolute) as entries:
                for entry in entries:
                    name = entry.name
                    if not name.endswith(NOTE_SUFFIX):
                        _take_other(walk, prefix + name, entry, pending)
                        continue
                    # The plain case is written out here: it is what a walk of many thousand notes is made of.
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue  # removed during the walk
                    except OSError as error:
                        walk.skip_for(error, prefix + name, entry.path)
                        continue
                    mode = status.st_mode & 0o170444
                    plain = mode == 0o100444 or (mode == 0o100400 and status.st_uid == user)
                    if plain and status.st_size <= max_bytes and ascii_prefix and name.isascii():
                        group.append(found_file(prefix + name, entry.path, status))
                    elif stat.S_ISDIR(status.st_mode) or (stat.S_ISLNK(status.st_mode) and _is_folder(entry)):
                        _take_other(walk, prefix + name, entry, pending)
                    else:
                        walk.offer(prefix + name, entry.path, status)
        except FileNotFoundError:
            continue  # removed during the walk
        except OSError as error:
            walk.skip_for(error, path or ".", absolute, "folder ")
    walk.close_group()


def _take_other(walk: _Walk, path: str, entry: os.DirEntry[str], pending: list[tuple[str, str]]) -> None:
    """Take or report what is no file with the right ending; silent about files of other kinds."""
    name = entry.name
    if entry.is_dir(follow_symlinks=False):
        if is_ignored_folder(name):
            walk.skip(path, _HIDDEN if name.startswith(".") else _TOOLS)
        elif not _is_utf8(path):
            walk.skip(path, _NAME)
        else:
            pending.append((path, entry.path))
    elif entry.is_symlink() and _is_folder(entry):
        walk.skip(path, _FOLDER_LINK)
    elif is_note_name(name):
        walk.skip(path, LINK if entry.is_symlink() else _SUFFIX_CASE)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link in a circle, or into a folder that may not be entered
        return False


def _is_utf8(path: str) -> bool:
    if path.isascii():
        return True
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _may_read(absolute: str, status: os.stat_result) -> bool:
    mode = status.st_mode
    if mode & 0o444 == 0o444 or (mode & 0o400 and status.st_uid == _EFFECTIVE_USER()):
        return True  # spares a call to the system for nearly every file
    return os.access(absolute, os.R_OK, effective_ids=_EFFECTIVE_IDS)
