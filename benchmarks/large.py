"""A large index, 20,000 notes and 84 MB in some 80,000 chunks: its state, one changed file.

    uv run python benchmarks/large.py [--files 20000] [--rounds 5]

Baseline: a bare walk of the workspace, one stat a file. Making the index takes a minute.
"""

from __future__ import annotations

from itertools import count

from _bench import Goal, given, in_turn, print_times, scratch, settings_for, write_workspace
from rescan import bare_walk

from openclaw_mem_engine.memory import Memory


def main() -> None:
    options = given(files=20_000, rounds=5)
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.files * 0.0042)
        settings = settings_for(workspace, folder / "home")
        changed, numbers = workspace / "memory/topic-01/note-00001.md", count()
        with Memory.open(settings) as memory:
            chunks = memory.sync().chunks

            def one_changed_file() -> None:
                changed.write_text(f"{changed.read_text('utf-8')}One more line, {next(numbers)}.\n", "utf-8")
                assert len(memory.sync().changed) == 1

            calls = {
                "bare walk": lambda: bare_walk(workspace),
                "freshness()": memory.freshness,
                "status()": memory.status,
                "unshown()": memory.unshown,
                "sync(), one changed file": one_changed_file,
            }
            times = in_turn(calls, options.rounds)
    scale = options.files / 20_000
    goals = {"status()": Goal("CPU", 400 * scale), "sync(), one changed file": Goal("CPU", 500 * scale)}
    print_times(f"{options.files:,} notes, {chunks:,} chunks", times, "bare walk", goals)


if __name__ == "__main__":
    main()
