"""One call for vectors by batch jobs: what is wanted, how far it has come, and how the outputs are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openclaw_mem_engine.providers.base import BadAnswer, RequestFailed, check_vectors, stop_if_cancelled
from openclaw_mem_engine.providers.batch import services

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.model import Note, Progress
    from openclaw_mem_engine.providers.base import Vector
    from openclaw_mem_engine.providers.batch.services import BatchService, JobState

    #: Called with the vectors of a job as soon as they are there, by text hash, in the calling thread.
    Found = Callable[[Mapping[str, Vector | None]], None]

#: No provider takes more requests in one job.
MAX_REQUESTS = 50_000
#: In bytes. The input of a job is sent, and its output fetched, in one piece: both are kept small enough for
#: memory by making more jobs.
MAX_UPLOAD_BYTES = 32_000_000
#: Bytes of one number in an output (``-0.006929283495992422, ``), and the length of a vector as long as no
#: answer has shown it: the longest in common use.
_NUMBER_BYTES = 24
_LONGEST_DIMS = 3072


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """``missing`` were tried and have no vector; ``waiting`` have a job that goes on, or get one at the next
    run. Both are text hashes. ``notes`` are for people."""

    vectors: dict[str, Vector | None]
    missing: tuple[str, ...]
    waiting: tuple[str, ...]
    notes: tuple[Note, ...]


@dataclass(slots=True)
class WatchedJob:
    """A job that this call waits for. Times are those of ``clock``. ``is_resumed``: an earlier run has
    submitted it; ``failed_checks``: in a row."""

    id: str
    texts: tuple[str, ...]
    next_check: float
    deadline: float
    is_resumed: bool
    failed_checks: int = 0


@dataclass(slots=True)
class BatchCall:
    """One call of ``BatchJobs.run``: what is wanted, and how far it has come."""

    texts: Mapping[str, str]
    cancel: CancelToken | None
    progress: Progress | None
    found: Found | None
    dims: int | None
    queue: list[str] = field(default_factory=list)
    active: list[WatchedJob] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def unanswered(self, keys: Collection[str]) -> list[str]:
        return [k for k in keys if k in self.texts and k not in self.vectors and k not in self.missing]


@dataclass(slots=True)
class Answers:
    """The outputs of one job, by text hash: vectors, and tokens where the server counted. ``said``: why texts
    have no vector, redacted."""

    vectors: dict[str, Vector | None] = field(default_factory=dict)
    tokens: dict[str, int | None] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


def request_lines(
    service: BatchService, keys: Sequence[str], texts: Mapping[str, str], dims: int | None
) -> tuple[tuple[str, ...], list[bytes]]:
    """The first of ``keys`` that fit into one job, at least one, and their request lines."""
    vector_bytes = (dims or _LONGEST_DIMS) * _NUMBER_BYTES
    most = min(MAX_REQUESTS, services.MAX_OUTPUT_BYTES // vector_bytes)
    lines: list[bytes] = []
    size = 0
    for key in keys[: max(1, most)]:
        line = service.line(key, texts[key])
        size += len(line) + 1
        if lines and size > MAX_UPLOAD_BYTES:
            break
        lines.append(line)
    return tuple(keys[: len(lines)]), lines


def fetch_answers(
    service: BatchService,
    state: JobState,
    keys: Collection[str],
    dims: int | None,
    cancel: CancelToken | None,
) -> Answers:
    """What a job that has ended answers to the texts ``keys``; ``dims`` is how long a vector must be. Blocks
    for one or two downloads. Raises ProviderError, Cancelled."""
    answers, wanted = Answers(), frozenset(keys)
    if state.message:
        answers.said.append(service.transport.quote(state.message))
    for file in (state.output, state.errors):
        if file and len(answers.vectors) < len(wanted):
            _fetch(service, state.id, file, wanted, dims, answers, cancel)
    return answers


def _fetch(
    service: BatchService,
    job: str,
    file: str,
    keys: Collection[str],
    dims: int | None,
    answers: Answers,
    cancel: CancelToken | None,
) -> None:
    """Add the answers in a file of the job."""
    ways = service.outputs(file, cancel)
    for fetch in ways:
        try:
            body = fetch()
        except RequestFailed as exc:
            if fetch is ways[-1] or exc.status not in (400, 404):
                raise
            continue
        except BadAnswer as exc:  # too long or torn: the next try would find the same
            answers.said.append(str(exc))
            return
        if _read(service, job, body, keys, dims, answers, cancel):
            return


def _read(
    service: BatchService,
    job: str,
    body: bytes,
    keys: Collection[str],
    dims: int | None,
    answers: Answers,
    cancel: CancelToken | None,
) -> bool:
    """Add the answers in an output; tells whether there were any, good or bad."""
    any_answer = False
    for answer in service.answers_of(body):
        stop_if_cancelled(cancel)
        if answer.key in answers.vectors or (answer.key and answer.key not in keys):
            continue
        any_answer = True
        if answer.row is None:
            answers.said.append(service.transport.quote(answer.message))
            continue
        label = f"{service.provider} batch {job}"
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
