"""Updates of our qmd index."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from test_qmd_store import FILES, counts, found, store

from openclaw_mem_engine.errors import (
    Cancelled,
    IndexLocked,
)
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.stores.qmd.scanning import FoundFile, Scan, read_file
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.workspace.reading import NoteText
from support.qmd import new_store, write_files

__all__ = ["store"]


def test_an_update_follows_the_files(store: QmdStore, tmp_path: Path) -> None:
    assert counts(store) == (0, 0, 4, 0)
    write_files(tmp_path / "notes", {"new.md": "A heron.", "memory/pump.md": "## Pump house\n\nA valve.\n"})
    (tmp_path / "notes/copy.md").unlink()
    assert counts(store) == (1, 1, 2, 1)
    assert found(store, "heron") == ["notes/new.md"]
    assert found(store, "irrigation") == [] and found(store, "valve") == ["notes/memory/pump.md"]
    assert found(store, "gateway") == ["notes/MEMORY.md"]
    assert found(store, "连接池") == ["notes/memory/zh.md"]
    write_files(tmp_path / "notes", {"copy.md": FILES["copy.md"]})
    assert counts(store) == (1, 0, 4, 0)  # a file that comes back


def test_only_what_may_have_changed_is_read(
    store: QmdStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def recording(scan: Scan, file: FoundFile) -> NoteText:
        read.append(file.path)
        return read_file(scan, file)

    monkeypatch.setattr("openclaw_mem_engine.stores.qmd.updating.read_file", recording)
    # The files were made a moment ago: until they are older than that, they are read again.
    os.utime(tmp_path / "notes/MEMORY.md")
    counts(store)
    assert "MEMORY.md" in read
    monkeypatch.setattr("openclaw_mem_engine.workspace.opening.RACY_NS", -(10**15))
    read.clear()
    assert counts(store) == (0, 0, 4, 0)
    assert read == []
    with store._db.transaction() as connection:  # as QMD would, which does not know of our table
        connection.execute("UPDATE documents SET active = 0 WHERE path = 'copy.md'")
    assert counts(store) == (1, 0, 3, 0)
    assert read == ["copy.md"]


def test_what_is_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = write_files(tmp_path / "outside", {"secret.md": "heron"})
    root = write_files(
        tmp_path / "notes",
        {
            "blank.md": " \n",
            "bad.md": "",
            ".hidden.md": "heron",
            "node_modules/x.md": "heron",
            "drafts/x.md": "heron",
            "x.txt": "heron",
            "ok.md": "heron",
        },
    )
    (root / "bad.md").write_bytes(b"heron \xff\xfe")
    (root / "out.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside)
    (root / "in.md").symlink_to(root / "x.txt")
    with QmdStoreOf(tmp_path, Collection("notes", root, ignore=("drafts/**",))) as store:
        (report,) = store.update().collections
        assert found(store, "heron") == ["notes/in.md", "notes/ok.md"]
        reasons = {one.path: one.reason for one in report.excluded}
        # They are reported again without being read, and taken when they hold text.
        monkeypatch.setattr("openclaw_mem_engine.workspace.opening.RACY_NS", -(10**15))
        monkeypatch.setattr("openclaw_mem_engine.stores.qmd.updating.read_file", None)
        (again,) = store.update().collections
        assert set(again.excluded) == set(report.excluded) and again.unchanged == 2
        monkeypatch.undo()
        write_files(root, {"blank.md": "A second heron."})
        (root / "bad.md").unlink()
        (again,) = store.update().collections
        assert (again.new, again.unchanged, again.removed) == (1, 2, 0)
        assert {one.path for one in again.excluded} == {"out.md", "drafts"}
        write_files(root, {"blank.md": ""})
        (again,) = store.update().collections
        assert (again.new, again.unchanged, again.removed) == (0, 2, 1)
        assert store._db.read("SELECT path FROM openclaw_mem_files WHERE refusal <> ''") == [("blank.md",)]
        write_files(root, {"blank.md": "heron"})
        assert counts(store) == (1, 0, 2, 0)
    assert reasons.keys() == {"blank.md", "bad.md", "out.md", "drafts"}
    assert reasons["drafts"] == "is ignored by a pattern of its collection"
    assert "leads out of the collection" in reasons["out.md"] and "not UTF-8" in reasons["bad.md"]


def test_a_check_by_a_clock_that_was_ahead_hides_no_later_edit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: now() + 86_400 * 10**9)
        store = new_store(tmp_path, {"bird.md": "heron"})
    note = tmp_path / "notes/bird.md"
    before = note.stat()
    note.write_text("grebe")
    os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.update().updated == 1 and found(store, "grebe") == ["notes/bird.md"]


def test_what_is_no_document_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(scan: Scan, file: FoundFile) -> NoteText:
        read.append(file.path)
        return read_file(scan, file)

    monkeypatch.setattr("openclaw_mem_engine.stores.qmd.updating.read_file", counted)
    monkeypatch.setattr("openclaw_mem_engine.workspace.opening.RACY_NS", -(10**15))
    store = new_store(tmp_path, {"blank.md": " \n", "ok.md": "heron", "bad.md": "heron \0"})
    assert sorted(read) == ["bad.md", "blank.md", "ok.md"]
    changed, gone, skipped, *_ = store.differences()["notes"]
    assert (changed, gone) == ([], [])
    assert [(one.path, one.by_rule) for one in skipped] == [("bad.md", False), ("blank.md", True)]
    read.clear()
    (report,) = store.update().collections
    assert (read, report.unchanged, list(report.excluded)) == ([], 1, skipped)
    write_files(tmp_path / "notes", {"blank.md": "grebe"})
    (tmp_path / "notes/bad.md").unlink()
    (tmp_path / "notes/ok.md").write_text("")
    (report,) = store.update().collections
    assert (report.new, report.removed, len(report.excluded)) == (1, 1, 1)
    assert found(store, "grebe") == ["notes/blank.md"] and found(store, "heron") == []
    write_files(tmp_path / "notes", {"ok.md": "heron again"})
    assert store.update().new == 1 and store.differences()["notes"][:3] == ([], [], [])
    store.close()


def test_a_command_of_an_index_yml_is_never_taken_over(tmp_path: Path) -> None:
    with closing(new_store(tmp_path, {"a.md": "heron"})) as store:
        store.add_collection(replace(store.collection("notes"), update_command="true"), replaces=True)
        assert store.collection("notes").update_command == "true"
        with store._db.transaction() as connection:  # as the program qmd mirrors what its file says
            connection.execute("UPDATE store_collections SET update_command = 'touch /tmp/x'")
        assert store.collection("notes").update_command == "true"
    for file in tmp_path.glob("index.sqlite*"):
        file.unlink()
    with closing(QmdStore.open(tmp_path / "index.sqlite")) as store:
        assert store.collection("notes").update_command == ""


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_in_the_place_of_an_index_yml_restores_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "index.yml")  # opening one would wait for a writer
    with closing(QmdStore.open(tmp_path / "index.sqlite")) as store:
        assert store.collections() == ()


class QmdStoreOf:
    """A new index with one collection, closed at the end."""

    def __init__(self, folder: Path, collection: Collection) -> None:
        self.store = QmdStore.open(folder / "index.sqlite")
        self.store.add_collection(collection)

    def __enter__(self) -> QmdStore:
        return self.store

    def __exit__(self, *_: object) -> None:
        self.store.close()


def test_a_missing_folder_keeps_its_documents(store: QmdStore, tmp_path: Path) -> None:
    (tmp_path / "notes").rename(tmp_path / "away")
    (report,) = store.update().collections
    assert "does not exist. Its documents stay in the index" in report.trouble
    assert found(store, "pump") == ["notes/memory/pump.md"]
    (tmp_path / "away").rename(tmp_path / "notes")
    assert counts(store) == (0, 0, 4, 0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_folder_keeps_its_documents(store: QmdStore, tmp_path: Path) -> None:
    (tmp_path / "notes/memory").chmod(0)
    try:
        assert counts(store) == (0, 0, 2, 0)
    finally:
        (tmp_path / "notes/memory").chmod(0o700)
    assert counts(store) == (0, 0, 4, 0)


def test_a_stop_keeps_what_was_done(tmp_path: Path) -> None:
    stop = threading.Event()
    with QmdStoreOf(tmp_path, Collection("notes", write_files(tmp_path / "notes", FILES))) as store:
        with pytest.raises(Cancelled):
            store.update(None, lambda done, _total, _path: stop.set() if done == 2 else None, stop)
        assert store.status().documents == 3
        assert counts(store)[0] == 1


def test_a_kill_in_the_middle_leaves_whole_documents(tmp_path: Path) -> None:
    """SIGKILL inside of the transaction of the second batch."""
    write_files(tmp_path / "notes", {f"{n:04}.md": f"# Note {n}\n\nheron {n}\n" for n in range(900)})
    script = f"""if True:
        import os, signal
        from pathlib import Path
        from openclaw_mem_engine.qmd.collections import Collection
        from openclaw_mem_engine.stores.qmd import updating
        from openclaw_mem_engine.stores.qmd.store import QmdStore
        store = QmdStore.open(Path({str(tmp_path / "index.sqlite")!r}))
        store.add_collection(Collection("notes", Path({str(tmp_path / "notes")!r})))
        write, written = updating._write, []
        def killing(*arguments):
            write(*arguments)
            written.append(1)
            if len(written) == 700:
                os.kill(os.getpid(), signal.SIGKILL)
        updating._write = killing
        store.update()
    """
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    store = QmdStore.open(tmp_path / "index.sqlite")
    held = store.status().documents
    assert held == 500 and store.lexical('"heron"*', 1_000).matched == held
    assert counts(store)[0] == 400
    store.close()


def test_readers_do_not_wait_for_a_writer(store: QmdStore) -> None:
    other = QmdStore.open(store.path)
    with store._db.transaction() as connection:
        connection.execute("DELETE FROM documents")
        assert found(other, "pump") == ["notes/memory/pump.md"]
        assert isinstance(other._db, Database)
        other._db._writer.set_busy_timeout(10)
        with pytest.raises(IndexLocked):
            other.set_context("notes", "", "x")
    other.close()
