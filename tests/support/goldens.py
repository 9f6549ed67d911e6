"""Recorded outputs of the real programs, as plain data beside the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "openclaw"
WORKSPACE = DATA / "workspace"
MODEL = "hash-bow-256"


def golden(name: str) -> Any:
    """The content of one recorded file."""
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))
