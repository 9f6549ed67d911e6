"""Reading OpenClaw's keys about compaction, sandbox, bootstrap files and snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from openclaw_mem_engine.config.groups import OPENCLAW_KEYS
from openclaw_mem_engine.config.ignored import IgnoredKey, leaves, value_at
from openclaw_mem_engine.config.layers import Layer, openclaw_entry
from openclaw_mem_engine.config.secret import printable

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


def _other(node: object, path: str) -> Iterator[str]:
    """The keys of a section for which there is nothing here."""
    read = {key.removeprefix(_AGENT_KEYS) for key in OPENCLAW_KEYS}
    return (printable(f"{path}.{key}") for key in leaves(_WHOLE, node) if node and key not in read)
