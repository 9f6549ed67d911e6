"""The index file: atomic writes, rebuild aside, damage, a full disk, another version."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import apsw
import pytest

from openclaw_mem_engine.errors import Cancelled, IndexDamaged, IndexUnavailable
from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.query import build_query
from openclaw_mem_engine.stores.sqlite.connections import connect_read_only, refuse_foreign
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from support import commands
from support.stores import FINGERPRINT, change_of, content, found, new_store, put, unit

V = [unit([1, 0, 0, 0]), unit([0, 1, 0, 0]), unit([0, 0, 1, 0]), unit([1, 1, 0, 0])]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "main.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteIndex]:
    index = new_store(path)
    put(index, "memory/a.md", ["alpha old", "second old"], V[:2])
    put(index, "memory/b.md", ["beta old"], [V[2]])
    index.finish(5.0)
    yield index
    index.close()


def test_a_look_at_the_header_keeps_the_locks_of_an_open_index(store: SqliteIndex, path: Path) -> None:
    refuse_foreign(path)
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM files'); c.close()"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    names = {part.name for part in path.parent.iterdir()}
    assert {"main.sqlite", "main.sqlite-wal", "main.sqlite-shm"} <= names, "the last to close removes them"
    put(store, "memory/c.md", ["gamma new"], [V[3]])
    assert found(store, "gamma") == {"gamma new"}


# -- writing --------------------------------------------------------------------------------------------


def test_a_change_leaves_nothing_of_the_old_text(store: SqliteIndex, path: Path, tmp_path: Path) -> None:
    put(store, "memory/a.md", ["alpha new"], [V[3]])
    assert found(store, "second") == set()
    assert found(store, "alpha") == {"alpha new"}
    assert len(store.vector(V[0], 10)) == 2
    other = new_store(tmp_path / "other.sqlite")
    put(other, "memory/b.md", ["beta old"], [V[2]])
    put(other, "memory/a.md", ["alpha new"], [V[3]])
    other.close()
    mine, wanted = content(path), content(tmp_path / "other.sqlite")
    del mine["cache"], wanted["cache"]
    assert mine == wanted


def test_a_resident_process_sees_touches_of_another(store: SqliteIndex, path: Path) -> None:
    reader = SqliteIndex(path, resident=True)
    assert reader.files()["memory/a.md"].mtime_ns == 1
    store.touch([store.files()["memory/a.md"]._replace(mtime_ns=7)])
    assert reader.files()["memory/a.md"].mtime_ns == 7
    store.remove(("memory/a.md", "memory"))
    assert set(reader.files()) == {"memory/b.md"}
    reader.close()


@contextmanager
def chunks_read() -> Iterator[list[str]]:
    """The statements that read chunks, in the order in which they run."""
    kept: list[str] = []
    read = Database.read

    def reading(self: Database, sql: str, bound: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        kept.extend([sql] if " chunks c " in sql or "FROM chunks WHERE" in sql else [])
        return read(self, sql, bound)

    with mock.patch.object(Database, "read", reading):
        yield kept


def test_a_resident_process_reads_a_chunk_once_until_the_index_changes(
    store: SqliteIndex, path: Path
) -> None:
    reader = SqliteIndex(path, resident=True)
    first, second, third = (
        chunk.chunk_id for at in ("a", "b") for chunk in store.chunks_of(f"memory/{at}.md")
    )
    with chunks_read() as statements:
        before = reader.fetch([first, second])
        assert reader.fetch([second, first, second]) == before and len(statements) == 1
        assert list(reader.fetch([third, first])) == [third, first] and len(statements) == 2, "one is new"
    assert store.fetch([first, second]) == before, "what a process that reads anew finds"
    store.touch([store.files()["memory/a.md"]._replace(mtime_ns=7)])
    assert reader.fetch([first])[first].mtime_ns == 7
    store.remove(("memory/a.md", "memory"))
    assert list(reader.fetch([first, third])) == [third]
    reader.close()


def test_ids_of_rows_are_looked_up_once_until_the_index_changes(store: SqliteIndex) -> None:
    queries = [build_query(text, "or", "stemmed") for text in ("old", "second old", "old alpha")]
    ids = [chunk.chunk_id for chunk in store.chunks_of("memory/a.md")]
    with chunks_read() as statements:
        for query in filter(None, queries):
            assert len(store.lexical(query, 9)) == 3
            assert sorted(store.lexical_ranks(query, ids).values())[0] == 1
    assert len(statements) == 1
    put(store, "memory/a.md", ["something else"], [V[0]])
    assert found(store, "old") == {"beta old"}


def test_equal_pieces_of_one_line_are_one_row(store: SqliteIndex) -> None:
    change = change_of("memory/long.md", ["same piece"])
    store.apply(replace(change, chunks=[*change.chunks] * 3, vectors=[V[0]] * 3))
    assert store.counts().chunks == 4
    assert found(store, "piece") == {"same piece"}


def test_a_failing_write_leaves_the_file_as_it_was(store: SqliteIndex, path: Path) -> None:
    before = content(path)
    change = change_of("memory/a.md", ["new", "newer"], [V[0], unit([1, 2])])
    with pytest.raises(IndexUnavailable, match=r"main\.sqlite"):
        store.apply(change)
    with pytest.raises(ValueError, match="shorter"):
        store.apply(replace(change, vectors=[]))
    assert content(path) == before
    put(store, "memory/c.md", ["still writable"], [V[0]])


def test_a_vector_that_was_forgotten_before_its_chunk_came_is_cached_again(store: SqliteIndex) -> None:
    change = change_of("memory/c.md", ["gamma", "delta"], [V[0], None])
    gamma, delta = (chunk.hash for chunk in change.chunks)
    store.cache_vectors({gamma: V[0]})
    assert store.prune_cache(0) == 1
    store.apply(change, built_with=store.fingerprint())
    assert store.cached_vectors([gamma, delta]).keys() == {gamma}
    assert store.prune_cache(0) == 0
    assert store.covered() == len(store.vector(V[0], 10))


def free_pages(path: Path) -> int:
    """Those of an index that SQLite finds whole."""
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.pragma("integrity_check") == "ok"
        free: int = connection.pragma("freelist_count")
        return free


@pytest.mark.parametrize("made_before", [False, True])
def test_a_finished_index_keeps_no_free_pages(path: Path, made_before: bool) -> None:
    """One made before pages were given back does so from its next rebuild on."""
    new_store(path, {"memory/a.md": ["alpha"]}).close()
    if made_before:
        with closing(apsw.Connection(str(path))) as connection:
            connection.pragma("auto_vacuum", 0)
            connection.execute("VACUUM")
    with closing(SqliteIndex(path)) as index:
        if made_before:
            index.rebuild(FINGERPRINT, refill)
        put(index, "memory/long.md", [f"{n} {'text ' * 500}" for n in range(200)])
        index.remove(("memory/long.md", "memory"))
        full, free = index._db.read("PRAGMA page_count")[0][0], free_pages(path)
        assert free > 20
        index.finish(6.0)
        assert index._db.read("PRAGMA page_count")[0][0] <= full - free
        assert free_pages(path) == 0
        assert found(index, "alpha new") == {"gamma new" if made_before else "alpha"}


# -- rebuilding -----------------------------------------------------------------------------------------


def refill(fresh: IndexStore) -> None:
    change = change_of("memory/new.md", ["gamma new"], [V[3]])
    fresh.cache_vectors({change.chunks[0].hash: V[3]})
    fresh.apply(change)


def leftovers(path: Path) -> list[str]:
    return sorted(
        p.name
        for p in path.parent.iterdir()
        if p.name not in (path.name, f"{path.name}-wal", f"{path.name}-shm")
    )


def test_a_rebuild_replaces_all_and_keeps_the_cache(store: SqliteIndex, path: Path) -> None:
    generation, cached = store.generation(), store.counts().cached
    other = replace(FINGERPRINT, chunk_tokens=200)
    reader = SqliteIndex(path, resident=True)
    assert len(reader.vector(V[0], 10)) == 3
    store.rebuild(other, refill)
    assert store.fingerprint() == reader.fingerprint() == other
    assert store.generation() > generation
    assert store.counts().cached == cached + 1
    for index in (store, reader):
        assert set(index.files()) == {"memory/new.md"}
        assert found(index, "old new") == {"gamma new"}
        assert [hit.raw for hit in index.vector(V[0], 10)] == [pytest.approx(0.5**0.5, abs=1e-6)]
    assert leftovers(path) == []
    put(store, "memory/after.md", ["after"], [V[1]])
    assert len(store.vector(V[1], 10)) == 2
    reader.close()


def test_searches_see_the_old_or_the_new_and_never_less(store: SqliteIndex, path: Path) -> None:
    """A reader thread and another connection hammer while the index is rebuilt three times."""
    query = build_query("alpha gamma", "or", "stemmed")
    assert query is not None
    seen: set[frozenset[str]] = set()
    errors: list[BaseException] = []
    stop, started = threading.Event(), threading.Event()
    other = SqliteIndex(path)

    def hammer(index: SqliteIndex) -> None:
        try:
            while not stop.is_set():
                hits = index.lexical(query, 10)
                assert len(index.vector(V[0], 10)) > 0
                seen.add(frozenset(hit.chunk_id for hit in hits))
                started.set()
        except BaseException as error:  # noqa: BLE001 - reported by the main thread
            errors.append(error)

    threads = [threading.Thread(target=hammer, args=(index,)) for index in (store, other)]
    for thread in threads:
        thread.start()
    assert started.wait(10)
    old = {c.chunk_id for c in change_of("memory/a.md", ["alpha old"]).chunks}

    def slow(fresh: IndexStore) -> None:
        refill(fresh)
        assert found(store, "alpha") == {"alpha old"}, "the old content serves while the new one grows"
        time.sleep(0.05)

    store.rebuild(FINGERPRINT, slow)
    time.sleep(0.05)
    for _ in range(2):
        store.rebuild(FINGERPRINT, refill)
    stop.set()
    for thread in threads:
        thread.join()
    other.close()
    assert not errors
    new = {c.chunk_id for c in change_of("memory/new.md", ["gamma new"]).chunks}
    assert seen == {frozenset(old), frozenset(new)}


@pytest.mark.parametrize("how", ["exception", "cancelled inside", "cancelled at the end"])
def test_a_rebuild_that_does_not_finish_changes_nothing(store: SqliteIndex, path: Path, how: str) -> None:
    before, generation = content(path), store.generation()
    cancel = threading.Event()
    error: type[Exception] = RuntimeError if how == "exception" else Cancelled

    def fill(fresh: IndexStore) -> None:
        refill(fresh)
        fresh.cache_vectors({text_hash("dearly bought"): V[1]})
        if how == "exception":
            raise RuntimeError("boom")
        if how == "cancelled inside":
            raise Cancelled("stopped")
        cancel.set()

    with pytest.raises(error):
        store.rebuild(FINGERPRINT, fill, cancel)
    after = content(path)
    assert text_hash("dearly bought") in {row[3] for row in after["cache"]}, "what was embedded is kept"
    before["cache"] = after["cache"]
    assert after == before
    assert store.generation() == generation
    assert leftovers(path) == []


def test_leftovers_of_killed_rebuilds_are_swept_and_never_filled(store: SqliteIndex, path: Path) -> None:
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    dead, alive = int(gone.stdout), os.getppid()
    for name in (
        f".tmp-{dead}-0123abcd",
        f".tmp-{dead}-0123abcd-wal",
        f".tmp-{alive}-0123abcd",
        ".tmp-notes.md",
    ):
        path.with_name(path.name + name).write_text("not a database")
    store.rebuild(FINGERPRINT, refill)
    assert leftovers(path) == [f"{path.name}.tmp-{alive}-0123abcd", f"{path.name}.tmp-notes.md"]


# -- trouble --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "header", "truncated", "folder"])
def test_a_file_that_is_no_index_is_named_with_advice(store: SqliteIndex, path: Path, kind: str) -> None:
    store.close()
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    if kind == "text":
        path.write_text("# my notes\n" * 500)
    elif kind == "header":
        path.write_bytes(b"\xff" * 16 + path.read_bytes()[16:])
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        path.unlink()
        path.mkdir()
    with pytest.raises(IndexUnavailable) as raised:
        SqliteIndex(path).counts()
    message = str(raised.value)
    assert str(path) in message
    assert "doctor --fix" in message or "move it away" in message
    if kind == "text":
        assert path.read_text() == "# my notes\n" * 500, "a file that is not ours stays as it is"


def test_random_damage_is_an_error_of_ours_or_goes_unnoticed(
    store: SqliteIndex, path: Path, tmp_path: Path
) -> None:
    for number in range(30):
        put(store, f"memory/x{number}.md", [f"crème number {number} " * 8], [V[number % 4]])
    store.close()
    whole = path.read_bytes()
    chance, noticed = random.Random(11), 0
    for number in range(60):
        damaged = bytearray(whole)
        for _ in range(chance.choice([1, 30, 400])):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if number % 3 == 0:
            del damaged[chance.randrange(len(damaged)) :]
        copy = tmp_path / f"damaged-{number}.sqlite"
        copy.write_bytes(damaged)
        noticed += _use_all(copy, resident=number % 2 == 0)
    assert 20 < noticed < 60


def _use_all(path: Path, *, resident: bool) -> bool:
    """Whether some call complained; any other exception than ours fails the test."""
    query = build_query("crème number", "or", "stemmed")
    assert query is not None
    complained = False
    try:
        index = SqliteIndex(path, resident=resident)
    except IndexUnavailable:
        return True
    calls: list[Callable[[], object]] = [
        index.fingerprint,
        index.files,
        index.counts,
        lambda: index.vector(V[0], 5),
        lambda: index.fetch(hit.chunk_id for hit in index.lexical(query, 50)),
        lambda: put(index, "memory/x1.md", ["changed"], [V[0]]),
    ]
    for call in calls:
        try:
            call()
        except IndexUnavailable:
            complained = True
    index.close()
    return complained


def test_an_index_of_a_newer_program_is_refused_before_it_is_touched(store: SqliteIndex, path: Path) -> None:
    store.close()
    for change in ({"schema": 99}, {"schema": 6, "tokeniser": "new"}):
        newer = json.dumps(json.loads(FINGERPRINT.to_json()) | change)
        connection = apsw.Connection(str(path))
        connection.execute("UPDATE meta SET value = ? WHERE key = 'fingerprint'", (newer,))
        connection.close()
        with pytest.raises(IndexUnavailable, match=r"newer program wrote.*Update this program") as refusal:
            SqliteIndex(path)
        assert not isinstance(refusal.value, IndexDamaged), "`index --force` must not replace it"
    connection = apsw.Connection(str(path))
    assert connection.execute("SELECT count(*) FROM chunks").fetchall() == [(3,)]
    connection.close()


def test_the_file_is_for_its_owner_only(store: SqliteIndex, path: Path) -> None:
    assert path.stat().st_mode & 0o077 == 0
    store.close()
    path.chmod(0o644)
    SqliteIndex(path).close()
    assert path.stat().st_mode & 0o077 == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with commands.small_disk(tmp_path / "disk", 3) as folder:
        yield folder


def test_a_sync_ends_though_the_disk_has_no_room_to_give_free_pages_back(small_disk: Path) -> None:
    with closing(new_store(small_disk / "main.sqlite")) as store:
        for name in ("first", "last"):
            put(store, f"memory/{name}.md", [f"{n} {'text ' * 500}" for n in range(25)])
        put(store, "memory/first.md", ["short"])
        store._db.merge_log()
        free = store._db.read("PRAGMA freelist_count")
        fill = small_disk / "fill"
        fill.write_bytes(bytes(shutil.disk_usage(small_disk).free - 70_000))
        store.finish(5.0)
        assert store.synced_at() == 5.0 and store._db.read("PRAGMA freelist_count") == free
        fill.unlink()
        store.finish(6.0)
        assert free_pages(store.path) == 0


def test_a_file_is_read_only_under_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "50%25 of é?mode=x#y&z;"
    folder.mkdir()
    apsw.Connection(str(folder / "a.sqlite")).pragma("user_version", 7)
    with closing(connect_read_only(folder / "a.sqlite")) as connection:
        assert connection.pragma("user_version") == 7


@pytest.mark.skipif(os.name == "nt", reason="limits of a process are of POSIX")
@pytest.mark.parametrize("room", [1, 512, 16_384, 20_000, 40_000])
def test_a_file_that_could_not_be_begun_is_ours_and_is_begun_later(path: Path, room: int) -> None:
    """As after a kill: of what makes a new file an index, nothing may be written without our id."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, most))
    try:
        with pytest.raises(IndexUnavailable):
            SqliteIndex(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    with closing(SqliteIndex(path)) as store:
        assert store._db.read("PRAGMA auto_vacuum") == [(2,)]


# -- what is not ours -------------------------------------------------------------------------------------


def test_a_database_of_another_program_is_never_written(path: Path) -> None:
    other = apsw.Connection(str(path))
    # OpenClaw's index has tables of the same names.
    for statement in ("CREATE TABLE meta(key, value)", "CREATE TABLE chunks(id, text)"):
        other.execute(statement)
    other.close()
    before = path.read_bytes()
    with pytest.raises(IndexUnavailable, match=r"did not make: move it away.*\. Nothing was changed"):
        SqliteIndex(path)
    assert (path.read_bytes(), list(path.parent.iterdir())) == (before, [path])


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="Linux lists open files there")
@pytest.mark.parametrize("size", [20, 99, 100, 5_000])
def test_an_index_cut_anywhere_is_damaged_and_not_kept_open(path: Path, size: int) -> None:
    """Shorter than a SQLite header, it is not the database of another program: it can hold nothing."""
    new_store(path).close()
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(IndexDamaged):
        SqliteIndex(path)
    assert not [link for link in Path("/proc/self/fd").iterdir() if os.path.realpath(link) == str(path)]


@pytest.mark.parametrize("there", [True, False])
def test_an_index_is_never_opened_through_a_link(path: Path, tmp_path: Path, there: bool) -> None:
    target = tmp_path / "elsewhere.sqlite"
    if there:
        new_store(target).close()
    path.symlink_to(target)
    with pytest.raises(IndexUnavailable, match="is a link"):
        SqliteIndex(path)
    assert target.exists() is there


def test_an_empty_file_becomes_an_index(path: Path) -> None:
    path.touch()
    new_store(path).close()
    SqliteIndex(path).close()
