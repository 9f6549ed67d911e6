"""How the index stands to the files: looks and syncs agree, and the newer one counts."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import ProviderSettings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync.changes import scan
from support.damage import indexed

PATIENCE_S = 20


def state(memory: Memory) -> str:
    """As answers tell it."""
    known = memory.retrieve("heron").freshness
    assert known is not None
    return known.state


def test_after_a_refused_rebuild_the_index_is_stale_for_everybody(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    keyless = replace(settings, provider=ProviderSettings("openai"))
    with Memory.open(keyless) as memory:
        assert not memory.sync().rebuilt
        assert state(memory) == "stale"
        assert memory.freshness().state == "stale"
        assert state(memory) == "stale"
    with Memory.open(settings) as memory:
        memory.sync()
        assert (state(memory), memory.freshness().state) == ("fresh", "fresh")


def test_a_look_from_before_a_sync_does_not_undo_what_the_sync_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = indexed(tmp_path)
    scanned, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        found = scan(*arguments)
        scanned.set()
        assert go_on.wait(PATIENCE_S)
        return found

    monkeypatch.setattr("openclaw_mem_engine.sync.changes.scan", slow)
    seen = []
    with Memory.open(settings) as memory:
        (settings.workspace / "memory" / "new.md").write_text("A zeppelin was seen.\n", "utf-8")
        looking = threading.Thread(target=lambda: seen.append(memory.freshness()))
        looking.start()
        assert scanned.wait(PATIENCE_S)
        assert memory.sync().changed == ("memory/new.md",)
        go_on.set()
        looking.join(PATIENCE_S)
        assert [(found.state, found.changed) for found in seen] == [("stale", ("memory/new.md",))]
        assert state(memory) == "fresh"


def test_a_look_during_a_sync_does_not_outlive_it(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    seen = []
    with Memory.open(settings) as memory:
        (settings.workspace / "memory" / "new.md").write_text("A zeppelin was seen.\n", "utf-8")
        memory.sync(progress=lambda *_: seen.append(memory.freshness().state))
        assert seen and state(memory) == "fresh"
