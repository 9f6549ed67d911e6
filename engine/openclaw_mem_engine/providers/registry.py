"""The embedders of one configuration, ready for use: chosen, guarded against failing again and again, and
metered; and what can be told about each of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Note, Space
from openclaw_mem_engine.providers.base import Embedder, Embedders, EmbedderSpec, space_of
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.providers.factory import make_embedder
from openclaw_mem_engine.providers.faults import FAULTS, PROVIDER_FAULTS, FaultyEmbedder
from openclaw_mem_engine.providers.prices import price_class
from openclaw_mem_engine.providers.records import Health, ProviderRecords
from openclaw_mem_engine.providers.resolve import Link, also_specs, chain, fallback_spec, primary_spec

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.records import DayUsage

State = Literal["serving", "ready", "idle", "failed", "skipped"]

RECORDS_FILE = "providers.sqlite"
KEYWORDS = "keywords"


@dataclass(frozen=True, slots=True)
class LinkState:
    """One link of the chain as it stands. ``vectors`` of ``chunks`` passages have a vector in its space.

    ``state``: serving answers now; ready could; idle could, but the index holds no vectors of it; failed did
    not answer when it was last asked, or cannot be used as configured (``why``, ``since``, ``next_retry``:
    epoch seconds, None when waiting does not help); skipped is not in use. ``space`` names its vectors;
    ``last_ok`` is epoch seconds, ``last_ms`` what a query's vector took then.
    """

    name: str
    role: Literal["primary", "fallback", "also", "skipped", "keywords"]
    state: State
    why: str
    model: str = ""
    place: str = ""
    key_origin: str = ""
    price: str = ""
    vectors: int = 0
    chunks: int = 0
    space: str = ""
    since: float | None = None
    next_retry: float | None = None
    last_ok: float | None = None
    last_ms: float | None = None

    @property
    def in_use(self) -> bool:
        """Whether this is an embedder that takes part."""
        return self.role not in ("skipped", "keywords") and self.state != "skipped"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``openclaw-mem providers --json``."""
        return {
            "name": self.name,
            "role": self.role,
            "state": self.state,
            "why": self.why,
            "model": self.model,
            "place": self.place,
            "keyOrigin": self.key_origin,
            "price": self.price,
            "vectors": self.vectors,
            "space": self.space,
            "chunks": self.chunks,
            "since": self.since,
            "nextRetry": self.next_retry,
            "lastOk": self.last_ok,
            "lastMs": self.last_ms,
        }


