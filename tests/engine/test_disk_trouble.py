"""A disk that is full, closed, or changes under our hands: a clear report, and an index that stays whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from openclaw_mem_engine.errors import IndexUnavailable, WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite.database import explained
from openclaw_mem_engine.stores.sqlite.files import check_room
from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.workspace.rules import open_workspace
from support.damage import codes, looked, type_in
from support.memories import open_memory, settings_for, write_notes
from support.stores import content

ENGINE, TESTS = (Path(__file__).parents[2] / name for name in ("engine", "tests"))


def whole(path: Path) -> None:
    """SQLite finds nothing wrong, and each chunk has its words."""
    connection = apsw.Connection(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        chunks = connection.execute("SELECT seq FROM chunks ORDER BY seq").fetchall()
        assert connection.execute("SELECT rowid FROM chunks_fts_stemmed ORDER BY rowid").fetchall() == chunks
    finally:
        connection.close()


def same_as_fresh(memory: Memory, tmp_path: Path) -> None:
    """The index holds what one made now from nothing would hold."""
    place = tmp_path / "fresh" / "main.sqlite"
    shutil.rmtree(place.parent, ignore_errors=True)
    with Memory.open(replace(memory.settings, index_path=place)) as fresh:
        fresh.sync()
    mine, wanted = content(memory.settings.index_path), content(place)
    for name in ("cache",):
        mine.pop(name), wanted.pop(name)
    assert mine == wanted


def paths(memory: Memory, query: str) -> list[str]:
    return sorted(hit.path for hit in memory.search(query).hits)


# -- a full disk ----------------------------------------------------------------------------------------

#: A process whose SQLite may write so many bytes and no more; then the disk has room again.
SMALL_DISK = """
    import sys
    from pathlib import Path
    import apsw
    from openclaw_mem_engine.sync.report import SyncRequest
    from openclaw_mem_engine.errors import IndexUnavailable
    from support.memories import open_memory, write_notes

    class File(apsw.VFSFile):
        left = 1 << 40
        def __init__(self, name, flags):
            super().__init__("unix", name, flags)
        def xWrite(self, data, offset):
            if len(data) > File.left:
                raise apsw.FullError("no room")
            File.left -= len(data)
            super().xWrite(data, offset)

    class Disk(apsw.VFS):
        def __init__(self):
            super().__init__("small", "unix", makedefault=True)
        def xOpen(self, name, flags):
            return File(name, flags)

    disk = Disk()
    for case in sys.argv[2:]:
        room, how = case.split("-")
        folder = Path(sys.argv[1], case)
        workspace = write_notes(folder / "ws", {"MEMORY.md": "the router is gull"})
        with open_memory(workspace, folder / "home") as memory:
            memory.sync()
            write_notes(workspace, {f"memory/{n}.md": f"heron number {n} " * 30 for n in range(60)})
            File.left = int(room)
            try:
                memory.sync(SyncRequest(force=how == "rebuild"))
            except IndexUnavailable as error:
                print(f"said {error}", file=(folder / "out").open("w"))
            else:
                print("fitted", file=(folder / "out").open("w"))
            assert [hit.path for hit in memory.search("router").hits][0] == "MEMORY.md"
            assert not list(memory.settings.index_path.parent.glob("*.tmp-*"))
            File.left = 1 << 40
            report = memory.sync(SyncRequest(force=how == "rebuild"))
            assert report.files == 61, (case, report)
"""
CASES = [(room, how) for how in ("sync", "rebuild") for room in (0, 30_000, 120_000, 400_000, 50_000_000)]


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each case, as one process left them that had so much room each time."""
    root = tmp_path_factory.mktemp("disk")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SMALL_DISK), str(root), *(f"{a}-{b}" for a, b in CASES)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": f"{ENGINE}{os.pathsep}{TESTS}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return root


@pytest.mark.parametrize(("room", "how"), CASES)
def test_a_disk_that_is_full_after_some_bytes(small_disk: Path, tmp_path: Path, room: int, how: str) -> None:
    folder = small_disk / f"{room}-{how}"
    said = (folder / "out").read_text()
    if room < 200_000:
        assert "is full. What was stored before is kept. Free some space and run" in said
    if room > 10_000_000:
        assert said == "fitted\n"
    with open_memory(folder / "ws", folder / "home") as memory:
        whole(memory.settings.index_path)
        same_as_fresh(memory, tmp_path)


