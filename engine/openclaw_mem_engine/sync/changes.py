"""What changed on disk since the index was written: stat first, content only where stat cannot tell."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter

from openclaw_mem_engine.chunking.line_chunker import is_blank
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import MemoryFile, SkippedFile, text_hash
from openclaw_mem_engine.stores.base import FileState, IndexStore
from openclaw_mem_engine.sync.source_text import cut_files
from openclaw_mem_engine.sync.transcript_state import enough, is_due, is_quiet, transcript_state
from openclaw_mem_engine.workspace.listing import Listing, list_memory
from openclaw_mem_engine.workspace.opening import NoteRefused, printable
from openclaw_mem_engine.workspace.reading import read_note
from openclaw_mem_engine.workspace.transcript_listing import list_transcripts
from openclaw_mem_engine.workspace.transcripts import cut_at, ends_a_line, growth_of, read_transcript

#: Called with the path of each file before it is read, to tell of it and to stop (by raising).
Reading = Callable[[str], None]

#: A file written this shortly before it was last read may have been written again in the same clock tick.
RACY_NS = 2_000_000_000
_NONE = Listing((), ())


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


@dataclass(frozen=True, slots=True)
class Comparison:
    """How known files are compared with listed ones. ``verify`` reads every file, whatever its time and size
    say. ``tails`` takes transcripts that grew by a line. ``bare`` are known files without a chunk in the
    index: such a file has changed when there is text in it. ``reading``: see ``Reading``."""

    verify: bool = False
    tails: bool = False
    bare: Collection[str] = ()
    reading: Reading | None = None

    def read(self, path: str) -> None:
        """A file is about to be read."""
        if self.reading is not None:
            self.reading(path)


def listed(settings: Settings) -> Listing:
    """Every file that the index should hold, and what was excluded: notes, and the transcripts of this agent
    where they are a source. Raises WorkspaceError."""
    notes = transcripts = _NONE
    if "memory" in settings.sources:
        notes = list_memory(settings.workspace, settings.extra_paths, settings.max_file_bytes)
    if "sessions" in settings.sources:
        transcripts = list_transcripts(settings.openclaw.sessions_dir)
    if transcripts == _NONE:
        return notes
    skipped = sorted((*notes.skipped, *transcripts.skipped), key=attrgetter("path"))
    return Listing((*notes.files, *transcripts.files), tuple(skipped))


def scan(
    settings: Settings,
    store: IndexStore,
    *,
    verify: bool = False,
    tails: bool = False,
    reading: Reading | None = None,
) -> tuple[Changes, list[SkippedFile]]:
    """What a sync would do, and what it excludes; see ``Comparison``. Raises WorkspaceError for a workspace
    that cannot be listed."""
    return compared(settings, store, listed(settings), verify=verify, tails=tails, reading=reading)


def compared(
    settings: Settings,
    store: IndexStore,
    listing: Listing,
    *,
    verify: bool = False,
    tails: bool = False,
    reading: Reading | None = None,
) -> tuple[Changes, list[SkippedFile]]:
    """The same for files that were listed just now."""
    known = store.files()
    # An index that lost all of its chunks is no record of anything: every file is read.
    verify = verify or store.is_hollow()
    bare = known.keys() - store.chunk_counts().keys() if verify else frozenset()
    changes = changes_of(settings, listing, known, Comparison(verify, tails, bare, reading))
    refused = [SkippedFile(s.path, s.refusal) for s in known.values() if s.refusal]
    fresh = {file.path for file in changes.changed} | {state.path for state in changes.removed}
    partly = cut_files(known.values(), fresh)
    return changes, [*listing.skipped, *(s for s in refused if s.path not in fresh), *partly]


def changes_of(
    settings: Settings,
    listing: Listing,
    known: Mapping[str, FileState],
    how: Comparison = Comparison(),
) -> Changes:
    """What of the listed files differs from what the index knows."""
    transcripts = Listing(tuple(f for f in listing.files if f.source == "sessions"), listing.skipped)
    known_transcripts = {path: state for path, state in known.items() if state.source == "sessions"}
    if not transcripts.files and not known_transcripts:
        return compare(settings, listing, known, how)
    notes = Listing(tuple(f for f in listing.files if f.source != "sessions"), listing.skipped)
    known_notes = {path: state for path, state in known.items() if path not in known_transcripts}
    found = compare(settings, notes, known_notes, how)
    more = compare_transcripts(settings, transcripts, known_transcripts, how)
    return Changes(found.changed + more.changed, found.touched + more.touched, found.removed + more.removed)


def compare(
    settings: Settings,
    listing: Listing,
    known: Mapping[str, FileState],
    how: Comparison = Comparison(),
) -> Changes:
    """Compare listed notes with what the index knows.

    A file whose size, time and inode are as recorded is unchanged, unless it was written, or anything else
    was done to it, later than two seconds before its last check; then, and where only the time differs, its
    content decides. So a time that was set back hides nothing, and new permissions cost one reading of the
    file. What cannot be read just now is not removed: its old text stays searchable.
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
        if settled and not how.verify:
            continue
        how.read(file.path)
        try:
            text = read_note(file.absolute, str(settings.workspace), settings.max_file_bytes).text
            content = text_hash(text)
            if file.path in how.bare and not is_blank(text):
                content = ""
        except NoteRefused as refusal:
            if refusal.reason != state.refusal:
                changed.append(file)  # reading it again finds out why
                continue
            content = state.hash
        if content == state.hash:
            if settled:
                continue
            touched.append(_seen(file, state))
        else:
            changed.append(file)
    return Changes(tuple(changed), tuple(touched), gone_for_good(gone, listing))


