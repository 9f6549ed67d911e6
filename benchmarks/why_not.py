"""What one why-not costs in a resident process: the walk, every knob tried, and pairs where none helps.

    uv run python benchmarks/why_not.py [--files 2000] [--questions 60]

Questions are words of one note and a passage of any other, so most passages are far outside of the pool. The
search for the same words is the baseline.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter

from _bench import Goal, in_turn, one_blas_thread, print_times, scratch, settings_for, write_workspace


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else "")
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--questions", type=int, default=60)
    options = parser.parse_args()
    one_blas_thread()
    from openclaw_mem_engine.memory import Memory

    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.files * 0.003)
        with Memory.open(settings_for(workspace, folder / "home"), resident=True) as memory:
            memory.sync()
            draw, paths = random.Random(5), memory.paths()
            asked = []
            while len(asked) < options.questions:
                text = memory.get(draw.choice(paths)).text
                words = [word for word in text.split() if word.isalpha() and len(word) > 3]
                asked.append((" ".join(draw.sample(words, min(3, len(words)))), draw.choice(paths)))
            turns, searches = iter(asked * 2), iter(asked * 2)
            stages: Counter[str] = Counter()

            def why_not() -> None:
                stages[memory.why_not(*next(turns)).stage] += 1

            calls = {
                "search": lambda: memory.search(next(searches)[0]),
                "why-not": why_not,
            }
            times = in_turn(calls, options.questions - 1)
            chunks = memory.status().chunks
    steps = ", ".join(f"{name} {count}" for name, count in stages.most_common())
    title = f"{options.files:,} notes, {chunks:,} chunks; stopped at: {steps}"
    print_times(title, times, "search", {"why-not": Goal("CPU", 150)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
