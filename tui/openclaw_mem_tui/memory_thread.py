"""One open memory with its threads and the pools that it has answered."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from openclaw_mem_engine.api import Cancelled, Knobs, OpenClawMemError, Pool

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Memory

T = TypeVar("T")

#: Pools kept, so that walking the history and flipping a knob back cost nothing.
_POOLS_KEPT = 8

#: Notes of a pool whose service was worse than configured for a reason that may pass: asked again next time.
_PASSING = frozenset({"embedding-failed", "fallback-vectors", "other-vectors", "beside-failed"})

#: Seconds that closing waits for a search to notice that nobody wants it any more.
_PATIENCE = 2.0


class Unexpected(OpenClawMemError):
    """Something that nobody raised on purpose: a defect of ours, told with its type."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"Unexpected {type(error).__name__}: {error}. This is a defect of openclaw-mem.")


async def call(executor: Executor, work: Callable[[], T]) -> T:
    """Run in a thread; what the engine did not raise on purpose comes out as ``Unexpected``."""
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    except (asyncio.CancelledError, OpenClawMemError):
        raise
    except Exception as error:
        raise Unexpected(error) from error


class Side:
    """Queries run on one thread, short looks (sizes, the chain, a note) on another, so that a search that
    waits for a provider delays neither. All methods belong to the event loop's thread."""

    def __init__(self, factory: Callable[[], Memory], name: str) -> None:
        self._factory = factory
        self.memory: Memory | None = None
        self._queries = ThreadPoolExecutor(1, f"{name}-query")
        self._looks = ThreadPoolExecutor(1, f"{name}-look")
        self._running: threading.Event | None = None
        self._pools: OrderedDict[tuple[object, ...], Pool] = OrderedDict()
        self._epoch = 0  # of the index: a pool that was asked for in an older one is not kept

    @property
    def opened(self) -> Memory:
        if self.memory is None:
            raise OpenClawMemError("The index is not open yet.")
        return self.memory

    async def open(self) -> None:
        """Open the memory. Raises OpenClawMemError; may be called again after that."""
        if self.memory is None:
            self.memory = await call(self._queries, self._factory)

    async def look(self, work: Callable[[Memory], T]) -> T:
        """Something short that reads."""
        memory = self.opened
        return await call(self._looks, lambda: work(memory))

    async def retrieve(self, query: str, knobs: Knobs) -> Pool:
        """The pool for a query. Cancelling the coroutine aborts the search in its thread."""
        key = (query, knobs.retrieval_key)
        kept = self._pools.get(key)
        if kept is not None:
            self._pools.move_to_end(key)
            return kept
        memory, epoch = self.opened, self._epoch
        token = threading.Event()

        def work() -> Pool:
            if token.is_set() or self.memory is not memory:
                raise Cancelled("The search was stopped before it began.")
            self._running = token
            try:
                return memory.retrieve(query, knobs, token)
            finally:
                self._running = None

        try:
            pool = await call(self._queries, work)
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

    def forget_pools(self) -> None:
        """Called when the index has changed: kept pools, and those on their way, answer from the past."""
        self._epoch += 1
        self._pools.clear()

    async def close(self) -> None:
        """Stop what runs and let go of the index."""
        memory, self.memory = self.memory, None
        if memory is not None:
            if self._running is not None:
                self._running.set()
                memory.interrupt()
            await self._turns()
            await call(self._looks, memory.close)
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._looks.shutdown(wait=False, cancel_futures=True)

    async def _turns(self) -> None:
        """Wait behind whatever still runs, so that no thread loses its connection; but not for a provider
        that may never answer: closing its connection is what ends that wait."""
        loop = asyncio.get_running_loop()
        await asyncio.wait([loop.run_in_executor(self._queries, _nothing)], timeout=_PATIENCE)


def _nothing() -> None:
    pass


def _lasts(pool: Pool) -> bool:
    """Whether asking again would give the same while the index stays as it is."""
    return pool.fallback is None and not any(note.code in _PASSING for note in pool.notes)
