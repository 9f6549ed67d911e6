"""What following 20,000 notes costs: start, change to searchable, descriptors, idle CPU, mass change. Linux.

    uv run python benchmarks/watching.py [--files 20000] [--changes 10] [--idle 20] [--provider static]

Two real processes: ``openclaw-mem watch`` follows with its default quiet time of 1.5 s; this one writes notes
and asks the index again and again until the new word is found. Exit code 1 when a goal is missed.
"""

from __future__ import annotations

import os
import queue
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from _bench import environment, given, one_blas_thread, print_table, scratch, settings_for, write_workspace

one_blas_thread()

from openclaw_mem_engine.memory import Memory  # noqa: E402

#: Files of the mass change, like a checkout of another branch: half edited, a quarter new, a quarter gone.
MASS = 5_000
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    options = given(
        files=20_000, changes=10, idle=(20.0, "seconds of looking at an idle watcher"), provider="static"
    )
    mass = min(MASS, options.files // 4)
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.files * 0.0006)
        home = folder / "home"
        settings = settings_for(workspace, home, options.provider)
        with Memory.open(settings, resident=True) as memory:
            memory.sync()
            began = time.perf_counter()
            with watching(workspace, home, options.provider) as watcher:
                watcher.said("watching", 60)
                started = time.perf_counter() - began
                watcher.said("up to date", 60)
                ready = time.perf_counter() - began
                latencies = [change_to_searchable(memory, workspace, n) for n in range(options.changes)]
                descriptors, watches = watcher.descriptors()
                time.sleep(3)
                idle = watcher.idle_cpu(options.idle)
                took, calm, lines = mass_change(memory, watcher, workspace, mass)
                after, watches_after = watcher.descriptors()
    median = statistics.median(latencies)
    goals = [
        ("watcher start: changes are noticed", f"{started:.2f} s", "", True),
        ("watcher start: first sync done", f"{ready:.2f} s", "", True),
        (
            f"change to searchable, median of {len(latencies)}",
            f"{median:.2f} s ({min(latencies):.2f}–{max(latencies):.2f})",
            "≤ 2 s",
            median <= 2,
        ),
        ("descriptors of the process", str(descriptors), "< 100", descriptors < 100),
        ("watches (one a folder)", str(watches), "", True),
        (f"idle CPU, over {options.idle:.0f} s", f"{idle * 100:.2f} %", "< 1 %", idle < 0.01),
        (f"mass change of {mass:,} files: making it", f"{took:.2f} s", "", True),
        ("… all of it in the index, after its end", f"{calm:.2f} s, {lines} syncs", "", True),
        ("… descriptors, watches afterwards", f"{after}, {watches_after}", "< 100", after < 100),
    ]
    table = [("", "measured", "goal"), *((name, value, goal) for name, value, goal, _ in goals)]
    print_table(f"Following {options.files:,} notes, provider {options.provider}", table)
    missed = [name for name, _, _, met in goals if not met]
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return 1 if missed else 0


class Watcher:
    """The running command and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip())

    def said(self, word: str, patience_s: float) -> str:
        """The next line with a word in it. Raises queue.Empty."""
        until = time.monotonic() + patience_s
        while word not in (line := self.lines.get(timeout=max(0.01, until - time.monotonic()))):
            pass
        return line

    def descriptors(self) -> tuple[int, int]:
        """Open descriptors, and folders that are watched."""
        base = Path(f"/proc/{self.process.pid}")
        infos = [(base / "fdinfo" / name).read_text() for name in os.listdir(base / "fdinfo")]  # noqa: PTH208
        return len(infos), sum(info.count("inotify wd") for info in infos)

    def cpu_s(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def idle_cpu(self, seconds: float) -> float:
        """The share of one core that it takes when nothing happens."""
        before, began = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_s() - before) / (time.monotonic() - began)


@contextmanager
def watching(workspace: Path, home: Path, provider: str) -> Iterator[Watcher]:
    command = [sys.executable, "-m", "openclaw_mem_engine.cli", "watch", "--workspace", str(workspace)]
    environ = {**os.environ, **environment(home, provider), "HOME": str(home)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ)
    try:
        yield Watcher(process)
    finally:
        process.terminate()
        process.wait(30)


def change_to_searchable(memory: Memory, workspace: Path, number: int) -> float:
    """Seconds from the end of writing a note to the first search that finds it."""
    word = f"zyx{number:03}quokka"
    path = f"memory/topic-{number % 40:02}/note-{number * 7 + 1:05}.md"
    note = workspace / path
    note.parent.mkdir(parents=True, exist_ok=True)
    with note.open("a") as file:
        file.write(f"\n{word} was seen near the lighthouse.\n")
    began = time.perf_counter()
    while time.perf_counter() - began < 60:
        if any(word in hit.text for hit in memory.search(word).hits):
            return time.perf_counter() - began
        time.sleep(0.02)
    raise TimeoutError(f"{path} was not found within a minute")


def mass_change(memory: Memory, watcher: Watcher, workspace: Path, mass: int) -> tuple[float, float, int]:
    """Change many files as a checkout does; seconds of that, seconds until the index holds all of it, and
    how many syncs that took."""
    while not watcher.lines.empty():
        watcher.lines.get_nowait()
    notes = sorted((workspace / "memory").rglob("*.md"))
    step = len(notes) // mass
    picked = notes[:: max(1, step)][:mass]
    began = time.perf_counter()
    for number, note in enumerate(picked):
        if number % 4 == 3:
            note.unlink()
        elif number % 4 == 2:
            target = workspace / "memory" / "branch" / f"part-{number % 50}" / note.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(note, target)
        else:
            fresh = note.with_name(f".{note.name}.tmp")
            fresh.write_text(f"# Checked out {number}\n{note.read_text()}")
            fresh.replace(note)
    ended = time.perf_counter()
    while memory.freshness().state != "fresh":
        if time.perf_counter() - ended > 300:
            raise TimeoutError("the mass change is not in the index")
        time.sleep(0.25)
    calm = time.perf_counter() - ended
    time.sleep(1)
    return ended - began, calm, watcher.lines.qsize()


if __name__ == "__main__":
    sys.exit(main())
