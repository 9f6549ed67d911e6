"""Where the index is kept: in a file of this host, or in PostgreSQL servers, each of which has some of 480
logical shards. An agent's shard follows from its name for good; which server has it is configuration."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import Literal

from openclaw_mem_engine.config.rules import Rule, setting
from openclaw_mem_engine.config.secret import Secret, printable
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import ConfigError
from openclaw_mem_engine.named_tuple import NamedTuple

SHARDS = 480
#: Stricter than the driver: after a raw sign of these in the password, its rest would be shown as the host.
_ADDRESS = r"postgres(ql)?://([^\s/?#@\[\]]*@)?[^\s@#]+"


class StoreLocation(NamedTuple):
    """Where a store that is no local file keeps an index: its server, the agent's name there, and the logical
    shard of the agent."""

    server: Secret
    agent: str
    shard: int
    servers: tuple[Secret, ...] = ()  # all: another may have had the shard before

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


def check_address(server: Secret, which: str) -> None:
    """Raises ConfigError, with ``which`` and without the text, unless it is an address as a URL."""
    if not re.fullmatch(_ADDRESS, server.reveal()):
        raise ConfigError(
            f"{which} is not an address: write postgresql://user:password@host/database, with special "
            "characters of the password as %40 and the like."
        )


def shard_of(agent: str) -> int:
    """The logical shard of an agent, 0 to 479."""
    return int.from_bytes(hashlib.sha256(agent.encode()).digest()[:8], "big") % SHARDS
