"""Processes of this machine."""

from __future__ import annotations

import os


def is_running(pid: int) -> bool | None:
    """Whether a process of this machine has this number; None on Windows, where asking would end it."""
    if os.name == "nt":
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
