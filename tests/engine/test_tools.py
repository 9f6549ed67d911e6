"""What the agent sees: recorded tool calls, citations, refusals, and answers when nothing was looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_mem_engine.config.secret import Secret
from openclaw_mem_engine.config.settings import ProviderSettings
from openclaw_mem_engine.errors import UsageError
from openclaw_mem_engine.memory import Memory
from openclaw_mem_engine.model import snippet_of
from openclaw_mem_engine.ranking.profiles import OPENCLAW_2026_2
from openclaw_mem_engine.tools import (
    citation,
    memory_get,
    memory_search,
    present_snippet,
    shows_citation,
    unavailable,
)
from support.embed_server import Server, running_server, unauthorized
from support.goldens import MODEL, WORKSPACE, golden
from support.memories import backend_of, open_memory, settings_for, write_notes

TOOL = golden("memory_search_tool")
GET = golden("memory_get")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as running:
        yield running


@pytest.fixture(scope="module")
def memory(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """The recorded workspace behind the recorded embedding, ranked as release 2026.2 does."""
    base = tmp_path_factory.mktemp("tools")
    workspace = base / "ws"
    shutil.copytree(WORKSPACE, workspace)
    (base / "outside").mkdir()
    (base / "outside" / "secret.md").write_text("outside text\n")
    (workspace / "README.md").write_text("readme\n")
    (workspace / "docs").mkdir()
    (workspace / "docs" / "extra.md").write_text("extra doc\nline two\n")
    (workspace / "docs" / "extra.txt").write_text("text\n")
    (workspace / "memory" / "data.txt").write_text("data\n")
    (workspace / "memory" / "dir.md").mkdir()
    (workspace / "memory" / "linkdir").symlink_to(base / "outside")
    provider = ProviderSettings("openai", MODEL, base_url=server.base_url, api_key=Secret("test-key"))
    settings = replace(settings_for(workspace, base / "home"), provider=provider)
    with Memory.open(settings) as opened:
        opened.knobs = OPENCLAW_2026_2
        opened.sync()
        yield opened


def cited(memory: Memory, mode: str) -> Memory:
    memory.settings = replace(memory.settings, citations=mode)  # type: ignore[arg-type]
    return memory


# -- memory_search --------------------------------------------------------------------------------------


@pytest.mark.goldens
@pytest.mark.parametrize("place", range(len(TOOL["citation_cases"])))
def test_recorded_citations(memory: Memory, place: int) -> None:
    """Everything of the answer is as recorded: field names, their order, footers, the score to 2e-6."""
    case = TOOL["citation_cases"][place]
    wanted = case["details"]
    (hit,) = wanted["results"]
    memory = cited(memory, case["citations"] or "auto")
    arguments = {"query": "label printer driver version", "maxResults": 1}
    found = memory_search(memory, arguments, case["sessionKey"])
    score = found["results"][0].pop("score")
    assert score == pytest.approx(hit["score"], abs=2e-6)
    assert found == wanted | {"results": [strip(hit)]}
    json.dumps(found)


@pytest.mark.goldens
@pytest.mark.parametrize("place", range(len(TOOL["arg_cases"])))
def test_recorded_arguments(memory: Memory, place: int) -> None:
    case = TOOL["arg_cases"][place]
    memory = cited(memory, "auto")
    if "thrown" in case["result"]:
        with pytest.raises(UsageError, match=f"^{case['result']['thrown']}$"):
            memory_search(memory, case["args"])
        return
    found, wanted = memory_search(memory, case["args"]), case["result"]
    scores, recorded = ([h["score"] for h in answer["results"]] for answer in (found, wanted))
    assert scores == pytest.approx(recorded, abs=2e-6)
    positive = [n for n, score in enumerate(recorded) if score > 1e-6]  # ties at 0 have no promised order
    assert [strip(found["results"][n]) for n in positive] == [strip(wanted["results"][n]) for n in positive]
    assert {k: v for k, v in found.items() if k != "results"} == {
        k: v for k, v in wanted.items() if k != "results"
    }


def strip(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key != "score"}


@pytest.mark.goldens
@pytest.mark.parametrize("case", TOOL["chatType"], ids=lambda case: repr(case["key"]))
def test_recorded_session_keys(case: dict[str, Any]) -> None:
    assert shows_citation("auto", case["key"]) == case["auto"]
    assert shows_citation("on", case["key"])
    assert not shows_citation("off", case["key"])


@pytest.mark.goldens
@pytest.mark.parametrize("case", TOOL["decorate"])
def test_recorded_footers(case: dict[str, Any]) -> None:
    text = case["snippet"].split("\n")[0]
    lines = case["startLine"], case["endLine"]
    assert present_snippet(text, case["path"], *lines, cite=True) == case["snippet"]
    assert citation(case["path"], *lines) == case["citation"]
    assert present_snippet(f" {text}\n", case["path"], *lines, cite=False) == f" {text}\n"


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({"maxResults": 0}, 1),
        ({"maxResults": -3}, 1),
        ({"maxResults": 2.9}, 2),
        ({"maxResults": "2"}, 2),
        ({"maxResults": 10**400}, 6),
        ({"maxResults": 1e300}, 20),
        ({"maxResults": 5000}, 20),
        ({"maxResults": "many"}, 6),
        ({"maxResults": True}, 6),
        ({"maxResults": None}, 6),
        ({"maxResults": float("nan")}, 6),
        ({"minScore": 7}, 0),
    ],
)
def test_odd_arguments_are_taken_as_the_nearest_possible(
    memory: Memory, arguments: dict[str, Any], count: int
) -> None:
    found = memory_search(cited(memory, "auto"), {"query": "router", "minScore": -1} | arguments)
    assert "unavailable" not in found
    assert len(found["results"]) == count


@pytest.mark.goldens
def test_recorded_unavailable_answers_have_our_words_in_their_shape() -> None:
    recorded = (
        [TOOL["provider_down"], TOOL["no_provider"]] if "no_provider" in TOOL else [TOOL["provider_down"]]
    )
    for case in recorded:
        if case.get("unavailable"):
            found = unavailable(case["error"])
            assert found.keys() == case.keys()
            assert {**found, "warning": "", "action": ""} == {**case, "warning": "", "action": ""}


@pytest.mark.parametrize(
    ("error", "quota"), [("429 quota", True), ("insufficient_quota", True), ("boom", False), ("  ", False)]
)
def test_quota_trouble_has_its_own_advice(error: str, quota: bool) -> None:
    found = unavailable(error)
    assert ("quota" in found["warning"]) == quota
    assert found["error"] == (error.strip() or "memory search unavailable")
    assert found["results"] == []
    assert found["disabled"] is found["unavailable"] is True


def test_a_failing_index_is_an_answer_and_not_an_exception(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "router\n"})
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        memory.sync()
        backend_of(memory).store._db._writer.execute("DROP TABLE chunks")  # type: ignore[attr-defined]
        found = memory_search(memory, {"query": "router"})
        assert found["unavailable"] is True
        assert "is damaged" in found["error"]


def test_without_embeddings_the_mode_says_so(tmp_path: Path) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "router\n"})
    with open_memory(workspace, tmp_path / "home", provider="none") as memory:
        memory.sync()
        found = memory_search(memory, {"query": "router"})
        assert (found["mode"], found["provider"]) == ("fts-only", "none")
        assert "model" not in found
        assert found["results"][0].keys() == {
            "path", "startLine", "endLine", "score", "snippet", "source", "citation"
        }  # fmt: skip
        nothing = memory_search(memory, {"query": "?!"})
        assert (nothing["mode"], nothing["results"]) == ("fts-only", [])


def test_a_provider_that_is_down_is_a_fallback_with_a_warning(tmp_path: Path, memory: Memory) -> None:
    with running_server(forever=unauthorized()) as down:
        provider = ProviderSettings("openai", MODEL, base_url=down.base_url, api_key=Secret("test-key"))
        settings = replace(memory.settings, provider=provider, index_path=tmp_path / "i.sqlite")
        with Memory.open(settings) as opened:
            opened.sync()
            found = memory_search(opened, {"query": "router"})
        fallback = replace(provider, fallback="static")
        with Memory.open(replace(settings, provider=fallback)) as opened:
            opened.sync()
            served = memory_search(opened, {"query": "router"})
    assert (served["provider"], served["mode"], served["fallback"]["from"]) == ("static", "hybrid", "openai")
    assert (found["mode"], found["provider"], "model" in found) == ("fts-only", "none", False)
    assert found["fallback"]["from"] == "openai"
    assert "401" in found["fallback"]["reason"]
    assert "BM25 only" in found["warning"]
    assert found["results"]
    assert "test-key" not in json.dumps(found)


@given(st.text(st.sampled_from("aé温\U0001f600\n")), st.integers(0, 12))
def test_a_snippet_is_cut_in_utf16_units_and_never_in_a_pair(text: str, limit: int) -> None:
    snippet = snippet_of(text, limit)
    units = [len(part.encode("utf-16-le")) // 2 for part in (snippet, text)]
    assert text.startswith(snippet)
    assert units[0] <= limit
    if snippet != text:
        following = text[len(snippet)]
        assert units[0] + (2 if following > "\uffff" else 1) > limit
    snippet.encode("utf-8")


# -- memory_get -----------------------------------------------------------------------------------------

OURS = {"memory/linkdir/secret.md"}


@pytest.mark.goldens
@pytest.mark.parametrize("place", range(len(GET["cases"])))
def test_recorded_readings(memory: Memory, place: int) -> None:
    scratch = str(memory.settings.workspace.parent)
    case = json.loads(json.dumps(GET["cases"][place]).replace("<SCRATCH>", scratch))
    arguments, wanted = case["args"], case["result"]
    if "thrown" in wanted:
        with pytest.raises(UsageError, match=f"^{wanted['thrown']}$"):
            memory_get(memory.settings, arguments)
        return
    found = memory_get(memory.settings, arguments)
    if arguments["path"] in OURS or wanted.get("disabled"):
        assert (found["path"], found["text"], found["disabled"]) == (arguments["path"], "", True)
        assert found["error"] != "path required", "our refusals say why"
        assert len(found["error"]) > 20
    else:
        assert found == wanted


def test_an_answer_is_plain_json_and_a_huge_start_is_no_error(memory: Memory) -> None:
    found = memory_get(memory.settings, {"path": "MEMORY.md", "from": 10**400, "lines": 1})
    assert list(found) == ["text", "path"]
    for path in (None, 5, "", "  "):
        with pytest.raises(UsageError, match=r"^path required$"):
            memory_get(memory.settings, {"path": path})
    with pytest.raises(UsageError, match=r"^path required$"):
        memory_get(memory.settings, {})


@pytest.mark.parametrize(
    "config",
    [
        {"agents": {"defaults": {"memorySearch": {"enabled": False}}}},
        {"plugins": {"slots": {"memory": "none"}}},
    ],
)
def test_tools_refuse_when_the_configuration_switches_memory_off(tmp_path: Path, config: Any) -> None:
    workspace = write_notes(tmp_path / "ws", {"MEMORY.md": "The pump.\n"})
    path = tmp_path / "openclaw.json"
    path.write_text(json.dumps(config))
    with open_memory(workspace, tmp_path, provider="none", OPENCLAW_CONFIG_PATH=str(path)) as memory:
        memory.sync()
        reply = memory_search(memory, {"query": "pump"})
        assert (reply["results"], reply["disabled"], reply["unavailable"]) == ([], True, True)
        assert reply["error"].startswith(f"{path}: ") and "switches memory search off" in reply["error"]
        got = memory_get(memory.settings, {"path": "MEMORY.md"})
        assert (got["text"], got["disabled"], got["error"]) == ("", True, reply["error"])
        assert [note.code for note in memory.status().notes] == ["memory-off"]
