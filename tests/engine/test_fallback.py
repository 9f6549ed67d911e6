"""A provider that fails: who answers instead, what is told, and how it comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync.report import SyncRequest
from support.embed_server import Server, running_server, server_error, unauthorized
from support.providers import World, make_world

QUERY = "red bicycle"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@contextmanager
def served(world: World) -> Iterator[tuple[Server, Memory]]:
    """A running server, and a memory with its vectors."""
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            yield server, memory


def refuse(world: World, server: Server) -> None:
    """Let a process index with the server, and one of its searches find that the server refuses it now."""
    world.use(server)
    with world.memory() as memory:
        memory.sync()
        server.forever = unauthorized()
        memory.search(QUERY)


def has_vectors(answer: Answer) -> bool:
    return answer.pool.first("vector") is not None


def test_keywords_answer_when_the_provider_refuses_and_say_since_when(world: World) -> None:
    with served(world) as (server, memory):
        assert has_vectors(memory.search(QUERY))
        server.forever = unauthorized()
        answer = memory.search(QUERY)
    assert not has_vectors(answer)
    assert [hit.path for hit in answer.hits] == ["memory/2026-02-01.md"]
    fallback = answer.pool.fallback
    assert fallback is not None and fallback.origin == "openai" and fallback.active == "bm25"
    assert "401" in fallback.reason and "sk-test" not in fallback.reason
    assert fallback.since == world.clock.now
    assert fallback.next_retry is not None and fallback.next_retry > world.clock.now
    assert any("BM25 only" in text for text in answer.warnings)


def test_a_failing_provider_is_left_alone_until_the_retry_then_comes_back_by_itself(world: World) -> None:
    with served(world) as (server, memory):
        server.forever = unauthorized()
        memory.search(QUERY)
        asked = len(server.requests)
        again = memory.search("something else")
        assert len(server.requests) == asked, "nothing is sent before the next retry"
        assert again.pool.fallback is not None and again.pool.fallback.since == world.clock.now
        server.forever = None
        world.clock.forward(3600)
        back = memory.search(QUERY)
        assert has_vectors(back) and back.pool.fallback is None
        assert memory.fallback() is None


def test_another_process_knows_of_the_failure_without_asking(world: World) -> None:
    with running_server() as server:
        refuse(world, server)
        asked = len(server.requests)
        with world.memory() as memory:
            status = memory.status()
            answer = memory.search(QUERY)
        assert len(server.requests) == asked
    assert status.fallback is not None and "401" in status.fallback.reason
    (primary,) = [link for link in status.chain if link.role == "primary"]
    assert primary.state == "failed" and primary.next_retry is not None
    assert [link.name for link in status.chain if link.state == "active"] == ["bm25"]
    assert not has_vectors(answer)


def test_another_key_is_tried_at_once(world: World) -> None:
    with running_server() as server:
        refuse(world, server)
        server.forever = None
        world.configure(
            'name = "openai"',
            f'base_url = "{server.base_url}"',
            'api_key = "sk-test-fedcba9876543210"',
            'model = "hash-bow-256"',
        )
        with world.memory() as memory:
            assert has_vectors(memory.search(QUERY))


def test_a_free_fallback_has_its_own_vectors_ready(world: World) -> None:
    with running_server() as server:
        world.use(server, 'fallback = "static"')
        with world.memory() as memory:
            report = memory.sync()
            assert report.embedded == report.beside == report.chunks
            healthy = memory.search(QUERY)
            assert healthy.pool.first("vector") is not None and healthy.pool.fallback is None
            server.forever = unauthorized()
            answer = memory.search(QUERY)
            names = {link.name: link.state for link in memory.chain()}
    found = answer.pool.first("vector")
    assert found is not None and found.space == "static-minilm-256-int8"
    fallback = answer.pool.fallback
    assert fallback is not None and fallback.active == found.space
    assert answer.hits[0].path == "memory/2026-02-01.md"
    assert names["openai"] == "failed" and names["static"] == "active" and names["bm25"] == "active"


def test_a_remote_fallback_makes_vectors_only_when_it_is_needed(world: World) -> None:
    with running_server() as server, running_server(dims=64) as other:
        lines = ('fallback = "mistral"', "")
        world.environ["MISTRAL_API_KEY"] = "mistral-key-0123456789"
        world.use(server, *lines)
        openclaw = world.folder / "openclaw.json"
        openclaw.write_text(
            f'{{models: {{providers: {{mistral: {{baseUrl: "{other.base_url}"}}}}}}}}', "utf-8"
        )
        world.environ["OPENCLAW_CONFIG_PATH"] = str(openclaw)
        with world.memory() as memory:
            memory.sync()
            assert other.requests == [], "nobody pays for a fallback that is not needed"
            server.forever = server_error(501)
            before = memory.search(QUERY)
            assert not has_vectors(before)
            assert any("openclaw-mem index" in text for text in before.warnings)
            world.write({"memory/2026-02-03.md": "# Tuesday\n\nThe dentist called.\n"})
            report = memory.sync()
            assert report.beside == report.chunks and len(other.requests) > 0
            assert any(note.code == "embedding-failed" for note in report.notes)
            answer = memory.search(QUERY)
            found = answer.pool.first("vector")
            assert found is not None and found.space.startswith("mistral")
            assert len(found.rows) == report.chunks
            server.forever = None
            world.clock.forward(3600)
            memory.sync()
            back = memory.search(QUERY)
            found = back.pool.first("vector")
            assert found is not None and found.space == "" and len(found.rows) == report.chunks
            assert back.pool.fallback is None


def test_vectors_of_a_space_survive_that_another_model_does_not_answer(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
        server.forever = server_error(501)
        world.use(server, model="another-model")
        with world.memory() as memory:
            report = memory.sync()
            assert not report.rebuilt
            assert any("keeps its vectors" in note.text for note in report.notes)
        server.forever = None
        world.use(server)
        world.clock.forward(3600)
        with world.memory() as memory:
            asked = len(server.requests)
            assert memory.sync().embedded == 0
            assert len(server.requests) == asked
            assert has_vectors(memory.search(QUERY))


def test_going_back_to_a_provider_sends_nothing_again(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
        world.configure('name = "static"')
        with world.memory() as memory:
            assert memory.sync().rebuilt
        sent = len(server.requests)
        world.use(server)
        with world.memory() as memory:
            report = memory.sync()
            assert report.rebuilt and report.embedded == 0 and report.cache_hits == report.chunks
        # One probe, so that a dead provider does not cost the vectors that are there.
        assert len(server.requests) <= sent + 1


def test_a_query_with_a_zero_vector_is_answered_by_keywords(world: World) -> None:
    with served(world) as (_, memory):
        answer = memory.search("!!!")
    assert not has_vectors(answer)
    assert any("has no vector for this query" in text for text in answer.warnings)


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        ("embeddings-401", "401"),
        ("embeddings-429", "429"),
        ("embeddings-timeout", "no answer"),
        ("embeddings-garbage", "JSON"),
        ("wrong-dimension", "now sends vectors of 7 dimensions, the index holds"),
        ("zero-vector", "returns a vector of zeros, which cannot be compared"),
    ],
)
def test_a_fault_of_the_provider_leaves_keywords(world: World, fault: str, word: str) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
    with world.memory([fault]) as memory:
        answer = memory.search(QUERY)
        assert not has_vectors(answer)
        assert answer.pool.fallback is not None and word in answer.pool.fallback.reason
        assert answer.pool.fallback.reason.endswith("(simulated fault)")
        assert answer.hits[0].path == "memory/2026-02-01.md"
        assert any(note.code == "fault" for note in answer.pool.notes)
        primary = next(link for link in memory.chain() if link.role == "primary")
        assert primary.state == "failed" and word in primary.why
        if fault == "wrong-dimension":  # which the index is at odds with, and not the provider with itself
            assert primary.next_retry is None and memory.probe("primary") > 0
        else:
            assert primary.next_retry is not None
            with pytest.raises(ProviderError, match=word):
                memory.probe("primary")
    with world.memory() as memory:
        assert has_vectors(memory.search(QUERY)), "nothing of a demonstration is written down"
        assert memory.fallback() is None


def test_the_faults_of_the_store(world: World) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
        healthy = memory.search(QUERY)
    with world.memory(["no-sqlite-vec"]) as memory:
        answer = memory.search(QUERY)
        assert memory.status().vector_search == "in-process"
        assert [hit.chunk_id for hit in answer.hits] == [hit.chunk_id for hit in healthy.hits]
    with world.memory(["no-fts5"]) as memory:
        answer = memory.search(QUERY)
        assert answer.pool.first("lexical") is None and has_vectors(answer)
    with world.memory() as memory:
        again = memory.search(QUERY)
        assert [hit.chunk_id for hit in again.hits] == [hit.chunk_id for hit in healthy.hits]


def test_vectors_of_another_length_are_asked_for_once_a_minute(world: World) -> None:
    with served(world) as (server, memory):
        server.dims = 24
        memory.search(QUERY)
        asked = len(server.requests)
        world.write({"memory/new.md": "# New\n\nThe plumber comes on Friday.\n"})
        with world.memory() as other:  # as in another process
            before = other.fallback()
            other.sync(SyncRequest(budget_s=20.0, files_s=20.0))
            answer = other.search(QUERY)
            assert len(server.requests) == asked
            assert before is not None and "24 dimensions, the index holds 256" in before.reason
            assert answer.pool.fallback is not None and answer.pool.fallback.reason == before.reason
            assert not any("Run `openclaw-mem index`." in text for text in answer.warnings)
        server.dims = 256
        world.clock.forward(61)
        assert has_vectors(memory.search(QUERY)) and memory.fallback() is None
