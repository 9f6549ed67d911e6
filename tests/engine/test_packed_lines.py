"""Cosines of lines: from packed lines in the index, from the text, and from a vector a line, one answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.static import StaticEmbedder
from openclaw_mem_engine.ranking.profiles import WORKBENCH
from openclaw_mem_engine.sync.report import SyncRequest
from support.memories import open_memory, write_notes

EMBEDDER = StaticEmbedder()
LINES = st.one_of(
    st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), max_size=30),
    st.lists(st.sampled_from("tea pump Harbor's v2.1 -- 数据 naïve ＡＢ \r\t ﻿".split(" ")), max_size=90).map(
        " ".join
    ),
)
NOTES = {
    f"memory/n{n:02}.md": f"# Pump {n}\n\nThe pump of orchard {n} is green.\n- ---\nWater runs at {n} bar.\n"
    * 30
    for n in range(8)
}
QUERY = "green water"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(LINES, min_size=1, max_size=6).map("\n".join), min_size=1, max_size=5), LINES)
def test_cosines_are_those_of_a_vector_for_each_line(texts: list[str], other: str) -> None:
    query = EMBEDDER.embed_query("harbor tea pump")
    assert query is not None
    EMBEDDER.embed_documents([other])
    alone = [EMBEDDER.cosines(EMBEDDER.pack([text]), query)[0] for text in texts]
    EMBEDDER.embed_documents(texts)
    packed = EMBEDDER.pack(texts)  # made with the vectors of the texts
    EMBEDDER.embed_documents([other])
    assert EMBEDDER.pack(texts) == packed
    found = EMBEDDER.cosines(packed, query)
    assert found == alone
    for text, cosines in zip(texts, found, strict=True):
        vectors = EMBEDDER.embed_documents(text.split("\n"))
        assert [cosine is None for cosine in cosines] == [vector is None for vector in vectors]
        wanted = [float(np.dot(vector, query)) for vector in vectors if vector is not None]
        assert [cosine for cosine in cosines if cosine is not None] == pytest.approx(wanted, abs=1e-6)


def answer(memory: Memory) -> dict[str, dict[str, object]]:
    """Scores and lines of every row."""
    signals = memory.search(QUERY, WORKBENCH).trace.rows
    return {row.chunk_id: {**row.scores, "lines": row.shown} for row in signals}


def rows(index: Path) -> dict[str, bytes]:
    """Packed lines, as they are in the file, by chunk id; a row without a chunk has its number."""
    sql = "SELECT coalesce(c.id, l.seq), l.packed FROM line_tokens l LEFT JOIN chunks c USING(seq)"
    with closing(apsw.Connection(str(index))) as connection:
        found: list[Any] = connection.execute(sql).fetchall()
        return dict(found)


def chunk_ids(index: Path) -> set[str]:
    with closing(apsw.Connection(str(index))) as connection:
        return {str(row[0]) for row in connection.execute("SELECT id FROM chunks").fetchall()}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were packed outside of a pass that makes their vectors."""
    pack, found = StaticEmbedder.pack, list[str]()

    def watched(self: StaticEmbedder, texts: Sequence[str]) -> list[bytes]:
        found.extend(text for text in texts if text not in self._packed)
        return pack(self, texts)

    monkeypatch.setattr(StaticEmbedder, "pack", watched)
    return found


def test_a_sync_keeps_and_forgets_them_with_the_chunks(tmp_path: Path, seen: list[str]) -> None:
    workspace = write_notes(tmp_path / "ws", NOTES)
    with open_memory(workspace, tmp_path / "home", OPENCLAW_MEM_PROFILE="workbench") as memory:
        index = memory.settings.index_path
        memory.sync()
        before = rows(index)
        assert before.keys() == chunk_ids(index) and seen == []  # in the pass of the vectors
        assert memory.search(QUERY, WORKBENCH).hits and seen == []
        memory.sync(SyncRequest(force=True))
        assert rows(index) == before and seen == []  # taken over by a rebuild
        (workspace / "memory/n00.md").unlink()
        write_notes(workspace, {"memory/n01.md": "A new line.\n"})
        memory.sync()
        after = rows(index)
        assert after.keys() == chunk_ids(index) != before.keys()
        # What comes back has its vectors in the cache, and no packed lines.
        write_notes(workspace, {"memory/n00.md": NOTES["memory/n00.md"]})
        memory.sync()
        assert rows(index).keys() == chunk_ids(index) and seen
        again = rows(index)
        assert {key: again[key] for key in again.keys() & before.keys()} == {
            key: before[key] for key in again.keys() & before.keys()
        }
        assert len(again) > len(after)


DAMAGE = {
    "shorter": "UPDATE line_tokens SET packed = substr(packed, 1, 40)",
    "another number of lines": "UPDATE line_tokens SET packed = X'FF000000' || substr(packed, 5)",
    "other ids": "UPDATE line_tokens SET packed = substr(packed, 1, length(packed) - 40) || zeroblob(40)",
    "empty": "UPDATE line_tokens SET packed = X''",
    "text": "UPDATE line_tokens SET packed = 'lines'",
    "of another chunk": "UPDATE line_tokens SET packed = (SELECT packed FROM line_tokens WHERE seq = 3)",
    "none": "DELETE FROM line_tokens",
    "no table": "DROP TABLE line_tokens",
    "other table": "ALTER TABLE line_tokens RENAME COLUMN packed TO other",
}


def test_damaged_rows_are_made_from_the_text(tmp_path: Path, seen: list[str]) -> None:
    workspace = write_notes(tmp_path / "ws", NOTES)
    with open_memory(workspace, tmp_path / "home", OPENCLAW_MEM_PROFILE="workbench") as memory:
        memory.sync()
        index, wanted = memory.settings.index_path, answer(memory)
    assert len(wanted) > 8 and seen == []
    whole = index.read_bytes()
    for name, sql in DAMAGE.items():
        seen.clear()
        index.write_bytes(whole)
        with closing(apsw.Connection(str(index))) as connection:
            connection.execute(sql)
        with open_memory(workspace, tmp_path / "home") as memory:
            assert answer(memory) == wanted, name
            assert seen, name
            memory.sync()
            assert answer(memory) == wanted, name
