"""Bringing an index up to date: every way in which notes change, and every way in which it is broken off."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.settings import CacheSettings, ChunkingSettings, ProviderSettings, Settings
from openclaw_mem_engine.errors import Cancelled, WorkspaceError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.providers.base import Embedders
from openclaw_mem_engine.ranking.profiles import WORKBENCH
from openclaw_mem_engine.sync import fingerprint, index_update, update
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from openclaw_mem_engine.workspace import reading
from support.damage import alter
from support.embed_server import Server, running_server, unauthorized
from support.memories import age, backend_of, settings_for, write_notes
from support.stores import content

ENGINE, TESTS = (Path(__file__).parents[2] / name for name in ("engine", "tests"))
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
    assert (first.rebuilt, first.skipped, first.removed) == (False, [], ())
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
    assert {s.path: s.reason for s in first.skipped} == reasons
    assert not set(first.changed) & set(reasons) and sorted(first.refused) == sorted(reasons)
    assert (first.removed, {s.path for s in first.left_out}) == ((), set(reasons))
    assert (first.files, first.chunks) == (3, 3)
    generation = store_of(memory).generation()
    for _ in range(2):
        freshness = memory.freshness()
        assert (freshness.state, freshness.changed) == ("partial", ())
        again = memory.sync()
        assert ({s.path: s.reason for s in again.skipped}, again.changed) == (reasons, ())
        assert store_of(memory).generation() == generation
    (workspace / "memory/latin.md").write_text("crème brûlée")
    assert memory.sync().changed == ("memory/latin.md",)
    assert hits(memory, "creme") == {"memory/latin.md"}


def test_a_text_file_that_becomes_binary_loses_its_text(memory: Memory, workspace: Path) -> None:
    memory.sync()
    (workspace / "memory/network.md").write_bytes(b"router\0\0")
    report = memory.sync()
    assert [s.path for s in report.skipped] == ["memory/network.md"]
    assert (report.changed, report.refused, report.removed) == ((), ("memory/network.md",), report.refused)
    assert ([s.path for s in report.left_out], report.gone) == (["memory/network.md"], [])
    assert (report.files, report.chunks) == (2, 2)
    assert hits(memory, "router") == set()


@pytest.mark.parametrize("closed", ["memory/network.md", "memory"])
def test_what_may_not_be_read_just_now_keeps_its_old_text(as_nobody: Path, closed: str) -> None:
    root = write_notes(as_nobody / "ws", NOTES)
    with Memory.open(with_provider(settings_for(root, as_nobody / "home"), "none")) as memory:
        memory.sync()
        (root / closed).chmod(0)
        report = memory.sync()
        assert [s.path for s in report.skipped] == [closed]
        assert "may not be read" in report.skipped[0].reason
        assert (report.files, report.removed) == (3, ())
        assert hits(memory, "router") == {"memory/network.md"}
        assert memory.freshness().state == "partial"
        (root / closed).chmod(0o700)
        assert memory.sync().skipped == []


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
    assert [(s.path, s.reason) for s in report.skipped] == [("memory/b.md", "does not exist")]
    assert memory.sync().skipped == []


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
            "Settings changed (chunk_tokens 400 → 200; chunk_overlap 80 → 20): the index was rebuilt."
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
        assert [n.text for n in report.notes] == ["Settings changed (schema 1 → 5): the index was rebuilt."]
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


# -- embedders that fail --------------------------------------------------------------------------------


def remote(settings: Settings, server: Server, path: Path | None = None) -> Settings:
    provider = ProviderSettings("openai", "m", base_url=server.base_url, api_key=Secret("test-key"))
    return replace(settings, provider=provider, index_path=path or settings.index_path)


def test_keywords_serve_while_the_embedder_is_down_and_vectors_follow(memory: Memory, tmp_path: Path) -> None:
    with (
        running_server(faults=[unauthorized()]) as server,
        Memory.open(remote(memory.settings, server)) as opened,
    ):
        report = opened.sync()
        assert [n.code for n in report.notes] == ["embedding-failed"]
        assert (report.files, report.chunks, report.embedded) == (3, 3, 0)
        assert hits(opened, "router firmware") >= {"memory/network.md"}
        codes = {note.code for note in opened.retrieve("router").notes}
        assert "vectors-awaited" in codes, "an answer from half an index says so"
        assert opened.status().vectors == 0
        report = opened.sync()
        assert (report.embedded, report.changed, report.notes) == (3, (), [])
        assert opened.status().vectors == 3
        assert not opened.retrieve("router").notes
        same_as_fresh(opened, tmp_path, ignore=())


def test_a_failure_midway_keeps_what_was_embedded(memory: Memory, workspace: Path, tmp_path: Path) -> None:
    write_notes(workspace, {f"memory/n{n:03}.md": f"note number {n}\n" for n in range(400)})
    # One sync sends several batches: the first succeeds, the second is refused, the rest is not tried.
    with (
        running_server(faults=[None, unauthorized()]) as server,
        Memory.open(remote(memory.settings, server)) as opened,
    ):
        report = opened.sync()
        assert report.files == 403
        assert [n.code for n in report.notes] == ["embedding-failed"]
        done = report.embedded
        assert opened.status().vectors == done
        finished = opened.sync()
        assert finished.embedded + finished.cache_hits >= 403 - done
        assert opened.status().vectors == 403
        same_as_fresh(opened, tmp_path, ignore=())


def test_the_same_text_elsewhere_gives_a_waiting_chunk_its_vector(memory: Memory, workspace: Path) -> None:
    """The text is cached by then, so it is not embedded again, and its first chunk must not be left out."""
    memory.sync()
    write_notes(workspace, {"memory/first.md": "otters hold hands\n"})
    with running_server() as server, Memory.open(remote(memory.settings, server)) as opened:
        opened.sync()
        server.faults.append(unauthorized())
        write_notes(workspace, {"memory/x.md": "ferrets dance\n"})
        opened.sync()
        write_notes(workspace, {"memory/y.md": "ferrets dance\n"})
        opened.sync()
        found = opened.retrieve("ferrets dance").first("vector")
        assert found is not None
        best = {
            opened.retrieve("ferrets dance").candidates[row.chunk_id].path
            for row in found.rows
            if row.raw > 0.9
        }
        assert best == {"memory/x.md", "memory/y.md"}
        assert opened.status().vectors == 6


def test_a_server_that_changes_its_model_is_found_out(memory: Memory, workspace: Path) -> None:
    with running_server(dims=16) as server, Memory.open(remote(memory.settings, server)) as opened:
        opened.sync()
        assert opened.status().vectors == 3
    for resident in (False, True):
        with running_server(dims=32) as server:
            settings = remote(memory.settings, server)
            key = Memory.open(remote(memory.settings, server))
            key.close()
            with Memory.open(settings, resident=resident) as opened:
                _same_space(opened)
                pool = opened.retrieve("router")
                assert [found.kind for found in pool.lists] == ["lexical"]
                assert pool.fallback is not None
                assert "32 dimensions, the index holds 16" in pool.fallback.reason
                write_notes(workspace, {f"memory/{resident}.md": f"new text {resident}\n"})
                report = opened.sync()
                assert [n.code for n in report.notes] == ["embedding-failed"]
                assert hits(opened, f"text {resident}") >= {f"memory/{resident}.md"}


def _same_space(memory: Memory) -> None:
    """Give the index the fingerprint of this server's address, as if one address had changed its model."""
    store, embedder = store_of(memory), backend_of(memory).embedders.primary
    assert embedder is not None
    wanted = fingerprint.fingerprint_of(memory.settings, embedder)
    with store._db.transaction() as connection:
        connection.execute("UPDATE spaces SET provider_key = ?", (embedder.key,))
    store.begin(wanted)


