"""Full-text tables that cannot be read: a state of the file, not of who met it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import fix
from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import DOCUMENTED
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync.report import SyncRequest
from support.damage import alter, codes, indexed, looked, type_in
from support.stores import found, new_store, put, unit

#: What a damaged page of the schema takes away, and the command that helps.
DROPPED = ("DROP TABLE chunks_fts_stemmed",)
LOST = ("PRAGMA writable_schema = ON", "DELETE FROM sqlite_schema WHERE name = 'chunks_fts_stemmed_config'")
DAMAGE = {
    "dropped": (DROPPED, "openclaw-mem doctor --fix"),
    "lost from the schema": (LOST, "openclaw-mem doctor --fix"),
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path)


@pytest.fixture
def damaged(settings: Settings) -> Iterator[Memory]:
    """Open when the table is lost."""
    with Memory.open(settings) as memory:
        alter(settings, *DROPPED)
        yield memory


def write(settings: Settings, text: str) -> None:
    (settings.workspace / "memory" / "new.md").write_text(text, "utf-8")


def words(memory: Memory, query: str) -> list[str]:
    """Paths that the keyword list holds in the table that was damaged."""
    pool = memory.retrieve(query, DOCUMENTED)
    (found,) = [lst for lst in pool.lists if lst.kind == "lexical"]
    return [pool.candidates[row.chunk_id].path for row in found.rows]


def notes_of(memory: Memory) -> set[str]:
    return {note.code for note in memory.notes}


@pytest.mark.parametrize("statements, command", DAMAGE.values(), ids=DAMAGE)
def test_the_error_names_the_command_that_helps(
    settings: Settings, statements: tuple[str, ...], command: str
) -> None:
    alter(settings, *statements)
    with pytest.raises(IndexDamaged, match=f"`{command}`"), Memory.open(settings) as memory:
        assert memory.status().full_text, "this SQLite has full-text search, whatever the file is like"
        memory.search("heron pond", DOCUMENTED)
    type_in(settings, command)
    with Memory.open(settings) as memory:
        memory.sync()  # of an index that was replaced the next search does that
        answer = memory.search("heron pond", DOCUMENTED)
        assert answer.warnings == () and notes_of(memory) == set()
        assert words(memory, "heron") == ["memory/animals/heron.md"]


def test_the_process_that_mends_searches_what_it_mended(damaged: Memory) -> None:
    with pytest.raises(IndexDamaged):
        words(damaged, "heron")
    damaged.repair(damaged.examine())
    damaged.sync()
    assert words(damaged, "heron") == ["memory/animals/heron.md"]
    assert damaged.search("heron", DOCUMENTED).warnings == ()


@pytest.mark.parametrize("statements, _", DAMAGE.values(), ids=DAMAGE)
def test_a_rebuild_from_a_damaged_index_has_all_its_tables(
    settings: Settings, statements: tuple[str, ...], _: str
) -> None:
    with Memory.open(settings) as memory:
        alter(settings, *statements)
        assert memory.sync(SyncRequest(force=True)).rebuilt
        assert words(memory, "heron") == ["memory/animals/heron.md"]
    assert looked(settings, deep=True).findings == ()


def test_who_met_the_damage_starves_nobody_after_the_repair(settings: Settings, damaged: Memory) -> None:
    fix(settings, looked(settings))
    with Memory.open(settings) as other:
        write(settings, "A zeppelin was seen.\n")
        damaged.sync()
        assert words(other, "zeppelin") == ["memory/new.md"]
        assert other.search("zeppelin", DOCUMENTED).warnings == ()


def test_a_sync_with_changes_makes_the_words_anew(settings: Settings) -> None:
    with Memory.open(settings) as memory, Memory.open(settings) as other:
        alter(settings, *DROPPED)
        with pytest.raises(IndexDamaged):
            words(other, "heron")
        write(settings, "A zeppelin was seen.\n")
        assert memory.sync().changed == ("memory/new.md",)
        for each in (memory, other):
            assert words(each, "zeppelin") == ["memory/new.md"] and notes_of(each) == set()
            assert words(each, "heron") == ["memory/animals/heron.md"]
    assert codes(looked(settings, deep=True)) == set()


def test_where_they_cannot_be_made_anew_the_index_is(settings: Settings) -> None:
    alter(settings, *LOST)
    write(settings, "A zeppelin was seen.\n")
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged, match="vtable constructor failed"):
        memory.sync()
    type_in(settings, "openclaw-mem index")
    with Memory.open(settings) as memory:
        assert words(memory, "zeppelin") == ["memory/new.md"] and notes_of(memory) == set()


@pytest.mark.parametrize("statements, command", DAMAGE.values(), ids=DAMAGE)
def test_keywords_alone_and_none_to_be_had_is_an_error(
    tmp_path: Path, statements: tuple[str, ...], command: str
) -> None:
    settings = indexed(tmp_path, provider="none")
    alter(settings, *statements)
    with pytest.raises(IndexUnavailable, match="doctor"), Memory.open(settings) as memory:
        memory.search("heron pond", DOCUMENTED)
    type_in(settings, command)
    with Memory.open(settings) as memory:
        memory.sync()
        assert words(memory, "heron") == ["memory/animals/heron.md"]


# -- without full-text search, or sqlite-vec ----------------------------------------------------------------

V = [unit([1, 0, 0, 0]), unit([0, 1, 0, 0]), unit([0, 0, 1, 0])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "main.sqlite"
    with closing(new_store(path)) as store:
        put(store, "memory/a.md", ["alpha"], [V[0]])
        put(store, "memory/b.md", ["beta"], [V[1]])
    return path


def finds(store: SqliteIndex, number: int, text: str) -> bool:
    nearest = store.fetch(hit.chunk_id for hit in store.vector(V[number], 1))
    return found(store, text) == {text} == {chunk.text for chunk in nearest.values()}


@pytest.mark.parametrize("missing", ["extension", "full_text"])
def test_a_process_that_searches_without_something_writes_all_the_same(path: Path, missing: str) -> None:
    options: Any = {missing: False}
    with closing(SqliteIndex(path)) as whole, closing(SqliteIndex(path, **options)) as lesser:
        put(lesser, "memory/b.md", ["gamma"], [V[2]])
        assert whole.notes == () and finds(whole, 2, "gamma") and found(whole, "beta") == set()
        # The row of the last chunk is free for the next one, and what was derived from it is gone.
        lesser.remove(("memory/b.md", "memory"))
        put(whole, "memory/c.md", ["beta"], [V[1]])
        assert finds(whole, 1, "beta") and found(whole, "gamma") == set()
