"""Memories over real folders, for tests: settings without a home, real SQLite files."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openclaw_mem_engine.config.load import index_path, load_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.config.sources import UserFolders
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.retrieval.builtin import BuiltinBackend
from openclaw_mem_engine.state import private_folder


def settings_for(workspace: Path, home: Path, **environ: str) -> Settings:
    """Settings of a workspace, with everything of ours below ``home`` and no other environment."""
    home.mkdir(parents=True, exist_ok=True)
    return load_settings(
        workspace=workspace,
        environ={"OPENCLAW_MEM_HOME": str(home / "data"), **environ},
        home=home,
        cwd=workspace if workspace.exists() else home,
        folders=UserFolders(home / "data", home / "config"),
    )


def empty_workspace(root: Path, **environ: str) -> Settings:
    """The settings of a workspace below ``root`` with a folder for daily notes, and no note yet."""
    (root / "ws" / "memory").mkdir(parents=True)
    return settings_for(root / "ws", root, **environ)


def open_memory(
    workspace: Path,
    home: Path,
    *,
    provider: str = "static",
    clock: Callable[[], float] | None = None,
    resident: bool = False,
    **environ: str,
) -> Memory:
    """A memory over a workspace; index it with ``sync()``."""
    settings = settings_for(workspace, home, OPENCLAW_MEM_PROVIDER=provider, **environ)
    options: dict[str, Any] = {"clock": clock} if clock else {}
    return Memory.open(settings, resident=resident, **options)


def write_notes(workspace: Path, notes: dict[str, str]) -> Path:
    """Files by workspace-relative path."""
    for path, text in notes.items():
        target = workspace / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
    return workspace


def age(path: Path, seconds: float = 3600) -> None:
    """Make a file look as if it was written a while ago."""
    then = time.time() - seconds
    os.utime(path, (then, then))


def copy_indexed(source: Path, target: Path, workspace: str, data: str = "data") -> None:
    """Copy a folder with an indexed workspace: files with their times, and the index, which holds no absolute
    path, to where the copy's own index is expected. Nothing else of the data folder is copied: its event log
    names the first workspace. ``workspace`` and ``data`` are paths below ``source``."""

    def our_data(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(folder, name) == source / data]

    shutil.copytree(source, target, dirs_exist_ok=True, ignore=our_data)
    for index in (source / data / "indexes").glob("*/*.sqlite"):
        placed = index_path(target / data, target / workspace, index.stem)
        private_folder(placed.parent)
        shutil.copy2(index, placed)


def backend_of(memory: Memory) -> BuiltinBackend:
    """The builtin backend of a memory, for tests that look below the facade."""
    backend = memory._backend
    assert isinstance(backend, BuiltinBackend)
    return backend
