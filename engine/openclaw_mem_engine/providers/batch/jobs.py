"""Batch jobs from submission to answer, across restarts.

A job is stored the moment the provider has accepted it. A later call for one of its texts, by this process or
the next, waits for it instead of paying for another one. It is deleted from the store when all its answers
were delivered, when it failed, or when the provider no longer knows it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.providers.base import NotConfigured, Usage, stop_if_cancelled
from openclaw_mem_engine.providers.prices import estimated_tokens
from openclaw_mem_engine.providers.records import StoredJob
from openclaw_mem_engine.providers.remote.transport import TIMING, Timing, is_worth_retrying
from openclaw_mem_engine.sanitize import counted

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.config.settings import BatchSettings
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.providers.base import Meter, Vector
    from openclaw_mem_engine.providers.batch.services import Answers, BatchService, JobState
    from openclaw_mem_engine.providers.records import ProviderRecords

    #: Called with the vectors of a job as soon as they are there, by text hash, in the calling thread.
    Found = Callable[[Mapping[str, Vector | None]], None]

#: After so many failed jobs in a row this process submits no more.
MAX_FAILURES = 2
#: So many checks of a job may fail in a row before its texts are embedded by plain requests.
_MAX_FAILED_CHECKS = 3


@dataclass(slots=True)
class WatchedJob:
    """A job that this call waits for. ``is_resumed``: an earlier run has submitted it."""

    id: str
    texts: tuple[str, ...]
    next_check: float
    deadline: float
    is_resumed: bool
    failed_checks: int = 0


@dataclass(slots=True)
class BatchCall:
    """What one call wants, and how far it has come. ``texts``: by SHA-256 hex. ``found`` is called with the
    vectors of each job, which is forgotten only then. ``dims``: the length that a vector must have.
    ``missing`` were tried and have no vector; ``waiting`` have a job that goes on, or get one later.
    """

    texts: Mapping[str, str]
    cancel: CancelToken | None
    progress: Progress | None
    found: Found
    dims: int | None
    queue: list[str] = field(default_factory=list)
    active: list[WatchedJob] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def unanswered(self, keys: Collection[str]) -> list[str]:
        return [k for k in keys if k in self.texts and k not in self.vectors and k not in self.missing]


class BatchJobs:
    """The batch jobs of one provider, endpoint and model; one thread at a time calls ``run``.
    ``provider_key`` names the stored jobs; ``agent`` is stored with a job at the provider."""

    def __init__(
        self,
        service: BatchService,
        records: ProviderRecords,
        settings: BatchSettings,
        *,
        provider_key: str,
        agent: str,
        meter: Meter,
        timing: Timing = TIMING,
    ) -> None:
        self._service, self._agent, self._records = service, agent, records
        self._settings, self._key, self._meter = settings, provider_key, meter
        self._timing, self._clock = timing, timing.clock
        self._pause_s = settings.poll_interval_ms / 1000
        #: Answers of finished jobs that were not delivered yet, and when a job was checked last, by job id.
        self._fetched: dict[str, Answers] = {}
        self._checked: dict[str, float] = {}
        #: Failed jobs in a row.
        self.failures = 0
        #: Why this process submits no more jobs; "" as long as it does.
        self.disabled = ""
        #: Length of the vectors, None before the first answer.
        self.dims: int | None = None

    def known(self, keys: Collection[str]) -> set[str]:
        """Those of the texts that have a job already, running or finished."""
        if self.disabled:
            return set()
        found = {key for answers in list(self._fetched.values()) for key in list(answers.vectors)}
        return found.union(*(job.texts for job in self._stored())).intersection(keys)

    def run(self, call: BatchCall) -> None:
        """Fills ``call`` by batch jobs. Waits for them, at most ``timeout_minutes``, unless ``wait`` is off.
        Failures of jobs are notes, not errors; raises NotConfigured without a key, and Cancelled."""
        try:
            self._deliver(call)
            self._resume(call)
            planned = call.vectors.keys() | {key for job in call.active for key in job.texts}
            call.queue = [key for key in call.texts if key not in planned]
            self._drive(call)
        except Cancelled:
            if not call.active:
                raise
            jobs = "1 batch job goes" if len(call.active) == 1 else f"{len(call.active)} batch jobs go"
            raise Cancelled(
                f"Embedding was stopped on request. {jobs} on at {self._service.provider}; "
                "the next `openclaw-mem index` picks up what is finished by then."
            ) from None
        if call.waiting:
            wait = "wait" if len(call.waiting) > 1 else "waits"
            text = (
                f"{counted(len(call.waiting), 'text')} {wait} in a batch job of "
                f"{self._service.provider}; run `openclaw-mem index` later. Until then keywords find "
                "what is in there."
            )
            call.notes.append(Note("batch-waiting", text))

    # -- the loop --------------------------------------------------------------------------------------

    def _drive(self, call: BatchCall) -> None:
        """Keep ``concurrency`` jobs going (all at once without ``wait``) until waiting is over."""
        slots = self._settings.concurrency if self._settings.wait else math.inf
        while call.queue or call.active:
            stop_if_cancelled(call.cancel)
            while call.queue and len(call.active) < slots and not self.disabled:
                self._submit(call)
            if self.disabled:
                call.missing.update(dict.fromkeys(call.queue))
                call.queue = []
            for job in list(call.active):
                if self._clock() >= job.next_check:
                    self._check(call, job)
            self._leave(call)
            if call.progress is not None:
                label = f"Embedding ({len(call.active)} batch jobs at {self._service.provider})"
                call.progress(len(call.vectors) + len(call.missing), len(call.texts), label)
            if call.active and (len(call.active) >= slots or not call.queue):
                due = min(min(job.next_check, job.deadline) for job in call.active)
                for _ in self._timing.slices(due - self._clock(), call.cancel):
                    pass

    def _leave(self, call: BatchCall) -> None:
        """Stop waiting for the jobs that took too long, or for all without ``wait``."""
        for job in list(call.active):
            is_late = self._clock() >= job.deadline
            if is_late or not self._settings.wait:
                call.active.remove(job)
                call.waiting.update(dict.fromkeys(call.unanswered(job.texts)))
            if is_late:  # a provider that is this slow gets nothing more for now
                call.waiting.update(dict.fromkeys(call.queue))
                call.queue = []

    # -- jobs ------------------------------------------------------------------------------------------

    def _submit(self, call: BatchCall) -> None:
        keys, lines = self._service.lines_of(call.queue, call.texts, call.dims)
        call.queue = call.queue[len(keys) :]
        try:
            id = self._service.submit(lines, self._agent, call.cancel)
        except NotConfigured:
            raise
        except ProviderError as exc:
            # A 404 of Gemini means that there are no batches for this model or base URL at all.
            is_final = self._service.provider == "gemini" and getattr(exc, "status", None) == 404
            self._failed(call, keys, str(exc), is_final=is_final)
            return
        self._records.save_job(
            StoredJob(id, self._key, self._service.provider, "submitted", self._timing.now(), keys)
        )
        call.active.append(self._watched(id, keys, self._clock() + self._pause_s, is_resumed=False))

    def _stored(self) -> list[StoredJob]:
        """The stored jobs whose answers are not fetched yet."""
        return [job for job in self._records.jobs(self._key) if job.id not in self._fetched]

    def _resume(self, call: BatchCall) -> None:
        """Take up the stored jobs that work on texts of this call."""
        claimed = set(call.vectors)
        for job in () if self.disabled else self._stored():
            wanted = (call.texts.keys() & job.texts) - claimed
            if wanted:
                claimed |= wanted
                next_check = self._checked.get(job.id, -math.inf) + self._pause_s
                call.active.append(self._watched(job.id, job.texts, next_check, is_resumed=True))

    def _watched(self, id: str, texts: tuple[str, ...], next_check: float, *, is_resumed: bool) -> WatchedJob:
        deadline = self._clock() + self._settings.timeout_minutes * 60
        return WatchedJob(id, texts, next_check, deadline, is_resumed)

    def _check(self, call: BatchCall, job: WatchedJob) -> None:
        """Ask for the state of a job; when it has ended, fetch and deliver its answers."""
        try:
            state = self._service.state(job.id, call.cancel)
            answers = self._service.fetch(state, job.texts, call.dims, call.cancel) if state.end else None
        except NotConfigured:
            raise
        except ProviderError as exc:
            self._check_failed(call, job, exc)
            return
        finally:
            self._checked[job.id] = self._clock()
            job.next_check = self._clock() + self._pause_s
        job.failed_checks = 0
        if answers is not None:
            self._ended(call, job, state, answers)

    def _check_failed(self, call: BatchCall, job: WatchedJob, exc: ProviderError) -> None:
        status = getattr(exc, "status", None)
        job.failed_checks += 1
        if status == 404:
            self._forget(job.id)
            call.active.remove(job)
            if job.is_resumed:  # the provider has deleted it meanwhile: its texts are submitted again
                call.queue += call.unanswered(job.texts)
            else:
                self._failed(call, job.texts, str(exc))
        elif job.failed_checks >= _MAX_FAILED_CHECKS or not (status is None or is_worth_retrying(status)):
            call.active.remove(job)
            self._failed(call, job.texts, str(exc))  # still stored, for a later call

    def _ended(self, call: BatchCall, job: WatchedJob, state: JobState, answers: Answers) -> None:
        call.active.remove(job)
        without = [key for key in job.texts if key not in answers.vectors]
        call.dims = answers.dims
        self.dims = self.dims or call.dims
        self._fetched[job.id] = answers
        self._deliver(call)
        what = "failed" if state.word == "failed" else f"ended as {state.word}"
        if state.end == "done":
            if not without:
                self.failures = 0
                return
            what = f"missing {len(without):,} embedding responses"
        why = f": {answers.said[0]}" if answers.said else ""
        self._failed(call, without, f"{self._service.provider} batch {job.id} {what}{why}")

    def _deliver(self, call: BatchCall) -> None:
        """Give this call what finished jobs have for it, and forget the jobs that have nothing left."""
        for id, answers in list(self._fetched.items()):
            mine = {key: vector for key, vector in answers.vectors.items() if key in call.texts}
            if mine:
                self._count(call, answers, mine)
                call.vectors.update(mine)
                call.found(mine)
            for key in mine:
                answers.vectors.pop(key, None)
            if not answers.vectors:
                self._forget(id)

    def _forget(self, id: str) -> None:
        self._records.drop_job(id)
        self._fetched.pop(id, None)
        self._checked.pop(id, None)

    def _count(self, call: BatchCall, answers: Answers, keys: Collection[str]) -> None:
        """Call the meter. A job is one request, counted with the first of its answers."""
        requests = 1 if len(answers.vectors) == len(answers.tokens) else 0
        counted = [answers.tokens[key] for key in keys]
        known = [count for count in counted if count is not None]
        tokens, is_estimated = sum(known), len(known) < len(counted)
        if is_estimated:
            tokens = estimated_tokens(sum(len(call.texts[key].encode("utf-8", "replace")) for key in keys))
        service = self._service
        self._meter(Usage(service.provider, service.model, requests, len(keys), tokens, is_estimated))

    def _failed(self, call: BatchCall, keys: Collection[str], why: str, *, is_final: bool = False) -> None:
        """A job could not be submitted, or did not answer ``keys``. ``is_final``: as would any other."""
        lost = call.unanswered(keys)
        call.missing.update(dict.fromkeys(lost))
        self.failures = max(MAX_FAILURES, self.failures + 1) if is_final else self.failures + 1
        text = f"{why.rstrip('. ')}. Embedded by plain requests instead: {counted(len(lost), 'text')}."
        call.notes.append(Note("batch-failed", text, "warning"))
        if self.failures >= MAX_FAILURES and not self.disabled:
            self.disabled = why
            what = f"{self.failures} batch jobs of {self._service.provider} failed in a row"
            if is_final:
                what = f"{self._service.provider} has no batch interface for this model or base URL"
            text = (
                f"{what}: no more are submitted until the program starts again. "
                "If it stays so, turn remote.batch.enabled off or choose another provider."
            )
            call.notes.append(Note("batch-disabled", text, "warning"))
