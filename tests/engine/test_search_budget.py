"""A search does not wait for its own sync: what there was time for is done, the rest waits and is counted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from openclaw_mem_engine.config.settings import ChunkingSettings, ProviderSettings
from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.static import StaticEmbedder
from openclaw_mem_engine.sync import index_update
from openclaw_mem_engine.sync.report import SyncRequest
from support.embed_server import Server, hang, running_server, server_error
from support.memories import open_memory, write_notes
from support.providers import NOTES, World, make_world
from support.stores import content
from support.transcripts import append, messages, with_sessions

NOTHING = 0.0


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return write_notes(tmp_path / "ws", {"MEMORY.md": "The router is gull.\n"})


@pytest.fixture
def memory(workspace: Path, tmp_path: Path) -> Iterator[Memory]:
    with open_memory(workspace, tmp_path / "home") as opened:
        yield opened


def more(workspace: Path, number: int = 40) -> None:
    write_notes(workspace, {f"memory/{n:02}.md": f"heron number {n}\n" for n in range(number)})


def codes(memory_notes: list[object]) -> list[str]:
    return [note.code for note in memory_notes]  # type: ignore[attr-defined]


def test_a_first_index_is_built_whole(memory: Memory, workspace: Path) -> None:
    more(workspace)
    report = memory.sync(SyncRequest(files_s=NOTHING))
    assert (report.files, report.waiting, report.notes) == (41, (), [])
    assert memory.freshness().state == "fresh"


def test_what_there_was_time_for_is_done_and_the_rest_is_stale(memory: Memory, workspace: Path) -> None:
    memory.sync()
    synced_at = memory.freshness().synced_at
    more(workspace)
    report = memory.sync(SyncRequest(files_s=NOTHING))
    assert report.changed == ("memory/00.md",), "one is done, however little time there is"
    assert report.waiting == tuple(f"memory/{n:02}.md" for n in range(1, 40))
    (note,) = report.notes
    assert (note.code, note.level) == ("files-later", "warning")
    assert "39 files wait" in note.text and "`openclaw-mem index` does the rest" in note.text
    pool = memory.retrieve("heron")
    assert pool.freshness is not None, "the answer that follows knows it without another look"
    assert (pool.freshness.state, pool.freshness.changed_count) == ("stale", 39)
    assert pool.freshness.stale_since is not None
    assert memory.freshness().changed_count == 39
    assert memory.freshness().synced_at == synced_at, "it is not complete"
    assert memory.sync(SyncRequest(files_s=NOTHING)).changed == ("memory/01.md",), "each goes on"
    report = memory.sync()
    assert (len(report.changed), report.waiting, report.notes, report.files) == (38, (), [], 41)
    assert memory.freshness().state == "fresh"
    assert memory.status().vectors == 41


def test_time_enough_is_no_different(memory: Memory, workspace: Path) -> None:
    memory.sync()
    more(workspace)
    report = memory.sync(SyncRequest(files_s=60, budget_s=60))
    assert (len(report.changed), report.waiting, report.notes) == (40, (), [])


def test_deleted_files_wait_too(memory: Memory, workspace: Path) -> None:
    more(workspace)
    memory.sync()
    for path in (workspace / "memory").iterdir():
        path.unlink()
    report = memory.sync(SyncRequest(files_s=NOTHING))
    assert (len(report.removed), len(report.waiting), memory.freshness().changed_count) == (1, 39, 39)
    report = memory.sync()
    assert (len(report.removed), memory.freshness().state) == (39, "fresh")


@pytest.mark.parametrize(("together", "steps"), [(index_update._REMOVED_TOGETHER, 1), (4_000, 10)])
def test_without_haste_many_files_are_removed_in_few_steps(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch, together: int, steps: int
) -> None:
    monkeypatch.setattr(index_update, "_REMOVED_TOGETHER", together)
    more(workspace)
    memory.sync()
    for path in (workspace / "memory").iterdir():
        path.unlink()
    before = memory.freshness().generation
    report = memory.sync()
    assert len(report.removed) == 40 and memory.freshness().generation == before + steps
    assert not memory.search("heron").hits


def test_vectors_that_are_missing_are_made_within_the_limit_of_a_search(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those of the built-in embedder, which takes seconds for tens of thousands of passages."""

    def failing(*_: object) -> None:
        raise ProviderError("it is a test")

    more(workspace, 300)
    with monkeypatch.context() as patched:
        patched.setattr(StaticEmbedder, "embed_documents", failing)
        assert codes([*memory.sync().notes]) == ["embedding-failed"]
    report = memory.sync(SyncRequest(files_s=NOTHING, budget_s=5))
    assert (report.embedded, codes([*report.notes])) == (256, ["embedding-later"])
    report = memory.sync(SyncRequest(files_s=NOTHING, budget_s=5))
    assert (report.embedded, report.notes) == (45, [])


