"""What the workbench costs on 2,000 and 20,000 notes: start, a key, a knob step, a move of the selection.

    uv run python benchmarks/workbench.py [--files 2000 20000] [--profiles documented workbench] [--rounds 15]

The start is the command in a terminal of 120x36, from the interpreter to the last line of the first frame.
The rest is measured in a running workbench of that size with the real engine, from the key to the repainted
screen with all workers done. Baseline of the keys: one that changes nothing. A letter includes the
search of the engine (two where the baseline needs its own); the row below it takes the pools from memory.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import gc
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _bench import (
    Goal,
    Times,
    environment,
    print_times,
    processes_in_turn,
    scratch,
    settings_for,
    write_workspace,
)

sys.path.append(str(Path(__file__).parents[1] / "screenshots"))

from make import drained  # no animations, and pilots that wait for the event loop

from openclaw_mem_engine.cli.main import NEW_OBJECTS
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import SELECTABLE
from openclaw_mem_tui.app import Workbench

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.pilot import Pilot

    from openclaw_mem_engine.api import Pool
    from openclaw_mem_engine.config.settings import Settings

#: Words that the generated notes are made of.
QUERY = "harbor lantern budget meeting"
#: Row -> the keys of one round; what is measured is the mean of them.
KEYS = {
    "a key that changes nothing": ("f9", "f9"),
    "a move of the selection": ("j", "k"),
    "a knob step": ("right", "left"),
    "a letter of the query": ("s", "backspace"),
    "of it without the search": ("s", "backspace"),
    "to the index screen or back": ("3", "1"),
    "a move in the table of files": ("j", "k"),
    "a move over the chunks of a file": ("j", "k"),
    "a move over the notes in curate": ("j", "k"),
    "to the next list in curate": ("tab", "tab"),
}
#: What is pressed before the rounds of a row.
BEFORE = {
    "a letter of the query": ("i",),
    "of it without the search": ("i",),
    "a knob step": ("p",),
    "a move in the table of files": ("3",),
    "a move over the chunks of a file": ("3", "enter"),
    "a move over the notes in curate": ("5", "tab"),
    "to the next list in curate": ("5",),
}
GOALS = {
    "a move of the selection": Goal("CPU", 12),
    "a knob step": Goal("CPU", 15),
    "a letter of the query": Goal("CPU", 25),
    "a move in the table of files": Goal("CPU", 15),
    "a move over the chunks of a file": Goal("CPU", 15),
    "a move over the notes in curate": Goal("CPU", 15),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU cost of the workbench.")
    parser.add_argument("--files", type=int, nargs="+", default=[2_000, 20_000])
    parser.add_argument("--profiles", nargs="+", choices=SELECTABLE, default=["documented", "workbench"])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for files in options.files:
        with scratch() as folder:
            workspace = write_workspace(folder / "workspace", files, files * 0.0045)
            with Memory.open(settings_for(workspace, folder / "home")) as memory:
                memory.sync()
            measure_start(workspace, folder / "home", files, max(3, options.rounds // 3))
            for profile in options.profiles:
                with ProcessPoolExecutor(1, get_context("spawn")) as alone:
                    given = workspace, folder / "home", profile, options.rounds
                    taken = alone.submit(keys_of_profile, *given).result()
                title = f"Keys at 120x36 over {files:,} notes, profile {profile}"
                print_times(title, taken, "a key that changes nothing", GOALS)


def keys_of_profile(workspace: Path, home: Path, profile: str, rounds: int) -> dict[str, Times]:
    """The keys in a process of its own: what a workbench before left would be frozen with the rest."""
    settings = settings_for(workspace, home, "static", OPENCLAW_MEM_PROFILE=profile)
    return asyncio.run(keys(partial(open_resident, settings), rounds))


def open_resident(settings: Settings, faults: frozenset[str]) -> Memory:
    gc.freeze()  # as the command does, and sets how often garbage is collected
    gc.set_threshold(NEW_OBJECTS)
    return Memory.open(settings, resident=True, faults=faults)


def measure_start(workspace: Path, home: Path, files: int, rounds: int) -> None:
    """Print the start of the command, beside what Textual alone takes."""
    times = {name: Times() for name in ("python -c pass", "import textual.app", "first frame")}
    with scratch() as cache:
        environ = {
            **os.environ,
            **environment(home),
            "PYTHONPYCACHEPREFIX": str(cache),
            "TERM": "xterm-256color",
        }
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for number in range(rounds + 1):
            for name, code in (("python -c pass", "pass"), ("import textual.app", "import textual.app")):
                taken = processes_in_turn({name: [sys.executable, "-c", code]}, {}, 1)[name]
                if number:
                    times[name].add(taken.cpu[0] / 1000, taken.wall[0] / 1000)
            cpu, wall = first_frame(workspace, environ)
            if number:  # the first round writes byte code
                times["first frame"].add(cpu, wall)
    goals = {"first frame": Goal("CPU", 300)}
    print_times(f"Start of the workbench over {files:,} notes", times, "import textual.app", goals)


def first_frame(workspace: Path, environ: dict[str, str]) -> tuple[float, float]:
    """CPU and wall seconds of ``openclaw-mem tui`` until the last line of its first frame is written."""
    command = [sys.executable, "-m", "openclaw_mem_engine", "tui", "--workspace", str(workspace)]
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    began, written = time.perf_counter(), b""
    child = subprocess.Popen(
        command, env=environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        while b"\x1b[36;1H" not in written:
            written += os.read(ours, 65_536)
        # The clock of another process, as Linux numbers it.
        return time.clock_gettime((~child.pid << 3) | 2), time.perf_counter() - began
    finally:
        child.kill()
        child.wait()
        os.close(ours)


async def keys(factory: Callable[[frozenset[str]], Memory], rounds: int) -> dict[str, Times]:
    """CPU and wall time of each key of :data:`KEYS` in a running workbench."""
    times = {name: Times() for name in KEYS}
    app = Workbench(factory, initial_query=QUERY)
    retrieve = app.service.retrieve
    known: dict[tuple[str, bool], Pool] = {}

    async def from_memory(query: str, *given: Any, healthy: bool = False, **options: Any) -> Pool:
        if (query, healthy) not in known:  # in the rounds that do not count
            known[query, healthy] = await retrieve(query, *given, healthy=healthy, **options)
        return known[query, healthy]

    async def from_engine(*given: Any, **options: Any) -> Pool:
        app.service.forget_pools()  # it keeps the last ones
        return await retrieve(*given, **options)

    async with app.run_test(size=(120, 36)) as pilot:
        while not app.search.sync.follows or not app.search.view.answers:
            await asyncio.sleep(0.05)  # opened, in sync and answered
        await settled(pilot)
        for name, pressed in KEYS.items():
            source = from_memory if "without" in name else from_engine
            app.service.retrieve = source  # type: ignore[method-assign]
            await measure(pilot, BEFORE.get(name, ("escape",)), pressed, rounds, times[name])
            await pilot.press("escape", "1")
            await settled(pilot)
    return times


async def measure(
    pilot: Pilot[int], before: Sequence[str], pressed: Sequence[str], rounds: int, times: Times
) -> None:
    """Press the keys ``before``, then ``rounds`` times ``pressed``; adds the mean of a key in each round.
    Two rounds before that do not count."""
    for key in before:
        await pilot.press(key)
        await settled(pilot)
    for number in range(rounds + 2):
        wall, cpu = time.perf_counter(), time.process_time()
        for key in pressed:
            await pilot.press(key)
            await settled(pilot)
        if number >= 2:
            parts = time.process_time() - cpu, time.perf_counter() - wall
            times.add(*(part / len(pressed) for part in parts))


async def settled(pilot: Pilot[int]) -> None:
    """Wait until no worker runs except the one that watches the files, and the screen is painted by its own
    timer: the event loop has nothing left to run, twice with two frames between them."""
    await drained()
    while running := [w for w in pilot.app.workers if not w.is_finished and w.group != "watch"]:
        await asyncio.gather(*(worker.wait() for worker in running), return_exceptions=True)
    for _ in range(2):
        await asyncio.sleep(2 / 60)
        await drained()


if __name__ == "__main__":
    main()
