"""What all benchmarks share: a generated workspace, timers of CPU and wall, one table.

A run takes every call in turn, round after round, so that a busy machine slows them alike and the ratio to
the baseline stays true. CPU time is the number to trust; the best wall time is what a quiet machine gives.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate, count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.config.sources import UserFolders

#: The generated notes end on this day, one daily log a day before it.
LAST_DAY_S = 1_790_000_000
_DAY_S = 86_400
_SYLLABLES = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu bra cle dri flo gru".split()
_WORDS_KNOWN, _NAMES_KNOWN = 30_000, 20_000


def made_up_words(draw: random.Random, count: int) -> list[str]:
    """Distinct words of two to four syllables."""
    found: dict[str, None] = {}
    while len(found) < count:
        found.setdefault("".join(draw.choices(_SYLLABLES, k=draw.randint(2, 4))))
    return list(found)


def embedder_words() -> list[str]:
    """Words that the built-in embedder knows, common ones first (the order of its vocabulary)."""
    import numpy as np

    from openclaw_mem_engine.providers.static import TABLE_FILE

    with np.load(TABLE_FILE, allow_pickle=False) as file:
        vocabulary = bytes(file["vocab"]).decode().split("\n")
    return [word for word in vocabulary[1996:] if word.isascii() and word.isalpha()]


class ZipfText:
    """Lines of words drawn by Zipf's law from a seed; one word in twenty is a rare name with a number."""

    def __init__(self, words: Sequence[str], seed: int = 7) -> None:
        self.draw = random.Random(seed)
        self._words = words
        self._weights = list(accumulate(1 / rank for rank in range(1, len(words) + 1)))
        pick = self.draw.choice
        self._names = [f"{pick(words)}{pick(words)}{self.draw.randint(0, 99)}" for _ in range(_NAMES_KNOWN)]

    def line(self, least: int = 3, most: int = 40) -> str:
        """One sentence."""
        picked = self.draw.choices(self._words, cum_weights=self._weights, k=self.draw.randint(least, most))
        for place in range(0, len(picked), 20):
            picked[place] = self.draw.choice(self._names)
        return " ".join(picked).capitalize() + "."

    def lines(self, size: int) -> str:
        """About ``size`` characters of sentences, one a line."""
        found, total = [], 0
        while total < size:
            found.append(self.line())
            total += len(found[-1]) + 1
        return "\n".join(found)

    def note(self, size: int) -> str:
        """About ``size`` characters of Markdown: headings, lists, paragraphs."""
        found, total = [f"# {self.line(2, 5)}"], 0
        while total < size:
            start = self.draw.choice(("", "", "- ", "- ", "- [x] ", "\n## ", "\n"))
            found.append(start + (self.line(2, 6) if "#" in start else self.line()))
            total += len(found[-1]) + 1
        return "\n".join(found) + "\n"


