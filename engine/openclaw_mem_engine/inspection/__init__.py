"""The index file by file: each compared with the disk, and what the whole was built with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import WHOLE, Freshness, SkippedFile, Source, as_json
from openclaw_mem_engine.providers.base import Embedder
from openclaw_mem_engine.stores.base import Capabilities, Counts, Fingerprint, IndexStore, SpaceSize
from openclaw_mem_engine.stores.base import FileState as IndexedFile
from openclaw_mem_engine.sync.changes import Changes, is_on_disk
from openclaw_mem_engine.sync.fingerprint import fingerprint_of, needs_rebuild
from openclaw_mem_engine.workspace.listing import unlisted_notes
from openclaw_mem_engine.workspace.rules import source_of

#: ``indexed``: as on disk. ``changed``, ``new``: the next sync reads it. ``gone`` (deleted), ``unlisted`` (on
#: disk, no longer included): the next sync removes it. ``stale``: as on disk, but the index was built with
#: other settings, and the next sync builds it anew. ``refused``: it holds no text that can be indexed.
#: ``excluded``: by a rule or a setting, or because it cannot be read.
FileState = Literal["indexed", "changed", "new", "gone", "unlisted", "stale", "refused", "excluded"]
#: Each in words, in the order in which they are shown: what needs attention first.
FILE_WORDS: Mapping[FileState, str] = {
    "changed": "modified",
    "new": "not indexed",
    "gone": "deleted",
    "unlisted": "not included",
    "stale": "stale",
    "refused": "excluded",
    "excluded": "excluded",
    "indexed": "up to date",
}
FILE_STATES = (*FILE_WORDS,)
#: Those that the next sync reads or removes, unless it keeps them.
_WAITING = "changed", "new", "gone", "unlisted"
#: Why it keeps one that is not found any more.
_KEPT = "kept in the index until there are notes again"
#: Those of a file that is on disk and in the index.
_HELD = "indexed", "changed"


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file. ``size`` (bytes) and ``mtime`` (epoch seconds) are those on disk, None for an excluded file;
    of one that is deleted or not included, those of the index. ``indexed_size`` is None for what is not in
    the index. ``hash`` is that of the indexed text. ``why`` explains a refusal. A file that cannot be read
    now is excluded with the chunks of its last reading. An indexed transcript may have grown by less than a
    sync reads for itself."""

    path: str
    source: Source
    state: FileState
    chunks: int
    size: int | None
    indexed_size: int | None
    mtime: float | None
    hash: str = ""
    why: str = ""

    @property
    def delta(self) -> int:
        """Bytes that a changed file has more than its indexed text; negative for a smaller file."""
        if self.size is None or self.indexed_size is None:
            return 0
        return self.size - self.indexed_size

    @property
    def kept(self) -> bool:
        """Whether no sync removes it, though it is not found: the workspace was emptied."""
        return self.why == _KEPT

    @property
    def waits(self) -> bool:
        """Whether the next sync reads or removes it."""
        return self.state in _WAITING and not self.kept

    def to_dict(self) -> dict[str, Any]:
        return as_json(self)


@dataclass(frozen=True, slots=True)
class Overview:
    """The index at one moment. ``present`` is None for an index without any sync; ``differences`` between it
    and ``wanted`` mean that the next sync builds it anew. ``location`` is its file, or server and
    shard; ``bytes`` the size of the file; ``log_bytes`` that of its write-ahead log, or of rows on a
    server. ``unlisted``: a sentence about Markdown of the workspace that is no memory, "" without such.
    """

    location: str
    bytes: int
    log_bytes: int
    counts: Counts
    caps: Capabilities
    spaces: tuple[SpaceSize, ...]
    present: Fingerprint | None
    wanted: Fingerprint
    differences: tuple[str, ...]
    freshness: Freshness
    files: tuple[FileRow, ...]
    unlisted: str = ""

    def number(self, *states: FileState) -> int:
        return sum(row.state in states for row in self.files)

    @property
    def waiting(self) -> int:
        """How many files the next sync reads or removes."""
        return sum(row.waits for row in self.files)


