"""The process that holds a model: ``python -m openclaw_mem_engine.providers.local.child``.

Its standard input is a socket to the parent, for messages in both directions (see ``packed``). It ends when
the parent closes the socket, also in the middle of a calculation.

Asked: ``load`` (path, threads, limit, use), ``embed`` (texts), ``score`` (query, texts), ``write`` (messages,
most, sampling, grammar), ``cancel``; each with the id of the request. Answered, with the same id: ``ready``
(dims, architecture), ``done`` (none, cut, cpu; the vectors of all texts but ``none``, one after another),
``scored`` (cut; a float32 per text), ``written`` (text), ``error`` (kind, text: missing, model, unfit,
failed, cancelled).
"""

from __future__ import annotations

import os
import queue
import resource
import struct
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

from openclaw_mem_engine.providers.local import MAX_MESSAGE, packed, unpacked
from openclaw_mem_engine.providers.local.native import Aborted, NativeFile, Unusable, lists_of
from openclaw_mem_engine.providers.local.native_text import Sampling, model_class

#: How often an idle child checks whether its parent is still there (the socket stays open when a copy of the
#: parent made by fork holds the other end).
_PARENT_S = 5.0
#: Many tokenisers run regular expressions that recurse once per character of a word: 8 MB of stack, which a
#: main thread has, end at some 10,000 of them with a segmentation fault. Only touched pages take memory.
_STACKS = (1 << 28, 1 << 26)


class _Server:
    """Answers requests, one at a time; they are read in a thread of its own, so that a cancel is seen at any
    time."""

    def __init__(self) -> None:
        self._connection = Connection(os.dup(0))
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123
            os.dup2(nothing.fileno(), 0)
        self._requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._cancelled = self._current = -1
        #: Loaded by the first request, for the use that all others are of.
        self._model: Any = None

    def serve(self) -> None:
        threading.stack_size(0)
        threading.Thread(target=self._listen, name="requests", daemon=True).start()
        parent = os.getppid()
        while os.getppid() == parent:
            try:
                request = self._requests.get(timeout=_PARENT_S)
            except queue.Empty:
                continue
            self._current = request["id"]
            try:
                header, payload = getattr(self, f"_{request['op']}")(request)
            except Aborted:
                header, payload = {"op": "error", "kind": "cancelled"}, b""
            except Unusable as exc:
                header, payload = {"op": "error", "kind": exc.kind, "text": str(exc)}, b""
            self._connection.send_bytes(packed({**header, "id": self._current}, payload))

    def _listen(self) -> None:
        try:
            while True:
                request = unpacked(self._connection.recv_bytes(MAX_MESSAGE)).header
                if request["op"] == "cancel":
                    self._cancelled = request["id"]
                else:
                    self._requests.put(request)
        finally:
            os._exit(0)  # at once, whatever is calculated

    def _stopped(self) -> bool:
        """Whether what is being done now is no longer wanted."""
        return self._cancelled == self._current

    def _load(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        file = NativeFile(request["path"])
        self._model = model_class(request["use"], file.kind)(
            file, threads=request["threads"], limit=request["limit"], should_stop=self._stopped
        )
        dims = getattr(self._model, "dims", 0)
        return {"op": "ready", "dims": dims, "architecture": file.architecture}, b""

    def _score(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        texts = [text.encode() for text in request["texts"]]
        scores, cut = self._model.scores(request["query"].encode(), texts)
        return {"op": "scored", "cut": cut}, struct.pack(f"<{len(scores)}f", *scores)

    def _write(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        sampling = Sampling(*request["sampling"])
        text = self._model.complete(request["messages"], request["most"], sampling, request["grammar"])
        return {"op": "written", "text": text}, b""

    def _embed(self, request: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        model = self._model
        texts = [model.tokens(text.encode()) for text in request["texts"]]
        full = [tokens for tokens, _ in texts if tokens]
        found: list[bytes] = []
        for positions in lists_of([len(tokens) for tokens in full], model.window):
            if self._stopped():
                raise Aborted
            found += model.vectors([full[position] for position in positions])
        none = [position for position, (tokens, _) in enumerate(texts) if not tokens]
        cut = sum(was_cut for _, was_cut in texts)
        return {"op": "done", "none": none, "cut": cut, "cpu": time.process_time()}, b"".join(found)


def main() -> None:
    """Serves until the parent is gone, in a thread with room for deep recursion."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    server = _Server()
    for size in _STACKS:
        threading.stack_size(size)
        worker = threading.Thread(target=server.serve, name="model")
        try:
            worker.start()
        except RuntimeError:  # address space is limited
            continue
        worker.join()
        os._exit(4)  # only an error ends it; it is on standard error
    print("there is no memory for a thread")


if __name__ == "__main__":
    main()
