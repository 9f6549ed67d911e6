"""How much of a root file an agent is given at the start of a session, and where it is cut."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The most that is handed over of one file, in UTF-16 units (the agent's default).
BOOTSTRAP_LIMIT = 20_000
#: Of a longer file the beginning and the end are handed over: these parts of the limit, in percent.
_HEAD, _TAIL = 70, 20
#: White space and line ends of ECMAScript, taken off at the end.
_END = re.compile("[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+\\Z")


@dataclass(frozen=True, slots=True)
class Cut:
    """A file that is handed over in part: ``head`` and ``tail`` are its kept ends. The agent sees the lines
    up to ``last_line`` and from ``next_line`` on, these two perhaps in part; lines count from 1. ``units`` is
    the length of all, in UTF-16 units."""

    head: str
    tail: str
    last_line: int
    next_line: int
    units: int

    def given(self, name: str) -> str:
        """What the agent is given of the file ``name``."""
        kept = f"{_units(self.head)}+{_units(self.tail)}"
        return (
            f"{self.head}\n\n[...truncated, read {name} for full content...]\n"
            f"…(truncated {name}: kept {kept} chars of {self.units})…\n\n{self.tail}"
        )


def bootstrap_cut(text: str, limit: int = BOOTSTRAP_LIMIT) -> Cut | None:
    """Where a file is cut; None when it is handed over whole."""
    text = _END.sub("", text)
    if len(text) * 2 <= limit:
        return None
    wide = text.encode("utf-16-le", "surrogatepass")
    units = len(wide) // 2
    if units <= limit:
        return None
    head = wide[: 2 * (limit * _HEAD // 100)].decode("utf-16-le", "surrogatepass")
    tail = wide[-2 * (limit * _TAIL // 100) :].decode("utf-16-le", "surrogatepass")
    lines = text.count("\n") + 1
    # A line of which only the end of line is kept is not kept.
    last, following = head.removesuffix("\n").count("\n") + 1, lines - tail.removeprefix("\n").count("\n")
    return Cut(head, tail, last, following, units)


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
