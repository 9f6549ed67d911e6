"""Speed of the local provider: chunks per CPU second against llama_cpp used directly.

    uv run python benchmarks/local_model.py [--model FILE] [--rounds 5] [--chunks 24]

Both sides embed the same chunks of about 430 tokens with one thread and flash attention, each in a process of
its own with the model loaded before the clock starts; rounds take turns. CPU time counts all processes of a
side: for our provider the child with the model and the parent that talks to it. Goal: at most 10 % dearer.
Without --model the file is that of OPENCLAW_MEM_BENCH_MODEL; with neither it says so and ends.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from _bench import embedder_words, given, one_blas_thread, print_table

NAME = "all-MiniLM-L6-v2-Q8_0.gguf"
TOKENS = 430
GOAL = 1.10

#: Reads one line of JSON texts, then a line per round; answers a line with CPU and wall seconds.
PLAIN = """
import json, sys, time
import llama_cpp
model = llama_cpp.Llama(
    sys.argv[1], embedding=True, n_ctx=512, n_batch=512, n_ubatch=512, n_threads=1, n_threads_batch=1,
    flash_attn=True, verbose=False,
)
texts = json.loads(sys.stdin.readline())
model.embed(texts[:1], normalize=True)
for _ in sys.stdin:
    cpu, wall = time.process_time(), time.perf_counter()
    for text in texts:
        model.embed([text], normalize=True)
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]), flush=True)
"""


def model_file(named: Path | None) -> Path | None:
    """The model to measure with, None without one."""
    path = named or Path(os.environ.get("OPENCLAW_MEM_BENCH_MODEL", ""))
    return path if path.is_file() else None


def chunks_of(model: Path, count: int) -> list[str]:
    """Texts of common words, cut so that each has about TOKENS tokens of this model."""
    from openclaw_mem_engine.providers.local.native import NativeFile, NativeModel

    native = NativeModel(NativeFile(str(model)), threads=1, limit=2048, should_stop=lambda: False)
    draw = random.Random(7)
    words = embedder_words()
    chunks: list[str] = []
    for _ in range(count):
        picked = draw.choices(words, k=TOKENS)
        while len(native.tokens(" ".join(picked).encode())[0]) > TOKENS:
            picked.pop()
        chunks.append(" ".join(picked))
    return chunks


def main() -> int:
    options = given(model=(Path, "a GGUF embedding model with 512 tokens or more"), rounds=5, chunks=24)
    model = model_file(options.model)
    if model is None or importlib.util.find_spec("llama_cpp") is None:
        missing = "llama-cpp-python" if model else f"{NAME} (name it in OPENCLAW_MEM_BENCH_MODEL)"
        print(f"Skipped: {missing} is not here.")
        return 0
    one_blas_thread()

    from openclaw_mem_engine.providers.local.embedder import LocalEmbedder

    chunks = chunks_of(model, options.chunks)
    embedder = LocalEmbedder(str(model), folder=model.parent, threads=1)
    embedder.embed_documents(chunks[:1])
    plain = subprocess.Popen(
        [sys.executable, "-c", PLAIN, str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert plain.stdin is not None and plain.stdout is not None
    plain.stdin.write(json.dumps(chunks) + "\n")
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for number in range(1 + options.rounds):
        # The CPU clock of the child (see clock_getcpuclockid).
        assert embedder.pid is not None
        clock = ~embedder.pid << 3 | 2
        child, parent, wall = time.clock_gettime(clock), time.process_time(), time.perf_counter()
        embedder.embed_documents(chunks)
        wall = time.perf_counter() - wall
        cpu = time.clock_gettime(clock) - child + time.process_time() - parent
        plain.stdin.write("round\n")
        plain.stdin.flush()
        answer = json.loads(plain.stdout.readline())
        if number:
            ours.append((cpu, wall))
            theirs.append((answer[0], answer[1]))
    plain.stdin.close()
    plain.wait()
    embedder.close()

    base = statistics.median(cpu for cpu, _ in theirs)
    table = [["", "chunks per CPU s", "CPU ms a chunk", "wall ms a chunk, best", "× baseline"]]
    for name, times in (("our provider, with its child", ours), ("llama_cpp.Llama.embed, direct", theirs)):
        cpu = statistics.median(cpu for cpu, _ in times)
        per_chunk = 1000 / options.chunks
        table.append(
            [
                name,
                f"{options.chunks / cpu:.2f}",
                f"{cpu * per_chunk:.1f}",
                f"{min(wall for _, wall in times) * per_chunk:.1f}",
                "baseline" if times is theirs else f"{cpu / base:.3f}",
            ]
        )
    ratio = statistics.median(cpu for cpu, _ in ours) / base
    print_table(
        f"Local embeddings, {model.name}, {options.chunks} chunks of about {TOKENS} tokens, 1 thread",
        table,
        f"CPU: median of {options.rounds} interleaved rounds. "
        f"Goal: at most {GOAL:.2f} times the baseline: {'met' if ratio <= GOAL else 'MISSED'}.",
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
