"""Turns of the writers of one agent's index in PostgreSQL: a lock for a transaction, a lease for a sync."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from openclaw_mem_engine.errors import Cancelled, IndexChanged, IndexLocked, IndexUnavailable
from openclaw_mem_engine.stores.base import Fingerprint
from openclaw_mem_engine.stores.postgres.reader import PostgresReader
from openclaw_mem_engine.stores.postgres.schema import NAME, opening
from openclaw_mem_engine.stores.postgres.session import Reading

#: How long a writer waits for another one, and how long one of its statements may take, milliseconds.
LOCK_TIMEOUT_MS, WRITE_TIMEOUT_MS = 5_000, 300_000
#: A lease ends so long after it was renewed, seconds: its host was switched off, or is out of reach. It is
#: renewed so often, that a sync may wait for an embedder for as long as it takes.
LEASE_S, RENEWAL_S = 120, 40.0
RENEWING = "renews a lease"


class PostgresWriting(PostgresReader):
    """Transactions that write. Each locks the row of the agent, so that writers come one after the other."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._owner = f"{socket.gethostname()}, process {os.getpid()}, {os.urandom(4).hex()}"
        self._holds_lease = False
        super().__init__(path, **options)

    @contextmanager
    def _writing(self, *, bump: bool = True, built_with: Fingerprint | None = None) -> Iterator[Reading]:
        """A transaction that writes; with ``bump`` the content changes."""
        lock = f"""{opening(self._agent, "", WRITE_TIMEOUT_MS, LOCK_TIMEOUT_MS)}
            SELECT 1 FROM {NAME}.agents WHERE agent = {self._agent:d} FOR UPDATE; {self._facts_sql()}"""
        with self._transaction(lock) as (connection, facts):
            write = Reading(connection, facts)
            self._take_turn(write)
            if self._gen is not None and facts.fingerprint is None:
                raise IndexChanged(
                    f"Another process has rebuilt the index at {self.location} meanwhile, and removed the "
                    "rows of this rebuild. Nothing is lost: run it again."
                )
            if built_with is not None and facts.fingerprint != built_with.to_json():
                raise IndexChanged(
                    f"Another process has rebuilt the index at {self.location} with other settings "
                    "meanwhile. Nothing of this was written: run it again."
                )
            yield write
            if bump:
                sql = "UPDATE {0}.generations SET generation = generation + 1 WHERE agent = %s AND gen = %s"
                write.execute(sql.format(NAME), (self._agent, facts.gen))

    def _take_turn(self, write: Reading) -> None:
        """Make the rows of an agent that is written for the first time; respect and renew the lease."""
        execute = write.execute
        if write.facts.name is None:
            execute(
                f"INSERT INTO {NAME}.agents(agent, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (self._agent, self._at.agent),
            )
        execute(
            f"INSERT INTO {NAME}.generations(agent, gen) VALUES (%s, %s) ON CONFLICT DO NOTHING",
            (self._agent, write.facts.gen),
        )
        held = write.rows(
            f"""UPDATE {NAME}.agents SET
                lease_owner = CASE WHEN %(holds)s THEN %(owner)s END,
                lease_until = CASE WHEN %(holds)s THEN now() + make_interval(secs => %(for)s) END
            WHERE agent = %(agent)s
                AND (lease_owner IS NULL OR lease_owner = %(owner)s OR lease_until < now())
            RETURNING 1""",
            {"holds": self._holds_lease, "owner": self._owner, "for": LEASE_S, "agent": self._agent},
        )
        if not held:
            sql = f"""SELECT lease_owner, to_char(lease_until AT TIME ZONE 'UTC', 'HH24:MI:SS')
                FROM {NAME}.agents WHERE agent = %s"""
            ((owner, until),) = write.rows(sql, (self._agent,))
            raise IndexLocked(
                f"The index at {self.location} is being brought up to date by another process "
                f"({owner}). Nothing was changed: try again when it has finished, or, where it was killed, "
                f"after {until} UTC."
            )

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        over = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(over,), name=RENEWING, daemon=True)
        self._holds_lease = True
        try:
            with self._writing(bump=False):
                pass
            renewing.start()
            yield
        finally:
            over.set()
            if renewing.ident is not None:
                renewing.join()
            self._holds_lease = False
            # It ends by itself when the server cannot be reached any more.
            with suppress(IndexUnavailable, Cancelled), self._writing(bump=False):
                pass

    def _renew(self, over: threading.Event) -> None:
        """Also while the sync writes nothing. Where another host has the lease now, its next write fails."""
        while not over.wait(RENEWAL_S):
            with suppress(IndexUnavailable, Cancelled), self._writing(bump=False):
                pass
