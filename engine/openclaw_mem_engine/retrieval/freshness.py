"""How an index stands to the files on disk: found by a look or by a sync, remembered for the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Literal

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import Freshness, Note, SkippedFile
from openclaw_mem_engine.providers.base import Embedders
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.sync.indexer import fingerprint_of, needs_rebuild
from openclaw_mem_engine.sync.report import SyncReport
from openclaw_mem_engine.sync.scan import Changes
from openclaw_mem_engine.sync.sources import scan
from openclaw_mem_engine.sync.staleness import stale_since

#: How many changed paths an answer names; the count is always exact.
_NAMED_CHANGES = 50


class Standing:
    """The standing of one opened index. Thread-safe; syncs that are told of come one after the other."""

    def __init__(self, settings: Settings, store: IndexStore, embedders: Embedders) -> None:
        self._settings = settings
        self._store = store
        self._embedders = embedders
        self._guard = threading.Lock()  # of all below
        self._found: Freshness | None = None
        self._turns = 0  # how often a sync has begun or ended, or another file took the place of the index
        self._syncing = False
        self._opened = store.follow(make=False)

    @property
    def known(self) -> Freshness | None:
        """What the last look or sync found. An index that nobody has looked at, and that holds nothing, is
        known to be empty: "nothing found" would be a lie there."""
        found = self._found
        if found is None and self._store.synced_at() is None and not self._store.counts().files:
            return Freshness("empty", self._store.generation(), None)
        return found

    def forget(self) -> None:
        """Know nothing until the next look or sync."""
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

    def began(self) -> None:
        """A sync begins to work."""
        with self._guard:
            self._turns += 1
            self._syncing = True
            self._found = None

    def ended(self, report: SyncReport | None) -> None:
        """It has ended, with this report. Without one, or when it has left files for later, it leaves
        something that only a look can tell. Raises IndexUnavailable."""
        found = None
        try:
            if report is not None and not report.waiting:
                found = self._judged(None, report.skipped, self._store.synced_at())
        finally:
            with self._guard:
                self._turns += 1
                self._syncing = False
                self._found = found

    # -- looks ------------------------------------------------------------------------------------------

    def look(self) -> tuple[Freshness, Changes, list[SkippedFile]]:
        """Compare the index with the files on disk now: one stat a file. With every file that differs, and
        every one that was left out. Raises WorkspaceError, IndexUnavailable."""
        self.follow()
        turn = self._turns
        synced_at = self._store.synced_at()
        changes, skipped = scan(self._settings, self._store)
        found = self._judged(changes, skipped, synced_at)
        with self._guard:
            if self._turns == turn:  # else a sync knows more than these files told
                self._found = found
        return found, changes, skipped

    def _judged(
        self, changes: Changes | None, skipped: Sequence[SkippedFile], synced_at: float | None
    ) -> Freshness:
        """The standing of an index from which just these files differ; ``changes`` None: none does."""
        paths = changes.paths if changes is not None else ()
        present = self._store.fingerprint()
        wanted = fingerprint_of(self._settings, self._embedders.primary)
        state: Literal["fresh", "stale", "partial", "empty"]
        if synced_at is None and self._store.counts().files == 0:
            state = "empty"
        elif paths or present is None or needs_rebuild(present, wanted):
            state = "stale"
        else:
            # What is no memory by rule does not count: nobody wants it searched.
            state = "fresh" if all(file.by_rule for file in skipped) else "partial"
        since = None
        if changes is not None and paths:
            since = stale_since(self._settings, changes, synced_at, time.time())
        return Freshness(
            state,
            self._store.generation(),
            synced_at,
            paths[:_NAMED_CHANGES],
            len(paths),
            tuple(skipped),
            since,
        )


def note_staleness(known: Freshness | None, notes: list[Note]) -> None:
    """Tell in ``notes`` what an answer from such an index may lack."""
    if known is None:
        return
    if known.state == "empty":
        notes.append(Note("empty-index", "Nothing is indexed yet: run `openclaw-mem index`.", "warning"))
    elif known.state == "stale":
        some = ", ".join(known.changed[:3]) or "the settings"
        more = f" and {known.changed_count - 3} more" if known.changed_count > 3 else ""
        told = f"The index is older than {some}{more}: run `openclaw-mem index`."
        notes.append(Note("stale", told, "warning"))
