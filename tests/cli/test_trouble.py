"""What goes wrong: a readable line, the right exit code, nothing lost, and the old index still answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from openclaw_mem_engine.cli.main import run
from openclaw_mem_engine.commands import advice
from openclaw_mem_engine.memory import Memory
from support import commands
from support.commands import Call, Said, World, until
from support.embed_server import Server, hang, running_server

_HOLD = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(index: Path) -> Iterator[None]:
    """Another process is in the middle of writing to the index."""
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(index)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    try:
        yield
    finally:
        holder.communicate()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for another writer takes 0.2 s instead of five."""
    monkeypatch.setattr("openclaw_mem_engine.stores.sqlite.database.BUSY_TIMEOUT_MS", 200)


# the workspace


def test_a_missing_workspace_is_exit_5_and_leaves_nothing_behind(bare: Call, world: World) -> None:
    for argv in (["search", "x"], ["index"], ["status"], ["get", "MEMORY.md"]):
        said = bare(*argv, "--workspace", "nowhere")
        assert (said.code, said.out) == (5, "")
        assert f"The workspace {world.root / 'nowhere'} does not exist." in said.err
        assert "--workspace DIR" in said.err and "`openclaw-mem demo`" in said.err
        note = bare(*argv, "--workspace", str(world.write("MEMORY.md", "# M\n")))
        assert (note.code, note.out) == (5, "")
        assert note.err.endswith(
            f"MEMORY.md is a file. Name the folder that holds it: --workspace {world.workspace}\n"
        )
    assert not world.data.exists()


