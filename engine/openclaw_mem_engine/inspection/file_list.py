"""The index file by file: how each stands to the disk, and what the whole was built with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import Freshness, MemoryFile, SkippedFile, Source
from openclaw_mem_engine.providers.base import Embedder
from openclaw_mem_engine.stores.base import (
    Capabilities,
    Counts,
    FileState,
    Fingerprint,
    IndexStore,
    SpaceSize,
)
from openclaw_mem_engine.sync.indexer import fingerprint_of, needs_rebuild
from openclaw_mem_engine.sync.scan import Changes
from openclaw_mem_engine.workspace.transcript_listing import source_of

#: ``indexed``: as on disk. ``changed``, ``new``, ``gone``: the next sync reads or forgets it. ``refused``: it
#: holds no text for us. ``left-out``: it was met and does not take part.
Standing = Literal["indexed", "changed", "new", "gone", "refused", "left-out"]
#: What needs a look comes first.
STANDINGS: tuple[Standing, ...] = ("changed", "new", "gone", "refused", "left-out", "indexed")


@dataclass(frozen=True, slots=True)
class FileRow:
    """One file. ``size`` (bytes) and ``mtime`` (epoch seconds) are those on disk as far as they are known,
    None for a file that was left out; of one that is gone, those of the index. ``indexed_size`` is None for
    what is not in the index. ``hash`` is that of the indexed text. ``why`` explains a refusal. A file that
    cannot be read just now is left out with the chunks of its last reading, which are still searched. An
    indexed transcript that is larger than ``indexed_size`` has grown by less than is indexed by itself."""

    path: str
    source: Source
    standing: Standing
    chunks: int
    size: int | None
    indexed_size: int | None
    mtime: float | None
    hash: str = ""
    why: str = ""

    @property
    def delta(self) -> int:
        """Bytes that a changed file has more than what is indexed of it."""
        if self.size is None or self.indexed_size is None:
            return 0
        return self.size - self.indexed_size

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "source": self.source,
            "standing": self.standing,
            "chunks": self.chunks,
            "size": self.size,
            "indexedSize": self.indexed_size,
            "mtime": self.mtime,
            "hash": self.hash,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Overview:
    """The index at one moment. ``present`` is None for one that was never begun; ``differences`` between it
    and ``wanted`` mean that the next sync builds it anew. ``log_bytes`` are in the write-ahead log."""

    path: Path
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

    def number(self, *standings: Standing) -> int:
        """How many files stand like this."""
        return sum(row.standing in standings for row in self.files)


def overview(
    settings: Settings,
    store: IndexStore,
    primary: Embedder | None,
    freshness: Freshness,
    changes: Changes,
    skipped: Iterable[SkippedFile],
) -> Overview:
    """Put together what a look at the disk (``changes``, ``skipped``) and the index tell. Raises
    IndexUnavailable."""
    present, wanted = store.fingerprint(), fingerprint_of(settings, primary)
    other = present is not None and needs_rebuild(present, wanted)
    total = store.bytes_on_disk()
    whole = store.path.stat().st_size if store.path.exists() else 0
    return Overview(
        store.path,
        whole,
        max(0, total - whole),
        store.counts(),
        store.caps,
        tuple(store.spaces()),
        present,
        wanted,
        tuple(present.differences(wanted)) if present is not None and other else (),
        freshness,
        tuple(_grown(settings, row) for row in _rows(store, changes, skipped)),
    )


def _rows(store: IndexStore, changes: Changes, skipped: Iterable[SkippedFile]) -> list[FileRow]:
    """By standing, then by path."""
    known, chunks = dict(store.files()), store.chunk_counts()
    found = [_changed(file, known.pop(file.path, None), chunks) for file in changes.changed]
    found += [_of_state(state, "gone", chunks) for state in changes.removed]
    for state in changes.removed:
        known.pop(state.path, None)
    left = {file.path: file for file in skipped if not file.by_rule}
    folders = tuple(path for path, file in left.items() if file.transient)
    for state in known.values():
        why = left.get(state.path) or next((left[f] for f in folders if state.path.startswith(f"{f}/")), None)
        if state.refusal or why is None or not why.transient:
            found.append(_of_state(state, "refused" if state.refusal else "indexed", chunks))
        else:
            found.append(replace(_of_state(state, "left-out", chunks), why=why.reason))
    met = {row.path for row in found}
    for file in left.values():
        if file.path not in met:
            found.append(
                FileRow(file.path, source_of(file.path), "left-out", 0, None, None, None, why=file.reason)
            )
    found.sort(key=lambda row: (STANDINGS.index(row.standing), row.path))
    return found


def _grown(settings: Settings, row: FileRow) -> FileRow:
    """An indexed transcript as large as it is now, though not all of that is indexed."""
    if row.source != "sessions" or row.standing != "indexed":
        return row
    try:
        size = (settings.openclaw.sessions_dir / PurePosixPath(row.path).name).stat().st_size
    except OSError:
        return row
    return replace(row, size=size)


def _changed(file: MemoryFile, state: FileState | None, chunks: dict[str, int]) -> FileRow:
    return FileRow(
        file.path,
        file.source,
        "new" if state is None else "changed",
        chunks.get(file.path, 0),
        file.size,
        None if state is None else state.size,
        file.mtime_ns / 1e9,
        "" if state is None else state.hash,
    )


def _of_state(state: FileState, standing: Standing, chunks: dict[str, int]) -> FileRow:
    return FileRow(
        state.path,
        state.source,
        standing,
        chunks.get(state.path, 0),
        state.size,
        state.size,
        state.mtime_ns / 1e9,
        state.hash,
        state.refusal,
    )
