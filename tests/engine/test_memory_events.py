"""What a memory writes into the event log."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import Cancelled, IndexDamaged, IndexUnavailable, UsageError, WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.state.events import (
    EVENTS_FILE,
)
from openclaw_mem_engine.sync.events import Journal
from openclaw_mem_engine.sync.lock import SyncBusy, SyncLock
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from support.damage import alter
from support.embed_server import running_server, unauthorized
from support.providers import SECRET, World, make_world


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def test_a_sync_that_did_something_is_written_down_and_no_other(world: World) -> None:
    with world.memory() as memory:
        memory.sync()
        memory.sync()
        memory.search("bicycle")
        memory.status()
        memory.freshness()
    (event,) = world.events()
    assert (event.kind, event.agent, event.workspace) == ("sync", "main", str(world.workspace))
    assert event.text == "4 files new or modified; 4 texts embedded."
    assert event.counts["changed"] == event.counts["files"] == 4 and event.counts["removed"] == 0
    assert event.at == world.clock.now and event.seconds is not None and event.seconds > 0
    world.write({"memory/new.md": "# New\n"})
    (world.workspace / "MEMORY.md").unlink()
    with world.memory() as memory:
        memory.sync()
    assert world.events()[-1].text.startswith("1 file new or modified (memory/new.md), 1 deleted")


def test_a_rebuild_says_why(world: World) -> None:
    with world.memory() as memory:
        memory.sync()
        memory.sync(SyncRequest(force=True))
    world.configure('name = "none"')
    settings = world.settings()
    changed = replace(settings, chunking=replace(settings.chunking, tokens=100, overlap=20))
    with Memory.open(changed, clock=world.clock) as memory:
        memory.sync()
    kinds = [event.kind for event in world.events()]
    assert kinds == ["sync", "rebuild", "rebuild"]
    asked, needed = world.events()[1:]
    assert asked.text == "Index rebuilt with 4 files." and asked.reason == ""
    assert "Settings changed" in needed.reason


def test_a_sync_that_fails_or_is_stopped(world: World) -> None:
    stop = threading.Event()
    stop.set()
    with world.memory() as memory:
        with pytest.raises(Cancelled):
            memory.sync(cancel=stop)
        memory.sync()
        with pytest.raises(Cancelled):
            memory.sync(SyncRequest(force=True), cancel=stop)
        (world.workspace / "MEMORY.md").unlink()
        world.workspace.rename(world.folder / "away")
        for _ in range(3):
            with pytest.raises(WorkspaceError):
                memory.sync()
        world.clock.forward(601)
        with pytest.raises(WorkspaceError):
            memory.sync()
    events = world.events()
    assert [event.kind for event in events] == ["sync", "sync", "rebuild", "sync", "sync"]
    assert events[0].text == "The sync was stopped: finished work is kept."
    assert events[0].reason == "Indexing was stopped; the index holds 0 files, 0 chunks, 0 vectors."
    assert events[2].text == "The rebuild was stopped: the index is unchanged."
    assert events[2].reason == "The rebuild was stopped; the index is unchanged."
    assert events[3].text == "The sync failed." and str(world.workspace) in events[3].reason


def test_a_sync_that_damage_ends_has_kept_nothing(world: World) -> None:
    with (
        closing(Journal(world.settings())) as journal,
        pytest.raises(IndexDamaged),
        journal.syncing(SyncReport(), lambda: False),
    ):
        raise IndexDamaged("The index is damaged.")
    (event,) = world.events()
    assert (event.text, event.reason) == ("The sync failed.", "The index is damaged.")


def test_a_joined_sync_is_written_down_once(world: World) -> None:
    with running_server() as server:
        world.use(server)
        go, started = threading.Event(), threading.Event()

        def hold(_done: int, _total: int, _label: str) -> None:
            started.set()
            go.wait(10)

        with world.memory() as memory:
            first = threading.Thread(target=lambda: memory.sync(progress=hold))
            first.start()
            assert started.wait(10)
            second = threading.Thread(target=memory.sync)
            second.start()
            time.sleep(0.3)
            go.set()
            first.join(20)
            second.join(20)
    assert [event.kind for event in world.events()] == ["sync"]


def test_a_sync_that_leaves_the_work_to_another_is_no_failure(world: World) -> None:
    with world.memory() as memory:
        with SyncLock(memory.settings.index_path).holding(), pytest.raises(SyncBusy):
            memory.sync(SyncRequest(wait_s=0))
        assert world.events() == []


def test_a_fallback_and_the_recovery_are_told_once_over_all_processes(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            memory.search("bicycle")
            server.forever = unauthorized()
            memory.search("bicycle")
            memory.search("something else")
        with world.memory() as memory:
            memory.search("bicycle")
        assert [event.kind for event in world.events()] == ["sync", "fallback"]
        # Another provider for one call is no recovery of this one.
        world.use(server, name="none")
        with world.memory() as memory:
            memory.search("bicycle")
        world.use(server)
        server.forever = None
        world.clock.forward(3600)
        for _ in range(2):
            with world.memory() as memory:
                memory.search("bicycle")
                memory.search("bicycle")
    fallback, recovered = world.events()[1:]
    assert fallback.text == "BM25 only (openai failed)."
    assert "401" in fallback.reason and SECRET not in fallback.reason
    assert (recovered.kind, recovered.text) == ("recovered", "Searches use openai again.")
    assert recovered.seconds == 3600


def test_another_fallback_is_news_and_the_outage_counts_from_its_begin(world: World) -> None:
    with running_server() as server:
        world.use(server, 'fallback = "static"')
        with world.memory() as memory:
            memory.sync()
            server.forever = unauthorized()
            memory.search("bicycle")
        world.clock.forward(100)
        world.use(server)
        with world.memory() as memory:
            memory.search("bicycle")
        server.forever = None
        world.clock.forward(3600)
        with world.memory() as memory:
            memory.search("bicycle")
    assert [event.kind for event in world.events()] == ["sync", "fallback", "fallback", "recovered"]
    assert world.events()[1].text.startswith("Vectors of static")
    assert world.events()[-1].seconds == 3700


def test_a_sync_without_its_vectors_says_so_once(world: World) -> None:
    with running_server() as server:
        world.use(server)
        server.forever = unauthorized()
        for _ in range(3):
            with world.memory() as memory:
                memory.sync()
    (event,) = world.events()
    assert event.text == "4 files new or modified; vectors are missing." and event.ended == "failed"
    assert "text without embeddings" in event.reason


def test_a_rebuild_that_its_provider_refuses_is_an_event_each_time_it_is_asked_for(world: World) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
    with running_server(forever=unauthorized()) as server:
        world.use(server)
        for tails in (False, False, True, True):  # those of a watcher, and of a key
            with world.memory() as memory:
                report = memory.sync(SyncRequest(tails=tails))
                assert report.shortfall == "the index was not rebuilt"
    first, *failed = world.events()
    assert [event.text for event in failed] == ["The index was not rebuilt."] * 3
    assert {event.ended for event in failed} == {"failed"} and not first.ended
    assert first.text != failed[0].text and "keeps its vectors of static" in failed[0].reason


def test_a_search_that_fails_is_told_without_its_query(world: World) -> None:
    with world.memory() as memory:
        memory.sync()
        for query in ("", "   "):
            with pytest.raises(UsageError):
                memory.search(query)
        stop = threading.Event()
        stop.set()
        with pytest.raises(Cancelled):
            memory.search("bicycle", cancel=stop)
        assert [event.kind for event in world.events()] == ["sync"]
        alter(memory.settings, "DROP TABLE chunks")
        for _ in range(3):
            with pytest.raises(IndexUnavailable):
                memory.search("a very private question about a bicycle")
    event = world.events()[-1]
    assert [event.kind for event in world.events()] == ["sync", "search-failed"]
    assert event.text == "A search failed." and event.reason and "private" not in event.reason


def test_an_index_that_cannot_be_opened(world: World) -> None:
    path = world.settings().index_path
    path.parent.mkdir(parents=True)
    path.write_bytes(b"nothing of the kind" * 500)
    for _ in range(2):
        with pytest.raises(IndexDamaged):
            world.memory()
    (event,) = world.events()
    assert event.kind == "search-failed" and "could not be opened" in event.text


def test_faults_on_purpose_are_not_written_down(world: World) -> None:
    with world.memory() as memory:
        memory.sync()
    with world.memory(["embeddings-401"]) as memory:
        answer = memory.search("bicycle")
        assert answer.pool.fallback is not None
        assert "event-log" not in [note.code for note in memory.notes]
    assert [event.kind for event in world.events()] == ["sync"]


def test_a_log_that_cannot_be_written_stops_nothing(world: World) -> None:
    (world.folder / "data").mkdir()
    (world.folder / "data" / EVENTS_FILE).write_bytes(b"nothing of the kind" * 500)
    with world.memory() as memory:
        memory.sync()
        assert memory.search("bicycle").hits
        (note,) = [note for note in memory.notes if note.code == "event-log"]
    assert EVENTS_FILE in note.text and "rm" not in note.text and note.level == "info"
