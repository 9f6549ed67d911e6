"""What ``Memory.status`` returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.model import as_json
from openclaw_mem_engine.retrieval import IndexStatus

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Fallback, Freshness, Note
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.providers.records import DayUsage


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
