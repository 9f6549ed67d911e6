"""``plugin.*``: which memory plug-in the agent's tools follow, and how the store of single memories captures
and recalls. OpenClaw has it in ``plugins.slots.memory`` and ``plugins.entries.memory-lancedb.config``."""

from __future__ import annotations

from openclaw_mem_engine.config.rules import Rule, setting
from openclaw_mem_engine.dataclass import dataclass

#: Of OpenClaw: the memory search of notes, the store of single memories, no memory at all.
CORE, STORE, NONE = "memory-core", "memory-lancedb", "none"


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The memory plug-in. With ``memory-lancedb`` the agent has the tools memory_store, memory_recall and
    memory_forget, with ``memory-core`` memory_search and memory_get, with ``none`` no memory tools. Vectors
    are those of the settings' own providers."""

    slot: str = setting(Rule("text"), f"the memory plug-in of the agent: {CORE}, {STORE}, {NONE}", CORE)
    auto_capture: bool = setting(
        Rule("switch"), "whether the agent's plug-in stores texts by itself (only reported here)", False
    )
    auto_recall: bool = setting(
        Rule("switch"), "whether the agent's plug-in puts memories before a prompt (only reported here)", True
    )
    capture_max_chars: int = setting(
        Rule("int", 100, 10_000, unit="characters"), "a longer text is not captured", 500
    )


#: The keys of its configuration in OpenClaw's file, and those that are set elsewhere here.
KEYS = {"autoCapture": "auto_capture", "autoRecall": "auto_recall", "captureMaxChars": "capture_max_chars"}
ELSEWHERE = {"embedding": "vectors are those of `provider`", "dbPath": "memories are in our data folder"}
