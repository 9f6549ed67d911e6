"""The parent's side of the model process: starts it, asks it, stops it, and says how it died.

One request at a time (``LocalEmbedder`` sees to that). Three threads per child move bytes, because a pipe
may block for ever: one writes frames, one reads them, one keeps the last lines of what the child prints and
takes note of its end, so that no dead child stays in the process table.
"""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from openclaw_mem_engine.providers.base import BadAnswer, NotConfigured, RequestFailed, stop_if_cancelled
from openclaw_mem_engine.providers.local import INSTALL
from openclaw_mem_engine.providers.local.frames import (
    TAIL_LINES,
    BadFrame,
    EndOfOutput,
    Frame,
    ending,
    hint,
    packed,
    quoted,
    raw,
    read_frames,
    read_noise,
    write_frames,
)
from openclaw_mem_engine.providers.local.model_file import NO_EMBEDDINGS_ADVICE

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt

    from openclaw_mem_engine.cancellation import CancelToken

#: The longest input in tokens; a model with a smaller context has a smaller one.
WINDOW = 2048

#: -P: the current folder, which may be any workspace, is not to be imported from.
_COMMAND = ("-P", "-m", "openclaw_mem_engine.providers.local.child")
_POLL_S = 0.05
#: A cancelled calculation ends within some 20 ms; a child that does not answer at all is killed after this.
_ABANDON_S = 2.0
_STOP_S = 1.0
_TAIL_CHARS = 600


class Loaded(NamedTuple):
    """The facts of a loaded model: ``window`` in tokens, ``pooling`` "mean", "cls" or "last"; ``version``: of
    llama_cpp."""

    dims: int
    window: int
    pooling: str
    version: str


class Answer(NamedTuple):
    """``rows``: float32 (texts, dims) for the texts at ``full``, the others have no tokens; ``cut``: texts
    longer than the window; ``cpu_s``: CPU seconds that the child has used so far."""

    full: Sequence[int]
    rows: npt.NDArray[np.float32]
    cut: int
    cpu_s: float


class _OutOfStep(BadAnswer):
    """The child answers something else than what was asked: it cannot be relied on any more."""


