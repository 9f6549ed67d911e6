"""Several requests in flight: batches are sent by threads, and their answers are read by the calling one."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from openclaw_mem_engine.cancellation import LinkedToken
from openclaw_mem_engine.providers.base import TextRefused

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken

#: (first input, end of inputs, body) of an answered request, and (first, end) of a batch.
Answered: TypeAlias = tuple[int, int, bytes]
Batch: TypeAlias = tuple[int, int]

#: Seconds after which a waiting calling thread can be interrupted.
_SLICE_S = 0.1


def in_parallel(
    send: Callable[[Batch, CancelToken], Iterator[Answered]],
    batches: Iterator[Batch],
    concurrency: int,
    cancel: CancelToken | None,
) -> Iterator[Answered]:
    """The answers to all ``batches``, as they come in, with ``concurrency`` batches in flight.

    ``send`` runs in threads, ``batches`` is read in the calling thread, one batch ahead of what can run. The
    threads only send and receive: reading an answer holds the interpreter, so one thread does it faster than
    several. Raises the first failure, once all threads have ended; a TextRefused lets the batches in flight
    finish (they are paid for), and gives way to any other failure.
    """
    from concurrent.futures import ThreadPoolExecutor

    stop = LinkedToken(cancel)
    # An answer, or the failure of a batch, or None for a batch that is finished.
    found: queue.SimpleQueue[Answered | Exception | None] = queue.SimpleQueue()

    def run(batch: Batch) -> None:
        try:
            for answer in send(batch, stop):
                found.put(answer)
        except Exception as exc:  # noqa: BLE001 - raised again in the calling thread
            found.put(exc)
        else:
            found.put(None)

    failure: Exception | None = None
    pending = 0
    pool = ThreadPoolExecutor(concurrency, "openclaw-mem-embed")
    try:
        while True:
            while failure is None and pending <= concurrency and (batch := next(batches, None)) is not None:
                pool.submit(run, batch)
                pending += 1
            if not pending:
                break
            try:
                answer = found.get(timeout=_SLICE_S)
            except queue.Empty:
                continue
            if isinstance(answer, tuple):
                yield answer
                continue
            pending -= 1
            if answer is None:
                continue
            is_one_text = isinstance(answer, TextRefused)
            if failure is None or (isinstance(failure, TextRefused) and not is_one_text):
                failure = answer
            if not is_one_text:
                stop.set()
    finally:
        # Also when the caller is interrupted: requests in flight end within a fraction of a second.
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
    if failure is not None:
        raise failure
