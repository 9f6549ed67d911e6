"""What ``status`` says of a memory and of its index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.model import Fallback, Freshness, Note

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.providers.records import DayUsage
    from openclaw_mem_engine.stores.base import SpaceSize


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """Sizes of an index and how it is searched. ``vectors`` are chunks with a vector of the primary space,
    ``cached`` rows of the embedding cache; ``index_bytes`` is 0 for a backend without a file of its own."""

    files: int
    chunks: int
    provider: str = "none"
    model: str = ""
    languages: str = "any"
    vectors: int = 0
    cached: int = 0
    index_path: str = ""
    index_bytes: int = 0
    full_text: bool = True
    vector_search: str = ""
    spaces: tuple[SpaceSize, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """What is configured, what there is, and what is not as it should be."""

    agent: str
    workspace: str
    backend: str
    provider: str
    requested_provider: str
    model: str
    languages: str
    profile: str
    files: int
    chunks: int
    vectors: int
    cached: int
    index_path: str
    index_bytes: int
    full_text: bool
    vector_search: str
    fallback: Fallback | None
    freshness: Freshness
    notes: tuple[Note, ...]
    chain: tuple[ProviderState, ...] = ()
    usage: tuple[DayUsage, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The stable answer of ``openclaw-mem status --json``."""
        return {
            "agent": self.agent,
            "workspace": self.workspace,
            "backend": self.backend,
            "provider": self.provider,
            "requestedProvider": self.requested_provider,
            "model": self.model,
            "languages": self.languages,
            "profile": self.profile,
            "files": self.files,
            "chunks": self.chunks,
            "vectors": self.vectors,
            "cache": self.cached,
            "indexPath": self.index_path,
            "indexBytes": self.index_bytes,
            "fullText": self.full_text,
            "vectorSearch": self.vector_search,
            "fallback": self.fallback.to_dict() if self.fallback else None,
            "freshness": self.freshness.to_dict(),
            "notes": [note.to_dict() for note in self.notes],
            "chain": [link.to_dict() for link in self.chain],
            "usage": [day.to_dict() for day in self.usage],
        }
