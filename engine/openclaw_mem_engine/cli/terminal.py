"""What reaches the terminal: safe text, emphasis where a terminal shows it, streams that cannot fail a
command, and Ctrl-C. Emphasis and columns are our own few lines: rich takes too long to import for a search.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import IO, Any

from openclaw_mem_engine.commands import advice, advised
from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.sanitize import inert_json, visible, visible_line
from openclaw_mem_engine.sanitize import one_line as one_line

#: Columns of text that goes to a pipe or a file: what they receive does not depend on a window.
PIPE_WIDTH = 100


def prepare_streams() -> None:
    """Let no character make an output fail: what the encoding lacks becomes ``\\xNN`` notation. A stream that
    was closed (``>&-``) leads nowhere; otherwise the next file that is opened would get its number. An answer
    for a closed stdout is an output that could not be written, so that one takes no text."""
    for name, flags in (("stdin", os.O_RDONLY), ("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, os.fdopen(os.open(os.devnull, flags), mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            with suppress(ValueError, OSError):
                reconfigure(errors="backslashreplace")


def is_terminal(stream: IO[Any] | None) -> bool:
    """Whether a stream is a terminal; False for a closed or missing one."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:
        return False


def width() -> int:
    """Columns of the terminal behind stdout, at least 40; PIPE_WIDTH for a pipe."""
    if not is_terminal(sys.stdout):
        return PIPE_WIDTH
    try:
        return max(40, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return PIPE_WIDTH


def say(text: str) -> None:
    """A message about the run: one line on stderr."""
    print(f"openclaw-mem: {visible_line(advice(text))}", file=sys.stderr)


@contextmanager
def stoppable(*, terminated: bool = False) -> Iterator[threading.Event]:
    """A cancel token that the first Ctrl-C sets, for the work to stop at its next safe point; the second one
    raises KeyboardInterrupt as usual. With ``terminated`` SIGTERM sets it too, and stopping is the usual end,
    which needs no message. Outside the main thread, which gets no signals, just a token."""
    token = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield token
        return

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before[signal.SIGINT])
        token.set()
        if not terminated:
            say("Stopping after this step. Press Ctrl-C again to stop at once.")

    numbers = (signal.SIGINT, signal.SIGTERM) if terminated else (signal.SIGINT,)
    before = {number: signal.signal(number, interrupted) for number in numbers}
    try:
        yield token
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class OutputFailed(OpenClawMemError):
    """Standard output cannot be written: a full disk, a device that is gone."""


@contextmanager
def _writing() -> Iterator[None]:
    """Turn errors of stdout into OutputFailed. A closed pipe passes: it is no error (see ``main``)."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputFailed(
            f"The output could not be written ({error.strerror}). Check that its target is open and has "
            "free space, and run the command again."
        ) from error


def out(text: str, end: str = "\n") -> None:
    """A line of the answer, already safe, on stdout. Raises OutputFailed, as ``flush_out``."""
    with _writing():
        print(text, end=end)


def show(data: Any, lines: Iterable[str], *, as_json: bool, exact: bool = False) -> None:
    """Print an answer: ``data`` as JSON, or ``lines`` for people; with the commands of its messages completed
    unless it is to be ``exact``, because text of notes is not taken for a message of ours."""
    if as_json:
        print_json(data, exact=exact)
        return
    for line in lines:
        out(line if exact else advice(line))


def printed(arguments: Namespace, data: object, lines: Iterable[str]) -> int:
    """Print an answer as JSON or as lines, in which nothing acts on a terminal. The exit code 0."""
    show(data, map(visible, lines), as_json=arguments.json, exact=True)
    return 0


def print_json(value: Any, *, exact: bool = False) -> None:
    out(json_text(value, indent=2, exact=exact))


def json_text(value: Any, indent: int | None = None, *, exact: bool = False) -> str:
    """The value as JSON, with the commands of its messages completed unless it is to be ``exact``. Readable
    characters stay as they are where stdout can hold them, those that a terminal acts on are escaped; lone
    surrogates, which UTF-8 cannot hold, become JSON escapes by way of the stream's ``backslashreplace``."""
    import json

    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    made = json.dumps(value if exact else advised(value), ensure_ascii=encoding != "utf8", indent=indent)
    return inert_json(made)


def flush_out() -> None:
    """Hand on what was printed, now: because the reader waits for it, or nothing follows."""
    with _writing():
        sys.stdout.flush()


def can_ask() -> bool:
    """Whether a question is seen on a terminal, and answered on one."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def agreed(question: str) -> bool:
    """The answer to a question on the terminal; no unless it says yes."""
    sys.stderr.write(f"{one_line(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def out_bytes(data: bytes) -> None:
    """Exactly these bytes on stdout."""
    with _writing():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)


def _emphasised(code: str, text: str) -> str:
    """Visible ``text`` in escape sequences when stdout is a terminal and neither NO_COLOR
    (https://no-color.org) nor TERM=dumb is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not is_terminal(sys.stdout)
    return text if plain or not text else f"\x1b[{code}m{text}\x1b[0m"


strong = partial(_emphasised, "1")
dim = partial(_emphasised, "2")
matched = partial(_emphasised, "1;36")
marked = partial(_emphasised, "33")


def _cells(text: str) -> int:
    """Columns that a text takes: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 1 + (east_asian_width(char) in "WF") for char in text)


def crop(text: str, columns: int) -> str:
    """The text, or its beginning and an ellipsis, in at most so many columns."""
    if _cells(text) <= columns:
        return text
    end = max(0, columns - 1)
    while end and _cells(text[:end]) >= columns:
        end -= 1
    return text[:end].rstrip() + "…"


def pad(text: str, columns: int) -> str:
    """The text filled with blanks to so many columns."""
    return text + " " * (columns - _cells(text))


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Lines of aligned columns; the last column is as long as it is."""
    widths = [max(map(_cells, column)) for column in zip(*rows, strict=True)][:-1]
    return [
        "  ".join([*(pad(c, w) for c, w in zip(row, widths, strict=False)), row[-1]]).rstrip() for row in rows
    ]


def table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """The same below a row of headings."""
    head, *lines = aligned(rows)
    return [strong(head), *lines]


def hanging(text: str, indent: int) -> list[str]:
    """The text in lines that fit the terminal, further ones that many blanks to the right; in a pipe it stays
    one line. Words are never split: paths and commands remain as they are typed."""
    columns = width()
    if _cells(text) <= columns or not is_terminal(sys.stdout):
        return [text]
    from textwrap import wrap  # takes time to load, and most lines fit

    blanks = " " * min(indent, columns // 2)
    return wrap(text, columns, subsequent_indent=blanks, break_long_words=False, break_on_hyphens=False)


def facts(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Names and texts in two columns, each text going on below itself."""
    below = max((_cells(name) for name, _ in rows), default=0) + 2
    return [part for line in aligned(rows) for part in hanging(advice(line), below)]


def indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
