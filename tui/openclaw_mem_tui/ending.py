"""The process ends with a signal, or with its terminal."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

#: Seconds after a signal until the process ends in any case; what it was about is saved before.
_END_WITHIN = 10.0


def listen(leave: Callable[[int], None]) -> None:
    """Call ``leave`` in this loop with the exit code, 128 + the number of a signal; SIGHUP stands also for a
    terminal that is gone."""
    if sys.platform == "win32":  # no loop takes handlers there, and SIGHUP is missing
        return
    loop = asyncio.get_running_loop()

    def end(number: int, _: object = None) -> None:
        late = threading.Timer(_END_WITHIN, os._exit, (128 + number,))
        late.daemon = True
        late.start()
        with suppress(RuntimeError):  # the loop is closed: the workbench has ended already
            loop.call_soon_threadsafe(leave, 128 + number)

    def end_with_terminal() -> None:
        """Without a controlling terminal no SIGHUP comes, and Textual reads the end of its input for ever."""
        gone = select.poll()
        gone.register(0, 0)
        if any(event & select.POLLHUP for _, event in gone.poll()):
            end(signal.SIGHUP)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Not a handler of the loop: that waits for ever when a terminal that is gone takes no output.
        signal.signal(number, end)
    threading.Thread(target=end_with_terminal, daemon=True).start()
