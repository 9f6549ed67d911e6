"""Content and changes, the same in every store."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_store_contract import NOTES, SESSIONS, Make, V, make, query_of, store, texts

from openclaw_mem_engine.errors import IndexChanged
from openclaw_mem_engine.stores import STORES
from openclaw_mem_engine.stores.base import IndexStore
from support.postgres import opened
from support.stores import FINGERPRINT, change_of, put

__all__ = ["make", "store"]


def test_an_index_that_was_never_begun_is_empty(tmp_path: Path) -> None:
    for kind in STORES:
        bare = opened(kind, tmp_path / kind)
        assert bare.fingerprint() is None and bare.synced_at() is None and not bare.is_hollow()
        assert not bare.vector(V[0], 5) and not bare.lexical(query_of("pump"), 5)
        assert bare.counts().chunks == bare.counts().files == bare.counts().cached == 0
        assert dict(bare.files()) == bare.chunk_counts() == {} and bare.spaces() == []
        bare.close()


def test_what_was_applied_is_there(store: IndexStore) -> None:
    counts = store.counts()
    assert (counts.files, counts.chunks, counts.cached) == (5, 7, 7)
    assert store.covered() == 7 and store.vector_dims() == 4
    assert set(store.files()) == {*NOTES, *SESSIONS}
    assert store.chunk_counts()["MEMORY.md"] == 2 and "memory/empty.md" not in store.chunk_counts()
    chunks = store.chunks_of("MEMORY.md")
    assert [chunk.text for chunk in chunks] == NOTES["MEMORY.md"]
    assert [chunk.start_line for chunk in chunks] == [1, 2] and store.chunks_of("no.md") == []
    (fetched,) = store.fetch([chunks[0].chunk_id]).values()
    assert fetched == chunks[0]._replace(mtime_ns=store.files()["MEMORY.md"].mtime_ns)
    assert store.in_full_text([chunks[0].chunk_id, "unknown"]) == {chunks[0].chunk_id}
    assert store.fingerprint() == FINGERPRINT


def test_a_change_replaces_all_of_a_file_and_only_of_it(store: IndexStore) -> None:
    generation = store.generation()
    put(store, "memory/pump.md", ["The valve is new."], [V[2]])
    assert store.generation() > generation
    assert texts(store, (row.chunk_id for row in store.lexical(query_of("irrigation valve"), 9))) == {
        "The valve is new."
    }
    assert store.counts().chunks == 6
    before = [store.files(), store.chunks_of("memory/pump.md"), store.counts()]
    put(store, "memory/pump.md", ["The valve is new."], [V[2]])
    assert [store.files(), store.chunks_of("memory/pump.md"), store.counts()] == before


def test_a_change_that_fails_leaves_nothing_of_itself(store: IndexStore) -> None:
    before = store.files(), store.counts(), store.chunks_of("MEMORY.md")
    good, bad = change_of("memory/new.md", ["new"], [V[0]]), change_of("MEMORY.md", ["x"], [V[1]])
    with pytest.raises(ValueError, match="shorter"):
        store.apply(good, replace(bad, vectors=[]))
    assert (store.files(), store.counts(), store.chunks_of("MEMORY.md")) == before


def test_removing_is_removing_once(store: IndexStore) -> None:
    for _ in range(2):
        store.remove(("memory/pump.md", "memory"))
    generation = store.generation()
    store.remove(("memory/never.md", "memory"), ("memory/zh.md", "memory"), ("memory/zh.md", "sessions"))
    assert store.generation() == generation + 1, "in one step"
    assert "memory/zh.md" not in store.files() and store.chunks_of("memory/zh.md") == []
    assert "memory/pump.md" not in store.files() and store.chunks_of("memory/pump.md") == []
    assert store.counts().cached == 7, "its embeddings stay"
    assert len(store.vector(V[0], 50)) == 3


def test_a_touch_changes_times_and_not_the_generation(store: IndexStore) -> None:
    generation = store.generation()
    state = store.files()["MEMORY.md"]._replace(mtime_ns=99, inode=98)
    store.touch([state])
    store.touch([])
    assert store.files()["MEMORY.md"] == state and store.generation() == generation


def test_a_refused_file_is_known_and_holds_nothing(store: IndexStore) -> None:
    state = store.files()["MEMORY.md"]._replace(refusal="binary")
    change = change_of("MEMORY.md", [])
    store.apply(replace(change, state=state))
    assert store.files()["MEMORY.md"].refusal == "binary"
    assert store.counts().files == 4 and store.chunks_of("MEMORY.md") == []


def test_files_without_any_chunk_are_hollow(make: Make) -> None:
    store = make()
    store.apply(change_of("memory/a.md", []))
    assert not store.is_hollow(), "it has no text"
    store.apply(replace(change_of("memory/b.md", ["text"]), chunks=[], vectors=[]))
    assert store.is_hollow()


def test_work_for_another_index_is_refused(store: IndexStore) -> None:
    other = replace(FINGERPRINT, chunk_tokens=1)
    with pytest.raises(IndexChanged):
        store.apply(change_of("memory/c.md", ["gamma"]), built_with=other)
    with pytest.raises(IndexChanged):
        store.set_vectors({}, other)
    store.apply(change_of("memory/c.md", ["gamma"]), built_with=FINGERPRINT)
    store.finish(5.0)
    assert store.synced_at() == 5.0


def test_awaited_vectors_are_found_until_they_are_there(store: IndexStore) -> None:
    assert store.chunks_without_vector(10) == []
    store.apply(change_of("memory/c.md", ["gamma", "delta"]))
    assert "vectors-awaited" in {note.code for note in store.notes}
    waiting = store.chunks_without_vector(10)
    assert {chunk.text for chunk in waiting} == {"gamma", "delta"}
    assert len(store.chunks_without_vector(1)) == 1
    store.cache_vectors({waiting[0].hash: V[0], waiting[1].hash: None})
    store.set_vectors({waiting[0].chunk_id: V[0]}, FINGERPRINT)
    assert store.chunks_without_vector(10) == []
    assert "vectors-awaited" not in {note.code for note in store.notes}
    assert waiting[0].chunk_id in dict(store.vector(V[0], 3))
