"""Edits that keep size and time: noticed by when the system last changed anything of the file."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import MemoryFile
from openclaw_mem_engine.sync import transcript_changes
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.workspace import reading
from openclaw_mem_engine.workspace.listing import list_memory, list_transcripts
from support.memories import age, backend_of, open_memory, write_notes
from support.transcripts import message, with_sessions

#: Longer than the two seconds within which a file may have been written twice in one tick of a clock.
LATER_S = 2.1

pytestmark = pytest.mark.skipif(os.name == "nt", reason="there ctime is when a file was made")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = write_notes(tmp_path / "ws", {f"memory/{n}.md": f"router number {n}\n" for n in range(20)})
    for path in root.rglob("*.md"):
        age(path)
    return root


@pytest.fixture
def memory(workspace: Path, tmp_path: Path) -> Iterator[Memory]:
    with open_memory(workspace, tmp_path / "home", provider="none") as opened:
        opened.sync()
        yield opened


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that were read to compare them."""
    read, seen = reading.read_note, list[str]()

    def counted(path: str, *rest: Any) -> Any:
        seen.append(Path(path).name)
        return read(path, *rest)

    monkeypatch.setattr(reading, "read_note", counted)
    return seen


def edit(path: Path, text: str) -> None:
    """Another text of the same length, and the old time restored, as ``touch -r`` does."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(text.encode())
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_size, before.st_mtime_ns, before.st_ino) == (
        after.st_size, after.st_mtime_ns, after.st_ino,
    )  # fmt: skip


def test_a_look_is_taken_once_and_a_time_that_was_set_back_hides_no_edit(
    memory: Memory, workspace: Path, reads: list[str]
) -> None:
    def looked_at() -> int:
        reads.clear()
        assert memory.sync().changed == ()
        return len(reads)

    time.sleep(LATER_S)
    assert (looked_at(), looked_at()) == (20, 0), "they were made just before they were indexed"
    for path in workspace.rglob("*.md"):
        path.chmod(0o600)
    time.sleep(LATER_S)
    assert (looked_at(), looked_at()) == (20, 0), "new permissions cost one look into each"
    edit(workspace / "memory/7.md", "badger")
    fresh = memory.freshness()
    assert (fresh.state, fresh.changed, len(reads)) == ("stale", ("memory/7.md",), 1)
    assert memory.sync().changed == ("memory/7.md",)
    assert [hit.path for hit in memory.search("badger").hits] == ["memory/7.md"]


def test_a_check_by_a_clock_that_was_ahead_hides_no_later_edit(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: now() + 86_400 * 10**9)
        memory.sync(SyncRequest(force=True))
    edit(workspace / "memory/7.md", "badger")
    assert memory.sync().changed == ("memory/7.md",)


def test_a_copy_with_old_times_in_the_place_of_a_note(
    memory: Memory, workspace: Path, tmp_path: Path
) -> None:
    note = workspace / "memory/7.md"
    other = tmp_path / "other.md"
    other.write_text(note.read_text().replace("router", "badger"))
    shutil.copystat(note, other)
    note.write_bytes(other.read_bytes())
    shutil.copystat(other, note)
    assert memory.sync().changed == ("memory/7.md",)


def test_a_transcript_whose_time_was_set_back(workspace: Path, tmp_path: Path) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    path = sessions / "one.jsonl"
    path.write_text(message("The walrus is fed."))
    age(path)
    with Memory.open(with_sessions(workspace, tmp_path / "home", sessions)) as memory:
        memory.sync()
        edit(path, message("The badger is fed."))
        assert memory.freshness().changed == ("sessions/one.jsonl",)
        assert memory.sync().changed == ("sessions/one.jsonl",)
        (hit,) = memory.search("badger").hits
        assert hit.path == "sessions/one.jsonl"


def test_a_listing_tells_the_time_that_nobody_can_set(workspace: Path, tmp_path: Path) -> None:
    (file, *_) = list_memory(workspace).files
    assert file.ctime_ns == os.stat(file.absolute).st_ctime_ns > file.mtime_ns  # noqa: PTH116
    (tmp_path / "one.jsonl").write_text(message("x"))
    (talk,) = list_transcripts(tmp_path).files
    assert talk.ctime_ns == (tmp_path / "one.jsonl").stat().st_ctime_ns


@pytest.mark.parametrize(
    ("ctime_s", "stands"), [(0, "same"), (97, "same"), (98, "doubtful"), (100, "doubtful"), (500, "doubtful")]
)
def test_how_a_transcript_stands_by_that_time(memory: Memory, ctime_s: int, stands: str) -> None:
    """Checked at 100 s; 0 is a system that does not tell."""
    second = 10**9
    state = backend_of(memory).store.files()["memory/7.md"]
    known = state._replace(mtime_ns=50 * second, size=9, inode=3, checked_ns=100 * second)
    file = MemoryFile(known.path, "/x", known.source, 9, 50 * second, 3, 1, ctime_s * second)
    assert transcript_changes.transcript_state(file, known) == stands
