"""What is run in the folder of a collection before its files are read: ``git pull``, and the command that the
user gave for it. Without a terminal and a standard input, so that neither can ask anything."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from openclaw_mem_engine.cancellation import CancelToken, Deadline
from openclaw_mem_engine.errors import Cancelled, IndexUnavailable, UsageError
from openclaw_mem_engine.sidecar.command import UPDATE_BYTES, kill_group, output_of

#: How long git may take to name the work tree of a folder, seconds.
_LOOK_S = 10.0


def work_tree(folder: Path, cancel: CancelToken | None = None) -> Path | None:
    """The git work tree that a folder is in; None when it is in none. Raises UsageError without git."""
    git = shutil.which("git")
    if git is None:
        raise UsageError("--pull needs git, which is not on PATH: install it, or leave --pull out.")
    if not folder.is_dir():
        return None
    code, said = _run([git, "rev-parse", "--show-toplevel"], folder, _LOOK_S, cancel)
    return Path(said.strip()) if code == 0 and said.strip() else None


def pull(tree: Path, timeout_s: float, cancel: CancelToken | None = None) -> str:
    """Bring a work tree up to date, without a merge commit; what git printed. Raises IndexUnavailable when it
    fails or takes longer, Cancelled."""
    return _done(["git", "pull", "--ff-only"], "git pull --ff-only", tree, timeout_s, cancel)


def run_command(command: str, folder: Path, timeout_s: float, cancel: CancelToken | None = None) -> str:
    """Run a shell command in a folder; what it printed. Raises as ``pull`` does."""
    shell = shutil.which("bash") or "/bin/sh"
    return _done([shell, "-c", command], f"the update command `{command}`", folder, timeout_s, cancel)


def _done(argv: Sequence[str], what: str, folder: Path, timeout_s: float, cancel: CancelToken | None) -> str:
    code, said = _run(argv, folder, timeout_s, cancel)
    if code == 0:
        return said
    ended = f"exit code {code}" if code is not None else f"stopped after {timeout_s:g} s"
    lines = said.strip().splitlines()
    more = f": {lines[-1].strip()}" if lines else ""
    raise IndexUnavailable(
        f"In {folder}, {what} failed ({ended}){more}. The files there were not read; collections that were "
        "updated before stay so."
    )


def _run(
    argv: Sequence[str], folder: Path, timeout_s: float, cancel: CancelToken | None
) -> tuple[int | None, str]:
    """Exit code (None: it was ended, as it took too long) and what it printed on both streams."""
    deadline = Deadline(timeout_s)
    try:
        process = subprocess.Popen(
            argv,
            cwd=folder,
            env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise IndexUnavailable(f"{argv[0]} cannot be run in {folder}: {error.strerror}.") from error
    try:
        said, _, ended = output_of(process, deadline, cancel, UPDATE_BYTES)
    finally:
        kill_group(process)
        if process.stdout is not None:
            process.stdout.close()
    if cancel is not None and cancel.is_set():
        raise Cancelled("The update was stopped; finished work is kept.")
    return process.returncode if ended else None, said
