"""What a command loads: start-up is a feature, and a forgotten import at the top of a file undoes it."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from openclaw_mem_engine.cli.parser import build_parser
from support.commands import World

#: Never needed by a one-shot command on an ordinary workspace.
HEAVY = {
    "textual", "rich", "openai", "httpx", "httpx2", "httpcore2", "anyio", "h11", "certifi", "ssl",
    "http.client", "urllib.request", "pydantic", "watchfiles", "llama_cpp", "psycopg", "gguf", "rapidfuzz",
    "json5", "pyjson5", "resvg_py", "shtab", "openclaw_mem_tui", "openclaw_mem_themes", "asyncio",
    "multiprocessing", "concurrent.futures.thread", "simsimd",
    "openclaw_mem_engine.providers.remote.embedder", "openclaw_mem_engine.providers.remote.transport",
    "openclaw_mem_engine.providers.remote.http_client", "openclaw_mem_engine.providers.remote.openai_client",
    "openclaw_mem_engine.providers.local.process", "openclaw_mem_engine.providers.batch",
}  # fmt: skip

#: Not needed either by a search that finds nothing to do before it.
IDLE = {
    "filelock", "numpy", "sqlite3", "tempfile", "random", "queue",
    "openclaw_mem_engine.sync.update", "openclaw_mem_engine.sync.transcript_changes",
    "openclaw_mem_engine.workspace.reading", "openclaw_mem_engine.chunking.line_chunker",
    "openclaw_mem_engine.retrieval.reranking", "openclaw_mem_engine.retrieval.expansion",
    "openclaw_mem_engine.qmd.queries", "openclaw_mem_engine.qmd.scope", "openclaw_mem_engine.cli.planning",
} | ({"platformdirs"} if sys.platform == "linux" else set())  # fmt: skip
#: Modules of ours in such a search: each takes some 0.4 ms.
MOST_OF_OURS = 121

#: Runs commands one after another, each with a data folder of its own; module names as of after each.
_LOADED = """
import json, os, sys
from openclaw_mem_engine.cli.main import run
data = os.environ["OPENCLAW_MEM_HOME"]
for number, argv in enumerate(json.loads(sys.argv[1])):
    os.environ["OPENCLAW_MEM_HOME"] = data + (str(number) if number else "")
    code = run(argv)
    print("\\n=> " + json.dumps([code, sorted(sys.modules)]), flush=True)
"""


def all_loaded(world: World, *commands: Sequence[str]) -> list[set[str]]:
    """Names of all modules that are in ``sys.modules`` after each of these commands in one new process."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, json.dumps(commands)],
        env=world.environ, cwd=world.root, stdin=subprocess.DEVNULL, capture_output=True, check=True,
    )  # fmt: skip
    answers = [json.loads(line[3:]) for line in done.stdout.splitlines() if line.startswith(b"=> ")]
    assert [code for code, _ in answers] == [0] * len(commands), done.stderr
    return [set(names) for _, names in answers]


def loaded(world: World, *argv: str) -> set[str]:
    """Names of all modules that a command leaves in ``sys.modules``."""
    (names,) = all_loaded(world, argv)
    return names


ONE_SHOT = [
    ["search", "router", "--explain"],
    ["search", "router", "--json"],
    ["search", "router", "--format", "csv"],
    ["search", "router", "--profile", "workbench", "--set", "mmr=on"],
    ["index"],
    ["index", "--dry-run"],
    ["providers"],
    ["providers", "--probe"],
    ["cache", "stats"],
    ["cache", "prune"],
    ["log"],
    ["log", "--json", "--since", "2d"],
    ["status"],
    ["config"],
    ["get", "MEMORY.md"],
]


