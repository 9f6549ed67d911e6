"""What every store must do, whatever it is made of: the contract of ``stores.base``, over all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.answer import Answer
from openclaw_mem_engine.errors import Cancelled, IndexLocked, IndexUnavailable
from openclaw_mem_engine.model import Space, text_hash
from openclaw_mem_engine.ranking.pipeline import rank
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, WORKBENCH
from openclaw_mem_engine.ranking.unshown import unshown_by_file
from openclaw_mem_engine.retrieval.builtin import BuiltinBackend
from openclaw_mem_engine.stores import STORES, open_store
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.query import LexicalQuery, build_keyword_query, build_query
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync.report import SyncRequest
from support.memories import backend_of, open_memory, write_notes
from support.postgres import opened
from support.stores import FINGERPRINT, change_of, provide_all, put, unit

Make = Callable[..., IndexStore]

NOTES = {
    "MEMORY.md": ["The gateway runs on the ARM board.", "Pumps and more pumps: the pump house."],
    "memory/pump.md": ["The irrigation pump restarted twice.", "foo_bar is a function; crème brûlée is not"],
    "memory/zh.md": ["数据库连接池默认大小是二十。", "温室 の ガス and the pump"],
    "memory/empty.md": [],
}
#: Texts of the sessions source.
SESSIONS = {"sessions/a.jsonl": ["We talked about the pump and the gateway."]}
V = [unit(np.eye(4)[i]) for i in range(4)]
FORMS: list[dict[str, Any]] = [
    {"kind": "sqlite"},
    {"kind": "sqlite", "resident": True},
    {"kind": "sqlite", "extension": False},
    {"kind": "postgres"},
]


@pytest.fixture(params=FORMS, ids=lambda form: " ".join(map(str, form.values())))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Opens a store of one kind, begun and empty."""
    stores: list[IndexStore] = []

    def open_one(name: str = "main") -> IndexStore:
        store = opened(path=tmp_path / f"{name}.sqlite", **request.param)
        store.begin(FINGERPRINT)
        provide_all(store)
        stores.append(store)
        return store

    yield open_one
    for store in stores:
        store.close()


def test_packed_lines_are_those_that_were_given_or_absent(make: Make) -> None:
    store = make()
    change = change_of("a.md", ["one", "two"])
    given = {chunk.chunk_id: chunk.text.encode() for chunk in change.chunks}
    store.apply(replace(change, lines=given))
    found = store.packed_lines([*given, "none"], FINGERPRINT.space)
    assert found.items() <= given.items()
    assert len(found) == (2 if isinstance(store, SqliteIndex) else 0)
    assert store.packed_lines(given, Space("other", "model", "")) == {}


@pytest.fixture
def store(make: Make) -> IndexStore:
    return filled(make())


def filled(store: IndexStore) -> IndexStore:
    vectors = iter([*V, unit([1, 1, 0, 0]), unit([1, 2, 3, 4]), unit([1, 0, 0, 1])])
    for name, texts in NOTES.items():
        put(store, name, texts, [next(vectors) for _ in texts])
    for name, texts in SESSIONS.items():
        put(store, name, texts, [next(vectors) for _ in texts], "sessions")
    return store


def query_of(text: str, form: Any = "or", index: Any = "stemmed") -> LexicalQuery:
    query = build_query(text, form, index)
    assert query is not None
    return query


def texts(store: IndexStore, ids: Any) -> set[str]:
    return {chunk.text for chunk in store.fetch(ids).values()}


# -- the same answers from every store --------------------------------------------------------------------

