"""Bringing the documents of an index up to date with the files of its collections."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import apsw

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.model import ExcludedFile, Progress, text_hash
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.documents import title_of
from openclaw_mem_engine.stores.qmd.collections import Collections
from openclaw_mem_engine.stores.qmd.file_records import (
    BLANK,
    Known,
    Refused,
    is_unchanged,
    known_files,
    looks_unchanged,
    remember,
    skipped_file,
    still_refused,
)
from openclaw_mem_engine.stores.qmd.scanning import FoundFile, Scan, read_file, scan
from openclaw_mem_engine.stores.qmd.schema import space_cjk
from openclaw_mem_engine.workspace.opening import NoteRefused

#: What is written in one transaction, at most: characters of text, and files.
_BATCH_CHARACTERS, _BATCH_FILES = 4_000_000, 500


@dataclass(slots=True)
class CollectionUpdate:
    """What an update did to one collection, in documents. ``trouble`` is why it could not be looked at; its
    documents are then as they were. ``excluded`` are files that are not indexed, and why; paths are relative
    to the collection's root."""

    name: str
    pattern: str = ""
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    excluded: tuple[ExcludedFile, ...] = ()
    trouble: str = ""
    changed_paths: list[str] = field(default_factory=list)
    removed_paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateReport:
    """What an update did, collection by collection; ``orphans`` texts that no document has were deleted."""

    collections: tuple[CollectionUpdate, ...]
    orphans: int = 0

    @property
    def new(self) -> int:
        return sum(one.new for one in self.collections)

    @property
    def updated(self) -> int:
        return sum(one.updated for one in self.collections)

    @property
    def unchanged(self) -> int:
        return sum(one.unchanged for one in self.collections)

    @property
    def removed(self) -> int:
        return sum(one.removed for one in self.collections)

    @property
    def changed(self) -> bool:
        """Whether any document is another than before."""
        return bool(self.new or self.updated or self.removed)


class Differences(NamedTuple):
    """The files of a collection that are new or edited, the paths of documents whose file is gone, and what
    is no document, and why. ``trouble`` is why the collection could not be looked at, ``files`` how many it
    has in all."""

    changed: list[FoundFile]
    gone: list[str]
    excluded: list[ExcludedFile]
    trouble: str = ""
    files: int = 0


class _Read(NamedTuple):
    """A file that was read: ``text`` is None where the document is the same, or is no more."""

    file: FoundFile
    hash: str
    title: str
    text: str | None
    checked_ns: int


