"""Whose memory it is: the agent that is asked for, and whether there is such an agent."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.config.layers import Chosen, Layer
from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.settings import DEFAULT_ORIGIN, Origin
from openclaw_mem_engine.config.store import workspace_key
from openclaw_mem_engine.errors import ConfigError, UsageError, did_you_mean

DEFAULT_AGENT = "main"
AGENT_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAMED = 5


def agent_of(ours: Layer, openclaw: OpenClawConfig) -> tuple[str, Origin]:
    """The agent's id in lower case, as OpenClaw names its folders. It becomes a file name: be strict."""
    name, origin = DEFAULT_AGENT, DEFAULT_ORIGIN
    if entry := ours.get("agent"):
        name, origin = str(entry.value), entry.origin
    elif agent := openclaw.default_agent:
        name, origin = agent.id, Origin("openclaw", openclaw.where(f"{agent.where}.id"))
    if not AGENT_ID.fullmatch(name):
        kind = UsageError if origin.kind == "flag" else ConfigError
        raise kind(f"{origin.where} is {name[:80]!r}; allowed: 1 to 64 letters, digits, - and _.")
    return name.lower(), origin


def note_agent(
    chosen: Chosen, openclaw: OpenClawConfig, agent_id: str, data_dir: Path, workspace: Path
) -> None:
    """Say so when an agent is probably mistyped: it is not among those of the configuration; or, where that
    names none, it has no index of the workspace and others have one."""
    is_asked, in_files = chosen.origins["agent"] != DEFAULT_ORIGIN, chosen.value("store.kind") == "sqlite"
    if openclaw.agents:
        ids = [agent.id for agent in openclaw.agents]
        is_known = openclaw.agent(agent_id) is not None
        text = f"No agent {agent_id} is configured in {openclaw.location.config_file}. Its agents: "
    else:
        ids = _indexed_agents(data_dir, workspace) if is_asked and in_files else []
        is_known = not ids or agent_id in ids
        text = f"Agent {agent_id} has no index of {workspace} yet. Agents that have one: "
    if not is_known:
        more = f" and {len(ids) - _NAMED} more" if ids[_NAMED:] else ""
        text += f"{', '.join(ids[:_NAMED])}{more}.{did_you_mean(agent_id, ids)}"
        chosen.note("agent-unlisted", text)


def _indexed_agents(data_dir: Path, workspace: Path) -> list[str]:
    """The agents with an index of the workspace on this machine."""
    names: list[str] = []
    for kind in ("indexes", "qmd"):
        with suppress(OSError):
            names += [path.name for path in (data_dir / kind / workspace_key(workspace)).iterdir()]
    found = {name.removesuffix(".sqlite") for name in names}
    return sorted(name for name in found if AGENT_ID.fullmatch(name))
