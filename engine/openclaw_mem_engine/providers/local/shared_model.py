"""One model file in one child process, shared by all threads: started at the first use, stopped when unused.

Embedders, rerankers and chat models of this machine are made of it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Required, TypedDict, TypeVar, Unpack

from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.base import (
    NotConfigured,
    ProcessEnded,
    RequestFailed,
    stop_if_cancelled,
)
from openclaw_mem_engine.providers.local.model_file import FileMark, ModelFile, Use, model_name
from openclaw_mem_engine.providers.local.process import ModelProcess

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken

_T = TypeVar("_T")

#: A file that could not be loaded is not tried again at every text.
_REFUSED_S = 30.0
_CLOSE_S = 2.0
#: How often a waiting thread checks the clock and the cancel token.
_POLL_S = 0.05


class SharedModel:
    """The process of one model. Nothing is read or started before the first use. Thread-safe.

    ``model``: the path of a GGUF file, or ``hf:organisation/repository/file.gguf`` (with ``@revision``) as
    downloaded to ``folder``. ``use``: what it is for.
    ``idle_s``: seconds until an unused model leaves memory (0 or infinite: never). ``threads``: None leaves
    one core free. ``command`` replaces the child.
    """

    def __init__(
        self,
        model: str,
        *,
        folder: Path,
        use: Use = "embed",
        idle_s: float = 300.0,
        threads: int | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.name = model_name(model)
        self.file = ModelFile(model, folder)
        self._use = use
        self._idle_s = idle_s if idle_s > 0 else math.inf
        self._threads = threads
        self._command = command
        self._turns = _Turns()
        self._process: ModelProcess | None = None
        self._process_mark: FileMark | None = None
        self._used_at = 0.0
        self._refused: tuple[FileMark | None, float, str] = (None, 0.0, "")

    @property
    def pid(self) -> int | None:
        """The process that holds the model, None when it is not loaded."""
        return self._process.pid if self._process is not None else None

    def why_not(self) -> str | None:
        """That there is no GGUF file or no llama_cpp, or that the file could not be loaded a moment ago. What
        kind of model it is shows only then."""
        try:
            mark = self._usable()
        except NotConfigured as exc:
            return str(exc)
        return self._why_refused(mark)

    def run(
        self,
        call: Callable[[ModelProcess, float], _T],
        *,
        takes_s: float,
        waits_s: float = math.inf,
        urgent: bool = True,
        cancel: CancelToken | None = None,
    ) -> _T:
        """What ``call`` returns, which gets the process and its deadline on ``time.monotonic()``. Blocks
        while others use the model; ``urgent`` calls come first, and are tried again when the process had
        ended while it was idle. ``waits_s`` holds from now, ``takes_s`` from the turn on.

        Raises NotConfigured (no file, no llama_cpp, a model for something else), RequestFailed (the process
        died or did not answer in time), Cancelled within about 0.3 s, and what ``call`` raises.
        """
        waits_until = time.monotonic() + waits_s
        with self._turns.turn(urgent=urgent, until=waits_until, cancel=cancel):
            deadline = min(waits_until, time.monotonic() + takes_s)
            idle = self._process
            process = self._ready(deadline, cancel)
            try:
                return call(process, deadline)
            except ProcessEnded:
                if process is not idle or not urgent:
                    raise
                # It may have been killed while it was idle, for which the query is not the reason.
                return call(self._ready(deadline, cancel), deadline)
            finally:
                self._used_at = time.monotonic()

    def close(self) -> None:
        """Stops the child; a later text starts it again. A request that is running in another thread has two
        seconds to finish and fails then."""
        self._refused = (None, 0.0, "")
        if (process := self._process) is None:
            return
        try:
            with self._turns.turn(urgent=True, until=time.monotonic() + _CLOSE_S):
                self._stop()
        except RequestFailed:
            process.stop()  # a thread that waits for its answer sees its end

    def _ready(self, deadline: float, cancel: CancelToken | None) -> ModelProcess:
        """The running child with the file that is there now."""
        mark = self._usable()
        if self.pid is None or self._process_mark != mark:
            self._stop()
        if self._process is None:
            if (why := self._why_refused(mark)) is not None:
                raise NotConfigured(why)
            process = ModelProcess(
                self.file.path, use=self._use, threads=self._threads, command=self._command
            )
            try:
                process.start(deadline=deadline, cancel=cancel)
            except NotConfigured as exc:
                self._refused = (mark, time.monotonic() + _REFUSED_S, str(exc))
                raise
            self._process, self._process_mark, self._used_at = process, mark, time.monotonic()
            if math.isfinite(self._idle_s):
                threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        return self._process

    def _usable(self) -> FileMark:
        return self.file.usable(needs_library=self._command is None, use=self._use)

    def _why_refused(self, mark: FileMark) -> str | None:
        """Why this file could not be loaded a moment ago; None when it was not tried, or long ago."""
        refused, until, why = self._refused
        return why if refused == mark and time.monotonic() < until else None

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def _watch(self, process: ModelProcess) -> None:
        """Stops a child that was not used for a while; one thread per child."""
        while not process.gone.wait(max(0.0, self._used_at + self._idle_s - time.monotonic())):
            with self._turns.turn(urgent=False):
                if self._process is process and self._used_at + self._idle_s <= time.monotonic():
                    self._stop()


class ModelOptions(TypedDict, total=False):
    """Arguments of ``SharedModel``."""

    folder: Required[Path]
    idle_s: float
    threads: int | None
    command: Sequence[str] | None


class LocalService:
    """What embedders, rerankers and chat models of this machine share. Arguments are those of
    ``SharedModel``."""

    id, host = "local", ""

    def __init__(self, model: str, use: Use, **options: Unpack[ModelOptions]) -> None:
        self._shared = SharedModel(model, use=use, **options)
        self.model = self._shared.name

    def why_not(self) -> str | None:
        return self._shared.why_not()

    def close(self) -> None:
        self._shared.close()


class _Turns:
    """A lock that queries get before documents. Not reentrant."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._urgent = 0

    @contextmanager
    def turn(
        self, *, urgent: bool, until: float = math.inf, cancel: CancelToken | None = None
    ) -> Iterator[None]:
        """The model is ours within the block. ``until`` is in ``time.monotonic()`` seconds.

        Raises RequestFailed when it is not free by then, Cancelled.
        """
        with self._changed:
            self._urgent += urgent
            try:
                while self._busy or (self._urgent and not urgent):
                    stop_if_cancelled(cancel)
                    if time.monotonic() >= until:
                        raise RequestFailed(
                            "The local model was busy with other texts until the time was up. Try again, "
                            "or set a longer timeout."
                        )
                    self._changed.wait(_POLL_S)
                self._busy = True
            finally:
                self._urgent -= urgent
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()


def bounded(text: str, most: int) -> str:
    """Its first ``most`` UTF-8 bytes, without lone surrogates. Some tokenisers recurse over a text, so its
    length must have a bound."""
    return utf8(text[:most])[:most].decode("utf-8", "ignore")
