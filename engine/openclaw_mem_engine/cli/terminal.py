"""What reaches the terminal: safe text, emphasis only where it is seen, streams that cannot crash."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO

from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.sanitize import visible

#: Columns when nobody looks, so that what a pipe receives does not depend on a window.
PIPE_WIDTH = 100


def one_line(text: str) -> str:
    """Visible text without line breaks and runs of blanks."""
    return " ".join(visible(text).split())


def prepare_streams() -> None:
    """Let no character make an output fail: what the encoding lacks becomes ``\\xNN`` notation."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with suppress(ValueError, OSError):
                reconfigure(errors="backslashreplace")


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether somebody looks at (or types into) a stream."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def speaks_utf8(stream: TextIO) -> bool:
    """Whether every character arrives as it is."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "").replace("_", "") == "utf8"


def width(stream: TextIO | None = None) -> int:
    """Columns of the window behind a stream (stdout), within reason; a fixed number for a pipe."""
    stream = stream or sys.stdout
    if not is_terminal(stream):
        return PIPE_WIDTH
    try:
        return max(40, os.get_terminal_size(stream.fileno()).columns)
    except (OSError, ValueError):
        return PIPE_WIDTH


def say(text: str) -> None:
    """A remark to the person: one line on stderr."""
    print(f"openclaw-mem: {visible(text)}", file=sys.stderr)


class OutputFailed(OpenClawMemError):
    """What stdout goes to does not take it: a full disk, a device that is gone."""


@contextmanager
def _writing() -> Iterator[None]:
    """Name what went wrong with stdout; a reader who went away is no error (see ``main``)."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(
            f"The output could not be written ({error.strerror}). Free some space where it goes, or send it "
            "somewhere else, and run the command again."
        ) from error


def out(text: str, end: str = "\n") -> None:
    """A line of the answer, already safe, on stdout. Raises OutputFailed, as ``flush_out``."""
    with _writing():
        print(text, end=end)


def flush_out() -> None:
    """Hand on what was printed, now: somebody waits for it, or nothing follows."""
    with _writing():
        sys.stdout.flush()


def out_bytes(data: bytes) -> None:
    """Exactly these bytes on stdout."""
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # a stand-in that only knows text
        sys.stdout.write(data.decode("utf-8", "replace"))
        return
    with _writing():
        sys.stdout.flush()
        raw.write(data)


class Style:
    """Emphasis, or nothing of the kind. Put it on visible text only."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """Emphasis when ``stream`` is a terminal and nobody said no (https://no-color.org)."""
        wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(wanted and is_terminal(stream))

    def _put(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.enabled and text else text

    def strong(self, text: str) -> str:
        return self._put("1", text)

    def dim(self, text: str) -> str:
        return self._put("2", text)

    def match(self, text: str) -> str:
        return self._put("1;36", text)

    def mark(self, text: str) -> str:
        return self._put("33", text)


def crop(text: str, columns: int) -> str:
    """The text, or its beginning and an ellipsis, in at most so many columns (wide characters take two)."""
    if text.isascii() and len(text) <= columns:
        return text
    from unicodedata import combining, east_asian_width

    used = 0
    for place, char in enumerate(text):
        cells = 0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1
        if used + cells > columns - (place < len(text) - 1):
            return text[:place].rstrip() + "…"
        used += cells
    return text


def pad(text: str, columns: int) -> str:
    """The text filled with blanks to so many columns."""
    if text.isascii():
        return text.ljust(columns)
    from unicodedata import combining, east_asian_width

    used = sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)
    return text + " " * max(0, columns - used)


def aligned(rows: Sequence[tuple[str, ...]], gap: str = "  ") -> list[str]:
    """Lines of columns that stand below each other; the last column is as long as it is."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] if rows else []
    return [
        gap.join([*(pad(c, w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows
    ]


def setting_text(value: object) -> str:
    """A knob's value as ``--set`` takes it: on and off, numbers without idle digits."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
