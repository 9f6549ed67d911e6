"""Which files of a workspace are memory, and what is excluded.

Nothing that looks like a note disappears silently: links, oversized, unreadable and special files, other
spellings of ``.md``, duplicates and ignored folders are all in ``Listing.skipped`` with a reason.
"""

# Paths are strings here: a Path object per file would cost more than the whole walk.
# ruff: noqa: PTH112, PTH118, PTH206, PTH208

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.model import UNLISTED, MemoryFile, SkippedFile, Source
from openclaw_mem_engine.workspace.opening import (
    LINK,
    UNREADABLE,
    entries_of,
    kind_of,
    mtime_of,
    printable,
    refusal_of,
    through_link,
    too_large,
)
from openclaw_mem_engine.workspace.rules import (
    AGENT_FILES,
    MAX_NOTE_BYTES,
    MEMORY_FOLDER,
    NOTE_SUFFIX,
    ROOT_FILES,
    ExtraPath,
    Workspace,
    glob_pattern,
    is_ignored_folder,
    is_note_name,
    open_workspace,
    resolve_extras,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings

SUFFIX_CASE = 'ends in another spelling of "{}"; only lower case counts'
_FOLDER_LINK = "is a link to a folder; links are not followed"
_EXCLUDED = "excluded by the setting exclude"
#: How many entries of the folders of a workspace without ``memory/`` are looked at.
_MOST_SEEN = 20_000
_NAME = "its name is not UTF-8 text; rename it"
_EFFECTIVE_USER = getattr(os, "geteuid", lambda: None)
_EFFECTIVE_IDS = os.access in os.supports_effective_ids
#: On Windows ctime is when a file was made, which says nothing of changes.
_HAS_CTIME = os.name != "nt"
_NEW_FILE = tuple.__new__  # ``_make`` takes as long as all the rest of a record
_Key: TypeAlias = tuple[int, int | str]
_Folders: TypeAlias = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Listing:
    """The files that count and what is excluded, both sorted by path (by code point)."""

    files: tuple[MemoryFile, ...]
    skipped: tuple[SkippedFile, ...]


def notes_of(settings: Settings) -> Listing:
    """The notes of the configured workspace. Raises as ``list_memory``."""
    return list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes, settings.exclude)


def list_memory(
    root: Path,
    extra_paths: Sequence[str] = (),
    max_bytes: int = MAX_NOTE_BYTES,
    exclude: Sequence[str] = (),
) -> Listing:
    """List ``MEMORY.md``, ``memory.md``, ``memory/**/*.md`` and the extra paths of a workspace.

    ``extra_paths`` are absolute, ``~/…`` or workspace-relative: a folder with all below it, or a file that
    ends in ``.md``, or what matches wildcards; what lies outside of the workspace gets a ``../…`` path. What
    matches one of ``exclude``, a file or a folder by its path, is no memory. Only ``root`` itself may be a
    link. A file with several names counts once, under the first: top-level files before ``memory/`` before
    extra paths, then by path. ``max_bytes`` limits a note. Raises ``WorkspaceError`` when the workspace is
    missing or cannot be read.
    """
    workspace = open_workspace(root)
    walk = Walk("memory", max_bytes)
    if exclude:
        walk.excluded = re.compile("|".join(map(glob_pattern, exclude)), re.DOTALL)
    try:
        _take_root_files(walk, workspace.real)
        _take_memory_folder(walk, os.path.join(workspace.real, MEMORY_FOLDER))
    except OSError as error:
        raise WorkspaceError(
            f"The workspace {workspace.given} cannot be read just now: {error.strerror or error}. Check its "
            "permissions, and the disk or the server that holds it, and try again."
        ) from error
    extras = resolve_extras(workspace, extra_paths)
    for extra in extras:
        _take_extra(walk, workspace, extra)
    no_folder = not os.path.lexists(os.path.join(workspace.real, MEMORY_FOLDER))
    if no_folder and not extras and MEMORY_FOLDER not in walk.skipped:
        _count_outside(walk, workspace.real)
    return walk.listing()


