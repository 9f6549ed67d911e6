"""``--fault``: the demonstration, and that nothing of it stays."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.cli import tui
from openclaw_mem_engine.providers.faults import FAULTS
from openclaw_mem_engine.retrieval import qmd_process
from support.commands import Call, World


@pytest.fixture(scope="module")
def without_faults() -> list[dict[str, Any]]:
    """The answer before the first fault, which the first test adds."""
    return []


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_shown_and_nothing_of_it_stays(
    demo_call: Call, without_faults: list[dict[str, Any]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name == "qmd-timeout":  # 4 s
        monkeypatch.setattr(qmd_process, "Deadline", lambda _: Deadline(0.5))
    if not without_faults:
        without_faults.append(demo_call("demo", "--query", "GRN-40417", "--json").json)
    (before,) = without_faults
    done = demo_call("demo", "--fault", name)
    text = done.out
    assert done.code == 0, done.err
    assert text.startswith(f"SIMULATED FAULT  {name}: ")
    assert "Lesson 15 of 15:" in text
    assert "Traceback" not in done.err
    if name.startswith("embeddings-"):
        assert "fallback: BM25 only (static failed), since " in text
        assert "(simulated fault)" in text
    elif name != "no-sqlite-vec":  # vectors are compared in the process then, with the same outcome
        assert "warning: " in text
    after = demo_call("demo", "--query", "GRN-40417", "--json").json
    assert after["results"] == before["results"]
    assert after["fallback"] is None


def test_several_faults_and_json(demo_call: Call) -> None:
    found = demo_call("demo", "--fault", "no-fts5, zero-vector", "--fault", "embeddings-401", "--json").json
    assert found["faults"] == ["embeddings-401", "zero-vector", "no-fts5"]
    assert found["lessons"][0]["runs"][0]["answer"]["fallback"]["from"] == "static"
    answer = demo_call("demo", "--fault", "embeddings-429", "--query", "GRN-40417", "--json").json
    assert answer["faults"] == ["embeddings-429"]
    assert answer["results"]
    assert demo_call("demo", "--json").json["faults"] == []


def test_a_demo_that_was_never_indexed_shows_a_fault_on_a_good_index(bare: Call) -> None:
    found = bare("demo", "--fault", "zero-vector", "--query", "GRN-40417", "--json").json
    assert found["results"]
    texts = [note["text"] for note in found["notes"] if note["code"] == "embedding-failed"]
    assert "returns a vector of zeros" in texts[0] and "(simulated fault)" in texts[0]
    assert bare("demo", "--query", "GRN-40417", "--json").json["notes"] == []


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["demo", "--fault", "nope"], f"Known: {', '.join(FAULTS)}."),
        (["demo", "--fault", "no-fts5,\x1b[31m"], "There is no fault"),
        (["demo", "--fault", " , "], "--fault is empty"),
        (["tui", "--fault", "nope"], "There is no fault 'nope'"),
        (["search", "x", "--fault", "no-fts5"], "There is no option --fault"),
    ],
)
def test_wrong_usage(bare: Call, world: World, argv: list[str], message: str) -> None:
    said = bare(*argv)
    assert (said.code, said.out) == (2, "")
    assert message in said.err
    assert "\x1b" not in said.err
    assert not world.data.exists()


def test_the_help_names_every_fault(bare: Call) -> None:
    for command in ("demo", "tui"):
        text = " ".join(bare(command, "--help").out.split())
        assert all(name in text for name in FAULTS)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the workbench was opened with; it searches once, and closes."""
    import openclaw_mem_tui.app

    seen: list[dict[str, Any]] = []

    def workbench(memory_factory: Any, **options: Any) -> Any:
        with memory_factory(frozenset()) as memory:
            memory.sync()
        with memory_factory(options["faults"]) as memory:
            seen.append({"settings": memory.settings, "answer": memory.search("router"), **options})
        return SimpleNamespace(run=lambda: 0, unsaved="", is_closed=True)

    monkeypatch.setattr(openclaw_mem_tui.app, "Workbench", workbench)
    monkeypatch.setattr(tui, "is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    return seen


def test_the_workbench_gets_the_faults(call: Call, opened: list[dict[str, Any]]) -> None:
    call("index")
    assert call("tui", "--fault", "zero-vector").code == 0
    (options,) = opened
    assert "embedding-failed" in [note.code for note in options["answer"].trace.notes]
    assert [hit.path for hit in options["answer"].hits] == ["memory/2026-02-20.md"]
    assert call("search", "router", "--json").json["notes"] == []


def test_so_does_the_demo(bare: Call, world: World, opened: list[dict[str, Any]]) -> None:
    assert bare("demo", "--fault", "embeddings-401", "--query", "vpn").code == 0
    (options,) = opened
    assert options["initial_query"] == "vpn"
    assert len(options["demo"]) == 15
    assert options["answer"].pool.fallback.origin == "static"
    assert len(world.indexes) == 1
