"""A sync whose embedder fails, or that is broken off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from test_sync import hits, memory, same_as_fresh, store_of, with_provider, workspace

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.settings import CacheSettings, ProviderSettings, Settings
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.sync import fingerprint
from openclaw_mem_engine.sync.report import SyncReport, SyncRequest
from support.embed_server import Server, running_server, unauthorized
from support.memories import backend_of, settings_for, write_notes
from support.stores import content

__all__ = ["memory", "workspace"]


ENGINE, TESTS = (Path(__file__).parents[2] / name for name in ("engine", "tests"))


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
        assert memory.sync().excluded
        assert memory.freshness().state == "fresh"
        (workspace / "memory" / "bad.md").write_bytes(b"\0")
        memory.sync()
        assert memory.freshness().state == "partial"
