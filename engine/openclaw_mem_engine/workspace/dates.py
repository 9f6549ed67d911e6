"""Which date a note has for decay: the day in its name, none at all (evergreen), or its modification time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import Literal

from openclaw_mem_engine.model import Source
from openclaw_mem_engine.workspace.rules import MEMORY_FOLDER, ROOT_FILES

_DAILY = re.compile(r"(?:.*/)?memory/([0-9]{4})-([0-9]{2})-([0-9]{2})\.md", re.DOTALL)
_DAY_SECONDS = 86_400
_EPOCH_DAY = date(1970, 1, 1).toordinal()
#: ECMAScript dates take the years 0 to 99 for 1900 to 1999, so in OpenClaw such a name never is its own day.
_FIRST_YEAR = 100


@dataclass(frozen=True, slots=True)
class NoteDate:
    """What decay goes by. ``epoch_seconds`` is midnight UTC of the named day for ``dated``, else None.

    ``evergreen`` notes never decay; for ``mtime`` the caller takes the modification time of the file, and a
    file without one (a session transcript elsewhere) does not decay.
    """

    kind: Literal["dated", "evergreen", "mtime"]
    epoch_seconds: int | None = None


def note_date(path: str, source: Source = "memory") -> NoteDate:
    """Decide the date of a workspace-relative path, by the path alone.

    ``memory/YYYY-MM-DD.md`` (also as the end of a longer path) is dated. Of source memory, the top-level
    files and everything else below ``memory/`` is evergreen: ``memory/2026-02-20-slug.md`` and
    ``memory/archive/2025-08-03.md`` too. The rest goes by modification time, also a daily name that is no
    day (``memory/2026-02-30.md``, years before 0100).
    """
    name = path.replace("\\", "/").removeprefix("./")
    match = _DAILY.fullmatch(name)
    day = _real_day(int(match[1]), int(match[2]), int(match[3])) if match else None
    if day is not None:
        return NoteDate("dated", (day.toordinal() - _EPOCH_DAY) * _DAY_SECONDS)
    below_memory = name.startswith(f"{MEMORY_FOLDER}/") and match is None
    if source == "memory" and (name in ROOT_FILES or below_memory):
        return NoteDate("evergreen")
    return NoteDate("mtime")


def _real_day(year: int, month: int, day: int) -> date | None:
    if year < _FIRST_YEAR:
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None
