"""Searching within the scope of a session, ``memory.qmd.scope``: with QMD in this process and outside."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.qmd.scope import Decision, decide
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.retrieval import Backend

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.sync.events import Journal


def scope_decision(settings: Settings, session_key: str | None = None) -> Decision:
    """Whether a session may search by ``memory.qmd.scope``, and why. Without a session key, as on a command
    line, it is the agent's main session: a direct chat."""
    return decide(settings.qmd.scope, (session_key or "").strip() or f"agent:{settings.agent}:main")


def denied(backend: Backend, journal: Journal, query: str, session_key: str | None) -> Pool | None:
    """An empty pool with a warning for a session that may not search; None for one that may. The scope also
    holds while the built-in index answers instead. Raises UsageError for a blank query."""
    settings = backend.settings
    if settings.openclaw.backend != "qmd":
        return None
    if not query.strip():
        raise UsageError("A query is required.")
    decision = scope_decision(settings, session_key)
    if decision.allowed:
        return None
    journal.denied(decision.reason)
    note = Note("scope-denied", f"The search was denied by its scope: {decision.reason}.", "warning")
    return Pool(query.strip(), (), {}, journal.log.now(), backend=backend.name, notes=(note,))


def noted(settings: Settings, pool: Pool, session_key: str | None) -> Pool:
    """The pool with a note that a search without a session key counts as one of a direct chat, where that
    makes a difference."""
    if settings.openclaw.backend != "qmd" or (session_key or "").strip():
        return pool
    note = Note("scope-direct", "No session key was given: the search counts as one of a direct chat.")
    return replace(pool, notes=(*pool.notes, note))
