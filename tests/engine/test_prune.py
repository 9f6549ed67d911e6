"""Pruning the cache beside a sync: the vectors that it has just made belong to no passage yet."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import CacheSettings
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync.lock import SyncBusy, SyncLock
from support.damage import indexed, looked
from support.memories import write_notes


def test_another_process_waits_for_the_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = indexed(tmp_path, {"MEMORY.md": "The router is a gull.\n"})
    write_notes(settings.workspace, {"memory/new.md": "The zeppelin lands at noon.\n"})
    argv = [sys.executable, "-m", "openclaw_mem_engine.cli", "cache", "prune", "--max", "0"]
    environ = {**os.environ, "OPENCLAW_MEM_HOME": str(settings.data_dir), "OPENCLAW_MEM_PROVIDER": "static"}
    pruning: list[subprocess.Popen[str]] = []
    real = SqliteIndex.apply

    def apply(self: SqliteIndex, *changes: Any, **options: Any) -> None:
        """What was embedded is in the cache, and not yet written."""
        process = subprocess.Popen(
            [*argv, "--workspace", str(settings.workspace)], env=environ, stdout=subprocess.PIPE, text=True
        )
        pruning.append(process)
        with suppress(subprocess.TimeoutExpired):
            process.wait(3.0)
        assert process.poll() is None, "it waits"
        real(self, *changes, **options)

    monkeypatch.setattr(SqliteIndex, "apply", apply)
    with Memory.open(settings) as memory:
        assert memory.sync().changed == ("memory/new.md",)
        assert pruning[0].communicate(timeout=30)[0].startswith("0 embeddings removed; 2 remain")
        assert (pruning[0].returncode, memory.status().vectors) == (0, 2)
    assert [finding.code for finding in looked(settings).findings if finding.severity != "info"] == []


def test_it_gives_up_after_a_while_or_when_it_is_stopped(tmp_path: Path) -> None:
    settings = indexed(tmp_path, {"MEMORY.md": "The router is a gull.\n", "memory/a.md": "A heron.\n"})
    (settings.workspace / "memory" / "a.md").unlink()
    with Memory.open(settings) as memory:
        memory.sync()
        stop = threading.Event()
        stop.set()
        with SyncLock(settings.index_path, "rebuilding").holding():
            with pytest.raises(SyncBusy, match=r"rebuilding for .* try again when it is done"):
                memory.prune_cache(0, wait_s=0.1)
            with pytest.raises(Cancelled):
                memory.prune_cache(0, stop)
        assert memory.prune_cache(0) == 1


def test_a_sync_looks_for_unused_embeddings_when_there_may_be_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = {f"memory/{number:03}.md": f"Heron number {number}.\n" for number in range(100)}
    settings = replace(indexed(tmp_path, notes), cache=CacheSettings(max_entries=1))
    looked_through: list[int] = []
    real = SqliteIndex.prune_cache

    def prune(self: SqliteIndex, most: int) -> int:
        looked_through.append(self.counts().cached)
        return real(self, most)

    monkeypatch.setattr(SqliteIndex, "prune_cache", prune)
    with Memory.open(settings) as memory:
        for number in range(3):
            write_notes(settings.workspace, {"memory/000.md": f"A gull, {number}.\n"})
            memory.sync()
        assert looked_through == [103], "two unused ones among 102 are not worth it"
        assert memory.status().cached == 100