def test_a_disk_without_room_for_a_lock_is_full(tmp_path: Path) -> None:
    """Not even an empty file can be made: no inode is left."""
    mount, place = shutil.which("mount"), tmp_path / "disk"
    place.mkdir()
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small disk takes root")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=1m,nr_inodes=2", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip(f"no tmpfs here: {made.stderr!r}")
    try:
        (place / "last").touch()
        with pytest.raises(IndexUnavailable, match=r"that holds .*main\.sqlite\.lock is full"):
            SyncLock(place / "main.sqlite").acquire()
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_rebuild_without_room_is_not_begun(tmp_path: Path) -> None:
    index = tmp_path / "main.sqlite"
    free = shutil.disk_usage(tmp_path).free
    check_room(index, free // 4)
    said = r"main\.sqlite has [\d,.]+ [KMG]B free, and a rebuild needs [\d,.]+ [KMG]B"
    with pytest.raises(IndexUnavailable, match=said):
        check_room(index, free)
    check_room(tmp_path / "missing" / "main.sqlite", free)


def test_what_is_no_file_is_named_and_kept(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    settings = settings_for(workspace, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none")
    index = settings.index_path
    index.mkdir(parents=True)
    with pytest.raises(IndexUnavailable, match=r"is a folder, not an index: move it away.*sqlite") as raised:
        Memory.open(settings)
    (found,) = [each for each in looked(settings).findings if each.code == "unavailable"]
    assert found.text == str(raised.value) and not found.fixable, "it is not ours to move"
    type_in(settings, found.text.split("`")[1])
    assert index.with_name("main.sqlite.other").is_dir() and not index.exists()
    index.with_name("main.sqlite.other").rmdir()
    os.mkfifo(index)  # opening one would wait for a writer
    with pytest.raises(IndexUnavailable, match=r"is a device or pipe, not an index: move it away"):
        Memory.open(settings)
    assert index.is_fifo()


def test_a_disk_without_room_for_the_log_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says only that it cannot open a file when there is no inode for one."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 0))
    for error in (apsw.CantOpenError("unable to open database file"), apsw.IOError("disk I/O error")):
        full = pytest.raises(IndexUnavailable, match=r"is full\. What was stored before is kept")
        with full, explained(tmp_path / "main.sqlite"):
            raise error


# -- permissions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("open_before", [True, False])
def test_a_read_only_folder_is_said_and_the_index_stays(as_nobody: Path, open_before: bool) -> None:
    workspace = write_notes(as_nobody / "ws", {"MEMORY.md": "the router is gull\n"})
    settings = settings_for(workspace, as_nobody / "home", OPENCLAW_MEM_PROVIDER="none")
    folder = settings.index_path.parent
    with Memory.open(settings) as memory:
        memory.sync()
        before = content(settings.index_path)
        if open_before:
            write_notes(workspace, {"memory/new.md": "zeppelin\n"})
            memory.settings.index_path.with_name("main.sqlite.lock").unlink()
            folder.chmod(0o500)
            with pytest.raises(IndexUnavailable, match=r"main\.sqlite.*OPENCLAW_MEM_HOME"):
                memory.sync()
            assert paths(memory, "router") == ["MEMORY.md"]
            folder.chmod(0o700)
            assert memory.sync().changed == ("memory/new.md",)
            return
    folder.chmod(0o500)
    for _ in range(2):
        with Memory.open(settings) as memory:
            answer = memory.search("router")
            assert [hit.path for hit in answer.hits] == ["MEMORY.md"]
            assert "read-only-index" in {note.code for note in answer.pool.notes}
            write_notes(workspace, {"memory/new.md": "zeppelin\n"})
            with pytest.raises(IndexUnavailable, match=r"permission denied.*`chmod u\+rwX "):
                memory.sync()
            assert memory.freshness().changed == ("memory/new.md",)
    report = looked(settings)
    checks = {check.name: check for check in report.checks}
    assert checks["index"].detail == "can be opened" and checks["BM25 index"].ok
    assert "not-writable" in codes(report) and not codes(report) & {"unavailable", "damaged", "unreadable"}
    folder.chmod(0o700)
    assert content(settings.index_path) == before
    whole(settings.index_path)


def test_the_folder_that_closes_a_workspace_is_named(as_nobody: Path) -> None:
    workspace = write_notes(as_nobody / "closed" / "ws", {"MEMORY.md": "the router is gull\n"})
    workspace.parent.chmod(0)
    with pytest.raises(WorkspaceError, match=rf"{workspace.parent} \(d-{{9}}, owner \w+\) is closed"):
        open_workspace(workspace)
    workspace.parent.chmod(0o700)


@pytest.mark.parametrize("mode", [0, 0o100])
def test_a_workspace_that_may_not_be_entered_keeps_its_index(as_nobody: Path, mode: int) -> None:
    workspace = write_notes(as_nobody / "ws", {"MEMORY.md": "the router is gull\n"})
    with open_memory(workspace, as_nobody / "home", provider="none") as memory:
        memory.sync()
        workspace.chmod(mode)
        with pytest.raises(WorkspaceError, match=r"ws .*may not be .*ws \(d.{9}, owner \w+\) is closed"):
            memory.sync()
        with pytest.raises(WorkspaceError, match=r"ws .*may not be .*ws \(d.{9}, owner \w+\) is closed"):
            memory.freshness()
        assert paths(memory, "router") == ["MEMORY.md"]
        workspace.chmod(0o700)
        assert memory.sync().files == 1


def test_a_workspace_whose_files_may_not_be_looked_at_keeps_them(as_nobody: Path) -> None:
    workspace = write_notes(as_nobody / "ws", {"MEMORY.md": "the router is gull\n"})
    with open_memory(workspace, as_nobody / "home", provider="none") as memory:
        memory.sync()
        workspace.chmod(0o400)  # the names can be read, and nothing else
        for _ in range(2):
            report = memory.sync()
            assert (report.removed, report.files) == ((), 1)
            assert report.excluded and all("may not be read" in file.reason for file in report.excluded)
        assert memory.freshness().state == "partial"
        assert paths(memory, "router") == ["MEMORY.md"]
        workspace.chmod(0o700)
        assert memory.sync().excluded == []


# -- files that do not keep still -----------------------------------------------------------------------


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    notes = {f"memory/{n:03}.md": f"heron number {n}\n" for n in range(40)}
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n", **notes})
    with open_memory(workspace, tmp_path / "home", provider="none") as opened:
        yield opened


def test_files_that_come_and_go_while_they_are_indexed(memory: Memory, tmp_path: Path) -> None:
    workspace, stop = memory.settings.workspace, threading.Event()

    def churn() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            for number in range(40):
                place = workspace / f"memory/{number:03}.md"
                if (number + turn) % 3:
                    place.write_text(f"heron {number} of turn {turn}\n", "utf-8")
                else:
                    place.unlink(missing_ok=True)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for number in range(25):
            report = memory.sync(SyncRequest(force=number % 5 == 4))
            reasons = {file.reason for file in report.excluded}
            assert reasons <= {"does not exist"}, "what vanished is told as that"
            assert paths(memory, "router") == ["MEMORY.md"]
    finally:
        stop.set()
        thread.join()
    whole(memory.settings.index_path)
    memory.sync()
    assert memory.freshness().state == "fresh"
    same_as_fresh(memory, tmp_path)


def test_a_file_that_grows_while_it_is_read_ends_up_whole(memory: Memory, tmp_path: Path) -> None:
    note, stop = memory.settings.workspace / "memory/growing.md", threading.Event()
    note.write_text("line 0 of the egret\n", "utf-8")

    def grow() -> None:
        with note.open("a", encoding="utf-8") as file:
            number = 0
            while not stop.is_set():
                number += 1
                file.write(f"line {number} of the egret\n" * 50)
                file.flush()
                time.sleep(0.001)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        for _ in range(15):
            memory.sync()
    finally:
        stop.set()
        thread.join()
    memory.sync()
    assert memory.freshness().state == "fresh"
    whole(memory.settings.index_path)
    same_as_fresh(memory, tmp_path)


@pytest.mark.parametrize("shift", [-400 * 86_400, 400 * 86_400], ids=["went back", "came from the future"])
def test_times_of_another_clock_hide_no_change(memory: Memory, tmp_path: Path, shift: int) -> None:
    """A clock that was wrong when a note was written, or when it was indexed, gives times that run back."""
    note = memory.settings.workspace / "memory/000.md"
    later = time.time_ns() + shift * 1_000_000_000
    os.utime(note, ns=(later, later))
    memory.sync()
    note.write_text("egret number 0\n", "utf-8")  # of the same size
    earlier = later - 3_600 * 1_000_000_000
    os.utime(note, ns=(earlier, earlier))
    assert memory.freshness().changed == ("memory/000.md",)
    assert memory.sync().changed == ("memory/000.md",)
    assert "memory/000.md" in paths(memory, "egret")
    note.write_text("stork number 0\n", "utf-8")
    os.utime(note, ns=(earlier, earlier))
    if shift > 0:  # a time that is still to come is never trusted
        assert memory.sync().changed == ("memory/000.md",)
        same_as_fresh(memory, tmp_path)


# -- what was deleted -----------------------------------------------------------------------------------


def test_the_text_of_deleted_notes_is_in_no_page(tmp_path: Path) -> None:
    line = "the zanzibarword was said once"
    notes = {"MEMORY.md": "the router is gull\n", "memory/gone.md": f"{line}\n" * 40}
    workspace = write_notes(tmp_path / "ws", notes)

    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        memory.sync()
        folder = memory.settings.index_path.parent

    def held(text: str) -> int:
        return sum(path.read_bytes().count(text.encode()) for path in folder.iterdir())

    assert held(line)
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        (workspace / "memory/gone.md").unlink()
        memory.sync()
    assert not held(line)
    # Single words stay in the full-text tables until SQLite merges them, at the latest at a rebuild.
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        memory.sync(SyncRequest(force=True))
    assert not held("zanzibarword")
