"""Batch jobs from submission to answer, across restarts.

A job is written down the moment the provider has accepted it, before anything else is done. Whoever wants one
of its texts later, this process or the next, looks at that job instead of paying for another one. It is
forgotten when all its answers were handed out, when it failed, or when the provider no longer knows it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from random import random as any_random
from typing import TYPE_CHECKING, Protocol

from openclaw_mem_engine.errors import Cancelled, ProviderError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.providers.base import NotConfigured, RequestFailed, Usage, stop_if_cancelled
from openclaw_mem_engine.providers.batch.client import BatchClient
from openclaw_mem_engine.providers.batch.run import Active, BatchOutcome, Run
from openclaw_mem_engine.providers.prices import estimated_tokens
from openclaw_mem_engine.providers.records import StoredJob
from openclaw_mem_engine.providers.remote.retry import is_worth_retrying

if TYPE_CHECKING:
    from openclaw_mem_engine.cancellation import CancelToken
    from openclaw_mem_engine.config.settings import BatchSettings
    from openclaw_mem_engine.model import Progress
    from openclaw_mem_engine.providers.base import Meter
    from openclaw_mem_engine.providers.batch.client import Answers
    from openclaw_mem_engine.providers.batch.run import Found
    from openclaw_mem_engine.providers.batch.wires import BatchWire, JobState
    from openclaw_mem_engine.providers.remote.transport import Transport

#: After so many failed jobs in a row this process submits no more.
MAX_FAILURES = 2
#: So many looks at a job may fail in passing before its texts are embedded otherwise.
_LOOKS_AMISS = 3


class JobStore(Protocol):
    """Where submitted jobs are written down; ``ProviderRecords`` is one."""

    def jobs(self, key: str) -> list[StoredJob]: ...
    def save_job(self, job: StoredJob) -> None: ...
    def drop_job(self, id: str) -> None: ...


class BatchJobs:
    """The batch jobs of one provider, endpoint and model. Safe to use from several threads, but for ``known``
    followed by ``run``: whoever relies on what is known lets only one thread at a time do both.

    ``provider_key`` names the vector space and thereby the stored jobs; ``agent`` is told to the provider
    beside a job; ``secrets`` are masked in what a server says. ``clock`` (monotonic), ``now`` (since 1970),
    ``sleep`` and ``random`` come in for tests.
    """

    def __init__(
        self,
        wire: BatchWire,
        transport: Transport,
        records: JobStore,
        settings: BatchSettings,
        *,
        provider_key: str,
        agent: str,
        secrets: Sequence[str] = (),
        meter: Meter | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        random: Callable[[], float] = any_random,
    ) -> None:
        self._client = BatchClient(
            wire,
            transport,
            agent=agent,
            secrets=secrets,
            clock=clock,
            sleep=sleep,
            random=random,
        )
        self._records, self._settings, self._key, self._meter = records, settings, provider_key, meter
        self._clock, self._now = clock, now
        self._pause_s = settings.poll_interval_ms / 1000
        self._lock = threading.Lock()
        #: Answers of finished jobs that nobody has asked for yet, and when a job was looked at, by job id.
        self._fetched: dict[str, Answers] = {}
        self._looked: dict[str, float] = {}
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
        with self._lock:
            found = {key for answers in self._fetched.values() for key in [*answers.vectors]}
        found.update(key for job in self._stored() for key in job.texts)
        return found.intersection(keys)

    def run(
        self,
        texts: Mapping[str, str],
        cancel: CancelToken | None = None,
        progress: Progress | None = None,
        *,
        found: Found | None = None,
        dims: int | None = None,
    ) -> BatchOutcome:
        """Vectors of ``texts`` (SHA-256 hex of a text to the text) by batch jobs.

        Waits for the jobs, at most ``timeout_minutes``, unless ``wait`` is off. ``found`` hears of vectors
        job by job, and a job is forgotten only after it has returned. ``dims`` is the length that a vector
        must have. Failures of jobs are notes, not errors; raises NotConfigured without a key, and Cancelled.
        """
        run = Run(texts, cancel, progress, found, dims or self.dims)
        try:
            self._hand_out(run)
            self._resume(run)
            planned = run.vectors.keys() | {key for job in run.active for key in job.texts}
            run.queue = [key for key in texts if key not in planned]
            self._drive(run)
        except Cancelled:
            if not run.active:
                raise
            jobs = "1 batch job goes" if len(run.active) == 1 else f"{len(run.active)} batch jobs go"
            raise Cancelled(
                f"Embedding was stopped on request. {jobs} on at {self._client.provider}; "
                "the next `openclaw-mem index` picks up what is finished by then."
            ) from None
        if run.waiting:
            told = f"{_texts(len(run.waiting))} {'wait' if len(run.waiting) > 1 else 'waits'} in a batch job"
            run.notes.append(
                Note(
                    "batch-waiting",
                    f"{told} of {self._client.provider}; run `openclaw-mem index` later. "
                    "Until then keywords find what is in there.",
                )
            )
        return BatchOutcome(run.vectors, tuple(run.missing), tuple(run.waiting), tuple(run.notes))

    # -- the loop --------------------------------------------------------------------------------------

    def _drive(self, run: Run) -> None:
        """Keep ``concurrency`` jobs going (all at once when nobody waits) until waiting is over."""
        slots = self._settings.concurrency if self._settings.wait else math.inf
        while run.queue or run.active:
            stop_if_cancelled(run.cancel)
            while run.queue and len(run.active) < slots and not self.disabled:
                self._submit(run)
            if self.disabled:
                run.missing.update(dict.fromkeys(run.queue))
                run.queue = []
            for job in list(run.active):
                if self._clock() >= job.next_look:
                    self._look(run, job)
            self._leave(run)
            self._tell(run)
            if run.active and (len(run.active) >= slots or not run.queue):
                due = min(min(job.next_look, job.deadline) for job in run.active)
                self._client.pause(due - self._clock(), run.cancel)

    def _leave(self, run: Run) -> None:
        """Stop waiting for the jobs that took too long, or for all when nobody waits."""
        for job in list(run.active):
            is_late = self._clock() >= job.deadline
            if is_late or not self._settings.wait:
                run.active.remove(job)
                run.waiting.update(dict.fromkeys(run.unanswered(job.texts)))
            if is_late:  # a provider that is this slow gets nothing more for now
                run.waiting.update(dict.fromkeys(run.queue))
                run.queue = []

    def _tell(self, run: Run) -> None:
        if run.progress is not None:
            done = len(run.vectors) + len(run.missing)
            label = f"Embedding ({len(run.active)} batch jobs at {self._client.provider})"
            run.progress(done, len(run.texts), label)

    # -- jobs ------------------------------------------------------------------------------------------

    def _submit(self, run: Run) -> None:
        keys, lines = self._client.part(run.queue, run.texts, run.dims)
        run.queue = run.queue[len(keys) :]
        try:
            id = self._client.submit(lines, run.cancel)
        except NotConfigured:
            raise
        except ProviderError as exc:
            self._failed(run, keys, str(exc), is_final=self._client.has_no_batch(exc))
            return
        self._records.save_job(
            StoredJob(id, self._key, self._client.provider, "submitted", self._now(), keys)
        )
        run.active.append(self._watched(id, keys, self._clock() + self._pause_s, is_resumed=False))

    def _stored(self) -> list[StoredJob]:
        """The jobs that were written down and whose answers are not here yet."""
        return [job for job in self._records.jobs(self._key) if job.id not in self._fetched]

    def _resume(self, run: Run) -> None:
        """Take up the stored jobs that work on texts of this run."""
        if self.disabled:
            return
        claimed = set(run.vectors)
        for job in self._stored():
            wanted = [key for key in job.texts if key in run.texts and key not in claimed]
            if wanted:
                claimed.update(wanted)
                next_look = self._looked.get(job.id, -math.inf) + self._pause_s
                run.active.append(self._watched(job.id, job.texts, next_look, is_resumed=True))

    def _watched(self, id: str, texts: tuple[str, ...], next_look: float, *, is_resumed: bool) -> Active:
        deadline = self._clock() + self._settings.timeout_minutes * 60
        return Active(id, texts, next_look, deadline, is_resumed)

    def _look(self, run: Run, job: Active) -> None:
        """Ask how a job is; when it has ended, fetch its answers and hand out those that are wanted."""
        try:
            state = self._client.look(job.id, run.cancel)
            answers = self._client.answers(state, job.texts, run.dims, run.cancel) if state.end else None
        except NotConfigured:
            raise
        except ProviderError as exc:
            self._look_failed(run, job, exc)
            return
        finally:
            self._looked[job.id] = self._clock()
            job.next_look = self._clock() + self._pause_s
        job.amiss = 0
        if answers is not None:
            self._ended(run, job, state, answers)

    def _look_failed(self, run: Run, job: Active, exc: ProviderError) -> None:
        status = exc.status if isinstance(exc, RequestFailed) else None
        job.amiss += 1
        if status == 404:
            self._forget(job.id)
            run.active.remove(job)
            if job.is_resumed:  # the provider has thrown it away meanwhile: its texts start anew
                run.queue += run.unanswered(job.texts)
            else:
                self._failed(run, job.texts, str(exc))
        elif job.amiss >= _LOOKS_AMISS or not (status is None or is_worth_retrying(status)):
            run.active.remove(job)
            self._failed(run, job.texts, str(exc))  # still stored, for a run that cannot do without

    def _ended(self, run: Run, job: Active, state: JobState, answers: Answers) -> None:
        run.active.remove(job)
        without = [key for key in job.texts if key not in answers.vectors]
        if run.dims is None:
            run.dims = next((len(v) for v in answers.vectors.values() if v is not None), None)
            self.dims = self.dims or run.dims
        with self._lock:
            self._fetched[job.id] = answers
        self._hand_out(run)
        if not without and state.end == "done":
            self.failures = 0
            return
        label = f"{self._client.provider} batch {job.id}"
        why = f": {answers.said[0]}" if answers.said else ""
        if state.end == "done":
            self._failed(run, without, f"{label} missing {len(without):,} embedding responses{why}")
        else:
            ended = "failed" if state.word == "failed" else f"ended as {state.word}"
            self._failed(run, without, f"{label} {ended}{why}")

    def _hand_out(self, run: Run) -> None:
        """Give this run what finished jobs have for it, and forget the jobs that have nothing left."""
        with self._lock:
            jobs = list(self._fetched.items())
        for id, answers in jobs:
            mine = {key: vector for key, vector in list(answers.vectors.items()) if key in run.texts}
            if mine:
                self._count(run, answers, mine)
                run.vectors.update(mine)
                if run.found is not None:
                    run.found(mine)
            for key in mine:
                answers.vectors.pop(key, None)
            if not answers.vectors:
                self._forget(id)

    def _forget(self, id: str) -> None:
        self._records.drop_job(id)
        with self._lock:
            self._fetched.pop(id, None)
            self._looked.pop(id, None)

    def _count(self, run: Run, answers: Answers, keys: Collection[str]) -> None:
        """Tell the meter. A job is one request, counted with the first of its answers."""
        if self._meter is None:
            return
        requests = 1 if len(answers.vectors) == len(answers.tokens) else 0
        counted = [answers.tokens[key] for key in keys]
        tokens = sum(count for count in counted if count is not None)
        is_estimated = None in counted
        if is_estimated:
            tokens = estimated_tokens(sum(len(run.texts[key].encode("utf-8", "replace")) for key in keys))
        self._meter(
            Usage(self._client.provider, self._client.model, requests, len(keys), tokens, is_estimated)
        )

    def _failed(self, run: Run, keys: Collection[str], why: str, *, is_final: bool = False) -> None:
        """A job could not be submitted, or did not answer ``keys``: they go to ``missing``. ``is_final``:
        no other job would fare better."""
        lost = run.unanswered(keys)
        run.missing.update(dict.fromkeys(lost))
        with self._lock:
            self.failures = max(MAX_FAILURES, self.failures + 1) if is_final else self.failures + 1
            ends = self.failures >= MAX_FAILURES and not self.disabled
            if ends:
                self.disabled = why
        told = f"{why.rstrip('. ')}. Embedded by plain requests instead: {_texts(len(lost))}."
        run.notes.append(Note("batch-failed", told, "warning"))
        if ends:
            provider = self._client.provider
            what = (
                f"{provider} has no batch interface for this model or base URL"
                if is_final
                else f"{self.failures} batch jobs of {provider} failed in a row"
            )
            told = (
                f"{what}: no more are submitted until the program starts again. "
                "If it stays so, turn remote.batch.enabled off or choose another provider."
            )
            run.notes.append(Note("batch-disabled", told, "warning"))


def _texts(count: int) -> str:
    return f"{count:,} text{'' if count == 1 else 's'}"
