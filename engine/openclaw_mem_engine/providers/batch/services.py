"""The batch interfaces of providers: what is sent, and how answers are read. Those of OpenAI and Voyage.

All work alike: upload a file with one request a line, create a job for it, ask for its state until it has
ended, fetch a file with one answer a line, in any order. Every line carries the SHA-256 of its text as its
id. Requests of OpenAI and Voyage are built by the ``openai`` package; answers are read here, since compatible
servers leave fields out.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openclaw_mem_engine.cancellation import Deadline, LinkedToken
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.base import BadAnswer
from openclaw_mem_engine.providers.remote.retry import RetryPolicy

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.remote.openai_client import RawAnswer
    from openclaw_mem_engine.providers.remote.transport import Transport

#: In bytes. An output that is more than twice as long is given up.
MAX_OUTPUT_BYTES = 64_000_000

FILE_TIMEOUT_S = 300.0
_TIMEOUT_S = 60.0
#: A server that has received the order for a job gets this long to answer with its id, also after a cancel:
#: otherwise the job would be paid for and lost.
_GRACE_S = 2.0
_GET = RetryPolicy(max_retries=2)
#: Sent again only when the server has answered that it cannot just now: a request without an answer may have
#: started a job.
_POST = RetryPolicy(max_retries=2, max_silent_retries=0)

ENDED: dict[str, Literal["done", "failed"]] = {
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
class JobState:
    """The state of a job, as the server reports it.

    ``word`` is its own word for it; ``output`` and ``errors`` are files, "" when there are none. A job that
    has failed, expired or was cancelled may have an output, too: what was finished until then.
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


