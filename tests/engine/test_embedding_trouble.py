"""What must not happen to vectors: mixed spaces, endless loops, one text that blocks all, lost rebuilds."""

from __future__ import annotations

import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_mem_engine.errors import Cancelled, IndexChanged, IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import WAITING
from openclaw_mem_engine.sync import waiting
from openclaw_mem_engine.sync.report import SyncRequest
from support.damage import codes, looked
from support.embed_server import Fault, hang, rate_limited, running_server, unauthorized, zero_vector
from support.memories import backend_of
from support.providers import NOTES, World, make_world
from support.stores import content


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


def cosines(memory: Memory, query: str) -> list[float]:
    found = memory.retrieve(query).first("vector")
    return [] if found is None else [row.raw for row in found.rows]


def test_a_sync_for_one_embedder_never_writes_into_the_index_of_another(world: World) -> None:
    """Both send 256 numbers, so no check of lengths would notice."""
    with running_server() as server:
        world.use(server)
        slow = world.memory()
        server.faults = [hang(1.5)]
        thread = threading.Thread(target=slow.sync)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        world.configure('name = "static"')
        with world.memory() as other:
            assert other.sync().rebuilt, "it waits for its turn"
            expected = cosines(other, "red bicycle")
            thread.join(20)
            other.sync(SyncRequest(force=True))
            assert cosines(other, "red bicycle") == pytest.approx(expected, abs=1e-6)
        slow.close()


def test_what_was_prepared_for_another_index_is_not_written(world: World) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
        store = backend_of(memory).store
        known = store.fingerprint()
        assert known is not None
        other = replace(known, model="another", provider_key="0" * 64)
        with pytest.raises(IndexChanged, match="other settings"):
            store.apply(built_with=other)
        with pytest.raises(IndexChanged):
            store.set_vectors({}, other)


def test_a_fallback_of_the_space_that_the_index_was_built_with_ends(world: World) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
    with running_server(forever=unauthorized()) as server:
        world.use(server, 'fallback = "static"')
        world.write({"memory/new.md": "# New\n\nThe plumber comes on Friday.\n"})
        stop = threading.Event()
        timer = threading.Timer(20, stop.set)
        timer.start()
        with world.memory() as memory:
            report = memory.sync(cancel=stop)
            timer.cancel()
            assert report.shortfall == "the index was not rebuilt"
            answer = memory.search("plumber")
    assert answer.hits[0].path == "memory/new.md"
    found = answer.pool.first("vector")
    assert found is not None and len(found.rows) == len(NOTES) + 1


def test_one_refused_text_does_not_block_the_others(world: World) -> None:
    world.write({f"memory/n{n:02}.md": f"# Note {n}\n\nAll about topic {n}.\n" for n in range(40)})
    world.write({"memory/n07.md": "# Note 7\n\nforbidden words\n"})
    with running_server(poison="forbidden") as server:
        world.use(server)
        with world.memory() as memory:
            report = memory.sync()
            assert [note.code for note in report.notes] == ["text-refused"]
            assert memory.status().vectors == report.chunks - 1
            assert memory.search("forbidden words").hits[0].path == "memory/n07.md"
            sent = len(server.requests)
            assert memory.sync().notes == []
            assert len(server.requests) == sent, "it is not sent again as long as it is the same"


def test_a_provider_that_refuses_everything_is_a_failure_and_no_text_is_given_up(world: World) -> None:
    with running_server(poison="") as server:
        world.use(server)
        with world.memory() as memory:
            report = memory.sync()
            assert [note.code for note in report.notes] == ["embedding-failed"]
            assert memory.cache_sizes() == []


def test_settings_that_change_while_the_provider_is_down_cost_no_vectors(world: World) -> None:
    long = "\n".join(f"Line {n} of a long note about the harbour." for n in range(80))
    world.write({"memory/long.md": long})
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            vectors = memory.sync().chunks
        config = world.folder / "config.toml"
        config.write_text(config.read_text() + "[chunking]\ntokens = 120\noverlap = 10\n")
        server.forever = unauthorized()
        with world.memory() as memory:
            report = memory.sync()
            assert not report.rebuilt
            assert any("keeps its vectors" in note.text for note in report.notes)
            assert memory.status().vectors == vectors
        server.forever = None
        with world.memory() as memory:
            report = memory.sync()
            assert report.rebuilt and memory.status().vectors == report.chunks > vectors


