"""``openclaw-mem log``: what it prints, for whom, and as it happens; with real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Empty, Queue

import apsw
import pytest

from cli.test_providers import configure
from openclaw_mem_engine.cli.log import moment_of
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.state.events import EVENTS_FILE, EventLog
from support.commands import Call, World, until
from support.embed_server import hang, running_server

NOW = 1_770_000_000.0


def test_an_empty_log_is_told_and_none_is_made(call: Call, world: World) -> None:
    of = f"for agent main in {world.workspace}"
    known = "`openclaw-mem log --all` shows those of every agent and workspace."
    assert call("log") == (0, f"No event is logged {of}. {known}\n", "")
    assert call("log", "--all").out == "No event is logged.\n"
    fitting = f"No event fits --since {of}. {known}\n"
    assert call("log", "--since", "2d").out == fitting
    said = call("log", "--json")
    assert said.json == {"path": str(world.data / EVENTS_FILE), "events": []}
    assert not world.data.exists()


def test_an_empty_log_without_a_workspace_says_so(bare: Call) -> None:
    said = bare("log")
    assert said.code == 0 and "/workspace does not exist. Name the folder that holds MEMORY.md" in said.out


def test_what_happened_oldest_first(call: Call, world: World) -> None:
    call("index")
    world.write("memory/new.md", "# New\n")
    call("search", "router")
    call("index", "--force")
    call("doctor")
    lines = call("log").out.splitlines()
    assert [line.split()[2] for line in lines] == ["sync", "sync", "rebuild", "doctor"]
    assert "4 files new or modified" in lines[0] and " s)" in lines[0]
    assert "1 file new or modified" in lines[1]
    assert "0 errors, 0 warnings." in lines[3]
    events = call("log", "--json").json["events"]
    assert [event["id"] for event in events] == [1, 2, 3, 4]
    assert set(events[0]) == {
        "id", "at", "kind", "text", "seconds", "counts", "reason", "agent", "workspace", "backend",
    }  # fmt: skip
    assert [event["id"] for event in call("log", "--limit", "2", "--json").json["events"]] == [3, 4]
    kinds = call("log", "--kind", "sync,doctor", "--kind", "rebuild", "--limit", "3", "--json").json["events"]
    assert [event["kind"] for event in kinds] == ["sync", "rebuild", "doctor"]
    assert len(call("log", "--since", "1h", "--json").json["events"]) == 4
    assert call("log", "--since", "2000-01-01", "--kind", "watch").out.startswith(
        "No event fits --kind and --since "
    )
    assert call("log", "--kind", "watch").out.startswith("No event fits --kind ")


def test_the_doctor_tells_codes_and_what_it_mended(call: Call, world: World) -> None:
    call("index")
    world.indexes[0].chmod(0o644)
    call("doctor", "--fix")
    mended, looked = sorted(call("log", "--kind", "doctor", "--json").json["events"], key=lambda e: e["id"])
    assert mended["text"].startswith("Repaired: permissions of 1 file")
    assert mended["counts"] == {"repaired": 1} and mended["seconds"] > 0
    assert looked["text"] == "0 errors, 0 warnings." and looked["seconds"] > 0


def test_only_this_workspace_and_agent_unless_all_are_asked_for(call: Call, bare: Call, world: World) -> None:
    call("index")
    other = world.root / "other"
    other.mkdir()
    (other / "MEMORY.md").write_text("# Other\n")
    bare("--workspace", str(other), "index")
    assert len(call("log", "--json").json["events"]) == 1
    assert len(call("log", "--json", "--agent", "ops").json["events"]) == 0
    everyone = call("log", "--all")
    assert f"agent main, {other}" in everyone.out and f"agent main, {world.workspace}" in everyone.out


def test_another_backend_than_the_configured_one_is_named(call: Call, world: World) -> None:
    call("index")
    assert "backend" not in call("log").out
    with closing(EventLog(world.data / EVENTS_FILE)) as log:
        log.add("sync", "synced", agent="main", workspace=str(world.workspace), backend="qmd")
    assert call("log").out.splitlines()[-1].strip() == "backend qmd"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--kind", "nope\x1b"], "--kind is 'nope^['; allowed: sync, rebuild, "),
        (["--since", "soon"], "--since is 'soon'"),
        (["--since", ""], "--since is empty: write --since WHEN, or leave it out."),
        (["--since", "99999999999d"], "--since is '9"),
        (["--limit", "0"], "--limit is '0'"),
    ],
)
def test_wrong_usage(call: Call, world: World, options: list[str], message: str) -> None:
    said = call("log", *options)
    assert (said.code, said.out) == (2, "") and message in said.err
    assert "\x1b" not in said.err and not world.data.exists()


def test_since() -> None:
    for text, seconds in (("90s", 90), ("30m", 1800), ("12H", 43_200), ("2d", 172_800), ("1w", 604_800)):
        assert moment_of(text, NOW) == NOW - seconds
    assert moment_of("2026-02-20T08:30", NOW) - moment_of("2026-02-20", NOW) == 8.5 * 3600
    for wrong in ("d", "-2d", "2.5d", "²d", "yesterday"):
        with pytest.raises(UsageError):
            moment_of(wrong, NOW)


def test_a_log_that_cannot_be_read(call: Call, world: World) -> None:
    world.data.mkdir()
    (world.data / EVENTS_FILE).write_bytes(b"nothing of the kind" * 500)
    said = call("log")
    assert (said.code, said.out) == (6, "") and "is damaged" in said.err and EVENTS_FILE in said.err


def test_foreign_text_is_shown_and_does_not_act(call: Call, world: World) -> None:
    log = EventLog(world.data / EVENTS_FILE)
    log.add("watch", "\x1b[2J\u202eevil", reason="a\nb", agent="main", workspace=str(world.workspace))
    log.close()
    said = call("log")
    assert "^[[2J<U+202E>evil" in said.out and "    a⏎b\n" in said.out and "\x1b" not in said.out


@contextmanager
def following(world: World, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Queue[str]]]:
    """``log --follow`` in a process of its own and the lines that it prints."""
    process = world.start("log", "--workspace", str(world.workspace), "--follow", *options)
    lines: Queue[str] = Queue()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            lines.put(line.decode())

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield process, lines
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        reader.join(10)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_follow_tells_what_other_processes_do_and_ends_with_ctrl_c(world: World) -> None:
    workspace = str(world.workspace)
    with following(world, "--json") as (process, lines):
        assert world.run("index", "--workspace", workspace).returncode == 0
        assert json.loads(lines.get(timeout=20))["kind"] == "sync"
        assert world.run("index", "--workspace", workspace, "--force").returncode == 0
        assert json.loads(lines.get(timeout=20))["kind"] == "rebuild"
        # Whoever removes the log does not make us deaf.
        for ending in ("", "-wal", "-shm"):
            (world.data / f"{EVENTS_FILE}{ending}").unlink(missing_ok=True)
        time.sleep(1)
        assert world.run("index", "--workspace", workspace, "--force").returncode == 0
        again = json.loads(lines.get(timeout=20))
        assert (again["id"], again["kind"]) == (1, "rebuild")
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr is not None and process.stderr.read() == b""


def test_follow_begins_with_the_last_ones_and_repeats_none(world: World) -> None:
    log = EventLog(world.data / EVENTS_FILE)
    for number in range(5):
        log.add("watch", f"event {number}", agent="main", workspace=str(world.workspace))
    with following(world, "--limit", "2") as (_, lines):
        assert [lines.get(timeout=20).split()[-1] for _ in range(2)] == ["3", "4"]
        log.add("watch", "event 5", agent="main", workspace=str(world.workspace))
        assert lines.get(timeout=20).split()[-1] == "5"
        with pytest.raises(Empty):
            lines.get(timeout=1)
    log.close()


def test_a_reader_that_has_seen_enough(world: World) -> None:
    log = EventLog(world.data / EVENTS_FILE)
    log.add("watch", "one", agent="main", workspace=str(world.workspace))
    process = world.start("log", "--workspace", str(world.workspace), "--follow")
    assert process.stdout is not None and process.stderr is not None
    assert b"one" in process.stdout.readline()
    process.stdout.close()
    log.add("watch", "two", agent="main", workspace=str(world.workspace))
    log.close()
    assert process.wait(20) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


# -- what is no plain sync ----------------------------------------------------------------------------------


def damage(index: Path, table: str) -> None:
    """Write nonsense over the first page of a table."""
    connection = apsw.Connection(str(index))
    root = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    size = connection.execute("PRAGMA page_size").get
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    with index.open("r+b") as file:
        file.seek((root - 1) * size)
        file.write(b"\xa5" * size)


def test_a_search_that_damage_stops_before_it_looks_is_a_failed_search(call: Call, world: World) -> None:
    call("index")
    damage(world.indexes[0], "files")
    for _ in range(2):
        assert call("search", "router", "--no-sync").code == 6
    (event,) = call("log", "--kind", "search-failed", "--json").json["events"]
    assert event["text"] == "A search failed." and "is damaged" in event["reason"]


def test_a_damaged_index_that_is_built_anew_is_a_rebuild_with_its_reason(call: Call, world: World) -> None:
    call("index")
    damage(world.indexes[0], "meta")
    assert call("index", "--force").code == 0
    rebuild = call("log", "--kind", "rebuild", "--json").json["events"][-1]
    assert "was renamed to main.sqlite.damaged; it is rebuilt." in rebuild["text"]
    assert "is damaged" in rebuild["reason"]
    assert call("log", "--json").json["events"][-1]["counts"]["changed"] == 4


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_an_index_that_was_killed_is_told_by_the_next(call: Call, world: World) -> None:
    with running_server(forever=hang(60)) as server:
        configure(world, server.base_url)
        process = world.start("index")
        until(lambda: server.requests)
        process.kill()
        process.communicate(timeout=20)
        server.forever = None
        assert call("index").code == 0
    first, *_ = call("log", "--json").json["events"]
    assert first["text"].startswith(f"A sync of process {process.pid} that began on ")
    assert first["text"].endswith("was killed; what it had finished is in the index.")
