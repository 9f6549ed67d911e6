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
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.model import utf8
from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed, check_vectors, stop_if_cancelled
from openclaw_mem_engine.providers.remote.transport import RetryPolicy

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Vector
    from openclaw_mem_engine.providers.remote.transport import Transport

#: No provider takes more requests in one job.
MAX_REQUESTS = 50_000
#: In bytes. The input of a job is sent, and its output fetched, in one piece: both are kept small enough for
#: memory by making more jobs.
MAX_UPLOAD_BYTES = 32_000_000
#: In bytes. An output that is more than twice as long is given up.
MAX_OUTPUT_BYTES = 64_000_000

#: Bytes of one number in an output (``-0.006929283495992422, ``), and the length of a vector as long as no
#: answer has shown it: the longest in common use.
_NUMBER_BYTES = 24
_LONGEST_DIMS = 3072

_FILE_TIMEOUT_S = 300.0
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


@dataclass(slots=True)
class Answers:
    """The outputs of one job, by text hash: vectors, and tokens where the server counted. ``said``: why texts
    have no vector, redacted."""

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
        lines: list[bytes] = []
        size = 0
        for key in keys[: max(1, most)]:
            line = self.line(key, texts[key])
            size += len(line) + 1
            if lines and size > MAX_UPLOAD_BYTES:
                break
            lines.append(line)
        return tuple(keys[: len(lines)]), lines

    def fetch(
        self, state: JobState, keys: Collection[str], dims: int | None, cancel: CancelToken | None
    ) -> Answers:
        """What a job that has ended answers to the texts ``keys``; ``dims`` is how long a vector must be.
        Blocks for one or two downloads."""
        answers = Answers()
        if state.message:
            answers.said.append(self.transport.quote(state.message))
        for file in (state.output, state.errors):
            if not file or len(answers.vectors) >= len(keys):
                continue
            ways = self.outputs(file, cancel)
            for way in ways:
                try:
                    body = way()
                except RequestFailed as exc:
                    if way is ways[-1] or exc.status not in (400, 404):
                        raise
                    continue
                except BadAnswer as exc:  # too long or torn: the next try would find the same
                    answers.said.append(str(exc))
                    break
                if self._read(state.id, body, frozenset(keys), dims, answers, cancel):
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
        self,
        job: str,
        body: bytes,
        keys: Collection[str],
        dims: int | None,
        answers: Answers,
        cancel: CancelToken | None,
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
            label = f"{self.provider} batch {job}"
            try:
                [vector] = check_vectors([answer.row], expected=1, dims=dims, provider=label)
            except BadAnswer as exc:
                answers.said.append(str(exc))
                continue
            if vector is not None:
                dims = len(vector)
            answers.vectors[answer.key] = vector
            answers.tokens[answer.key] = answer.tokens
        return any_answer

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

    def options(self, what: str, cancel: CancelToken | None, *, is_file: bool = False) -> dict[str, Any]:
        """Options for ``Transport.request``; ``what`` names the request."""
        return {
            "what": what,
            "timeout_s": _FILE_TIMEOUT_S if is_file else _TIMEOUT_S,
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
