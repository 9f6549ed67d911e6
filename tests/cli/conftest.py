"""Worlds to run the command in, and the command called in this process (a new one costs 0.3 s each)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Call, World, caller, new_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Four small notes, nothing indexed."""
    return new_world(tmp_path / "world")


@pytest.fixture
def call(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """``call("search", "x")`` runs the command in this process on ``world``."""
    return caller(world, monkeypatch, capsys, ["--workspace", str(world.workspace)])


@pytest.fixture
def bare(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The same without naming a workspace."""
    return caller(world, monkeypatch, capsys, [])


@pytest.fixture
def demo_call(demo_world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The command in this process, where the demo is written and indexed."""
    return caller(demo_world, monkeypatch, capsys, [])


@pytest.fixture(scope="session")
def demo_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world with the demo written and indexed; tests only look at it."""
    world = new_world(tmp_path_factory.mktemp("demo") / "world")
    workspace = world.run("demo", "--print-workspace").stdout.decode().strip()
    done = world.run("index", "--workspace", workspace)
    assert done.returncode == 0, done.stderr
    yield world
