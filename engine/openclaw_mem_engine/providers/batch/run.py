"""One call for vectors by batch jobs: what is wanted, how far it has come, and what came out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Note, Progress
    from openclaw_mem_engine.providers.base import Vector

    #: Told of the vectors of a job as soon as they are there, by text hash, in the calling thread.
    Found = Callable[[Mapping[str, Vector | None]], None]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """``missing`` were tried and have no vector; ``waiting`` have a job that goes on, or get one at the next
    run. Both are text hashes. ``notes`` are for people."""

    vectors: dict[str, Vector | None]
    missing: tuple[str, ...]
    waiting: tuple[str, ...]
    notes: tuple[Note, ...]


@dataclass(slots=True)
class Active:
    """A job that is looked at in this run. Times are those of ``clock``. ``is_resumed``: an earlier run has
    submitted it."""

    id: str
    texts: tuple[str, ...]
    next_look: float
    deadline: float
    is_resumed: bool
    amiss: int = 0


@dataclass(slots=True)
class Run:
    """One call of ``BatchJobs.run``: what is wanted, and how far it has come."""

    texts: Mapping[str, str]
    cancel: CancelToken | None
    progress: Progress | None
    found: Found | None
    dims: int | None
    queue: list[str] = field(default_factory=list)
    active: list[Active] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def unanswered(self, keys: Collection[str]) -> list[str]:
        return [k for k in keys if k in self.texts and k not in self.vectors and k not in self.missing]
