"""The work of one call: which texts are sent, cut into requests, and when it must stop."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from openclaw_mem_engine.providers.remote.limits import LearnedCaps, batch_end
from openclaw_mem_engine.providers.remote.wires.base import sendable

if TYPE_CHECKING:
    pass


def array_of(row: object) -> object:
    """A list of numbers as an array, twice as fast as numpy does it; anything else as it is."""
    if type(row) is list:
        with suppress(TypeError, OverflowError):
            return array("d", row)
    return row


class Job:
    """The texts of one call: which are sent, how large they are, and how far they are cut into batches."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        #: Positions of the texts that are sent, and what is sent for them.
        self.places = [place for place, text in enumerate(texts) if text.strip()]
        self.inputs = [sendable(texts[place]) for place in self.places]
        self.sizes = [len(text.encode()) for text in self.inputs]
        self._next = 0

    def next_batch(self, caps: LearnedCaps) -> tuple[int, int] | None:
        """(start, end) of the next inputs for one request; None when all are cut."""
        start = self._next
        if start >= len(self.inputs):
            return None
        self._next = batch_end(self.sizes, start, caps.max_bytes, caps.max_items)
        return start, self._next
