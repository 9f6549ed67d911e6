"""``tool``: the agent's own answer, with its citations, its scope and the rules of the plug-in slot."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.tools import memory_get, memory_search
from support.commands import Call, World

GROUP = "agent:main:telegram:group:1"


def _config(world: World, text: str) -> None:
    world.data.mkdir(parents=True, exist_ok=True)
    (world.home / ".openclaw").mkdir(parents=True, exist_ok=True)
    (world.home / ".openclaw" / "openclaw.json").write_text(text, "utf-8")


@pytest.fixture
def original(world: World) -> Callable[[Callable[[Memory], dict[str, Any]]], Any]:
    """What the tool itself answers, as JSON."""

    def answer(tool: Callable[[Memory], dict[str, Any]]) -> Any:
        settings = load_settings(
            workspace=world.workspace, environ=world.environ, home=world.home, cwd=world.root
        )
        with Memory.open(settings) as memory:
            return json.loads(json.dumps(tool(memory)))

    return answer


@pytest.mark.parametrize("key", [None, GROUP])
def test_a_search_is_that_of_the_agent(call: Call, original: Callable[..., Any], key: str | None) -> None:
    given = {"query": "VLAN router", "maxResults": 2, "minScore": 0}
    option = ("--session-key", key) if key else ()
    said = call("tool", "memory_search", json.dumps(given), *option)
    assert said.code == 0
    found = json.loads(said.out)
    assert found == original(lambda memory: memory_search(memory, given, key))
    assert len(found["results"]) == 2
    assert all(("citation" in hit) == (key is None) for hit in found["results"])


def test_get_and_parameters_from_stdin(
    call: Call, world: World, original: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("index").code == 0
    given = {"path": "MEMORY.md", "from": 3, "lines": 1}
    expected = original(lambda memory: memory_get(memory.settings, given))
    assert expected["text"] == "The gateway is a grey box behind the door."

    def from_stdin(data: bytes) -> Any:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
        return call("tool", "memory_get", "-")

    assert json.loads(from_stdin(json.dumps(given).encode()).out) == expected
    for data in (b"", b"\xff\xfe\x00", b"[" * 100_000, b"3"):
        said = from_stdin(data)
        assert said.code == 2 and "Expected: {path, from?, lines?}. Example:" in said.err
    for index in world.indexes:
        index.write_bytes(b"no index at all " * 400)
    assert json.loads(from_stdin(json.dumps(given).encode()).out) == expected, "it needs no index"
    outside = json.loads(call("tool", "memory_get", '{"path": "../x.md"}').out)
    assert outside["disabled"] and outside["text"] == ""


@pytest.mark.parametrize(
    ("name", "parameters", "said"),
    [
        (
            "memory_srch",
            "{}",
            "no tool 'memory_srch'. Did you mean memory_search? The agent's memory tools are",
        ),
        (
            "memory_search",
            "{}",
            "The parameter query is required. Expected: {query, maxResults?, minScore?}. "
            """Example: `openclaw-mem tool memory_search '{"query": "vpn certificate"}'`""",
        ),
        ("memory_search", '{"query": 5}', "The parameter query must be a string. Expected:"),
        ("memory_search", json.dumps({"query": "word " * 30_000}), "100,000 is the limit"),
        ("memory_search", "{query: 1}", "are not JSON"),
        (
            "memory_search",
            '["x"]',
            "are not a JSON object. Expected: {query, maxResults?,",
        ),
        ("memory_get", "{}", "The parameter path is required. Expected: {path, "),
        ("memory_store", "{}", "The agent has no memory_store: the memory plug-in is memory-core"),
    ],
)
def test_wrong_calls_say_what_to_do(call: Call, name: str, parameters: str, said: str) -> None:
    found = call("tool", name, parameters)
    assert found.code == 2 and said in found.err and found.out == ""


def test_the_store_has_its_tools_with_its_slot_alone(call: Call, world: World) -> None:
    _config(world, '{"plugins": {"slots": {"memory": "memory-lancedb"}}}')
    text = "I like green tea"
    made = json.loads(call("tool", "memory_store", json.dumps({"text": text})).out)
    assert made["content"] == [{"type": "text", "text": f'Stored: "{text}..."'}]
    recalled = json.loads(call("tool", "memory_recall", '{"query": "tea", "limit": 1}').out)
    assert [item["id"] for item in recalled["details"]["memories"]] == [made["details"]["id"]]
    for limit in ("1e999", "true", '"3"', "NaN", "1" + "0" * 400):
        assert call("tool", "memory_recall", '{"query": "tea", "limit": ' + limit + "}").code == 2
    for name in ("memory_search", "memory_get"):
        said = call("tool", name, '{"query": "tea", "path": "MEMORY.md"}')
        assert said.code == 2 and "with the plug-in memory-lancedb it has memory_recall" in said.err
    gone = json.loads(call("tool", "memory_forget", json.dumps({"memoryId": made["details"]["id"]})).out)
    assert gone["details"] == {"action": "deleted", "id": made["details"]["id"]}


@pytest.mark.parametrize(
    "config",
    [
        '{"plugins": {"slots": {"memory": "none"}}}',
        '{"agents": {"defaults": {"memorySearch": {"enabled": false}}}}',
    ],
)
def test_switched_off_the_tools_refuse_and_nothing_is_indexed(
    call: Call, world: World, original: Callable[..., Any], config: str
) -> None:
    _config(world, config)
    given = {"query": "router"}
    found = json.loads(call("tool", "memory_search", json.dumps(given)).out)
    assert found["disabled"] and found["results"] == [] and "openclaw.json" in found["error"]
    assert found == original(lambda memory: memory_search(memory, given))
    got = json.loads(call("tool", "memory_get", '{"path": "MEMORY.md"}').out)
    assert got["disabled"] and got["text"] == ""
    assert call("tool", "memory_recall", json.dumps(given)).code == 2
    assert not Path(world.data, "memories").exists()


def test_scope_and_a_missing_workspace(call: Call, world: World) -> None:
    rules = [{"action": "allow", "match": {"chatType": "direct"}}]
    scope = {"default": "deny", "rules": rules}
    _config(world, json.dumps({"memory": {"backend": "qmd", "qmd": {"scope": scope}}}))
    allowed = json.loads(call("tool", "memory_search", '{"query": "router"}').out)
    assert allowed["results"]
    denied = json.loads(call("tool", "memory_search", '{"query": "router"}', "--session-key", GROUP).out)
    assert denied["results"] == []
    said = call("--workspace", str(world.root / "none"), "tool", "memory_search", '{"query": "x"}')
    assert said.code == 5 and "does not exist" in said.err
