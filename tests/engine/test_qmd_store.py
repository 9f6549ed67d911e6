"""The index of the QMD backend: collections, documents, cleaning, and what may go wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest

from openclaw_mem_engine.errors import (
    IndexDamaged,
    IndexUnavailable,
    UsageError,
)
from openclaw_mem_engine.qmd.collections import Collection
from openclaw_mem_engine.qmd.lexical import match_expression
from openclaw_mem_engine.stores.qmd.maintenance import Cleanup
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from openclaw_mem_engine.stores.sqlite.files import set_aside
from support.goldens import qmd_golden
from support.qmd import ScriptedEmbedder, corpus_store, new_store, write_files

FILES = {
    "MEMORY.md": "# Long-term\n\nThe gateway runs on the ARM board.\n",
    "memory/pump.md": "## Pump house\n\nThe irrigation pump restarted twice.\n",
    "memory/zh.md": "数据库连接池默认大小是二十。\n",
    "copy.md": "# Long-term\n\nThe gateway runs on the ARM board.\n",
}
SPACE = VectorSpace.of(ScriptedEmbedder())


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
    with pytest.raises(IndexDamaged, match="`openclaw-mem doctor --fix` repairs it"):
        QmdStore.open(tmp_path / "bad.sqlite")
    set_aside(tmp_path / "bad.sqlite")
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
    with pytest.raises(IndexDamaged, match="`openclaw-mem doctor --fix` repairs it"):
        store.vector(np.ones(8, np.float32), SPACE, 5)


def test_files_are_private(store: QmdStore, tmp_path: Path) -> None:
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("index.*")}
    assert modes.keys() == {"index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "index.yml"}
    assert set(modes.values()) == {"0o600"}
