"""The nearest by bounds of rounded rows are those of the full product, to the last bit, also while rows are
being rounded; and few rows are read in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.providers.base import products
from openclaw_mem_engine.providers.static import StaticEmbedder
from openclaw_mem_engine.stores import scoring
from openclaw_mem_engine.stores.query import Scored
from openclaw_mem_engine.stores.rounded import RoundedRows
from openclaw_mem_engine.stores.scoring import ResidentVectors
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from support.stores import Vector, new_store, put, unit

DOCUMENTS = [
    path for name in (".", "docs", "benchmarks") for path in (Path(__file__).parents[2] / name).glob("*.md")
]


def lengthened(rows: Any) -> Vector:
    return np.array(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def random_rows() -> Vector:
    return lengthened(np.random.default_rng(1).normal(size=(2_000, 384)))


def lines_of_text() -> Vector:
    """The built-in embedder's vectors of the lines of the documentation, some of them twice."""
    lines = [line for path in DOCUMENTS for line in path.read_text("utf-8").split("\n")]
    found = [vector for vector in StaticEmbedder().embed_batch(lines, "document", None) if vector is not None]
    return np.array(found + found[::5], np.float32)


def odd_rows() -> Vector:
    """Zeros, equal rows, one dimension alone, rows of other lengths; of 7 dimensions."""
    draw = np.random.default_rng(2)
    rows: Vector = draw.normal(size=(900, 7)).astype(np.float32)
    rows[::3] = rows[0]
    rows[1::30], rows[2::30] = 0.0, np.eye(7, dtype=np.float32)[3]
    rows[5::40] *= np.float32(1e-3)
    return rows


def held(matrix: Vector) -> ResidentVectors:
    ids = [f"{number * 7919 % 1_000_003:07}" for number in range(len(matrix))]
    return ResidentVectors(1, ids, matrix)


def of_all(resident: ResidentVectors, query: Vector, limit: int) -> list[Scored]:
    scores = products(resident.matrix, query).tolist()
    every = map(Scored, resident.ids, scores)
    return sorted(every, key=lambda hit: (-hit.raw, hit.chunk_id))[:limit]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds also for few rows."""
    monkeypatch.setattr(scoring, "_BOUNDED_FROM", 0)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("rows", [random_rows, lines_of_text, odd_rows])
def test_the_nearest_are_those_of_the_full_product_bit_for_bit(rows: Any) -> None:
    matrix = rows()
    resident, counts = held(matrix), []
    draw = np.random.default_rng(3)
    for number in range(44):  # all are rounded after 32 of them
        query = matrix[draw.integers(len(matrix))] + draw.normal(0, 0.02, matrix.shape[1])
        query = query.astype(np.float32)
        limit = (1, 24, 200, 5_000)[number % 4]
        assert list(resident.nearest(query, limit)) == of_all(resident, query, limit)
        counts.append(resident._rounded.count)
    assert counts[0] < len(matrix) / 30 and counts[-1] == len(matrix) and counts == sorted(counts)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("rows", [random_rows, lines_of_text])
def test_few_rows_are_read_in_full(rows: Any) -> None:
    resident = held(rows())
    while resident._rounded.count < len(resident.ids):
        resident._rounded.grow(resident.matrix)
    read = [len(resident._possible(query, 24)) for query in resident.matrix[:60]]
    assert min(read) >= 24 and max(read) < 8 * 24 < len(resident.ids) / 8, read


@pytest.mark.usefixtures("always")
def test_equal_rows_are_compared_by_the_full_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal rows each may be among the nearest; their ids decide."""
    resident = held(lengthened(np.ones((500, 8))))
    read: list[int] = []

    def counted(matrix: Vector, vector: Vector) -> Vector:
        read.append(len(matrix))
        return products(matrix, vector)

    monkeypatch.setattr(scoring, "products", counted)
    while resident._rounded.count < 500:
        resident._rounded.grow(resident.matrix)
    query = unit([1] * 8)
    assert [hit.chunk_id for hit in resident.nearest(query, 9)] == sorted(resident.ids)[:9]
    assert read == [0, 500]  # none that is not rounded, and all
    ranks = resident.ranks(query, resident.ids)
    assert sorted(ranks.values()) == [*range(1, 501)]
    assert read == [0, 500]  # known from the list


@pytest.mark.parametrize("dims", [1, 7, 64, 1_000])
@pytest.mark.parametrize("length", [1.0, 1e-4, 300.0])
def test_bounds_hold_for_rows_of_any_length(dims: int, length: float) -> None:
    draw = np.random.default_rng(dims)
    matrix = (draw.normal(size=(200, dims)) ** 3 * length).astype(np.float32)
    rounded = RoundedRows()
    while rounded.count < 200:
        rounded.grow(matrix)
    for query in (draw.normal(size=dims), np.zeros(dims), np.eye(dims)[0], draw.normal(size=dims) * 1e3):
        vector = query.astype(np.float32)
        exact = matrix.astype(np.float64) @ vector.astype(np.float64)
        least, most = rounded.bounds(vector, 200)
        assert (least <= exact).all() and (exact <= most).all()
        assert (least <= products(matrix, vector)).all() and (products(matrix, vector) <= most).all()
        width = 0.1 * np.linalg.norm(vector) * np.linalg.norm(matrix, axis=1).max()
        assert (most - least <= width + 1e-30).all()


def test_rows_are_rounded_by_one_thread_at_a_time() -> None:
    rounded, matrix = RoundedRows(), random_rows()
    with rounded._growing:  # as another thread does
        rounded.grow(matrix)
        assert rounded.count == 0
    rounded.grow(matrix)
    assert rounded.count > 0


@pytest.mark.usefixtures("always")
def test_deleted_and_changed_rows(tmp_path: Path) -> None:
    """A search after a change knows nothing of the rows that were rounded before."""
    store = new_store(tmp_path / "i.sqlite")
    resident = SqliteIndex(tmp_path / "i.sqlite", resident=True)
    rows = lengthened(np.random.default_rng(5).normal(size=(60, 32)))
    for number in range(3):
        mine = slice(20 * number, 20 * number + 20)
        put(store, f"memory/{number}.md", [f"note {n}" for n in range(60)[mine]], list(rows[mine]))
    for step in ("as indexed", "deleted", "changed"):
        if step == "deleted":
            store.remove(("memory/0.md", "memory"))
        elif step == "changed":
            put(store, "memory/1.md", ["changed"], [-rows[3]])
        for query in rows[:20]:
            near, wanted = resident.vector(query, 5), store.vector(query, 5)
            assert [hit.chunk_id for hit in near] == [hit.chunk_id for hit in wanted]
            assert [hit.raw for hit in near] == pytest.approx([hit.raw for hit in wanted], abs=1e-6)
    assert len(resident.vector(rows[0], 500)) == store.counts().chunks == 21
    resident.close()
    store.close()


def test_few_rows_are_not_rounded() -> None:
    resident = held(random_rows())
    resident.nearest(resident.matrix[0], 24)
    assert resident._rounded.count == 0
