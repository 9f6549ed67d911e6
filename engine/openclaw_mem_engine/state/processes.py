"""Processes of this machine: whether one runs, and when it was started."""

from __future__ import annotations

import os
from pathlib import Path


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


def born_at(pid: int) -> str:
    """When a process was started, in clock ticks since the start of this system; "" where nobody tells."""
    try:
        # The name of the program, in brackets, may hold anything; what follows the last bracket is numbers.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot[:8]}-{int(fields[19])}"
    except (OSError, ValueError, IndexError):
        return ""
