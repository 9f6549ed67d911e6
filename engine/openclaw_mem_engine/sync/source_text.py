"""What the index holds of one file, derived from the file alone: its text, and the text cut into chunks."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from openclaw_mem_engine.chunking import chunker_of
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import (
    ChunkSpan,
    MemoryFile,
    Note,
    SkippedFile,
    Space,
    chunk_id_of,
    text_hash,
    utf8,
)
from openclaw_mem_engine.providers.remote.limits import split_utf8
from openclaw_mem_engine.stores.base import FileState, StoredChunk
from openclaw_mem_engine.sync.report import first_few
from openclaw_mem_engine.workspace.reading import read_note
from openclaw_mem_engine.workspace.transcripts import MAX_LINE_BYTES, cut_at, first_part, read_transcript


@dataclass(slots=True)
class PartlyRead:
    """Transcripts that one sync has read: how many lines of each are no JSON or too long, and which were
    cut, with the limit in bytes of text."""

    broken: dict[str, int] = field(default_factory=dict)
    too_long: dict[str, int] = field(default_factory=dict)
    cut: dict[str, int] = field(default_factory=dict)

    def read(self, path: str, source: SourceText) -> None:
        """Take note of a transcript that was read; of others there is nothing to note."""
        if source.broken:
            self.broken[path] = source.broken
        if source.too_long:
            self.too_long[path] = source.too_long
        if (limit := cut_at(source.hash)) is not None:
            self.cut[path] = limit

    @property
    def skipped(self) -> list[SkippedFile]:
        """The conversations that are searched in part."""
        return [SkippedFile(path, first_part(limit)) for path, limit in self.cut.items()]

    @property
    def notes(self) -> list[Note]:
        """One for each kind of loss."""
        found = []
        longer = f"longer than {MAX_LINE_BYTES // 2**20} MB"
        for code, what, lines in (
            ("broken-lines", "no JSON", self.broken),
            ("long-lines", longer, self.too_long),
        ):
            if lines:
                counts = f"{sum(lines.values()):,} in {first_few(lines)}"
                found.append(Note(code, f"Lines of transcripts that are {what} were left out: {counts}."))
        if self.cut:
            part = first_part(next(iter(self.cut.values())))
            text = f"Of long conversations {part}: {first_few(self.cut)}."
            found.append(Note("transcripts-cut", text, "warning"))
        return found


class SourceText(NamedTuple):
    """The text of a note, or the conversation of a transcript. ``line_map[i]`` is the 1-based line of the
    file that text line ``i`` (from 0) comes from; None: they are the same. ``broken`` counts lines of a
    transcript that are no JSON, ``too_long`` those that are too long to be read. ``settled`` is False
    when the file changed while it was read."""

    text: str
    hash: str
    line_map: Sequence[int] | None
    size: int
    mtime_ns: int
    inode: int
    settled: bool
    broken: int = 0
    too_long: int = 0

    def line(self, number: int) -> int:
        """The line of the file for a 1-based line of the text."""
        return number if self.line_map is None else self.line_map[number - 1]


def read_source(settings: Settings, file: MemoryFile, *, until: int | None = None) -> SourceText:
    """Read a listed file; of a transcript the first ``until`` bytes alone, to see what was read before.
    Raises NoteRefused."""
    if file.source == "sessions":
        talk = read_transcript(file.absolute, settings.max_file_bytes, until=until)
        stat = talk.size, talk.mtime_ns, talk.inode, talk.settled
        return SourceText(talk.text, talk.hash, talk.line_map, *stat, talk.broken, talk.too_long)
    note = read_note(file.absolute, str(settings.workspace), settings.max_file_bytes)
    stat = note.size, note.mtime_ns, note.inode, note.settled
    return SourceText(note.text, text_hash(note.text), None, *stat)


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
    partly: PartlyRead | None = None,
) -> tuple[FileState, list[StoredChunk]]:
    """A file as the index would hold it. ``partly`` takes what of a transcript is not searched. Raises
    NoteRefused."""
    source = read_source(settings, file)
    if partly is not None:
        partly.read(file.path, source)
    chunks = [chunk_of(file, source, span, space) for span in spans_of(settings, source, max_input_bytes)]
    # A file that changed while it was read keeps the older time, so that the next scan reads it again.
    checked = time.time_ns() if source.settled else 0
    stat = source.mtime_ns, source.size, source.inode
    return FileState(file.path, file.source, source.hash, *stat, checked), chunks


def cut_files(states: Iterable[FileState], but: Collection[str] = ()) -> list[SkippedFile]:
    """The indexed conversations that are searched in part, ``but`` some paths."""
    return [
        SkippedFile(state.path, first_part(limit))
        for state in states
        if state.source == "sessions" and state.path not in but and (limit := cut_at(state.hash)) is not None
    ]
