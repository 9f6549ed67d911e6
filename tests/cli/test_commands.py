"""``index``, ``get``, ``status``, ``config``, ``demo``, ``tui`` and the bare command."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from openclaw_mem_engine import __version__
from openclaw_mem_engine.cli import terminal
from openclaw_mem_engine.cli.arguments import COMMANDS
from openclaw_mem_engine.state.events import KINDS
from openclaw_mem_engine.timeline.model import ASKED_KINDS
from support.commands import NOTES, Call, World
from support.embed_server import running_server, unauthorized

# index


def test_index_json_is_the_documented_contract(call: Call, world: World) -> None:
    world.write("memory/binary.md", b"a\0b")
    said = call("index", "--json")
    assert said.code == 0
    report = said.json
    assert report["files"] == report["chunks"] == report["embedded"] == 4
    assert report["cacheHits"] == 0
    assert [skipped["path"] for skipped in report["excluded"]] == ["memory/binary.md"]
    assert "binary" in report["excluded"][0]["reason"]
    assert report["seconds"] >= 0
    again = call("index", "--json").json
    assert (again["changed"], again["embedded"]) == ([], 0)
    assert again["excluded"] == report["excluded"]


def test_index_tells_people_what_it_left_out(call: Call, world: World) -> None:
    world.write("memory/latin1.md", "caf\xe9".encode("latin-1"))
    (world.workspace / "memory" / "link.md").symlink_to("/etc/passwd")
    said = call("index")
    assert said.out.startswith("Indexed: 4 files, 4 chunks in")
    assert "2 files or folders excluded:" in said.out
    assert "4 new or modified, 0 deleted, 2 excluded\n" in said.out
    assert "memory/latin1.md: not UTF-8 at byte 3" in said.out
    assert "memory/link.md: is a link" in said.out
    assert call("index").out.startswith("Up to date: 4 files")
    forced = call("index", "--force").out
    assert forced.startswith("Rebuilt: 4 files")
    assert "0 texts embedded, 4 taken from the cache" in forced


def test_an_unreadable_note_is_named(call: Call, world: World) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    world.write("memory/secret.md", "x").chmod(0)
    assert "memory/secret.md: may not be read" in call("index").out


def test_index_exits_7_when_embedding_failed_and_keywords_still_answer(bare: Call, world: World) -> None:
    with running_server(forever=unauthorized()) as server:
        config = world.root / "openclaw.json"
        remote = {"baseUrl": server.base_url, "apiKey": "sk-secret-secret"}
        search = {"provider": "openai", "model": "m", "remote": remote}
        config.write_text(
            json.dumps({"agents": {"defaults": {"workspace": str(world.workspace), "memorySearch": search}}})
        )
        said = bare("index", "--config", str(config))
        assert said.code == 7
        assert "text without embeddings" in said.err
        found = bare("search", "router", "--config", str(config), "--json")
        assert (found.code, found.err) == (0, ""), "the answer says it"
        assert found.json["fallback"]["from"] == "openai"
        advice = " ".join(note["text"] for note in found.json["notes"])
        advice += bare("doctor", "--config", str(config)).out
        assert "Check the API key" in advice and "openclaw-mem index" not in advice, "which would fail, too"
        assert found.json["results"][0]["path"] == "memory/2026-02-20.md"
        assert "sk-secret" not in said.out + said.err + found.out + found.err


# get


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["MEMORY.md"], NOTES["MEMORY.md"]),
        (["MEMORY.md:3"], "The gateway is a grey box behind the door.\nCoffee is bought on Mondays.\n"),
        (["MEMORY.md:3", "--lines", "1"], "The gateway is a grey box behind the door.\n"),
        (["MEMORY.md:1-3"], "# Facts\n\nThe gateway is a grey box behind the door.\n"),
        (["MEMORY.md:1-2"], "# Facts\n\n"),
        (["MEMORY.md#L3-L3"], "The gateway is a grey box behind the door.\n"),
        (["MEMORY.md", "--from", "4", "--lines", "9"], "Coffee is bought on Mondays.\n"),
        (["memory/../MEMORY.md", "--lines", "1"], "# Facts\n"),
    ],
)
def test_get_prints_exactly_the_lines(call: Call, argv: list[str], text: str) -> None:
    said = call("get", *argv)
    assert said == (0, text, "")


def test_get_is_exact_also_where_utf8_is_not_spoken(world: World) -> None:
    world.write("memory/fr.md", "crème\r\nbrûlée\x1b[31m\n")
    done = world.run(
        "get", "memory/fr.md", "--workspace", str(world.workspace), env={"PYTHONIOENCODING": "ascii"}
    )
    assert done.stdout == "crème\r\nbrûlée\x1b[31m\n".encode()


def test_get_makes_no_index(call: Call, world: World) -> None:
    call("get", "MEMORY.md")
    assert not world.data.exists()


def test_get_of_a_missing_file_is_empty_and_suggests(call: Call) -> None:
    said = call("get", "memory/projects/grenhouse.md")
    assert (said.code, said.out) == (0, "")
    assert (
        "There is no note memory/projects/grenhouse.md. Did you mean memory/projects/greenhouse.md"
        in said.err
    )
    unlike = " ".join(call("get", "memory/nope.md").err.split())  # in the folder of many, like none of them
    assert unlike.endswith("There is no note memory/nope.md. `openclaw-mem files` lists all memory files.")
    for command in (["get"], ["why-not", "router"]):
        wrong = call(*command, "MEMORY.md:abc")
        assert (wrong.code, wrong.out) == (4, "")
        assert wrong.err.endswith("openclaw-mem: 'abc' is not a line: write MEMORY.md:3 or MEMORY.md:3-8.\n")


def test_get_of_a_name_that_no_disk_can_hold_is_refused(call: Call) -> None:
    said = call("get", f"{'x' * 400}.md")
    assert said.code == 4 and "this path is not memory" in said.err


def test_get_past_the_end_says_how_long_the_file_is(call: Call) -> None:
    said = call("get", "MEMORY.md:99")
    assert (said.code, said.out) == (0, "")
    assert "MEMORY.md ends at line 5: there is no line 99." in said.err


def test_get_json(call: Call) -> None:
    assert call("get", "MEMORY.md:1-1", "--json").json == {
        "path": "MEMORY.md",
        "text": "# Facts",
        "startLine": 1,
        "endLine": 1,
        "totalLines": 5,
        "found": True,
    }
    missing = call("get", "memory/none.md", "--json")
    assert missing.json["found"] is False


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../outside.md", "notes.md", "memory/x.txt", "memory/link.md", "memory/dir/x.md"]
)
def test_get_refuses_with_exit_4(call: Call, world: World, path: str) -> None:
    (world.workspace / "memory" / "link.md").symlink_to("/etc/passwd")
    (world.workspace / "memory" / "dir").symlink_to("/etc")
    said = call("get", path)
    assert (said.code, said.out) == (4, "")
    assert f"openclaw-mem: {path}: " in said.err


# status


def test_status_leaves_nothing_behind(call: Call, world: World) -> None:
    said = call("status", "--json")
    assert said.code == 0
    status = said.json
    assert (status["files"], status["freshness"]["state"]) == (0, "empty")
    assert status["freshness"]["changedCount"] == 4
    assert status["indexPath"].startswith(str(world.data))
    assert status["indexBytes"] == 0
    assert not world.data.exists()


def test_status_tells_what_is_there_and_does_not_sync(call: Call, world: World) -> None:
    call("index")
    world.write("memory/new.md", "new")
    status = call("status", "--json").json
    assert (status["files"], status["vectors"], status["provider"]) == (4, 4, "static")
    assert status["freshness"]["state"] == "stale"
    said = call("status")
    assert "state      stale since " in said.out
    assert ", last synced:" in said.out
    assert "1 change: memory/new.md" in said.out
    assert "static (configured: auto)" in said.out


def test_status_counts_the_vectors_of_the_provider_that_is_asked_about(call: Call) -> None:
    call("index")
    assert "4, 4 with a vector of static" in call("status").out
    other = call("status", "--provider", "ollama")
    assert "4, 0 with a vector of ollama" in other.out and "0 of 4 chunks with its vectors" in other.out
    assert call("status", "--provider", "ollama", "--json").json["vectors"] == 0
    assert " with a vector" not in call("status", "--provider", "none").out


def test_status_and_chunks_name_what_no_search_shows(
    call: Call, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = "\n".join(f"On day {day} the tank held {day * 7} litres." for day in range(40))
    world.write("memory/long.md", long)
    call("index")
    status = call("status", "--json").json
    found = status["unshown"]["files"]
    assert list(found) == ["memory/long.md"]
    assert 0 < status["unshown"]["share"] < found["memory/long.md"]["share"]
    assert found["memory/long.md"]["characters"] == len(long)
    assert " of the text can never appear in a search result, " in call("status").out
    assert call("chunks", "memory/long.md", "--json").json["unshown"] == found["memory/long.md"]
    monkeypatch.setenv("OPENCLAW_MEM_PROFILE", "workbench")
    assert "memory/long.md" not in call("status", "--json").json["unshown"]["files"]
    assert "every line can appear in a result" in call("chunks", "memory/long.md").out


def test_an_index_that_lacks_vectors_is_called_incomplete_each_time(call: Call) -> None:
    for _ in range(2):
        found = call("index", "--provider", "openai")
        assert found.code == 7 and found.out.startswith("Incomplete: 4 files")


def test_advice_about_a_provider_without_a_key_is_one_that_helps(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("index")
    said = call("search", "router", "--provider", "openai").out
    assert (
        "set OPENAI_API_KEY or, for the primary provider, provider.api_key" in said and "index stale" in said
    )
    assert "openai index`" not in said, "a sync without a key changes nothing"
    assert "updates it" not in call("status", "--provider", "openai").out
    assert call("index", "--provider", "openai").out.startswith("Incomplete: 4 files"), "nor is it up to date"
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: stream is sys.stdout)
    monkeypatch.setattr(terminal, "width", lambda: 80)
    narrow = call("search", "router", "--provider", "openai").out.splitlines()
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in narrow) <= 80
    assert any("\x1b[33mwarning\x1b[0m: BM25 only: " in line for line in narrow)
    (row,) = [
        line for line in call("status", "--provider", "openai").out.splitlines() if "from openai: " in line
    ]
    assert len(row) <= 80
    for argv in (["providers"], ["index", "--dry-run"]):
        shown = call(*argv, "--provider", "openai").out.splitlines()
        (row,) = [line for line in shown if "No API key for api.openai.com" in line]
        assert len(row) <= 90 and row.startswith("\x1b[33m"), argv
    logged = call("log", "--kind", "fallback").out.splitlines()
    assert any("OPENAI_API_KEY" in line for line in logged) and all(len(line) <= 90 for line in logged)


# config


def test_config_names_origin_and_range_and_hides_secrets(bare: Call, world: World) -> None:
    folder = world.home / ".openclaw"
    folder.mkdir()
    key = "sk-abcdefghijklmnopqrstuv"
    (folder / "openclaw.json").write_text(
        f"""{{ // as OpenClaw writes it
        agents: {{ defaults: {{ memorySearch: {{ provider: "openai", remote: {{ apiKey: "{key}" }},
            query: {{ maxResults: 9 }} }} }} }},
        memory: {{ backend: "qmd", qmd: {{ limits: {{ maxResults: 8 }},
            mcporter: {{ a: 1, b: 2, c: 3 }} }} }} }}"""
    )
    said = bare("config")
    assert said.code == 0
    assert [line.split()[2] for line in said.out.splitlines() if line.startswith("not used")] == [
        *("memory.qmd.mcporter.a", "memory.qmd.mcporter.b", "memory.qmd.mcporter.c")
    ]
    assert "memory.qmd.mcporter.c are not used." in said.err
    line = next(line for line in said.out.splitlines() if line.startswith("query.max_results"))
    assert line.split()[1] == "8" and "(profile qmd-documented, memory.qmd.limits)" in line  # not the 9
    assert "query.min_score                 0  (profile qmd-documented)\n" in said.out
    assert "query.profile                   qmd-documented  (memory.backend is qmd)\n" in said.out
    line = next(line for line in said.out.splitlines() if line.startswith("provider.name"))
    assert "openclaw.json" in line
    bare("config", "set", "query.vector_weight=0.5", "--yes")
    weight = bare("config", "show", "query.bm25_weight").out
    assert weight == "query.bm25_weight               0.5  (from query.vector_weight)\n"
    assert "agent                           main\n" in said.out, "what is built in has no origin"
    assert "an integer" not in said.out
    ranges = bare("config", "--verbose").out.partition("query.max_results ")[2].splitlines()
    assert ranges[1].strip() == "allowed: an integer, 1 to 200"
    as_json = bare("config", "--json")
    assert as_json.json["settings"]["provider.api_key"]["value"] == "set"
    assert key not in said.out + said.err + as_json.out


def test_settings_and_help_fit_a_terminal_of_80_columns(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is longer is one word, such as a path."""
    for module in ("terminal", "parser"):
        monkeypatch.setattr(f"openclaw_mem_engine.cli.{module}.width", lambda: 80)
    monkeypatch.setattr("openclaw_mem_engine.cli.terminal.is_terminal", lambda _stream: True)
    monkeypatch.setenv("NO_COLOR", "1")
    commands, texts = [(c.name, c) for c in COMMANDS], [call("config", "--verbose").out, call("--help").out]
    while commands:
        words, command = commands.pop()
        texts.append(call(*words.split(), "--help").out)
        commands += [(f"{words} {inner.name}", inner) for inner in command.commands]
    long = [line for text in texts for line in text.splitlines() if len(line) > 80]
    assert [line for line in long if len(line.split()[-1]) < 40] == []


