"""Groups of settings: the memory plug-in, the models beside the embedders, and how memory is written and what
of it a conversation starts with.

``plugin.*`` is ``plugins.slots.memory`` and ``plugins.entries.memory-lancedb.config`` in OpenClaw. Those
about a conversation have OpenClaw's keys in snake case (:data:`OPENCLAW_KEYS`). ``rerank.*``, ``expansion.*``
and ``flush.*`` are ours; the first two are switched by the knobs of their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from openclaw_mem_engine.config.rules import Rule, setting
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.dataclass import dataclass

_SWITCH, _TEXT = Rule("switch"), Rule("text")
_SECONDS = Rule("number", 0.1, 3600, unit="seconds")

#: Of OpenClaw: the memory search of notes, the store of single memories, no memory at all.
CORE, STORE, NO_PLUGIN = "memory-core", "memory-lancedb", "none"


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The memory plug-in. With ``memory-lancedb`` the agent has the tools memory_store, memory_recall and
    memory_forget, with ``memory-core`` memory_search and memory_get, with ``none`` no memory tools. Vectors
    are those of the settings' own providers."""

    slot: str = setting(_TEXT, f"the memory plug-in of the agent: {CORE}, {STORE}, {NO_PLUGIN}", CORE)
    auto_capture: bool = setting(
        _SWITCH, "whether the agent's plug-in stores texts by itself (only reported here)", False
    )
    auto_recall: bool = setting(
        _SWITCH, "whether the agent's plug-in puts memories before a prompt (only reported here)", True
    )
    capture_max_chars: int = setting(
        Rule("int", 100, 10_000, unit="characters"), "a longer text is not captured", 500
    )


#: The keys of its configuration in OpenClaw's file, and those that are set elsewhere here.
PLUGIN_KEYS = {
    "autoCapture": "auto_capture",
    "autoRecall": "auto_recall",
    "captureMaxChars": "capture_max_chars",
}
PLUGIN_ELSEWHERE = {
    "embedding": "vectors are those of `provider`",
    "dbPath": "memories are in the data folder",
}

RerankProvider = Literal["none", "local", "http", "openai"]
ExpansionProvider = Literal["none", "local", "openai"]

_KEY = "its key; for openai without base_url: by default the key for embeddings"


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """The reranker. ``http`` is an endpoint ``/rerank`` as of Jina, Cohere, vLLM and llama.cpp; ``openai`` is
    any chat model with OpenAI's interface, asked for a score."""

    provider: RerankProvider = setting(
        Rule("text", choices=("none", "local", "http", "openai")), "the provider of the reranker", "none"
    )
    model: str | None = setting(_TEXT, "the model; for local a GGUF file or its hf: address")
    base_url: str | None = setting(Rule("url"), "the address of http or openai", repr=False)
    api_key: Secret | None = setting(Rule("secret"), _KEY)
    logits: bool = setting(
        _SWITCH, "the endpoint sends raw logits, as llama.cpp does: scores are their sigmoid", False
    )
    budget_s: float = setting(_SECONDS, "time for the scores of one search", 10.0)


@dataclass(frozen=True, slots=True)
class ExpansionSettings:
    """The model that expands queries; ``openai`` is any chat model with OpenAI's interface."""

    provider: ExpansionProvider = setting(
        Rule("text", choices=("none", "local", "openai")), "the provider for variants of a query", "none"
    )
    model: str | None = setting(_TEXT, "the model; for local a GGUF file or its hf: address")
    base_url: str | None = setting(Rule("url"), "the address of openai, instead of the usual one", repr=False)
    api_key: Secret | None = setting(Rule("secret"), _KEY)
    timeout_s: float = setting(_SECONDS, "time for the variants of one query", 5.0)


SandboxMode = Literal["off", "non-main", "all"]
WorkspaceAccess = Literal["none", "ro", "rw"]
FlushProvider = Literal["none", "openai"]

FLUSH_SYSTEM_PROMPT = "Session nearing compaction. Store durable memories now."
FLUSH_PROMPT = "Write any lasting notes to memory/YYYY-MM-DD.md; reply with NO_REPLY if nothing to store."

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
    api_key: Secret | None = setting(Rule("secret"), _KEY)
    timeout_s: float = setting(_SECONDS, "time for one flush", 120.0)


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