class Updating(Collections):
    """Updates of an index."""

    def update(
        self,
        collection: str | None = None,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        *,
        prune: bool = False,
    ) -> UpdateReport:
        """Index what is new or edited in one collection, or in all, and take out what is gone, with
        ``prune`` also all documents of a folder that is gone.

        Each batch is one transaction, so what was done before a stop, or a kill, stays. Files are read while
        no transaction is open. A file whose size, time and inode are those of the last reading is not read.
        Raises UsageError for an unknown collection, Cancelled, IndexLocked, IndexUnavailable."""
        self._check_writable()
        wanted = self.collections() if collection is None else (self.collection(collection),)
        done = tuple(self._update_one(one, progress, cancel, prune) for one in wanted)
        orphans = 0
        report = UpdateReport(done)
        if report.changed or self.updated_at() is None:
            with self._db.transaction() as connection:
                connection.execute("DELETE FROM content WHERE hash NOT IN (SELECT hash FROM documents)")
                orphans = connection.changes()
                facts = (("updated_at", str(time.time())), ("generation", str(self.generation() + 1)))
                for name, value in facts:
                    sql = "INSERT OR REPLACE INTO store_config(key, value) VALUES('openclaw_mem_' || ?, ?)"
                    connection.execute(sql, (name, value))
        return replace(report, orphans=orphans)

    def _update_one(
        self, collection: Collection, progress: Progress | None, cancel: CancelToken | None, prune: bool
    ) -> CollectionUpdate:
        report = CollectionUpdate(collection.name, collection.pattern)
        try:
            found = scan(collection, prune=prune)
        except WorkspaceError as error:
            report.trouble = str(error)
            return report
        known = known_files(self._db.read, collection.name)
        changed = [file for file in found.files if not is_unchanged(file, known.get(file.path))]
        refused = still_refused(found.files, changed, known)
        report.unchanged = len(found.files) - len(changed) - len(refused)
        gone = forgotten = known.keys() - {file.path for file in found.files}
        lasting: list[Refused] = []
        reading = self._read(found, changed, known, refused, lasting, progress, cancel)
        with closing(reading):
            for batch in _batches(reading):
                with self._db.transaction() as connection:
                    for read in batch:
                        _write(connection, collection.name, read, known.get(read.file.path), report)
        report.excluded = (*found.excluded, *refused)
        # What may be readable later is kept; what is refused for good, like a blank file, is no document.
        kept = {file.path for file in report.excluded if file.transient}
        folders = tuple(path for path in kept if path.endswith("/"))
        gone = {
            path
            for path in (gone | {file.path for file in refused}) - kept
            if path in known and known[path].active and not path.startswith(folders)
        }
        forgotten = {path for path in forgotten if known[path].refusal} | gone
        if forgotten or lasting:
            with self._db.transaction() as connection:
                sql = "UPDATE documents SET active = 0 WHERE collection = ? AND path = ?"
                connection.executemany(sql, [(collection.name, path) for path in sorted(gone)])
                sql = "DELETE FROM openclaw_mem_files WHERE collection = ? AND path = ?"
                connection.executemany(sql, [(collection.name, path) for path in forgotten])
                for file, reason, checked_ns in lasting:
                    remember(connection, collection.name, file, "", checked_ns, reason)
        report.removed, report.removed_paths = len(gone), tuple(sorted(gone))
        return report

    def differences(self, *, prune: bool = False) -> dict[str, Differences]:
        """What an update would take in, by collection. One stat a file, nothing is read."""
        found = {}
        for collection in self.collections():
            try:
                seen, known = scan(collection, prune=prune), known_files(self._db.read, collection.name)
            except WorkspaceError as error:
                found[collection.name] = Differences([], [], [], str(error))
                continue
            changed = [file for file in seen.files if not looks_unchanged(file, known.get(file.path))]
            gone = {path for path, one in known.items() if one.active} - {f.path for f in seen.files}
            excluded = [*seen.excluded, *still_refused(seen.files, changed, known)]
            found[collection.name] = Differences(changed, sorted(gone), excluded, files=len(seen.files))
        return found

    def known(self, collection: str) -> dict[str, Known]:
        """What the index has of each file of a collection, by path."""
        return known_files(self._db.read, collection)

    def known_file(self, collection: str, path: str) -> Known | None:
        """The same of one path. An index that QMD made does not say what its files were."""
        if self._has_details:
            return known_files(self._db.read, collection, path).get(path)
        sql = "SELECT hash, title, active FROM documents WHERE collection = ? AND path = ?"
        for hash_, title, active in self._db.read(sql, (collection, path)):
            return Known(hash_, title, active, None, None, None, None, None, None)
        return None

    def forget_files(self) -> None:
        """The next update reads every file, whatever its time and size say."""
        with self._db.transaction() as connection:
            connection.execute("DELETE FROM openclaw_mem_files")

    def updated_at(self) -> float | None:
        """Epoch seconds of the last update that changed something; None before the first one."""
        value = self._fact("updated_at")
        return float(value) if value else None

    def generation(self) -> int:
        """Grows with every update that changed something."""
        return int(self._fact("generation") or 0)

    def _fact(self, name: str) -> str | None:
        sql = "SELECT value FROM store_config WHERE key = 'openclaw_mem_' || ?"
        found = self._db.read(sql, (name,)) if self._has_collections else []
        return str(found[0][0]) if found else None

    @staticmethod
    def _read(
        found: Scan,
        files: list[FoundFile],
        known: dict[str, Known],
        refused: list[ExcludedFile],
        lasting: list[Refused],
        progress: Progress | None,
        cancel: CancelToken | None,
    ) -> Generator[_Read]:
        for number, file in enumerate(files):
            if cancel is not None and cancel.is_set():
                raise Cancelled("The update was stopped; finished work is kept.")
            if progress is not None:
                progress(number, len(files), file.path)
            begun = time.time_ns()
            try:
                note = read_file(found, file)
            except NoteRefused as refusal:
                if refusal.kind == "missing":
                    continue
                if refusal.transient:
                    refused.append(ExcludedFile(file.path, refusal.reason, transient=True))
                    continue
                reason = refusal.reason
            else:
                reason = "" if note.text.strip() else BLANK
            if reason:
                refused.append(skipped_file(file.path, reason))
                lasting.append(Refused(file, reason, begun))
                continue
            hash_, title = text_hash(note.text), title_of(note.text, file.path)
            before = known.get(file.path)
            same = before is not None and before.active and (before.hash, before.title) == (hash_, title)
            checked = begun * note.settled
            yield _Read(file, hash_, title, None if same else note.text, checked)
        if progress is not None and files:
            progress(len(files), len(files), "")


def _batches(reading: Iterable[_Read]) -> Iterator[list[_Read]]:
    """What goes into one transaction each. What was read before a stop is written too."""
    batch: list[_Read] = []
    size = 0
    try:
        for read in reading:
            batch.append(read)
            size += len(read.text or "")
            if size > _BATCH_CHARACTERS or len(batch) >= _BATCH_FILES:
                yield batch
                batch, size = [], 0
    except Cancelled:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _write(
    connection: apsw.Connection, collection: str, read: _Read, known: Known | None, report: CollectionUpdate
) -> None:
    """Store one document and what its file was."""
    status = read.file.status
    if read.text is None:
        report.unchanged += 1
    else:
        report.changed_paths.append(read.file.path)
        now = iso_time(time.time())
        born = getattr(status, "st_birthtime", None) or min(status.st_mtime, status.st_ctime)
        connection.execute("INSERT OR IGNORE INTO content VALUES(?, ?, ?)", (read.hash, read.text, now))
        row = (read.title, read.hash, iso_time(status.st_mtime), collection, read.file.path)
        if known is None or not known.hash:
            report.new += 1
            connection.execute(
                """INSERT INTO documents(title, hash, modified_at, collection, path, created_at)
                VALUES(?, ?, ?, ?, ?, ?) ON CONFLICT(collection, path) DO UPDATE SET
                title = excluded.title, hash = excluded.hash,
                modified_at = excluded.modified_at, active = 1""",
                (*row, iso_time(born)),
            )
        else:
            if not known.active:
                report.new += 1
            elif known.hash == read.hash:
                report.unchanged += 1  # only its title is another: QMD does not count that either
            else:
                report.updated += 1
            sql = """UPDATE documents SET title = ?, hash = ?, modified_at = ?, active = 1
                WHERE collection = ? AND path = ?"""
            connection.execute(sql, row)
        if not (read.text.isascii() and read.file.path.isascii() and collection.isascii()):
            space_cjk(connection, "d.collection = ? AND d.path = ?", (collection, read.file.path))
    remember(connection, collection, read.file, read.hash, read.checked_ns)


def iso_time(seconds: float) -> str:
    """ISO 8601 in UTC with milliseconds, as QMD writes times; the nearest that a calendar has."""
    moment = datetime.fromtimestamp(min(max(seconds, 0.0), 4e10), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
