"""Searching an index of QMD whose vectors another model made."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import ProviderError
from openclaw_mem_engine.qmd.queries import QueryDocument
from openclaw_mem_engine.ranking.profiles import profile
from openclaw_mem_engine.retrieval.qmd_lists import ListBuilder
from openclaw_mem_engine.stores.qmd.store import QmdStore
from support.qmd import ScriptedEmbedder, guarded, new_store
from support.stores import Vector


@pytest.fixture
def store(tmp_path: Path) -> Iterator[QmdStore]:
    """Vectors of 8 dimensions of the model ``tiny``."""
    store = new_store(tmp_path, {"pump.md": "A pump.\n", "pond.md": "A pond.\n"})
    store.embed(ScriptedEmbedder())
    yield store
    store.close()


def named(model: str, dims: int = 8) -> ScriptedEmbedder:
    made = ScriptedEmbedder(dims)
    made.model = model
    return made


def searched(
    store: QmdStore, embedder: ScriptedEmbedder, instead: ScriptedEmbedder | None = None
) -> ListBuilder:
    knobs = profile("qmd-2.8").set({"expansion": "off"})
    other = guarded(instead) if instead is not None else None
    builder = ListBuilder(store, guarded(embedder), knobs, threading.Event(), instead=other)
    builder.build(QueryDocument("pump"), None)
    return builder


@pytest.mark.parametrize(
    ("embedder", "code", "text"),
    [
        (
            named("other"),
            "other-vectors",
            "holds no vectors of scripted other yet. Run `openclaw-mem qmd embed`",
        ),
        (
            named("tiny", 16),
            "embedding-failed",
            "16 dimensions, the index holds 8: another model has this name",
        ),
    ],
)
def test_bm25_answers_where_the_vectors_are_of_another_model(
    store: QmdStore, embedder: ScriptedEmbedder, code: str, text: str
) -> None:
    builder = searched(store, embedder)
    assert [found.id for found in builder.lists] == ["bm25"] and builder.lists[0].rows
    (note,) = builder.notes
    assert note.code == code and text in note.text


def test_vectors_that_cannot_be_read_are_a_note(store: QmdStore) -> None:
    with store._db.transaction() as connection:
        connection.execute("UPDATE vectors_vec_vector_chunks00 SET vectors = zeroblob(8)")
    builder = searched(store, ScriptedEmbedder())
    assert [found.id for found in builder.lists] == ["bm25"]
    assert [note.code for note in builder.notes] == ["embedding-failed"]


class Failing(ScriptedEmbedder):
    """Fails at the second text, with the vectors of ``tiny``."""

    def embed_query(self, text: str, cancel: object = None) -> Vector | None:
        if self.seen:
            raise ProviderError("no route to host.")
        return super().embed_query(text, cancel)


def test_the_fallback_answers_when_the_stored_vectors_are_its_own(store: QmdStore) -> None:
    missing = "the index holds no vectors of scripted other yet."
    builder = searched(store, named("other"), ScriptedEmbedder())
    assert [(found.id, found.model) for found in builder.lists] == [("bm25", ""), ("vector", "tiny")]
    assert builder.fallback is not None and builder.fallback.active == "scripted tiny"
    (note,) = builder.notes
    assert note.code == "fallback-vectors"
    assert note.text.startswith(f"Fallback, vectors of scripted tiny: {missing}")
    # Neither has vectors there.
    builder = searched(store, named("other"), named("third"))
    (note,) = builder.notes
    assert (note.code, builder.answered, builder.fallback) == ("other-vectors", None, None)
    assert f"BM25 only: {missing}" in note.text and "No vectors of the fallback scripted: " in note.text


def test_a_failure_between_two_texts_leaves_no_half_of_the_lists(store: QmdStore) -> None:
    builder = ListBuilder(store, guarded(Failing()), profile("qmd-2.8"), threading.Event())
    builder.build(QueryDocument.parse("vec: pump\nvec: pond"), None)
    assert builder.lists == [] and [note.text for note in builder.notes] == ["BM25 only: no route to host."]