def test_one_that_waits_is_said_in_words(memory: Memory, workspace: Path) -> None:
    memory.sync()
    more(workspace, 2)
    assert "1 file waits" in memory.sync(SyncRequest(files_s=NOTHING)).notes[0].text


def test_new_settings_do_not_keep_a_search_waiting(memory: Memory, workspace: Path) -> None:
    more(workspace)
    memory.sync()
    other = replace(memory.settings, chunking=ChunkingSettings(200, 20))
    before = content(memory.settings.index_path)
    with Memory.open(other) as opened:
        report = opened.sync(SyncRequest(files_s=NOTHING, budget_s=5))
        assert not report.rebuilt and codes([*report.notes]) == ["rebuild-later"]
        assert "does not wait for the rebuild of the index" in report.notes[0].text
        assert content(memory.settings.index_path) == before
        assert opened.freshness().state == "stale"
        report = opened.sync(SyncRequest(files_s=60, budget_s=5))
        assert report.rebuilt, "where there is time, it is done at once"


def test_what_is_indexed_before_the_rebuild_is_cut_like_the_rest(memory: Memory, workspace: Path) -> None:
    """Else it would stay cut in another way when the settings are set back."""
    long = "\n".join(f"On day {day} the tank held {day * 7} litres." for day in range(200))
    write_notes(workspace, {"memory/long.md": long})
    memory.sync()
    finer = replace(memory.settings, chunking=ChunkingSettings(60, 10))
    write_notes(workspace, {"memory/long.md": f"{long}\nThe heron is back.\n"})
    with Memory.open(finer) as opened:
        report = opened.sync(SyncRequest(budget_s=5, files_s=NOTHING))
        assert (report.rebuilt, report.changed) == (False, ("memory/long.md",))
        assert opened.search("heron").hits, "it is found at once"
        assert opened.freshness().state == "stale"
    report = memory.sync()
    assert (report.rebuilt, report.changed, memory.freshness().state) == (False, (), "fresh")
    assert memory.anatomy("memory/long.md").state == "up-to-date"
    before = content(memory.settings.index_path)
    memory.sync(SyncRequest(force=True))
    assert content(memory.settings.index_path)["chunks"] == before["chunks"], "as one that was made at once"
    with Memory.open(finer) as opened:
        assert opened.sync().rebuilt and opened.freshness().state == "fresh"


def test_other_sources_are_taken_in_and_forgotten_before_the_rebuild(tmp_path: Path) -> None:
    """Whoever opts out does not wait for a rebuild; and setting back leaves nothing behind."""
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    append(sessions / "one.jsonl", messages("The otter is fed."))
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "A gull.\n"})
    more(workspace)
    with_talks = replace(
        with_sessions(workspace, tmp_path / "home", sessions), provider=ProviderSettings("static")
    )
    notes_alone = replace(with_talks, sources=("memory",))
    with Memory.open(with_talks) as memory:
        memory.sync()
    with Memory.open(notes_alone) as memory:
        report = memory.sync(SyncRequest(budget_s=5, files_s=NOTHING))
        assert (report.rebuilt, report.removed) == (False, ("sessions/one.jsonl",))
        assert "sessions/one.jsonl" not in memory.paths() and len(memory.paths()) == 41
    with Memory.open(with_talks) as memory:
        assert memory.sync().changed == ("sessions/one.jsonl",)
        assert memory.freshness().state == "fresh"


@pytest.fixture
def slow_vectors(tmp_path: Path) -> Iterator[tuple[World, Server]]:
    """An index with vectors of a provider, which from now on answers nothing, and new notes."""
    world = make_world(tmp_path)
    with running_server() as server:
        address = f'base_url = "{server.base_url}"'
        world.configure('name = "openai"', address, 'model = "hash-bow-256"', 'fallback = "static"')
        with world.memory() as memory:
            memory.sync()
        world.write({f"memory/new/{n:03}.md": f"heron number {n}\n" for n in range(20)})
        server.forever = hang(600)
        yield world, server


def test_a_search_that_waits_in_vain_says_what_the_provider_answered(
    slow_vectors: tuple[World, Server],
) -> None:
    world, server = slow_vectors
    server.forever = server_error(500)
    with world.memory() as memory:
        note = memory.sync(SyncRequest(files_s=600, budget_s=1.5)).notes[0]
        assert re.search(r" waits for it: 127\.0\.0\.1:\d+ answered 500\.", note.text)
        reason = memory.search("heron").pool.fallback
    assert reason is not None
    assert re.fullmatch(
        r"openai gave no embedding within 1\.5 s: 127\.0\.0\.1:\d+ answered 500\. `openclaw-mem providers .*",
        reason.reason,
    )


