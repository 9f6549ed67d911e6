"""The user's editor: its command for a line, and handing the terminal to it."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from openclaw_mem_engine.api import Settings
from openclaw_mem_tui.render import format as fmt

if TYPE_CHECKING:
    from textual.app import App

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
    text = configured or environ.get("VISUAL") or environ.get("EDITOR") or ""
    command = shlex.split(text) or ["vi"]
    name = PurePath(command[0]).name.removesuffix(".exe")
    if name in _PLUS_LINE:
        return [*command, f"+{line}", path]
    if name in _COLON_LINE:
        return [*command, f"{path}:{line}"]
    if name in _GOTO:
        wait = [] if "--wait" in command or "-w" in command else ["--wait"]
        return [*command, *wait, "--goto", f"{path}:{line}"]
    return [*command, path]


def edit(app: App[int], settings: Settings, path: str, line: int) -> tuple[str, bool]:
    """Open a file of the index (its path there) at a line. Returns the outcome as a sentence, and whether the
    editor ran. Blocks until the editor ends. The run before a change of a note becomes the baseline."""
    from textual.app import SuspendNotSupported

    on_disk = Path(settings.workspace) / path
    if not on_disk.is_file():
        return f"{fmt.inert(path)} is not a file in the workspace", False
    try:
        before = _content(on_disk)
        command = editor_command(settings.editor, os.environ, str(on_disk), line)
        with app.suspend():
            code = subprocess.run(command, check=False).returncode
    except SuspendNotSupported:
        return "this terminal cannot run an editor", False
    except (OSError, ValueError) as error:
        return f"the editor did not start: {error}", False
    outcome = f"{Path(command[0]).name} closed" + (f" with exit code {code}" if code else "")
    is_note = not Path(path).is_absolute()
    if is_note and _content(on_disk) != before and app.search.pin_run("before the edit"):  # type: ignore[attr-defined]
        kept = "the run before the edit is the baseline (B: as configured)"
        outcome += f"; {kept}"
        app.search.sync.done = kept  # type: ignore[attr-defined]
    return outcome, True


def _content(path: Path) -> bytes | None:
    with suppress(OSError):
        return path.read_bytes()
    return None
