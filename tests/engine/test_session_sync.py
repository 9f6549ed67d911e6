"""Transcripts in the index: opting in, growing, being cut, ended, forgotten; and never those of others."""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.settings import ProviderSettings, Settings
from openclaw_mem_engine.demo.workspace import write_demo
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import MemoryFile
from openclaw_mem_engine.ranking.profiles import OPENCLAW_2026_2
from openclaw_mem_engine.stores.base import FileState
from openclaw_mem_engine.sync import index_update, transcript_changes
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.sync.transcript_changes import TranscriptState, enough, is_due, transcript_state
from openclaw_mem_engine.tools import memory_get
from openclaw_mem_engine.workspace.transcripts import Growth, read_transcript
from support.damage import looked, named
from support.embed_server import running_server
from support.goldens import MODEL, WORKSPACE, golden
from support.memories import age, backend_of, settings_for, write_notes
from support.transcripts import append, message, messages, with_sessions
from support.users import unprivileged_folder

S = 10**9


# -- the decision ---------------------------------------------------------------------------------------


def state(size: int = 100, inode: int = 7, mtime_s: int = 1_000, checked_s: int = 2_000) -> FileState:
    return FileState("sessions/a.jsonl", "sessions", "h", mtime_s * S, size, inode, checked_s * S)


def listed(size: int = 100, inode: int = 7, mtime_s: int = 1_000) -> MemoryFile:
    return MemoryFile("sessions/a.jsonl", "/a.jsonl", "sessions", size, mtime_s * S, inode)


@pytest.mark.parametrize(
    ("file", "known", "wanted"),
    [
        (listed(), None, "new"),
        (listed(), state()._replace(source="memory"), "new"),
        (listed(), state(), "same"),
        (listed(101, mtime_s=1_500), state(), "grown"),
        (listed(99), state(), "rewritten"),
        (listed(101, inode=8), state(), "rewritten"),
        (listed(100, inode=8), state(), "doubtful"),
        (listed(mtime_s=1_001), state(), "doubtful"),
        (listed(mtime_s=900), state(), "doubtful"),  # a clock that went back
        (listed(), state(checked_s=1_001), "doubtful"),
        (listed(), state(checked_s=900), "doubtful"),
        (listed(), state(checked_s=0), "rewritten"),
        (listed(200), state(checked_s=0), "rewritten"),
    ],
)
def test_the_state_of_a_file_against_the_index(
    file: MemoryFile, known: FileState | None, wanted: TranscriptState
) -> None:
    assert transcript_state(file, known) == wanted


@pytest.mark.parametrize(
    ("thresholds", "grown", "due"),
    [
        ((100, 5), (99, 4), False),
        ((100, 5), (100, 1), True),
        ((100, 5), (10, 5), True),
        ((0, 5), (1, 1), True),
        ((100, 0), (1, 1), True),
        ((0, 0), (0, 0), False),
        ((100_000, 50), (99_999, 49), False),
    ],
)
def test_when_growth_is_due(thresholds: tuple[int, int], grown: tuple[int, int], due: bool) -> None:
    assert is_due(Growth(*grown), enough(*thresholds)) is due


# -- in the index ---------------------------------------------------------------------------------------


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    folder = tmp_path / "state/agents/main/sessions"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = write_notes(tmp_path / "ws", {"MEMORY.md": "The gateway runs on the ARM board.\n"})
    age(root / "MEMORY.md")
    return root


@pytest.fixture
def memory(workspace: Path, sessions: Path, tmp_path: Path) -> Iterator[Memory]:
    put(sessions / "one.jsonl", messages("How is the greenhouse?", "The pump restarted twice."))
    chosen = with_sessions(
        workspace, tmp_path / "home", sessions, session_delta_bytes=400, session_delta_messages=3
    )
    with Memory.open(chosen) as opened:
        yield opened


def put(path: Path, content: str) -> Path:
    path.write_text(content)
    age(path)
    return path


def known(memory: Memory) -> dict[str, FileState]:
    return dict(backend_of(memory).store.files())


