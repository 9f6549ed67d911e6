"""What the index holds of one file, derived from the file alone: its text, and the text cut into chunks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from openclaw_mem_engine.chunking.line_chunker import index_chunks
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import ChunkSpan, MemoryFile, Space, chunk_id_of, text_hash, utf8
from openclaw_mem_engine.providers.remote.limits import split_utf8
from openclaw_mem_engine.stores.base import FileState, StoredChunk
from openclaw_mem_engine.sync.partly_read import PartlyRead
from openclaw_mem_engine.workspace.reading import read_note
from openclaw_mem_engine.workspace.transcripts import read_transcript


class SourceText(NamedTuple):
    """The text of a note, or the conversation of a transcript. ``line_map[i]`` is the 1-based line of the
    file that text line ``i`` (from 0) comes from; None: they are the same. ``broken`` counts lines of a
    transcript that are no JSON, ``too_long`` those that are too long to be looked at. ``settled`` is False
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
        return SourceText(
            talk.text,
            talk.hash,
            talk.line_map,
            talk.size,
            talk.mtime_ns,
            talk.inode,
            talk.settled,
            talk.broken,
            talk.too_long,
        )
    note = read_note(file.absolute, str(settings.workspace), settings.max_file_bytes)
    return SourceText(
        note.text, text_hash(note.text), None, note.size, note.mtime_ns, note.inode, note.settled
    )


def spans_of(settings: Settings, source: SourceText, max_input_bytes: int | None) -> Iterator[ChunkSpan]:
    """The text cut as configured; lines are those of the text. ``max_input_bytes``: see ``Embedder``."""
    return _within(
        index_chunks(source.text, settings.chunking.tokens, settings.chunking.overlap), max_input_bytes
    )


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
        partly.read(file.path, source.hash, broken=source.broken, too_long=source.too_long)
    chunks = [chunk_of(file, source, span, space) for span in spans_of(settings, source, max_input_bytes)]
    # A file that changed while it was read keeps the older time, so that the next scan reads it again.
    checked = time.time_ns() if source.settled else 0
    state = FileState(
        file.path, file.source, source.hash, source.mtime_ns, source.size, source.inode, checked
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
