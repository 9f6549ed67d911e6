"""What an index that several hosts may share adds to the seam of the stores. The defaults are those of an
index in a file of this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Space
    from openclaw_mem_engine.stores.findings import Outcome


class SharedIndex(Protocol):
    """Where an index is, whether others write it, and one state of it for several reads."""

    path: Path  # names the index, also for the lock of a sync; nothing above the store opens it

    @property
    def location(self) -> str:
        """Where the index is, for people; never with a password."""
        return str(self.path)

    def is_present(self) -> bool:
        """Whether the index is still where it was opened."""
        return self.path.exists()

    def snapshot(self) -> AbstractContextManager[None]:
        """What this thread reads in the body is one state, where a store can do that. Not nested."""
        return nullcontext()

    def diagnosis(self) -> Mapping[str, Callable[[Outcome], None]]:
        """Checks that the store makes of itself, by name, for stores without a file to examine."""
        return {}

    def cached_hashes(self, space: Space) -> list[str]:
        """The text hashes of all embeddings of a space in the cache, in order."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Keep other hosts from writing in the body; processes of this host are kept out by the lock of a
        sync. Raises IndexLocked at once when another host writes."""
        return nullcontext()
