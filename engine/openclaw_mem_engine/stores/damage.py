"""Searches over an index that may be damaged, where each kind of list fails by itself, or changed since; and
whether its file is damaged where they do not read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Literal

from openclaw_mem_engine.cancellation import BUSY_TIMEOUT_MS, CancelToken
from openclaw_mem_engine.dataclass import dataclass
from openclaw_mem_engine.errors import Cancelled, IndexChanged, IndexDamaged, IndexLocked, IndexUnavailable
from openclaw_mem_engine.model import Note, Space
from openclaw_mem_engine.ranking.pool import Ranks
from openclaw_mem_engine.sanitize import counted
from openclaw_mem_engine.stores.base import IndexStore, SearchStore
from openclaw_mem_engine.stores.query import CandidateRows, LexicalQuery

if TYPE_CHECKING:
    from pathlib import Path

    from openclaw_mem_engine.config.settings import Settings
    from openclaw_mem_engine.providers.base import Floats

#: The largest file that a process which opens it for one search reads whole: 32 ms.
MOST_BYTES = 4 << 20
#: Steps of SQLite's machine between two looks at the cancel token.
_STEPS = 50_000


@dataclass(frozen=True, slots=True)
class Damage:
    """What one kind of list could not read. ``space``: that of vectors that were searched, else None."""

    kind: Literal["lexical", "vector"]
    error: IndexUnavailable
    space: Space | None = None


class DamageTolerantSearch:
    """The searches of a store for one retrieval, in one thread. Methods as in ``SearchStore``, but a search
    whose rows cannot be read gives None (no list, no ranks) or nothing (no scores); the damage is kept in
    ``damages`` and given to ``report``. IndexLocked, IndexChanged and Cancelled, which are no damage, are
    raised."""

    def __init__(self, store: SearchStore, report: Callable[[Damage], None] = lambda _: None) -> None:
        self._store = store
        self._report = report
        self.damages: list[Damage] = []

    @contextmanager
    def tolerating(self, kind: Literal["lexical", "vector"], space: Space | None = None) -> Iterator[None]:
        """Leave the body where the index is too damaged for it, and record the damage."""
        try:
            yield
        except (IndexLocked, IndexChanged):
            raise
        except IndexUnavailable as error:
            damage = Damage(kind, error, space)
            self.damages.append(damage)
            self._report(damage)

    def lexical(self, query: LexicalQuery, limit: int) -> CandidateRows | None:
        with self.tolerating("lexical"):
            return self._store.lexical(query, limit)
        return None

    def vector(self, vector: Floats, limit: int, space: Space) -> CandidateRows | None:
        with self.tolerating("vector", space):
            return self._store.vector(vector, limit, space)
        return None

    def lexical_scores(self, query: LexicalQuery, ids: Sequence[str]) -> dict[str, float]:
        with self.tolerating("lexical"):
            return self._store.lexical_scores(query, ids)
        return {}

    def line_scores(
        self, query: LexicalQuery, texts: Mapping[str, str], basis: Iterable[str]
    ) -> Mapping[str, tuple[float, ...]]:
        with self.tolerating("lexical"):
            return self._store.line_scores(query, texts, basis)
        return {}

    def cosines(self, vector: Floats, ids: Sequence[str], space: Space) -> dict[str, float]:
        with self.tolerating("vector", space):
            return self._store.cosines(vector, ids, space)
        return {}


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

    from openclaw_mem_engine.stores.sqlite import files
    from openclaw_mem_engine.stores.sqlite.chunks import COLUMNS, stored
    from openclaw_mem_engine.stores.sqlite.database import decoding, explained
    from openclaw_mem_engine.stores.sqlite.vectors import BYTES, check_bytes

    path = settings.index_path
    if settings.store.location or settings.qmd_in_process or not files.index_is_there(path):
        return None
    try:
        with explained(path), closing(files.connect_existing(path)) as connection:
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


def kept(damaged: Path, saved: int) -> str:
    """What a new index has of the damaged one that it replaced, and where that is."""
    took = f"The new one took {counted(saved, 'embedding')} from it."
    if not saved:
        took = "It took none of its embeddings: they are made again."
    log = damaged.with_name(f"{damaged.name}-wal")
    beside = f" Its log is {log.name} beside it." if log.exists() and log.stat().st_size else ""
    return f"{took} The damaged file is kept as {damaged}; you can delete it.{beside}"


def damage_note(damage: IndexDamaged) -> Note:
    """The note of answers from a damaged file (see ``model.says_damage``)."""
    return Note("index-damaged", str(damage), "warning")


class SmallFile:
    """The damage of an index file up to ``MOST_BYTES``, looked for once in each version of the index."""

    def __init__(self, settings: Settings, store: IndexStore) -> None:
        self._settings = settings
        self._store = store
        self._seen: tuple[int, int] | None = None
        self._notes: tuple[Note, ...] = ()

    def notes(self) -> tuple[Note, ...]:
        """The note of its damage; nothing where a file is larger, or cannot be read now."""
        with suppress(IndexUnavailable, OSError):
            version = version_of(self._store)
            if version != self._seen and self._settings.index_path.stat().st_size <= MOST_BYTES:
                damage = file_damage(self._settings)
                self._seen, self._notes = version, () if damage is None else (damage_note(damage),)
        return self._notes
