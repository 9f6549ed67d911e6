"""The index file while other processes use it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from unittest import mock

import pytest
from test_index_store import V, leftovers, path, refill, store

from openclaw_mem_engine.errors import Cancelled, IndexLocked
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.query import build_query
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync.report import SyncRequest
from support.damage import indexed, looked
from support.stores import FINGERPRINT, found, new_store, put

__all__ = ["path", "store"]


ENGINE, TESTS = (Path(__file__).parents[2] / name for name in ("engine", "tests"))


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python process with the engine and the helpers of these tests."""
    environment = {**os.environ, "PYTHONPATH": f"{ENGINE}{os.pathsep}{TESTS}"}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


HOLD_THE_LOCK = """
    import apsw, sys
    connection = apsw.Connection(sys.argv[1])
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO meta VALUES('held', 'yes')")
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_locked_index_is_readable_and_says_so_to_writers(
    store: SqliteIndex, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.stores.sqlite.database.BUSY_TIMEOUT_MS", 50)
    process = child(HOLD_THE_LOCK, path)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    try:
        impatient = SqliteIndex(path)
        assert found(impatient, "alpha") == {"alpha old"}
        assert len(impatient.vector(V[0], 5)) == 3
        start = time.perf_counter()
        with pytest.raises(IndexLocked, match=r"Another process is writing.*try again"):
            put(impatient, "memory/c.md", ["gamma"], [V[0]])
        with pytest.raises(IndexLocked):
            impatient.rebuild(FINGERPRINT, refill)
        assert time.perf_counter() - start < 8, "less than twice the usual 5 s"
        assert leftovers(path) == []
    finally:
        process.communicate("\n")
    put(impatient, "memory/c.md", ["gamma"], [V[0]])
    assert found(impatient, "gamma") == {"gamma"}
    impatient.close()


def test_a_search_reads_the_best_scores_and_ranks_read_all_of_them_once(tmp_path: Path) -> None:
    store = new_store(tmp_path / "one.sqlite")
    for number in range(9):
        put(store, f"memory/{number}.md", ["pump " * (number % 3 + 1) + "gateway"], [None])
    query = build_query("pump", "or", "stemmed")
    assert query is not None
    whole = store.lexical(query, 100)
    ids = [row.chunk_id for row in whole]
    with mock.patch.object(Database, "search", autospec=True, side_effect=Database.search) as read:
        best = store.lexical(query, 4)
        assert (best.rows, best.matched) == (whole.rows[:4], 9)
        assert store.matching(query, [*ids[:3], "unknown"]) == {*ids[:3]}
        scored = [call.args[1] for call in read.call_args_list if "bm25(" in call.args[1]]
        assert len(scored) == 1 and "LIMIT" in scored[0]
        read.reset_mock()
        assert store.lexical_ranks(query, ids) == {i: rank for rank, i in enumerate(ids, 1)}
        assert store.lexical_ranks(query, ids[:2]) == {ids[0]: 1, ids[1]: 2}
        assert store.lexical_scores(query, ids) == dict(whole.rows)
        assert read.call_count == 1
    put(store, "memory/new.md", ["pump"], [None])
    assert store.lexical(query, 4).matched == 10
    store.close()


def test_interrupt_stops_the_searches_that_run_and_no_others(tmp_path: Path) -> None:
    store = new_store(tmp_path / "big.sqlite")
    words = [f"w{n}" for n in range(300)]
    for number in range(60):
        put(store, f"memory/{number}.md", [" ".join([*words, str(number), str(line)]) for line in range(20)])
    query = build_query(" ".join(words), "or", "stemmed")
    assert query is not None
    # In turn: the matches of the last one are remembered.
    queries = cycle([query, replace(query, terms=query.terms[1:])])
    outcome: list[BaseException] = []
    running, stop = threading.Event(), threading.Event()

    def search() -> None:
        try:
            while not stop.is_set():
                running.set()
                store.lexical(next(queries), 200)
        except BaseException as error:  # noqa: BLE001 - looked at below
            outcome.append(error)

    thread = threading.Thread(target=search, daemon=True)
    store.interrupt()
    assert store.lexical(query, 5), "what is not running is not stopped later"
    thread.start()
    assert running.wait(10)
    assert thread.is_alive()
    for _ in range(300):
        store.interrupt()
        assert store.files(), "what is not a search goes on"
        thread.join(0.01)
        if not thread.is_alive():
            break
    stop.set()
    thread.join(10)
    assert [type(error) for error in outcome] == [Cancelled]
    store.close()


def test_an_index_whose_log_was_removed_is_opened_again(tmp_path: Path) -> None:
    settings = indexed(tmp_path)
    index = settings.index_path
    with Memory.open(settings, resident=True) as memory:
        memory.sync(SyncRequest(force=True))
        for part in ("-wal", "-shm"):
            index.with_name(index.name + part).unlink()
        assert memory.sync(SyncRequest(force=True)).rebuilt
        assert memory.search("badger orchard").trace.rows
        for part in ("-wal", "-shm"):
            index.with_name(index.name + part).unlink()
        assert memory.examine().errors == 0
    assert looked(settings).errors == 0
