"""Batch jobs that fail, in part or as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from test_batch_jobs import KEY, PROVIDERS, TEXTS, World, assert_all, plain_requests, records, settings

from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.providers.base import NotConfigured
from openclaw_mem_engine.providers.batch import BatchEmbedder, with_batches
from openclaw_mem_engine.providers.batch import services as services_module
from openclaw_mem_engine.providers.records import ProviderRecords
from openclaw_mem_engine.providers.registry import EmbedderSpec
from support.batch_server import running_batch_server
from support.remote import remote_embedder

__all__ = ["records"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("word", ["failed", "expired", "cancelled"])
def test_a_job_that_ends_badly_is_replaced_by_plain_requests(
    provider: str, word: str, records: ProviderRecords
) -> None:
    with running_batch_server(end=word, has_output=False) as server:
        world = World(server, records, provider)
        assert_all(world.embed())
        assert plain_requests(server) >= 1
        [note] = world.notes()
        assert "Embedded by plain requests instead: 40 texts" in note and word in note
        assert world.jobs.failures == 1
        assert records.jobs(world.embedder.key) == []


def test_the_error_file_says_why(records: ProviderRecords) -> None:
    lines = [{"custom_id": text_hash(TEXTS[0]), "error": {"message": f"bad input \x1b[2J for {KEY}"}}]
    with running_batch_server(end="failed", has_output=False, error_lines=lines) as server:
        world = World(server, records)
        assert_all(world.embed())
        [note] = world.notes()
        assert note.startswith("batch-failed: openai batch batch_b1 failed: bad input")
        assert "\x1b" not in note
        assert server.count("GET /v1/files/err-b1/content") == 1


def test_what_an_expired_job_has_finished_is_kept(records: ProviderRecords) -> None:
    with running_batch_server(end="expired", change=lambda lines: lines[:30]) as server:
        world = World(server, records)
        assert_all(world.embed())
        sent = [text for seen in server.seen if "/embeddings" in seen.path for text in seen.body["input"]]
        assert sorted(sent) == sorted(TEXTS[30:])
        [note] = world.notes()
        assert "batch_b1 ended as expired. Embedded by plain requests instead: 10 texts." in note


@pytest.mark.parametrize("provider", PROVIDERS)
def test_missing_and_bad_answers_are_embedded_plainly(provider: str, records: ProviderRecords) -> None:
    def spoil(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        name = "key" if provider == "gemini" else "custom_id"
        lines[1] = {name: lines[1][name], "error": {"message": "too long"}}
        short: dict[str, Any] = (
            {"embedding": {"values": [1.0]}}
            if provider == "gemini"
            else {"status_code": 200, "body": {"data": [{"embedding": [1.0]}]}}
        )
        lines[2] = {name: lines[2][name], "response": short}
        return [*lines[:-1], {name: "f" * 64, "response": short}]

    with running_batch_server(change=spoil) as server:
        world = World(server, records, provider)
        assert_all(world.embed())
        [note] = world.notes()
        assert "missing 3 embedding responses: too long. Embedded by plain requests instead: 3 texts." in note
        assert sorted(world.kept) == list(range(40))


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("output", [b"", b"<html>\n{{{\n", b"\x00\xff" * 1000, b"[" * 200_000, b"null\n1\n"])
def test_garbage_output(provider: str, output: bytes, records: ProviderRecords) -> None:
    with running_batch_server(output=output) as server:
        world = World(server, records, provider)
        assert_all(world.embed())
        [note] = world.notes()
        assert "missing 40 embedding responses" in note
        assert records.jobs(world.embedder.key) == []


def test_huge_output_is_given_up(records: ProviderRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services_module, "MAX_OUTPUT_BYTES", 5_000_000)
    with running_batch_server(output=b"x" * 20_000_000) as server:
        world = World(server, records)
        assert_all(world.embed())
        assert "sent more than" in world.notes()[0]
        assert server.count("/content") == 1


def test_two_failures_in_a_row_switch_batches_off(records: ProviderRecords) -> None:
    with running_batch_server(end="failed", has_output=False) as server:
        world = World(server, records)
        assert_all(world.embed())
        assert len(world.notes()) == 1
        others = [f"{text} again" for text in TEXTS]
        assert_all(world.embed(others), others)
        notes = world.notes()
        assert [note.split(":")[0] for note in notes] == ["batch-failed", "batch-disabled"]
        assert "2 batch jobs of openai failed in a row" in notes[1]
        jobs = len(server.jobs)
        more = [f"{text} once more" for text in TEXTS]
        assert_all(world.embed(more), more)
        assert len(server.jobs) == jobs == 2
        assert world.notes() == []


def test_a_success_resets_the_count(records: ProviderRecords) -> None:
    with running_batch_server(end="failed", has_output=False) as server:
        world = World(server, records)
        for number, end in enumerate(("failed", "completed", "failed")):
            server.end, server.has_output = end, end == "completed"
            texts = [f"{text} {number}" for text in TEXTS]
            assert_all(world.embed(texts), texts)
        assert world.jobs.failures == 1 and not world.jobs.disabled


def test_after_two_failures_the_rest_of_the_same_call_is_not_submitted(
    records: ProviderRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_module, "MAX_OUTPUT_BYTES", 24 * 3072 * 7)
    with running_batch_server(refusals={"/files": [401] * 100}) as server:
        world = World(server, records)
        assert_all(world.embed())
        assert server.count("POST /v1/files") == 2
        assert world.jobs.disabled


def test_an_upload_refused_again_and_again(records: ProviderRecords) -> None:
    with running_batch_server(refusals={"POST /v1/files": [500] * 9}) as server:
        world = World(server, records)
        assert_all(world.embed())
        [note] = world.notes()
        assert "openai batch file upload failed: 500 from 127.0.0.1" in note
        assert server.count("POST /v1/files") == 3
        assert server.count("/batches") == 0


def test_a_create_refused_for_the_moment_is_sent_again(records: ProviderRecords) -> None:
    with running_batch_server(refusals={"POST /v1/batches": [429, 503]}) as server:
        world = World(server, records)
        assert_all(world.embed())
        assert server.count("POST /v1/batches") == 3
        assert len(server.jobs) == 1
        assert world.notes() == []


def test_gemini_without_batches_switches_them_off_at_once(records: ProviderRecords) -> None:
    with running_batch_server(refusals={":asyncBatchEmbedContent": [404]}) as server:
        world = World(server, records, "gemini")
        assert_all(world.embed())
        notes = world.notes()
        assert [note.split(":")[0] for note in notes] == ["batch-failed", "batch-disabled"]
        assert "no batch interface for this model or base URL" in notes[1]
        assert server.count("batchEmbedContents") >= 1
        assert world.jobs.disabled


@pytest.mark.parametrize("status", [500, 503, 429])
def test_looks_that_fail_in_passing(status: int, records: ProviderRecords) -> None:
    with running_batch_server(refusals={"GET /v1/batches": [status, status, status, status]}) as server:
        world = World(server, records)
        assert_all(world.embed())
        assert plain_requests(server) == 0 and world.notes() == []


def test_a_refused_look_leaves_the_job_stored(records: ProviderRecords) -> None:
    with running_batch_server(refusals={"GET /v1/batches": [403]}) as server:
        world = World(server, records)
        assert_all(world.embed())
        assert "403" in world.notes()[0]
        assert len(records.jobs(world.embedder.key)) == 1


def test_gemini_files_that_want_to_be_asked_for_media(records: ProviderRecords) -> None:
    with running_batch_server(refusals={"GET /v1beta/files/out-b1:download": [400]}) as server:
        world = World(server, records, "gemini")
        assert_all(world.embed())
        assert server.asked[-1].endswith(":download?alt=media")
        assert world.notes() == []


def test_without_a_key_nothing_is_sent(records: ProviderRecords) -> None:
    spec = EmbedderSpec("openai", key_missing="no key in config.toml", base_url="https://api.openai.com/v1")
    inner = remote_embedder("openai", key_missing=spec.key_missing)
    embedder = with_batches(inner, records, settings())
    assert isinstance(embedder, BatchEmbedder)
    with pytest.raises(NotConfigured, match=r"no key in config\.toml"):
        embedder.embed_documents(TEXTS)


def test_what_is_wrapped(records: ProviderRecords) -> None:
    def wrapped(provider: str, **changes: Any) -> bool:
        inner = remote_embedder(provider, base_url="http://127.0.0.1:1/v1", api_key="k")
        return with_batches(inner, records, settings(**changes)) is not inner

    assert [wrapped(name) for name in (*PROVIDERS, "mistral", "ollama")] == [True] * 3 + [False] * 2
    assert not wrapped("openai", enabled=False)
