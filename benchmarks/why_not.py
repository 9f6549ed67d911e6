"""What one why-not costs in a resident process: the walk, every knob tried, and pairs where none helps.

    uv run python benchmarks/why_not.py [--files 2000] [--questions 20] [--only NAME]

Queries are words of one note. The passages asked for are drawn by what the search made of them: returned, in
the pool and dropped, beyond the pool, and (in an index without vectors) matched by no list. Every question is
asked once, after the search for the same words. The rows of QMD are those of its backend in this process.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from _bench import (
    Times,
    given,
    keep_row,
    one_blas_thread,
    print_table,
    scratch,
    settings_for,
    write_workspace,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.trace import Row, Trace

#: The goal: at most so many milliseconds of CPU for 95 of 100 questions.
GOAL_MS = 150
#: The fates of a passage, and which rows of a search have it; the others are of notes without a row.
FATES: dict[str, Callable[[Trace], tuple[Row, ...]]] = {
    "returned": lambda trace: trace.returned,
    "in the pool": lambda trace: trace.dropped,
    "beyond the pool": lambda _: (),
}
UNMATCHED = "matched by no list"


def asked_for(memory: Memory, trace: Trace, fate: str, draw: random.Random) -> tuple[str, int] | None:
    """Path and number of any line of text that met this fate."""
    rows = FATES[fate](trace) if fate in FATES else ()
    known = {row.path for row in trace.rows}
    spans = [(row.path, row.start_line, row.end_line) for row in rows]
    spans = spans or [(path, 1, 10**6) for path in memory.paths() if path not in known]
    if not spans:
        return None
    path, first, last = draw.choice(spans)
    lines = memory.get(path).text.split("\n")[first - 1 : last]
    numbers = [number for number, line in enumerate(lines, first) if line.strip() and line[0] != "#"]
    return (path, draw.choice(numbers)) if numbers else None


def measured(memory: Memory, name: str, fate: str, questions: int) -> tuple[Times, Times, int]:
    """The times of why-not, those of the search for the same words, and how many changes were named."""
    from openclaw_mem_engine.ranking.profiles import profile

    knobs, draw, paths = profile(name), random.Random(5), memory.paths()
    asked, searches, changes = Times(), Times(), 0
    while len(asked.cpu) < questions + 1:
        words = [
            word for word in memory.get(draw.choice(paths)).text.split() if word.isalpha() and len(word) > 3
        ]
        query = " ".join(draw.sample(words, min(3, len(words))))
        if not query:
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        trace = memory.search(query, knobs).trace
        searches.add(time.process_time() - cpu, time.perf_counter() - wall)
        at = asked_for(memory, trace, fate, draw)
        if at is None:
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        found = memory.why_not(query, *at, knobs)
        asked.add(time.process_time() - cpu, time.perf_counter() - wall)
        changes += len(found.changes)
    del asked.cpu[0]  # imports
    return asked, searches, changes


def main() -> int:
    options = given(files=2_000, questions=20, only=("", "part of the name of what to measure"))
    one_blas_thread()
    from openclaw_mem_engine.config.load import with_backend
    from openclaw_mem_engine.memory import Memory

    table = [("CPU ms", "search", "median", "p95", "max", f"p95 ≤ {GOAL_MS}", "changes")]
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.files * 0.003)
        builtin = ("documented", "workbench")
        for backend, provider, fates, profiles in (
            ("builtin", "static", [*FATES], builtin),
            ("builtin", "none", [UNMATCHED], builtin),
            ("qmd", "static", [*FATES], ("qmd-documented", "qmd-2.8")),
        ):
            rows = [(name, fate) for name in profiles for fate in fates if options.only in f"{name}, {fate}"]
            if not rows:
                continue
            settings = with_backend(settings_for(workspace, folder / provider, provider), backend)
            with Memory.open(settings, resident=True) as memory:
                memory.sync()
                for name, fate in rows:
                    times, searches, changes = measured(memory, name, fate, options.questions)
                    p95, worst = times.cpu_at(0.95), max(times.cpu)
                    goal = "met" if p95 <= GOAL_MS else "MISSED"
                    numbers = (searches.cpu_median, times.cpu_median, p95, worst)
                    keep_row(f"search, {name}", searches.cpu_median)
                    table.append((f"{name}, {fate}", *(f"{ms:.0f}" for ms in numbers), goal, str(changes)))
    print_table(f"Why-not, {options.files:,} notes, {options.questions} questions a row", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