@pytest.mark.parametrize("before", ["openai", "none"])
def test_an_index_without_vectors_keeps_none(world: World, before: str) -> None:
    """One that was made while the provider was down, or without a provider; then another is configured."""
    with running_server(forever=unauthorized()) as server:
        if before == "openai":
            world.use(server)
        else:
            world.configure('name = "none"')
        with world.memory() as memory:
            memory.sync()
        world.configure('name = "mistral"', f'base_url = "{server.base_url}"', 'api_key = "k-0123456789"')
        with world.memory() as memory:
            (note,) = (note for note in memory.sync().notes if note.code == "not-rebuilt")
            assert note.text.startswith("The index was not rebuilt: mistral")
            assert note.text.endswith("It holds no vectors, as before.")


def test_a_rebuild_that_fails_midway_keeps_the_old_index_and_what_was_embedded(world: World) -> None:
    lines = "\n\n".join(
        f"Paragraph {n} " + "of some length, so that chunks are many. " * 12 for n in range(60)
    )
    world.write({"memory/long.md": lines})
    world.configure('name = "static"')
    with world.memory() as memory:
        chunks = memory.sync().chunks
    with running_server() as server:
        world.use(server, "concurrency = 1")
        server.faults = [None, None, None]  # the probe and two requests
        server.forever = unauthorized()
        with world.memory() as memory:
            report = memory.sync()
            assert not report.rebuilt
            assert (memory.status().files, memory.status().chunks) == (len(NOTES) + 1, chunks)
        kept = sum(len(texts) for texts in server.inputs[1:3])
        server.forever = None
        with world.memory() as memory:
            report = memory.sync()
            assert report.rebuilt and report.embedded + kept == report.chunks


def test_the_chain_does_not_claim_that_what_cannot_answer_serves(world: World) -> None:
    world.configure('name = "openai"')
    with world.memory() as memory:
        memory.sync()
        (primary,) = [link for link in memory.chain() if link.role == "primary"]
        assert primary.state == "failed" and "No API key" in primary.why and primary.next_retry is None
        fallback = memory.fallback()
        assert fallback is not None and fallback.active == "bm25"
    with running_server() as server:
        world.configure('name = "static"')
        with world.memory() as memory:
            memory.sync()
        world.use(server)
        with world.memory() as memory:
            (primary,) = [link for link in memory.chain() if link.role == "primary"]
            assert (primary.state, primary.vectors) == ("not-indexed", 0)
            assert memory.fallback() is not None
            memory.sync()
            assert memory.fallback() is None


