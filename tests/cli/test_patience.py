"""What waits for what: a search not for its own sync, and who asks for an index gets all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_mem_engine.cli import search
from support.commands import Call, World
from support.embed_server import hang, running_server
from support.memories import age
from support.transcripts import append, message


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search has no time for files."""
    monkeypatch.setattr(search, "INDEXING_S", 0.0)


@pytest.mark.usefixtures("hurried")
def test_a_search_says_what_it_did_not_wait_for(call: Call, world: World) -> None:
    first = call("search", "router")
    assert "indexed 4 new or modified files" in first.err, "where there is nothing to search, all is indexed"
    for number in range(30):
        world.write(f"memory/many/{number:02}.md", f"# Note {number}\n\nThe heron is number {number}.\n")
    said = call("search", "router", "--json")
    assert said.code == 0 and said.json["results"][0]["path"] == "memory/2026-02-20.md"
    assert "indexed 1 new or modified file in" in said.err
    assert "29 files wait to be indexed" in said.err and "`openclaw-mem index` does the rest" in said.err
    fresh = said.json["freshness"]
    assert (fresh["state"], fresh["changedCount"]) == ("stale", 29)
    assert "29 new or modified" in call("index").out
    said = call("search", "heron", "--json")
    assert (said.err, said.json["freshness"]["state"]) == ("", "fresh")


@pytest.fixture
def talks(world: World) -> Path:
    """The one transcript of an agent that opted in."""
    folder = world.home / ".openclaw/agents/main/sessions"
    folder.mkdir(parents=True)
    path = folder / "one.jsonl"
    path.write_text(message("How is the greenhouse?"))
    age(path)
    own = world.home / ".config/openclaw-mem/config.toml"
    own.parent.mkdir(parents=True)
    own.write_text('sources = ["memory", "sessions"]\n')
    return path


@pytest.mark.parametrize("option", [(), ("--verify",), ("--force",)])
def test_index_takes_the_tail_of_a_conversation(call: Call, talks: Path, option: tuple[str, ...]) -> None:
    call("index")
    append(talks, message("The walrus is fed."))
    assert call("search", "walrus", "--format", "files").out == "", "by itself it waits for more"
    assert call("index", "--dry-run").out.splitlines()[1].startswith("1 file to read")
    assert call("index", *option).code == 0
    assert call("search", "walrus", "--format", "files").out.startswith("sessions/one.jsonl")
    assert call("index", "--dry-run").out.splitlines()[1].startswith("0 files to read")


def test_the_first_search_answers_though_the_provider_does_not(call: Call, world: World) -> None:
    """One request is sent at most, and none for the query; the next run sends none; `index` completes it."""
    own = world.home / ".config/openclaw-mem/config.toml"
    own.parent.mkdir(parents=True)
    with running_server(forever=hang(600)) as server:
        own.write_text(f'[provider]\nname = "openai"\nbase_url = "{server.base_url}"\nmodel = "m"\n')
        first = call("search", "router", "--json")
        assert first.code == 0 and first.json["results"][0]["path"] == "memory/2026-02-20.md"
        assert "gave no embedding within" in first.json["fallback"]["reason"]
        assert "`openclaw-mem index` does the rest" in first.err
        sent = len(server.requests)
        assert sent <= 1
        second = call("search", "router", "--json").json
        assert len(server.requests) == sent and second["fallback"]["active"] == "bm25"
        server.forever = None
        assert call("index").code == 0
        assert call("search", "router", "--json").json["fallback"] is None