def write_workspace(root: Path, files: int, megabytes: float, seed: int = 7) -> Path:
    """A workspace of ``files`` notes: MEMORY.md, a third daily logs, the rest in folders by topic. Sizes vary
    from a third to the threefold of the mean; times of change lie in the past, so that a scan trusts them."""
    text = ZipfText(embedder_words(), seed)
    mean = megabytes * 1e6 / files
    for number in range(files):
        if number == 0:
            path = root / "MEMORY.md"
        elif number % 3 == 0:
            day = time.strftime("%Y-%m-%d", time.gmtime(LAST_DAY_S - number // 3 * _DAY_S))
            path = root / "memory" / f"{day}.md"
        else:
            path = root / "memory" / f"topic-{number % 40:02}" / f"note-{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        # Lognormal with mean 1: many short notes, some long ones, as people write them.
        path.write_text(text.note(int(mean * text.draw.lognormvariate(-0.18, 0.6))), "utf-8")
        stamp = LAST_DAY_S - 300 * _DAY_S + number
        os.utime(path, (stamp, stamp))
    return root


def write_index(path: Path, texts: Iterable[str], vectors: Any = None, *, per_file: int = 500) -> None:
    """An index of one chunk a text, ``per_file`` in a file; ``vectors`` (rows of an array, one a text) are in
    its cache."""
    from openclaw_mem_engine.model import chunk_id_of, text_hash
    from openclaw_mem_engine.stores.base import FileChange, FileState, Fingerprint, StoredChunk
    from openclaw_mem_engine.stores.sqlite.store import SqliteIndex

    store, left = SqliteIndex(path), iter(texts)
    store.begin(Fingerprint("bench", "random", "", 400, 80, ("memory",)))
    for start in count(0, per_file):
        note, chunks = f"memory/{start:07}.md", []
        for line, text in enumerate(islice(left, per_file), 1):
            key = text_hash(text)
            chunk_id = chunk_id_of("memory", note, line, line, key, "random")
            chunks.append(StoredChunk(chunk_id, note, "memory", line, line, key, text))
        if not chunks:
            break
        mine = [None] * len(chunks) if vectors is None else list(vectors[start : start + len(chunks)])
        if vectors is not None:
            store.cache_vectors({chunk.hash: vector for chunk, vector in zip(chunks, mine, strict=True)})
        store.apply(FileChange(FileState(note, "memory", "", 0, 0, 0, 0), chunks, mine))
    store.close()


def workspace_bytes(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.md"))


def settings_for(workspace: Path, home: Path, provider: str = "static", **environ: str) -> Settings:
    """Settings with everything of ours below ``home`` and nothing from the user's environment."""
    home.mkdir(parents=True, exist_ok=True)
    environ = environment(home, provider) | environ
    return load_settings(
        workspace=workspace,
        environ=environ,
        home=home,
        cwd=home,
        folders=UserFolders(home / "data", home / "config"),
    )


def environment(home: Path, provider: str = "static") -> dict[str, str]:
    return {"OPENCLAW_MEM_HOME": str(home / "data"), "OPENCLAW_MEM_PROVIDER": provider}


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with TemporaryDirectory(prefix="openclaw-mem-bench-") as name:
        yield Path(name)


def given(**defaults: Any) -> argparse.Namespace:
    """What the command line gives to the options: each has a default or, for None, a type, in a pair with its
    help where its name does not say enough; False makes a flag. ``--help`` begins with the docstring."""
    parser = argparse.ArgumentParser(
        description=sys.modules["__main__"].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in defaults.items():
        default, text = value if isinstance(value, tuple) else (value, None)
        kind, default = (default, None) if isinstance(default, type) else (type(default), default)
        how: dict[str, Any] = {"action": "store_true"} if kind is bool else {"type": kind, "default": default}
        parser.add_argument(f"--{name.replace('_', '-')}", help=text, **how)
    return parser.parse_args()


def one_blas_thread() -> None:
    """Call before numpy is imported: more threads only spin for products of our size."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ[name] = "1"


@dataclass(slots=True)
class Times:
    """Milliseconds of the rounds of one call."""

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    @property
    def cpu_median(self) -> float:
        return statistics.median(self.cpu)

    def cpu_at(self, share: float) -> float:
        """The CPU time that this share of the rounds (0–1) did not exceed."""
        return sorted(self.cpu)[max(0, math.ceil(share * len(self.cpu)) - 1)]

    @property
    def wall_best(self) -> float:
        return min(self.wall)

    def add(self, cpu_s: float, wall_s: float) -> None:
        self.cpu.append(cpu_s * 1000)
        self.wall.append(wall_s * 1000)


def in_turn(
    calls: Mapping[str, Callable[[], object]], rounds: int, *, warm_up: int = 1, repeat: int = 1
) -> dict[str, Times]:
    """Every call once a round; ``repeat`` calls are timed as one for what takes microseconds."""
    times = {name: Times() for name in calls}
    for number in range(warm_up + rounds):
        for name, call in calls.items():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(repeat):
                call()
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if number >= warm_up:
                times[name].add(cpu / repeat, wall / repeat)
    return times


def processes_in_turn(
    commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], rounds: int
) -> dict[str, Times]:
    """Whole child processes, interleaved; CPU is user and system time of the child. Raises
    CalledProcessError when one fails.

    As on an installed machine, byte code is compiled once: into a folder of the run's own, since some
    sandboxes forbid to write it beside the sources, which costs each start a few hundred milliseconds.
    """
    with TemporaryDirectory(prefix="openclaw-mem-pycache-") as cache:
        environ = {**os.environ, **environ, "PYTHONPYCACHEPREFIX": cache}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        return _processes_in_turn(commands, environ, rounds)


def _processes_in_turn(
    commands: Mapping[str, Sequence[str]], environ: Mapping[str, str], rounds: int
) -> dict[str, Times]:
    times = {name: Times() for name in commands}
    for number in range(1 + rounds):
        for name, command in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            wall = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=environ)
            wall = time.perf_counter() - wall
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if number:  # the first round fills caches and writes byte code
                cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
                times[name].add(cpu, wall)
    return times


#: Names a file that gets what was measured, a JSON list of name and number a line: peers.py compares it.
ROWS_VARIABLE = "OPENCLAW_MEM_BENCH_ROWS"


def keep_row(name: str, value: float) -> None:
    """Add one to the file, where there is one."""
    if path := os.environ.get(ROWS_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps([name, value]) + "\n")


@dataclass(frozen=True, slots=True)
class Goal:
    """At most so many milliseconds of CPU (median) or wall (best)."""

    clock: str
    milliseconds: float

    def verdict(self, times: Times) -> str:
        taken = times.cpu_median if self.clock == "CPU" else times.wall_best
        return f"{self.clock} ≤ {self.milliseconds:g}: {'met' if taken <= self.milliseconds else 'MISSED'}"


def print_times(
    title: str, times: Mapping[str, Times], baseline: str, goals: Mapping[str, Goal] | None = None
) -> None:
    """The table. The ratio compares CPU medians with those of ``baseline``."""
    rounds = len(next(iter(times.values())).cpu)
    base = times[baseline].cpu_median
    table = [("", "CPU ms", "wall ms, best", "goal, ms", "× baseline")]
    for name, taken in times.items():
        keep_row(name, taken.cpu_median)
        goal = (goals or {}).get(name)
        ratio = "baseline" if name == baseline else f"{taken.cpu_median / base:.2f}" if base else "-"
        table.append(
            (
                name,
                f"{taken.cpu_median:.2f}",
                f"{taken.wall_best:.2f}",
                goal.verdict(taken) if goal else "",
                ratio,
            )
        )
    print_table(title, table, f"CPU: median of {rounds} interleaved rounds.")


def print_table(title: str, table: Sequence[Sequence[str]], *remarks: str) -> None:
    """A Markdown table, which a terminal shows well too. The first row holds the headings."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    print(f"\n### {title}\n")
    for number, row in enumerate(table):
        cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
        print("| " + " | ".join(cells) + " |")
        if number == 0:
            rule = ["-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:])]
            print("|" + "|".join(rule) + "|")
    for remark in remarks:
        print(f"\n{remark}")
    sys.stdout.flush()
