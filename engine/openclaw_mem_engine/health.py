"""The state of one memory: its index file by file and chunk by chunk, its event log, and the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.model import as_json
from openclaw_mem_engine.retrieval import IndexStatus

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.inspection.file_chunks import Anatomy
    from openclaw_mem_engine.model import Fallback, Freshness, Note, Progress
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.providers.records import DayUsage
    from openclaw_mem_engine.retrieval import Backend
    from openclaw_mem_engine.state.events import Event
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.sync.events import Journal


class Health:
    """Inspects an opened memory. Thread-safe. Nothing but ``repair`` changes anything, and nothing is sent.

    Each method raises UsageError when the backend lacks the capability for it, and IndexUnavailable.
    """

    def __init__(self, backend: Backend, journal: Journal) -> None:
        self._backend = backend
        self._journal = journal

    def overview(self) -> Overview:
        """What the index was made with, and each file compared with the disk: one stat a file. Raises
        WorkspaceError."""
        return self._backend.files()

    def anatomy(self, path: str) -> Anatomy:
        """One file and how it is cut into chunks. Raises UsageError for a path that is no memory,
        WorkspaceError."""
        return self._backend.chunks(path)

    def events(self, limit: int) -> list[Event]:
        """The ``limit`` latest events of this agent's memory of this workspace, newest first."""
        settings = self._backend.settings
        return self._journal.log.read(limit, agent=settings.agent, workspace=str(settings.workspace))

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> DoctorReport:
        """Run every check of the doctor (see ``doctor.examine``). Raises Cancelled."""
        return self._backend.examine(progress, cancel, deep=deep)

    def repair(
        self, report: DoctorReport, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> tuple[list[str], DoctorReport | None]:
        """Repair what a report calls fixable: what was done, in words, and the report afterwards, None when
        that examination was stopped. Raises SyncBusy, and Cancelled when it was stopped before anything was
        done."""
        return self._backend.repair(report, progress, cancel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Status(IndexStatus):
    """What is configured, what there is, and what is not as it should be."""

    agent: str
    workspace: str
    backend: str
    requested_provider: str
    profile: str
    fallback: Fallback | None
    freshness: Freshness
    notes: tuple[Note, ...]
    chain: tuple[ProviderState, ...] = ()
    usage: tuple[DayUsage, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The stable answer of ``openclaw-mem status --json``."""
        return as_json(self, cached="cache", spaces="")
