"""Searching within the scope of a session, ``memory.qmd.scope``: with QMD in this process and outside."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.ranking.pool import Pool
from openclaw_mem_engine.retrieval import Backend

if TYPE_CHECKING:
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.qmd.scope import Decision
    from openclaw_mem_engine.sync.events import Journal


#: Characters of the longest query: many pages. One of a megabyte would keep the search busy for a minute.
MAX_QUERY_CHARS = 100_000


def checked_query(query: str) -> str:
    """The query without blanks around it. Raises UsageError when nothing is left, or too much."""
    query = query.strip()
    if not query:
        raise UsageError("A query is required.")
    if len(query) > MAX_QUERY_CHARS:
        raise UsageError(
            f"The query has {len(query):,} characters, {MAX_QUERY_CHARS:,} is the limit: "
            "search for the words that matter."
        )
    return query


def scope_decision(settings: Settings, session_key: str | None = None) -> Decision:
    """Whether a session may search by ``memory.qmd.scope``, and why. Without a session key, as on a command
    line, it is the agent's main session: a direct chat."""
    from openclaw_mem_engine.qmd.scope import decide

    return decide(settings.qmd.scope, (session_key or "").strip() or f"agent:{settings.agent}:main")


def denial(settings: Settings, session_key: str | None) -> str:
    """Why a session may not search; "" when it may, as always without QMD."""
    if settings.openclaw.backend != "qmd":
        return ""
    decision = scope_decision(settings, session_key)
    return "" if decision.allowed else decision.reason


def denied(backend: Backend, journal: Journal, query: str, session_key: str | None) -> Pool | None:
    """An empty pool with a warning for a session that may not search; None for one that may. The scope also
    holds while the built-in index answers instead. Raises UsageError for a blank or too long query."""
    settings = backend.settings
    if settings.openclaw.backend != "qmd":
        return None
    query = checked_query(query)
    if not (reason := denial(settings, session_key)):
        return None
    journal.denied(reason)
    note = Note("scope-denied", f"The search was denied by its scope: {reason}.", "warning")
    return Pool(query, (), {}, journal.log.now(), backend=backend.name, notes=(note,))


def noted(settings: Settings, pool: Pool, session_key: str | None) -> Pool:
    """The pool with a note that a search without a session key counts as one of a direct chat, where that
    makes a difference."""
    if settings.openclaw.backend != "qmd" or (session_key or "").strip():
        return pool
    note = Note("scope-direct", "No session key was given: the search counts as one of a direct chat.")
    return replace(pool, notes=(*pool.notes, note))
