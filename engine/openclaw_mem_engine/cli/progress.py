"""A progress line on stderr: bar, count, rate, time left. When stderr is no terminal or cannot erase a line
(TERM=dumb), only what is waited for is printed, once. It counts files, chunks or texts (an embedder's label
holds count, rate and cost), or bytes. Rich, which draws it, is imported when there is something to draw.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Self, TextIO

from openclaw_mem_engine.cli.terminal import is_terminal, one_line, say
from openclaw_mem_engine.cli.text_format import duration
from openclaw_mem_engine.model import VECTORS, WAITING

if TYPE_CHECKING:
    from rich.live import Live


#: Work that takes less shows no line, and a line is drawn anew after so long; seconds.
_FIRST_S, _PAUSE_S = 0.3, 0.1
#: What is waited for is printed where no line can be drawn, once the wait takes longer; seconds.
_WAIT_S = 2.0
_BAR = 24
#: In the labels of an embedder at work: "memory/x.md  embedded 120 of 256, 31/s, about $0.0021".
_TEXTS = "  embedded "


class ProgressLine:
    """Call it as ``Progress`` says; as a context manager it erases its line at the end."""

    unit = "files"

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._on = is_terminal(self._stream)
        self._clock = clock
        self._began = clock()
        self._next = self._began + _FIRST_S
        self._live: Live | None = None
        #: When what is waited for can be printed, which is done once; None while nothing is.
        self._say_at: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, done: int, total: int, label: str) -> None:
        now = self._clock()
        if not self._on:
            self._say(label, now)
        if not self._on or now < self._next:
            return
        from rich.text import Text

        self._next = now + _PAUSE_S
        if self._live is None:
            self._live = _live(self._stream)
        line = Text(self._text(done, total, label, now), no_wrap=True, overflow="ellipsis")
        self._live.update(line, refresh=True)

    def _say(self, label: str, now: float) -> None:
        if not label.startswith(WAITING):
            self._say_at = None
        elif self._say_at is None:
            self._say_at = now + _WAIT_S
        elif now >= self._say_at:
            self._say_at = math.inf
            say(label)

    def _text(self, done: int, total: int, label: str, now: float) -> str:
        if label.startswith(WAITING):
            self._began = now  # this time does not count for our rate
            return one_line(label)
        if _TEXTS in label:
            return "  ".join([_bar(done, total), one_line(label)])
        unit = "chunks" if label.startswith(VECTORS) else self.unit  # see Embedding.catch_up
        return progress_text(done, total, label, now - self._began, unit)


class ByteProgress(ProgressLine):
    """The same for bytes. Bytes of a download that was stopped earlier count neither for the rate nor for the
    time left; another label begins anew."""

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


def _live(stream: TextIO) -> Live:
    """One line of the terminal that is redrawn by ``update`` only and leaves nothing behind. Messages that
    are printed meanwhile go to their streams unchanged."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=stream, color_system=None)
    live = Live(
        console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    )
    live.start()
    return live


def progress_text(done: int, total: int, label: str, seconds: float, unit: str = "files") -> str:
    """``[####----]  12/40 files  31/s  1 s left  memory/x.md``"""
    rate = done / seconds if seconds > 0 else 0.0
    parts = [
        f"{done:,}/{total:,} {unit}" if total > 0 else f"{done:,} {unit}",
        f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s",
    ]
    if total > 0:
        parts.insert(0, _bar(done, total))
    return _joined(parts, total - done, rate if total > 0 else 0, label)


def bytes_text(done: int, total: int, label: str, seconds: float, first: int = 0) -> str:
    """``[####----]  120 of 329 MB  31.0 MB/s  7 s left  model.gguf``; ``first`` bytes were there before."""
    rate = (done - first) / seconds if seconds > 0 else 0.0
    parts = [_bar(done, total), f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB", f"{rate / 1e6:.1f} MB/s"]
    return _joined(parts, total - done, rate, label)


def _joined(parts: list[str], remaining: int, rate: float, label: str) -> str:
    left = [f"{duration(remaining / rate)} left"] if rate > 0 else []
    return "  ".join([*parts, *left, one_line(label)])


def _bar(done: int, total: int) -> str:
    filled = min(_BAR, _BAR * done // total) if total > 0 else 0
    return f"[{'#' * filled}{'-' * (_BAR - filled)}]"
