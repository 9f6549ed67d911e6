"""The external qmd when it fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from test_qmd_process import world

from openclaw_mem_engine.cancellation import Deadline
from openclaw_mem_engine.errors import Cancelled
from openclaw_mem_engine.retrieval.fallback import FallbackBackend
from openclaw_mem_engine.sidecar import command
from openclaw_mem_engine.sidecar.paths import qmd_home
from openclaw_mem_engine.sidecar.state import RETRY_MAX_S, RETRY_S, QmdState
from openclaw_mem_engine.state.disk import held
from openclaw_mem_engine.tools import memory_search
from support.commands import is_running, until
from support.qmd_world import ROWS, QmdWorld

__all__ = ["world"]


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        ({"code": 1, "stderr": "kaboom"}, "qmd search failed with exit code 1: kaboom."),
        ({"stdout": "{broken"}, "qmd search printed something other than a JSON list of results: {broken."),
        ({"stdout": "x" * 300_000}, "printed more than 200,000 characters"),
    ],
)
def test_any_failure_is_answered_by_the_builtin_index(
    world: QmdWorld, search: dict[str, Any], reason: str
) -> None:
    world.qmd.answers(search=search)
    with world.memory() as memory:
        memory._backend.builtin.sync()  # type: ignore[attr-defined]
        answer = memory.search("router")
        assert {hit.path for hit in answer.hits} == {"MEMORY.md", "memory/2026-02-20.md"}
        fallback = answer.pool.fallback
        assert fallback is not None and reason in fallback.reason
        assert (fallback.origin, fallback.active, answer.pool.backend) == ("qmd", "builtin", "builtin")
        assert (fallback.since, fallback.next_retry) == (world.clock.now, world.clock.now + RETRY_S)
        assert "qmd-fallback" in {note.code for note in answer.trace.notes}
        assert answer.trace.knobs.profile == "documented"
        status = memory.status()
        assert status.backend == "builtin" and status.fallback == fallback
        event = memory.events(1)[0]
        assert (event.kind, event.text) == ("fallback", "Built-in index (qmd failed).")
        assert memory_search(memory, {"query": "router"})["fallback"]["from"] == "qmd"


def test_a_missing_program_names_how_to_install_it(world: QmdWorld) -> None:
    with world.memory({"command": str(world.root / "none")}) as memory:
        status = memory.status()
        assert (status.backend, status.provider) == ("builtin", "static"), "before the first search"
        assert status.fallback is not None and "npm install -g @tobilu/qmd" in status.fallback.reason
        assert "qmd-fallback" in {note.code for note in status.notes}
        fallback = memory.search("router").pool.fallback
    assert fallback is not None and "npm install -g @tobilu/qmd" in fallback.reason


def test_it_recovers_by_itself_and_waits_longer_after_each_failure(world: QmdWorld) -> None:
    world.qmd.answers(search={"code": 1})
    with world.memory() as memory:
        waits = []
        for _ in range(3):
            fallback = memory.search("nadia").pool.fallback
            assert fallback is not None and fallback.next_retry is not None
            waits.append(fallback.next_retry - world.clock.now)
            _ = world.qmd.commands
            assert memory.search("nadia").pool.fallback is not None
            assert world.qmd.commands == [], "it is not asked before its time"
            world.clock.now = fallback.next_retry
        assert waits == [RETRY_S, 2 * RETRY_S, 4 * RETRY_S]
        assert fallback is not None and fallback.since == 1_000_000.0
    world.qmd.answers(search={"rows": ROWS})
    with world.memory() as memory:  # known to another process, too
        assert memory.status().backend == "builtin"
        answer = memory.search("nadia")
        assert answer.pool.fallback is None and answer.hits[0].score == 0.9
        assert memory.status().backend == "qmd" and memory.fallback() is None
        assert memory.events(1)[0].text == "Searches use qmd again."


def test_a_failure_is_forgotten_with_its_cause(world: QmdWorld) -> None:
    world.qmd.answers(search={"code": 1})
    with world.memory() as memory:
        memory.search("nadia")
        assert memory.fallback() is not None
        backend = memory.backend
        assert isinstance(backend, FallbackBackend)
        world.qmd.answers(search={"rows": ROWS})
        assert not [step.error for step in backend.primary.upkeep.warm_up() if step.error]
        assert memory.fallback() is None and memory.search("nadia").pool.fallback is None
        state = backend.primary.upkeep.state
        for retry_at in (float("inf"), float("nan"), world.clock.now + RETRY_MAX_S + 1):
            state.failed(str(world.qmd.path), "simulated", world.clock.now)
            assert memory.fallback() is not None
            state.set(retry_at=retry_at)
            assert memory.fallback() is None and backend.name == "qmd"
        state.failed("/another/qmd", "simulated", world.clock.now)
        assert memory.fallback() is None
        assert state.facts == QmdState(qmd_home(memory.settings) / "state.json").facts


def test_a_timeout_ends_the_program_and_what_it_started(world: QmdWorld) -> None:
    world.qmd.answers(search={"hang": True})
    limits = {"timeoutMs": 60_000}
    with world.memory({"limits": limits}) as memory:
        memory._backend.primary.upkeep.ensure_collections(_no_deadline())  # type: ignore[attr-defined]
    with world.memory({"limits": {"timeoutMs": 1_500}}) as memory:
        fallback = memory.search("router").pool.fallback
    assert fallback is not None and "did not end within" in fallback.reason
    assert len(world.qmd.hanging) == 2
    for pid in world.qmd.hanging:
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def test_one_process_at_a_time_changes_the_collections(
    world: QmdWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program reads and writes all of them at each change: of two at once one would be lost."""
    child = """if True:
        import sys, time
        from pathlib import Path
        from openclaw_mem_engine.cancellation import Deadline
        from openclaw_mem_engine.errors import IndexUnavailable
        from openclaw_mem_engine.sidecar.command import QmdCommand
        from openclaw_mem_engine.sidecar.paths import qmd_home
        from openclaw_mem_engine.sidecar.upkeep import QmdUpkeep
        from support.memories import settings_for
        root, seconds = Path(sys.argv[1]), float(sys.argv[2])
        settings = settings_for(root / "ws", root / "home", OPENCLAW_MEM_PROVIDER="static")
        upkeep = QmdUpkeep(settings, QmdCommand(settings.qmd.command, qmd_home(settings)), time.time)
        try:
            print(len(upkeep.ensure_collections(Deadline(seconds), again=True)))
        except IndexUnavailable as error:
            print(error)
    """

    def another_process(seconds: str) -> str:
        run = [sys.executable, "-c", child, str(world.root), seconds]
        path = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        return subprocess.run(run, env=path, capture_output=True, text=True, check=True, timeout=60).stdout

    run = command.QmdCommand.run
    said: list[str] = []

    def changing(self: command.QmdCommand, arguments: list[str], *rest: Any, **options: Any) -> Any:
        if arguments[:2] == ["collection", "add"] and not said:
            said.append(another_process("0.2"))
        return run(self, arguments, *rest, **options)

    monkeypatch.setattr(command.QmdCommand, "run", changing)
    with world.memory() as memory:
        upkeep = memory._backend.primary.upkeep  # type: ignore[attr-defined]
        made = [collection.name for collection in upkeep.ensure_collections(_no_deadline())]
    assert said[0].startswith("Another process has been writing the collections of QMD for 0.")
    assert [call.split()[:2] for call in world.qmd.commands] == [["collection", "list"]] + [
        ["collection", "add"]
    ] * len(made)
    assert another_process("60") == f"{len(made)}\n"
    assert world.qmd.commands == ["collection list --json"], "they are those of the configuration"


