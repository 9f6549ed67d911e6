"""The command on a terminal of its own."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

import pytest

from support.commands import ARGV, World, until

#: A shell that runs a command as its job, through a program that waits for it in the same process group (as
#: ``uv run`` does), and resumes both after a line that is typed when they have stopped.
_SHELL = [
    "sh",
    "-c",
    'set -m; sh -c \'"$@"; exit $?\' sh "$@"; echo "the job has stopped"; read -r line; fg',
    "sh",
]


def _start(
    world: World,
    argv: Sequence[str],
    env: dict[str, str] | None,
    columns: int,
    rows: int,
    *,
    job: bool = False,
    command: Sequence[str] = ARGV,
) -> tuple[int, int]:
    """The command as a child process on a terminal of its own: its id, and our end of the terminal. With
    ``job`` the child is a shell."""
    pty = pytest.importorskip("pty", reason="pseudo-terminals are of POSIX")
    import fcntl
    import struct
    import termios

    pid, terminal = pty.fork()
    if pid == 0:  # becomes the command
        # The size is set before the command starts: it cannot see another one.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        # Textual believes COLUMNS, which pytest-xdist sets, before the terminal.
        kept = {name: text for name, text in world.environ.items() if name not in ("COLUMNS", "LINES")}
        environ = {**kept, "TERM": "xterm-256color", **(env or {})}
        given = [*(_SHELL if job else ()), *command, *argv]
        os.execvpe(given[0], given, environ)
    return pid, terminal


def on_a_terminal(
    world: World,
    argv: Sequence[str],
    env: dict[str, str] | None = None,
    typed: str = "",
    *,
    columns: int = 100,
    when_shown: tuple[str, Callable[[], object]] | None = None,
    signal_when: tuple[str, int] | None = None,
) -> tuple[int, str]:
    """Run the command on a terminal of so many columns; returns its exit code and everything that it writes.

    ``typed`` waits in the terminal as keyboard input. ``when_shown`` is (text, action): the action is called
    once, as soon as the text was written to the terminal. ``signal_when`` is (text, signal) for the command.
    """
    pid, terminal = _start(world, argv, env, columns, 30)
    os.write(terminal, typed.encode())
    written = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
        if when_shown is not None and when_shown[0].encode() in written:
            when_shown[1]()
            when_shown = None
        if signal_when is not None and signal_when[0].encode() in written:
            os.kill(pid, signal_when[1])
            signal_when = None
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), written.decode()


def on_a_terminal_that_goes(
    world: World, argv: Sequence[str], after: str, keys: str, command: Sequence[str]
) -> int:
    """The exit code of the command when its terminal is closed: it wrote ``after`` and got ``keys``, and what
    it writes since then was not read."""
    pid, terminal = _start(world, argv, None, 100, 30, command=command)
    written = b""
    while after.encode() not in written:
        written += os.read(terminal, 65536)
    os.write(terminal, keys.encode())
    until(lambda: select.select([terminal], [], [], 0)[0])
    os.close(terminal)
    ended = (0, 0)

    def has_ended() -> bool:
        nonlocal ended
        ended = os.waitpid(pid, os.WNOHANG)
        return ended[0] == pid

    try:
        until(has_ended)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    return os.waitstatus_to_exitcode(ended[1])


class Workbench:
    """The command on a terminal whose screen is kept: keys in, screens out. Ends with the block."""

    #: What keys send. Escape alone is known by the pause after it: wait for a screen before the next key.
    KEYS = {"enter": "\r", "escape": "\x1b", "tab": "\t", "left": "\x1b[D", "right": "\x1b[C"}  # noqa: RUF012

    def __init__(
        self,
        world: World,
        argv: Sequence[str],
        env: dict[str, str] | None = None,
        *,
        size: tuple[int, int] = (120, 36),
        job: bool = False,
    ) -> None:
        pyte = pytest.importorskip("pyte", reason="pyte keeps the screen of the terminal")
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._pid, self._terminal = _start(world, argv, env, *size, job=job)
        #: Everything that the command has written.
        self.written = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pid:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        os.close(self._terminal)

    @property
    def text(self) -> str:
        """The screen as it is now."""
        return "\n".join(row.rstrip() for row in self._screen.display)

    def press(self, *keys: str) -> None:
        """Send keys: those of ``KEYS`` by name, others as they are typed."""
        os.write(self._terminal, "".join(self.KEYS.get(key, key) for key in keys).encode())

    def kill(self, number: int) -> None:
        """Send a signal to the command."""
        os.kill(self._pid, number)

    def shows(self, *texts: str, without: str = "\0") -> str:
        """Wait until the screen has all these texts, and not ``without``; returns it."""
        return self._until(
            lambda: all(text in self.text for text in texts) and without not in self.text, texts
        )

    def exit_code(self) -> int:
        """Wait until the command ends."""
        self._until(lambda: False, ("the end",), ended=True)
        _, status = os.waitpid(self._pid, 0)
        self._pid = 0
        return os.waitstatus_to_exitcode(status)

    def _until(self, done: Callable[[], bool], wanted: Sequence[str], ended: bool = False) -> str:
        end = time.monotonic() + 60
        while not done():
            left = max(0.0, end - time.monotonic())
            came = bool(select.select([self._terminal], [], [], left)[0])
            assert came and left, f"{wanted} did not come:\n{self.text}"
            written = b""
            with suppress(OSError):  # Linux: the command has ended
                written = os.read(self._terminal, 65536)
            if not written:
                assert ended, f"{wanted} did not come before the end:\n{self.text}"
                break
            self.written += written
            self._stream.feed(written)
        return self.text
