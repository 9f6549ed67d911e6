"""The table of ours and peers: what it says of numbers, and that its rows are those of the benchmarks."""

from __future__ import annotations

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
    shown = {(row[0], row[2]): row[1:] for row in lines(measured)}
    floor = 'python -c "import numpy, apsw"'
    name = "search, whole process, 2,000 notes"
    assert shown[name, floor] == ("150.0", floor, "100.0", "≤ 1.6 ×", "1.50", "met")
    assert shown["the same", "qmd search"][-2:] == ("1.50", "MISSED")
    assert shown["state of 20,000 notes", ""] == ("500.0", "", "", "≤ 400", "1.25", "MISSED")
    assert shown["search, 2,000 → 20,000 notes: exponent", ""][0] == "1.00"
    assert len(shown) == 4, "what was not measured has no row"
    quick = {row[0]: row[1:] for row in lines(measured, quick=True)}
    assert quick["state of 20,000 notes"] == ("500.0", "", "", "", "", "")


def test_every_row_is_one_of_its_benchmark() -> None:
    peers = import_module("peers")

    assert {row.run for row in peers.ROWS} <= set(peers.RUNS)
    for row in peers.ROWS:
        text = (BENCHMARKS / f"{peers.RUNS[row.run][0]}.py").read_text("utf-8")
        for name in filter(None, (row.ours, row.peer)):
            assert all(part in text for part in name.split(", ")), name