class Lineup:
    """Makes the embedders that ``settings`` ask for. Nothing is loaded or sent here.

    ``faults`` (names of ``faults.FAULTS``) spoil the primary on purpose; nothing of what follows from them is
    written down. ``clock`` gives epoch seconds. ``read_only``: the embedders are asked for what they are,
    never for a vector, and the file of the records stays as it is. Raises ConfigError for settings that
    cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        faults: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.time,
        random: Callable[[], float] = random.random,
        read_only: bool = False,
    ) -> None:
        self._settings = settings
        self._clock, self._random = clock, random
        self.faults = faults
        path = None if faults else settings.data_dir / RECORDS_FILE
        self.records = ProviderRecords(path, clock, read_only=read_only)
        self._links = chain(settings)
        self._guards: dict[str, list[GuardedEmbedder]] = {}
        fallback = fallback_spec(settings)
        self.embedders = Embedders(
            self._guarded("primary", primary_spec(settings), faults & PROVIDER_FAULTS),
            self._guarded("fallback", fallback) if fallback else None,
            tuple(made for spec in also_specs(settings) if (made := self._guarded("also", spec))),
        )

    def _guarded(
        self, role: str, spec: EmbedderSpec, faults: frozenset[str] = frozenset()
    ) -> GuardedEmbedder | None:
        made = make_embedder(spec, meter=self.records.add_usage, caps=self.records)
        if made is None:
            return None
        made = self._batched(made, spec)
        if faults:
            made = FaultyEmbedder(made, faults)
        # Keys may stand in headers as well; another one is tried at once.
        tag = self.records.key_tag(spec.api_key, *(f"{k}:{v}" for k, v in sorted(spec.headers.items())))
        guarded = GuardedEmbedder(made, self.records, key_tag=tag, clock=self._clock, random=self._random)
        self._guards.setdefault(role, []).append(guarded)
        return guarded

    def _batched(self, embedder: Embedder, spec: EmbedderSpec) -> Embedder:
        """Round a provider with a batch interface, when that is switched on, what makes use of it."""
        if not self._settings.provider.batch.enabled:
            return embedder
        from openclaw_mem_engine.providers.batch import with_batches

        return with_batches(
            embedder, spec, self.records, self._settings.provider.batch, agent=self._settings.agent
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be."""
        told = [Note("fault", f"A fault is switched on: {FAULTS[name]}.", "warning") for name in self.faults]
        if self.records.note is not None:
            told.append(self.records.note)
        return tuple(told)

    def states(
        self, vectors: Mapping[Space, int], chunks: int, *, full_text: bool = True
    ) -> tuple[LinkState, ...]:
        """Every link of the chain, in its order, and keywords at the end. ``vectors`` counts the passages
        that have a vector, by space; ``chunks`` counts all; without ``full_text`` keywords cannot look."""
        found: list[LinkState] = []
        guards = {role: list(made) for role, made in self._guards.items()}
        for link in self._links:
            waiting = guards.get(link.role, [])
            guard = waiting.pop(0) if waiting else None
            found.append(self._state(link, guard, vectors, chunks))
        found = _who_serves(found)
        return (*found, _keywords(found, full_text))

    def _state(
        self, link: Link, guard: GuardedEmbedder | None, vectors: Mapping[Space, int], chunks: int
    ) -> LinkState:
        if guard is None:
            return LinkState(
                link.name, link.role, "skipped", link.why, link.model, link.place, link.key_origin
            )
        health: Health = guard.health
        space = space_of(guard)
        held = vectors.get(space, 0)
        missing = guard.why_not()
        state: State
        if missing is not None:
            state, why = "failed", missing
        elif health.failing_since is not None:
            state, why = "failed", health.reason
        elif chunks and not held:
            state, why = "idle", f"the index holds no vectors of {space.label} yet: run `openclaw-mem index`"
        else:
            state, why = "ready", link.why
        failing = state == "failed" and missing is None
        return LinkState(
            link.name,
            link.role,
            state,
            why,
            link.model,
            guard.place,
            link.key_origin,
            price_class(guard.id, guard.model, guard.place),
            held,
            chunks,
            space.label,
            health.failing_since if failing else None,
            health.next_retry if failing else None,
            health.last_ok,
            health.last_ms,
        )

    def probe(self, name: str) -> float:
        """Ask a provider of the chain for one vector, now; returns milliseconds. Raises ProviderError, or
        UsageError for one that is not in use."""
        links = [link.name for link in self._links if link.role != "skipped"]
        for role, guards in self._guards.items():
            for guard in guards:
                if name in (guard.id, role, f"{guard.id}:{guard.model}"):
                    return guard.probe()
        known = ", ".join(dict.fromkeys(links)) or "none"
        raise UsageError(f"Provider {name!r} is not in use, so it cannot be asked. In use: {known}.")

    def usage(self, days: int = 30) -> list[DayUsage]:
        """Tokens and requests, newest day first."""
        return self.records.usage(days)

    def close(self) -> None:
        """Close embedders and records."""
        self.embedders.close()
        self.records.close()


def _keywords(links: Sequence[LinkState], full_text: bool) -> LinkState:
    if not full_text:
        return LinkState(KEYWORDS, "keywords", "failed", "full-text search is not available")
    if any(link.state == "serving" for link in links):
        return LinkState(KEYWORDS, "keywords", "ready", "answer beside the vectors")
    return LinkState(KEYWORDS, "keywords", "serving", "no vectors answer: keywords alone")


def _who_serves(links: list[LinkState]) -> list[LinkState]:
    """The primary serves as long as it answers, then the fallback if the index holds vectors of its space."""
    for role in ("primary", "fallback"):
        for place, link in enumerate(links):
            if link.role == role and link.state == "ready":
                links[place] = replace(link, state="serving")
                return links
    return links
