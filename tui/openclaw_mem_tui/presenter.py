"""The base of the presenters: one frozen state, changed in one way, and listeners that draw it. No
Textual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from openclaw_mem_tui.service import Service

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

StateT = TypeVar("StateT", bound="DataclassInstance")


class Presenter(Generic[StateT]):
    """Holds the present ``state`` (a frozen dataclass) and calls the engine through ``service``. Listeners
    are called after each change, and not when a change makes no difference. All methods belong to the event
    loop's thread; errors of the engine become text in the state."""

    def __init__(self, service: Service, state: StateT) -> None:
        self.service = service
        self.state = state
        self._listeners: list[Callable[[], None]] = []

    def listen(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def unlisten(self, listener: Callable[[], None]) -> None:
        self._listeners.remove(listener)

    def publish(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def update(self, **changes: object) -> None:
        """Replace fields of the state."""
        state = replace(self.state, **changes)
        if state != self.state:
            self.state = state
            self.publish()

    def say(self, text: str) -> None:
        """Show one sentence in the status line; empty removes the last one. The state has a field
        ``said``."""
        self.update(said=text)