_WORDS = st.sampled_from(
    [
        "pump",
        "pumps",
        "Gateway",
        "the",
        "foo_bar",
        "creme",
        "crème",
        "数据库",
        "池",
        "温室",
        "ガ",
        "zh",
        "memory",
        "board",
        "no",
    ]
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(_WORDS, min_size=1, max_size=4).map(" ".join),
    st.sampled_from(["or", "and", "keywords"]),
    st.sampled_from(["stemmed", "plain"]),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([1, 3, 50]),
)
def test_full_text_search_is_that_of_fts5(
    pair: tuple[IndexStore, IndexStore],
    text: str,
    form: Any,
    index: Any,
    name_weight: float,
    limit: int,
) -> None:
    sqlite, other = pair
    query = build_keyword_query(text) if form == "keywords" else build_query(text, form, index, name_weight)
    if query is None:
        return
    wanted, found = sqlite.lexical(query, 50), other.lexical(query, 50)
    assert dict(found) == pytest.approx(dict(wanted), abs=1e-9)
    assert found.matched == wanted.matched == len(wanted)
    cut, mine = sqlite.lexical(query, limit), other.lexical(query, limit)
    assert [row.raw for row in cut] == pytest.approx([row.raw for row in mine], abs=1e-9)
    assert cut.matched == mine.matched == wanted.matched
    ids = [*dict(wanted), "unknown"]
    assert other.lexical_scores(query, ids) == pytest.approx(sqlite.lexical_scores(query, ids), abs=1e-9)
    lines = {"x": "the pump\n温室 gateway board", "y": "foo_bar crème", "z": ""}
    ours, scores = (store.line_scores(query, lines, ["x", "y"]) for store in (other, sqlite))
    assert [len(scores[key]) for key in "xyz"] == [2, 1, 1] and ours.keys() == scores.keys()
    for key in lines:
        assert ours[key] == pytest.approx(scores[key], abs=1e-9)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[IndexStore, IndexStore]]:
    stores = []
    for kind in ("sqlite", "postgres"):
        one = opened(kind, tmp_path / f"{kind}.sqlite")
        one.begin(FINGERPRINT)
        provide_all(one)
        stores.append(filled(one))
    yield stores[0], stores[1]
    for one in stores:
        one.close()


# -- searching --------------------------------------------------------------------------------------------


def test_every_kind_of_store_is_registered() -> None:
    assert {form["kind"] for form in FORMS} == STORES.keys()
    with pytest.raises(KeyError):
        open_store("none of these", Path("x"))


def test_a_list_is_sorted_and_counts_all_that_matched(store: IndexStore) -> None:
    query = query_of("pump gateway")
    rows = store.lexical(query, 50)
    assert [row.raw for row in rows] == sorted((row.raw for row in rows), reverse=True)
    assert all(row.raw >= 0 for row in rows)
    assert rows.matched == len(rows) == 5
    assert (len(store.lexical(query, 2)), store.lexical(query, 2).matched) == (2, 5)
    assert rows.query, "a list shows what was searched"
    near = store.vector(V[0], 2)
    assert (len(near), near.matched, near.query) == (2, 7, "")
    assert [row.raw for row in near] == pytest.approx([1.0, 0.5**0.5], abs=1e-6)


def test_the_rank_of_a_chunk_is_that_of_the_unlimited_list(store: IndexStore) -> None:
    query, vector = query_of("pump gateway"), unit([1, 2, 3, 3])
    for number, row in enumerate(store.lexical(query, 50), 1):
        assert store.lexical_ranks(query, [row.chunk_id]) == {row.chunk_id: number}
    for number, row in enumerate(store.vector(vector, 50), 1):
        assert store.vector_ranks(vector, [row.chunk_id]) == {row.chunk_id: number}
    ids = [row.chunk_id for row in store.lexical(query, 50)]
    assert store.lexical_ranks(query, [*ids[1:4], "unknown"]) == dict(zip(ids[1:4], (2, 3, 4), strict=True))
    keywords = build_keyword_query("pump gateway")
    assert keywords is not None
    ids = [row.chunk_id for row in store.lexical(keywords, 50)]
    assert store.lexical_ranks(keywords, ids) == {chunk_id: at for at, chunk_id in enumerate(ids, 1)}
    assert store.lexical_ranks(query, ["unknown"]) == {}
    assert store.vector_ranks(vector, ["unknown"]) == {}
    assert store.vector_ranks(vector, [row.chunk_id], Space("no", "such", "space")) == {}


def test_equally_near_chunks_come_by_id(make: Make) -> None:
    store = make()
    for number in range(9):
        put(store, f"memory/{number}.md", [f"note {number}"], [V[0]])
    ids = sorted(chunk.chunk_id for n in range(9) for chunk in store.chunks_of(f"memory/{n}.md"))
    assert [row.chunk_id for row in store.vector(V[0], 4)] == ids[:4]


def test_no_row_is_nearest_for_no_places(store: IndexStore) -> None:
    assert not store.lexical(query_of("pump"), 0) and not store.vector(V[0], 0)


def test_scores_of_given_chunks_are_those_of_the_lists(store: IndexStore) -> None:
    query = query_of("pump gateway")
    rows = dict(store.lexical(query, 50))
    assert store.lexical_scores(query, [*rows, "unknown"]) == pytest.approx(rows, abs=1e-12)
    near = dict(store.vector(V[3], 50))
    assert store.cosines(V[3], [*near, "unknown"]) == pytest.approx(near, abs=1e-6)
    assert store.lexical_scores(query, []) == store.cosines(V[3], []) == store.fetch([]) == {}


