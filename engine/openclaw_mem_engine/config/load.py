"""Builds :class:`Settings` out of flags, environment, our settings file and OpenClaw's configuration.

Precedence: flag, then environment, then ``config.toml``, then ``openclaw.json``, then the default.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import cast

from openclaw_mem_engine.config.connection import ProviderResolver
from openclaw_mem_engine.config.env import environment_layer, shared_editor, user_data_dir
from openclaw_mem_engine.config.keys import QUERY_RULES, RULES
from openclaw_mem_engine.config.layers import Chosen, Entry, Layer, merged
from openclaw_mem_engine.config.local_model import lies_in, local_model
from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.openclaw_file import find_openclaw
from openclaw_mem_engine.config.own import own_config_file, own_layer
from openclaw_mem_engine.config.placeholders import absolute
from openclaw_mem_engine.config.settings import (
    CacheSettings,
    ChunkingSettings,
    CitationMode,
    OpenClawFacts,
    Origin,
    QuerySettings,
    Settings,
    SyncSettings,
)
from openclaw_mem_engine.config.shared_keys import SharedKeys
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.model import Note, Source

DEFAULT_AGENT = "main"
_AGENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def load_settings(
    *,
    workspace: Path | None = None,
    config: Path | None = None,
    agent: str | None = None,
    provider: str | None = None,
    profile: str | None = None,
    environ: Mapping[str, str],
    home: Path,
    cwd: Path,
) -> Settings:
    """The settings in effect. The first five are flags (``--workspace`` …, ``--config`` names an
    ``openclaw.json``); ``environ``, ``home`` and ``cwd`` stand for those of the process.

    Reads at most four files (ours, OpenClaw's, two with its keys) and writes nothing. Raises ConfigError for
    a file or variable that cannot be used, UsageError for such a flag.
    """
    flags = _flag_layer(cwd, workspace=workspace, agent=agent, provider=provider, profile=profile)
    variables = environment_layer(environ, cwd)
    own_file = own_config_file(environ, home, cwd)
    own = own_layer(own_file, environ) if own_file else Layer()
    openclaw = OpenClawConfig(find_openclaw(config, environ, home, cwd), environ)

    agent_id, agent_origin = _agent(merged([own, variables, flags]), openclaw)
    theirs, store = openclaw.memory_layer(agent_id)
    layers = [theirs, own, variables, flags]
    chosen = Chosen(merged(layers), openclaw.environ, home)
    chosen.origins["agent"] = agent_origin
    notes = openclaw.notes
    if openclaw.agents and openclaw.agent(agent_id) is None:
        notes.append(
            Note("agent-unlisted", f"No agent {agent_id} is configured in {openclaw.place.config_file}.")
        )

    folder = _workspace(chosen, openclaw, agent_id, cwd)
    data_dir = chosen.path("data_dir", user_data_dir(environ, home))
    _refuse_foreign_folder(
        data_dir, openclaw.place.state_dir, "OpenClaw's folder", chosen.origins["data_dir"]
    )
    _refuse_foreign_folder(data_dir, folder, "the workspace", chosen.origins["data_dir"])
    local = local_model(chosen, cwd, (openclaw.place.state_dir, folder), notes)
    resolver = ProviderResolver(layers, openclaw, chosen, SharedKeys(openclaw, agent_id), local)
    provider_settings = resolver.resolve()
    return Settings(
        workspace=folder,
        agent=agent_id,
        data_dir=data_dir,
        index_path=index_path(data_dir, folder, agent_id),
        openclaw=_facts(openclaw, agent_id, store, chosen, cwd),
        enabled=chosen.value("enabled", bool, True),
        provider=provider_settings,
        sources=cast("tuple[Source, ...]", chosen.value("sources", tuple, ("memory",)) or ("memory",)),
        extra_paths=_extra_paths(chosen, home, notes),
        chunking=_chunking(chosen, notes),
        query=_query(chosen),
        citations=cast(CitationMode, chosen.value("citations", str, "auto")),
        cache=CacheSettings(
            enabled=chosen.value("cache.enabled", bool, True),
            max_entries=chosen.value("cache.max_entries", int, CacheSettings().max_entries),
        ),
        sync=_sync(chosen),
        max_file_bytes=chosen.value("max_file_bytes", int, 10 * 1024 * 1024),
        vector_extension=chosen.value("vector_extension", bool, True),
        editor=_editor(chosen, environ),
        theme=chosen.text("theme"),
        origins=MappingProxyType(chosen.origins),
        warnings=(*notes, *resolver.notes),
    )


def index_path(data_dir: Path, workspace: Path, agent: str) -> Path:
    """``<data_dir>/indexes/<folder name>-<8 hex of the real path's SHA-256>/<agent>.sqlite``.

    The hash keeps workspaces of the same name apart; links to one workspace share its index.
    """
    real = os.path.realpath(workspace)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", Path(real).name.lower()).strip("-")[:32] or "workspace"
    return data_dir / "indexes" / f"{slug}-{digest}" / f"{agent}.sqlite"


def _flag_layer(cwd: Path, *, workspace: Path | None, **texts: str | None) -> Layer:
    keys = {
        "workspace": "workspace",
        "agent": "agent",
        "provider": "provider.name",
        "profile": "query.profile",
    }
    layer = Layer()
    for name, value in {"workspace": workspace, **texts}.items():
        if value is None:
            continue
        try:
            checked = RULES[keys[name]].check(str(value), f"--{name}")
        except ConfigError as error:
            raise UsageError(str(error)) from None
        layer.put(keys[name], Entry(checked, Origin("flag", f"--{name}"), cwd))
    return layer


def _agent(ours: Layer, openclaw: OpenClawConfig) -> tuple[str, Origin]:
    """The agent's id in lower case, as OpenClaw names its folders. It becomes a file name: be strict."""
    entry = ours.entry("agent")
    if entry is not None:
        name, origin = str(entry.value), entry.origin
    elif openclaw.default_agent is not None:
        name, where = openclaw.default_agent.id, openclaw.where(f"{openclaw.default_agent.where}.id")
        origin = Origin("openclaw", where)
    else:
        name, origin = DEFAULT_AGENT, Origin("default", "built in")
    if not _AGENT_ID.fullmatch(name):
        kind = UsageError if origin.kind == "flag" else ConfigError
        raise kind(f"{origin.where} is {name[:80]!r}; allowed: 1 to 64 letters, digits, - and _.")
    return name.lower(), origin


def _workspace(chosen: Chosen, openclaw: OpenClawConfig, agent_id: str, cwd: Path) -> Path:
    default_agent = openclaw.default_agent
    is_default = agent_id == (default_agent.id.lower() if default_agent else DEFAULT_AGENT)
    place = openclaw.place
    name = "workspace" if is_default else f"workspace-{agent_id}"
    folder = chosen.path("workspace", place.state_dir / name)
    if chosen.origins["workspace"].kind != "default":
        return folder
    entry = openclaw.workspace(agent_id, is_default, cwd)
    if entry is None:
        return folder
    chosen.origins["workspace"] = entry.origin
    return absolute(chosen.typed(entry, str), cwd, place.home)


def _refuse_foreign_folder(data_dir: Path, foreign: Path, what: str, origin: Origin) -> None:
    """Nothing of ours is ever written where notes or OpenClaw's own state lie."""
    if lies_in(data_dir, foreign):
        raise ConfigError(
            f"The data folder {data_dir} ({origin.where}) lies in {what} {foreign}. "
            f"Name a folder outside of it in OPENCLAW_MEM_HOME."
        )


def _facts(
    openclaw: OpenClawConfig, agent_id: str, store: Entry | None, chosen: Chosen, cwd: Path
) -> OpenClawFacts:
    place = openclaw.place
    path = place.state_dir / "memory" / f"{agent_id}.sqlite"
    if store is not None:
        text = chosen.typed(store, str).strip().replace("{agentId}", agent_id)
        path = absolute(text, cwd, place.home) if text else path
    return OpenClawFacts(
        config_file=place.config_file,
        state_dir=place.state_dir,
        store_path=path,
        sessions_dir=place.state_dir / "agents" / agent_id / "sessions",
        backend=openclaw.backend,
        agents=tuple(agent.id.lower() for agent in openclaw.agents if _AGENT_ID.fullmatch(agent.id)),
    )


def _extra_paths(chosen: Chosen, home: Path, notes: list[Note]) -> tuple[str, ...]:
    """Extra paths as written, ``~/`` apart. The home folder itself, or one above it, is never memory."""
    kept: list[str] = []
    for text in dict.fromkeys(str(path).strip() for path in chosen.value("extra_paths", tuple, ())):
        path = absolute(text, Path("/"), home) if text.startswith(("~/", "/")) or text == "~" else None
        if path is not None and (path == home or path in home.parents):
            where = chosen.origins["extra_paths"].where
            told = f"{where}: {text!r} is the home folder or above it, and is left out."
            notes.append(Note("extra-path-refused", told, "warning"))
        elif text:
            kept.append(str(path) if path is not None and text.startswith("~") else text)
    return tuple(kept)


def _chunking(chosen: Chosen, notes: list[Note]) -> ChunkingSettings:
    usual = ChunkingSettings()
    tokens = chosen.value("chunking.tokens", int, usual.tokens)
    overlap = chosen.value("chunking.overlap", int, usual.overlap)
    if overlap >= tokens:
        # Two sources may each be right and not fit together, so this is a clamp and not an error.
        told = f"An overlap of {overlap} tokens does not fit into chunks of {tokens}; {tokens - 1} is used."
        notes.append(Note("overlap-clamped", told, "warning"))
        overlap = tokens - 1
    return ChunkingSettings(tokens, overlap)


def _query(chosen: Chosen) -> QuerySettings:
    profile = chosen.value("query.profile", str, QuerySettings().profile)
    overrides: dict[str, object] = {}
    for name in QUERY_RULES:
        value = chosen.value(f"query.{name}", object, None)
        if value is not None:
            overrides[name] = value
        else:
            chosen.origins[f"query.{name}"] = Origin("default", f"profile {profile}")
    return QuerySettings(profile, MappingProxyType(overrides))


def _sync(chosen: Chosen) -> SyncSettings:
    get = chosen.value
    usual = SyncSettings()
    return SyncSettings(
        on_session_start=get("sync.on_session_start", bool, usual.on_session_start),
        on_search=get("sync.on_search", bool, usual.on_search),
        watch=get("sync.watch", bool, usual.watch),
        debounce_ms=get("sync.debounce_ms", int, usual.debounce_ms),
        interval_minutes=get("sync.interval_minutes", int, usual.interval_minutes),
        session_delta_bytes=get("sync.session_delta_bytes", int, usual.session_delta_bytes),
        session_delta_messages=get("sync.session_delta_messages", int, usual.session_delta_messages),
        session_quiet_s=get("sync.session_quiet_s", int, usual.session_quiet_s),
    )


def _editor(chosen: Chosen, environ: Mapping[str, str]) -> str | None:
    """Ours (variable or file) first; ``$VISUAL`` and ``$EDITOR`` speak to every program: they come last."""
    editor = chosen.text("editor")
    if editor is None and (shared := shared_editor(environ)):
        editor, chosen.origins["editor"] = shared
    return editor
