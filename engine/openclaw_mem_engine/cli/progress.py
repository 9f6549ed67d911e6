"""A progress line on stderr: bar, count, rate, time left. Nothing at all when stderr is not a terminal.

Progress is told in files, in texts (an embedder at work tells count, rate and cost itself) or in bytes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from openclaw_mem_engine.cli.terminal import crop, is_terminal, one_line, width

#: What takes less is not worth a flicker; in seconds.
_PATIENCE_S = 0.3
_PAUSE_S = 0.1
_CELLS = 24
_CLEAR = "\r\x1b[K"
#: In the labels of an embedder at work: "memory/x.md  embedded 120 of 256, 31/s, about $0.0021".
_TEXTS = "  embedded "
#: How a sync tells that another process is at work (``sync.flight``).
_WAITING = "waiting for "


class ProgressLine:
    """Call it as ``Progress`` says; as a context manager it takes its line away at the end."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._on = is_terminal(self._stream)
        self._clock = clock
        self._began = self._next = clock()
        self._next += _PATIENCE_S
        self._drawn = False

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self._stream.write(_CLEAR)
            self._stream.flush()

    def __call__(self, done: int, total: int, label: str) -> None:
        if not self._on:
            return
        now = self._clock()
        if now < self._next:
            return
        self._next, self._drawn = now + _PAUSE_S, True
        text = self._text(done, total, label, now)
        self._stream.write(_CLEAR + crop(text, width(self._stream) - 1))
        self._stream.flush()

    def _text(self, done: int, total: int, label: str, now: float) -> str:
        if label.startswith(_WAITING):
            self._began = now  # what another process did says nothing of our own pace
            return one_line(label)
        if _TEXTS in label:
            return "  ".join([_bar(done, total), one_line(label)])
        return progress_text(done, total, label, now - self._began)


class ByteProgress(ProgressLine):
    """The same for bytes. What was there before the first call, from a download that was stopped, counts
    neither for the rate nor for the time left; another label begins anew."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, clock)
        self._label: str | None = None
        self._first, self._started = 0, 0.0

    def __call__(self, done: int, total: int, label: str) -> None:
        if label != self._label or done < self._first:
            self._label, self._first, self._started = label, done, self._clock()
        super().__call__(done, total, label)

    def _text(self, done: int, total: int, label: str, now: float) -> str:
        return bytes_text(done, total, label, now - self._started, self._first)


def progress_text(done: int, total: int, label: str, seconds: float) -> str:
    """``[####----] 12/40 files  31/s  1 s left  memory/x.md``"""
    rate = done / seconds if seconds > 0 else 0.0
    told = f"{done:,} files" if total <= 0 else f"{done:,}/{total:,} files"
    parts = [told, f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"]
    if total > 0:
        parts.insert(0, _bar(done, total))
        if rate > 0:
            parts.append(f"{duration((total - done) / rate)} left")
    return "  ".join([*parts, one_line(label)])


def bytes_text(done: int, total: int, label: str, seconds: float, first: int = 0) -> str:
    """``[####----] 120 of 329 MB  31.0 MB/s  7 s left  model.gguf``; ``first`` bytes were there before."""
    rate = (done - first) / seconds if seconds > 0 else 0.0
    parts = [_bar(done, total), f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB", f"{rate / 1e6:.1f} MB/s"]
    if rate > 0:
        parts.append(f"{duration((total - done) / rate)} left")
    return "  ".join([*parts, one_line(label)])


def _bar(done: int, total: int) -> str:
    filled = min(_CELLS, _CELLS * done // total) if total > 0 else 0
    return f"[{'#' * filled}{'-' * (_CELLS - filled)}]"


def duration(seconds: float) -> str:
    """``0.4 s``, ``12 s``, ``3 min``, ``5 h``, ``12 days``"""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    for limit, unit, name in ((90, 1, "s"), (5400, 60, "min"), (36 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds / 86400:.0f} days"
