"""Makes the embedders of one configuration: each with batch jobs where they are enabled, a circuit breaker
and a meter. Nothing is loaded or sent here; that happens at the first text."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Note, Space
from openclaw_mem_engine.providers.base import Embedder, Embedders
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.providers.faults import FAULTS, PROVIDER_FAULTS, FaultyEmbedder
from openclaw_mem_engine.providers.provider_state import ProviderState, states_of
from openclaw_mem_engine.providers.records import ProviderRecords
from openclaw_mem_engine.providers.registry import EmbedderSpec, make_embedder
from openclaw_mem_engine.providers.resolve import also_specs, choices, fallback_spec, primary_spec

if TYPE_CHECKING:
    from openclaw_mem_engine.providers.records import DayUsage

RECORDS_FILE = "providers.sqlite"


class ProviderSet:
    """The embedders that ``settings`` ask for, and what is stored about them between runs.

    ``faults`` (names of ``faults.FAULTS``) are simulated in the primary; nothing of what follows from them is
    stored. ``clock`` gives epoch seconds. ``read_only``: no vector is ever asked for, and the file of the
    records stays as it is. Raises ConfigError for settings that cannot be used.
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
        self._choices = choices(settings)
        self._guards: dict[str, list[GuardedEmbedder]] = {}
        fallback = fallback_spec(settings)
        self.embedders = Embedders(
            self._guarded("primary", primary_spec(settings), faults & PROVIDER_FAULTS),
            self._guarded("fallback", fallback) if fallback else None,
            tuple(made for spec in also_specs(settings) if (made := self._guarded("also", spec))),
        )

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be."""
        notes = [Note("fault", f"A fault is switched on: {FAULTS[name]}.", "warning") for name in self.faults]
        if self.records.note is not None:
            notes.append(self.records.note)
        return tuple(notes)

    def states(
        self, vectors: Mapping[Space, int], chunks: int, *, full_text: bool = True
    ) -> tuple[ProviderState, ...]:
        """The state of every provider, in the order of the configuration, as :func:`states_of` describes."""
        guards = {role: list(made) for role, made in self._guards.items()}
        made = [
            (choice, guards[choice.role].pop(0) if guards.get(choice.role) else None)
            for choice in self._choices
        ]
        return states_of(made, vectors, chunks, full_text=full_text)

    def probe(self, name: str) -> float:
        """Ask a provider (by name, role, or ``name:model``) for one vector, now; returns milliseconds. Raises
        ProviderError, or UsageError for one that is not in use."""
        for role, guards in self._guards.items():
            for guard in guards:
                if name in (guard.id, role, f"{guard.id}:{guard.model}"):
                    return guard.probe()
        in_use = [choice.name for choice in self._choices if choice.role != "skipped"]
        known = ", ".join(dict.fromkeys(in_use)) or "none"
        raise UsageError(f"Provider {name!r} is not in use, so it cannot be asked. In use: {known}.")

    def usage(self, days: int = 30) -> list[DayUsage]:
        """Tokens and requests, newest day first."""
        return self.records.usage(days)

    def close(self) -> None:
        """Close embedders and records."""
        self.embedders.close()
        self.records.close()

    def _guarded(
        self, role: str, spec: EmbedderSpec, faults: frozenset[str] = frozenset()
    ) -> GuardedEmbedder | None:
        made = make_embedder(spec, meter=self.records.add_usage, caps=self.records)
        if made is None:
            return None
        made = self._with_batch_jobs(made)
        if faults:
            made = FaultyEmbedder(made, faults)
        # A key may be in a header as well. After a change of key the circuit is closed.
        tag = self.records.key_tag(spec.api_key, *(f"{k}:{v}" for k, v in sorted(spec.headers.items())))
        guarded = GuardedEmbedder(made, self.records, key_tag=tag, clock=self._clock, random=self._random)
        self._guards.setdefault(role, []).append(guarded)
        return guarded

    def _with_batch_jobs(self, embedder: Embedder) -> Embedder:
        batch = self._settings.provider.batch
        if not batch.enabled:
            return embedder
        from openclaw_mem_engine.providers.batch.embedder import with_batches

        return with_batches(embedder, self.records, batch, agent=self._settings.agent)
