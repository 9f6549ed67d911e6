"""Who holds a lock, written so that anybody can read it, and whether that process still lives."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

#: More than this is no record of ours.
_MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that works on an index. ``since`` is epoch seconds; ``what`` says what it does ("indexing");
    ``born`` tells it from a later process of the same number, "" where the system cannot say."""

    pid: int
    host: str
    since: float
    what: str
    born: str = ""

    @staticmethod
    def this_process(what: str, now: float) -> Owner:
        return Owner(os.getpid(), _host(), now, what, born_at(os.getpid()))

    def to_json(self) -> bytes:
        return json.dumps(asdict(self), sort_keys=True).encode("ascii") + b"\n"

    def age(self, now: float) -> float:
        """Seconds that it has been at work; 0 when the clock went back meanwhile."""
        return max(0.0, now - self.since)

    def described(self, now: float) -> str:
        """``process 123, indexing since 12 s``; with its machine when that is another one."""
        where = "" if self.host == _host() else f" on {self.host}"
        return f"process {self.pid}{where}, {self.what} since {_duration(self.age(now))}"

    @property
    def can_be_asked(self) -> bool:
        """Whether this system can tell if that process lives: not of another machine, and not on Windows,
        where asking would end it."""
        return os.name != "nt" and self.host == _host()

    def is_dead(self) -> bool:
        """Whether this process is surely gone."""
        if not self.can_be_asked:
            return False
        if not is_running(self.pid):
            return True
        return bool(self.born) and self.born != born_at(self.pid)


def read_owner(path: Path) -> Owner | None:
    """The owner that a lock file names; None for a file that is missing, empty, half written or foreign."""
    try:
        with path.open("rb") as file:
            return parse_owner(file.read(_MOST_BYTES))
    except OSError:
        return None


def parse_owner(data: bytes) -> Owner | None:
    """The same of bytes. Nothing in them may reach a terminal as it is: what is not printable is refused."""
    with suppress(LookupError, ValueError, TypeError, OverflowError, RecursionError):
        told = json.loads(data)
        owner = Owner(
            int(told["pid"]), str(told["host"]), float(told["since"]), str(told["what"]), str(told["born"])
        )
        if all(text.isprintable() and len(text) < 300 for text in (owner.host, owner.what, owner.born)):
            return owner
    return None


def is_running(pid: int) -> bool:
    """Whether a process of this machine has this number. Not for Windows, where asking would end it."""
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


def _host() -> str:
    """The name of this machine; the module ``socket`` is too dear to be loaded for it."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def now_s() -> float:
    """Epoch seconds: an owner's time must mean something to other processes."""
    return time.time()


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.0f} h"
