"""Keeping the index of the external ``qmd`` up to date: at a sync, at a search, and by a timer."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from openclaw_mem_engine.retrieval.fallback import FallbackBackend
from openclaw_mem_engine.sidecar.paths import qmd_home
from openclaw_mem_engine.sync.report import SyncRequest
from support.commands import is_running, until
from support.goldens import golden
from support.qmd_world import ROWS, QmdWorld, codes


@pytest.fixture
def world(tmp_path: Path) -> QmdWorld:
    return QmdWorld(tmp_path)


def test_a_whole_sync_updates_both_and_makes_vectors_where_they_are_searched(world: QmdWorld) -> None:
    with world.memory() as memory:
        memory.sync()
    assert world.qmd.commands[-1] == "update"
    with world.memory({"searchMode": "query"}) as memory:
        memory.sync(SyncRequest(tails=True))
        assert world.qmd.commands[-2:] == ["update", "embed"]
        world.qmd.answers(update={"code": 1, "stderr": "broken"})
        report = memory.sync()
        assert any("broken" in note.text for note in report.notes)
        assert "qmd-update-failed" in {note.code for note in memory.notes}


def test_a_search_after_a_change_of_the_notes_updates_the_program_or_says_that_it_is_older(
    world: QmdWorld,
) -> None:
    search = SyncRequest(files_s=60.0)
    with world.memory() as memory:
        memory.sync()
        assert memory.freshness().state == "fresh" and "qmd-stale" not in codes(memory)
        _ = world.qmd.commands
        memory.sync(search)
        assert world.qmd.commands == [], "nothing changed"
        (world.workspace / "memory" / "2026-02-20.md").unlink()
        memory.sync(search)
        answer = memory.search("router")
        assert "update" not in world.qmd.commands, "too soon after the last one"
        assert "qmd-stale" in {note.code for note in answer.trace.notes}
        assert answer.pool.freshness is not None and answer.pool.freshness.state == "stale"
        assert memory.freshness().state == "stale"
        world.clock.now += 16
        memory.sync(search)
        assert "update" in world.qmd.commands
        assert "qmd-stale" not in codes(memory) and memory.freshness().state == "fresh"
        (world.workspace / "memory" / "new.md").write_text("new")
        world.clock.now += 16
        world.qmd.answers(update={"code": 1, "stderr": "broken"}, search={"rows": ROWS})
        memory.sync(search)
        assert codes(memory) >= {"qmd-stale", "qmd-update-failed"} and memory.freshness().state == "stale"
        _ = world.qmd.commands
        memory.sync(search)
        assert world.qmd.commands == [], "one that failed waits, too"


def test_a_search_waits_for_an_update_no_longer_than_its_own_time(world: QmdWorld) -> None:
    with world.memory() as memory:
        memory.search("nadia")
    world.qmd.answers(update={"hang": True}, search={"rows": ROWS})
    with world.memory({"limits": {"timeoutMs": 1_500}}) as memory:
        memory.sync(SyncRequest(files_s=60.0))
        assert memory.freshness().state == "stale"
        backend = memory.backend
        assert isinstance(backend, FallbackBackend)
        assert "within" in backend.primary.upkeep.state.facts.update_error


def test_conversations_are_exported_as_recorded(world: QmdWorld) -> None:
    case = next(one for one in golden("qmd_cli") if one["label"] == "sessions export")
    sessions = world.root / "home" / ".openclaw" / "agents" / "main" / "sessions"
    sessions.mkdir(parents=True)
    says = [("user", "hello there friend"), ("assistant", "hi")]
    lines = [
        json.dumps({"type": "message", "message": {"role": role, "content": text}}) for role, text in says
    ]
    (sessions / "abc.jsonl").write_text("\n".join(lines) + "\n")
    (sessions / "empty.jsonl").write_text("\n")
    (sessions / "old.jsonl").write_text(lines[0] + "\n")
    os.utime(sessions / "old.jsonl", (1, 1))
    now = (sessions / "abc.jsonl").stat().st_mtime
    world.clock.now = now
    with world.memory({"sessions": {"enabled": True, "retentionDays": 3}}) as memory:
        target = qmd_home(memory.settings) / "sessions"
        target.mkdir(parents=True)
        (target / "gone.md").write_text("stale")
        memory.sync()
        exported = {file.name: file.read_text() for file in target.iterdir()}
        assert exported == case["exported"]
        assert memory.get("qmd/sessions-main/abc.md").text == exported["abc.md"]
    added = next(call for call in world.qmd.commands if "sessions-main" in call)
    assert added == f"collection add {target} --name sessions-main --mask **/*.md"


def test_a_resident_memory_updates_at_its_start_and_ends_with_its_thread(world: QmdWorld) -> None:
    with world.memory(resident=True):
        until(lambda: any(call["argv"] == ["update"] for call in world.qmd.calls))
    assert not any(thread.name == "qmd" for thread in threading.enumerate())
    world.qmd.answers(update={"hang": True})
    with world.memory(resident=True):
        until(lambda: world.qmd.hanging)
    for pid in world.qmd.hanging:
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def test_one_shot_commands_start_no_thread_and_may_wait_for_the_update(world: QmdWorld) -> None:
    with world.memory():
        assert world.qmd.calls == []
    with world.memory({"update": {"waitForBootSync": True}}) as memory:
        assert world.qmd.commands[-1] == "update"
        backend = memory._backend
        assert isinstance(backend, FallbackBackend) and backend.primary.upkeep._thread is None


def test_vectors_are_made_when_they_are_due_and_failures_wait_longer(world: QmdWorld) -> None:
    with world.memory({"searchMode": "vsearch"}) as memory:
        backend = memory._backend
        assert isinstance(backend, FallbackBackend)

        def embeds() -> int:
            _ = world.qmd.commands
            steps = [step.what for step in backend.primary.upkeep.update()]
            assert "update" in steps
            return steps.count("embed")

        assert [embeds(), embeds()] == [1, 0]
        world.clock.now += 3_601
        world.qmd.answers(embed={"code": 1, "stderr": "no model"})
        assert embeds() == 1
        world.clock.now += 59
        assert embeds() == 0
        world.clock.now += 1
        assert embeds() == 1
        world.clock.now += 60
        assert embeds() == 0, "the second failure waits 120 seconds"
        assert "no model" in " ".join(note.text for note in memory.notes)
