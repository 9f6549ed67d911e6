"""What the agent sees: snippets, citations, and the answers of ``memory_search`` and ``memory_get``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from openclaw_mem_engine.errors import OpenClawMemError, UsageError
from openclaw_mem_engine.model import snippet_of, utf16_length
from openclaw_mem_engine.ranking.pool import OVERFETCH

if TYPE_CHECKING:
    from openclaw_mem_engine.answer import Hit
    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.memory import Memory
    from openclaw_mem_engine.ranking.pool import Pool

CitationMode = Literal["auto", "on", "off"]


def shows_citation(mode: CitationMode, session_key: str | None = None) -> bool:
    """Whether answers carry a source footer. ``auto`` shows it except in groups and channels: keys of the
    form ``agent:<id>:<rest>`` whose rest has a part ``group`` or ``channel``."""
    if mode != "auto":
        return mode == "on"
    parts = (session_key or "").strip().lower().split(":")
    if len(parts) < 3 or parts[0] != "agent":
        return True
    return not {"group", "channel"} & set(parts[2:])


def citation(path: str, start_line: int, end_line: int) -> str:
    """``path#L12`` or ``path#L12-L31``."""
    lines = f"L{start_line}" if start_line == end_line else f"L{start_line}-L{end_line}"
    return f"{path}#{lines}"


def present_snippet(snippet: str, path: str, start_line: int, end_line: int, cite: bool) -> str:
    """A snippet exactly as the agent receives it: with ``cite`` trimmed and followed by a footer that names
    its source."""
    if not cite:
        return snippet
    return f"{snippet.strip()}\n\nSource: {citation(path, start_line, end_line)}"


def memory_search(
    memory: Memory, arguments: Mapping[str, Any], session_key: str | None = None
) -> dict[str, Any]:
    """The ``memory_search`` tool: ``{query, maxResults?, minScore?}`` to the documented answer.

    A failure to search is an answer too (``disabled``, ``error``, ``action``). Raises UsageError for a query
    that is blank or too long.
    """
    query = arguments.get("query")
    if not isinstance(query, str) or not query.strip():
        raise UsageError("query required")
    if (off := _switched_off(memory.settings)) is not None:
        return unavailable(off)
    # Out of range is taken as the nearest possible: an agent that asks for 500 hits gets what there is.
    settings: dict[str, Any] = {}
    if (most := _number(arguments.get("maxResults"))) is not None:
        settings["max_results"] = int(min(OVERFETCH, max(1, most)))
    if (least := _number(arguments.get("minScore"))) is not None:
        settings["min_score"] = min(1.0, max(0.0, least))
    try:
        answer = memory.search(query, memory.knobs.set(settings), session_key=session_key)
    except UsageError:
        raise
    except OpenClawMemError as error:
        return unavailable(str(error))
    mode = memory.settings.citations
    cite = shows_citation(mode, session_key)
    pool = answer.pool
    (provider, model), space = answer.served_by, answer.trace.knobs.space_number
    results = [_result(hit, cite) for hit in answer.hits]
    if memory.settings.openclaw.backend == "qmd":
        results = _within(results, memory.settings.qmd.limits.max_injected_chars)
    reply: dict[str, Any] = {
        "results": results,
        "provider": provider,
    }
    if model:
        reply["model"] = model
    if pool.fallback is not None:
        reply["fallback"] = {"from": pool.fallback.origin, "reason": pool.fallback.reason}
    reply["citations"] = mode
    reply["mode"] = _mode_of(pool, space)
    if answer.warnings:
        reply["warning"] = " ".join(answer.warnings)
    return reply


def _result(hit: Hit, cite: bool) -> dict[str, Any]:
    location = (hit.path, hit.start_line, hit.end_line)
    result = {**hit.to_dict(), "snippet": present_snippet(hit.snippet, *location, cite)}
    result |= {"context": hit.context} if hit.context else {}
    return result | ({"citation": citation(*location)} if cite else {})


def _within(results: list[dict[str, Any]], most: int) -> list[dict[str, Any]]:
    """The first results whose snippets hold ``most`` UTF-16 units together (``memory.qmd.limits``); the one
    that does not fit is cut, and ends the list."""
    kept = []
    for result in results:
        snippet = snippet_of(result["snippet"], most)
        if snippet or not result["snippet"]:
            kept.append({**result, "snippet": snippet})
        most -= utf16_length(snippet)
        if snippet != result["snippet"]:
            break
    return kept


#: What the external program searched with, by the name of its list.
_MODES = {"qmd:search": "fts-only", "qmd:vsearch": "vector-only", "qmd:query": "hybrid"}


def _mode_of(pool: Pool, space: int) -> str:
    kinds = {found.kind for found in pool.lists if found.space_number in (None, space)}
    if "external" in kinds:
        return _MODES[pool.lists[0].id]
    return "fts-only" if "vector" not in kinds else "hybrid" if "lexical" in kinds else "vector-only"


def _switched_off(settings: Settings) -> str | None:
    """Why the tools refuse, when the configuration switches memory search off for the agent."""
    if settings.enabled:
        return None
    return f"{settings.origins['enabled'].where} switches memory search off for this agent."


def unavailable(error: str) -> dict[str, Any]:
    """The answer of a search that could not be made; quota trouble gets its own advice."""
    reason = error.strip() or "memory search unavailable"
    if any(word in reason.lower() for word in ("quota", "429")):
        warning = "Memory search is unavailable: the embedding provider's quota is used up."
        action = "Top up the provider or choose another one, then retry memory_search."
    else:
        warning = "Memory search is unavailable: nothing was searched, so nothing can be concluded."
        action = "Run `openclaw-mem status` to see why, then retry memory_search."
    return {
        "results": [],
        "disabled": True,
        "unavailable": True,
        "error": reason,
        "warning": warning,
        "action": action,
    }


def memory_get(settings: Settings, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The ``memory_get`` tool: ``{path, from?, lines?}`` to ``{text, path}``. A missing file has empty text;
    a refusal carries ``disabled`` and the reason. Raises UsageError for a missing path. Needs no index."""
    from openclaw_mem_engine.sidecar.paths import excerpt  # a search does without it

    path = arguments.get("path")
    if not isinstance(path, str) or not path.strip():
        raise UsageError("path required")
    if (off := _switched_off(settings)) is not None:
        return {"path": path, "text": "", "disabled": True, "error": off}
    start, lines = _number(arguments.get("from")), _number(arguments.get("lines"))
    try:
        asked = (None if start is None else int(start), None if lines is None else int(lines))
        found = excerpt(settings, path, *asked)
    except OpenClawMemError as refusal:
        return {"path": path, "text": "", "disabled": True, "error": str(refusal)}
    return {"text": found.text, "path": found.path}


def _number(value: object) -> float | None:
    """A number or numeric text; anything else is as if it were absent."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number == number and abs(number) != float("inf") else None
