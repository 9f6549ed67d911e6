"""What the workbench remembers of one agent and workspace: a small JSON file, for this user alone."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from openclaw_mem_engine.redact import redacted
from openclaw_mem_engine.state.disk import held, read_file, replace_file

#: Written into the file; one with a larger number is not used, and kept.
VERSION = 1
#: The key of the query history, oldest first, and how many are kept.
QUERIES, MOST_QUERIES = "queries", 200
#: Values that are true of each other: they are changed together.
_UNITS = (("theme", "usual_theme"), ("query", "knobs", "baseline"))
#: A larger file is not one of ours, in bytes.
MAX_BYTES = 1024 * 1024


class WorkbenchState:
    """The file of one agent and workspace in the data folder. It is made at the first ``write``."""

    def __init__(self, folder: Path, agent: str, workspace: Path) -> None:
        key = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:16]
        self.path = folder / "workbench" / f"{key}-{agent}.json"
        #: False: what was found is to stay as it is.
        self.replaceable = True

    def read(self) -> tuple[dict[str, Any], str]:
        """What was remembered ({}: nothing), and a sentence when it could not be read. A damaged file is
        moved aside."""
        try:
            data = read_file(self.path, MAX_BYTES + 1)
        except FileNotFoundError:
            return {}, ""
        except OSError as error:
            return {}, self._kept(f"cannot be read ({error.strerror})")
        with suppress(ValueError, RecursionError):
            found = json.loads(data) if len(data) <= MAX_BYTES else None
            if isinstance(found, dict) and isinstance(version := found.get("version"), int):
                if version == VERSION:
                    return found, ""
                if version > VERSION:
                    return {}, self._kept("was written by a newer version of openclaw-mem")
        aside = self.path.with_suffix(".damaged")
        with suppress(OSError):
            self.path.replace(aside)
        return {}, f"What was remembered is damaged (now {aside}): this session starts without it."

    def _kept(self, why: str) -> str:
        self.replaceable = False
        return f"{self.path} {why}: this session leaves it as it is and is not remembered."

    def write(self, remembered: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Save what a session remembers, credentials masked; ``before`` is what it read or wrote last. What
        other sessions have written since then stays where this one has not changed it; the queries of all are
        kept, but the oldest of too many. Waits for a session that writes. Raises OSError, or WorkspaceError
        when that takes too long."""
        with held(self.path.parent, "what the workbench remembers"):
            found, trouble = self.read()
            if not self.replaceable:
                raise OSError(None, trouble)
            made = merged(redacted({**remembered}), redacted({**before}), found)
            while len(text := json.dumps({**made, "version": VERSION})) > MAX_BYTES:  # it would not be read
                if not made[QUERIES]:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
                made[QUERIES] = made[QUERIES][len(made[QUERIES]) // 2 + 1 :]
            replace_file(self.path, text.encode("ascii"), synced=True)


def merged(ours: dict[str, Any], before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """``found`` with what has changed from ``before`` to ``ours``; of two changes of one value the last one
    stays. Queries asked since ``before`` follow those that are found."""
    found = found or ours
    made = {**ours, **found}
    for name in ours:
        unit = next((unit for unit in _UNITS if name in unit), (name,))
        if any(ours.get(part) != before.get(part) for part in unit):
            made[name] = ours[name]
    asked, earlier, there = (_texts(each.get(QUERIES)) for each in (ours, before, found))
    rest, same = iter(earlier), 0
    while same < len(asked) and asked[same] in rest:  # those that still follow each other as before
        same += 1
    moved = {*earlier, *asked} - {*asked[:same]}
    made[QUERIES] = [*(query for query in there if query not in moved), *asked[same:]][-MOST_QUERIES:]
    return made


def _texts(value: object) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
