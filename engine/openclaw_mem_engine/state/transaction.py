"""One transaction of SQLite, for every file that we write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw


@contextmanager
def immediate(connection: apsw.Connection) -> Iterator[None]:
    """BEGIN IMMEDIATE … COMMIT, rolled back when the body raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk rolls back by itself; a second ROLLBACK would hide the first error.
        if connection.in_transaction:
            with suppress(apsw.Error):
                connection.execute("ROLLBACK")
        raise
