"""One state of an index file, opened to be examined (nothing is made, brought up to date or repaired), and
the checks that need nothing but its file: SQLite itself, tables, facts, chunks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

import apsw

from openclaw_mem_engine.cancellation import BUSY_TIMEOUT_MS, CancelToken
from openclaw_mem_engine.commands import FIX, INDEX, UPGRADE
from openclaw_mem_engine.model import Space
from openclaw_mem_engine.sanitize import counted, counted_are, counted_have
from openclaw_mem_engine.stores.base import SCHEMA_VERSION, FileState, Fingerprint
from openclaw_mem_engine.stores.findings import Outcome
from openclaw_mem_engine.stores.sqlite.chunks import COLUMNS, as_stored
from openclaw_mem_engine.stores.sqlite.connections import connect_existing
from openclaw_mem_engine.stores.sqlite.database import (
    Bound,
    complaints,
    explained,
    rows,
)
from openclaw_mem_engine.stores.sqlite.schema import (
    FILES,
    FULL_TEXT_TABLES,
    NEEDED,
    TABLES,
    file_states,
    generation_of,
    newer,
    schema_of,
    time_of,
)

#: Steps of SQLite's machine between two looks at the cancel token.
_STEPS = 50_000
#: Older ones may corrupt a WAL database that two connections write and checkpoint at the same time.
SAFE_SQLITE = (3, 51, 3)
#: How many complaints of SQLite are asked for.
_COMPLAINTS = 20


class Snapshot:
    """A read transaction over the index ``path``: what other processes write meanwhile is not seen. Raises
    IndexDamaged or IndexUnavailable when not even that is possible, and from every read Cancelled when
    ``cancel`` is set."""

    def __init__(self, path: Path, cancel: CancelToken | None = None) -> None:
        with explained(path):
            self.connection = connect_existing(path)
        try:
            self.connection.set_busy_timeout(BUSY_TIMEOUT_MS)
            with explained(path):
                self._prepare(cancel)
                self.tables = {row[0] for row in self.rows("SELECT name FROM sqlite_schema")}
                held = self.rows("SELECT key, value FROM meta") if "meta" in self.tables else []
                self.meta = {str(key): str(value) for key, value in held}
        except BaseException:
            self.connection.close()
            raise

    def _prepare(self, cancel: CancelToken | None) -> None:
        connection = self.connection
        for table in FULL_TEXT_TABLES.values():
            with suppress(apsw.SQLError):  # no FTS5
                connection.execute(
                    f"CREATE VIRTUAL TABLE temp.{table}_words USING fts5vocab(main, {table}, instance)"
                )
        connection.pragma("query_only", True)
        if cancel is not None:
            connection.set_progress_handler(cancel.is_set, _STEPS)
        connection.execute("BEGIN")

    def rows(self, sql: str, bound: Bound = ()) -> list[Bound]:
        """All rows of one query. Raises apsw.Error."""
        return rows(self.connection, sql, bound)

    def number(self, sql: str) -> int:
        return int(self.rows(sql)[0][0])

    def fingerprint(self) -> Fingerprint | None:
        """What the content was built with; None when the index does not say. Raises ValueError for what is no
        fingerprint of ours."""
        text = self.meta.get("fingerprint")
        return None if text is None else Fingerprint.from_json(text)

    def space(self) -> Space | None:
        """The primary vector space; None when it has none, or none that can be read."""
        with suppress(ValueError):
            known = self.fingerprint()
            return known.space if known is not None and known.provider != "none" else None
        return None

    def files(self) -> dict[str, FileState]:
        """Known files by path. Raises ValueError where a record is none."""
        return file_states(self.rows(FILES))

    def close(self) -> None:
        """End the transaction and close the file."""
        with suppress(apsw.Error):
            self.connection.set_progress_handler(None)
            if self.connection.in_transaction:
                self.connection.execute("ROLLBACK")
        with suppress(apsw.Error):
            self.connection.close()


# -- checks -----------------------------------------------------------------------------------------------


def check_version(out: Outcome, version: Sequence[int] = ()) -> None:
    """The SQLite in use. ``version`` is (major, minor, patch); default: this process's."""
    known = tuple(version) or tuple(map(int, apsw.sqlite_lib_version().split(".")[:3]))
    version_text = ".".join(map(str, known))
    out.detail = f"SQLite {version_text}, apsw {apsw.apsw_version()}"
    if known < SAFE_SQLITE:
        out.add(
            "sqlite-old",
            "warning",
            f"SQLite {version_text} has a bug by which two writers can damage an index (fixed in "
            f"{'.'.join(map(str, SAFE_SQLITE))}).",
            repair='python -m pip install --upgrade "apsw>=3.51.3"',
        )


