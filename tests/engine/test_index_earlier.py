"""Indexes of schemas 3 and 4: converted when they are opened, with all passages and vectors, then rebuilt."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
import sqlite_vec

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite.repair import save_embeddings
from openclaw_mem_engine.stores.sqlite.schema import TEXT
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from support.damage import indexed, looked, named
from support.stores import content
from support.users import unprivileged_folder

_WHOLE = TEXT.replace("FROM chunks p", "FROM new_chunks p")
_DROPPED = """DROP VIEW chunk_lines; ALTER TABLE line_tokens RENAME TO chunk_lines;
DROP INDEX idx_chunks_path; DROP INDEX idx_chunks_hash; ALTER TABLE chunks RENAME TO new_chunks;
"""
#: The tables that changed, as earlier schemas had them, filled from those of today.
SCHEMAS = {
    4: f"""{_DROPPED}
CREATE TABLE chunks(
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL, source TEXT NOT NULL,
    start_line INTEGER NOT NULL, end_line INTEGER NOT NULL, hash BLOB NOT NULL, text TEXT NOT NULL);
CREATE INDEX idx_chunks_path ON chunks(path, source);
CREATE INDEX idx_chunks_hash ON chunks(hash);
INSERT INTO chunks SELECT seq, id, path, source, start_line, end_line, hash, {_WHOLE} FROM new_chunks c;
DROP TABLE new_chunks;
UPDATE meta SET value = replace(value, '"schema": 5', '"schema": 4') WHERE key = 'fingerprint';
VACUUM;
""",
    3: f"""{_DROPPED}
DROP INDEX idx_cache_none; ALTER TABLE embedding_cache RENAME TO new_cache;
CREATE TABLE chunks(
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, path TEXT NOT NULL,
    source TEXT NOT NULL DEFAULT 'memory', start_line INTEGER NOT NULL, end_line INTEGER NOT NULL,
    hash TEXT NOT NULL, model TEXT NOT NULL, text TEXT NOT NULL, updated_at REAL NOT NULL);
CREATE INDEX idx_chunks_path ON chunks(path, source);
CREATE TABLE embedding_cache(
    provider TEXT NOT NULL, model TEXT NOT NULL, provider_key TEXT NOT NULL, hash TEXT NOT NULL,
    embedding BLOB, dims INTEGER NOT NULL, updated_at REAL NOT NULL,
    PRIMARY KEY(provider, model, provider_key, hash));
CREATE INDEX idx_chunks_hash ON chunks(hash);
CREATE INDEX idx_cache_none ON embedding_cache(hash) WHERE embedding IS NULL;
CREATE VIRTUAL TABLE chunks_vec USING vec0(
    source TEXT PARTITION KEY, embedding FLOAT[256] distance_metric=cosine);
INSERT INTO chunks SELECT seq, id, path, source, start_line, end_line, lower(hex(hash)), 'm', {_WHOLE}, 1.0
    FROM new_chunks c;
INSERT INTO embedding_cache SELECT provider, model, provider_key, lower(hex(hash)), embedding,
    coalesce(length(embedding) / 4, 0), updated_at FROM new_cache e JOIN spaces s ON s.id = e.space;
INSERT INTO chunks_vec(rowid, source, embedding)
    SELECT seq, source, embedding FROM chunks JOIN embedding_cache USING(hash) WHERE embedding IS NOT NULL;
DROP TABLE new_chunks; DROP TABLE new_cache; DROP TABLE spaces;
UPDATE meta SET value = replace(value, '"schema": 5', '"schema": 3') WHERE key = 'fingerprint';
PRAGMA journal_mode = delete; PRAGMA page_size = 4096; VACUUM; PRAGMA journal_mode = wal;
""",
}


@pytest.fixture(params=SCHEMAS)
def settings(tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    return earlier(indexed(tmp_path), request.param)


def earlier(made: Settings, schema: int = 3) -> Settings:
    """An index of an earlier schema; that of schema 3 with pages of 4 kB as SQLite makes them."""
    with closing(apsw.Connection(str(made.index_path))) as connection:
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        for statement in filter(str.strip, SCHEMAS[schema].split(";")):
            connection.execute(statement).fetchall()
    return made


def test_everything_of_it_is_found_before_the_sync_that_rebuilds_it(
    settings: Settings, tmp_path: Path
) -> None:
    whole = indexed(tmp_path / "today")
    before = settings.index_path.stat().st_size
    finding = named(looked(settings), "earlier-tables")
    assert (finding.severity, finding.repair) == ("warning", "openclaw-mem index")
    with Memory.open(settings) as memory, Memory.open(whole) as today:
        answer, wanted = memory.search("heron pond"), today.search("heron pond")
        assert answer.hits == wanted.hits
        assert named(looked(settings), "other-fingerprint").repair == "openclaw-mem index"
        report = memory.sync()
        assert (report.rebuilt, report.embedded) == (True, 0)
    assert looked(settings, deep=True).findings == ()
    assert content(settings.index_path) == content(whole.index_path)
    assert settings.index_path.stat().st_size < before
    with closing(apsw.Connection(str(settings.index_path))) as connection:
        assert not connection.execute("SELECT 1 FROM sqlite_schema WHERE name LIKE '%vec%'").fetchall()
        lines: Any = connection.execute("SELECT count(*) FROM line_tokens").fetchall()
    assert lines[0][0] > 10, "lines of an earlier index were not kept"


def test_while_another_process_has_it_open_it_is_rebuilt_too(settings: Settings) -> None:
    with closing(apsw.Connection(str(settings.index_path))) as other:
        other.execute("SELECT count(*) FROM chunks").fetchall()
        with Memory.open(settings, resident=True) as memory:
            report = memory.sync()
            assert (report.rebuilt, report.embedded) == (True, 0)
            assert memory.search("heron pond").pool.lists[0].rows
        assert other.execute("SELECT count(*) FROM line_tokens").fetchall() != [(0,)]
    assert looked(settings, deep=True).findings == ()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="becoming another user takes root")
def test_where_it_may_not_be_written_it_says_what_converts_it() -> None:
    with unprivileged_folder() as folder:
        settings = earlier(indexed(folder, {"MEMORY.md": "The heron lives near the pond.\n"}))
        settings.index_path.chmod(0o400)
        settings.index_path.parent.chmod(0o500)
        with pytest.raises(IndexUnavailable, match="Run `chmod -R u\\+rwX"):
            Memory.open(settings)
        settings.index_path.parent.chmod(0o700)
        settings.index_path.chmod(0o600)
        with Memory.open(settings) as memory:
            assert memory.sync().rebuilt and memory.search("heron").hits


def test_its_embeddings_are_saved_when_it_is_damaged(settings: Settings, tmp_path: Path) -> None:
    with closing(apsw.Connection(str(settings.index_path))) as connection:
        counted: Any = connection.execute("SELECT count(*) FROM embedding_cache").fetchall()
    ((number,),) = counted
    assert save_embeddings(settings.index_path, tmp_path / "new.sqlite") == number > 10
    with (
        closing(SqliteIndex(settings.index_path)) as store,
        closing(SqliteIndex(tmp_path / "new.sqlite")) as new,
    ):
        assert (
            [size.entries for size in new.cache_sizes()]
            == [number]
            == [size.entries for size in store.cache_sizes()]
        )
        space = store.cache_sizes()[0].space
        assert new.cached_hashes(space) == store.cached_hashes(space)
    assert content(tmp_path / "new.sqlite")["cache"] == content(settings.index_path)["cache"]
