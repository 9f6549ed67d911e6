"""How fast the line chunker is: CPU megabytes per second against a plain loop over lines, in the same run.

    uv run python benchmarks/chunking.py [--megabytes 8] [--rounds 7]

The baseline is the rule as one would write it down, piece by piece; both must give equal chunks, or the run
stops with an error.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial

from openclaw_mem_engine.chunking.line_chunker import chunk_lines
from openclaw_mem_engine.model import ChunkSpan

WORDS = [
    "sensor",
    "gateway",
    "valve",
    "backup",
    "invoice",
    "moisture",
    "reading",
    "Monday",
    "**bold**",
    "`code`",
]
WORDS += ["of", "the", "a", "to", "for", "and"]


def naive_chunks(text: str, tokens: int = 400, overlap: int = 80) -> list[ChunkSpan]:
    """The rule written out as a loop; over-long lines are cut one character at a time."""
    limit, repeat = max(32, tokens * 4), overlap * 4
    pieces: list[tuple[str, int, int]] = []
    for number, line in enumerate(text.split("\n"), 1):
        part, units = "", 0
        for char in line:
            width = 2 if char > "\uffff" else 1
            if units + width > limit:
                pieces.append((part, number, units + 1))
                part, units = "", 0
            part += char
            units += width
        pieces.append((part, number, units + 1))
    chunks: list[ChunkSpan] = []
    current: list[tuple[str, int, int]] = []
    size = 0
    for piece in pieces:
        if current and size + piece[2] > limit:
            chunks.append(ChunkSpan("\n".join(p[0] for p in current), current[0][1], current[-1][1]))
            kept: list[tuple[str, int, int]] = []
            size = 0
            while repeat and current and size < repeat:
                kept.insert(0, current.pop())
                size += kept[0][2]
            current = kept
        current.append(piece)
        size += piece[2]
    chunks.append(ChunkSpan("\n".join(p[0] for p in current), current[0][1], current[-1][1]))
    return chunks


def markdown(size: int, alphabet: list[str], line_words: int = 12) -> str:
    """About ``size`` characters of Markdown: headings, lists, blank lines; the same at every run."""
    rng = random.Random(7)
    lines: list[str] = []
    length = 0
    while length < size:
        words = " ".join(rng.choices(alphabet, k=rng.randint(1, line_words)))
        line = rng.choice(["", "", "## ", "- ", "- [ ] ", "> "]) + words if rng.random() > 0.15 else ""
        lines.append(line)
        length += len(line) + 1
    return "\n".join(lines)


def median_seconds(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return statistics.median(times)


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the line chunker against a plain loop.")
    parser.add_argument("--megabytes", type=float, default=8.0, help="size of each text in UTF-8 megabytes")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    size = int(options.megabytes * 1_000_000)
    texts = {
        "ASCII Markdown": markdown(size, WORDS),
        "French Markdown": markdown(size, [*WORDS, "débit", "crème", "brûlée", "été"]),
        "Chinese Markdown": markdown(size // 3, ["温室", "传感器", "每三十秒", "上报", "湿度", "和", "温度"]),
        "Markdown with emoji": markdown(size, [*WORDS, "🌱", "🇫🇷", "👨‍👩‍👧‍👦"]),
        "one line, ASCII": "word " * (size // 5),
        "one line, emoji": "a🙂" * (size // 5),
    }
    print(f"{'text':22}{'MB':>7}{'chunks':>9}{'chunker MB/s':>15}{'plain loop MB/s':>17}{'ratio':>8}")
    for name, text in texts.items():
        megabytes = len(text.encode()) / 1_000_000
        chunks = chunk_lines(text)
        if chunks != naive_chunks(text):
            print(f"{name}: the two do not agree", file=sys.stderr)
            return 1
        ours = megabytes / median_seconds(partial(chunk_lines, text), options.rounds)
        naive = megabytes / median_seconds(partial(naive_chunks, text), max(1, options.rounds // 3))
        print(f"{name:22}{megabytes:7.1f}{len(chunks):9,}{ours:15.0f}{naive:17.1f}{ours / naive:8.0f}")
    print(f"CPU time of one core, median of {options.rounds} rounds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
