"""``openclaw-mem watch`` at work in a process of its own, and its lines one by one."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.commands import World

PATIENCE_S = 30.0
QUICK = "[sync]\ndebounce_ms = 200\n"


class Running:
    """A ``watch`` at work. Its lines are JSON objects, or text as they are."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def next(self, wanted: Callable[[dict[str, Any]], object] = lambda _: True) -> dict[str, Any]:
        """The next line that is wanted; others are passed over."""
        end = time.monotonic() + PATIENCE_S
        while True:
            line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            assert line is not None, "it ended"
            told: dict[str, Any] = json.loads(line)
            if wanted(told):
                return told

    def text(self) -> str:
        line = self.lines.get(timeout=PATIENCE_S)
        return "" if line is None else line.decode()


@contextmanager
def watch(world: World, *argv: str, settings: str = QUICK) -> Iterator[Running]:
    """The command on the workspace of ``world``."""
    own = world.home / ".config" / "openclaw-mem" / "config.toml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(settings)
    with ended(world.start("watch", "--workspace", str(world.workspace), *argv)) as running:
        yield running


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[Running]:
    """A ``watch`` that is ended by SIGTERM."""
    running = Running(process)
    try:
        yield running
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)
        # It reads to the end; a pipe that is closed under its hands would be an error of the thread.
        running.reader.join(PATIENCE_S)
        process.communicate(timeout=PATIENCE_S)
