"""What an embedding costs, as far as this release knows: list prices in US dollars, without any account's
discounts. A provider may change them any day, so every text says where they come from. And what the recorded
usage of models has cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.providers.remote.endpoint import is_loopback
from openclaw_mem_engine.providers.remote.wires import GEMINI, MISTRAL, OPENAI, VOYAGE

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.records import DayUsage

#: Host of the provider itself, the only one where its list prices hold.
PUBLIC_HOSTS = {wire.id: wire.public_host for wire in (OPENAI, GEMINI, VOYAGE, MISTRAL)}

#: US dollars per million input tokens, early 2026.
LIST_PRICES = {
    "openai": {
        "text-embedding-3-small": 0.02,
        "text-embedding-3-large": 0.13,
        "text-embedding-ada-002": 0.10,
    },
    "gemini": {"gemini-embedding-001": 0.15, "text-embedding-004": 0.0},
    "voyage": {
        "voyage-4-large": 0.12,
        "voyage-4": 0.06,
        "voyage-4-lite": 0.02,
        "voyage-3-large": 0.18,
        "voyage-3.5": 0.06,
        "voyage-3.5-lite": 0.02,
        "voyage-code-3": 0.18,
    },
    "mistral": {"mistral-embed": 0.10, "codestral-embed": 0.15},
}

#: Said with every price.
SOURCE = "list price known to this release; check the provider's page"

#: Providers that run on this machine; a server on it may send text on to another one.
IN_PROCESS = frozenset({"static", "local", "none"})
_PREFIX = re.compile(r"(models/|openai/|gemini/|google/|voyage/|mistral/)*")
_MILLION = 1_000_000


def price_per_million(provider: str, model: str, host: str) -> float | None:
    """US dollars per million tokens: 0.0 where it is free, None where the price is not known.

    ``host`` is the one that gets the texts (with or without a port), "" for this machine, as
    ``Embedder.host``.
    """
    if provider in IN_PROCESS:
        return 0.0
    if provider == "ollama":  # a server of the user, unless it is Ollama's
        name = _host(host)
        return None if name == "ollama.com" or name.endswith(".ollama.com") else 0.0
    if provider not in PUBLIC_HOSTS or _host(host) != PUBLIC_HOSTS[provider]:
        return None
    return LIST_PRICES[provider].get(_PREFIX.sub("", model.strip().lower(), count=1))


def cost(provider: str, model: str, host: str, tokens: int) -> float | None:
    """US dollars for so many tokens; None where the price is not known."""
    price = price_per_million(provider, model, host)
    return None if price is None else price * max(0, tokens) / _MILLION


def price_class(provider: str, model: str, host: str) -> str:
    """The price in words, for people."""
    price = price_per_million(provider, model, host)
    if price is None:
        if _host(host) == PUBLIC_HOSTS.get(provider):
            return "unknown price: a model that this release does not know; check the provider's page"
        # "::1:8080" is an address and, written carelessly, a loopback host with a port.
        if not (name := _host(host)) or is_loopback(name) or is_loopback(name.rpartition(":")[0]):
            return "unknown price: a server on this machine, free unless it passes text on"
        return "unknown price: custom endpoint"
    if provider in IN_PROCESS:
        return "free (runs on this machine)"
    if provider == "ollama":
        return "free (a server of your own)"
    return f"free ({SOURCE})" if price == 0 else f"about ${price:.2f} per million tokens ({SOURCE})"


def estimated_tokens(utf8_bytes: int) -> int:
    """How many tokens so many bytes of text are, where no provider has counted them: a quarter, rounded
    up."""
    return -(-max(0, utf8_bytes) // 4)


def _host(host: str) -> str:
    """``host`` without port and brackets; an IPv6 address without brackets is taken as it is."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0] if name.count(":") == 1 else name


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


def summed(usage: Iterable[DayUsage], hosts: Mapping[tuple[str, str], str], since: str = "") -> list[Spent]:
    """Usage by provider and model from the day ``since`` on (YYYY-MM-DD), most tokens first.

    What a model costs depends on its host: a provider and model that are not among ``hosts`` have no known
    price.
    """
    found: dict[tuple[str, str], Spent] = {}
    for day in usage:
        key = day.provider, day.model
        so_far = found.get(key, Spent(*key, 0, 0, 0, estimated=False, usd=None))
        tokens = so_far.tokens + day.tokens
        if day.day >= since:
            found[key] = Spent(
                *key,
                so_far.requests + day.requests,
                so_far.texts + day.texts,
                tokens,
                so_far.estimated or day.estimated,
                cost(*key, hosts[key], tokens) if key in hosts else None,
            )
    return sorted(found.values(), key=lambda item: (-item.tokens, item.provider, item.model))