def test_the_help_lists_every_command_once_on_one_line(bare: Call) -> None:
    said = bare("--help").out
    assert "--json" in bare("log", "--help").out and "--json" not in bare("tui", "--help").out
    assert bare("help").out == said and bare("help", "log").out == bare("log", "--help").out
    for command in COMMANDS:
        assert said.count(f"\n  {command.name:15}  {command.summary}\n") == 1, command.name
        assert len(command.summary) <= 59


def test_an_agent_without_an_index_is_noted_where_others_have_one(call: Call) -> None:
    assert "no index" not in call("search", "router", "--agent", "anna").err
    words = "has no index of"
    assert words not in call("search", "router").err, "the default agent was not mistyped"
    said = call("status", "--agent", "anan").out
    assert f"warning: Agent anan {words} " in said
    assert "Agents that have one: anna, main. Did you mean anna?" in said
    assert f"Agent anan {words} " in call("search", "router", "--agent", "anan").err
    assert words not in call("search", "router", "--agent", "anan").err


def test_an_agent_that_is_not_configured_is_said_before_its_missing_workspace(
    bare: Call, world: World
) -> None:
    folder = world.home / ".openclaw"
    folder.mkdir()
    (folder / "openclaw.json").write_text('{"agents": {"list": [{"id": "main"}, {"id": "ops"}]}}')
    for line in ("status", "files", "get MEMORY.md", "chunks MEMORY.md", "timeline", "search x"):
        said = bare(*line.split(), "--agent", "opps")
        assert (said.code, said.out) == (5, "")
        first, second = said.err.splitlines()
        assert first.endswith("Its agents: main, ops. Did you mean ops?") and "does not exist" in second, line


