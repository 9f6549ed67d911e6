"""Removing one agent's rows from all servers."""

from __future__ import annotations

from contextlib import closing

from openclaw_mem_engine.config.store import StoreLocation, server_name
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.stores.postgres.schema import NAME, SIZES, TABLES
from openclaw_mem_engine.stores.postgres.session import AgentRows
from openclaw_mem_engine.stores.postgres.turns import Turns


class Held(NamedTuple):
    """What one server has of an agent, in all its generations. ``words`` are rows, two a chunk."""

    server: str
    files: int
    chunks: int
    words: int
    embeddings: int
    bytes: int


def held(home: StoreLocation) -> list[tuple[StoreLocation, Held]]:
    """The servers that have something of an agent, that of its shard first: another one has what was there
    before the map of shards was changed. Raises IndexUnavailable unless all of them answer."""
    found = []
    for server in dict.fromkeys((home.server, *home.servers)):
        at = home._replace(server=server)
        with closing(AgentRows(at)) as rows, rows.reading() as read:
            if read.facts.name is not None:
                sizes = {table: (number, size) for table, number, size in read.rows(SIZES)}
                numbers = (sizes[table][0] for table in ("files", "chunks", "terms", "vectors"))
                total = sum(size for _, size in sizes.values())
                found.append((at, Held._make((server_name(server), *numbers, total))))
    return found


def forget(at: StoreLocation) -> None:
    """Remove all that a server has of an agent, also its name. Raises IndexLocked while a host syncs it."""
    with closing(AgentRows(at)) as rows, Turns(rows).writing(bump=False) as write:
        for table in TABLES:
            write.execute(f"DELETE FROM {NAME}.{table} WHERE agent = %(agent)s")
