"""Bringing the index up to date: scan, chunk, embed, write; interruptible at every step."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.chunking.lines import index_chunks
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.index.identity import chunk_id_of
from openclaw_mem_engine.index.protocol import (
    FileChange,
    FileState,
    Fingerprint,
    IndexStore,
    StoredChunk,
)
from openclaw_mem_engine.model import (
    CancelToken,
    ChunkSpan,
    MemoryFile,
    Note,
    Progress,
    SkippedFile,
    Space,
    text_hash,
    utf8,
)
from openclaw_mem_engine.providers.base import Embedders, space_of
from openclaw_mem_engine.providers.limits import split_utf8
from openclaw_mem_engine.sync.embedding import GROUP_CHUNKS, JOB_CHUNKS, Embedding, fill_beside
from openclaw_mem_engine.sync.scan import Changes, compare
from openclaw_mem_engine.workspace.listing import list_memory
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import read_note

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder


@dataclass(slots=True)
class SyncReport:
    """What one sync did. ``embedded`` counts texts sent to the embedder, ``cache_hits`` those it was spared;
    ``beside`` counts texts embedded for other than the primary space; ``seconds`` is wall time."""

    files: int = 0
    chunks: int = 0
    embedded: int = 0
    cache_hits: int = 0
    beside: int = 0
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: list[SkippedFile] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    rebuilt: bool = False
    seconds: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """The stable answer of ``openclaw-mem index --json``."""
        return {
            "files": self.files,
            "chunks": self.chunks,
            "embedded": self.embedded,
            "cacheHits": self.cache_hits,
            "beside": self.beside,
            "changed": list(self.changed),
            "removed": list(self.removed),
            "skipped": [skipped.to_dict() for skipped in self.skipped],
            "notes": [note.to_dict() for note in self.notes],
            "rebuilt": self.rebuilt,
            "seconds": round(self.seconds, 3),
        }


def fingerprint_of(settings: Settings, embedder: Embedder | None) -> Fingerprint:
    """What an index made with these settings is built with."""
    return Fingerprint(
        *space_of(embedder),
        settings.chunking.tokens,
        settings.chunking.overlap,
        tuple(sorted(settings.sources)),
    )


def needs_rebuild(present: Fingerprint, wanted: Fingerprint) -> bool:
    """Whether an index with the present content cannot serve what is wanted.

    Searching by keywords alone (provider none) is served by any index of the same chunks: its vectors are
    just not asked, and are there when they are wanted again.
    """
    if wanted.provider == "none":
        wanted = replace(
            wanted, provider=present.provider, model=present.model, provider_key=present.provider_key
        )
    return present != wanted


def scan(settings: Settings, store: IndexStore) -> tuple[Changes, list[SkippedFile]]:
    """What a sync would do, and what it leaves out. Raises WorkspaceError for a workspace that cannot be
    looked at."""
    listing = list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes)
    known = store.files()
    changes = compare(listing, known, root=str(settings.workspace), max_bytes=settings.max_file_bytes)
    refused = [SkippedFile(s.path, s.refusal) for s in known.values() if s.refusal]
    fresh = {file.path for file in changes.changed} | {state.path for state in changes.removed}
    return changes, [*listing.skipped, *(s for s in refused if s.path not in fresh)]


def sync(
    settings: Settings,
    store: IndexStore,
    embedders: Embedders,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    *,
    force: bool = False,
) -> SyncReport:
    """Make the index match the files on disk. No file is ever half written; what is done stays done.

    An index built with other settings (model, chunking, sources), or ``force``, is rebuilt aside and put in
    place in one step; but never for an embedder that does not answer, which would cost the vectors that are
    there. When the primary embedder fails, files are still indexed for keywords, the report says so, the next
    sync tries their vectors again, and the fallback makes vectors of its own space meanwhile.
    Raises WorkspaceError, IndexUnavailable, Cancelled.
    """
    start = time.perf_counter()
    report = SyncReport()
    primary = embedders.primary
    limit = primary.max_input_bytes if primary else None
    wanted = fingerprint_of(settings, primary)
    present = store.fingerprint()
    if present is None:
        store.begin(wanted)
    elif primary is not None and present.space != wanted.space and (failure := _probe(primary)):
        told = f"The index keeps its vectors of {present.space.label}, keywords answer alone: {failure}"
        report.notes.append(Note("embedding-failed", told, "warning"))
        primary = None
    elif force or needs_rebuild(present, wanted):
        if needs_rebuild(present, wanted):
            told = "; ".join(present.differences(wanted))
            report.notes.append(Note("rebuilt", f"Settings changed ({told}): the index was rebuilt."))
        report.rebuilt = True

    def run(target: IndexStore) -> Embedding:
        group = JOB_CHUNKS if settings.provider.batch.enabled else GROUP_CHUNKS
        embedding = Embedding(target, primary, None, progress, cancel, group=group)
        _Sync(settings, target, embedding, limit, progress, cancel, report).run()
        return embedding

    if report.rebuilt:
        done: list[Embedding] = []
        store.rebuild(wanted, lambda fresh: done.append(run(fresh)), cancel)
        embedding = done[0]
    else:
        embedding = run(store)
    report.notes += dict.fromkeys(embedding.notes)
    if embedding.failure is not None:
        told = (
            f"Embedding failed: {embedding.failure} New text is found by keywords; "
            "vectors follow when it works."
        )
        report.notes.append(Note("embedding-failed", told, "warning"))
    failed = embedding.failure is not None or primary is not embedders.primary
    for beside in beside_of(embedders, primary_failed=failed):
        made, notes = fill_beside(store, beside, progress, cancel)
        report.beside += made.embedded
        report.notes += notes
    if report.embedded or report.beside:
        store.prune_cache(settings.cache.max_entries if settings.cache.enabled else 0)
    report.seconds = time.perf_counter() - start
    return report


def beside_of(embedders: Embedders, *, primary_failed: bool = False) -> list[Embedder]:
    """Whose vectors are made besides the primary's: those to be compared, and the fallback's: at once when
    they cost nothing, else when they are needed."""
    found = {space_of(embedder): embedder for embedder in embedders.also}
    fallback = embedders.fallback
    if fallback is not None and (primary_failed or fallback.cheap_lines):
        found[space_of(fallback)] = fallback
    found.pop(space_of(embedders.primary), None)
    return list(found.values())


def _probe(embedder: Embedder) -> ProviderError | None:
    """Why an embedder does not answer, or None when it does."""
    try:
        embedder.embed_query("memory")
    except ProviderError as error:
        return error
    return None


class _Sync:
    """One run over one store."""

    def __init__(
        self,
        settings: Settings,
        store: IndexStore,
        embedding: Embedding,
        max_input_bytes: int | None,
        progress: Progress | None,
        cancel: CancelToken | None,
        report: SyncReport,
    ) -> None:
        self._settings = settings
        self._store = store
        self._embedding = embedding
        self._max_input_bytes = max_input_bytes
        self._progress = progress
        self._cancel = cancel
        self._report = report
        known = store.fingerprint()
        self._space = known.space if known is not None and known.provider != "none" else None

    def run(self) -> None:
        changes, skipped = scan(self._settings, self._store)
        self._report.skipped = skipped
        done, total = 0, len(changes.changed)
        written: list[str] = []
        for batch in self._batches(changes.changed):
            self._embedding.files = (done, total)
            self._embed_and_write(batch)
            done += len(batch)
            written.extend(state.path for state, _ in batch)
            self._tell(done, total, batch[-1][0].path)
        for state in changes.removed:
            self._stop_if_asked()
            self._store.remove(state.path, state.source)
        self._store.touch(changes.touched)
        self._embedding.files = (done, total)
        if self._space is not None:
            self._embedding.catch_up("waiting passages")
        self._report.embedded += self._embedding.embedded
        self._report.cache_hits += self._embedding.cache_hits
        if written or changes.removed or changes.touched or self._store.synced_at() is None:
            # A sync that found nothing writes nothing: it need not wait for another process that does.
            self._store.finish(time.time())
        counts = self._store.counts()
        self._report.files, self._report.chunks = counts.files, counts.chunks
        self._report.changed = tuple(written)
        self._report.removed = tuple(state.path for state in changes.removed)

    def _tell(self, done: int, total: int, label: str) -> None:
        if self._progress is not None:
            self._progress(done, total, label)

    def _stop_if_asked(self) -> None:
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled("Indexing was stopped; the files done so far are in the index.")

    def _batches(self, files: Sequence[MemoryFile]) -> Iterator[list[tuple[FileState, list[StoredChunk]]]]:
        """Read and chunk files, grouped so that one call of the embedder serves many small ones."""
        batch: list[tuple[FileState, list[StoredChunk]]] = []
        waiting = 0
        for file in files:
            self._stop_if_asked()
            read = self._read(file)
            if read is None:
                continue
            batch.append(read)
            waiting += len(read[1])
            if waiting >= self._embedding.group:
                yield batch
                batch, waiting = [], 0
        if batch:
            yield batch

    def _read(self, file: MemoryFile) -> tuple[FileState, list[StoredChunk]] | None:
        try:
            return chunks_of(self._settings, file, self._space, self._max_input_bytes)
        except NoteRefused as refusal:
            self._report.skipped.append(SkippedFile(file.path, refusal.reason))
            if refusal.kind not in ("binary", "not-utf8"):
                return None  # it may be readable next time; what is indexed of it stays
            checked = time.time_ns()
            return FileState(
                file.path,
                file.source,
                "",
                file.mtime_ns,
                file.size,
                file.inode,
                checked,
                refusal.reason,
            ), []

    def _embed_and_write(self, batch: list[tuple[FileState, list[StoredChunk]]]) -> None:
        texts = {chunk.hash: chunk.text for _, chunks in batch for chunk in chunks}
        label = batch[-1][0].path
        vectors = self._embedding.vectors_of(texts, label) if self._space is not None else {}
        changes = []
        for state, chunks in batch:
            awaited = self._space is not None and any(chunk.hash not in vectors for chunk in chunks)
            found = [vectors.get(chunk.hash) for chunk in chunks]
            changes.append(FileChange(state, chunks, found, awaited))
        self._store.apply(*changes)


def chunks_of(
    settings: Settings, file: MemoryFile, space: Space | None, max_input_bytes: int | None
) -> tuple[FileState, list[StoredChunk]]:
    """A file as the index would hold it. ``max_input_bytes``: see ``Embedder``. Raises NoteRefused."""
    note = read_note(file.absolute, str(settings.workspace), settings.max_file_bytes)
    model = space.model if space else ""
    chunks = []
    spans = index_chunks(note.text, settings.chunking.tokens, settings.chunking.overlap)
    for span in _within(spans, max_input_bytes):
        content = text_hash(span.text)
        chunk_id = chunk_id_of(file.source, file.path, span.start_line, span.end_line, content, model)
        chunks.append(
            StoredChunk(chunk_id, file.path, file.source, span.start_line, span.end_line, content, span.text)
        )
    # A file that changed while it was read keeps the older time, so that the next scan reads it again.
    checked = time.time_ns() if note.settled else 0
    state = FileState(
        file.path, file.source, text_hash(note.text), note.mtime_ns, note.size, note.inode, checked
    )
    return state, chunks


def _within(spans: Iterable[ChunkSpan], limit: int | None) -> Iterator[ChunkSpan]:
    """The chunks, those that an embedder would cut split at its limit. The parts keep the chunk's lines,
    which are the smallest place that can be named."""
    for span in spans:
        if limit is None or len(utf8(span.text)) <= limit:
            yield span
        else:
            yield from (replace(span, text=part) for part in split_utf8(span.text, limit))
