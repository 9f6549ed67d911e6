"""Bringing the index up to date: scan, chunk, embed, write; interruptible at every step."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
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
    MemoryFile,
    Note,
    Progress,
    SkippedFile,
    text_hash,
)
from openclaw_mem_engine.sync.scan import Changes, compare
from openclaw_mem_engine.workspace.listing import list_memory
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import read_note

if TYPE_CHECKING:
    from openclaw_mem_engine.index.protocol import Vector
    from openclaw_mem_engine.providers.base import Embedder

#: Chunks that are embedded and written together: enough for a provider's batch, few enough to stop soon.
_BATCH_CHUNKS = 256


@dataclass(slots=True)
class SyncReport:
    """What one sync did. ``embedded`` counts texts sent to the embedder, ``cache_hits`` those it was spared;
    ``seconds`` is wall time."""

    files: int = 0
    chunks: int = 0
    embedded: int = 0
    cache_hits: int = 0
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
        embedder.id if embedder else "none",
        embedder.model if embedder else "",
        embedder.key if embedder else "",
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


def other_dims(embedder: Embedder, sent: int, held: int) -> str:
    """What to say of vectors that cannot be compared with those of the index."""
    return (
        f"{embedder.id} {embedder.model} now sends vectors of {sent} dimensions, the index holds {held}: "
        "another model stands behind this name. Delete the index file and run `openclaw-mem index`."
    )


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
    embedder: Embedder | None,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    *,
    force: bool = False,
) -> SyncReport:
    """Make the index match the files on disk. No file is ever half written; what is done stays done.

    An index built with other settings (model, chunking, sources), or ``force``, is rebuilt aside and put in
    place in one step; but never for an embedder that does not answer, which would cost the vectors that are
    there. When the embedder fails, files are still indexed for keywords, the report says so, and the next
    sync tries their vectors again. Raises WorkspaceError, IndexUnavailable, Cancelled.
    """
    start = time.perf_counter()
    report = SyncReport()
    wanted = fingerprint_of(settings, embedder)
    present = store.fingerprint()
    if present is None:
        store.begin(wanted)
    elif present.provider != wanted.provider and embedder is not None and (failure := _probe(embedder)):
        told = f"The index keeps its {present.provider} vectors, keywords answer alone: {failure}"
        report.notes.append(Note("embedding-failed", told, "warning"))
        embedder = None
    elif force or needs_rebuild(present, wanted):
        if needs_rebuild(present, wanted):
            told = "; ".join(present.differences(wanted))
            report.notes.append(Note("rebuilt", f"Settings changed ({told}): the index was rebuilt."))

        def fill(fresh: IndexStore) -> None:
            _Sync(settings, fresh, embedder, progress, cancel, report).run()

        store.rebuild(wanted, fill, cancel)
        report.rebuilt = True
        report.seconds = time.perf_counter() - start
        return report
    _Sync(settings, store, embedder, progress, cancel, report).run()
    report.seconds = time.perf_counter() - start
    return report


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
        embedder: Embedder | None,
        progress: Progress | None,
        cancel: CancelToken | None,
        report: SyncReport,
    ) -> None:
        self._settings = settings
        self._store = store
        self._embedder = embedder
        self._progress = progress
        self._cancel = cancel
        self._report = report
        self._failure: ProviderError | None = None
        known = store.fingerprint()
        self._space = known if known is not None and known.provider != "none" else None

    def run(self) -> None:
        changes, skipped = scan(self._settings, self._store)
        self._report.skipped = skipped
        done, total = 0, len(changes.changed)
        written: list[str] = []
        for batch in self._batches(changes.changed):
            self._embed_and_write(batch)
            done += len(batch)
            written.extend(state.path for state, _ in batch)
            self._tell(done, total, batch[-1][0].path)
        for state in changes.removed:
            self._stop_if_asked()
            self._store.remove(state.path, state.source)
        self._store.touch(changes.touched)
        self._catch_up_vectors()
        if self._report.embedded:
            cache = self._settings.cache
            self._store.prune_cache(cache.max_entries if cache.enabled else 0)
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
            if waiting >= _BATCH_CHUNKS:
                yield batch
                batch, waiting = [], 0
        if batch:
            yield batch

    def _read(self, file: MemoryFile) -> tuple[FileState, list[StoredChunk]] | None:
        try:
            note = read_note(file.absolute, str(self._settings.workspace), self._settings.max_file_bytes)
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
        chunking = self._settings.chunking
        model = self._space.model if self._space else ""
        chunks = []
        for span in index_chunks(note.text, chunking.tokens, chunking.overlap):
            content = text_hash(span.text)
            chunk_id = chunk_id_of(file.source, file.path, span.start_line, span.end_line, content, model)
            chunks.append(
                StoredChunk(
                    chunk_id, file.path, file.source, span.start_line, span.end_line, content, span.text
                )
            )
        # A file that changed while it was read keeps the older time, so that the next scan reads it again.
        checked = time.time_ns() if note.settled else 0
        state = FileState(
            file.path, file.source, text_hash(note.text), note.mtime_ns, note.size, note.inode, checked
        )
        return state, chunks

    def _embed_and_write(self, batch: list[tuple[FileState, list[StoredChunk]]]) -> None:
        texts = {chunk.hash: chunk.text for _, chunks in batch for chunk in chunks}
        vectors = self._vectors_of(texts)
        changes = []
        for state, chunks in batch:
            awaited = self._space is not None and any(chunk.hash not in vectors for chunk in chunks)
            found = [vectors.get(chunk.hash) for chunk in chunks]
            changes.append(FileChange(state, chunks, found, awaited))
        self._store.apply(*changes)

    def _vectors_of(self, texts: dict[str, str]) -> dict[str, Vector | None]:
        """Vectors by text hash, from the cache where it has them; a hash is absent when embedding failed."""
        if self._space is None or not texts:
            return {}
        known = self._store.cached_vectors(texts)
        if self._embedder is None:
            return known
        missing = {key: text for key, text in texts.items() if key not in known}
        self._report.cache_hits += len(known)
        if missing and self._failure is None:
            try:
                made = self._embedder.embed_documents(list(missing.values()), self._cancel)
                self._check_dims(made)
            except ProviderError as error:
                self._failure = error
                told = (
                    f"Embedding failed: {error} New text is found by keywords; vectors follow when it works."
                )
                self._report.notes.append(Note("embedding-failed", told, "warning"))
            else:
                fresh = dict(zip(missing, made, strict=True))
                self._store.cache_vectors(fresh)
                self._report.embedded += len(fresh)
                known.update(fresh)
        return known

    def _check_dims(self, made: Sequence[Vector | None]) -> None:
        held = self._store.vector_dims()
        sent = next((vector.size for vector in made if vector is not None), held)
        if self._embedder is not None and held is not None and sent is not None and sent != held:
            raise ProviderError(other_dims(self._embedder, sent, held))

    def _catch_up_vectors(self) -> None:
        """Embed what an earlier sync could not."""
        if self._embedder is None or self._failure is not None:
            return
        while waiting := self._store.chunks_without_vector(_BATCH_CHUNKS):
            self._stop_if_asked()
            vectors = self._vectors_of({chunk.hash: chunk.text for chunk in waiting})
            if self._failure is not None:
                return
            ready = {c.chunk_id: v for c in waiting if (v := vectors.get(c.hash)) is not None}
            self._store.set_vectors(ready)
