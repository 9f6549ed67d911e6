"""``Memory``: one agent's memory, opened from settings. What ``import openclaw_mem_engine`` offers."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.cancellation import CancelToken
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.configured import configured_knobs
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.inspection.facade import Health
from openclaw_mem_engine.model import Excerpt, Fallback, Freshness, Note, Progress
from openclaw_mem_engine.providers.factory import ProviderSet
from openclaw_mem_engine.providers.faults import check_faults
from openclaw_mem_engine.providers.provider_state import ProviderState
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.retrieval.builtin import PRUNE_WAIT_S, BuiltinBackend
from openclaw_mem_engine.status import Status
from openclaw_mem_engine.stores import open_store
from openclaw_mem_engine.sync.flight import WAIT_S
from openclaw_mem_engine.sync.indexer import fingerprint_of, needs_rebuild
from openclaw_mem_engine.sync.journal import Journal
from openclaw_mem_engine.sync.plan import Plan, plan
from openclaw_mem_engine.sync.report import SyncReport

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.records import DayUsage
    from openclaw_mem_engine.stores.base import CacheSize


class Memory:
    """One agent's memory: search, read, keep the index up to date. Thread-safe; use it as a context manager.

    Errors are those of ``openclaw_mem_engine.errors``; each method's backend says which.
    """

    def __init__(
        self, backend: BuiltinBackend, lineup: ProviderSet, knobs: Knobs, *, compare: bool = False
    ) -> None:
        self._backend = backend
        self._lineup = lineup
        self._compare = compare
        self.settings = backend.settings
        #: Everything about the state of the index: its files, their chunks, the doctor, the event log.
        self.health = Health(backend)
        #: The configured ranking: a profile with the configuration's own values over it.
        self.knobs = knobs

    @classmethod
    def open(
        cls,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
        resident: bool = False,
        faults: frozenset[str] = frozenset(),
    ) -> Memory:
        """Open the index (made empty when there is none). ``clock`` gives epoch seconds for decay and for
        what is written down of providers; ``resident`` keeps vectors in memory and compares all vector spaces
        of the index in each search, for the workbench; ``faults`` (see ``providers.faults``) break parts on
        purpose, to show what follows.

        Raises ConfigError or UsageError for settings that cannot be used, IndexUnavailable.
        """
        check_faults(faults)
        knobs = configured_knobs(settings)
        lineup = ProviderSet(settings, faults=faults, clock=clock)
        journal = Journal.of(settings, clock, kept=not faults)
        with journal.opening():
            store = open_store(
                "sqlite",
                settings.index_path,
                resident=resident and "no-sqlite-vec" not in faults,
                extension=settings.vector_extension and "no-sqlite-vec" not in faults,
                full_text="no-fts5" not in faults,
            )
        backend = BuiltinBackend(settings, store, lineup.embedders, clock, lambda: lineup.notes, journal)
        return cls(backend, lineup, knobs, compare=resident)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def sync(
        self,
        progress: Progress | None = None,
        cancel: CancelToken | None = None,
        *,
        force: bool = False,
        verify: bool = False,
        tails: bool = False,
        wait_s: float = WAIT_S,
        budget_s: float | None = None,
        files_s: float | None = None,
    ) -> SyncReport:
        """Make the index match the files on disk; ``force`` rebuilds it aside and swaps it in; ``verify``
        reads every file to compare it; ``tails`` takes transcripts that grew a little, too; ``budget_s`` and
        ``files_s`` (see ``sync.indexer.sync``) are for callers who wait for an answer. While another process
        syncs it is waited for, ``wait_s`` seconds at most; SyncBusy says that it was not enough. Raises
        UsageError for a memory with faults: what they make must not outlive the demonstration."""
        if self._lineup.faults:
            raise UsageError("A memory with faults only searches: sync it without them first.")
        return self._backend.sync(
            progress,
            cancel,
            force=force,
            verify=verify,
            tails=tails,
            wait_s=wait_s,
            budget_s=budget_s,
            files_s=files_s,
        )

    def needs_rebuild(self, override: str | None) -> bool:
        """Whether a provider that was named for one call alone is another than the index was made with."""
        present = self._backend.store.fingerprint()
        if override is None or present is None:
            return False
        return needs_rebuild(present, fingerprint_of(self.settings, self._backend.embedders.primary))

    def plan(
        self,
        cancel: CancelToken | None = None,
        *,
        force: bool = False,
        tails: bool = False,
        files_s: float | None = None,
    ) -> Plan:
        """What ``sync`` would do and cost. Sends and writes nothing."""
        backend = self._backend
        return plan(
            self.settings,
            backend.store,
            backend.embedders,
            cancel,
            force=force,
            tails=tails,
            files_s=files_s,
        )

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
    ) -> Pool:
        """All candidates of a query with their raw signals, ready for any number of ``rank()`` calls with
        knobs of the same ``retrieval_key``. ``compare`` also asks embedders whose vectors are only shown."""
        compare = self._compare if compare is None else compare
        return self._backend.retrieve(query, knobs or self.knobs, cancel, compare=compare)

    def search(
        self,
        query: str,
        knobs: Knobs | None = None,
        cancel: CancelToken | None = None,
        *,
        compare: bool | None = None,
    ) -> Answer:
        """Retrieve and rank."""
        knobs = knobs or self.knobs
        pool = self.retrieve(query, knobs, cancel, compare=compare)
        return Answer(pool, rank(pool, knobs))

    def searching(self) -> AbstractContextManager[None]:
        """For callers whose search is more than ``search``, like a sync before it: what is raised in the body
        is written into the event log as a failed search. A wrong query and a stop are none."""
        return self._backend.journal.searching()

    def get(self, path: str, start: int | None = None, lines: int | None = None) -> Excerpt:
        """Lines of one memory file. Raises PathRefused."""
        return self._backend.get(path, start, lines)

    def paths(self) -> tuple[str, ...]:
        """All indexed files, for suggestions."""
        return tuple(sorted(path for path, state in self._backend.store.files().items() if not state.refusal))

    def status(self) -> Status:
        """Sizes, capabilities, freshness and everything that is not as it should be."""
        store, embedder = self._backend.store, self._backend.embedders.primary
        counts = store.counts()
        freshness = self.freshness()
        return Status(
            self.settings.agent,
            str(self.settings.workspace),
            self._backend.name,
            embedder.id if embedder else "none",
            self.settings.provider.provider,
            embedder.model if embedder else "",
            embedder.languages if embedder else "any",
            self.knobs.profile,
            counts.files,
            counts.chunks,
            store.covered(),
            counts.cached,
            str(store.path),
            store.bytes_on_disk(),
            store.caps.full_text,
            store.caps.vector_search,
            self.fallback(),
            freshness,
            (*self.settings.warnings, *self.notes),
            self.chain(),
            tuple(self.usage()),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be, at this moment."""
        return self._backend.notes

    def fallback(self) -> Fallback | None:
        """Why something else than the configured provider would answer now, as far as that is known without
        asking it."""
        links = self.chain()
        primary = next((link for link in links if link.role == "primary" and link.name != "none"), None)
        if primary is None or primary.state == "serving":
            return None
        serving = next((link for link in links if link.state == "serving"), None)
        served = "nobody" if serving is None else serving.space or serving.name
        return Fallback(primary.name, primary.why, served, primary.since, primary.next_retry)

    @property
    def places(self) -> tuple[str, ...]:
        """The hosts that note text may be sent to; empty when it stays on this machine."""
        embedders = self._backend.embedders
        asked = (embedders.primary, embedders.fallback, *embedders.also)
        return tuple(embedder.host for embedder in asked if embedder is not None and embedder.host)

    def chain(self) -> tuple[ProviderState, ...]:
        """Every provider of the chain and how it stands, keywords at the end."""
        store = self._backend.store
        vectors = {size.space: size.vectors for size in store.spaces()}
        return self._lineup.states(vectors, store.counts().chunks, full_text=store.caps.full_text)

    def probe(self, provider: str) -> float:
        """Ask a provider in use for one vector now; milliseconds. Raises ProviderError, UsageError."""
        return self._lineup.probe(provider)

    def usage(self, days: int = 30) -> list[DayUsage]:
        """Requests and tokens by day and provider, newest first."""
        return self._lineup.usage(days)

    def cache_sizes(self) -> list[CacheSize]:
        """The embedding cache, space by space."""
        return self._backend.store.cache_sizes()

    def prune_cache(
        self, most: int, cancel: CancelToken | None = None, *, wait_s: float = PRUNE_WAIT_S
    ) -> int:
        """Forget the oldest cached embeddings beyond ``most``, never one that a passage needs; how many. A
        sync that is at work is waited for, ``wait_s`` seconds at most; SyncBusy says that it was not
        enough."""
        return self._backend.prune_cache(most, cancel, wait_s=wait_s)

    def interrupt(self) -> None:
        """Stop a search that runs in another thread; it raises Cancelled there."""
        self._backend.interrupt()

    def close(self) -> None:
        """Close index, embedders and records. The object cannot be used afterwards."""
        self._backend.close()
        self._lineup.close()
