"""One vector query over 100,000 chunks × 384 dimensions: in memory, and inside SQLite in one shot.

    uv run python benchmarks/vector_query.py [--chunks 100000] [--dims 384] [--rounds 25] [--blas-threads 1]

Baseline: the plain NumPy product and a full sort. All ways must give the same chunks and scores, or the run
stops with an error.
"""

from __future__ import annotations

import os
import sys
from itertools import cycle
from typing import Any

from _bench import Goal, given, in_turn, print_times, scratch, write_index

LIMIT = 200


def main() -> int:
    options = given(
        chunks=100_000, dims=384, rounds=25, blas_threads=(1, "0 leaves the choice to the library")
    )
    if options.blas_threads:
        os.environ["OPENBLAS_NUM_THREADS"] = str(options.blas_threads)

    import numpy as np

    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

    draw = np.random.default_rng(7)
    centres = draw.standard_normal((2_000, options.dims), np.float32)
    vectors = centres[draw.integers(0, len(centres), options.chunks)]
    vectors += np.float32(0.7) * draw.standard_normal(vectors.shape, np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    questions = [
        (question / np.linalg.norm(question)).astype(np.float32)
        for question in vectors[:64] + 0.02 * draw.normal(size=(64, options.dims)).astype(np.float32)
    ]

    with scratch() as folder:
        path = folder / "index.sqlite"
        write_index(path, (f"reading {number}" for number in range(1, len(vectors) + 1)), vectors)
        one_shot, resident = SqliteIndex(path), SqliteIndex(path, resident=True)
        try:
            assert one_shot.caps.vector_search == "sqlite-vec"
            disagreements = check(one_shot, resident, vectors, questions[:20])
            if disagreements:
                print(f"the ways disagree in {disagreements} of 20 queries", file=sys.stderr)
                return 1
            turns = {name: cycle(questions) for name in ("numpy", "resident", "one shot")}
            calls = {
                "NumPy product and full sort": lambda: np.argsort(-(vectors @ next(turns["numpy"])))[:LIMIT],
                "resident": lambda: resident.vector(next(turns["resident"]), LIMIT),
                "one shot (sqlite-vec)": lambda: one_shot.vector(next(turns["one shot"]), LIMIT),
                "one shot, 24 nearest": lambda: one_shot.vector(next(turns["one shot"]), 24),
            }
            for question in questions:  # each rounds a part of the rows
                resident.vector(question, LIMIT)
            times = in_turn(calls, options.rounds)
            loading = in_turn(
                {"loading the resident vectors": lambda: load_again(resident, questions[0])}, 5, warm_up=0
            )
            first = {"resident, 16 after loading": lambda: resident.vector(next(turns["resident"]), LIMIT)}
            loading |= in_turn(first, 16, warm_up=0)
        finally:
            one_shot.close()
            resident.close()
    threads = options.blas_threads or "default"
    print_times(
        f"Nearest {LIMIT} of {options.chunks:,} × {options.dims}, BLAS threads: {threads}; results checked",
        times | loading,
        "NumPy product and full sort",
        {"resident": Goal("CPU", 6), "one shot (sqlite-vec)": Goal("CPU", 35)},
    )
    return 0


def load_again(store: Any, question: Any) -> None:
    store._vectors.forget()
    store.vector(question, 1)


def check(one_shot: Any, resident: Any, vectors: Any, questions: list[Any]) -> int:
    """How many queries get other chunks or scores than an exact search. Chunks whose cosines are equal to six
    digits may change places: float32 sums are rounded in another order."""
    import numpy as np

    wrong = 0
    for question in questions:
        inside, memory = one_shot.vector(question, LIMIT), resident.vector(question, LIMIT)
        exact = np.sort(vectors.astype(np.float64) @ question.astype(np.float64))[::-1][:LIMIT]
        a, b = np.array([hit.raw for hit in inside]), np.array([hit.raw for hit in memory])
        clear = exact[-1] + 1e-6
        same = {h.chunk_id for h in inside if h.raw > clear} == {h.chunk_id for h in memory if h.raw > clear}
        wrong += not (same and np.allclose(a, exact, atol=1e-6) and np.allclose(b, exact, atol=1e-6))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
