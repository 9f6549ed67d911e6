"""Words and lines that only some knobs read: an index has them from the first search on that does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import Cancelled, IndexLocked, IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.ranking.knobs import Knobs
from openclaw_mem_engine.ranking.profiles import DOCUMENTED, PROFILES, WORKBENCH
from openclaw_mem_engine.stores.query import LABEL, Derived
from openclaw_mem_engine.stores.sqlite.chunks import all_chunks
from openclaw_mem_engine.stores.sqlite.schema import derived
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.report import SyncRequest
from support.damage import NOTES, looked
from support.memories import open_memory, settings_for, write_notes
from support.stores import provide_all
from support.users import unprivileged_folder

PLAIN = DOCUMENTED.set({"lexical_index": "plain"})
QUERY = "heron pond gateway"


def made(settings: Settings) -> set[Derived]:
    with closing(apsw.Connection(str(settings.index_path))) as connection:
        return derived(connection)


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with open_memory(write_notes(tmp_path / "ws", NOTES), tmp_path / "home") as memory:
        memory.sync()
        yield memory


def codes(notes: Any) -> list[str]:
    return [note.code for note in notes]


def answer(memory: Memory, knobs: Knobs) -> object:
    """What an answer gives, and why."""
    found = memory.search(QUERY, knobs)
    lists = [(lst.id, lst.rows, lst.matched, lst.by_name) for lst in found.pool.lists]
    return found.hits, found.trace.rows, lists


def test_an_index_has_what_its_profile_reads_and_no_more(tmp_path: Path) -> None:
    sizes = {}
    workspace = write_notes(tmp_path / "ws", NOTES)
    for profile, wanted in (("documented", set()), ("workbench", {"named", "lines"}), ("qmd-2.8", {"plain"})):
        with open_memory(workspace, tmp_path / profile, OPENCLAW_MEM_PROFILE=profile) as memory:
            memory.sync()
            assert made(memory.settings) == {"stemmed", *wanted}
            assert "rows-added" not in codes(memory.search(QUERY).pool.notes)
            sizes[profile] = memory.status().index_bytes
    assert sizes["documented"] < sizes["qmd-2.8"] < sizes["workbench"]


def test_the_first_search_that_reads_them_makes_them_and_every_sync_keeps_them(memory: Memory) -> None:
    settings = memory.settings
    assert made(settings) == {"stemmed"}
    assert codes(memory.search(QUERY, DOCUMENTED).pool.notes) == []
    added: list[tuple[Knobs, set[Derived]]] = [(PLAIN, {"plain"}), (WORKBENCH, {"named", "lines"})]
    for knobs, more in added:
        before = made(settings)
        (note,) = memory.search(QUERY, knobs).pool.notes
        assert (note.code, note.level) == ("rows-added", "info")
        assert all(LABEL[kind].lower() in note.text.lower() for kind in more)
        assert made(settings) == before | more
        assert memory.search("again " + QUERY, knobs).pool.notes == ()
    write_notes(settings.workspace, {"memory/new.md": "A zeppelin landed by the pond.\n"})
    (settings.workspace / "memory/network.md").unlink()
    memory.sync()
    for knobs in (DOCUMENTED, PLAIN, WORKBENCH):
        assert memory.search("zeppelin", knobs.set({"mode": "bm25"})).hits[0].path == "memory/new.md"
    report = looked(settings, deep=True)
    assert report.errors == 0
    (check,) = [check for check in report.checks if check.name == "BM25 index"]
    assert "plain, stemmed and named" in check.detail
    memory.repair(report)
    memory.sync(SyncRequest(force=True))
    assert made(settings) == {"stemmed"}, "a rebuild has what the configured profile reads"
    assert looked(settings, deep=True).errors == 0


def test_every_knob_answers_as_from_an_index_that_has_all(memory: Memory, tmp_path: Path) -> None:
    all_knobs = [entry.knobs for entry in PROFILES.values() if not entry.knobs.rerank]
    all_knobs += [DOCUMENTED.set(change) for change in ({"name_weight": 3.0}, {"snippet": "packed"})]
    with open_memory(memory.settings.workspace, tmp_path / "other") as other:
        backend: Any = other.backend
        lines = backend.embedders.primary.lines
        other.sync()
        backend.store.provide(*LABEL, pack=lines.pack)
        for knobs in all_knobs:
            assert answer(memory, knobs) == answer(other, knobs), knobs.profile
            for path in ("memory/network.md", "memory/long.md"):
                mine, wanted = (m.why_not("water pond", path, None, knobs) for m in (memory, other))
                assert mine == wanted


def test_a_why_not_tries_the_knobs_that_read_them(memory: Memory) -> None:
    found = memory.why_not("network", "memory/network.md", None, DOCUMENTED.set({"mode": "bm25"}))
    assert {"name_weight": 0.5} in [dict(change.set) for change in found.changes]
    assert "named" in made(memory.settings)


def test_a_sync_makes_what_a_new_profile_reads_without_a_rebuild(memory: Memory) -> None:
    report = memory.sync(SyncRequest(knobs=WORKBENCH))
    assert not report.rebuilt and made(memory.settings) == {"stemmed", "named", "lines"}


def test_an_index_without_embeddings_searches_plain_words_for_every_word(tmp_path: Path) -> None:
    with open_memory(write_notes(tmp_path / "ws", NOTES), tmp_path / "home", provider="none") as memory:
        memory.sync()
        assert memory.search("heron pond", DOCUMENTED.set({"lexical_form": "and"})).hits
        assert made(memory.settings) == {"stemmed", "plain"}


# -- in the middle ------------------------------------------------------------------------------------------


def test_what_stops_it_leaves_the_index_as_it_was(memory: Memory) -> None:
    backend: Any = memory.backend
    before = memory.settings.index_path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        backend.store.provide("named", "lines", pack=lambda _: [b""] * (1 // 0))
    assert made(memory.settings) == {"stemmed"}
    assert memory.settings.index_path.read_bytes() == before
    assert memory.search(QUERY, WORKBENCH).hits


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Rows are added once the second event is set; the first says that this has begun."""
    begun, go_on = threading.Event(), threading.Event()

    def hold(connection: Any) -> Iterator[Any]:
        begun.set()
        assert go_on.wait(30)
        yield from all_chunks(connection)

    monkeypatch.setattr("openclaw_mem_engine.stores.sqlite.store.all_chunks", hold)
    return begun, go_on


