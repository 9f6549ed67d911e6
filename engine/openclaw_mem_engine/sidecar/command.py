"""Running the external ``qmd``: isolated folders, time limits, its whole process group ended with it.

``bin/qmd`` starts a second process and passes no signals on, so killing it alone would leave that one at
work: each call is a session of its own, and the session is killed.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken, Deadline
from openclaw_mem_engine.errors import Cancelled, IndexUnavailable
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible
from openclaw_mem_engine.state import private_folder

Trouble = Literal["missing", "timeout", "exit", "output", "busy"]

#: How to get the program, for errors and for the doctor.
INSTALL = (
    "Install it with `npm install -g @tobilu/qmd` or `bun install -g https://github.com/tobi/qmd`, so that "
    "qmd is on PATH, or name its path in memory.qmd.command. It needs Node 22 or Bun, and an SQLite that "
    "loads extensions (macOS: `brew install sqlite`)."
)
#: What a search may print, and what an update; more is no answer.
SEARCH_BYTES, UPDATE_BYTES = 200_000, 1 << 26
_POLL_S = 0.05
#: How long output is read after the program has ended, while another process may still hold the pipe.
_LATE_S = 0.3
_SAID_CHARS = 200
#: They would lead out of the isolated folders.
_OUTSIDE = ("INDEX_PATH", "QMD_CONFIG_DIR")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


class QmdFailed(IndexUnavailable):
    """A call of the external program that gave no answer. ``kind`` says why, ``output`` what it printed."""

    def __init__(self, kind: Trouble, text: str, output: str = "") -> None:
        super().__init__(text)
        self.kind: Trouble = kind
        self.output = output


class Output(NamedTuple):
    """What a call printed; its exit code was 0."""

    stdout: str
    stderr: str


class QmdCommand:
    """The program ``command`` with its configuration, index and models below ``home``. Thread-safe."""

    #: Given to the program before the arguments of each call.
    first: Sequence[str] = ()

    def __init__(self, command: str, home: Path) -> None:
        self.command = command
        self.home = home
        self._running: set[subprocess.Popen[bytes]] = set()
        self._closed = False
        self._guard = threading.Lock()

    @property
    def index_path(self) -> Path:
        return self.home / "xdg-cache" / "qmd" / "index.sqlite"

    @property
    def missing(self) -> str:
        """Why the program cannot be run; empty when there is one. Starts none."""
        return "" if shutil.which(self.command) else self._not_run("was not found")

    def _not_run(self, reason: str) -> str:
        return f"The program {visible(self.command)} cannot be run ({reason}). {INSTALL}"

    @property
    def variables(self) -> dict[str, str]:
        """The variables that isolate the program, also for a shell."""
        return {
            "XDG_CONFIG_HOME": str(self.home / "xdg-config"),
            "XDG_CACHE_HOME": str(self.home / "xdg-cache"),
        }

    def run(
        self,
        arguments: Sequence[str],
        timeout_s: float,
        cancel: CancelToken | None = None,
        *,
        most: int = SEARCH_BYTES,
    ) -> Output:
        """Run the program to its end. Blocks for ``timeout_s`` seconds at most; its process group is gone
        then. ``most`` limits the bytes of each stream.

        Raises QmdFailed, Cancelled.
        """
        self._prepare()
        words = [argument.replace("\0", " ") for argument in arguments]
        deadline = Deadline(timeout_s)
        with self._started(words) as process:
            out, err, ended = output_of(process, deadline, cancel, most)
        code = process.returncode if ended else None
        if _is_set(cancel):
            raise Cancelled(SEARCH_STOPPED)
        what = " ".join(["qmd", *words[: 2 if words[:1] == ["collection"] else 1]])
        if max(len(out), len(err)) > most:
            raise QmdFailed("output", f"{what} printed more than {most:,} characters; it was ended.")
        if code is None:
            raise QmdFailed("timeout", f"{what} did not end within {timeout_s:.2g} s, and was stopped.")
        if code != 0:
            said = _said(err or out)
            ending = f"ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
            kind: Trouble = "busy" if re.search(r"SQLITE_BUSY|database is locked", err + out) else "exit"
            raise QmdFailed(kind, f"{what} {ending}{f': {said}' if said else ''}.", f"{err}\n{out}")
        return Output(out, err)

    def version(self, timeout_s: float) -> tuple[int, ...]:
        """What ``qmd --version`` says, as numbers; () when it says something else. Raises QmdFailed when the
        program cannot be run."""
        try:
            output = self.run(["--version"], timeout_s)
        except QmdFailed as error:
            if error.kind == "exit":  # it does not know the option
                return ()
            raise
        match = _VERSION.search(output.stdout)
        return tuple(int(part or 0) for part in match.groups()) if match else ()

    def close(self) -> None:
        """End every call that is running; they raise QmdFailed. No call can be made later."""
        with self._guard:
            self._closed = True
            for process in self._running:
                kill_group(process)

    def _prepare(self) -> None:
        """The folders, and the models that the user has already, which are large."""
        try:
            for folder in (self.home, *(self.home / name for name in ("xdg-config", "xdg-cache/qmd"))):
                private_folder(folder)
            models = Path(os.environ.get("HOME") or Path.home()) / ".cache" / "qmd" / "models"
            link = self.home / "xdg-cache" / "qmd" / "models"
            if models.is_dir() and not os.path.lexists(link):
                with suppress(FileExistsError):
                    link.symlink_to(models)
        except OSError as error:
            raise QmdFailed("missing", f"{self.home} cannot be made ({error.strerror}).") from error

    @contextmanager
    def _started(self, arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """The running program for the body; afterwards nothing of its process group is left."""
        environ = {name: text for name, text in os.environ.items() if name not in _OUTSIDE}
        try:
            process = subprocess.Popen(
                [self.command, *self.first, *arguments],
                # Not the workspace: a `.qmd` folder there or above it would be used instead of ours.
                cwd=self.home,
                env={**environ, **self.variables, "NO_COLOR": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            reason = "was not found" if isinstance(error, FileNotFoundError) else str(error.strerror)
            raise QmdFailed("missing", self._not_run(reason)) from error
        with self._guard:
            self._running.add(process)
            closed = self._closed
        try:
            if closed:
                raise QmdFailed("exit", "The memory was closed.")
            yield process
        finally:
            with self._guard:
                kill_group(process)
                self._running.discard(process)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def output_of(
    process: subprocess.Popen[bytes], deadline: Deadline, cancel: CancelToken | None, most: int
) -> tuple[str, str, bool]:
    """Both streams, and whether the program ended by itself: before the deadline, before ``cancel`` was set
    and before it had printed more than ``most`` bytes. Nothing of its process group is left then."""
    late = Deadline(None)
    while True:
        try:
            printed = process.communicate(timeout=min(_POLL_S, deadline.left_s))
            break
        except subprocess.TimeoutExpired as so_far:
            printed = so_far.stdout or b"", so_far.stderr or b""
        if late.is_over or deadline.is_over or _is_set(cancel) or max(map(len, printed)) > most:
            break
        if process.poll() is not None and late.left_s == math.inf:
            late = Deadline(_LATE_S)
    ended = process.returncode is not None
    kill_group(process)
    out, err = ((text or b"").decode("utf-8", "replace") for text in printed)
    return out, err, ended


def _is_set(cancel: CancelToken | None) -> bool:
    return cancel is not None and cancel.is_set()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the program and everything in its session's process group, and collect it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _said(text: str) -> str:
    plain = _ESCAPE.sub("", text)
    line = " | ".join(visible(redact(plain)).split("\n")).strip(" |.")
    return line if len(line) <= _SAID_CHARS else f"{line[:_SAID_CHARS]}…"
