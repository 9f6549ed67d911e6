"""``index --dry-run``, and what is said before text leaves the machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess

import pytest

from cli.test_providers import CLOSED, configure
from support.commands import Call, World, until
from support.embed_server import hang, running_server


def test_a_dry_run_leaves_nothing_behind(call: Call, world: World) -> None:
    for force in ([], ["--force"]):
        said = call("index", "--dry-run", *force)
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith(
            "Dry run: nothing is sent, nothing is written.\n4 files to read, 4 chunks\n"
        )
        row = said.out.splitlines()[3]
        assert row.startswith("static-minilm-256-int8  4 texts  ")
        assert "local only" in row
        assert "free" in row
        plan = call("index", "--dry-run", "--json", *force).json
        assert (plan["files"], plan["chunks"], plan["rebuild"]) == (4, 4, "")
        (space,) = plan["embed"]
        assert (space["provider"], space["texts"], space["cached"], space["usd"]) == ("static", 4, 0, 0.0)
    assert not world.data.exists()


def test_a_dry_run_counts_what_looks_like_credentials(call: Call, world: World) -> None:
    key = f"glpat-{'aB3dE5fG7h' * 2}"
    world.write("memory/keys.md", f"# Keys\n\nthe spare key: it turns\n\nuse {key}\n")
    said = call("index", "--dry-run")
    assert "\n1 chunk seems to hold credentials. They are redacted in what is sent. Lines:" in said.out
    assert key not in said.out
    assert call("index", "--dry-run", "--json").json["credentials"] == 1


def test_a_dry_run_asks_nobody(bare: Call, world: World) -> None:
    with running_server() as server:
        configure(world, server.base_url, fallback="static")
        for argv in ([], ["--force"], ["--json"]):
            assert bare("index", "--dry-run", *argv).code == 0
        assert not world.data.exists()
        bare("index")
        sent = len(server.requests)
        world.write("memory/new.md", "# New\n\nThe zeppelin landed.\n")
        before = {path: path.read_bytes() for path in world.indexes}
        plan = bare("index", "--dry-run", "--json").json
        assert (plan["files"], [space["texts"] for space in plan["embed"]]) == (1, [1, 1])
        assert len(server.requests) == sent
        assert {path: path.read_bytes() for path in world.indexes} == before


def test_a_rebuild_is_announced_with_its_reason(call: Call, world: World) -> None:
    call("index")
    assert call("index", "--dry-run", "--json").json["files"] == 0
    forced = call("index", "--dry-run", "--force")
    assert "The index would be rebuilt: asked for." in forced.out
    assert "0 texts" in forced.out
    env = {"OPENAI_API_KEY": "sk-planted-secret-0123456789abcdef"}
    done = world.run(
        "index", "--dry-run", "--provider", "openai", "--workspace", str(world.workspace), env=env
    )
    text = done.stdout.decode()
    assert done.returncode == 0
    assert "would be rebuilt: provider static → openai" in text
    assert "text-embedding-3-small  4 texts" in text
    assert "api.openai.com" in text
    assert "about $0.02 per million tokens" in text


def test_a_dry_run_without_a_workspace_or_embeddings(bare: Call, call: Call, world: World) -> None:
    assert bare("index", "--dry-run", "--workspace", "nowhere").code == 5
    assert "BM25 only: no vectors" in call("index", "--dry-run", "--provider", "none").out
    assert not world.data.exists()


def test_index_says_where_text_goes_before_it_goes(bare: Call, world: World) -> None:
    configure(world, "http://embeddings.invalid/v1", fallback="voyage")
    said = bare("index")
    assert said.code == 7  # nobody of that name
    first, second = said.err.splitlines()[:2]  # voyage has no key, so nothing can go there
    assert first.startswith("openclaw-mem: Sending 4 texts (about ")
    assert first.endswith(" tokens, unknown price: custom endpoint) to embeddings.invalid.")
    assert second.startswith("openclaw-mem: openai embeddings failed: ")
    assert json.loads(bare("index", "--json").out)["files"] == 4


def test_a_search_that_leaves_the_rebuild_to_index_announces_no_text(call: Call, world: World) -> None:
    call("index")
    env = {"OPENAI_API_KEY": "sk-planted-secret-0123456789abcdef"}
    done = world.run("search", "router", "--workspace", str(world.workspace), env=env)
    assert done.stderr == b"", "nothing is sent, and the answer says what is missing"
    said = " ".join(done.stdout.decode().split())
    assert "not of openai text-embedding-3-small. Run `openclaw-mem" in said


def test_a_search_announces_no_text_for_a_provider_that_is_paused(bare: Call, world: World) -> None:
    configure(world, "http://embeddings.invalid/v1")
    assert bare("index").code == 7
    assert "Sending" not in bare("search", "router").err, "it is not asked"
    assert "Sending" in bare("index").err


def test_index_says_nothing_of_the_kind_when_text_stays(call: Call) -> None:
    assert call("index").err == ""


def test_no_network_is_exit_7_and_keywords_find_all_the_same(bare: Call, world: World) -> None:
    configure(world, CLOSED)
    said = bare("index")
    assert said.code == 7
    assert "embeddings failed" in said.err
    found = bare("search", "router", "--json")
    assert (found.code, found.json["results"][0]["path"]) == (0, "memory/2026-02-20.md")
    assert found.json["fallback"]["active"] == "bm25"


def test_a_stopped_index_pays_for_nothing_twice(world: World) -> None:
    for number in range(600):
        world.write(f"memory/many/{number:03}.md", f"# Note {number}\n\nAbout subject{number}.\n")
    with running_server(faults=[None] * 2, forever=hang()) as server:
        configure(world, server.base_url)
        # Two requests at a time: the fourth follows the answers to the first two.
        (world.home / ".config/openclaw-mem").mkdir(parents=True)
        (world.home / ".config/openclaw-mem/config.toml").write_text("[provider]\nconcurrency = 2\n")
        process = world.start("index")
        until(lambda: len(server.requests) >= 4)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=20)  # a server that hangs does not hold up one Ctrl-C
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        assert process.returncode == 130
        assert b"Traceback" not in err
        answered = [text for inputs in server.inputs[:2] for text in inputs]
        server.forever = None
        before = len(server.requests)
        done = world.run("index", "--json")
        assert done.returncode == 0, done.stderr
        again = [text for inputs in server.inputs[before:] for text in inputs]
        assert not set(answered) & set(again)
        assert len(set(answered) | set(again)) == 604
        assert json.loads(done.stdout)["files"] == 604


@pytest.mark.skipif(os.name != "posix", reason="folders without write permission are a matter of POSIX")
def test_a_dry_run_needs_no_place_to_write(world: World) -> None:
    if os.geteuid() == 0 or shutil.which("chmod") is None:
        pytest.skip("root may write everywhere")
    world.root.chmod(0o500)
    try:
        done = world.run("index", "--dry-run", "--workspace", str(world.workspace))
    finally:
        world.root.chmod(0o700)
    assert done.returncode == 0, done.stderr
