"""Threads behind the event loop: one open memory with its queries, long calls, calls that may never end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from openclaw_mem_engine import api
from openclaw_mem_engine.api import Cancelled, IndexDamaged, OpenClawMemError

if TYPE_CHECKING:
    from openclaw_mem_engine.api import Knobs, Memory, Pool

T = TypeVar("T")
#: Is given each error that shows that the index is damaged, in the event loop.
Damaged = Callable[[IndexDamaged], None]

#: Pools kept, so that walking the history and turning a knob back cost nothing.
_POOLS_KEPT = 8

#: Notes of a pool that was answered worse than configured for a reason that may pass: asked again next time.
_PASSING = frozenset({"embedding-failed", "fallback-vectors", "other-vectors", "beside-failed"})

#: How soon a thread that waits for the loop notices that the workbench closes, seconds.
_POLL_S = 0.1
#: Seconds that closing waits for cancelled work to end.
_CLOSE_TIMEOUT = 2.0


class Unexpected(OpenClawMemError):
    """An exception that the engine does not declare: a defect, named with its type."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"Unexpected {type(error).__name__}: {error}. This is a defect of openclaw-mem.")


async def call(executor: Executor, work: Callable[[], T], damaged: Damaged | None = None) -> T:
    """Run in a thread; an exception that is no OpenClawMemError is raised as ``Unexpected``."""
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    except IndexDamaged as error:
        if damaged is not None:
            damaged(error)
        raise
    except OpenClawMemError:
        raise
    except Exception as error:
        raise Unexpected(error) from error