def compare_transcripts(
    settings: Settings,
    listing: Listing,
    known: Mapping[str, FileState],
    how: Comparison = Comparison(),
) -> Changes:
    """Compare listed transcripts with what the index knows of them.

    One that has grown below the thresholds is unchanged: its tail is indexed when there is more of it, or
    when nothing was written to it for a while; with ``tails`` at once. One that was
    cut, or is another file by now, is read again at once, since what is indexed may be gone from it.
    ``verify`` reads what is indexed of each again, whatever its times say.
    """
    changed, touched, gone = [], [], dict(known)
    for file in listing.files:
        state = gone.pop(file.path, None)
        found = transcript_state(file, state, RACY_NS)
        cut = None if state is None else cut_at(state.hash)
        if state is None or found in ("new", "rewritten") or cut not in (None, settings.max_file_bytes):
            changed.append(file)
            continue
        if found == "same" and not how.verify:
            continue
        if found == "grown" and cut is not None and not how.verify:
            continue  # what is appended comes after all that is taken
        how.read(file.path)
        try:
            if found == "grown":
                due = cut is None and _is_due(settings, file, state, tails=how.tails)
                if due or (how.verify and not _holds(settings, file, state, how.bare)):
                    changed.append(file)
            elif _holds(settings, file, state, how.bare):
                touched.append(_seen(file, state))
            else:
                changed.append(file)
        except NoteRefused as refusal:
            if state.refusal and refusal.reason == state.refusal:
                touched.append(_seen(file, state))
            else:
                changed.append(file)  # reading it again finds out why
    return Changes(tuple(changed), tuple(touched), gone_for_good(gone, listing))


def awaits_more(settings: Settings, file: MemoryFile, state: FileState) -> bool:
    """Whether a listed transcript has grown since it was indexed, and a sync without ``tails`` does not take
    it yet."""
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
    """The state of a file whose content was found to be as it was."""
    return state._replace(mtime_ns=file.mtime_ns, inode=file.inode, checked_ns=time.time_ns())


def gone_for_good(gone: Mapping[str, FileState], listing: Listing) -> tuple[FileState, ...]:
    """Of the known files that were not listed those that are to be removed: not what cannot be read now."""
    if not gone:
        return ()
    kept = unreadable_now(gone, listing.skipped)
    return tuple(state for path, state in gone.items() if path not in kept)


def unreadable_now(paths: Iterable[str], skipped: Iterable[SkippedFile]) -> frozenset[str]:
    """Those of these paths that cannot be read now and may be readable later, by what was excluded."""
    unreadable = {file.path for file in skipped if file.transient}
    return frozenset(
        path for path in paths if unreadable and not unreadable.isdisjoint(_path_and_above(path))
    )


def _path_and_above(path: str) -> Iterator[str]:
    """A path as it is shown, and every folder above it."""
    above = printable(path)
    while above:
        yield above
        above = above.rpartition("/")[0]
    if not path.startswith("../"):
        yield "."