def test_a_workspace_that_vanished_still_answers_and_says_stale(call: Call, world: World) -> None:
    call("index")
    world.workspace.rename(world.root / "elsewhere")
    said = call("search", "router", "--json")
    assert said.code == 0
    assert said.json["results"][0]["path"] == "memory/2026-02-20.md"
    assert said.json["freshness"]["state"] == "stale"
    (note,) = said.json["notes"]
    assert note["code"] == "sync-failed" and "does not exist" in note["text"]
    assert said.err == "", "it is said once"
    asked = call("why-not", "router", "MEMORY.md:1")
    assert asked.code == 5 and asked.err.count("does not exist") == 1
    looked = call("search", "router", "--json", "--no-sync")
    assert (looked.code, looked.json["results"]) == (0, said.json["results"])
    assert looked.json["freshness"] is None
    assert call("index").code == 5


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ("Run `openclaw-mem index`, then `openclaw-mem doctor`.", 2),
        ("openclaw-mem doctor --fix", 1),
        ("      to do: mv a b && openclaw-mem index", 1),
        ("`openclaw-mem --agent x index` was completed before.", 0),
        ("A store that openclaw-mem does not read; openclaw-mem writes nothing.", 0),
        ("Or try `openclaw-mem demo`.", 0),
    ],
)
def test_commands_are_told_from_the_name_of_the_program(
    text: str, completed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_mem_engine.commands._choice", ["--agent x "])
    assert advice(text).count("openclaw-mem --agent x ") == completed + ("was completed" in text)
    assert advice(advice(text)) == advice(text)


def test_commands_in_json_are_about_the_same_index_and_text_of_notes_stays(bare: Call, world: World) -> None:
    def call(*argv: str) -> Said:
        return bare(*argv, "--workspace", str(world.workspace), "--agent", "main")

    world.write("memory/how.md", b"The router: run `openclaw-mem index` daily.\n")
    call("index")
    world.write("memory/how.md", b"The router: run `openclaw-mem index` hourly.\n")
    command = f"openclaw-mem --workspace {world.workspace} --agent main index"
    assert call("config", "set", "sync.on_search=false", "--yes").code == 0
    answer = call("search", "router", "--json").json
    assert f"run `{command}`" in next(note["text"] for note in answer["notes"] if note["code"] == "stale")
    assert "run `openclaw-mem index` daily" in next(
        hit["snippet"] for hit in answer["results"] if hit["path"] == "memory/how.md"
    )
    found = call("doctor", "--json").json["findings"]
    assert command in {finding["repair"] for finding in found}
    walk = call("why-not", "router", "memory/how.md:1", "--json", "--no-sync").json
    assert f"`{command}`" in " ".join(item["text"] for item in (*walk["textChanges"], *walk["notes"]))


def test_bad_files_do_not_keep_the_good_ones_from_being_found(call: Call, world: World) -> None:
    world.write("memory/binary.md", b"router\0\0")
    world.write("memory/latin1.md", "routeur caf\xe9".encode("latin-1"))
    (world.workspace / "memory" / "broken.md").symlink_to("nowhere.md")
    os.mkfifo(world.workspace / "memory" / "fifo.md")
    answer = call("search", "router", "--json").json
    assert answer["results"][0]["path"] == "memory/2026-02-20.md"
    assert answer["freshness"]["state"] == "partial"
    assert len(answer["freshness"]["excluded"]) == 4
    said = call("search", "router").out.splitlines()[-1]
    assert said.startswith("not indexed: memory/broken.md: is a link")
    assert said.endswith(" (3 more: `openclaw-mem status`)")


# the configuration


def test_a_broken_configuration_is_exit_3_with_line_and_column(call: Call, world: World) -> None:
    config = world.root / "openclaw.json"
    config.write_text("{\n  agents: [,\n}")
    said = call("search", "x", "--config", str(config))
    assert (said.code, said.out) == (3, "")
    assert f"{config} is not valid JSON5: line 2" in said.err
    assert call("search", "x", "--config", "missing.json").code == 3
    for form in (["--json"], ["--format", "json"]):
        said = call("search", "x", "--config", str(config), *form)
        assert said.code == 3 and said.json["error"]["code"] == "ConfigError"
    assert said.json["error"]["message"] in said.err and said.json["error"]["repair"] is None


def test_a_configured_value_out_of_range_names_file_and_key(call: Call, world: World) -> None:
    config = world.root / "openclaw.json"
    config.write_text('{"agents": {"defaults": {"memorySearch": {"query": {"maxResults": "many"}}}}}')
    said = call("search", "x", "--config", str(config))
    assert said.code == 3
    assert "openclaw.json" in said.err
    assert "maxResults" in said.err


def test_a_key_in_a_configuration_is_not_repeated(call: Call, world: World) -> None:
    config = world.root / "openclaw.json"
    key = "sk-abcdefghijklmnopqrstuvwxyz0123456789"
    config.write_text(f'{{"agents": {{"defaults": {{"memorySearch": {{"provider": "{key}"}}}}}}}}')
    said = call("search", "x", "--config", str(config))
    assert said.code == 0
    assert "provider is a hidden text (it looks like a key)" in said.err
    assert key not in said.err + said.out


def test_no_sync_is_advised_that_the_provider_makes_impossible(call: Call, world: World) -> None:
    config = world.root / "openclaw.json"
    config.write_text('{agents: {defaults: {memorySearch: {provider: "openai", fallback: "static"}}}}')
    call("index")
    for _ in range(2):
        assert call("index", "--config", str(config)).code == 7
        said = call("search", "router", "--config", str(config)).out
        assert "Fallback, vectors of static" in said and "index stale" in said
        assert "The index is stale" not in said, "index would exit with 7 again"
    assert "stale (the settings changed), last synced: " in call("status", "--config", str(config)).out


def test_vectors_of_a_provider_that_was_chosen_once_are_not_awaited(call: Call) -> None:
    call("search", "router", "--provider", "openai")
    waiting = "have no vectors of openai"
    assert waiting in call("status", "--provider", "openai").out
    assert waiting not in call("status").out


# the index


@pytest.mark.usefixtures("impatient")
def test_a_locked_index_still_answers(call: Call, world: World) -> None:
    call("index")
    with locked(world.indexes[0]):
        quiet = call("search", "router", "--json")
        assert (quiet.code, quiet.err) == (0, "")
        assert quiet.json["freshness"]["state"] == "fresh"
        world.write("memory/new.md", "zeppelin")
        said = call("search", "router", "--json")
        assert said.code == 0
        assert said.json["results"][0]["path"] == "memory/2026-02-20.md"
        assert said.json["freshness"]["state"] == "stale"
        assert said.json["freshness"]["changed"] == ["memory/new.md"]
        assert "Another process is writing" in said.json["notes"][-1]["text"]
        assert call("get", "MEMORY.md").code == 0
        assert call("status").code == 0
        failed = call("index")
        assert (failed.code, failed.out) == (6, "")
        assert "try again" in failed.err
    assert call("search", "zeppelin", "--format", "files").out.startswith("memory/new.md\n")


def test_a_damaged_index_is_exit_6_and_says_what_to_delete(call: Call, world: World) -> None:
    call("index")
    (index,) = world.indexes
    for file in index.parent.iterdir():
        file.write_bytes(b"this is no database " * 500)
    said = call("search", "router", "--no-sync")
    assert said.code == 6
    assert (
        "The index is damaged." in said.err
        and "Found: SQLite: file is not a database." in said.err
        and str(index) in said.err
    )
    assert "`openclaw-mem doctor --fix`" in said.err
    assert call("get", "MEMORY.md").code == 0
    failed = call("search", "router", "--json", "--no-sync")
    assert failed.code == 6 and failed.json["error"]["code"] == "IndexDamaged"
    assert failed.json["error"]["repair"] == "openclaw-mem doctor --fix"
    status = call("status")
    assert status.code == 6 and str(world.workspace) in status.out and "provider" in status.out
    assert "The index is damaged" in status.err
    mended = call("index")
    assert mended.code == 0 and mended.out.startswith("Rebuilt: ")
    assert f"The damaged file is kept as {index}.damaged; you can delete it." in mended.out
    assert "None of its embeddings could be read" in mended.out
    assert call("search", "router", "--format", "files").code == 0


def test_a_data_folder_that_cannot_be_made_is_exit_6(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = world.root / "a-file"
    blocker.write_text("x")
    monkeypatch.setenv("OPENCLAW_MEM_HOME", str(blocker / "data"))
    said = call("search", "router")
    assert said.code == 6
    assert "OPENCLAW_MEM_HOME" in said.err


@pytest.fixture
def small_disk(world: World) -> Iterator[Path]:
    with commands.small_disk(world.data, 16) as disk:
        yield disk


def test_a_full_disk_keeps_the_old_index(call: Call, world: World, small_disk: Path) -> None:
    assert call("index").code == 0
    with suppress(OSError), (small_disk / "ballast").open("wb") as ballast:
        while ballast.write(bytes(4096)):
            ballast.flush()
    os.truncate(small_disk / "ballast", (small_disk / "ballast").stat().st_size - 128 * 1024)
    for number in range(300):
        world.write(f"memory/bulk/{number}.md", f"# Bulk {number}\n\n" + f"word{number} filler text\n" * 60)
    full = call("index")
    assert full.code == 6
    assert "full" in full.err
    said = call("search", "router VLAN", "--json")
    assert said.code == 0
    assert said.json["results"][0]["path"] == "memory/2026-02-20.md"
    assert said.json["freshness"]["state"] == "stale"
    assert "full" in said.json["notes"][-1]["text"]
    (small_disk / "ballast").unlink()
    assert call("index", "--json").json["files"] == 304


# being stopped


@pytest.fixture
def slow(world: World) -> Iterator[tuple[World, Server, list[str]]]:
    """Six hundred notes and a provider that answers three requests and then hangs."""
    for number in range(600):
        world.write(f"memory/many/{number:03}.md", f"# Note {number}\n\nAbout subject{number}.\n")
    with running_server(faults=[None] * 3, forever=hang()) as server:
        config = world.root / "openclaw.json"
        config.write_text(
            f"""{{ agents: {{ defaults: {{ memorySearch: {{ provider: "openai", model: "m",
                remote: {{ baseUrl: "{server.base_url}", apiKey: "x" }} }} }} }} }}"""
        )
        yield world, server, ["--workspace", str(world.workspace), "--config", str(config)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_a_stopped_index_goes_on_where_it_was(
    slow: tuple[World, Server, list[str]], number: signal.Signals
) -> None:
    world, server, options = slow
    process = world.start("index", *options)
    until(lambda: len(server.requests) >= 4)
    process.send_signal(number)
    _, err = process.communicate(timeout=20)  # the provider hangs for longer
    if number == signal.SIGINT:
        assert process.returncode == 130
        lines = err.decode().splitlines()
        assert "Traceback" not in err.decode()
        assert all(line.startswith("openclaw-mem: ") for line in lines)
        assert lines[-1].startswith("openclaw-mem: ")
    server.forever = None
    done = world.run("index", "--json", *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["files"] == 604
    assert 0 < report["embedded"] < 604  # what the first run had finished was not asked for again


def test_a_cancelled_sync_is_130(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        # Two of ``os.kill`` may be taken for one.
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Memory, "sync", interrupted)
    said = call("index")
    assert (said.code, said.out) == (130, "")
    assert said.err.splitlines()[-1] == "openclaw-mem: Stopped. Finished work is kept."
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# what nobody expected


def test_the_unexpected_is_one_line_and_exit_8(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a\nb \x1b[31m")

    monkeypatch.setattr(Memory, "search", broken)
    said = call("search", "x", "--no-sync")
    assert said.code == 8
    assert said.err == (
        "openclaw-mem: unexpected ZeroDivisionError: a b ^[[31m. "
        "Run with OPENCLAW_MEM_DEBUG=1 for the traceback.\n"
    )
    monkeypatch.setenv("OPENCLAW_MEM_DEBUG", "1")
    assert "Traceback (most recent call last)" in call("search", "x", "--no-sync").err


def test_a_current_folder_that_is_gone_is_said(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = world.root / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(["status"]) == 3
    assert "current folder cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["config"], ["index"], ["watch"], ["watch", "--json"]])
def test_a_full_stdout_is_said_and_ends_it(world: World, argv: list[str]) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "openclaw_mem_engine.cli", *argv, "--workspace", str(world.workspace)],
            env=world.environ,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == 8
    message = "openclaw-mem: The output could not be written (No space left on device). Check that its target"
    assert done.stderr.decode().startswith(message)
    assert len(done.stderr.splitlines()) == 1
