"""What embedders were used for, added up from the records, with its price."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from openclaw_mem_engine.providers.prices import cost

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.provider_state import ProviderState
    from openclaw_mem_engine.providers.records import DayUsage


@dataclass(frozen=True, slots=True)
class Spent:
    """The usage of one model: ``usd`` at list price, None where that is not known."""

    provider: str
    model: str
    requests: int
    texts: int
    tokens: int
    estimated: bool
    usd: float | None

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


def summed(usage: Iterable[DayUsage], links: Sequence[ProviderState], since: str = "") -> list[Spent]:
    """Usage by provider and model from the day ``since`` on (YYYY-MM-DD), most tokens first.

    What a model costs depends on where it is: one that is not among ``links`` has no known price.
    """
    places = {(link.name, link.model): link.host for link in links}
    days: dict[tuple[str, str], list[DayUsage]] = {}
    for day in usage:
        if day.day >= since:
            days.setdefault((day.provider, day.model), []).append(day)
    found = []
    for (provider, model), rows in days.items():
        tokens = sum(row.tokens for row in rows)
        place = places.get((provider, model))
        found.append(
            Spent(
                provider,
                model,
                sum(row.requests for row in rows),
                sum(row.texts for row in rows),
                tokens,
                any(row.estimated for row in rows),
                None if place is None else cost(provider, model, place, tokens),
            )
        )
    return sorted(found, key=lambda item: (-item.tokens, item.provider, item.model))
