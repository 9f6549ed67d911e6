"""``providers``, and what ``status`` and ``search`` say of a provider that fails."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from openclaw_mem_engine.providers.remote import transport
from support.commands import Call, World
from support.embed_server import Server, running_server, unauthorized

KEY = "sk-planted-secret-0123456789abcdef"
PLAIN_KEY = "plantedwithoutanyshape"
CLOSED = "http://127.0.0.1:9/v1"


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server(tokens=7) as server:
        yield server


def configure(world: World, base_url: str, *, key: str = KEY, fallback: str = "none", **more: object) -> Path:
    """OpenClaw's configuration with an OpenAI endpoint."""
    remote = {"baseUrl": base_url, "apiKey": key, "headers": {"X-Planted": KEY}}
    search = {"provider": "openai", "model": "m", "fallback": fallback, "remote": remote, **more}
    defaults = {"workspace": str(world.workspace), "memorySearch": search}
    (world.home / ".openclaw").mkdir(exist_ok=True)
    path = world.home / ".openclaw" / "openclaw.json"
    path.write_text(json.dumps({"agents": {"defaults": defaults}}))
    return path


def row_of(text: str, name: str) -> str:
    return next(line for line in text.splitlines() if line.split()[:1] == [name])


def test_the_chain_of_an_untouched_machine(call: Call, world: World) -> None:
    said = call("providers")
    assert (said.code, said.err) == (0, "")
    head = said.out.splitlines()[0]
    assert head.split() == ["provider", "role", "state", "vectors", "latency", "why"]
    assert row_of(said.out, "static").split()[:3] == ["static", "primary", "active"]
    assert row_of(said.out, "openai").split()[:3] == ["openai", "–", "not"]
    assert row_of(said.out, "BM25").split()[:3] == ["BM25", "–", "active"]
    assert "local only" in said.out
    assert "No request was sent to a metered provider" in said.out
    assert not world.data.exists()  # looking leaves nothing behind


def test_json_holds_chain_usage_and_probes(bare: Call, world: World, server: Server) -> None:
    configure(world, server.base_url, fallback="static")
    assert bare("index").code == 0
    found = bare("providers", "--json").json
    assert list(found) == [
        "requestedProvider",
        "chain",
        "fallback",
        "services",
        "usageDays",
        "usage",
        "probes",
    ]
    links = {link["name"]: link for link in found["chain"]}
    assert (links["openai"]["role"], links["openai"]["state"]) == ("primary", "active")
    assert (links["openai"]["vectors"], links["openai"]["chunks"]) == (4, 4)
    assert links["openai"]["keyOrigin"].endswith("agents.defaults.memorySearch.remote.apiKey")
    assert (links["static"]["role"], links["static"]["vectors"]) == ("fallback", 4)
    (used,) = found["usage"]
    assert (used["provider"], used["model"], used["texts"], used["tokens"]) == ("openai", "m", 4, 7)
    assert (used["estimated"], found["probes"], found["fallback"]) == (False, [], None)


def test_without_probe_nothing_is_asked(bare: Call, world: World, server: Server) -> None:
    configure(world, server.base_url)
    for argv in (["providers"], ["providers", "--json"], ["status"], ["model"]):
        assert bare(*argv).code == 0
    assert server.requests == []
    assert not world.data.exists()


def test_probe_asks_all_in_use_or_one(bare: Call, world: World, server: Server) -> None:
    configure(world, server.base_url, fallback="static")
    said = bare("providers", "--probe")
    assert said.code == 0
    assert len(server.requests) == 1
    assert row_of(said.out.partition("probed now")[2], "openai").endswith(" ms")
    assert row_of(said.out.partition("probed now")[2], "static").endswith(" ms")
    (probe,) = bare("providers", "--probe", "static", "--json").json["probes"]
    assert (probe["name"], probe["role"], probe["error"]) == ("static", "fallback", None)
    assert len(server.requests) == 1
    unknown = bare("providers", "--probe", "voyage")
    assert (unknown.code, unknown.out) == (2, "")
    assert "In use: openai, static." in unknown.err and "providers --probe --provider voyage`" in unknown.err


def test_a_probed_primary_that_fails_is_exit_7_with_since_and_retry(bare: Call, world: World) -> None:
    configure(world, CLOSED, fallback="static")
    said = bare("providers", "--probe")
    assert said.code == 7
    assert row_of(said.out, "openai").split()[:3] == ["openai", "primary", "paused"]
    assert "openai (primary) fails: openai embeddings failed" in said.out
    assert "retry in " in said.out
    later = bare("providers")
    assert later.code == 0  # nothing was asked, nothing went wrong
    assert "retry in " in later.out
    found = bare("providers", "--probe", "--json")
    assert found.code == 7
    errors = {probe["name"]: probe["error"] for probe in found.json["probes"]}
    assert "no answer" in errors["openai"]
    assert errors["static"] is None
    assert bare("providers", "--probe", "static").code == 0


