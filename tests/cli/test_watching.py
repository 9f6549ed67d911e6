"""``openclaw-mem watch``, ``index --verify``, since when the index is stale: real processes, real files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.sync.lock import SyncLock
from openclaw_mem_engine.workspace import opening
from support.commands import Call, World
from support.watching import PATIENCE_S, QUICK, ended, watch

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and permissions of POSIX")


def synced(path: str, kind: str = "changed") -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["event"] == "sync" and path in event[kind]


def test_it_tells_what_it_did(world: World, call: Call) -> None:
    with watch(world, "--json") as running:
        first = running.next()
        assert (first["event"], first["sources"]) == ("watching", ["memory"])
        start = running.next()
        assert (start["event"], start["reason"], start["files"]) == ("sync", "start", 4)
        assert start["changedCount"] == 4
        world.write("memory/new/zeppelin.md", "# Zeppelin\n\nIt lands at noon.\n")
        event = running.next(synced("memory/new/zeppelin.md"))
        assert event["reason"] == "changes"
        assert abs(event["time"] - time.time()) < PATIENCE_S
        assert call("search", "zeppelin", "--no-sync", "--format", "files").out == "memory/new/zeppelin.md\n"
        (world.workspace / "memory" / "new").rename(world.workspace / "memory" / "renamed")
        event = running.next(synced("memory/renamed/zeppelin.md"))
        assert event["removed"] == ["memory/new/zeppelin.md"]
        assert event["embedded"] == 0


def test_for_people(world: World) -> None:
    with watch(world) as running:
        assert running.text()[8:].startswith(f"  watching {world.workspace} (memory)")
        line = running.text()
        assert "  indexed MEMORY.md, memory/2026-02-20.md, memory/2026-02-25.md and 1 more · " in line
        assert "4 files, 4 chunks" in line
        (world.workspace / "MEMORY.md").unlink()
        assert "  deleted: MEMORY.md · 3 files" in running.text()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly(world: World, number: signal.Signals) -> None:
    with watch(world, "--json") as running:
        running.next(lambda event: event["event"] == "sync")
        began = time.monotonic()
        running.process.send_signal(number)
        assert running.next()["event"] == "stopped"
        assert running.process.wait(PATIENCE_S) == 0
        assert time.monotonic() - began < PATIENCE_S
        assert running.process.stderr is not None
        assert running.process.stderr.read() == b""


def test_a_reader_that_goes_away_is_no_error(world: World) -> None:
    process = world.start("watch", "--workspace", str(world.workspace))
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.readline()
    process.stdout.close()
    time.sleep(0.2)
    world.write("memory/new.md", "zeppelin")
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == b""


def test_a_failed_sync_is_told_and_not_the_end(world: World) -> None:
    with watch(world, "--json") as running:
        running.next(lambda event: event["event"] == "sync")
        world.workspace.rename(world.root / "elsewhere")
        failed = running.next(lambda event: event["event"] == "failed")
        assert "does not exist" in failed["text"]
        assert failed["retrySeconds"] == 5
        (world.root / "elsewhere").rename(world.workspace)
        running.next(lambda event: event["event"] == "sync" and event["files"] == 4)
        world.write("memory/new.md", "zeppelin")
        running.next(synced("memory/new.md"))


def test_another_process_at_work_is_waited_for_and_told(world: World, call: Call) -> None:
    call("index")
    with watch(world, "--json") as running:
        running.next(lambda event: event["event"] == "sync")
        kinds = [event["kind"] for event in call("log", "--json").json["events"]]
        assert "watch" in kinds
        with SyncLock(world.indexes[0], "rebuilding").holding():
            world.write("memory/new.md", "zeppelin")
            waiting = running.next(lambda event: event["event"] == "waiting")
            assert f"process {os.getpid()}, rebuilding for" in waiting["text"]
        running.next(synced("memory/new.md"))


def test_what_ended_the_waiting_is_told_also_when_nothing_was_left_to_do(world: World, call: Call) -> None:
    call("index")
    with watch(world, "--json") as running:
        running.next(lambda event: event["event"] == "sync")
        with SyncLock(world.indexes[0]).holding():
            new = world.write("memory/new.md", "zeppelin")
            running.next(lambda event: event["event"] == "waiting")
            new.unlink()
        done = running.next()
        assert (done["event"], done["changed"], done["files"]) == ("sync", [], 4)


def test_an_index_that_is_taken_away_is_made_anew(world: World, call: Call) -> None:
    with watch(world, "--json") as running:
        running.next(lambda event: event["event"] == "sync")
        for path in world.indexes[0].parent.iterdir():
            path.unlink()
        world.write("memory/new.md", "zeppelin")
        assert running.next(synced("memory/new.md"))["files"] == 5
    assert call("search", "zeppelin", "--no-sync", "--format", "files").out == "memory/new.md\n"


def test_the_clock_is_a_reason_too(world: World) -> None:
    """The interval, in a process whose minutes are short and that neither sees events nor compares files."""
    script = (
        "import sys; from dataclasses import replace; from openclaw_mem_engine.cli import watch\n"
        "from openclaw_mem_engine.sync import follow\n"
        "follow.LEAST_PAUSE_S = 600\n"
        "follow.Watch.ended = lambda self: self._stop.wait(0.01)\n"
        "real = watch.warned_settings\n"
        "def quick(arguments):\n"
        "    found = real(arguments)\n"
        "    return replace(found, sync=replace(found.sync, interval_minutes=0.02))\n"
        "watch.warned_settings = quick\n"
        "from openclaw_mem_engine.cli.main import run; sys.exit(run(sys.argv[1:]))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, "watch", "--json", "--workspace", str(world.workspace)],
        env=world.environ,
        stdout=subprocess.PIPE,
    )
    with ended(process) as running:
        running.next(lambda event: event["event"] == "sync")
        world.write("memory/new.md", "zeppelin")
        assert running.next(synced("memory/new.md"))["reason"] == "interval"


def test_the_tail_of_a_conversation_that_has_ended_is_indexed(world: World) -> None:
    """Too little to be indexed at once, and no event when it is over."""
    talks = world.home / ".openclaw/agents/main/sessions"
    talks.mkdir(parents=True)
    line = '{"type":"message","message":{"role":"user","content":"%s"}}\n'
    talk = talks / "one.jsonl"
    talk.write_text(line % "Where does it moor?")
    quick = f'sources = ["memory", "sessions"]\n{QUICK}session_quiet_s = 3\n'
    with watch(world, "--json", settings=quick) as running:
        assert running.next(lambda event: event["event"] == "sync")["changedCount"] == 5
        with talk.open("a") as file:
            file.write(line % "The zeppelin moors at the mast.")
        written = time.time()
        event = running.next(synced("sessions/one.jsonl"))
        assert (event["reason"], event["changed"]) == ("changes", ["sessions/one.jsonl"])
        assert event["time"] - written >= 3


def test_a_mistyped_workspace_is_an_error_at_once(world: World) -> None:
    done = world.run("watch", "--workspace", str(world.root / "no"))
    assert (done.returncode, done.stdout) == (5, b"")
    assert b"does not exist" in done.stderr


# -- index --verify, status ---------------------------------------------------------------------------------


def test_verify_finds_what_time_and_size_hide(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = world.workspace / "MEMORY.md"
    for path in world.workspace.rglob("*.md"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    call("index")
    before = note.stat()
    with note.open("r+b") as file:  # in place: the same inode
        file.write(note.read_bytes().replace(b"grey", b"blue"))
    os.utime(note, ns=(before.st_atime_ns, before.st_mtime_ns))
    # As if it had been read since: bits that rot on a disk leave no time at all.
    monkeypatch.setattr(opening, "RACY_NS", -60_000_000_000)
    assert call("index", "--json").json["changed"] == []
    said = call("index", "--verify", "--json").json
    assert (said["changed"], said["verified"]) == (["MEMORY.md"], 4)
    assert [n["code"] for n in said["notes"]] == ["silent-changes"]
    assert call("search", "blue box", "--no-sync", "--format", "files").out.startswith("MEMORY.md")
    again = call("index", "--verify")
    assert (again.code, again.err) == (0, "")
    assert "Up to date" in again.out
    assert "4 files read and compared" in again.out
    assert call("index", "--verify", "--dry-run").code == 2


def test_status_tells_since_when_the_index_is_stale(call: Call, world: World) -> None:
    call("index")
    assert call("status", "--json").json["freshness"]["staleSince"] is None
    time.sleep(0.05)
    before = time.time()
    world.write("memory/new.md", "zeppelin")
    os.utime(world.workspace / "memory" / "new.md", (1_000_000_000, 1_000_000_000))  # as `cp -p` does
    written = time.time()
    time.sleep(0.3)
    world.write("memory/2026-02-20.md", "later")
    fresh = call("status", "--json").json["freshness"]
    assert fresh["state"] == "stale"
    assert fresh["changed"] == ["memory/2026-02-20.md", "memory/new.md"]
    assert before - 0.05 <= fresh["staleSince"] <= written + 0.05
    shown = call("status").out
    assert "stale since " in shown
    assert "2 changes: memory/2026-02-20.md, memory/new.md" in shown
    call("index")
    (world.workspace / "memory" / "new.md").unlink()
    assert before < call("status", "--json").json["freshness"]["staleSince"] <= time.time()


def test_a_stop_in_the_middle_keeps_the_index_whole(world: World, call: Call) -> None:
    for number in range(400):
        world.write(f"memory/many/{number}.md", f"# {number}\n\n" + f"word{number} text. " * 200)
    with watch(world, "--json") as running:
        running.next(lambda event: event["event"] == "watching")
        time.sleep(0.3)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE_S) == 0
    assert call("index").code == 0
    assert call("status", "--json").json["freshness"]["state"] == "fresh"
    assert Path(world.indexes[0]).exists()