def test_a_probe_that_succeeds_ends_the_fallback(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            server.forever = unauthorized()
            memory.search("bicycle")
            assert memory.status().fallback is not None
            server.forever = None
            assert memory.probe("openai") > 0
            assert memory.status().fallback is None


def test_two_that_catch_up_at_once_agree(world: World) -> None:
    with running_server(forever=unauthorized()) as server:
        world.use(server)
        first, second = world.memory(), world.memory()
        first.sync()
        server.forever = None
        server.faults = [hang(0.5), hang(0.5)]
        raised: list[BaseException] = []

        def sync(memory: Memory) -> None:
            try:
                memory.sync()
            except BaseException as error:  # noqa: BLE001 - looked at below
                raised.append(error)

        threads = [threading.Thread(target=sync, args=(memory,)) for memory in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert raised == []
        assert first.status().vectors == second.status().vectors == len(NOTES)
        first.close()
        second.close()


def test_spaces_beside_that_cost_time_are_asked_only_when_wanted(world: World) -> None:
    with running_server() as server:
        world.environ["MISTRAL_API_KEY"] = "mistral-key-0123456789"
        openclaw = world.folder / "openclaw.json"
        openclaw.write_text(
            f'{{models: {{providers: {{mistral: {{baseUrl: "{server.base_url}"}}}}}}}}', "utf-8"
        )
        world.environ["OPENCLAW_CONFIG_PATH"] = str(openclaw)
        world.configure('name = "static"', 'also = ["mistral"]')
        with world.memory() as memory:
            memory.sync()
            sent = len(server.requests)
            assert memory.search("bicycle").pool.first("vector", 1) is None
            assert len(server.requests) == sent
            chosen = memory.search("bicycle", memory.knobs.set({"vector_space": "second"}))
            assert chosen.pool.first("vector", 1) is not None
        with world.memory(resident=True) as memory:
            assert memory.search("bicycle").pool.first("vector", 1) is not None, "the workbench compares"


def test_looking_for_a_dead_provider_can_be_cancelled(world: World) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
    with running_server(forever=hang(30)) as server:
        world.use(server)
        stop = threading.Event()
        timer = threading.Timer(0.3, stop.set)
        timer.start()
        began = time.monotonic()
        with world.memory() as memory, pytest.raises(Cancelled):
            memory.sync(cancel=stop)
        assert time.monotonic() - began < 25, "less than the server hangs"


def test_a_plan_is_made_while_another_process_writes(world: World) -> None:
    with running_server(forever=unauthorized()) as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            world.write({"memory/garden.md": "# Garden\n\nAll of it is new.\n"})
            other = apsw.Connection(str(world.settings().index_path))
            other.execute("BEGIN IMMEDIATE")
            plan = memory.plan()
            other.execute("ROLLBACK")
            assert plan.spaces[0].texts == len(NOTES), "the old text of a changed note is not counted"


def test_a_search_waits_only_a_little_for_the_vectors_of_new_text(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            world.write({"memory/new.md": "# New\n\nThe plumber comes on Friday.\n"})
            server.forever = hang(60)
            began = time.monotonic()
            report = memory.sync(SyncRequest(budget_s=0.5))
            assert time.monotonic() - began < 50, "less than the server hangs"
            assert [note.code for note in report.notes] == ["embedding-later"]
            assert report.changed == ("memory/new.md",), "keywords find it at once"
        server.forever = unauthorized()
        with world.memory() as memory:
            memory.sync(SyncRequest(budget_s=5))
            sent = len(server.requests)
            memory.sync(SyncRequest(budget_s=5))
            assert len(server.requests) == sent, "a search does not insist where a provider is left alone"
            server.forever = None
            assert memory.sync().embedded == 1, "who asks for an index does"


def test_a_search_does_not_wait_for_a_rebuild(world: World) -> None:
    world.configure('name = "static"')
    with world.memory() as memory:
        memory.sync()
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            report = memory.sync(SyncRequest(budget_s=5))
            assert not report.rebuilt and server.requests == []
            assert [note.code for note in report.notes] == ["rebuild-later"]
            assert "openclaw-mem index" in report.notes[0].text
            assert memory.sync().rebuilt


def test_force_embeds_anew_what_another_model_of_the_same_name_has_made(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            server.dims = 64
        with world.memory() as memory:
            answer = memory.search("bicycle")
            assert answer.pool.fallback is not None and "index --force" in answer.pool.fallback.reason
            report = memory.sync(SyncRequest(force=True))
            assert report.embedded == report.chunks == memory.status().vectors
            assert memory.search("bicycle").pool.fallback is None


def test_first_answers_of_different_length_are_not_mixed(world: World) -> None:
    def halved(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**item, "embedding": item["embedding"][:128]} for item in items]

    world.write({f"memory/n{n:03}.md": f"# Note {n}\n\nAll about topic {n}.\n" for n in range(300)})
    with running_server(faults=[None, Fault(change=halved)]) as server:
        world.use(server, "concurrency = 1")
        with world.memory() as memory:
            (note,) = memory.sync().incomplete
            assert "sends vectors of 128 dimensions, the index holds 256" in note.text
            assert 0 < memory.status().vectors < 300
            assert memory.sync().incomplete == [], "the circuit is closed, and what was made is kept"


def test_a_model_that_is_replaced_is_embedded_again_by_the_same_process(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            server.dims = 64
            assert not memory.search("bicycle").pool.first("vector")
            report = memory.sync(SyncRequest(force=True))
            assert report.embedded == report.chunks and not report.notes
            assert memory.search("bicycle").pool.first("vector") and memory.fallback() is None


class OtherWorkspace(World):
    """Another workspace with the settings and the records of the first."""

    @property
    def workspace(self) -> Path:
        return self.folder / "other"


def test_an_index_of_another_length_does_not_pause_the_provider_for_others(world: World) -> None:
    other = OtherWorkspace(world.folder, world.clock, world.environ)
    other.write(NOTES)
    with running_server() as server:
        world.use(server)
        with world.memory() as memory, other.memory() as another:
            memory.sync()
            another.sync()
        server.dims = 64
        world.write({"memory/new.md": "# New\n\nThe plumber comes on Friday.\n"})
        with world.memory() as memory, other.memory() as another:
            report = memory.sync(SyncRequest(budget_s=20.0, files_s=20.0))
            assert "sends vectors of 64 dimensions, the index holds 256" in report.incomplete[0].text
            assert not any("plumber" in text for sent in server.requests for text in sent.inputs)
            assert memory.sync().incomplete and not memory.search("bicycle").pool.first("vector")
            fallback = memory.search("bicycle").pool.fallback
            assert fallback is not None and fallback.next_retry is None
            assert "sends vectors of 64 dimensions, the index holds 256" in fallback.reason
            link = next(link for link in memory.chain() if link.role == "primary")
            assert (link.state, link.next_retry) == ("failed", None) and link.why in fallback.reason
            another.sync(SyncRequest(force=True))
            assert another.search("bicycle").pool.first("vector"), "at once, the clock stands still"
            assert another.fallback() is None


def test_a_provider_known_to_fail_is_not_said_to_be_slow(world: World) -> None:
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            embedder = memory._lineup.embedders.primary
            assert embedder is not None
            slow = replace(embedder.health, last_ms=60_000.0)
            memory._lineup.records.save_health(embedder.key, slow)
            world.write({"memory/new.md": "# New\n\nThe plumber comes on Friday.\n"})
            search = SyncRequest(budget_s=20.0, files_s=20.0)
            (note,) = memory.sync(search).notes
            assert note.code == "embedding-later"
            server.forever = unauthorized()
            memory.search("bicycle")
            (note,) = memory.sync(search).notes
            assert note.code == "embedding-failed" and "401" in note.text


def test_a_rebuild_that_fails_costs_no_vectors_of_another_model_of_the_same_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither before it began nor half way, when the new ones are in the cache of the index to be."""
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            server.dims = 64
        world.write({f"memory/new/{n:03}.md": f"The plumber comes in week {n}.\n" for n in range(300)})
        with world.memory() as memory:
            before = content(memory.settings.index_path)
            free = shutil.disk_usage(memory.settings.index_path.parent)._replace(free=0)
            with monkeypatch.context() as patch, pytest.raises(IndexUnavailable, match="a rebuild needs"):
                patch.setattr(shutil, "disk_usage", lambda _: free)
                memory.sync(SyncRequest(force=True))
            assert content(memory.settings.index_path) == before
            stop = threading.Event()
            server.faults, server.forever = [None, None], hang()  # no rebuild gets beyond two answers

            def half_way(done: int, total: int, label: str) -> None:
                if "  embedded " in label:
                    stop.set()

            with pytest.raises(Cancelled):
                memory.sync(SyncRequest(force=True), half_way, stop)
            assert content(memory.settings.index_path) == before
            assert codes(looked(memory.settings)) == {"files-not-indexed", "other-dims"}


def test_a_server_that_sends_zeros_does_not_poison_the_cache(world: World) -> None:
    def zeros(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{**item, "embedding": [0.0] * 256} for item in items]

    with running_server(forever=Fault(change=zeros)) as server:
        world.use(server)
        with world.memory() as memory:
            report = memory.sync()
            assert [note.code for note in report.notes] == ["embedding-failed"]
            assert "openai hash-bow-256 returns a vector of zeros" in report.notes[0].text
            server.forever = None
            report = memory.sync()
            assert report.embedded == report.chunks == memory.status().vectors


def test_one_vector_of_zeros_is_told_and_asked_for_again(world: World) -> None:
    with running_server(faults=[zero_vector()]) as server:
        world.use(server)
        with world.memory() as memory:
            report = memory.sync()
            (note,) = report.incomplete
            chunk = next(chunk for chunk in memory.overview().files if chunk.path in note.text)
            assert note.code == "zero-vector" and f"{chunk.path}:1-" in note.text
            assert report.embedded == report.chunks - 1 == memory.status().vectors
            answer = memory.search("bicycle")
            assert answer.pool.freshness is not None and answer.pool.freshness.state == "partial"
            assert "vectors-awaited" in {note.code for note in answer.pool.notes}
            (finding,) = (f for f in looked(memory.settings).findings if f.code == "vectors-awaited")
            assert finding.evidence[0].startswith(chunk.path) and finding.repair == "openclaw-mem index"
            report = memory.sync()
            assert (report.embedded, report.notes) == (1, [])
            assert memory.status().vectors == report.chunks


def test_texts_that_always_get_zeros_are_asked_for_once_in_a_sync(world: World) -> None:
    """More chunks than are embedded together, so that what is missing is looked for several times."""
    hollow = [f"memory/hollow-{n}.md" for n in range(3)]
    world.write({f"memory/n{n:03}.md": f"# Note {n}\n\nAll about topic {n}.\n" for n in range(600)})
    world.write({path: f"# Hollow\n\nNothing in {path}.\n" for path in hollow})
    sent: list[str] = []

    def zeros(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        texts = server.requests[-1].inputs
        sent.extend(text for text in texts if "Hollow" in text)
        return [
            {**item, "embedding": [0.0] * 256} if "Hollow" in texts[item["index"]] else item for item in items
        ]

    with running_server(forever=Fault(change=zeros)) as server:
        world.use(server, "concurrency = 1")
        with world.memory() as memory:
            for _ in range(2):  # the second has nothing else to ask for
                report = memory.sync()
                assert [note.code for note in report.notes] == ["zero-vector"]
                assert all(path in report.notes[0].text for path in hollow)
                assert len(sent) == len(hollow)
                assert memory.status().vectors == report.chunks - len(hollow)
                sent.clear()


def test_a_search_does_not_send_a_text_again_that_got_zeros(world: World) -> None:
    """It is remembered in the index, so a later process knows it; a sync that was asked for sends it."""
    search = SyncRequest(budget_s=20.0, files_s=20.0)

    def zeros(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        texts = server.requests[-1].inputs
        return [
            {**item, "embedding": [0.0] * 256} if "Hollow" in texts[item["index"]] else item for item in items
        ]

    with running_server(forever=Fault(change=zeros)) as server:
        world.use(server, "concurrency = 1")
        with world.memory() as memory:
            memory.sync()
        world.write({"memory/hollow.md": "# Hollow\n\nNothing.\n"})
        for sent in (1, 0):
            before = sum("Hollow" in text for request in server.requests for text in request.inputs)
            with world.memory() as memory:
                (note,) = memory.sync(search).incomplete
                assert note.code == "zero-vector" and "memory/hollow.md" in note.text
                assert {finding.code for finding in looked(memory.settings).findings} == {"vectors-awaited"}
            after = sum("Hollow" in text for request in server.requests for text in request.inputs)
            assert after - before == sent
        server.forever = None
        with world.memory() as memory:
            report = memory.sync()
            assert (report.embedded, report.notes) == (1, [])
            assert codes(looked(memory.settings)) == set()


@pytest.mark.parametrize("fallback", ["static", "none"])
def test_what_finds_text_without_vectors_is_said_truly(world: World, fallback: str) -> None:
    with running_server(forever=unauthorized()) as server:
        world.use(server, f'fallback = "{fallback}"')
        with world.memory() as memory:
            (note,) = memory.sync().incomplete
            served = memory.search("bicycle").pool.first("vector")
            report = memory.examine()
    awaited = next(finding for finding in report.findings if finding.code == "vectors-awaited")
    assert awaited.text.endswith(". A sync makes them, once it answers.") and not awaited.repair
    assert ("only BM25 finds" in note.text) == (served is None) == (fallback == "none")
    assert ("vectors of static-minilm" in note.text) == (served is not None)


def test_an_index_of_the_same_model_elsewhere_is_not_said_to_hold_no_vectors(world: World) -> None:
    with running_server() as server, running_server() as other:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
        world.use(other)
        with world.memory() as memory:
            (primary,) = [link for link in memory.chain() if link.role == "primary"]
            reason = memory.search("bicycle").pool.fallback
    assert reason is not None and primary.why == reason.reason
    assert primary.why.startswith("the index holds vectors of openai hash-bow-256 at another endpoint")


def test_words_are_found_while_a_provider_hangs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when its query would wait as long: there are no vectors yet to compare it with."""
    monkeypatch.setattr(waiting, "_QUIET_S", 0.0)
    monkeypatch.setattr(waiting, "_STEP_S", 0.01)
    stop, labels, found = threading.Event(), list[str](), list[str]()
    with running_server(forever=hang(60)) as server:
        world.use(server)
        with world.memory(resident=True) as memory:

            def progress(done: int, total: int, label: str) -> None:
                labels.append(label)
                if label.startswith(WAITING) and server.requests and not stop.is_set():
                    answer = memory.search("bicycle")
                    found.extend(hit.path for hit in answer.hits)
                    assert answer.pool.fallback is not None
                    assert answer.pool.fallback.reason.endswith(". The sync that runs makes them.")
                    texts = [note.text for note in answer.pool.notes] + [link.why for link in memory.chain()]
                    assert not [text for text in texts if "`openclaw-mem index`" in text], texts
                    stop.set()

            with pytest.raises(Cancelled, match=r"^Indexing was stopped; the index holds 4 .*, 0 vectors\.$"):
                memory.sync(progress=progress, cancel=stop)
            assert found[0] == "memory/2026-02-01.md"
            assert len(server.requests) == 1, "the query was not sent"
            assert re.fullmatch(r"waiting for 127\.0\.0\.1:\d+, 0 s", labels[-1])
            assert memory.freshness().state == "partial"
        server.forever = None
        with world.memory() as memory:
            report = memory.sync()
            assert (report.changed, report.embedded) == ((), report.chunks), "the words are not made again"


def test_why_a_provider_is_waited_for_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_QUIET_S", 0.0)
    monkeypatch.setattr(waiting, "_STEP_S", 0.01)
    stop, labels = threading.Event(), list[str]()

    def progress(done: int, total: int, label: str) -> None:
        labels.append(label)
        if label.startswith(WAITING) and "429" in label:
            stop.set()

    with running_server(forever=rate_limited("24")) as server:
        world.use(server)
        with world.memory() as memory, pytest.raises(Cancelled):
            memory.sync(progress=progress, cancel=stop)
    assert re.fullmatch(r"waiting for 127\.0\.0\.1:\d+: answered 429; next try in 2\d s", labels[-1])


def test_a_rebuild_says_that_it_waits_for_the_provider(world: World) -> None:
    labels = list[str]()
    with running_server() as server:
        world.use(server)
        with world.memory() as memory:
            memory.sync()
            memory.sync(SyncRequest(force=True), lambda done, total, label: labels.append(label))
            assert re.fullmatch(r"waiting for 127\.0\.0\.1:\d+", labels[0])


def test_what_the_vectors_of_qmd_wait_for_is_said(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_QUIET_S", 0.0)
    monkeypatch.setattr(waiting, "_STEP_S", 0.01)
    stop, labels = threading.Event(), list[str]()
    with running_server(forever=hang(60)) as server:
        world.use(server)
        settings = world.settings()
        settings = replace(settings, openclaw=replace(settings.openclaw, backend="qmd"))

        def progress(done: int, total: int, label: str) -> None:
            labels.append(label)
            if label.startswith(WAITING) and server.requests:
                stop.set()

        with Memory.open(settings) as memory, pytest.raises(Cancelled):
            memory.sync(progress=progress, cancel=stop)
    assert re.fullmatch(r"waiting for 127\.0\.0\.1:\d+, 0 s", labels[-1])
