"""What changed on disk since the index was written: stat first, content only where stat cannot tell."""

from __future__ import annotations

import marshal
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.model import NOT_INCLUDED, WHOLE, ExcludedFile, MemoryFile, text_hash
from openclaw_mem_engine.stores.base import FileState, IndexStore
from openclaw_mem_engine.workspace.listing import list_memory, list_transcripts
from openclaw_mem_engine.workspace.opening import NoteRefused, printable, proves_unchanged
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, ROOT_FILES, TRANSCRIPT_FOLDER, source_of
from openclaw_mem_engine.workspace.walk import Listing, Walk

_NONE = Listing((), ())


@dataclass(frozen=True, slots=True)
class Changes:
    """``changed``: new or edited files, to be read again; ``touched``: same content, new stat values;
    ``removed``: states of files that are not listed any more. ``proven``: their sizes, times and inodes alone
    prove all files unchanged, so another comparison of the same two sides would find nothing either."""

    changed: tuple[MemoryFile, ...] = ()
    touched: tuple[FileState, ...] = ()
    removed: tuple[FileState, ...] = ()
    proven: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(sorted([f.path for f in self.changed] + [s.path for s in self.removed]))


@dataclass(frozen=True, slots=True)
class Comparison:
    """How known files are compared with listed ones. ``verify`` reads every file, whatever its time and size
    say. ``prune`` forgets all notes when there is none any more. ``tails`` takes transcripts that grew by a
    line. ``bare`` are known files without a chunk in the index: such a file has changed when there
    is text in it. ``reading`` is called with the path of each file before it is read, and may stop the
    comparison by raising."""

    verify: bool = False
    prune: bool = False
    tails: bool = False
    bare: Collection[str] = ()
    reading: Callable[[str], None] = lambda _: None


BY_STAT = Comparison()


def listed(settings: Settings) -> Listing:
    """Every file that the index should hold, and what was excluded: notes, and the transcripts of this agent
    where they are a source. Raises WorkspaceError."""
    notes = transcripts = _NONE
    if "memory" in settings.sources:
        notes = list_memory(
            settings.workspace, settings.extra_paths, settings.max_file_bytes, settings.exclude
        )
    if "sessions" in settings.sources:
        transcripts = list_transcripts(settings.openclaw.sessions_dir)
    excluded = sorted((*notes.excluded, *transcripts.excluded), key=attrgetter("path"))
    folders = notes.folders | transcripts.folders
    return Listing((*notes.found, *transcripts.found), tuple(excluded), folders)


def scan(
    settings: Settings,
    store: IndexStore,
    how: Comparison = BY_STAT,
    listing: Listing | None = None,
) -> tuple[Changes, list[ExcludedFile]]:
    """What a sync would do, and what it excludes, of files that were listed just now (None: of those of now).
    Raises WorkspaceError for a workspace that cannot be listed."""
    listing = listing or listed(settings)
    hollow = store.is_hollow()
    if not (hollow or how.verify) and (kept := store.settled()[1]) and kept == compared(listing, store):
        return Changes(), list(listing.excluded)
    known = store.files()
    listing = listing if how.prune else keeping(settings, listing, known)
    if hollow or how.verify:
        # An index that lost chunks is no record of anything: every file that holds text is read again.
        bare = known.keys() if hollow else known.keys() - store.chunk_counts().keys()
        how = replace(how, verify=True, bare=bare)
    changes = changes_of(settings, listing, known, how)
    refused = [ExcludedFile(s.path, s.refusal) for s in known.values() if s.refusal]
    fresh = {file.path for file in changes.changed} | {state.path for state in changes.removed}
    excluded = [*listing.excluded, *(s for s in refused if s.path not in fresh)]
    if talks := [state for state in known.values() if state.source == "sessions"]:
        from openclaw_mem_engine.sync.transcript_changes import cut_files

        excluded += cut_files(talks, fresh)
    return changes, excluded


def compared(listing: Listing, store: IndexStore) -> str:
    """What is kept of a comparison that found no change: the number of files that the index has, because it
    may lose rows, and the digest of the listing."""
    return f"{store.counts().files} {digest_of(listing)}"


def digest_of(listing: Listing) -> str:
    """A digest of all that a comparison goes by, the same in every process while folders name their files in
    the same order. Takes 0.2 µs a file."""
    # Version 2 has no references to equal objects: later ones tell which strings are shared.
    return sha256(marshal.dumps(listing.found, 2)).hexdigest()


def keeping(settings: Settings, listing: Listing, known: Mapping[str, FileState]) -> Listing:
    """The same listing; with the workspace among what cannot be read now when all of its notes are gone: a
    disk that is not mounted looks the same as notes that were deleted."""
    there = any(file.source == "memory" for file in listing.files)
    if there or any(
        file.path != NOT_INCLUDED and source_of(file.path) == "memory" for file in listing.excluded
    ):
        return listing
    notes = sum(state.source == "memory" and not state.refusal for state in known.values())
    if not notes or "memory" not in settings.sources:
        return listing
    ours = any(path in ROOT_FILES or path.startswith(f"{MEMORY_FOLDER}/") for path in known)
    excluded = tuple(file for file in listing.excluded if ours or file.path != NOT_INCLUDED)
    if len(excluded) == len(listing.excluded):
        what = "the workspace has no notes"
    else:
        what = "--include or extra_paths found the notes of the index, and find none now"
    kept = f"the index keeps its notes ({notes:,}), and searches still find them"
    reason = f"{what}: {kept}; `openclaw-mem index --prune` removes them"
    return Listing(listing.found, (*excluded, ExcludedFile(WHOLE, reason, transient=True)))


