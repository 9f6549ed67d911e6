"""The state of each provider of a configuration, for status pages and ``openclaw-mem providers``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from openclaw_mem_engine.model import Space
from openclaw_mem_engine.providers.base import space_of
from openclaw_mem_engine.providers.circuit_breaker import GuardedEmbedder
from openclaw_mem_engine.providers.prices import price_class
from openclaw_mem_engine.providers.resolve import Choice

State = Literal["serving", "ready", "idle", "failed", "skipped"]

KEYWORDS = "keywords"

_LABELS = {"serving": "active", "idle": "not indexed", "skipped": "not selected"}


@dataclass(frozen=True, slots=True)
class ProviderState:
    """One provider of the configuration. ``vectors`` of ``chunks`` passages have a vector in its space.

    ``state``: serving: answers now; ready: could; idle: could, but the index holds no vectors of it; failed:
    its last request failed, or it cannot be used as configured (``why``, ``since``, ``next_retry``: epoch
    seconds, None when waiting does not help); skipped: not in use. ``space`` names its vectors; ``last_ok``
    is epoch seconds, ``last_ms`` the milliseconds that the vector of a query took then.
    """

    name: str
    role: Literal["primary", "fallback", "also", "skipped", "keywords"]
    state: State
    why: str
    model: str = ""
    host: str = ""
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

    @property
    def label(self) -> str:
        """``state`` in words for people: active, ready, not indexed, failed, circuit open, not selected."""
        if self.state == "failed" and self.next_retry is not None:
            return "circuit open"
        return _LABELS.get(self.state, self.state)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for ``openclaw-mem providers --json``."""
        return {
            "name": self.name,
            "role": self.role,
            "state": self.state,
            "why": self.why,
            "model": self.model,
            "place": self.host,
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


def states_of(
    choices: Sequence[tuple[Choice, GuardedEmbedder | None]],
    vectors: Mapping[Space, int],
    chunks: int,
    *,
    full_text: bool,
) -> tuple[ProviderState, ...]:
    """The state of every provider, in order, and of BM25 (``keywords``) at the end.

    ``choices``: each provider with the embedder that was made for it, None when it is not in use.
    ``vectors`` counts the passages that have a vector, by space; ``chunks`` counts all; without ``full_text``
    there is no BM25.
    """
    found = _with_active([_state(choice, guard, vectors, chunks) for choice, guard in choices])
    return (*found, _keywords(found, full_text))


def _state(
    choice: Choice, guard: GuardedEmbedder | None, vectors: Mapping[Space, int], chunks: int
) -> ProviderState:
    made = ProviderState(
        choice.name, choice.role, "skipped", choice.why, choice.model, choice.host, choice.key_origin
    )
    if guard is None:
        return made
    health, space, missing = guard.health, space_of(guard), guard.why_not()
    made = replace(
        made,
        state="ready",
        host=guard.host,
        price=price_class(guard.id, guard.model, guard.host),
        vectors=vectors.get(space, 0),
        chunks=chunks,
        space=space.label,
        last_ok=health.last_ok,
        last_ms=health.last_ms,
    )
    if missing is not None:
        return replace(made, state="failed", why=missing)
    if health.failing_since is not None:
        return replace(
            made,
            state="failed",
            why=health.reason,
            since=health.failing_since,
            next_retry=health.next_retry,
        )
    if chunks and not made.vectors:
        why = f"the index holds no vectors of {space.label} yet: run `openclaw-mem index`"
        return replace(made, state="idle", why=why)
    return made


def _with_active(states: list[ProviderState]) -> list[ProviderState]:
    """The primary is active if it is ready, else the fallback."""
    for role in ("primary", "fallback"):
        for index, state in enumerate(states):
            if state.role == role and state.state == "ready":
                states[index] = replace(state, state="serving")
                return states
    return states


def _keywords(states: Sequence[ProviderState], full_text: bool) -> ProviderState:
    if not full_text:
        return ProviderState(KEYWORDS, "keywords", "failed", "full-text search is not available")
    if any(state.state == "serving" for state in states):
        return ProviderState(KEYWORDS, "keywords", "ready", "answer together with the vectors")
    return ProviderState(KEYWORDS, "keywords", "serving", "no provider of vectors answers: BM25 only")
