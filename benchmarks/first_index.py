"""The first index of a workspace: 2,000 notes, 9 MB, the built-in embedder; where time and room go.

    uv run python benchmarks/first_index.py [--files 2000] [--megabytes 9] [--rounds 5]

Baseline: the same index without embeddings (provider none). The split by phase is a run of its own, whose
timers cost a few percent.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from operator import itemgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

import apsw
from _bench import (
    Goal,
    Times,
    given,
    one_blas_thread,
    print_table,
    print_times,
    scratch,
    settings_for,
    workspace_bytes,
    write_workspace,
)

#: Phase, and the function that does it (module, dotted name).
PHASES = (
    ("list and compare", "openclaw_mem_engine.sync.index_update.scan"),
    ("read", "openclaw_mem_engine.sync.index_update.read_note"),
    ("chunk", "openclaw_mem_engine.chunking.line_chunker.LineChunker.chunks"),
    ("hash and name", "openclaw_mem_engine.sync.index_update.text_hash"),
    ("hash and name", "openclaw_mem_engine.sync.index_update.chunk_id_of"),
    ("embed", "openclaw_mem_engine.providers.static.StaticEmbedder.embed_documents"),
    ("write full text", "openclaw_mem_engine.stores.sqlite.full_text.FullTextRows.insert"),
    ("embedding cache", "openclaw_mem_engine.stores.sqlite.store.SqliteIndex.cached_vectors"),
    ("embedding cache", "openclaw_mem_engine.stores.sqlite.store.SqliteIndex.cache_vectors"),
    ("chunk rows, commits", "openclaw_mem_engine.stores.sqlite.store.SqliteIndex.apply"),
)


def timed(
    name: str, call: Callable[..., Any], spent: dict[str, float], running: list[str]
) -> Callable[..., Any]:
    """``call`` with its CPU time added to ``name``, and taken from the phase that called it."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        running.append(name)
        start = time.process_time()
        try:
            result = call(*args, **kwargs)
            return list(result) if isinstance(result, Iterator) else result
        finally:
            taken = time.process_time() - start
            running.pop()
            spent[name] += taken
            if running:
                spent[running[-1]] -= taken

    return wrapper


@contextmanager
def phases() -> Iterator[dict[str, float]]:
    """CPU seconds by phase of what runs inside."""
    spent: dict[str, float] = defaultdict(float)
    running: list[str] = []
    with ExitStack() as stack:
        for phase, target in PHASES:
            stack.enter_context(patch(target, timed(phase, resolve_name(target), spent, running)))
        yield spent


def first_index(workspace: Path, home: Path, provider: str) -> tuple[float, float, int]:
    """CPU and wall seconds from nothing to a finished index, and its chunks."""
    from openclaw_mem_engine.memory import Memory

    for file in home.rglob("*.sqlite*"):
        with suppress(FileNotFoundError):
            file.unlink()
    wall, cpu = time.perf_counter(), time.process_time()
    with Memory.open(settings_for(workspace, home, provider)) as memory:
        chunks = memory.sync().chunks
    return time.process_time() - cpu, time.perf_counter() - wall, chunks


def table_sizes(index: Path) -> dict[str, int]:
    """Bytes on disk by table and index of a SQLite file, the largest first."""
    with closing(apsw.Connection(str(index))) as connection:
        sql = "SELECT name, sum(pgsize) FROM dbstat GROUP BY 1 ORDER BY 2 DESC"
        return dict(connection.execute(sql).fetchall())


def main() -> None:
    options = given(files=2_000, megabytes=9.0, rounds=5)
    one_blas_thread()
    with scratch() as folder:
        workspace = write_workspace(folder / "workspace", options.files, options.megabytes)
        megabytes = workspace_bytes(workspace) / 1e6
        times = {"static embedder": Times(), "no embeddings": Times()}
        for number in range(options.rounds + 1):
            for name, provider in (("static embedder", "static"), ("no embeddings", "none")):
                cpu, wall, chunks = first_index(workspace, folder / "home", provider)
                if number:
                    times[name].add(cpu, wall)
        goals = {"static embedder": Goal("CPU", 4_800)}
        title = f"First index: {options.files:,} notes, {megabytes:.1f} MB, {chunks:,} chunks"
        print_times(title, times, "no embeddings", goals)

        with phases() as spent:
            total, _, _ = first_index(workspace, folder / "home", "static")
        (index,) = (folder / "home").rglob("main.sqlite")
        sizes = table_sizes(index)
    spent["everything else"] = total - sum(spent.values())
    table = [("phase", "CPU ms", "share")]
    table += [
        (name, f"{s * 1000:.0f}", f"{s / total:.0%}")
        for name, s in sorted(spent.items(), key=itemgetter(1), reverse=True)
    ]
    print_table("Where the first index spends its time", table)
    size = sum(sizes.values())
    table = [("table", "MB", "share"), ("all", f"{size / 1e6:.1f}", f"{size / megabytes / 1e6:.1f} × notes")]
    table += [(name, f"{s / 1e6:.1f}", f"{s / size:.0%}") for name, s in list(sizes.items())[:10]]
    print_table("What the index takes on disk", table)


if __name__ == "__main__":
    main()
