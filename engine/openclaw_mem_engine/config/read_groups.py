"""Reading what OpenClaw's file says of QMD (``memory.qmd``) and of conversations (compaction, sandbox,
bootstrap files, snapshots), and the values of the QMD backend and of the store out of all layers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from openclaw_mem_engine.config.groups import OPENCLAW_KEYS
from openclaw_mem_engine.config.ignored import IgnoredKey, leaves, unknown_key, value_at
from openclaw_mem_engine.config.layers import Chosen, Layer, openclaw_entry
from openclaw_mem_engine.config.qmd import (
    DEFAULT_PATTERN,
    Action,
    QmdPath,
    QmdSettings,
    Scope,
    ScopeRule,
)
from openclaw_mem_engine.config.rules import Rule
from openclaw_mem_engine.config.secret import printable, shown
from openclaw_mem_engine.config.settings import SETTINGS
from openclaw_mem_engine.config.store import (
    SHARDS,
    StoreLocation,
    StoreSettings,
    check_address,
    shard_of,
    workspace_key,
)
from openclaw_mem_engine.errors import ConfigError

_AGENT_KEYS = "agents.*."
#: The section of ``agents.*`` of which every other key is named.
_WHOLE = "compaction"
_ACTION = Rule("text", choices=("allow", "deny"))
_TEXT = Rule("text")
#: A name of an agent on servers.
_NAME = r"[^\s\x00-\x1f][^\x00-\x1f]{0,199}"
_MATCH = ("channel", "chatType", "keyPrefix", "rawKeyPrefix")
#: Keys of OpenClaw's for which there is nothing here: another program between it and QMD, and the folder of
#: exported conversations, which are kept in the data folder.
_NOT_USED = ("mcporter", "sessions.exportDir")


def qmd_layer(
    node: Mapping[str, Any],
    where: Callable[[str], str],
    warn: Callable[[str, str], None],
    ignored: list[IgnoredKey],
) -> Layer:
    """The values of the object ``memory.qmd``. What does not fit there is replaced by its default, as
    OpenClaw does, with a warning; ``where`` names a key with its file. Raises ConfigError for a broken
    scope, which must not become another one."""
    layer: Layer = {}
    for key, value in _leaves(node, ""):
        ours = "qmd." + re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)
        dotted = f"memory.qmd.{printable(key)}"
        known = SETTINGS.get(ours)
        if known is None:
            not_used = f"{key}.".startswith(tuple(f"{name}." for name in _NOT_USED))
            known_key = IgnoredKey(dotted, known=True)
            ignored.append(known_key if not_used else unknown_key("memory.qmd", key, qmd_keys()))
            continue
        if value is None:
            continue
        if known.rule.kind == "table":
            known.rule.check(value, where(dotted))
        if (entry := openclaw_entry(ours, value, where(dotted), warn)) is not None:
            layer[ours] = entry
    return layer


def qmd_keys() -> dict[str, str]:
    """The keys of ``memory.qmd`` that are read, as OpenClaw spells them, and ours."""
    ours = (key for key in SETTINGS if key.startswith("qmd."))
    return {re.sub("_([a-z])", lambda letter: letter[1].upper(), k.removeprefix("qmd.")): k for k in ours}


def _leaves(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    groups = {key.split(".")[1] for key in SETTINGS if key.startswith("qmd.") and key.count(".") > 1}
    for name, value in node.items():
        if isinstance(value, dict) and not prefix and name in (*groups, *_NOT_USED):
            yield from _leaves(value, f"{name}.")
        else:
            yield f"{prefix}{name}", value


def qmd_settings(chosen: Chosen) -> QmdSettings:
    """The values in effect. Raises ConfigError for a path or a scope that cannot be used."""
    return chosen.group(
        QmdSettings, "qmd", command=_command(chosen), paths=tuple(_paths(chosen)), scope=_scope(chosen)
    )


def _command(chosen: Chosen) -> str | None:
    """The first word of the text, as OpenClaw takes it; ``~/`` is the home folder."""
    key = "qmd.command"
    text = chosen.text(key)
    if text is None:
        return None
    where = chosen.origins[key].where
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"{where} is {shown(text)}: {error}. Write the path of qmd, quoted.") from None
    if words[1:]:
        rest = shown(shlex.join(words[1:]))
        chosen.note(
            "qmd-command", f"{where}: only {shown(words[0])} is run, as OpenClaw does, without {rest}."
        )
    return str(chosen.absolute(key, words[0])) if "/" in words[0] else words[0]


def _paths(chosen: Chosen) -> Iterator[QmdPath]:
    key = "qmd.paths"
    entries = chosen.value(key)
    for number, entry in enumerate(entries):
        where = f"{chosen.origins[key].where}[{number}]"
        path, name, pattern = _texts(entry, ("path", "name", "pattern"), where)
        if path:
            # Others start at the workspace, which is not known yet.
            path = str(chosen.absolute(key, path)) if path.startswith("~") else path
            yield QmdPath(path, name, pattern or DEFAULT_PATTERN)


def _scope(chosen: Chosen) -> Scope:
    key = "qmd.scope"
    value = chosen.value(key)
    if isinstance(value, Scope):  # the default
        return value
    where = chosen.origins[key].where
    _known(value, ("default", "rules"), where)
    rules = value.get("rules", [])
    if not isinstance(rules, (list, tuple)) or not all(isinstance(rule, dict) for rule in rules):
        raise ConfigError(f"{where}.rules is {shown(rules)}; allowed: a list of rules.")
    default = cast(Action, _ACTION.check(value.get("default", "allow"), f"{where}.default"))
    return Scope(default, tuple(_rule(rule, f"{where}.rules[{number}]") for number, rule in enumerate(rules)))


def _rule(rule: Mapping[str, Any], where: str) -> ScopeRule:
    _known(rule, ("action", "match"), where)
    action = cast(Action, _ACTION.check(rule.get("action"), f"{where}.action"))
    match = rule.get("match", {})
    if not isinstance(match, dict):
        raise ConfigError(f"{where}.match is {shown(match)}; allowed: an object.")
    return ScopeRule(action, *map(str.lower, _texts(match, _MATCH, f"{where}.match")))


def _texts(node: Mapping[str, Any], names: tuple[str, ...], where: str) -> list[str]:
    """The texts of these names, "" for one that is not given. Raises ConfigError for all else."""
    _known(node, names, where)
    return [str(_TEXT.check(node.get(name, ""), f"{where}.{name}")).strip() for name in names]


def _known(node: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
    """A misspelled key would let through what the rule was written against."""
    if unknown := next((name for name in node if name not in names), None):
        raise ConfigError(f"{where} holds {shown(unknown)}; allowed: {', '.join(names)}.")


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
            ignored += (IgnoredKey(key, known=True) for key in _unread(node.get(_WHOLE), path))
    return layer


def _unread(node: object, path: str) -> Iterator[str]:
    """The keys of a section for which there is nothing here."""
    read = {key.removeprefix(_AGENT_KEYS) for key in OPENCLAW_KEYS}
    return (printable(f"{path}.{key}") for key in leaves(_WHOLE, node) if node and key not in read)


def store_settings(
    chosen: Chosen, agent_id: str, workspace: Path, configured: Callable[[], Path]
) -> StoreSettings:
    """``configured`` gives the workspace of the agent without --workspace. Raises ConfigError for what does
    not fit together."""
    found = chosen.group(StoreSettings, "store")
    if found.kind == "sqlite":
        return found
    where = chosen.origins["store.servers"].where
    if not found.servers:
        raise ConfigError(
            "An index in PostgreSQL needs store.servers, which names no server: set it, or "
            "OPENCLAW_MEM_STORE_SERVERS, to postgresql://user:password@host/database."
        )
    for number, server in enumerate(found.servers, 1):
        if server.available:
            check_address(server, f"{where}: server {number}")
    # Two hosts that used one name without knowing would undo each other's index.
    template = chosen.text("store.agent") or ""
    name = template.replace("{agent}", agent_id).replace("{workspace}", workspace_key(workspace))
    if not re.fullmatch(_NAME, name):
        raise ConfigError(
            "An index in PostgreSQL needs store.agent, which does not name the agent there: set it, or "
            "OPENCLAW_MEM_STORE_AGENT, to a name of up to 200 characters that no other agent has, such as "
            f"`team-a/{{agent}}` (it is {shown(name) if name else 'not set'})."
        )
    if "{workspace}" not in template and _is_another(workspace, own := configured()):
        raise ConfigError(
            f"{workspace} is not the workspace of the agent {agent_id}, {own}, whose index on the server, "
            f"{name}, it would replace: let store.agent contain {{workspace}}, as in "
            "`{{agent}}/{{workspace}}`, or give OPENCLAW_MEM_STORE_AGENT another name for it."
        )
    shard = shard_of(name)
    servers = _server_numbers(found.shards, len(found.servers), chosen.origins["store.shards"].where)
    location = StoreLocation(found.servers[servers[shard]], name, shard, found.servers)
    return replace(found, agent=name, location=location, per_agent="{agent}" in template)


def _is_another(workspace: Path, own: Path) -> bool:
    """Whether the agent has a workspace of its own, and this is another."""
    is_there = os.path.isdir(own)  # noqa: PTH112 (Path raises where it may not look)
    return is_there and workspace_key(own) != workspace_key(workspace)


def _server_numbers(shards: Sequence[str], servers: int, where: str) -> list[int]:
    """The number of the server of each shard, from 0. Raises ConfigError unless each has exactly one."""
    if not shards and servers == 1:
        return [0] * SHARDS
    if len(shards) != servers:
        raise ConfigError(
            f"{where}: {len(shards)} entries of store.shards for {servers} servers: name the shards of each, "
            'as ["0-239", "240-479"].'
        )
    found: list[int | None] = [None] * SHARDS
    for number, text in enumerate(shards):
        for part in text.split(",") if text.strip() else ():  # one that is new may have none yet
            match = re.fullmatch(r"\s*(\d{1,3})(?:-(\d{1,3}))?\s*", part)
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, SHARDS)
            if not first <= last < SHARDS:
                raise ConfigError(
                    f"{where}: {shown(part)} is not a range of shards; allowed: 0 to {SHARDS - 1}."
                )
            for shard in range(first, last + 1):
                if found[shard] is not None:
                    raise ConfigError(f"{where}: shard {shard} has two servers; name it once.")
                found[shard] = number
    numbers = [number for number in found if number is not None]
    if len(numbers) != SHARDS:
        raise ConfigError(
            f"{where}: shard {found.index(None)} has no server; name all from 0 to {SHARDS - 1}."
        )
    return numbers
