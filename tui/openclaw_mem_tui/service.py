"""The engine as coroutines: the only module of the workbench that calls it (ranking aside, which is pure).

A search answers while notes are being indexed and while a provider is probed. A call that is cancelled stops
in its thread too, through its token and the engine's interrupt.

With simulated faults there are two memories over one index: the healthy one syncs and gives the baseline; the
faulted one answers. With another backend than the configured one there are two indexes of one workspace: the
configured memory watches, both are synced. A pool of one memory is never returned as another's.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from openclaw_mem_engine import api
from openclaw_mem_tui.memory_thread import CallingLoop, Damaged, LongCalls, MemoryThread, call_detached

if TYPE_CHECKING:
    from openclaw_mem_engine.api import FollowEvent, IndexDamaged, Memory, Progress

T = TypeVar("T")
#: What long calls are about.
Subject = Literal["sync", "follow", "doctor", "why", "timeline", "curate"]

#: Opens a memory with these faults (none: as configured).
Factory = Callable[[frozenset[str]], "Memory"]
NO_FAULTS: frozenset[str] = frozenset()
#: Seconds after which closing gives up: a thread may hang in a file or a provider.
_CLOSE_S = 6.0


class Service:
    """Owns the memories and their threads. All methods belong to the event loop's thread.
    Every call raises ``OpenClawMemError``; an exception that the engine does not declare is raised as its
    subclass ``Unexpected``, so that the screen has a sentence to show. ``clock`` gives epoch seconds.
    """

    def __init__(
        self,
        factory: Factory,
        clock: Callable[[], float] = time.time,
        reload: Callable[[], api.Settings] | None = None,
    ) -> None:
        self._factory = factory
        self.clock = clock
        #: Reads the configuration again; None where it is not to be written.
        self.reload = reload
        #: Is given each error that shows that an index is damaged.
        self.on_damage: Damaged = lambda _: None
        damaged: Damaged = lambda error: self.on_damage(error)  # noqa: E731
        self._healthy = MemoryThread(lambda: factory(NO_FAULTS), "openclaw-mem", damaged)
        #: Healthy memories of other backends than the configured one, by name.
        self._others: dict[str, MemoryThread] = {}
        self._faulted: MemoryThread | None = None
        #: The faults of the memory that answers.
        self.faults = NO_FAULTS
        self._backend = ""
        self._switching = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        #: A thread for each subject of long calls: none of them waits for another.
        self._long: dict[Subject, LongCalls] = {
            name: LongCalls(f"openclaw-mem-{name}", damaged) for name in get_args(Subject)
        }
        #: Called when all threads have ended.
        self.at_close: list[Callable[[], None]] = []
        self._probes: dict[tuple[str, frozenset[str]], asyncio.Future[float]] = {}

    @property
    def is_open(self) -> bool:
        return self._healthy.memory is not None

    @property
    def damage(self) -> IndexDamaged | None:
        """Why the index of the open memory cannot be read at all."""
        return api.damage_of(self._healthy.opened.backend)

    @property
    def settings(self) -> api.Settings:
        """Before the memory is open those of the configuration, where that can be read again."""
        return self._healthy.opened.settings if self.is_open or self.reload is None else self.reload()

    @property
    def knobs(self) -> api.Knobs:
        """The configured defaults of the backend that answers."""
        return self._sound().opened.knobs

    def configure(self, knobs: api.Knobs) -> None:
        """Other knobs are configured from now on."""
        self._healthy.opened.knobs = knobs

    @property
    def draws_chunks(self) -> bool:
        """Whether the configured memory can show how it cuts a file; true before it is open."""
        return self._healthy.memory is None or self._healthy.memory.capabilities.chunks

    @property
    def configured_backend(self) -> str:
        """That of the configuration; empty before the memory is open."""
        return self.settings.openclaw.backend if self.is_open else ""

    @property
    def backend(self) -> str:
        """The name of the backend that answers; empty before the memory is open."""
        return self._backend or self.configured_backend

    def _sound(self, backend: str = "") -> MemoryThread:
        """The memory of a backend (of the one that answers) without faults."""
        return self._others.get(backend or self.backend, self._healthy)

    @property
    def _answering(self) -> MemoryThread:
        return self._faulted or self._sound()

    async def open(self) -> None:
        """Open the memory; may be called again after a failure."""
        await self._healthy.open()

    async def close(self) -> bool:
        """Stop what runs and close the memories, in ``_CLOSE_S`` at most; may be called twice. False when a
        thread has not ended: the process cannot end by itself then."""
        self._closed = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                return await self._close()
        return False

    async def _close(self) -> bool:
        for probe in self._probes.values():
            probe.cancel()
        ended = await asyncio.gather(*(calls.close() for calls in self._long.values()))
        async with self._switching:
            faulted, self._faulted = self._faulted, None
        while self.at_close:
            self.at_close.pop()()
        for memory in (faulted, *self._others.values(), self._healthy):
            if memory is not None:
                await memory.close()
        while self._tasks:
            await asyncio.wait(self._tasks)
        return all(ended)

    # -- other memories -----------------------------------------------------------------------------------

    async def set_faults(self, names: frozenset[str]) -> None:
        """Let a memory with these faults answer from now on (none: the healthy one). When it cannot be opened
        everything stays as it was. Cancelling the coroutine does not stop the change: a half-open memory
        would never be closed."""
        await asyncio.shield(self.run(self._change(names, self.backend)))

    async def set_backend(self, name: str) -> None:
        """Let this backend answer from now on, under the same faults. Errors and cancelling: as for
        ``set_faults``."""
        await asyncio.shield(self.run(self._change(self.faults, name)))

    async def open_backend(self, name: str) -> bool:
        """Open the memory of a backend, so that ``sync`` includes it. False when it was open before. Raises
        OpenClawMemError."""
        async with self._switching:
            if self._closed or name == self.configured_backend or name in self._others:
                return False
            other = MemoryThread(lambda: self._opened(NO_FAULTS, name), f"openclaw-mem-{name}")
            await _open(other)
            self._others[name] = other
            return True

    def _opened(self, faults: frozenset[str], backend: str) -> Memory:
        """A memory of the same workspace. The configuration is not changed by it."""
        if backend == self.configured_backend:
            return self._factory(faults)
        memory = self._healthy.opened
        from openclaw_mem_engine.api import with_backend

        other = with_backend(memory.settings, backend)
        return type(memory).open(other, clock=self.clock, resident=True, faults=faults)

    async def _change(self, faults: frozenset[str], backend: str) -> None:
        await self.open_backend(backend)
        async with self._switching:
            if self._closed or (faults, backend) == (self.faults, self.backend):
                return
            faulted = None
            if faults:
                faulted = MemoryThread(lambda: self._opened(faults, backend), "openclaw-mem-faulted")
                try:
                    await _open(faulted)
                except api.IndexDamaged as damage:
                    self.on_damage(damage)
                    raise
            before, self._faulted, self.faults, self._backend = self._faulted, faulted, faults, backend
        if before is not None:
            self.run(before.close())

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine in the background; closing waits for it."""
        task: asyncio.Task[None] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_retrieved)
        return task

    # -- asking -------------------------------------------------------------------------------------------

    async def retrieve(
        self,
        query: str,
        knobs: api.Knobs,
        *,
        healthy: bool = False,
        backend: str = "",
        on_scores: Callable[[api.Pool], None] | None = None,
        session_key: str = "",
    ) -> api.Pool:
        """The pool for a query, from the memory that answers; ``healthy``: from the one without faults, or
        that of another ``backend``. ``on_scores`` is called in this event loop with the pool while rerank
        scores are on their way. Cancelling the coroutine aborts the search in its thread."""
        memory = self._sound(backend) if healthy or backend not in ("", self.backend) else self._answering
        return await memory.retrieve(query, knobs, on_scores, session_key)

    async def read(self, work: Callable[[Memory], T], *, answering: bool = False) -> T:
        """A short call that changes nothing, on the configured memory; ``answering``: on the one that
        answers."""
        return await (self._answering if answering else self._healthy).read(work)

    async def read_sound(self, work: Callable[[Memory], T]) -> T:
        """The same on the memory without faults of the backend that answers."""
        return await self._sound().read(work)

    async def long(
        self, subject: Subject, work: Callable[[Memory, threading.Event], T], *, answering: bool = False
    ) -> T:
        """A call that may take seconds, in the thread of its subject: on the configured memory, or on the one
        that is ``answering``, with a token that stops it. Cancelling the coroutine sets that."""
        memory = (self._answering if answering else self._healthy).opened
        return await self._long[subject].run(partial(work, memory))

    async def read_files(self, work: Callable[[api.Settings, threading.Event], T]) -> T:
        """The same for files beside the index, which can be read before the memory is open."""
        return await self._long["timeline"].run(partial(work, self.settings))

    async def readable(self) -> tuple[int, int | None] | None:
        """See ``saveable_embeddings``; of the damaged configured index."""
        from openclaw_mem_engine.api import saveable_embeddings  # as below

        return await self._long["doctor"].run(partial(saveable_embeddings, self.settings))

    async def set_aside(self, damage: IndexDamaged) -> str:
        """Replace a damaged index by one that holds its embeddings: the name of the damaged file now."""
        from openclaw_mem_engine.api import set_aside  # loads the index, which the first frame does not need

        settings = self.settings
        damaged, _ = await self._long["doctor"].run(lambda _: set_aside(settings, damage))
        return str(damaged.name)

    async def probe(self, name: str) -> float:
        """Send one request to a provider; milliseconds. It may take seconds and has a thread of its own,
        which closing does not wait for. A second call meanwhile waits for the same answer."""
        memory, key = self._answering.opened, (name, self.faults)
        running = self._probes.get(key)
        if running is None:
            running = call_detached(lambda: memory.probe(name), "openclaw-mem-probe")
            self._probes[key] = running
            running.add_done_callback(lambda _: self._probes.pop(key, None))
            running.add_done_callback(_retrieved)
        return await asyncio.shield(running)

    def warm_up(self) -> None:
        """Load the model of the configured memory in a thread of its own; a failure is found again, and
        shown, by the first search."""
        warm = call_detached(self._healthy.opened.warm_up, "openclaw-mem-warm-up")
        warm.add_done_callback(_retrieved)

    # -- keeping up to date -------------------------------------------------------------------------------

    async def sync(self, progress: Progress, request: api.SyncRequest) -> api.SyncReport:
        """Bring the index up to date (see ``Memory.sync``), and that of another backend that is open: its
        files are the same. Returns the report of the configured one. ``progress`` is called in the sync
        thread."""
        memory = self._healthy.opened
        usual = api.SyncRequest(verify=request.verify, tails=request.tails)
        try:
            report = await self._long["sync"].run(lambda token: memory.sync(request, progress, token))
            for other in [thread.opened for thread in self._others.values()]:
                await self._long["sync"].run(partial(other.sync, usual, progress))
            return report
        finally:
            # Also when it was stopped or failed: the files that it had finished stay.
            self.forget_pools()

    def cancel_sync(self) -> None:
        """Stop every sync that runs or waits."""
        self._long["sync"].cancel()

    def forget_pools(self) -> None:
        """The index has changed: pools that are kept or on their way answer from the old one."""
        for memory in (self._healthy, self._faulted, *self._others.values()):
            if memory is not None:
                memory.forget_pools()

    async def follow(
        self,
        on_event: Callable[[FollowEvent], None],
        sync: Callable[[str], Coroutine[Any, Any, api.SyncReport]],
        *,
        at_start: bool,
    ) -> None:
        """Keep the index up to date until the service is closed (see ``Memory.follow``). ``on_event`` and
        ``sync`` are called in this event loop."""
        memory, loop = self._healthy.opened, CallingLoop()

        def follow(stop: threading.Event) -> None:
            def show(event: FollowEvent) -> None:
                if not stop.is_set():
                    loop.call(on_event, event)

            def synced(reason: str, _progress: Progress) -> api.SyncReport:
                return loop.result(sync(reason), stop)

            memory.follow(show, stop, sync=synced, at_start=at_start)

        await self._long["follow"].run(follow)


async def _open(memory: MemoryThread) -> None:
    """Open it with its index, or close what was made for it and raise why not."""
    try:
        await memory.open()
        if (damage := api.damage_of(memory.opened.backend)) is not None:
            raise damage
    except BaseException:
        await memory.close()
        raise


def _retrieved(done: asyncio.Future[Any]) -> None:
    """The exception was raised where the result is awaited; asyncio need not log it again."""
    if not done.cancelled():
        done.exception()
