"""What a sync waits for, as a label of its progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import WAITING

if TYPE_CHECKING:
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.providers.base import Embedder

#: An embedder from which nothing has come for so long is waited for, which is said again after each step.
_QUIET_S, _STEP_S = 1.0, 1.0


@contextmanager
def waiting_for(embedder: Embedder, progress: Progress | None) -> Iterator[Progress]:
    """The body waits for ``embedder``. Yields the ``progress`` of what comes from it; while nothing comes,
    that is called with what is waited for, and for how many seconds or why: in a thread, never twice at a
    time."""
    said = progress or (lambda *_: None)
    if embedder.lines is not None:  # it takes no time: what is waited for is another process, or the disk
        yield said
        return
    showing, ended = threading.Lock(), threading.Event()
    last, heard = (0, 0), time.monotonic()

    def show(done: int, total: int, label: str) -> None:
        nonlocal last, heard
        with showing:
            last, heard = (done, total), time.monotonic()
            said(done, total, label)

    def wait() -> None:
        while not ended.wait(_STEP_S):
            with showing:
                waited = time.monotonic() - heard
                if waited >= _QUIET_S and not ended.is_set():
                    host, failure, then = embedder.awaited
                    state = f": {failure}; {then}" if failure else f", {waited:.0f} s"
                    said(*last, f"{WAITING}{host}{state}")

    thread = threading.Thread(target=wait, name="openclaw-mem-waiting", daemon=True)
    thread.start()
    try:
        yield show
    finally:
        ended.set()
        thread.join()
