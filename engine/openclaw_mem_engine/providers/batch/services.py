"""The batch interface of a provider: upload a file with one request a line, create a job for it, ask for its
state until it has ended, fetch a file with one answer a line, in any order. A line has the SHA-256 of its
text as its id.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed, check_vectors, stop_if_cancelled
from openclaw_mem_engine.providers.remote.limits import batch_end
from openclaw_mem_engine.providers.remote.transport import RetryPolicy

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Vector
    from openclaw_mem_engine.providers.remote.transport import Transport

#: No provider takes more requests in one job.
MAX_REQUESTS = 50_000
#: In bytes. Input and output of a job are in memory as a whole; an output of more than twice as many is given
#: up.
MAX_UPLOAD_BYTES = 32_000_000
MAX_OUTPUT_BYTES = 64_000_000

#: Bytes of one number in an output (``-0.006929283495992422, ``), and the longest vectors in common use.
_NUMBER_BYTES = 24
_LONGEST_DIMS = 3072

_FILE_TIMEOUT_S = 300.0
_TIMEOUT_S = 60.0
#: A server that creates a job gets this long to answer with its id after a cancel: else it is paid and lost.
_GRACE_S = 2.0
_GET = RetryPolicy(max_retries=2)
#: A request without an answer may have started a job.
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
    """The state of a job, as the server reports it; ``word`` is its own. ``output`` and ``errors``
    are files, "" when there are none: a job that has failed may have an output."""

    id: str
    end: Literal["", "done", "failed"]
    word: str
    output: str = ""
    errors: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of an output: ``row`` is the embedding as it was sent, None when there is only an error
    (``message``; of the whole job when ``key`` is ""). ``tokens`` is None where the server does not count."""

    key: str
    row: object | None
    message: str = ""
    tokens: int | None = None


@dataclass(slots=True)
class Answers:
    """The outputs of one job, by text hash: vectors, of the length ``dims``, and tokens where the server
    counted. ``said``: why texts have no vector, redacted."""

    dims: int | None
    vectors: dict[str, Vector | None] = field(default_factory=dict)
    tokens: dict[str, int | None] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


class BatchService(ABC):
    """The batch interface of one endpoint and model. Methods with ``cancel`` block for the time of a request
    and raise ProviderError or Cancelled; those that read raise BadAnswer."""

    provider: ClassVar[str]

    def __init__(self, transport: Transport, model: str) -> None:
        self.transport, self.model = transport, model

    def submit(self, lines: Sequence[bytes], agent: str, cancel: CancelToken | None) -> str:
        """Upload request lines and start a job; returns its id. ``agent`` is stored with the job."""
        file = self.file_of(self._upload(b"\n".join(lines), cancel))
        late = None if cancel is None else _SetLater(cancel)
        return self.state_of(self._create(file, agent, late)).id

    def lines_of(
        self, keys: Sequence[str], texts: Mapping[str, str], dims: int | None
    ) -> tuple[tuple[str, ...], list[bytes]]:
        """The first of ``keys`` that fit into one job, at least one, and their request lines."""
        most = min(MAX_REQUESTS, MAX_OUTPUT_BYTES // ((dims or _LONGEST_DIMS) * _NUMBER_BYTES))
        lines = [self.line(key, texts[key]) for key in keys[: max(1, most)]]
        end = batch_end([len(line) + 1 for line in lines], 0, MAX_UPLOAD_BYTES, len(lines))
        return tuple(keys[:end]), lines[:end]

    def fetch(
        self, state: JobState, keys: Collection[str], dims: int | None, cancel: CancelToken | None
    ) -> Answers:
        """What a job that has ended answers to the texts ``keys``; ``dims`` is how long a vector must be."""
        answers, wanted, label = Answers(dims), frozenset(keys), f"{self.provider} batch {state.id}"
        if state.message:
            answers.said.append(self.transport.quote(state.message))
        for file in (state.output, state.errors):
            if not file or len(answers.vectors) >= len(keys):
                continue
            *others, last = self.outputs(file, cancel)
            for fetch in (*others, last):
                try:
                    body = fetch()
                except RequestFailed as exc:
                    if fetch is last or exc.status not in (400, 404):
                        raise
                except BadAnswer as exc:  # too long or torn: the next try would find the same
                    answers.said.append(str(exc))
                    break
                else:
                    if self._read(label, body, wanted, answers, cancel):
                        break
        return answers

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

    def _read(
        self, label: str, body: bytes, keys: Collection[str], answers: Answers, cancel: CancelToken | None
    ) -> bool:
        """Add the answers in an output; tells whether there were any, good or bad."""
        any_answer = False
        for answer in self.answers_of(body):
            stop_if_cancelled(cancel)
            if answer.key in answers.vectors or (answer.key and answer.key not in keys):
                continue
            any_answer = True
            if answer.row is None:
                answers.said.append(self.transport.quote(answer.message))
                continue
            try:
                [vector] = check_vectors([answer.row], expected=1, dims=answers.dims, provider=label)
            except BadAnswer as exc:
                answers.said.append(str(exc))
                continue
            answers.dims = answers.dims if vector is None else len(vector)
            answers.vectors[answer.key] = vector
            answers.tokens[answer.key] = answer.tokens
        return any_answer

    def answers_of(self, body: bytes) -> Iterator[Answer]:
        """The answers of an output, a line at a time; lines that are none are left out."""
        for text in BytesIO(body):
            line = _read_json(text)
            if line is not None and (answer := self.answer_of(line)) is not None:
                yield answer

    def options(self, what: str, cancel: CancelToken | None) -> dict[str, Any]:
        """Options for ``Transport.request``; ``what`` names the request."""
        return {
            "what": what,
            "timeout_s": _FILE_TIMEOUT_S if what in ("batch file upload", "batch output") else _TIMEOUT_S,
            "policy": _GET if what in ("batch status", "batch output") else _POST,
            "cancel": cancel,
            "max_bytes": 2 * MAX_OUTPUT_BYTES,
        }


class _SetLater:
    """A token that is set two seconds after ``cancel`` was first seen set."""

    def __init__(self, cancel: CancelToken) -> None:
        self._cancel, self._deadline = cancel, Deadline(None)

    def is_set(self) -> bool:
        if self._deadline.left_s == math.inf and self._cancel.is_set():
            self._deadline = Deadline(_GRACE_S)
        return self._deadline.is_over


def json_bytes(value: object) -> bytes:
    return utf8(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


_ADVICE = "Check that the base URL is that of the provider itself, or turn remote.batch off."


def _read_json(text: bytes) -> dict[str, object] | None:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def json_object(body: bytes, what: str) -> dict[str, object]:
    said = _read_json(body)
    if said is None:
        raise BadAnswer(f"The answer about {what} is not a JSON object ({len(body):,} bytes). {_ADVICE}")
    return said


def checked_id(value: object, what: str, prefix: str = "") -> str:
    name = value.removeprefix(prefix) if isinstance(value, str) else ""
    if not _ID.fullmatch(name):
        raise BadAnswer(f"The answer about {what} holds no usable id. {_ADVICE}")
    return name


def file_id(value: object, prefix: str = "") -> str:
    return checked_id(value, "the batch job", prefix) if value else ""


def message_of(error: object) -> str:
    """The text of an error in any of the usual shapes; "" when there is none."""
    if isinstance(error, dict):
        said = error.get("message") or error.get("error") or error.get("code")
        return message_of(said) if isinstance(said, dict) else str(said or "")
    return error if isinstance(error, str) else ""
