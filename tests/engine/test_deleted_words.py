"""What is deleted from the notes is deleted from the bytes of the index, proven by looking for it there."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite import store as sqlite_store
from openclaw_mem_engine.sync.report import SyncRequest
from support.memories import open_memory, write_notes

NOTES = {f"memory/n{n:02}.md": f"The pump {n} of the orchard is green.\n" for n in range(30)}
SECRET, WORDS = "memory/secret.md", (b"zebraquagga", b"hippogriff")


def held(memory: Memory) -> list[bytes]:
    """The secret words that the files of the index hold; FTS5 leaves out what a word shares with the one
    before it, so that the ends of the words are looked for."""
    files = memory.settings.index_path.parent.glob("main.sqlite*")
    content = b"".join(file.read_bytes() for file in files)
    return [word for word in WORDS if word[2:] in content]


@pytest.mark.parametrize("way", ["deleted", "binary"])
@pytest.mark.parametrize("large", [False, True])
def test_no_word_of_a_removed_note_stays_in_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, large: bool
) -> None:
    monkeypatch.setattr(sqlite_store, "_SOON_PURGED", 10 if large else 100)
    workspace = write_notes(tmp_path / "ws", {**NOTES, SECRET: "Zebraquagga likes a hippogriff.\n"})
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        memory.sync()
        assert held(memory) == list(WORDS)
        if way == "deleted":
            (workspace / SECRET).unlink()
        else:
            (workspace / SECRET).write_bytes(b"\0\0\0")
        memory.sync(SyncRequest(budget_s=60))
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:  # closing has merged the log
        assert held(memory) == (list(WORDS) if large else [])
        (workspace / "MEMORY.md").write_text("A new note.\n")
        memory.sync()
        assert [hit.path for hit in memory.search("orchard").hits] != []
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        assert held(memory) == []
