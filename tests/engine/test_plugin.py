"""The store of single memories: capture rules, tools and numbers of the original plug-in."""

from __future__ import annotations

import errno
import re
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_mem_engine.cli.arguments import COMMANDS
from openclaw_mem_engine.config.groups import PluginSettings
from openclaw_mem_engine.config.load import load_settings
from openclaw_mem_engine.config.settings import Settings
from openclaw_mem_engine.errors import UsageError, WorkspaceError
from openclaw_mem_engine.plugin.agent_tools import (
    STORE_TOOLS,
    TOOLS,
    check_tool,
    memory_forget,
    memory_recall,
    memory_store,
)
from openclaw_mem_engine.plugin.capture import CATEGORIES, decide, decide_all, looks_like_injection
from openclaw_mem_engine.plugin.memories import Memories, escaped, recall_block
from openclaw_mem_engine.state.disk import held
from support.goldens import golden

TEA = "I like green tea in the morning"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    environ = {"OPENCLAW_MEM_HOME": str(tmp_path / "data")}
    found = load_settings(workspace=tmp_path / "ws", environ=environ, home=tmp_path, cwd=tmp_path)
    return replace(found, plugin=PluginSettings(slot="memory-lancedb"))


@pytest.fixture
def memories(settings: Settings) -> Iterator[Memories]:
    with Memories(settings) as opened:
        yield opened


def test_decisions_are_those_of_the_original() -> None:
    recorded = golden("lancedb")
    for case in recorded["shouldCapture"]:
        found = decide(case["text"])
        assert (found.captured, found.category) == (case["capture"], case["category"]), case
        assert found.rule
    for case in recorded["captureMaxChars"]:
        assert decide(case["text"], case["maxChars"]).captured == case["capture"]
    for case in recorded["looksLikePromptInjection"]:
        assert looks_like_injection(case["text"]) == case["flagged"], case
    assert escaped("a & b <c> \"d\" 'e'") == recorded["escape"]
    assert recall_block([("fact", "a < b"), ("preference", "tea")]) == recorded["format"]


def test_the_tools_answer_as_the_original(memories: Memories) -> None:
    """The recorded calls in their order; its vectors are others, so scores are compared by their kind."""
    names: dict[str, str] = {}
    for call in golden("lancedb")["tool_calls"]:
        arguments = {key: names.get(value, value) for key, value in call["args"].items()}
        if arguments.get("memoryId") == "<ID4>":
            arguments["memoryId"] = memories.store("something else entirely", "other")[0].id
        tool = STORE_TOOLS[call["tool"]]
        if (thrown := call["result"].get("thrown")) is not None:
            with pytest.raises(UsageError, match=thrown):
                tool(memories, arguments)
            continue
        answer, expected = tool(memories, arguments), call["result"]
        assert answer.keys() == expected.keys()
        details, wanted = answer["details"], expected["details"]
        assert details.keys() == wanted.keys(), call
        if "memories" in wanted:
            assert [item["text"] for item in details["memories"]] == [
                item["text"] for item in wanted["memories"]
            ]
            assert details["memories"][0].keys() == wanted["memories"][0].keys()
        else:
            for made, recorded in zip(details.values(), wanted.values(), strict=True):
                if isinstance(recorded, str) and recorded.startswith("<ID") and recorded not in names:
                    names[recorded] = made
                assert made == names.get(recorded, recorded)
            text = expected["content"][0]["text"]
            for name, made in names.items():
                text = text.replace(name, made)
            assert answer["content"][0]["text"] == text


def test_every_decision_names_the_rule_and_refused_texts_can_be_stored(memories: Memories) -> None:
    texts = [
        "I prefer rust over go",
        "thanks",
        "my email is a@b.co",
        "always check twice",
        "never ever do that",
    ]
    found = memories.capture(texts)
    assert [bool(item.stored) for item in found] == [True, False, True, True, False]
    assert found[1].decision.rule == "has 6 characters, fewer than 10"
    assert found[4].decision.rule == "comes after 3 that were captured"
    assert {item.text for item in memories.all()} == {texts[0], texts[2], texts[3]}
    memories.store("thanks")
    assert memories.all()[0].text == "thanks"
    again = memories.capture([texts[0]])
    assert again[0].duplicate_of and not again[0].stored
    assert all(item.decision.captured for item in memories.capture(texts[:1], dry_run=True))


def test_recall_is_escaped_data_and_short_prompts_recall_nothing(memories: Memories) -> None:
    memories.store("</relevant-memories> I like tea & biscuits", "preference")
    found = memories.recall_for("what about tea and biscuits?")
    assert found is not None and found.count("</relevant-memories>") == 1
    assert "1. [preference] &lt;/relevant-memories&gt; I like tea &amp; biscuits" in found
    assert memories.recall_for("tea") is None


def test_several_near_memories_are_candidates_and_nothing_is_removed(memories: Memories) -> None:
    memories.store(TEA)
    memories.store("I like black tea in the morning")
    answer = memory_forget(memories, {"query": "I like tea in the morning"})
    assert answer["details"]["action"] == "candidates" and len(memories.all()) == 2


@pytest.mark.parametrize("text", ["tea", "👍"])
def test_without_vectors_the_same_text_is_found_wherever_it_ranks(settings: Settings, text: str) -> None:
    bare = replace(settings, provider=replace(settings.provider, provider="none"))
    with Memories(bare) as memories:
        for stored in ("tea tea tea", "tea tea", text):
            assert memories.store(stored)[1]
        assert not memories.store(text)[1] and len(memories.all()) == 3


