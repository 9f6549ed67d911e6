"""PostgreSQL: one state, one writer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from test_postgres_store import V, agent, make, store

from openclaw_mem_engine.errors import (
    IndexChanged,
    IndexLocked,
    IndexUnavailable,
)
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.postgres import content, session, turns
from openclaw_mem_engine.stores.postgres.content import literal
from openclaw_mem_engine.stores.postgres.schema import NAME
from openclaw_mem_engine.stores.postgres.store import PostgresIndex
from openclaw_mem_engine.stores.query import build_query
from support import postgres
from support.stores import FINGERPRINT, change_of, put

__all__ = ["agent", "make", "store"]


def test_a_snapshot_is_one_state(store: PostgresIndex, make: Callable[..., PostgresIndex]) -> None:
    query = build_query("pump", "or", "stemmed")
    assert query is not None
    with store.snapshot():
        before = store.lexical(query, 9), store.generation()
        make().remove(("MEMORY.md", "memory"))
        assert (store.lexical(query, 9), store.generation()) == before
        assert store.fetch(dict(before[0]))
    assert not store.lexical(query, 9) and store.generation() > before[1]


def test_a_failed_list_costs_the_snapshot_not_the_other_lists(store: PostgresIndex) -> None:
    query = build_query("pump", "or", "stemmed")
    assert query is not None
    with store.snapshot():
        with pytest.raises(IndexUnavailable), store._rows.reading() as read:
            read.execute("SELECT 1 / 0")
        assert len(store.lexical(query, 9)) == 1


def test_a_writer_waits_for_another_and_then_says_so(
    store: PostgresIndex, make: Callable[..., PostgresIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LOCK_TIMEOUT_MS", 50)
    with store._turns.writing(), pytest.raises(IndexLocked, match="did not finish in time"):
        make().apply(change_of("memory/b.md", ["b"]))
    assert set(store.files()) == {"MEMORY.md"}


def test_a_sync_keeps_other_hosts_out_until_it_ends(
    store: PostgresIndex, make: Callable[..., PostgresIndex]
) -> None:
    other = make()
    with store.exclusive():
        store.apply(change_of("memory/b.md", ["b"]))
        with pytest.raises(IndexLocked, match="being brought up to date"):
            other.apply(change_of("memory/c.md", ["c"]))
        with pytest.raises(IndexLocked), other.exclusive():
            pass
        assert set(other.files()) == {"MEMORY.md", "memory/b.md"}, "reading goes on"
    other.apply(change_of("memory/c.md", ["c"]))


def test_two_hosts_with_one_name_are_named_with_the_setting(
    store: PostgresIndex, make: Callable[..., PostgresIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "db-laptop")
    other = make()
    with store.exclusive():
        with pytest.raises(IndexLocked) as caught:
            other.apply(change_of("memory/c.md", ["c"]))
        mine = store._turns.lease.host
        assert f"Unless {mine} and this host, db-laptop, have the same notes" in str(caught.value)
        assert "store.agent of its own" in str(caught.value)
        monkeypatch.setattr("socket.gethostname", lambda: mine)
        with pytest.raises(IndexLocked) as caught:  # of the same host, with a folder of its own
            make().apply(change_of("memory/c.md", ["c"]))
        assert "store.agent" not in str(caught.value)


def test_vectors_that_the_server_has_are_not_sent_again(
    store: PostgresIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[Any]()

    def counted(vector: Any) -> str:
        sent.append(vector)
        return literal(vector)

    monkeypatch.setattr(content, "literal", counted)
    change = change_of("memory/b.md", ["The pump runs.", "A second text."], V)
    store.cache_vectors({change.chunks[1].hash: V[1]})
    store.apply(change, built_with=FINGERPRINT)  # the first is that of MEMORY.md
    assert len(sent) == 1
    assert store.covered() == 4
    store.prune_cache(0)
    store.apply(change_of("memory/d.md", ["A third text."], V[:1]), built_with=FINGERPRINT)
    assert len(sent) == 2 and store.covered() == 5, "what was not put there before"


def test_the_lease_of_a_host_that_is_gone_ends(
    store: PostgresIndex, make: Callable[..., PostgresIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LEASE_S", 0)
    monkeypatch.setattr(turns.Turns, "_renew", lambda *_: None)
    lease = store.exclusive()
    lease.__enter__()  # and never ends
    make().apply(change_of("memory/c.md", ["c"]))


def test_a_lease_is_renewed_while_a_sync_writes_nothing(
    store: PostgresIndex, make: Callable[..., PostgresIndex], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RENEWAL_S", 0.01)
    sql, other = f"SELECT lease_until FROM {NAME}.agents WHERE agent = %(agent)s", make()

    def until() -> Any:
        with store._rows.reading() as read:
            return read.one(sql)

    with store.exclusive():
        seen = {until()}
        while len(seen) < 4:
            seen.add(until())
        with pytest.raises(IndexLocked, match="being brought up to date"):
            other.apply(change_of("memory/c.md", ["c"]))
    assert until() is None and not [each for each in threading.enumerate() if each.name == turns.RENEWING]


def test_a_rebuild_that_lost_its_lease_to_another_ends_without_harm(
    store: PostgresIndex, make: Callable[..., PostgresIndex]
) -> None:
    lost = store.new_generation(FINGERPRINT)
    put(lost, "memory/lost.md", ["lost"])
    other = make()
    with other.exclusive():
        other.rebuild(FINGERPRINT, lambda fresh: put(fresh, "memory/new.md", ["new"]))
    for late in (lost.commit, lambda: put(lost, "memory/late.md", ["late"])):
        with pytest.raises(IndexChanged, match="run it again"):
            late()
    assert set(store.files()) == {"memory/new.md"}


def test_a_reader_sees_the_old_generation_until_a_rebuild_ends(
    store: PostgresIndex, make: Callable[..., PostgresIndex]
) -> None:
    reader, query = make(), build_query("pump", "or", "stemmed")
    assert query is not None

    def state() -> Any:
        return reader.files(), reader.chunk_counts(), reader.generation(), reader.lexical(query, 9)

    def fill(fresh: IndexStore) -> None:
        put(fresh, "memory/new.md", ["A new pump."], [V[1]])
        with ThreadPoolExecutor(1) as pool:  # a transaction of its own, not that of the snapshot
            assert pool.submit(state).result() == before

    with reader.snapshot():
        before = state()
        store.rebuild(FINGERPRINT, fill)
        assert state() == before, "a search that began before the swap goes on with the old rows"
    after = state()
    assert {*after[0]} == {"memory/new.md"} and after[2] > before[2] and after[3] != before[3]


def test_applying_a_change_twice_changes_no_row(store: PostgresIndex) -> None:
    change = change_of("memory/b.md", ["The pump, again.", "And again."], V)

    store.apply(change, built_with=FINGERPRINT)
    once = postgres.rows_of(store._rows.agent, hidden=("seq", "generation"))
    store.apply(change, built_with=FINGERPRINT)
    assert postgres.rows_of(store._rows.agent, hidden=("seq", "generation")) == once
    assert [len(once[table]) for table in ("files", "chunks", "terms", "vectors")] == [2, 4, 8, 4]


def test_what_a_killed_rebuild_left_is_removed_by_the_next(
    store: PostgresIndex, make: Callable[..., PostgresIndex]
) -> None:
    left = store.new_generation(FINGERPRINT, FINGERPRINT.space)
    put(left, "memory/left.md", ["left"], [V[0]])
    assert store.counts().cached == 2 and left.counts().cached == 1
    make().rebuild(FINGERPRINT, lambda fresh: put(fresh, "memory/new.md", ["new"]))
    with store._rows.reading() as read:
        for table in ("generations", "files", "chunks", "terms"):
            sql = f"SELECT count(DISTINCT gen) FROM {NAME}.{table} WHERE agent = %(agent)s"
            assert read.one(sql) == 1, table
    assert set(store.files()) == {"memory/new.md"} and store.counts().cached == 2