def call_detached(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """Run in a daemon thread, which the interpreter does not wait for at exit. Errors as for ``call``."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised where the result is awaited
            done.set_exception(error if isinstance(error, OpenClawMemError) else Unexpected(error))

    threading.Thread(target=run, name=name, daemon=True).start()
    return asyncio.wrap_future(done)


class CallingLoop:
    """The running event loop for the threads of the caller. What they call runs in the caller's context: that
    of a thread names no app, and a timer that is set there fails."""

    def __init__(self) -> None:
        self._loop, self._context = asyncio.get_running_loop(), contextvars.copy_context()

    def call(self, work: Callable[..., object], *given: object) -> None:
        """Call it soon."""
        self._loop.call_soon_threadsafe(partial(work, *given), context=self._context)

    def result(self, work: Coroutine[Any, Any, T], stop: threading.Event) -> T:
        """Run a coroutine and wait for what it gives. Raises Cancelled once ``stop`` is set."""

        async def run() -> T:
            return await self._loop.create_task(work, context=self._context)

        running = asyncio.run_coroutine_threadsafe(run(), self._loop)
        while True:
            try:
                return running.result(_POLL_S)
            except concurrent.futures.TimeoutError:
                if stop.is_set():
                    running.cancel()
                    raise Cancelled("The workbench was closed.") from None


class LongCalls:
    """One thread for calls that take seconds, one after the other; each gets a token that stops it."""

    def __init__(self, name: str, damaged: Damaged | None = None) -> None:
        self._executor = ThreadPoolExecutor(1, name)
        self._damaged = damaged
        self._tokens: set[threading.Event] = set()
        self._last: asyncio.Future[int] | None = None  # once it is closed

    async def run(self, work: Callable[[threading.Event], T]) -> T:
        """Run in the thread. Cancelling the coroutine sets the token."""
        token = threading.Event()
        self._tokens.add(token)
        try:
            return await call(self._executor, lambda: work(token), self._damaged)
        except asyncio.CancelledError:
            token.set()
            raise
        finally:
            self._tokens.discard(token)

    def cancel(self) -> None:
        """Stop the call that runs and those that wait."""
        for token in self._tokens:
            token.set()

    async def close(self) -> bool:
        """Wait until the cancelled calls have ended, but only ``_CLOSE_TIMEOUT``: whether they have."""
        self.cancel()
        # Not in the loop's own executor: the loop would wait for that without a limit.
        if self._last is None:
            self._last = asyncio.get_running_loop().run_in_executor(self._executor, int)
        done, _ = await asyncio.wait([self._last], timeout=_CLOSE_TIMEOUT)
        self._executor.shutdown(wait=False, cancel_futures=True)
        return bool(done)


class MemoryThread:
    """One open memory. Queries run on one thread, short reads (sizes, the chain, a note) on another, so that
    a search that waits for a provider delays neither. All methods belong to the event loop's thread."""

    def __init__(self, factory: Callable[[], Memory], name: str, damaged: Damaged | None = None) -> None:
        self._factory = factory
        self._damaged = damaged
        self.memory: Memory | None = None
        self._queries = ThreadPoolExecutor(1, f"{name}-query")
        self._reads = ThreadPoolExecutor(1, f"{name}-read")
        self._running: threading.Event | None = None
        self._pools: OrderedDict[tuple[object, ...], Pool] = OrderedDict()
        self._epoch = 0  # of the index: a pool that was asked for in an older one is not kept

    @property
    def opened(self) -> Memory:
        if self.memory is None:
            raise OpenClawMemError("The index is not open yet.")
        return self.memory

    async def open(self) -> None:
        """Open the memory; again after a failure, or while its index is damaged. Raises OpenClawMemError."""
        before = self.memory
        if before is None or api.damage_of(before.backend) is not None:
            self.memory = await call(self._queries, self._factory, self._damaged)
            if before is not None:
                await call(self._reads, before.close)

    async def read(self, work: Callable[[Memory], T]) -> T:
        """A short call that changes nothing."""
        memory = self.opened
        return await call(self._reads, lambda: work(memory), self._damaged)

    async def retrieve(
        self,
        query: str,
        knobs: Knobs,
        on_scores: Callable[[Pool], None] | None = None,
        session_key: str = "",
    ) -> Pool:
        """The pool for a query. Cancelling the coroutine aborts the search in its thread. ``on_scores`` is
        called in this event loop with the pool while it lacks rerank scores."""
        key = (query, session_key, knobs.retrieval_key)
        kept = self._pools.get(key)
        if kept is not None:
            self._pools.move_to_end(key)
            return kept
        memory, epoch = self.opened, self._epoch
        token, loop = threading.Event(), CallingLoop()

        def show(pool: Pool) -> None:
            if on_scores is not None and not token.is_set():
                on_scores(pool)

        def scored(pool: Pool) -> None:
            loop.call(show, pool)

        def work() -> Pool:
            if token.is_set() or self.memory is not memory:
                raise Cancelled("The search was stopped before it began.")
            self._running = token
            try:
                return memory.retrieve(query, knobs, token, on_scores=scored, session_key=session_key)
            finally:
                self._running = None

        try:
            pool = await call(self._queries, work, self._damaged)
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
        """The index has changed: pools that are kept or on their way answer from the old one."""
        self._epoch += 1
        self._pools.clear()

    async def close(self) -> None:
        """Stop what runs and close the memory. Waits behind the query that runs, so that its thread does not
        lose its connection, but only ``_CLOSE_TIMEOUT``: a provider may never answer, and closing its
        connection is what ends that wait."""
        memory, self.memory = self.memory, None
        if memory is not None:
            if self._running is not None:
                self._running.set()
                memory.interrupt()
            loop = asyncio.get_running_loop()
            await asyncio.wait([loop.run_in_executor(self._queries, int)], timeout=_CLOSE_TIMEOUT)
            await call(self._reads, memory.close)
        self._queries.shutdown(wait=False, cancel_futures=True)
        self._reads.shutdown(wait=False, cancel_futures=True)


def _lasts(pool: Pool) -> bool:
    """Whether asking again gives the same while the index stays as it is."""
    unscored = any(note.code == "not-reranked" and note.level == "warning" for note in pool.notes)
    return pool.fallback is None and not unscored and not any(note.code in _PASSING for note in pool.notes)
