"""Speed of the built-in embedder: start, first indexing, lines of a query, queries.

    uv run python benchmarks/static_embedder.py [--megabytes 9] [--text FILE] [--blas-threads 1]

Prints a table against a baseline measured in the same run: the same table applied plainly, with nothing
remembered between words, lines or texts, and one sum of rows per text. Times are CPU time of the process.
Without --text the notes are generated from a fixed seed: words of the vocabulary by Zipf's law, one in twenty
from 20,000 made-up names.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from _bench import ZipfText, embedder_words, given, print_table

CHUNK_CHARS, OVERLAP_CHARS = 1600, 320
QUERY_LINES = 2000
QUERIES = 500
BASELINE_CHUNKS = 300

LOAD = """
import json, time
start = time.process_time()
import numpy
numpy_s = time.process_time() - start
from openclaw_mem_engine.providers.static import StaticEmbedder
StaticEmbedder().embed_query("tea")
print(json.dumps([numpy_s, time.process_time() - start]))
"""


def cpu_s(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def chunked(text: str) -> list[str]:
    """Chunks of whole lines with overlap, close to those of the index."""
    pieces = [
        line[at : at + CHUNK_CHARS]
        for line in text.split("\n")
        for at in range(0, max(1, len(line)), CHUNK_CHARS)
    ]
    chunks: list[str] = []
    current: list[str] = []
    size = 0
    for piece in pieces:
        if current and size + len(piece) + 1 > CHUNK_CHARS:
            chunks.append("\n".join(current))
            kept: list[str] = []
            size = 0
            for line in reversed(current):
                kept.insert(0, line)
                size += len(line) + 1
                if size >= OVERLAP_CHARS:
                    break
            current = kept
        current.append(piece)
        size += len(piece) + 1
    return [*chunks, "\n".join(current)]


def load_times() -> tuple[float, float]:
    """Best of five fresh processes: CPU seconds of (numpy, numpy + table + first query)."""
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", LOAD], capture_output=True, check=True).stdout)
        for _ in range(5)
    ]
    return min(run[0] for run in runs), min(run[1] for run in runs)


def main() -> None:
    options = given(
        megabytes=(9.0, "size of the generated notes"),
        text=(Path, "use this file instead of generated notes"),
        blas_threads=(1, "0 leaves the choice to the library"),
    )
    if options.blas_threads:
        # Read when numpy is imported. Waiting BLAS threads spin: CPU time that helps nobody here.
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ[name] = str(options.blas_threads)

    import numpy as np

    from openclaw_mem_engine.providers.static import TABLE_FILE, StaticEmbedder
    from openclaw_mem_engine.providers.static.wordpiece import WordPiece

    with np.load(TABLE_FILE, allow_pickle=False) as file:
        rows, scale = file["table"], file["scale"]
        vocabulary = bytes(file["vocab"]).decode().split("\n")

    shared = WordPiece(vocabulary)

    def plain(text: str) -> object:
        shared._words.clear()
        ids = np.array(shared.ids(text), dtype=np.intp)
        total = (rows[ids] * scale[ids, np.newaxis]).sum(axis=0)
        return total / (np.linalg.norm(total) or 1.0)

    words = embedder_words()
    notes = (
        options.text.read_text("utf-8")
        if options.text
        else ZipfText(words).lines(int(options.megabytes * 1e6))
    )
    chunks = chunked(notes)
    lines = [line for line in notes.split("\n") if line.strip()]
    per_query = [random.Random(seed).sample(lines, min(QUERY_LINES, len(lines))) for seed in range(3)]
    queries = [line[:60] for line in lines[:QUERIES]]

    embedder = StaticEmbedder()
    embedder.embed_query("tea")
    cold_lines = cpu_s(lambda: embedder.embed_documents(per_query[0]))
    embedder.close()
    embedder.embed_query("tea")
    first_index = cpu_s(lambda: embedder.embed_documents(chunks))
    second_index = cpu_s(lambda: embedder.embed_documents(chunks))
    tokens = sum(map(len, map(embedder._loaded().wordpiece.ids, chunks)))
    warm_lines = min(cpu_s(lambda part=part: embedder.embed_documents(part)) for part in per_query[1:])  # type: ignore[misc]
    per_text = cpu_s(lambda: [embedder.embed_query(query) for query in queries]) / len(queries)

    sample = chunks[:: max(1, len(chunks) // BASELINE_CHUNKS)]
    plain_chunk = cpu_s(lambda: [plain(chunk) for chunk in sample]) / len(sample)
    plain_lines = cpu_s(lambda: [plain(line) for line in per_query[0][:500]]) / len(per_query[0][:500])
    plain_query = cpu_s(lambda: [plain(query) for query in queries]) / len(queries)
    numpy_s, load_s = load_times()

    lines_asked, speed = f"{len(per_query[0]):,} lines", tokens / len(chunks) / 1e6
    plain_all, plain_ms = plain_chunk * len(chunks), plain_lines * len(per_query[0]) * 1e3
    rows = (
        ("start: numpy, table, first query", "ms", load_s * 1e3, None),
        ("of which numpy", "ms", numpy_s * 1e3, None),
        ("all chunks, first time", "s", first_index, plain_all),
        ("all chunks, words known", "s", second_index, plain_all),
        ("chunks per second, first time", "1/s", len(chunks) / first_index, 1 / plain_chunk),
        ("tokens per second, words known", "M/s", tokens / second_index / 1e6, speed / plain_chunk),
        (f"{lines_asked}, first call", "ms", cold_lines * 1e3, plain_ms),
        (f"{lines_asked}, words known", "ms", warm_lines * 1e3, plain_ms),
        ("one query", "ms", per_text * 1e3, plain_query * 1e3),
    )
    table = [("work", "unit", "here", "plain")]
    for name, unit, here, baseline in rows:
        table.append((name, unit, f"{here:,.3f}", "" if baseline is None else f"{baseline:,.3f}"))
    text = f"{len(notes) / 1e6:.1f} M characters, {len(chunks):,} chunks, {tokens:,} tokens"
    threads = f"BLAS threads {options.blas_threads or 'default'}"
    print_table("The built-in embedder", table, f"{text}; numpy {np.__version__}, {threads}; CPU time.")


if __name__ == "__main__":
    main()
