"""The index file by file: each compared with the disk, and what the whole was built with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import WHOLE, ExcludedFile, Freshness, Source, as_json
from openclaw_mem_engine.providers.base import Embedder
from openclaw_mem_engine.stores.base import Capabilities, Counts, Fingerprint, IndexStore, SpaceSize
from openclaw_mem_engine.stores.base import FileState as IndexedFile
from openclaw_mem_engine.sync.changes import Changes, is_on_disk, listed
from openclaw_mem_engine.sync.fingerprint import fingerprint_of, needs_rebuild
from openclaw_mem_engine.workspace.listing import notes_not_included
from openclaw_mem_engine.workspace.rules import source_of

#: In the order in which they are shown: what needs attention first. ``modified``, ``not-indexed``: the next
#: sync reads it. ``deleted``, ``not-included`` (on disk, no longer included): the next sync removes it.
#: ``stale``: as on disk, but the index was built with other settings, and the next sync builds it anew.
#: ``excluded``: by a rule or a setting, because it cannot be read, or because it holds no text that can be
#: indexed. ``up-to-date``: as on disk.
FileState = Literal["modified", "not-indexed", "deleted", "not-included", "stale", "excluded", "up-to-date"]
FILE_STATES: tuple[FileState, ...] = get_args(FileState)
#: Those that the next sync reads or removes, unless it keeps them.
_WAITING: tuple[FileState, ...] = ("modified", "not-indexed", "deleted", "not-included")
#: Why it keeps one that is not found any more.
_KEPT = "kept in the index until there are notes again"
#: Those of a file that is on disk and in the index.
_HELD = "up-to-date", "modified"


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
    def words(self) -> str:
        """Its state for people."""
        return self.state.replace("-", " ")

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
    server. ``not_included``: a sentence about Markdown of the workspace that is no memory, "" without such.
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
    not_included: str = ""

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
    excluded: Iterable[ExcludedFile],
) -> Overview:
    """The index compared with a scan of the disk: ``changes`` since the last sync, and the ``excluded``
    files. Raises IndexUnavailable."""
    present, wanted = store.fingerprint(), fingerprint_of(settings, primary)
    rebuilt = present is not None and needs_rebuild(present, wanted)
    in_file = store.location == str(store.path) and store.path.exists()  # one may be left of before a server
    whole = store.path.stat().st_size if in_file else 0
    empty = freshness.state == "empty"
    rows = _rows(settings, store, changes, excluded, empty=empty)
    if rebuilt:
        rows = [replace(row, state="stale") if row.state == "up-to-date" else row for row in rows]
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
        notes_not_included(settings),
    )


def _rows(
    settings: Settings, store: IndexStore, changes: Changes, excluded: Iterable[ExcludedFile], *, empty: bool
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
        state: FileState = "not-indexed" if before is None else "modified"
        rows.append(FileRow(new.path, new.source, state, chunks.get(new.path, 0), new.size, *held))
    out = {file.path: file for file in excluded}
    for file in changes.removed:
        is_there = is_on_disk(settings, file.path)
        why = out[file.path].reason if is_there and file.path in out else ""
        rows.append(indexed(file, "not-included" if is_there else "deleted", why))
        known.pop(file.path, None)
    for file in [*known.values()] if WHOLE in out else ():  # no note is listed
        is_there = is_on_disk(settings, file.path)
        if file.source == "memory" or not is_there:
            rows.append(indexed(file, "not-included" if is_there else "deleted", _KEPT))
            del known[file.path]
    folders = tuple(path for path, file in out.items() if file.transient)
    for file in known.values():
        folder = next((path for path in folders if file.path.startswith(f"{path}/")), "")
        left_out = out.get(file.path) or out.get(folder)
        if file.refusal or left_out is None or not left_out.transient:
            rows.append(indexed(file, "excluded" if file.refusal else "up-to-date"))
        else:
            rows.append(indexed(file, "excluded", left_out.reason))
    if empty:
        rows = [
            replace(row, state="not-indexed", indexed_size=None, hash="") if row.state in _HELD else row
            for row in rows
        ]
    listed = {row.path for row in rows}
    rows += [
        FileRow(path, source_of(path), "excluded", 0, None, None, None, why=file.reason)
        for path, file in out.items()
        if path not in listed
    ]
    return rows


def files_on_disk(settings: Settings) -> tuple[FileRow, ...]:
    """The files that an index would hold, where there is none that can be read. Raises WorkspaceError."""
    return tuple(
        FileRow(file.path, file.source, "not-indexed", 0, file.size, None, file.mtime_ns / 1e9)
        for file in listed(settings).files
    )


def _order(row: FileRow) -> tuple[int, str]:
    return FILE_STATES.index(row.state), row.path


def _grown(settings: Settings, row: FileRow) -> FileRow:
    """An indexed transcript with its present size, though not all of that is indexed."""
    if row.source != "sessions" or row.state != "up-to-date":
        return row
    try:
        size = (settings.openclaw.sessions_dir / PurePosixPath(row.path).name).stat().st_size
    except OSError:
        return row
    return replace(row, size=size)