def test_one_shot_commands_load_nothing_heavy(world: World) -> None:
    # A configuration in plain JSON is no reason to load the JSON5 parser either.
    (world.home / ".openclaw").mkdir()
    (world.home / ".openclaw" / "openclaw.json").write_text('{"agents": {"defaults": {}}}')
    commands = [["--workspace", str(world.workspace), *argv] for argv in ONE_SHOT]
    heavy = {
        " ".join(argv): HEAVY & names
        for argv, names in zip(ONE_SHOT, all_loaded(world, *commands), strict=True)
    }
    assert not {command: names for command, names in heavy.items() if names}


def test_a_search_with_nothing_to_sync_loads_neither_lock_nor_numpy(world: World) -> None:
    for path in world.workspace.rglob("*.md"):
        os.utime(path, (1e9, 1e9))
    search = "--workspace", str(world.workspace), "search", "router"
    assert "filelock" in loaded(world, *search), "it makes the index"
    # A file that was touched within two seconds of its last check is read again, which is work.
    time.sleep(2.1)
    loaded(world, *search)
    names = loaded(world, *search)
    assert not IDLE & names
    assert sum(name.startswith("openclaw_mem_engine") for name in names) <= MOST_OF_OURS


@pytest.mark.parametrize(("words", "parsers"), [("search x", 2), ("qmd search x", 4), ("status", 2)])
def test_only_commands_that_are_named_get_a_parser(
    words: str, parsers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, argv, make = list[object](), words.split(), argparse.ArgumentParser.__init__

    def counted(parser: argparse.ArgumentParser, **how: Any) -> None:
        made.append(parser)
        make(parser, **how)

    monkeypatch.setattr(argparse.ArgumentParser, "__init__", counted)
    assert build_parser(argv).parse_args(argv).command == argv[0]
    assert len(made) == parsers


def test_the_state_of_a_model_loads_no_network(world: World) -> None:
    process = "openclaw_mem_engine.providers.local.process"
    assert not (HEAVY - {process} | {"apsw", "numpy", "sqlite_vec"}) & loaded(world, "model")


def test_the_printed_demo_loads_nothing_heavy(world: World) -> None:
    assert not HEAVY & loaded(world, "demo")


@pytest.mark.parametrize("argv", [["--version"], ["--help"], []], ids=["version", "help", "bare"])
def test_version_and_help_load_next_to_nothing(world: World, argv: list[str]) -> None:
    names = loaded(world, *argv)
    by_argparse = {"dataclasses"} if sys.version_info >= (3, 14) else set()
    assert not (HEAVY | {"numpy", "apsw", "sqlite_vec", "dataclasses", "pathlib"}) - by_argparse & names
    ours = {name for name in names if name.startswith("openclaw_mem_engine.")}
    assert ours == {
        "openclaw_mem_engine.cli",
        "openclaw_mem_engine.cli.arguments",
        "openclaw_mem_engine.cli.backend_arguments",
        "openclaw_mem_engine.cli.command_table",
        "openclaw_mem_engine.cli.main",
        "openclaw_mem_engine.cli.parser",
        "openclaw_mem_engine.cli.terminal",
        "openclaw_mem_engine.commands",
        "openclaw_mem_engine.errors",
        "openclaw_mem_engine.named_tuple",
        "openclaw_mem_engine.sanitize",
    }


#: Ctrl-C arrives when this module is imported.
_INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "openclaw_mem_engine.errors":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    "start",
    [
        "from openclaw_mem_engine.cli.__main__ import run; sys.exit(run())",
        "import runpy; runpy.run_module('openclaw_mem_engine', run_name='__main__')",
    ],
)
def test_an_interrupt_while_the_program_is_loaded_ends_it_without_a_traceback(
    start: str, world: World
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED + start], env=world.environ, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "openclaw-mem: Stopped before it began.\n"


def test_get_and_config_need_no_index(world: World) -> None:
    for argv in (["get", "MEMORY.md"], ["config"]):
        assert not {"numpy", "apsw", "sqlite_vec"} & loaded(world, "--workspace", str(world.workspace), *argv)
