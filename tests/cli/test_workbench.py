"""How ``demo`` and ``tui`` open the workbench when there is a terminal."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openclaw_mem_engine.cli import tui
from support.commands import ARGV, Call, World
from support.terminals import on_a_terminal, on_a_terminal_that_goes

Opened = list[dict[str, Any]]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Opened:
    """What the workbench was opened with; it opens its memory, and closes at once."""
    import openclaw_mem_tui.app

    seen: Opened = []

    def workbench(memory_factory: Any, **options: Any) -> Any:
        with memory_factory(options["faults"]) as memory:
            seen.append({"settings": memory.settings, **options})
        return SimpleNamespace(unsaved="", run=lambda: 0, is_closed=True)

    monkeypatch.setattr(openclaw_mem_tui.app, "Workbench", workbench)
    monkeypatch.setattr(tui, "is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "xterm-256color")
    return seen


def test_demo_opens_the_lessons_on_its_own_workspace(bare: Call, world: World, opened: Opened) -> None:
    assert bare("demo").code == 0
    (options,) = opened
    assert options["settings"].workspace == world.data / "demo" / "workspace"
    assert options["settings"].provider.provider == "static"
    assert options["settings"].openclaw.sessions_dir.is_dir()
    assert len(options["demo"]) == 15
    assert options["initial_query"] == options["notice"] == ""


def test_an_edited_demo_stays_and_says_so_and_undo_works(bare: Call, world: World, opened: Opened) -> None:
    notes = bare("demo", "--print-workspace", "--dir", "mine").out.strip()
    at = ("--workspace", notes)
    before = Path(notes, "MEMORY.md").read_text("utf-8")
    assert bare("remember", "--yes", "--to", "memory", "The spare key is in the blue box", *at).code == 0
    said = bare("demo", "--dir", "mine")
    sentence = "The demo is kept as edited; `openclaw-mem demo --dir mine --reset` writes it anew."
    assert sentence in said.err and opened[0]["notice"] == sentence
    assert "blue box" in Path(notes, "MEMORY.md").read_text("utf-8")
    assert bare("undo", "--yes", *at).code == 0 and not bare("demo", "--dir", "mine").err
    Path(notes, "MEMORY.md").write_text("spoiled", "utf-8")
    assert not bare("demo", "--dir", "mine", "--reset").err
    assert Path(notes, "MEMORY.md").read_text("utf-8") == before


def test_demo_takes_a_query_and_the_users_theme(
    bare: Call, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCLAW_MEM_THEME", "claw-light")
    bare("demo", "--query", "vpn")
    assert (opened[0]["initial_query"], opened[0]["theme"]) == ("vpn", "claw-light")


def test_tui_opens_the_users_workspace(call: Call, world: World, opened: Opened) -> None:
    assert call("tui", "router", "vlan", "--theme", "claw-contrast").code == 0
    (options,) = opened
    assert options["settings"].workspace == world.workspace
    assert (options["demo"], options["initial_query"]) == (None, "router vlan")
    assert options["theme"] == "claw-contrast"
    assert options["session_key"] == ""
    group = "agent:main:telegram:group:1"
    assert call("tui", "--session-key", group).code == 0 and opened[1]["session_key"] == group
    assert options["theme_folder"].parent.name == "openclaw-mem"


def test_tui_says_a_missing_workspace_before_it_takes_the_screen(bare: Call, opened: Opened) -> None:
    said = bare("tui", "--workspace", "nowhere")
    assert said.code == 5
    assert opened == []


def test_a_workbench_that_fails_is_exit_8(
    call: Call, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    import openclaw_mem_tui.app

    def failing(_: Any, **__: Any) -> Any:
        return SimpleNamespace(unsaved="", run=lambda: None, return_code=1, is_closed=True)

    monkeypatch.setattr(openclaw_mem_tui.app, "Workbench", failing)
    assert call("tui").code == 8


def test_json_never_opens_it(bare: Call, opened: Opened) -> None:
    assert len(bare("demo", "--json").json["lessons"]) == 15
    assert opened == []


def test_a_terminal_without_a_size_gets_a_sentence(world: World) -> None:
    code, said = on_a_terminal(world, ["tui"], columns=0)
    assert code == 2 and "no columns" in said and "stty" in said


def test_a_dumb_terminal_gets_a_sentence(call: Call, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    said = call("tui")
    assert (said.code, opened) == (2, [])
    assert said.err.count("\n") == 1 and "TERM is dumb" in said.err and "search QUERY --json" in said.err


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_a_signal_leaves_the_alternate_screen(world: World, name: str) -> None:
    number = getattr(signal, name)
    argv = ["tui", "--provider", "none", "--workspace", str(world.workspace)]
    code, text = on_a_terminal(world, argv, signal_when=("\x1b[?1049h", number))
    assert code == 128 + number
    assert text.rindex("\x1b[?1049l") > text.rindex("\x1b[?1049h")
    assert "Traceback" not in text


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_a_signal_after_the_end_of_the_workbench_prints_nothing() -> None:
    late = """
import asyncio, signal
from openclaw_mem_tui.ending import listen
async def workbench(): listen(print)
asyncio.run(workbench())
signal.raise_signal(signal.SIGTERM)
"""
    done = subprocess.run([sys.executable, "-c", late], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.skipif(os.name == "nt", reason="terminals of POSIX")
def test_the_workbench_ends_with_its_terminal(world: World) -> None:
    """Its output is taken by nothing then, and Textual waits until it is."""
    argv = ["tui", "--provider", "none", "--workspace", str(world.workspace)]
    soon = "import openclaw_mem_tui.ending as ending; ending._END_WITHIN = 1.0\n"
    soon += "import sys; from openclaw_mem_engine.cli.__main__ import run; sys.exit(run())"
    command = [sys.executable, "-c", soon]
    assert on_a_terminal_that_goes(world, argv, "\x1b[?1049h", "31" * 30, command) == 129


@pytest.mark.skipif(not hasattr(select, "poll"), reason="terminals of POSIX")
def test_the_workbench_ends_with_a_terminal_that_does_not_control_it(world: World) -> None:
    argv = ["tui", "--provider", "none", "--workspace", str(world.workspace)]
    alone = "import fcntl, os, signal, sys, termios; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    alone += "fcntl.ioctl(0, termios.TIOCNOTTY); os.execvp(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", alone, *ARGV]
    assert on_a_terminal_that_goes(world, argv, "\x1b[?1049h", "31", command) == 129


def test_what_is_opened_is_said_before_the_first_frame_and_erased(world: World) -> None:
    argv = ["tui", "--provider", "none", "--workspace", str(world.workspace)]
    _, text = on_a_terminal(world, argv, signal_when=("\x1b[?1049h", signal.SIGTERM))
    said, rest = text.split("\r\x1b[2K", 1)
    assert said.startswith("openclaw-mem: opening the workbench on /") and len(said) < 100
    assert "\x1b[?1049h" in rest and "\n" not in said


def test_the_benchmark_refuses_an_unknown_profile() -> None:
    script = Path(__file__).parents[2] / "benchmarks" / "workbench.py"
    asked = [sys.executable, str(script), "--profiles", "workbench", "workbnech"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "invalid choice: 'workbnech'" in done.stderr
