"""Damage costs the answer one list, with a note; damage that leaves no list is an error with a name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import fix
from openclaw_mem_engine.errors import IndexDamaged, IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, WORKBENCH
from openclaw_mem_engine.stores.damage import file_damage, kept
from openclaw_mem_engine.stores.sqlite.schema import PAGE_BYTES
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.stores.sqlite.vectors import VectorRows
from support.damage import PLAIN, alter, indexed, looked, raw, type_in, zero
from support.memories import backend_of
from support.stores import new_store, put, unit

DIMS = 8
FIX = "`openclaw-mem doctor --fix`"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path)


def zero_vectors(settings: Settings) -> None:
    """What zeroed pages make of the cache: no vector has a direction."""
    alter(settings, "UPDATE embedding_cache SET embedding = zeroblob(length(embedding))")


def codes(answer: Any) -> set[str]:
    return {note.code for note in answer.trace.notes}


def mended(settings: Settings) -> None:
    """What the notes tell to do: the doctor, then a sync."""
    fix(settings, looked(settings))
    with Memory.open(settings) as memory:
        memory.sync()
        answer = memory.search("heron pond")
        assert (answer.warnings, answer.pool.fallback) == ((), None)
        assert [found.kind for found in answer.pool.lists] == ["vector", "lexical"]


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "vector"])
def test_vectors_without_direction_cost_the_vectors_and_no_more(settings: Settings, mode: str) -> None:
    zero_vectors(settings)
    with Memory.open(settings) as memory:
        answer = memory.search("heron pond", DOCUMENTED.set({"mode": mode}))
        (found,) = [note for note in answer.trace.notes if note.code == "vectors-damaged"]
        assert found.level == "warning" and " ".join(answer.warnings).count(FIX) == 1
        assert [found.kind for found in answer.pool.lists] == ["lexical"]
        assert answer.pool.fallback is not None
        assert (answer.pool.fallback.origin, answer.pool.fallback.served) == ("static", "keywords")
        if mode != "vector":
            assert answer.hits[0].path == "memory/animals/heron.md"
        (event,) = [event for event in memory.events(5) if event.kind == "fallback"]
        assert "cannot all be read" in event.reason
    mended(settings)


#: Damage to what is derived for one list, the note, and the list that remains.
DAMAGE = {
    "vectors that are text": ("UPDATE embedding_cache SET embedding = 'x'", "vectors-damaged", "lexical"),
    "vectors of no length": ("UPDATE embedding_cache SET embedding = x''", "vectors-damaged", "lexical"),
    "full text without its blocks": (
        "DROP TABLE chunks_fts_stemmed_data; DROP TABLE chunks_fts_named_data",
        "words-damaged",
        "vector",
    ),
    "no full-text table": (
        "DROP TABLE chunks_fts_stemmed; DROP TABLE chunks_fts_named_data",
        "words-damaged",
        "vector",
    ),
}


@pytest.mark.parametrize("statement, code, left", DAMAGE.values(), ids=DAMAGE)
def test_the_other_leg_answers(settings: Settings, statement: str, code: str, left: str) -> None:
    alter(settings, statement)
    for knobs in (DOCUMENTED, WORKBENCH):
        with Memory.open(settings) as memory:
            answer = memory.search("heron pond", knobs)
            assert code in codes(answer)
            assert FIX in " ".join(answer.warnings)
            assert [found.kind for found in answer.pool.lists] == [left]
            assert any(row.chunk_id for found in answer.pool.lists for row in found.rows)


def test_without_any_leg_the_damage_is_told(settings: Settings) -> None:
    zero_vectors(settings)
    alter(settings, "DROP TABLE chunks_fts_named_data")
    with Memory.open(settings) as memory:
        with pytest.raises(IndexDamaged):
            memory.search("heron pond")
        (event,) = [event for event in memory.events(5) if event.kind == "search-failed"]
        assert "is damaged" in event.reason


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
def test_bytes_changed_in_a_chunk_cost_that_chunk_and_no_more(
    settings: Settings, resident: bool, changed: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = settings.index_path.read_bytes()
    assert held.count(b"near the pond") == 1
    settings.index_path.write_bytes(held.replace(b"near the pond", changed))
    assert "the text of a chunk is not what was stored" in str(file_damage(settings))
    monkeypatch.setattr("openclaw_mem_engine.stores.damage.MOST_BYTES", 0)  # nor is it only the check of all
    with Memory.open(settings, resident=resident) as memory:
        answer = memory.search("heron pond owl")
        assert answer.hits[0].path == "memory/animals/owl.md" and "index-damaged" in codes(answer)
        assert "memory/animals/heron.md" not in {row.path for row in answer.trace.rows}
        (warning,) = answer.warnings
        assert "1 chunk is not what was stored" in warning and FIX in warning
        with pytest.raises(IndexDamaged, match="not what was stored"):
            memory.why_not("heron pond", "memory/animals/heron.md")
    (found,) = looked(settings).findings
    assert found.code == "altered-chunks" and found.evidence == ("memory/animals/heron.md:1-2",)
    type_in(settings, FIX.strip("`"))
    with Memory.open(settings) as memory:
        assert memory.search("heron pond").hits[0].snippet == "The heron lives near the pond."


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
    with Memory.open(settings, resident=resident) as memory:
        answer = memory.search("heron pond")
        assert "vectors-damaged" in codes(answer) and answer.hits
    mended(settings)
    assert file_damage(settings) is None


@pytest.mark.parametrize("resident", [False, True])
def test_a_vector_with_other_bytes_is_damage_although_it_can_be_compared(
    settings: Settings, resident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as long as it was: without its checksum it took its passage from the list, without a word."""
    alter(settings, "UPDATE embedding_cache SET embedding = negated(embedding) WHERE id = 1")
    assert "a vector is not the one that was stored" in str(file_damage(settings))
    monkeypatch.setattr("openclaw_mem_engine.stores.damage.MOST_BYTES", 0)  # nor is it only the check of all
    with Memory.open(settings, resident=resident) as memory:
        answer = memory.search("heron pond")
        (warning,) = answer.warnings
        assert warning.startswith("Vectors in part: ") and "1 vector is not what was stored" in warning
        assert FIX in warning and answer.pool.fallback is None
        vectors, _ = answer.pool.lists
        assert len(vectors.rows) == memory.status().vectors - 1
    type_in(settings, "openclaw-mem index")
    assert file_damage(settings) is None and looked(settings).errors == 0


