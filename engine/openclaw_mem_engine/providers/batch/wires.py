"""The batch interfaces of OpenAI, Voyage and Gemini. Requests of the first two are built by the ``openai``
package; answers are read here, since compatible servers leave fields out."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from openclaw_mem_engine.providers.batch.services import (
    ENDED,
    Answer,
    BatchService,
    JobState,
    checked_id,
    file_id,
    json_bytes,
    json_object,
    message_of,
)
from openclaw_mem_engine.providers.remote.wires import field_of

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.remote.transport import Transport


class OpenAIBatch(BatchService):
    """``/files`` and ``/batches`` of the OpenAI protocol."""

    provider = "openai"
    window: Any = "24h"
    metadata_source = "openclaw-memory"

    def line(self, key: str, text: str) -> bytes:
        body = {"model": self.model, "input": text}
        return json_bytes({"custom_id": key, "method": "POST", "url": "/v1/embeddings", "body": body})

    def state(self, job: str, cancel: CancelToken | None) -> JobState:
        ask = self._asking("batch status", cancel)
        return self.state_of(ask(lambda client: client.batches.with_raw_response.retrieve(job)), job)

    def outputs(self, file: str, cancel: CancelToken | None) -> Sequence[Callable[[], bytes]]:
        ask = self._asking("batch output", cancel)
        return [lambda: ask(lambda client: client.files.with_raw_response.content(file))]

    def file_of(self, body: bytes) -> str:
        return checked_id(json_object(body, "the upload").get("id"), "the upload")

    def state_of(self, body: bytes, job: str = "") -> JobState:
        said = json_object(body, "the batch job")
        word = str(said.get("status") or "unknown").lower()
        errors = said.get("errors")
        first = errors.get("data") if isinstance(errors, dict) else errors
        return JobState(
            id=job or checked_id(said.get("id"), "the batch job"),
            end=ENDED.get(word, ""),
            word=word,
            output=file_id(said.get("output_file_id")),
            errors=file_id(said.get("error_file_id")),
            message=message_of(first[0] if isinstance(first, list) and first else said.get("error")),
        )

    def answer_of(self, line: dict[str, object]) -> Answer | None:
        key = line.get("custom_id")
        key = key if isinstance(key, str) else ""
        body, status = field_of(line, "response", "body"), field_of(line, "response", "status_code")
        error, refused = field_of(body, "error"), isinstance(status, int) and status >= 400
        if line.get("error") or refused or error:
            said = message_of(line.get("error")) or message_of(error)
            return Answer(key, None, said or (f"status {status}" if refused else "an error without a text"))
        if not key:
            return None
        data, usage = field_of(body, "data"), field_of(body, "usage")
        row = field_of(data[0], "embedding") if isinstance(data, list) and data else None
        counts = (field_of(usage, name) for name in ("total_tokens", "prompt_tokens"))
        tokens = next((count for count in counts if type(count) is int and count >= 0), None)
        return Answer(key, row, "" if row is not None else "no embedding in the answer", tokens)

    def _upload(self, content: bytes, cancel: CancelToken | None) -> bytes:
        name = f"memory-embeddings.{hashlib.sha256(content).hexdigest()}.jsonl"
        return self._asking("batch file upload", cancel)(
            lambda client: client.files.with_raw_response.create(
                file=(name, content, "application/jsonl"), purpose="batch"
            )
        )

    def _create(self, file: str, agent: str, cancel: CancelToken | None) -> bytes:
        return self._asking("batch create", cancel)(
            lambda client: client.batches.with_raw_response.create(
                input_file_id=file,
                endpoint="/v1/embeddings",
                completion_window=self.window,
                metadata={"source": self.metadata_source, "agent": agent},
                extra_body=self.job_options(),  # what holds for all its lines
            )
        )

    def job_options(self) -> dict[str, object]:
        return {}

    def _asking(self, what: str, cancel: CancelToken | None) -> Callable[[Callable[[Any], Any]], bytes]:
        from openclaw_mem_engine.providers.remote.openai_client import ask

        return partial(ask, self.transport, **self.options(what, cancel))


class VoyageBatch(OpenAIBatch):
    """As OpenAI, but model and input type belong to the job, and the window is twelve hours."""

    provider = "voyage"
    window = "12h"
    metadata_source = "clawdbot-memory"

    def line(self, key: str, text: str) -> bytes:
        return json_bytes({"custom_id": key, "body": {"input": text}})

    def job_options(self) -> dict[str, object]:
        return {"request_params": {"model": self.model, "input_type": "document"}}


class GeminiBatch(BatchService):
    """Files and ``asyncBatchEmbedContent`` of the Gemini API."""

    provider = "gemini"

    def __init__(self, transport: Transport, model: str) -> None:
        super().__init__(transport, model)
        parts = urlsplit(transport.base_url.rstrip("/"))
        # A user name in the address becomes a header, as for all other requests.
        base = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        root = base.removesuffix("/v1beta")
        self._upload_base = f"{root}/upload/v1beta" if root != base else f"{base}/upload"

    def line(self, key: str, text: str) -> bytes:
        content = {"parts": [{"text": text}]}
        return json_bytes({"key": key, "request": {"content": content, "task_type": "RETRIEVAL_DOCUMENT"}})

    def state(self, job: str, cancel: CancelToken | None) -> JobState:
        return self.state_of(
            self.transport.request("GET", f"/{job}", **self.options("batch status", cancel)), job
        )

    def outputs(self, file: str, cancel: CancelToken | None) -> Sequence[Callable[[], bytes]]:
        fetch = partial(self.transport.request, "GET", **self.options("batch output", cancel))
        # Google's servers give the content of a file where others give it without ``alt=media``.
        paths = (f"/files/{file}:download", f"/files/{file}:download?alt=media")
        return [partial(fetch, path) for path in paths]

    def file_of(self, body: bytes) -> str:
        said = json_object(body, "the upload")
        name = field_of(said, "file", "name") or said.get("name")
        return f"files/{checked_id(name, 'the upload', 'files/')}"

    def state_of(self, body: bytes, job: str = "") -> JobState:
        said = json_object(body, "the batch job")
        # The job itself, or a long-running operation round it: then the state is in its metadata.
        state = said.get("state") or field_of(said, "metadata", "state")
        if not state and said.get("done") is True:
            state = "failed" if said.get("error") else "done"
        word = re.sub(r"^(batch|job)_state_", "", str(state or "unknown").lower())
        files = (
            field_of(said, "outputConfig", "file"),
            field_of(said, "outputConfig", "fileId"),
            field_of(said, "metadata", "output", "responsesFile"),
            field_of(said, "output", "responsesFile"),
            field_of(said, "response", "responsesFile"),
        )
        return JobState(
            id=job or f"batches/{checked_id(said.get('name'), 'the batch job', 'batches/')}",
            end=ENDED.get(word, ""),
            word=word,
            output=file_id(next((file for file in files if file), None), "files/"),
            message=message_of(said.get("error")) or message_of(field_of(said, "metadata", "error")),
        )

    def answer_of(self, line: dict[str, object]) -> Answer | None:
        key = next((line[name] for name in ("key", "custom_id", "request_id") if line.get(name)), None)
        key = key if isinstance(key, str) else ""
        said = line.get("error") or field_of(line, "response", "error")
        embedding = field_of(line, "response", "embedding") or line.get("embedding")
        row = field_of(embedding, "values")
        if row is None or said:
            error = message_of(said or line.get("status"))
            error = error or ("no embedding in the answer" if key else "")
            return Answer(key, None, error) if error else None
        return Answer(key, row) if key else None

    def _upload(self, content: bytes, cancel: CancelToken | None) -> bytes:
        digest = hashlib.sha256(content).hexdigest()
        boundary = f"memory-{digest[:32]}"  # made from the content, so it cannot be a part of it
        about = {"file": {"displayName": f"memory-embeddings-{digest}", "mimeType": "application/jsonl"}}
        parts = ((b"application/json", json_bytes(about)), (b"application/jsonl", content))
        body = b"".join(
            b"--%s\r\nContent-Type: %s; charset=UTF-8\r\n\r\n%s\r\n" % (boundary.encode(), kind, part)
            for kind, part in parts
        )
        return self.transport.request(
            "POST",
            f"{self._upload_base}/files?uploadType=multipart",
            **self.options("batch file upload", cancel),
            content=body + b"--%s--\r\n" % boundary.encode(),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
        )

    def _create(self, file: str, agent: str, cancel: CancelToken | None) -> bytes:
        batch = {"displayName": f"memory-embeddings-{agent}", "inputConfig": {"file_name": file}}
        path = f"/models/{quote(self.model, safe='')}:asyncBatchEmbedContent"
        return self.transport.request(
            "POST", path, json={"batch": batch}, **self.options("batch create", cancel)
        )


def batch_service(provider: str, transport: Transport, model: str) -> BatchService | None:
    """The batch interface of a provider, None when it has none."""
    kinds = (OpenAIBatch, VoyageBatch, GeminiBatch)
    return next((kind(transport, model) for kind in kinds if kind.provider == provider), None)
