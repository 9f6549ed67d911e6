"""The index of the QMD backend file by file, each compared with the disk: a document is one chunk."""

from __future__ import annotations

from collections.abc import Iterator

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.inspection import FILE_STATES, FileRow, FileState, Overview
from openclaw_mem_engine.model import Freshness
from openclaw_mem_engine.providers.base import Embedder, space_of
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.sidecar.paths import shown_path
from openclaw_mem_engine.stores.base import Capabilities, Counts, Fingerprint, SpaceSize
from openclaw_mem_engine.stores.qmd.file_records import Known
from openclaw_mem_engine.stores.qmd.scanning import FoundFile
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.stores.qmd.updating import Differences

#: What a scan passes over without a look.
_NOT_LISTED = "Not listed: hidden files, folders of tools, linked folders, and files that no pattern matches."


def overview(
    settings: Settings,
    store: QmdStore,
    embedder: Embedder | None,
    freshness: Freshness,
    spaces: tuple[SpaceSize, ...],
) -> Overview:
    """The index compared with a scan of its collections; ``spaces`` are the vectors it holds. A file
    of two collections is one row, that of the state which needs attention first. Raises IndexUnavailable."""
    collections, differences = store.collections(), store.differences()
    found = [
        row
        for one in collections
        for row in _rows(settings, one, store.known(one.name), differences[one.name])
    ]
    rows: dict[str, FileRow] = {}
    for row in sorted(found, key=lambda row: (FILE_STATES.index(row.state), row.path)):
        rows.setdefault(row.path, row)
    status = store.status()
    size = store.path.stat().st_size if store.path.exists() else 0
    sources = tuple(one.name for one in collections)
    built = Fingerprint(*space_of(embedder), 0, 0, sources, chunker="documents")
    return Overview(
        str(store.path),
        size,
        max(0, status.bytes - size),
        Counts(status.documents, status.texts, 0),
        Capabilities(full_text=True, vector_search="in-process"),
        spaces,
        None if freshness.synced_at is None else built,
        built,
        (),
        freshness,
        tuple(rows.values()),
        _NOT_LISTED,
    )


def _rows(
    settings: Settings, collection: Collection, known: dict[str, Known], seen: Differences
) -> Iterator[FileRow]:

    def shown(path: str) -> str:
        return shown_path(collection, path, settings.workspace)

    documents = {path: one for path, one in known.items() if one.active}
    if seen.trouble:
        why = f"the folder {collection.root} cannot be read"
        for path, one in documents.items():
            yield FileRow(shown(path), collection.source, "excluded", 1, None, one.size, None, one.hash, why)
        return
    for file in seen.changed:
        yield _changed(shown(file.path), collection, file, documents.pop(file.path, None))
    for out in seen.excluded:
        before = documents.pop(out.path, None)
        kept = (1, None, before.size, None, before.hash) if before else (0, None, None, None, "")
        state: FileState = "not-included" if before and out.by_rule else "excluded"
        yield FileRow(shown(out.path), collection.source, state, *kept, out.reason)
    gone, ignored = frozenset(seen.gone), tuple(f"{one.path}/" for one in seen.excluded if one.by_rule)
    for path, one in documents.items():
        mtime = one.mtime_ns / 1e9 if one.mtime_ns is not None else None
        state = "not-included" if path.startswith(ignored) else "deleted" if path in gone else "up-to-date"
        yield FileRow(shown(path), collection.source, state, 1, one.size, one.size, mtime, one.hash)


def _changed(path: str, collection: Collection, file: FoundFile, before: Known | None) -> FileRow:
    """A file on disk that the next sync reads; ``before`` is its document."""
    size, mtime = file.status.st_size, file.status.st_mtime
    if before is None:
        return FileRow(path, collection.source, "not-indexed", 0, size, None, mtime)
    return FileRow(path, collection.source, "modified", 1, size, before.size, mtime, before.hash)
