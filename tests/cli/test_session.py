"""A session in the workbench as a user has it: the real command on a terminal, keys in, screens out.

The sizes of the world are chosen so that one passage is hidden by ``min_score`` alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.commands import Call, World, new_world, until
from support.terminals import Workbench

HIDDEN = "memory/projects/greenhouse.md"
QUERY = "vegetables"
CTRL_Z = "\x1a"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return new_world(tmp_path)


@pytest.fixture
def tui(world: World) -> Iterator[Workbench]:
    """The workbench after a query whose one relevant passage is hidden, with the keys in the list."""
    editor = world.root / "editor"
    editor.write_text('#!/bin/sh\nfor note; do :; done\necho "Beans are vegetables too." >> "$note"\n')
    editor.chmod(0o755)
    with start(world, EDITOR=str(editor)) as opened:
        opened.shows("indexed in")
        opened.press(QUERY)
        opened.shows("0 returned", "reaches min score .35: the best is", "not returned: 4")
        opened.press("enter")
        yield opened


def start(world: World, *, job: bool = False, **env: str) -> Workbench:
    return Workbench(world, ["tui", "--workspace", str(world.workspace)], env, job=job)


def test_escape_and_the_key_behind_it_are_two_keys_also_where_they_come_as_one(tui: Workbench) -> None:
    for screen, shown in (("3", "matches the configuration"), ("2", "simulated faults")):
        tui.press("1")
        tui.shows("not returned: 4")
        tui.press("/")
        tui.shows("typing", "for keys")
        tui.press("escape", screen)  # in one write, as alt and the key
        tui.shows(shown, without="typing")
    tui.press("f", *"stat")
    tui.shows("filter", "typing")
    tui.press("escape", "G")
    tui.shows("not selected", without="typing")


def test_a_session_of_five_tasks(world: World, tui: Workbench) -> None:
    # Find why a fact is not returned, and bring it back: three keys.
    tui.press("w")
    tui.shows(f"{HIDDEN}:1-4 is not returned", ".260 is below min score .35", "min score: .35 → .26")
    tui.press("enter")
    tui.shows(
        "1 result",
        "min score: .35 → .26; z undoes it",
        "1 new",
        "in the baseline: not returned, below min",
        "baseline: before the change",
    )

    # Write that to config.toml.
    tui.press("A")
    tui.shows("write", "config.toml", "+ min_score = 0.26")
    tui.press("enter")
    tui.shows("wrote config.toml; A undoes it", without="U reset")

    # Edit the note: the answer follows, and the run before the edit is the baseline.
    tui.press("e")
    tui.shows("in the baseline: #1 at .260", "Beans are vegetables too.", "snippet · 1 match", "fresh")

    # A provider fails: what answers, why, and what that costs.
    tui.press("2")
    tui.shows("● active", "tab faults")
    tui.press(" ")
    tui.shows("space switches the selected one")
    tui.press(" ")
    tui.shows(
        "SIMULATED FAULT: embeddings-401", "searched  BM25 only", "static embeddings failed: 401", "✗ paused"
    )
    tui.press("enter")
    tui.shows("static embeddings failed: 401", "BM25 only since", "baseline: no fault", "same 1 result")
    tui.press("2", "U")
    tui.shows("● active", without="SIMULATED")

    # The index is damaged from outside: what says so, and the key that repairs it.
    (index,) = world.indexes
    for file in (index, index.with_name(f"{index.name}-wal")):
        with file.open("r+b") as stream:
            stream.write(os.urandom(file.stat().st_size))
    tui.press("3")
    tui.shows("The index is damaged", "F repair")
    tui.press("F")
    tui.shows("The index is damaged. A new one will be built", "enter repair")
    tui.press("enter")
    tui.shows("4 made; main.sqlite.damaged is kept", "healthy", without="1 error")
    tui.press("1")
    tui.shows("enter note", "p knobs")
    tui.press("i", " and beans")
    tui.shows("vegetables and beans", "1 result", "#1 at")
    tui.press("enter", "q")  # typed ahead: enter leaves the line before q is read
    assert tui.exit_code() == 0

    # What was applied holds, and the session goes on where it was left.
    with start(world) as again:
        again.shows("Continue: vegetables and beans", "Screens", without="U reset")
        again.press("enter")
        again.shows("continued", "vegetables and beans", "min score .26", "1 result", without="U reset")
        again.press("escape")  # enter would open the note, which q closes
        again.shows("q quit")
        again.press("q")
        assert again.exit_code() == 0


def test_ctrl_z_stops_all_of_the_job_and_the_shell_resumes_it(world: World) -> None:
    with start(world, job=True) as opened:
        opened.shows("indexed in", "f1 help")
        opened.press(CTRL_Z)
        opened.shows("the job has stopped")
        opened.press("enter")
        opened.shows("f1 help", without="the job has stopped")
        opened.press("escape")
        opened.shows("q quit")
        opened.press("q")
        assert opened.exit_code() == 0


def test_what_a_killed_session_was_about_is_there_in_the_next(world: World) -> None:
    with start(world) as first:
        first.shows("indexed in")
        first.press("router", "enter", "3")
        first.shows("last checked")
        until(
            lambda: any(
                '"query": "router"' in file.read_text() for file in world.data.glob("workbench/*.json")
            )
        )
    with start(world) as again:  # the block before ends with SIGKILL
        # Typed before the first frame, and so with a line feed for enter.
        again.press("/cellar xa\n", "3")
        again.shows("last checked")
        again.press("1")
        again.shows("cellar xa")
        again.press("<")
        again.shows("1 result", without="cellar")


def end(opened: Workbench, how: str) -> int:
    """Its exit code after a key or a signal. The terminal is as it was before, without a traceback."""
    opened.written.clear()
    if how == "q":
        opened.press("q")
    else:
        opened.kill(getattr(signal, how))
    code = opened.exit_code()
    assert b"\x1b[?1049l" in opened.written
    assert b"Error" not in opened.written
    return code


@pytest.mark.parametrize(("how", "code"), [("q", 0), ("SIGTERM", 143)])
def test_the_end_after_a_sync_that_the_watcher_began(world: World, how: str, code: int) -> None:
    """What a thread calls in the event loop sets timers too: one that failed broke the end, and the session
    was not saved any more."""
    with start(world) as opened:
        opened.shows("indexed in")
        opened.press("escape")
        opened.shows("q quit")
        until(lambda: [*world.data.glob("workbench/*.json")])
        saved = next(world.data.glob("workbench/*.json"))
        before = saved.read_bytes()
        world.write("memory/later.md", "# Later\n\nWritten while the workbench is open.\n")
        opened.shows("memory/later.md indexed")
        opened.press("3")
        opened.shows("last checked")
        opened.press("1")
        opened.shows("q quit", without="healthy")
        opened.press("/", "router")
        opened.shows("router", "1 result")
        until(lambda: saved.read_bytes() != before)
        opened.press("escape")
        assert end(opened, how) == code


@pytest.mark.parametrize(("how", "code"), [("q", 0), ("SIGTERM", 143)])
def test_the_end_over_a_damaged_index(call: Call, world: World, how: str, code: int) -> None:
    for number in range(120):
        world.write(f"memory/many/{number:03}.md", f"# Note {number}\n\nAbout subject{number}.\n")
    assert call("index").code == 0
    (index,) = world.indexes
    with index.open("r+b") as file:
        file.seek(3 * 16_384)
        file.write(os.urandom(index.stat().st_size - file.tell()))
    with start(world) as opened:
        opened.shows("the sync failed")
        opened.press("escape")
        opened.shows("q quit")
        opened.press("3")
        opened.shows("F repair")
        opened.press("F")
        opened.shows("The index is damaged. A new one will be built", "enter repair")
        if how == "q":
            opened.press("q")  # the dialog
            opened.shows("q quit", without="enter repair")
        assert end(opened, how) == code
