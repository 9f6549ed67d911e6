"""The vectors of our qmd index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_qmd_store import FILES, SPACE, store

from openclaw_mem_engine.errors import (
    Cancelled,
    ProviderError,
)
from openclaw_mem_engine.providers.base import TextRefused
from openclaw_mem_engine.stores.qmd.searching import Rows, VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from support.qmd import ScriptedEmbedder, new_store, write_files
from support.stores import Vector

__all__ = ["store"]


LONG = "# Long\n\n" + "".join(f"\U0001f418 line {n} about barometers and pressure.\n" for n in range(400))


def nearest(store: QmdStore, embedder: ScriptedEmbedder, text: str) -> Rows:
    vector = embedder.embed_query(text)
    assert vector is not None
    return store.vector(vector, SPACE, 3)


@pytest.mark.parametrize("extension", [True, False])
def test_vectors_are_made_once_and_found(tmp_path: Path, extension: bool) -> None:
    store = new_store(tmp_path, {**FILES, "long.md": LONG}, extension=extension)
    embedder = ScriptedEmbedder()
    assert store.pending(SPACE) == 4  # copy.md is the text of MEMORY.md
    report = store.embed(embedder)
    assert (report.documents, report.chunks, store.pending(SPACE)) == (4, len(embedder.seen), 0)
    assert "title: Pump house | text: ## Pump house" in "".join(embedder.seen)
    wanted = next(text for text in embedder.seen if "line 399" in text)
    rows = nearest(store, embedder, wanted)
    assert (rows.rows[0].document, rows.matched) == ("notes/long.md", 5)
    assert rows.rows[0].raw == pytest.approx(1, abs=1e-6)
    # Positions are UTF-16 units, as QMD counts.
    assert LONG.encode("utf-16-le")[2 * rows.rows[0].pos :].decode("utf-16-le")[:20] in wanted
    seen = len(embedder.seen)
    assert store.embed(embedder).documents == 0 and len(embedder.seen) == seen
    made = report.chunks
    store.close()
    # A process that has sqlite-vec puts the vectors where QMD looks for them.
    store = QmdStore.open(tmp_path / "index.sqlite")
    write_files(tmp_path / "notes", {"new.md": "A heron."})
    store.update()
    assert store.embed(embedder).documents == 1
    assert store._db.read("SELECT count(*) FROM vectors_vec") == [(made + 1,)]
    assert store._db.read("SELECT count(*) FROM openclaw_mem_vectors") == [(0,)]
    assert nearest(store, embedder, wanted).rows[0].document == "notes/long.md"
    write_files(tmp_path / "notes", {"new.md": "Another heron."})
    store.update()
    other = ScriptedEmbedder(16)
    with pytest.raises(ProviderError, match="tiny now sends vectors of 16 dimensions, the index holds 8"):
        store.embed(other)
    assert len(other.seen) == 1 and nearest(store, embedder, wanted).matched == 5  # one text was sent
    store.cleanup()
    assert store.embed(other, force=True).documents == 5
    assert store.vector(np.ones(16, np.float32), SPACE, 9).matched == 6
    store.close()


@pytest.mark.parametrize("extension", [True, False])
@pytest.mark.parametrize("dims", [8, 16])
def test_vectors_of_another_model_are_neither_compared_nor_kept(
    tmp_path: Path, extension: bool, dims: int
) -> None:
    store = new_store(tmp_path, FILES, extension=extension)
    first, second = ScriptedEmbedder(), ScriptedEmbedder(dims)
    second.model = "other"
    local = ScriptedEmbedder()
    local.id, local.model = "local", "tiny"
    store.embed(first)
    space = VectorSpace.of(second)
    assert (store.pending(space), store.pending(VectorSpace.of(local)), store.vector_dims(space)) == (
        3,
        3,
        None,
    )
    assert nearest(store, first, "pump").matched == 4
    assert store.vector(np.ones(dims, np.float32), space, 9) == Rows()
    assert store.embed(second).documents == 3
    assert store.vector(np.ones(dims, np.float32), space, 9).matched == 4
    assert (store.pending(SPACE), store.vector_dims(SPACE), store.vector_dims(space)) == (3, None, dims)
    assert store.embed(first).documents == 3 and nearest(store, first, "pump").matched == 4
    store.close()


def test_what_a_model_made_of_a_text_is_kept(store: QmdStore, tmp_path: Path) -> None:
    write_files(tmp_path / "notes", {"long.md": LONG})
    store.update()
    embedder = ScriptedEmbedder()
    chunks = store.embed(embedder).chunks
    write_files(tmp_path / "notes", {"long.md": f"{LONG}One more line.\n"})
    store.update()
    again = ScriptedEmbedder()
    report = store.embed(again)
    assert (len(again.seen), report.chunks - report.cached) == (1, 1) and report.cached > 1
    assert nearest(store, again, embedder.seen[-2]).rows[0].raw == pytest.approx(1, abs=1e-6)
    forced = ScriptedEmbedder()
    report = store.embed(forced, force=True)
    assert (report.cached, report.chunks, forced.seen) == (chunks, chunks, [])
    other = ScriptedEmbedder()
    other.id = "elsewhere"
    assert store.embed(other).cached == 0 and len(other.seen) == chunks
    assert store.cleanup().embeddings == 2 * chunks + 1
    assert store.embed(other, force=True).cached == 0


def test_a_text_that_the_model_refuses_stays_pending(store: QmdStore) -> None:
    class Refusing(ScriptedEmbedder):
        def embed_documents(self, texts, *rest, **more) -> list[Vector | None]:  # type: ignore[no-untyped-def]
            for at, text in enumerate(texts):
                if "pump" in text:
                    raise TextRefused("too long", position=at)
            return super().embed_documents(texts)

    report = store.embed(Refusing())
    assert report.refused == (("notes/memory/pump.md", "too long"),)
    assert (report.documents, store.pending(SPACE)) == (2, 1)


def test_a_stop_keeps_the_vectors_that_were_made(store: QmdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from openclaw_mem_engine.stores.qmd import embedding

    monkeypatch.setattr(embedding, "_BATCH_DOCUMENTS", 1)

    class Stopping(ScriptedEmbedder):
        def embed_documents(self, texts, *rest, **more) -> list[Vector | None]:  # type: ignore[no-untyped-def]
            if self.seen:
                raise Cancelled("stopped")
            return super().embed_documents(texts)

    with pytest.raises(Cancelled):
        store.embed(Stopping())
    assert store.pending(SPACE) == 2
