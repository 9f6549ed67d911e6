"""Our index and the real program qmd on the same files: it opens ours, we open its."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_mem_engine.errors import IndexUnavailable
from openclaw_mem_engine.qmd.lexical import match_expression, score_of
from openclaw_mem_engine.stores.qmd.searching import VectorSpace
from openclaw_mem_engine.stores.qmd.store import QmdStore
from support.qmd import RealQmd, ScriptedEmbedder, new_store, write_files

pytestmark = pytest.mark.qmd

FILES = {
    "MEMORY.md": "# Long-term\n\nThe gateway runs on the ARM board.\n",
    "memory/pump.md": "## Pump house\n\nThe irrigation pump restarted twice.\n",
    "memory/zh.md": "# 连接池\n\n数据库连接池默认大小是二十。\n",
    "Café/a b_c.md": "# Réseau\n\nThe omada router and the pump.\n",
    **{f"more/{n}.md": f"# Note {n}\n\nBarometers of the {n}th heron.\n" for n in range(20)},
}
QUERIES = ("pump", "连接池", "heron barometers", "notes")


def answers(store: QmdStore, query: str) -> list[tuple[str, float]]:
    rows = store.lexical(match_expression(query), 50).rows
    return [(f"qmd://{row.document}", round(score_of(row.raw), 2)) for row in rows]


def real_answers(real: RealQmd, query: str) -> list[tuple[str, float]]:
    return [(hit["file"], hit["score"]) for hit in real.json("search", query, "-n", "50")]


def test_the_real_program_opens_our_index(tmp_path: Path) -> None:
    real = RealQmd(tmp_path / "index.sqlite")
    store = new_store(tmp_path, FILES)
    store.set_context("notes", "memory", "Daily notes")
    store.set_context("", "", "All of it")
    store.embed(ScriptedEmbedder())
    for query in QUERIES:
        assert real_answers(real, query) == answers(store, query)
    pump = real.run("get", "memory/pump.md")
    assert pump.startswith("qmd://notes/memory/pump.md") and "3: The irrigation pump" in pump
    assert "Folder Context: All of it\n\nDaily notes" in pump
    listed = [line.split("  ")[-1] for line in real.run("ls", "notes").splitlines()]
    assert listed == [entry.uri for entry in store.ls("notes")]
    status = real.run("status")
    assert f"Total:    {len(FILES)} files indexed" in status
    assert f"Vectors:  {len(FILES)} embedded" in status
    # It has rewritten index.yml as YAML and mirrored it: ours is as before, and still ours.
    assert [one.name for one in store.collections()] == ["notes"]
    assert store.collection("notes").contexts == {"memory": "Daily notes"}
    assert "0 new, 0 updated, 24 unchanged, 0 removed" in real.run("update")
    write_files(tmp_path / "notes", {"memory/pump.md": "# Pump\n\nA valve.\n", "new.md": "A valve too."})
    assert "1 new, 1 updated, 23 unchanged, 0 removed" in real.run("update")
    assert sorted(uri for uri, _ in answers(store, "valve")) == [
        "qmd://notes/memory/pump.md",
        "qmd://notes/new.md",
    ]
    report = store.update()
    assert (report.new, report.updated, report.unchanged) == (0, 0, 25)
    assert store.pending(VectorSpace.of(ScriptedEmbedder())) == 2
    real.run("cleanup")
    store.close()
    again = QmdStore.open(tmp_path / "index.sqlite")
    assert not again.read_only and again.status().documents == 25
    again.close()


def test_we_open_its_index_and_write_nothing(tmp_path: Path) -> None:
    real = RealQmd(tmp_path / "index.sqlite")
    write_files(tmp_path / "notes", FILES)
    real.run("collection", "add", str(tmp_path / "notes"), "--name", "notes")
    real.run("context", "add", "qmd://notes/memory", "Daily notes")
    ours = new_store(tmp_path / "ours", FILES)
    before = {path: path.read_bytes() for path in tmp_path.glob("index.*")}
    theirs = QmdStore.open(tmp_path / "index.sqlite")
    assert theirs.read_only
    (collection,) = theirs.collections()
    assert (collection.name, collection.contexts) == ("notes", {"memory": "Daily notes"})
    for query in QUERIES:
        assert answers(theirs, query) == real_answers(real, query)
        assert sorted(answers(theirs, query)) == sorted(answers(ours, query))
    pump = theirs.find("pump.md")
    assert pump is not None and (pump.text, pump.title) == (FILES["memory/pump.md"], "Pump house")
    assert theirs.status().documents == len(FILES)
    for refused in (theirs.update, theirs.cleanup, lambda: theirs.set_context("", "", "x")):
        with pytest.raises(IndexUnavailable, match="made by the program qmd"):
            refused()
    # Its own updates are seen at once.
    write_files(tmp_path / "notes", {"new.md": "A valve."})
    real.run("update")
    assert [uri for uri, _ in answers(theirs, "valve")] == ["qmd://notes/new.md"]
    theirs.close()
    assert {path.name for path in tmp_path.glob("index.*")} == {path.name for path in before}
    ours.close()
