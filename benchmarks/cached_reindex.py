"""A rebuild whose every text is in the embedding cache, against one without embeddings.

uv run python benchmarks/cached_reindex.py [--files 2000] [--megabytes 9] [--rounds 5]
"""

from __future__ import annotations

from pathlib import Path

from _bench import Times, given, in_turn, one_blas_thread, print_times, scratch, settings_for, write_workspace

one_blas_thread()

from openclaw_mem_engine.memory import Memory  # noqa: E402 - after the variables that numpy reads
from openclaw_mem_engine.sync.report import SyncRequest  # noqa: E402

GOAL_RATIO = 1.3


def rebuilding(workspace: Path, home: Path, provider: str) -> Memory:
    """A memory that is indexed already, so that a forced sync is a rebuild."""
    memory = Memory.open(settings_for(workspace, home, provider))
    memory.sync()
    return memory


def main() -> None:
    options = given(files=2000, megabytes=9.0, rounds=5)
    with scratch() as folder:
        workspace = write_workspace(folder / "ws", options.files, options.megabytes)
        plain = rebuilding(workspace, folder / "none", "none")
        cached = rebuilding(workspace, folder / "static", "static")
        with plain, cached:
            embedded = set[int]()
            times: dict[str, Times] = in_turn(
                {
                    "without embeddings": lambda: plain.sync(SyncRequest(force=True)),
                    "all from the cache": lambda: embedded.add(cached.sync(SyncRequest(force=True)).embedded),
                },
                options.rounds,
            )
    assert embedded == {0}, "every text was in the cache"
    print_times(f"Rebuild, {options.files:,} notes, {options.megabytes:g} MB", times, "without embeddings")
    ratio = times["all from the cache"].cpu_median / times["without embeddings"].cpu_median
    print(f"\nGoal: at most {GOAL_RATIO} times: {'met' if ratio <= GOAL_RATIO else 'MISSED'} ({ratio:.2f}).")


if __name__ == "__main__":
    main()