def test_a_vector_of_other_dimensions_is_refused(store: IndexStore) -> None:
    with pytest.raises(IndexUnavailable):
        store.vector(unit([1, 2]), 3)


def test_another_space_is_searched_from_the_cache(store: IndexStore) -> None:
    other = Space("other", "model", "key")
    assert store.covered(other) == 0 and store.vector_dims(other) is None
    chunk = store.chunks_of("memory/pump.md")[0]
    generation = store.generation()
    store.cache_vectors({chunk.hash: unit([1, 1, 1, 1, 1])}, other)
    assert store.generation() > generation
    assert [row.chunk_id for row in store.vector(unit([1, 0, 0, 0, 0]), 9, space=other)] == [chunk.chunk_id]
    assert (store.covered(other), store.vector_dims(other)) == (1, 5)
    assert {size.space: size.vectors for size in store.spaces()} == {FINGERPRINT.space: 7, other: 1}


def test_a_space_is_as_large_as_the_chunks_with_a_vector(store: IndexStore) -> None:
    put(store, "memory/twice.md", ["The irrigation pump restarted twice.", "no vector"], [V[2], None])
    store.cache_vectors({store.chunks_of("memory/twice.md")[1].hash: None, text_hash("of no chunk"): V[1]})
    assert {size.space: size[1:] for size in store.spaces()} == {FINGERPRINT.space: (8, 4)}
    assert store.covered() == 8


def test_what_no_search_shows_is_what_its_text_says(store: IndexStore) -> None:
    put(store, "memory/long.md", ["# Title\n" + "x" * 900, "---\n\ny"], [None, None])
    put(store, "memory/pump.md", ["changed\n" * 200], [None])
    store.remove(("memory/zh.md", "memory"))
    changed = WORKBENCH.set({"snippet": "head", "snippet_chars": 40})
    found = {knobs: store.unshown(knobs) for knobs in (DOCUMENTED, WORKBENCH, changed)}
    assert found == {knobs: unshown_by_file(store.passages(), knobs) for knobs in found}
    assert list(found[DOCUMENTED]) == sorted(store.chunk_counts()) and "memory/zh.md" not in found[DOCUMENTED]
    hidden = [sum(file.hidden_characters for file in files.values()) for files in found.values()]
    assert 0 < hidden[1] < hidden[0] < hidden[2]


def test_without_full_text_search_only_vectors_answer(tmp_path: Path) -> None:
    for kind in STORES:
        bare = opened(kind, tmp_path / kind, full_text=False)
        bare.begin(FINGERPRINT)
        filled(bare)
        query = query_of("pump")
        assert not bare.caps.full_text and not bare.lexical(query, 9) and bare.vector(V[0], 9)
        assert bare.lexical_scores(query, ["x"]) == bare.line_scores(query, {"x": "pump"}, ["x"]) == {}
        bare.close()


def test_a_closed_store_says_so(store: IndexStore) -> None:
    store.close()
    with pytest.raises(IndexUnavailable, match="is closed"):
        store.counts()


# -- the cache --------------------------------------------------------------------------------------------


def test_the_cache_keeps_vectors_by_space_and_hash(store: IndexStore) -> None:
    other = Space("other", "model", "key")
    store.cache_vectors({text_hash("h1"): V[0], text_hash("h2"): None}, other)
    known = store.cached_vectors([text_hash("h1"), text_hash("h2"), text_hash("h3")], other)
    assert known.keys() == {text_hash("h1"), text_hash("h2")} and known[text_hash("h2")] is None
    assert (vector := known[text_hash("h1")]) is not None and vector.tolist() == V[0].tolist()
    assert store.cached_vectors([text_hash("h1")]) == {} == store.cached_vectors([])
    first, second = store.cache_sizes()
    assert (first.space, first.entries, first.live, first.bytes) == (FINGERPRINT.space, 7, 7, 7 * 16)
    assert (second.space, second.entries, second.live, second.bytes) == (other, 2, 0, 16)
    assert second.oldest <= second.newest


def test_pruning_spares_what_a_chunk_needs(store: IndexStore) -> None:
    store.cache_vectors({text_hash("old"): V[0]})
    assert store.prune_cache(8) == 0
    assert store.prune_cache(0) == 1
    assert store.cached_vectors([text_hash("old")]) == {} and store.covered() == 7


# -- new generations --------------------------------------------------------------------------------------


def refill(fresh: IndexStore) -> None:
    put(fresh, "memory/new.md", ["gamma new"], [V[3]])


