"""The batch protocols as pure functions, against the recorded requests of OpenClaw."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.providers.base import BadAnswer
from openclaw_mem_engine.providers.batch.services import BatchService
from openclaw_mem_engine.providers.batch.wires import batch_service
from support.batch_server import parts_of, text_of
from support.goldens import golden

PROVIDERS = ("openai", "voyage", "gemini")
BASE = {"openai": "http://h", "voyage": "http://h", "gemini": "http://h/v1beta"}


class Recorder:
    """A transport that keeps what is sent; every answer holds an id of the file and of the job."""

    def __init__(self) -> None:
        self.base_url = ""
        self.sent: list[dict[str, Any]] = []

    def request(self, method: str, path: str, **options: Any) -> bytes:
        self.sent.append({"method": method, "path": path, **options})
        name = "files/file-1" if len(self.sent) == 1 else "batches/b1"
        return json.dumps({"id": "file-1", "name": name}).encode()


def service(
    provider: str, base_url: str = "", model: str = "m8", recorder: Recorder | None = None
) -> BatchService:
    transport: Any = recorder or Recorder()
    transport.base_url = base_url or BASE[provider]
    made = batch_service(provider, transport, model)
    assert made is not None
    return made


def without_id(line: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("custom_id", "key")}


@pytest.mark.goldens
@pytest.mark.parametrize("provider", PROVIDERS)
def test_upload_and_create_are_those_of_the_recording(provider: str) -> None:
    sent = golden("batch_jobs")[f"{provider} ok"]["requests"]
    recorded = parts_of(sent[0]["multipart"], "<B>")
    lines = [json.loads(line) for line in recorded[1][1].split("\n")]
    texts = [text_of(line) for line in lines]
    recorder = Recorder()
    ours = service(provider, recorder=recorder)

    ours.submit([ours.line(text_hash(text), text) for text in texts], "main", None)
    upload, create = recorder.sent
    kind, _, boundary = upload["headers"]["Content-Type"].partition("; boundary=")
    assert kind == sent[0]["headers"]["content-type"].partition(";")[0]
    assert upload["path"].removeprefix("http://h") == sent[0]["url"]
    body = upload["content"].decode()
    assert body.endswith(f"\r\n--{boundary}--\r\n")
    made = parts_of(body, boundary)
    for (head, _), (theirs, _) in zip(made, recorded, strict=True):
        assert sorted(head.split("\r\n")) == sorted(theirs.replace("<HASH>", _digest(body)).split("\r\n"))
    assert made[0][1] == recorded[0][1].replace("<HASH>", _digest(body))
    own_lines = [json.loads(line) for line in made[1][1].split("\n")]
    assert [without_id(line) for line in own_lines] == [without_id(line) for line in lines]
    assert [line.get("custom_id") or line["key"] for line in own_lines] == [text_hash(t) for t in texts]

    assert (create.get("json") or json.loads(create["content"])) == sent[1]["body"]
    assert create["path"] == sent[1]["url"].removeprefix("/v1beta")


def _digest(body: str) -> str:
    _, _, tail = body.partition("memory-embeddings")
    return tail[1:65]


@pytest.mark.parametrize(
    ("word", "end"),
    [
        *((word, "") for word in ("validating", "in_progress", "finalizing", "cancelling", "made up")),
        ("completed", "done"),
        *((word, "failed") for word in ("failed", "expired", "cancelled")),
    ],
)
def test_states_of_openai_and_voyage(word: str, end: str) -> None:
    body = json.dumps({"id": "batch_1", "status": word, "output_file_id": "out", "error_file_id": None})
    for provider in ("openai", "voyage"):
        state = service(provider).state_of(body.encode())
        assert (state.id, state.end, state.word, state.output, state.errors) == (
            "batch_1",
            end,
            word,
            "out",
            "",
        )


@pytest.mark.parametrize(
    ("said", "end", "output"),
    [
        ({"state": "SUCCEEDED", "outputConfig": {"file": "files/o"}}, "done", "o"),
        ({"state": "COMPLETED", "outputConfig": {"fileId": "o"}}, "done", "o"),
        ({"state": "DONE", "metadata": {"output": {"responsesFile": "files/o"}}}, "done", "o"),
        (
            {"metadata": {"state": "BATCH_STATE_SUCCEEDED"}, "response": {"responsesFile": "files/o"}},
            "done",
            "o",
        ),
        ({"done": True, "response": {"responsesFile": "files/o"}}, "done", "o"),
        ({"done": True, "error": {"message": "no"}}, "failed", ""),
        ({"metadata": {"state": "BATCH_STATE_RUNNING"}}, "", ""),
        ({"state": "JOB_STATE_EXPIRED"}, "failed", ""),
        ({}, "", ""),
    ],
)
def test_states_of_gemini(said: dict[str, Any], end: str, output: str) -> None:
    state = service("gemini").state_of(json.dumps({"name": "batches/b1", **said}).encode())
    assert (state.id, state.end, state.output) == ("batches/b1", end, output)


def test_an_address_with_another_shape_still_gets_an_upload_path() -> None:
    for base, path in (
        ("https://g/v1beta", "https://g/upload/v1beta/files"),
        ("https://u:p@g:1/x/v1beta/", "https://g:1/x/upload/v1beta/files"),
        ("https://g/proxy", "https://g/proxy/upload/files"),
    ):
        recorder = Recorder()
        service("gemini", base, "m", recorder).submit([b"{}"], "main", None)
        assert recorder.sent[0]["path"] == f"{path}?uploadType=multipart"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("bad", ["../../admin", "a/b", "a?b=c", "", None, 7, "batches/../x", "a" * 300])
def test_ids_that_would_lead_elsewhere_are_refused(provider: str, bad: object) -> None:
    body = json.dumps({"id": bad, "name": bad, "status": "validating"}).encode()
    with pytest.raises(BadAnswer):
        service(provider).state_of(body)
    with pytest.raises(BadAnswer):
        service(provider).file_of(body)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b"\xff\xfe", b"[" * 100_000])
def test_answers_that_are_no_object_are_refused(provider: str, body: bytes) -> None:
    with pytest.raises(BadAnswer):
        service(provider).state_of(body, "b1")


def test_output_lines_of_every_shape() -> None:
    good = {"custom_id": "a", "response": {"status_code": 200, "body": {"data": [{"embedding": [1.0]}]}}}
    lines: list[object] = [
        good,
        {"custom_id": "b", "response": None, "error": {"message": "too long"}},
        {"custom_id": "c", "response": {"status_code": 400, "body": {"error": {"message": "bad"}}}},
        {"custom_id": "d", "response": {"status_code": 500}},
        {"custom_id": "e", "response": {"status_code": 200, "body": {"data": []}}},
        {"error": {"message": "the whole job"}},
        {"custom_id": 7, "response": {}},
        [1, 2],
        "x",
    ]
    body = b"\r\n".join(json.dumps(line).encode() for line in lines) + b"\n\n{torn"
    found = [(answer.key, answer.row, answer.message) for answer in service("openai").answers_of(body)]
    assert found == [
        ("a", [1.0], ""),
        ("b", None, "too long"),
        ("c", None, "bad"),
        ("d", None, "status 500"),
        ("e", None, "no embedding in the answer"),
        ("", None, "the whole job"),
    ]


def test_output_lines_of_gemini() -> None:
    lines: list[object] = [
        {"key": "a", "response": {"embedding": {"values": [1.0]}}},
        {"custom_id": "b", "embedding": {"values": [2.0]}},
        {"request_id": "c", "error": {"message": "no"}},
        {"key": "d", "response": {"error": {"message": "no"}}},
        {"key": "e", "status": {"code": 3, "message": "bad"}},
        {"name": "files/out", "mimeType": "application/jsonl"},
    ]
    body = b"\n".join(json.dumps(line).encode() for line in lines)
    found = [(answer.key, answer.row, answer.message) for answer in service("gemini").answers_of(body)]
    assert found == [
        ("a", [1.0], ""),
        ("b", [2.0], ""),
        ("c", None, "no"),
        ("d", None, "no"),
        ("e", None, "bad"),
    ]


def test_providers_without_a_batch_interface() -> None:
    transport: Any = Recorder()
    assert [batch_service(name, transport, "m") for name in ("mistral", "ollama", "local")] == [None] * 3
