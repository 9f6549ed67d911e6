"""How memory is written and what of it a conversation starts with: flush, snapshots, bootstrap files.

The keys are those of OpenClaw's configuration in snake case (``compaction.memory_flush.enabled`` is
``agents.defaults.compaction.memoryFlush.enabled``); :data:`OPENCLAW_KEYS` lists them. ``flush.*`` is ours:
the chat model that is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from openclaw_mem_engine.config.rules import Rule, setting
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.dataclass import dataclass

SandboxMode = Literal["off", "non-main", "all"]
WorkspaceAccess = Literal["none", "ro", "rw"]
FlushProvider = Literal["none", "openai"]

FLUSH_SYSTEM_PROMPT = "Session nearing compaction. Store durable memories now."
FLUSH_PROMPT = "Write any lasting notes to memory/YYYY-MM-DD.md; reply with NO_REPLY if nothing to store."

_SWITCH, _TEXT = Rule("switch"), Rule("text")
_TOKENS, _SOME_TOKENS = Rule("int", 0, unit="tokens"), Rule("int", 1, unit="tokens")
_CHARS = Rule("int", 1, unit="characters")

_FLUSH = "agents.*.compaction.memoryFlush"
#: OpenClaw's keys and ours. Those of ``agents.*`` stand in ``agents.defaults`` or in the entry of an agent.
OPENCLAW_KEYS: Mapping[str, str] = MappingProxyType(
    {
        "agents.*.compaction.reserveTokensFloor": "compaction.reserve_tokens_floor",
        f"{_FLUSH}.enabled": "compaction.memory_flush.enabled",
        f"{_FLUSH}.softThresholdTokens": "compaction.memory_flush.soft_threshold_tokens",
        f"{_FLUSH}.prompt": "compaction.memory_flush.prompt",
        f"{_FLUSH}.systemPrompt": "compaction.memory_flush.system_prompt",
        "agents.*.contextTokens": "compaction.context_tokens",
        "agents.*.sandbox.mode": "sandbox.mode",
        "agents.*.sandbox.workspaceAccess": "sandbox.workspace_access",
        "agents.*.bootstrapMaxChars": "bootstrap.max_chars",
        "agents.*.bootstrapTotalMaxChars": "bootstrap.total_max_chars",
        "agents.*.userTimezone": "user_timezone",
        "hooks.internal.entries.session-memory.messages": "snapshot.messages",
    }
)


@dataclass(frozen=True, slots=True)
class MemoryFlushSettings:
    """The silent turn before a compaction. ``YYYY-MM-DD`` in a prompt becomes the date of the user."""

    enabled: bool = setting(_SWITCH, "ask the model for lasting notes before a compaction", True)
    soft_threshold_tokens: int = setting(_TOKENS, "how many tokens before the compaction to ask", 4_000)
    prompt: str = setting(_TEXT, "the user message of the flush", FLUSH_PROMPT)
    system_prompt: str = setting(_TEXT, "the system prompt of the flush", FLUSH_SYSTEM_PROMPT)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """When a conversation becomes too long for the window of its model."""

    reserve_tokens_floor: int = setting(_TOKENS, "tokens of the window that stay free", 20_000)
    context_tokens: int = setting(
        _SOME_TOKENS, "the context window of a session that has no value of its own", 200_000
    )
    memory_flush: MemoryFlushSettings = MemoryFlushSettings()


@dataclass(frozen=True, slots=True)
class FlushSettings:
    """The model that a flush and the name of a snapshot ask; ``openai`` is any chat model with OpenAI's
    interface."""

    provider: FlushProvider = setting(
        Rule("text", choices=("none", "openai")), "the provider of the chat model", "none"
    )
    model: str | None = setting(_TEXT, "the chat model")
    base_url: str | None = setting(Rule("url"), "the address of openai, instead of the usual one", repr=False)
    api_key: Secret | None = setting(
        Rule("secret"), "its key; for openai without base_url: by default the key for embeddings"
    )
    timeout_s: float = setting(Rule("number", 0.1, 3600, unit="seconds"), "time for one flush", 120.0)


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """Whether the agent may write its workspace; both are None when nothing configures them."""

    mode: SandboxMode | None = setting(
        Rule("text", choices=("off", "non-main", "all")), "which sessions of the agent run in a sandbox"
    )
    workspace_access: WorkspaceAccess | None = setting(
        Rule("text", choices=("none", "ro", "rw")), "what the sandbox may do with the workspace"
    )


@dataclass(frozen=True, slots=True)
class BootstrapSettings:
    """Limits of the files that go into the system prompt; characters are UTF-16 units."""

    max_chars: int = setting(_CHARS, "limit of one file in the prompt; its middle is cut", 20_000)
    total_max_chars: int = setting(_CHARS, "limit of all files in the prompt", 150_000)


@dataclass(frozen=True, slots=True)
class SnapshotSettings:
    """The file that is made of a conversation when a new one begins."""

    messages: int = setting(Rule("int", 1, unit="messages"), "how many messages a snapshot keeps", 15)