def test_a_glob_that_matches_nothing_is_said(call: Call) -> None:
    said = call("search", "router", "--include", "nots/*.md", "--include", "*.txt")
    assert "2026-02-20.md" in said.out and "Not indexed: '*.txt' matches no .md file." in said.out
    assert "warning: Not indexed: '*.txt' matches no" in call("index", "--include", "*.txt").out


@pytest.mark.parametrize(("command", "kinds"), [("log", KINDS), ("timeline", ASKED_KINDS)])
def test_the_help_names_every_kind_of_event(bare: Call, command: str, kinds: tuple[str, ...]) -> None:
    assert f"separated by commas: {', '.join(kinds)}; may be repeated" in " ".join(
        bare(command, "--help").out.split()
    )


def test_flags_show_up_as_origins(call: Call) -> None:
    settings = call("config", "--json", "--provider", "none").json["settings"]
    assert settings["provider.name"]["origin"] == {"kind": "flag", "where": "--provider"}
    assert settings["workspace"]["origin"]["kind"] == "flag"


# demo


def test_demo_prints_only_the_path(bare: Call, world: World) -> None:
    said = bare("demo", "--print-workspace")
    assert (said.code, said.err) == (0, "")
    workspace = Path(said.out.removesuffix("\n"))
    assert workspace == world.data / "demo" / "workspace"
    assert (workspace / "MEMORY.md").exists()
    assert bare("demo", "--print-workspace") == said
    assert bare("demo", "--print-workspace", "--json").json == {"workspace": str(workspace)}


