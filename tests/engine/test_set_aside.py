"""An index that is set aside or removed while somebody has it open: nobody goes on with the old file."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.api import SyncRequest
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexChanged, IndexDamaged, IndexUnavailable
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.stores.sqlite.files import set_aside, with_companions
from openclaw_mem_engine.stores.sqlite.repair import replace_damaged
from openclaw_mem_engine.sync.coordinator import replaced
from openclaw_mem_engine.sync.coordinator import set_aside as replace_by_new
from openclaw_mem_engine.sync.lock import SyncLock
from support.damage import NOTES, alter, codes, indexed, looked, named, type_in


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path)


def write(settings: Settings, name: str, text: str) -> None:
    (settings.workspace / "memory" / f"{name}.md").write_text(text, "utf-8")


def first(memory: Memory, query: str) -> str:
    return memory.search(query).hits[0].path


@pytest.mark.parametrize("resident", [False, True])
def test_an_open_memory_goes_on_with_the_new_index(settings: Settings, resident: bool) -> None:
    with Memory.open(settings, resident=resident) as memory:
        assert first(memory, "heron") == "memory/animals/heron.md"
        set_aside(settings.index_path)
        write(settings, "zeppelin", "A zeppelin was seen.\n")
        type_in(settings, "openclaw-mem index")
        assert first(memory, "zeppelin") == "memory/zeppelin.md", "a search sees what is there now"
        write(settings, "walrus", "The walrus sleeps.\n")
        assert memory.sync().changed == ("memory/walrus.md",)
        with Memory.open(settings) as other:
            assert other.freshness().state == "fresh"
            assert first(other, "walrus") == first(memory, "walrus") == "memory/walrus.md"
    assert codes(looked(settings, deep=True)) == {"damaged-aside"}


def test_an_index_damaged_while_it_is_open_is_replaced_and_rebuilt(settings: Settings) -> None:
    with Memory.open(settings, resident=True) as memory:
        assert first(memory, "heron") == "memory/animals/heron.md"
        settings.index_path.write_bytes(b"nothing of the kind" * 500)
        with pytest.raises(IndexDamaged) as damage:
            memory.plan(SyncRequest(force=True))
        replace_by_new(settings, damage.value)
        assert memory.sync(SyncRequest(force=True)).files == len(NOTES)
        assert first(memory, "heron") == "memory/animals/heron.md"
    assert codes(looked(settings, deep=True)) == {"damaged-aside"}


def test_a_look_is_one_at_the_new_index(settings: Settings) -> None:
    with Memory.open(settings) as memory:
        assert memory.freshness().state == "fresh"
        set_aside(settings.index_path)
        with Memory.open(settings) as other:
            assert (memory.freshness().state, other.freshness().state) == ("empty", "empty")
            other.sync()
        assert memory.freshness().state == "fresh"


def test_a_search_waits_for_the_new_index_and_makes_none(settings: Settings) -> None:
    """Whoever sets it aside is still moving files: one made now would get into the way."""
    with Memory.open(settings) as memory:
        set_aside(settings.index_path)
        assert first(memory, "heron") == "memory/animals/heron.md"
        with ThreadPoolExecutor(1) as threads, pytest.raises(IndexChanged, match="renamed or removed"):
            threads.submit(memory.search, "heron").result()
        assert not settings.index_path.exists()


@pytest.mark.parametrize("what", ["the file", "the folder"])
def test_a_sync_makes_an_index_that_was_removed(settings: Settings, what: str) -> None:
    with Memory.open(settings) as memory:
        if what == "the file":
            set_aside(settings.index_path)
        else:
            shutil.rmtree(settings.index_path.parent)
        assert memory.sync().files == len(NOTES)
        assert first(memory, "heron") == "memory/animals/heron.md"
    assert looked(settings, deep=True).errors == 0


def test_an_index_that_goes_during_a_sync_is_no_success(settings: Settings) -> None:
    write(settings, "zeppelin", "A zeppelin was seen.\n")
    gone: list[Path] = []

    def take_away(*_: object) -> None:
        if not gone:
            gone.append(set_aside(settings.index_path))

    with Memory.open(settings) as memory:
        with pytest.raises(IndexChanged, match="run it again"):
            memory.sync(progress=take_away)
        assert memory.sync().files == len(NOTES) + 1
        assert memory.freshness().state == "fresh"


def test_a_new_index_that_cannot_be_used_is_told_and_the_next_one_is_followed(settings: Settings) -> None:
    with Memory.open(settings) as memory:
        damaged = set_aside(settings.index_path)
        settings.index_path.write_bytes(b"no index at all " * 400)
        with pytest.raises(IndexUnavailable):
            memory.search("heron")
        settings.index_path.unlink()
        assert first(memory, "heron") == "memory/animals/heron.md"
        shutil.copy(damaged, settings.index_path)
        assert first(memory, "heron") == "memory/animals/heron.md"


def test_one_index_can_be_begun_by_several_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def begin(path: Path) -> None:
        together.wait()
        Database(path, extension=False, page_bytes=16_384).close()

    with ThreadPoolExecutor(4) as pool:
        for number in range(20):
            started = [pool.submit(begin, tmp_path / f"{number}.sqlite") for _ in range(4)]
            assert [future.result() for future in started] == [None] * 4


def test_searches_in_other_threads_go_on(settings: Settings) -> None:
    stop, both = threading.Event(), threading.Barrier(4)
    wrong: list[Exception] = []

    def search(memory: Memory) -> None:
        memory.search("heron pond")
        both.wait()
        while not stop.is_set():
            try:
                memory.search("heron pond")
            except Exception as error:  # noqa: BLE001 - told by the main thread
                wrong.append(error)

    with Memory.open(settings) as memory:
        threads = [threading.Thread(target=search, args=(memory,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        both.wait()
        set_aside(settings.index_path)
        with Memory.open(settings) as other:
            other.sync()
        assert first(memory, "heron") == "memory/animals/heron.md"
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_one_that_another_process_has_replaced_meanwhile_is_left(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = settings.index_path
    index.parent.mkdir(parents=True, exist_ok=True)
    index.write_bytes(b"damaged")
    other = SyncLock(index, "renaming a damaged index")
    assert other.acquire()
    waits = threading.Event()

    def replace() -> None:
        waits.wait(60)
        fresh = index.with_name("fresh")
        fresh.write_bytes(b"new")
        fresh.replace(index)
        other.release()

    acquire = SyncLock.acquire

    def waiting(lock: SyncLock, *given: Any) -> bool:
        waits.set()
        return acquire(lock, *given)

    monkeypatch.setattr(SyncLock, "acquire", waiting)
    thread = threading.Thread(target=replace)
    thread.start()
    note = replaced(settings, IndexDamaged("The index is damaged."))
    thread.join()
    assert index.read_bytes() == b"new"
    assert (
        note.text
        == "The index was damaged. The damaged file is not at its path any more: nothing was renamed."
    )


def test_one_that_was_replaced_between_the_error_and_its_repair_is_left(settings: Settings) -> None:
    """In the workbench a person decides meanwhile."""
    alter(settings, "UPDATE chunks SET text = 'other words'")
    with Memory.open(settings) as memory, pytest.raises(IndexDamaged) as damage:
        memory.search("heron")
    type_in(settings, "openclaw-mem index")
    new = settings.index_path.read_bytes()
    with pytest.raises(IndexChanged, match="not at its path any more"):
        replace_by_new(settings, damage.value)
    assert settings.index_path.read_bytes() == new


def test_the_last_two_damaged_indexes_are_kept_and_what_is_in_the_way_stays(settings: Settings) -> None:
    index = settings.index_path
    index.parent.mkdir(parents=True, exist_ok=True)
    (index.with_name("main.sqlite.damaged") / "folder").mkdir(parents=True)
    (index.with_name("main.sqlite.damaged-old")).write_bytes(b"of the user")
    for number in (2, 3, 4):
        index.write_bytes(f"damaged {number}".encode())
        index.with_name("main.sqlite-wal").write_bytes(b"log")
        assert set_aside(index) == index.with_name(f"main.sqlite.damaged-{number}")
    found = named(looked(settings), "damaged-aside")
    assert found.text.startswith("3 damaged copies of the index are kept: 5 files, ")
    assert found.text.endswith(" B. You can delete them."), "a size of its unit, not 0.0 MB"
    kept = [f"main.sqlite.damaged-{end}" for end in ("3", "3-wal", "4", "4-wal")]
    assert [*found.evidence] == ["main.sqlite.damaged", *kept], "the last two, and the folder"
    assert index.with_name("main.sqlite.damaged-4").read_bytes() == b"damaged 4"
    assert index.with_name("main.sqlite.damaged-old").exists()


def test_a_rename_that_is_refused_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings.index_path.read_bytes()

    def refused(path: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied", str(path), None, str(target))

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(IndexUnavailable, match=r"cannot be renamed: .*main\.sqlite: Permission denied\."):
        replace_by_new(settings, IndexDamaged("The index is damaged."))
    assert settings.index_path.read_bytes() == before


#: Opens an index, reads, and keeps it open until its input ends.
_OPENS = """import sys, apsw
connection = apsw.Connection(sys.argv[1])
try:
    connection.pragma("schema_version")
