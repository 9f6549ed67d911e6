"""The batch protocols of OpenAI, Voyage and Gemini without the network: what is sent, how answers are read.

All three work alike: upload a file with one request a line, create a job for it, look at the job until it has
ended, fetch a file with one answer a line, in any order. Every line carries the SHA-256 of its text as its
id, so answers find their texts without anything being remembered but the text itself.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol
from urllib.parse import quote, urlsplit

from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.base import BadAnswer

#: No provider takes more requests in one job.
MAX_REQUESTS = 50_000

_ENDED: dict[str, Literal["done", "failed"]] = {
    "completed": "done",
    "succeeded": "done",
    "done": "done",
    "failed": "failed",
    "expired": "failed",
    "cancelled": "failed",
    "canceled": "failed",
}
# Ids come from a server and go into paths: nothing that could lead elsewhere.
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,255}")


@dataclass(frozen=True, slots=True)
class Upload:
    """A POST of the input file. ``path`` is relative to the base URL, or a whole URL."""

    path: str
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class JobState:
    """What a server says of a job.

    ``word`` is its own word for the state; ``output`` and ``errors`` are files, "" when there are none. Also
    a job that has failed, expired or was cancelled may have an output: what was finished until then.
    """

    id: str
    end: Literal["", "done", "failed"]
    word: str
    output: str = ""
    errors: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of an output: ``row`` is the embedding as it was sent, None when there is only an error
    (``message``; ``key`` is "" when it is one of the whole job). ``tokens`` is None where the server does not
    count."""

    key: str
    row: object | None
    message: str = ""
    tokens: int | None = None


class BatchWire(Protocol):
    """The requests and answers of one provider and model. Methods that read raise BadAnswer."""

    @property
    def provider(self) -> str: ...

    @property
    def model(self) -> str: ...

    def line(self, key: str, text: str) -> bytes:
        """The request for one text, without a line end."""
        ...

    def upload(self, lines: Sequence[bytes]) -> Upload: ...

    def file_of(self, body: bytes) -> str:
        """The id of the file that was uploaded."""
        ...

    def create(self, file: str, agent: str) -> tuple[str, dict[str, object]]:
        """(path, JSON) of the POST that starts a job."""
        ...

    def state_of(self, body: bytes, job: str = "") -> JobState:
        """The state of a job, from the answer to its creation or to a look at it (``job``: its id)."""
        ...

    def job_path(self, job: str) -> str: ...

    def content_paths(self, file: str) -> tuple[str, ...]:
        """Where a file can be fetched; the later ones when the first is refused or holds no answers."""
        ...

    def answer_of(self, line: dict[str, object]) -> Answer | None:
        """None when a line answers nobody."""
        ...


def batch_wire(provider: str, base_url: str, model: str) -> BatchWire | None:
    """The batch protocol of a provider, None when it has none. ``base_url`` is that of its embeddings."""
    if provider == "openai":
        return OpenAIBatch(model)
    if provider == "voyage":
        return VoyageBatch(model)
    return GeminiBatch(base_url, model) if provider == "gemini" else None


