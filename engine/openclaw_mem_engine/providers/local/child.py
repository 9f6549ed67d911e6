"""The process that holds a model: ``python -m openclaw_mem_engine.providers.local.child``.

Frames come on standard input and go out on what was standard output at the start; descriptors 1 and 2 then
both lead to standard error, so nothing that a library prints can get between frames. It ends when its input
ends, also in the middle of a calculation: a dead parent leaves nothing behind.

Asked: ``load`` (path, threads, limit), ``embed`` (id, sizes; the texts one after another), ``cancel`` (id).
Answered: ``ready``, ``done`` (id, none, cut, cpu; the vectors of all texts but ``none``, one after another),
``error`` (id, kind, text). Kinds: missing, model, unfit, failed, cancelled.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from io import FileIO
from typing import Any

from openclaw_mem_engine.providers.local.frames import BadFrame, Frame, packed, read_frame, write_all
from openclaw_mem_engine.providers.local.native import (
    Aborted,
    NativeModel,
    Unusable,
    lists_of,
    quiet_environment,
)

#: How often an idle child looks whether its parent is still there (its input stays open when a copy of the
#: parent made by fork holds the other end).
_PARENT_S = 5.0
#: Many tokenisers run regular expressions that recurse once per character of a word: 8 MB of stack, which a
#: main thread has, end at some 10,000 of them with a segmentation fault. Only touched pages take memory.
_STACKS = (1 << 28, 1 << 26)


class _Requests:
    """What the parent asks for: read in a thread of its own, so that a cancel is seen at any time."""

    def __init__(self, stream: FileIO) -> None:
        self._stream = stream
        self._cancelled = -1
        self._current = -1
        self.frames: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="frames", daemon=True).start()

    def begin(self, number: int) -> None:
        self._current = number

    def stopped(self) -> bool:
        """Whether what is being done now is no longer wanted."""
        return self._cancelled == self._current

    def _listen(self) -> None:
        try:
            while (frame := read_frame(self._stream.read)) is not None:
                if frame.header.get("op") == "cancel":
                    self._cancelled = int(frame.header.get("id", -2))
                else:
                    self.frames.put(frame)
        except (BadFrame, OSError, ValueError) as exc:
            print(f"unreadable request: {exc}", file=sys.stderr, flush=True)
            os._exit(3)
        os._exit(0)  # at once, whatever the main thread calculates


def main() -> None:
    """Serves until standard input ends, in a thread with room for deep recursion."""
    for size in _STACKS:
        threading.stack_size(size)
        worker = threading.Thread(target=_serve, name="model")
        try:
            worker.start()
        except RuntimeError:  # address space is limited
            continue
        worker.join()
        os._exit(4)  # only an error ends it; it is on standard error
    print("there is no memory for a thread", file=sys.stderr)


def _serve() -> None:
    threading.stack_size(0)
    out = FileIO(os.dup(1), "wb")
    os.dup2(2, 1)
    source = FileIO(os.dup(0), "rb")
    with open(os.devnull, "rb") as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    quiet_environment()

    def send(header: Mapping[str, object], payload: bytes = b"") -> None:
        try:
            write_all(out.write, packed(header, payload))
        except OSError:
            os._exit(0)  # the parent is gone

    requests = _Requests(source)
    parent = os.getppid()
    model: NativeModel | None = None
    while True:
        try:
            frame = requests.frames.get(timeout=_PARENT_S)
        except queue.Empty:
            if os.getppid() != parent:
                os._exit(0)
            continue
        op, number = frame.header.get("op"), int(frame.header.get("id", 0))
        requests.begin(number)
        if op == "load":
            model = _load(frame.header, requests.stopped, send)
        elif op == "embed" and model is not None:
            _embed(model, frame, number, requests.stopped, send)
        else:
            send({"op": "error", "id": number, "kind": "failed", "text": f"unknown request {op!r}"})


_Send = Callable[..., None]


def _load(header: Mapping[str, Any], stopped: Callable[[], bool], send: _Send) -> NativeModel | None:
    try:
        model = NativeModel(
            str(header["path"]),
            threads=int(header["threads"]),
            limit=int(header["limit"]),
            should_stop=stopped,
        )
    except Unusable as exc:
        send({"op": "error", "kind": exc.kind, "text": str(exc)})
    else:
        known = {"dims": model.dims, "window": model.window, "pooling": model.pooling}
        send({"op": "ready", "version": model.version, **known})
        return model
    return None


def _embed(model: NativeModel, frame: Frame, number: int, stopped: Callable[[], bool], send: _Send) -> None:
    try:
        cut_texts = [model.tokens(text) for text in _texts(frame)]
        full = [tokens for tokens, _ in cut_texts if tokens]
        found: list[bytes] = []
        for positions in lists_of([len(tokens) for tokens in full], model.window):
            if stopped():
                raise Aborted
            found += model.vectors([full[position] for position in positions])
    except Aborted:
        send({"op": "error", "id": number, "kind": "cancelled", "text": ""})
    except (Unusable, ValueError, KeyError, TypeError) as exc:
        send({"op": "error", "id": number, "kind": "failed", "text": str(exc)})
    else:
        none = [position for position, (tokens, _) in enumerate(cut_texts) if not tokens]
        cut = sum(was_cut for _, was_cut in cut_texts)
        used = {"cut": cut, "cpu": time.process_time()}
        send({"op": "done", "id": number, "none": none, **used}, b"".join(found))


def _texts(frame: Frame) -> list[bytes]:
    texts: list[bytes] = []
    at = 0
    for size in frame.header["sizes"]:
        texts.append(frame.payload[at : at + size])
        at += size
    if at != len(frame.payload):
        raise ValueError("the texts of a request do not add up")
    return texts


if __name__ == "__main__":
    main()
