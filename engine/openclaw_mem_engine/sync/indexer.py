"""Bringing the index up to date: scan, chunk, embed, write; interruptible at every step."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from openclaw_mem_engine.sync.embedding import (
    GROUP_CHUNKS,
    JOB_CHUNKS,
    Embedding,
    OutOfTime,
    fill_beside,
    probe,
)
from openclaw_mem_engine.sync.scan import Changes, Reading
from openclaw_mem_engine.sync.sources import changes_of
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import NoteText, read_note
from openclaw_mem_engine.workspace.transcripts import Transcript, read_transcript

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.base import Embedder


@dataclass(slots=True)
class SyncReport:
    """What one sync did. ``embedded`` counts texts sent to the embedder, ``cache_hits`` those it was spared;
    ``beside`` counts texts embedded for other than the primary space; ``verified`` counts known files that
    were read to compare them, when that was asked for; ``seconds`` is wall time."""

    files: int = 0
    chunks: int = 0
    embedded: int = 0
    cache_hits: int = 0
    beside: int = 0
    verified: int = 0
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
            "verified": self.verified,
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


def scan(
    settings: Settings, store: IndexStore, *, verify: bool = False, reading: Reading | None = None
) -> tuple[Changes, list[SkippedFile]]:
    """What a sync would do, and what it leaves out. ``verify`` and ``reading``: see ``scan.compare``. Raises
    WorkspaceError for a workspace that cannot be looked at."""
    known = store.files()
    changes, left_out = changes_of(settings, known, verify=verify, reading=reading)
    refused = [SkippedFile(s.path, s.refusal) for s in known.values() if s.refusal]
    fresh = {file.path for file in changes.changed} | {state.path for state in changes.removed}
    return changes, [*left_out, *(s for s in refused if s.path not in fresh)]


def sync(
    settings: Settings,
    store: IndexStore,
    embedders: Embedders,
    progress: Progress | None = None,
    cancel: CancelToken | None = None,
    *,
    force: bool = False,
    verify: bool = False,
    budget_s: float | None = None,
) -> SyncReport:
    """Make the index match the files on disk. No file is ever half written; what is done stays done.
    ``verify`` reads every file to compare it, whatever its time and size say.

    An index built with other settings (model, chunking, sources), or ``force``, is rebuilt aside and put in
    place in one step; but never for an embedder that does not answer, which would cost the vectors that are
    there. When the primary embedder fails, files are still indexed for keywords, the report says so, the next
    sync tries their vectors again, and the fallback makes vectors of its own space meanwhile.

    ``budget_s`` is for a search that waits for this: embedding stops after so many seconds, and nothing is
    rebuilt for an embedder that takes time. A note says what is left for ``openclaw-mem index``.
    Raises WorkspaceError, IndexUnavailable, Cancelled.
    """
    start = time.perf_counter()
    report = SyncReport()
    primary = embedders.primary
    limit = primary.max_input_bytes if primary else None
    quick = primary is None or primary.cheap_lines
    wanted = fingerprint_of(settings, primary)
    present = store.fingerprint()
    if present is None:
        store.begin(wanted)
        present = wanted

    def run(target: IndexStore, embedder: Embedder | None) -> Embedding:
        space = wanted.space if target is not store else present.space
        group = JOB_CHUNKS if settings.provider.batch.enabled else GROUP_CHUNKS
        embedding = Embedding(
            target, embedder, space, progress, cancel, group=group, budget_s=None if quick else budget_s
        )
        _Sync(settings, target, embedding, limit, progress, cancel, report).run(verify=verify)
        return embedding

    def rebuild() -> Embedding:
        done: list[Embedding] = []

        def fill(fresh: IndexStore) -> None:
            done.append(run(fresh, primary))
            if other and done[0].failure is not None:
                raise done[0].failure  # the old vectors are worth more than the new chunks

        store.rebuild(wanted, fill, cancel)
        report.rebuilt = True
        return done[0]

    other = needs_rebuild(present, wanted)
    failure: ProviderError | None = None
    embedding: Embedding | None = None
    if other and not quick and budget_s is not None:
        failure = OutOfTime("Settings changed, and a search does not wait for the index to be built anew.")
    elif primary is not None and (other or force):
        dims, failure = probe(primary, cancel)
        held = store.vector_dims(wanted.space)
        if held is not None and dims is not None and held != dims:
            store.forget_space(wanted.space)  # of another model by the same name, comparable with nothing
    if failure is None and (other or force):
        try:
            embedding = rebuild()
        except ProviderError as error:
            failure, report = error, SyncReport()
    if failure is not None:
        told = f"The index keeps its vectors of {present.space.label} as they are: {failure}"
        report.notes.append(_failure_note(failure, told))
        # New text is found by keywords, and by vectors that happen to be in the cache.
        embedding = run(store, None)
    elif embedding is None:
        embedding = run(store, primary)
    if report.rebuilt and other:
        told = "; ".join(present.differences(wanted))
        report.notes.append(Note("rebuilt", f"Settings changed ({told}): the index was rebuilt."))
    report.notes += dict.fromkeys(embedding.notes)
    if embedding.failure is not None:
        failure = embedding.failure
        told = f"Embedding failed: {failure} New text is found by keywords; vectors follow when it works."
        report.notes.append(_failure_note(failure, told))
    if isinstance(failure, OutOfTime):
        failure = None
    for beside in beside_of(embedders, primary_failed=failure is not None):
        if budget_s is not None and not beside.cheap_lines:
            continue
        made, notes = fill_beside(store, beside, progress, cancel)
        report.beside += made.embedded
        report.notes += notes
    if report.embedded or report.beside:
        store.prune_cache(settings.cache.max_entries if settings.cache.enabled else 0)
    report.seconds = time.perf_counter() - start
    return report


def _failure_note(failure: ProviderError, told: str) -> Note:
    if isinstance(failure, OutOfTime):
        return Note("embedding-later", f"{failure} `openclaw-mem index` does the rest.", "warning")
    return Note("embedding-failed", told, "warning")


def beside_of(embedders: Embedders, *, primary_failed: bool = False) -> list[Embedder]:
    """Whose vectors are made besides the primary's: those to be compared, and the fallback's: at once when
    they cost nothing, else when they are needed."""
    found = {space_of(embedder): embedder for embedder in embedders.also}
    fallback = embedders.fallback
    if fallback is not None and (primary_failed or fallback.cheap_lines):
        found[space_of(fallback)] = fallback
    found.pop(space_of(embedders.primary), None)
    return list(found.values())


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
        self._broken: dict[str, int] = {}
        self._built_with = store.fingerprint()
        self._space = embedding.space if embedding.space.provider != "none" else None

    def run(self, *, verify: bool = False) -> None:
        known = self._store.files() if verify else {}
        reading = self._verifying(len(known)) if verify else None
        changes, skipped = scan(self._settings, self._store, verify=verify, reading=reading)
        if verify:
            self._tell_of_silent_changes(changes, known)
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
        self._tell_of_broken_lines()
        counts = self._store.counts()
        self._report.files, self._report.chunks = counts.files, counts.chunks
        self._report.changed = tuple(written)
        self._report.removed = tuple(state.path for state in changes.removed)

    def _tell(self, done: int, total: int, label: str) -> None:
        if self._progress is not None:
            self._progress(done, total, label)

    def _verifying(self, total: int) -> Reading:
        def reading(path: str) -> None:
            self._stop_if_asked()
            self._tell(self._report.verified, total, path)
            self._report.verified += 1

        return reading

    def _tell_of_silent_changes(self, changes: Changes, known: Mapping[str, FileState]) -> None:
        """Files whose size, time and inode are as they were, and whose content is not."""
        silent = [
            file.path
            for file in changes.changed
            if (state := known.get(file.path)) is not None
            and not state.refusal
            and (state.size, state.mtime_ns, state.inode) == (file.size, file.mtime_ns, file.inode)
        ]
        if silent:
            some = ", ".join(silent[:3]) + (f" and {len(silent) - 3:,} more" if len(silent) > 3 else "")
            told = f"Changed although size and time say they are the same, and indexed anew: {some}."
            self._report.notes.append(Note("silent-changes", told, "warning"))

    def _tell_of_broken_lines(self) -> None:
        if broken := sum(self._broken.values()):
            some = ", ".join(list(self._broken)[:3]) + (" and others" if len(self._broken) > 3 else "")
            told = f"Lines of transcripts that are no JSON were left out: {broken:,} in {some}."
            self._report.notes.append(Note("broken-lines", told))

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
            return chunks_of(self._settings, file, self._space, self._max_input_bytes, self._broken)
        except NoteRefused as refusal:
            self._report.skipped.append(SkippedFile(file.path, refusal.reason))
            # A conversation is known to hold too much only when it was read; of a note its size tells.
            too_much = refusal.kind == "too-large" and file.source == "sessions"
            if refusal.kind not in ("binary", "not-utf8") and not too_much:
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
        self._store.apply(*changes, built_with=self._built_with)


def chunks_of(
    settings: Settings,
    file: MemoryFile,
    space: Space | None,
    max_input_bytes: int | None,
    broken: dict[str, int] | None = None,
) -> tuple[FileState, list[StoredChunk]]:
    """A file as the index would hold it. ``max_input_bytes``: see ``Embedder``. ``broken`` takes the number
    of lines of a transcript that could not be read, by path. Raises NoteRefused."""
    note: NoteText | Transcript
    line_map: Sequence[int] | None = None
    if file.source == "sessions":
        note = talk = read_transcript(file.absolute, settings.max_file_bytes)
        whole, line_map = talk.hash, talk.line_map
        if talk.broken and broken is not None:
            broken[file.path] = talk.broken
    else:
        note = read_note(file.absolute, str(settings.workspace), settings.max_file_bytes)
        whole = text_hash(note.text)
    model = space.model if space else ""
    chunks = []
    spans = index_chunks(note.text, settings.chunking.tokens, settings.chunking.overlap)
    for span in _within(spans, max_input_bytes):
        content = text_hash(span.text)
        first, last = span.start_line, span.end_line
        if line_map is not None:
            first, last = line_map[first - 1], line_map[last - 1]
        chunk_id = chunk_id_of(file.source, file.path, first, last, content, model)
        chunks.append(StoredChunk(chunk_id, file.path, file.source, first, last, content, span.text))
    # A file that changed while it was read keeps the older time, so that the next scan reads it again.
    checked = time.time_ns() if note.settled else 0
    state = FileState(file.path, file.source, whole, note.mtime_ns, note.size, note.inode, checked)
    return state, chunks


def _within(spans: Iterable[ChunkSpan], limit: int | None) -> Iterator[ChunkSpan]:
    """The chunks, those that an embedder would cut split at its limit. The parts keep the chunk's lines,
    which are the smallest place that can be named."""
    for span in spans:
        if limit is None or len(utf8(span.text)) <= limit:
            yield span
        else:
            yield from (replace(span, text=part) for part in split_utf8(span.text, limit))
