"""``Memory``: one agent's memory, opened from settings. What ``import openclaw_mem_engine`` offers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from openclaw_mem_engine.answer import Answer, Status, chain_of, known_status
from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.knobs import configured_knobs, ranking_knobs
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Excerpt, Fallback, Freshness, Note, Progress
from openclaw_mem_engine.providers.factory import ProviderSet, ProviderState, fallback_of
from openclaw_mem_engine.providers.faults import check_faults
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.retrieval import (
    PRUNE_WAIT_S,
    BackendContext,
    PassageQuestion,
    expander_of,
    open_backend,
    scoped,
)
from openclaw_mem_engine.state.expected import ExpectedPassages
from openclaw_mem_engine.sync.events import Journal
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest

if TYPE_CHECKING:
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.inspection.file_chunks import Anatomy
    from openclaw_mem_engine.providers.base import Reranker
    from openclaw_mem_engine.providers.records import DayUsage
    from openclaw_mem_engine.providers.services import ServiceState
    from openclaw_mem_engine.ranking.unshown import Unshown
    from openclaw_mem_engine.retrieval import Backend, Capabilities, IndexStatus
    from openclaw_mem_engine.retrieval.reranking import Reranking
    from openclaw_mem_engine.state.events import Event
    from openclaw_mem_engine.stores.base import CacheSize
    from openclaw_mem_engine.stores.findings import DoctorReport
    from openclaw_mem_engine.sync.follow import FollowEvent, FollowSync
    from openclaw_mem_engine.sync.plan import Plan
    from openclaw_mem_engine.why_not import WhyNot


class Memory(AbstractContextManager["Memory"]):
    """One agent's memory: search, read, keep the index up to date. Thread-safe; use it as a context manager.
    Errors are those of ``openclaw_mem_engine.errors``; each method's backend says which."""

    def __init__(
        self,
        backend: Backend,
        lineup: ProviderSet,
        journal: Journal,
        knobs: Knobs,
        *,
        compare: bool = False,
        reranker: Reranker | None = None,
    ) -> None:
        self._backend = backend
        self._lineup = lineup
        self.warm_up = lineup.warm_up  # documented there
        self._journal = journal
        self._compare = compare
        self.settings = backend.settings
        self._reranker = reranker or lineup.services.reranker
        #: The configured ranking: a profile with the configuration's own values over it.
        self.knobs = knobs
        #: Passages that the user expects in answers.
        self.expected = ExpectedPassages(self.settings.data_dir, self.settings.agent, self.settings.workspace)

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
        resident: bool = False,
        faults: frozenset[str] = frozenset(),
        reranker: Reranker | None = None,
    ) -> Memory:
        """Open the index (made empty when there is none). ``clock`` gives epoch seconds; ``resident`` keeps
        vectors in memory, compares all vector spaces in each search, and opens a memory without its index
        where that is too damaged (see ``retrieval.unread``); ``faults`` (see ``providers.faults``) are
        simulated; ``reranker`` (closed with the memory) replaces that of the settings.

        Raises ConfigError or UsageError for settings that cannot be used, IndexUnavailable."""
        check_faults(faults)
        knobs = configured_knobs(settings)
        lineup = ProviderSet(settings, faults=faults, clock=clock)
        journal = Journal(settings, clock, kept=not faults)
        rest = resident, faults, expander_of(lineup.services.chat)
        context = BackendContext(settings, lineup.embedders, journal, clock, lambda: lineup.notes, *rest)
        with journal.opening():
            backend = open_backend(settings.openclaw.backend, context)
        return cls(backend, lineup, journal, knobs, compare=resident, reranker=reranker)

    def __exit__(self, *_error: object) -> None:
        self.close()

    def sync(
        self,
        request: SyncRequest = DEFAULT_REQUEST,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
    ) -> SyncReport:
        """Make the index match the files on disk, as ``request`` says. ``progress`` is called in this thread
        with files done, files in all and a label. Blocks until it is done; while another process syncs it
        waits ``request.wait_s`` seconds at most, then raises SyncBusy. Raises UsageError with faults."""
        if self._lineup.faults:
            raise UsageError("A memory with faults only searches: sync it without them first.")
        return self._backend.sync(replace(request, knobs=request.knobs or self.knobs), progress, cancel)

    def follow(
        self,
        on_event: Callable[[FollowEvent], None],
        stop: CancelToken,
        *,
        sync: FollowSync | None = None,
        at_start: bool = True,
    ) -> None:
        """Keep the index up to date until ``stop`` is set: sync at the start (``at_start``), after changes on
        disk, by the configured interval, and again after a failure. Blocks all that time. ``on_event`` is
        called in this thread; what it raises ends this call. ``sync`` replaces the plain ``Memory.sync``.
        Raises UsageError for a memory with faults."""
        from openclaw_mem_engine.sync.follow import Follower

        if self._lineup.faults:
            raise UsageError("A memory with faults only searches: follow it without them.")
        sync = sync or (lambda _reason, progress: self.sync(progress=progress, cancel=stop))
        follower = Follower(self.settings, on_event, stop, sync, self.freshness, self._journal.watched)
        follower.run(at_start=at_start)

    @property
    def backend(self) -> Backend:
        """What answers, for what only one kind of backend can do."""
        return self._backend

    @property
    def capabilities(self) -> Capabilities:
        """What the backend can do. A method that needs a missing capability raises UsageError."""
        return self._backend.capabilities

    def needs_rebuild(self, override: str | None) -> bool:
        """Whether the provider ``override``, named for one call alone, is another than the index was made
        with. None: none was named."""
        return override is not None and self.capabilities.sync and self._backend.would_rebuild()

    def plan(self, request: SyncRequest = DEFAULT_REQUEST, cancel: CancelToken | None = None) -> Plan:
        """What ``sync`` with this request would do and cost. Sends and writes nothing."""
        return self._backend.plan(request, cancel)

    def freshness(self) -> Freshness:
        """How the index compares with the files on disk at this moment."""
        return self._backend.freshness()

    def retrieve(
        self,
        query: str,
        knobs: Knobs | None = None,
        cancel: CancelToken | None = None,
        *,
        compare: bool | None = None,
        on_scores: Callable[[Pool], None] | None = None,
        session_key: str | None = None,
    ) -> Pool:
        """All candidates of a query with their raw signals, ready for any number of ``rank()`` calls with
        knobs of the same ``retrieval_key``. ``compare`` adds what only an explanation shows: the vectors of
        further embedders, and the exact ranks of passages that the vector list does not hold; ``on_scores``
        is called with the pool while it lacks rerank scores (see ``Reranking.complete``). ``session_key`` is
        whose session asks, for ``memory.qmd.scope``; None counts as a direct chat."""
        compare = self._compare if compare is None else compare
        knobs = knobs or self.knobs
        if (denied := scoped.denied(self._backend, self._journal, query, session_key)) is not None:
            return denied
        pool = self._backend.retrieve(query, knobs, cancel, compare=compare)
        pool = scoped.noted(self.settings, pool, session_key)
        return self._reranking.complete(pool, knobs, cancel, on_scores) if knobs.rerank else pool

    @cached_property
    def _reranking(self) -> Reranking:
        from openclaw_mem_engine.retrieval.reranking import Reranking

        budget_s, batch = self.settings.rerank.budget_s, self._lineup.services.rerank_batch
        return Reranking(self._reranker, self._backend.scores, budget_s=budget_s, batch=batch)

    def search(
        self,
        query: str,
        knobs: Knobs | None = None,
        cancel: CancelToken | None = None,
        *,
        compare: bool | None = None,
        session_key: str | None = None,
    ) -> Answer:
        """Retrieve and rank."""
        knobs = knobs or self.knobs
        pool = self.retrieve(query, knobs, cancel, compare=compare, session_key=session_key)
        return Answer(pool, rank(pool, ranking_knobs(self.settings, pool, knobs)))

    def why_not(
        self,
        query: str,
        path: str,
        line: int | None = None,
        knobs: Knobs | None = None,
        cancel: CancelToken | None = None,
        session_key: str | None = None,
        end_line: int | None = None,
        chunk_id: str | None = None,
    ) -> WhyNot:
        """Why a ``search`` does or does not return ``line`` (1-based; None: the passage of the file nearest
        to being returned) of the file ``path``, and what would bring it in. Of chunks that hold the line,
        ``chunk_id`` names the one to explain unless another one is returned with it; the lines to
        ``end_line`` name a whole chunk. Raises PathRefused for a path that cannot be memory, UsageError for
        one neither on disk nor indexed, or a line beyond its end."""
        asked = query, path, line, knobs or self.knobs, self._reranking.complete, session_key, end_line
        return self._backend.why_not(PassageQuestion(*asked, chunk_id), cancel)

    def searching(self) -> AbstractContextManager[None]:
        """For callers whose search is more than ``search``, like a sync before it: an error of the body is
        written into the event log as a failed search, except a wrong query and a stop."""
        return self._journal.searching()

    def get(self, path: str, start: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of one memory file (see ``sidecar.paths.excerpt``)."""
        from openclaw_mem_engine.sidecar.paths import excerpt

        return excerpt(self.settings, path, start, lines)

    def paths(self) -> tuple[str, ...]:
        """All files that can be found, sorted, for suggestions."""
        return self._backend.paths()

    def status(self) -> Status:
        """Sizes, capabilities, freshness and everything that is not as it should be."""
        found = self._backend.status()
        chain = self._chain(found)
        sizes = {field.name: getattr(found, field.name) for field in fields(found)}
        return Status(
            **sizes,
            agent=self.settings.agent,
            workspace=str(self.settings.workspace),
            backend=self._backend.name,
            requested_provider=self.settings.provider.provider,
            profile=self.knobs.profile,
            fallback=self._backend.fallback or fallback_of(chain),
            freshness=self.freshness(),
            notes=(*self.settings.warnings, *self.notes),
            chain=chain,
            usage=tuple(self.usage()),
        )

    def overview(self) -> Overview:
        """What the index was made with, and each file against the disk. Raises WorkspaceError."""
        return self._backend.files()

    def anatomy(self, path: str) -> Anatomy:
        """One file and its chunks. Raises UsageError for a path that is no memory, WorkspaceError."""
        return self._backend.chunks(path)

    def unshown(self) -> dict[str, Unshown]:
        """By file of the index, what no search with the configured knobs can show; 0.1 s for 8,000 chunks."""
        return self._backend.unshown(self.knobs) if self.capabilities.chunks else {}

    def events(self, limit: int) -> list[Event]:
        """The ``limit`` latest events of this agent's memory of this workspace, newest first."""
        return self._journal.read(limit)

    def examine(
        self, progress: Progress | None = None, cancel: CancelToken | None = None, *, deep: bool = False
    ) -> DoctorReport:
        """Run every check of the doctor (see ``doctor.examine``). Changes nothing. Raises Cancelled."""
        return self._backend.examine(progress, cancel, deep=deep)

    def repair(
        self, report: DoctorReport, progress: Progress | None = None, cancel: CancelToken | None = None
    ) -> tuple[list[str], DoctorReport | None]:
        """Repair what a report calls fixable: what was done, in words, and the report afterwards (None when
        that examination was stopped). Raises SyncBusy, Cancelled when stopped before anything was done."""
        return self._backend.repair(report, progress, cancel)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be, at this moment."""
        return self._backend.notes

    def fallback(self) -> Fallback | None:
        """Why something else than what is configured would answer now, as far as is known without asking."""
        return self._backend.fallback or fallback_of(self.chain())

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that note text or queries may be sent to; empty when all stays on this machine."""
        return self._lineup.hosts(embedders=self.capabilities.providers)

    def services(self) -> tuple[ServiceState, ...]:
        """The reranker and the model for query expansion, as far as they are configured."""
        return self._lineup.services.states()

    def chain(self) -> tuple[ProviderState, ...]:
        """Every provider and its state, full-text search at the end; empty for a backend that asks none. Of a
        damaged index every number is 0."""
        return self._chain(known_status(self._backend))

    def _chain(self, found: IndexStatus) -> tuple[ProviderState, ...]:
        if not self.capabilities.providers:
            return ()
        return chain_of(self._lineup, found, self.knobs, self.settings.index_path)

    def probe(self, provider: str) -> float:
        """Ask a provider in use for one vector now; milliseconds. Raises ProviderError, UsageError."""
        return self._lineup.probe(provider)

    def usage(self, days: int = 30) -> list[DayUsage]:
        """Requests and tokens by day and provider, newest first."""
        return self._lineup.records.usage(days)

    def cache_sizes(self) -> list[CacheSize]:
        """The embedding cache, space by space."""
        return self._backend.cache_sizes()

    def prune_cache(
        self, most: int, cancel: CancelToken | None = None, *, wait_s: float = PRUNE_WAIT_S
    ) -> int:
        """Remove the oldest cached embeddings beyond ``most``, never one that a chunk needs; how many. Waits
        up to ``wait_s`` seconds for a sync. Raises SyncBusy when that was not enough."""
        return self._backend.prune_cache(most, cancel, wait_s=wait_s)

    def interrupt(self) -> None:
        """Stop a search that runs in another thread; it raises Cancelled there."""
        self._backend.interrupt()

    def close(self) -> None:
        """Close index, embedders, records and event log. The object cannot be used afterwards."""
        self._backend.close()
        self._lineup.close()
        if self._reranker is not None:
            self._reranker.close()
        self._journal.close()
        self.expected.close()
