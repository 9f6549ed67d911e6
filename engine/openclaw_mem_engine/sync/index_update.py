"""One update of one store: read what changed, chunk, embed, write; and a file as the index would hold it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.cancellation import CancelToken, Deadline
from openclaw_mem_engine.chunking import chunker_of
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import (
    VECTORS,
    ChunkSpan,
    ExcludedFile,
    MemoryFile,
    Note,
    Progress,
    Space,
    chunk_id_of,
    text_hash,
    utf8,
)
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.remote.limits import split_utf8
from openclaw_mem_engine.stores.base import FileChange, FileState, Fingerprint, IndexStore, StoredChunk
from openclaw_mem_engine.sync.changes import Changes, Comparison, is_on_disk, listed, scan
from openclaw_mem_engine.sync.embedding import NO_LIMIT, Embedding
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest, first_few
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import read_note
from openclaw_mem_engine.workspace.transcripts import MAX_LINE_BYTES, cut_at, first_part, read_transcript
from openclaw_mem_engine.workspace.walk import Listing

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector

#: Lines of transcripts that are not indexed: the code of the note, and what they are.
_LOST_LINES = (("broken-lines", "no JSON"), ("long-lines", f"longer than {MAX_LINE_BYTES // 2**20} MB"))
#: Bytes of files that are removed in one step, about half a second, and what one counts besides its bytes.
#: Every step writes pages of the full-text tables anew: 450 steps took 7 times the time of one.
_REMOVED_TOGETHER, _REMOVED_ALONE = 4_000_000, 1_000
#: Refusals that stay as long as the file is the same: they are recorded, so that it is read once.
_LASTING = ("binary", "not-utf8")


@dataclass(slots=True)
class IndexUpdate:
    """Makes one store match the files on disk, once. No file is ever half written, and what is done stays
    done. ``max_input_bytes``: see ``Embedder``. ``clock`` gives epoch seconds, for the time of the sync.
    After ``limit`` no further file is begun."""

    settings: Settings
    store: IndexStore
    embedding: Embedding
    max_input_bytes: int | None
    progress: Progress
    cancel: CancelToken
    report: SyncReport
    clock: Callable[[], float]
    limit: Deadline = NO_LIMIT
    #: By code of ``_LOST_LINES`` how many lines of each transcript, and those that were cut at so many bytes.
    _lost: dict[str, dict[str, int]] = field(default_factory=lambda: {code: {} for code, _ in _LOST_LINES})
    _cut: dict[str, int] = field(default_factory=dict)
    _nuls: dict[str, int] = field(default_factory=dict)
    #: Refused files whose old text goes.
    _emptied: list[str] = field(default_factory=list)
    _known: Mapping[str, FileState] | None = None
    #: How many of the changed files were read.
    _taken: int = 0
    _built_with: Fingerprint | None = field(init=False)
    _space: Space | None = field(init=False)

    def __post_init__(self) -> None:
        self._built_with = self.store.fingerprint()
        self._space = self.embedding.space if self.embedding.space.provider != "none" else None

    def run(self, request: SyncRequest, listing: Listing | None = None) -> None:
        """Compare, write what changed, remove what is gone, as the request says; at least one file is done.
        ``listing`` None: the files are listed. Embedding that takes time follows when all files are written:
        BM25 finds them meanwhile. Raises WorkspaceError, IndexUnavailable, Cancelled."""
        known = self.store.files() if request.verify else {}
        held = self.store.chunk_counts() if request.verify else {}

        def reading(path: str) -> None:
            if request.verify:
                self._stop_if_asked()
                self.progress(self.report.verified, len(known), path)
                self.report.verified += 1

        how = Comparison(request.verify, request.prune, request.tails, reading=reading)
        changes, self.report.excluded = scan(self.settings, self.store, how, listing or listed(self.settings))
        self._note_silent_changes(changes, known, held)
        done, total = 0, len(changes.changed)
        taken: list[FileState] = []
        for batch in self._batches(changes.changed):
            self.embedding.files = (done, total)
            self._embed_and_write(batch)
            done += len(batch)
            taken += [state for state, _ in batch]
            self.progress(done, total, batch[-1][0].path)
        removed = self._remove(changes.removed)
        self.store.touch(changes.touched)
        left = [file.path for file in changes.changed[self._taken :]]
        left += [state.path for state in changes.removed[len(removed) :]]
        self.report.waiting = tuple(left)
        if left:
            files = "1 file waits" if len(left) == 1 else f"{len(left):,} files wait"
            text = (
                f"{files} to be indexed, for which a search does not wait: they are new, edited or deleted. "
                "`openclaw-mem index` does the rest."
            )
            self._note("files-later", text)
        elif taken or removed or changes.touched or self.store.synced_at() is None:
            # A sync that found nothing writes nothing: it need not wait for another process that does.
            self.store.finish(self.clock(), purge=request.budget_s is None)
        if self._space is not None and not left:
            self.embedding.catch_up(VECTORS, self.limit)
        self.report.embedded += self.embedding.embedded
        self.report.cache_hits += self.embedding.cache_hits
        self._report_losses()
        counts = self.store.counts()
        self.report.files, self.report.chunks = counts.files, counts.chunks
        self.report.changed = tuple(state.path for state in taken if not state.refusal)
        self.report.without_text = tuple(state.path for state in taken if state.refusal)
        paths = [state.path for state in removed]
        self.report.removed = (*paths, *self._emptied)
        excluded = {file.path for file in self.report.excluded}
        there = (path for path in paths if path not in excluded and is_on_disk(self.settings, path))
        self.report.not_included = tuple(there)

    def _remove(self, gone: Sequence[FileState]) -> Sequence[FileState]:
        """Remove files from the index, as many as there is time for; which."""
        done = 0
        while done < len(gone) and not ((done or self._taken) and self._is_late):
            self._stop_if_asked()
            end, size = done, 0
            while end < len(gone) and size < _REMOVED_TOGETHER and not (size and self._is_late):
                size += gone[end].size + _REMOVED_ALONE
                end += 1
            self.store.remove(*((state.path, state.source) for state in gone[done:end]))
            done = end
        return gone[:done]

    @property
    def _is_late(self) -> bool:
        return self.limit.is_over

    def _note_silent_changes(
        self, changes: Changes, known: Mapping[str, FileState], held: Collection[str]
    ) -> None:
        """Files whose size, time and inode are as they were, and whose content is not, or of which the index
        ``held`` no chunk any more."""
        silent = [
            file.path
            for file in changes.changed
            if (state := known.get(file.path)) is not None
            and not state.refusal
            and (state.size, state.mtime_ns, state.inode) == (file.size, file.mtime_ns, file.inode)
        ]
        if lost := [path for path in silent if path not in held]:
            text = f"Their chunks were missing from the index; indexed again: {first_few(lost)}."
            self._note("chunks-missing", text)
        if modified := [path for path in silent if path in held]:
            text = f"Modified with unchanged times; indexed again: {first_few(modified)}."
            self._note("silent-changes", text)

    def _stop_if_asked(self) -> None:
        if self.cancel.is_set():
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
        checked = time.time_ns()  # as the times of files, which it is compared with
        try:
            source = read_source(self.settings, file)
            for (code, _), lines in zip(_LOST_LINES, (source.broken, source.too_long), strict=True):
                if lines:
                    self._lost[code][file.path] = lines
            if source.nuls:
                self._nuls[file.path] = source.nuls
            if (limit := cut_at(source.hash)) is not None:
                self._cut[file.path] = limit
            return chunks_of(self.settings, file, self._space, self.max_input_bytes, source)
        except NoteRefused as refusal:
            self.report.excluded.append(ExcludedFile(file.path, refusal.reason, transient=refusal.transient))
            # A conversation is known to hold too much only when it was read; of a note its size tells.
            too_much = refusal.kind == "too-large" and file.source == "sessions"
            if refusal.kind not in _LASTING and not too_much:
                return None  # it may be readable next time; what is indexed of it stays
            if self._known is None:
                self._known = self.store.files()  # once, before any refused file of this run is written
            before = self._known.get(file.path)
            if before is not None and not before.refusal:
                self._emptied.append(file.path)
            stat = file.mtime_ns, file.size, file.inode, checked
            return FileState(file.path, file.source, "", *stat, refusal.reason), []

    def _report_losses(self) -> None:
        """What of the files that were read is not searched, or is not as it was read."""
        for code, what in _LOST_LINES:
            if lines := self._lost[code]:
                text = f"{sum(lines.values()):,} in {first_few(lines)}"
                self._note(code, f"Lines of transcripts that are {what} were excluded: {text}.", "info")
        if self._nuls:
            text = f"{sum(self._nuls.values()):,} in {first_few(self._nuls)}"
            self._note("nul-bytes", f"NUL bytes were indexed as U+FFFD: {text}.", "info")
        if self._cut:
            part = first_part(next(iter(self._cut.values())))
            self._note("transcripts-cut", f"Of long conversations {part}: {first_few(self._cut)}.")
        self.report.excluded += [ExcludedFile(path, first_part(limit)) for path, limit in self._cut.items()]

    def _note(self, code: str, text: str, level: Literal["info", "warning"] = "warning") -> None:
        self.report.notes.append(Note(code, text, level))

    def _embed_and_write(self, batch: list[tuple[FileState, list[StoredChunk]]]) -> None:
        texts = {chunk.hash: chunk.text for _, chunks in batch for chunk in chunks}
        label = batch[-1][0].path
        vectors: Mapping[str, Vector | None] = {}
        if self._space is not None:
            embedding = self.embedding  # that of a provider, which may hang, must not delay the words
            vectors = embedding.vectors_of(texts, label) if embedding.is_instant else embedding.cached(texts)
        lines = self.embedding.lines_of([chunk for _, chunks in batch for chunk in chunks])
        changes = [change_of(state, chunks, vectors, lines) for state, chunks in batch]
        self.store.apply(*changes, built_with=self._built_with)


def change_of(
    state: FileState,
    chunks: list[StoredChunk],
    vectors: Mapping[str, Vector | None],
    lines: Mapping[str, bytes],
) -> FileChange:
    """A file with its chunks, their ``vectors`` by text hash, and packed ``lines`` by chunk id."""
    return FileChange(state, chunks, [vectors.get(chunk.hash) for chunk in chunks], lines)


class SourceText(NamedTuple):
    """The text of a note, or the conversation of a transcript (see ``Transcript``). ``line_map`` None: the
    lines are those of the file. ``checked_ns``: when the reading began, 0 when the file changed meanwhile."""

    text: str
    hash: str
    line_map: Sequence[int] | None
    size: int
    mtime_ns: int
    inode: int
    checked_ns: int
    broken: int = 0
    too_long: int = 0
    nuls: int = 0

    def line(self, number: int) -> int:
        """The line of the file for a 1-based line of the text."""
        return number if self.line_map is None else self.line_map[number - 1]


def read_source(settings: Settings, file: MemoryFile, *, until: int | None = None) -> SourceText:
    """Read a listed file; of a transcript the first ``until`` bytes alone, to see what was read before.
    Raises NoteRefused."""
    now = time.time_ns()  # before: what is written to it from here on is later
    if file.source == "sessions":
        talk = read_transcript(file.absolute, settings.max_file_bytes, until=until)
        stat = talk.size, talk.mtime_ns, talk.inode, now * talk.settled
        return SourceText(talk.text, talk.hash, talk.line_map, *stat, talk.broken, talk.too_long)
    note = read_note(file.absolute, str(settings.workspace), settings.max_file_bytes)
    stat = note.size, note.mtime_ns, note.inode, now * note.settled
    return SourceText(note.text, text_hash(note.text), None, *stat, nuls=note.nuls)


def spans_of(settings: Settings, source: SourceText, max_input_bytes: int | None) -> Iterator[ChunkSpan]:
    """The text cut as configured; lines are those of the text. A chunk that an embedder would cut at its
    ``max_input_bytes`` is split there; the parts keep its lines, the smallest range that can be named."""
    for span in chunker_of(settings.chunking.tokens, settings.chunking.overlap).chunks(source.text):
        if max_input_bytes is None or len(utf8(span.text)) <= max_input_bytes:
            yield span
        else:
            yield from (replace(span, text=part) for part in split_utf8(span.text, max_input_bytes))


def chunk_of(file: MemoryFile, source: SourceText, span: ChunkSpan, space: Space | None) -> StoredChunk:
    """A span as the index would hold it."""
    content = text_hash(span.text)
    first, last = source.line(span.start_line), source.line(span.end_line)
    model = space.model if space else ""
    chunk_id = chunk_id_of(file.source, file.path, first, last, content, model)
    return StoredChunk(chunk_id, file.path, file.source, first, last, content, span.text)


def chunks_of(
    settings: Settings,
    file: MemoryFile,
    space: Space | None,
    max_input_bytes: int | None,
    source: SourceText | None = None,
) -> tuple[FileState, list[StoredChunk]]:
    """A file as the index would hold it; ``source`` None reads it. Raises NoteRefused."""
    source = source or read_source(settings, file)
    chunks = [chunk_of(file, source, span, space) for span in spans_of(settings, source, max_input_bytes)]
    # One that changed while it was read has no time of a check, so that the next scan reads it again.
    stat = source.mtime_ns, source.size, source.inode, source.checked_ns
    return FileState(file.path, file.source, source.hash, *stat), chunks
