"""Processes that are killed, and processes at once: the commands under ``benchmarks``, in short. ``.ci/run``
kills 200 times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(script: str, *options: str) -> Any:
    """The JSON that a command prints; its exit code must be 0."""
    if not hasattr(os, "fork"):
        pytest.skip("the command forks")
    if not (BENCHMARKS / script).exists():
        pytest.skip("the benchmarks are not part of this distribution")
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / script), *options, "--json"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def test_kills_at_random_points_leave_a_whole_index_and_lose_nothing() -> None:
    result = run("crash.py", "--kills", "15")
    assert (result["inconsistent"], result["lost"], result["died"]) == ([], [], [])
    assert result["reader"]["errors"] == []
    assert result["kills"] == sum(result["phases"].values()) == 15
    assert result["phases"]["rebuilding"] > 0
    assert result["phases"]["syncing"] > 0
    assert result["repairs"] + result["phases"].get("repairing", 0) > 0
    assert result["acknowledged"] > 0
    assert result["reader"]["searches"] > 10


def test_kills_while_nobody_else_has_the_index_open() -> None:
    result = run("crash.py", "--kills", "4", "--alone")
    assert (result["inconsistent"], result["lost"], result["died"]) == ([], [], [])
    assert result["reader"]["searches"] == 0


def test_four_readers_and_a_writer_never_meet_a_lock() -> None:
    result = run("concurrency.py", "--seconds", "2")
    assert result["wrong"] == []
    assert [one["errors"] for one in result["processes"]] == [[]] * 5
    assert all(one["calls"] > 3 for one in result["processes"])