# -- broken off -----------------------------------------------------------------------------------------


def test_a_cancelled_sync_keeps_what_is_done(memory: Memory, workspace: Path, tmp_path: Path) -> None:
    write_notes(workspace, {f"memory/n{n:03}.md": f"note number {n}\n" for n in range(600)})
    cancel, seen = threading.Event(), list[tuple[int, int]]()

    def progress(done: int, total: int, label: str) -> None:
        seen.append((done, total))
        cancel.set()

    with pytest.raises(Cancelled, match=r"the index holds 256 files, 256 chunks\.$"):
        memory.sync(progress=progress, cancel=cancel)
    assert len(seen) == 1
    done, total = seen[0]
    assert total == 603
    assert 0 < done < total
    assert store_of(memory).counts().files == done
    assert store_of(memory).synced_at() is None
    rest = memory.sync()
    assert (len(rest.changed), rest.files) == (603 - done, 603)
    same_as_fresh(memory, tmp_path)


def test_a_cancelled_rebuild_keeps_the_old_index(memory: Memory) -> None:
    memory.sync()
    before = content(memory.settings.index_path)
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        memory.sync(SyncRequest(force=True), cancel=cancel)
    assert content(memory.settings.index_path) == before


SYNC = """
    import sys
    from pathlib import Path
    from openclaw_mem_engine.sync import update
    from support.memories import open_memory
    update.GROUP_CHUNKS = 10
    memory = open_memory(Path(sys.argv[1]), Path(sys.argv[2]), provider="static")
    print("ready", flush=True)
    memory.sync(progress=lambda done, total, label: "embedded" in label or print(done, flush=True))
"""


