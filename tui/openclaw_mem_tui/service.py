"""The engine as coroutines: the only place where the workbench calls it (ranking aside, which is pure).

Queries run on one thread, sync on another: a search answers while notes are being indexed. A call that is
cancelled stops in its thread too, through its token and the engine's interrupt.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.model import Excerpt, Freshness, Progress
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, Pool

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.memory import Memory, Status
    from openclaw_mem_engine.sync.indexer import SyncReport

T = TypeVar("T")

#: Pools kept, so that walking the history and flipping a knob back cost nothing.
_POOLS_KEPT = 8

#: Notes of a pool whose service was worse than configured for a reason that may pass: asked again next time.
_PASSING = frozenset({"embedding-failed", "other-vectors"})


class Service:
    """Owns the ``Memory`` and its threads. All methods belong to the event loop's thread.

    Errors of the engine come out as ``OpenClawMemError``; anything else that a call raises is wrapped in
    one (``Unexpected``), so that the screen has a sentence to show and keeps running.
    """

    def __init__(self, factory: Callable[[], Memory]) -> None:
        self._factory = factory
        self._memory: Memory | None = None
        self._queries = ThreadPoolExecutor(1, "openclaw-mem-query")
        self._syncs = ThreadPoolExecutor(1, "openclaw-mem-sync")
        self._running: threading.Event | None = None
        self._sync_tokens: set[threading.Event] = set()
        self._watch_stop = asyncio.Event()
        self._pools: OrderedDict[tuple[object, ...], Pool] = OrderedDict()
        self._epoch = 0  # of the index: a pool that was asked for in an older one is not kept

    @property
    def is_open(self) -> bool:
        return self._memory is not None

    @property
    def settings(self) -> Settings:
        return self._opened.settings

    @property
    def knobs(self) -> Knobs:
        """The configured defaults."""
        return self._opened.knobs

    @property
    def _opened(self) -> Memory:
        if self._memory is None:
            raise OpenClawMemError("The index is not open yet.")
        return self._memory

    async def open(self) -> None:
        """Open the memory. Raises OpenClawMemError; may be called again after that."""
        if self._memory is None:
            self._memory = await self._call(self._queries, self._factory)

    async def close(self) -> None:
        """Stop what runs and let go of the index."""
        self._watch_stop.set()
        self.cancel_sync()
        memory, self._memory = self._memory, None
        if memory is not None:
            if self._running is not None:
                self._running.set()
                memory.interrupt()
            # Closing waits for its turn behind whatever still runs, so that no thread loses its connection.
            await self._call(self._syncs, lambda: None)
            await self._call(self._queries, memory.close)
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._syncs.shutdown(wait=False, cancel_futures=True)

    async def retrieve(self, query: str, knobs: Knobs) -> Pool:
        """The pool for a query. Cancelling the coroutine aborts the search in its thread."""
        key = (query, knobs.retrieval_key)
        kept = self._pools.get(key)
        if kept is not None:
            self._pools.move_to_end(key)
            return kept
        memory, epoch = self._opened, self._epoch
        token = threading.Event()

        def work() -> Pool:
            if token.is_set():
                raise OpenClawMemError("Cancelled before it began.")
            self._running = token
            try:
                return memory.retrieve(query, knobs, token)
            finally:
                self._running = None

        try:
            pool = await self._call(self._queries, work)
        except asyncio.CancelledError:
            token.set()
            if self._running is token:
                memory.interrupt()
            raise
        if epoch == self._epoch and _lasts(pool):
            self._pools[key] = pool
        while len(self._pools) > _POOLS_KEPT:
            self._pools.popitem(last=False)
        return pool

    async def sync(self, progress: Progress) -> SyncReport:
        """Bring the index up to date. ``progress`` is called in the sync thread."""
        memory, token = self._opened, threading.Event()
        self._sync_tokens.add(token)
        try:
            return await self._call(self._syncs, lambda: memory.sync(progress, token))
        except asyncio.CancelledError:
            token.set()
            raise
        finally:
            self._sync_tokens.discard(token)
            # Also when it was stopped or failed: the files that it had finished stay.
            self.forget_pools()

    def cancel_sync(self) -> None:
        """Stop every sync that runs or waits."""
        for token in self._sync_tokens:
            token.set()

    def forget_pools(self) -> None:
        """Called when the index has changed: kept pools, and those on their way, answer from the past."""
        self._epoch += 1
        self._pools.clear()

    async def get(self, path: str, start: int | None, lines: int | None) -> Excerpt:
        """Lines of a note. Raises PathRefused."""
        memory = self._opened
        return await self._call(self._queries, lambda: memory.get(path, start, lines))

    async def freshness(self) -> Freshness:
        memory = self._opened
        return await self._call(self._queries, memory.freshness)

    async def status(self) -> Status:
        memory = self._opened
        return await self._call(self._queries, memory.status)

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        """Groups of changed absolute paths, as the watcher sees them."""
        from openclaw_mem_engine.sync.watch import watch_notes

        async for paths in watch_notes(self.settings, self._watch_stop):
            yield paths

    async def _call(self, pool: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except (asyncio.CancelledError, OpenClawMemError):
            raise
        except Exception as error:
            raise Unexpected(error) from error


def _lasts(pool: Pool) -> bool:
    """Whether asking again would give the same while the index stays as it is."""
    return pool.fallback is None and not any(note.code in _PASSING for note in pool.notes)


class Unexpected(OpenClawMemError):
    """Something that nobody raised on purpose: a defect of ours, told with its type."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"Unexpected {type(error).__name__}: {error}. This is a defect of openclaw-mem.")


def present(candidate: Candidate, citations: str) -> str:
    """The text that the agent would receive for a chunk, with its footer when citations are shown."""
    from openclaw_mem_engine.tools import present_snippet, shows_citation

    cite = shows_citation(citations, None)  # type: ignore[arg-type]
    return present_snippet(candidate.text, candidate.path, candidate.start_line, candidate.end_line, cite)
