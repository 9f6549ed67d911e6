"""What the workbench costs on 2,000 notes: start, a key, a knob step, a move of the selection.

    uv run python benchmarks/workbench.py [--files 2000] [--rounds 15]

The start is a whole process, from the interpreter to the first frame with the query line ready. The rest is
measured in a running workbench at 120x36 with the real engine, from the key to the repainted screen with all
workers done. Baseline of the keys: one that changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING

os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")

from _bench import Goal, Times, print_times, processes_in_turn, scratch, settings_for, write_workspace

from openclaw_mem_engine.memory import Memory
from openclaw_mem_tui.app import Workbench

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from textual.pilot import Pilot

#: Words that the generated notes are made of.
QUERY = "harbor lantern budget meeting"
_FIRST_FRAME = """
import asyncio
from openclaw_mem_tui.app import Workbench
def closed(faults):
    raise RuntimeError("opened after the first frame")
async def main():
    async with Workbench(closed).run_test(size=(120, 36)):
        pass
asyncio.run(main())
"""
#: Row -> the keys of one round; what is measured is the mean of them.
KEYS = {
    "a key that changes nothing": ("f9", "f9"),
    "a move of the selection": ("j", "k"),
    "a knob step": ("right", "left"),
    "a letter of the query": ("s", "backspace"),
    "to the index screen or back": ("3", "1"),
    "a move in the table of files": ("j", "k"),
    "a move over the chunks of a file": ("j", "k"),
}
#: What is pressed before the rounds of a row.
BEFORE = {
    "a letter of the query": ("slash",),
    "a knob step": ("p",),
    "a move in the table of files": ("3",),
    "a move over the chunks of a file": ("3", "enter"),
}
GOALS = {
    "a move of the selection": Goal("CPU", 15),
    "a knob step": Goal("CPU", 20),
    "a letter of the query": Goal("CPU", 30),
    "a move in the table of files": Goal("CPU", 15),
    "a move over the chunks of a file": Goal("CPU", 30),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="CPU cost of the workbench.")
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    starts = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import textual.app": [sys.executable, "-c", "import textual.app"],
        "first usable frame": [sys.executable, "-c", _FIRST_FRAME],
    }
    times = processes_in_turn(starts, {}, max(3, options.rounds // 3))
    print_times(
        "Start of the workbench", times, "import textual.app", {"first usable frame": Goal("CPU", 800)}
    )
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.files * 0.0045)
        settings = settings_for(workspace, folder / "home", "static")
        with Memory.open(settings) as memory:
            memory.sync()
        taken = asyncio.run(
            keys(lambda faults: Memory.open(settings, resident=True, faults=faults), options.rounds)
        )
    print_times(f"Keys at 120x36 over {options.files:,} notes", taken, "a key that changes nothing", GOALS)


async def keys(factory: Callable[[frozenset[str]], Memory], rounds: int) -> dict[str, Times]:
    """CPU and wall time of each key of :data:`KEYS` in a running workbench."""
    times = {name: Times() for name in KEYS}
    async with Workbench(factory, initial_query=QUERY).run_test(size=(120, 36)) as pilot:
        await settled(pilot)
        for name, pressed in KEYS.items():
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
    """Wait until no worker runs except the one that watches the files, and the screen is painted."""
    await pilot.pause()
    while any(not worker.is_finished and worker.group != "watch" for worker in pilot.app.workers):
        await pilot.pause(0.005)
    await pilot.pause()


if __name__ == "__main__":
    main()