def test_waiting_for_another_process_that_changes_the_collections_can_be_stopped(world: QmdWorld) -> None:
    stop = threading.Event()
    stop.set()
    with world.memory() as memory, held(qmd_home(memory.settings), "the collections of QMD"):
        upkeep = memory._backend.primary.upkeep  # type: ignore[attr-defined]
        with ThreadPoolExecutor(1) as other, pytest.raises(Cancelled, match="Waiting for another process"):
            other.submit(upkeep.ensure_collections, Deadline(3.0), stop, again=True).result()


def _no_deadline() -> Any:
    return Deadline(None)


@pytest.mark.skipif(not hasattr(signal, "SIGCHLD"), reason="the system has no signal for that")
def test_where_the_end_of_children_is_ignored_the_program_answers_too(world: QmdWorld) -> None:
    """As services and containers start others: the system collects what has ended by itself."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        with world.memory() as memory:
            answer = memory.search("nadia")
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert answer.pool.fallback is None and answer.hits


def test_what_a_program_leaves_behind_is_ended_and_what_it_printed_is_read() -> None:
    """What it started holds the pipe, and would go on for an hour."""
    script = "import subprocess, sys; subprocess.Popen(['sleep', '3600']); print('qmd 1.0.7')"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", script], stdout=pipe, start_new_session=True) as process:
        assert process.stdout is not None
        again = os.dup(process.stdout.fileno())
        assert command.output_of(process, Deadline(None), None, 100) == ("qmd 1.0.7\n", "", True)
        assert os.read(again, 1) == b"", "nothing has the pipe any more"
        os.close(again)


def test_a_version_that_could_not_be_read_is_asked_again(world: QmdWorld) -> None:
    unread: dict[str, Any] = {"--version": {"code": 1}}
    world.qmd.answers(**unread)
    with world.memory() as memory:
        backend = memory.backend
        assert isinstance(backend, FallbackBackend)
        assert backend.primary.upkeep.version(60.0) == ()
        world.qmd.answers()
        assert backend.primary.upkeep.version(60.0) == (1, 0, 7)


def test_closing_ends_a_running_call_and_interrupting_a_search(world: QmdWorld) -> None:
    from openclaw_mem_engine.errors import Cancelled

    world.qmd.answers(search={"hang": True})
    with world.memory() as memory:
        errors: list[BaseException] = []

        def search() -> None:
            try:
                memory.search("router")
            except Cancelled as error:
                errors.append(error)

        thread = threading.Thread(target=search)
        thread.start()
        until(lambda: world.qmd.hanging)
        memory.interrupt()
        thread.join(30)
        assert errors and not thread.is_alive()
    for pid in world.qmd.hanging:
        until(lambda pid=pid: not is_running(pid))  # type: ignore[misc]


def test_variables_that_lead_out_of_our_folder_are_not_handed_on(
    world: QmdWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEX_PATH", "/elsewhere")
    with world.memory() as memory:
        memory.search("nadia")
    assert all("INDEX_PATH" not in call["env"] for call in world.qmd.calls)