def test_a_search_that_is_stopped_has_added_them(
    memory: Memory, held: tuple[threading.Event, threading.Event]
) -> None:
    begun, go_on = held
    stop = threading.Event()

    def type_on() -> None:
        assert begun.wait(30)
        stop.set()
        go_on.set()

    typing = threading.Thread(target=type_on)
    typing.start()
    with pytest.raises(Cancelled):
        memory.search(QUERY, WORKBENCH, stop)
    typing.join(30)
    assert made(memory.settings) == {"stemmed", "named", "lines"}
    assert memory.search(QUERY, WORKBENCH).pool.notes == ()


def test_two_searches_at_once_make_them_once(
    memory: Memory, held: tuple[threading.Event, threading.Event]
) -> None:
    """The second waits for the first, and has its rows."""
    begun, go_on = held
    notes = list[str]()

    def search() -> None:
        notes.extend(codes(memory.search(QUERY, WORKBENCH).pool.notes))

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
        assert begun.wait(30)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Cancelled):
        memory.search(QUERY, WORKBENCH, stopped)
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert notes == ["rows-added"]


KILLED = """
import os, sys
from pathlib import Path
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
def pack(texts):
    os.kill(os.getpid(), 9)
SqliteIndex(Path(sys.argv[1])).provide("plain", "named", "lines", pack=pack)
"""


def test_a_kill_leaves_no_table_that_is_not_filled(memory: Memory) -> None:
    """Words come before the lines during which it is killed."""
    path = memory.settings.index_path
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode == -9
    assert made(memory.settings) == {"stemmed"}
    assert looked(memory.settings, deep=True).errors == 0
    assert memory.search(QUERY, WORKBENCH).hits[0].path == "memory/animals/heron.md"


def test_another_process_that_made_them_meanwhile_made_them_for_all(memory: Memory) -> None:
    with Memory.open(memory.settings) as other:
        assert codes(other.search(QUERY, WORKBENCH).pool.notes) == ["rows-added"]
        assert answer(memory, WORKBENCH) == answer(other, WORKBENCH)
        assert memory.search(QUERY, WORKBENCH).pool.notes == ()


def test_while_another_process_writes_vectors_answer_and_say_so(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.retrieval.keywords._WAIT_S", 0.01)
    with SyncLock(memory.settings.index_path).holding():
        found = memory.search(QUERY, WORKBENCH)
        assert [lst.kind for lst in found.pool.lists] == ["vector"] and found.hits
        (warning,) = found.warnings
        assert warning.startswith("Vectors only: The index does not have words with paths yet")
        assert "Another process is syncing" in warning and "try again when it is done" in warning
        with pytest.raises(IndexLocked, match="words with paths"):
            memory.search(QUERY, WORKBENCH.set({"mode": "bm25"}))
        assert memory.search(QUERY, DOCUMENTED).warnings == ()
        missing = memory.why_not("network", "memory/network.md", None, DOCUMENTED.set({"mode": "bm25"}))
        assert not any("name_weight" in change.set for change in missing.changes)
        assert any("Not all settings were tried" in note.text for note in missing.notes)
        # Lines are compared without their rows.
        packed = memory.search(QUERY, DOCUMENTED.set({"snippet": "packed"}))
        assert packed.hits and packed.warnings == ()
    assert memory.search(QUERY, WORKBENCH).warnings == ()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="becoming another user takes root")
def test_where_the_index_may_not_be_written_it_says_what_to_do() -> None:
    with unprivileged_folder() as folder:
        workspace = write_notes(folder / "ws", NOTES)
        settings = settings_for(workspace, folder / "home", OPENCLAW_MEM_PROVIDER="static")
        with Memory.open(settings) as memory:
            memory.sync()
        settings.index_path.parent.chmod(0o500)
        with Memory.open(settings) as memory:
            found = memory.search(QUERY, WORKBENCH)
            assert [lst.kind for lst in found.pool.lists] == ["vector"] and found.hits
            (text,) = [note.text for note in found.pool.notes if note.code == "words-lacking"]
            assert "does not have words with paths yet" in text and "`chmod u+rwX " in text
            with pytest.raises(IndexUnavailable, match=r"`chmod u\+rwX "):
                memory.search(QUERY, PLAIN.set({"mode": "bm25"}))
            assert memory.search(QUERY, DOCUMENTED).hits
        settings.index_path.parent.chmod(0o700)


def test_an_index_of_before_keeps_what_it_has(memory: Memory) -> None:
    """One that was made with every table needs no rebuild, and lacks nothing."""
    provide_all(memory.backend.store)  # type: ignore[attr-defined]
    write_notes(memory.settings.workspace, {"memory/new.md": "A zeppelin landed by the pond.\n"})
    memory.sync()
    assert made(memory.settings) == set(LABEL)
    assert looked(memory.settings, deep=True).errors == 0


def test_a_store_without_full_text_lacks_no_words(tmp_path: Path) -> None:
    with closing(SqliteIndex(tmp_path / "main.sqlite", full_text=False)) as store:
        assert store.lacking(*LABEL) == {"lines"}
