"""What the sources of the index hold and what of it changed: notes, and transcripts where they are wanted."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from operator import attrgetter

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import MemoryFile, SkippedFile
from openclaw_mem_engine.stores.base import FileState, IndexStore
from openclaw_mem_engine.sync.deltas import enough, is_due, is_quiet, standing
from openclaw_mem_engine.sync.partly_read import cut_files
from openclaw_mem_engine.sync.scan import RACY_NS, Changes, Reading, compare, gone_for_good
from openclaw_mem_engine.workspace.listing import Listing, list_memory
from openclaw_mem_engine.workspace.opening import NoteRefused
from openclaw_mem_engine.workspace.transcript_listing import list_transcripts
from openclaw_mem_engine.workspace.transcripts import cut_at, ends_a_line, growth_of, read_transcript

_NONE = Listing((), ())


def listed(settings: Settings) -> Listing:
    """Every file that the index should hold, and what was left out. Raises WorkspaceError."""
    notes, transcripts = _listings(settings)
    return _joined(notes, transcripts)


def scan(
    settings: Settings,
    store: IndexStore,
    *,
    verify: bool = False,
    tails: bool = False,
    reading: Reading | None = None,
) -> tuple[Changes, list[SkippedFile]]:
    """What a sync would do, and what it leaves out. ``verify`` and ``reading``: see ``scan.compare``;
    ``tails``: see ``compare_transcripts``. Raises WorkspaceError for a workspace that cannot be looked at."""
    known = store.files()
    # An index that lost all of its chunks is no record of anything: every file is looked into.
    verify = verify or store.is_hollow()
    bare = known.keys() - store.chunk_counts().keys() if verify else frozenset()
    changes, left_out = changes_of(settings, known, verify=verify, tails=tails, bare=bare, reading=reading)
    refused = [SkippedFile(s.path, s.refusal) for s in known.values() if s.refusal]
    fresh = {file.path for file in changes.changed} | {state.path for state in changes.removed}
    partly = cut_files(known.values(), fresh)
    return changes, [*left_out, *(s for s in refused if s.path not in fresh), *partly]


def changes_of(
    settings: Settings,
    known: Mapping[str, FileState],
    *,
    verify: bool = False,
    tails: bool = False,
    bare: Collection[str] = (),
    reading: Reading | None = None,
) -> tuple[Changes, tuple[SkippedFile, ...]]:
    """What of the files differs from what the index knows, and what was left out. ``verify`` and ``reading``:
    see ``scan.compare``; ``tails``: see ``compare_transcripts``. Raises WorkspaceError."""
    notes, transcripts = _listings(settings)
    theirs = {path: state for path, state in known.items() if state.source == "sessions"}
    ours = {path: state for path, state in known.items() if path not in theirs} if theirs else known
    found = compare(
        notes,
        ours,
        root=str(settings.workspace),
        max_bytes=settings.max_file_bytes,
        verify=verify,
        bare=bare,
        reading=reading,
    )
    if theirs or transcripts.files:
        more = compare_transcripts(
            settings, transcripts, theirs, verify=verify, tails=tails, bare=bare, reading=reading
        )
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
    tails: bool = False,
    bare: Collection[str] = (),
    reading: Reading | None = None,
) -> Changes:
    """Compare listed transcripts with what the index knows of them.

    One that has grown below the thresholds is unchanged: its tail is indexed when there is more of it, or
    when nothing was written to it for a while; with ``tails``, for somebody who asked, at once. One that was
    cut, or is another file by now, is read again at once, since what is indexed may be gone from it.
    ``verify`` reads what is indexed of each again, whatever its times say; ``bare``: see ``scan.compare``.
    """
    changed, touched, gone = [], [], dict(known)
    for file in listing.files:
        state = gone.pop(file.path, None)
        stands = standing(file, state, RACY_NS)
        cut = None if state is None else cut_at(state.hash)
        if state is None or stands in ("new", "rewritten") or cut not in (None, settings.max_file_bytes):
            changed.append(file)
            continue
        if stands == "same" and not verify:
            continue
        if stands == "grown" and cut is not None and not verify:
            continue  # what is appended lies behind all that is taken
        if reading is not None:
            reading(file.path)
        try:
            if stands == "grown":
                due = cut is None and _is_due(settings, file, state, tails=tails)
                if due or (verify and not _holds(settings, file, state, bare)):
                    changed.append(file)
            elif _holds(settings, file, state, bare):
                touched.append(_seen(file, state))
            else:
                changed.append(file)
        except NoteRefused as refusal:
            if state.refusal and refusal.reason == state.refusal:
                touched.append(_seen(file, state))
            else:
                changed.append(file)  # reading it again will tell why, in one place
    return Changes(tuple(changed), tuple(touched), gone_for_good(gone, listing))


def awaits_more(settings: Settings, file: MemoryFile, state: FileState) -> bool:
    """Whether a listed transcript has grown since it was indexed, and a sync that nobody asked for leaves it
    as it is for now."""
    if file.source != "sessions" or file.size <= state.size:
        return False
    return not compare_transcripts(settings, Listing((file,), ()), {file.path: state}).changed


def _is_due(settings: Settings, file: MemoryFile, state: FileState, *, tails: bool) -> bool:
    """Whether a longer transcript is to be read again: it has grown enough (with ``tails``, by any whole
    line), or its last words have been said, or it is not what has grown. Raises NoteRefused."""
    # Where a conversation was refused, reading ended somewhere.
    if not state.refusal and not ends_a_line(file, state.size):
        return True
    limits = settings.sync
    wanted = enough(0, 0) if tails else enough(limits.session_delta_bytes, limits.session_delta_messages)
    grown = growth_of(file, state.size, wanted)
    if is_due(grown, wanted):
        return True
    return grown.lines > 0 and is_quiet(file.mtime_ns, limits.session_quiet_s, time.time_ns())


def _holds(settings: Settings, file: MemoryFile, state: FileState, bare: Collection[str]) -> bool:
    """Whether the indexed part of a transcript is as it was, and in the index at all."""
    talk = read_transcript(file.absolute, settings.max_file_bytes, until=state.size)
    return talk.hash == state.hash and not (talk.text and file.path in bare)


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
