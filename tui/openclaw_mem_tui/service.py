"""The engine as coroutines: the only place where the workbench calls it (ranking aside, which is pure).

A search answers while notes are being indexed, and while a provider is asked whether it is there. A call that
is cancelled stops in its thread too, through its token and the engine's interrupt.

With faults switched on there are two memories over one index: the healthy one syncs, watches and gives the
run to compare with; the faulted one answers. What one answered is never handed out as the other's.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from openclaw_mem_engine.errors import Cancelled, OpenClawMemError
from openclaw_mem_engine.model import Excerpt, Progress
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.pool import Candidate, Pool
from openclaw_mem_engine.sync.report import DEFAULT_REQUEST, SyncReport, SyncRequest
from openclaw_mem_tui.memory_thread import Side, Unexpected, call

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.health import Health, Status
    from openclaw_mem_engine.inspection import Overview
    from openclaw_mem_engine.inspection.file_chunks import Anatomy
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.providers.provider_state import ProviderState
    from openclaw_mem_engine.providers.records import DayUsage
    from openclaw_mem_engine.state.events import Event
    from openclaw_mem_engine.stores.base import CacheSize
    from openclaw_mem_engine.stores.findings import DoctorReport as Report
    from openclaw_mem_engine.sync.follow import FollowEvent, SyncTrigger
    from openclaw_mem_engine.sync.plan import Plan

T = TypeVar("T")

#: Opens a memory with these faults (none: as configured).
Factory = Callable[[frozenset[str]], "Memory"]
NO_FAULTS: frozenset[str] = frozenset()
#: How often the thread that follows the files checks whether the service was closed, seconds.
_POLL_S = 0.1


class Service:
    """Owns the memories and their threads. All methods belong to the event loop's thread.

    Errors of the engine come out as ``OpenClawMemError``; anything else that a call raises is wrapped in
    one (``Unexpected``), so that the screen has a sentence to show and keeps running. ``clock`` gives epoch
    seconds.
    """

    def __init__(self, factory: Factory, clock: Callable[[], float] = time.time) -> None:
        self._factory = factory
        self.clock = clock
        self._healthy = Side(lambda: factory(NO_FAULTS), "openclaw-mem")
        self._faulted: Side | None = None
        #: The faults of the memory that answers.
        self.faults = NO_FAULTS
        self._switching = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._syncs = ThreadPoolExecutor(1, "openclaw-mem-sync")
        self._sync_tokens: set[threading.Event] = set()
        self._examinations = ThreadPoolExecutor(1, "openclaw-mem-doctor")
        self._examining: set[threading.Event] = set()
        self._follow_stop = threading.Event()
        self._probes: dict[tuple[str, frozenset[str]], asyncio.Future[float]] = {}

    @property
    def is_open(self) -> bool:
        return self._healthy.memory is not None

    @property
    def settings(self) -> Settings:
        return self._healthy.opened.settings

    @property
    def knobs(self) -> Knobs:
        """The configured defaults."""
        return self._healthy.opened.knobs

    @property
    def _answering(self) -> Side:
        return self._faulted or self._healthy

    async def open(self) -> None:
        """Open the memory. Raises OpenClawMemError; may be called again after that."""
        await self._healthy.open()

    async def close(self) -> None:
        """Stop what runs and let go of the index."""
        self._closed = True
        self._follow_stop.set()
        self.cancel_sync()
        for token in self._examining:
            token.set()
        async with self._switching:
            faulted, self._faulted = self._faulted, None
        if self._healthy.memory is not None:
            await call(self._syncs, lambda: None)
            await call(self._examinations, lambda: None)
        if faulted is not None:
            await faulted.close()
        await self._healthy.close()
        while self._tasks:
            await asyncio.wait(self._tasks)
        self._syncs.shutdown(wait=False, cancel_futures=True)
        self._examinations.shutdown(wait=False, cancel_futures=True)

    # -- faults -------------------------------------------------------------------------------------------

    async def set_faults(self, names: frozenset[str]) -> None:
        """Let a memory with these faults answer from now on (none: the healthy one). Raises OpenClawMemError
        when it cannot be opened; then everything stays as it was.

        Cancelling the coroutine does not stop the change: a memory that is half open would be lost.
        """
        await asyncio.shield(self._background(self._set_faults(names)))

    async def _set_faults(self, names: frozenset[str]) -> None:
        async with self._switching:
            if self._closed or names == self.faults:
                return
            faulted = Side(lambda: self._factory(names), "openclaw-mem-faulted") if names else None
            if faulted is not None:
                try:
                    await faulted.open()
                except BaseException:
                    await faulted.close()
                    raise
            before, self._faulted, self.faults = self._faulted, faulted, names
        if before is not None:
            self._background(before.close())

    def _background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waited for it has it; nobody else wants to hear of it

    # -- asking -------------------------------------------------------------------------------------------

    async def retrieve(self, query: str, knobs: Knobs, *, healthy: bool = False) -> Pool:
        """The pool for a query, from the memory with faults if there is one; ``healthy`` asks the other.
        Cancelling the coroutine aborts the search in its thread."""
        return await (self._healthy if healthy else self._answering).retrieve(query, knobs)

    async def chain(self) -> tuple[ProviderState, ...]:
        """Every link of the chain that answers now."""
        return await self._answering.look(lambda memory: memory.chain())

    async def usage(self, days: int = 30) -> list[DayUsage]:
        """What providers were used for, newest day first; what happens under a fault is not written down."""
        return await self._healthy.look(lambda memory: memory.usage(days))

    async def cache_sizes(self) -> list[CacheSize]:
        """The embedding cache, space by space."""
        return await self._healthy.look(lambda memory: memory.cache_sizes())

    async def probe(self, name: str) -> float:
        """Ask a provider now; milliseconds. Raises ProviderError, UsageError.

        It may take seconds, so it has a thread of its own, which nobody waits for at the end. Cancelling
        the coroutine leaves that thread to itself; asking again meanwhile waits for the same answer.
        """
        memory, key = self._answering.opened, (name, self.faults)
        running = self._probes.get(key)
        if running is None:
            loop = asyncio.get_running_loop()
            running = self._probes[key] = loop.create_future()
            running.add_done_callback(lambda done: self._probed(key, done))
            thread = threading.Thread(
                target=_probe, args=(memory, name, loop, running), name="openclaw-mem-probe", daemon=True
            )
            thread.start()
        return await asyncio.shield(running)

    def _probed(self, key: tuple[str, frozenset[str]], done: asyncio.Future[float]) -> None:
        self._probes.pop(key, None)
        if not done.cancelled():
            done.exception()

    async def get(self, path: str, start: int | None, lines: int | None) -> Excerpt:
        """Lines of a note. Raises PathRefused."""
        return await self._healthy.look(lambda memory: memory.get(path, start, lines))

    async def status(self) -> Status:
        return await self._healthy.look(lambda memory: memory.status())

    # -- health -------------------------------------------------------------------------------------------

    async def overview(self) -> Overview:
        """The index file by file. Raises WorkspaceError, IndexUnavailable."""
        return await self._healthy.look(lambda memory: memory.health.overview())

    async def anatomy(self, path: str) -> Anatomy:
        """A file and its chunks. Raises UsageError, WorkspaceError, IndexUnavailable."""
        return await self._healthy.look(lambda memory: memory.health.anatomy(path))

    async def events(self, limit: int) -> list[Event]:
        """What happened, newest first."""
        return await self._healthy.look(lambda memory: memory.health.events(limit))

    async def examine(self, progress: Progress, *, deep: bool) -> Report:
        """Let the doctor look. ``progress`` is called in its thread; cancelling the coroutine stops it."""
        return await self._slowly(lambda health, token: health.examine(progress, token, deep=deep))

    async def mend(self, report: Report, progress: Progress) -> tuple[list[str], Report | None]:
        """Mend what can be mended; what was done, and what there is afterwards (None: nobody looked). Raises
        SyncBusy, IndexUnavailable."""
        try:
            return await self._slowly(lambda health, token: health.repair(report, progress, token))
        finally:
            self.forget_pools()

    async def plan_rebuild(self) -> Plan:
        """What a rebuild would read, embed and cost. Raises WorkspaceError, IndexUnavailable."""
        memory = self._healthy.opened
        return await self._slowly(lambda _, token: memory.plan(SyncRequest(force=True), token))

    async def _slowly(self, work: Callable[[Health, threading.Event], T]) -> T:
        """Something that may take seconds, in the doctor's thread; cancelling the coroutine stops it."""
        memory, token = self._healthy.opened, threading.Event()
        self._examining.add(token)
        try:
            return await call(self._examinations, lambda: work(memory.health, token))
        except asyncio.CancelledError:
            token.set()
            raise
        finally:
            self._examining.discard(token)

    # -- keeping up ---------------------------------------------------------------------------------------

    async def sync(self, progress: Progress, request: SyncRequest = DEFAULT_REQUEST) -> SyncReport:
        """Bring the index up to date. ``progress`` is called in the sync thread."""
        memory, token = self._healthy.opened, threading.Event()
        self._sync_tokens.add(token)
        try:
            return await call(self._syncs, lambda: memory.sync(request, progress, token))
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
        self._healthy.forget_pools()
        if self._faulted is not None:
            self._faulted.forget_pools()

    async def follow(
        self,
        on_event: Callable[[FollowEvent], None],
        sync: Callable[[SyncTrigger], Coroutine[Any, Any, SyncReport]],
        *,
        at_start: bool,
    ) -> None:
        """Keep the index up to date until the service is closed (see ``Memory.follow``). ``on_event`` and
        ``sync`` are called in this event loop. Raises OpenClawMemError."""
        memory, stop, loop = self._healthy.opened, self._follow_stop, asyncio.get_running_loop()

        def show(event: FollowEvent) -> None:
            if not stop.is_set():
                loop.call_soon_threadsafe(on_event, event)

        def synced(trigger: SyncTrigger, _progress: Progress) -> SyncReport:
            running = asyncio.run_coroutine_threadsafe(sync(trigger), loop)
            while True:
                try:
                    return running.result(_POLL_S)
                except concurrent.futures.TimeoutError:
                    if stop.is_set():
                        running.cancel()
                        raise Cancelled("The workbench was closed.") from None

        with ThreadPoolExecutor(1, "openclaw-mem-follow") as thread:
            try:
                await call(thread, lambda: memory.follow(show, stop, sync=synced, at_start=at_start))
            finally:
                # Awaited, because a thread that still runs when the process ends may take it down.
                stop.set()
                await loop.run_in_executor(None, thread.shutdown)


def _probe(memory: Memory, name: str, loop: asyncio.AbstractEventLoop, told: asyncio.Future[float]) -> None:
    """Runs in the probe's thread; the answer is of no use to anybody once the loop is closed."""
    error: Exception | None = None
    spent = 0.0
    try:
        spent = memory.probe(name)
    except OpenClawMemError as failure:
        error = failure
    except Exception as failure:  # noqa: BLE001 - a defect, told as one
        error = Unexpected(failure)

    def tell() -> None:
        if told.done():
            return
        if error is not None:
            told.set_exception(error)
        else:
            told.set_result(spent)

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        return


def present(candidate: Candidate, citations: str) -> str:
    """The text that the agent would receive for a chunk, with its footer when citations are shown."""
    from openclaw_mem_engine.tools import present_snippet, shows_citation

    cite = shows_citation(citations, None)  # type: ignore[arg-type]
    return present_snippet(candidate.text, candidate.path, candidate.start_line, candidate.end_line, cite)
