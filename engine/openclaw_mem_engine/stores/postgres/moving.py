"""Moving one agent's rows to another server. Which server has them is said by the agent's row on the server
of its shard, so that all hosts see the move at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.config.store import StoreLocation, server_name
from openclaw_mem_engine.errors import IndexChanged
from openclaw_mem_engine.stores.postgres.connections import Connections
from openclaw_mem_engine.stores.postgres.schema import NAME, TABLES, agent_number, opening
from openclaw_mem_engine.stores.postgres.session import MovedInCircle
from openclaw_mem_engine.stores.postgres.store import PostgresIndex
from openclaw_mem_engine.stores.postgres.writing import LOCK_TIMEOUT_MS, WRITE_TIMEOUT_MS

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.postgres.connections import Connection

_GENERATION = f"""SELECT g.generation FROM {NAME}.agents a
    JOIN {NAME}.generations g ON g.agent = a.agent AND g.gen = a.live WHERE a.agent = %s"""


def where(path: Path, home: StoreLocation) -> StoreLocation:
    """The server that has the rows of an agent now, which the map of shards keeps at ``home``. It is ``home``
    where a move to it was killed before its last step: the copy there is whole."""
    try:
        with closing(PostgresIndex(path, location=home)) as store:
            return store._at
    except MovedInCircle:
        return home


def opened(path: Path, at: StoreLocation) -> PostgresIndex:
    """The rows on this very server, also when they are not those in use."""
    return PostgresIndex(path, location=at, follows=False)


def switch(home: StoreLocation, source: StoreLocation, target: StoreLocation, generation: int) -> None:
    """Let all hosts use the rows on ``target`` from now on, unless those on ``source`` are of another
    ``generation`` than was copied. At no time two servers have rows that hosts use: where ``target`` is the
    home, both point to each other until the last step. Raises IndexChanged, IndexUnavailable."""
    agent = agent_number(source.agent)
    to_home = server_name(target.server) == server_name(home.server)
    with _row(source) as old:
        if old.execute(_GENERATION, (agent,)).fetchone() != (generation,):
            raise IndexChanged(
                f"The index at {source.shown} was written to while it was copied. It is in use as before: "
                "run it again."
            )
        with _row(target) as new:
            # What programs keep in memory of one generation must not be taken for that of another.
            sql = f"UPDATE {NAME}.generations SET generation = greatest(generation, %s) WHERE agent = %s"
            new.execute(sql, (generation + 1, agent))
            if not to_home:  # no host looks there before the source points there
                _point(new, agent, None)
        _point(old, agent, target)
    if to_home or server_name(home.server) != server_name(source.server):
        with _row(home) as row:
            _point(row, agent, None if to_home else target)


def finish(at: StoreLocation) -> list[str]:
    """Do what is left of a move to ``at`` that was killed. Returns the servers that had the index before,
    for people: none when nothing was left."""
    others = [other for other in at.servers if server_name(other) != server_name(at.server)]
    with _row(at) as row:
        sql = (
            f"UPDATE {NAME}.agents SET moved_to = NULL WHERE agent = %s AND moved_to IS NOT NULL RETURNING 1"
        )
        ended = row.execute(sql, (agent_number(at.agent),)).fetchall()
    copies = [at._replace(server=other) for other in others]
    left = [copy.shown for copy in copies if remove(copy)]
    return left or [copy.shown for copy in copies if ended]


def remove(at: StoreLocation) -> int:
    """Remove the rows of an agent that is used elsewhere now; what says where stays. Returns their number."""
    with _row(at) as row:
        sql = f"DELETE FROM {NAME}.{{}} WHERE agent = %s"
        others = (table for table in TABLES if table != "agents")
        return sum(row.execute(sql.format(table), (agent_number(at.agent),)).rowcount for table in others)


def _point(row: Connection, agent: int, to: StoreLocation | None) -> None:
    name = None if to is None else server_name(to.server)
    row.execute(f"UPDATE {NAME}.agents SET moved_to = %s WHERE agent = %s", (name, agent))


@contextmanager
def _row(at: StoreLocation) -> Iterator[Connection]:
    """A transaction on this server that has locked the agent's row."""
    agent = agent_number(at.agent)
    begin = f"""{opening(agent, "", WRITE_TIMEOUT_MS, LOCK_TIMEOUT_MS)}
        SELECT 1 FROM {NAME}.agents WHERE agent = {agent:d} FOR UPDATE"""
    connections = Connections(at.server)
    with closing(connections), connections.transaction(begin, lambda _: None) as (connection, _):
        yield connection
