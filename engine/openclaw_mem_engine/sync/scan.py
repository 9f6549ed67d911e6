"""What changed on disk since the index was written: stat first, content only where stat cannot tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from openclaw_mem_engine.index.protocol import FileState
from openclaw_mem_engine.model import MemoryFile, text_hash
from openclaw_mem_engine.workspace.listing import UNREADABLE, Listing
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.reading import read_note

#: Called with the path of each file before it is read, to tell of it and to stop (by raising).
Reading = Callable[[str], None]

#: A file written this shortly before it was last read may have been written again in the same clock tick.
RACY_NS = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Changes:
    """``changed``: new or edited files, to be read again; ``touched``: same content, new stat values;
    ``removed``: states of files that are gone."""

    changed: tuple[MemoryFile, ...]
    touched: tuple[FileState, ...]
    removed: tuple[FileState, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted([f.path for f in self.changed] + [s.path for s in self.removed]))


def compare(
    listing: Listing,
    known: Mapping[str, FileState],
    *,
    root: str,
    max_bytes: int,
    verify: bool = False,
    reading: Reading | None = None,
) -> Changes:
    """Compare a listing with what the index knows.

    A file whose size, time and inode are as recorded is unchanged, unless it was written within two seconds
    of its last check; then, and where only the time differs, its content decides. What may not be read
    just now is not removed: its old text stays searchable. ``verify`` believes neither time nor size: it
    reads every file.
    """
    changed, touched, gone = [], [], dict(known)
    for file in listing.files:
        state = gone.pop(file.path, None)
        if state is None or state.source != file.source or state.size != file.size:
            changed.append(file)
            continue
        same_stat = state.mtime_ns == file.mtime_ns and state.inode == file.inode
        settled = same_stat and state.mtime_ns < state.checked_ns - RACY_NS
        if settled and not verify:
            continue
        if reading is not None:
            reading(file.path)
        try:
            content = text_hash(read_note(file.absolute, root, max_bytes).text)
        except NoteRefused as refusal:
            if refusal.reason != state.refusal:
                changed.append(file)  # reading it again will tell why, in one place
                continue
            content = state.hash
        if content == state.hash:
            if settled:
                continue
            touched.append(
                state._replace(mtime_ns=file.mtime_ns, inode=file.inode, checked_ns=time.time_ns())
            )
        else:
            changed.append(file)
    return Changes(tuple(changed), tuple(touched), gone_for_good(gone, listing))


def gone_for_good(gone: Mapping[str, FileState], listing: Listing) -> tuple[FileState, ...]:
    """Of the known files that were not listed those that are to be removed: not what may not be read now."""
    unreadable = [skipped.path for skipped in listing.skipped if skipped.reason.endswith(UNREADABLE)]
    return tuple(
        state
        for path, state in gone.items()
        if not any(path == u or path.startswith(f"{u}/") for u in unreadable)
    )
