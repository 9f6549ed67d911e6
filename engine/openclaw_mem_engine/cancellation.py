"""One way to stop a long call: a token that the call checks regularly, and a deadline."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

_T = TypeVar("_T")

#: The message of ``Cancelled`` for a search.
SEARCH_STOPPED = "The search was stopped."

# What one search waits for at most. Settings bound the rest: `rerank.budget_s`, `expansion.timeout_s` and
# `qmd.limits.timeout_ms`; a local model has LOCAL_QUERY_TIMEOUT_S.
#: Another process that brings the index up to date, seconds: most syncs are over by then.
GRACE_S = 0.2
#: What changed, seconds, files before vectors; with the wait above it is 1 s. The rest is for
#: `openclaw-mem index`. The words of a first index are waited for.
INDEXING_S = 0.8
#: Another process that makes the first index, seconds.
FIRST_INDEX_S = 60.0
#: One statement of a database that another process writes, milliseconds.
BUSY_TIMEOUT_MS = 5_000
#: The embedding of the query by a remote provider, seconds: then BM25 or the fallback answers.
QUERY_S = 5.0
#: How often the caller of ``awaited`` looks whether it should stop, seconds.
_POLL_S = 0.05


class CancelToken(Protocol):
    """What a long call asks now and then; ``threading.Event`` fits."""

    def is_set(self) -> bool: ...


class LinkedToken:
    """A token of our own, linked to the caller's: set by :meth:`set`, by ``when``, or with its parent."""

    def __init__(self, parent: CancelToken | None = None, when: Callable[[], bool] | None = None) -> None:
        self._parent = parent
        self._when = when
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set or self.is_cancelled or (self._when is not None and self._when())

    @property
    def is_cancelled(self) -> bool:
        """Whether the caller's own token is set: a stop that was asked for, not one of ours."""
        return self._parent is not None and self._parent.is_set()


class RunningCalls:
    """The calls that run at this moment, in any thread: all can be stopped at once."""

    def __init__(self) -> None:
        self._tokens: set[LinkedToken] = set()

    @contextmanager
    def until(self, cancel: CancelToken | None) -> Iterator[LinkedToken]:
        """The body is a call, with a token that ``stop`` sets too."""
        token = LinkedToken(cancel)
        self._tokens.add(token)
        try:
            yield token
        finally:
            self._tokens.discard(token)

    def stop(self) -> None:
        """Set the token of every call that runs now. Returns at once."""
        for token in list(self._tokens):
            token.set()


class Deadline:
    """A point in time on the monotonic clock. ``seconds`` from now; None never passes."""

    def __init__(self, seconds: float | None) -> None:
        self._until = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        """Seconds until it passes, never negative; ``inf`` without one."""
        return max(0.0, self._until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until


def until(cancel: CancelToken | None, seconds: float | None) -> LinkedToken:
    """A token that is also set after so many seconds."""
    deadline = Deadline(seconds)
    return LinkedToken(cancel, lambda: deadline.is_over)


def retried(call: Callable[[], _T], error: type[Exception], seconds: float) -> _T:
    """What ``call`` returns, called again while it raises ``error``, which is raised after so long."""
    deadline = Deadline(seconds)
    while True:
        try:
            return call()
        except error:
            if deadline.is_over:
                raise
            time.sleep(0.01)


def awaited(call: Callable[[], _T], stop: Callable[[], None], seconds: float | None = None) -> _T:
    """What ``call`` returns or raises: for calls that nothing can interrupt. It runs in a thread of its own,
    which is left to itself when ``stop``, called regularly, raises, or after ``seconds`` (TimeoutError)."""
    from concurrent.futures import Future, wait  # most searches need no such call

    future: Future[_T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised again in the calling thread
            future.set_exception(error)

    stop()
    threading.Thread(target=run, name="openclaw-mem-awaited", daemon=True).start()
    deadline = Deadline(seconds)
    while not wait([future], min(deadline.left_s, _POLL_S)).done:
        stop()
        if deadline.is_over:
            raise TimeoutError
    return future.result()
