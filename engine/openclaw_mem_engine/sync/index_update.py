"""One update of one store: read what changed, chunk, embed, write; it can be stopped at every step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import MemoryFile, Note, Progress, SkippedFile, Space
from openclaw_mem_engine.stores.base import FileChange, FileState, IndexStore, StoredChunk
from openclaw_mem_engine.sync.changes import Changes, listed, scan
from openclaw_mem_engine.sync.embedding import Embedding
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest, first_few
from openclaw_mem_engine.sync.source_text import PartlyRead, chunks_of
from openclaw_mem_engine.workspace.opening import NoteRefused

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector

#: Refusals that stay as long as the file is the same: they are recorded, so that it is read once.
_LASTING = ("binary", "not-utf8")


class IndexUpdate:
    """Makes one store match the files on disk, once. No file is ever half written, and what is done stays
    done. ``max_input_bytes``: see ``Embedder``. ``report`` takes what is done. ``clock`` gives epoch seconds,
    for the time of the sync."""

    def __init__(
        self,
        settings: Settings,
        store: IndexStore,
        embedding: Embedding,
        max_input_bytes: int | None,
        progress: Progress | None,
        cancel: CancelToken | None,
        report: SyncReport,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._store = store
        self.embedding = embedding
        self._max_input_bytes = max_input_bytes
        self._progress = progress
        self._cancel = cancel
        self._report = report
        self._clock = clock
        self._partly_read = PartlyRead()
        #: Refused files whose old text goes.
        self._emptied: list[str] = []
        self._known: Mapping[str, FileState] | None = None
        #: When the time for files is over, monotonic seconds.
        self._until = math.inf
        #: How many of the changed files were read.
        self._taken = 0
        self._built_with = store.fingerprint()
        self._space = embedding.space if embedding.space.provider != "none" else None

    def run(self, request: SyncRequest) -> None:
        """Compare, write what changed, remove what is gone, as the request says; at least one file is done.
        Embedding that has a limit of its own does not count for ``files_s``. Raises WorkspaceError,
        IndexUnavailable, Cancelled."""
        if request.files_s is not None:
            self._until = time.monotonic() + request.files_s
        known = self._store.files() if request.verify else {}

        def reading(path: str) -> None:
            if request.verify:
                self._stop_if_asked()
                self._show(self._report.verified, len(known), path)
                self._report.verified += 1

        listing = listed(self._settings)
        changes, self._report.skipped = scan(
            self._settings, self._store, listing, verify=request.verify, tails=request.tails, reading=reading
        )
        self._note_silent_changes(changes, known)
        done, total = 0, len(changes.changed)
        written: list[str] = []
        refused: list[str] = []
        for batch in self._batches(changes.changed):
            self.embedding.files = (done, total)
            self._embed_and_write(batch)
            done += len(batch)
            written.extend(state.path for state, _ in batch if not state.refusal)
            refused.extend(state.path for state, _ in batch if state.refusal)
            self._show(done, total, batch[-1][0].path)
        removed = self._remove(changes.removed)
        self._store.touch(changes.touched)
        left = [file.path for file in changes.changed[self._taken :]]
        left += [state.path for state in changes.removed[len(removed) :]]
        self._report.waiting = tuple(left)
        self.embedding.files = (done, total)
        if self._space is not None and not left:
            self.embedding.catch_up("waiting passages")
        self._report.embedded += self.embedding.embedded
        self._report.cache_hits += self.embedding.cache_hits
        if left:
            files = "1 file waits" if len(left) == 1 else f"{len(left):,} files wait"
            text = (
                f"{files} to be indexed, for which a search does not wait: they are new, edited or deleted. "
                "`openclaw-mem index` does the rest."
            )
            self._report.notes.append(Note("files-later", text, "warning"))
        elif written or refused or removed or changes.touched or self._store.synced_at() is None:
            # A sync that found nothing writes nothing: it need not wait for another process that does.
            self._store.finish(self._clock())
        self._report.skipped += self._partly_read.skipped
        self._report.notes += self._partly_read.notes
        counts = self._store.counts()
        self._report.files, self._report.chunks = counts.files, counts.chunks
        self._report.changed = tuple(written)
        self._report.refused = tuple(refused)
        self._report.removed = (*(state.path for state in removed), *self._emptied)

    def _remove(self, gone: Sequence[FileState]) -> Sequence[FileState]:
        """Remove files from the index, as many as there is time for; which."""
        for number, state in enumerate(gone):
            if (number or self._taken) and self._is_late:
                return gone[:number]
            self._stop_if_asked()
            self._store.remove(state.path, state.source)
        return gone

    @property
    def _is_late(self) -> bool:
        return time.monotonic() >= self._until

    def _show(self, done: int, total: int, label: str) -> None:
        if self._progress is not None:
            self._progress(done, total, label)

    def _note_silent_changes(self, changes: Changes, known: Mapping[str, FileState]) -> None:
        """Files whose size, time and inode are as they were, and whose content is not."""
        silent = [
            file.path
            for file in changes.changed
            if (state := known.get(file.path)) is not None
            and not state.refusal
            and (state.size, state.mtime_ns, state.inode) == (file.size, file.mtime_ns, file.inode)
        ]
        if silent:
            text = f"Not in the index as on disk, though their times are; indexed anew: {first_few(silent)}."
            self._report.notes.append(Note("silent-changes", text, "warning"))

    def _stop_if_asked(self) -> None:
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled("Indexing was stopped.")

    def _batches(self, files: Sequence[MemoryFile]) -> Iterator[list[tuple[FileState, list[StoredChunk]]]]:
        """Read and chunk files, grouped so that one call of the embedder serves many small ones."""
        batch: list[tuple[FileState, list[StoredChunk]]] = []
        waiting = 0
        for file in files:
            self._stop_if_asked()
            read = self._read(file)
            self._taken += 1
            if read is not None:
                batch.append(read)
                waiting += len(read[1])
            if batch and waiting >= self.embedding.group:
                yield batch
                batch, waiting = [], 0
            if self._is_late:
                break
        if batch:
            yield batch

    def _read(self, file: MemoryFile) -> tuple[FileState, list[StoredChunk]] | None:
        try:
            return chunks_of(self._settings, file, self._space, self._max_input_bytes, self._partly_read)
        except NoteRefused as refusal:
            self._report.skipped.append(SkippedFile(file.path, refusal.reason, transient=refusal.transient))
            # A conversation is known to hold too much only when it was read; of a note its size tells.
            too_much = refusal.kind == "too-large" and file.source == "sessions"
            if refusal.kind not in _LASTING and not too_much:
                return None  # it may be readable next time; what is indexed of it stays
            if self._known is None:
                self._known = self._store.files()  # once, before any refused file of this run is written
            before = self._known.get(file.path)
            if before is not None and not before.refusal:
                self._emptied.append(file.path)
            checked = time.time_ns()  # as the times of files, which it is compared with
            stat = file.mtime_ns, file.size, file.inode, checked
            return FileState(file.path, file.source, "", *stat, refusal.reason), []

    def _embed_and_write(self, batch: list[tuple[FileState, list[StoredChunk]]]) -> None:
        texts = {chunk.hash: chunk.text for _, chunks in batch for chunk in chunks}
        label = batch[-1][0].path
        began = time.monotonic()
        vectors = self.embedding.vectors_of(texts, label) if self._space is not None else {}
        if self.embedding.is_bounded:
            self._until += time.monotonic() - began
        changes = [change_of(state, chunks, vectors, self.embedding.space) for state, chunks in batch]
        self._store.apply(*changes, built_with=self._built_with)


def change_of(
    state: FileState, chunks: list[StoredChunk], vectors: Mapping[str, Vector | None], space: Space
) -> FileChange:
    """A file with its chunks and their ``vectors`` by text hash; those that lack are awaited, unless the
    space has none."""
    awaited = space.provider != "none" and any(chunk.hash not in vectors for chunk in chunks)
    return FileChange(state, chunks, [vectors.get(chunk.hash) for chunk in chunks], awaited)
