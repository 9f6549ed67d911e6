"""Handing the terminal to the user's editor."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from textual.app import App, SuspendNotSupported

from openclaw_mem_engine.api import Settings
from openclaw_mem_tui.editor import editor_command
from openclaw_mem_tui.render import format as fmt


def edit(app: App[int], settings: Settings, path: str, line: int) -> tuple[str, bool]:
    """Open a file of the index (its path there) at a line; what came of it, in words, and whether the editor
    ran."""
    on_disk = Path(settings.workspace) / path
    if not on_disk.is_file():
        return f"{fmt.inert(path)} is not a file in the workspace", False
    try:
        command = editor_command(settings.editor, os.environ, str(on_disk), line)
        with app.suspend():
            code = subprocess.run(command, check=False).returncode
    except SuspendNotSupported:
        return "this terminal cannot be handed to an editor", False
    except (OSError, ValueError) as error:
        return f"the editor did not start: {error}", False
    return f"back from {Path(command[0]).name}" + (f", which returned {code}" if code else ""), True
