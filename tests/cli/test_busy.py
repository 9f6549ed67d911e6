"""Another process brings the index up to date: a search answers from what is there, ``index`` waits and says
for whom."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from openclaw_mem_engine.cli import search
from openclaw_mem_engine.sync.lock import read_owner
from support.commands import Call, World
from support.terminals import on_a_terminal

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the terminals of these tests are POSIX")

_HOLD = """
import sys
from pathlib import Path
from openclaw_mem_engine.sync.lock import SyncLock
with SyncLock(Path(sys.argv[1]), "rebuilding").holding():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def busy(index: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process is rebuilding this index."""
    index.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", _HOLD, str(index)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    try:
        yield process
    finally:
        process.communicate()


def test_a_search_answers_from_the_index_as_it_is(call: Call, world: World) -> None:
    call("index")
    with busy(world.indexes[0]) as process:
        quiet = call("search", "router", "--json")
        assert (quiet.code, quiet.err, quiet.json["notes"]) == (0, "", []), (
            "there is nothing to bring up to date"
        )
        world.write("memory/new.md", "zeppelin")
        start = time.monotonic()
        said = call("search", "router", "--json")
        assert time.monotonic() - start < 20
        assert said.code == 0
        assert said.json["results"][0]["path"] == "memory/2026-02-20.md"
        assert said.json["freshness"]["state"] == "stale"
        (note,) = (note for note in said.json["notes"] if note["code"] == "sync-busy")
        assert f"(process {process.pid}, rebuilding for " in note["text"]
        assert note["text"].endswith(" The index was used without this update.")
        assert said.err == "", "the answer has it"
        asked = call("why-not", "router", "memory/2026-02-20.md:1")
        assert f"(process {process.pid}, " not in asked.out and f"(process {process.pid}, " in asked.err
    assert call("search", "zeppelin", "--format", "files").out.startswith("memory/new.md\n")


def test_index_waits_and_says_for_whom(call: Call, world: World) -> None:
    call("index")
    world.write("memory/new.md", "zeppelin")
    with busy(world.indexes[0]) as process:
        assert process.stdin is not None
        # The other process ends when the message is on the terminal, however long that takes.
        message = f"waiting for process {process.pid}, rebuilding for"
        command = ["index", "--workspace", str(world.workspace)]
        code, text = on_a_terminal(world, command, when_shown=(message, process.stdin.close))
        process.wait(10)
        process.stdin = None
    assert code == 0
    assert message in text
    assert "0 files" not in text
    assert "1 new or modified" in text


def test_a_first_search_waits_for_the_first_index(call: Call, world: World) -> None:
    call("index")
    (index,) = world.indexes
    for end in ("", "-wal", "-shm"):
        index.with_name(index.name + end).unlink(missing_ok=True)
    with busy(index) as process:
        assert process.stdin is not None
        threading.Timer(1.0, process.stdin.close).start()
        said = call("search", "router", "--format", "files")
        process.wait(10)
        process.stdin = None
    assert (said.code, said.out.splitlines()[0]) == (0, "memory/2026-02-20.md")


def test_a_first_search_waits_no_longer_than_its_limit(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "FIRST_INDEX_S", 0.3)
    call("index")
    (index,) = world.indexes
    for end in ("", "-wal", "-shm"):
        index.with_name(index.name + end).unlink(missing_ok=True)
    with busy(index):
        said = call("search", "router")
    assert (said.code, said.out) == (6, "") and "try again when it is done" in said.err


def test_a_damaged_index_is_not_set_aside_under_the_hands_of_another(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.sync.coordinator.FIRST_INDEX_S", 0.1)
    call("index")
    (index,) = world.indexes
    index.write_bytes(b"this is no database " * 500)
    with busy(index):
        said = call("index", "--force")
        assert (said.code, said.out) == (6, "")
        assert "try again when it is done" in said.err
        assert index.exists()
    assert call("index", "--force").code == 0
    assert read_owner(index.with_name(f"{index.name}.lock-owner")) is None
