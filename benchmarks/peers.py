"""Ours beside a peer or a baseline of the same run, with the limit that was set for each row.

    uv run python benchmarks/peers.py [--quick] [--only WORD]

Runs the benchmarks that measure the rows and prints one table from their numbers: CPU milliseconds, medians
of interleaved rounds. The peer qmd is installed from npm when that can be done, as for ``pytest -m qmd``.
``--quick`` takes smaller corpora, for which only limits that are ratios say anything.
"""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from _bench import ROWS_VARIABLE, given, print_table, scratch

HERE = Path(__file__).parent
#: Numbers by run and row.
Measured = Mapping[str, Mapping[str, float]]

#: What is run: benchmark, its arguments, and those of --quick.
RUNS: dict[str, tuple[str, str, str]] = {
    "cold": ("cold_search", "", "--files 200 --megabytes .9 --rounds 3"),
    "cold, large": (
        "cold_search",
        "--files 20000 --megabytes 84 --rounds 5",
        "--files 2000 --megabytes 9 --rounds 3",
    ),
    "large": ("large", "", "--files 1000 --rounds 2"),
    "scan": ("rescan", "--files 20000", "--files 2000 --rounds 3"),
    "search": ("why_not", "--only returned", "--files 300 --questions 5 --only returned"),
    "common": ("common_words", "", "--chunks 4200 --rounds 3"),
    "vectors": ("vector_query", "", "--chunks 10000 --rounds 5"),
    "first": ("first_index", "", "--files 200 --megabytes .9 --rounds 1"),
    **{
        f"keys, {profile}, {files}": (
            "workbench",
            f"--files {files} --profiles {profile}",
            f"--files {files // 10} --profiles {profile} --rounds 3",
        )
        for files in (2000, 20000)
        for profile in ("documented", "workbench")
    },
    "qmd": ("qmd", "", "--files 200 --rounds 1"),
}


class Row(NamedTuple):
    """``ours`` and ``peer`` are rows of the run. The limit is a ratio to the peer or ``most``."""

    work: str
    run: str
    ours: str
    peer: str = ""
    ratio: float | None = None
    most: float | None = None
    unit: str = "ms"


#: A start of Python, and what it takes where the limits in ms were set. They are as much higher on a machine
#: where it takes longer.
_FLOOR, _FLOOR_MS = 'python -c "import numpy, apsw"', 125.0
_COMMON = "the and of to a in"
#: Row of the workbench -> limits over 2,000 and over 20,000 notes.
_KEYS = {
    "arrow key": ("a move of the selection", (12, 15)),
    "one knob step": ("a knob step", (15, 20)),
    "one letter typed": ("a letter of the query", (25, 30)),
}
ROWS = (
    Row("search as a command, 2,000 notes", "cold", "openclaw-mem search", _FLOOR, 1.6),
    Row("the same, beside qmd", "cold", "openclaw-mem search", "qmd search", 1.2),
    Row("the same with --no-sync, beside qmd", "cold", "openclaw-mem search --no-sync", "qmd search", 1.0),
    Row("state of the index, 20,000 notes", "large", "status()", most=400),
    Row("sync of one changed note of 20,000", "large", "sync(), one changed file", most=500),
    Row(
        "search for six common words, 84,000 chunks", "common", f"skip, {_COMMON}", f"all, {_COMMON}", most=60
    ),
    Row("comparison of 20,000 files with the index", "scan", "freshness()", "bare walk", 1.6),
    Row("the same, resident", "scan", "freshness(), resident", "bare walk", 1.6),
    Row("resident search, profile documented", "search", "search, documented", most=10),
    Row("resident search, profile workbench", "search", "search, workbench", most=25),
    Row(
        "200 nearest of 100,000 vectors of 384 numbers",
        "vectors",
        "resident",
        "NumPy product and full sort",
        most=6,
    ),
    Row("first index, 2,000 notes", "first", "static embedder", "no embeddings", most=4_800),
    Row("size of the index, 2,000 notes", "cold", "index, MB", "qmd index, MB", most=30, unit="MB"),
    *(
        Row(f"first frame, {files:,} notes", f"keys, documented, {files}", "first frame", most=300)
        for files in (2000, 20000)
    ),
    *(
        Row(f"{key}, {files:,} notes, {profile}", f"keys, {profile}, {files}", row, most=most[at])
        for at, files in enumerate((2000, 20000))
        for profile in ("documented", "workbench")
        for key, (row, most) in _KEYS.items()
    ),
    *(
        Row(f"QMD backend: {step}", "qmd", f"{step}, ours", f"{step}, qmd", 1.0)
        for step in ("first update", "nothing changed", "one file changed", "search", "query without models")
    ),
)
#: Rows whose CPU grows with notes, from 2,000 to 20,000, to the power of this at most.
GROWING, _MOST_EXPONENT = ("openclaw-mem search", "openclaw-mem search --no-sync"), 0.15


