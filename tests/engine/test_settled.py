"""A comparison that found nothing is kept as a digest of the listing; then the next one reads no rows of
files. It must find whatever a full comparison finds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.stores.base import IndexStore
from openclaw_mem_engine.stores.sqlite import database
from openclaw_mem_engine.stores.sqlite.reader import SqliteReader
from openclaw_mem_engine.stores.sqlite.store import SqliteIndex
from openclaw_mem_engine.sync import index_update
from openclaw_mem_engine.sync.changes import digest_of, listed, scan
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.workspace import opening, reading, walk
from openclaw_mem_engine.workspace.walk import Listing
from support.memories import settings_for, write_notes
from support.transcripts import append, message, with_sessions

DIGEST = """
import sys
from pathlib import Path
from openclaw_mem_engine.sync.changes import digest_of
from openclaw_mem_engine.workspace.listing import list_memory
print(digest_of(list_memory(Path(sys.argv[1]))))
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Of a workspace where a file is settled as soon as the clock of its disk goes on."""
    monkeypatch.setattr(opening, "RACY_NS", 0)
    notes = {f"memory/{folder}/{n}.md": f"router number {n}\n" for folder in "ab" for n in range(6)}
    workspace = write_notes(tmp_path / "ws", notes)
    return settings_for(workspace, tmp_path / "home", OPENCLAW_MEM_PROVIDER="none")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for every time that the rows of files were read, or records made of listed ones."""
    seen, files, listed = list[str](), SqliteReader.files, vars(Listing)["files"]

    def counted(self: SqliteReader) -> object:
        seen.append("files")
        return files(self)

    def made(self: Listing) -> object:
        seen.append("listed")
        return listed.func(self)

    monkeypatch.setattr(SqliteReader, "files", counted)
    monkeypatch.setattr(Listing, "files", property(made))
    return seen


def tick(settings: Settings) -> None:
    """Wait until what is written next to the notes is later than what was written before."""
    probe = settings.index_path.parent.parent / "tick"
    probe.touch()
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.write_text("")


def settle(settings: Settings, **others: object) -> None:
    """Bring the index up to date, and look twice: what has just been written is settled then."""
    with Memory.open(replace(settings, **others)) as memory:  # type: ignore[arg-type]
        for _ in range(3):
            tick(settings)
            memory.sync()


def kept(settings: Settings) -> str:
    with closing(SqliteIndex(settings.index_path)) as store:
        return store.settled()[1]


def test_a_look_at_settled_files_reads_none_of_their_rows(settings: Settings, reads: list[str]) -> None:
    settle(settings)
    assert kept(settings) == f"12 {digest_of(listed(settings))}"
    for resident in (False, True):
        with Memory.open(settings, resident=resident) as memory:
            reads.clear()
            report, known = memory.sync(), memory.freshness()
            assert (report.files, report.changed, known.state, reads) == (12, (), "fresh", [])
            assert memory.sync(SyncRequest(verify=True)).verified == 12, "that reads every file all the same"
    (settings.workspace / "memory/a/1.md").write_text("router number one\n", "utf-8")
    with Memory.open(settings) as memory:
        reads.clear()
        assert memory.sync().changed == ("memory/a/1.md",)
        assert {*reads} == {"files", "listed"}
    assert kept(settings) == "", "another row of a file is there"


def test_the_digest_is_the_same_in_every_process(settings: Settings) -> None:
    command = [sys.executable, "-c", DIGEST, str(settings.workspace)]
    found = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True)
        for seed in ("1", "2")
    ]
    assert {done.stdout.decode().strip() for done in found} == {digest_of(listed(settings))}


def test_what_the_index_itself_excludes_is_still_named(settings: Settings) -> None:
    (settings.workspace / "memory/a/binary.md").write_bytes(b"\xff\xfe\x00")
    settle(settings)
    with Memory.open(settings) as memory:
        assert [file.path for file in memory.sync().excluded] == ["memory/a/binary.md"]
        assert memory.freshness().state == "partial"
    assert kept(settings) == ""


def test_a_transcript_that_grows_is_found(tmp_path: Path, settings: Settings) -> None:
    talk = tmp_path / "sessions/one.jsonl"
    talk.parent.mkdir()
    append(talk, message("the first line"))
    talks = with_sessions(settings.workspace, tmp_path / "home", talk.parent)
    settle(talks)
    assert kept(talks)
    append(talk, message("and the second one"))
    with Memory.open(talks) as memory:
        assert memory.sync(SyncRequest(tails=True)).changed == ("sessions/one.jsonl",)


def test_nothing_is_kept_of_rows_that_changed_meanwhile_nor_waited_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(settings)
    monkeypatch.setattr(database, "BUSY_TIMEOUT_MS", 3_600_000)
    with closing(SqliteIndex(settings.index_path)) as store:
        files, digest = store.settled()
        with closing(apsw.Connection(str(store.path))) as other:
            other.execute("BEGIN IMMEDIATE")
            store.settle(files, "another")
        assert store.settled() == (files, digest)
        store.touch([*store.files().values()][:1])
        store.settle(files, digest)
        assert store.settled()[1] == ""


