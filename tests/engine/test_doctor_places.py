"""The doctor on our own files: leftovers, permissions, sizes, provider records, event log."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.doctor import fix
from openclaw_mem_engine.doctor.location_checks import check_size
from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.notes.editor import NoteEditor
from openclaw_mem_engine.providers.base import Usage
from openclaw_mem_engine.providers.factory import RECORDS_FILE
from openclaw_mem_engine.providers.records import ProviderRecords
from openclaw_mem_engine.state.events import EVENTS_FILE, EventLog
from openclaw_mem_engine.stores.sqlite.files import aside_path
from openclaw_mem_engine.sync.lock import SyncLock
from support.damage import NOTES, codes, indexed, looked, named, type_in
from support.users import unprivileged_folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return indexed(tmp_path, NOTES)  # with the files that a first sync leaves beside the index


def test_left_overs_of_killed_rebuilds_are_told_and_removed(settings: Settings) -> None:
    left = aside_path(settings.index_path)
    for name in (left, left.with_name(f"{left.name}-wal")):
        name.write_bytes(b"x" * 1000)
    with SyncLock(settings.index_path).holding():
        assert "leftovers" not in codes(looked(settings)), "they may be those of whoever is at work"
    report = looked(settings)
    assert named(report, "leftovers").evidence[0] == left.name
    fix(settings, report)
    assert looked(settings).findings == () and not left.exists()


def test_what_a_killed_edit_left_among_the_notes_is_told_and_removed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(NoteEditor, "_replace", killed)
        patch.setattr(NoteEditor, "_finish_interrupted", lambda _: None)
        with pytest.raises(WorkspaceError):
            NoteEditor(settings).append("memory/network.md", "one more", "test")
    (left,) = settings.workspace.rglob("*.tmp")
    report = looked(settings)
    assert named(report, "leftovers").evidence == (str(left),)
    fix(settings, report)
    assert looked(settings).findings == () and not left.exists()


def test_files_of_others_are_no_left_overs(settings: Settings) -> None:
    name, folder = settings.index_path.name, settings.index_path.parent
    foreign = [
        folder / f"{name}{ending}" for ending in (".tmp-notes.md", ".tmp-7-notahexn", ".damaged-notes.md")
    ]
    for path in foreign:
        path.write_text("my own")
    assert looked(settings).findings == ()
    aside_path(settings.index_path).write_bytes(b"x")
    report = looked(settings)
    assert len(named(report, "leftovers").evidence) == 1
    assert fix(settings, report) == ["1 file of killed rebuilds and changes removed"]
    assert [path.read_text() for path in foreign] == ["my own"] * 3


def test_what_could_not_be_removed_is_not_told_as_removed(settings: Settings) -> None:
    left = aside_path(settings.index_path)
    left.write_bytes(b"x")
    stuck = aside_path(settings.index_path)
    stuck.mkdir()  # which unlink refuses, also to root
    report = looked(settings)
    assert len(named(report, "leftovers").evidence) == 2
    assert fix(settings, report) == ["1 file of killed rebuilds and changes removed"]
    assert stuck.exists() and not left.exists()


def test_a_damaged_index_that_was_set_aside_is_told(settings: Settings) -> None:
    aside = settings.index_path.with_name(f"{settings.index_path.name}.damaged")
    aside.write_bytes(b"x")
    found = named(looked(settings), "damaged-aside")
    assert found.severity == "info" and found.repair == f"rm -- {shlex.quote(str(aside))}"
    type_in(settings, found.repair)
    assert looked(settings).findings == ()


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_files_that_others_can_read_are_told_and_closed(settings: Settings) -> None:
    settings.index_path.chmod(0o644)
    settings.index_path.parent.chmod(0o755)
    settings.data_dir.chmod(0o755)
    export = settings.data_dir / "exports/query.json"
    export.parent.mkdir(mode=0o755)
    export.write_text("{}")
    export.chmod(0o644)
    (settings.data_dir / "demo").mkdir(mode=0o755)  # made-up notes, for anyone
    report = looked(settings)
    assert len(named(report, "permissions").evidence) == 5
    fix(settings, report)
    assert looked(settings).findings == ()
    assert stat.S_IMODE(settings.index_path.stat().st_mode) == 0o600
    assert stat.S_IMODE(settings.index_path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(export.stat().st_mode) == 0o600


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_looking_does_not_close_them(settings: Settings) -> None:
    path = settings.data_dir / RECORDS_FILE
    records = ProviderRecords(path)
    records.add_usage(Usage("openai", "text-embedding-3-small", 1, 2, 3))
    records.close()
    path.chmod(0o644)
    before = path.read_bytes(), path.stat().st_mtime_ns
    for _ in range(2):
        report = looked(settings)
        assert named(report, "permissions").evidence == (f"{path} (-rw-r--r--)",)
        detail = next(check.detail for check in report.checks if check.name == "provider records")
        assert detail.endswith("1 line of usage")
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    fix(settings, report)
    assert looked(settings).findings == ()


def test_a_log_larger_than_its_index_is_told_and_moved_in(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.doctor.location_checks._LARGE_LOG", 100_000)
    with Memory.open(settings) as memory:  # whoever has it open keeps the log from going
        for turn in range(15):
            (settings.workspace / "memory/long.md").write_text("\n".join(f"{turn} {n}" for n in range(4000)))
            memory.sync()
        report = looked(settings)
        assert named(report, "log-large").severity == "info"
        fix(settings, report)
        assert "log-large" not in codes(looked(settings))


def sql(path: Path, *statements: str) -> None:
    with closing(apsw.Connection(str(path))) as connection:
        for statement in statements:
            connection.execute(statement)


def no_database(path: Path) -> None:
    path.write_bytes(b"no database at all" * 300)


def torn(path: Path) -> None:
    """Pages in the middle overwritten: it can still be opened, and the newest rows read."""
    with path.open("r+b") as file:
        for page in range(2, file.seek(0, os.SEEK_END) // 4096 - 1):
            file.seek(4096 * page)
            file.write(b"\xa5" * 900)


def foreign(path: Path) -> None:
    path.unlink()
    sql(path, "CREATE TABLE recipes(name)")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def without_table(path: Path) -> None:
    sql(path, f"DROP TABLE {'events' if path.name == EVENTS_FILE else 'health'}")


def other_columns(path: Path) -> None:
    sql(path, f"ALTER TABLE {'events' if path.name == EVENTS_FILE else 'jobs'} DROP COLUMN state")


#: What is done to a file, what the finding says, and the beginning of its repair.
SPOILT: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "no database": (no_database, "is damaged", "rm -- "),
    "torn": (torn, "is damaged", "rm -- "),
    "no table": (without_table, "(no table", "rm -- "),
    "other columns": (other_columns, "has other columns", "rm -- "),
    "foreign": (foreign, "is a database of another program", "mv -- "),
    "newer": (lambda path: sql(path, "PRAGMA user_version = 99"), "by a newer version", "git pull && "),
    "no file": (a_folder, "cannot be used", ""),
}


@pytest.fixture(params=[RECORDS_FILE, EVENTS_FILE])
def beside(request: pytest.FixtureRequest, settings: Settings) -> Path:
    """A small database beside the index, with something in it."""
    path: Path = settings.data_dir / request.param
    if path.name == RECORDS_FILE:
        records = ProviderRecords(path)
        for number in range(400):
            records.add_usage(Usage(f"provider {number} {'x' * 100}", "model", 1, 2, 30))
        records.close()
    else:
        log = EventLog(path)
        for number in range(200):
            log.add("sync", f"{number} {'x' * 300}")
        log.close()
    return path


def code_of(path: Path) -> str:
    return "events-file" if path.name == EVENTS_FILE else "providers-file"


def test_whole_files_beside_the_index_are_told_by_their_size(beside: Path, settings: Settings) -> None:
    report = looked(settings)
    assert report.findings == ()
    details = {check.name: check.detail for check in report.checks}
    if beside.name == EVENTS_FILE:
        assert details["event log"] == f"{EVENTS_FILE}: 201 events"  # one of them is the sync
        assert details["provider records"] == f"{RECORDS_FILE}: 0 lines of usage"
    else:
        assert details["provider records"] == f"{RECORDS_FILE}: 400 lines of usage"
    assert not list(settings.data_dir.glob("*-wal")), "looking leaves nothing behind"
    beside.write_bytes(b"")  # made by a process that was killed before it came to anything
    assert looked(settings).findings == ()
    assert beside.read_bytes() == b""


@pytest.mark.parametrize("kind", SPOILT)
def test_files_beside_the_index_that_cannot_be_used_are_told(
    kind: str, beside: Path, settings: Settings
) -> None:
    spoil, wanted, repair = SPOILT[kind]
    spoil(beside)
    if beside.is_file():
        beside.chmod(0o600)
    before = beside.read_bytes() if beside.is_file() else b""
    report = looked(settings)
    found = named(report, code_of(beside))
    assert (found.severity, found.fixable) == ("warning", False)
    assert wanted in found.text and str(beside) in found.text
    assert found.repair.startswith(repair) and bool(found.repair) is bool(repair)
    assert not next(check for check in report.checks if "cannot be used" in check.detail).ok
    fix(settings, report)
    assert not beside.is_file() or beside.read_bytes() == before, (
        "what only this file holds is not ours to drop"
    )
    if repair.startswith(("rm", "mv")):
        type_in(settings, found.repair)
        assert codes(looked(settings)) == set()


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
@pytest.mark.parametrize(("mode", "wanted"), [(0o400, "may not be written to"), (0, "cannot be used")])
def test_an_event_log_that_is_out_of_reach_is_told(mode: int, wanted: str) -> None:
    with unprivileged_folder() as folder:
        settings = indexed(folder, NOTES)
        path = settings.data_dir / EVENTS_FILE
        path.chmod(mode)
        found = named(looked(settings), "events-file")
        assert wanted in found.text and (found.severity, found.repair) == ("warning", "")
        path.chmod(0o600)
        assert looked(settings).findings == ()


def test_the_size_check_tells_unused_pages(settings: Settings) -> None:
    from openclaw_mem_engine.stores.findings import Outcome
    from openclaw_mem_engine.stores.sqlite.snapshot import Snapshot

    snap, out = Snapshot(settings.index_path), Outcome()
    try:
        check_size(settings, snap, out)
    finally:
        snap.close()
    assert " of it unused" in out.detail and not out.findings
