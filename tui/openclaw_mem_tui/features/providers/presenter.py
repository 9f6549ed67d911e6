"""What the providers screen knows and does, without a screen: it reads the chain and asks providers."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import OpenClawMemError
from openclaw_mem_engine.providers.prices import Spent, summed
from openclaw_mem_tui.presenter import Desk
from openclaw_mem_tui.render import format as fmt
from openclaw_mem_tui.service import Service

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.factory import ProviderState
    from openclaw_mem_engine.providers.records import DayUsage
    from openclaw_mem_engine.stores.base import CacheSize

#: Name, role and model: one provider may be there twice.
LinkKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Look:
    """The chain as it was at ``at`` (epoch seconds). ``asking`` are the links that are being asked just now,
    ``asked`` what came of asking: milliseconds, or why there was no answer."""

    links: tuple[ProviderState, ...] = ()
    usage: tuple[DayUsage, ...] = ()
    caches: tuple[CacheSize, ...] = ()
    at: float = 0.0
    asking: frozenset[LinkKey] = frozenset()
    asked: Mapping[LinkKey, float | str] = field(default_factory=dict)
    said: str = ""
    trouble: str = ""

    def used(self, link: ProviderState, days: int) -> Spent | None:
        """What a link was used for today (1) or in more days; None when it was not."""
        today = datetime.date.fromtimestamp(self.at)
        first = (today - datetime.timedelta(days=days - 1)).isoformat()
        found = summed(self.usage, (link,), since=first)
        return next((item for item in found if (item.provider, item.model) == (link.name, link.model)), None)


def key_of(link: ProviderState) -> LinkKey:
    return link.name, link.role, link.model


class ProviderDesk(Desk[Look]):
    """The desk of the providers screen. Errors become ``trouble``."""

    def __init__(self, service: Service, publish: Callable[[], None]) -> None:
        super().__init__(Look(), publish)
        self.service = service
        self._faults = service.faults

    async def read(self) -> None:
        """Read chain, usage and cache anew."""
        if not self.service.is_open:
            return
        if self._faults != self.service.faults:
            # What was found out under other faults says nothing about these.
            self._faults = self.service.faults
            self._set(asked={}, asking=frozenset())
        try:
            links = await self.service.chain()
            usage = await self.service.usage()
            caches = await self.service.cache_sizes()
        except OpenClawMemError as error:
            self._set(trouble=str(error))
            return
        self._set(links=links, usage=tuple(usage), caches=tuple(caches), at=self.service.clock(), trouble="")

    async def probe(self, link: ProviderState) -> None:
        """Ask one provider now, and say what came of it."""
        key, faults = key_of(link), self.service.faults
        self._set(asking=self.look.asking | {key}, said="")
        alone = sum(1 for other in self.look.links if other.role == link.role) == 1
        found: float | str
        try:
            found = await self.service.probe(link.role if alone else link.name)
            said = f"{link.name} answered in {fmt.milliseconds(found)}"
        except OpenClawMemError as error:
            found, said = str(error), f"{link.name} did not answer"
        finally:
            self._set(asking=self.look.asking - {key})
        if faults == self.service.faults:
            self._set(asked={**self.look.asked, key: found}, said=said)
            await self.read()
