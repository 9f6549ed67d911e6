"""Connections to one PostgreSQL server: opened when needed, kept for the next call, interrupted, and their
errors as ours. The driver is imported here, at the first connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from openclaw_mem_engine.cancellation import SEARCH_STOPPED
from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.store import server_name
from openclaw_mem_engine.errors import Cancelled, ConfigError, IndexLocked, IndexUnavailable
from openclaw_mem_engine.named_tuple import NamedTuple

if TYPE_CHECKING:
    import psycopg

    Row = tuple[Any, ...]
    Connection = psycopg.Connection[Row]

#: Seconds until a server that does not answer counts as unreachable, unless the address says otherwise.
CONNECT_TIMEOUT_S = 10
#: The oldest pgvector that is known to give these results.
PGVECTOR = (0, 8)
_INSTALL = "uv tool install '.[postgres]'"
_INIT = "`openclaw-mem store init` makes and updates the tables"
#: How long ``interrupt`` waits for the server to take one request, seconds.
_CANCEL_TIMEOUT_S = 2.0

#: What the server's error classes mean, by the first characters of SQLSTATE, the longest first.
_ADVICE = {
    "57014": "took longer than it may. Try again when the server has less to do",
    "53100": "has no room on its disk. Free some, and run `openclaw-mem index` again",
    "3F000": f"has no tables of openclaw-mem. {_INIT}",
    "42P01": f"has no tables of openclaw-mem. {_INIT}",
    "42703": f"has tables of another version. {_INIT}",
    "42704": f"lacks the extension vector. {_INIT}",
    "42501": "refused the rights of its user. `openclaw-mem store init` grants them",
    "25006": "is read-only, probably a replica. Name the primary server in store.servers",
    "53": "has no resources left. Try again later, or use a connection pooler",
    "57P": "is shutting down or starting. Try again in a moment",
}
#: The same for the owner of the tables, who makes them.
_OWNER_ADVICE = {
    "42501": "refused the rights of its user. Name one that may make extension, schema and tables in this "
    "database",
}
#: The setting that holds the addresses of programs.
_SERVERS = "store.servers"
#: The SQLSTATEs of which another writer is the reason.
_BUSY = ("55P03", "40001", "40P01")


class Address(NamedTuple):
    """A server as it may be shown, and the password to be kept out of every message."""

    shown: str
    password: str

    @staticmethod
    def of(server: Secret, setting: str = _SERVERS) -> Address:
        """Raises ConfigError, with the name of the ``setting``, for what is no address."""
        psycopg = driver()
        try:
            parts = psycopg.conninfo.conninfo_to_dict(server.reveal())
        except psycopg.Error:
            raise ConfigError(
                f"{setting} holds something that is not an address of a PostgreSQL server: write "
                "postgresql://user:password@host:5432/database."
            ) from None
        return Address(server_name(server), str(parts.get("password", "")))

    def safe(self, error: BaseException) -> str:
        """The first line of an error without the password."""
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return text.replace(self.password, "…") if self.password else text


def driver() -> Any:
    """The module psycopg. Raises ConfigError when the extra is not installed."""
    import logging

    if not (log := logging.getLogger("psycopg")).handlers:
        # What it logs of a lost connection is raised too; without a handler it is written to the screen.
        log.addHandler(logging.NullHandler())
    try:
        import psycopg
        import psycopg.conninfo
        import psycopg.sql
    except ImportError as error:
        raise ConfigError(
            f"store.kind is postgres, which needs a driver that is not installed ({error}). Run {_INSTALL}."
        ) from error
    return psycopg


class Connections:
    """The connections of one opened store. Thread-safe: each is used by one call at a time."""

    def __init__(self, server: Secret, setting: str = _SERVERS) -> None:
        self._server, self._setting = server, setting
        self._advice = _ADVICE if setting == _SERVERS else _ADVICE | _OWNER_ADVICE
        self.address = Address.of(server, setting)
        self._guard = threading.Lock()
        self._idle: list[Connection] = []
        self._searching: set[Connection] = set()
        self._stopped: set[Connection] = set()
        self._closed = False

    def connect(self) -> Connection:
        """A new connection, not one of the kept. Raises IndexUnavailable when there is no way in."""
        psycopg = driver()
        given = psycopg.conninfo.conninfo_to_dict(self._server.reveal())
        options = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "openclaw-mem"} | given
        try:
            # Prepared statements would not survive a pooler that gives each transaction another connection.
            connection: Connection = psycopg.connect(autocommit=True, prepare_threshold=None, **options)
        except psycopg.Error as error:
            reason = self.address.safe(error)
            what = "Check the password" if "password" in reason or "authentication" in reason else "Check it"
            raise IndexUnavailable(
                f"The PostgreSQL server {self.address.shown} cannot be used ({reason}). {what} in "
                f"{self._setting}, and that the server runs and accepts connections from this host."
            ) from None
        return connection

    def _checked(self) -> Connection:
        connection = self.connect()
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check(self, connection: Connection) -> None:
        with self.explained():
            sql = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
            row = connection.execute(sql).fetchone()
        wanted = ".".join(map(str, PGVECTOR))
        if row is None or tuple(int(part) for part in row[0].split(".")[:2]) < PGVECTOR:
            has = f"has pgvector {row[0]}" if row else "lacks the extension vector (pgvector)"
            raise IndexUnavailable(
                f"The PostgreSQL server {self.address.shown} {has}; {wanted} or newer is needed. Install it "
                "there, then run `openclaw-mem store init`."
            )

    @contextmanager
    def transaction(self, begin: str, *, search: bool = False) -> Iterator[tuple[Connection, Row | None]]:
        """A transaction that ``begin`` opens: statements without parameters, of which the last is a SELECT;
        with the first row of that. Committed when the body ends, rolled back when it raises; statements of
        the body are its own to explain. ``search``: ``interrupt`` may end it. Raises IndexUnavailable,
        IndexLocked, Cancelled."""
        connection, row = self._begun(begin, search)
        try:
            yield connection, row
            with self.explained(connection):
                connection.execute("COMMIT")
        finally:
            self._return(connection)

    def _begun(self, begin: str, search: bool) -> tuple[Connection, Row | None]:
        while True:
            with self._guard:
                if self._closed:
                    raise self.closed()
                kept = self._idle.pop() if self._idle else None
            connection = kept or self._checked()
            with self._guard:
                if search:
                    self._searching.add(connection)
            try:
                with self.explained(connection):
                    cursor = connection.execute(begin)
                    while cursor.nextset():
                        pass
                    return connection, cursor.fetchone()
            except IndexUnavailable:
                lost = connection.closed
                self._return(connection)
                if not (kept and lost):  # a kept connection that the server ended meanwhile says nothing
                    raise
            except BaseException:
                self._return(connection)
                raise

    def _return(self, connection: Connection) -> None:
        with self._guard:  # not while ``interrupt`` is sending
            self._searching.discard(connection)
            usable = connection not in self._stopped and not self._closed
            self._stopped.discard(connection)
        if usable and not connection.closed:
            with suppress(Exception):
                if connection.info.transaction_status:
                    connection.execute("ROLLBACK")
                with self._guard:
                    self._idle.append(connection)
                    return
        with suppress(Exception):
            connection.close()

    @contextmanager
    def explained(self, connection: Connection | None = None) -> Iterator[None]:
        """Errors of the driver as ours."""
        psycopg = driver()
        try:
            yield
        except psycopg.Error as error:
            if connection is not None and connection in self._stopped:
                raise Cancelled(SEARCH_STOPPED) from None
            state = str(error.sqlstate or "")
            if state in _BUSY:
                raise IndexLocked(
                    f"Another process is writing to the index on {self.address.shown} and did not finish in "
                    "time. Nothing was changed: run it again in a moment."
                ) from error
            if self._closed:
                raise self.closed() from None
            advice = next(
                (text for key, text in self._advice.items() if state and state.startswith(key)), None
            )
            advice = advice or "could not do this. Check its log, and try again"
            raise IndexUnavailable(
                f"The PostgreSQL server {self.address.shown} {advice} ({self.address.safe(error)})."
            ) from error

    def closed(self) -> IndexUnavailable:
        return IndexUnavailable(f"The index on {self.address.shown} is closed: open the memory again.")

    def interrupt(self) -> None:
        """Cancel the searches that run now."""
        with self._guard:
            for connection in self._searching - self._stopped:
                self._stopped.add(connection)
                with suppress(Exception):
                    connection.cancel_safe(timeout=_CANCEL_TIMEOUT_S)

    def close(self) -> None:
        self.interrupt()
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
