"""Nearest chunks: inside SQLite, in memory and by brute force are one answer; so are the degraded forms."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest import mock

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.stores.query import CandidateRows, Scored
from openclaw_mem_engine.stores.scoring import ResidentVectors
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from support.stores import Vector, content, found, new_store, put, unit

DIMS = 8
_NUMBERS = itertools.count()

# Few directions, so that many chunks are exactly equally near.
_VECTORS = st.lists(
    st.lists(st.integers(-1, 1), min_size=DIMS, max_size=DIMS).filter(any), min_size=1, max_size=40
)


def fill(store: SqliteIndex, vectors: list[list[int]]) -> dict[str, Vector]:
    """One file a vector; returns what is where by chunk id."""
    made: dict[str, Vector] = {}
    for number, values in enumerate(vectors):
        put(store, f"memory/{number}.md", [f"note {number}"], [unit(values)])
        (chunk_id,) = set(_ids(store)) - set(made)
        made[chunk_id] = unit(values)
    return made


def _ids(store: SqliteIndex) -> list[str]:
    return [row[0] for row in store._db.read("SELECT id FROM chunks")]


def brute_force(known: dict[str, Vector], query: Vector, limit: int) -> list[tuple[str, float]]:
    scored = [
        (chunk_id, float(np.dot(vector.astype(np.float64), query.astype(np.float64))))
        for chunk_id, vector in known.items()
    ]
    # Exactly equal directions have exactly equal scores here; a last digit must not decide.
    return sorted(scored, key=lambda pair: (-round(pair[1], 6), pair[0]))[:limit]


def same(answer: Iterable[Scored], wanted: list[tuple[str, float]]) -> None:
    assert [hit.raw for hit in answer] == pytest.approx([score for _, score in wanted], abs=1e-6)
    # Which of several with the last score are inside of the limit depends on the last digit.
    last = min((score for _, score in wanted), default=0.0) + 1e-5
    rounded = sorted(answer, key=lambda hit: (-round(hit.raw, 5), hit.chunk_id))
    ordered = sorted(wanted, key=lambda pair: (-round(pair[1], 5), pair[0]))
    above = [chunk_id for chunk_id, score in ordered if score > last]
    assert [hit.chunk_id for hit in rounded if hit.raw > last] == above


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    _VECTORS,
    st.lists(st.integers(-1, 1), min_size=DIMS, max_size=DIMS).filter(any),
    st.sampled_from([1, 2, 5, 20, 60]),
)
def test_three_ways_to_the_nearest(
    tmp_path: Path, vectors: list[list[int]], query: list[int], limit: int
) -> None:
    path = tmp_path / f"{next(_NUMBERS)}.sqlite"
    store = new_store(path)
    known = fill(store, vectors)
    resident, without = SqliteIndex(path, resident=True), SqliteIndex(path, extension=False)
    assert [s.caps.vector_search for s in (store, resident, without)] == [
        "sqlite-vec",
        "sqlite-vec",
        "in-process",
    ]
    wanted = brute_force(known, unit(query), limit)
    for index in (store, resident, without):
        same(index.vector(unit(query), limit), wanted)
    every = {chunk_id: float(vector @ unit(query)) for chunk_id, vector in known.items()}
    assert store.cosines(unit(query), [*known, "unknown"]) == pytest.approx(every, abs=1e-6)
    # In memory they are those of the list, bit for bit, and nothing is read for them.
    whole = resident.vector(unit(query), len(known))
    with mock.patch.object(Database, "search") as reading:
        assert resident.cosines(unit(query), [*known, "unknown"]) == {hit.chunk_id: hit.raw for hit in whole}
        assert resident.cosines(unit(query), ["unknown"]) == {} and not reading.called
    assert store.covered() == len(known)
    for index in (store, resident, without):
        index.close()


def test_many_equally_near_at_the_border(tmp_path: Path) -> None:
    """More ties than one look fetches: chunk ids decide, not the order in which files were indexed."""
    store = new_store(tmp_path / "i.sqlite")
    known = fill(store, [[1] * DIMS] * 60 + [[1] * (DIMS - 1) + [0]])
    ids = sorted(chunk_id for chunk_id, vector in known.items() if vector[-1])
    for limit in (1, 5, 30, 59):
        assert [hit.chunk_id for hit in store.vector(unit([1] * DIMS), limit)] == ids[:limit]
    assert len(store.vector(unit([1] * DIMS), 61)) == 61
    store.close()


def test_nothing_is_nearest_in_an_empty_index_and_for_no_places(tmp_path: Path) -> None:
    forms: list[dict[str, Any]] = [{}, {"resident": True}, {"extension": False}]
    for number, options in enumerate(forms):
        store = SqliteIndex(tmp_path / f"{number}.sqlite", **options)
        assert not store.vector(unit([1] * DIMS), 5)
        store.close()
        store = new_store(tmp_path / f"{number}.sqlite", **options)
        assert not store.vector(unit([1] * DIMS), 5)
        fill(store, [[1] * DIMS])
        assert not store.vector(unit([1] * DIMS), 0)
        assert len(store.vector(unit([1] * DIMS), 500)) == 1
        store.close()


def test_what_is_held_in_memory_follows_changes_of_another_process(tmp_path: Path) -> None:
    writer = new_store(tmp_path / "i.sqlite")
    reader = SqliteIndex(tmp_path / "i.sqlite", resident=True)
    query = unit([1] * DIMS)
    assert not reader.vector(query, 5)
    put(writer, "memory/a.md", ["a"], [query])
    put(writer, "memory/b.md", ["b"], [unit([1, 0, 0, 0, 0, 0, 0, 0])])
    assert len(reader.vector(query, 5)) == 2
    writer.remove(("memory/a.md", "memory"))
    assert [round(hit.raw, 3) for hit in reader.vector(query, 5)] == [0.354]
    writer.close()
    reader.close()


@pytest.mark.parametrize("missing", ["extension", "full_text"])
def test_a_process_without_a_part_leaves_an_index_that_one_with_it_completes(
    tmp_path: Path, missing: str
) -> None:
    """Notes change while a process has no sqlite-vec (or FTS5); the next whole process catches up."""
    v = [unit(np.eye(DIMS)[i]) for i in range(4)]
    path, fresh = tmp_path / "i.sqlite", tmp_path / "fresh.sqlite"
    with_all = new_store(path)
    put(with_all, "memory/a.md", ["alpha one", "alpha two"], v[:2])
    put(with_all, "memory/b.md", ["beta"], [v[2]])
    with_all.close()

    degraded = SqliteIndex(path, **{missing: False})
    put(degraded, "memory/a.md", ["gamma"], [v[3]])
    degraded.remove(("memory/b.md", "memory"))
    put(degraded, "memory/c.md", ["delta"], [v[0]])
    if missing == "extension":
        assert [note.code for note in degraded.notes] == ["no-sqlite-vec"]
        assert degraded.caps.vector_search == "in-process"
        assert len(degraded.vector(v[3], 5)) == 2
        assert found(degraded, "gamma") == {"gamma"}
    else:
        assert not degraded.caps.full_text
        assert found(degraded, "gamma") == set()
    degraded.close()

    again = SqliteIndex(path)
    assert found(again, "alpha beta gamma delta") == {"gamma", "delta"}
    nearest = again.vector(v[3], 1)
    assert [c.text for c in again.fetch(hit.chunk_id for hit in nearest).values()] == ["gamma"]
    again.close()

    expected = new_store(fresh)
    put(expected, "memory/a.md", ["gamma"], [v[3]])
    put(expected, "memory/c.md", ["delta"], [v[0]])
    expected.close()
    mine, wanted = content(path), content(fresh)
    del mine["cache"], wanted["cache"]  # vectors of old texts stay, for when the texts come back
    assert mine == wanted


def test_an_index_first_made_without_parts_is_completed_too(tmp_path: Path) -> None:
    path = tmp_path / "i.sqlite"
    bare = new_store(path, extension=False, full_text=False)
    put(bare, "memory/a.md", ["the pump"], [unit([1] * DIMS)])
    bare.close()
    whole = SqliteIndex(path)
    assert found(whole, "pumps") == {"the pump"}
    assert len(whole.vector(unit([1] * DIMS), 5)) == 1
    assert whole.notes == ()
    whole.close()


def test_vectors_of_two_lengths_are_refused(tmp_path: Path) -> None:
    store = new_store(tmp_path / "i.sqlite")
    good = unit([1] * DIMS)
    for number in range(2):  # beside each other, and beside one that is there
        with pytest.raises(IndexUnavailable, match="dimensions"):
            put(store, "memory/a.md", ["a", "b"][number:], [good, unit([1, 2])][number:])
        assert store.counts().chunks == number
        put(store, "memory/b.md", ["c"], [good])
    assert len(store.vector(good, 5)) == 1
    store.close()


def test_the_limit_is_reached_past_vectors_of_no_chunk(tmp_path: Path) -> None:
    """Texts that are gone leave their vectors in the cache: here the 300 nearest belong to no chunk."""
    store = new_store(tmp_path / "i.sqlite")
    query = unit([1] * DIMS)
    for number, direction in enumerate(np.random.default_rng(3).normal(1, 0.01, (300, DIMS))):
        put(store, f"memory/{number}.md", [f"gone {number}"], [unit(direction)])
        store.remove((f"memory/{number}.md", "memory"))
    far = [unit([1, *[-1] * (number % 5 + 1), *[1] * (DIMS - 2 - number % 5)]) for number in range(20)]
    put(store, "memory/kept.md", [f"kept {number}" for number in range(20)], far)
    nearest = store.vector(query, 12)
    every = store.cosines(query, [chunk.chunk_id for chunk in store.chunks_of("memory/kept.md")])
    same(nearest, sorted(every.items(), key=lambda pair: (-round(pair[1], 6), pair[0]))[:12])
    assert (len(nearest), nearest.matched) == (12, 20)
    store.close()


def test_an_index_has_one_copy_of_each_vector(tmp_path: Path) -> None:
    store = new_store(tmp_path / "i.sqlite")
    vectors = [unit(direction) for direction in np.random.default_rng(4).normal(size=(50, DIMS))]
    put(store, "memory/a.md", [f"note {number}" for number in range(50)], vectors)
    put(store, "memory/again.md", [f"note {number}" for number in range(50)], vectors)  # the same texts
    assert len(store.vector(vectors[0], 200)) == 100
    store.close()
    data = (tmp_path / "i.sqlite").read_bytes()
    assert [data.count(vector.tobytes()) for vector in vectors] == [1] * 50


@pytest.mark.parametrize("seed", range(4))
def test_the_nearest_of_many_are_those_of_a_full_sort(seed: int) -> None:
    """More than are sampled to guess the border; equal cosines, and clusters that the sample misses."""
    draw = np.random.default_rng(seed)
    matrix = draw.normal(size=(3_000, DIMS)).astype(np.float32).round(1)
    matrix[:: 17 - seed] = matrix[0]
    matrix[1::16] += 3 * matrix[0]  # none of these is at a multiple of 16
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    ids = [f"{n * 7919 % 3_000:04}" for n in range(len(matrix))]
    resident, query = ResidentVectors(1, ids, matrix), matrix[0].copy()
    every = [Scored(i, raw) for i, raw in zip(ids, (matrix * query).sum(axis=1).tolist(), strict=True)]
    scores = dict(every)
    for limit in (1, 24, 200, 1_500, 5_000):
        near = resident.nearest(query, limit)
        assert near.matched == len(every) and len(near) == min(limit, len(every))
        assert list(near) == sorted(near, key=lambda hit: (-hit.raw, hit.chunk_id))
        least = min(hit.raw for hit in near)
        assert {hit.chunk_id for hit in every if hit.raw > least + 1e-6} <= {hit.chunk_id for hit in near}
        assert all(abs(scores[hit.chunk_id] - hit.raw) < 1e-6 for hit in near)


def test_vectors_that_are_read_once_are_not_kept_in_memory(tmp_path: Path) -> None:
    with closing(new_store(tmp_path / "i.sqlite")) as store:
        store.cache_vectors({f"{n:064x}": np.full(2_048, n + 1, np.float32) for n in range(600)})
        assert store.vector(np.ones(2_048, np.float32), 5) == CandidateRows()
        held, _ = store._db.reader().status(apsw.SQLITE_DBSTATUS_CACHE_USED)
    assert held < 3_000_000, "of 5 MB"


def test_ranks_of_a_short_lived_process_need_no_vector_in_memory(tmp_path: Path) -> None:
    """Passages may share a text, and so a vector; vectors of texts that are gone count for nothing."""
    store = new_store(tmp_path / "i.sqlite")
    put(store, "memory/gone.md", ["gone"], [unit([1] * DIMS)])
    store.remove(("memory/gone.md", "memory"))
    for number in range(12):
        text = number // 3
        put(store, f"memory/{number}.md", [f"text {text}"], [unit([1] * (DIMS - text) + [0] * text)])
    query = unit([1] * DIMS)
    every = store.vector(query, 50)
    with mock.patch("openclaw_mem_engine.stores.sqlite.vectors.matrix_of") as loading:
        assert store._vectors.ranks(store._primary(), store.generation(), query, _ids(store)) == {
            row.chunk_id: number for number, row in enumerate(every, 1)
        }
    assert len(every) == 12 and not loading.called and not store._vectors._loaded
    store.close()


def test_missing_vectors_are_counted_once_for_each_state_of_the_index(tmp_path: Path) -> None:
    store = new_store(tmp_path / "i.sqlite", {"memory/a.md": ["a"]})
    other = SqliteIndex(tmp_path / "i.sqlite")
    vectors, space = store._vectors, store._primary()
    with mock.patch.object(Database, "read", autospec=True, side_effect=Database.read) as reading:
        assert [vectors.lacking(space) for _ in range(3)] == [True] * 3
        assert reading.call_count == 2, "one of chunks, and one of texts without a vector"
        put(other, "memory/a.md", ["a"], [unit([1] * DIMS)])
        assert not vectors.lacking(space) and not vectors.lacking(space)
        put(store, "memory/b.md", ["b"])
        assert vectors.lacking(space)
    store.close()
    other.close()
