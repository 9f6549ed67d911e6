"""Turns of the writers of one agent's index: a lock for a transaction, a lease for a sync."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from openclaw_mem_engine.errors import Cancelled, IndexChanged, IndexLocked, IndexUnavailable
from openclaw_mem_engine.stores.base import Fingerprint
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.session import AgentRows, Transaction

#: A lease ends so long after it was renewed, seconds: its host was switched off, or is out of reach. It is
#: renewed so often, that a sync may wait for an embedder for as long as it takes.
LEASE_S, RENEWAL_S = 120, 40.0
RENEWING = "renews a lease"


class Lease:
    """The right of one opened index to write, and of the generations that it fills, which share it."""

    def __init__(self) -> None:
        self.host = socket.gethostname()
        self.owner = f"{self.host}, process {os.getpid()}, {os.urandom(4).hex()}"
        self.is_held = False


class Turns:
    """Transactions that write. Each locks the row of the agent, so that writers come one after the other."""

    def __init__(self, rows: AgentRows, lease: Lease | None = None) -> None:
        self._rows, self.lease = rows, lease or Lease()

    @contextmanager
    def writing(self, *, bump: bool = True, built_with: Fingerprint | None = None) -> Iterator[Transaction]:
        """A transaction that writes; with ``bump`` the content changes."""
        with self._rows.locked() as write:
            self._take(write)
            fingerprint, shown = write.facts.fingerprint, self._rows.at.shown
            if self._rows.gen is not None and fingerprint is None:
                raise IndexChanged(
                    f"Another process has rebuilt the index at {shown} meanwhile, and removed the "
                    "rows of this rebuild. Nothing is lost: run it again."
                )
            if built_with is not None and fingerprint != built_with.to_json():
                raise IndexChanged(
                    f"Another process has rebuilt the index at {shown} with other settings "
                    "meanwhile. Nothing of this was written: run it again."
                )
            yield write
            if bump:
                write.execute(
                    f"""UPDATE {NAME}.generations SET generation = generation + 1
                    WHERE agent = %(agent)s AND gen = %(gen)s"""
                )

    def _take(self, write: Transaction) -> None:
        """Make the rows of an agent that is written for the first time; respect and renew the lease."""
        if write.facts.name is None:
            sql = (
                f"INSERT INTO {NAME}.agents(agent, name) VALUES (%(agent)s, %(name)s) ON CONFLICT DO NOTHING"
            )
            write.execute(sql, name=self._rows.at.agent)
        write.execute(
            f"INSERT INTO {NAME}.generations(agent, gen) VALUES (%(agent)s, %(gen)s) ON CONFLICT DO NOTHING"
        )
        taken = write.rows(
            f"""UPDATE {NAME}.agents SET
                lease_owner = CASE WHEN %(holds)s THEN %(owner)s END,
                lease_until = CASE WHEN %(holds)s THEN now() + make_interval(secs => %(for)s) END
            WHERE agent = %(agent)s
                AND (lease_owner IS NULL OR lease_owner = %(owner)s OR lease_until < now())
            RETURNING 1""",
            **{"holds": self.lease.is_held, "owner": self.lease.owner, "for": LEASE_S},
        )
        if not taken:
            raise self._locked(write)

    def _locked(self, write: Transaction) -> IndexLocked:
        sql = f"""SELECT lease_owner, to_char(lease_until AT TIME ZONE 'UTC', 'HH24:MI:SS')
            FROM {NAME}.agents WHERE agent = %(agent)s"""
        ((owner, until),) = write.rows(sql)
        text = (
            f"The index at {self._rows.at.shown} is being brought up to date by another process "
            f"({owner}). Nothing was changed: try again when it has finished, or, where it was killed, "
            f"after {until} UTC."
        )
        if (host := owner.partition(",")[0]) != self.lease.host:
            text += (
                f" Unless {host} and this host, {self.lease.host}, have the same notes, they undo each "
                "other's index: give each a store.agent of its own."
            )
        return IndexLocked(text)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """See ``IndexStore``."""
        over = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(over,), name=RENEWING, daemon=True)
        self.lease.is_held = True
        try:
            with self.writing(bump=False):
                pass
            renewing.start()
            yield
        finally:
            over.set()
            if renewing.ident is not None:
                renewing.join()
            self.lease.is_held = False
            self._write_lease()

    def _renew(self, over: threading.Event) -> None:
        """Also while the sync writes nothing. Where another host has the lease now, its next write fails."""
        while not over.wait(RENEWAL_S):
            self._write_lease()

    def _write_lease(self) -> None:
        """A lease that cannot be written, as the server cannot be reached, ends by itself."""
        with suppress(IndexUnavailable, Cancelled), self.writing(bump=False):
            pass