class ModelProcess:
    """One child process with one model. Not thread-safe: the owner lets one thread in at a time.

    ``command`` replaces the child (for tests). Nothing is started before ``start``.
    """

    def __init__(
        self, path: Path, *, threads: int | None = None, command: Sequence[str] | None = None
    ) -> None:
        self.path = path
        #: Set when the child was stopped or found dead and given up.
        self.gone = threading.Event()
        #: CPU seconds that the child has used, as of the last answer.
        self.cpu_s = 0.0
        self._threads = threads or max(1, (os.cpu_count() or 1) - 1)
        self._command = tuple(command or (sys.executable, *_COMMAND))
        self._popen: subprocess.Popen[bytes] | None = None
        self._outbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._inbox: queue.SimpleQueue[Frame | Exception] = queue.SimpleQueue()
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._movers: list[threading.Thread] = []
        self._number = self._dims = 0

    @property
    def pid(self) -> int | None:
        """None before the start and after the end."""
        return self._popen.pid if self._popen is not None else None

    @property
    def alive(self) -> bool:
        return self._popen is not None and self._popen.poll() is None

    def start(self, *, deadline: float, cancel: CancelToken | None = None) -> Loaded:
        """Starts the child and loads the model. ``deadline`` is in ``time.monotonic()`` seconds.

        Raises NotConfigured (no llama_cpp, a file that it does not take, no embedding model), RequestFailed
        (died, too slow), Cancelled. After an error the child is gone.
        """
        try:
            self._spawn()
            self._ask({"op": "load", "path": str(self.path), "threads": self._threads, "limit": WINDOW})
            while True:
                frame = self._answer(deadline, cancel, "loading the model")
                if frame.header.get("op") == "ready":
                    loaded = _loaded(frame.header)
                    self._dims = loaded.dims
                    return loaded
                if frame.header.get("op") == "error":
                    raise self._refusal(frame.header)
        except BaseException:
            self.stop(grace_s=0.0)
            raise

    def embed(self, texts: Sequence[bytes], *, deadline: float, cancel: CancelToken | None = None) -> Answer:
        """Asks for the vectors of UTF-8 texts. Blocks until ``deadline`` at most.

        Raises RequestFailed (the child died, is too slow, or refused), BadAnswer, Cancelled. After Cancelled
        the model is usually still loaded.
        """
        self._number += 1
        sizes = [len(text) for text in texts]
        self._ask({"op": "embed", "id": self._number, "sizes": sizes}, b"".join(texts))
        try:
            while True:
                frame = self._answer(deadline, cancel, "embedding")
                if frame.header.get("id") != self._number:
                    continue
                if frame.header.get("op") == "error":
                    said = quoted(frame.header.get("text"))
                    raise RequestFailed(
                        f"The local model failed while embedding: {said or 'no reason given'}. "
                        "Try again, or use another model."
                    )
                answer = _answered(frame, len(texts), self._dims)
                self.cpu_s = answer.cpu_s
                return answer
        except RequestFailed:
            raise  # refused, and ready again; or stopped already
        except _OutOfStep:
            self.stop(grace_s=0.0)
            raise
        except BaseException:
            self._abandon()
            raise

    def stop(self, grace_s: float = _STOP_S) -> None:
        """Ends the child: by closing its input, and by force after ``grace_s``. May be called again."""
        popen, self._popen = self._popen, None
        if popen is None:
            return
        self._outbox.put(None)
        try:
            popen.wait(grace_s)
        except subprocess.TimeoutExpired:
            popen.kill()
            popen.wait()
        for mover in self._movers:
            mover.join(_STOP_S)  # a pipe only outlives the child when another process holds it
        self.gone.set()

    def forget(self) -> None:
        """In a copy of this process made by fork: lets go of the pipes and leaves the child to its parent."""
        popen, self._popen = self._popen, None
        if popen is not None:
            for pipe in (popen.stdin, popen.stdout, popen.stderr):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            popen.returncode = 0  # no waiting for a child that is not ours
        self.gone.set()

    def _spawn(self) -> None:
        environ = {**os.environ, "GGML_NO_BACKTRACE": "1"}
        try:
            popen = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                close_fds=True,
                start_new_session=True,  # Ctrl-C in the terminal is for us; we decide what becomes of it
                env=environ,
            )
        except OSError as exc:
            raise RequestFailed(
                f"The process for the local model cannot be started: {exc}. "
                "Check that memory and process limits leave room for it."
            ) from exc
        self._popen = popen
        # bufsize=0 makes them raw files: closing one never waits for a lock that another thread holds.
        self._movers = [
            threading.Thread(target=job, args=arguments, name="local-model", daemon=True)
            for job, arguments in (
                (write_frames, (raw(popen.stdin), self._outbox)),
                (read_frames, (raw(popen.stdout), self._inbox, self._tail)),
                (read_noise, (raw(popen.stderr), self._tail, popen)),
            )
        ]
        for mover in self._movers:
            mover.start()

    def _ask(self, header: Mapping[str, object], payload: bytes = b"") -> None:
        self._outbox.put(packed(header, payload))

    def _answer(self, deadline: float, cancel: CancelToken | None, doing: str) -> Frame:
        """The next frame. Raises RequestFailed and stops the child when there is none in time."""
        while True:
            stop_if_cancelled(cancel)
            left = deadline - time.monotonic()
            if left <= 0:
                self.stop(grace_s=0.0)
                raise RequestFailed(
                    f"The local model did not answer in time while {doing}; its process was ended. "
                    f"{self._said()}Set a longer timeout, use a smaller model, or try again."
                )
            try:
                found = self._inbox.get(timeout=min(left, _POLL_S))
            except queue.Empty:
                continue
            if isinstance(found, Frame):
                return found
            raise self._death(found, doing)

    def _death(self, reason: Exception, doing: str) -> RequestFailed:
        popen = self._popen
        if popen is not None and isinstance(reason, EndOfOutput):
            with contextlib.suppress(subprocess.TimeoutExpired):
                popen.wait(_STOP_S)
        code = popen.poll() if popen is not None else None
        how = ending(code) if popen is not None else "it was closed"
        self.stop(grace_s=0.0)
        if isinstance(reason, BadFrame):
            what = f"The local model's process sent something unreadable while {doing} ({quoted(reason)})"
        else:
            what = f"The local model's process ended while {doing}: {how}"
        return RequestFailed(f"{what}. {self._said()}The next text starts it again. {hint(code)}".strip())

    def _refusal(self, header: Mapping[str, object]) -> NotConfigured | RequestFailed:
        kind, said = header.get("kind"), quoted(header.get("text"))
        if kind == "missing":
            return NotConfigured(
                f"Local models need llama-cpp-python, which cannot be imported ({said}). "
                f"Run: {INSTALL} (it is compiled, which takes minutes)."
            )
        if kind == "unfit":
            return NotConfigured(f"{self.path.name} is no embedding model: {said}. {NO_EMBEDDINGS_ADVICE}")
        if kind == "model":
            return NotConfigured(
                f"llama.cpp cannot load {self.path}: {said}. The file may be damaged or cut off, or of a "
                "newer kind than this llama-cpp-python: fetch it again (openclaw-mem model download), or "
                "update llama-cpp-python."
            )
        return RequestFailed(f"The local model's process refused to load: {said}. {self._said()}".strip())

    def _abandon(self) -> None:
        """Makes the child drop the current request and waits until it has; kills it when it does not."""
        if self._popen is None:
            return
        self._ask({"op": "cancel", "id": self._number})
        deadline = time.monotonic() + _ABANDON_S
        try:
            while (left := deadline - time.monotonic()) > 0:
                found = self._inbox.get(timeout=left)
                if not isinstance(found, Frame):
                    break
                if found.header.get("id") == self._number and found.header.get("op") in ("done", "error"):
                    return
        except queue.Empty:
            pass
        self.stop(grace_s=0.0)

    def _said(self) -> str:
        text = quoted("\n".join(self._tail), _TAIL_CHARS)
        return f"It last said: {text!r}. " if text else ""


def _answered(frame: Frame, count: int, dims: int) -> Answer:
    """The vectors of ``count`` texts. Raises _OutOfStep for anything else."""
    import numpy as np

    op, none, cut, cpu = (frame.header.get(name) for name in ("op", "none", "cut", "cpu"))
    if op != "done" or not (
        isinstance(none, list) and isinstance(cut, int) and isinstance(cpu, (int, float))
    ):
        raise _OutOfStep(f"The local model's process sent an answer out of turn ({quoted(op)}).")
    full = [position for position in range(count) if position not in none]
    if len(full) + len(none) != count or len(frame.payload) != 4 * dims * len(full):
        raise _OutOfStep("The local model's process sent vectors that were not asked for.")
    return Answer(full, np.frombuffer(frame.payload, dtype="<f4").reshape(len(full), dims), cut, cpu)


def _loaded(header: Mapping[str, object]) -> Loaded:
    dims, window = header.get("dims"), header.get("window")
    if not (isinstance(dims, int) and isinstance(window, int) and 0 < dims <= 1 << 16):
        raise _OutOfStep("The local model's process gave no usable size of its vectors.")
    return Loaded(dims, window, str(header.get("pooling")), str(header.get("version")))