class BatchService(ABC):
    """The batch interface of one endpoint and model. Methods with ``cancel`` block for the time of a request
    and raise ProviderError or Cancelled; those that read raise BadAnswer."""

    provider: ClassVar[str]

    def __init__(self, transport: Transport, model: str) -> None:
        self.transport, self.model = transport, model

    def submit(self, lines: Sequence[bytes], agent: str, cancel: CancelToken | None) -> str:
        """Upload request lines and start a job; returns its id. ``agent`` is stored with the job."""
        file = self.file_of(self._upload(b"\n".join(lines), cancel))
        late = None if cancel is None else _set_later(cancel, _GRACE_S)
        return self.state_of(self._create(file, agent, late)).id

    @abstractmethod
    def line(self, key: str, text: str) -> bytes:
        """The request for one text, without a line end."""

    @abstractmethod
    def state(self, job: str, cancel: CancelToken | None) -> JobState:
        """The present state of a job."""

    @abstractmethod
    def outputs(self, file: str, cancel: CancelToken | None) -> Sequence[Callable[[], bytes]]:
        """Ways to fetch a file; the later ones for when the first is refused or holds no answers."""

    @abstractmethod
    def file_of(self, body: bytes) -> str:
        """The id of the file that was uploaded, from the answer to the upload."""

    @abstractmethod
    def state_of(self, body: bytes, job: str = "") -> JobState:
        """The state of a job, from the answer to its creation or to a question for it (``job``: its id)."""

    @abstractmethod
    def answer_of(self, line: dict[str, object]) -> Answer | None:
        """The answer in a line of an output; None when it belongs to no text."""

    @abstractmethod
    def _upload(self, content: bytes, cancel: CancelToken | None) -> bytes: ...

    @abstractmethod
    def _create(self, file: str, agent: str, cancel: CancelToken | None) -> bytes: ...

    def answers_of(self, body: bytes) -> Iterator[Answer]:
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
            answer = self.answer_of(line) if isinstance(line, dict) else None
            if answer is not None:
                yield answer

    def _send(
        self,
        method: str,
        path: str,
        what: str,
        cancel: CancelToken | None,
        *,
        timeout_s: float = _TIMEOUT_S,
        json: object | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        return self.transport.request(
            method,
            path,
            json=json,
            content=content,
            headers=headers,
            what=what,
            timeout_s=timeout_s,
            policy=_GET if method == "GET" else _POST,
            cancel=cancel,
            max_bytes=2 * MAX_OUTPUT_BYTES,
        ).body


class OpenAIBatch(BatchService):
    """``/files`` and ``/batches`` of the OpenAI protocol."""

    provider = "openai"
    window: Any = "24h"
    metadata_source = "openclaw-memory"

    def line(self, key: str, text: str) -> bytes:
        body = {"model": self.model, "input": text}
        return json_bytes({"custom_id": key, "method": "POST", "url": "/v1/embeddings", "body": body})

    def state(self, job: str, cancel: CancelToken | None) -> JobState:
        body = self._ask(
            "batch status", cancel, lambda client: client.batches.with_raw_response.retrieve(job)
        )
        return self.state_of(body, job)

    def outputs(self, file: str, cancel: CancelToken | None) -> Sequence[Callable[[], bytes]]:
        def fetch() -> bytes:
            return self._ask(
                "batch output",
                cancel,
                lambda client: client.files.with_raw_response.content(file),
                timeout_s=FILE_TIMEOUT_S,
            )

        return (fetch,)

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
        response = dict_of(line.get("response"))
        body = dict_of(response.get("body"))
        status = response.get("status_code")
        refused = isinstance(status, int) and status >= 400
        if line.get("error") or refused or body.get("error"):
            said = message_of(line.get("error")) or message_of(body.get("error"))
            return Answer(key, None, said or (f"status {status}" if refused else "an error without a text"))
        if not key:
            return None
        data = body.get("data")
        item = data[0] if isinstance(data, list) and data else None
        row = item.get("embedding") if isinstance(item, dict) else None
        return Answer(key, row, "" if row is not None else "no embedding in the answer", _tokens(body))

    def _upload(self, content: bytes, cancel: CancelToken | None) -> bytes:
        name = f"memory-embeddings.{hashlib.sha256(content).hexdigest()}.jsonl"
        return self._ask(
            "batch file upload",
            cancel,
            lambda client: client.files.with_raw_response.create(
                file=(name, content, "application/jsonl"), purpose="batch"
            ),
            timeout_s=FILE_TIMEOUT_S,
        )

    def _create(self, file: str, agent: str, cancel: CancelToken | None) -> bytes:
        return self._ask(
            "batch create",
            cancel,
            lambda client: client.batches.with_raw_response.create(
                input_file_id=file,
                endpoint="/v1/embeddings",
                completion_window=self.window,
                metadata={"source": self.metadata_source, "agent": agent},
                extra_body=self.job_options(),  # what holds for all its lines
            ),
        )

    def job_options(self) -> dict[str, object]:
        return {}

    def _ask(
        self,
        what: str,
        cancel: CancelToken | None,
        request: Callable[[Any], RawAnswer],
        *,
        timeout_s: float = _TIMEOUT_S,
    ) -> bytes:
        from openclaw_mem_engine.providers.remote.openai_client import ask

        def send(method: str, path: str, *, content: bytes | None, headers: Mapping[str, str]) -> bytes:
            return self._send(
                method, path, what, cancel, timeout_s=timeout_s, content=content, headers=headers
            )

        return ask(send, request)


class VoyageBatch(OpenAIBatch):
    """As OpenAI, but model and input type belong to the job, and the window is twelve hours."""

    provider = "voyage"
    window = "12h"
    metadata_source = "clawdbot-memory"

    def line(self, key: str, text: str) -> bytes:
        return json_bytes({"custom_id": key, "body": {"input": text}})

    def job_options(self) -> dict[str, object]:
        return {"request_params": {"model": self.model, "input_type": "document"}}


def _set_later(cancel: CancelToken, seconds: float) -> LinkedToken:
    """A token that is set ``seconds`` after ``cancel`` was first seen set."""
    deadline = Deadline(None)

    def is_over() -> bool:
        nonlocal deadline
        if cancel.is_set() and deadline.left_s == math.inf:
            deadline = Deadline(seconds)
        return deadline.is_over

    return LinkedToken(when=is_over)


def json_bytes(value: object) -> bytes:
    return utf8(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def json_object(body: bytes, what: str) -> dict[str, object]:
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


def checked_id(value: object, what: str, prefix: str = "") -> str:
    name = value.removeprefix(prefix) if isinstance(value, str) else ""
    if not _ID.fullmatch(name):
        raise BadAnswer(
            f"The answer about {what} holds no usable id. "
            "Check that the base URL is that of the provider itself, or turn remote.batch off."
        )
    return name


def file_id(value: object, prefix: str = "") -> str:
    return checked_id(value, "the batch job", prefix) if value else ""


def dict_of(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def message_of(error: object) -> str:
    """The text of an error in any of the usual shapes; "" when there is none."""
    if isinstance(error, dict):
        said = error.get("message") or error.get("error") or error.get("code")
        return message_of(said) if isinstance(said, dict) else str(said or "")
    return error if isinstance(error, str) else ""


def _tokens(body: dict[str, object]) -> int | None:
    usage = dict_of(body.get("usage"))
    count = usage.get("total_tokens", usage.get("prompt_tokens"))
    return count if type(count) is int and count >= 0 else None