def test_words_do_not_wait_for_vectors(slow_vectors: tuple[World, Server]) -> None:
    """All new files are found by words and the built-in vectors, though the provider says nothing."""
    world, server = slow_vectors
    sent = len(server.requests)
    with world.memory() as memory:
        report = memory.sync(SyncRequest(files_s=600, budget_s=1.5))
        assert (len(report.changed), report.waiting, report.embedded) == (20, (), 0)
        assert codes([*report.notes]) == ["embedding-later"]
        assert report.beside == 20, "the built-in vectors are made at once"
        assert len(server.requests) == sent + 1
        event = world.events()[-1]
        assert event.text == "20 files new or modified; 20 texts embedded; vectors are missing."
        assert "takes longer than a search waits for it" in event.reason
        answer = memory.search("heron")
        assert len(server.requests) == sent + 1, "the query is not sent to it in the same run"
        assert answer.hits and answer.pool.first("vector") is not None
        assert answer.pool.fallback is not None
        host = urlsplit(server.base_url).netloc
        assert answer.pool.fallback.reason.startswith(
            f"openai gave no embedding within 1.5 s: no answer from {host}. `openclaw-mem providers --probe`"
        )
    with world.memory() as memory:  # the next run, while the circuit is open
        report = memory.sync(SyncRequest(files_s=600, budget_s=600))
        assert codes([*report.notes]) == ["embedding-failed"]
        assert memory.search("heron").hits and len(server.requests) == sent + 1
        server.forever = None
        assert memory.sync().embedded == 20, "completed later"
        assert memory.search("heron").pool.fallback is None


def test_the_query_of_a_slow_provider_is_embedded_while_new_notes_wait(
    slow_vectors: tuple[World, Server],
) -> None:
    """Its vectors of the other notes answer; what is new is found by words, and the answer says so."""
    world, server = slow_vectors
    hurried = SyncRequest(files_s=600, budget_s=0.05)
    server.forever = hang(0.2)
    with world.memory() as memory:
        assert codes([*memory.sync(hurried).notes]) == ["embedding-later"]
        assert memory.search("heron").pool.fallback is not None, "nothing is known of it but silence"
        world.clock.forward(10)
        memory.sync(hurried)
        answer = memory.search("heron")
        assert answer.pool.fallback is None, "silence for less time than a query has decides nothing"
        assert answer.pool.provider == "openai" and answer.hits
        assert "Some chunks have no vectors of openai hash-bow-256 yet." in answer.warnings
        world.write({"memory/newer.md": "heron again\n"})
        sent = len(server.requests)
        assert codes([*memory.sync(hurried).notes]) == ["embedding-later"]
        assert len(server.requests) == sent, "it is known to be slower"
        assert memory.search("heron again").pool.fallback is None
        assert memory.sync().embedded == 21


def test_an_embedder_with_too_little_time_is_not_asked(slow_vectors: tuple[World, Server]) -> None:
    world, server = slow_vectors
    sent = len(server.requests)
    with world.memory() as memory:
        hurried = SyncRequest(files_s=NOTHING, budget_s=600)
        while (report := memory.sync(hurried)).waiting:
            pass
        assert codes([*report.notes]) == ["embedding-later"] and len(server.requests) == sent
        server.forever = None
        assert memory.search("heron").pool.fallback is None, "that says nothing about the provider"


def test_a_first_index_without_a_provider_is_made_of_words_and_completed_later(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with running_server(forever=hang(600)) as server:
        address = f'base_url = "{server.base_url}"'
        world.configure('name = "openai"', address, 'model = "hash-bow-256"', 'fallback = "static"')
        with world.memory() as memory:
            report = memory.sync(SyncRequest(files_s=NOTHING, budget_s=1.5))
            assert (report.files, report.waiting, report.embedded) == (len(NOTES), (), 0)
            assert report.beside == report.chunks
            answer = memory.search("bicycle")
            assert answer.hits and answer.pool.first("vector") is not None
            assert len(server.requests) == 1
            server.forever = None
            assert memory.sync().embedded == report.chunks
            assert memory.search("bicycle").pool.fallback is None


def test_the_query_of_one_search_waits_for_seconds(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.configure('name = "openai"', 'base_url = "http://127.0.0.1:9/v1"')
    with (
        world.memory(["embeddings-timeout"]) as memory,
        pytest.raises(ProviderError, match="waited 5 s"),
    ):
        memory.probe("openai")


def test_a_plan_counts_about_what_that_sync_would_do(memory: Memory, workspace: Path) -> None:
    more(workspace)
    assert memory.plan(SyncRequest(files_s=NOTHING)).files == 41, "a first index is done whole"
    memory.sync()
    more(workspace, 60)
    assert memory.plan(SyncRequest(files_s=NOTHING)).files == 1
    assert memory.plan().files == 20
