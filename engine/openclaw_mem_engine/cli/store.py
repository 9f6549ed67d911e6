"""``openclaw-mem store``: the servers that hold indexes instead of a file."""

from __future__ import annotations

import os
from argparse import Namespace

from openclaw_mem_engine.cli.opening import settings_of
from openclaw_mem_engine.cli.terminal import one_line, show
from openclaw_mem_engine.errors import UsageError

#: The addresses of the roles that own the tables, in the order of the servers; never an argument, which
#: other users of the host could read.
OWNER_VARIABLE = "OPENCLAW_MEM_STORE_OWNER"


def init(arguments: Namespace) -> int:
    """Make or update tables, policies and rights on every server of the settings."""
    from openclaw_mem_engine.config.secret import Secret
    from openclaw_mem_engine.stores.postgres.installing import install

    settings = settings_of(arguments)
    servers, owners = settings.store.servers, os.environ.get(OWNER_VARIABLE, "").split()
    if settings.store.kind != "postgres":
        raise UsageError(
            "store.kind is sqlite: an index in a file needs no tables. For indexes on servers set store.kind "
            "to postgres, and name them in store.servers."
        )
    if len(owners) != len(servers):
        raise UsageError(
            f"{OWNER_VARIABLE} holds {len(owners)} addresses for {len(servers)} servers: name the role that "
            "owns the tables of each, between spaces. It may be another than the one of store.servers."
        )
    done = [install(Secret(owner), server) for owner, server in zip(owners, servers, strict=True)]
    data = {"servers": [{"server": server, "role": role} for server, role in done]}
    lines = [f"{one_line(at)}: the tables are there; {one_line(role)} may use them." for at, role in done]
    show(data, lines, as_json=arguments.json)
    return 0
