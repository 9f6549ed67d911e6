"""The command on a terminal of its own."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from support.commands import ARGV, World


def on_a_terminal(
    world: World, argv: Sequence[str], env: dict[str, str] | None = None, typed: str = ""
) -> tuple[int, str]:
    """Exit code and everything that the command writes, run on a terminal of 100 columns; ``typed`` is what
    somebody has typed there."""
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    pid, terminal = pty.fork()
    if pid == 0:  # pragma: no cover - becomes the command
        environ = {**world.environ, "TERM": "xterm-256color", **(env or {})}
        os.execvpe(ARGV[0], [*ARGV, *argv], environ)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
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
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), written.decode()
