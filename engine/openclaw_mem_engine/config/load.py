"""Builds :class:`Settings` out of flags, environment, our settings file and OpenClaw's configuration.

Precedence: flag, then environment, then ``config.toml``, then ``openclaw.json``, then the default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar, cast

from openclaw_mem_engine.config.connection import ProviderResolver, checked_url
from openclaw_mem_engine.config.groups import (
    CORE,
    NO_PLUGIN,
    STORE,
    ExpansionSettings,
    FlushSettings,
    RerankSettings,
)
from openclaw_mem_engine.config.knob_settings import KNOB_SETTINGS
from openclaw_mem_engine.config.layers import Chosen, Entry, Layer, absolute, merged
from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.qmd import QmdSettings
from openclaw_mem_engine.config.read_groups import qmd_settings, store_settings
from openclaw_mem_engine.config.rules import is_uri
from openclaw_mem_engine.config.secret import shown
from openclaw_mem_engine.config.settings import (
    DEFAULT_ORIGIN,
    ChunkingSettings,
    OpenClawFacts,
    Origin,
    ProviderSettings,
    QuerySettings,
    Settings,
)
from openclaw_mem_engine.config.shared_keys import SharedKeys
from openclaw_mem_engine.config.sources import (
    UserFolders,
    environment_layer,
    find_openclaw,
    flag_layer,
    is_there,
    own_config_file,
    own_layer,
    user_folders,
)
from openclaw_mem_engine.config.store import workspace_key
from openclaw_mem_engine.errors import ConfigError, UsageError
from openclaw_mem_engine.ranking.knob_spec import KnobValue

DEFAULT_AGENT = "main"
#: The user's editor when no setting names one; shared with other programs, so last.
EDITOR_VARIABLES = ("VISUAL", "EDITOR")
_AGENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_Group = TypeVar("_Group", RerankSettings, ExpansionSettings, FlushSettings)


def load_settings(
    *,
    workspace: Path | None = None,
    config: Path | None = None,
    agent: str | None = None,
    provider: str | None = None,
    profile: str | None = None,
    include: Sequence[str] = (),
    environ: Mapping[str, str],
    home: Path,
    cwd: Path,
    folders: UserFolders | None = None,
    own_keys: Collection[str] = (),
    creates_own_file: bool = False,
) -> Settings:
    """The settings in effect. The first six are flags (``--workspace`` …, ``--config`` names an
    ``openclaw.json``); ``environ``, ``home`` and ``cwd`` are those of the process or replace them.
    ``folders`` holds our data and ``config.toml`` unless the environment names others; None means the folders
    of this process's user. ``own_keys``: of ``config.toml`` only these are read, and no other is checked.
    With ``creates_own_file`` a ``config.toml`` that the environment names need not exist.

    Reads at most four files (ours, OpenClaw's, two with its keys) and writes nothing. Raises ConfigError for
    a file or variable that cannot be used, UsageError for such a flag.
    """
    flags = flag_layer(
        {"--workspace": workspace, "--agent": agent, "--provider": provider, "--profile": profile}
    )
    variables = environment_layer(environ)
    own_file, is_read = own_config_file(
        environ, home, cwd, folders.config if folders else None, is_created=creates_own_file
    )
    own = own_layer(own_file, environ, own_keys) if is_read else {}
    openclaw = OpenClawConfig(find_openclaw(config, environ, home, cwd), environ)

    agent_id, agent_origin = _agent(merged([own, variables, flags]), openclaw)
    theirs, store = openclaw.memory_layer(agent_id)
    layers = [theirs, own, variables, flags]
    if include:  # besides what is configured, not instead of it
        configured = merged(layers).get("extra_paths")
        both = (*(configured.value if configured else ()), *include)
        flags["extra_paths"] = Entry(both, Origin("flag", "--include"))
    chosen = Chosen(merged(layers), openclaw.environ, home, cwd, openclaw.notes)
    unflagged = Chosen(merged(layers[:-1]), openclaw.environ, home, cwd, [])
    chosen.origins["agent"] = agent_origin
    folder = _workspace(chosen, openclaw, agent_id, cwd)
    state_dir = openclaw.location.state_dir
    data_dir = chosen.path("data_dir") or (folders or user_folders()).data
    for foreign, what in ((state_dir, "OpenClaw's folder"), (folder, "the workspace")):
        if lies_in(data_dir, foreign):
            # Nothing of ours is ever written where notes or OpenClaw's own state are.
            raise ConfigError(
                f"The data folder {data_dir} ({chosen.origins['data_dir'].where}) is in {what} {foreign}. "
                f"Name a folder outside of it in OPENCLAW_MEM_HOME."
            )
    if not (enabled := _has_memory(chosen)):
        text = (
            f"{chosen.origins['enabled'].where} switches memory search off for the agent: its tools refuse."
        )
        chosen.note("memory-off", f"{text} Commands still work.")
    local = local_model(chosen, (state_dir, folder))
    if agent_origin != DEFAULT_ORIGIN and openclaw.agent(agent_id) is None:
        from openclaw_mem_engine.config.agents import note_agent

        note_agent(chosen, openclaw, agent_id, data_dir, folder)
    facts, qmd = _facts(openclaw, agent_id, store, chosen, cwd, folder), qmd_settings(chosen)
    return chosen.group(
        Settings,
        "",
        workspace=folder,
        agent=agent_id,
        data_dir=data_dir,
        index_path=_index_path_of(facts.backend, qmd)(data_dir, folder, agent_id),
        own_file=own_file,
        openclaw=facts,
        enabled=enabled,
        sources=chosen.value("sources") or ("memory",),
        extra_paths=_extra_paths(chosen, home),
        editor=_editor(chosen, environ),
        chunking=_chunking(chosen),
        provider=ProviderResolver(layers, openclaw, chosen, SharedKeys(openclaw, agent_id), local).resolve(),
        query=_query(chosen),
        rerank=_model(chosen, RerankSettings, "rerank"),
        expansion=_model(chosen, ExpansionSettings, "expansion"),
        qmd=qmd,
        store=store_settings(
            chosen, agent_id, folder, lambda: _workspace(unflagged, openclaw, agent_id, cwd)
        ),
        flush=_model(chosen, FlushSettings, "flush"),
        origins=MappingProxyType(chosen.origins),
        warnings=tuple(chosen.notes),
    )


def _has_memory(chosen: Chosen) -> bool:
    """Whether memory search is on for the agent; a slot without a plug-in switches it off."""
    enabled, slot = bool(chosen.value("enabled")), chosen.value("plugin.slot")
    origin = chosen.origins["plugin.slot"]
    if slot == NO_PLUGIN:
        chosen.origins["enabled"] = origin
    elif slot not in (CORE, STORE):
        text = f"{origin.where} is {shown(slot)}, which is not known here: notes are searched."
        chosen.note("plugin-unknown", text)
    return enabled and slot != NO_PLUGIN


def with_backend(settings: Settings, backend: str, *, in_process: bool = False) -> Settings:
    """The same settings for another backend, with the index of that one. ``in_process``: without the external
    program. No configuration is changed."""
    qmd = replace(settings.qmd, command=None) if in_process else settings.qmd
    path = _index_path_of(backend, qmd)(settings.data_dir, settings.workspace, settings.agent)
    facts = replace(settings.openclaw, backend=backend, switched=True)
    return replace(settings, openclaw=facts, qmd=qmd, index_path=path)


def _index_path_of(backend: str, qmd: QmdSettings) -> Callable[[Path, Path, str], Path]:
    return qmd_index_path if backend == "qmd" and qmd.command is None else index_path


def index_path(data_dir: Path, workspace: Path, agent: str) -> Path:
    """``<data_dir>/indexes/<folder name>-<8 hex of the real path's SHA-256>/<agent>.sqlite``. The hash keeps
    workspaces of the same name apart; links to one workspace share its index."""
    return data_dir / "indexes" / workspace_key(workspace) / f"{agent}.sqlite"


def qmd_index_path(data_dir: Path, workspace: Path, agent: str) -> Path:
    """The index of the QMD backend in process: ``<data_dir>/qmd/<as above>/<agent>/index.sqlite``."""
    usual = index_path(data_dir, workspace, agent)
    return data_dir / "qmd" / usual.parent.name / agent / "index.sqlite"


def lies_in(path: Path, folder: Path) -> bool:
    """True for the folder itself and everything below it, whatever links lead there."""
    real, outer = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    return real == outer or outer in real.parents


def local_model(chosen: Chosen, foreign: Sequence[Path]) -> ProviderSettings:
    """What is configured of the local model. A folder for downloads inside of one of ``foreign`` is refused
    with a note: nothing of ours is written there. Raises ConfigError."""
    key = "provider.local_model_path"
    model = chosen.text(key)
    if model is not None and not is_uri(model):
        model = str(chosen.absolute(key, model))
    key = "provider.local_model_cache_dir"
    folder = chosen.path(key)
    if refusing := next((taken for taken in foreign if folder and lies_in(folder, taken)), None):
        text = f"is in {refusing}, where openclaw-mem writes nothing: models are kept in the data folder."
        chosen.note("model-folder-refused", f"{chosen.origins[key].where} {text}")
        chosen.origins[key] = DEFAULT_ORIGIN
        folder = None
    found = model is not None and os.path.isfile(model)  # noqa: PTH113 (Path raises for a name too long)
    return ProviderSettings(
        local_model_path=model, local_model_cache_dir=str(folder) if folder else None, local_model_found=found
    )


def _agent(ours: Layer, openclaw: OpenClawConfig) -> tuple[str, Origin]:
    """The agent's id in lower case, as OpenClaw names its folders. It becomes a file name: be strict."""
    name, origin = DEFAULT_AGENT, DEFAULT_ORIGIN
    if entry := ours.get("agent"):
        name, origin = str(entry.value), entry.origin
    elif agent := openclaw.default_agent:
        name, origin = agent.id, Origin("openclaw", openclaw.where(f"{agent.where}.id"))
    if not _AGENT_ID.fullmatch(name):
        kind = UsageError if origin.kind == "flag" else ConfigError
        raise kind(f"{origin.where} is {name[:80]!r}; allowed: 1 to 64 letters, digits, - and _.")
    return name.lower(), origin


def _workspace(chosen: Chosen, openclaw: OpenClawConfig, agent_id: str, cwd: Path) -> Path:
    if (folder := chosen.path("workspace")) is not None:
        return folder
    default_agent = openclaw.default_agent
    is_default = agent_id == (default_agent.id.lower() if default_agent else DEFAULT_AGENT)
    entry = openclaw.workspace(agent_id, is_default)
    if entry is None:
        return openclaw.location.state_dir / ("workspace" if is_default else f"workspace-{agent_id}")
    chosen.origins["workspace"] = entry.origin
    return absolute(chosen.filled(entry), cwd, openclaw.location.home)


def _facts(
    openclaw: OpenClawConfig, agent_id: str, store: Entry | None, chosen: Chosen, cwd: Path, workspace: Path
) -> OpenClawFacts:
    location = openclaw.location
    path = location.state_dir / "memory" / f"{agent_id}.sqlite"
    if store is not None:
        text = chosen.filled(store).strip().replace("{agentId}", agent_id)
        path = absolute(text, cwd, location.home) if text else path
    # A workspace beside the folder of its agents (the demo, a copy of ~/.openclaw) has its own sessions.
    sessions = Path("agents", agent_id, "sessions")
    beside = workspace.parent / sessions
    return OpenClawFacts(
        config_file=location.config_file,
        state_dir=location.state_dir,
        store_path=path,
        sessions_dir=beside if is_there(beside) else location.state_dir / sessions,
        backend=openclaw.backend,
        ignored=tuple(openclaw.ignored),
        agents=tuple(agent.id.lower() for agent in openclaw.agents if _AGENT_ID.fullmatch(agent.id)),
    )


def _extra_paths(chosen: Chosen, home: Path) -> tuple[str, ...]:
    """Extra paths as written, ``~/`` apart. The home folder itself, or one above it, is never memory."""
    kept: list[str] = []
    for text in dict.fromkeys(str(path).strip() for path in chosen.value("extra_paths")):
        path = absolute(text, Path("/"), home) if text.startswith(("~/", "/")) or text == "~" else None
        if path is not None and (path == home or path in home.parents):
            where = chosen.origins["extra_paths"].where
            reason = f"{where}: {text!r} is the home folder or above it, and is excluded."
            chosen.note("extra-path-refused", reason)
        elif text:
            kept.append(str(path) if path is not None and text.startswith("~") else text)
    return tuple(kept)


def _chunking(chosen: Chosen) -> ChunkingSettings:
    found = chosen.group(ChunkingSettings, "chunking")
    tokens, overlap = found.tokens, found.overlap
    if overlap < tokens:
        return found
    # Two sources may each be right and not fit together, so this is a clamp and not an error.
    text = f"An overlap of {overlap} tokens does not fit into chunks of {tokens}; {tokens - 1} is used."
    chosen.note("overlap-clamped", text)
    return ChunkingSettings(tokens, tokens - 1)


def _query(chosen: Chosen) -> QuerySettings:
    given: dict[str, KnobValue] = {}
    for name, known in KNOB_SETTINGS.items():
        if (value := chosen.value(f"query.{name}")) is not None:
            # OpenClaw accepts values that the ranking does not.
            where = chosen.origins[f"query.{name}"].where
            given[name] = cast(KnobValue, known.rule.check(value, where))
    return QuerySettings(chosen.value("query.profile"), MappingProxyType(given))


def _model(chosen: Chosen, kind: type[_Group], prefix: str) -> _Group:
    """A model beside the embedders. Raises ConfigError for one that cannot be asked as it is configured."""
    found = chosen.group(kind, prefix)
    url, model = f"{prefix}.base_url", chosen.text(f"{prefix}.model")
    address = checked_url(chosen.text(url) or "", chosen.origins[url].where)
    where = chosen.origins[f"{prefix}.provider"].where
    if found.provider == "local" and model is not None and not is_uri(model):
        model = str(chosen.absolute(f"{prefix}.model", model))
    if found.provider == "openai" and model is None:
        raise ConfigError(f"{where} is openai, which has no default: name a model in {prefix}.model.")
    if found.provider == "http" and address is None:
        raise ConfigError(f"{where} is http: name the address of the endpoint in {prefix}.base_url.")
    return replace(found, model=model, base_url=address)


def _editor(chosen: Chosen, environ: Mapping[str, str]) -> str | None:
    """Ours (variable or file) first; ``$VISUAL`` and ``$EDITOR``, meant for every program, last."""
    if (editor := chosen.text("editor")) is not None:
        return editor
    for variable in EDITOR_VARIABLES:
        if text := environ.get(variable, "").strip():
            chosen.origins["editor"] = Origin("env", f"env {variable}")
            return text
    return None
