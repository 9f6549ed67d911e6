"""Recorded outputs of the real programs, as plain data beside the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).parent.parent / "data" / "openclaw"
WORKSPACE = DATA / "workspace"
MODEL = "hash-bow-256"


def golden(name: str) -> Any:
    """The content of one recorded file."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


#: Recordings of the program qmd, in a folder beside the repository; too large to be copied.
QMD = Path(__file__).parents[3] / "shared/goldens/qmd"


def qmd_golden(name: str) -> Any:
    """The content of one recorded file of QMD; skips the test where the recordings are absent."""
    path = QMD / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the recordings of QMD are not on this machine ({path})")
    return json.loads(path.read_text("utf-8"))