@pytest.mark.parametrize("batches", [0, 1, 12])
def test_a_killed_sync_is_completed_by_the_next(workspace: Path, tmp_path: Path, batches: int) -> None:
    write_notes(workspace, {f"memory/n{n:03}.md": f"note number {n} of the pump\n" for n in range(300)})
    environment = {**os.environ, "PYTHONPATH": f"{ENGINE}{os.pathsep}{TESTS}"}
    home = tmp_path / "home"
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SYNC), str(workspace), str(home)],
        stdout=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(batches):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it was killed before it was done"
    with Memory.open(with_provider(settings_for(workspace, home), "static")) as memory:
        done = store_of(memory).counts().files
        assert 10 * batches <= done < 303
        assert store_of(memory).synced_at() is None
        report: SyncReport = memory.sync()
        assert (report.files, len(report.changed)) == (303, 303 - done)
        same_as_fresh(memory, tmp_path, ignore=())


def test_two_syncs_at_once_end_in_one_right_index(memory: Memory, workspace: Path, tmp_path: Path) -> None:
    write_notes(workspace, {f"memory/n{n:03}.md": f"note number {n}\n" for n in range(150)})
    errors: list[BaseException] = []

    def run(force: bool) -> None:
        try:
            with Memory.open(memory.settings) as mine:
                mine.sync(SyncRequest(force=force))
        except BaseException as error:  # noqa: BLE001 - looked at below
            errors.append(error)

    memory.sync()
    write_notes(workspace, {f"memory/n{n:03}.md": f"changed number {n}\n" for n in range(150)})
    threads = [threading.Thread(target=run, args=(force,)) for force in (False, True, False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    memory.sync()
    same_as_fresh(memory, tmp_path)


def test_the_cache_keeps_to_its_limit_and_never_loses_a_live_vector(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {f"memory/{n}.md": f"old text number {n}\n" for n in range(6)})
    settings = settings_for(workspace, tmp_path / "home")
    with Memory.open(replace(settings, cache=CacheSettings(max_entries=7))) as memory:
        memory.sync()
        write_notes(workspace, {f"memory/{n}.md": f"new words in note {n}\n" for n in range(6)})
        memory.sync()
        status = memory.status()
        assert (status.vectors, status.cached) == (6, 7)
    with Memory.open(replace(settings, cache=CacheSettings(enabled=False))) as memory:
        write_notes(workspace, {"memory/0.md": "again something else\n"})
        memory.sync()
        status = memory.status()
        assert (status.vectors, status.cached) == (6, 6)


def test_keywords_only_needs_no_other_index(tmp_path: Path) -> None:
    """Provider none on an index with vectors: nothing is rebuilt, and the vectors are there afterwards."""
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    settings = settings_for(workspace, tmp_path / "home")
    with Memory.open(settings) as memory:
        memory.sync()
    with Memory.open(replace(settings, provider=ProviderSettings("none"))) as memory:
        write_notes(workspace, {"memory/new.md": "the printer is wren\n"})
        report = memory.sync()
        assert (report.rebuilt, report.changed) == (False, ("memory/new.md",))
        assert memory.freshness().state == "fresh"
        assert [hit.path for hit in memory.search("printer").hits] == ["memory/new.md"]
    with Memory.open(settings) as memory:
        assert not memory.sync().rebuilt
        status = memory.status()
        assert (status.chunks, status.vectors) == (2, 2)
        assert len(memory.search("printer").pool.lists[0].rows) == 2


def test_an_embedder_that_does_not_answer_costs_no_vectors(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "the router is gull\n"})
    settings = settings_for(workspace, tmp_path / "home")
    keyless = replace(settings, provider=ProviderSettings("openai"))
    with Memory.open(settings) as memory:
        memory.sync()
    with Memory.open(keyless) as memory:
        report = memory.sync()
        assert not report.rebuilt
        assert "OPENAI_API_KEY" in report.notes[0].text
        answer = memory.search("router")
        assert [hit.path for hit in answer.hits] == ["MEMORY.md"]
        assert answer.pool.fallback is not None
    with Memory.open(settings) as memory:
        assert not memory.sync().rebuilt
        assert memory.status().vectors == 1


def test_what_is_no_memory_by_rule_does_not_make_an_answer_partial(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "x\n", "memory/.obsidian/a.md": "y\n"})
    with Memory.open(settings_for(workspace, tmp_path / "home")) as memory:
        assert memory.sync().skipped
        assert memory.freshness().state == "fresh"
        (workspace / "memory" / "bad.md").write_bytes(b"\0")
        memory.sync()
        assert memory.freshness().state == "partial"
