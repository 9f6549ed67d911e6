"""The tools that an agent has, by name: what ``openclaw-mem tool NAME JSON`` calls, and their answers as the
agent gets them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from openclaw_mem_engine.config.groups import CORE, STORE
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError, did_you_mean
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.plugin.memories import (
    FORGET_LIMIT,
    FORGET_SCORE,
    IMPORTANCE,
    MEMORY_ID,
    RECALL_LIMIT,
    RECALL_SCORE,
    SURE_SCORE,
    Memories,
)

#: Characters of a text that an answer repeats, and of one in a list.
_SHOWN, _LISTED, _SHORT_ID = 100, 60, 8


class AgentTool(NamedTuple):
    """A tool: the plug-in that offers it, its parameters for people, and those of a call as JSON."""

    slot: str
    parameters: str
    example: str


TOOLS: Mapping[str, AgentTool] = {
    "memory_search": AgentTool(CORE, "{query, maxResults?, minScore?}", '{"query": "vpn certificate"}'),
    "memory_get": AgentTool(CORE, "{path, from?, lines?}", '{"path": "MEMORY.md"}'),
    "memory_store": AgentTool(STORE, "{text, importance?, category?}", '{"text": "I like green tea"}'),
    "memory_recall": AgentTool(STORE, "{query, limit?}", '{"query": "tea"}'),
    "memory_forget": AgentTool(STORE, "{query?, memoryId?}", '{"query": "tea"}'),
}


def check_tool(settings: Settings, name: str) -> AgentTool:
    """The tool of this name. Raises UsageError for an unknown one, and for one that the agent does not
    have."""
    tool = TOOLS.get(name)
    if tool is None:
        hint = did_you_mean(name, TOOLS)
        raise UsageError(f"There is no tool {name!r}.{hint} The agent's memory tools are {', '.join(TOOLS)}.")
    slot = settings.plugin.slot
    if tool.slot == STORE and slot != STORE:
        where = settings.origins["plugin.slot"].where
        raise UsageError(
            f"The agent has no {name}: the memory plug-in is {slot} ({where}). Set plugins.slots.memory, or "
            f'`slot = "{STORE}"` in the table [plugin] of config.toml.'
        )
    if tool.slot == CORE and slot == STORE:
        raise UsageError(f"The agent has no {name}: with the plug-in {STORE} it has memory_recall.")
    return tool


def memory_store(memories: Memories, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``{text, importance = 0.7, category = other}``. Raises UsageError."""
    text = _text(arguments, "text")
    category, importance = arguments.get("category", "other"), _number(arguments, "importance", IMPORTANCE)
    if not isinstance(category, str):
        raise UsageError("category is a text.")
    found, is_new = memories.store(text, category, importance)
    if is_new:
        return _answer(f'Stored: "{text[:_SHOWN]}..."', action="created", id=found.id)
    said = f'Similar memory already exists: "{found.text}"'
    return _answer(said, action="duplicate", existingId=found.id, existingText=found.text)


def memory_recall(memories: Memories, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``{query, limit = 5}``. Raises UsageError."""
    limit = max(1, int(_number(arguments, "limit", RECALL_LIMIT)))
    found = memories.search(_text(arguments, "query"), limit, RECALL_SCORE)
    if not found:
        return _answer("No relevant memories found.", count=0)
    lines = [
        f"{number}. [{item.category}] {item.text}" + ("" if item.score is None else f" ({item.score:.0%})")
        for number, item in enumerate(found, 1)
    ]
    listed = [{key: value for key, value in item.to_dict().items() if key != "createdAt"} for item in found]
    text = f"Found {len(found)} memories:\n\n" + "\n".join(lines)
    return _answer(text, count=len(found), memories=listed)


def memory_forget(memories: Memories, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """``{memoryId}`` or ``{query}``: one near hit is removed, several are listed. Raises UsageError."""
    if (memory_id := arguments.get("memoryId")) not in (None, ""):
        if not MEMORY_ID.fullmatch(str(memory_id)):
            raise UsageError(f"Invalid memory ID format: {memory_id}")
        if not memories.forget(str(memory_id)):
            return _answer(f"Memory {memory_id} not found.", found=0)
        return _answer(f"Memory {memory_id} forgotten.", action="deleted", id=memory_id)
    if not arguments.get("query"):
        return _answer("Provide query or memoryId.", error="missing_param")
    found = memories.search(_text(arguments, "query"), FORGET_LIMIT, FORGET_SCORE)
    # Without vectors a hit may share one word: it is proposed, never removed.
    if not found:
        return _answer("No matching memories found.", found=0)
    if len(found) == 1 and (found[0].score or 0) > SURE_SCORE:
        memories.forget(found[0].id)
        return _answer(f'Forgotten: "{found[0].text}"', action="deleted", id=found[0].id)
    lines = [f"- [{item.id[:_SHORT_ID]}] {item.text[:_LISTED]}..." for item in found]
    text = f"Found {len(found)} candidates. Specify memoryId:\n" + "\n".join(lines)
    listed = [item.to_dict() for item in found]
    return _answer(text, action="candidates", candidates=listed)


STORE_TOOLS: Mapping[str, Callable[[Memories, Mapping[str, Any]], dict[str, Any]]] = {
    "memory_store": memory_store,
    "memory_recall": memory_recall,
    "memory_forget": memory_forget,
}


def _answer(text: str, **details: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "details": details}


def _text(arguments: Mapping[str, Any], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{name} required")
    return value


def _number(arguments: Mapping[str, Any], name: str, default: float) -> float:
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= 1e9:
        raise UsageError(f"{name} is a number.")
    return value
