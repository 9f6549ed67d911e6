"""The command on a terminal of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import pytest

from support.commands import ARGV, World


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
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    pid, terminal = pty.fork()
    if pid == 0:  # becomes the command
        # The size is set before the command starts: it cannot see another one.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        environ = {**world.environ, "TERM": "xterm-256color", **(env or {})}
        os.execvpe(ARGV[0], [*ARGV, *argv], environ)
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
