"""Vectors of several embedders in one index, and what a sync would cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.tools import memory_search
from support.embed_server import running_server, server_error
from support.providers import NOTES, World, make_world

QUERY = "bike"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def test_two_spaces_are_searched_and_the_knob_says_which_one_counts(world: World) -> None:
    with running_server() as server:
        world.use(server, 'also = ["static"]')
        with world.memory() as memory:
            report = memory.sync()
            assert report.embedded == report.beside == report.chunks
            answer = memory.search(QUERY)
            first, second = answer.pool.first("vector"), answer.pool.first("vector", 1)
            assert first is not None and second is not None
            assert (first.id, second.id) == ("vector", "vector:static-minilm-256-int8")
            assert {row.chunk_id for row in first.rows} == {row.chunk_id for row in second.rows}
            # Hashed words know nothing of synonyms, the static table does.
            knobs = memory.knobs.set({"vector_space": "second", "mode": "vector", "min_score": 0})
            trace = rank(answer.pool, knobs)
            for ranked, named in (
                (answer.trace, ("openai", "hash-bow-256")),
                (trace, ("static", "static-minilm-256-int8")),
                (rank(answer.pool, knobs.set({"vector_space": "third"})), ("none", "")),
            ):
                served = Answer(answer.pool, ranked)
                data = served.to_dict()
                assert served.served_by == (data["provider"], data["model"]) == named
                assert data["fallback"] is None
            best = trace.returned[0]
            assert best.path == "memory/2026-02-01.md"
            assert best.scores["vector"] == second.rows[0].raw
            shown = rank(answer.pool, memory.knobs).row(best.chunk_id)
            assert shown is not None
            assert shown.scores["vector:static-minilm-256-int8"] == second.rows[0].raw
            assert shown.ranks["vector:static-minilm-256-int8"] == 1


def test_the_tool_names_the_provider_whose_vectors_count(world: World) -> None:
    with running_server() as server:
        world.use(server, 'also = ["static"]')
        settings = world.folder / "config.toml"
        settings.write_text(f'{settings.read_text()}[query]\nvector_space = "second"\n', "utf-8")
        with world.memory() as memory:
            memory.sync()
            reply = memory_search(memory, {"query": QUERY})
    assert (reply["provider"], reply["model"]) == ("static", "static-minilm-256-int8")
    assert reply["mode"] == "hybrid" and "fallback" not in reply


def test_the_chosen_space_answers_for_a_dead_primary_and_is_named(world: World) -> None:
    with running_server() as server:
        world.use(server, 'also = ["static"]')
        with world.memory() as memory:
            memory.sync()
    with world.memory() as memory:  # nothing listens at its address any more
        second = memory.search(QUERY, memory.knobs.set({"vector_space": "second"}))
        data, primary = second.to_dict(), memory.search(QUERY)
        reply = memory_search(memory, {"query": QUERY})
        state = memory.fallback()
        assert state is not None and state.active == "bm25"
    settings = world.folder / "config.toml"
    settings.write_text(f'{settings.read_text()}[query]\nvector_space = "second"\n', "utf-8")
    with world.memory() as memory:
        states = {link.name: link.state for link in memory.chain()}
        assert states["openai"] == "failed" and states["static"] == "active" and states["bm25"] == "active"
        fallback = memory.status().fallback
        assert fallback is not None and fallback.active == "static-minilm-256-int8"
    assert (data["provider"], data["model"]) == ("static", "static-minilm-256-int8")
    assert (data["fallback"]["from"], data["fallback"]["active"]) == ("openai", "static-minilm-256-int8")
    (text,) = second.warnings
    assert text.startswith("Vectors of static-minilm-256-int8 are used (vector_space): ")
    assert not any("BM25 only" in note["text"] for note in data["notes"])
    assert primary.served_by == ("none", "") and primary.warnings[0].startswith("BM25 only: ")
    assert reply["mode"] == "fts-only", "the second space is only compared"


def test_asking_for_a_space_that_is_not_there_is_told(world: World) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
        answer = memory.search("bicycle", memory.knobs.set({"vector_space": "second"}))
    assert any("second vector space" in text for text in answer.warnings)
    assert answer.trace.stage("vector") is None


def test_a_space_beside_that_fails_costs_the_answer_nothing(world: World) -> None:
    with running_server(forever=server_error(501)) as server:
        world.environ["MISTRAL_API_KEY"] = "mistral-key-0123456789"
        openclaw = world.folder / "openclaw.json"
        openclaw.write_text(
            f'{{models: {{providers: {{mistral: {{baseUrl: "{server.base_url}"}}}}}}}}', "utf-8"
        )
        world.environ["OPENCLAW_CONFIG_PATH"] = str(openclaw)
        world.configure('name = "static"', 'also = ["mistral"]')
        with world.memory() as memory:
            report = memory.sync()
            assert report.embedded == report.chunks and report.beside == 0
            assert [note.code for note in report.incomplete] == ["beside-failed"]
            answer = memory.search("bicycle")
            assert answer.pool.fallback is None and answer.pool.first("vector") is not None
            assert answer.pool.first("vector", 1) is None


def test_a_changed_note_changes_every_space(world: World) -> None:
    with running_server() as server:
        world.use(server, 'also = ["static"]')
        with world.memory(resident=True) as memory:
            memory.sync()
            memory.search(QUERY)
            world.write({"memory/garden.md": "# Garden\n\nThe new bike stands in the shed.\n"})
            memory.sync()
            second = memory.search(QUERY).pool.first("vector", 1)
            assert second is not None
            answer = memory.search(QUERY, memory.knobs.set({"vector_space": "second"}))
            assert answer.hits[0].path == "memory/garden.md"
            assert len(second.rows) == memory.status().chunks


def test_the_workbench_profile_uses_the_signals_of_the_chosen_space(world: World) -> None:
    with running_server() as server:
        world.use(server, 'also = ["static"]')
        with world.memory() as memory:
            memory.sync()
            knobs = profile("workbench")
            first = memory.retrieve(QUERY, knobs)
            second = memory.retrieve(QUERY, knobs.set({"vector_space": "second"}))
    line = [signal.line for signal in second.signals["vector:static-minilm-256-int8"].values()]
    assert any(value is not None for value in line), "the static table can embed lines"
    assert all(signal.line is None for signal in first.signals["vector"].values())


def test_pruning_spares_what_any_space_needs(world: World) -> None:
    with running_server() as server:
        world.use(server, 'also = ["static"]')
        with world.memory() as memory:
            memory.sync()
            world.write({"memory/garden.md": "# Garden\n\nAll of it is new.\n"})
            memory.sync()
            sizes = {size.space.provider: size for size in memory.cache_sizes()}
            assert {name: (s.entries, s.live) for name, s in sizes.items()} == {
                "openai": (5, 4),
                "static": (5, 4),
            }
            assert memory.prune_cache(1) == 2
            assert {size.entries for size in memory.cache_sizes()} == {4}
            asked = len(server.requests)
            memory.sync(SyncRequest(force=True))
            assert len(server.requests) <= asked + 1, "one request, to see that it is the same model"


def test_a_plan_counts_and_sends_and_writes_nothing(world: World) -> None:
    with running_server() as server:
        world.use(server, 'also = ["static"]')
        with world.memory() as memory:
            plan = memory.plan()
            assert server.requests == []
            assert memory.status().chunks == 0
        assert (plan.files, plan.chunks, plan.rebuild) == (len(NOTES), len(NOTES), "")
        openai, static = plan.spaces
        assert openai.texts == static.texts == len(NOTES)
        assert openai.host == static.host == "", "both stay on this machine"
        assert openai.tokens > 0 and openai.usd is None, "a server on this machine may pass text on"
        assert static.usd == 0.0
        with world.memory() as memory:
            memory.sync()
            world.write({"memory/garden.md": "# Garden\n\nAll of it is new.\n"})
            plan = memory.plan()
            assert (plan.files, plan.spaces[0].texts) == (1, 1)
            assert [space.texts for space in memory.plan(SyncRequest(force=True)).spaces] == [1, 1]


def test_an_interrupted_sync_keeps_what_was_embedded(world: World) -> None:
    lines = "\n\n".join(
        f"Paragraph {n} " + "of some length, so that chunks are many. " * 12 for n in range(90)
    )
    world.write({"memory/long.md": lines})
    with running_server() as server:
        world.use(server, "concurrency = 1")
        server.faults = [None, None, None]
        server.forever = server_error(501)
        with world.memory() as memory:
            report = memory.sync()
            assert any(note.code == "embedding-failed" for note in report.notes)
        kept = sum(len(texts) for texts in server.inputs[:3])
        assert 0 < kept == report.embedded < report.chunks
        server.forever = None
        with world.memory() as memory:
            report = memory.sync()
            assert report.embedded + kept == report.chunks
            assert memory.status().vectors == report.chunks
