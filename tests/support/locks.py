"""Others who want the same lock: another process that holds it, another thread of this one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_ENGINE = Path(__file__).parents[2] / "engine"
_HOLD = """
    import sys
    from pathlib import Path
    from openclaw_mem_engine.sync.lock import SyncLock
    lock = SyncLock(Path(sys.argv[1]), sys.argv[2])
    print(lock.acquire(), flush=True)
    sys.stdin.readline()
    lock.release()
    print("released", flush=True)
    sys.stdin.readline()
"""


@contextmanager
def other_process(index: Path, what: str = "indexing") -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until it reads a line."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_HOLD), str(index), what],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(_ENGINE)},
    )  # fmt: skip
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "True\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def let_go(process: subprocess.Popen[str]) -> None:
    """Make it release the lock."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def in_thread(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """A thread that does the call, and what comes of it: its result, or what it raised."""
    outcome: list[object] = []

    def run() -> None:
        try:
            outcome.append(call())
        except Exception as error:  # noqa: BLE001 - looked at by the test
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome
