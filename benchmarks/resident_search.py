"""What a search costs in a process that stays, each query for the first time, and how it grows with notes.

    uv run python benchmarks/resident_search.py [--files 2000] [--times 10] [--queries 60]

Queries are one to four words of one note. The baseline is what SQLite alone needs for the 200 best keyword
matches. Growth is the exponent of CPU time between ``--files`` and ``--times`` as many notes (0: it does not
grow, 1: linear); ``--times 1`` leaves it out, which saves the minute of the larger index.
"""

from __future__ import annotations

import gc
import math
import random
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from _bench import Times, given, in_turn, one_blas_thread, print_table, scratch, settings_for, write_workspace

from openclaw_mem_engine.cli.main import NEW_OBJECTS

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Hit
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.knobs import Knobs

#: Goals: milliseconds of CPU (median) of a profile, and the exponent of growth.
GOALS_MS = {"documented": 10, "workbench": 25}
GROWTH = 0.15
_BASELINE = "keyword matches, SQLite alone"
_BEST = """SELECT c.id, best.score FROM (
    SELECT rowid AS seq, bm25(chunks_fts_stemmed) AS score FROM chunks_fts_stemmed
    WHERE chunks_fts_stemmed MATCH ? ORDER BY bm25(chunks_fts_stemmed) LIMIT ?) best
    JOIN chunks c ON c.seq = best.seq"""


def queries(memory: Memory, count: int) -> list[str]:
    draw, paths, found = random.Random(17), memory.paths(), list[str]()
    while len(found) < count:
        text = memory.get(draw.choice(paths)).text
        words = [word for word in text.split() if word.isalpha() and len(word) > 3]
        if words:
            found.append(" ".join(draw.sample(words, min(draw.randint(1, 4), len(words)))))
    return found


def results(memory: Memory, query: str, knobs: Knobs) -> tuple[Hit, ...]:
    """What a tool of an agent reads of a search."""
    return memory.search(query, knobs).hits


def measured(folder: Path, files: int, count: int) -> dict[str, Times]:
    """The times of each profile and of the baseline, over different queries."""
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.pool import OVERFETCH
    from openclaw_mem_engine.ranking.profiles import profile
    from openclaw_mem_engine.stores.query import LexicalQuery, build_query
    from openclaw_mem_engine.stores.sqlite.database import rows
    from openclaw_mem_engine.stores.sqlite.full_text import expression_of

    settings = settings_for(write_workspace(folder / "workspace", files, files * 0.0045), folder / "home")
    times: dict[str, Times] = {}
    with Memory.open(settings, resident=True) as memory:
        memory.sync()
        # Of each profile every other query: lines that one has read are remembered for the next.
        asked = queries(memory, 2 * count + 2)
        alone = apsw.Connection(str(settings.index_path))
        for at, query in enumerate(asked):
            words = build_query(query, "or", "stemmed")
            assert isinstance(words, LexicalQuery)
            name = list(GOALS_MS)[at % 2]
            calls = {name: partial(results, memory, query, profile(name))}
            calls |= (
                {_BASELINE: partial(rows, alone, _BEST, (expression_of(words), OVERFETCH))} if at % 2 else {}
            )
            for called, taken in in_turn(calls, 1, warm_up=0).items():
                if at > 1:  # imports and the first read of all vectors
                    times.setdefault(called, Times()).add(taken.cpu[0] / 1000, taken.wall[0] / 1000)
        alone.close()
    return times


def main() -> int:
    options = given(files=2_000, times=10, queries=(60, "of each profile"))
    one_blas_thread()
    gc.set_threshold(NEW_OBJECTS)  # like the command
    with scratch() as folder:
        small = measured(folder / "small", options.files, options.queries)
        large = dict[str, Times]()
        if options.times > 1:
            large = measured(folder / "large", options.files * options.times, options.queries)
    table = [("CPU ms, median", f"{options.files:,} notes", "goal", f"× {options.times} notes", "growth")]
    for name, taken in small.items():
        goal = GOALS_MS.get(name)
        verdict = f"≤ {goal}: {'met' if taken.cpu_median <= goal else 'MISSED'}" if goal else "baseline"
        more = large[name].cpu_median if large else 0.0
        exponent = math.log(more / taken.cpu_median) / math.log(options.times) if large else 0.0
        met = f" ≤ {GROWTH}: {'met' if exponent <= GROWTH else 'MISSED'}" if goal else ""
        grown = (f"{more:.1f}", f"{exponent:.2f}{met}") if large else ("-", "-")
        table.append((name, f"{taken.cpu_median:.1f}", verdict, *grown))
    print_table(f"Resident search, {options.queries} queries a profile", table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
