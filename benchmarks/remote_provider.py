"""What our layer costs on top of plain httpx2: packing, retries, limits, checks of every vector.

    uv run python benchmarks/remote_provider.py [--texts 400] [--dims 1536] [--latency-ms 0] [--rounds 15]

Baseline: the same request bodies, packed beforehand, posted by a plain ``httpx2.Client`` with as many
threads; the answers are parsed and made arrays, as everybody needs them. The server is a process of its
own with ready-made answers. Both ways must give the same vectors, or the run stops with an error.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from _bench import Times, ZipfText, given, in_turn, one_blas_thread, print_table

GOAL = 1.05
TEXT_CHARS = 1500
#: So many different embeddings the server knows.
ROWS = 64


def serve(pipe: Connection, dims: int, latency_s: float) -> None:
    """An OpenAI-compatible server that does nothing but answer: embedding number n is row n of a fixed
    table. It runs until its process is ended."""
    draw = random.Random(5)
    rows = [
        json.dumps([round(draw.uniform(-0.1, 0.1), 8) for _ in range(dims)]).encode() for _ in range(ROWS)
    ]
    answers: dict[int, bytes] = {}

    def answer_for(count: int) -> bytes:
        if count not in answers:
            items = b",".join(
                b'{"object":"embedding","index":%d,"embedding":%b}' % (number, rows[number % ROWS])
                for number in range(count)
            )
            body = b'{"object":"list","data":[%b],"usage":{"total_tokens":9}}' % items
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            answers[count] = head % len(body) + body
        return answers[count]

    def talk(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                chunk = connection.recv(65536)
                if not chunk:
                    return
                data += chunk
            head, _, data = data.partition(b"\r\n\r\n")
            length = next(
                int(line[15:]) for line in head.lower().split(b"\r\n") if b"content-length:" in line
            )
            while len(data) < length:
                data += connection.recv(65536)
            inputs, data = json.loads(data[:length])["input"], data[length:]
            if latency_s:
                time.sleep(latency_s)
            connection.sendall(answer_for(len(inputs)))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        pipe.send(listener.getsockname()[1])
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=talk, args=(connection,), daemon=True).start()


@contextmanager
def running_server(dims: int, latency_s: float) -> Iterator[str]:
    """The base URL of the server."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve, args=(there, dims, latency_s), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def packed(texts: list[str]) -> list[bytes]:
    """The request bodies that our layer sends for these texts."""
    from openclaw_mem_engine.providers.remote.limits import MAX_BATCH_BYTES, batch_end

    sizes = [len(text.encode()) for text in texts]
    bodies, start = [], 0
    while start < len(texts):
        end = batch_end(sizes, start, MAX_BATCH_BYTES, 128)
        body = {"model": "text-embedding-3-small", "input": texts[start:end]}
        bodies.append(json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
        start = end
    return bodies


def main() -> int:
    options = given(
        texts=400, dims=1536, latency_ms=(0.0, "a real provider takes 50 and more"), concurrency=4, rounds=15
    )
    one_blas_thread()

    import httpx2
    import numpy as np

    from openclaw_mem_engine.providers.registry import EmbedderSpec
    from openclaw_mem_engine.providers.remote.embedder import RemoteEmbedder
    from openclaw_mem_engine.providers.remote.wires import wire_of

    words = ZipfText([f"word{number}" for number in range(5000)])
    texts = [words.lines(TEXT_CHARS) for _ in range(options.texts)]
    bodies = packed(texts)
    with running_server(options.dims, options.latency_ms / 1000) as base_url:
        client = httpx2.Client(timeout=60)
        headers = {"Authorization": "Bearer key", "Content-Type": "application/json"}
        address = f"{base_url}/embeddings"

        def post(body: bytes) -> bytes:
            return client.post(address, content=body, headers=headers).raise_for_status().content

        def vectors_of(body: bytes) -> Any:
            data = json.loads(post(body))["data"]
            return [np.asarray(item["embedding"], np.float32) for item in data]

        def plain() -> list[Any]:
            with ThreadPoolExecutor(options.concurrency) as pool:
                return [vector for found in pool.map(vectors_of, bodies) for vector in found]

        def bare() -> None:
            with ThreadPoolExecutor(options.concurrency) as pool:
                list(pool.map(post, bodies))

        embedder = RemoteEmbedder(
            wire_of("openai"),
            EmbedderSpec("openai", base_url=base_url, api_key="key", concurrency=options.concurrency),
        )

        def ours() -> list[Any]:
            return list(embedder.embed_documents(texts))

        for mine, theirs in zip(ours(), plain(), strict=True):
            np.testing.assert_allclose(mine, theirs / np.linalg.norm(theirs), atol=1e-6)
        times = in_turn(
            {"httpx2 and arrays": plain, "our layer": ours, "httpx2 alone, answers not parsed": bare},
            options.rounds,
            warm_up=2,
        )
        query = json.dumps({"model": "text-embedding-3-small", "input": ["a query"]}).encode()
        one = in_turn(
            {
                "httpx2 and arrays, one query": lambda: vectors_of(query),
                "our layer, one query": lambda: embedder.embed_query("a query"),
            },
            options.rounds,
            warm_up=2,
            repeat=20,
        )
        client.close()
        embedder.close()
    title = f"{options.texts} texts, {len(bodies)} requests, {options.dims} dimensions"
    return report(f"{title}, {options.concurrency} at once, {options.latency_ms:g} ms latency", times, one)


def report(title: str, times: dict[str, Times], one: dict[str, Times]) -> int:
    """Both tables; 1 when the goal is missed."""
    table = [("", "CPU ms", "wall ms", "wall ms, best", "× wall of the baseline", "goal")]
    verdicts = []
    for group in (times, one):
        (base, *_) = group.values()
        for number, (name, taken) in enumerate(group.items()):
            # Of two calls in the same round: a machine that is busy just then is so for both.
            ratio = statistics.median(mine / his for mine, his in zip(taken.wall, base.wall, strict=True))
            goal = ""
            if number == 1 and group is times:
                goal = f"≤ {GOAL:g}: {'met' if ratio <= GOAL else 'MISSED'}"
                verdicts.append(ratio <= GOAL)
            table.append(
                (
                    name,
                    f"{taken.cpu_median:.2f}",
                    f"{statistics.median(taken.wall):.2f}",
                    f"{taken.wall_best:.2f}",
                    "baseline" if number == 0 else f"{ratio:.3f}",
                    goal,
                )
            )
    rounds = len(next(iter(times.values())).cpu)
    print_table(title, table, f"Medians of {rounds} interleaved rounds; the ratio is that of single rounds.")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
