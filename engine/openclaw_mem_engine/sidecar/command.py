"""Running the external ``qmd``: isolated folders, time limits, its whole process group ended with it.

``bin/qmd`` starts a second process and passes no signals on, so killing it alone would leave that one at
work: each call is a session of its own, and the session is killed.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from openclaw_mem_engine.cancellation import SEARCH_STOPPED, CancelToken, Deadline
from openclaw_mem_engine.errors import Cancelled, IndexUnavailable
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
#: What a search may print; more is no answer.
_OUTPUT_CHARS = 200_000
_POLL_S = 0.05
#: The same for the end of a program that has closed its output: mostly it is there.
_END_POLL_S = 0.002
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
        most: int | None = _OUTPUT_CHARS,
    ) -> Output:
        """Run the program to its end. Blocks for ``timeout_s`` seconds at most; its process group is gone
        then. ``most`` limits the bytes of each stream (None: what is more is not kept).

        Raises QmdFailed, Cancelled.
        """
        self._prepare()
        words = [argument.replace("\0", " ") for argument in arguments]
        deadline = Deadline(timeout_s)
        with self._started(words) as process:
            out, err, whole = read_output(process, deadline, cancel, most)
            ended = whole and await_end(process, deadline, cancel)
        code = process.returncode if ended else None
        if _is_set(cancel):
            raise Cancelled(SEARCH_STOPPED)
        what = " ".join(["qmd", *words[: 2 if words[:1] == ["collection"] else 1]])
        if not whole and most is not None:
            raise QmdFailed("output", f"{what} printed more than {most:,} characters; it was ended.")
        if code is None:
            raise QmdFailed(
                "timeout",
                f"{what} did not answer within {timeout_s:.3g} s; it and what it started were ended.",
            )
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


def read_output(
    process: subprocess.Popen[bytes], deadline: Deadline, cancel: CancelToken | None, most: int | None
) -> tuple[str, str, bool]:
    """Both streams until they end, the deadline passes or ``cancel`` is set; False when one was too long."""
    kept = {process.stdout: bytearray(), process.stderr: bytearray()}
    limit, ended = most or _OUTPUT_CHARS, None
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and not (deadline.is_over or _is_set(cancel)):
            ready = selector.select(min(_POLL_S, deadline.left_s))
            for key, _ in ready:
                data = os.read(key.fd, 65_536)
                if not data:
                    selector.unregister(key.fileobj)
                buffer = kept[key.fileobj]  # type: ignore[index]
                buffer += data[: max(0, limit - len(buffer) + 1)]
                if most is not None and len(buffer) > most:
                    return "", "", False
            # Only after a look that began when it had ended: a busy machine may not have run us meanwhile.
            if ended is not None and ended.is_over and not ready:
                break
            if ended is None and has_ended(process):
                ended = Deadline(_LATE_S)
    out, err = (bytes(kept[pipe]).decode("utf-8", "replace") for pipe in (process.stdout, process.stderr))
    return out, err, True


def _is_set(cancel: CancelToken | None) -> bool:
    return cancel is not None and cancel.is_set()


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the program has ended. Where the system can say so without collecting it, it is not collected:
    until it is, its number and that of its group are of no other process."""
    if process.returncode is None and hasattr(os, "waitid"):  # not macOS before Python 3.13
        with suppress(ChildProcessError):  # where SIGCHLD is ignored, the system has collected it
            return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return process.poll() is not None


def await_end(process: subprocess.Popen[bytes], deadline: Deadline, cancel: CancelToken | None) -> bool:
    """Whether the program ends before the deadline, and before ``cancel`` is set."""
    while not (ended := has_ended(process)) and not (deadline.is_over or _is_set(cancel)):
        time.sleep(min(_END_POLL_S, deadline.left_s))
    return ended


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """End the program and everything in its session's process group, and collect it. Nothing is sent to one
    that was collected before: the number of its group may be another's."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _said(text: str) -> str:
    plain = _ESCAPE.sub("", text)
    line = " | ".join(visible(redact(plain)).split("\n")).strip(" |.")
    return line if len(line) <= _SAID_CHARS else f"{line[:_SAID_CHARS]}…"
