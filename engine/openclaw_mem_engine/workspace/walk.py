"""What a walk through folders found: the files that count, once each, and what is excluded."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import field
from functools import cached_property
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TypeAlias

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import ExcludedFile, MemoryFile, Source
from openclaw_mem_engine.workspace.opening import (
    LINK,
    UNREADABLE,
    kind_of,
    mtime_of,
    printable,
    refusal_of,
    too_large,
)

EXCLUDED = "excluded by the setting exclude"
NOT_UTF8 = "its name is not UTF-8 text; rename it"
_EFFECTIVE_USER = getattr(os, "geteuid", lambda: None)
_EFFECTIVE_IDS = os.access in os.supports_effective_ids
#: On Windows ctime is when a file was made, which says nothing of changes.
_HAS_CTIME = os.name != "nt"
_NEW_FILE = tuple.__new__  # ``_make`` takes as long as all the rest of a record
#: The fields of a ``MemoryFile``.
_Values: TypeAlias = tuple[str, str, Source, int, int, int, int, int]
_INODE = MemoryFile._fields.index("inode")


@dataclass(frozen=True)
class Listing:
    """The files that count, notes first, and what is excluded, both sorted by path (by code point).
    ``found`` are the fields of the files, in the order of the disk: of most listings no more is wanted.
    ``folders`` are the absolute paths of all that it went through."""

    found: tuple[_Values, ...]
    excluded: tuple[ExcludedFile, ...]
    folders: frozenset[str] = frozenset()

    @cached_property
    def files(self) -> tuple[MemoryFile, ...]:
        by_path = sorted(self.found, key=itemgetter(2, 0))
        return tuple([_NEW_FILE(MemoryFile, values) for values in by_path])


@dataclass(slots=True)
class Walk:
    """What was found so far; ``group`` holds the files of one root, and ``groups`` those of the roots before
    it, which come first where a file has several names."""

    source: Source
    max_bytes: int
    excluded: dict[str, ExcludedFile] = field(default_factory=dict)  # by printable path
    group: list[_Values] = field(default_factory=list)
    groups: list[list[_Values]] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    #: What is excluded, and what alone is taken, by path; None: nothing, and everything.
    exclude: re.Pattern[str] | None = None
    only: re.Pattern[str] | None = None

    def listing(self) -> Listing:
        found = [*chain(*self.groups)]
        if len({values[_INODE] for values in found}) < len(found):
            found = self._distinct()
        excluded = tuple(sorted(self.excluded.values(), key=attrgetter("path")))
        return Listing(tuple(found), excluded, frozenset(self.folders))

    def _distinct(self) -> list[_Values]:
        """Each file once; by path, so that the order of the disk decides nothing. Device and inode tell files
        apart; some network file systems have no inodes and say 0: there device and path."""
        files: dict[tuple[int, int | str], _Values] = {}
        for values in chain(*map(sorted, self.groups)):
            path, _, _, _, _, inode, device, _ = values
            first, *_ = files.setdefault((device, inode or path), values)
            if first != path:  # the same path again, from overlapping roots, is no news
                self.skip(path, f"the same file as {first}")
        return [*files.values()]

    def skip(self, path: str, reason: str, *, by_rule: bool = False, transient: bool = False) -> None:
        shown = printable(path)
        self.excluded.setdefault(shown, ExcludedFile(shown, reason, by_rule, transient))

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
        if self.exclude is not None and self.exclude.fullmatch(path):
            self.skip(path, EXCLUDED, by_rule=True)
        elif not stat.S_ISREG(mode):
            self.skip(path, LINK if stat.S_ISLNK(mode) else f"is {kind_of(mode)}, not a plain file")
        elif size > self.max_bytes:
            self.skip(path, too_large(size, self.max_bytes))
        elif not path.isascii() and not is_utf8(path):
            self.skip(path, NOT_UTF8)
        elif mode & 0o444 != 0o444 and not _may_read(absolute, status):
            self.skip(path, UNREADABLE, transient=True)
        else:
            ctime = status.st_ctime_ns if _HAS_CTIME else 0
            inode, device = status.st_ino, status.st_dev
            self.group.append((path, absolute, self.source, size, mtime_of(status), inode, device, ctime))

    def close_group(self) -> None:
        """What follows is of another root."""
        self.groups.append(self.group)
        self.group = []


def is_utf8(path: str) -> bool:
    """Whether the system gave no bytes of a name as surrogates, which are not UTF-8."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _may_read(absolute: str, status: os.stat_result) -> bool:
    if status.st_mode & 0o400 and status.st_uid == _EFFECTIVE_USER():
        return True  # spares a call to the system for nearly every file
    return os.access(absolute, os.R_OK, effective_ids=_EFFECTIVE_IDS)
