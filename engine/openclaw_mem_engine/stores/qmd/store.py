"""The index of the QMD backend: opening one, and finding a document by what a person writes for it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import apsw

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.named_tuple import NamedTuple
from openclaw_mem_engine.qmd.lookup import (
    MAX_BYTES,
    Known,
    Reference,
    find,
    select,
    why_missing,
    why_too_large,
)
from openclaw_mem_engine.stores.qmd.foreign import ForeignDatabase
from openclaw_mem_engine.stores.qmd.maintenance import Maintenance
from openclaw_mem_engine.stores.qmd.schema import REPAIRED, VIEWS, create, owner_of
from openclaw_mem_engine.stores.qmd.searching import Document
from openclaw_mem_engine.stores.qmd.updating import Updating
from openclaw_mem_engine.stores.sqlite.connections import QMD_ID
from openclaw_mem_engine.stores.sqlite.database import Advice, Database


class _OwnDatabase(Database):
    def _connect(self) -> apsw.Connection:
        connection = super()._connect()
        connection.pragma("foreign_keys", True)
        connection.execute(VIEWS)
        return connection


class MultiGet(NamedTuple):
    """Documents in the order asked for, each with the reason why its text is left out ("" when it is not),
    and a sentence for each part of the request that fits none."""

    documents: tuple[tuple[Document, str], ...]
    problems: tuple[str, ...]


class QmdStore(Updating, Maintenance):
    """One index in the schema of QMD. Thread-safe; each write is atomic, also when the process is killed, and
    readers never wait for a writer. Methods raise IndexUnavailable, IndexDamaged, IndexLocked."""

    @classmethod
    def open(
        cls, path: Path, *, read_only: bool = False, extension: bool = True, advice: Advice = REPAIRED
    ) -> QmdStore:
        """Open the index ``path``, made empty when there is none (unless ``read_only``).

        One that the program QMD made is only read, whatever is asked for (``QmdStore.read_only``).
        ``extension`` allows sqlite-vec; ``advice`` is for the messages of one that is written. May wait some
        seconds for another process. Raises IndexUnavailable for what is no index and for a link,
        IndexDamaged."""
        owner = owner_of(path)
        if owner == "nothing" and read_only:
            raise IndexUnavailable(f"There is no index {path}. `openclaw-mem qmd update` makes one.")
        if owner == "qmd" or read_only:
            return cls(ForeignDatabase(path, is_theirs=owner == "qmd"))
        return cls._open_ours(path, extension, advice, is_new=owner == "nothing")

    @classmethod
    def _open_ours(cls, path: Path, extension: bool, advice: Advice, *, is_new: bool) -> QmdStore:
        database = _OwnDatabase(path, extension=extension, application_id=QMD_ID, advice=advice)
        try:
            with database.transaction() as connection:
                create(connection)
            store = cls(database)
            store.restore_config()
            if is_new or not store.config_path.exists():
                store.write_config()
        except BaseException:
            with suppress(IndexUnavailable):
                database.close()
            raise
        return store

    def find(self, reference: str) -> Document | None:
        """The document that a person means (``qmd.lookup.find``), maybe with lines after it, which are not
        looked at (``qmd.lookup.Reference``); None when none fits: ``why_missing`` tells why."""
        known = self._known_documents()
        roots = {one.name: str(one.root) for one in self.collections()}
        found = find(reference, known, roots) or find(Reference.parse(reference).text, known, roots)
        return self.documents([found.full]).get(found.full) if found else None

    def why_missing(self, reference: str) -> str:
        """What to answer when there is no such document: an ignore rule, or similar paths."""
        return why_missing(Reference.parse(reference).text, self._known_documents(), self.collections())

    def multi_get(self, pattern: str, max_bytes: int = MAX_BYTES) -> MultiGet:
        """The documents of a comma list of globs, paths and docids (``qmd.lookup.select``)."""
        found, problems = select(pattern, self._known_documents())
        held = self.documents(known.full for known in found)
        documents = [held[known.full] for known in found if known.full in held]
        return MultiGet(
            tuple((one, why_too_large(len(one.text), max_bytes)) for one in documents), tuple(problems)
        )

    def _known_documents(self) -> list[Known]:
        found = self._db.read("SELECT collection, path, hash FROM documents WHERE active = 1 ORDER BY id")
        return [Known(*row) for row in found]

    def close(self) -> None:
        """Release all; searches of other threads are interrupted. May wait two seconds."""
        self._db.close()
