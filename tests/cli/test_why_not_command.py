"""``why-not``: words that fit a terminal, JSON, suggestions, exit codes."""

from __future__ import annotations

import sys

import pytest

from openclaw_mem_engine.cli import terminal
from openclaw_mem_engine.ranking.knobs import KNOBS
from support.commands import Call, World


def test_the_answer_comes_first_and_lines_fit(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        world.write(
            f"memory/n{number}.md", f"# Note {number}\n\nThe router {'hums ' * number}in the cellar.\n"
        )
    said = call("why-not", "router VLAN", "memory/n39.md:3")
    assert said.code == 0
    first, *rest = said.out.splitlines()
    assert first.startswith("line 3 of memory/n39.md:1-4 is not returned (step pool): ")
    assert any(line.startswith("ok  retrieval") for line in rest)
    assert sum(line.startswith("no  ") for line in rest) == 1
    # A pipe gets each entry in one line, as from a search; a terminal what fits it.
    long = next(line for line in said.out.splitlines() if len(line) > 100)
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: stream is sys.stdout)
    monkeypatch.setattr(terminal, "width", lambda: 80)
    fitting = call("why-not", "router VLAN", "memory/n39.md:3").out.splitlines()
    assert max(map(len, fitting)) <= 90 and long not in fitting  # with the codes of emphasis


def test_json_is_the_documented_answer(call: Call) -> None:
    said = call("why-not", "router VLAN", "memory/2026-02-20.md:4", "--json")
    assert said.code == 0
    assert said.json["passage"] == {"path": "memory/2026-02-20.md", "startLine": 1, "endLine": 6}
    assert (said.json["returned"], said.json["stage"], said.json["rank"]) == (True, "returned", 1)


def test_the_options_of_a_search_count(call: Call) -> None:
    options = ("--set", "mode=bm25", "--max-results", "1")
    said = call("why-not", "router VLAN", "memory/2026-02-25.md", *options, "--json")
    assert said.json["stage"] == "max_results"
    assert {"max_results": 2} in [change["set"] for change in said.json["changes"]]
    assert "found by BM25; BM25 mode uses it" in [step["text"] for step in said.json["steps"]]


def test_a_change_that_the_agent_has_no_key_for_says_so(call: Call) -> None:
    knobs = ("--set", "min_score=0.99", "--set", "keyword_rescue=off")
    asked = ("why-not", "router VLAN", "memory/2026-02-25.md", *knobs)
    changes = call(*asked, "--json").json["changes"]
    only_here = {name: change["onlyHere"] for change in changes for name in change["set"]}
    assert only_here["min_score"] is False and only_here["keyword_rescue"] is True
    out = call(*asked).out
    assert "each of these returns it" in out
    for change in changes:
        ((name, value),) = change["set"].items()
        mark = " ‡" if change["onlyHere"] else ""
        (line,) = [line for line in out.splitlines() if line.startswith(f"  {name}={value}{mark}: ")]
        assert f": rank {change['rank']}, " in line and change["how"] in line
        assert ("; OpenClaw 2026.9.6 has a similar rule" in line) is (
            (name, value) == ("keyword_rescue", "fill")
        )
        assert line.endswith(f" ({KNOBS[name].says(value)})"), "what the value means"
    assert out.count("‡ OpenClaw has no such setting") == ("‡:" in out)
    rescued = {
        name for change in changes if "keyword rescue returns it" in change["how"] for name in change["set"]
    }
    assert rescued == {"keyword_rescue"}


def test_how_the_first_change_is_applied_for_one_search_here_and_in_the_agent(call: Call) -> None:
    """The settings of the question are not those of all searches: then only the first can be said."""
    asked = ("why-not", "router VLAN", "memory/2026-02-25.md")
    once = call(*asked, "--max-results", "1", "--set", "mode=bm25").out
    assert "  one search: add --set max_results=2\n" in once and "config set" not in once
    options = ("--yes", "query.max_results=1", "query.mode=bm25")
    assert call("config", "set", *options).code == 0
    out = call(*asked).out.split("to apply the first\n")[1].splitlines()
    text = "  all searches of openclaw-mem: `openclaw-mem config set query.max_results=2`"
    assert out[1] == text, "without the options that choose an index: the setting is for all of them"
    assert out[2] == "  the agent: agents.defaults.memorySearch.query.maxResults: 2 in openclaw.json"
    assert (
        call("search", "router VLAN", "--json", "--set", "max_results=2").json["results"][1]["path"]
        == asked[2]
    )


def test_a_note_that_is_not_indexed_yet_needs_a_command_and_no_change(call: Call, world: World) -> None:
    assert call("index").code == 0
    world.write("memory/new.md", "The router is new.\n")
    out = call("why-not", "router", "memory/new.md", "--no-sync").out
    assert out.startswith("memory/new.md is not returned (step indexed): it is not indexed yet.\n")
    assert "\nnext\n  Run `openclaw-mem " in out and "in the notes" not in out


def test_a_note_that_is_not_there_is_refused_with_suggestions(call: Call) -> None:
    said = call("why-not", "router", "memory/projects/grenhouse.md")
    assert said.code == 4 and not said.out
    assert said.err.rstrip().endswith("no such memory file. Did you mean memory/projects/greenhouse.md?")
    said = call("why-not", "router", "nope.md")
    assert said.code == 4 and "nope.md: this path is not memory: only MEMORY.md" in said.err
    assert "extra paths are. `openclaw-mem files` lists all memory files." in " ".join(said.err.split())
    assert "PATH:LINE" not in said.err
    assert "Name the passage as PATH:LINE" in call("why-not", "router", "brake pads").err
    assert "It is a folder: `openclaw-mem files` lists" in call("get", "memory").err


def test_a_line_beyond_the_end_is_wrong_usage(call: Call) -> None:
    said = call("why-not", "router", "MEMORY.md:99")
    assert said.code == 2 and "MEMORY.md ends at line 5: " in said.err
    said = call("why-not", "router", "MEMORY.md:0")
    assert said.code == 2 and "has no line 0" in said.err


def test_every_line_of_a_result_can_be_asked_for(call: Call) -> None:
    """The range of a result counts the empty text after the last newline, in which nothing is."""
    (hit,) = [hit for hit in call("search", "coffee", "--json").json["results"] if hit["path"] == "MEMORY.md"]
    assert hit["endLine"] == 5
    assert "line 5 is in the chunk of lines 1–5" in call("why-not", "coffee", "MEMORY.md:5").out
    assert "MEMORY.md ends at line 5: there is no line 6." in call("why-not", "coffee", "MEMORY.md:6").err
    assert call("get", "MEMORY.md:5").code == 0
    assert "MEMORY.md ends at line 5: there is no line 6." in call("get", "MEMORY.md:6").err
