"""What cannot be read just now: its old text stays, in a sync and in a rebuild, whatever the system says."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import ChunkingSettings, Settings
from openclaw_mem_engine.curation.curator import Curator
from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import ExcludedFile
from openclaw_mem_engine.sync.changes import unreadable_now
from openclaw_mem_engine.sync.report import SyncRequest
from openclaw_mem_engine.workspace.listing import list_memory
from openclaw_mem_engine.workspace.opening import UNREADABLE
from support.damage import looked, named
from support.memories import open_memory, settings_for, write_notes
from support.transcripts import message, with_sessions
from support.users import unprivileged_folder

NOTES = {
    "MEMORY.md": "The router is gull.\n",
    "memory/a.md": "zeppelin one\n",
    "memory/deep/b.md": "heron two\n",
    "memory/deep/c.md": "otter three\n",
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    root = write_notes(tmp_path / "ws", NOTES)
    return settings_for(root, tmp_path / "home", OPENCLAW_MEM_PROVIDER="static")


@contextmanager
def failing(call: str, place: str, code: int = errno.EIO) -> Iterator[None]:
    """The system refuses one call about the places that end in ``place``."""
    real = getattr(os, call)

    def refuse(path: Any, *rest: Any, **named: Any) -> Any:
        if str(path).endswith(place):
            raise OSError(code, os.strerror(code))
        return real(path, *rest, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, refuse)
        yield


def hits(memory: Memory, query: str) -> set[str]:
    return {hit.path for hit in memory.search(query).hits if query in hit.text}


def all_found(memory: Memory) -> bool:
    words = ("router", "zeppelin", "heron", "otter")
    return set().union(*(hits(memory, word) for word in words)) == set(NOTES)


# -- a sync -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [errno.EIO, errno.ESTALE, errno.EMFILE, errno.ENOMEM, errno.EACCES])
@pytest.mark.parametrize("place", ["/deep", "/memory"])
def test_a_folder_that_fails_for_a_moment_loses_nothing(settings: Settings, code: int, place: str) -> None:
    with Memory.open(settings) as memory:
        memory.sync()
        with failing("scandir", place, code):
            report = memory.sync()
            assert (report.removed, report.files) == ((), 4)
            (file,) = report.excluded
            assert file.transient and file.reason.startswith("folder ")
            assert memory.freshness().state == "partial"
        assert all_found(memory)
        assert memory.sync().excluded == []
        assert memory.freshness().state == "fresh"


@pytest.mark.parametrize("place", ["/MEMORY.md", "/memory"])
def test_a_name_that_cannot_be_looked_at_loses_nothing(settings: Settings, place: str) -> None:
    with Memory.open(settings) as memory:
        memory.sync()
        with failing("lstat", place):
            report = memory.sync()
        assert (report.removed, [s.transient for s in report.excluded]) == ((), [True])
        assert all_found(memory)


def test_a_file_that_fails_while_it_is_read_keeps_its_old_text(settings: Settings) -> None:
    with Memory.open(settings) as memory:
        memory.sync()
        write_notes(settings.workspace, {"memory/a.md": "zeppelin two, and more\n"})
        with failing("open", "a.md"):
            report = memory.sync()
        assert [(s.path, s.transient) for s in report.excluded] == [("memory/a.md", True)]
        assert hits(memory, "zeppelin one") == {"memory/a.md"}


def test_an_extra_path_that_fails_keeps_its_notes(settings: Settings, tmp_path: Path) -> None:
    elsewhere = write_notes(tmp_path / "elsewhere", {"x.md": "walrus\n", "in/y.md": "walrus too\n"})
    with Memory.open(replace(settings, extra_paths=(str(elsewhere),))) as memory:
        memory.sync()
        for call in ("lstat", "scandir"):
            with failing(call, "/elsewhere"):
                report = memory.sync()
            assert (report.removed, [s.path for s in report.excluded]) == ((), ["../elsewhere"])
            assert hits(memory, "walrus") == {"../elsewhere/x.md", "../elsewhere/in/y.md"}


@pytest.mark.parametrize("call", ["scandir", "lstat"])
def test_transcripts_that_fail_keep_their_text(settings: Settings, tmp_path: Path, call: str) -> None:
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    (sessions / "one.jsonl").write_text(message("The walrus is fed."))
    chosen = with_sessions(settings.workspace, tmp_path / "home", sessions)
    with Memory.open(chosen) as memory:
        memory.sync()
        with failing(call, "/sessions" if call == "scandir" else "/one.jsonl"):
            report = memory.sync()
        assert (report.removed, [s.transient for s in report.excluded]) == ((), [True])
        assert hits(memory, "walrus") == {"sessions/one.jsonl"}


def test_what_is_gone_or_no_memory_any_more_is_removed(settings: Settings, tmp_path: Path) -> None:
    """By kind: none of these is readable later as it is."""
    root = settings.workspace
    with Memory.open(settings) as memory:
        memory.sync()
        (root / "memory/deep").rename(root / "memory/.deep")
        (root / "memory/a.md").rename(tmp_path / "a.md")
        (root / "memory/a.md").symlink_to(tmp_path / "a.md")
        (root / "MEMORY.md").unlink()
        report = memory.sync()
        assert sorted(report.removed) == sorted(NOTES)
        assert [s.transient for s in report.excluded] == [False, False]


def test_a_workspace_whose_names_alone_may_be_read_loses_nothing(as_nobody: Path) -> None:
    root = write_notes(as_nobody / "ws", NOTES)
    with Memory.open(settings_for(root, as_nobody / "home", OPENCLAW_MEM_PROVIDER="static")) as memory:
        memory.sync()
        root.chmod(0o400)
        try:
            report = memory.sync()
        finally:
            root.chmod(0o700)
        assert report.removed == () and all_found(memory)


def test_a_workspace_that_fails_is_an_error_with_words(settings: Settings) -> None:
    with (
        failing("listdir", "/ws"),
        pytest.raises(WorkspaceError, match="cannot be read just now: Input/output"),
    ):
        list_memory(settings.workspace)


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        (".", {"MEMORY.md", "memory/a.md", "memory/a\x01.md"}),
        ("memory", {"memory/a.md", "memory/a\x01.md"}),
        ("memory/a", set()),
        ("memory/a\\x01.md", {"memory/a\x01.md"}),  # as it is shown
        ("../x", {"../x/y.md"}),
    ],
)
def test_what_lies_below_a_place(place: str, kept: set[str]) -> None:
    paths = ["MEMORY.md", "memory/a.md", "memory/a\x01.md", "../x/y.md"]
    assert unreadable_now(paths, [ExcludedFile(place, "why", transient=True)]) == kept
    assert unreadable_now(paths, [ExcludedFile(place, "why")]) == set()


# -- a rebuild ----------------------------------------------------------------------------------------------


def test_a_rebuild_keeps_what_cannot_be_read_now(settings: Settings) -> None:
    with Memory.open(settings) as memory:
        memory.sync()
        with failing("scandir", "/deep"):
            with failing("open", "a.md"):
                report = memory.sync(SyncRequest(force=True))
            assert (report.rebuilt, report.files, report.chunks, report.removed) == (True, 4, 4, ())
            assert report.notes == []
            assert sorted(s.path for s in report.excluded) == ["memory/a.md", "memory/deep"]
            assert all_found(memory)
            assert memory.status().vectors == 4, "with their vectors"
            assert memory.status().freshness.state == "partial"
            found = named(looked(settings), "files-unreadable")
            assert found.severity == "warning"
            assert found.evidence == ("memory/deep: folder cannot be read: Input/output error",)
        report = memory.sync()
        assert (report.changed, report.removed, report.excluded) == ((), (), [])
    assert looked(settings, deep=True).findings == ()


def test_a_rebuild_as_another_user_keeps_what_may_not_be_read(as_nobody: Path) -> None:
    root = write_notes(as_nobody / "ws", NOTES)
    with Memory.open(settings_for(root, as_nobody / "home", OPENCLAW_MEM_PROVIDER="static")) as memory:
        memory.sync()
        (root / "memory/a.md").chmod(0)
        (root / "memory/deep").chmod(0)
        report = memory.sync(SyncRequest(force=True))
        assert (report.files, len(report.excluded)) == (4, 2)
        assert all_found(memory) and memory.freshness().state == "partial"
        for path, why in (("memory/a.md", UNREADABLE), ("memory/deep/b.md", f"folder {UNREADABLE}")):
            (step,) = (step for step in memory.why_not("heron", path).steps if step.name == "included")
            assert step.ok and step.text.endswith(why)
        (root / "memory/a.md").chmod(0o600)
        (root / "memory/deep").chmod(0o700)


@pytest.mark.parametrize("what", ["chunking", "model"])
def test_a_rebuild_with_other_settings_names_what_it_loses(settings: Settings, what: str) -> None:
    with Memory.open(settings) as memory:
        memory.sync()
    other = (
        replace(settings, chunking=ChunkingSettings(200, 20))
        if what == "chunking"
        else replace(settings, provider=replace(settings.provider, provider="none"))
    )
    with Memory.open(other) as memory:
        with failing("scandir", "/deep"):
            report = memory.sync(SyncRequest(force=True))
        assert (report.rebuilt, report.files) == (True, 2)
        (lost,) = [note for note in report.notes if note.code == "unreadable-lost"]
        assert lost.level == "warning"
        assert "memory/deep/b.md, memory/deep/c.md" in lost.text and "openclaw-mem index" in lost.text
        assert sorted(memory.sync().changed) == ["memory/deep/b.md", "memory/deep/c.md"]
        assert all_found(memory)


def test_a_rebuild_for_other_sources_keeps_what_fits(settings: Settings, tmp_path: Path) -> None:
    with Memory.open(replace(settings, provider=replace(settings.provider, provider="none"))) as memory:
        memory.sync()
    sessions = tmp_path / "sessions"
    sessions.mkdir()
    (sessions / "one.jsonl").write_text(message("The walrus is fed."))
    chosen = with_sessions(settings.workspace, tmp_path / "home", sessions)
    with Memory.open(chosen) as memory, failing("scandir", "/deep"):
        report = memory.sync()
        assert (report.rebuilt, report.files) == (True, 5) and all_found(memory)


# -- a workspace without notes ------------------------------------------------------------------------------


@pytest.mark.parametrize("force", [False, True])
def test_notes_that_are_all_gone_are_kept_until_told_otherwise(tmp_path: Path, force: bool) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "The pump.\n", "memory/a.md": "A valve.\n"})
    with open_memory(workspace, tmp_path, provider="none") as memory:
        memory.sync()
        shutil.rmtree(workspace)
        workspace.mkdir()  # as the empty folder on which a disk is mounted
        for _ in range(2):
            report = memory.sync(SyncRequest(force=force))
            assert (report.files, report.removed, report.rebuilt) == (2, (), force)
            assert (
                "the workspace has no notes: the index keeps its notes (2), and" in report.excluded[0].reason
            )
            answer = memory.search("pump")
            assert len(answer.hits) == 1 and memory.freshness().state == "stale"
            assert "The index is stale: the workspace has no notes" in " ".join(answer.warnings)
        report = memory.sync(SyncRequest(force=force, prune=True))
        assert report.files == 0 and memory.search("pump").hits == ()
        assert memory.freshness().excluded == ()
        write_notes(workspace, {"MEMORY.md": "The pump.\n", "memory/a.md": "A valve.\n"})
        assert memory.sync().files == 2
        (workspace / "MEMORY.md").unlink()
        assert memory.sync().removed == ("MEMORY.md",)


def test_a_memory_md_that_may_not_be_read_is_not_taken_for_none() -> None:
    with unprivileged_folder() as folder:
        settings = settings_for(write_notes(folder / "ws", NOTES), folder / "home")
        (settings.workspace / "MEMORY.md").chmod(0)
        with closing(Curator(settings)) as curator:
            budget = curator.material().budget
        assert (budget.path, budget.sentence) == ("", f"MEMORY.md was not read: {UNREADABLE}")
        (root,) = [check for check in looked(settings).checks if check.name == "root files"]
        assert root.detail == f"MEMORY.md: {UNREADABLE}"
