"""Our small SQLite files, as their users see them: removed or replaced meanwhile, and looked at."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

from openclaw_mem_engine.providers.base import Usage
from openclaw_mem_engine.providers.records import ProviderRecords
from openclaw_mem_engine.state.database import Schema, StateDatabase, Trouble, rows_of
from openclaw_mem_engine.state.events import EVENTS_FILE, SCHEMA, EventLog
from support.commands import small_disk

ENGINE = Path(__file__).parents[2] / "engine"
USED = Usage("openai", "text-embedding-3-small", 1, 2, 3)
COMPANIONS = ("", "-wal", "-shm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / EVENTS_FILE


@pytest.fixture
def log(path: Path) -> Iterator[EventLog]:
    made = EventLog(path)
    yield made
    made.close()


def texts(log: EventLog) -> list[str]:
    """Oldest first."""
    return [event.text for event in log.read()][::-1]


def kept(path: Path) -> list[str]:
    """What another program finds in the file."""
    other = EventLog(path)
    try:
        return texts(other)
    finally:
        other.close()


def remove(path: Path, endings: tuple[str, ...] = COMPANIONS) -> None:
    for ending in endings:
        path.with_name(path.name + ending).unlink(missing_ok=True)


# -- removed or replaced ----------------------------------------------------------------------------------

on_posix = pytest.mark.skipif(os.name == "nt", reason="an open file cannot be removed on Windows")


@on_posix
@pytest.mark.parametrize("endings", [COMPANIONS, ("",)], ids=["all of it", "the file alone"])
def test_a_file_that_was_removed_is_made_anew(log: EventLog, path: Path, endings: tuple[str, ...]) -> None:
    for number in range(300):  # enough for a log that SQLite has moved in once
        log.add("sync", f"old {number}")
    remove(path, endings)
    log.add("sync", "new")
    assert texts(log) == ["new"]
    assert log.note is None
    log.add("sync", "newer")
    assert kept(path) == ["new", "newer"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@on_posix
def test_reading_does_not_make_it_anew(log: EventLog, path: Path) -> None:
    log.add("sync", "old")
    first = log.identity
    assert first is not None
    remove(path)
    assert texts(log) == [] and log.identity is None
    assert not path.exists()
    log.add("sync", "new")
    assert texts(log) == ["new"]
    assert log.identity is not None and log.note is None


@on_posix
def test_the_file_of_another_process_in_the_same_place_is_used(log: EventLog, path: Path) -> None:
    log.add("sync", "old")
    remove(path)
    code = "import sys, pathlib\nimport openclaw_mem_engine.state.events as e\n"
    code += "e.EventLog(pathlib.Path(sys.argv[1])).add"
    subprocess.run(
        [sys.executable, "-c", f"{code}('sync', 'of the other')", str(path)],
        env={**os.environ, "PYTHONPATH": str(ENGINE)},
        check=True,
    )
    assert texts(log) == ["of the other"]
    log.add("sync", "mine")
    assert kept(path) == ["of the other", "mine"]


@on_posix
def test_a_file_that_was_put_in_its_place_is_used(log: EventLog, path: Path, tmp_path: Path) -> None:
    log.add("sync", "old")
    backup = EventLog(tmp_path / "backup.sqlite")
    backup.add("sync", "of the backup")
    backup.close()
    remove(path, ("-wal", "-shm"))
    (tmp_path / "backup.sqlite").replace(path)
    log.add("sync", "new")
    assert texts(log) == kept(path) == ["of the backup", "new"]


@on_posix
def test_a_folder_that_was_removed_is_made_anew(log: EventLog, path: Path) -> None:
    log.add("sync", "old")
    remove(path)
    path.parent.rmdir()
    log.add("sync", "new")
    assert kept(path) == ["new"] and log.note is None


def test_a_file_that_stays_is_opened_once(log: EventLog, path: Path) -> None:
    log.add("sync", "one")
    connection = log._file._connection
    log.add("sync", "two")
    assert texts(log) == ["one", "two"]
    assert log._file._connection is connection


# -- migrations -------------------------------------------------------------------------------------------

ONE = Schema(("CREATE TABLE a(n INTEGER) STRICT;",), "test", "info", "numbers", "numbers")
TWO = replace(ONE, migrations=(*ONE.migrations, "ALTER TABLE a ADD COLUMN m INTEGER DEFAULT 7;"))


def test_an_older_file_is_migrated_and_a_newer_one_is_left(tmp_path: Path) -> None:
    path = tmp_path / "numbers.sqlite"
    older = StateDatabase(path, ONE, time.time)
    older.write("INSERT INTO a VALUES(?)", (1,))
    older.close()
    newer = StateDatabase(path, TWO, time.time)
    assert newer.read("SELECT n, m FROM a", (), tuple) == [(1, 7)]
    newer.close()
    before = path.read_bytes()
    again = StateDatabase(path, ONE, time.time)
    again.write("INSERT INTO a VALUES(?)", (2,))
    assert again.note is not None and "newer version" in again.note.text
    assert again.read("SELECT n FROM a", (), tuple) == [(2,)], "in memory"
    assert path.read_bytes() == before


# -- looked at --------------------------------------------------------------------------------------------


def everything(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        path.name: (path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes())
        for path in folder.iterdir()
    }


def filled(path: Path) -> None:
    records = ProviderRecords(path)
    records.add_usage(USED)
    records.close()
    path.chmod(0o644)


def test_looking_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "providers.sqlite"
    filled(path)
    before = everything(tmp_path)
    records = ProviderRecords(path, read_only=True)
    assert [day.tokens for day in records.usage(36_500)] == [3]
    assert records.note is None
    records.close()
    assert everything(tmp_path) == before


def test_looking_shows_the_rows_of_an_older_file_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "numbers.sqlite"
    older, reader = StateDatabase(path, ONE, time.time), StateDatabase(path, TWO, time.time, read_only=True)
    older.write("INSERT INTO a VALUES(?)", (1,))
    assert reader.read("SELECT n, m FROM a", (), tuple) == [(1, 7)]
    older.write("INSERT INTO a VALUES(?)", (2,))
    assert reader.read("SELECT n, m FROM a", (), tuple) == [(1, 7), (2, 7)]
    older.close()
    assert rows_of(path, TWO, "a") == rows_of(path, ONE, "a") == 2, "the file is as old as before"
    newer = StateDatabase(path, TWO, time.time)
    newer.write("INSERT INTO a VALUES(?, ?)", (3, 8))
    assert reader.read("SELECT n, m FROM a", (), tuple)[-1] == (3, 8)
    assert reader.note is None
    newer.close()
    reader.close()


@pytest.mark.parametrize("content", [None, b""], ids=["no file", "an empty file"])
def test_looking_makes_nothing(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "providers.sqlite"
    if content is not None:
        path.write_bytes(content)
    before = everything(tmp_path)
    records = ProviderRecords(path, read_only=True)
    assert records.usage() == [] and records.note is None
    records.close()
    assert everything(tmp_path) == before


def test_looking_tells_what_is_wrong_and_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "providers.sqlite"
    path.write_bytes(b"no database" * 500)
    before = everything(tmp_path)
    records = ProviderRecords(path, read_only=True)
    assert records.usage() == []
    assert records.note is not None and "is damaged" in records.note.text
    records.close()
    assert everything(tmp_path) == before


@pytest.mark.skipif(os.name == "nt", reason="links take a privilege there")
@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_is_never_followed(log: EventLog, path: Path, tmp_path: Path, there: bool) -> None:
    target = tmp_path / "of another.sqlite"
    if there:
        target.touch()
    path.parent.mkdir()
    path.symlink_to(target)
    log.add("sync", "kept in memory")
    assert texts(log) == ["kept in memory"]
    assert log.note is not None and f"{path} is a link. Move it away." in log.note.text
    assert target.exists() is there and not (there and target.stat().st_size)
    looked = rows_of(path, SCHEMA, "events")
    assert isinstance(looked, Trouble) and looked.kind == "foreign"


def test_what_is_looked_at_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "providers.sqlite"
    filled(path)
    records = ProviderRecords(path, read_only=True)
    records.usage()
    connection = records._file._connection
    assert connection is not None
    with pytest.raises(apsw.ReadOnlyError):
        connection.execute("DELETE FROM usage")
    with pytest.raises(AssertionError, match="read-only"):
        records.add_usage(USED)
    records.close()


# -- a full disk --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opened", [True, False], ids=["opened before", "opened on a full disk"])
def test_what_happens_while_the_disk_is_full_is_kept_in_memory(tmp_path: Path, opened: bool) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        log, ballast = EventLog(disk / EVENTS_FILE), disk / "ballast"
        if opened:
            log.add("sync", "before")
        with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4_096)
        for number in range(40):
            log.add("sync", f"while it was full {number} " + "x" * 400)
        assert log.note is not None and "is full" in log.note.text and "memory only" in log.note.text
        ballast.unlink()
        log.add("sync", "after")
        kept = [event.text for event in reversed(log.read(100))]
        log.close()
        assert kept[-1] == "after" and len(kept) == 41 + opened
        assert [text.split()[4] for text in kept[opened:-1]] == [str(number) for number in range(40)]
