"""What changed in transcripts since the index was written: they grow, and are read again when that is due."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Literal

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import ExcludedFile, MemoryFile
from openclaw_mem_engine.stores.base import FileState
from openclaw_mem_engine.sync.changes import Comparison, is_settled
from openclaw_mem_engine.workspace.transcripts import (
    Growth,
    cut_at,
    ends_a_line,
    first_part,
    growth_of,
    read_transcript,
)

#: ``new``: not indexed yet. ``rewritten``: what is indexed need not be in it any more. ``grown``: longer than
#: what is indexed. ``doubtful``: as long as that, but its times do not prove it the same. ``same``: they do.
TranscriptState = Literal["new", "rewritten", "grown", "doubtful", "same"]


def transcript_differs(
    settings: Settings, file: MemoryFile, state: FileState, how: Comparison
) -> bool | None:
    """Whether a known transcript has changed; None when that is known without reading it, and when it has
    grown and that is not due. Raises NoteRefused."""
    found, cut = transcript_state(file, state), cut_at(state.hash)
    if found in ("new", "rewritten") or cut not in (None, settings.max_file_bytes):
        return True
    # What is appended to a conversation that was cut comes after all that is taken.
    if not how.verify and (found == "same" or (found == "grown" and cut is not None)):
        return None
    how.reading(file.path)
    if found == "grown" and cut is None and _is_due(settings, file, state, tails=how.tails):
        return True
    if found == "grown" and not how.verify:
        return None
    talk = read_transcript(file.absolute, settings.max_file_bytes, until=state.size)
    holds = talk.hash == state.hash and not (talk.text and file.path in how.bare)
    return None if holds and found == "grown" else not holds


def transcript_state(file: MemoryFile, known: FileState | None) -> TranscriptState:
    """The state of a listed transcript against the index, by size, inode and time alone; ``known.size``
    counts the bytes that are indexed."""
    if known is None or known.source != file.source:
        return "new"
    if file.size < known.size or not known.checked_ns:
        return "rewritten"  # cut; or it changed while it was read
    if file.size > known.size:
        return "grown" if file.inode == known.inode else "rewritten"
    return "same" if is_settled(file, known) else "doubtful"


def _is_due(settings: Settings, file: MemoryFile, state: FileState, *, tails: bool) -> bool:
    """Whether a longer transcript is to be read again: it has grown enough (with ``tails``, by any whole
    line), or it is quiet, or it is not what has grown. To index every message at once would embed the last
    passage again and again. Raises NoteRefused."""
    # Where a conversation was refused, reading ended somewhere.
    if not state.refusal and not ends_a_line(file, state.size):
        return True
    limits = settings.sync
    wanted = enough(0, 0) if tails else enough(limits.session_delta_bytes, limits.session_delta_messages)
    grown = growth_of(file, state.size, wanted)
    if is_due(grown, wanted):
        return True
    return grown.lines > 0 and is_quiet(file.mtime_ns, limits.session_quiet_s, time.time_ns())


def enough(delta_bytes: int, delta_messages: int) -> Growth:
    """The growth from which a transcript is due; thresholds of 0 mean any whole line."""
    return Growth(max(1, delta_bytes), max(1, delta_messages))


def is_due(grown: Growth, wanted: Growth) -> bool:
    """Whether either threshold is reached."""
    return grown.bytes >= wanted.bytes or grown.lines >= wanted.lines


def is_quiet(mtime_ns: int, quiet_s: float, now_ns: int) -> bool:
    """Whether a transcript has not been written to for ``quiet_s`` seconds; never when that is 0. By a clock
    that runs behind the file's time nothing is quiet yet."""
    return quiet_s > 0 and now_ns - mtime_ns >= quiet_s * 1_000_000_000


def cut_files(states: Iterable[FileState], but: Collection[str] = ()) -> list[ExcludedFile]:
    """The indexed conversations that are searched in part, ``but`` some paths."""
    return [
        ExcludedFile(state.path, first_part(limit))
        for state in states
        if state.source == "sessions" and state.path not in but and (limit := cut_at(state.hash)) is not None
    ]
