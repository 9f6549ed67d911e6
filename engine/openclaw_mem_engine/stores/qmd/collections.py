"""The collections and contexts of an index, and their copy ``index.yml`` beside it, from which the program
QMD takes them and a lost index gets them back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw

from openclaw_mem_engine.errors import IndexUnavailable, UsageError
from openclaw_mem_engine.qmd.collections import Collection, config_of, from_config
from openclaw_mem_engine.state.disk import read_file, replace_file
from openclaw_mem_engine.stores.qmd.foreign import ForeignDatabase
from openclaw_mem_engine.stores.qmd.schema import space_cjk
from openclaw_mem_engine.stores.sqlite.database import Bound, Database, rows

#: The context of all collections is set under this name.
GLOBAL = ""
_COLUMNS = "name, path, pattern, ignore_patterns, context, update_command, include_by_default"


class Collections:
    """The collections of an index, and what all parts of a store share: its file."""

    def __init__(self, database: Database | ForeignDatabase) -> None:
        self._db = database
        self.path = database.path
        #: The index was made by the program QMD, or is to be read only.
        self.read_only = isinstance(database, ForeignDatabase)
        names = {row[0] for row in database.read("SELECT name FROM sqlite_schema")}
        self._has_collections = "store_collections" in names  # not in an index of QMD 1.0
        columns = {row[0] for row in database.read("SELECT name FROM pragma_table_info('content_vectors')")}
        self._is_old = "embed_fingerprint" not in columns
        self._has_details = "openclaw_mem_collections" in names

    # -- reading ----------------------------------------------------------------------------------------

    def collections(self) -> tuple[Collection, ...]:
        """All collections in the order in which they were added. Those of QMD 1.0 are in its ``index.yml``
        alone: of such an index only names are known."""
        if not self._has_collections:
            found = self._db.read("SELECT DISTINCT collection FROM documents ORDER BY id")
            return tuple(Collection(name, Path()) for (name,) in found)
        details: dict[str, Bound] = {}
        if self._has_details:
            found = self._db.read(
                "SELECT name, source, configured, update_command FROM openclaw_mem_collections"
            )
            details = {row[0]: row[1:] for row in found}
        found = self._db.read(f"SELECT {_COLUMNS} FROM store_collections ORDER BY rowid")
        made = (_collection_of(row) for row in found)
        return tuple(
            replace(one, source=held[0], configured=bool(held[1]), update_command=held[2])
            if (held := details.get(one.name))
            else one
            for one in made
        )

    def collection(self, name: str) -> Collection:
        """The collection of this name. Raises UsageError with the names there are."""
        known = {one.name: one for one in self.collections()}
        if name not in known:
            names = ", ".join(known) or "none"
            raise UsageError(f"There is no collection {name!r}. Collections: {names}.")
        return known[name]

    def global_context(self) -> str:
        """The context of all collections; "" when none is set."""
        if not self._has_collections:
            return ""
        found = self._db.read("SELECT value FROM store_config WHERE key = 'global_context'")
        return str(found[0][0] or "") if found else ""

    def _check_writable(self) -> None:
        """Raise IndexUnavailable for an index that is only read, before work is done for it."""
        if isinstance(self._db, ForeignDatabase):
            self._db.refuse()

    # -- changing ---------------------------------------------------------------------------------------

    def add_collection(self, collection: Collection, *, replaces: bool = False) -> None:
        """Add a collection; its files are indexed by the next update. ``replaces`` puts it in the place of
        one of the same name. Raises UsageError for a name that cannot be in a virtual path or is taken, and
        for a root and pattern that another collection has."""
        name = collection.name
        _check_name(name)
        for known in self.collections():
            if known.name == name and not replaces:
                raise UsageError(f"The collection {name!r} already exists. Take another name, or remove it.")
            same = (known.root, known.pattern) == (collection.root, collection.pattern)
            if same and known.name != name:
                raise UsageError(
                    f"The collection {known.name!r} already has {known.root} with the pattern "
                    f"{known.pattern}. Update it, or remove it first."
                )
        with self._changing() as connection:
            _put(connection, collection)

    def remove_collection(self, name: str) -> int:
        """Remove a collection with its documents, of which the number is returned; files stay. Raises
        UsageError for an unknown one."""
        self.collection(name)
        with self._changing() as connection:
            connection.execute("DELETE FROM documents WHERE collection = ?", (name,))
            removed = connection.changes()
            connection.execute("DELETE FROM openclaw_mem_files WHERE collection = ?", (name,))
            connection.execute("DELETE FROM store_collections WHERE name = ?", (name,))
            connection.execute("DELETE FROM openclaw_mem_collections WHERE name = ?", (name,))
            connection.execute("DELETE FROM content WHERE hash NOT IN (SELECT hash FROM documents)")
        return removed

    def rename_collection(self, old: str, new: str) -> None:
        """Give a collection another name; its documents and vectors stay. Raises UsageError for an unknown
        collection and a name that is taken."""
        collection = self.collection(old)
        if any(one.name == new for one in self.collections()):
            raise UsageError(f"The collection {new!r} already exists. Take another name, or remove it.")
        _check_name(new)
        with self._changing() as connection:
            for table, column in (
                ("store_collections", "name"),
                ("openclaw_mem_collections", "name"),
                ("openclaw_mem_files", "collection"),
                (
                    "documents",
                    "collection",
                ),  # its trigger writes the full-text row anew, which holds the name
            ):
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))
            space_cjk(connection, "d.collection = ?", (new,))
            _put(connection, replace(collection, name=new))

    def set_context(self, collection: str, prefix: str, text: str) -> None:
        """Set the context of the paths of a collection that begin with ``prefix`` ("" is all of them); for
        ``GLOBAL`` that of every collection. An empty text removes it. Raises UsageError for an unknown
        collection, and when there is none to remove."""
        if collection == GLOBAL:
            with self._changing() as connection:
                sql = "INSERT OR REPLACE INTO store_config(key, value) VALUES('global_context', ?)"
                connection.execute(sql, (text,))
            return
        known = self.collection(collection)
        contexts = {**known.contexts, prefix: text}
        if not text:
            if prefix not in known.contexts:
                raise UsageError(f"qmd://{collection}/{prefix} has no context of its own to remove.")
            del contexts[prefix]
        self.add_collection(replace(known, contexts=contexts), replaces=True)

    @contextmanager
    def _changing(self) -> Iterator[apsw.Connection]:
        """A transaction after which ``index.yml`` is written."""
        with self._db.transaction() as connection:
            yield connection
        self.write_config()

    # -- index.yml --------------------------------------------------------------------------------------

    @property
    def config_path(self) -> Path:
        return self.path.with_suffix(".yml")

    def write_config(self) -> None:
        """Write ``index.yml`` as JSON text, which is YAML too; mode 0600, in one step."""
        config = config_of(self.collections(), self.global_context())
        try:
            replace_file(self.config_path, config.encode())
        except OSError as error:
            raise IndexUnavailable(
                f"{self.config_path} cannot be written ({error.strerror}). The index itself is up to date; "
                "check the permissions and the free space of its folder, and try again."
            ) from error

    def restore_config(self) -> None:
        """Take collections and contexts from ``index.yml`` where the index has none, as after its loss. Those
        of the configuration are taken in from there afterwards."""
        if self.collections() or self.config_path.is_symlink():
            return
        with suppress(OSError):
            found, context = from_config(read_file(self.config_path))
            with self._db.transaction() as connection:
                for collection in found:
                    _put(connection, replace(collection, configured=False))
                if context:
                    sql = "INSERT OR REPLACE INTO store_config(key, value) VALUES('global_context', ?)"
                    connection.execute(sql, (context,))


def _check_name(name: str) -> None:
    if not name or name != name.strip() or "/" in name or "?" in name or not name.isprintable():
        raise UsageError(
            f"{name!r} cannot name a collection: take a text without / and ?, control characters, and blanks "
            "at its ends."
        )


def _put(connection: apsw.Connection, c: Collection) -> None:
    row = rows(connection, "SELECT 1 FROM store_collections WHERE name = ?", (c.name,))
    values = (
        str(c.root),
        c.pattern,
        json.dumps(c.ignore) if c.ignore else None,
        json.dumps(dict(c.contexts), ensure_ascii=False) if c.contexts else None,
        c.update_command or None,
        int(c.included),
        c.name,
    )
    columns = _COLUMNS.removeprefix("name, ")
    if row:  # not REPLACE, which would move it to the end
        connection.execute(
            f"UPDATE store_collections SET ({columns}) = (?, ?, ?, ?, ?, ?) WHERE name = ?", values
        )
    else:
        connection.execute(
            f"INSERT INTO store_collections({columns}, name) VALUES(?, ?, ?, ?, ?, ?, ?)", values
        )
    sql = "INSERT OR REPLACE INTO openclaw_mem_collections VALUES(?, ?, ?, ?)"
    connection.execute(sql, (c.name, c.source, int(c.configured), c.update_command))


def _collection_of(row: tuple[Any, ...]) -> Collection:
    name, path, pattern, ignore, contexts, _, included = row
    return Collection(
        name=name,
        root=Path(path),
        pattern=pattern,
        ignore=tuple(json.loads(ignore)) if ignore else (),
        contexts=json.loads(contexts) if contexts else {},
        included=included != 0,
    )