class OpenAIBatch:
    """``/files`` and ``/batches`` of the OpenAI protocol."""

    provider = "openai"

    def __init__(self, model: str) -> None:
        self.model = model

    def line(self, key: str, text: str) -> bytes:
        body = {"model": self.model, "input": text}
        return _json({"custom_id": key, "method": "POST", "url": "/v1/embeddings", "body": body})

    def upload(self, lines: Sequence[bytes]) -> Upload:
        content = b"\n".join(lines)
        digest, boundary = _digest(content)
        parts = (
            (b'Content-Disposition: form-data; name="purpose"', b"batch"),
            (
                b'Content-Disposition: form-data; name="file"; '
                b'filename="memory-embeddings.%s.jsonl"\r\n'
                b"Content-Type: application/jsonl" % digest.encode(),
                content,
            ),
        )
        return Upload("/files", f"multipart/form-data; boundary={boundary}", _multipart(boundary, parts))

    def file_of(self, body: bytes) -> str:
        return _id(_object(body, "the upload").get("id"), "the upload")

    def create(self, file: str, agent: str) -> tuple[str, dict[str, object]]:
        return "/batches", {
            "input_file_id": file,
            "endpoint": "/v1/embeddings",
            "completion_window": "24h",
            "metadata": {"source": "openclaw-memory", "agent": agent},
        }

    def state_of(self, body: bytes, job: str = "") -> JobState:
        said = _object(body, "the batch job")
        word = str(said.get("status") or "unknown").lower()
        errors = said.get("errors")
        first = errors.get("data") if isinstance(errors, dict) else errors
        return JobState(
            id=job or _id(said.get("id"), "the batch job"),
            end=_end(word),
            word=word,
            output=_file(said.get("output_file_id")),
            errors=_file(said.get("error_file_id")),
            message=_message(first[0] if isinstance(first, list) and first else said.get("error")),
        )

    def job_path(self, job: str) -> str:
        return f"/batches/{job}"

    def content_paths(self, file: str) -> tuple[str, ...]:
        return (f"/files/{file}/content",)

    def answer_of(self, line: dict[str, object]) -> Answer | None:
        key = line.get("custom_id")
        key = key if isinstance(key, str) else ""
        response = _dict(line.get("response"))
        body = _dict(response.get("body"))
        status = response.get("status_code")
        refused = isinstance(status, int) and status >= 400
        if line.get("error") or refused or body.get("error"):
            said = _message(line.get("error")) or _message(body.get("error"))
            return Answer(key, None, said or (f"status {status}" if refused else "an error without a text"))
        if not key:
            return None
        data = body.get("data")
        item = data[0] if isinstance(data, list) and data else None
        row = item.get("embedding") if isinstance(item, dict) else None
        return Answer(key, row, "" if row is not None else "no embedding in the answer", _tokens(body))


class VoyageBatch(OpenAIBatch):
    """As OpenAI, but model and input type belong to the job, and the window is twelve hours."""

    provider = "voyage"

    def line(self, key: str, text: str) -> bytes:
        return _json({"custom_id": key, "body": {"input": text}})

    def create(self, file: str, agent: str) -> tuple[str, dict[str, object]]:
        return "/batches", {
            "input_file_id": file,
            "endpoint": "/v1/embeddings",
            "completion_window": "12h",
            "request_params": {"model": self.model, "input_type": "document"},
            "metadata": {"source": "clawdbot-memory", "agent": agent},
        }


class GeminiBatch:
    """Files and ``asyncBatchEmbedContent`` of the Gemini API."""

    provider = "gemini"

    def __init__(self, base_url: str, model: str) -> None:
        self.model = model
        parts = urlsplit(base_url.rstrip("/"))
        # A user name in the address becomes a header, as for all other requests.
        base = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        root = base.removesuffix("/v1beta")
        self._upload = f"{root}/upload/v1beta" if root != base else f"{base}/upload"

    def line(self, key: str, text: str) -> bytes:
        content = {"parts": [{"text": text}]}
        return _json({"key": key, "request": {"content": content, "task_type": "RETRIEVAL_DOCUMENT"}})

    def upload(self, lines: Sequence[bytes]) -> Upload:
        content = b"\n".join(lines)
        digest, boundary = _digest(content)
        about = {"file": {"displayName": f"memory-embeddings-{digest}", "mimeType": "application/jsonl"}}
        parts = (
            (b"Content-Type: application/json; charset=UTF-8", _json(about)),
            (b"Content-Type: application/jsonl; charset=UTF-8", content),
        )
        return Upload(
            f"{self._upload}/files?uploadType=multipart",
            f"multipart/related; boundary={boundary}",
            _multipart(boundary, parts),
        )

    def file_of(self, body: bytes) -> str:
        said = _object(body, "the upload")
        file = said.get("file")
        name = (file.get("name") if isinstance(file, dict) else None) or said.get("name")
        return f"files/{_id(name, 'the upload', 'files/')}"

    def create(self, file: str, agent: str) -> tuple[str, dict[str, object]]:
        batch = {"displayName": f"memory-embeddings-{agent}", "inputConfig": {"file_name": file}}
        return f"/models/{quote(self.model, safe='')}:asyncBatchEmbedContent", {"batch": batch}

    def state_of(self, body: bytes, job: str = "") -> JobState:
        said = _object(body, "the batch job")
        # The job itself, or a long-running operation round it: then the state stands in its metadata.
        inner, response = (_dict(said.get(name)) for name in ("metadata", "response"))
        state = said.get("state") or inner.get("state")
        if not state and said.get("done") is True:
            state = "failed" if said.get("error") else "done"
        word = re.sub(r"^(batch|job)_state_", "", str(state or "unknown").lower())
        places = (
            _dict(said.get("outputConfig")).get("file"),
            _dict(said.get("outputConfig")).get("fileId"),
            _dict(inner.get("output")).get("responsesFile"),
            _dict(said.get("output")).get("responsesFile"),
            response.get("responsesFile"),
        )
        return JobState(
            id=job or f"batches/{_id(said.get('name'), 'the batch job', 'batches/')}",
            end=_end(word),
            word=word,
            output=_file(next((place for place in places if place), None), "files/"),
            message=_message(said.get("error")) or _message(inner.get("error")),
        )

    def job_path(self, job: str) -> str:
        return f"/{job}"

    def content_paths(self, file: str) -> tuple[str, ...]:
        # Google's servers give the content of a file where others give it without being asked for media.
        return f"/files/{file}:download", f"/files/{file}:download?alt=media"

    def answer_of(self, line: dict[str, object]) -> Answer | None:
        key = next((line[name] for name in ("key", "custom_id", "request_id") if line.get(name)), None)
        key = key if isinstance(key, str) else ""
        response = _dict(line.get("response"))
        said = line.get("error") or response.get("error") or line.get("status")
        embedding = response.get("embedding") or line.get("embedding")
        row = _dict(embedding).get("values")
        if row is None or line.get("error") or response.get("error"):
            told = _message(said) or ("no embedding in the answer" if key else "")
            return Answer(key, None, told) if told else None
        return Answer(key, row) if key else None


