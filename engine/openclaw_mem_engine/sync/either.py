"""A cancel token of two: the caller's own, and a reason of ours to stop."""

from __future__ import annotations

from collections.abc import Callable

from openclaw_mem_engine.model import CancelToken


class Either:
    """Set when the caller's token is, or when ``ours`` says so."""

    def __init__(self, theirs: CancelToken | None, ours: Callable[[], bool]) -> None:
        self._theirs = theirs
        self._ours = ours

    def is_set(self) -> bool:
        return self.is_cancelled or self._ours()

    @property
    def is_cancelled(self) -> bool:
        """Whether it is the caller who wants to stop."""
        return self._theirs is not None and self._theirs.is_set()
