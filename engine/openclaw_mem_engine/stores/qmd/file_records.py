"""What the index keeps of each file that it has read, so that an unchanged one is not read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import apsw

from openclaw_mem_engine.model import ExcludedFile
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.stores.qmd.scanning import FoundFile
from openclaw_mem_engine.stores.sqlite.database import Bound
from openclaw_mem_engine.workspace.opening import mtime_of, proves_unchanged

#: Why a file without text is no document: it is none by rule, so an index without it is complete.
BLANK = "is blank"


class Known(NamedTuple):
    """What the index has of a file. ``read_hash`` and what follows are of the file that was last read;
    ``refusal`` is why it was no document then, "" when it was one."""

    hash: str
    title: str
    active: int
    read_hash: str | None
    size: int | None
    mtime_ns: int | None
    inode: int | None
    checked_ns: int | None
    refusal: str | None


class Refused(NamedTuple):
    """A file that was read and is no document for good, as it is; ``checked_ns`` is when."""

    file: FoundFile
    reason: str
    checked_ns: int


def known_files(
    read: Callable[[str, Bound], list[Bound]], collection: str, path: str | None = None
) -> dict[str, Known]:
    """What the index has of a collection, or of one path of it, by path; ``read`` runs a query."""
    one = ("", "") if path is None else ("AND f.path = ?2", "AND d.path = ?2")
    file = "f.hash, f.size, f.mtime_ns, f.inode, f.checked_ns, f.refusal"
    sql = f"""SELECT f.path, '', '', 0, {file} FROM openclaw_mem_files f
        WHERE f.collection = ?1 AND f.refusal <> '' {one[0]}
        UNION ALL SELECT d.path, d.hash, d.title, d.active, {file}
        FROM documents d LEFT JOIN openclaw_mem_files f ON f.collection = d.collection AND f.path = d.path
        WHERE d.collection = ?1 {one[1]}"""
    bound = (collection,) if path is None else (collection, path)
    return {found: Known(*rest) for found, *rest in read(sql, bound)}


def looks_unchanged(file: FoundFile, known: Known | None) -> bool:
    """Whether the file has size, time and inode of the one that was last read, and the document is what was
    read then (another program may have written it since)."""
    if known is None or bool(known.active) == bool(known.refusal):
        return False
    if known.active and known.read_hash != known.hash:
        return False
    status = file.status
    return (status.st_size, mtime_of(status), status.st_ino) == (known.size, known.mtime_ns, known.inode)


def is_unchanged(file: FoundFile, known: Known | None) -> bool:
    """The same, and it was read so long after its last change that a later one would have another time."""
    if known is None or not known.checked_ns or not looks_unchanged(file, known):
        return False
    status = file.status
    changed_ns = max(mtime_of(status), 0 if os.name == "nt" else status.st_ctime_ns)
    return proves_unchanged(known.checked_ns, changed_ns)


def still_refused(
    files: Iterable[FoundFile], changed: Iterable[FoundFile], known: dict[str, Known]
) -> list[ExcludedFile]:
    """The files that are no documents and need not be read again to know it."""
    again = {file.path for file in changed}
    return [
        skipped_file(file.path, one.refusal)
        for file in files
        if file.path not in again and (one := known.get(file.path)) is not None and one.refusal
    ]


def skipped_file(path: str, reason: str) -> ExcludedFile:
    return ExcludedFile(path, reason, by_rule=reason == BLANK)


def remember(
    connection: apsw.Connection,
    collection: str,
    file: FoundFile,
    hash_: str,
    checked_ns: int,
    refusal: str = "",
) -> None:
    """Store what a file was when it was read."""
    status = file.status
    connection.execute(
        "INSERT OR REPLACE INTO openclaw_mem_files VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        (collection, file.path, hash_, status.st_size, mtime_of(status), status.st_ino, checked_ns, refusal),
    )