def test_demo_without_a_terminal_runs_every_lesson(demo_world: World) -> None:
    done = demo_world.run("demo")
    text = done.stdout.decode()
    assert done.returncode == 0
    assert "Lesson 1 of 15:" in text
    assert "Lesson 15 of 15:" in text
    assert text.count("--set ") >= 24
    assert text.count("stage ") >= 24
    assert "GRN-40417" in text
    assert b"Traceback" not in done.stderr


def test_demo_hears_nothing_of_the_users_settings(demo_world: World) -> None:
    config = demo_world.root / "broken.toml"
    config.write_text("[[[")
    env = {
        "OPENCLAW_MEM_CONFIG": str(config),
        "OPENCLAW_CONFIG_PATH": str(config),
        "OPENCLAW_MEM_PROVIDER": "openai",
        "OPENAI_API_KEY": "sk-none",
        "OPENCLAW_MEM_WORKSPACE": "/nowhere",
        "OPENCLAW_MEM_AGENT": "somebody",
    }
    done = demo_world.run("demo", "--query", "GRN-40417", "--json", env=env)
    answer = json.loads(done.stdout)
    assert answer["provider"] == "static"
    assert "GRN-40417" in answer["results"][0]["snippet"]


def test_demo_json_holds_both_runs(bare: Call) -> None:
    said = bare("demo", "--json")
    of_builtin, of_qmd = said.err.splitlines()
    assert "indexed " in of_builtin and "backend" not in of_builtin
    assert "indexed " in of_qmd and of_qmd.endswith(" (backend qmd).")
    lessons = said.json["lessons"]
    assert len(lessons) == 15
    for lesson in lessons:
        assert len(lesson["runs"]) == 2
        assert lesson["runs"][0]["answer"]["trace"]["rows"]


