"""Bringing an index up to date: every way in which notes and settings change."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.settings import ChunkingSettings, ProviderSettings, Settings
from openclaw_mem_engine.errors import WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.circuit_breaker import Embedders
from openclaw_mem_engine.ranking.profiles import WORKBENCH
from openclaw_mem_engine.sync import index_update, update
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from openclaw_mem_engine.workspace import reading
from support.damage import alter
from support.memories import age, backend_of, settings_for, write_notes
from support.stores import content

NOTES = {
    "MEMORY.md": "# Long-term\n\nThe gateway runs on the ARM board.\n",
    "memory/2026-02-20.md": "The irrigation pump restarted twice.\n",
    "memory/network.md": "Router firmware 5.0.5 leaks memory.\n",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = write_notes(tmp_path / "ws", NOTES)
    for path in root.rglob("*.md"):
        age(path)
    return root


@pytest.fixture
def memory(workspace: Path, tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(with_provider(settings_for(workspace, tmp_path / "home"), "none")) as opened:
        yield opened


def with_provider(settings: Settings, provider: str) -> Settings:
    return replace(settings, provider=ProviderSettings(provider))  # type: ignore[arg-type]


def store_of(memory: Memory) -> Any:
    return backend_of(memory).store


def hits(memory: Memory, query: str) -> set[str]:
    return {hit.path for hit in memory.search(query).hits}


def same_as_fresh(memory: Memory, tmp_path: Path, *, ignore: tuple[str, ...] = ("cache",)) -> None:
    """The index holds what one made now from nothing would hold."""
    place = tmp_path / "fresh" / "main.sqlite"
    shutil.rmtree(place.parent, ignore_errors=True)
    with Memory.open(replace(memory.settings, index_path=place)) as fresh:
        fresh.sync()
    mine, wanted = content(memory.settings.index_path), content(place)
    for name in ignore:
        mine.pop(name), wanted.pop(name)
    assert mine == wanted


# -- what changes ---------------------------------------------------------------------------------------


def test_the_time_of_a_sync_is_that_of_the_clock_and_times_of_files_are_those_of_the_disk(
    memory: Memory,
) -> None:
    store = store_of(memory)
    for force, at in ((False, 1234.5), (True, 9876.5)):
        before = time.time_ns()
        embedders = Embedders(None)
        request = SyncRequest(force=force)
        clock = partial(float, at)
        never = threading.Event()
        update.update(memory.settings, store, embedders, request, print, never, clock, None, SyncReport())
        assert store.synced_at() == at
        assert all(before <= state.checked_ns <= time.time_ns() for state in store.files().values())
    assert memory.freshness().state == "fresh"


def test_the_first_sync_indexes_all_and_the_next_touches_nothing(memory: Memory) -> None:
    assert memory.freshness().state == "empty"
    first = memory.sync()
    assert (first.files, first.chunks, first.changed) == (3, 3, tuple(NOTES))
    assert (first.rebuilt, first.excluded, first.removed) == (False, [], ())
    assert memory.freshness().state == "fresh"
    generation = store_of(memory).generation()
    again = memory.sync()
    assert (again.files, again.chunks, again.changed, again.removed) == (3, 3, (), ())
    assert store_of(memory).generation() == generation
    assert hits(memory, "pump") == {"memory/2026-02-20.md"}


def test_edit_add_rename_and_delete(memory: Memory, workspace: Path, tmp_path: Path) -> None:
    memory.sync()
    write_notes(
        workspace, {"memory/network.md": "Switch firmware 7 is fine.\n", "memory/deep/er/new.md": "otter\n"}
    )
    (workspace / "memory/2026-02-20.md").rename(workspace / "memory/2026-02-21.md")
    (workspace / "MEMORY.md").unlink()
    freshness = memory.freshness()
    paths = (
        "MEMORY.md",
        "memory/2026-02-20.md",
        "memory/2026-02-21.md",
        "memory/deep/er/new.md",
        "memory/network.md",
    )
    assert (freshness.state, freshness.changed, freshness.changed_count) == ("stale", paths, 5)
    assert "stale" in {note.code for note in memory.retrieve("pump").notes}
    report = memory.sync()
    assert sorted(report.changed) == ["memory/2026-02-21.md", "memory/deep/er/new.md", "memory/network.md"]
    assert sorted(report.removed) == ["MEMORY.md", "memory/2026-02-20.md"]
    assert hits(memory, "router") == hits(memory, "gateway") == set()
    assert hits(memory, "pump") == {"memory/2026-02-21.md"}
    same_as_fresh(memory, tmp_path)


def test_a_file_cut_to_nothing_loses_its_chunks_and_stays_known(memory: Memory, workspace: Path) -> None:
    memory.sync()
    (workspace / "memory/network.md").write_text("")
    report = memory.sync()
    assert (report.files, report.chunks, report.changed) == (3, 2, ("memory/network.md",))
    assert hits(memory, "router") == set()
    assert memory.freshness().state == "fresh"


def test_an_edit_of_the_same_size_in_the_same_clock_tick_is_noticed(memory: Memory, workspace: Path) -> None:
    note = workspace / "memory/network.md"
    note.write_text("router one\n")
    stamp = note.stat().st_mtime_ns
    memory.sync()
    note.write_text("router two\n")
    os.utime(note, ns=(stamp, stamp))
    assert memory.sync().changed == ("memory/network.md",)
    assert hits(memory, "two") == {"memory/network.md"}


def test_a_new_time_on_old_text_is_no_change(memory: Memory, workspace: Path) -> None:
    memory.sync()
    generation = store_of(memory).generation()
    os.utime(workspace / "memory/network.md")
    assert memory.sync().changed == ()
    assert store_of(memory).generation() == generation
    state = store_of(memory).files()["memory/network.md"]
    assert state.mtime_ns == (workspace / "memory/network.md").stat().st_mtime_ns


@pytest.mark.parametrize("written", ["just now", "long ago"])
def test_files_without_text_are_told_and_not_tried_for_ever(
    memory: Memory, workspace: Path, written: str
) -> None:
    (workspace / "memory/photo.md").write_bytes(b"\x89PNG\0\0\0")
    (workspace / "memory/latin.md").write_bytes("crème".encode("latin-1"))
    if written == "long ago":
        age(workspace / "memory/photo.md")
        age(workspace / "memory/latin.md")
    reasons = {
        "memory/photo.md": "binary: NUL at byte 4",
        "memory/latin.md": "not UTF-8 at byte 2; save it as UTF-8",
    }
    first = memory.sync()
    assert {s.path: s.reason for s in first.excluded} == reasons
    assert not set(first.changed) & set(reasons) and sorted(first.without_text) == sorted(reasons)
    assert (first.removed, {s.path for s in first.newly_excluded}) == ((), set(reasons))
    assert (first.files, first.chunks) == (3, 3)
    generation = store_of(memory).generation()
    for _ in range(2):
        freshness = memory.freshness()
        assert (freshness.state, freshness.changed) == ("partial", ())
        again = memory.sync()
        assert ({s.path: s.reason for s in again.excluded}, again.changed) == (reasons, ())
        assert store_of(memory).generation() == generation
    (workspace / "memory/latin.md").write_text("crème brûlée")
    assert memory.sync().changed == ("memory/latin.md",)
    assert hits(memory, "creme") == {"memory/latin.md"}


def test_a_text_file_that_becomes_binary_loses_its_text(memory: Memory, workspace: Path) -> None:
    memory.sync()
    (workspace / "memory/network.md").write_bytes(b"router\0\0")
    report = memory.sync()
    assert [s.path for s in report.excluded] == ["memory/network.md"]
    assert (report.changed, report.without_text, report.removed) == (
        (),
        ("memory/network.md",),
        report.without_text,
    )
    assert ([s.path for s in report.newly_excluded], report.deleted) == (["memory/network.md"], [])
    assert (report.files, report.chunks) == (2, 2)
    assert hits(memory, "router") == set()


@pytest.mark.parametrize("closed", ["memory/network.md", "memory"])
def test_what_may_not_be_read_just_now_keeps_its_old_text(as_nobody: Path, closed: str) -> None:
    root = write_notes(as_nobody / "ws", NOTES)
    with Memory.open(with_provider(settings_for(root, as_nobody / "home"), "none")) as memory:
        memory.sync()
        (root / closed).chmod(0)
        report = memory.sync()
        assert [s.path for s in report.excluded] == [closed]
        assert "may not be read" in report.excluded[0].reason
        assert (report.files, report.removed) == (3, ())
        assert hits(memory, "router") == {"memory/network.md"}
        assert memory.freshness().state == "partial"
        (root / closed).chmod(0o700)
        assert memory.sync().excluded == []


def test_a_file_that_vanishes_between_scan_and_read(
    memory: Memory, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.sync()
    write_notes(workspace, {"memory/a.md": "alpha\n", "memory/b.md": "beta\n"})
    read = reading.read_note

    def vanish(path: str, *rest: Any) -> Any:
        (workspace / "memory/b.md").unlink(missing_ok=True)
        return read(path, *rest)

    monkeypatch.setattr(index_update, "read_note", vanish)
    report = memory.sync()
    assert report.changed == ("memory/a.md",)
    assert [(s.path, s.reason) for s in report.excluded] == [("memory/b.md", "does not exist")]
    assert memory.sync().excluded == []


def test_a_missing_workspace_is_an_error_and_the_index_keeps_its_content(
    memory: Memory, workspace: Path
) -> None:
    memory.sync()
    workspace.rename(workspace.with_name("away"))
    with pytest.raises(WorkspaceError, match="does not exist"):
        memory.sync()
    assert hits(memory, "router") == {"memory/network.md"}


# -- settings that change -------------------------------------------------------------------------------


def test_other_chunk_sizes_rebuild_and_take_equal_texts_from_the_cache(memory: Memory) -> None:
    with Memory.open(with_provider(memory.settings, "static")) as first:
        report = first.sync()
        assert (report.embedded, report.cache_hits) == (3, 0)
    other = replace(with_provider(memory.settings, "static"), chunking=ChunkingSettings(200, 20))
    with Memory.open(other) as second:
        assert second.freshness().state == "stale"
        report = second.sync()
        assert (report.rebuilt, report.embedded, report.cache_hits, report.chunks) == (True, 0, 3, 3)
        assert [n.text for n in report.notes] == [
            "Settings changed (chunking.tokens 400 → 200; chunking.overlap 80 → 20): the index was rebuilt."
        ]
        assert second.status().vectors == 3
        assert not second.sync().rebuilt
        assert second.sync(SyncRequest(force=True)).rebuilt


def test_an_index_of_the_schema_without_names_is_rebuilt_from_its_cache(memory: Memory) -> None:
    settings = with_provider(memory.settings, "static")
    with Memory.open(settings) as first:
        first.sync()
    alter(
        settings,
        """UPDATE meta SET value = replace(value, '"schema": 5', '"schema": 1') WHERE key = 'fingerprint'""",
    )
    with Memory.open(settings) as second:
        assert second.search("router").hits, "until then the other tables answer"
        report = second.sync()
        assert (report.rebuilt, report.embedded, report.cache_hits) == (True, 0, 3)
        assert [n.text for n in report.notes] == [
            "Settings changed (index format 1 → 5): the index was rebuilt."
        ]
        named = second.search("network", WORKBENCH.set({"mode": "bm25"}))
        assert named.hits[0].path == "memory/network.md"
        assert named.trace.rows[0].operands[0].note == "matches only with words of its path"


def test_what_no_search_shows_is_kept_and_a_lost_row_is_made_good(memory: Memory) -> None:
    memory.sync()
    shown = memory.unshown()
    # Kept: a count that was altered is the answer. Of an index that lost a row all counts are made anew.
    alter(memory.settings, "UPDATE unshown SET lines = lines + 1000")
    assert {path: found.lines - 1000 for path, found in memory.unshown().items()} == {
        path: found.lines for path, found in shown.items()
    }
    alter(memory.settings, "DELETE FROM unshown WHERE path = 'MEMORY.md'")
    assert memory.unshown() == shown != {}


def test_another_model_rebuilds_and_until_then_keywords_answer(memory: Memory, tmp_path: Path) -> None:
    memory.sync()  # without embeddings
    with Memory.open(with_provider(memory.settings, "static")) as other:
        pool = other.retrieve("router")
        assert "other-vectors" in {note.code for note in pool.notes}
        assert pool.fallback is not None
        assert [found.kind for found in pool.lists] == ["lexical"]
        report = other.sync()
        assert (report.rebuilt, report.embedded) == (True, 3)
        assert {found.kind for found in other.retrieve("router").lists} == {"vector", "lexical"}
        same_as_fresh(other, tmp_path, ignore=())
