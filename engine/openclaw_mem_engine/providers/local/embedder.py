"""Embeddings from a GGUF model on this machine: the provider, which keeps one child process with the model.

The child starts at the first text, is shared by all threads, and is stopped after ``idle_s`` seconds without
a text, which gives its memory back.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.model import Note, utf8
from openclaw_mem_engine.providers.base import (
    BadAnswer,
    NotConfigured,
    ProcessEnded,
    RequestFailed,
    check_vectors,
    stop_if_cancelled,
)
from openclaw_mem_engine.providers.base_embedder import BaseEmbedder
from openclaw_mem_engine.providers.local.model_file import (
    FileMark,
    ModelFile,
    Prompts,
    is_hub,
    model_name,
    prompts_for,
)
from openclaw_mem_engine.providers.local.process import ModelProcess

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Purpose, Vector

#: Counted up when the same text and file would give other vectors: cutting, normalising, decomposing.
ENCODING_VERSION = 1
#: As documented for local models; longer texts are cut at the model's window and counted.
MAX_INPUT_BYTES = 2048

#: 16 bytes a token of the largest window. Some tokenisers recurse over a text: its length must have a bound.
_LONGEST_BYTES = 32_768
#: A file that could not be loaded is not tried again at every text.
_REFUSED_S = 30.0
_CLOSE_S = 2.0
#: How often a waiting thread checks the clock and the cancel token.
_POLL_S = 0.05


class LocalEmbedder(BaseEmbedder):
    """Embeds with llama.cpp in a child process. Nothing is read or started before the first text.

    ``model``: the path of a GGUF file, or ``hf:organisation/repository/file.gguf`` (with ``@revision``) as
    downloaded to ``folder``; empty means the default model. ``idle_s``: seconds until an unused model leaves
    memory (0 or infinite: never). ``threads``: None leaves one core free. ``command`` replaces the child.
    """

    id = "local"
    max_input_bytes: int | None = MAX_INPUT_BYTES
    # A second's work, so that a query does not wait long for its turn.
    batch_texts = 32
    batch_chars = 6144

    def __init__(
        self,
        model: str = "",
        *,
        folder: Path,
        idle_s: float = 300.0,
        query_timeout_s: float = 300.0,
        batch_timeout_s: float = 600.0,
        threads: int | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.model = model_name(model)
        self._file = ModelFile(model, folder)
        self._idle_s = idle_s if idle_s > 0 else math.inf
        self._query_timeout_s = query_timeout_s
        self._batch_timeout_s = batch_timeout_s
        self._threads = threads
        self._command = command
        self._owner = os.getpid()
        self._turns = _Turns()
        self._process: ModelProcess | None = None
        self._process_mark: FileMark | None = None
        self._used_at = 0.0
        self._refused: tuple[FileMark | None, float, str] = (None, 0.0, "")
        #: Texts that were longer than the model's window and lost their end, since the start.
        self.cut_texts = self._reported_cut = 0

    @property
    def prompts(self) -> Prompts:
        """What is put before queries and documents."""
        header = self._file.header()
        return prompts_for(self.model, header.architecture if header else "")

    @property
    def key(self) -> str:
        """SHA-256 hex over the model file (size and samples of its content) and what we do to a text; over
        the model's name as long as there is no file."""
        prompts = self.prompts
        identity = {
            "provider": self.id,
            "encoding": ENCODING_VERSION,
            "model": self._file.digest() or (self.model if is_hub(self.model) else str(self._file.path)),
            "prompts": [prompts.query, prompts.document],
        }
        return hashlib.sha256(utf8(json.dumps(identity, separators=(",", ":")))).hexdigest()

    @property
    def dims(self) -> int | None:  # type: ignore[override]
        """As the file says; None as long as there is none."""
        header = self._file.header()
        return header.embedding_length if header else None

    @property
    def pid(self) -> int | None:
        """The process that holds the model, None when it is not loaded."""
        return self._process.pid if self._process is not None else None

    def why_not(self) -> str | None:
        """That there is no usable file or no llama_cpp, or that the file could not be loaded a moment ago.
        Looks at the file's header at most."""
        try:
            mark = self._file.usable(needs_library=self._command is None)
        except NotConfigured as exc:
            return str(exc)
        return self._why_refused(mark)

    def embed_batch(
        self, texts: Sequence[str], purpose: Purpose, cancel: CancelToken | None
    ) -> list[Vector | None]:
        """Unit float32 (dims,), or None for a text without words. Blocks while other texts use the model.

        Raises NotConfigured (no file, no llama_cpp, no embedding model), RequestFailed (the process died or
        did not answer in time), BadAnswer (the model gave no usable numbers), Cancelled within about 0.3 s.
        """
        vectors: list[Vector | None] = [None] * len(texts)
        query = purpose == "query"
        prompt = self.prompts.query if query else self.prompts.document
        used = [position for position, text in enumerate(texts) if text.strip()]
        if not used:
            return vectors
        self._renew_after_fork()
        # A query counts the time that it waits for its turn, documents do not.
        waits_until = time.monotonic() + self._query_timeout_s if query else math.inf
        with self._turns.turn(urgent=query, until=waits_until, cancel=cancel):
            deadline = min(waits_until, time.monotonic() + self._batch_timeout_s)
            idle = self._process
            process = self._ready(deadline, cancel)
            sent = [_bounded(prompt + texts[position]) for position in used]
            try:
                answer = process.embed(sent, deadline=deadline, cancel=cancel)
            except ProcessEnded:
                if process is not idle or not query:
                    raise
                # It may have been killed while it was idle, for which the query is not the reason.
                process = self._ready(deadline, cancel)
                answer = process.embed(sent, deadline=deadline, cancel=cancel)
            finally:
                self._used_at = time.monotonic()
            self.cut_texts += answer.cut
        name = f"local model {self.model}"
        try:
            found = check_vectors(
                list(answer.rows), expected=len(answer.full), dims=process.dims, provider=name
            )
        except BadAnswer as exc:
            raise BadAnswer(
                f"{exc} The file {self._file.path} may be damaged: compare its SHA-256 with the "
                "publisher's, or fetch it again."
            ) from exc
        for position, vector in zip(answer.full, found, strict=True):
            vectors[used[position]] = vector
        return vectors

    def take_notes(self) -> tuple[Note, ...]:
        """Texts that are longer than the model's window: their ends have no part in the vectors."""
        cut, self._reported_cut = self.cut_texts - self._reported_cut, self.cut_texts
        if not cut:
            return ()
        texts = "1 text is" if cut == 1 else f"{cut:,} texts are"
        message = f"{texts} longer than the window of {self.model}: what is beyond it is not in the vectors."
        return (Note("texts-cut", message, "warning"),)

    def close(self) -> None:
        """Stops the child; a later text starts it again. A request that is running in another thread has two
        seconds to finish and fails then."""
        self._renew_after_fork()
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
        mark = self._file.usable(needs_library=self._command is None)
        if self.pid is None or self._process_mark != mark:
            self._stop()
        if self._process is None:
            if (why := self._why_refused(mark)) is not None:
                raise NotConfigured(why)
            process = ModelProcess(self._file.path, threads=self._threads, command=self._command)
            try:
                process.start(deadline=deadline, cancel=cancel)
            except NotConfigured as exc:
                self._refused = (mark, time.monotonic() + _REFUSED_S, str(exc))
                raise
            self._process, self._process_mark, self._used_at = process, mark, time.monotonic()
            if math.isfinite(self._idle_s):
                threading.Thread(target=self._watch, args=(process,), daemon=True).start()
        return self._process

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

    def _renew_after_fork(self) -> None:
        """A copy of this process made by fork has no right to the child, nor the threads that serve it."""
        if self._owner == os.getpid():
            return
        self._owner = os.getpid()
        self._turns = _Turns()
        process, self._process = self._process, None
        if process is not None:
            process.forget()


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


def _bounded(text: str) -> str:
    """Its begin, without lone surrogates; the window cuts it again, unless most of it is white space."""
    return utf8(text[:_LONGEST_BYTES])[:_LONGEST_BYTES].decode("utf-8", "ignore")