def test_demo_goes_to_a_named_folder_and_touches_no_other(bare: Call, world: World) -> None:
    said = bare("demo", "--print-workspace", "--dir", "mine")
    assert said.out == f"{world.root / 'mine' / 'workspace'}\n"
    refused = bare("demo", "--print-workspace", "--dir", str(world.workspace))
    assert refused.code == 5
    assert "choose another folder" in refused.err
    beneath = bare("demo", "--print-workspace", "--dir", str(world.workspace / "MEMORY.md" / "x"))
    assert beneath.code == 5


# tui, bare, version


def test_tui_without_a_terminal_says_what_to_use(call: Call) -> None:
    said = call("tui", "router")
    assert said.code == 2
    assert "needs a terminal" in said.err
    assert "search QUERY --json" in said.err


def test_bare_prints_help_with_first_steps(bare: Call) -> None:
    said = bare()
    assert said.code == 0
    assert "start here:" in said.out
    assert "openclaw-mem demo" in said.out


@pytest.mark.parametrize(
    "command", ["index", "search", "get", "status", "config", "providers", "cache", "model", "demo", "tui"]
)
def test_every_command_has_help_with_an_example(
    bare: Call, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # what a pager shows
    assert max(map(len, bare(command, "--help").out.partition("examples:")[0].splitlines())) <= 80
    monkeypatch.setenv("COLUMNS", "100")
    said = bare(command, "--help")
    assert said.code == 0
    assert f"openclaw-mem {command}" in said.out.partition("examples:")[2]
    assert "--workspace" in said.out
    first, usage, about, *_ = said.out.split("\n\n")
    (summary,) = (one.summary for one in COMMANDS if one.name == command)
    assert first.lower() == f"{summary.lower()}." and usage.startswith(f"usage: openclaw-mem {command} ")
    *full, _last = about.splitlines()
    assert about.startswith(("arguments:", "options:")) or all(len(line) > 75 for line in full), (
        "one paragraph"
    )


@pytest.mark.parametrize("command", ["index", "search", "why-not", "tui", "tool", "watch", "prompt"])
def test_the_help_says_that_text_may_be_sent_and_billed(bare: Call, command: str) -> None:
    about = " ".join(bare(command, "--help").out.partition("options:")[0].split())
    assert re.search(r"(?i)a remote provider (may receive|gets) .*\bcharge for", about)


def test_the_options_of_a_search_are_grouped(bare: Call) -> None:
    for command in (["search"], ["qmd", "query"]):
        given = bare(*command, "--help").out
        ranking, _, output = given.partition("\nranking:\n")[2].partition("\noutput:\n")
        assert "--profile" in ranking and "--set" in ranking and "--explain" not in ranking
        assert "--format" in output.partition("common options")[0] and "--no-sync" not in output


def test_a_command_of_a_command_has_its_own_help(bare: Call) -> None:
    """Its own options and examples; without one the default runs, with its options."""
    commands = [(group.name, one) for group in COMMANDS for one in group.commands]
    assert {"config", "cache", "model", "qmd", "store", "memories"} == {group for group, _ in commands}
    for group, one in commands:
        if not one.commands:
            text = " ".join(bare(group, one.name, "--help").out.split())
            assert f"usage: openclaw-mem {group} {one.name} " in text
            assert f"examples: openclaw-mem {group} {one.name}" in text
    assert "--dry-run" in bare("config", "set", "--help").out
    assert "--dry-run" not in bare("config", "show", "--help").out + bare("config", "--help").out
    assert bare("config", "--verbose").out == bare("config", "show", "--verbose").out
    assert bare("config", "bogus").err.startswith("openclaw-mem: There is no command 'bogus'.")


def test_version(bare: Call) -> None:
    assert bare("--version").out == f"openclaw-mem {__version__}\n"


def test_an_emptied_workspace_is_called_kept_not_up_to_date(call: Call, world: World) -> None:
    call("index")
    shutil.rmtree(world.workspace)
    world.workspace.mkdir()
    said = call("index").out
    assert said.startswith("Unchanged: ") and "excluded" not in said and "Up to date" not in said
    assert "\nwarning: The workspace has no notes: " in said
    said = call("status").out
    assert "excluded" not in said and "so does the next search" not in said
    for option in ((), ("--changed",)):
        said = call("files", *option).out
        assert "up to date" not in said and "to sync" not in said
        assert re.search(
            r"^deleted +MEMORY\.md .* kept in the index until there are notes again$", said, re.M
        )


def test_notes_taken_in_by_an_option_are_kept_without_it(call: Call, world: World) -> None:
    shutil.rmtree(world.workspace)
    world.write("n1.md", "The router is grey.\n")
    call("search", "router", "--include", "n*.md")
    said = call("search", "router")
    words = "--include or extra_paths found the notes of the index, and find none now"
    assert "n1.md" in said.out and words in said.out and "the workspace has no notes" not in said.out
    for command in ("status", "index", "files"):
        out = call(command).out
        assert words in out and "not indexed" not in out and "excluded" not in out


def test_markdown_that_is_no_memory_is_not_counted_as_an_excluded_file(call: Call, world: World) -> None:
    shutil.rmtree(world.workspace)
    world.write("n1.md", "The router is grey.\n")
    for command in ("status", "index", "files"):
        out = call(command).out
        assert "\nwarning: Not indexed: 1 Markdown file here" in f"\n{out}" and "excluded" not in out
