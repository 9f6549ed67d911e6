"""Ctrl-C: the first asks the work to stop at the next safe point, the second stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from openclaw_mem_engine.cli.terminal import say


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """A cancel token that the first Ctrl-C sets; the second raises KeyboardInterrupt as usual."""
    token = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield token
        return

    def asked(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        token.set()
        say("Stopping after this step. Press Ctrl-C again to stop at once.")

    before = signal.signal(signal.SIGINT, asked)
    try:
        yield token
    finally:
        signal.signal(signal.SIGINT, before)
