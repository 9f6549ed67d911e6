"""Where the index is kept: in a file of this host, or in PostgreSQL servers, each of which has some of 480
logical shards. An agent's shard follows from its name for good; which server has it is configuration."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from openclaw_mem_engine.config.rules import Rule, setting
from openclaw_mem_engine.config.secret import Secret, printable, shown
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ConfigError

if TYPE_CHECKING:
    from openclaw_mem_engine.config.layers import Chosen

SHARDS = 480
_NAME = r"[^\s\x00-\x1f][^\x00-\x1f]{0,199}"
#: Stricter than the driver: after a raw sign of these in the password, its rest would be shown as the host.
_ADDRESS = r"postgres(ql)?://([^\s/?#@\[\]]*@)?[^\s@#]+"


class StoreLocation(NamedTuple):
    """Where a store that is no local file keeps an index: its server, the agent's name there, and the logical
    shard of the agent."""

    server: Secret
    agent: str
    shard: int
    servers: tuple[Secret, ...] = ()  # all: the agent may have been moved to one of them

    @property
    def shown(self) -> str:
        """For people: the server, and the agent there."""
        return f"{server_name(self.server)}, agent {self.agent}, shard {self.shard} of {SHARDS}"


def server_name(server: Secret) -> str:
    """An address for people: host, or folder of the socket, port and database; no user, password, options."""
    from urllib.parse import parse_qs, unquote, urlsplit

    if not server.available:
        return "a server whose address is not known"
    parts = urlsplit(server.reveal())
    options = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    host = options.get("host") or unquote(parts.netloc.rpartition("@")[2]) or "local socket"
    if host.startswith("/"):
        host = f"socket {host}"
    if not re.search(r":\d+$", host):
        host += f":{options.get('port', '5432')}"
    return printable(f"{host}/{options.get('dbname') or unquote(parts.path[1:])}".rstrip("/"))


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """``location`` is None for an index in a file."""

    kind: Literal["sqlite", "postgres"] = setting(
        Rule("text", choices=("sqlite", "postgres")),
        "what holds the index: a file of this host, or PostgreSQL servers",
        "sqlite",
        variable="OPENCLAW_MEM_STORE",
    )
    servers: tuple[Secret, ...] = setting(
        Rule("secrets", unit="postgresql://user:password@host/database"),
        "addresses of the servers",
        (),
        variable="OPENCLAW_MEM_STORE_SERVERS",
    )
    agent: str | None = setting(
        Rule("text"),
        "the agent's name on the servers, unique among all agents; `{agent}` becomes its id, `{workspace}` a "
        "name of its folder",
        variable="OPENCLAW_MEM_STORE_AGENT",
    )
    shards: tuple[str, ...] = setting(
        Rule("texts", unit="such as 0-239 or 0-99,300-479"),
        "which of the 480 shards each server has, in the order of the servers",
        (),
    )
    location: StoreLocation | None = None
    per_agent: bool = False  # store.agent holds {agent}


def workspace_key(workspace: Path) -> str:
    """``<folder name>-<8 hex of the real path's SHA-256>``: no two workspaces of a host share it."""
    real = os.path.realpath(workspace)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:8]
    slug = re.sub(r"[^a-z0-9]+", "-", Path(real).name.lower()).strip("-")[:32] or "workspace"
    return f"{slug}-{digest}"


def _is_another(workspace: Path, own: Path) -> bool:
    """Whether the agent has a workspace of its own, and this is another."""
    is_there = os.path.isdir(own)  # noqa: PTH112 (Path raises where it may not look)
    return is_there and workspace_key(own) != workspace_key(workspace)


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


def check_address(server: Secret, which: str) -> None:
    """Raises ConfigError, with ``which`` and without the text, unless it is an address as a URL."""
    if not re.fullmatch(_ADDRESS, server.reveal()):
        raise ConfigError(
            f"{which} is no address: write postgresql://user:password@host/database, with special characters "
            "of the password as %40 and the like."
        )


def shard_of(agent: str) -> int:
    """The logical shard of an agent, 0 to 479."""
    return int.from_bytes(hashlib.sha256(agent.encode()).digest()[:8], "big") % SHARDS


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
                    f"{where}: {shown(part)} is no range of shards; allowed: 0 to {SHARDS - 1}."
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
