"""Reads of an index that may have changed since it was searched, and the damage of its file where no search
reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from openclaw_mem_engine.cancellation import BUSY_TIMEOUT_MS, CancelToken
from openclaw_mem_engine.errors import Cancelled, IndexDamaged, IndexUnavailable
from openclaw_mem_engine.model import Note
from openclaw_mem_engine.ranking.pool import Ranks
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.stores.base import IndexStore

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw_mem_engine.config.settings import Settings

#: Steps of SQLite's machine between two looks at the cancel token.
_STEPS = 50_000


def version_of(store: IndexStore) -> tuple[int, int]:
    """The state of what a store has opened, whatever is at its path now: equal ones have equal content."""
    return store.generation(), store.opened


class LateRanks:
    """Exact ranks, looked up when they are first read, in the ``version`` of the index that was searched."""

    def __init__(
        self, store: IndexStore, version: tuple[int, int], look_up: Callable[[], Mapping[str, int]]
    ) -> None:
        self._store = store
        self._version = version
        self._look_up = look_up
        self._known: Mapping[str, int] | None = None

    def __call__(self) -> Ranks:
        if self._known is None:
            try:
                with self._store.snapshot():
                    if version_of(self._store) == self._version:
                        self._known = self._look_up()
            except (IndexUnavailable, Cancelled):
                return "; its exact rank could not be read"
        return (
            "; its exact rank is not known any more: the index has changed since"
            if self._known is None
            else self._known
        )


# -- the whole file -----------------------------------------------------------------------------------------


def file_damage(settings: Settings, cancel: CancelToken | None = None) -> IndexDamaged | None:
    """What is damaged in the tables of the builtin index, by what SQLite finds or by the checksums of chunks
    and vectors; about 8 ms for each MB. None when nothing is, or there is no such file. Chunks are not
    compared with notes, nor words with chunks: the doctor does that. Raises Cancelled, IndexUnavailable."""
    import apsw

    from openclaw_mem_engine.stores.sqlite import connections
    from openclaw_mem_engine.stores.sqlite.chunks import COLUMNS, stored
    from openclaw_mem_engine.stores.sqlite.database import decoding, explained
    from openclaw_mem_engine.stores.sqlite.vectors import BYTES, check_bytes

    path = settings.index_path
    if settings.store.location or settings.qmd_in_process or not connections.index_is_there(path):
        return None
    try:
        with explained(path), closing(connections.connect_existing(path)) as connection:
            connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            if cancel is not None:
                connection.set_progress_handler(cancel.is_set, _STEPS)
            connection.execute("BEGIN")
            # Those of full text are virtual, and need the module that made them.
            words = "ENABLE_FTS5" in apsw.compile_options
            sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND (rootpage > 0 OR ?)"
            tables = connection.execute(sql, (words,)).fetchall()
            for (name,) in tables:
                ((said,), *_) = connection.execute(f'PRAGMA quick_check("{name}")').fetchall()
                if said != "ok":
                    raise apsw.CorruptError(said)
            if ("chunks",) in tables:
                for row in connection.execute(f"SELECT {COLUMNS} FROM chunks c"):
                    stored([row], path)
            if ("embedding_cache",) in tables:
                with decoding(path):
                    check_bytes(connection.execute(f"SELECT {BYTES} FROM embedding_cache e"))
    except IndexDamaged as damage:
        return damage
    return None


def index_stamp(settings: Settings) -> tuple[int, ...]:
    """Changes with what any program writes into the file of the index or its log, and with who may read
    them. Costs two stats."""
    from openclaw_mem_engine.stores.sqlite.files import log_of

    found: list[int] = []
    for file in (settings.index_path, log_of(settings.index_path)):
        with suppress(OSError):
            one = file.stat()
            found += [one.st_ino, one.st_mode, one.st_size, one.st_mtime_ns]
    return tuple(found)


def saveable_embeddings(
    settings: Settings, cancel: CancelToken | None = None
) -> tuple[int, int | None] | None:
    """See ``readable_embeddings``; of the damaged index of these settings."""
    from openclaw_mem_engine.stores.sqlite.repair import readable_embeddings

    return readable_embeddings(settings.index_path, cancel, of_qmd=settings.qmd_in_process)


def kept(damaged: Path, saved: int) -> str:
    """What a new index has of the damaged one that it replaced, and where that is."""
    took = f"The new one took {counted(saved, 'embedding')} from it."
    if not saved:
        took = "None of its embeddings could be read: the texts are embedded again."
    from openclaw_mem_engine.stores.sqlite.files import log_of

    log = log_of(damaged)
    beside = f" Its log is {log.name} beside it." if log.exists() and log.stat().st_size else ""
    return f"{took} The damaged file is kept as {damaged}; you can delete it.{beside}"


def damage_note(damage: IndexDamaged) -> Note:
    """The note of answers from a damaged file (see ``model.says_damage``)."""
    return Note("index-damaged", str(damage), "warning")
