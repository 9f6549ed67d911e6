"""The commands that messages name, completed: typed as they stand they are about the index of this process.

Messages are made where something is found out, and name a command in its short form (``openclaw-mem index``).
What shows them, as text, as JSON or on a screen, passes them through here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

#: The commands that repair what messages say.
INDEX = "openclaw-mem index"
REBUILD = "openclaw-mem index --force"
VERIFY = "openclaw-mem index --verify"
PRUNE = "openclaw-mem index --prune"
DOCTOR = "openclaw-mem doctor"
FIX = f"{DOCTOR} --fix"
UPGRADE = "git pull && uv tool install --force ."

#: Options that choose an index, as they were given.
_choice: list[str] = []
#: A command is in backticks or alone; after a word the name is that of the program. ``demo`` takes none,
#: and the file that ``config`` writes is that of all indexes.
_COMMAND = r"(?<![\w.;,] )openclaw-mem (?!demo\b|config (?:set|undo)\b)(?=[a-z])"
#: Keys of JSON that hold messages, and "text" where it is not beside lines of a note.
_MESSAGES = frozenset(
    {"action", "reason", "repair", "answer", "why", "whyNot", "warning", "rebuild", "fixed"}
)


def choose(options: Mapping[str, Any]) -> None:
    """Remember which index the options of this process choose."""
    given = [(name, options.get(name)) for name in ("workspace", "config", "agent", "provider")]
    given += [("include", glob) for glob in options.get("include") or ()]
    _choice[:] = [f"--{name} {shlex.quote(str(value))} " for name, value in given if value]


def advice(text: str) -> str:
    """The text with its commands completed; a completed one stays as it is."""
    return re.sub(_COMMAND, lambda command: command[0] + "".join(_choice), text) if _choice else text


def advised(data: Any, message: bool = False) -> Any:
    """Plain data for JSON with the commands of its messages completed. Text of notes, queries and paths stay
    as they are."""
    if not _choice:
        return data
    if isinstance(data, dict):
        said = _MESSAGES if "startLine" in data else _MESSAGES | {"text"}
        return {key: advised(value, key in said) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [advised(value, message) for value in data]
    return advice(data) if message and isinstance(data, str) else data
