"""The steps of one batch job over the network: submit, look, fetch the answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import random as any_random
from typing import TYPE_CHECKING

from openclaw_mem_engine.providers.base import (
    BadAnswer,
    RequestFailed,
    check_vectors,
    stop_if_cancelled,
)
from openclaw_mem_engine.providers.batch.wires import MAX_REQUESTS, answers_of
from openclaw_mem_engine.providers.remote.quoting import Quoting
from openclaw_mem_engine.providers.remote.retry import RetryPolicy, is_worth_retrying

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.providers.base import Vector
    from openclaw_mem_engine.providers.batch.wires import BatchWire, JobState
    from openclaw_mem_engine.providers.remote.transport import Transport

#: In bytes. The input of a job is sent, and its output fetched, in one piece: both are kept small enough for
#: memory by making more jobs. An output that is more than twice as long as reckoned with is given up.
MAX_UPLOAD_BYTES = 32_000_000
MAX_OUTPUT_BYTES = 64_000_000
#: What a number of a vector takes in an output (``-0.006929283495992422, ``), and the length of a vector as
#: long as no answer has told it: the longest in common use.
_NUMBER_BYTES = 24
_LONGEST_DIMS = 3072

_FILE_TIMEOUT_S = 300.0
_TIMEOUT_S = 60.0
#: A server that has heard of a job gets this long to say its id, also when everything is to stop: otherwise
#: the job would be paid for and lost.
_GRACE_S = 2.0
_SUBMIT_TRIES = 3
_SLICE_S = 0.2
_POLICY = RetryPolicy(max_retries=2)
_ONCE = RetryPolicy(max_retries=0)


@dataclass(slots=True)
class Answers:
    """What an output holds, by text hash: vectors, and tokens where the server counted. ``said``: why texts
    have no vector, redacted."""

    vectors: dict[str, Vector | None] = field(default_factory=dict)
    tokens: dict[str, int | None] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)


class BatchClient:
    """The batch interface of one endpoint and model. Every method raises ProviderError or Cancelled.

    ``agent`` is told to the provider beside a job; ``secrets`` are masked in what a server says.
    """

    def __init__(
        self,
        wire: BatchWire,
        transport: Transport,
        *,
        agent: str,
        secrets: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = any_random,
    ) -> None:
        self._wire, self._transport = wire, transport
        self._agent, self._quoting = agent, Quoting(secrets)
        self._clock, self._sleep, self._random = clock, sleep, random
        self.provider, self.model = wire.provider, wire.model

    def part(
        self, keys: Sequence[str], texts: Mapping[str, str], dims: int | None
    ) -> tuple[tuple[str, ...], list[bytes]]:
        """The first of ``keys`` that fit into one job, at least one, and their request lines."""
        most = min(MAX_REQUESTS, MAX_OUTPUT_BYTES // ((dims or _LONGEST_DIMS) * _NUMBER_BYTES))
        lines: list[bytes] = []
        size = 0
        for key in keys[: max(1, most)]:
            line = self._wire.line(key, texts[key])
            size += len(line) + 1
            if lines and size > MAX_UPLOAD_BYTES:
                break
            lines.append(line)
        return tuple(keys[: len(lines)]), lines

    def submit(self, lines: Sequence[bytes], cancel: CancelToken | None) -> str:
        """Upload request lines and start a job; returns its id."""
        upload = self._wire.upload(lines)
        body = self._post(
            upload.path,
            what="batch file upload",
            content=upload.body,
            headers={"Content-Type": upload.content_type},
            timeout_s=_FILE_TIMEOUT_S,
            cancel=cancel,
        )
        path, order = self._wire.create(self._wire.file_of(body), self._agent)
        late = None if cancel is None else _Later(cancel, self._clock, _GRACE_S)
        body = self._post(path, what="batch create", json=order, timeout_s=_TIMEOUT_S, cancel=late)
        return self._wire.state_of(body).id

    def has_no_batch(self, exc: Exception) -> bool:
        """Whether a failed ``submit`` means that this endpoint has no batch interface at all."""
        return self.provider == "gemini" and isinstance(exc, RequestFailed) and exc.status == 404

    def look(self, job: str, cancel: CancelToken | None) -> JobState:
        body = self._get(self._wire.job_path(job), "batch status", _TIMEOUT_S, cancel)
        return self._wire.state_of(body, job)

    def answers(
        self, state: JobState, keys: Collection[str], dims: int | None, cancel: CancelToken | None
    ) -> Answers:
        """What a job that has ended says about the texts ``keys``; ``dims`` is how long a vector must be."""
        made = Answers()
        if state.message:
            made.said.append(self._quoting.quote(state.message))
        if state.output:
            self._read(state.id, state.output, frozenset(keys), dims, made, cancel)
        if state.errors and len(made.vectors) < len(keys):
            self._read(state.id, state.errors, frozenset(keys), dims, made, cancel)
        return made

    def pause(self, seconds: float, cancel: CancelToken | None) -> None:
        """Wait, looking at ``cancel`` often."""
        while seconds > 0:
            stop_if_cancelled(cancel)
            self._sleep(min(seconds, _SLICE_S))
            seconds -= _SLICE_S

    def _read(
        self,
        job: str,
        file: str,
        keys: Collection[str],
        dims: int | None,
        made: Answers,
        cancel: CancelToken | None,
    ) -> None:
        """Add the answers in a file of the job."""
        paths = self._wire.content_paths(file)
        for path in paths:
            try:
                body = self._get(path, "batch output", _FILE_TIMEOUT_S, cancel)
            except RequestFailed as exc:
                if path == paths[-1] or exc.status not in (400, 404):
                    raise
                continue
            except BadAnswer as exc:  # too long or torn: that is how it will stay
                made.said.append(str(exc))
                return
            if self._read_lines(job, body, keys, dims, made, cancel):
                return

    def _read_lines(
        self,
        job: str,
        body: bytes,
        keys: Collection[str],
        dims: int | None,
        made: Answers,
        cancel: CancelToken | None,
    ) -> bool:
        """Add the answers in an output; tells whether there were any, good or bad."""
        heard = False
        for answer in answers_of(self._wire, body):
            stop_if_cancelled(cancel)
            if answer.key in made.vectors or (answer.key and answer.key not in keys):
                continue
            heard = True
            if answer.row is None:
                made.said.append(self._quoting.quote(answer.message))
                continue
            label = f"{self.provider} batch {job}"
            try:
                [vector] = check_vectors([answer.row], expected=1, dims=dims, provider=label)
            except BadAnswer as exc:
                made.said.append(str(exc))
                continue
            if vector is not None:
                dims = len(vector)
            made.vectors[answer.key] = vector
            made.tokens[answer.key] = answer.tokens
        return heard

    def _post(
        self,
        path: str,
        *,
        what: str,
        timeout_s: float,
        cancel: CancelToken | None,
        json: object | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The answer to a POST. It is sent again only when the server has answered that it cannot just now:
        one that was heard without an answer may have started a job."""
        retry = 0
        while True:
            try:
                return self._transport.request(
                    "POST",
                    path,
                    json=json,
                    content=content,
                    headers=headers,
                    what=what,
                    timeout_s=timeout_s,
                    policy=_ONCE,
                    cancel=cancel,
                ).body
            except RequestFailed as exc:
                retry += 1
                wait_s = _POLICY.wait_s(retry, exc.retry_after_s, self._random)
                if wait_s is None or exc.status is None or not is_worth_retrying(exc.status):
                    raise
            self.pause(wait_s, cancel)

    def _get(self, path: str, what: str, timeout_s: float, cancel: CancelToken | None) -> bytes:
        return self._transport.request(
            "GET",
            path,
            what=what,
            timeout_s=timeout_s,
            policy=_POLICY,
            cancel=cancel,
            max_bytes=2 * MAX_OUTPUT_BYTES,
        ).body


class _Later:
    """A cancel token that is set some seconds after the one it wraps."""

    def __init__(self, inner: CancelToken, clock: Callable[[], float], seconds: float) -> None:
        self._inner, self._clock, self._seconds = inner, clock, seconds
        self._since: float | None = None

    def is_set(self) -> bool:
        if not self._inner.is_set():
            return False
        if self._since is None:
            self._since = self._clock()
        return self._clock() - self._since >= self._seconds
