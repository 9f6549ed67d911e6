"""The freshness of an index against the files on disk: found by a scan or by a sync, kept for the answers."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.model import WHOLE, ExcludedFile, Freshness, Note
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.sanitize import capital
from openclaw_mem_engine.workspace.rules import TRANSCRIPT_FOLDER, machine_folder

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.providers.circuit_breaker import Embedders, GuardedEmbedder
    from openclaw_mem_engine.ranking.pool import Candidate
    from openclaw_mem_engine.stores.base import IndexStore, StoredChunk
    from openclaw_mem_engine.sync.changes import Changes
    from openclaw_mem_engine.sync.report import SyncReport

#: How many changed paths an answer names; the count is always exact.
_NAMED_CHANGES = 50
#: Notes about vectors of the primary provider that cannot be searched.
_PROVIDER_FAILS = frozenset({"other-vectors", "fallback-vectors", "embedding-failed"})


class FreshnessTracker:
    """What is known of the freshness of one opened index. Thread-safe; its syncs come one after the other."""

    def __init__(self, settings: Settings, store: IndexStore, embedders: Embedders) -> None:
        self._settings = settings
        self._store = store
        self._embedders = embedders
        self._guard = threading.Lock()  # of all below
        self._found: Freshness | None = None
        self._turns = 0  # how often a sync has begun or ended, or the index file was replaced
        self._syncing = False
        self._opened = store.follow(make=False)

    @property
    def known(self) -> Freshness | None:
        """What the last scan or sync found. An index that was removed, or was never scanned and holds
        nothing, is known to be empty: "nothing found" would be wrong there."""
        found = self._found
        if (found is None or not self._store.is_present()) and self._is_empty():
            return Freshness("empty", self._store.generation(), None)
        return found

    def _is_empty(self) -> bool:
        """Whether there is no index, or one that holds nothing."""
        store = self._store
        return not store.is_present() or (store.synced_at() is None and not store.counts().files)

    def forget(self) -> None:
        """Know nothing until the next scan or sync."""
        with self._guard:
            self._found = None

    def follow(self) -> None:
        """Go on with the index that is there now, should it be another one than was opened. Not during a
        sync, which has done half of its work on that one, and finds it out at its end. Raises
        IndexUnavailable."""
        with self._guard:
            if self._syncing:
                return
            before, self._opened = self._opened, self._store.follow(make=False)
            if self._opened != before:
                self._turns += 1  # what is being looked at is the other one
                self._found = None

    # -- syncs ------------------------------------------------------------------------------------------

    @contextmanager
    def syncing(self, report: SyncReport) -> Iterator[None]:
        """A sync works in the body and fills in ``report``. One that fails, or leaves files for later, leaves
        a state that only a scan can find out. Raises IndexUnavailable."""
        self._turn(syncing=True)
        found = None
        try:
            yield
            if not report.waiting:
                found = self._judged(None, report.excluded, self._store.synced_at())
        finally:
            self._turn(syncing=False, found=found)

    def _turn(self, *, syncing: bool, found: Freshness | None = None) -> None:
        with self._guard:
            self._turns += 1
            self._syncing = syncing
            self._found = found

    # -- scans ------------------------------------------------------------------------------------------

    def look(self) -> tuple[Freshness, Changes, list[ExcludedFile]]:
        """Compare the index with the files on disk now: one stat a file. With every file that differs, and
        every one that was excluded. Raises WorkspaceError, IndexUnavailable."""
        from openclaw_mem_engine.sync.changes import scan

        self.follow()
        turn = self._turns
        synced_at = self._store.synced_at()
        changes, excluded = scan(self._settings, self._store)
        found = self._judged(changes, excluded, synced_at)
        with self._guard:
            if self._turns == turn:  # else a sync knows more than these files
                self._found = found
        return found, changes, excluded

    def _judged(
        self, changes: Changes | None, excluded: Sequence[ExcludedFile], synced_at: float | None
    ) -> Freshness:
        """The freshness of an index from which just these files differ; ``changes`` None: none does."""
        from openclaw_mem_engine.sync.fingerprint import fingerprint_of, needs_rebuild

        paths = changes.paths if changes is not None else ()
        present = self._store.fingerprint()
        wanted = fingerprint_of(self._settings, self._embedders.primary)
        state: Literal["fresh", "stale", "partial", "empty"]
        if self._is_empty():
            state = "empty"
        elif (
            paths
            or any(file.path == WHOLE for file in excluded)
            or present is None
            or needs_rebuild(present, wanted)
        ):
            state = "stale"
        else:
            # What is no memory by rule does not count.
            lacking = self._embedders.primary is not None and self._store.chunks_without_vector(1)
            state = "partial" if lacking or not all(file.by_rule for file in excluded) else "fresh"
        since = None
        if changes is not None and paths:
            since = stale_since(self._settings, changes, synced_at, time.time())
        return Freshness(
            state,
            self._store.generation(),
            synced_at,
            paths[:_NAMED_CHANGES],
            len(paths),
            tuple(excluded),
            since,
        )


def notes_of(store: IndexStore, primary: GuardedEmbedder | None) -> list[Note]:
    """The notes of an index. That of awaited vectors says what makes them, and is left out where the settings
    ask for other ones: those are never made."""
    notes = list[Note]()
    for note in store.notes:
        if note.code != "vectors-awaited":
            notes.append(note)
        elif (known := store.fingerprint()) is not None and known.space == space_of(primary):
            # Of a provider that fails another note, or the status, says what helps first.
            held = store.vector_dims(known.space)
            fails = primary and (primary.trouble or primary.misfit(held))
            made = "" if fails else f" {who_makes(store.path)}"
            notes.append(replace(note, text=f"{note.text}{made}"))
    return notes


def note_misfit(primary: GuardedEmbedder | None, held: int | None, report: SyncReport) -> None:
    """Say in the report of a sync that queries cannot be compared with the vectors of the length ``held``."""
    misfit = primary.misfit(held) if primary else None
    if misfit is not None and not report.incomplete:
        report.notes.append(Note("embedding-failed", str(misfit), "warning"))


def who_makes(index: Path) -> str:
    """What makes the vectors that the index in this file, or with its lock there, lacks, as a sentence."""
    from openclaw_mem_engine.sync.lock import SyncLock  # most searches do without it

    # Also a sync of another process.
    is_syncing = SyncLock(index).owner() is not None
    return "The sync that runs makes them." if is_syncing else "Run `openclaw-mem index`."


def note_no_notes(settings: Settings, known: Freshness | None, notes: list[Note]) -> None:
    """Tell in ``notes`` that the workspace of an index without files holds none either."""
    if known is not None and known.state == "fresh" and "memory" in settings.sources:
        text = (
            f"There is no note in {settings.workspace}: memory is MEMORY.md, memory/**/*.md and extra paths."
        )
        notes.append(Note("no-notes", text, "warning"))


def note_staleness(known: Freshness | None, notes: list[Note]) -> None:
    """Tell in ``notes`` what an answer from such an index may lack."""
    if known is None:
        return
    if known.state == "empty":
        notes.append(
            Note("empty-index", "The index is empty or was removed: run `openclaw-mem index`.", "warning")
        )
    elif whole := known.emptied:
        notes.append(Note("workspace-empty", f"The index is stale: {whole.reason}.", "warning"))
    elif known.state == "stale" and not (
        # The settings alone, and no rebuild while the provider fails: its note names what is to be done.
        not known.changed and any(note.code in _PROVIDER_FAILS for note in notes)
    ):
        some = ", ".join(known.changed[:3]) or "the settings"
        more = f" and {known.changed_count - 3} more" if known.changed_count > 3 else ""
        text = f"The index is stale ({some}{more}): run `openclaw-mem index`."
        notes.append(Note("stale", text, "warning"))
    for file in known.excluded:
        if file.of_workspace and file.path != WHOLE:
            notes.append(Note("notes-not-included", f"{capital(file.text)}.", "warning"))


def stale_since(settings: Settings, changes: Changes, synced_at: float | None, now: float) -> float | None:
    """When the first of these changes happened, as far as the disk tells: epoch seconds, not before the last
    sync and not in the future. None when nothing tells, as after a change of the settings alone.

    Of a file it is the time its inode changed, which moving and copying with old times do not set back; of a
    file that is gone, when the folder it was in last changed.
    """
    moments = [_moment(file.absolute) for file in changes.changed]
    if "memory" in settings.sources:
        gone = {Path(state.path).parent for state in changes.removed if state.source == "memory"}
        moments += [_nearest_moment(settings.workspace, folder) for folder in gone]
    if any(state.path.startswith(f"{TRANSCRIPT_FOLDER}/") for state in changes.removed):
        moments.append(_moment(settings.openclaw.sessions_dir))
    known = [moment for moment in moments if moment is not None]
    if not known:
        return None
    return min(now, max(min(known), synced_at or 0.0))


def _nearest_moment(root: Path, folder: Path) -> float | None:
    """When a folder changed, or the nearest one above it that is still there."""
    while (moment := _moment(root / folder)) is None and folder != folder.parent:
        folder = folder.parent
    return moment


def _moment(path: str | Path) -> float | None:
    try:
        status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 - also of paths that are strings
    except OSError:
        return None
    # On Windows ctime is when a file was made.
    return status.st_ctime if os.name != "nt" else max(status.st_ctime, status.st_mtime)


def note_by_products(candidates: Collection[Candidate | StoredChunk], notes: list[Note]) -> None:
    """Say so when most of what was found was written by the agent's own machinery."""
    folders = Counter(filter(None, map(machine_folder, [found.path for found in candidates])))
    if 2 * (number := folders.total()) > len(candidates):
        named = ", ".join(folder for folder, _ in folders.most_common(3))
        text = f"{number:,} of {len(candidates):,} candidates are files that tools of the agent generated"
        notes.append(Note("by-products", f"{text} ({named}). The setting exclude excludes them."))
