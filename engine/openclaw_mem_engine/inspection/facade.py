"""The health of one memory: its index file by file and chunk by chunk, and what the doctor says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import Progress

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection.file_chunks import Anatomy
    from openclaw_mem_engine.inspection.file_list import Overview
    from openclaw_mem_engine.retrieval.builtin import BuiltinBackend
    from openclaw_mem_engine.state.events import Event
    from openclaw_mem_engine.stores.findings import Report


class Health:
    """Looks at an opened memory. Thread-safe; nothing but ``mend`` changes anything, and nothing is sent."""

    def __init__(self, backend: BuiltinBackend) -> None:
        self._backend = backend

    def overview(self) -> Overview:
        """What the index was built with, and how each file stands to the disk: one stat a file. Raises
        WorkspaceError, IndexUnavailable."""
        from openclaw_mem_engine.inspection.file_list import overview

        backend = self._backend
        freshness, changes, skipped = backend.look()
        primary = backend.embedders.primary
        return overview(backend.settings, backend.store, primary, freshness, changes, skipped)

    def anatomy(self, path: str) -> Anatomy:
        """One file and how it is cut into chunks. Raises UsageError for a path that is no memory,
        WorkspaceError, IndexUnavailable."""
        from openclaw_mem_engine.inspection.file_chunks import anatomy

        backend = self._backend
        return anatomy(backend.settings, backend.store, backend.embedders.primary, path)

    def events(self, limit: int) -> list[Event]:
        """What happened to this agent's memory of this workspace, newest first."""
        settings = self._backend.settings
        return self._backend.journal.log.read(limit, agent=settings.agent, workspace=str(settings.workspace))

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> Report:
        """Every check of the doctor (see ``sync.doctor.examine``). Raises Cancelled."""
        from openclaw_mem_engine.doctor.examination import examine

        backend = self._backend
        return examine(backend.settings, backend.embedders, deep=deep, progress=progress, cancel=cancel)

    def mend(
        self, report: Report, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> tuple[list[str], Report | None]:
        """Mend what a report calls fixable (see ``sync.doctor.fix``); what was done, in words, and what there
        is afterwards: None when that look was stopped, for what was done stays. Raises SyncBusy,
        IndexUnavailable, and Cancelled when it was stopped before anything was done."""
        from openclaw_mem_engine.doctor.examination import fix

        started = time.perf_counter()
        backend = self._backend
        done = fix(backend.settings, report, cancel, killed=backend.journal.killed)
        mended = time.perf_counter()
        backend.journal.repaired(done, mended - started)
        try:
            after = self.examine(progress, cancel, deep=report.deep)
        except Cancelled:
            return done, None
        backend.journal.examined(after, time.perf_counter() - mended)
        return done, after
