"""Reading OpenClaw's keys about compaction, sandbox, bootstrap files and snapshots, and their values out of
all layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from openclaw_mem_engine.config.ignored import IgnoredKey, value_at
from openclaw_mem_engine.config.layers import Chosen, Layer, openclaw_entry
from openclaw_mem_engine.config.lifecycle import OPENCLAW_KEYS, CompactionSettings, MemoryFlushSettings
from openclaw_mem_engine.config.secret import printable
from openclaw_mem_engine.config.settings import SETTINGS

_AGENT_KEYS = "agents.*."
#: The section of ``agents.*`` of which every other key is named.
_WHOLE = "compaction"


def lifecycle_layer(
    nodes: Mapping[str, Mapping[str, Any]],
    where: Callable[[str], str],
    warn: Callable[[str, str], None],
    ignored: list[IgnoredKey],
) -> Layer:
    """The values of objects of OpenClaw's file by their dotted path, lowest first: ``agents.defaults``, the
    entry of the agent, and ``""`` for the whole file. What does not fit is replaced by its default, as
    OpenClaw does, with a warning."""
    layer: Layer = {}
    for path, node in nodes.items():
        prefix = _AGENT_KEYS if path else ""
        for name, ours in OPENCLAW_KEYS.items():
            if name.startswith(_AGENT_KEYS) != bool(path):
                continue
            if (value := value_at(node, name.removeprefix(prefix))) is None:
                continue
            dotted = where(name.replace(_AGENT_KEYS, printable(f"{path}.")))
            if (entry := openclaw_entry(ours, value, dotted, warn)) is not None:
                layer[ours] = entry
        if path:
            ignored += (IgnoredKey(key, known=True) for key in _other(node.get(_WHOLE), path))
    return layer


def compaction_settings(chosen: Chosen) -> CompactionSettings:
    """The values in effect; a blank prompt is the default one."""
    prefix = "compaction.memory_flush"

    def prompt(name: str) -> str:
        return chosen.text(f"{prefix}.{name}") or str(SETTINGS[f"{prefix}.{name}"].default)

    flush = replace(
        chosen.group(MemoryFlushSettings, prefix),
        prompt=prompt("prompt"),
        system_prompt=prompt("system_prompt"),
    )
    return replace(chosen.group(CompactionSettings, "compaction"), memory_flush=flush)


def _other(node: object, path: str) -> Iterator[str]:
    """The keys of a section for which there is nothing here."""
    read = {key.removeprefix(_AGENT_KEYS) for key in OPENCLAW_KEYS}

    def walk(value: object, key: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, item in value.items():
                yield from walk(item, f"{key}.{name}")
        elif key not in read:
            yield printable(f"{path}.{key}")

    if node is not None:
        yield from walk(node, _WHOLE)
