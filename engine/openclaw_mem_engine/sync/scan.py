"""What changed on disk since the index was written: stat first, content only where stat cannot tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from openclaw_mem_engine.chunking.line_chunker import is_blank
from openclaw_mem_engine.model import MemoryFile, SkippedFile, text_hash
from openclaw_mem_engine.stores.base import FileState
from openclaw_mem_engine.workspace.listing import Listing
from openclaw_mem_engine.workspace.opening import NoteRefused, printable
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
    bare: Collection[str] = (),
    reading: Reading | None = None,
) -> Changes:
    """Compare a listing with what the index knows.

    A file whose size, time and inode are as recorded is unchanged, unless it was written, or anything else
    was done to it, later than two seconds before its last check; then, and where only the time differs, its
    content decides. So a time that was set back hides nothing, and new permissions cost one look into the
    file. What cannot be read just now is not removed: its old text stays searchable. ``verify`` believes
    neither time nor size: it reads every file. ``bare`` are known files without a chunk in the index: such a
    file has changed when there is text in it.
    """
    changed, touched, gone = [], [], dict(known)
    for file in listing.files:
        state = gone.pop(file.path, None)
        if state is None or state.source != file.source or state.size != file.size:
            changed.append(file)
            continue
        same_stat = state.mtime_ns == file.mtime_ns and state.inode == file.inode
        before = state.checked_ns - RACY_NS
        settled = same_stat and file.mtime_ns < before and file.ctime_ns < before
        if settled and not verify:
            continue
        if reading is not None:
            reading(file.path)
        try:
            text = read_note(file.absolute, root, max_bytes).text
            content = text_hash(text)
            if file.path in bare and not is_blank(text):
                content = ""
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
    """Of the known files that were not listed those that are to be removed: not what cannot be read now."""
    if not gone:
        return ()
    kept = unreadable_now(gone, listing.skipped)
    return tuple(state for path, state in gone.items() if path not in kept)


def unreadable_now(paths: Iterable[str], skipped: Iterable[SkippedFile]) -> frozenset[str]:
    """Those of these paths that cannot be read now and may be readable later, by what was left out."""
    places = {file.path for file in skipped if file.transient}
    return frozenset(path for path in paths if places and not places.isdisjoint(_path_and_above(path)))


def _path_and_above(path: str) -> Iterator[str]:
    """A path as it is shown, and every folder above it."""
    place = printable(path)
    while place:
        yield place
        place = place.rpartition("/")[0]
    if not path.startswith("../"):
        yield "."
