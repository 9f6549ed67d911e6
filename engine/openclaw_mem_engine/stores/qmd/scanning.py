"""Which files belong to a collection, and reading one of them."""

# Paths are strings here: some 20,000 of them pass at a time.
# ruff: noqa: PTH110, PTH111, PTH113, PTH114, PTH116, PTH118

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.model import ExcludedFile
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.collections import IGNORED_FOLDERS, Collection, any_of, why_excluded
from openclaw_mem_engine.qmd.documents import split_masks
from openclaw_mem_engine.workspace.opening import NoteRefused, printable, refusal_of
from openclaw_mem_engine.workspace.reading import NoteText, read_note
from openclaw_mem_engine.workspace.rules import MAX_NOTE_BYTES, below


class FoundFile(NamedTuple):
    """A file of a collection: its path below the root, its real path, and what the system says of it."""

    path: str
    real: str
    status: os.stat_result


@dataclass(slots=True)
class Scan:
    """The files of a collection by path, sorted, and what was refused. ``root`` is the real path."""

    root: str
    files: list[FoundFile] = field(default_factory=list)
    excluded: list[ExcludedFile] = field(default_factory=list)


def scan(collection: Collection, *, prune: bool = False) -> Scan:
    """Look for the files of a collection: those that match its pattern and no pattern to ignore. Hidden files
    and linked folders are left out, and so is a linked file, unless it leads to one inside of the collection.
    Raises WorkspaceError when the root cannot be read, or is missing: with ``prune`` it has no files then."""
    try:
        root = os.path.realpath(os.path.expanduser(collection.root), strict=True)
        os.scandir(root).close()
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        if missing and prune:
            return Scan("")
        reason = refusal_of(error, str(collection.root)).reason
        until = "`openclaw-mem index --prune` removes them" if missing else "make it readable"
        raise WorkspaceError(
            f"The folder {collection.root} of the collection {collection.name!r} {reason}. Its documents "
            f"stay in the index as they are; {until}, or remove the collection."
        ) from error
    scan = Scan(root)
    wanted, ignored = any_of(split_masks(collection.pattern)), any_of(collection.ignore)
    for path, entry in _walk(scan, ignored):
        if not wanted.fullmatch(path):
            continue
        if ignored.fullmatch(path):
            scan.excluded.append(_ignored(path))
            continue
        try:
            _take(scan, path, entry)
        except FileNotFoundError:
            continue  # removed during the walk, or a link to nothing
        except OSError as error:
            scan.excluded.append(_skipped(refusal_of(error, path)))
    scan.files.sort()
    return scan


def why_left_out(collection: Collection, path: str) -> str:
    """Why ``scan`` does not take in a file that is or was there, by its path below the root: one reason, of
    the collection's rules first; "" when it does. Only links are looked at on the disk."""
    if why := why_excluded(collection, path):
        return why
    parts = path.split("/")
    folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
    root = os.path.realpath(os.path.expanduser(collection.root))
    if link := next((folder for folder in folders if os.path.islink(os.path.join(root, folder))), None):
        return f"{link} is a linked folder, which is not followed"
    file = os.path.join(root, path)
    if os.path.islink(file) and (not os.path.exists(file) or below(root, os.path.realpath(file)) is None):
        return "it is a link that leads out of the collection, or to nothing"
    return "it is not a regular file" if os.path.lexists(file) and not os.path.isfile(file) else ""


def _walk(scan: Scan, ignored: re.Pattern[str]) -> Iterator[tuple[str, os.DirEntry[str]]]:
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            with os.scandir(os.path.join(scan.root, prefix)) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    if entry.name.startswith("."):
                        continue
                    if not entry.is_dir(follow_symlinks=False):
                        yield path, entry
                    elif entry.name in IGNORED_FOLDERS:
                        continue
                    elif ignored.fullmatch(f"{path}/"):  # a pattern like `drafts/**`: all that is below
                        scan.excluded.append(_ignored(path))
                    else:
                        pending.append(f"{path}/")
        except FileNotFoundError:
            continue
        except OSError as error:
            scan.excluded.append(_skipped(refusal_of(error, prefix)))


def _take(scan: Scan, path: str, entry: os.DirEntry[str]) -> None:
    real = entry.path
    if entry.is_symlink():
        real = os.path.realpath(entry.path, strict=True)
        if below(scan.root, real) is None:
            scan.excluded.append(ExcludedFile(path, "is a link that leads out of the collection"))
            return
    status = os.stat(real)
    if not stat.S_ISREG(status.st_mode):
        return
    try:
        path.encode()
    except UnicodeEncodeError:
        scan.excluded.append(ExcludedFile(printable(path), "its name is not UTF-8 text; rename it"))
        return
    scan.files.append(FoundFile(path, real, status))


def read_file(scan: Scan, file: FoundFile) -> NoteText:
    """Read one file of a scan. No part of its path below the root may have become a link since. Raises
    NoteRefused."""
    return read_note(file.real, scan.root, MAX_NOTE_BYTES)


def _ignored(path: str) -> ExcludedFile:
    return ExcludedFile(printable(path), "is ignored by a pattern of its collection", by_rule=True)


def _skipped(refusal: NoteRefused) -> ExcludedFile:
    return ExcludedFile(printable(refusal.path), refusal.reason, transient=refusal.transient)