def test_without_vectors_words_recall_and_nothing_is_removed_by_a_query(settings: Settings) -> None:
    bare = replace(settings, provider=replace(settings.provider, provider="none"))
    with Memories(bare) as memories:
        memory_store(memories, {"text": TEA})
        answer = memory_recall(memories, {"query": "tea"})
        assert answer["details"]["memories"][0]["text"] == TEA
        assert "score" not in answer["details"]["memories"][0]
        assert memory_forget(memories, {"query": "tea"})["details"]["action"] == "candidates"
        assert memory_store(memories, {"text": TEA})["details"]["action"] == "duplicate"


def test_memories_outlive_their_index_and_are_private(settings: Settings) -> None:
    with Memories(settings) as memories:
        memories.store(TEA, "preference", 0.2)
    folder = settings.data_dir / "memories"
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    for path in folder.glob("*.sqlite*"):
        path.unlink()
    with Memories(settings) as memories:
        (found,) = memories.search("tea", 5, 0.1)
    assert (found.text, found.category, found.importance) == (TEA, "preference", 0.2)


@pytest.mark.parametrize(
    "arguments", [{}, {"text": " "}, {"text": "x", "category": "../../x"}, {"text": "x", "importance": 7}]
)
def test_wrong_parameters(memories: Memories, arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        memory_store(memories, arguments)
    assert memories.all() == []


def test_the_slot_decides_which_tools_there_are(settings: Settings) -> None:
    offered = {
        "memory-core": 2,
        "memory-lancedb": 3,
        "none": 2,
        "else": 2,
    }  # those of notes refuse by themselves
    for slot, number in offered.items():
        own, found = replace(settings, plugin=PluginSettings(slot=slot)), 0
        for name in TOOLS:
            try:
                check_tool(own, name)
                found += 1
            except UsageError as error:
                assert slot in str(error)
        assert found == number
    with pytest.raises(UsageError, match="no tool 'x'"):
        check_tool(settings, "x")
    assert set(STORE_TOOLS) < set(TOOLS)


def test_the_help_names_every_tool_and_category() -> None:
    by_name = {command.name: command for command in COMMANDS}
    stored = next(one for one in by_name["memories"].commands if one.name == "store")
    for command, argument, names in ((by_name["tool"], "name", TOOLS), (stored, "--category", CATEGORIES)):
        (said,) = (how["help"] for (name,), how, _title in command.options if name == argument)
        assert set(re.findall(r"\w+", said)) - {"and", "write", "default"} == set(names)


def test_at_most_three_of_one_conversation() -> None:
    assert [item.captured for item in decide_all(["I like tea a lot"] * 5)] == [True] * 3 + [False] * 2


def test_two_that_store_one_text_at_once_keep_it_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins while the first writes: it has to wait for it."""
    second_is_there, answers = threading.Event(), []
    write, lock = Memories._write, held

    def store() -> None:
        with Memories(settings) as memories:
            answers.append(memories.store(TEA))
        second_is_there.set()

    second = threading.Thread(target=store)

    @contextmanager
    def noted(folder: Path, what: str) -> Iterator[None]:
        if threading.current_thread() is second:
            second_is_there.set()
        with lock(folder, what):
            yield

    def begun(self: Memories, *arguments: Any) -> None:
        if threading.current_thread() is not second:
            second.start()
            assert second_is_there.wait(60)
        write(self, *arguments)

    monkeypatch.setattr("openclaw_mem_engine.plugin.memories.held", noted)
    monkeypatch.setattr(Memories, "_write", begun)
    with Memories(settings) as first:
        stored = first.store(TEA)
        second.join()
        assert answers == [(replace(stored[0], score=answers[0][0].score), False)]
        assert len(first.all()) == 1


def test_a_full_disk_is_said_and_nothing_is_stored(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, *_rest: Any, **_named: Any) -> None:
        path.write_text("hal")
        raise OSError(errno.ENOSPC, "No space left on device")

    with Memories(settings) as memories:
        with monkeypatch.context() as patch:
            patch.setattr("openclaw_mem_engine.state.disk.write_file", full)
            with pytest.raises(WorkspaceError, match=r"is full\. .* Free some space\."):
                memories.store(TEA)
        assert memories.all() == [] == memories.search("tea", 5, 0.0)
        assert memories.store(TEA)[1] and len(memories.all()) == 1


def test_a_damaged_index_is_no_reason_to_lose_memories(settings: Settings) -> None:
    with Memories(settings) as memories:
        memories.store(TEA)
    index = settings.data_dir / "memories" / "main.sqlite"
    index.write_bytes(b"garbage" * 1000)
    with Memories(settings) as memories:
        assert [item.text for item in memories.search("tea", 5, 0.0)] == [TEA]
        (said,) = memories.notes
        assert said.startswith("The index was damaged. ") and f"is kept as {index}." in said
    with closing(apsw.Connection(str(index))) as connection:
        connection.execute("DELETE FROM chunks_fts_stemmed")
    with Memories(settings) as memories:
        (found,) = memories.search("tea", 5, 0.0)
        (said,) = memories.notes
        assert found.score is not None and said.startswith("The index was damaged. ")
