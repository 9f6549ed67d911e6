"""Transactions over one agent's rows, each of which sees one state."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.config.store import StoreLocation
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.stores.base import Fingerprint
from openclaw_mem_engine.stores.postgres.connections import Connections
from openclaw_mem_engine.stores.postgres.schema import NAME, agent_number, opening

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.postgres.connections import Connection, Row

#: How long one statement of a search may take, milliseconds.
SEARCH_TIMEOUT_MS = 30_000
#: How long a writer waits for another one, and how long one of its statements may take, milliseconds.
LOCK_TIMEOUT_MS, WRITE_TIMEOUT_MS = 5_000, 300_000
_SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
#: The condition for rows of the generation that a transaction reads.
OWN = "agent = %(agent)s AND gen = %(gen)s"
#: The condition for vectors that it may use: none of the space that it makes anew.
USABLE = "(pending = %(gen)s OR (pending = 0 AND space IS DISTINCT FROM %(without)s))"


class Facts(NamedTuple):
    """What is known of the generation that is read: its number, the counter of its changes, and the rest."""

    gen: int = 0
    generation: int = 0
    fingerprint: str | None = None
    synced_at: float | None = None
    name: str | None = None


class Transaction:
    """Statements that see one state. ``%(agent)s``, ``%(gen)s`` and ``%(without)s`` are bound in each."""

    def __init__(
        self, rows: AgentRows, connections: Connections, connection: Connection, facts: Facts
    ) -> None:
        self.facts, self.agent, self.failed = facts, rows.agent, False
        self._without = None if rows.without is None else json.dumps(rows.without)
        self._connections, self._connection = connections, connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            with self._connections.explained(self._connection):
                yield
        except BaseException:
            self.failed = True  # the server ends a transaction with its first error
            raise

    def execute(self, sql: str, **bound: Any) -> Any:
        """A cursor. ``sql`` holds no text of users: that is bound."""
        named = {"agent": self.agent, "gen": self.facts.gen, "without": self._without, **bound}
        with self._explained():
            return self._connection.execute(sql, named)

    def rows(self, sql: str, **bound: Any) -> list[Row]:
        found: list[Row] = self.execute(sql, **bound).fetchall()
        return found

    def one(self, sql: str, **bound: Any) -> Any:
        """The first value of the first row."""
        return self.rows(sql, **bound)[0][0]

    def insert(self, into: str, rows: Sequence[Row], more: str = "") -> None:
        """Rows of ``into``, which names a table and columns; ``more``: what comes after the values."""
        if rows:
            sql = f"INSERT INTO {NAME}.{into} VALUES ({', '.join(['%s'] * len(rows[0]))}) {more}"
            with self._explained(), self._connection.cursor() as cursor:
                cursor.executemany(sql, rows)

    @property
    def primary(self) -> Space:
        """The primary space; one without vectors in an index that was never begun."""
        known = self.facts.fingerprint
        return Space("", "", "") if known is None else Fingerprint.from_json(known).space

    def of_space(self, space: Space | None) -> dict[str, Any]:
        """What is bound for the vectors of a space, None for the primary one: its key, and the generation to
        which they belong here, 0 for all."""
        key = json.dumps(space or self.primary)
        return {"space": key, "pending": self.facts.gen if key == self._without else 0}


class AgentRows:
    """The rows of one agent. ``gen`` None means the live generation, whichever that is in each transaction;
    ``without`` is a space that this generation makes anew. Opening makes and changes nothing."""

    def __init__(self, at: StoreLocation, *, gen: int | None = None, without: Space | None = None) -> None:
        self.at, self.gen, self.without = at, gen, without
        self.agent = agent_number(at.agent)
        self._connections = Connections(at.server)
        self._local = threading.local()

    def _facts_sql(self) -> str:
        gen = "a.live" if self.gen is None else f"{self.gen:d}"
        return f"""SELECT {gen}, coalesce(g.generation, 0), g.fingerprint, g.synced_at, a.name
            FROM {NAME}.agents a LEFT JOIN {NAME}.generations g ON g.agent = a.agent AND g.gen = {gen}
            WHERE a.agent = {self.agent:d}"""

    @contextmanager
    def _transaction(self, begin: str, *, search: bool = False) -> Iterator[Transaction]:
        """See ``Connections.transaction``."""
        begun = self._connections.transaction(f"{begin} {self._facts_sql()}", search=search)
        with begun as (connection, row):
            facts = Facts(*row) if row else Facts()
            if facts.name not in (None, self.at.agent):
                raise IndexUnavailable(
                    f"The agents {facts.name} and {self.at.agent} have the same number on {self.at.shown}: "
                    "give this one another name in store.agent. Nothing was changed."
                )
            yield Transaction(self, self._connections, connection, facts)

    @contextmanager
    def reading(self, *, search: bool = False) -> Iterator[Transaction]:
        """The open snapshot of this thread, else a transaction of its own."""
        held: Transaction | None = getattr(self._local, "held", None)
        if held is not None and not held.failed:
            yield held
            return
        begin = opening(self.agent, _SNAPSHOT, SEARCH_TIMEOUT_MS)
        with self._transaction(begin, search=search) as read:
            yield read

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self.reading(search=True) as self._local.held:
            try:
                yield
            finally:
                self._local.held = None

    @contextmanager
    def locked(self) -> Iterator[Transaction]:
        """A transaction that writes. It has locked the agent's row, where there is one."""
        begin = f"""{opening(self.agent, "", WRITE_TIMEOUT_MS, LOCK_TIMEOUT_MS)}
            SELECT 1 FROM {NAME}.agents WHERE agent = {self.agent:d} FOR UPDATE;"""
        with self._transaction(begin) as write:
            yield write

    def interrupt(self) -> None:
        self._connections.interrupt()

    def close(self) -> None:
        self._connections.close()
