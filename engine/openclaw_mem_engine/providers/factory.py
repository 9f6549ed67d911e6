"""Makes the embedders of one configuration: each with batch jobs where they are enabled, a circuit breaker
and a meter; and tells the state of each. Nothing is loaded or sent here; that happens at the first text."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from openclaw_mem_engine.cancellation import QUERY_S
from openclaw_mem_engine.config.settings import ENDPOINT_NAMES, Settings
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Fallback, Note, Space, as_json
from openclaw_mem_engine.providers.base import Service, space_of
from openclaw_mem_engine.providers.circuit_breaker import Embedders, GuardedEmbedder
from openclaw_mem_engine.providers.faults import FAULTS, PROVIDER_FAULTS, FaultyEmbedder
from openclaw_mem_engine.providers.records import ProviderRecords
from openclaw_mem_engine.providers.registry import make_embedder
from openclaw_mem_engine.providers.resolve import Choice, choices
from openclaw_mem_engine.providers.services import Services

RECORDS_FILE = "providers.sqlite"

State = Literal["active", "ready", "not-indexed", "failed", "not-selected"]


@dataclass(frozen=True, slots=True)
class ProviderState:
    """One provider of the configuration. ``vectors`` of ``chunks`` passages have a vector in its space.

    ``state``: active: answers now; ready: could; not-indexed: could, but the index has no vectors of it;
    failed: its last request failed, or it cannot be used as configured (``why``, ``since``, ``next_retry``:
    epoch seconds, None when waiting does not help); not-selected: not in use. ``space`` names its vectors;
    ``last_ok`` is epoch seconds, ``last_ms`` the milliseconds that the vector of a query took then.
    """

    name: str
    role: Literal["primary", "fallback", "also", "not-selected", "bm25", "backend"]
    state: State
    why: str
    model: str = ""
    host: str = ""
    key_origin: str = ""
    price: str = ""
    vectors: int = 0
    space: str = ""
    chunks: int = 0
    since: float | None = None
    next_retry: float | None = None
    last_ok: float | None = None
    last_ms: float | None = None

    @property
    def in_use(self) -> bool:
        """Whether this is an embedder that takes part."""
        return self.role not in ("not-selected", "bm25", "backend") and self.state != "not-selected"

    @property
    def label(self) -> str:
        """``state`` for people: of a failed provider that is tried again later, paused."""
        if self.state == "failed" and self.next_retry is not None:
            return "paused"
        return self.state.replace("-", " ")

    def to_dict(self) -> dict[str, Any]:
        return as_json(self)


def fallback_of(links: Sequence[ProviderState]) -> Fallback | None:
    """Why another than the primary answers; None when the primary does, or there is none."""
    primary = next((link for link in links if link.role == "primary" and link.name != "none"), None)
    if primary is None or primary.state in ("active", "ready"):
        return None
    link = next((link for link in links if link.state == "active"), None)
    active = "nothing" if link is None else link.space or link.name
    return Fallback(primary.name, primary.why, active, primary.since, primary.next_retry)


def _state(
    choice: Choice, guard: GuardedEmbedder | None, spaces: Mapping[Space, tuple[int, int]], chunks: int
) -> ProviderState:
    made = ProviderState(
        choice.name, choice.role, "not-selected", choice.why, choice.model, choice.host, choice.key_origin
    )
    if guard is None:
        return made
    from openclaw_mem_engine.providers.prices import price_class

    health, space, missing = guard.health, space_of(guard), guard.why_not()
    vectors, dims = spaces.get(space, (0, 0))
    made = replace(
        made,
        state="ready",
        host=guard.host,
        price=price_class(guard.id, guard.model, guard.host),
        vectors=vectors,
        chunks=chunks,
        space=space.label,
        last_ok=health.last_ok,
        last_ms=health.last_ms,
    )
    if missing is not None:
        return replace(made, state="failed", why=missing)
    if health.failing_since is not None:
        made = replace(made, since=health.failing_since, next_retry=health.next_retry)
        return replace(made, state="failed", why=health.reason)
    if (misfit := guard.misfit(dims)) is not None:
        return replace(made, state="failed", why=str(misfit))
    if chunks and not made.vectors:
        why = f"the index holds no vectors of {space.label} yet"
        if any(other.label == space.label for other in spaces):
            why = f"the index holds vectors of {space.label} at another endpoint or with other headers"
        return replace(made, state="not-indexed", why=why)
    return made


def _bm25(states: Sequence[ProviderState], full_text: bool) -> ProviderState:
    state: State = "active"
    why = "used alone: no vectors can be searched"
    if not full_text:
        state, why = "failed", "full-text search is not available"
    elif any(other.state == "active" for other in states):
        why = "used together with the vectors"
    return ProviderState("bm25", "bm25", state, why)


class ProviderSet:
    """The embedders that ``settings`` ask for, and what is stored about them between runs.

    ``faults`` (names of ``faults.FAULTS``) are simulated in the primary; nothing of what follows from them is
    stored. ``clock`` gives epoch seconds. ``read_only``: no vector is ever asked for, and the file of the
    records stays as it is. A query waits ``QUERY_S`` for a remote provider at most. Raises ConfigError for
    settings that cannot be used.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        faults: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.time,
        read_only: bool = False,
    ) -> None:
        self._settings = settings
        self.faults = faults
        path = None if faults else settings.data_dir / RECORDS_FILE
        self.records = ProviderRecords(path, clock, read_only=read_only)
        #: Every provider of the configuration, with its embedder, None for one that is not in use.
        self._made = [(choice, self._guarded(choice)) for choice in choices(settings)]
        primary, fallback = (next(iter(self._of_role(role)), None) for role in ("primary", "fallback"))
        self.embedders = Embedders(primary, fallback, tuple(self._of_role("also")))
        self.services = Services(settings, self.records.add_usage)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What makes every answer less than it could be."""
        notes = [Note("fault", f"Simulated fault: {FAULTS[name]}.", "warning") for name in self.faults]
        if self.records.note is not None:
            notes.append(self.records.note)
        return tuple(notes)

    def hosts(self, *, embedders: bool) -> tuple[str, ...]:
        """The hosts that text may be sent to, those of ``embedders`` among them."""
        made, services = self.embedders, self.services
        asked: list[Service | None] = [services.reranker, services.chat]
        if embedders:
            asked = [made.primary, made.fallback, *made.also, *asked]
        return tuple(dict.fromkeys(one.host for one in asked if one is not None and one.host))

    def states(
        self,
        spaces: Mapping[Space, tuple[int, int]],
        chunks: int,
        *,
        full_text: bool = True,
        counted: int = 0,
    ) -> tuple[ProviderState, ...]:
        """The state of every provider, in the order of the configuration, and of BM25 (``bm25``) at the
        end. ``spaces`` are those of the index: how many of its ``chunks`` have a vector
        there, and how long these are; without
        ``full_text`` there is no BM25. ``counted`` is the number of the space whose vectors count."""
        found = [_state(choice, guard, spaces, chunks) for choice, guard in self._made]
        by_role = {
            role: [index for index, state in enumerate(found) if state.role == role]
            for role in ("primary", "fallback", "also")
        }
        # The primary is active if it is ready, else the fallback; or the space that was chosen instead.
        counting = (
            by_role["also"][counted - 1 : counted] if counted else by_role["primary"] + by_role["fallback"]
        )
        ready = [index for index in counting if found[index].state == "ready"]
        if ready:
            found[ready[0]] = replace(found[ready[0]], state="active")
        return (*found, _bm25(found, full_text))

    def probe(self, name: str) -> float:
        """Ask a provider (by name, role, or ``name:model``) for one vector, now; returns milliseconds. Raises
        ProviderError, or UsageError for one that is not in use."""
        for choice, guard in self._made:
            if guard is not None and name in (guard.id, choice.role, f"{guard.id}:{guard.model}"):
                return guard.probe()
        in_use = [choice.name for choice, _ in self._made if choice.role != "not-selected"]
        known = ", ".join(dict.fromkeys(in_use)) or "none"
        raise UsageError(f"Provider {name!r} is not in use, so it cannot be probed. In use: {known}.")

    def warm_up(self) -> None:
        """Load the model of the primary provider, where it runs on this machine: the first query does not
        wait for it. Sends nothing, records nothing; blocks. Raises ProviderError."""
        for guard in self._of_role("primary"):
            guard.warm_up()

    def close(self) -> None:
        self.embedders.close()
        self.services.close()
        self.records.close()

    def _of_role(self, role: str) -> list[GuardedEmbedder]:
        return [guard for choice, guard in self._made if guard is not None and choice.role == role]

    def _guarded(self, choice: Choice) -> GuardedEmbedder | None:
        spec = choice.spec
        if spec is not None and spec.provider in ENDPOINT_NAMES:
            spec = replace(spec, timeout_s=QUERY_S)
        made = make_embedder(spec, meter=self.records.add_usage) if spec else None
        if spec is None or made is None:
            return None
        batch = self._settings.provider.batch
        if batch.enabled:
            from openclaw_mem_engine.providers.batch import with_batches

            made = with_batches(made, self.records, batch, agent=self._settings.agent)
        if choice.role == "primary" and self.faults & PROVIDER_FAULTS:
            made = FaultyEmbedder(made, self.faults, timeout_s=spec.timeout_s)
        # A key may be in a header as well. After a change of key the circuit is closed.
        given = [spec.api_key, *(f"{k}:{v}" for k, v in sorted(spec.headers.items()))]
        return GuardedEmbedder(made, self.records, secret="\0".join(filter(None, given)))
