"""The user's editor: its command for a line, and handing the terminal to it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine.api import Settings
from openclaw_mem_tui.features.search.steps import note_written
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.reports import Done
from openclaw_mem_tui.render.spans import Failed

if TYPE_CHECKING:
    from textual.app import App


class _Form(NamedTuple):
    """``asks`` are the arguments that name a file and a line. ``waits`` is the option with which a program
    with a window of its own ends when the file is closed, in the forms that it takes."""

    asks: str
    waits: str = ""


_PLUS, _COLON = "+{line} {path}", "{path}:{line}"
#: By the whole name of a program, or the letters that it begins with: ``vim`` also of ``vim.basic``.
_FORMS = {
    **dict.fromkeys("vi vim vimx rvim nvim view ex nano rnano pico".split(), _Form(_PLUS)),
    **dict.fromkeys("emacs emacsclient micro kak joe jed jove ne mg mcedit zile less".split(), _Form(_PLUS)),
    **dict.fromkeys("gvim rgvim gview mvim".split(), _Form(_PLUS, "-f --nofork")),
    "nvim-qt": _Form(_PLUS, "--nofork"),
    "gedit": _Form(_PLUS, "--wait -w"),
    "kate": _Form("--line {line} {path}", "--block -b"),
    **dict.fromkeys("hx helix".split(), _Form(_COLON)),
    **dict.fromkeys("subl sublime_text zed zeditor".split(), _Form(_COLON, "--wait -w")),
    **dict.fromkeys("code codium vscodium cursor windsurf".split(), _Form(f"--goto {_COLON}", "--wait -w")),
}


def editor_command(
    configured: str | None, environ: Mapping[str, str], path: str, line: int
) -> tuple[list[str], bool]:
    """The command that opens ``path`` at ``line`` (from 1), and whether it names the line: an unknown editor
    gets the file alone.

    ``configured`` comes first, then ``$VISUAL``, ``$EDITOR``, and ``vi``. Raises ValueError for a setting
    with unbalanced quotes.
    """
    text = configured or environ.get("VISUAL") or environ.get("EDITOR") or ""
    command = shlex.split(text) or ["vi"]
    name = PurePath(command[0]).name.lower().removesuffix(".exe")
    form = _FORMS.get(name) or _FORMS.get(re.split(r"[^a-z_]", name)[0])
    if form is None:
        return [*command, path], False
    wait = form.waits.split()
    given = not wait or any(option in command for option in wait)
    asks = [word.format(line=line, path=path) for word in form.asks.split()]
    return [*command, *([] if given else wait[:1]), *asks], True


def edit(app: App[int], settings: Settings, path: str, line: int) -> str:
    """Open a file of the index (its path there) at a line. Returns the outcome as a sentence, ``Failed``
    where no editor ran. Blocks until it ends. The run before a change of a note becomes the baseline."""
    from textual.app import SuspendNotSupported

    on_disk = Path(settings.workspace) / path
    if not on_disk.is_file():
        return Failed(f"{fmt.inert(path)} is not a file in the workspace")
    try:
        before = _content(on_disk)
        command, at_line = editor_command(settings.editor, os.environ, str(on_disk), line)
        failure: OSError | None = None
        with app.suspend():  # which leaves the terminal suspended where its body raises
            try:
                code = subprocess.run(command, check=False).returncode
            except OSError as error:
                failure = error
        if failure is not None:
            raise failure
    except SuspendNotSupported:
        return Failed("this terminal cannot run an editor")
    except (OSError, ValueError) as error:
        missing = isinstance(error, FileNotFoundError)
        why = "was not found" if missing else f"did not start ({getattr(error, 'strerror', '') or error})"
        name = settings.editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        return Failed(f"editor “{fmt.inert(name)}” {why}: set $EDITOR or the setting editor")
    outcome = f"{fmt.inert(Path(command[0]).name)} closed" + (f" with exit code {code}" if code else "")
    if line > 1 and not at_line:
        outcome += "; opened without a line number (unknown editor)"
    is_note = not Path(path).is_absolute()
    if is_note and _content(on_disk) != before:
        outcome = note_written(app.search, outcome, Done())  # type: ignore[attr-defined]
    return outcome


def _content(path: Path) -> bytes | None:
    with suppress(OSError):
        return path.read_bytes()
    return None
