"""The batch interface of Gemini: files and ``asyncBatchEmbedContent``."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

from openclaw_mem_engine.providers.batch.services import (
    ENDED,
    FILE_TIMEOUT_S,
    Answer,
    BatchService,
    JobState,
    checked_id,
    dict_of,
    file_id,
    json_bytes,
    json_object,
    message_of,
)

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.remote.transport import Transport


class GeminiBatch(BatchService):
    """Files and ``asyncBatchEmbedContent`` of the Gemini API."""

    provider = "gemini"

    def __init__(self, transport: Transport, base_url: str, model: str) -> None:
        super().__init__(transport, model)
        parts = urlsplit(base_url.rstrip("/"))
        # A user name in the address becomes a header, as for all other requests.
        base = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        root = base.removesuffix("/v1beta")
        self._upload_base = f"{root}/upload/v1beta" if root != base else f"{base}/upload"

    def line(self, key: str, text: str) -> bytes:
        content = {"parts": [{"text": text}]}
        return json_bytes({"key": key, "request": {"content": content, "task_type": "RETRIEVAL_DOCUMENT"}})

    def state(self, job: str, cancel: CancelToken | None) -> JobState:
        return self.state_of(self._send("GET", f"/{job}", "batch status", cancel), job)

    def outputs(self, file: str, cancel: CancelToken | None) -> Sequence[Callable[[], bytes]]:
        def fetch(path: str) -> Callable[[], bytes]:
            return lambda: self._send("GET", path, "batch output", cancel, timeout_s=FILE_TIMEOUT_S)

        # Google's servers give the content of a file where others give it without ``alt=media``.
        return fetch(f"/files/{file}:download"), fetch(f"/files/{file}:download?alt=media")

    def file_of(self, body: bytes) -> str:
        said = json_object(body, "the upload")
        name = dict_of(said.get("file")).get("name") or said.get("name")
        return f"files/{checked_id(name, 'the upload', 'files/')}"

    def state_of(self, body: bytes, job: str = "") -> JobState:
        said = json_object(body, "the batch job")
        # The job itself, or a long-running operation round it: then the state is in its metadata.
        inner, response = (dict_of(said.get(name)) for name in ("metadata", "response"))
        state = said.get("state") or inner.get("state")
        if not state and said.get("done") is True:
            state = "failed" if said.get("error") else "done"
        word = re.sub(r"^(batch|job)_state_", "", str(state or "unknown").lower())
        files = (
            dict_of(said.get("outputConfig")).get("file"),
            dict_of(said.get("outputConfig")).get("fileId"),
            dict_of(inner.get("output")).get("responsesFile"),
            dict_of(said.get("output")).get("responsesFile"),
            response.get("responsesFile"),
        )
        return JobState(
            id=job or f"batches/{checked_id(said.get('name'), 'the batch job', 'batches/')}",
            end=ENDED.get(word, ""),
            word=word,
            output=file_id(next((file for file in files if file), None), "files/"),
            message=message_of(said.get("error")) or message_of(inner.get("error")),
        )

    def answer_of(self, line: dict[str, object]) -> Answer | None:
        key = next((line[name] for name in ("key", "custom_id", "request_id") if line.get(name)), None)
        key = key if isinstance(key, str) else ""
        response = dict_of(line.get("response"))
        embedding = response.get("embedding") or line.get("embedding")
        row = dict_of(embedding).get("values")
        if row is None or line.get("error") or response.get("error"):
            error = message_of(line.get("error") or response.get("error") or line.get("status"))
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
        return self._send(
            "POST",
            f"{self._upload_base}/files?uploadType=multipart",
            "batch file upload",
            cancel,
            timeout_s=FILE_TIMEOUT_S,
            content=body + b"--%s--\r\n" % boundary.encode(),
            headers={"Content-Type": f"multipart/related; boundary={boundary}"},
        )

    def _create(self, file: str, agent: str, cancel: CancelToken | None) -> bytes:
        batch = {"displayName": f"memory-embeddings-{agent}", "inputConfig": {"file_name": file}}
        path = f"/models/{quote(self.model, safe='')}:asyncBatchEmbedContent"
        return self._send("POST", path, "batch create", cancel, json={"batch": batch})