def overview(
    settings: Settings,
    store: IndexStore,
    primary: Embedder | None,
    freshness: Freshness,
    changes: Changes,
    skipped: Iterable[SkippedFile],
) -> Overview:
    """The index compared with a scan of the disk: ``changes`` since the last sync, and the ``skipped`` files.
    Raises IndexUnavailable."""
    present, wanted = store.fingerprint(), fingerprint_of(settings, primary)
    rebuilt = present is not None and needs_rebuild(present, wanted)
    in_file = store.location == str(store.path) and store.path.exists()  # one may be left of before a server
    whole = store.path.stat().st_size if in_file else 0
    empty = freshness.state == "empty"
    rows = _rows(settings, store, changes, skipped, empty=empty)
    if rebuilt:
        rows = [replace(row, state="stale") if row.state == "indexed" else row for row in rows]
    return Overview(
        store.location,
        whole,
        max(0, store.bytes_on_disk() - whole),
        store.counts(),
        store.caps,
        tuple(store.spaces()),
        present,
        wanted,
        tuple(present.differences(wanted)) if present is not None and rebuilt else (),
        freshness,
        tuple(_grown(settings, row) for row in sorted(rows, key=_order)),
        unlisted_notes(settings),
    )


def _rows(
    settings: Settings, store: IndexStore, changes: Changes, skipped: Iterable[SkippedFile], *, empty: bool
) -> list[FileRow]:
    """One row for each file. ``empty``: the index is gone, with all it knew."""
    known, chunks = dict(store.files()), {} if empty else store.chunk_counts()

    def indexed(file: IndexedFile, state: FileState, why: str = "") -> FileRow:
        size, mtime, number = file.size, file.mtime_ns / 1e9, chunks.get(file.path, 0)
        why = why or file.refusal
        return FileRow(file.path, file.source, state, number, size, size, mtime, file.hash, why)

    rows = []
    for new in changes.changed:
        mtime, before = new.mtime_ns / 1e9, known.pop(new.path, None)
        held = (None, mtime) if before is None else (before.size, mtime, before.hash)
        state: FileState = "new" if before is None else "changed"
        rows.append(FileRow(new.path, new.source, state, chunks.get(new.path, 0), new.size, *held))
    excluded = {file.path: file for file in skipped}
    for file in changes.removed:
        is_there = is_on_disk(settings, file.path)
        why = excluded[file.path].reason if is_there and file.path in excluded else ""
        rows.append(indexed(file, "unlisted" if is_there else "gone", why))
        known.pop(file.path, None)
    for file in [*known.values()] if WHOLE in excluded else ():  # no note is listed
        is_there = is_on_disk(settings, file.path)
        if file.source == "memory" or not is_there:
            rows.append(indexed(file, "unlisted" if is_there else "gone", _KEPT))
            del known[file.path]
    folders = tuple(path for path, file in excluded.items() if file.transient)
    for file in known.values():
        folder = next((path for path in folders if file.path.startswith(f"{path}/")), "")
        left_out = excluded.get(file.path) or excluded.get(folder)
        if file.refusal or left_out is None or not left_out.transient:
            rows.append(indexed(file, "refused" if file.refusal else "indexed"))
        else:
            rows.append(indexed(file, "excluded", left_out.reason))
    if empty:
        rows = [
            replace(row, state="new", indexed_size=None, hash="") if row.state in _HELD else row
            for row in rows
        ]
    listed = {row.path for row in rows}
    rows += [
        FileRow(path, source_of(path), "excluded", 0, None, None, None, why=file.reason)
        for path, file in excluded.items()
        if path not in listed
    ]
    return rows


def _order(row: FileRow) -> tuple[int, str]:
    return FILE_STATES.index(row.state), row.path


def _grown(settings: Settings, row: FileRow) -> FileRow:
    """An indexed transcript with its present size, though not all of that is indexed."""
    if row.source != "sessions" or row.state != "indexed":
        return row
    try:
        size = (settings.openclaw.sessions_dir / PurePosixPath(row.path).name).stat().st_size
    except OSError:
        return row
    return replace(row, size=size)
