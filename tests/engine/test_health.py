"""How each file stands to the index, and how it is cut: over real folders and a real index."""

from __future__ import annotations

import errno
import os
import random
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.inspection import FileRow, Overview
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.workspace.rules import source_of
from support.damage import indexed
from support.memories import open_memory, write_notes
from support.transcripts import append, messages, with_sessions

NOTES = {
    "MEMORY.md": "# Long-term\n\nThe gateway is an ARM board.\n",
    "memory/2026-02-20.md": "The pump restarted twice.\n",
    "memory/long.md": "\n".join(f"On day {day} the tank held {day * 7} litres." for day in range(200)),
}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    opened = open_memory(write_notes(tmp_path / "ws", NOTES), tmp_path / "home", resident=True)
    opened.sync()
    return opened


def rows(overview: Overview) -> dict[str, FileRow]:
    return {row.path: row for row in overview.files}


def test_a_fresh_index_is_indexed_through_and_through(memory: Memory) -> None:
    seen = memory.overview()
    assert {row.state for row in seen.files} == {"up-to-date"}
    assert sum(row.chunks for row in seen.files) == seen.counts.chunks == seen.spaces[0].vectors
    assert seen.number("up-to-date") == seen.counts.files == len(NOTES)
    assert seen.freshness.state == "fresh" and not seen.differences and seen.present == seen.wanted
    row = rows(seen)["MEMORY.md"]
    assert row.size == row.indexed_size == len(NOTES["MEMORY.md"]) and row.delta == 0 and row.hash


def test_every_way_in_which_a_file_can_stand(memory: Memory) -> None:
    root = memory.settings.workspace
    (root / "memory" / "picture.md").write_bytes(b"PNG\0\1\2")
    memory.sync()
    (root / "MEMORY.md").write_text(NOTES["MEMORY.md"] + "It has a fan.\n")
    (root / "memory" / "2026-02-20.md").unlink()
    (root / "memory" / "new.md").write_text("A new note.\n")
    (root / "memory" / "link.md").symlink_to(root / "MEMORY.md")
    seen = memory.overview()
    files = rows(seen)
    assert [row.state for row in seen.files] == [
        "modified",
        "not-indexed",
        "deleted",
        "excluded",
        "excluded",
        "up-to-date",
    ]
    assert files["MEMORY.md"].state == "modified" and files["MEMORY.md"].delta == len("It has a fan.\n")
    assert files["memory/new.md"].indexed_size is None and files["memory/new.md"].chunks == 0
    assert files["memory/2026-02-20.md"].chunks == 1, "a file that is gone is still found until the next sync"
    assert "NUL" in files["memory/picture.md"].why and "link" in files["memory/link.md"].why
    assert seen.freshness.state == "stale" and seen.freshness.changed_count == 3
    memory.sync()
    assert memory.overview().number("modified", "not-indexed", "deleted") == 0


def test_other_settings_are_told(tmp_path: Path) -> None:
    settings = indexed(tmp_path, NOTES)
    with open_memory(settings.workspace, settings.data_dir.parent, provider="none") as other:
        assert other.overview().differences == (), "keywords alone are served by any index"
    finer = replace(settings, chunking=replace(settings.chunking, tokens=200))
    with Memory.open(finer) as other:
        assert other.overview().differences == ("chunking.tokens 400 → 200",)
    with Memory.open(replace(settings, sources=("memory", "sessions"))) as other:
        assert other.overview().differences == ("sources memory → memory, sessions",)


# -- chunks -------------------------------------------------------------------------------------------------


