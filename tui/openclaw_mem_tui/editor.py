"""How to open an editor at a line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import PurePath

_PLUS_LINE = frozenset(
    "vi vim nvim view nano pico emacs emacsclient micro kak joe jed ne mg mcedit kate gedit less".split()
)
_COLON_LINE = frozenset("hx helix subl sublime_text zed zeditor".split())
_GOTO = frozenset("code code-insiders codium cursor windsurf".split())


def editor_command(configured: str | None, environ: Mapping[str, str], path: str, line: int) -> list[str]:
    """The command that opens ``path`` at ``line`` (from 1). An unknown editor gets the file alone.

    ``configured`` comes first, then ``$VISUAL``, ``$EDITOR``, and ``vi``. Raises ValueError for a setting
    with unbalanced quotes.
    """
    text = configured or environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    command = shlex.split(text)
    if not command:
        command = ["vi"]
    name = PurePath(command[0]).name.removesuffix(".exe")
    if name in _PLUS_LINE:
        return [*command, f"+{line}", path]
    if name in _COLON_LINE:
        return [*command, f"{path}:{line}"]
    if name in _GOTO:
        wait = [] if "--wait" in command or "-w" in command else ["--wait"]
        return [*command, *wait, "--goto", f"{path}:{line}"]
    return [*command, path]