def check_integrity(snap: Snapshot, out: Outcome) -> None:
    """SQLite's own look at every page, every index and every full-text structure."""
    try:
        found = snap.rows(f"PRAGMA integrity_check({_COMPLAINTS})")
        said = [line for (text,) in found for line in complaints(str(text))]
    except (apsw.CorruptError, apsw.SQLError, UnicodeDecodeError) as error:  # where it cannot even go on
        said = complaints(str(error))
    if said == ["ok"]:
        out.detail = f"integrity_check ok over {counted(snap.number('PRAGMA page_count'), 'page')}"
        return
    out.detail = f"integrity_check has {counted(len(said), 'error')}"
    out.add("damaged", "error", "SQLite finds the index file damaged.", said, FIX)


def check_tables(snap: Snapshot, out: Outcome) -> None:
    """Every table is there, and nothing that changes what is written into them."""
    missing = [name for name in NEEDED if name not in snap.tables]
    full_text = [name for name in (FULL_TEXT_TABLES["stemmed"], "chunks_terms") if name not in snap.tables]
    out.detail = f"{counted(len(snap.tables), 'table and index', 'tables and indexes')}"
    if missing:
        text = "Tables of the index are missing: " + ", ".join(missing) + "."
        out.add("tables-missing", "error", text, repair=FIX)
    elif full_text:
        text = "Tables of the BM25 index are missing: " + ", ".join(full_text) + "."
        out.add("full-text-tables", "error", text, repair=FIX)
    acting = "SELECT name FROM sqlite_schema WHERE type IN ('index', 'trigger') AND sql IS NOT NULL"
    with closing(apsw.Connection(":memory:")) as fresh:
        fresh.execute("; ".join(TABLES))
        ours = rows(fresh, acting)
    if others := [name for (name,) in snap.rows(acting) if (name,) not in ours]:
        text = f"{counted(len(others), 'index or trigger', 'indexes or triggers')} of the file that this "
        out.add("foreign-schema", "error", f"{text}program did not make: writing may fail.", others, FIX)


def check_facts(snap: Snapshot, out: Outcome) -> None:
    """What the index says of itself."""
    meta, chunks = snap.meta, snap.number("SELECT count(*) FROM chunks")
    generation = meta.get("generation")
    out.detail = "changed an unknown number of times"
    fault = "is missing" if generation is None and chunks else ""
    try:
        number = generation_of(generation)
        out.detail = f"changed {counted(number, 'time')}" if generation else out.detail
    except ValueError:
        fault = "cannot be read"
    if fault:
        text = f"The generation of the index {fault}: data cached in memory can become stale unnoticed."
        out.add("generation", "error", text, repair=FIX)
    if "synced_at" in meta:
        try:
            time_of(meta["synced_at"])
        except ValueError:
            out.add("synced-at", "error", "The time of the last sync cannot be read.", repair=FIX)
    elif chunks:
        text = "No sync was ever completed: some notes may not be in the index."
        out.add("never-synced", "warning", text, repair=INDEX)
    fingerprint = meta.get("fingerprint", "")
    if not fingerprint:
        if chunks:
            text = "The index has lost the record of its build settings. The next sync rebuilds it."
            out.add("no-fingerprint", "error", text, repair=INDEX)
        return
    schema = schema_of(fingerprint)
    out.detail += f", schema version {schema or 'unknown'}"
    if schema > SCHEMA_VERSION:
        out.add("newer-schema", "error", newer(schema), repair=UPGRADE)
        return
    try:
        snap.fingerprint()
    except ValueError:
        text = "What the index was built with cannot be read."
        out.add("fingerprint-unreadable", "error", text, repair=FIX)


def check_chunks(snap: Snapshot, out: Outcome) -> None:
    """Each chunk is what its id says (also of the model of the index), exists once, and belongs to a file."""
    total, wrong = 0, []
    ids: set[str] = set()
    twice: list[str] = []
    # NOT INDEXED: an index may be what is damaged.
    for row in snap.connection.execute(f"SELECT {COLUMNS} FROM chunks c NOT INDEXED"):
        total += 1
        chunk_id, path, _, first, last, *_ = row
        location = f"{path}:{first}-{last}"
        if chunk_id in ids:
            twice.append(location)
        ids.add(chunk_id)
        if as_stored(row) is None:
            wrong.append(location)
    out.detail = f"{counted(total, 'chunk')}, each as its id and hash say"
    if wrong:
        text = f"{counted_are(len(wrong), 'chunk')} altered: text or lines do not match hash and id."
        out.add("altered-chunks", "error", text, wrong, FIX)
        out.detail = f"{counted(total, 'chunk')}, {len(wrong):,} of them not as their ids and hashes say"
    if twice:
        text = f"{counted_have(len(twice), 'chunk')} the same id as another one."
        out.add("duplicate-ids", "error", text, twice, FIX)
    stray = snap.rows(
        """SELECT path, count(*) FROM chunks c WHERE NOT EXISTS (SELECT 1 FROM files f
            WHERE f.path = c.path AND f.source = c.source AND f.refusal = '') GROUP BY path"""
    )
    if stray:
        text = f"{counted_are(sum(row[1] for row in stray), 'chunk')} of no file that the index knows, and "
        text += "would never go."
        out.add("chunks-without-file", "error", text, (str(row[0]) for row in stray), FIX)