def hits(memory: Memory, query: str) -> set[tuple[str, int, int]]:
    return {(hit.path, hit.start_line, hit.end_line) for hit in memory.search(query).hits}


def quiet(memory: Memory) -> None:
    """Nothing is to be done, and nothing is done."""
    generation = backend_of(memory).store.generation()
    freshness = memory.freshness()
    assert (freshness.state, freshness.changed_count) == ("fresh", 0)
    report = memory.sync()
    assert (report.changed, report.removed) == ((), ())
    assert backend_of(memory).store.generation() == generation


def test_transcripts_are_searched_beside_notes_and_cannot_be_read_as_files(memory: Memory) -> None:
    report = memory.sync()
    assert (report.files, report.chunks, report.notes) == (2, 2, [])
    assert sorted(report.changed) == ["MEMORY.md", "sessions/one.jsonl"]
    (hit,) = memory.search("pump").hits
    assert (hit.source, hit.path, hit.start_line, hit.end_line) == ("sessions", "sessions/one.jsonl", 1, 2)
    assert hit.text == "User: How is the greenhouse?\nAssistant: The pump restarted twice."
    answer = memory_get(memory.settings, {"path": hit.path})
    assert (answer["text"], answer["disabled"]) == ("", True)
    assert "no-sessions" not in {note.code for note in memory.notes}
    quiet(memory)


def test_without_opting_in_none_is_looked_at(memory: Memory) -> None:
    memory.sync()
    with Memory.open(replace(memory.settings, sources=("memory",))) as other:
        assert other.freshness().state == "stale"
        report = other.sync()
        assert (report.rebuilt, report.files, hits(other, "pump")) == (True, 1, set())
    with Memory.open(replace(memory.settings, sources=("sessions",))) as other:
        assert (other.sync().files, len(hits(other, "pump")), hits(other, "gateway")) == (1, 1, set())


def test_only_those_of_this_agent(memory: Memory, sessions: Path) -> None:
    others = sessions.parents[1] / "work/sessions"
    others.mkdir(parents=True)
    put(others / "theirs.jsonl", message("The walrus password"))
    (sessions / "link.jsonl").symlink_to(others / "theirs.jsonl")
    (sessions / "folder").symlink_to(others)
    report = memory.sync()
    assert [s.path for s in report.excluded] == ["sessions/link.jsonl"]
    assert hits(memory, "walrus") == set()


def test_growth_waits_for_either_threshold(memory: Memory, sessions: Path) -> None:
    path = sessions / "one.jsonl"
    memory.sync()
    for text in ("Is the otter fed?", "It is."):
        append(path, message(text))
        quiet(memory)
    assert hits(memory, "otter") == set()
    append(path, message("Good."))
    assert memory.freshness().changed == ("sessions/one.jsonl",)
    assert memory.sync().changed == ("sessions/one.jsonl",)
    assert {place[1:] for place in hits(memory, "otter")} == {(1, 5)}
    append(path, message("x " * 200 + "beaver"))
    assert memory.sync().changed == ("sessions/one.jsonl",)
    assert hits(memory, "beaver")
    quiet(memory)


def test_without_thresholds_any_whole_line_counts(memory: Memory, sessions: Path) -> None:
    path = sessions / "one.jsonl"
    eager = replace(
        memory.settings,
        sync=replace(memory.settings.sync, session_delta_bytes=0, session_delta_messages=50),
    )
    with Memory.open(eager) as opened:
        opened.sync()
        line = message("Is the otter fed?")
        append(path, line[:30])
        quiet(opened)  # however often it is looked at: the line is not finished
        append(path, line[30:])
        assert opened.sync().changed == ("sessions/one.jsonl",)
        assert {place[1:] for place in hits(opened, "otter")} == {(1, 3)}
        quiet(opened)