def test_the_log_of_a_damaged_index_is_named_where_it_holds_something(tmp_path: Path) -> None:
    log = tmp_path / "i.damaged-wal"
    log.touch()
    assert log.name not in kept(tmp_path / "i.damaged", 1)
    log.write_bytes(b"x")
    assert f"Its log is {log.name} beside it." in kept(tmp_path / "i.damaged", 1)


def test_words_of_a_lost_passage_are_damage_and_no_absence(settings: Settings) -> None:
    alter(settings, "DELETE FROM chunks WHERE path = 'memory/animals/heron.md'")
    with Memory.open(settings) as memory:
        answer = memory.search("heron", DOCUMENTED.set({"mode": "bm25"}))
        (found,) = [note for note in answer.trace.notes if note.code == "words-damaged"]
        assert "words without their chunk: 1" in found.text
        assert " ".join(answer.warnings).count(FIX) == 1, "one repair, said once"
        assert answer.verdict == "Nothing found in the part of the index that can be read"
        memory.sync()
        assert memory.search("heron").hits[0].path == "memory/animals/heron.md"


def test_an_index_that_is_rebuilt_during_a_search_is_read_once_more(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process makes an index without the words that this search had made sure of."""
    real, rebuilt = SqliteIndex.lexical, list[bool]()

    def lexical(self: SqliteIndex, *arguments: Any, **options: Any) -> Any:
        if not rebuilt:
            rebuilt.append(True)
            bump = "UPDATE meta SET value = value + 1 WHERE key = 'generation'"
            alter(settings, "DROP TABLE chunks_fts", bump)
        return real(self, *arguments, **options)

    monkeypatch.setattr(SqliteIndex, "lexical", lexical)
    with Memory.open(settings) as memory:
        answer = memory.search("heron pond", PLAIN)
        assert rebuilt and answer.warnings == ()
        assert [found.kind for found in answer.pool.lists] == ["vector", "lexical"]


def test_vectors_that_another_process_adds_during_a_search_are_no_damage(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted after those in the list were read: the list is read again, and nothing is reported."""
    real, counted = VectorRows.count, list[int]()

    def count(self: VectorRows, *arguments: Any) -> int:
        counted.append(real(self, *arguments))
        if len(counted) < 3:
            alter(settings, "UPDATE meta SET value = value + 1 WHERE key = 'generation'")
            return counted[0] + 1
        return counted[-1]

    monkeypatch.setattr(VectorRows, "count", count)
    with Memory.open(settings) as memory:
        answer = memory.search("heron pond", PLAIN)
        assert len(counted) == 3 and answer.warnings == ()
        assert [found.kind for found in answer.pool.lists] == ["vector", "lexical"]


def test_the_size_of_a_cache_that_cannot_be_counted_is_damage(settings: Settings) -> None:
    sector_zeroed(settings, "idx_chunks_hash")
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged):
        memory.cache_sizes()


