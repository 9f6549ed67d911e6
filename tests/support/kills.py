"""A process that is killed at one step of its work on files."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable


def killed_at(step: int, work: Callable[[Callable[[], None]], object]) -> int:
    """Do ``work`` in a forked process, which is killed at its ``step``-th operation on files after it called
    what it is given (0: there), as an audit hook sees them. Its status as of ``os.waitpid``."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    seen: int | None = None

    def hook(event: str, _arguments: object) -> None:
        nonlocal seen
        if seen is not None and (event == "open" or event.startswith("os.")):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    def begin() -> None:
        nonlocal seen
        seen = 0
        if not step:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        sys.addaudithook(hook)
        work(begin)
        seen, code = None, 0
    finally:
        os._exit(code)
