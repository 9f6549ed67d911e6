"""The index of the QMD backend against recordings of QMD 2.8.3 on the same files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.qmd.lexical import match_expression, score_of
from openclaw_mem_engine.stores.qmd.searching import DocumentRow, VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from support.goldens import qmd_golden
from support.qmd import corpus_store

pytestmark = pytest.mark.goldens

TINY = VectorSpace("tiny", "")  # as the recorded vectors are stored
SCOPES = {"all": (None, 20), "notes": (["notes"], 5), "code": (["code"], 5), "both": (["notes", "code"], 5)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QmdStore]:
    store = corpus_store(tmp_path_factory.mktemp("corpus"))
    yield store
    store.close()


def test_documents_are_those_of_the_recorded_index(store: QmdStore) -> None:
    files = [file for file in qmd_golden("corpus")["files"] if file["indexed"]]
    ids = [f"{file['collection']}/{file['path']}" for file in files]
    found = store.documents(ids)
    assert [(one.hash, one.docid, one.title, one.text) for one in map(found.__getitem__, ids)] == [
        (file["sha256"], file["docid"], file["title"], file["text"]) for file in files
    ]
    assert store.status().documents == len(files)
    skipped = [file["path"] for file in qmd_golden("corpus")["files"] if not file["indexed"]]
    assert store.documents(f"notes/{path}" for path in skipped) == {}


def test_bm25_search(store: QmdStore) -> None:
    cases = qmd_golden("bm25_search")["cases"]
    assert len(cases) > 30
    for case in cases:
        match = match_expression(case["query"])
        assert match == case["match"]
        for scope, (collections, limit) in SCOPES.items():
            rows = store.lexical(match, limit, collections).rows
            wanted = [(uri.removeprefix("qmd://"), score) for uri, _, score in case[scope]]
            found = [(row.document, score_of(row.raw)) for row in rows]
            assert [name for name, _ in found] == [name for name, _ in wanted], (case["query"], scope)
            assert [s for _, s in found] == pytest.approx([s for _, s in wanted], abs=1e-6)
        if match:
            raw = {path: weighted for path, weighted, _ in case["raw"]["ok"]}
            all_rows = store.lexical(match, 1_000)
            assert all_rows.matched == len(raw)
            assert {row.document: -row.raw for row in all_rows.rows} == pytest.approx(raw, abs=1e-9)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QmdStore]:
    """The recorded vectors, in the recorded order; chunks are what lies before and after position 50."""
    store = corpus_store(tmp_path_factory.mktemp("vectors"))
    for stored in qmd_golden("vector_search")["stored"]:
        _put(store, stored)
    yield store
    store.close()


def _put(store: QmdStore, stored: dict[str, Any]) -> None:
    hash_, seq = stored["hash_seq"].split("_")
    with store._db.transaction() as connection:
        connection.execute(
            """CREATE VIRTUAL TABLE IF NOT EXISTS vectors_vec USING vec0(
            hash_seq TEXT PRIMARY KEY, embedding float[4] distance_metric=cosine)"""
        )
        row = (hash_, int(seq), stored["pos"], "tiny", "", 1, "2026-02-10T00:00:00.000Z")
        connection.execute("INSERT INTO content_vectors VALUES(?, ?, ?, ?, ?, ?, ?)", row)
        blob = np.asarray(stored["vector"], np.float32).tobytes()
        connection.execute("INSERT INTO vectors_vec VALUES(?, ?)", (stored["hash_seq"], blob))


def test_vector_search(embedded: QmdStore) -> None:
    for case in qmd_golden("vector_search")["queries"]:
        collections, _ = SCOPES[case["scope"]]
        found = embedded.vector(
            np.asarray(case["query_vector"], np.float32), TINY, case["limit"], collections
        ).rows
        wanted = [DocumentRow(uri.removeprefix("qmd://"), score, pos) for uri, score, pos in case["results"]]
        assert [row.raw for row in found] == pytest.approx([row.raw for row in wanted], abs=1e-6)
        if all(abs(a.raw - b.raw) > 1e-6 or a.raw == b.raw for a, b in pairwise(wanted)):
            assert [(row.document, row.pos) for row in found] == [(row.document, row.pos) for row in wanted]


def test_another_number_of_dimensions_is_an_error_that_names_both(embedded: QmdStore) -> None:
    assert "4d" in qmd_golden("vector_search")["dimension_mismatch"]["error"]
    with pytest.raises(IndexUnavailable, match="tiny now sends vectors of 8 dimensions, the index holds 4"):
        embedded.vector(np.ones(8, np.float32), TINY, 5)