@pytest.mark.parametrize("column", ["mtime_ns", "size", "checked_ns"])
def test_numbers_of_a_file_that_are_none_are_read_anew(settings: Settings, column: str) -> None:
    alter(settings, f"UPDATE files SET {column} = 'x'")
    with Memory.open(settings) as memory:
        assert memory.search("heron pond").hits
        memory.sync()
        assert memory.freshness().state == "fresh"
    assert looked(settings).findings == ()


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
    found = opened.vector(query, 4)
    assert (len(found), found.damaged) == (3, 1) and ids[1] not in {row.chunk_id for row in found}
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
    found = opened.vector(unit([1.0] * DIMS), 4)
    assert (len(found), found.damaged) == (2, 2)


def test_a_query_of_other_dimensions_is_no_crash(opened: SqliteIndex) -> None:
    for dims in (1, DIMS + 1):
        with pytest.raises(IndexUnavailable):
            opened.vector(unit([1.0] * dims), 3)


def test_a_damaged_cache_costs_the_workbench_its_vectors(settings: Settings) -> None:
    alter(settings, "UPDATE embedding_cache SET embedding = zeroblob(1024) WHERE rowid = 3")
    with Memory.open(settings, resident=True) as memory:
        answer = memory.search("heron pond", WORKBENCH)
        assert "vectors-damaged" in codes(answer)
        assert answer.hits[0].path == "memory/animals/heron.md"
    mended(settings)


def test_true_scores_that_cannot_be_read_do_not_cost_the_vector_leg(tmp_path: Path) -> None:
    """The distances that give the list do not depend on the length of a vector, true cosines do."""
    herons = {f"memory/{n}.md": f"The heron number {n} flies over the pond.\n" for n in range(250)}
    settings = indexed(tmp_path, herons | {"memory/budget.md": "Quarterly tax budget 7712 and invoices.\n"})
    with raw(settings) as connection:
        held: list[Any] = connection.execute("SELECT id, hash, embedding FROM embedding_cache").fetchall()
        for number, content, blob in held:
            twice = (2 * np.frombuffer(blob, np.float32)).tobytes()
            sql = "UPDATE embedding_cache SET embedding = ?, checksum = ? WHERE id = ?"
            connection.execute(sql, (twice, crc32(content + twice), number))
    with Memory.open(settings) as memory:
        answer = memory.search("herons flying over a pond 7712", WORKBENCH)
        assert [found.kind for found in answer.pool.lists] == ["vector", "lexical"]
        (warning,) = answer.warnings
        assert warning.startswith("Vectors in part: ")
        assert (answer.pool.fallback, answer.hits[0].path) == (None, "memory/budget.md")


# -- rows that are missing ----------------------------------------------------------------------------------

MISSING = {
    "no words": ("DELETE FROM chunks_fts_stemmed", "full-text-missing"),
    "no words with names": ("DELETE FROM chunks_fts_named", "full-text-missing"),
    "no plain words": ("DELETE FROM chunks_fts", "full-text-missing"),
}


@pytest.mark.parametrize("statement, code", MISSING.values(), ids=MISSING)
def test_rows_that_are_gone_are_told_in_every_answer(settings: Settings, statement: str, code: str) -> None:
    alter(settings, statement)
    with Memory.open(settings) as memory:
        assert code in codes(memory.search("heron pond"))
        assert code in {note.code for note in memory.status().notes}
        fix(settings, looked(settings))
        assert memory.search("heron pond").warnings == (), "the same process sees that it was mended"
    mended(settings)


def test_what_is_not_searched_is_not_missed(tmp_path: Path) -> None:
    plain = indexed(tmp_path / "plain", provider="none")
    with Memory.open(plain) as memory:
        assert memory.search("heron pond").warnings == ()
    with Memory.open(indexed(tmp_path / "empty", {"MEMORY.md": ""})) as memory:
        assert memory.notes == ()
