"""The table of ours and peers: what it says of numbers, and that its rows are those of the benchmarks."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    if not BENCHMARKS.exists():
        pytest.skip("the benchmarks are not part of this distribution")
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def test_limits_are_ratios_to_the_peer_or_numbers() -> None:
    lines = import_module("peers").lines

    cold = {"openclaw-mem search": 150.0, 'python -c "import numpy, apsw"': 100.0, "qmd search": 100.0}
    large = {"status()": 500.0}
    measured = {"cold": cold, "cold, large": {"openclaw-mem search": 1_500.0}, "large": large}
    shown = {(row[0], row[2]): row[1:] for row in lines(measured, {})}
    floor = 'python -c "import numpy, apsw"'
    name = "search as a command, 2,000 notes"
    assert shown[name, floor] == ("150.0", floor, "100.0", "≤ 1.6 ×", "1.50", "met")
    assert shown["the same, beside qmd", "qmd search"][-2:] == ("1.50", "MISSED")
    assert shown["state of the index, 20,000 notes", ""] == ("500.0", "", "", "≤ 400", "1.25", "MISSED")
    assert shown["growth of search, 2,000 → 20,000 notes (exponent)", ""][0] == "1.00"
    quick = {row[0]: row[1:] for row in lines(measured, {}, quick=True)}
    assert quick["state of the index, 20,000 notes"] == ("500.0", "", "", "", "", "")


def test_limits_in_ms_grow_with_the_start_of_python_but_not_below_what_was_set() -> None:
    peers = import_module("peers")
    cold = {'python -c "import numpy, apsw"': 2 * peers._FLOOR_MS, "index, MB": 31.0}
    shown = {row[0]: row for row in peers.lines({"cold": cold, "large": {"status()": 500.0}}, {})}
    assert shown["state of the index, 20,000 notes"][-3:] == ("≤ 800", "0.62", "met")
    size = shown["size of the index, 2,000 notes"]
    assert size[1] == "31.0 MB" and size[-3:] == ("≤ 30 MB", "1.03", "MISSED")


def test_a_row_without_numbers_says_why() -> None:
    lines = import_module("peers").lines

    measured = {"cold": {"openclaw-mem search": 150.0, 'python -c "import numpy, apsw"': 100.0}}
    rows = list(lines(measured, {"scan": "rescan.py ended with 1"}, "npm is not installed"))
    ends = ["met", "no peer", "no such row", *["the run failed"] * 2, "no such row"]
    assert [row[-1] for row in rows] == ends
    assert rows[1][:3] == ("the same, beside qmd", "150.0", "qmd search")
    assert lines({}, {}) == [], "what was not asked for has no row"


def test_a_run_that_fails_does_not_end_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    peers = import_module("peers")
    monkeypatch.setattr(peers, "install_qmd", lambda: "")
    runs = {"scan": ("rescan", "--files none", ""), "large": ("_whole", "", "")}
    monkeypatch.setattr(peers, "RUNS", runs)
    monkeypatch.setattr(sys, "argv", ["peers.py"])
    assert peers.main() == 1
    printed = capsys.readouterr().out
    assert "Not measured, scan: rescan.py ended with 2: " in printed
    assert "Not measured, large: _whole.py kept no numbers: " in printed
    assert printed.count("the run failed") == 4


def test_every_row_is_one_of_its_benchmark() -> None:
    peers = import_module("peers")

    assert {row.run for row in peers.ROWS} <= set(peers.RUNS)
    for row in peers.ROWS:
        text = (BENCHMARKS / f"{peers.RUNS[row.run][0]}.py").read_text("utf-8")
        for name in filter(None, (row.ours, row.peer)):
            assert all(part in text for part in name.split(", ")), name


def test_the_page_shows_a_whole_run_with_the_limits_of_today() -> None:
    peers = import_module("peers")

    page = (BENCHMARKS / "README.md").read_text("utf-8")
    table = page[page.index("| work ") :].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]

    def number(cell: str) -> float:
        return float(cell.removesuffix(" MB"))

    measured: dict[str, dict[str, float]] = {run: {} for run in peers.RUNS}
    for row, shown in zip(peers.ROWS, cells, strict=False):
        measured[row.run] |= {row.ours: number(shown[1])} | ({row.peer: number(shown[3])} if row.peer else {})
    printed, rows = [list(row) for row in peers.lines(measured, {})], cells[: -len(peers.GROWING)]
    assert [row[0] for row in rows] == [row[0] for row in printed]
    assert [(row[4], row[6]) for row in rows] == [(row[4], row[6]) for row in printed]
    assert all(row[0].startswith("growth of search") for row in cells[len(rows) :])
    assert {row[4] for row in cells[len(rows) :]} == {f"≤ {peers._MOST_EXPONENT}"}
