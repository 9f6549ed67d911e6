"""How long it takes to see that nothing changed: 10,000 files, already indexed.

    uv run python benchmarks/rescan.py [--files 10000] [--rounds 15]

Baseline: a bare walk, os.scandir and one stat a file, no rules, no comparison.
"""

from __future__ import annotations

import os
from pathlib import Path

from _bench import Goal, given, in_turn, print_times, scratch, settings_for, write_workspace

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.workspace.listing import list_memory


def bare_walk(root: Path) -> int:
    """Paths, sizes and times of all files below a folder."""
    pending, found = [str(root)], []
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)
                else:
                    status = entry.stat(follow_symlinks=False)
                    found.append((entry.path, status.st_size, status.st_mtime_ns, status.st_ino))
    return len(found)


def main() -> None:
    options = given(files=10_000, rounds=15)
    goal = Goal("CPU", 60 * options.files / 10_000)
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.files * 0.0006)
        settings = settings_for(workspace, folder / "home", "none")
        with Memory.open(settings) as memory, Memory.open(settings, resident=True) as resident:
            assert memory.sync().files == options.files
            calls = {
                "bare walk": lambda: bare_walk(workspace),
                "listing by the rules": lambda: list_memory(workspace),
                "freshness()": memory.freshness,
                "freshness(), resident": resident.freshness,
                "sync()": memory.sync,
                "sync(), resident": resident.sync,
            }
            times = in_turn(calls, options.rounds)
    goals = {name: goal for name in calls if "()" in name}
    print_times(f"No-change rescan of {options.files:,} files", times, "bare walk", goals)


if __name__ == "__main__":
    main()
