"""Batch jobs against a loopback server: restarts, waiting, and what the embedder makes of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.config.settings import BatchSettings
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.providers.base import TextRefused, Usage
from openclaw_mem_engine.providers.batch import BatchEmbedder, with_batches
from openclaw_mem_engine.providers.batch import services as services_module
from openclaw_mem_engine.providers.batch.jobs import BatchJobs
from openclaw_mem_engine.providers.batch.wires import batch_service
from openclaw_mem_engine.providers.records import ProviderRecords, StoredJob
from openclaw_mem_engine.providers.registry import EmbedderSpec
from openclaw_mem_engine.providers.remote.transport import Timing
from support.batch_server import BatchServer, parts_of, running_batch_server, text_of
from support.commands import until
from support.embed_server import bag_of_words
from support.goldens import golden
from support.remote import remote_embedder

PROVIDERS = ("openai", "voyage", "gemini")
KEY = "sk-very-secret-key-1234567890"
#: Enough for a job whatever the minimum is.
TEXTS = [f"note {number} about topic{number}" for number in range(40)]

QUICK = Timing(sleep=lambda s: time.sleep(min(s, 0.01)))


def settings(**changes: Any) -> BatchSettings:
    return BatchSettings(**{"enabled": True, "poll_interval_ms": 5, **changes})


class World:
    """An embedder with its server and records."""

    def __init__(
        self,
        server: BatchServer,
        records: ProviderRecords,
        provider: str = "openai",
        *,
        minimum: int = 1,
        batch: BatchSettings | None = None,
        model: str = "m8",
    ) -> None:
        self.server, self.records = server, records
        self.usage: list[Usage] = []
        inner = remote_embedder(
            provider,
            base_url=server.base_url(provider),
            api_key=KEY,
            model=model,
            timing=QUICK,
        )
        service = batch_service(provider, inner.transport, inner.model)
        assert service is not None
        self.jobs = BatchJobs(
            service,
            records,
            batch or settings(),
            provider_key=inner.key,
            agent="main",
            meter=self.usage.append,
            timing=QUICK,
            minimum=minimum,
        )
        self.embedder = BatchEmbedder(inner, self.jobs)
        self.kept: dict[int, Any] = {}

    def embed(self, texts: Sequence[str] = TEXTS, cancel: Any = None) -> list[Any]:
        self.kept = {}

        def keep(places: Sequence[int], vectors: Sequence[Any]) -> None:
            self.kept.update(zip(places, vectors, strict=True))

        return self.embedder.embed_documents(texts, cancel, None, keep)

    def notes(self) -> list[str]:
        notes = self.embedder.take_notes()
        assert KEY not in str(notes) and self.embedder.take_notes() == ()
        return [f"{note.code}: {note.text}" for note in notes]


@pytest.fixture
def records(tmp_path: Path) -> ProviderRecords:
    return ProviderRecords(tmp_path / "providers.sqlite")


def assert_all(vectors: Sequence[Any], texts: Sequence[str] = TEXTS) -> None:
    assert len(vectors) == len(texts)
    for vector, text in zip(vectors, texts, strict=True):
        np.testing.assert_allclose(vector, bag_of_words(text, 16), atol=1e-6)


def plain_requests(server: BatchServer) -> int:
    return server.count("/embeddings") + server.count("batchEmbedContents")


# -- the recording -------------------------------------------------------------------------------------


@pytest.mark.goldens
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_requests_of_a_good_job_are_those_of_the_recording(
    provider: str, records: ProviderRecords
) -> None:
    sent = golden("batch_jobs")[f"{provider} ok"]["requests"]
    uploads = [request for request in sent if "multipart" in request]
    with running_batch_server() as server:
        world = World(server, records, provider)
        for upload in uploads:  # one call a file, as there
            lines = parts_of(upload["multipart"], "<B>")[1][1].split("\n")
            texts = [text_of(json.loads(line)) for line in lines]
            assert_all(world.embed(texts), texts)
        assert [masked(seen.short) for seen in server.seen] == [
            masked(f"{request['method']} {request['url']}") for request in sent
        ]
        for seen, request in zip(server.seen, sent, strict=True):
            if "body" in request:
                assert without_file(seen.body) == without_file(request["body"])
            key = "x-goog-api-key" if provider == "gemini" else "authorization"
            assert KEY in seen.headers[key]  # the original sends none to gemini
        assert world.notes() == []
        assert records.jobs(world.embedder.key) == []


@pytest.mark.goldens
@pytest.mark.parametrize(
    ("case", "options"),
    [
        (
            "openai failed job",
            {"states": [], "end": "failed", "has_output": False, "error_lines": [{"error": "bad input"}]},
        ),
        ("openai missing answers", {"change": lambda lines: lines[:-1]}),
        ("gemini 404", {"refusals": {":asyncBatchEmbedContent": [404]}}),
    ],
)
def test_what_follows_a_failure_is_as_recorded(
    case: str, options: dict[str, Any], records: ProviderRecords
) -> None:
    sent = golden("batch_jobs")[case]["requests"]
    with running_batch_server(**options) as server:
        world = World(server, records, case.split()[0])
        files = [[f"{name} {number}" for number in range(3)] for name in ("a", "b")]
        for texts in files:
            assert_all(world.embed(texts), texts)
        assert [masked(seen.short) for seen in server.seen] == [
            masked(f"{request['method']} {request['url']}") for request in sent
        ]
        assert world.jobs.disabled  # as lastError there
        last = golden("batch_jobs")[case]["index"]["batch"]["lastError"]
        if case.startswith("openai"):
            assert world.jobs.disabled.replace("batch_b2", "batch_1").startswith(last)


def masked(short: str) -> str:
    """A request without what servers number in their own way."""
    return re.sub(r"/batches/(batch_)?b?\d+|/(?:out|err)(-b\d+)?", "/<id>", short.replace("/v1/", "/"))


def without_file(body: dict[str, Any]) -> str:
    return re.sub(r"file-\d+", "file", json.dumps(body, sort_keys=True))


# -- good jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_vectors_come_back_in_order_whatever_the_order_of_the_output(
    provider: str, records: ProviderRecords
) -> None:
    texts = [*TEXTS, TEXTS[3], "  ", TEXTS[5]]
    with running_batch_server(change=lambda lines: lines[::-1]) as server:
        world = World(server, records, provider)
        vectors = world.embed(texts)
        assert_all([v for v in vectors if v is not None], [t for t in texts if t.strip()])
        assert vectors[41] is None
        assert sorted(world.kept) == list(range(len(texts)))
        assert len(server.jobs["b1"].lines) == len(TEXTS)  # equal texts once, blank ones not at all
        assert plain_requests(server) == 0
    assert [(u.provider, u.requests, u.texts) for u in world.usage] == [(provider, 1, 40)]
    assert world.usage[0].estimated == (provider == "gemini")
    assert world.embedder.dims == 16


def test_few_texts_and_queries_go_by_plain_requests(records: ProviderRecords) -> None:
    with running_batch_server() as server:
        world = World(server, records, minimum=32)
        assert_all(world.embed(TEXTS[:31]), TEXTS[:31])
        assert world.embedder.embed_query("note") is not None
        assert server.count("/files") == server.count("/batches") == 0
        assert_all(world.embed(TEXTS[:32]), TEXTS[:32])
        assert server.count("POST /v1/batches") == 1


def test_concurrency_and_size_of_jobs(records: ProviderRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services_module, "MAX_OUTPUT_BYTES", 24 * 16 * 7)
    with running_batch_server(["in_progress"] * 3) as server:
        world = World(server, records, batch=settings(concurrency=2))
        world.jobs.dims = 16
        assert_all(world.embed())
        assert max(len(job.lines) for job in server.jobs.values()) == 7
        assert len(server.jobs) == 6
        assert server.most_running == 2
    assert sum(usage.requests for usage in world.usage) == 6


def test_the_upload_is_bounded_too(records: ProviderRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services_module, "MAX_UPLOAD_BYTES", 1000)
    with running_batch_server() as server:
        assert_all(World(server, records).embed())
        assert all(len(content) <= 1000 for content in server.files.values())
        assert len(server.jobs) > 5


def test_a_part_has_at_least_one_text_and_at_most_fifty_thousand(
    records: ProviderRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_batch_server() as server:
        part = World(server, records).jobs._service.lines_of
        texts = {str(number): "x" for number in range(50_001)}
        assert len(part(list(texts), texts, 1)[0]) == 50_000
        assert len(part(list(texts), texts, None)[0]) < 1000
        assert len(part(["0"], {"0": "x" * 40_000_000}, None)[0]) == 1


def test_progress_reaches_the_end(records: ProviderRecords) -> None:
    steps: list[tuple[int, int, str]] = []
    with running_batch_server() as server:
        world = World(server, records)
        world.embedder.embed_documents(TEXTS, None, lambda *step: steps.append(step))
    assert steps[-1][:2] == (40, 40)
    assert "batch jobs at openai" in steps[0][2]


# -- waiting and coming back ---------------------------------------------------------------------------


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_waiting_the_next_process_picks_the_answers_up(
    provider: str, records: ProviderRecords, tmp_path: Path
) -> None:
    with running_batch_server(["in_progress"]) as server:
        first = World(server, records, provider, batch=settings(wait=False))
        assert first.embed() == [None] * 40
        assert first.kept == {}
        [note] = first.notes()
        assert f"40 texts wait in a batch job of {provider}; run `openclaw-mem index` later" in note
        assert plain_requests(server) == 0

        second = World(server, records, provider, batch=settings(wait=False))
        assert second.embed() == [None] * 40  # still in progress
        third = World(server, ProviderRecords(tmp_path / "providers.sqlite"), provider)
        assert_all(third.embed())
        assert len(third.kept) == 40
        assert len(server.jobs) == 1 and plain_requests(server) == 0
        assert records.jobs(third.embedder.key) == []


def test_a_job_is_shared_out_over_several_calls(records: ProviderRecords) -> None:
    with running_batch_server([]) as server:
        World(server, records, batch=settings(wait=False)).embed()
        usage: list[Usage] = []
        for start in range(0, 40, 10):  # fewer than the minimum, but they have a job
            world = World(server, records, minimum=32)  # as in a process of its own
            assert len(records.jobs(world.embedder.key)) == 1
            assert_all(world.embed(TEXTS[start : start + 10]), TEXTS[start : start + 10])
            usage += world.usage
        assert records.jobs(world.embedder.key) == []
        assert plain_requests(server) == 0
        assert server.count("POST /v1/batches") == 1
    assert [(used.requests, used.texts, used.tokens) for used in usage] == [
        (1, 10, 30),
        (0, 10, 30),
        (0, 10, 30),
        (0, 10, 30),
    ]


def test_without_waiting_all_texts_have_a_job_at_once(
    records: ProviderRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services_module, "MAX_OUTPUT_BYTES", 24 * 16 * 7)
    with running_batch_server(["in_progress"]) as server:
        first = World(server, records, batch=settings(wait=False, concurrency=1))
        first.jobs.dims = 16
        assert first.embed() == [None] * 40
        assert len(server.jobs) == len(records.jobs(first.embedder.key)) == 6
        assert_all(World(server, records).embed())
        assert len(server.jobs) == 6 and records.jobs(first.embedder.key) == []


def test_new_texts_beside_a_stored_job_get_their_own(records: ProviderRecords) -> None:
    with running_batch_server() as server:
        World(server, records, batch=settings(wait=False)).embed()
        more = [*TEXTS, *(f"{text} later" for text in TEXTS)]
        assert_all(World(server, records).embed(more), more)
        assert [len(job.lines) for job in server.jobs.values()] == [40, 40]


def test_a_job_that_the_provider_has_forgotten_is_submitted_anew(records: ProviderRecords) -> None:
    with running_batch_server() as server:
        world = World(server, records)
        hashes = tuple(text_hash(text) for text in TEXTS)
        records.save_job(
            StoredJob("batch_gone", world.embedder.key, "openai", "submitted", time.time(), hashes)
        )
        assert_all(world.embed())
        assert len(server.jobs) == 1 and world.notes() == []
        assert records.jobs(world.embedder.key) == []


def test_a_job_that_takes_too_long_stays_stored(records: ProviderRecords) -> None:
    with running_batch_server(["in_progress"] * 10_000) as server:
        world = World(server, records, batch=settings(timeout_minutes=0.002))
        assert world.embed() == [None] * 40
        [note] = world.notes()
        assert note.startswith("batch-waiting: 40 texts wait")
        assert world.jobs.failures == 0 and plain_requests(server) == 0
        assert len(records.jobs(world.embedder.key)) == 1
        server.states.clear()
        assert_all(World(server, records).embed())
        assert len(server.jobs) == 1


@pytest.mark.parametrize("hang", ["", "GET /v1/batches", "POST /v1/files", "/content"])
def test_cancel_is_prompt_and_the_job_is_not_lost(hang: str, records: ProviderRecords) -> None:
    states = [] if hang == "/content" else ["in_progress"] * 10_000
    with running_batch_server(states, hang=hang) as server:
        world = World(server, records, batch=settings(poll_interval_ms=50))
        cancel = threading.Event()

        def stop() -> None:
            until(lambda: server.seen if hang == "POST /v1/files" else records.jobs(world.embedder.key))
            cancel.set()

        threading.Thread(target=stop).start()
        started = time.monotonic()
        with pytest.raises(Cancelled) as caught:
            world.embed(cancel=cancel)
        assert time.monotonic() - started < 15, "less than the server hangs"
        if hang != "POST /v1/files":
            assert "1 batch job continues at openai" in str(caught.value)
            assert len(records.jobs(world.embedder.key)) == 1
        server.hang = ""
        server.states.clear()
        assert_all(World(server, records).embed())
        assert len(server.jobs) == 1


def test_cancel_while_a_job_is_created_still_learns_its_id(records: ProviderRecords) -> None:
    class Slow(threading.Event):
        """Set as soon as the file is uploaded, that is while the job is being created."""

        def is_set(self) -> bool:
            return any("/batches" in short for short in server.asked)

    with running_batch_server() as server:
        world = World(server, records)
        with pytest.raises(Cancelled, match="continues at openai"):
            world.embed(cancel=Slow())
        assert len(records.jobs(world.embedder.key)) == 1


CHILD = """
    import sys
    from pathlib import Path
    from openclaw_mem_engine.config.settings import BatchSettings
    from openclaw_mem_engine.providers.registry import EmbedderSpec
    from openclaw_mem_engine.providers.batch import with_batches
    from openclaw_mem_engine.providers.records import ProviderRecords
    from openclaw_mem_engine.providers.registry import make_embedder

    provider, base_url, folder, key = sys.argv[1:]
    spec = EmbedderSpec(provider, model="m8", base_url=base_url, api_key=key)
    records = ProviderRecords(Path(folder) / "providers.sqlite")
    batch = BatchSettings(enabled=True, poll_interval_ms=20)
    embedder = with_batches(make_embedder(spec), records, batch)
    embedder.embed_documents([f"note {number} about topic{number}" for number in range(40)])