def main() -> int:
    options = given(
        quick=(False, "smaller corpora, few rounds"),
        only=("", f"part of the name of what to run: {'; '.join(RUNS)}"),
    )
    missing, before = install_qmd(), os.getloadavg()[0]
    measured: dict[str, dict[str, float]] = {}
    reasons: dict[str, str] = {}
    for name, (script, full, quick) in RUNS.items():
        if options.only not in name:
            continue
        began = time.monotonic()
        try:
            measured[name] = run(script, (quick if options.quick else full).split())
        except subprocess.CalledProcessError as error:
            said = error.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
            reasons[name] = f"{script}.py ended with {error.returncode}: {said[-1][:200]}"
        except (OSError, ValueError) as error:
            reasons[name] = f"{script}.py kept no numbers: {error}"
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    corpora = (
        "Smaller corpora than these names say: limits in ms and MB are not compared. "
        if options.quick
        else ""
    )
    print_table(
        f"Ours and peers, {time.strftime('%Y-%m-%d')}",
        [
            ("work", "ours (CPU ms)", "peer", "peer (CPU ms)", "limit", "ratio", "result"),
            *lines(measured, reasons, missing, quick=options.quick),
        ],
        f"{corpora}Medians of interleaved rounds; the ratio is to the peer, or else to the limit.",
        f"{cpu_model()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}; "
        f"load {before:.1f} before, {os.getloadavg()[0]:.1f} after.",
        *([missing] if missing else []),
        *(f"Not measured, {name}: {reason}" for name, reason in reasons.items()),
    )
    return 1 if reasons else 0


def run(script: str, arguments: list[str]) -> dict[str, float]:
    """The rows of one benchmark. Raises CalledProcessError."""
    with scratch() as folder:
        rows = folder / "rows"
        command = [sys.executable, str(HERE / f"{script}.py"), *arguments]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, ROWS_VARIABLE: str(rows)})
        return dict(json.loads(line) for line in rows.read_text("utf-8").splitlines())


def lines(
    measured: Measured, reasons: Mapping[str, str], missing: str = "", *, quick: bool = False
) -> list[tuple[str, ...]]:
    """The rows of the table, of the runs that were made: ``reasons`` tell by run why it has no numbers,
    ``missing`` why the peer has none."""
    made = []
    slower = max(1.0, measured.get("cold", {}).get(_FLOOR, 0.0) / _FLOOR_MS)
    for row in ROWS:
        numbers, unit = measured.get(row.run, {}), "" if row.unit == "ms" else f" {row.unit}"
        ours, peer = numbers.get(row.ours), numbers.get(row.peer)
        if row.run not in measured and row.run not in reasons:
            continue  # it was not asked for
        if ours is None or (peer is None and row.ratio is not None):
            why = "the run failed" if row.run in reasons else "no such row"
            if ours is not None:
                why = "no peer" if missing else "no row of the peer"
            made.append((row.work, "" if ours is None else f"{ours:.1f}{unit}", row.peer, "", "", "", why))
            continue
        limit, ratio, verdict = "", "", ""
        if peer is not None:
            ratio = f"{ours / peer:.2f}"
        if row.ratio is not None and peer is not None:
            limit, verdict = f"≤ {row.ratio:g} ×", _met(ours / peer, row.ratio)
        elif row.most is not None and not quick:
            most = row.most * (slower if row.unit == "ms" else 1.0)
            limit = f"≤ {most:.3g}{unit}" if most < 1000 else f"≤ {most:.0f}{unit}"
            verdict = _met(ours, most)
            ratio = ratio or f"{ours / most:.2f}"
        its = "" if peer is None else f"{peer:.1f}{unit}"
        made.append((row.work, f"{ours:.1f}{unit}", row.peer if its else "", its, limit, ratio, verdict))
    for command in GROWING:
        small, large = (measured.get(run, {}).get(command) for run in ("cold", "cold, large"))
        work = f"growth of {command.partition(' ')[2]}, 2,000 → 20,000 notes (exponent)"
        if small and large:
            exponent = math.log10(large / small)
            verdict = "" if quick else _met(exponent, _MOST_EXPONENT)
            made.append((work, f"{exponent:.2f}", "", "", f"≤ {_MOST_EXPONENT:g}", "", verdict))
        elif {"cold", "cold, large"} & set(reasons):
            made.append((work, "", "", "", "", "", "the run failed"))
    return made


def _met(value: float, limit: float) -> str:
    return "met" if value <= limit else "MISSED"


def install_qmd() -> str:
    """Install the program qmd where it is missing, as the tests do; why that cannot be done, or ""."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    import pytest

    from support.qmd import INSTALL, real_qmd

    os.environ[INSTALL] = "install"
    try:
        real_qmd()
    except pytest.skip.Exception as reason:
        return f"Without the peer: {reason}"
    return ""


def cpu_model() -> str:
    """Its name, where the system tells."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main())
