"""Limits of the source: how long a file is, and how deep a search calls."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import apsw
import pytest

import openclaw_mem_engine
import openclaw_mem_tui
from openclaw_mem_engine.cli.main import run

PACKAGES = [Path(package.__path__[0]) for package in (openclaw_mem_engine, openclaw_mem_tui)]
MOST_LINES_OF_A_FILE = 350
#: Our own frames from the entry point of the command to the statement of the BM25 list.
MOST_FRAMES = 12


def sizes() -> dict[str, int]:
    """Lines of every source file, by its path below the repository."""
    return {
        str(path.relative_to(package.parent)): len(path.read_bytes().splitlines())
        for package in PACKAGES
        for path in package.rglob("*.py")
    }


def test_no_file_is_long() -> None:
    long = {name: lines for name, lines in sizes().items() if lines > MOST_LINES_OF_A_FILE}
    assert long == {}


def test_a_search_reaches_its_statement_in_few_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENCLAW_MEM_HOME", str(tmp_path / "data"))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "MEMORY.md").write_text("# Network\n\nThe router answers on port 8443.\n")
    options = ["--workspace", str(workspace), "--provider", "static"]
    assert run(["index", *options]) == 0

    paths: list[list[str]] = []

    def watched(_cursor: apsw.Cursor, sql: str, _bound: object) -> bool:
        if "bm25(" in sql:
            paths.append(our_calls(sys._getframe(1)))
        return True

    def opened(connection: apsw.Connection) -> None:
        connection.exec_trace = watched

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, opened])
    assert run(["search", "router", *options]) == 0
    assert paths, "the BM25 list was read"
    for path in paths:
        assert path[0] == "main.run"
        assert len(path) <= MOST_FRAMES, " > ".join(path)


def our_calls(frame: FrameType | None) -> list[str]:
    """Names of the calls in our packages that lead to ``frame``, the outermost first."""
    calls = []
    while frame is not None:
        file = Path(frame.f_code.co_filename)
        if any(file.is_relative_to(package) for package in PACKAGES):
            calls.append(f"{file.stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return calls[::-1]