def test_what_was_half_written_counts_when_it_is_whole(memory: Memory, sessions: Path) -> None:
    """A long line that was half there at the last sync is new, though its beginning is old."""
    path = put(sessions / "two.jsonl", message("before") + message("otter " * 80)[:440])
    memory.sync()
    assert known(memory)["sessions/two.jsonl"].size == len(message("before"))
    append(path, message("otter " * 80)[440:])
    assert memory.sync().changed == ("sessions/two.jsonl",)
    assert hits(memory, "otter")


@pytest.mark.parametrize("how", ["cut", "shorter", "rotated", "same size"])
def test_a_transcript_that_is_another_counts_whole_at_once(memory: Memory, sessions: Path, how: str) -> None:
    path = sessions / "one.jsonl"
    memory.sync()
    size = path.stat().st_size
    if how == "cut":
        os.truncate(path, len(messages("How is the greenhouse?")))
    elif how == "shorter":
        path.write_text(message("otter"))
    elif how == "rotated":  # the old one is archived, a new one is longer by a little
        path.rename(path.with_name("one.jsonl.reset.2026-01-01"))
        path.write_text(message("otter " * 30))
        assert size < path.stat().st_size < size + 400
    else:
        path.write_text(path.read_text().replace("pump", "otter")[: size - 1] + "\n")
        os.truncate(path, size)
    assert memory.freshness().changed == ("sessions/one.jsonl",)
    assert memory.sync().changed == ("sessions/one.jsonl",)
    assert hits(memory, "pump") == set()
    assert bool(hits(memory, "otter")) is (how in ("shorter", "rotated"))
    assert memory.freshness().state == "fresh"


def test_a_new_time_on_the_same_talk_is_no_change(memory: Memory, sessions: Path) -> None:
    memory.sync()
    os.utime(sessions / "one.jsonl")
    quiet(memory)
    os.utime(sessions / "one.jsonl", (1, 1))  # a clock that went back
    quiet(memory)


def test_deleted_transcripts_leave_the_index(memory: Memory, sessions: Path) -> None:
    put(sessions / "two.jsonl", message("The otter is fed."))
    memory.sync()
    (sessions / "two.jsonl").rename(sessions / "two.jsonl.deleted.2026-01-01")
    report = memory.sync()
    assert (report.removed, hits(memory, "otter")) == (("sessions/two.jsonl",), set())
    assert memory.freshness().state == "fresh", "an archive is left out by rule"
    shutil.rmtree(sessions)
    assert memory.sync().removed == ("sessions/one.jsonl",)
    assert hits(memory, "pump") == set()


