"""Transactions over one agent's rows, each of which sees one state."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from openclaw_mem_engine.config.store import StoreLocation, server_name
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import Fingerprint
from openclaw_mem_engine.stores.postgres.connections import Connections
from openclaw_mem_engine.stores.postgres.schema import NAME, agent_number, opening

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.postgres.connections import Connection

#: How long one statement of a search may take, milliseconds.
SEARCH_TIMEOUT_MS = 30_000
_SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"


class Facts(NamedTuple):
    """What is known of the generation that is read: its number, the counter of its changes, and the rest."""

    gen: int = 0
    generation: int = 0
    fingerprint: str | None = None
    synced_at: float | None = None
    awaits_vectors: bool = False
    name: str | None = None
    moved_to: str | None = None


class _Moved(Exception):
    """The agent's rows are on another server, which this names."""


class MovedInCircle(IndexUnavailable):
    """A move was killed before its last step."""


class Reading:
    """A transaction: every statement sees the same state."""

    def __init__(self, connection: Connection, facts: Facts) -> None:
        self.connection, self.facts = connection, facts

    def execute(self, sql: str, bound: Sequence[Any] | Mapping[str, Any] = ()) -> Any:
        """A cursor. ``sql`` holds no text of users: that is bound."""
        return self.connection.execute(sql, bound)

    def rows(self, sql: str, bound: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.execute(sql, bound).fetchall()
        return found

    def one(self, sql: str, bound: Sequence[Any] = ()) -> Any:
        """The first value of the first row."""
        return self.rows(sql, bound)[0][0]


class AgentRows:
    """The rows of one agent. ``gen`` None means the live generation, whichever that is in each transaction;
    ``without`` is a space that this generation makes anew; without ``follows`` the rows are those of this
    server, also when they were moved. Opening makes and changes nothing."""

    def __init__(
        self,
        path: Path,
        *,
        location: StoreLocation,
        gen: int | None = None,
        without: Space | None = None,
        follows: bool = True,
    ) -> None:
        self.path = path
        self._follows = follows
        self._moving, self._left = threading.Lock(), list[Connections]()
        self._at, self._gen, self._without = location, gen, without
        self._agent = agent_number(location.agent)
        self._connections = Connections(location.server)
        self._local = threading.local()

    @property
    def location(self) -> str:
        return self._at.shown

    # -- transactions -----------------------------------------------------------------------------------

    def _facts_sql(self) -> str:
        gen = "a.live" if self._gen is None else f"{self._gen:d}"
        return f"""SELECT {gen}, coalesce(g.generation, 0), g.fingerprint, g.synced_at,
                coalesce(g.awaits_vectors, false), a.name, a.moved_to
            FROM {NAME}.agents a LEFT JOIN {NAME}.generations g ON g.agent = a.agent AND g.gen = {gen}
            WHERE a.agent = {self._agent:d}"""

    def _facts(self, cursor: Any) -> Facts:
        """From the last result of an opening."""
        while cursor.nextset():
            pass
        row = cursor.fetchone()
        facts = Facts(*row) if row else Facts()
        if facts.moved_to is not None and self._follows:
            raise _Moved(facts.moved_to)
        if facts.name not in (None, self._at.agent):
            raise IndexUnavailable(
                f"The agents {facts.name} and {self._at.agent} have the same number on {self.location}: give "
                "this one another name in store.agent. Nothing was changed."
            )
        return facts

    @contextmanager
    def _transaction(self, begin: str, *, search: bool = False) -> Iterator[tuple[Connection, Facts]]:
        """See ``Connections.transaction``; on the server to which the rows were moved."""
        with ExitStack() as entered:
            for _ in (None, *self._at.servers):
                try:
                    opened = self._connections.transaction(begin, self._facts, search=search)
                    connection, facts = entered.enter_context(opened)
                except _Moved as moved:
                    self._go_to(str(moved))
                    continue
                yield connection, facts
                return
        raise MovedInCircle(
            f"The servers name each other as the one that has the rows of agent {self._at.agent}: a move was "
            "killed. Run its `openclaw-mem store move` again."
        )

    def _go_to(self, name: str) -> None:
        server = next((server for server in self._at.servers if server_name(server) == name), None)
        if server is None:
            raise IndexUnavailable(
                f"The index of agent {self._at.agent} was moved to the server {name}, which store.servers "
                "does not name: add its address, by that host and port."
            )
        with self._moving:
            if server_name(self._at.server) != name:
                self._left.append(self._connections)
                self._connections, self._at = Connections(server), self._at._replace(server=server)

    @contextmanager
    def _reading(self, *, search: bool = False) -> Iterator[Reading]:
        """The open snapshot of this thread, else a transaction of its own."""
        held: Reading | None = getattr(self._local, "reading", None)
        if held is not None:
            try:
                with self._connections.explained(held.connection):
                    yield held
            except BaseException:
                self._local.reading = None  # the server ends a transaction with its first error
                raise
            return
        begin = opening(self._agent, _SNAPSHOT, SEARCH_TIMEOUT_MS) + self._facts_sql()
        with self._transaction(begin, search=search) as (connection, facts):
            yield Reading(connection, facts)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._reading(search=True) as reading:
            self._local.reading = reading
            try:
                yield
            finally:
                self._local.reading = None

    def _space(self, facts: Facts, space: Space | None) -> tuple[str, int]:
        """The key of a space, and the generation to which vectors of it belong here: 0 for all."""
        if space is None and facts.fingerprint is not None:
            space = Fingerprint.from_json(facts.fingerprint).space
        asked = space or Space("", "", "")
        return json.dumps(asked), (self._gen or 0) if asked == self._without else 0

    def _usable(self) -> str:
        """The condition for vectors that this generation may use: none of the space that it makes anew."""
        if self._without is None:
            return "pending = 0"
        without = "'" + json.dumps(self._without).replace("'", "''") + "'"
        return f"(pending = {self._gen or 0:d} OR (pending = 0 AND space <> {without}))"

    def interrupt(self) -> None:
        self._connections.interrupt()

    def close(self) -> None:
        for connections in (*self._left, self._connections):
            connections.close()