def answers_of(wire: BatchWire, body: bytes) -> Iterator[Answer]:
    """The answers of an output, a line at a time; lines that are none are left out."""
    start = 0
    while start < len(body):
        end = body.find(b"\n", start)
        end = len(body) if end < 0 else end
        try:
            line = json.loads(body[start:end])
        except (ValueError, RecursionError):
            line = None
        start = end + 1
        answer = wire.answer_of(line) if isinstance(line, dict) else None
        if answer is not None:
            yield answer


def _json(value: object) -> bytes:
    return utf8(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _digest(content: bytes) -> tuple[str, str]:
    """SHA-256 hex of a file, and a multipart boundary: made from the content, it cannot stand in it."""
    digest = hashlib.sha256(content).hexdigest()
    return digest, f"memory-{digest[:32]}"


def _multipart(boundary: str, parts: Sequence[tuple[bytes, bytes]]) -> bytes:
    mark = b"--" + boundary.encode()
    chunks = [b"%s\r\n%s\r\n\r\n%s\r\n" % (mark, head, content) for head, content in parts]
    return b"".join([*chunks, mark, b"--\r\n"])


def _object(body: bytes, what: str) -> dict[str, object]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise BadAnswer(
            f"The answer about {what} is not a JSON object ({len(body):,} bytes). "
            "Check that the base URL is that of the provider itself, or turn remote.batch off."
        )
    return said


def _id(value: object, what: str, prefix: str = "") -> str:
    name = value.removeprefix(prefix) if isinstance(value, str) else ""
    if not _ID.fullmatch(name):
        raise BadAnswer(
            f"The answer about {what} holds no usable id. "
            "Check that the base URL is that of the provider itself, or turn remote.batch off."
        )
    return name


def _file(value: object, prefix: str = "") -> str:
    return _id(value, "the batch job", prefix) if value else ""


def _end(word: str) -> Literal["", "done", "failed"]:
    return _ENDED.get(word, "")


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _message(error: object) -> str:
    """The text of an error in any of the usual shapes; "" when there is none."""
    if isinstance(error, dict):
        said = error.get("message") or error.get("error") or error.get("code")
        return _message(said) if isinstance(said, dict) else str(said or "")
    return error if isinstance(error, str) else ""


def _tokens(body: dict[str, object]) -> int | None:
    usage = _dict(body.get("usage"))
    count = usage.get("total_tokens", usage.get("prompt_tokens"))
    return count if type(count) is int and count >= 0 else None
