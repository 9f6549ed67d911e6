"""Whether a transcript is due, from what is known of it and what it is now.

A conversation grows by the minute while it lasts. To index every message at once would embed its last passage
again and again, so growth waits until there is enough of it, or until the conversation seems to be over.
"""

from __future__ import annotations

from typing import Literal

from openclaw_mem_engine.model import MemoryFile
from openclaw_mem_engine.stores.base import FileState
from openclaw_mem_engine.workspace.transcripts import Growth

#: ``new``: not indexed yet. ``rewritten``: what is indexed need not be in it any more. ``grown``: longer than
#: what is indexed. ``doubtful``: as long as that, but its times do not prove it the same. ``same``: they do.
TranscriptState = Literal["new", "rewritten", "grown", "doubtful", "same"]


def transcript_state(file: MemoryFile, known: FileState | None, racy_ns: int) -> TranscriptState:
    """The state of a listed transcript against the index, by size, inode and time alone.

    ``known.size`` counts the bytes that are indexed. A file that was last written, or had anything else done
    to it, less than ``racy_ns`` before it was checked may have been written again in the same clock tick; or
    since, with its time set back.
    """
    if known is None or known.source != file.source:
        return "new"
    if file.size < known.size or not known.checked_ns:
        return "rewritten"  # cut; or it changed while it was read
    if file.size > known.size:
        return "grown" if file.inode == known.inode else "rewritten"
    if known.inode != file.inode or known.mtime_ns != file.mtime_ns:
        return "doubtful"
    return "same" if max(file.mtime_ns, file.ctime_ns) < known.checked_ns - racy_ns else "doubtful"


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