@pytest.mark.parametrize("closed", ["one.jsonl", "."])
def test_what_may_not_be_read_just_now_keeps_its_old_text(closed: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("becoming another user takes root")
    with unprivileged_folder() as folder:
        sessions = folder / "sessions"
        sessions.mkdir()
        put(sessions / "one.jsonl", message("The pump restarted twice."))
        workspace = write_notes(folder / "ws", {"MEMORY.md": "gateway\n"})
        with Memory.open(with_sessions(workspace, folder / "home", sessions)) as memory:
            memory.sync()
            (sessions / closed).chmod(0)
            report = memory.sync()
            assert ["may not be read" in file.reason for file in report.excluded] == [True]
            assert (report.removed, len(hits(memory, "pump"))) == ((), 1)
            assert memory.freshness().state == "partial"
            (sessions / closed).chmod(0o700)
            assert memory.sync().excluded == []


def test_an_agent_without_sessions_is_no_error(workspace: Path, sessions: Path, tmp_path: Path) -> None:
    with Memory.open(with_sessions(workspace, tmp_path / "home", sessions / "none")) as memory:
        report = memory.sync()
        assert (report.files, [s.path for s in report.excluded]) == (1, ["sessions"])
        assert memory.freshness().state == "fresh"


def test_broken_lines_are_told_once(memory: Memory, sessions: Path) -> None:
    for place in range(5):
        put(sessions / f"b{place}.jsonl", message("hello") + "broken\n" + "[" * 99_999 + "\n")
    (note,) = memory.sync().notes
    assert (note.code, note.level) == ("broken-lines", "info")
    assert (
        "were excluded: 10 in sessions/b0.jsonl, sessions/b1.jsonl, sessions/b2.jsonl and 2 more" in note.text
    )
    assert memory.sync().notes == []


def test_a_line_that_is_too_long_is_told_as_such(memory: Memory, sessions: Path) -> None:
    long = message("x" * (9 * 2**20), "toolResult")
    put(sessions / "long.jsonl", message("hello") + long + "broken\n" + message("otter"))
    notes = {note.code: note.text for note in memory.sync().notes}
    assert notes == {
        code: f"Lines of transcripts that are {what} were excluded: 1 in sessions/long.jsonl."
        for code, what in {"broken-lines": "no JSON", "long-lines": "longer than 8 MB"}.items()
    }
    assert hits(memory, "otter")


def test_of_too_much_talk_the_first_part_is_kept(
    memory: Memory, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation that grows past the limit: what was found is found, and nothing is read, or embedded,
    again and again."""
    path = put(sessions / "big.jsonl", messages(*(f"The otter number {n} is fed." for n in range(40))))
    limited = replace(memory.settings, max_file_bytes=2_000, provider=ProviderSettings("static"))
    with Memory.open(limited) as opened:
        assert opened.sync(SyncRequest(force=True)).notes == []
        before = {chunk.chunk_id for chunk in backend_of(opened).store.chunks_of("sessions/big.jsonl")}
        append(path, messages(*(f"The beaver number {n} is fed." for n in range(200))))
        report = opened.sync()
        assert (report.changed, report.removed) == (("sessions/big.jsonl",), ())
        cut_text = "only the first 2,000 bytes of text are searched"
        assert [(s.path, s.reason) for s in report.excluded] == [("sessions/big.jsonl", cut_text)]
        (note,) = report.notes
        assert (note.code, note.level) == ("transcripts-cut", "warning")
        assert note.text == f"Of long conversations {cut_text}: sessions/big.jsonl."
        kept = {chunk.chunk_id for chunk in backend_of(opened).store.chunks_of("sessions/big.jsonl")}
        assert len(before - kept) <= 1, "all but the last chunk stay as they were"
        assert {path for path, _, _ in hits(opened, "otter number")} == {"sessions/big.jsonl"}
        generation = backend_of(opened).store.generation()
        with monkeypatch.context() as patch:
            for module in (index_update, transcript_changes):
                patch.setattr(module, "read_transcript", _not_the_big_one)
            patch.setattr(transcript_changes, "growth_of", _never)
            for _ in range(2):
                append(path, messages(*(f"The walrus number {n} is fed." for n in range(200))))
                age(path)
                freshness = opened.freshness()
                assert (freshness.state, freshness.changed) == ("partial", ())
                assert [(s.path, s.reason) for s in freshness.excluded] == [("sessions/big.jsonl", cut_text)]
                again = opened.sync()
                assert (again.changed, again.embedded, again.notes) == ((), 0, [])
                assert backend_of(opened).store.generation() == generation
        assert opened.sync(SyncRequest(verify=True)).changed == ()
        assert hits(opened, "walrus") & {("sessions/big.jsonl", 1, 1)} == set()
    found = looked(limited, deep=True)
    assert {finding.code for finding in found.findings} == {"transcripts-cut", "unshown"}
    assert named(found, "transcripts-cut").evidence == (f"sessions/big.jsonl: {cut_text}",)
    with Memory.open(replace(limited, max_file_bytes=100_000)) as wider:
        report = wider.sync()
        assert (report.changed, report.excluded, report.notes) == (("sessions/big.jsonl",), [], [])
        assert hits(wider, "walrus")
        put(path, message("otter"))
        assert wider.sync().changed == ("sessions/big.jsonl",)
        assert wider.freshness().state == "fresh"


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a conversation that was cut is not read again")


def _not_the_big_one(absolute: str, *limits: Any, **how: Any) -> Any:
    return read_transcript(absolute, *limits, **how) if "big" not in absolute else _never()


def test_secrets_never_reach_the_index(memory: Memory, sessions: Path) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz123456"
    put(sessions / "two.jsonl", message(f"my key is {secret}"))
    memory.sync()
    (hit,) = memory.search("my key").hits
    assert hit.text == "User: my key is sk-abc…3456"
    assert secret.encode() not in memory.settings.index_path.read_bytes()


def test_half_characters_are_stored(memory: Memory, sessions: Path) -> None:
    line = '{"type":"message","message":{"role":"user","content":"otter \\ud83d"}}\n'
    put(sessions / "two.jsonl", line)
    memory.sync()
    (hit,) = memory.search("otter").hits
    assert hit.text == "User: otter \ufffd"


def test_a_plan_counts_transcripts_too(memory: Memory) -> None:
    planned = memory.plan()
    assert (planned.files, planned.chunks) == (2, 2)
    memory.sync()
    assert (memory.plan().files, memory.plan(SyncRequest(force=True)).files) == (0, 2)


# -- the original, and the demo -----------------------------------------------------------------------------


def write_recorded(folder: Path) -> None:
    recorded = golden("sessions")
    for name in ("s1", "s5"):
        (folder / f"{name}.jsonl").write_text(recorded[name]["jsonl"], "utf-8")
    (folder / "s2.jsonl").write_text('{"type":"session","id":"s2"}\n')


@pytest.mark.goldens
def test_the_recorded_index(sessions: Path, tmp_path: Path) -> None:
    workspace = tmp_path / "recorded"
    shutil.copytree(WORKSPACE, workspace)
    write_recorded(sessions)
    wanted = golden("sessions_index")
    with running_server() as server:
        provider = ProviderSettings("openai", MODEL, base_url=server.base_url, api_key=Secret("test-key"))
        chosen = replace(with_sessions(workspace, tmp_path / "home", sessions), provider=provider)
        with Memory.open(chosen) as memory:
            memory.sync()
            store: Any = backend_of(memory).store
            files = [s for s in store.files().values() if s.source == "sessions"]
            by_path = {item["path"]: item["hash"] for item in wanted["files"]}
            assert {s.path: s.hash for s in files} == by_path
            rows = store._db.read(
                """SELECT path, source, start_line, end_line, lower(hex(hash)) FROM chunks
                WHERE source = 'sessions'"""
            )
            assert sorted(rows) == sorted(tuple(chunk.values()) for chunk in wanted["chunks"])
            for counted in wanted["status"]["sourceCounts"]:
                sql = "SELECT count(*) FROM {} WHERE source = ?"
                found = [
                    store._db.read(sql.format(t), (counted["source"],))[0][0] for t in ("files", "chunks")
                ]
                assert found == [counted["files"], counted["chunks"]]
            assert list(store.fingerprint().sources) == wanted["meta"]
            knobs = OPENCLAW_2026_2.set({"min_score": 0, "max_results": len(wanted["search"])})
            answer = memory.search("wifi plan", knobs)
            assert [hit.to_dict() for hit in answer.hits] == [
                {**hit, "score": pytest.approx(hit["score"], abs=2e-6)} for hit in wanted["search"]
            ]


def test_the_sessions_of_the_demo(tmp_path: Path) -> None:
    workspace = write_demo(tmp_path / "demo", datetime.date(2026, 3, 29))
    sessions = tmp_path / "demo/agents/main/sessions"
    chosen: Settings = with_sessions(workspace, tmp_path / "home", sessions)
    with Memory.open(chosen) as memory:
        report = memory.sync()
        count = len(list(sessions.glob("*.jsonl")))
        assert (report.notes, report.excluded) == ([], [])
        assert sum(path.startswith("sessions/") for path in report.changed) == count == 6
        found = memory.search("order of work before you lose the network").hits
        assert "sessions" in {hit.source for hit in found}
        assert memory.freshness().state == "fresh"
    # Whoever has not opted in finds none of it.
    with Memory.open(replace(settings_for(workspace, tmp_path / "other"), provider=chosen.provider)) as plain:
        assert not any(path.startswith("sessions/") for path in plain.sync().changed)
