"""The opened index, as the doctor reads it: one in a file, and one that is no file of this host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from openclaw_mem_engine.commands import INDEX, REBUILD
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.ranking.unshown import Passage
from openclaw_mem_engine.stores import open_store
from openclaw_mem_engine.stores.base import FileState, Fingerprint, IndexStore
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.sqlite.schema import PASSAGES, TEXT
from openclaw_mem_engine.stores.sqlite.snapshot import Snapshot
from openclaw_mem_engine.stores.sqlite.unshown import COUNTS
from openclaw_mem_engine.stores.sqlite.vectors import ONE_VECTOR

_STORED = f"""SELECT id, path, source, start_line, end_line, lower(hex(hash)), {TEXT} FROM chunks c
    WHERE path = ? AND source = ?"""


class Examined(Protocol):
    """What the checks of files read of an opened index; nothing is made or brought up to date."""

    def fingerprint(self) -> Fingerprint | None: ...

    def files(self) -> dict[str, FileState]: ...

    def space(self) -> Space | None: ...

    def vector_dims(self, space: Space) -> int | None:
        """Length of the vectors of a space; None as long as there is none."""

    def passages(self) -> Iterable[Passage]: ...

    def stored(self, path: str, source: str) -> list[tuple[Any, ...]]:
        """The fields of the chunks of a file, without its time."""

    def counts_kept(self, form: str) -> list[tuple[Any, ...]]:
        """Path and counts of what no search can show, of files of which the index keeps them."""

    def close(self) -> None: ...


class FileSnapshot(Snapshot):
    """One state of an index in a file (see ``Examined``)."""

    def vector_dims(self, space: Space) -> int | None:
        return next((len(row[0]) // 4 for row in self.rows(ONE_VECTOR, space)), None)

    def passages(self) -> Iterable[Passage]:
        return map(Passage._make, self.rows(PASSAGES))

    def stored(self, path: str, source: str) -> list[tuple[Any, ...]]:
        return self.rows(_STORED, (path, source))

    def counts_kept(self, form: str) -> list[tuple[Any, ...]]:
        return self.rows(COUNTS, (form,))


class SharedStore:
    """The opened index (see ``Examined``). Raises IndexUnavailable."""

    def __init__(self, settings: Settings, out: Outcome) -> None:
        at = settings.store
        self.store: IndexStore = open_store(at.kind, settings.index_path, location=at.location)
        out.detail = f"can be opened: {self.store.location}"
        if self.fingerprint() is None:
            out.add("not-there", "info", "There is no index yet.", [str(self.store.location)], INDEX)

    def fingerprint(self) -> Fingerprint | None:
        return self.store.fingerprint()

    def files(self) -> dict[str, FileState]:
        return dict(self.store.files())

    def space(self) -> Space | None:
        known = self.fingerprint()
        return known.space if known is not None and known.provider != "none" else None

    def vector_dims(self, space: Space) -> int | None:
        return self.store.vector_dims(space)

    def passages(self) -> Iterable[Passage]:
        return self.store.passages()

    def stored(self, path: str, source: str) -> list[tuple[Any, ...]]:
        return [chunk[:7] for chunk in self.store.chunks_of(path) if chunk.source == source]

    def counts_kept(self, form: str) -> list[tuple[Any, ...]]:  # noqa: ARG002
        return []

    def close(self) -> None:
        self.store.close()


def check_dims(embedder: GuardedEmbedder | None, held: int | None, out: Outcome) -> None:
    """Queries can be compared with the vectors of the index, which have the length ``held``, as far as that
    is known without a request."""
    if embedder is not None and (misfit := embedder.misfit(held)) is not None:
        out.add("other-dims", "error", str(misfit), repair=REBUILD)
