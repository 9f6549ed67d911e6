"""``flush``, ``snapshot`` and ``prompt`` as commands, on the sessions of the demo and on small worlds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.commands import Call, World
from support.embed_server import running_server
from support.sessions import KEY, SessionWorld, answering
from support.transcripts import messages


@pytest.fixture
def demo(demo_world: World) -> str:
    return str(demo_world.data / "demo" / "workspace")


def _session(world: World, **entry: object) -> None:
    """One session of the default agent, and its transcript."""
    folder = world.home / ".openclaw" / "agents" / "main" / "sessions"
    folder.mkdir(parents=True)
    table = {KEY: {"sessionId": "abc", "totalTokens": 180_000, **entry}}
    (folder / "sessions.json").write_text(json.dumps(table), "utf-8")
    (folder / "abc.jsonl").write_text(messages("The rack key is in drawer 4.", "Noted."), "utf-8")


def _model(world: World, address: str) -> None:
    config = world.root / "config.toml"
    config.write_text(f'[flush]\nprovider = "openai"\nbase_url = "{address}"\nmodel = "m"\n', "utf-8")


def test_the_demo_shows_the_decision(demo_call: Call, demo: str) -> None:
    said = demo_call("flush", "--workspace", demo, "--session", "main", "--dry-run")
    assert said.code == 0
    assert "200,000 - 20,000 - 4,000 = 176,000 tokens (window - reserve - soft threshold)" in said.out
    assert "decision     skip: 61,240 tokens are not above the threshold" in said.out
    assert "You have no tools in this turn" in said.out
    unknown = demo_call("flush", "--workspace", demo, "--session", "nothing")
    assert unknown.code == 2 and "Agent main has no session 'nothing'. Its sessions: c86e2f14" in unknown.err
    several = demo_call("flush", "--workspace", demo, "--session", "")
    assert several.code == 2


def test_a_flush_is_written_once(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert "--agent ID names another agent" in call("flush", "--session", "main").err
    _session(world)
    without = call("flush", "--session", "main")
    assert without.code == 3 and "no chat model is configured" in without.out
    with running_server(forever=answering("- drawer 4")) as server:
        _model(world, server.base_url)
        monkeypatch.setenv("OPENCLAW_MEM_CONFIG", str(world.root / "config.toml"))
        dry = json.loads(call("flush", "--session", "abc", "--dry-run", "--json").out)
        assert dry["decision"]["run"] and dry["messages"][-1]["role"] == "user" and server.requests == []
        done = call("flush", "--session", "abc", "--json")
        again = call("flush", "--session", "abc")
        forced = call("flush", "--session", "abc", "--force")
    found = json.loads(done.out)
    assert (done.code, found["outcome"]) == (0, "wrote")
    assert (world.workspace / found["path"]).read_text("utf-8") == "- drawer 4\n- drawer 4\n"
    assert "+- drawer 4" in found["diff"]
    assert again.code == 0 and again.out.startswith("skipped: it was flushed from here in this compaction")
    assert forced.out.startswith("wrote memory/")
    with running_server(forever=answering("NO_REPLY")) as server:
        _model(world, server.base_url)
        nothing = call("flush", "--session", "abc", "--force")
        assert nothing.code == 0 and nothing.out.startswith("NO_REPLY: the model has nothing to store.")
        assert "flush" in call("providers").out
    with running_server(forever=answering("")) as server:
        _model(world, server.base_url)
        assert call("flush", "--session", "abc", "--force").code == 7
    log = call("log", "--kind", "flush").out
    assert "wrote memory/" in log and "NO_REPLY, nothing stored, session abc" in log and "failed" in log


def test_a_snapshot_is_shown_and_written(call: Call, world: World) -> None:
    _session(world)
    dry = json.loads(call("snapshot", "--session", "main", "--dry-run", "--json").out)
    assert not (world.workspace / dry["path"]).exists()
    assert "user: The rack key is in drawer 4.\nassistant: Noted.\n" in dry["content"]
    done = call("snapshot", "--session", "main")
    assert done.code == 0 and "2 messages kept, 0 not" in done.out
    assert len(list((world.workspace / "memory").glob("*-????.md"))) == 1


def test_the_prompt_is_what_a_conversation_starts_with(demo_call: Call, demo: str) -> None:
    main = json.loads(demo_call("prompt", "--workspace", demo, "--json", "--query", "vpn certificate").out)
    assert "## MEMORY.md" in main["prompt"] and "memory_search" in main["prompt"]
    there = [not (Path(demo) / log["path"]).exists() for log in main["dailyLogs"]]  # today's from 18:00 (UTC)
    assert [log["missing"] for log in main["dailyLogs"]] == there and len(there) == 2 and False in there
    assert {file["path"] for file in main["files"] if file["missing"]} >= {"TOOLS.md", "IDENTITY.md"}
    searched = main["searched"]
    assert 0 < searched["search"] + searched["get"] < main["wholeMemory"]["tokens"]
    group = json.loads(demo_call("prompt", "--workspace", demo, "--session-type", "group", "--json").out)
    assert "## MEMORY.md" not in group["prompt"] and not group["citations"] and not group["dailyLogs"]
    assert {"path": "MEMORY.md", "reason": "not for groups and channels"} in group["excluded"]
    child = demo_call("prompt", "--workspace", demo, "--session-type", "subagent").out
    assert "this session has no memory_search" in child
    silent = demo_call("prompt", "--workspace", demo, "--citations", "off").out
    assert "do not mention paths of files" in silent and "Source: path#line" not in silent


def test_the_cut_line_is_named(tmp_path: Path, call: Call, world: World) -> None:
    world.write("MEMORY.md", "".join(f"fact {n}\n" for n in range(5000)))
    said = call("prompt").out
    assert "48,889 characters, cut in line 1,512" in said
    assert "[...truncated, read MEMORY.md for full content...]" in said


def test_sessions_beside_the_workspace_are_its_own(tmp_path: Path, bare: Call, world: World) -> None:
    """As in the demo, or in a copy of OpenClaw's folder."""
    copy = SessionWorld(tmp_path / "copy")
    (copy.root / "ws").rename(copy.root / "state" / "workspace")
    said = bare(
        "flush", "--workspace", str(copy.root / "state" / "workspace"), "--session", "main", "--dry-run"
    )
    assert said.code == 0 and "decision     flush: 180,000 tokens" in said.out
