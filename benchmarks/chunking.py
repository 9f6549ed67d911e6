"""How fast the line chunker is: CPU megabytes per second against a plain loop over lines, in the same run.

    uv run python benchmarks/chunking.py [--megabytes 8] [--rounds 7]

The baseline is the rule as one would write it down, piece by piece; both must give equal chunks, or the run
stops with an error.
"""

from __future__ import annotations

import random
import sys
from functools import partial

from _bench import given, in_turn, print_table

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


def main() -> int:
    options = given(megabytes=(8.0, "size of each text in UTF-8 megabytes"), rounds=7)
    size = int(options.megabytes * 1_000_000)
    texts = {
        "ASCII Markdown": markdown(size, WORDS),
        "French Markdown": markdown(size, [*WORDS, "débit", "crème", "brûlée", "été"]),
        "Chinese Markdown": markdown(size // 3, ["温室", "传感器", "每三十秒", "上报", "湿度", "和", "温度"]),
        "Markdown with emoji": markdown(size, [*WORDS, "🌱", "🇫🇷", "👨‍👩‍👧‍👦"]),
        "one line, ASCII": "word " * (size // 5),
        "one line, emoji": "a🙂" * (size // 5),
    }
    table = [("text", "MB", "chunks", "chunker MB/s", "plain loop MB/s", "ratio")]
    for name, text in texts.items():
        megabytes = len(text.encode()) / 1_000_000
        chunks = chunk_lines(text)
        if chunks != naive_chunks(text):
            print(f"{name}: the two do not agree", file=sys.stderr)
            return 1
        calls = {"ours": partial(chunk_lines, text)}, {"naive": partial(naive_chunks, text)}
        times = in_turn(calls[0], options.rounds) | in_turn(calls[1], max(1, options.rounds // 3), warm_up=0)
        ours, naive = (1000 * megabytes / times[who].cpu_median for who in ("ours", "naive"))
        rates = f"{ours:.0f}", f"{naive:.1f}", f"{ours / naive:.0f}"
        table.append((name, f"{megabytes:.1f}", f"{len(chunks):,}", *rates))
    print_table("The line chunker", table, f"CPU time of one core, median of {options.rounds} rounds.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