def test_vectors_of_another_length_are_a_failure_wherever_one_looks(
    bare: Call, world: World, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(world, server.base_url)
    assert bare("index").code == 0
    server.dims = 24
    assert bare("search", "router").code == 0
    asked = len(server.requests)
    (world.workspace / "memory/new.md").write_text("# New\n\nThe plumber comes on Friday.\n")
    said = "openai m now sends vectors of 24 dimensions, the index holds 256"
    for argv in (["search", "router"], ["status"], ["providers"], ["doctor"]):
        found = bare(*argv)
        shown = " ".join((found.out + found.err).split())
        assert said in shown and "`openclaw-mem index --force`" in shown
        assert not re.search(r"openclaw-mem index(?! --force)", shown), "which would fail"
    assert len(server.requests) == asked
    (world.workspace / "memory/new.md").unlink()
    indexed = bare("index")
    assert indexed.code == 7 and said in indexed.err and indexed.out.startswith("Incomplete: ")
    assert len(server.requests) == asked
    doctor = bare("doctor", "--json").json
    assert {f["code"]: f["repair"] for f in doctor["findings"]}["other-dims"] == "openclaw-mem index --force"
    assert doctor["errors"] == 1
    link = next(link for link in bare("providers", "--json").json["chain"] if link["name"] == "openai")
    assert (link["state"], link["nextRetry"]) == ("failed", None)
    probed = bare("providers", "--probe", "--json")
    assert probed.code == 7 and said in probed.json["probes"][0]["error"]
    planned = bare("index", "--force", "--dry-run", "--json").json["embed"][0]
    assert planned["texts"] and not planned["cached"], "those of another length are not taken over"
    monkeypatch.setattr(transport, "host_of", lambda *_: ("elsewhere", False))
    repaired = bare("doctor", "--fix")
    assert repaired.code == 0 and f"Sending {planned['texts']} texts (about " in repaired.err
    assert len(server.requests) > asked
    assert bare("providers", "--probe").code == 0


def test_a_fallback_that_fails_is_no_failure_unless_it_was_named(
    bare: Call, world: World, server: Server
) -> None:
    configure(world, server.base_url, fallback="voyage")
    assert bare("providers", "--probe").code == 0  # voyage has no key
    named = bare("providers", "--probe", "voyage")
    assert named.code == 7
    assert "VOYAGE_API_KEY" in named.out


def test_a_remote_primary_that_auto_has_chosen_is_said_plainly(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    said = call("providers")
    assert (
        "The provider openai was selected by auto, because there is a key for it (env OPENAI_API_KEY)."
        in (said.out)
    )
    assert "every query are sent to api.openai.com" in said.out
    assert "about $0.02 per million tokens" in said.out
    assert KEY not in said.out + said.err
    assert "selected by auto" not in call("providers", "--provider", "openai").out


def test_a_key_that_cannot_be_sent_is_named_by_its_origin_alone(
    bare: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = configure(world, CLOSED, key=f"{KEY} x")
    monkeypatch.setenv("VOYAGE_API_KEY", f"{KEY}\u2026")
    written = bare("status")
    found = bare("status", "--provider", "voyage")
    for said, origin in (
        (written, f"{path}: agents.defaults.memorySearch.remote.apiKey"),
        (found, "VOYAGE_API_KEY"),
    ):
        assert (said.code, said.out) == (3, "")
        assert origin in said.err and "holds blanks, line breaks or non-ASCII characters" in said.err
        assert KEY not in said.err


def test_a_missing_workspace_does_not_matter(bare: Call, world: World) -> None:
    assert bare("providers", "--workspace", "nowhere").code == 0


def test_status_and_search_tell_since_when_and_until_when(bare: Call, world: World) -> None:
    configure(world, CLOSED)
    assert bare("index").code == 7
    assert bare("providers", "--probe").out.count("embeddings failed") == 1, "the table, or the probe"
    status = bare("status").out
    assert "BM25 only (openai failed), since " in status
    assert "providers  openai (primary): paused since " in status
    assert "0 of 4 chunks with its vectors" in status
    found = bare("search", "router")
    assert found.code == 0
    assert "memory/2026-02-20.md" in found.out
    (line,) = [line for line in found.out.splitlines() if line.startswith("fallback: ")]
    assert line.startswith("fallback: BM25 only (openai failed), since ")
    assert "retry in " in line
    for explain in ([], ["--explain"]):
        markdown = bare("search", "router", "--format", "md", *explain).out.splitlines()
        assert markdown[2].startswith("> fallback: BM25 only (openai failed), since ")
    csv = bare("search", "router", "--format", "csv")
    assert "fallback: BM25 only (openai failed)" in csv.err
    assert "fallback" not in csv.out


def test_the_fallbacks_vectors_answer_and_are_named(bare: Call, world: World, server: Server) -> None:
    configure(world, server.base_url, fallback="static")
    assert bare("index").code == 0
    server.forever = unauthorized()
    said = bare("search", "router", "--explain")
    assert "fallback: vectors of static-minilm-256-int8 (openai failed), since " in said.out
    stage = next(line for line in said.out.splitlines() if line.startswith("vector"))
    assert stage.endswith("vectors of static-minilm-256-int8")
    status = bare("status").out
    assert "static (fallback): active · 4 of 4 chunks with its vectors" in status
    assert "used today  openai m: " in status


def test_vectors_beside_the_primarys_are_shown_and_not_counted(
    bare: Call, world: World, server: Server
) -> None:
    configure(world, server.base_url)
    config = world.root / "config.toml"
    config.write_text('[provider]\nalso = ["static", "openai:other"]\n')
    world_env = {"OPENCLAW_MEM_CONFIG": str(config)}
    done = world.run("index", env=world_env)
    assert done.returncode == 0, done.stderr
    assert b"8 texts embedded for other models (provider.also)" in done.stdout
    text = world.run("search", "router VLAN", "--explain", env=world_env).stdout.decode()
    line = next(line for line in text.splitlines() if "not counted: vector of " in line)
    assert "static-minilm-256-int8 0." in line
    assert "openai other 0." in line
    assert "(rank 1)" in line
    table = world.run("providers", env=world_env).stdout.decode()
    assert [line.split()[1] for line in table.splitlines() if line.startswith("openai ")] == [
        "primary",
        "also",
    ]
    server.requests.clear()
    probed = world.run("providers", "--probe", "--json", env=world_env)
    asked = [(probe["name"], probe["role"]) for probe in json.loads(probed.stdout)["probes"]]
    # The order is that of the chain; each is asked for itself.
    assert asked == [("openai", "primary"), ("openai", "also"), ("static", "also")]
    assert [request.body["model"] for request in server.requests] == ["m", "other"]


@pytest.mark.parametrize("key", [KEY, PLAIN_KEY])
def test_no_output_ever_holds_a_key(bare: Call, world: World, key: str) -> None:
    with running_server(forever=unauthorized()) as server:
        configure(world, server.base_url, key=key)
        said = [
            bare(*argv)
            for argv in (
                ["index", "--dry-run"],
                ["index"],
                ["index", "--json"],
                ["search", "router"],
                ["search", "router", "--explain"],
                ["search", "router", "--json", "--explain"],
                ["search", "router", "--format", "md", "--explain"],
                ["search", "router", "--format", "csv"],
                ["providers"],
                ["providers", "--probe"],
                ["providers", "--probe", "--json"],
                ["status"],
                ["status", "--json"],
                ["config"],
                ["config", "--json"],
                ["cache"],
                ["cache", "prune", "--json"],
                ["model", "--json"],
            )
        ]
        assert any(request.headers.get("authorization") == f"Bearer {key}" for request in server.requests)
    for answer in said:
        assert key not in answer.out + answer.err
        assert KEY not in answer.out + answer.err
    assert [answer.code for answer in said[:4]] == [0, 7, 7, 0]
    for file in world.data.rglob("*"):
        assert not file.is_file() or key.encode() not in file.read_bytes()


def test_a_servers_words_cannot_speak_to_the_terminal(bare: Call, world: World) -> None:
    from support.embed_server import Fault

    hostile = Fault(403, '{"error": {"message": "no \\u001b[31mred\\u202e \\u009b31m"}}')
    with running_server(forever=hostile) as server:
        configure(world, server.base_url)
        for argv in (["index"], ["providers", "--probe"], ["status"], ["search", "router"]):
            said = bare(*argv)
            assert not {"\x1b", "\u202e", "\x9b"} & set(said.out + said.err)


def test_an_index_whose_vectors_beside_are_missing_is_not_done(
    bare: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(world, CLOSED)
    ours = world.root / "config.toml"
    ours.write_text('[provider]\nname = "static"\nalso = ["openai"]\n')
    monkeypatch.setenv("OPENCLAW_MEM_CONFIG", str(ours))
    said = bare("index")
    assert said.code == 7
    assert "are not complete" in said.err and "are not complete" not in said.out