def test_a_rebuild_replaces_all_and_keeps_the_cache(store: IndexStore) -> None:
    other, generation = replace(FINGERPRINT, chunk_tokens=200), store.generation()

    def fill(fresh: IndexStore) -> None:
        assert fresh.counts().chunks == 0 and fresh.counts().cached == 7
        refill(fresh)
        assert set(store.files()) == {*NOTES, *SESSIONS}, "the old content serves meanwhile"

    store.rebuild(other, fill)
    assert store.fingerprint() == other and set(store.files()) == {"memory/new.md"}
    assert store.generation() > generation and store.counts().cached == 8
    assert len(store.vector(V[3], 9)) == 1 and not store.lexical(query_of("pump"), 9)
    refill(store)


@pytest.mark.parametrize("how", ["error", "cancelled"])
def test_a_rebuild_that_ends_early_changes_nothing_but_the_cache(store: IndexStore, how: str) -> None:
    before, cancel = (store.files(), store.generation(), store.fingerprint()), threading.Event()

    def fill(fresh: IndexStore) -> None:
        refill(fresh)
        if how == "error":
            raise IndexLocked("stop")
        cancel.set()

    with pytest.raises((IndexLocked, Cancelled)):
        store.rebuild(replace(FINGERPRINT, chunk_tokens=200), fill, cancel)
    assert (store.files(), store.generation(), store.fingerprint()) == before
    assert store.counts().cached == 8


def test_a_generation_ends_once(store: IndexStore) -> None:
    generation = store.new_generation(FINGERPRINT)
    refill(generation)
    generation.commit()
    generation.abort()
    assert set(store.files()) == {"memory/new.md"}


def test_embeddings_of_an_unfit_space_are_not_carried_over(store: IndexStore) -> None:
    store.rebuild(FINGERPRINT, refill, without=FINGERPRINT.space)
    assert store.counts().cached == 1


# -- damage -----------------------------------------------------------------------------------------------


class Broken:
    """A store of which one kind of list cannot be read."""

    def __init__(self, store: IndexStore, kind: str, error: IndexUnavailable) -> None:
        self._store, self._error = store, error
        self._broken = {
            "lexical": {"lexical", "lexical_scores", "line_scores"},
            "vector": {"vector", "cosines"},
        }[kind]

    def __getattr__(self, name: str) -> Any:
        def fail(*_: object, **__: object) -> None:
            raise self._error

        return fail if name in self._broken else getattr(self._store, name)


# -- retrieval over any store -------------------------------------------------------------------------------


def test_retrieval_gives_the_same_answers_over_every_store(tmp_path: Path) -> None:
    """Synced and searched by the builtin backend, which knows nothing of what the store is made of."""
    notes = {
        "MEMORY.md": "# Long-term\n\nThe gateway runs on the ARM board.\nBackups go to the NAS.\n",
        "memory/2026-02-20.md": "The irrigation pump restarted twice.\nE_VALVE code 7712 came back.\n",
        "memory/2026-02-21.md": "The irrigation pump was quiet.\n",
        "memory/ja.md": "温室の湿度センサーを交換した。\n",
    }
    answers: dict[str, list[Any]] = {}
    with open_memory(write_notes(tmp_path / "ws", notes), tmp_path / "home") as memory:
        embedders = backend_of(memory).embedders
        for kind in STORES:
            path = memory.settings.index_path.with_name(f"{kind}.sqlite")
            store = opened(kind, path)
            backend = BuiltinBackend(memory.settings, store, embedders, lambda: 1_771_632_000.0)
            assert backend.sync().files == 4
            assert backend.sync(SyncRequest(force=True)).rebuilt
            (tmp_path / "ws" / "memory" / "2026-02-21.md").write_text(f"The pump, seen by {kind}.\n", "utf-8")
            assert backend.sync().changed == ("memory/2026-02-21.md",)
            (tmp_path / "ws" / "memory" / "2026-02-21.md").write_text("The pump was quiet.\n", "utf-8")
            backend.sync()
            found = answers[kind] = []
            for profile in (WORKBENCH, DOCUMENTED):
                for query in ("irrigation pump", "code 7712", "温室", "where do backups go?"):
                    pool = backend.retrieve(query, profile)
                    found += [(hit.path, hit.score) for hit in Answer(pool, rank(pool, profile)).hits]
            assert len(answers[kind]) > 8
            store.close()
    wanted = [(path, pytest.approx(score, abs=1e-5)) for path, score in answers["sqlite"]]
    assert answers["postgres"] == wanted