def changes_of(
    settings: Settings,
    listing: Listing,
    known: Mapping[str, FileState],
    how: Comparison = BY_STAT,
) -> Changes:
    """What of the listed files differs from what the index knows.

    A file whose size, time and inode are as recorded is unchanged, unless it was touched later than two
    seconds before its last check; then, and where only the time differs, its content decides. So a time that
    was set back hides nothing. What cannot be read just now is not removed: its old text stays searchable.

    A transcript that has grown below the thresholds is unchanged until there is more of it, or nothing was
    written to it for a while, or with ``tails``. One that was cut, or is another file by now, is read again.
    """
    changed, touched, gone, proven = [], [], dict(known), 0
    now = time.time_ns()  # before any is read: what is written from here on is later
    for file in listing.files:
        state = gone.pop(file.path, None)
        if state is None or state.source != file.source:
            changed.append(file)
            continue
        try:
            found = _differs(settings, file, state, how)
        except NoteRefused as refusal:
            found = refusal.reason != state.refusal  # reading it again finds out why
        if found:
            changed.append(file)
        elif found is None:
            proven += file.size == state.size  # else a transcript that has grown
        elif not is_settled(file, state):
            touched.append(state._replace(mtime_ns=file.mtime_ns, inode=file.inode, checked_ns=now))
    kept = unreadable_now(gone, listing.excluded)
    removed = tuple(state for path, state in gone.items() if path not in kept)
    all_proven = proven == len(known) == len(listing.files)
    return Changes(tuple(changed), tuple(touched), removed, all_proven)


def note_changed(settings: Settings, state: FileState, absolute: str) -> bool | None:
    """Whether one known note differs from the index now; None when only a scan can tell: it is not there, or
    can be no memory. Raises NoteRefused."""
    walk = Walk(state.source, settings.max_file_bytes)
    walk.take(state.path, absolute)
    if state.refusal or state.source != "memory" or not walk.group:
        return None
    return _note_differs(settings, MemoryFile(*walk.group[0]), state, Comparison()) or False


def on_disk(settings: Settings, path: str) -> Path:
    """Where a path of the index is on disk: transcripts have a folder of their own."""
    folder, _, name = path.partition("/")
    if source_of(path) == "sessions" and folder == TRANSCRIPT_FOLDER:
        return settings.openclaw.sessions_dir / name
    return settings.workspace.resolve() / path


def is_on_disk(settings: Settings, path: str) -> bool:
    """Whether a file that is listed no longer is there all the same: the settings of now do not include it,
    or it is something else by now, like a link."""
    return os.path.lexists(on_disk(settings, path))


def is_settled(file: MemoryFile, state: FileState) -> bool:
    """Whether time and inode prove a file of the same size unchanged."""
    same = state.mtime_ns == file.mtime_ns and state.inode == file.inode
    return same and proves_unchanged(state.checked_ns, max(file.mtime_ns, file.ctime_ns))


def _differs(settings: Settings, file: MemoryFile, state: FileState, how: Comparison) -> bool | None:
    if file.source != "sessions":
        return _note_differs(settings, file, state, how)
    from openclaw_mem_engine.sync.transcript_changes import transcript_differs

    return transcript_differs(settings, file, state, how)


def _note_differs(settings: Settings, file: MemoryFile, state: FileState, how: Comparison) -> bool | None:
    """Whether a known note has changed; None when that is known without reading it. Raises NoteRefused."""
    if state.size != file.size:
        return True
    if is_settled(file, state) and not how.verify:
        return None
    how.reading(file.path)
    from openclaw_mem_engine.chunking.line_chunker import is_blank
    from openclaw_mem_engine.workspace.reading import read_note

    text = read_note(file.absolute, str(settings.workspace), settings.max_file_bytes).text
    return text_hash(text) != state.hash or (file.path in how.bare and not is_blank(text))


def awaits_more(settings: Settings, file: MemoryFile, state: FileState) -> bool:
    """Whether a listed transcript has grown since it was indexed, and a sync without ``tails`` does not take
    it yet."""
    if file.source != "sessions" or file.size <= state.size:
        return False
    return not changes_of(settings, Listing((file,), ()), {file.path: state}).changed


def unreadable_now(paths: Iterable[str], excluded: Iterable[ExcludedFile]) -> frozenset[str]:
    """Those of these paths that cannot be read now and may be readable later, by what was excluded."""
    unreadable = {file.path for file in excluded if file.transient}
    if not unreadable:
        return frozenset()
    return frozenset(path for path in paths if not unreadable.isdisjoint(_path_and_above(path)))


def _path_and_above(path: str) -> Iterator[str]:
    """A path as it is shown, and every folder above it."""
    above = printable(path)
    while above:
        yield above
        above = above.rpartition("/")[0]
    if not path.startswith("../"):
        yield WHOLE