def test_pieces_are_what_the_index_holds_and_cover_the_text(memory: Memory) -> None:
    for path in NOTES:
        seen = memory.anatomy(path)
        assert seen.state == "up-to-date" and seen.stored == len(seen.pieces)
        assert "\n".join(line.text for line in seen.lines) == NOTES[path]
        covered = {at for piece in seen.pieces for at in range(piece.first, piece.last + 1)}
        assert all(at in covered or not line.text.strip() for at, line in enumerate(seen.lines))
        for piece in seen.pieces:
            text = "\n".join(line.text for line in seen.lines[piece.first : piece.last + 1])
            assert (piece.text, piece.keyword, piece.embedded, piece.partial) == (text, True, True, False)
            assert piece.units == len(text) and piece.tokens == -(-len(text) // 4)
        ids = {row.chunk_id for row in memory.search(NOTES[path]).trace.rows}
        assert {piece.chunk_id for piece in seen.pieces} <= ids
    many = memory.anatomy("memory/long.md").pieces
    assert len(many) > 3 and many[0].shared == 0
    for before, piece in pairwise(many):
        assert piece.shared == before.last - piece.first + 1 > 0


def test_parts_of_a_long_line_are_told_as_such(tmp_path: Path) -> None:
    words = " ".join(random.Random(4).choices(["heron", "marten", "badger", "toad"], k=1_500))
    root = write_notes(tmp_path / "ws", {"MEMORY.md": f"short\n{words}\n\nend\n"})
    with open_memory(root, tmp_path / "home") as memory:
        memory.sync()
        seen = memory.anatomy("MEMORY.md")
        assert seen.state == "up-to-date" and sum(piece.partial for piece in seen.pieces) > 3
        assert {piece.start_line for piece in seen.pieces if piece.partial} <= {1, 2}


def test_equal_parts_of_one_line_are_one_chunk_and_no_difference(tmp_path: Path) -> None:
    root = write_notes(tmp_path / "ws", {"MEMORY.md": "x" * 9_600 + "\n"})
    with open_memory(root, tmp_path / "home") as memory:
        memory.sync()
        seen = memory.anatomy("MEMORY.md")
        assert seen.stored < len(seen.pieces) and seen.state == "up-to-date"


def test_what_is_not_indexed_is_shown_as_it_would_be(memory: Memory) -> None:
    root = memory.settings.workspace
    (root / "memory" / "new.md").write_text("A new note.\n")
    new = memory.anatomy("memory/new.md")
    assert (new.state, new.stored, len(new.pieces)) == ("not-indexed", 0, 1)
    assert not new.pieces[0].embedded and not new.pieces[0].keyword and new.pieces[0].chunk_id == ""
    (root / "MEMORY.md").write_text("Other text.\n")
    changed = memory.anatomy("MEMORY.md")
    assert changed.state == "modified" and changed.pieces[0].text == "Other text.\n"
    assert changed.stored == 1


def test_of_a_file_that_is_gone_the_chunks_are_put_together(memory: Memory) -> None:
    (memory.settings.workspace / "memory" / "long.md").unlink()
    seen = memory.anatomy("memory/long.md")
    assert seen.state == "deleted" and seen.stored == len(seen.pieces) > 3
    assert "\n".join(line.text for line in seen.lines) == NOTES["memory/long.md"]
    assert [line.number for line in seen.lines] == list(range(1, 201))
    assert seen.pieces[1].shared > 0


@pytest.mark.skipif(os.name == "nt", reason="no POSIX links")
def test_a_file_that_cannot_be_read_says_why(memory: Memory) -> None:
    note = memory.settings.workspace / "MEMORY.md"
    note.write_bytes(b"\xff\xfe bad")
    seen = memory.anatomy("MEMORY.md")
    assert seen.state == "excluded" and "UTF-8" in seen.why and seen.stored == 1
    note.unlink()
    note.symlink_to("/etc/hostname")
    seen = memory.anatomy("MEMORY.md")
    assert seen.state == "excluded" and "link" in seen.why
    assert all("ARM" in piece.text for piece in seen.pieces), "nothing of the link's target"


@pytest.mark.parametrize("path", ["memory/none.md", "../secret.md", "/etc/passwd", "", "notes.txt"])
def test_what_is_no_memory_is_refused(memory: Memory, path: str) -> None:
    (memory.settings.workspace / "notes.txt").write_text("no memory")
    with pytest.raises(UsageError, match="neither in the index nor a memory file"):
        memory.anatomy(path)


def test_an_empty_file_has_no_pieces(memory: Memory) -> None:
    (memory.settings.workspace / "memory" / "empty.md").write_text("")
    memory.sync()
    seen = memory.anatomy("memory/empty.md")
    assert seen.state == "up-to-date" and seen.pieces == () and seen.lines == ()


def test_transcripts_keep_the_lines_of_their_messages(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    append(sessions / "one.jsonl", "{}\n" + messages(*(f"what was said at place {n}" for n in range(300))))
    settings = with_sessions(write_notes(tmp_path / "ws", NOTES), tmp_path / "home", sessions)
    with Memory.open(settings) as memory:
        memory.sync()
        seen = memory.anatomy("sessions/one.jsonl")
        assert seen.source == "sessions" and seen.state == "up-to-date" and len(seen.pieces) > 1
        assert seen.lines[0].number == 2 and seen.lines[0].text.startswith("User: what was said at place 0")
        for piece in seen.pieces:
            assert not piece.embedded, "keywords alone"
            assert piece.start_line == seen.lines[piece.first].number
            assert piece.end_line == seen.lines[piece.last].number


def test_a_transcript_that_has_grown_too_little_is_shown_as_it_is_indexed(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    talk = sessions / "one.jsonl"
    append(talk, messages(*(f"what was said at place {n}" for n in range(300))))
    settings = with_sessions(
        write_notes(tmp_path / "ws", NOTES),
        tmp_path / "home",
        sessions,
        session_delta_bytes=10_000,
        session_delta_messages=3,
    )

    def standings(memory: Memory) -> tuple[str, str]:
        seen = memory.anatomy("sessions/one.jsonl")
        return rows(memory.overview())["sessions/one.jsonl"].state, seen.state

    with Memory.open(settings) as memory:
        memory.sync()
        before = memory.anatomy("sessions/one.jsonl")
        append(talk, messages("And one", "thing more"))
        assert standings(memory) == ("up-to-date", "up-to-date")
        assert memory.anatomy("sessions/one.jsonl") == before
        append(talk, messages("is too much."))
        assert standings(memory) == ("modified", "modified")
        assert memory.anatomy("sessions/one.jsonl").lines[-1].text == "User: is too much."
        memory.sync()
        assert standings(memory) == ("up-to-date", "up-to-date")


@pytest.mark.skipif(os.name == "nt", reason="no POSIX links")
def test_left_out_transcripts_are_told_as_transcripts(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    append(sessions / "one.jsonl", messages("The otter is fed."))
    (sessions / "link.jsonl").symlink_to(sessions / "one.jsonl")
    settings = with_sessions(write_notes(tmp_path / "ws", NOTES), tmp_path / "home", sessions)
    (settings.workspace / "memory" / "link.md").symlink_to(settings.workspace / "MEMORY.md")
    with Memory.open(settings) as memory:
        memory.sync()
        sources = {row.path: row.source for row in memory.overview().files if row.state == "excluded"}
        assert sources == {"sessions/link.jsonl": "sessions", "memory/link.md": "memory"}
        for path, source in sources.items():
            seen = memory.anatomy(path)
            assert (seen.state, seen.source) == ("excluded", source)


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("sessions", "sessions"),
        ("sessions/one.jsonl", "sessions"),
        ("sessions/*.jsonl.reset.*", "sessions"),
        ("sessions/ONE.JSONL", "sessions"),
        ("sessions/note.md", "memory"),
        ("memory/sessions/one.jsonl", "memory"),
        ("MEMORY.md", "memory"),
    ],
)
def test_which_source_a_path_is_of(path: str, source: str) -> None:
    assert source_of(path) == source


def test_a_file_that_cannot_be_read_now_is_not_called_indexed(tmp_path: Path) -> None:
    settings = indexed(
        tmp_path, NOTES | {"memory/deep/a.md": "The heron.\n", "memory/deep/b.md": "The owl.\n"}
    )
    with Memory.open(settings) as memory:
        real = os.scandir

        def failing(path: str) -> object:
            if str(path).endswith("deep"):
                raise OSError(errno.EIO, "Input/output error", path)
            return real(path)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "scandir", failing)
            files = rows(memory.overview())
        for path in ("memory/deep/a.md", "memory/deep/b.md"):
            row = files[path]
            assert (row.state, row.chunks) == ("excluded", 1) and "Input/output" in row.why
        assert files["MEMORY.md"].state == "up-to-date"
        assert rows(memory.overview())["memory/deep/a.md"].state == "up-to-date"


def test_what_waits_of_a_transcript_is_told(tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    append(sessions / "one.jsonl", messages("Where is the heron?", "At the pond."))
    settings = with_sessions(write_notes(tmp_path / "ws", NOTES), tmp_path / "home", sessions)
    with Memory.open(settings) as memory:
        memory.sync()
        more = messages("And the owl?")
        append(sessions / "one.jsonl", more)
        row = rows(memory.overview())["sessions/one.jsonl"]
        assert (row.state, row.delta) == ("up-to-date", len(more))
        memory.sync(SyncRequest(tails=True))
        assert rows(memory.overview())["sessions/one.jsonl"].delta == 0


def test_overlap_of_parts_of_a_line_is_what_their_texts_repeat(tmp_path: Path) -> None:
    words = " ".join(str(number) for number in range(4_000))
    with open_memory(write_notes(tmp_path / "ws", {"MEMORY.md": f"{words}\n"}), tmp_path / "home") as memory:
        memory.sync()
        pieces = memory.anatomy("MEMORY.md").pieces
        assert len(pieces) > 3 and all(piece.partial for piece in pieces)
        for before, piece in pairwise(pieces):
            repeated = piece.text[: piece.shared_units]
            assert before.text.endswith(repeated) and repeated
            assert piece.overlap == -(-piece.shared_units // 4)


# -- the doctor and the log ---------------------------------------------------------------------------------


def test_mending_is_written_down_and_searches_see_it(memory: Memory) -> None:
    import apsw

    with apsw.Connection(str(memory.settings.index_path)) as connection:
        connection.execute("DELETE FROM chunks_fts_stemmed")
    report = memory.examine()
    assert report.errors and report.fixable
    assert not [row for row in memory.search("pump").pool.lists if row.kind == "lexical" and row.rows]
    done, after = memory.repair(report)
    assert done and after is not None and not after.errors
    memory.sync()
    assert memory.search("pump").pool.first("lexical").rows  # type: ignore[union-attr]
    kinds = [event.kind for event in memory.events(10)]
    assert kinds == ["sync", "doctor", "doctor", "sync"]


def test_what_was_mended_is_told_although_the_look_after_it_was_stopped(memory: Memory) -> None:
    import apsw

    with apsw.Connection(str(memory.settings.index_path)) as connection:
        connection.execute("DELETE FROM chunks_fts_stemmed")
    stop = threading.Event()

    def stop_at_the_look(_done: int, _total: int, _label: str) -> None:
        stop.set()

    done, after = memory.repair(memory.examine(), stop_at_the_look, stop)
    assert after is None and len(done) == 1
    assert memory.events(1)[0].text == f"Repaired: {done[0]}"
    report = memory.examine()
    assert not report.errors
    assert memory.repair(report, stop_at_the_look, stop) == ([], None)
    assert [event.kind for event in memory.events(10)] == ["doctor", "sync"], "of nothing, nothing"
