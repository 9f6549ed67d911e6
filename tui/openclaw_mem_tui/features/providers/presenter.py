"""The presenter of the providers screen: reads the chain, its usage and the cache; probes providers."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.api import (
    CacheSize,
    IndexDamaged,
    OpenClawMemError,
    Spent,
    known_of,
    prospects,
    summed,
)
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_tui.presenter import Presenter
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.render.spans import Failed
from openclaw_mem_tui.service import Service

if TYPE_CHECKING:
    from openclaw_mem_engine.api import DayUsage, Event, Fallback, Memory, ProviderState, QmdFacts

#: Events that are looked at for the last fallback.
EVENTS_SEEN = 500
#: Name, role and model: one provider may be there twice.
LinkKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class ChainState:
    """The chain as it was at ``at`` (epoch seconds). ``probing`` are the links that are probed just now,
    ``probed`` the outcomes: milliseconds, or why there was no answer."""

    links: tuple[ProviderState, ...] = ()
    usage: tuple[DayUsage, ...] = ()
    #: None: what answers keeps no embedding cache.
    caches: tuple[CacheSize, ...] | None = ()
    at: float = 0.0
    probing: frozenset[LinkKey] = frozenset()
    probed: Mapping[LinkKey, float | str] = field(default_factory=dict)
    said: str = ""
    trouble: str = ""
    #: The external qmd, where one is configured or its fault is simulated: what is known of it.
    qmd: QmdFacts | None = None
    qmd_command: str = ""
    #: By provider: where note text would go, and what is known of its key or model file.
    prospects: Mapping[str, str] = field(default_factory=dict)
    #: The last answer of a fallback in the event log.
    last_fallback: Event | None = None
    #: What answers instead of the primary now, and whether a simulated fault is the reason.
    fallback: Fallback | None = None
    simulated: bool = False

    def used(self, link: ProviderState, days: int) -> Spent | None:
        """What a link was used for today (1) or in more days; None when it was not."""
        today = datetime.date.fromtimestamp(self.at)
        first = (today - datetime.timedelta(days=days - 1)).isoformat()
        found = summed(self.usage, {(link.name, link.model): link.host}, since=first)
        return next((item for item in found if (item.provider, item.model) == (link.name, link.model)), None)


def key_of(link: ProviderState) -> LinkKey:
    return link.name, link.role, link.model


def _caches(memory: Memory) -> tuple[CacheSize, ...] | None:
    with suppress(IndexDamaged):  # () is then shown as not known
        return tuple(memory.cache_sizes()) if memory.capabilities.cache else None
    return ()


def _records(memory: Memory) -> dict[str, Any]:
    """What is kept of earlier requests."""
    return {
        "usage": tuple(memory.usage(30)),
        "caches": _caches(memory),
        "last_fallback": next(
            (event for event in memory.events(EVENTS_SEEN) if event.kind == "fallback"), None
        ),
    }


def _qmd_link(fallback: Fallback | None) -> ProviderState:
    """The external program as a link of the chain: it searches and makes its own vectors."""
    from openclaw_mem_engine.api import ProviderState

    if fallback is None:
        return ProviderState("qmd", "backend", "active", "memory.qmd.command is set: it searches")
    why, since, retry = fallback.reason, fallback.since, fallback.next_retry
    return ProviderState("qmd", "backend", "failed", why, since=since, next_retry=retry)


class ProvidersPresenter(Presenter[ChainState]):
    """Errors become ``trouble``."""

    def __init__(self, service: Service) -> None:
        super().__init__(service, ChainState())
        self._faults = service.faults

    async def read(self) -> None:
        """Read chain, usage and cache anew."""
        service = self.service
        if not service.is_open:
            return
        if self._faults != service.faults:
            # The outcome of a probe under other faults says nothing about these.
            self._faults = service.faults
            self.update(probed={}, probing=frozenset())
        try:
            links = await service.read(lambda memory: memory.chain(), answering=True)
            # No usage is recorded under a simulated fault.
            records = await service.read_sound(_records)
            known = await service.read(lambda memory: prospects(memory.settings))
            qmd, fallback = await service.read(
                lambda memory: (known_of(memory.settings), memory.fallback()), answering=True
            )
        except OpenClawMemError as error:
            self.update(trouble=str(error))
            return
        if fallback is not None and fallback.origin == "qmd":
            links = (_qmd_link(fallback), *links)
        elif qmd is not None:
            links = (_qmd_link(None), *links)
        self.update(
            **records,
            links=links,
            at=service.clock(),
            trouble="",
            qmd=qmd,
            qmd_command=service.settings.qmd.command or "",
            prospects=known,
            fallback=None if fallback is not None and fallback.origin == "qmd" else fallback,
            simulated=bool(service.faults),
        )

    async def probe(self, link: ProviderState) -> None:
        """Send one request to a provider, and say what came of it."""
        if not link.in_use:
            known = {"bm25": "BM25 needs no provider", "backend": "the next search uses qmd"}
            self.say(known.get(link.role, "only a provider that is in use is probed"))
            return
        key, faults = key_of(link), self.service.faults
        self.update(probing=self.state.probing | {key}, said="")
        single = sum(1 for other in self.state.links if other.role == link.role) == 1
        outcome: float | str
        try:
            outcome = await self.service.probe(link.role if single else link.name)
            said = f"{link.name} answered in {fmt.milliseconds(outcome)}"
        except OpenClawMemError as error:
            outcome = said = Failed(error)
        finally:
            self.update(probing=self.state.probing - {key})
        if faults == self.service.faults:
            self.update(probed={**self.state.probed, key: outcome}, said=said)
            await self.read()
