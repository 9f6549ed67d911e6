"""The ends of transcripts: indexed when the talk is over, and told from a file that was written anew."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_session_sync import S, hits, known, memory, put, quiet, sessions, workspace

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync.changes import Comparison, changes_of
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.sync.transcript_changes import is_quiet
from openclaw_mem_engine.workspace.listing import list_transcripts
from openclaw_mem_engine.workspace.transcripts import ends_a_line, read_transcript
from support.memories import age
from support.transcripts import append, message, messages, with_sessions

__all__ = ["memory", "sessions", "workspace"]


# -- when nothing more is said --------------------------------------------------------------------------


def test_a_short_tail_counts_when_the_conversation_is_over(memory: Memory, sessions: Path) -> None:
    path = sessions / "one.jsonl"
    memory.sync()
    append(path, message("Is the otter fed?"))
    quiet(memory)
    age(path, 590)
    quiet(memory)
    age(path, 601)
    assert memory.freshness().changed == ("sessions/one.jsonl",)
    assert memory.plan().files == 1
    assert memory.sync().changed == ("sessions/one.jsonl",)
    assert {place[1:] for place in hits(memory, "otter")} == {(1, 3)}
    quiet(memory)


@pytest.mark.parametrize("ending", ["", '{"type":"message","mess', "\n"])
def test_an_end_that_is_no_line_yet_is_not_due_for_ever(memory: Memory, sessions: Path, ending: str) -> None:
    path = sessions / "one.jsonl"
    memory.sync()
    append(path, message("Is the otter fed?").rstrip("\n"))  # whole without its end
    age(path)
    assert memory.sync().changed == ("sessions/one.jsonl",)
    append(path, f"\n{ending}" if ending else "")
    age(path)
    memory.sync()
    quiet(memory)
    assert hits(memory, "otter")


def test_a_quiet_time_of_0_leaves_it_to_the_thresholds(
    workspace: Path, sessions: Path, tmp_path: Path
) -> None:
    path = put(sessions / "one.jsonl", messages("How is the greenhouse?"))
    chosen = with_sessions(workspace, tmp_path / "home", sessions, session_quiet_s=0)
    with Memory.open(chosen) as memory:
        memory.sync()
        append(path, message("Is the otter fed?"))
        age(path, 10**8)
        quiet(memory)


def test_a_clock_behind_the_files_waits_and_does_not_stumble(memory: Memory, sessions: Path) -> None:
    path = sessions / "one.jsonl"
    memory.sync()
    append(path, message("Is the otter fed?"))
    age(path, -(10**6))
    quiet(memory)
    append(path, message("y") + message("z"))  # the thresholds count all the same
    age(path, -(10**6))
    assert memory.sync().changed == ("sessions/one.jsonl",)
    quiet(memory)


@pytest.mark.parametrize(
    ("mtime_s", "quiet_s", "now_s", "wanted"),
    [
        (1_000, 600, 1_599, False),
        (1_000, 600, 1_600, True),
        (1_000, 600, 900, False),
        (1_000, 0, 10**9, False),
        (-1_000, 600, 0, True),
    ],
)
def test_when_a_transcript_is_quiet(mtime_s: int, quiet_s: int, now_s: int, wanted: bool) -> None:
    assert is_quiet(mtime_s * S, quiet_s, now_s * S) is wanted


# -- the same file, written anew ------------------------------------------------------------------------


def test_a_longer_rewrite_is_seen_where_its_lines_end(memory: Memory, sessions: Path) -> None:
    """The same file, written anew and longer: what was indexed does not end with a line any more."""
    path = sessions / "one.jsonl"
    memory.sync()
    size = path.stat().st_size
    path.write_text(message("Is the otter fed, and is it well?") + message("It is. " * 10))
    assert size < path.stat().st_size < size + 400
    assert memory.freshness().changed == ("sessions/one.jsonl",)
    assert memory.sync().changed == ("sessions/one.jsonl",)
    assert (bool(hits(memory, "otter")), hits(memory, "pump")) == (True, set())
    quiet(memory)


def test_a_rewrite_whose_lines_end_at_the_same_place_is_found_by_reading(
    memory: Memory, sessions: Path
) -> None:
    memory.sync()
    path = sessions / "one.jsonl"
    path.write_text(path.read_text().replace("pump", "lamp") + message("More."))
    listing, files = list_transcripts(sessions), {"sessions/one.jsonl": known(memory)["sessions/one.jsonl"]}
    assert changes_of(memory.settings, listing, files).changed == ()
    found = changes_of(memory.settings, listing, files, Comparison(verify=True))
    assert [file.path for file in found.changed] == ["sessions/one.jsonl"]
    age(path)  # and when the conversation is over it is read again anyway
    assert memory.sync().changed == ("sessions/one.jsonl",)
    assert (bool(hits(memory, "lamp")), hits(memory, "pump")) == (True, set())


@pytest.mark.parametrize(
    ("begin", "more"),
    [("{}\n", "{}\n"), ("{}", "\n{}\n"), ("{}", "\r\n{}\r\n"), ("", "{}\n"), ("{}\r\n", "{")],
)
def test_what_is_appended_leaves_the_end_of_a_line_where_it_was(
    begin: str, more: str, tmp_path: Path
) -> None:
    path = tmp_path / "one.jsonl"
    path.write_bytes(begin.encode())
    size = read_transcript(str(path)).size
    assert size == len(begin)
    path.write_bytes((begin + more).encode())
    (file,) = list_transcripts(tmp_path).files
    assert ends_a_line(file, size)


def test_a_refused_conversation_that_grows_is_not_read_at_every_message(
    memory: Memory, sessions: Path
) -> None:
    path = put(sessions / "big.jsonl", message("otter " * 1_000) + '{"half')
    with Memory.open(replace(memory.settings, max_file_bytes=2_000)) as opened:
        opened.sync()
        append(path, '": 1}\n' + message("More."))
        quiet_changes = opened.freshness()
        assert (quiet_changes.state, quiet_changes.changed) == ("partial", ())


# -- when somebody asked for it -----------------------------------------------------------------------------


def test_who_asks_for_an_index_gets_the_tails(memory: Memory, sessions: Path) -> None:
    path = sessions / "one.jsonl"
    memory.sync()
    append(path, message("Is the otter fed?"))
    assert memory.sync().changed == () and memory.plan().files == 0, "by itself it waits for more"
    assert memory.plan(SyncRequest(tails=True)).files == 1
    assert memory.sync(SyncRequest(tails=True)).changed == ("sessions/one.jsonl",)
    assert {place[1:] for place in hits(memory, "otter")} == {(1, 3)}
    assert memory.plan(SyncRequest(tails=True)).files == 0
    assert memory.sync(SyncRequest(tails=True)).changed == ()
    quiet(memory)


def test_a_line_that_is_not_whole_yet_is_no_tail(memory: Memory, sessions: Path) -> None:
    memory.sync()
    append(sessions / "one.jsonl", '{"type":"message","mess')
    assert memory.sync(SyncRequest(tails=True)).changed == ()
