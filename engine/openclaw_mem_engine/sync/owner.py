"""Who holds a lock, written so that anybody can read it, and whether that process still lives."""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from openclaw_mem_engine.state.processes import born_at, is_running

#: More than this is no record of ours.
MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that works on an index. ``since`` is epoch seconds; ``what`` says what it does ("indexing");
    ``born`` tells it from a later process of the same number, "" where the system cannot say; ``token``
    tells one taking of a lock from every other, "" where nobody needs that."""

    pid: int
    host: str
    since: float
    what: str
    born: str = ""
    token: str = ""

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

    def lives(self) -> bool | None:
        """Whether this process still runs; None where nobody here can tell: it is on another machine, or a
        process of this number runs and the system does not say whether it is the same one."""
        if self.host != _host():
            return None
        running = is_running(self.pid)
        if not running:
            return running
        now = born_at(self.pid)
        return self.born == now if self.born and now else None

    def is_dead(self) -> bool:
        """Whether this process is surely gone."""
        return self.lives() is False


def read_owner(path: Path) -> Owner | None:
    """The owner that a lock file names; None for a file that is missing, empty, half written or foreign."""
    try:
        with path.open("rb") as file:
            return parse_owner(file.read(MOST_BYTES))
    except OSError:
        return None


def parse_owner(data: bytes) -> Owner | None:
    """The same of bytes. Nothing in them may reach a terminal as it is: what is not printable is refused."""
    with suppress(LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        told = json.loads(data)
        texts = [str(told[key]) for key in ("host", "what", "born")]
        texts.append(str(told.get("token", "")))  # a lock of an older release has none
        if all(text.isprintable() and len(text) < 300 for text in texts):
            host, what, born, token = texts
            return Owner(int(told["pid"]), host, float(told["since"]), what, born, token)
    return None


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
