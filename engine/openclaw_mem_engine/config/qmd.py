"""``memory.qmd.*``: the QMD backend, its collections, its external process and who may search it.

The keys are those of OpenClaw's configuration in snake case; defaults are those of release 2026.2.26
(``qmd.update.command_timeout_ms`` is ``memory.qmd.update.commandTimeoutMs``).
"""

from __future__ import annotations

from typing import Literal

from openclaw_mem_engine.config.rules import Rule, seconds_of, setting
from openclaw_mem_engine.dataclass import dataclass

SearchMode = Literal["search", "vsearch", "query"]
Action = Literal["allow", "deny"]
ChatType = Literal["direct", "group", "channel"]
#: Of a collection that names none.
DEFAULT_PATTERN = "**/*.md"

_SWITCH, _TEXT, _POSITIVE, _DURATION = Rule("switch"), Rule("text"), Rule("int", 1), Rule("duration")
_MS, _CHARS = Rule("int", 1, unit="ms"), Rule("int", 1, unit="characters")


@dataclass(frozen=True, slots=True)
class QmdPath:
    """One entry of ``paths``: files below ``path`` that match the glob; ``name`` is "" when none is given."""

    path: str
    name: str = ""
    pattern: str = DEFAULT_PATTERN

    def __str__(self) -> str:
        return f"{self.name}={self.path} ({self.pattern})" if self.name else f"{self.path} ({self.pattern})"


@dataclass(frozen=True, slots=True)
class ScopeRule:
    """Applies to a session for which every given field matches; "" is not given. Prefixes are lower case."""

    action: Action
    channel: str = ""
    chat_type: str = ""
    key_prefix: str = ""
    raw_key_prefix: str = ""

    def __str__(self) -> str:
        given = (
            ("channel", self.channel),
            ("chatType", self.chat_type),
            ("keyPrefix", self.key_prefix),
            ("rawKeyPrefix", self.raw_key_prefix),
        )
        return f"{self.action} " + (" and ".join(f"{name} {text}" for name, text in given if text) or "all")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which sessions may search: the first rule that matches decides, else ``default``."""

    default: Action = "allow"
    rules: tuple[ScopeRule, ...] = ()

    def __str__(self) -> str:
        return "; ".join([*map(str, self.rules), f"else {self.default}"])


#: Keeps notes out of groups and channels.
DIRECT_ONLY = Scope("deny", (ScopeRule("allow", chat_type="direct"),))


@dataclass(frozen=True, slots=True)
class QmdUpdate:
    """When the collections are indexed again, and how long a call of the external process may take."""

    interval: str = setting(_DURATION, "update the collections this often; 0: never", "5m")
    debounce_ms: int = setting(Rule("int", 0, unit="ms"), "least time between two updates", 15_000)
    on_boot: bool = setting(_SWITCH, "update when a workbench starts", True)
    wait_for_boot_sync: bool = setting(_SWITCH, "wait for that update at the start", False)
    embed_interval: str = setting(_DURATION, "make vectors this often; 0: never", "60m")
    command_timeout_ms: int = setting(_MS, "time limit of calls other than search, update and embed", 30_000)
    update_timeout_ms: int = setting(_MS, "time limit of an update", 120_000)
    embed_timeout_ms: int = setting(_MS, "time limit of an embed", 120_000)

    @property
    def interval_s(self) -> float:
        return seconds_of(self.interval) or 0.0

    @property
    def embed_interval_s(self) -> float:
        return seconds_of(self.embed_interval) or 0.0


@dataclass(frozen=True, slots=True)
class QmdLimits:
    """What an answer of the QMD backend holds at most; characters are UTF-16 units."""

    max_results: int = setting(_POSITIVE, "results of a search", 6)
    max_snippet_chars: int = setting(_CHARS, "characters of a snippet", 700)
    max_injected_chars: int = setting(_CHARS, "characters of all snippets that an agent receives", 4_000)
    timeout_ms: int = setting(_MS, "the longest wait of a search for the external process", 4_000)


@dataclass(frozen=True, slots=True)
class QmdSessions:
    """Conversations as a collection of their own."""

    enabled: bool = setting(_SWITCH, "export the conversations and index them", False)
    retention_days: int | None = setting(
        Rule("int", 1, unit="days"), "how many days back conversations are exported; unset: all"
    )


@dataclass(frozen=True, slots=True)
class QmdSettings:
    """The QMD backend. ``command`` is None for the one in this process."""

    command: str | None = setting(_TEXT, "the external program; unset: QMD in this process")
    search_mode: SearchMode = setting(
        Rule("text", choices=("search", "vsearch", "query")), "how the external program searches", "search"
    )
    include_default_memory: bool = setting(_SWITCH, "MEMORY.md and memory/ are collections", True)
    paths: tuple[QmdPath, ...] = setting(
        Rule("tables", unit="path, name, pattern"), "further collections", ()
    )
    scope: Scope = setting(
        Rule("table", unit="default, rules"), "which sessions may search, by session key", DIRECT_ONLY
    )
    update: QmdUpdate = QmdUpdate()
    limits: QmdLimits = QmdLimits()
    sessions: QmdSessions = QmdSessions()
