"""What the sources of the index hold and what of it changed: notes, and transcripts where they are wanted."""

from __future__ import annotations

import time
from collections.abc import Mapping
from operator import attrgetter

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.index.protocol import FileState
from openclaw_mem_engine.model import MemoryFile, SkippedFile
from openclaw_mem_engine.sync.deltas import enough, is_due, standing
from openclaw_mem_engine.sync.scan import RACY_NS, Changes, Reading, compare, gone_for_good
from openclaw_mem_engine.workspace.listing import Listing, list_memory
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.transcripts import growth_of, list_transcripts, read_transcript

_NONE = Listing((), ())


def listed(settings: Settings) -> Listing:
    """Every file that the index should hold, and what was left out. Raises WorkspaceError."""
    notes, transcripts = _listings(settings)
    return _joined(notes, transcripts)


def changes_of(
    settings: Settings,
    known: Mapping[str, FileState],
    *,
    verify: bool = False,
    reading: Reading | None = None,
) -> tuple[Changes, tuple[SkippedFile, ...]]:
    """What of the files differs from what the index knows, and what was left out. ``verify`` and ``reading``:
    see ``scan.compare``. Raises WorkspaceError."""
    notes, transcripts = _listings(settings)
    theirs = {path: state for path, state in known.items() if state.source == "sessions"}
    ours = {path: state for path, state in known.items() if path not in theirs} if theirs else known
    found = compare(
        notes,
        ours,
        root=str(settings.workspace),
        max_bytes=settings.max_file_bytes,
        verify=verify,
        reading=reading,
    )
    if theirs or transcripts.files:
        more = compare_transcripts(settings, transcripts, theirs, verify=verify, reading=reading)
        found = Changes(
            found.changed + more.changed, found.touched + more.touched, found.removed + more.removed
        )
    return found, _joined(notes, transcripts).skipped


def compare_transcripts(
    settings: Settings,
    listing: Listing,
    known: Mapping[str, FileState],
    *,
    verify: bool = False,
    reading: Reading | None = None,
) -> Changes:
    """Compare listed transcripts with what the index knows of them.

    One that has grown below the thresholds is unchanged: its tail is indexed when there is more of it. One
    that was cut, or is another file by now, is read again at once, since what is indexed may be gone from it.
    ``verify`` reads what is indexed of each again, whatever its times say.
    """
    wanted = enough(settings.sync.session_delta_bytes, settings.sync.session_delta_messages)
    changed, touched, gone = [], [], dict(known)
    for file in listing.files:
        state = gone.pop(file.path, None)
        stands = standing(file, state, RACY_NS)
        if stands == "same" and not verify:
            continue
        if state is None or stands in ("new", "rewritten"):
            changed.append(file)
            continue
        if reading is not None:
            reading(file.path)
        try:
            if stands == "grown":
                due = is_due(growth_of(file, state.size, wanted), wanted)
                if due or (verify and not _holds(settings, file, state)):
                    changed.append(file)
            elif _holds(settings, file, state):
                touched.append(_seen(file, state))
            else:
                changed.append(file)
        except NoteRefused as refusal:
            if state.refusal and refusal.reason == state.refusal:
                touched.append(_seen(file, state))
            else:
                changed.append(file)  # reading it again will tell why, in one place
    return Changes(tuple(changed), tuple(touched), gone_for_good(gone, listing))


def _holds(settings: Settings, file: MemoryFile, state: FileState) -> bool:
    """Whether the indexed part of a transcript is as it was."""
    return read_transcript(file.absolute, settings.max_file_bytes, until=state.size).hash == state.hash


def _seen(file: MemoryFile, state: FileState) -> FileState:
    return state._replace(mtime_ns=file.mtime_ns, inode=file.inode, checked_ns=time.time_ns())


def _listings(settings: Settings) -> tuple[Listing, Listing]:
    """Notes and transcripts. The transcripts are those of this agent; others are never looked at."""
    notes = transcripts = _NONE
    if "memory" in settings.sources:
        notes = list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes)
    if "sessions" in settings.sources:
        transcripts = list_transcripts(settings.openclaw.sessions_dir)
    return notes, transcripts


def _joined(notes: Listing, transcripts: Listing) -> Listing:
    if transcripts == _NONE:
        return notes
    skipped = sorted((*notes.skipped, *transcripts.skipped), key=attrgetter("path"))
    return Listing((*notes.files, *transcripts.files), tuple(skipped))
