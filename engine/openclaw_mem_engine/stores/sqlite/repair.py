"""The repair of an index, whatever its damage: it is moved out of the way, and a new one has the embeddings
that can be used: each cost time and perhaps money.

Notes are not touched, and nothing is embedded: what is missing afterwards is made by the next sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from openclaw_mem_engine.cancellation import CancelToken, until
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.stores.scoring import unit_vector
from openclaw_mem_engine.stores.sqlite.files import aside_path, refuse_foreign, remove, set_aside
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.stores.sqlite.vectors import AS_WRITTEN, NAMES, as_written

if TYPE_CHECKING:
    from openclaw_mem_engine.stores.base import Vector

_TOGETHER = 1_000
#: Seconds that counting what a repair saves may take.
COUNT_S = 2.0
#: What reading a damaged page may raise: SQLite's errors, bytes that are no text, impossible lengths.
_DAMAGE = (apsw.Error, UnicodeDecodeError, MemoryError)
_SQL = f"""SELECT {NAMES}, hash, embedding, checksum
    FROM embedding_cache e CROSS JOIN spaces s ON s.id = e.space WHERE {AS_WRITTEN} ORDER BY e.id"""


def replace_damaged(index: Path, *, of_qmd: bool = False) -> tuple[Path, int]:
    """Move a damaged index to ``NAME.damaged``, and replace it by a new one that holds the embeddings
    which can be read up to the first damage. One ``of_qmd``, whose embeddings have no checksum, is only moved
    away: who opens it next makes it anew. Returns where the damaged one is now, and how many embeddings were
    saved. The caller holds the sync lock. A process that is killed meanwhile leaves the damaged index at its
    path (see ``set_aside``), and perhaps a file like that of a killed rebuild. Raises IndexUnavailable, also
    for an index that another program made."""
    refuse_foreign(index)
    if of_qmd:
        return set_aside(index), 0
    fresh = aside_path(index)
    try:
        saved = save_embeddings(index, fresh)
        damaged = set_aside(index, fresh)
    finally:
        remove(fresh)
    return damaged, saved


def save_embeddings(damaged: Path, index: Path) -> int:
    """Copy the embeddings of a damaged index, up to the first damage, into another one, which is made when it
    is not there; how many. Raises IndexUnavailable when the other index cannot be written."""
    saved = 0
    with closing(SqliteIndex(index)) as store:
        found = _whole_rows(damaged)
        while batch := list(islice(found, _TOGETHER)):
            for asked in {space for space, _, _ in batch}:
                store.cache_vectors({key: vector for space, key, vector in batch if space == asked}, asked)
            saved += len(batch)
    return saved


def readable_embeddings(
    damaged: Path, cancel: CancelToken | None = None, *, of_qmd: bool = False, most_s: float = COUNT_S
) -> tuple[int, int | None] | None:
    """How many embeddings of a damaged index ``replace_damaged`` would save, of how many (None: not known);
    None where counting is stopped, or takes longer than ``most_s``."""
    stop, saved, held = until(cancel, most_s), 0, -1
    if of_qmd:
        return 0, None
    for _ in _whole_rows(damaged):
        saved += 1
        if stop.is_set():
            return None
    with suppress(*_DAMAGE), closing(_connected(damaged)) as connection:
        found: list[Any] = connection.execute("SELECT count(*) FROM embedding_cache").fetchall()
        held = found[0][0]
    return saved, held if held >= saved else None


def _connected(damaged: Path) -> apsw.Connection:
    """For reading: what is still in the log is not read by a connection that cannot write."""
    connection = apsw.Connection(str(damaged), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # what was set aside stays as it was
    return connection


def _whole_rows(damaged: Path) -> Iterator[tuple[Space, str, Vector | None]]:
    """Space, text hash and vector (None: the text has none) of the rows that are as we write them."""
    with suppress(*_DAMAGE), closing(_connected(damaged)) as connection:
        for *names, content, blob, checksum in connection.execute(_SQL):
            vector = unit_vector(blob)
            if (blob is None or vector is not None) and as_written(content, blob, checksum):
                with suppress(TypeError, UnicodeDecodeError):  # of no space that has a name
                    yield Space(*(str(name, "utf-8") for name in names)), content.hex(), vector
