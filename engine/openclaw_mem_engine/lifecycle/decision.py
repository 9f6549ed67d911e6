"""When a session is flushed: the threshold, and the decision with a reason for every no. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from openclaw_mem_engine.config.settings import DEFAULT_ORIGIN, Settings
from openclaw_mem_engine.lifecycle.sessions import SessionEntry

#: The release whose comparison is "reached" and not "exceeded".
SHIPPED_PROFILE = "openclaw-2026.2"
#: About so many characters make a token.
CHARS_A_TOKEN = 4

Code = Literal[
    "due",
    "forced",
    "disabled",
    "read-only",
    "session-type",
    "no-threshold",
    "tokens-unknown",
    "tokens-stale",
    "below",
    "done",
    "running",
    "nothing-said",
    "no-model",
]


@dataclass(frozen=True, slots=True)
class Threshold:
    """When a session is flushed, in tokens: at its window without the reserve and the soft threshold."""

    window: int
    reserve: int
    soft: int

    @property
    def line(self) -> int:
        return self.window - self.reserve - self.soft

    @property
    def formula(self) -> str:
        return f"{self.window:,} - {self.reserve:,} - {self.soft:,} = {self.line:,} tokens"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to flush now. ``reason`` is a sentence; ``cycle`` counts the compactions so far."""

    run: bool
    code: Code
    reason: str
    threshold: Threshold
    tokens: int | None
    cycle: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"line": self.threshold.line}


def threshold_of(session: SessionEntry, settings: Settings) -> Threshold:
    found = settings.compaction
    window = session.context_tokens or found.context_tokens
    return Threshold(window, found.reserve_tokens_floor, found.memory_flush.soft_threshold_tokens)


def decide(
    session: SessionEntry, settings: Settings, *, done_cycle: int | None = None, force: bool = False
) -> Decision:
    """Whether this session is to be flushed. ``done_cycle`` is the cycle of our own last flush; ``force``
    drops what concerns the time of a flush, not who may write. Pure."""
    limit, tokens, cycle = threshold_of(session, settings), session.total_tokens, session.compaction_count
    shipped = settings.query.profile == SHIPPED_PROFILE
    # The documents: the estimate exceeds the line. The release: it reaches it.
    reached = tokens is not None and (tokens >= limit.line if shipped else tokens > limit.line)

    def found() -> tuple[Code, str]:
        if not settings.compaction.memory_flush.enabled:
            where = settings.origins.get("compaction.memory_flush.enabled", DEFAULT_ORIGIN).where
            return "disabled", f"the memory flush is switched off ({where})."
        if session.type in ("subagent", "cron", "heartbeat"):
            what = {"subagent": "a sub-agent", "cron": "a cron job", "heartbeat": "a heartbeat"}[session.type]
            return "session-type", f"this is the session of {what}; only conversations are flushed."
        if (access := workspace_access(session, settings)) != "rw":
            return "read-only", f"the agent may not write its workspace (workspaceAccess {access})."
        if force:
            return "forced", "--force was given: tokens and earlier flushes do not count."
        if limit.line <= 0:
            return "no-threshold", f"the window is too small for a threshold: {limit.formula}."
        if not tokens:
            return "tokens-unknown", "sessions.json does not say how many tokens the session has."
        if not session.fresh:
            return "tokens-stale", f"sessions.json says that its count of {tokens:,} tokens is outdated."
        if not reached:
            how = "below" if shipped else "not above"
            return "below", f"{tokens:,} tokens are {how} the threshold, {limit.formula}."
        if session.flush_compaction_count == cycle:
            return "done", f"OpenClaw has flushed it in this compaction cycle ({cycle}) already."
        if done_cycle == cycle:
            return "done", f"it was flushed from here in this compaction cycle ({cycle}) already."
        return (
            "due",
            f"{tokens:,} tokens are {'at or ' if shipped else ''}above the threshold, {limit.formula}.",
        )

    code, reason = found()
    return Decision(code in ("due", "forced"), code, reason, limit, tokens, cycle)


def workspace_access(session: SessionEntry, settings: Settings) -> str:
    """``rw``, ``ro`` or ``none``: what a session may do with the workspace."""
    mode, access = settings.sandbox.mode, settings.sandbox.workspace_access
    if mode == "off" or (mode == "non-main" and session.type == "main"):
        return "rw"
    return access or ("rw" if mode is None else "none")
