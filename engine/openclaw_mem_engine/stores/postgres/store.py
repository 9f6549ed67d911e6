"""One agent's index in PostgreSQL, of its parts, and its generations. Each part implements one protocol of
``stores.base``, over transactions of ``session`` and turns of ``turns``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_mem_engine.config.store import StoreLocation
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.base import Capabilities, Fingerprint, Generation, IndexStore
from openclaw_mem_engine.stores.postgres.changes import Changes
from openclaw_mem_engine.stores.postgres.content import Content
from openclaw_mem_engine.stores.postgres.lexical import Lexical
from openclaw_mem_engine.stores.postgres.schema import NAME, SIZES
from openclaw_mem_engine.stores.postgres.searching import Searches
from openclaw_mem_engine.stores.postgres.session import AgentRows, Transaction
from openclaw_mem_engine.stores.postgres.turns import Lease, Turns

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.findings import Outcome


class PostgresIndex(Searches, Content, Changes, IndexStore):
    """``IndexStore`` over one agent's rows (contract: ``stores.base``)."""

    def __init__(
        self,
        path: Path,
        *,
        location: StoreLocation,
        full_text: bool = True,
        resident: bool = False,  # noqa: ARG002 - of an index in a file, as the next
        extension: bool = True,  # noqa: ARG002
    ) -> None:
        self._join(path, AgentRows(location), Lease(), Capabilities(full_text, "pgvector"))
        self.fingerprint()  # reaches the server, and refuses what a newer program wrote

    def _join(self, path: Path, rows: AgentRows, lease: Lease, caps: Capabilities) -> None:
        self.path, self.caps = path, caps
        self._rows, self._turns, self._lexical = rows, Turns(rows, lease), Lexical()

    # -- where it is ------------------------------------------------------------------------------------

    @property
    def location(self) -> str:
        return self._rows.at.shown

    def is_present(self) -> bool:
        return True

    def follow(self, *, make: bool = True) -> int:  # noqa: ARG002
        """Every transaction reads the rows that are live by then."""
        return 1

    def bytes_on_disk(self) -> int:
        """Of this agent's rows, without what its server keeps beside them."""
        with self._rows.reading() as read:
            return sum(size for _, _, size in read.rows(SIZES))

    def diagnosis(self) -> Mapping[str, Callable[[Outcome], None]]:
        from openclaw_mem_engine.stores.postgres.checks import diagnosis

        return diagnosis(self, self._rows)

    def snapshot(self) -> AbstractContextManager[None]:
        return self._rows.snapshot()

    def exclusive(self) -> AbstractContextManager[None]:
        return self._turns.exclusive()

    # -- generations ------------------------------------------------------------------------------------

    def new_generation(self, fingerprint: Fingerprint, without: Space | None = None) -> PostgresGeneration:
        with self._turns.writing(bump=False) as write:
            sql = f"SELECT max(gen) + 1 FROM {NAME}.generations WHERE agent = %(agent)s"
            gen = int(write.one(sql))  # not the number of a rebuild that lost its lease
            _sweep(write)  # what killed rebuilds left
            row = write.agent, gen, fingerprint.to_json(), 1
            write.insert("generations(agent, gen, fingerprint, generation)", [row])
        return PostgresGeneration(self, gen, without)


class PostgresGeneration(PostgresIndex, Generation):
    """A generation that is being filled: rows with a number of its own. It shares the cache of the live one
    but for the space that it makes anew."""

    def __init__(self, old: PostgresIndex, gen: int, without: Space | None) -> None:
        rows = AgentRows(old._rows.at, gen=gen, without=without)
        self._join(old.path, rows, old._turns.lease, old.caps)
        self._old, self._is_over = old, False

    def commit(self) -> None:
        """The swap is one row; readers that began before go on with the old rows."""
        with self._turns.writing(bump=False) as write:
            if self._rows.without is not None:
                write.execute(
                    f"""DELETE FROM {NAME}.vectors
                    WHERE agent = %(agent)s AND pending = 0 AND space = %(without)s"""
                )
            write.execute(
                f"UPDATE {NAME}.vectors SET pending = 0 WHERE agent = %(agent)s AND pending = %(gen)s"
            )
            # A number that readers have seen must not come again.
            write.execute(
                f"""UPDATE {NAME}.generations g SET generation = 1 + (
                    SELECT max(o.generation) FROM {NAME}.generations o WHERE o.agent = %(agent)s)
                WHERE g.agent = %(agent)s AND g.gen = %(gen)s"""
            )
            write.execute(f"UPDATE {NAME}.agents SET live = %(gen)s WHERE agent = %(agent)s")
        self._end()

    def abort(self) -> None:
        if not self._is_over:
            self._end()

    def _end(self) -> None:
        """Remove the rows that are not live; a later rebuild does it when the server is gone now."""
        self._is_over = True
        try:
            with suppress(IndexUnavailable), self._old._turns.writing(bump=False) as write:
                _sweep(write)
        finally:
            self.close()


def _sweep(write: Transaction) -> None:
    """Remove the rows of every generation but the live one."""
    for table in ("generations", "files", "chunks", "terms"):
        write.execute(
            f"""DELETE FROM {NAME}.{table} WHERE agent = %(agent)s AND gen <> (
                SELECT live FROM {NAME}.agents WHERE agent = %(agent)s)"""
        )
    write.execute(f"DELETE FROM {NAME}.vectors WHERE agent = %(agent)s AND pending <> 0")
