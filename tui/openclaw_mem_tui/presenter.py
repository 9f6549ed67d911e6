"""What stands behind a screen that only shows: one frozen picture, told anew whenever it has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

LookT = TypeVar("LookT", bound="DataclassInstance")


class Desk(Generic[LookT]):
    """Holds the present ``look``, a frozen dataclass with a field ``said``; ``publish`` is called after each
    change, and not when everything is as it was."""

    def __init__(self, look: LookT, publish: Callable[[], None]) -> None:
        self.look = look
        self._publish = publish

    def _set(self, **changes: object) -> None:
        look = replace(self.look, **changes)
        if look != self.look:
            self.look = look
            self._publish()

    def say(self, text: str) -> None:
        """Show one sentence about what was done; empty takes the last one away."""
        self._set(said=text)
