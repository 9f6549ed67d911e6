"""The parent's side of the model process: starts it, asks it, stops it, and says how it died.

What the child prints goes to a temporary file, whose end is quoted when it dies.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, TypeVar

from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.providers.base import (
    BadAnswer,
    NotConfigured,
    ProcessEnded,
    RequestFailed,
    stop_if_cancelled,
)
from openclaw_mem_engine.providers.local import INSTALL, MAX_MESSAGE, Frame, packed, unpacked
from openclaw_mem_engine.providers.local.model_file import Use, unfit
from openclaw_mem_engine.redact import redact
from openclaw_mem_engine.sanitize import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from openclaw_mem_engine.cancellation import CancelToken

_T = TypeVar("_T")

#: The longest input in tokens; a model with a smaller context has a smaller one.
WINDOW = 2048

#: -P: the current folder, which may be any workspace, is not to be imported from.
_COMMAND = (sys.executable, "-P", "-m", "openclaw_mem_engine.providers.local.child")
#: Room for the longest request, so that sending it does not wait for a child that reads nothing.
_SEND_BYTES = 1 << 18
_POLL_S = 0.05
#: A cancelled calculation ends within some 20 ms; a child that does not answer at all is killed after this.
_ABANDON_S = 2.0
_STOP_S = 1.0
_TAIL_BYTES, _TAIL_CHARS = 8192, 600
_MOST_DIMS = 1 << 16

_INSTEAD = "another model or another llama-cpp-python"
_OTHER_BUILD = (
    "This llama-cpp-python may have been compiled for another processor: reinstall it with "
    'CMAKE_ARGS="-DGGML_NATIVE=OFF".'
)
#: What to do, by the exit code of the child.
_HINTS = {
    -signal.SIGKILL: "The system may have run out of memory: a smaller model needs less.",
    -signal.SIGILL: _OTHER_BUILD,
    -signal.SIGSEGV: f"{_OTHER_BUILD} If it happens again with the same text, try {_INSTEAD}.",
    1: f"If something is missing, run: {INSTALL}.",
}


class Answer(NamedTuple):
    """``rows``: float32 (texts, dims) for the texts at ``full``, the others have no tokens; ``cut``: texts
    longer than the window."""

    full: Sequence[int]
    rows: npt.NDArray[np.float32]
    cut: int


class ModelProcess:
    """One child process with one model. Not thread-safe: the owner lets one thread in at a time; only
    ``stop`` may be called from others. ``use`` is what the model is for; ``command`` replaces the child (for
    tests)."""

    def __init__(
        self,
        path: Path,
        *,
        use: Use = "embed",
        threads: int | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.path = path
        self._use = use
        #: Length of a vector (0 for other uses) and kind of model, known after the start.
        self.dims, self.architecture = 0, ""
        #: Set when the child was stopped or found dead and given up.
        self.gone = threading.Event()
        self._threads = threads or max(1, (os.cpu_count() or 1) - 1)
        self._command = command or _COMMAND
        self._popen: subprocess.Popen[bytes] | None = None
        self._number = 0

    @property
    def pid(self) -> int | None:
        """None before the start and after the end."""
        return self._popen.pid if self._popen is not None and self._popen.poll() is None else None

    def start(self, *, deadline: float, cancel: CancelToken | None = None) -> None:
        """Starts the child and loads the model. ``deadline`` is in ``time.monotonic()`` seconds.

        Raises NotConfigured (no llama_cpp, a file that it does not take, no embedding model), RequestFailed
        (died, too slow), BadAnswer, Cancelled. After an error the child is gone.
        """
        try:
            self._spawn()
            load = {"op": "load", "use": self._use, "path": str(self.path)}
            self._send({**load, "threads": self._threads, "limit": WINDOW})
            ready = self._answer("loading the model", deadline, cancel).header
            self.architecture, dims = str(ready.get("architecture", "")), ready.get("dims")
            if self._use != "embed":
                return
            if not (isinstance(dims, int) and 0 < dims <= _MOST_DIMS):
                raise BadAnswer("The local model's process gave no usable size of its vectors.")
            self.dims = dims
        except BaseException:
            self.stop()
            raise

    def embed(self, texts: Sequence[str], *, deadline: float, cancel: CancelToken | None = None) -> Answer:
        """The vectors of texts without lone surrogates (see ``request``)."""
        asked = {"op": "embed", "texts": texts}

        def read(frame: Frame) -> Answer:
            return _answered(frame, len(texts), self.dims)

        return self.request(asked, "embedding", read, deadline=deadline, cancel=cancel)

    def request(
        self,
        header: Mapping[str, object],
        doing: str,
        read: Callable[[Frame], _T],
        *,
        deadline: float,
        cancel: CancelToken | None = None,
    ) -> _T:
        """What ``read`` makes of the answer to ``header``; it raises BadAnswer, or a KeyError, TypeError or
        ValueError for an answer of another form. ``doing`` is for errors. Blocks until ``deadline`` at most.

        Raises RequestFailed (the child died, is too slow, or refused), BadAnswer, Cancelled. After Cancelled
        the model is usually still loaded.
        """
        self._number += 1
        self._send(header)
        try:
            frame = self._answer(doing, deadline, cancel)
            try:
                return read(frame)
            except (KeyError, TypeError, ValueError):
                op = _quoted(frame.header.get("op"))
                raise BadAnswer(
                    f"The local model's process sent something that was not asked for ({op})."
                ) from None
        except RequestFailed:
            raise  # refused, and ready again; or stopped already
        except BadAnswer:
            self.stop()
            raise
        except BaseException:
            self._abandon()
            raise

    def stop(self) -> None:
        """Ends the child, which has nothing to save. May be called again."""
        popen, self._popen = self._popen, None
        if popen is None:
            return
        popen.kill()
        popen.wait()
        self.gone.set()

    def _spawn(self) -> None:
        # No debugger at an assertion of the library, and no idle helper threads.
        environ = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **os.environ}
        ours, childs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        # Never closed by hand, as another thread may be about to use it; it goes with the last reference.
        self._connection = Connection(ours.detach())
        try:
            with childs:
                self._output = tempfile.TemporaryFile()  # noqa: SIM115 (goes with the last reference)
                self._popen = subprocess.Popen(
                    self._command,
                    stdin=childs.fileno(),
                    stdout=self._output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C in the terminal is for us; we decide what becomes of it
                    env={**environ, "GGML_NO_BACKTRACE": "1"},
                )
        except OSError as exc:
            raise ProcessEnded(
                f"The process for the local model cannot be started: {exc}. "
                "Check that memory and process limits allow it."
            ) from exc

    def _send(self, header: Mapping[str, object]) -> None:
        with contextlib.suppress(OSError):  # an end of the child shows when its answer is read
            self._connection.send_bytes(packed({**header, "id": self._number}))

    def _received(self, seconds: float) -> Frame | None:
        """The next message; None when none comes in time. Raises EOFError, OSError, ValueError."""
        if not self._connection.poll(max(0.0, seconds)):
            return None
        return unpacked(self._connection.recv_bytes(MAX_MESSAGE))

    def _answer(self, doing: str, deadline: float, cancel: CancelToken | None) -> Frame:
        """The answer to the current request. Raises RequestFailed and stops the child when there is none in
        time, and the error that the child reports."""
        while True:
            stop_if_cancelled(cancel)
            left = deadline - time.monotonic()
            if left <= 0:
                self.stop()
                raise RequestFailed(
                    f"The local model did not answer in time while {doing}; its process was ended. "
                    f"{self._said()}Set a longer timeout, use a smaller model, or try again."
                )
            try:
                found = self._received(min(left, _POLL_S))
            except (EOFError, OSError, ValueError) as exc:
                raise self._death(exc, doing) from None
            if found is not None and found.header.get("id") == self._number:
                if found.header.get("op") == "error":
                    raise self._refusal(found, doing)
                return found

    def _death(self, reason: Exception, doing: str) -> ProcessEnded:
        popen, code = self._popen, None
        what = f"ended while {doing}: it was closed"
        if not isinstance(reason, (EOFError, ConnectionError)):
            what = f"sent something unreadable while {doing} ({_quoted(reason)})"
        elif popen is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = popen.wait(_STOP_S)
            what = f"ended while {doing}: {_ending(code)}"
        self.stop()
        hint = _HINTS.get(code or 0, f"If it happens again with the same text, try {_INSTEAD}.")
        return ProcessEnded(
            f"The local model's process {what}. {self._said()}The next text starts it again. {hint}"
        )

    def _refusal(self, frame: Frame, doing: str) -> NotConfigured | RequestFailed:
        kind, said = frame.header.get("kind"), _quoted(frame.header.get("text"))
        if kind == "missing":
            return NotConfigured(
                f"Local models need llama-cpp-python, which cannot be imported ({said}). "
                f"Run: {INSTALL} (it is compiled, which takes minutes)."
            )
        if kind == "unfit":
            return NotConfigured(unfit(self.path, self._use, said))
        if kind == "model":
            return NotConfigured(
                f"llama.cpp cannot load {self.path}: {said}. The file may be damaged or cut off, or of a "
                "newer kind than this llama-cpp-python: fetch it again (openclaw-mem model download), or "
                "update llama-cpp-python."
            )
        return RequestFailed(
            f"The local model failed while {doing}: {said or 'no reason given'}. "
            "Try again, or use another model."
        )

    def _abandon(self) -> None:
        """Makes the child drop the current request and waits until it has; kills it when it does not."""
        self._send({"op": "cancel"})
        deadline = time.monotonic() + _ABANDON_S
        with contextlib.suppress(EOFError, OSError, ValueError):
            while (found := self._received(deadline - time.monotonic())) is not None:
                if found.header.get("id") == self._number:
                    return
        self.stop()

    def _said(self) -> str:
        output = self._output.fileno()  # whose position is that of the child, too
        end = os.pread(output, _TAIL_BYTES, max(0, os.fstat(output).st_size - _TAIL_BYTES))
        lines = end.decode("utf-8", "replace").split("\n")
        text = _quoted("\n".join(filter(str.strip, lines)), _TAIL_CHARS)
        return f"It last said: {text!r}. " if text else ""


def _answered(frame: Frame, count: int, dims: int) -> Answer:
    """The vectors of ``count`` texts. Raises KeyError, TypeError or ValueError for anything else."""
    import numpy as np

    none = frame.header["none"]
    full = [position for position in range(count) if position not in none]
    rows = np.frombuffer(frame.payload, dtype="<f4").reshape(len(full), dims)
    if len(full) + len(none) != count:
        raise ValueError
    return Answer(full, rows, int(frame.header["cut"]))


def _quoted(text: object, limit: int = 300) -> str:
    """What a child printed, fit to be shown: secrets masked, nothing that acts, only the end of long text."""
    line = " | ".join(visible(redact(str(text or ""))).split("\n")).strip(" |.")
    return line if len(line) <= limit else "…" + line[-limit:]


def _ending(code: int | None) -> str:
    if code is None:
        return "it closed its output"
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by signal {-code} ({signal.Signals(-code).name})"
    return f"killed by signal {-code}"
