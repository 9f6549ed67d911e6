"""One file and how it is cut: its text, and the chunks over it with what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from openclaw_mem_engine.chunking.line_chunker import UNITS_PER_TOKEN
from openclaw_mem_engine.config.knobs import own_knobs
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import MemoryFile, Source, as_json, utf8, utf16_length
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import Embedder
from openclaw_mem_engine.ranking.unshown import Unshown, cause, hidden_lines, overlap, unshown_of
from openclaw_mem_engine.stores.base import IndexStore, StoredChunk
from openclaw_mem_engine.sync.changes import awaits_more, is_on_disk, listed
from openclaw_mem_engine.sync.index_update import SourceText, chunk_of, read_source, spans_of
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import suggest_paths
from openclaw_mem_engine.workspace.rules import source_of

#: ``up-to-date``: the index holds these chunks; of a transcript that has grown too little to be read again,
#: they and the text are those of the indexed part. ``modified``: the index holds other chunks, of an older
#: text or of other settings; these are what the next sync makes. ``not-indexed``: the index holds none yet.
#: ``deleted``, ``excluded``: there is no text on disk to show; ``not-included``: it is on disk and no longer
#: included. Their chunks, if any, are those that the index still holds.
AnatomyState = Literal["up-to-date", "modified", "not-indexed", "deleted", "not-included", "excluded"]


class NumberedLine(NamedTuple):
    """``number`` is the line of the file, 1-based; of a transcript it is that of the message."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk over the lines ``first`` to ``last`` (positions in ``Anatomy.lines``, inclusive). ``shared``
    are lines at its beginning that the piece before it has too, ``shared_units`` their length. ``partial``:
    it holds a part of a line that is too long for a chunk; ``shared`` then counts parts. ``units`` are UTF-16
    units; ``tokens`` is the estimate that chunks are cut by. ``keyword``: a keyword search can find it.
    ``embedded``: the primary space has a vector of it. ``chunk_id`` is "" for what is not in the index."""

    chunk_id: str
    first: int
    last: int
    start_line: int
    end_line: int
    units: int
    shared: int
    shared_units: int
    partial: bool
    keyword: bool
    embedded: bool
    text: str

    @property
    def tokens(self) -> int:
        return -(-self.units // UNITS_PER_TOKEN)

    @property
    def overlap(self) -> int:
        """Tokens that it repeats of the piece before it."""
        return -(-self.shared_units // UNITS_PER_TOKEN)

    def to_dict(self) -> dict[str, Any]:
        lines = 0 if self.partial else self.shared
        more = {"tokens": self.tokens, "sharedLines": lines, "overlapTokens": self.overlap}
        return as_json(self, first="", last="", shared="", shared_units="", text="") | more


@dataclass(frozen=True, slots=True)
class Anatomy:
    """A file's text and its pieces in reading order. ``stored`` counts the chunks of the index; ``why`` says
    why the file cannot be read; ``unshown``: what no search with the configured knobs can show of them;
    ``hidden`` are the positions in ``lines`` of which no search shows all, ``unshown_cause`` says why."""

    path: str
    source: Source
    state: AnatomyState
    lines: tuple[NumberedLine, ...]
    pieces: tuple[Piece, ...]
    stored: int
    chunk_tokens: int
    chunk_overlap: int
    unshown: Unshown
    hidden: frozenset[int]
    unshown_cause: str
    why: str = ""

    @property
    def headings(self) -> list[tuple[int, int, str]]:
        """Position in ``lines``, level and title of each heading outside of fenced code."""
        from openclaw_mem_engine.notes.routing import headings  # loads SQLite, which drawing does not need

        return headings([line.text for line in self.lines])

    def to_dict(self) -> dict[str, Any]:
        """The stable answer of ``openclaw-mem chunks --json``."""
        return as_json(self, lines="", pieces="chunks", hidden="", unshown_cause="")


def anatomy(settings: Settings, store: IndexStore, primary: Embedder | None, path: str) -> Anatomy:
    """How the file ``path`` (as in the index) is cut. Raises UsageError for one that is neither in the index
    nor memory, WorkspaceError, IndexUnavailable."""
    is_text = path == utf8(path).decode()  # else no chunk can have it
    stored = store.chunks_of(path) if is_text else []

    def shown(source: Source, state: AnatomyState, cut: _Cut, why: str = "") -> Anatomy:
        pieces, chunking = _pieces(store, cut, stored), settings.chunking
        knobs = own_knobs(settings)
        found = hidden_lines(pieces, knobs)
        hidden = frozenset(pieces[at].first + line for at, line in found if not pieces[at].partial)
        sizes = len(stored), chunking.tokens, chunking.overlap
        known = unshown_of(pieces, knobs), hidden, cause(knobs.snippet_chars)
        return Anatomy(path, source, state, cut.lines, pieces, *sizes, *known, why)

    state = store.files().get(path)
    listing = listed(settings)
    file = next((file for file in listing.files if file.path == path), None)
    why = next((one.reason for one in listing.excluded if one.path == path), "")
    if file is None:
        if state is None and not stored and not why:
            near = suggest_paths(path, [file.path for file in listing.files], 3) if is_text else []
            hint = f"Did you mean {' or '.join(near)}?" if near else "`openclaw-mem files` lists all files."
            raise UsageError(f"{path} is neither in the index nor a memory file on disk. {hint}")
        source = state.source if state is not None else source_of(path)
        left: AnatomyState = "not-included" if is_on_disk(settings, path) else "deleted"
        return shown(source, "excluded" if why else left, _as_indexed(stored), why)
    try:
        text, held = read_source(settings, file), None
        if state is not None and awaits_more(settings, file, state):
            held = read_source(settings, file, until=state.size)
    except NoteRefused as refusal:
        return shown(file.source, "excluded", _as_indexed(stored), refusal.reason)
    limit = primary.max_input_bytes if primary else None
    cut = _cut(settings, file, text, limit)
    file_state: AnatomyState = "up-to-date" if _alike(cut.chunks, stored) else "modified"
    if state is None and not stored:
        file_state = "not-indexed"
    elif file_state == "modified" and held is not None:
        before = _cut(settings, file, held, limit)
        if _alike(before.chunks, stored):
            cut, file_state = before, "up-to-date"
    return shown(file.source, file_state, cut)


class _Cut(NamedTuple):
    """A text as it is cut; ``spans`` are the first and the last line of each chunk, from 0."""

    lines: tuple[NumberedLine, ...]
    chunks: list[StoredChunk]
    spans: list[tuple[int, int]]


def _cut(settings: Settings, file: MemoryFile, text: SourceText, max_input_bytes: int | None) -> _Cut:
    lines = text.text.split("\n") if text.text else []
    made = list(spans_of(settings, text, max_input_bytes))
    return _Cut(
        tuple(NumberedLine(text.line(number), line) for number, line in enumerate(lines, 1)),
        [chunk_of(file, text, span, None) for span in made],
        [(span.start_line - 1, span.end_line - 1) for span in made],
    )


def _alike(made: list[StoredChunk], stored: list[StoredChunk]) -> bool:
    """Whether the index holds what would be made. Equal parts of one long line are one chunk there."""
    return list(dict.fromkeys(map(_key, made))) == list(map(_key, stored))


def _key(chunk: StoredChunk) -> tuple[int, int, str]:
    return chunk.start_line, chunk.end_line, chunk.hash


def _as_indexed(stored: list[StoredChunk]) -> _Cut:
    """What the index still has of a file whose text cannot be read: its chunks, joined where the end of one
    is the beginning of the next."""
    lines: list[NumberedLine] = []
    ranges = []
    for chunk in stored:
        texts = chunk.text.split("\n")
        numbered = [
            NumberedLine(min(chunk.start_line + at, chunk.end_line), text) for at, text in enumerate(texts)
        ]
        shared = overlap(lines, numbered)
        first = len(lines) - shared
        lines += numbered[shared:]
        ranges.append((first, len(lines) - 1))
    return _Cut(tuple(lines), stored, ranges)


def _pieces(store: IndexStore, cut: _Cut, stored: list[StoredChunk]) -> tuple[Piece, ...]:
    vectors = store.cached_vectors(chunk.hash for chunk in cut.chunks)
    # By lines and text, not by id: that of a chunk names its model, which is chosen when it is embedded.
    ids = {_key(chunk): chunk.chunk_id for chunk in stored}
    found = store.in_full_text(ids.values())
    made: list[Piece] = []
    for chunk, (first, last) in zip(cut.chunks, cut.spans, strict=True):
        partial = chunk.text != "\n".join(line.text for line in cut.lines[first : last + 1])
        before = made[-1] if made else None
        parts: list[str] = []
        if before is not None:
            parts = chunk.text.split("\n")
            in_parts = partial or before.partial
            ends = before.text.split("\n")
            parts = parts[: overlap(ends, parts) if in_parts else max(0, before.last - first + 1)]
        made.append(
            Piece(
                ids.get(_key(chunk), ""),
                first,
                last,
                chunk.start_line,
                chunk.end_line,
                utf16_length(chunk.text),
                len(parts),
                utf16_length("\n".join(parts)),
                partial,
                ids.get(_key(chunk)) in found,
                vectors.get(chunk.hash) is not None,
                chunk.text,
            )
        )
    return tuple(made)
