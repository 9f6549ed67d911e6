"""The backend of a memory whose index is too damaged to be opened: its notes, providers and event log need no
index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from openclaw_mem_engine.errors import IndexDamaged
from openclaw_mem_engine.retrieval import EVERYTHING, BackendContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Fallback, Note, Progress
    from openclaw_mem_engine.retrieval import Backend
    from openclaw_mem_engine.retrieval.reranking import ScoreCache
    from openclaw_mem_engine.stores.findings import DoctorReport


def damage_of(backend: Backend) -> IndexDamaged | None:
    """Why the index of an opened memory cannot be read at all: open it again once that is repaired."""
    return backend.damage if isinstance(backend, UnreadBackend) else None


class UnreadBackend:
    """Contract: ``retrieval.Backend``. All that reads or writes the index raises its ``damage``; the doctor
    works."""

    capabilities = EVERYTHING
    fallback: Fallback | None = None
    scores: ScoreCache | None = None

    def __init__(self, name: str, context: BackendContext, damage: IndexDamaged) -> None:
        self.name, self.settings = name, context.settings
        self.damage = damage
        self._context = context
        context.journal.unopened(damage)

    @property
    def notes(self) -> tuple[Note, ...]:
        return self._context.notes()

    def _raise_damage(self, *_: object, **__: object) -> Any:
        raise self.damage.with_traceback(None)

    _needs_index: ClassVar[Callable[..., Any]] = _raise_damage
    retrieve = paths = freshness = status = sync = plan = would_rebuild = _needs_index
    files = chunks = unshown = why_not = cache_sizes = prune_cache = _needs_index

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> DoctorReport:
        from openclaw_mem_engine.doctor import examine

        return examine(self.settings, self._context.embedders, deep=deep, progress=progress, cancel=cancel)

    def repair(
        self, report: DoctorReport, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> tuple[list[str], DoctorReport | None]:
        from openclaw_mem_engine.doctor import repair

        context = self._context
        return repair(self.settings, context.embedders, context.journal, report, progress, cancel)

    def interrupt(self) -> None:
        """There is no retrieval."""

    def close(self) -> None:
        """There is no index."""