"""


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_killed_process_has_not_paid_for_nothing(provider: str, tmp_path: Path) -> None:
    with running_batch_server(["in_progress"] * 10_000) as server:
        command = [sys.executable, "-c", textwrap.dedent(CHILD), provider, server.base_url(provider)]
        child = subprocess.Popen([*command, str(tmp_path), KEY], stderr=subprocess.PIPE, text=True)
        try:
            limit = time.monotonic() + 30
            while not any(job.looks for job in server.jobs.values()):
                assert time.monotonic() < limit and child.poll() is None, child.communicate()[1]
                time.sleep(0.01)
        finally:
            child.kill()
            child.communicate()
        server.states.clear()
        records = ProviderRecords(tmp_path / "providers.sqlite")
        world = World(server, records, provider)
        assert_all(world.embed())
        assert len(server.files) == len(server.jobs) == 1
        assert plain_requests(server) == 0
        assert records.jobs(world.embedder.key) == []


def test_answers_are_kept_before_the_job_is_forgotten(records: ProviderRecords) -> None:
    with running_batch_server() as server:
        world = World(server, records)

        def full(places: Sequence[int], vectors: Sequence[Any]) -> None:
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            world.embedder.embed_documents(TEXTS, None, None, full)
        assert len(records.jobs(world.embedder.key)) == 1
        assert_all(World(server, records).embed())
        assert len(server.jobs) == 1


def test_a_refused_text_is_named_by_its_place_in_what_was_asked_for(records: ProviderRecords) -> None:
    def spoil(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        lines[5] = {"custom_id": lines[5]["custom_id"], "error": {"message": "too long"}}
        return lines

    with running_batch_server(change=spoil, refusals={"/embeddings": [400]}) as server:
        world = World(server, records)
        with pytest.raises(TextRefused) as caught:
            world.embed(["  ", TEXTS[0], *TEXTS])
        assert caught.value.position == 7
        assert caught.value.status == 400
        assert sorted(world.kept) == [place for place in range(42) if place != 7]
        assert_all(world.embed([TEXTS[0]]), [TEXTS[0]])


def test_secrets_of_the_address_are_not_told(records: ProviderRecords) -> None:
    secret = "Zx81qPlm77Tt0Wqa=="
    base_url = f"https://api.openai.com/v1?code={secret}"
    inner = remote_embedder("openai", base_url=base_url, api_key=KEY)
    spec = EmbedderSpec("openai", base_url=base_url, api_key=KEY)
    assert secret not in repr(spec)
    embedder = with_batches(inner, records, settings())
    assert isinstance(embedder, BatchEmbedder)
    assert embedder._jobs._service.transport.quote(f"not with code {secret}") == "not with code ***"


def test_estimated_tokens_are_rounded_as_everywhere(records: ProviderRecords) -> None:
    with running_batch_server() as server:
        world = World(server, records, "gemini")
        world.embed(["tenletters"])
    assert [(usage.tokens, usage.estimated) for usage in world.usage] == [(3, True)]


def test_what_is_missing_is_what_the_inner_embedder_misses(records: ProviderRecords) -> None:
    inner = remote_embedder("openai")
    embedder = with_batches(inner, records, settings())
    assert isinstance(embedder, BatchEmbedder)
    assert embedder.why_not() == inner.why_not() is not None
