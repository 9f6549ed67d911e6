"""An answer from a damaged index is an error that names the repair; what others write is no damage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import fix
from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, WORKBENCH
from openclaw_mem_engine.stores.damage import file_damage, kept
from openclaw_mem_engine.stores.sqlite.files import damaged
from openclaw_mem_engine.stores.sqlite.schema import PAGE_BYTES
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from support.damage import PLAIN, alter, indexed, looked, raw, type_in, zero
from support.memories import backend_of
from support.stores import new_store, put, unit

DIMS = 8
FIX = "`openclaw-mem doctor --fix`"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path)


def mended(settings: Settings) -> None:
    """What the notes tell to do: the doctor, then a sync."""
    fix(settings, looked(settings))
    with Memory.open(settings) as memory:
        memory.sync()
        answer = memory.search("heron pond")
        assert (answer.warnings, answer.pool.fallback) == ((), None)
        assert [found.kind for found in answer.pool.lists] == ["vector", "lexical"]


#: Damage to what is derived for one list.
DAMAGE = {
    "vectors without direction": "UPDATE embedding_cache SET embedding = zeroblob(length(embedding))",
    "vectors that are text": "UPDATE embedding_cache SET embedding = 'x'",
    "vectors of no length": "UPDATE embedding_cache SET embedding = x''",
    "full text without its blocks": "DROP TABLE chunks_fts_stemmed_data; DROP TABLE chunks_fts_named_data",
    "full text without its settings": "DELETE FROM chunks_fts_stemmed_config",
}


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
@pytest.mark.parametrize("resident", [False, True])
def test_damage_of_one_list_is_an_error_that_names_the_repair(
    settings: Settings, statement: str, resident: bool
) -> None:
    alter(settings, statement)
    with Memory.open(settings, resident=resident) as memory:
        for knobs in (DOCUMENTED, DOCUMENTED.set({"mode": "bm25"}), WORKBENCH):
            with pytest.raises(IndexDamaged, match=FIX):
                memory.search("heron pond", knobs)
        event, *_ = memory.events(5)
        assert event.kind == "search-failed" and "is damaged" in event.reason
    type_in(settings, FIX.strip("`"))
    mended(settings)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE chunks SET text = x'ff'",
        "UPDATE chunks SET start_line = 'x'",
        "UPDATE chunks SET path = x'00'",
    ],
)
def test_passages_that_are_none_are_damage(settings: Settings, statement: str) -> None:
    alter(settings, statement)
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged):
        memory.search("heron pond")


@pytest.mark.parametrize("text", ["x'ff'", "NULL", "'other words'"])
def test_of_a_passage_that_is_none_no_vector_and_no_words_are_made(settings: Settings, text: str) -> None:
    with raw(settings) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        loose = "replace(sql, 'NOT NULL', '')"
        connection.execute(f"UPDATE sqlite_schema SET sql = {loose} WHERE name = 'chunks'")
    alter(settings, f"UPDATE chunks SET text = {text}")
    alter(settings, "DELETE FROM embedding_cache", "DROP TABLE chunks_fts_named")
    with Memory.open(settings) as memory:
        store = backend_of(memory).store
        with pytest.raises(IndexDamaged):
            memory.sync()
        with pytest.raises(IndexDamaged):
            store.chunks_of(next(iter(store.files())))
        if text != "'other words'":
            with pytest.raises(IndexDamaged):
                store.provide("named")
    with raw(settings) as connection:
        assert not connection.execute("SELECT 1 FROM embedding_cache").fetchall()


@pytest.mark.parametrize("resident", [False, True])
@pytest.mark.parametrize("changed", [b"near the lake", b"near the\xffpond"])
def test_bytes_changed_in_a_chunk_are_damage(settings: Settings, resident: bool, changed: bytes) -> None:
    held = settings.index_path.read_bytes()
    assert held.count(b"near the pond") == 1
    settings.index_path.write_bytes(held.replace(b"near the pond", changed))
    assert "a chunk is not what was stored" in str(file_damage(settings))
    with Memory.open(settings, resident=resident) as memory:
        with pytest.raises(IndexDamaged, match="not what was stored"):
            memory.search("heron pond owl")
        with pytest.raises(IndexDamaged, match="not what was stored"):
            memory.why_not("heron pond", "memory/animals/heron.md")
    (found,) = looked(settings).findings
    assert found.code == "altered-chunks" and found.evidence == ("memory/animals/heron.md:1-2",)
    type_in(settings, FIX.strip("`"))
    with Memory.open(settings) as memory:
        assert memory.search("heron pond").hits[0].snippet == "The heron lives near the pond."


@pytest.mark.parametrize(
    "changed", ["path = 'memory/animals/heros.md'", "end_line = end_line + 1", "source = 'sessions'"]
)
def test_a_chunk_with_another_location_is_damage(settings: Settings, changed: str) -> None:
    """Its text is as it was stored: only its id tells."""
    alter(settings, f"UPDATE chunks SET {changed} WHERE path = 'memory/animals/heron.md'")
    assert "a chunk is not what was stored" in str(file_damage(settings))
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged, match="not what was stored"):
        memory.search("heron pond owl")


def test_what_a_search_without_its_chunks_advises_repairs_them(settings: Settings) -> None:
    zero("chunks", settings)
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged, match=FIX) as damage:
        memory.search("heron pond")
    assert "***" not in str(damage.value) and "\n" not in str(damage.value)
    type_in(settings, FIX.strip("`"))
    with Memory.open(settings) as memory:
        memory.sync()
        assert memory.search("heron pond").warnings == ()
    assert looked(settings, deep=True).errors == 0


def sector_zeroed(settings: Settings, table: str) -> None:
    """Zero what a disk loses of the leaves of a table: sectors of 4 kB behind their headers. SQLite finds
    rows without a value there, and no damage."""
    with raw(settings) as connection:
        pages = connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf'", (table,))
        ends = [number * PAGE_BYTES for (number,) in pages]
    data = bytearray(settings.index_path.read_bytes())
    for end in ends:
        data[end - 4096 : end] = bytes(4096)
    settings.index_path.write_bytes(data)


@pytest.mark.parametrize("table", ["files", "sqlite_autoindex_chunks_1"])
def test_rows_that_a_lost_sector_emptied_are_damage_and_not_an_empty_answer(
    settings: Settings, table: str
) -> None:
    sector_zeroed(settings, table)
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged, match=FIX):
        memory.sync()
        memory.search("heron pond")
    type_in(settings, FIX.strip("`"))
    assert looked(settings, deep=True).errors == 0


@pytest.mark.parametrize("resident", [False, True])
def test_vectors_that_a_lost_sector_emptied_are_damage(settings: Settings, resident: bool) -> None:
    sector_zeroed(settings, "embedding_cache")
    assert file_damage(settings) is not None
    with Memory.open(settings, resident=resident) as memory, pytest.raises(IndexDamaged, match=FIX):
        memory.search("heron pond")
    mended(settings)
    assert file_damage(settings) is None


@pytest.mark.parametrize("resident", [False, True])
def test_a_vector_with_other_bytes_is_damage_although_it_can_be_compared(
    settings: Settings, resident: bool
) -> None:
    """It is as long as it was: without its checksum it took its passage from the list, without a word."""
    alter(settings, "UPDATE embedding_cache SET embedding = negated(embedding) WHERE id = 1")
    assert "a vector is not the one that was stored" in str(file_damage(settings))
    with Memory.open(settings, resident=resident) as memory, pytest.raises(IndexDamaged, match=FIX):
        memory.search("heron pond")
    type_in(settings, "openclaw-mem index")
    assert file_damage(settings) is None and looked(settings).errors == 0


@pytest.mark.parametrize("resident", [False, True])
def test_a_vector_that_was_taken_out_of_its_row_is_damage(settings: Settings, resident: bool) -> None:
    """A row without one says that its text has none, so that it was in no list of vectors, without a word."""
    alter(settings, "UPDATE embedding_cache SET embedding = NULL WHERE id = 1")
    with Memory.open(settings, resident=resident) as memory, pytest.raises(IndexDamaged, match=FIX):
        memory.search("heron pond")
    type_in(settings, "openclaw-mem index")
    assert file_damage(settings) is None and looked(settings).errors == 0


def test_the_log_of_a_damaged_index_is_named_where_it_holds_something(tmp_path: Path) -> None:
    log = tmp_path / "i.damaged-wal"
    log.touch()
    assert log.name not in kept(tmp_path / "i.damaged", 1)
    log.write_bytes(b"x")
    assert f"Its log is {log.name} beside it." in kept(tmp_path / "i.damaged", 1)


def test_words_of_a_lost_passage_are_damage_and_no_absence(settings: Settings) -> None:
    with Memory.open(settings) as memory:  # another that is opened does not get as far
        alter(settings, "DELETE FROM chunks WHERE path = 'memory/animals/heron.md'")
        with pytest.raises(IndexDamaged, match="words without their chunk: 1"):
            memory.search("heron", DOCUMENTED.set({"mode": "bm25"}))
    type_in(settings, FIX.strip("`"))
    with Memory.open(settings) as memory:
        memory.sync()
        assert memory.search("heron").hits[0].path == "memory/animals/heron.md"


def test_an_index_that_is_rebuilt_during_a_search_is_read_once_more(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes an index without the words that this search had made sure of."""
    real, rebuilt = SqliteIndex.snapshot, list[bool]()

    def snapshot(self: SqliteIndex) -> Any:
        if not rebuilt:
            rebuilt.append(True)
            alter(settings, "DROP TABLE chunks_fts")
        return real(self)

    monkeypatch.setattr(SqliteIndex, "snapshot", snapshot)
    with Memory.open(settings) as memory:
        answer = memory.search("heron pond", PLAIN)
        assert rebuilt and answer.warnings == ()
        assert [found.kind for found in answer.pool.lists] == ["vector", "lexical"]


