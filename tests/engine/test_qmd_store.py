"""The index of the QMD backend: collections, updates, vectors, cleaning, and what may go wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import apsw
import numpy as np
import pytest

from openclaw_mem_engine.errors import (
    Cancelled,
    IndexDamaged,
    IndexLocked,
    IndexUnavailable,
    ProviderError,
    UsageError,
)
from openclaw_mem_engine.providers.base import TextRefused
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.lexical import match_expression
from openclaw_mem_engine.stores.qmd.maintenance import Cleanup
from openclaw_mem_engine.stores.qmd.scanning import FoundFile, Scan, read_file
from openclaw_mem_engine.stores.qmd.searching import Rows, VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.stores.sqlite.database import Database
from openclaw_mem_engine.workspace.reading import NoteText
from support.goldens import qmd_golden
from support.qmd import ScriptedEmbedder, corpus_store, new_store, write_files
from support.stores import Vector

FILES = {
    "MEMORY.md": "# Long-term\n\nThe gateway runs on the ARM board.\n",
    "memory/pump.md": "## Pump house\n\nThe irrigation pump restarted twice.\n",
    "memory/zh.md": "数据库连接池默认大小是二十。\n",
    "copy.md": "# Long-term\n\nThe gateway runs on the ARM board.\n",
}
SPACE = VectorSpace.of(ScriptedEmbedder())
LONG = "# Long\n\n" + "".join(f"\U0001f418 line {n} about barometers and pressure.\n" for n in range(400))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[QmdStore]:
    store = new_store(tmp_path, FILES)
    yield store
    store.close()


def found(store: QmdStore, query: str, collections: list[str] | None = None) -> list[str]:
    return [row.document for row in store.lexical(match_expression(query), 20, collections).rows]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def counts(store: QmdStore) -> tuple[int, int, int, int]:
    report = store.update()
    return report.new, report.updated, report.unchanged, report.removed


# -- updates ------------------------------------------------------------------------------------------------


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
        reasons = {one.path: one.reason for one in report.skipped}
        # They are reported again without being read, and taken when they hold text.
        monkeypatch.setattr("openclaw_mem_engine.workspace.opening.RACY_NS", -(10**15))
        monkeypatch.setattr("openclaw_mem_engine.stores.qmd.updating.read_file", None)
        (again,) = store.update().collections
        assert set(again.skipped) == set(report.skipped) and again.unchanged == 2
        monkeypatch.undo()
        write_files(root, {"blank.md": "A second heron."})
        (root / "bad.md").unlink()
        (again,) = store.update().collections
        assert (again.new, again.unchanged, again.removed) == (1, 2, 0)
        assert [one.path for one in again.skipped] == ["out.md"]
        write_files(root, {"blank.md": ""})
        (again,) = store.update().collections
        assert (again.new, again.unchanged, again.removed) == (0, 2, 1)
        assert store._db.read("SELECT path FROM openclaw_mem_files WHERE refusal <> ''") == [("blank.md",)]
        write_files(root, {"blank.md": "heron"})
        assert counts(store) == (1, 0, 2, 0)
    assert reasons.keys() == {"blank.md", "bad.md", "out.md"}
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
    assert (read, report.unchanged, list(report.skipped)) == ([], 1, skipped)
    write_files(tmp_path / "notes", {"blank.md": "grebe"})
    (tmp_path / "notes/bad.md").unlink()
    (tmp_path / "notes/ok.md").write_text("")
    (report,) = store.update().collections
    assert (report.new, report.removed, len(report.skipped)) == (1, 1, 1)
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


# -- collections and contexts -------------------------------------------------------------------------------


def test_collections_are_added_renamed_and_removed(store: QmdStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="already exists"):
        store.add_collection(Collection("notes", tmp_path))
    with pytest.raises(UsageError, match="'notes' already has"):
        store.add_collection(Collection("other", tmp_path / "notes"))
    with pytest.raises(UsageError, match="cannot name a collection"):
        store.add_collection(Collection("a/b", tmp_path))
    with pytest.raises(UsageError, match=r"no collection 'nope'\. Collections: notes"):
        store.update("nope")
    code = write_files(tmp_path / "code", {"a.py": "pump = 1"})
    store.add_collection(Collection("code", code, "*.py,*.ts", included=False, source="sessions"))
    store.update("code")
    assert found(store, "pump") == ["notes/memory/pump.md"]
    assert set(found(store, "pump", ["code", "notes"])) == {"code/a.py", "notes/memory/pump.md"}
    store.rename_collection("notes", "mémo")
    assert found(store, "连接池") == ["mémo/memory/zh.md"] and counts(store)[:2] == (0, 0)
    assert [(c.name, c.included, c.source) for c in store.collections()] == [
        ("mémo", True, "memory"),
        ("code", False, "sessions"),
    ]
    assert store.remove_collection("mémo") == 4
    assert found(store, "gateway", ["mémo"]) == [] and store.status().documents == 1
    assert not (tmp_path / "notes/MEMORY.md").is_symlink() and (tmp_path / "notes/MEMORY.md").exists()


def test_contexts_and_collections_survive_the_loss_of_the_index(store: QmdStore, tmp_path: Path) -> None:
    store.set_context("notes", "memory", "Daily")
    store.set_context("", "", "All")
    store.close()
    assert json.loads((tmp_path / "index.yml").read_text())["collections"]["notes"]["context"] == {
        "memory": "Daily"
    }
    for file in tmp_path.glob("index.sqlite*"):
        file.unlink()
    again = QmdStore.open(tmp_path / "index.sqlite")
    (collection,) = again.collections()
    assert (collection.contexts, again.global_context()) == ({"memory": "Daily"}, "All")
    assert counts(again)[0] == 4
    again.set_context("notes", "memory", "")
    assert again.collection("notes").contexts == {}
    with pytest.raises(UsageError, match="no context of its own"):
        again.set_context("notes", "memory", "")
    again.close()


def test_the_documented_tables_are_views(store: QmdStore) -> None:
    store.set_context("notes", "/memory", "Daily")
    store.set_context("", "", "All")
    root = str(store.collection("notes").root)
    assert store._db.read("SELECT * FROM collections") == [("notes", root, "**/*.md")]
    assert store._db.read("SELECT * FROM path_contexts") == [("qmd://notes/memory", "Daily"), ("/", "All")]


# -- documents ----------------------------------------------------------------------------------------------


def test_documents_by_what_a_person_writes(store: QmdStore) -> None:
    pump = store.find("memory/pump.md:3")
    assert pump is not None and pump.uri == "qmd://notes/memory/pump.md"
    assert store.find(f"#{pump.docid}") == store.find("qmd://notes/memory/pump.md") == pump
    assert store.find("memory/pmup.md") is None
    assert "memory/pump.md" in store.why_missing("memory/pmup.md")
    got = store.multi_get("memory/*.md, nope.md", max_bytes=30)
    assert [(one.path, bool(reason)) for one, reason in got.documents] == [
        ("memory/pump.md", True),
        ("memory/zh.md", False),
    ]
    assert got.problems[0].startswith("File not found: nope.md")
    assert [(e.path, e.size) for e in store.ls("notes", "memory/")] == [
        ("memory/pump.md", len(FILES["memory/pump.md"])),
        ("memory/zh.md", len(FILES["memory/zh.md"])),
    ]
    assert store.ls("notes", "mem") == []


@pytest.mark.goldens
def test_recorded_references(tmp_path: Path) -> None:
    """Those that name one document; the rest is in test_qmd_lookup."""
    store = corpus_store(tmp_path)
    for text, expected in qmd_golden("lookup")["find_document"]:
        if "error" not in expected and not text.startswith("/base") and text != "EMORY.md":
            document = store.find(text)
            assert document is not None, text
            assert (document.uri, document.title, document.docid) == (
                expected["filepath"],
                expected["title"],
                expected["docid"],
            )
    for case in qmd_golden("lookup")["multi_get"]:
        got = store.multi_get(case["pattern"], case["max_bytes"])
        assert [{"skipped": d.uri, "reason": why} if why else d.uri for d, why in got.documents] == case[
            "docs"
        ]
    store.close()


# -- vectors ------------------------------------------------------------------------------------------------


def nearest(store: QmdStore, embedder: ScriptedEmbedder, text: str) -> Rows:
    vector = embedder.embed_query(text)
    assert vector is not None
    return store.vector(vector, SPACE, 3)


@pytest.mark.parametrize("extension", [True, False])
def test_vectors_are_made_once_and_found(tmp_path: Path, extension: bool) -> None:
    store = new_store(tmp_path, {**FILES, "long.md": LONG}, extension=extension)
    embedder = ScriptedEmbedder()
    assert store.pending(SPACE) == 4  # copy.md is the text of MEMORY.md
    report = store.embed(embedder)
    assert (report.documents, report.chunks, store.pending(SPACE)) == (4, len(embedder.seen), 0)
    assert "title: Pump house | text: ## Pump house" in "".join(embedder.seen)
    wanted = next(text for text in embedder.seen if "line 399" in text)
    rows = nearest(store, embedder, wanted)
    assert (rows.rows[0].document, rows.matched) == ("notes/long.md", 5)
    assert rows.rows[0].raw == pytest.approx(1, abs=1e-6)
    # Positions are UTF-16 units, as QMD counts.
    assert LONG.encode("utf-16-le")[2 * rows.rows[0].pos :].decode("utf-16-le")[:20] in wanted
    seen = len(embedder.seen)
    assert store.embed(embedder).documents == 0 and len(embedder.seen) == seen
    made = report.chunks
    store.close()
    # A process that has sqlite-vec puts the vectors where QMD looks for them.
    store = QmdStore.open(tmp_path / "index.sqlite")
    write_files(tmp_path / "notes", {"new.md": "A heron."})
    store.update()
    assert store.embed(embedder).documents == 1
    assert store._db.read("SELECT count(*) FROM vectors_vec") == [(made + 1,)]
    assert store._db.read("SELECT count(*) FROM openclaw_mem_vectors") == [(0,)]
    assert nearest(store, embedder, wanted).rows[0].document == "notes/long.md"
    write_files(tmp_path / "notes", {"new.md": "Another heron."})
    store.update()
    other = ScriptedEmbedder(16)
    with pytest.raises(ProviderError, match="tiny now sends vectors of 16 dimensions, the index holds 8"):
        store.embed(other)
    assert len(other.seen) == 1 and nearest(store, embedder, wanted).matched == 5  # one text was sent
    store.cleanup()
    assert store.embed(other, force=True).documents == 5
    assert store.vector(np.ones(16, np.float32), SPACE, 9).matched == 6
    store.close()


@pytest.mark.parametrize("extension", [True, False])
@pytest.mark.parametrize("dims", [8, 16])
def test_vectors_of_another_model_are_neither_compared_nor_kept(
    tmp_path: Path, extension: bool, dims: int
) -> None:
    store = new_store(tmp_path, FILES, extension=extension)
    first, second = ScriptedEmbedder(), ScriptedEmbedder(dims)
    second.model = "other"
    local = ScriptedEmbedder()
    local.id, local.model = "local", "tiny"
    store.embed(first)
    space = VectorSpace.of(second)
    assert (store.pending(space), store.pending(VectorSpace.of(local)), store.vector_dims(space)) == (
        3,
        3,
        None,
    )
    assert nearest(store, first, "pump").matched == 4
    assert store.vector(np.ones(dims, np.float32), space, 9) == Rows()
    assert store.embed(second).documents == 3
    assert store.vector(np.ones(dims, np.float32), space, 9).matched == 4
    assert (store.pending(SPACE), store.vector_dims(SPACE), store.vector_dims(space)) == (3, None, dims)
    assert store.embed(first).documents == 3 and nearest(store, first, "pump").matched == 4
    store.close()


def test_what_a_model_made_of_a_text_is_kept(store: QmdStore, tmp_path: Path) -> None:
    write_files(tmp_path / "notes", {"long.md": LONG})
    store.update()
    embedder = ScriptedEmbedder()
    chunks = store.embed(embedder).chunks
    write_files(tmp_path / "notes", {"long.md": f"{LONG}One more line.\n"})
    store.update()
    again = ScriptedEmbedder()
    report = store.embed(again)
    assert (len(again.seen), report.chunks - report.cached) == (1, 1) and report.cached > 1
    assert nearest(store, again, embedder.seen[-2]).rows[0].raw == pytest.approx(1, abs=1e-6)
    forced = ScriptedEmbedder()
    report = store.embed(forced, force=True)
    assert (report.cached, report.chunks, forced.seen) == (chunks, chunks, [])
    other = ScriptedEmbedder()
    other.id = "elsewhere"
    assert store.embed(other).cached == 0 and len(other.seen) == chunks
    assert store.cleanup().embeddings == 2 * chunks + 1
    assert store.embed(other, force=True).cached == 0


def test_a_text_that_the_model_refuses_stays_pending(store: QmdStore) -> None:
    class Refusing(ScriptedEmbedder):
        def embed_documents(self, texts, *rest, **more) -> list[Vector | None]:  # type: ignore[no-untyped-def]
            for at, text in enumerate(texts):
                if "pump" in text:
                    raise TextRefused("too long", position=at)
            return super().embed_documents(texts)

    report = store.embed(Refusing())
    assert report.refused == (("notes/memory/pump.md", "too long"),)
    assert (report.documents, store.pending(SPACE)) == (2, 1)


def test_a_stop_keeps_the_vectors_that_were_made(store: QmdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from openclaw_mem_engine.stores.qmd import embedding

    monkeypatch.setattr(embedding, "_BATCH_DOCUMENTS", 1)

    class Stopping(ScriptedEmbedder):
        def embed_documents(self, texts, *rest, **more) -> list[Vector | None]:  # type: ignore[no-untyped-def]
            if self.seen:
                raise Cancelled("stopped")
            return super().embed_documents(texts)

    with pytest.raises(Cancelled):
        store.embed(Stopping())
    assert store.pending(SPACE) == 2


# -- cleaning and the cache ---------------------------------------------------------------------------------


def test_cleanup_removes_what_nothing_needs(store: QmdStore, tmp_path: Path) -> None:
    store.embed(ScriptedEmbedder())
    store.cache_put("key", "answer")
    (tmp_path / "notes/memory/pump.md").unlink()
    store.update()
    assert store.cache_get("key") == "answer"  # an update does not forget the answers of models
    assert store.cleanup(dry_run=True) == Cleanup(cached=1, vectors=1, inactive=1, content=1, embeddings=3)
    assert store.cleanup() == Cleanup(cached=1, vectors=1, inactive=1, content=1, embeddings=3)
    assert store.cleanup() == Cleanup() and store.cache_get("key") is None
    assert store._db.read("SELECT count(*) FROM vectors_vec") == [(2,)]
    assert store.status().documents == 3 and found(store, "gateway")


def test_the_cache_of_embeddings_is_bounded(
    store: QmdStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openclaw_mem_engine.stores.qmd import embedding

    monkeypatch.setattr(embedding, "_KEPT", 2)
    store.embed(ScriptedEmbedder())
    for number in range(3):
        (tmp_path / "notes/memory/pump.md").write_text(f"edit {number}\n")
        store.update()
        assert store.embed(ScriptedEmbedder()).cached == 0
    held = "SELECT count(*) FROM content_vectors WHERE hash IN (SELECT hash FROM documents WHERE active = 1)"
    assert store._db.read("SELECT count(*) FROM openclaw_mem_embeddings") == store._db.read(held) == [(3,)]


def test_the_cache_keeps_the_newest_answers(store: QmdStore, monkeypatch: pytest.MonkeyPatch) -> None:
    from openclaw_mem_engine.stores.qmd import maintenance

    monkeypatch.setattr(maintenance, "_CACHE_ROWS", 3)
    monkeypatch.setattr(maintenance, "_CACHE_EVERY", 5)
    for number in range(5):
        store.cache_put(f"key {number}", str(number))
    assert [store.cache_get(f"key {n}") for n in range(5)] == [None, None, "2", "3", "4"]
    store.cache_put("key 4", None)
    assert store.cache_get("key 4") is None


# -- files of others, and damage ----------------------------------------------------------------------------


def test_an_index_of_another_program_is_only_read(store: QmdStore, tmp_path: Path) -> None:
    with store._db.transaction() as connection:
        connection.execute("INSERT INTO content VALUES('x', 'x', 'x')")
    store.embed(ScriptedEmbedder())
    store.close()
    folder = tmp_path / "theirs"
    folder.mkdir()
    path = folder / "index.sqlite"
    (tmp_path / "index.sqlite").rename(path)
    theirs = apsw.Connection(str(path))
    theirs.pragma("application_id", 0)
    theirs.close()
    before = path.read_bytes()
    with pytest.raises(IndexUnavailable, match="made by the program qmd"):
        QmdStore.open(path).set_context("notes", "", "x")
    other = QmdStore.open(path)
    assert other.read_only and found(other, "pump") == ["notes/memory/pump.md"]
    assert other.vector(np.ones(8, np.float32), SPACE, 9).matched == 4
    other.cache_put("key", "answer")
    with pytest.raises(IndexUnavailable, match="made by the program qmd"):
        other.update()
    assert path.read_bytes() == before and names(folder) == ["index.sqlite"]
    # What the other program writes meanwhile is seen, with and without its log.
    theirs = apsw.Connection(str(path))
    theirs.execute("UPDATE documents SET active = 0 WHERE path = 'memory/pump.md'")
    assert (folder / "index.sqlite-wal").exists() and found(other, "pump") == []
    theirs.close()
    assert found(other, "pump") == [] and names(folder) == ["index.sqlite"]
    other.close()


def test_an_index_of_ours_that_is_opened_to_be_read(store: QmdStore) -> None:
    reader = QmdStore.open(store.path, read_only=True)
    assert found(reader, "pump") == ["notes/memory/pump.md"]
    with pytest.raises(IndexUnavailable, match="was opened to be read only"):
        reader.embed(ScriptedEmbedder())
    store.set_context("", "", "All")
    assert reader.global_context() == "All"
    reader.close()


def test_an_index_of_qmd_1_0_is_read(store: QmdStore, tmp_path: Path) -> None:
    store.close()
    theirs = apsw.Connection(str(store.path))
    theirs.pragma("application_id", 0)
    theirs.pragma("user_version", 0)
    for table in ("store_collections", "store_config", "content_vectors"):
        theirs.execute(f"DROP TABLE {table}")
    for table in ("files", "collections", "vectors"):
        theirs.execute(f"DROP TABLE openclaw_mem_{table}")
    theirs.execute(
        """CREATE TABLE content_vectors(hash TEXT NOT NULL, seq INTEGER NOT NULL DEFAULT 0,
        pos INTEGER NOT NULL DEFAULT 0, model TEXT NOT NULL, embedded_at TEXT NOT NULL,
        PRIMARY KEY(hash, seq))"""
    )
    theirs.execute("INSERT INTO content_vectors SELECT hash, 0, 0, 'old', '' FROM content LIMIT 1")
    theirs.close()
    old = QmdStore.open(store.path)
    assert old.read_only and [one.name for one in old.collections()] == ["notes"]
    assert found(old, "pump") == ["notes/memory/pump.md"] and old.global_context() == ""
    assert (old.pending(VectorSpace("old", "any")), old.pending(VectorSpace("new", "any"))) == (2, 3)
    assert old.vector(
        np.ones(8, np.float32), VectorSpace("old", ""), 5
    ).rows == () and old.status().models == ("old",)
    old.close()


def test_a_config_that_cannot_be_written_is_an_error(store: QmdStore, tmp_path: Path) -> None:
    (tmp_path / "index.yml").unlink()
    (tmp_path / "index.yml").mkdir()
    (tmp_path / "index.yml/x").touch()
    with pytest.raises(IndexUnavailable, match=r"index\.yml cannot be written .* The index itself is"):
        store.set_context("notes", "", "All notes")
    assert store.collection("notes").contexts == {"": "All notes"}
    assert not list(tmp_path.glob("*.tmp"))


def test_what_is_no_index_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IndexUnavailable, match="There is no index"):
        QmdStore.open(tmp_path / "index.sqlite", read_only=True)
    foreign = apsw.Connection(str(tmp_path / "other.sqlite"))
    foreign.execute("CREATE TABLE things(x)")
    foreign.close()
    with pytest.raises(IndexUnavailable, match="a database that this program did not make"):
        QmdStore.open(tmp_path / "other.sqlite")
    (tmp_path / "link.sqlite").symlink_to(tmp_path / "missing.sqlite")
    with pytest.raises(IndexUnavailable, match="is a link"):
        QmdStore.open(tmp_path / "link.sqlite")
    (tmp_path / "bad.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(IndexDamaged, match="Move the file away, and `openclaw-mem qmd update`") as error:
        QmdStore.open(tmp_path / "bad.sqlite")
    assert error.value.replace is not None
    error.value.replace()
    QmdStore.open(tmp_path / "bad.sqlite").close()


def test_an_index_of_a_newer_program_is_refused(store: QmdStore) -> None:
    with store._db.transaction() as connection:
        connection.pragma("user_version", 2)
    with pytest.raises(IndexUnavailable, match=r"newer program wrote this index \(schema 2"):
        QmdStore.open(store.path)


def test_damage_is_named_and_not_answered(store: QmdStore, tmp_path: Path) -> None:
    store.embed(ScriptedEmbedder())
    with store._db.transaction() as connection:
        connection.execute("UPDATE vectors_vec_vector_chunks00 SET vectors = zeroblob(8)")
    with pytest.raises(IndexDamaged, match="`openclaw-mem qmd update` builds a new one"):
        store.vector(np.ones(8, np.float32), SPACE, 5)


def test_files_are_private(store: QmdStore, tmp_path: Path) -> None:
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("index.*")}
    assert modes.keys() == {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "index.yml"}
    assert set(modes.values()) == {"0o600"}