@dataclass(slots=True)
class Walk:
    """What was found so far; ``group`` holds the files of one root, and ``again`` further names of them,
    until they are deduplicated by path. Keys are device and inode; some network file systems have no inodes
    and say 0: there device and path."""

    source: Source
    max_bytes: int
    files: dict[_Key, MemoryFile] = field(default_factory=dict)
    skipped: dict[str, SkippedFile] = field(default_factory=dict)  # by printable path
    group: dict[_Key, MemoryFile] = field(default_factory=dict)
    again: list[tuple[_Key, MemoryFile]] = field(default_factory=list)
    #: What is excluded, and what alone is taken, by path; None: nothing, and everything.
    excluded: re.Pattern[str] | None = None
    only: re.Pattern[str] | None = None

    def listing(self) -> Listing:
        by_path = attrgetter("path")
        return Listing(
            tuple(sorted(self.files.values(), key=by_path)),
            tuple(sorted(self.skipped.values(), key=by_path)),
        )

    def skip(self, path: str, reason: str, *, by_rule: bool = False, transient: bool = False) -> None:
        shown = printable(path)
        self.skipped.setdefault(shown, SkippedFile(shown, reason, by_rule, transient))

    def skip_for(self, error: Exception, path: str, what: str = "") -> None:
        """Exclude what the system refused; ``what`` begins the reason."""
        refusal = refusal_of(error, path)
        self.skip(path, what + refusal.reason, transient=refusal.transient)

    def take(self, path: str, absolute: str) -> None:
        """Take a file whose name counts, or say why not; silent when it was removed meanwhile."""
        try:
            self.offer(path, absolute, os.lstat(absolute))
        except FileNotFoundError:
            return
        except OSError as error:
            self.skip_for(error, path)

    def offer(self, path: str, absolute: str, status: os.stat_result) -> None:
        """The same with the status that was found."""
        mode, size = status.st_mode, status.st_size
        if self.excluded is not None and self.excluded.fullmatch(path):
            self.skip(path, _EXCLUDED, by_rule=True)
        elif not stat.S_ISREG(mode):
            self.skip(path, LINK if stat.S_ISLNK(mode) else f"is {kind_of(mode)}, not a plain file")
        elif size > self.max_bytes:
            self.skip(path, too_large(size, self.max_bytes))
        elif not path.isascii() and not _is_utf8(path):
            self.skip(path, _NAME)
        elif mode & 0o444 != 0o444 and not _may_read(absolute, status):
            self.skip(path, UNREADABLE, transient=True)
        else:
            ctime = status.st_ctime_ns if _HAS_CTIME else 0
            inode, device = status.st_ino, status.st_dev
            values = path, absolute, self.source, size, mtime_of(status), inode, device, ctime
            key, file = (device, inode or path), _NEW_FILE(MemoryFile, values)
            if self.group.setdefault(key, file) is not file:
                self.again.append((key, file))

    def close_group(self) -> None:
        """Deduplicate what one root gave; by path, so that the order of the disk decides nothing."""
        both = self.files.keys() & self.group.keys() | dict(self.again).keys()
        named_twice = [*self.again, *((key, self.group[key]) for key in both)]
        for key, file in self.again:
            self.group[key] = min(file, self.group[key])
        self.files = self.group | self.files
        for key, file in named_twice:
            # The same path again, from overlapping roots, is no news.
            if (known := self.files[key].path) != file.path:
                self.skip(file.path, f"the same file as {known}")
        self.group, self.again = {}, []


def _take_root_files(walk: Walk, real: str) -> None:
    preferred = ROOT_FILES[0]
    names = os.listdir(real)
    for name in names:
        absolute = os.path.join(real, name)
        if name in ROOT_FILES:
            walk.take(name, absolute)
        elif name.lower() == ROOT_FILES[1]:
            usual = os.path.join(real, preferred)
            if preferred not in names and os.path.lexists(usual):  # the disk ignores case
                walk.take(preferred, usual)
            else:
                walk.skip(name, "only the spellings MEMORY.md and memory.md count")
    walk.close_group()


def _take_memory_folder(walk: Walk, absolute: str) -> None:
    try:
        mode = os.lstat(absolute).st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        walk.skip_for(error, MEMORY_FOLDER, "folder ")
        return
    if stat.S_ISDIR(mode):
        _take_folder(walk, MEMORY_FOLDER, absolute)
    else:
        walk.skip(MEMORY_FOLDER, _link_reason(absolute) if stat.S_ISLNK(mode) else "is not a folder")


def _take_extra(walk: Walk, workspace: Workspace, extra: ExtraPath) -> None:
    if extra.refusal:
        walk.skip(extra.configured, f"extra path: {extra.refusal}")
        return
    absolute = extra.base
    parts = [part for part in extra.tail.split(os.sep) if part]
    try:
        status = os.lstat(absolute)
        for part in parts:
            absolute = os.path.join(absolute, part)
            status = os.lstat(absolute)
            if stat.S_ISLNK(status.st_mode):
                reason = _link_reason(absolute) if absolute == extra.absolute else through_link(part)
                walk.skip(extra.configured, f"extra path: {reason}; name the path that it points to")
                return
    except OSError as error:
        # What may be readable later is named as its notes are, by which they are found to be below it.
        transient = refusal_of(error, absolute).transient
        named = workspace.relative(extra.absolute) if transient else extra.configured
        walk.skip_for(error, named, "extra path: ")
        return
    path = workspace.relative(absolute)
    if stat.S_ISDIR(status.st_mode):
        walk.skipped.pop(printable(path), None)  # a hidden folder that the user names is wanted after all
        path = "" if path == "." else path
        if extra.glob:
            below_it = re.escape(f"{path}/") if path else ""
            walk.only = re.compile(below_it + glob_pattern(extra.glob), re.DOTALL)
        _take_folder(walk, path, absolute)
        walk.only = None
    elif not absolute.endswith(NOTE_SUFFIX):
        walk.skip(path, "extra path: is neither a folder nor a file that ends in .md")
    else:
        walk.offer(path, absolute, status)
        walk.close_group()


