"""The real program from npm behind the sidecar: search, get, a hanging start, fallback and recovery."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.retrieval.fallback import FallbackBackend
from support.commands import is_running, until
from support.memories import write_notes
from support.qmd import real_qmd
from support.qmd_world import QmdWorld

pytestmark = pytest.mark.qmd


def test_the_real_program_answers_hangs_and_answers_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = shlex.join(real_qmd())
    monkeypatch.setenv("CI", "1")
    world = QmdWorld(tmp_path)
    write_notes(
        tmp_path / "home" / "notes", {"My Folder/Long Note.md": "# Rhubarb\n\nRhubarb crumble, 200 g.\n"}
    )
    world.clock.now = 2_000_000_000.0  # after the times of the files
    program, pids = tmp_path / "bin" / "real", tmp_path / "pids"
    program.write_text(f'#!/bin/sh\n{command} "$@"\n')
    program.chmod(0o700)
    with world.memory({"command": str(program)}) as memory:
        answer = memory.search("rhubarb")
        assert answer.pool.fallback is None, answer.pool.fallback
        (hit,) = answer.hits
        assert hit.path == "qmd/notes-main/My Folder/Long Note.md"
        assert hit.start_line <= 3 <= hit.end_line and "Rhubarb crumble" in hit.snippet
        assert not hit.snippet.startswith("@@")
        assert memory.get(hit.path, 3, 1).text == "Rhubarb crumble, 200 g."
        assert [hit.path for hit in memory.search("VLAN").hits] == ["memory/2026-02-20.md"]
        assert memory.search("zebra").hits == () and memory.fallback() is None
        assert not memory.search("rhubarb", session_key="agent:main:x:group:1").hits
        # A note that is new is found after an update, which a whole sync makes.
        write_notes(world.workspace, {"memory/new.md": "The quince tree was cut.\n"})
        memory.sync()
        assert [hit.path for hit in memory.search("quince").hits] == ["memory/new.md"]
        backend = memory._backend
        assert isinstance(backend, FallbackBackend)
        assert backend.primary.upkeep.version(60) == (2, 8, 3)
        assert memory.paths() == (*backend.builtin.paths()[:3], hit.path, "qmd/notes-main/sub/n.md")
    # A launcher whose worker outlives it: both are gone after the time limit.
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho $$ $! > {shlex.quote(str(pids))}\nwait\n")
    with world.memory({"command": str(program), "limits": {"timeoutMs": 1_000}}) as memory:
        backend = memory._backend
        assert isinstance(backend, FallbackBackend)
        fallback = memory.search("quince").pool.fallback
        assert fallback is not None and "did not end" in fallback.reason and fallback.next_retry is not None
        for pid in map(int, pids.read_text().split()):
            until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]
    program.write_text(f'#!/bin/sh\n{command} "$@"\n')
    world.clock.now = fallback.next_retry
    with world.memory({"command": str(program)}) as memory:
        assert memory.search("quince").pool.fallback is None
        backend = memory._backend
        assert isinstance(backend, FallbackBackend)
        backend.primary.upkeep.ensure_collections(Deadline(None), again=True)  # nothing is made anew
        assert memory.search("quince").hits