@pytest.mark.parametrize("tick_ns", [4_000_000, 1_000_000_000, 2_000_000_000])
def test_a_file_that_may_be_written_again_in_the_same_tick_is_not_settled(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, tick_ns: int
) -> None:
    """On a disk with coarse times, which does not say when content changed: 2 s are the ticks of FAT."""
    now_ns = time.time_ns()
    monkeypatch.setattr(opening, "RACY_NS", 2_000_000_000)
    monkeypatch.setattr(walk, "_HAS_CTIME", False)
    for module in (walk, reading):
        monkeypatch.setattr(module, "mtime_of", lambda status: status.st_mtime_ns // tick_ns * tick_ns)
    monkeypatch.setattr(time, "time_ns", lambda: now_ns)
    notes = [Path(file.absolute) for file in listed(settings).files]
    for note in notes:
        os.utime(note, ns=(0, now_ns - 60 * 10**9))
    note = notes[0]
    for age_ns in (tick_ns - 1, tick_ns // 2, 0, -tick_ns):  # the last is of a clock that was set back
        with Memory.open(settings) as memory:
            now_ns = now_ns // tick_ns * tick_ns + age_ns
            note.write_text(note.read_text("utf-8").swapcase(), "utf-8")
            os.utime(note, ns=(0, now_ns - min(age_ns, 0)))
            memory.sync()
            memory.sync()
            assert kept(settings) == ""
            note.write_text(note.read_text("utf-8").swapcase(), "utf-8")
            os.utime(note, ns=(0, now_ns - min(age_ns, 0)))
            assert memory.sync().changed == (listed(settings).files[0].path,)
    now_ns += 10 * 10**9
    with Memory.open(settings) as memory:
        memory.sync()
        assert kept(settings) == ""
        memory.sync()
    assert kept(settings), "it was read when no more of that tick could follow"


# -- whatever happens ---------------------------------------------------------------------------------------


def rewritten(path: Path) -> None:
    """Another text of the same length, with the old times."""
    before = path.stat()
    text = path.read_text("utf-8")
    path.write_text(text.swapcase(), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def linked(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/hostname")


def replaced(path: Path) -> None:
    """Another file of the same size and time at the same path."""
    other = path.with_suffix(".new")
    other.write_text(path.read_text("utf-8")[::-1], "utf-8")
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def moved_and_back(path: Path) -> None:
    folder = path.parent
    folder.rename(folder.with_name("z")).rename(folder)


@pytest.mark.parametrize("touched", [False, True], ids=["indexed", "compared"])
def test_an_edit_between_the_reading_of_a_note_and_its_record_is_found(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, touched: bool
) -> None:
    """However long that takes, and though the time of the note is set back."""
    note, read = settings.workspace / "memory/a/1.md", reading.read_note
    if touched:
        settle(settings)
        note.touch()

    def edited_meanwhile(path: str, *rest: Any) -> reading.NoteText:
        found = read(path, *rest)
        if path == str(note):
            tick(settings)
            rewritten(note)
            tick(settings)
        return found

    with Memory.open(settings) as memory:
        tick(settings)
        with monkeypatch.context() as patched:
            for module in (reading, index_update):
                patched.setattr(module, "read_note", edited_meanwhile)
            memory.sync()
        tick(settings)
        assert memory.sync().changed == ("memory/a/1.md",)


EDITS: list[Callable[[Path], object]] = [
    rewritten,
    linked,
    replaced,
    moved_and_back,
    lambda path: path.parent.rename(path.parent.with_name("other")),
    Path.touch,
    Path.unlink,
    lambda path: path.chmod(0o640),
    lambda path: path.write_text("longer than it was\n" * 3, "utf-8"),
    lambda path: path.rename(path.with_name(f"moved-{path.name}")),
    lambda path: path.with_name("new.md").write_text("a new note\n", "utf-8"),
    lambda path: path.with_suffix(".hard.md").hardlink_to(path),
    lambda path: path.with_suffix(".txt").write_text("no note", "utf-8"),
]
SETTINGS: list[dict[str, object]] = [{}, {"exclude": ("memory/a/*",)}, {"max_file_bytes": 20}]


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


class Full:
    """A store whose comparisons are made in full."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def settled(self) -> tuple[str, str]:
        return "", ""


def both(settings: Settings) -> Iterator[object]:
    """What differs, by the digest as far as it goes, and in full."""
    with closing(SqliteIndex(settings.index_path)) as store:
        for one in (store, Full(store)):
            found, skipped = scan(settings, one)  # type: ignore[arg-type]
            yield found.paths, [state.path for state in found.touched], skipped


@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_a_full_comparison_finds(
    settings: Settings, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, used, now = random.Random(seed), 0, settings
    settle(settings)
    for edit in chance.sample(EDITS, len(EDITS)):
        if chance.random() < 0.25:
            now = replace(settings, **chance.choice(SETTINGS))  # type: ignore[arg-type]
        tick(settings)
        edit(chance.choice(sorted(map(Path, (file.absolute for file in listed(now).files)))))
        if chance.random() < 0.3:  # a sync that ends in the middle
            with monkeypatch.context() as patched, suppress(KeyboardInterrupt), Memory.open(now) as memory:
                patched.setattr(
                    SqliteIndex, "finish", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
                )
                memory.sync()
        fast, full = both(now)
        assert fast == full
        settle(now)
        fast, full = both(now)
        assert fast == full
        assert not fast[0]  # type: ignore[index]
        used += bool(kept(now))
    assert used > 3, "some of this was seen by the digest alone"
