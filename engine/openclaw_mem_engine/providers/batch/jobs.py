"""Batch jobs from submission to answer, across restarts.

A job is stored the moment the provider has accepted it. A later call for one of its texts, by this process or
the next, waits for it instead of paying for another one. It is deleted from the store when all its answers
were delivered, when it failed, or when the provider no longer knows it. Jobs are waited for one after
another, in the order of their submission: the provider works on all of them meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.named_tuple import NamedTuple
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

#: Fewer new texts are embedded by plain requests: a job takes minutes to hours.
MIN_TEXTS = 32
#: After so many failed jobs in a row this process submits no more.
MAX_FAILURES = 2
#: So many checks of a job may fail in a row before its texts are embedded by plain requests.
_MAX_FAILED_CHECKS = 3
#: The states of a stored job: a fetched one has texts that no call has asked for since.
_SUBMITTED, _FETCHED = "submitted", "fetched"


class _Awaited(NamedTuple):
    """A job that this call waits for. ``is_resumed``: an earlier call has submitted it."""

    job: StoredJob
    deadline: float
    is_resumed: bool


@dataclass(slots=True)
class BatchCall:
    """What one call wants, and how far it has come. ``texts``: by SHA-256 hex. ``found`` is called with the
    vectors of each job, which is forgotten only then. ``dims``: the length that a vector must have.
    ``queue`` have no job yet, ``missing`` are for plain requests; ``waiting`` have a job that goes on, or get
    one later.
    """

    texts: Mapping[str, str]
    cancel: CancelToken | None
    progress: Progress | None
    found: Found
    dims: int | None
    queue: list[str] = field(default_factory=list)
    vectors: dict[str, Vector | None] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def unanswered(self, keys: Collection[str]) -> list[str]:
        return [k for k in keys if k in self.texts and k not in self.vectors and k not in self.missing]


class BatchJobs:
    """The batch jobs of one provider, endpoint and model. ``provider_key`` names the stored jobs; ``agent``
    is stored with a job at the provider. Fewer new texts than ``minimum`` get no job."""

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
        minimum: int = MIN_TEXTS,
    ) -> None:
        self._service, self._agent, self._records = service, agent, records
        self._settings, self._key, self._meter = settings, provider_key, meter
        self._timing, self._clock, self._minimum = timing, timing.clock, minimum
        #: Failed jobs in a row.
        self.failures = 0
        #: Why this process submits no more jobs; "" as long as it does.
        self.disabled = ""
        #: Length of the vectors, None before the first answer.
        self.dims: int | None = None

    def run(self, call: BatchCall) -> None:
        """Fills ``call`` by batch jobs. Waits for them, at most ``timeout_minutes``, unless ``wait`` is off.
        Failures of jobs are notes, not errors; raises NotConfigured without a key, and Cancelled."""
        jobs: list[_Awaited] = []
        try:
            self._resume(call, jobs)
            self._drive(call, jobs)
        except Cancelled:
            if not jobs:
                raise
            go = "1 batch job continues" if len(jobs) == 1 else f"{len(jobs)} batch jobs continue"
            raise Cancelled(
                f"Embedding was stopped on request. {go} at {self._service.provider}; "
                "the next `openclaw-mem index` picks up what is finished by then."
            ) from None
        if call.waiting:
            wait = "wait" if len(call.waiting) > 1 else "waits"
            text = (
                f"{counted(len(call.waiting), 'text')} {wait} in a batch job of "
                f"{self._service.provider}; run `openclaw-mem index` later. Until then only "
                "BM25 finds them."
            )
            call.notes.append(Note("batch-waiting", text))

    def _resume(self, call: BatchCall, jobs: list[_Awaited]) -> None:
        """Take up the stored jobs that work on texts of this call, and decide what becomes of the others."""
        for job in () if self.disabled else self._records.jobs(self._key):
            if call.texts.keys() & job.texts:
                jobs.append(self._awaited(job, is_resumed=True))
        held = {key for awaited in jobs for key in awaited.job.texts}
        call.queue = [key for key in call.texts if key not in held]
        if len(call.queue) < self._minimum:
            self._give_up_queue(call, call.missing)

    def _drive(self, call: BatchCall, jobs: list[_Awaited]) -> None:
        """Keep ``concurrency`` jobs going, and wait for one after another; without ``wait`` submit all."""
        while call.queue or jobs:
            stop_if_cancelled(call.cancel)
            if self.disabled:
                self._give_up_queue(call, call.missing)
            elif call.queue and len(jobs) < self._settings.concurrency:
                job = self._submit(call)
                if job is not None and self._settings.wait:
                    jobs.append(self._awaited(job, is_resumed=False))
                elif job is not None:
                    call.waiting.update(dict.fromkeys(job.texts))
                continue
            if jobs:
                self._finish(call, jobs)
                del jobs[0]
                self._report(call, jobs)

    def _awaited(self, job: StoredJob, *, is_resumed: bool) -> _Awaited:
        return _Awaited(job, self._clock() + self._settings.timeout_minutes * 60, is_resumed)

    def _give_up_queue(self, call: BatchCall, into: dict[str, None]) -> None:
        into.update(dict.fromkeys(call.queue))
        call.queue = []

    def _submit(self, call: BatchCall) -> StoredJob | None:
        """A new job for the first texts of the queue; None when it failed."""
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
            return None
        job = StoredJob(id, self._key, self._service.provider, _SUBMITTED, self._timing.now(), keys)
        self._records.save_job(job)
        return job

    def _finish(self, call: BatchCall, jobs: list[_Awaited]) -> None:
        """Wait for the first of the jobs: until it has ended, takes too long, or cannot be asked for."""
        job, deadline, _ = jobs[0]
        failed_checks = 0
        while True:
            self._report(call, jobs)
            answers = None
            try:
                state = self._service.state(job.id, call.cancel)
                if state.end:
                    answers = self._service.fetch(state, job.texts, call.dims, call.cancel)
                failed_checks = 0
            except NotConfigured:
                raise
            except ProviderError as exc:
                failed_checks += 1
                if self._is_lost(call, jobs[0], exc, failed_checks):
                    return
            if answers is not None:
                self._ended(call, job, state, answers)
                return
            left = deadline - self._clock()
            if left <= 0 or not self._settings.wait:
                call.waiting.update(dict.fromkeys(call.unanswered(job.texts)))
                if left <= 0:  # a provider that is this slow gets nothing more for now
                    self._give_up_queue(call, call.waiting)
                return
            for _ in self._timing.slices(min(self._settings.poll_interval_ms / 1000, left), call.cancel):
                pass

    def _is_lost(self, call: BatchCall, awaited: _Awaited, exc: ProviderError, failed_checks: int) -> bool:
        """Whether this call cannot wait for a job after a check that failed; its texts are elsewhere then."""
        job, _, is_resumed = awaited
        status = getattr(exc, "status", None)
        if status == 404:
            self._records.drop_job(job.id)
            if is_resumed:  # the provider has deleted it meanwhile: its texts are submitted again
                call.queue += call.unanswered(job.texts)
                return True
        elif failed_checks < _MAX_FAILED_CHECKS and (status is None or is_worth_retrying(status)):
            return False
        self._failed(call, job.texts, str(exc))  # still stored, for a later call, unless it is not known
        return True

    def _report(self, call: BatchCall, jobs: list[_Awaited]) -> None:
        if call.progress is not None:
            label = f"Embedding ({len(jobs)} batch jobs at {self._service.provider})"
            call.progress(len(call.vectors) + len(call.missing), len(call.texts), label)

    def _ended(self, call: BatchCall, job: StoredJob, state: JobState, answers: Answers) -> None:
        """Deliver the answers of a job. It is stored on with the texts that this call does not want."""
        without = [key for key in job.texts if key not in answers.vectors]
        mine = {key: vector for key, vector in answers.vectors.items() if key in call.texts}
        others = tuple(key for key in answers.vectors if key not in call.texts)
        call.dims = answers.dims
        self.dims = self.dims or call.dims
        if mine:
            self._count(call, answers, mine, requests=int(job.state == _SUBMITTED))
            call.vectors.update(mine)
            call.found(mine)
        if others:
            self._records.save_job(replace(job, state=_FETCHED, texts=others))
        else:
            self._records.drop_job(job.id)
        what = "failed" if state.word == "failed" else f"ended as {state.word}"
        if state.end == "done":
            if not without:
                self.failures = 0
                return
            what = f"missing {len(without):,} embedding responses"
        why = f": {answers.said[0]}" if answers.said else ""
        self._failed(call, without, f"{self._service.provider} batch {job.id} {what}{why}")

    def _count(self, call: BatchCall, answers: Answers, keys: Collection[str], requests: int) -> None:
        """Call the meter. A job is one request, counted with the first of its answers."""
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
                "If this persists, turn remote.batch.enabled off or choose another provider."
            )
            call.notes.append(Note("batch-disabled", text, "warning"))
