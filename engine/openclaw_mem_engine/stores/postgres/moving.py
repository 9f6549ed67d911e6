"""Moving one agent's rows to another server, and removing them from all. Which server has them is said by the
agent's row on the server of its shard, so that all hosts see the move at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from openclaw_mem_engine.config.store import StoreLocation, server_name
from openclaw_mem_engine.errors import IndexChanged
from openclaw_mem_engine.stores.postgres.schema import NAME, SIZES, TABLES
from openclaw_mem_engine.stores.postgres.session import AgentRows, MovedInCircle, Transaction
from openclaw_mem_engine.stores.postgres.store import PostgresIndex
from openclaw_mem_engine.stores.postgres.turns import Turns


class Held(NamedTuple):
    """What one server has of an agent, in all its generations. ``words`` are rows, two a chunk."""

    server: str
    files: int
    chunks: int
    words: int
    embeddings: int
    bytes: int


def where(home: StoreLocation) -> StoreLocation:
    """The server that has the rows of an agent now, which the map of shards keeps at ``home``. It is ``home``
    where a move to it was killed before its last step: the copy there is whole."""
    try:
        with closing(AgentRows(home)) as rows, rows.reading():
            return rows.at
    except MovedInCircle:
        return home


def opened(path: Path, at: StoreLocation) -> PostgresIndex:
    """The rows on this very server, also when they are not those in use."""
    return PostgresIndex(path, location=at, follows=False)


def switch(home: StoreLocation, source: StoreLocation, target: StoreLocation, generation: int) -> None:
    """Let all hosts use the rows on ``target`` from now on, unless those on ``source`` are of another
    ``generation`` than was copied. At no time two servers have rows that hosts use: where ``target`` is the
    home, both point to each other until the last step. Raises IndexChanged, IndexUnavailable."""
    to_home = server_name(target.server) == server_name(home.server)
    with _row(source) as old:
        if old.facts.name is None or old.facts.generation != generation:
            raise IndexChanged(
                f"The index at {source.shown} was written to while it was copied. It is in use as before: "
                "run it again."
            )
        with _row(target) as new:
            # What programs keep in memory of one generation must not be taken for that of another.
            new.execute(
                f"""UPDATE {NAME}.generations SET generation = greatest(generation, %(next)s)
                WHERE agent = %(agent)s""",
                next=generation + 1,
            )
            if not to_home:  # no host looks there before the source points there
                _point(new, None)
        _point(old, target)
    if to_home or server_name(home.server) != server_name(source.server):
        with _row(home) as row:
            _point(row, None if to_home else target)


def finish(at: StoreLocation) -> list[str]:
    """Do what is left of a move to ``at`` that was killed. Returns the servers that had the index before,
    for people: none when nothing was left."""
    others = [other for other in at.servers if server_name(other) != server_name(at.server)]
    with _row(at) as row:
        ended = row.facts.moved_to is not None
        _point(row, None)
    copies = [at._replace(server=other) for other in others]
    left = [copy.shown for copy in copies if remove(copy)]
    return left or [copy.shown for copy in copies if ended]


def remove(at: StoreLocation) -> int:
    """Remove the rows of an agent that is used elsewhere now; what says where stays. Returns their number."""
    with _row(at) as row:
        return sum(_delete(row, table) for table in TABLES if table != "agents")


def held(home: StoreLocation) -> list[tuple[StoreLocation, Held]]:
    """The servers that have something of an agent, that with the rows in use first. Raises IndexUnavailable
    unless all of them answer."""
    used, found = where(home), []
    for server in dict.fromkeys((used.server, *home.servers)):
        at = home._replace(server=server)
        with closing(AgentRows(at, follows=False)) as rows, rows.reading() as read:
            if read.facts.name is not None:
                sizes = {table: (number, size) for table, number, size in read.rows(SIZES)}
                numbers = (sizes[table][0] for table in ("files", "chunks", "terms", "vectors"))
                total = sum(size for _, size in sizes.values())
                found.append((at, Held._make((server_name(server), *numbers, total))))
    return found


def forget(at: StoreLocation) -> None:
    """Remove all that a server has of an agent, also its name. Raises IndexLocked while a host syncs it."""
    with closing(AgentRows(at, follows=False)) as rows, Turns(rows).writing(bump=False) as write:
        for table in TABLES:
            _delete(write, table)


def _delete(row: Transaction, table: str) -> int:
    return int(row.execute(f"DELETE FROM {NAME}.{table} WHERE agent = %(agent)s").rowcount)


def _point(row: Transaction, to: StoreLocation | None) -> None:
    name = None if to is None else server_name(to.server)
    row.execute(f"UPDATE {NAME}.agents SET moved_to = %(name)s WHERE agent = %(agent)s", name=name)


@contextmanager
def _row(at: StoreLocation) -> Iterator[Transaction]:
    """A transaction on this server that has locked the agent's row."""
    with closing(AgentRows(at, follows=False)) as rows, rows.locked() as row:
        yield row