except apsw.Error as error:
    print(error, flush=True)
else:
    print("open", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="a file that is open is not moved")
@pytest.mark.parametrize(
    "then", ["main.sqlite-wal", "main.sqlite-shm", "main.sqlite"], ids=["log", "its map", "the file"]
)
def test_a_process_that_opens_the_index_while_it_is_set_aside_leaves_the_next_one_usable(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    """It opens it before this part is moved, removed or replaced."""
    index, others = settings.index_path, list[subprocess.Popen[str]]()

    def opened(path: Path) -> None:
        if path.name == then:
            other = subprocess.Popen(
                [sys.executable, "-c", _OPENS, str(index)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert other.stdout is not None
            assert other.stdout.readline()
            others.append(other)

    unlink, replace = Path.unlink, Path.replace

    def removed(path: Path, missing_ok: bool = False) -> None:
        opened(path)
        unlink(path, missing_ok=missing_ok)

    def moved(path: Path, target: Path) -> Path:
        opened(target if target == index else path)
        return replace(path, target)

    with Memory.open(settings) as memory:
        write(settings, "zeppelin", "A zeppelin was seen.\n")
        memory.sync()
        with monkeypatch.context() as patched:
            patched.setattr(Path, "unlink", removed)
            patched.setattr(Path, "replace", moved)
            replace_damaged(index)
        assert len(others) == 1
        memory.sync()
        assert first(memory, "zeppelin") == "memory/zeppelin.md"
    others[0].communicate(timeout=60)
    with Memory.open(settings) as memory:
        assert first(memory, "zeppelin") == "memory/zeppelin.md"


@pytest.mark.skipif(os.name == "nt", reason="a file that is open is not copied")
def test_a_kill_after_the_log_was_moved_leaves_it_beside_what_is_kept(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, replace = settings.index_path, Path.replace
    with Memory.open(settings) as memory:
        write(settings, "zeppelin", "A zeppelin was seen.\n")
        memory.sync()
        log = index.with_name(f"{index.name}-wal").read_bytes()
        assert log

        def killed(path: Path, target: Path) -> Path:
            if target == index:
                raise KeyboardInterrupt
            return replace(path, target)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Path, "replace", killed)
            replace_damaged(index)
    first, _ = replace_damaged(index)
    assert first.name == "main.sqlite.damaged-2"
    assert index.with_name("main.sqlite.damaged-wal").read_bytes() == log
    with Memory.open(settings) as memory:
        memory.sync()
    assert codes(looked(settings, deep=True)) == {"damaged-aside"}


@pytest.mark.parametrize("links", [True, False])
def test_a_repair_that_is_killed_leaves_an_index_with_its_embeddings(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    index = settings.index_path
    before, replace = index.read_bytes(), Path.replace

    def killed(path: Path, target: Path) -> Path:
        if target == index:
            raise KeyboardInterrupt
        return replace(path, target)

    def refused(*_: object) -> None:
        raise OSError

    if not links:
        monkeypatch.setattr(os, "link", refused)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", killed)
        replace_damaged(index)
    assert index.read_bytes() == before
    damaged, saved = replace_damaged(index)
    assert saved and damaged.read_bytes() == before != index.read_bytes()
    with Memory.open(settings) as memory:
        memory.sync()
    assert codes(looked(settings, deep=True)) == {"damaged-aside"}


def test_a_killed_repair_of_qmd_leaves_the_index_at_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "index.sqlite"
    with QmdStore.open(index)._db.transaction():
        parts = {part.name: part.read_bytes() for part in with_companions(index)}
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name, content in parts.items():
        (crashed / name).write_bytes(content)
    index, replace = crashed / index.name, Path.replace

    def killed(path: Path, target: Path) -> Path:
        replace(path, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "replace", killed)
        replace_damaged(index, of_qmd=True)
    assert index.read_bytes() == parts[index.name]
    log = index.with_name("index.sqlite.damaged-wal")
    assert log.read_bytes() == parts["index.sqlite-wal"]
    damaged, _ = replace_damaged(index, of_qmd=True)
    assert damaged.read_bytes() == parts[index.name] and with_companions(index) == []
