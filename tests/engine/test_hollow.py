"""An index that lost its chunks is neither fresh nor verified: what files tell of it is not what it holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import IndexDamaged
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.sqlite.full_text import tables_of
from openclaw_mem_engine.sync.report import SyncRequest
from support.damage import alter, codes, indexed, looked, raw, type_in
from support.memories import age, write_notes
from support.transcripts import messages, with_sessions

NOTES = {
    "MEMORY.md": "# Long-term\n\nThe gateway is an ARM board.\n",
    "memory/2026-02-20.md": "The pump restarted twice.\n",
    "memory/blank.md": "\n \n",
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(indexed(tmp_path, NOTES)) as opened:
        yield opened


def test_without_any_chunk_every_file_is_stale_and_the_next_sync_reads_it(memory: Memory) -> None:
    alter(memory.settings, "DELETE FROM chunks", "UPDATE meta SET value = '99' WHERE key = 'generation'")
    assert memory.freshness().state == "stale" and memory.freshness().changed_count == 2
    report = memory.sync()
    assert report.rebuilt and [note.code for note in report.notes] == ["chunks-lost"]
    assert looked(memory.settings, deep=True).errors == 0
    assert memory.freshness().state == "fresh"
    assert memory.search("pump").hits[0].path == "memory/2026-02-20.md"
    assert memory.sync().changed == ()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM chunks WHERE path = 'MEMORY.md'",
        "DELETE FROM chunks_fts_stemmed WHERE rowid = 1",
        "DELETE FROM chunks_fts WHERE rowid = 1",
        "DROP TABLE chunks_fts_stemmed",
    ],
)
def test_a_lost_chunk_and_the_lost_words_of_one_are_damage_that_opening_finds(
    memory: Memory, statement: str
) -> None:
    alter(memory.settings, statement)
    with pytest.raises(IndexDamaged, match=r"chunks?, and words of \d"):
        Memory.open(memory.settings)
    type_in(memory.settings, "openclaw-mem search pump")
    assert codes(looked(memory.settings, deep=True)) == {"damaged-aside"}
    assert memory.search("gateway").hits[0].path == "MEMORY.md"


def lose(settings: Settings, where: str) -> None:
    """Chunks together with their words."""
    gone = f"WHERE rowid IN (SELECT seq FROM chunks WHERE {where})"
    with raw(settings) as connection:
        for table in tables_of(connection).values():
            connection.execute(f"DELETE FROM {table} {gone}")
        connection.execute(f"DELETE FROM chunks WHERE {where}")


def test_verify_compares_with_the_index_and_not_only_with_hashes(memory: Memory) -> None:
    lost = "memory/2026-02-20.md"  # the last one: its chunk's number is given again
    lose(memory.settings, f"path = '{lost}'")
    assert memory.sync().changed == (), "nothing but a look into the index would tell"
    report = memory.sync(SyncRequest(verify=True))
    assert report.changed == (lost,), "a blank note holds nothing to lose"
    assert memory.search("pump").hits[0].path == lost
    assert looked(memory.settings, deep=True).errors == 0
    assert memory.sync(SyncRequest(verify=True)).changed == ()


def test_verify_compares_transcripts_with_the_index(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    (sessions / "a.jsonl").write_text(messages("Where is the heron?", "At the pond."))
    (sessions / "empty.jsonl").write_text("{}\n")
    for path in sessions.iterdir():
        age(path)
    settings = with_sessions(write_notes(tmp_path / "ws", NOTES), tmp_path / "home", sessions)
    with Memory.open(settings) as memory:
        memory.sync()
        lose(settings, "source = 'sessions'")
        assert memory.sync(SyncRequest(verify=True)).changed == ("sessions/a.jsonl",)
        assert memory.sync(SyncRequest(verify=True)).changed == ()


@pytest.mark.parametrize("line", [None, 1])
@pytest.mark.parametrize("whole", [True, False])
def test_why_not_tells_a_lost_chunk_from_a_line_without_text(
    memory: Memory, line: int | None, whole: bool
) -> None:
    path = "memory/2026-02-20.md"
    if whole:
        lose(memory.settings, f"path = '{path}'")
    else:
        alter(memory.settings, f"UPDATE chunks SET path = 'memory/other.md' WHERE path = '{path}'")
    with pytest.raises(IndexDamaged, match=f"the chunk of {path}(:1)? is lost") as damage:
        memory.why_not("pump", path, line)
    blank = memory.why_not("pump", "memory/blank.md", line)
    assert blank.steps[-1].text == "it holds no text"
    (memory.settings.workspace / "memory/blank.md").write_text("The pump is new.\n")
    assert "modified since" in memory.why_not("pump", "memory/blank.md", line).steps[-1].text
    type_in(memory.settings, damage.value.repair.split("`")[1])
    memory.sync()
    assert memory.why_not("pump", path, line).returned


def test_a_note_whose_path_changed_in_the_index_is_not_lost(memory: Memory) -> None:
    """Its chunk, found by its id, counted as written, and went with the other path."""
    path = "memory/2026-02-20.md"
    for table in ("chunks", "files"):
        alter(memory.settings, f"UPDATE {table} SET path = 'memory/zzz.md' WHERE path = '{path}'")
    with pytest.raises(IndexDamaged, match="recorded as one of another"):
        memory.sync()
    type_in(memory.settings, "openclaw-mem search pump")
    assert memory.search("pump").hits[0].path == path
    assert codes(looked(memory.settings, deep=True)) == {"damaged-aside"}
