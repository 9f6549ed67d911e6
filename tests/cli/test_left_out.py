"""What is left out is reported when it becomes so and when it no longer is, and never counted as indexed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from support.commands import Call, World
from support.watching import Running, watch

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals and links of POSIX")

NUL = b"abc\0def"


def _link(world: World) -> None:
    (world.workspace / "memory" / "link.md").symlink_to(world.workspace / "MEMORY.md")


def _hard_link(world: World) -> None:
    (world.workspace / "memory" / "twice.md").hardlink_to(world.workspace / "MEMORY.md")


def _large(world: World) -> None:
    world.write("memory/large.md", "a" * 11_000_000)


def _line(running: Running) -> str:
    """The next line, without its time of day."""
    return running.text()[10:]


def test_index_counts_what_it_refused_by_itself(call: Call, world: World) -> None:
    world.write("memory/nul.md", NUL)
    first = call("index").out
    assert "4 files, 4 chunks" in first and "  4 new or modified, 0 deleted, 1 excluded\n" in first
    assert "  memory/nul.md: binary: NUL at byte 3\n" in first
    world.write("MEMORY.md", NUL)
    second = call("index").out
    assert second.startswith("Indexed: 3 files, 3 chunks")
    assert "  0 new or modified, 0 deleted, 2 excluded\n" in second
    assert "2 files or folders excluded:\n" in second
    assert "  MEMORY.md: binary: NUL at byte 3 (its old text was removed)\n" in second
    world.write("MEMORY.md", b"xyz\0")
    (world.workspace / "memory" / "2026-02-20.md").unlink()
    report = call("index", "--json").json
    assert (report["changed"], report["withoutText"], report["removed"]) == (
        [],
        ["MEMORY.md"],
        ["memory/2026-02-20.md"],
    )
    events = call("log", "--json").json["events"]
    assert [event["text"] for event in events[1:]] == [
        "0 files new or modified, 1 excluded.",
        "0 files new or modified, 1 deleted, 1 excluded.",
    ]
    assert events[1]["reason"] == "Excluded: MEMORY.md: binary: NUL at byte 3 (its old text was removed)."
    assert (events[1]["counts"]["changed"], events[1]["counts"]["withoutText"]) == (0, 1)


def test_a_search_says_it_in_the_same_counts(call: Call, world: World) -> None:
    call("index")
    world.write("MEMORY.md", NUL)
    assert "index: 1 excluded in " in call("search", "router").err


def test_watch_says_left_out_and_not_indexed(world: World) -> None:
    with watch(world) as running:
        assert "watching" in _line(running) and "indexed" in _line(running)
        world.write("memory/nul.md", NUL)
        assert _line(running).startswith("excluded memory/nul.md: binary: NUL at byte 3 · 4 files, 4 chunks")
        world.write("MEMORY.md", NUL)
        line = "excluded MEMORY.md: binary: NUL at byte 3 (its old text was removed) · 3 files, 3 chunks"
        assert _line(running).startswith(line)
        world.write("MEMORY.md", "# Facts again\n")
        assert re.match(r"indexed MEMORY\.md · .* · 1 excluded · ", _line(running))
        (world.workspace / "memory" / "nul.md").unlink()
        assert _line(running).startswith("deleted: memory/nul.md · 4 files")


@pytest.mark.parametrize(
    ("act", "path", "why"),
    [
        (_link, "memory/link.md", "is a link"),
        (_hard_link, "memory/twice.md", "the same file as MEMORY.md"),
        (_large, "memory/large.md", "too large"),
    ],
)
def test_watch_tells_what_the_index_never_hears_of(
    world: World, act: Callable[[World], None], path: str, why: str
) -> None:
    with watch(world, "--json") as running:
        running.next(lambda event: event["event"] == "sync")
        act(world)
        event = running.next()
        assert (event["event"], event["changed"], event["withoutText"], event["removed"]) == (
            "sync",
            [],
            [],
            [],
        )
        (left_out,) = event["newlyExcluded"]
        assert (left_out["path"], left_out["textRemoved"]) == (path, False)
        assert why in left_out["reason"]
        Path(world.workspace / path).unlink()
        back = running.next()
        assert (back["noLongerExcluded"], back["noLongerExcludedCount"], back["newlyExcluded"]) == (
            [path],
            1,
            [],
        )


def test_what_is_left_out_of_old_is_a_count_at_the_start(world: World) -> None:
    _link(world)
    with watch(world, "--json") as running:
        start = running.next(lambda event: event["event"] == "sync")
        assert (start["newlyExcluded"], start["excludedCount"]) == ([], 1)
        world.write("memory/nul.md", NUL)
        event = running.next()
        assert [file["path"] for file in event["newlyExcluded"]] == ["memory/nul.md"]


def test_a_folder_that_becomes_a_link_takes_with_it_what_was_left_out_in_it(world: World) -> None:
    world.write("memory/projects/nul.md", NUL)
    with watch(world) as running:
        assert "watching" in _line(running)
        assert "; excluded memory/projects/nul.md: binary" in _line(running)
        projects = world.workspace / "memory" / "projects"
        away = world.root / "away"
        projects.rename(away)
        projects.symlink_to(away)
        line = _line(running)
        assert "excluded memory/projects: is a link to a folder" in line
        assert "not included now: memory/projects/greenhouse.md" in line and "no longer" not in line
