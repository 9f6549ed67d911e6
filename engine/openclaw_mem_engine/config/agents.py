"""What is said of an agent that is probably mistyped."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from openclaw_mem_engine.config.layers import Chosen
from openclaw_mem_engine.config.openclaw import OpenClawConfig
from openclaw_mem_engine.config.store import workspace_key
from openclaw_mem_engine.errors import did_you_mean

_NAMED = 5


def note_agent(
    chosen: Chosen, openclaw: OpenClawConfig, agent_id: str, data_dir: Path, workspace: Path
) -> None:
    """Say so when an agent that was asked for is not among those of the configuration; or, where that names
    none, has no index of the workspace while others have one."""
    if openclaw.agents:
        ids = [agent.id for agent in openclaw.agents]
        is_known = openclaw.agent(agent_id) is not None
        text = f"No agent {agent_id} is configured in {openclaw.location.config_file}. Its agents: "
    else:
        ids = _indexed_agents(data_dir, workspace) if chosen.value("store.kind") == "sqlite" else []
        is_known = not ids or agent_id in ids
        text = f"Agent {agent_id} has no index of {workspace} yet. Agents that have one: "
    if not is_known:
        more = f" and {len(ids) - _NAMED} more" if ids[_NAMED:] else ""
        text += f"{', '.join(ids[:_NAMED])}{more}.{did_you_mean(agent_id, ids)}"
        chosen.note("agent-unknown", text)


def _indexed_agents(data_dir: Path, workspace: Path) -> list[str]:
    """The agents with an index of the workspace on this machine."""
    names: list[str] = []
    for kind in ("indexes", "qmd"):
        with suppress(OSError):
            names += [path.name for path in (data_dir / kind / workspace_key(workspace)).iterdir()]
    found = {name.removesuffix(".sqlite") for name in names}
    return sorted(name for name in found if re.fullmatch(r"[\w-]+", name))
