"""Rows that are made when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Lazy(Sequence[Any]):
    """A sequence whose items are made when they are asked for."""

    def __init__(self, count: int, make: Callable[[int], Any]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if not 0 <= at < self._count:
            raise IndexError(at)
        return self._make(at)
