"""Sharing the one model: one thread at a time, queries before documents, requests of a second at most."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openclaw_mem_engine.providers.base import RequestFailed, stop_if_cancelled

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken

#: How often a waiting thread checks the clock and the cancel token.
_POLL_S = 0.05
#: One request holds a second's work at most, so that a query does not wait long for its turn.
REQUEST_TEXTS, REQUEST_CHARS = 32, 8192


class Turns:
    """A lock with two classes of waiters. Not reentrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._urgent = 0

    @contextmanager
    def turn(
        self, *, urgent: bool, until: float = math.inf, cancel: CancelToken | None = None
    ) -> Iterator[None]:
        """The model is ours within the block. ``until`` is in ``time.monotonic()`` seconds.

        Raises RequestFailed when it is not free by then, Cancelled.
        """
        with self._changed:
            self._urgent += urgent
            try:
                while self._busy or (self._urgent and not urgent):
                    stop_if_cancelled(cancel)
                    if time.monotonic() >= until:
                        raise RequestFailed(
                            "The local model was busy with other texts until the time was up. Try again, "
                            "or set a longer timeout."
                        )
                    self._changed.wait(_POLL_S)
                self._busy = True
            finally:
                self._urgent -= urgent
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()


def batches(texts: Sequence[str], without: set[int]) -> Iterator[list[int]]:
    """Positions of the texts that go into one request, those in ``without`` apart."""
    batch: list[int] = []
    size = 0
    for position, text in enumerate(texts):
        if position in without:
            continue
        # Characters, not bytes: this is about fairness, not about a limit.
        if batch and (len(batch) == REQUEST_TEXTS or size + len(text) > REQUEST_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(position)
        size += len(text)
    if batch:
        yield batch
