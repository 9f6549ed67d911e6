"""What a chunk shares with the one before it is stored once, and read as if it were stored twice."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_mem_engine.errors import IndexDamaged
from openclaw_mem_engine.model import text_hash
from openclaw_mem_engine.stores.sqlite.chunks import overlap
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from support.damage import looked
from support.memories import open_memory, write_notes

LINES = [f"Line {n}: höron 蒼鷺 \x00 pond {'x' * (n % 7) * 9}" for n in range(60)]
NOTES = {
    "memory/lines.md": "\n".join(LINES) + "\n",
    "memory/same.md": "same\n" * 900,
    "memory/blank.md": "\n\n\na\n" * 400,
    "memory/long.md": "\n".join(["word " * 900, "short", "蒼" * 3_000, "short"]) + "\n",
    "memory/crlf.md": "one two three four\r\n" * 200,
}


def test_every_text_is_read_as_it_was_cut_and_most_of_what_two_share_is_stored_once(tmp_path: Path) -> None:
    with open_memory(write_notes(tmp_path / "ws", NOTES), tmp_path / "home") as memory:
        memory.sync()
        store: Any = memory.backend.store  # type: ignore[attr-defined]
        for path in NOTES:
            read = store.chunks_of(path)
            assert all(text_hash(chunk.text) == chunk.hash for chunk in read), path
            fetched = store.fetch([chunk.chunk_id for chunk in read])
            assert [fetched[chunk.chunk_id].text for chunk in read] == [chunk.text for chunk in read]
        whole = sum(len(passage.text.encode()) for passage in store.passages())
        ((own, shared),) = store._db.read("SELECT sum(length(CAST(text AS BLOB))), sum(shared) FROM chunks")
        assert own + shared == whole and shared > whole / 10
        write_notes(memory.settings.workspace, {"memory/lines.md": "\n".join(LINES[9:]) + "\nmore\n"})
        memory.sync()
        assert "more" in store.chunks_of("memory/lines.md")[-1].text
        assert looked(memory.settings, deep=True).errors == 0


def test_what_the_one_before_it_has_lost_makes_a_text_damaged_not_another(tmp_path: Path) -> None:
    with open_memory(write_notes(tmp_path / "ws", NOTES), tmp_path / "home") as memory:
        memory.sync()
        path = memory.settings.index_path
    with closing(apsw.Connection(str(path))) as connection:
        ((seq, chunk_id),) = connection.execute("SELECT seq, id FROM chunks WHERE shared LIMIT 1").fetchall()
        for gone in ("chunks WHERE seq = ?", "chunks_fts_stemmed WHERE rowid = ?"):
            connection.execute(f"DELETE FROM {gone}", (int(str(seq)) - 1,))
    with closing(SqliteIndex(path)) as store, pytest.raises(IndexDamaged, match="not what was stored"):
        store.fetch([str(chunk_id)])


@pytest.mark.parametrize(
    ("own", "lines", "text", "end"),
    [
        ("a\nb\nc", 2, "b\nc\nd", "b\nc"),
        ("a\nb\nc", 1, "c", "c"),
        ("\nb\nc", 3, "a\nb\nc\nd", ""),  # a line of them is not its own
        ("a\nb", 1, "c", ""),
        ("a\nb", 0, "b", ""),
        ("a\nb", -3, "b", ""),
        ("", 2, "b", ""),
    ],
)
def test_only_what_ends_one_and_begins_the_other_is_shared(own: str, lines: int, text: str, end: str) -> None:
    assert overlap(own, lines, text) == end
