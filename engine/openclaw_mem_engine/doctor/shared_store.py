"""An index that is no file of this host, as the doctor reads any index."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openclaw_mem_engine.commands import INDEX
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.ranking.unshown import Passage
from openclaw_mem_engine.stores import open_store
from openclaw_mem_engine.stores.base import FileState, Fingerprint, IndexStore
from openclaw_mem_engine.stores.findings import Outcome


class SharedStore:
    """The opened index (see ``file_checks.Examined``). Raises IndexUnavailable."""

    def __init__(self, settings: Settings, out: Outcome) -> None:
        at = settings.store
        self.store: IndexStore = open_store(at.kind, settings.index_path, location=at.location)
        out.detail = f"can be opened: {self.store.location}"
        if self.fingerprint() is None:
            out.add("not-there", "info", f"There is no index yet: {self.store.location}.", repair=INDEX)

    def fingerprint(self) -> Fingerprint | None:
        return self.store.fingerprint()

    def files(self) -> dict[str, FileState]:
        return dict(self.store.files())

    def space(self) -> Space | None:
        known = self.fingerprint()
        return known.space if known is not None and known.provider != "none" else None

    def passages(self) -> Iterable[Passage]:
        return self.store.passages()

    def stored(self, path: str, source: str) -> list[tuple[Any, ...]]:
        return [chunk[:7] for chunk in self.store.chunks_of(path) if chunk.source == source]

    def counts_kept(self, form: str) -> list[tuple[Any, ...]]:  # noqa: ARG002
        return []

    def close(self) -> None:
        self.store.close()
