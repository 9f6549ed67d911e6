"""Who may search the QMD backend: session keys, and the rules of ``memory.qmd.scope``."""

from __future__ import annotations

from openclaw_mem_engine.config.qmd import ChatType, Scope, ScopeRule
from openclaw_mem_engine.named_tuple import NamedTuple

_CHAT_TYPES: dict[str, ChatType] = {
    "group": "group",
    "channel": "channel",
    "direct": "direct",
    "dm": "direct",
}


class SessionScope(NamedTuple):
    """What a session key says: ``raw`` is the key in lower case, ``key`` the same without ``agent:<id>:``.
    ``key`` and ``channel`` are "" and ``chat_type`` None where it does not say so."""

    raw: str = ""
    key: str = ""
    channel: str = ""
    chat_type: ChatType | None = None


class Decision(NamedTuple):
    """Whether a session may search, and why, as a sentence without its end."""

    allowed: bool
    session: SessionScope
    reason: str


def session_scope(session_key: str | None) -> SessionScope:
    """The parts of a key such as ``agent:main:telegram:group:123``. A sub-agent's has no chat type."""
    raw = (session_key or "").strip().lower()
    parts = raw.split(":")
    if parts[0] == "agent" and len(parts) > 2:
        parts = parts[2:]
    if not raw or parts[0] == "subagent":
        return SessionScope(raw)
    key = ":".join(parts)
    if len(parts) > 1 and parts[1] in _CHAT_TYPES:
        return SessionScope(raw, key, parts[0], _CHAT_TYPES[parts[1]])
    inner = next((part for part in parts[1:-1] if part in ("group", "channel")), "direct")
    return SessionScope(raw, key, "", _CHAT_TYPES[inner])


def decide(scope: Scope, session_key: str | None) -> Decision:
    """The first rule of which every given field matches decides, else the default."""
    session = session_scope(session_key)
    rule = next((rule for rule in scope.rules if _matches(rule, session)), None)
    what = f"channel {session.channel or 'unknown'}, chat type {session.chat_type or 'unknown'}"
    if rule is None:
        why = f"no rule of memory.qmd.scope matches {what}; the default is {scope.default}"
        return Decision(scope.default == "allow", session, why)
    why = f"the rule “{rule}” of memory.qmd.scope matches {what}"
    return Decision(rule.action == "allow", session, why)


def _matches(rule: ScopeRule, session: SessionScope) -> bool:
    legacy = rule.key_prefix.startswith("agent:")
    return (
        rule.channel in ("", session.channel)
        and rule.chat_type in ("", session.chat_type)
        and (session.raw if legacy else session.key).startswith(rule.key_prefix)
        and session.raw.startswith(rule.raw_key_prefix)
    )