def _count_outside(walk: Walk, real: str) -> None:
    """Say how many notes lie in a workspace without ``memory/`` and are not taken."""
    elsewhere, seen = Walk("memory", walk.max_bytes, excluded=walk.excluded), 0
    pending = [("", real)]
    while pending and seen < _MOST_SEEN:
        path, absolute = pending.pop()
        prefix = path and f"{path}/"
        with suppress(OSError), entries_of(absolute) as entries:
            for entry in entries:
                seen += 1
                _take_entry(elsewhere, prefix + entry.name, absolute, entry, pending)
    found = (*elsewhere.group.items(), *elsewhere.again)
    names = {file.path for _, file in found} - {*ROOT_FILES, *AGENT_FILES}
    if names:
        count = f"{'at least ' if pending else ''}{len(names):,} Markdown file{'s'[: len(names) > 1]}"
        how = "the option --include '**/*.md' or the setting extra_paths takes them in"
        walk.skip(UNLISTED, f"{count} here and no folder {MEMORY_FOLDER}; {how}")


def _take_folder(walk: Walk, path: str, absolute: str) -> None:
    """Take a folder with all below it; ``path`` is its relative form ("" for the workspace itself)."""
    pending = [(path, absolute)]
    while pending:
        path, absolute = pending.pop()
        prefix = path + "/" if path else ""
        try:
            with entries_of(absolute) as entries:
                for entry in entries:
                    try:
                        _take_entry(walk, prefix + entry.name, absolute, entry, pending)
                    except FileNotFoundError:
                        continue  # removed during the walk
                    except OSError as error:
                        walk.skip_for(error, prefix + entry.name)
        except FileNotFoundError:
            continue  # removed during the walk
        except OSError as error:
            walk.skip_for(error, path or ".", "folder ")
    walk.close_group()


def _take_entry(walk: Walk, path: str, folder: str, entry: os.DirEntry[str], pending: _Folders) -> None:
    """Take or report what a folder holds; silent about files of other kinds. Raises OSError."""
    name, absolute = entry.name, f"{folder}{os.sep}{entry.name}"
    if name.endswith(NOTE_SUFFIX) and walk.only is None:
        status = entry.stat(follow_symlinks=False)  # which tells what it is, too
        if stat.S_ISREG(status.st_mode):
            walk.offer(path, absolute, status)
            return
    if entry.is_dir(follow_symlinks=False):
        if is_ignored_folder(name):
            kind = "hidden folder" if name.startswith(".") else "folder of a tool"
            walk.skip(path, f"{kind}; nothing in it is memory", by_rule=True)
        elif walk.excluded is not None and (
            walk.excluded.fullmatch(path) or walk.excluded.fullmatch(f"{path}/")
        ):
            walk.skip(path, _EXCLUDED, by_rule=True)
        elif not _is_utf8(path):
            walk.skip(path, _NAME)
        else:
            pending.append((path, absolute))
    elif walk.only is not None and not walk.only.fullmatch(path):
        return
    elif entry.is_symlink():
        reason = _link_reason(absolute)
        if reason is _FOLDER_LINK or is_note_name(name):
            walk.skip(path, reason)
    elif name.endswith(NOTE_SUFFIX):
        walk.offer(path, absolute, entry.stat(follow_symlinks=False))
    elif is_note_name(name):
        walk.skip(path, SUFFIX_CASE.format(NOTE_SUFFIX))


def _is_utf8(path: str) -> bool:
    """Whether the system gave no bytes of a name as surrogates, which are not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _link_reason(absolute: str) -> str:
    return _FOLDER_LINK if os.path.isdir(absolute) else LINK


def _may_read(absolute: str, status: os.stat_result) -> bool:
    if status.st_mode & 0o400 and status.st_uid == _EFFECTIVE_USER():
        return True  # spares a call to the system for nearly every file
    return os.access(absolute, os.R_OK, effective_ids=_EFFECTIVE_IDS)