@pytest.mark.parametrize("read", ["vector", "lexical", "fetch", "line_scores"])
@pytest.mark.parametrize("resident", [False, True])
def test_what_another_process_removes_during_a_search_stays_in_its_answer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, read: str, resident: bool
) -> None:
    """Whatever is read next: a search sees one state, with the words and the vectors of every chunk."""
    real, removed = getattr(SqliteIndex, read), list[str]()

    def reading(self: SqliteIndex, *arguments: Any, **options: Any) -> Any:
        if not removed:
            removed.append("memory/animals/heron.md")
            with closing(SqliteIndex(settings.index_path)) as other:
                other.remove((removed[0], "memory"))
                other.prune_cache(0)
        return real(self, *arguments, **options)

    with Memory.open(settings, resident=resident) as memory:
        before = memory.search("heron pond", WORKBENCH)
        monkeypatch.setattr(SqliteIndex, read, reading)
        answer = memory.search("heron pond", WORKBENCH)
        assert removed == [answer.hits[0].path] and answer.warnings == ()
        assert answer.trace.rows == before.trace.rows
        after = memory.search("heron pond", WORKBENCH)
        assert removed[0] not in {row.path for row in after.trace.rows}


def test_another_index_that_takes_the_place_during_a_search_is_read_instead(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a repair by another process: what was opened is damaged, and not there any more."""
    real, moved = SqliteIndex.fetch, list[Path]()

    def fetch(self: SqliteIndex, *arguments: Any, **options: Any) -> Any:
        if not moved:
            moved.append(settings.index_path.rename(tmp := settings.index_path.with_name("moved")))
            copyfile(tmp, settings.index_path)
            raise damaged("as if", settings.index_path)
        return real(self, *arguments, **options)

    monkeypatch.setattr(SqliteIndex, "fetch", fetch)
    with Memory.open(settings) as memory:
        answer = memory.search("heron pond")
        assert moved and answer.hits and answer.warnings == ()


def test_the_size_of_a_cache_that_cannot_be_counted_is_damage(settings: Settings) -> None:
    sector_zeroed(settings, "idx_chunks_hash")
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged):
        memory.cache_sizes()


@pytest.mark.parametrize(
    "statement",
    [
        *(f"UPDATE files SET {column} = 'x'" for column in ("mtime_ns", "size", "inode", "checked_ns")),
        *(f"UPDATE files SET {column} = x'ff00'" for column in ("source", "hash", "refusal")),
        "UPDATE chunks SET path = x'ff00' WHERE seq = 1",
    ],
)
def test_values_of_a_kind_that_was_never_written_are_damage(settings: Settings, statement: str) -> None:
    alter(settings, statement)
    for command in ("files", "status --json"):
        with pytest.raises(AssertionError, match="The index is damaged"):
            type_in(settings, f"openclaw-mem {command}")
    assert looked(settings).errors
    type_in(settings, "openclaw-mem doctor --fix")
    mended(settings)


# -- vectors that are compared in memory --------------------------------------------------------------------


def damaged_blob(kind: str) -> bytes:
    good = unit([1.0] * DIMS)
    if kind == "nan":
        good[3] = np.nan
    return {
        "short": good.tobytes()[:-4],
        "long": good.tobytes() + bytes(4),
        "odd": good.tobytes()[:-3],
        "zeros": bytes(4 * DIMS),
        "nan": good.tobytes(),
        "infinite": np.full(DIMS, np.inf, np.float32).tobytes(),
        "other": (-good).tobytes(),
    }[kind]


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    path = tmp_path / "i.sqlite"
    store = new_store(path)
    for number in range(4):
        put(store, f"memory/{number}.md", [f"note {number}"], [unit(np.eye(DIMS)[number])])
    store.close()
    return path


@pytest.fixture(
    params=[{"resident": True}, {"extension": False}, {}], ids=["resident", "no sqlite-vec", "sqlite-vec"]
)
def opened(request: pytest.FixtureRequest, store_path: Path) -> Iterator[SqliteIndex]:
    store = SqliteIndex(store_path, **request.param)
    yield store
    store.close()


@pytest.mark.parametrize("kind", ["short", "long", "odd", "zeros", "nan", "infinite", "other"])
def test_a_damaged_blob_is_never_compared(opened: SqliteIndex, kind: str) -> None:
    query = unit([1.0] * DIMS)
    with opened._db.transaction() as connection:
        connection.execute(
            "UPDATE embedding_cache SET embedding = ? WHERE hash = (SELECT hash FROM chunks WHERE seq = 2)",
            (damaged_blob(kind),),
        )
    ids = [row[0] for row in opened._db.read("SELECT id FROM chunks ORDER BY seq")]
    with pytest.raises(IndexDamaged):
        opened.cosines(query, ids)
    with pytest.raises(IndexDamaged):
        opened.vector(query, 4)
    assert list(opened.cosines(query, ids[:1])) == ids[:1]


def test_blobs_whose_lengths_make_up_for_each_other_are_damage(opened: SqliteIndex) -> None:
    """Joined, they are as long as whole ones, and each row would belong to another chunk."""
    with opened._db.transaction() as connection:
        for seq, kind in ((2, "short"), (3, "long")):
            connection.execute(
                """UPDATE embedding_cache SET embedding = ?
                WHERE hash = (SELECT hash FROM chunks WHERE seq = ?)""",
                (damaged_blob(kind), seq),
            )
    with pytest.raises(IndexDamaged):
        opened.vector(unit([1.0] * DIMS), 4)


def test_a_query_of_other_dimensions_is_no_crash(opened: SqliteIndex) -> None:
    for dims in (1, DIMS + 1):
        with pytest.raises(IndexUnavailable):
            opened.vector(unit([1.0] * dims), 3)


def test_what_is_not_searched_is_not_missed(tmp_path: Path) -> None:
    plain = indexed(tmp_path / "plain", provider="none")
    with Memory.open(plain) as memory:
        assert memory.search("heron pond").warnings == ()
    with Memory.open(indexed(tmp_path / "empty", {"MEMORY.md": ""})) as memory:
        assert memory.notes == ()
